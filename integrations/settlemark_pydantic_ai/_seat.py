"""Runs a call, and asks about it, when the engine comes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed

from settlemark import Gate, InDoubt
from settlemark.agents import Caller, not_taken, words
from settlemark.hosting import approve, edit, reject, to_its_end
from settlemark_pydantic_ai._places import Fate, Place, taken

DEFERRAL = (ApprovalRequired, CallDeferred)
"""The exceptions that defer a call."""


class TimedOut(TimeoutError):
    """A tool exceeded its time limit, and was left running: it may have acted, or may act yet.

    Attributes:
        error: the framework's error: the model is to try again.
    """

    def __init__(self, error: ModelRetry) -> None:
        super().__init__(error.message)
        self.error = error


class TimeLimits:
    """The calls of an agent's run that exceeded their time limits, and that nobody knows the outcome of."""

    def __init__(self) -> None:
        self._keys: set[object] = set()

    def answer(self, error: Exception, seat: Seat) -> ModelRetry | ToolFailed:
        """Return what the framework is to answer a call with, for what settlement has said of it.

        It counts as a retry, as with stock, where it is one of these calls, or an equal one in its place.
        """
        key, told = error.data.get("key") if isinstance(error, InDoubt) else None, words(error)
        if seat.timed_out is not None and key is not None:
            self._keys.add(key)
            told = f"{seat.timed_out} {'Whether it acted is not known.' if seat.may_repeat else told}"
        return (ModelRetry if seat.timed_out is not None or key in self._keys else ToolFailed)(told)


class Seat:
    """One call on its way to its tool.

    Args:
        place: its place in the turn.
        run: runs its tool, with its own arguments or given ones; None for a call that reaches no tool.
        approved: a person has said yes to it.
        signed: the metadata that came with the yes: its `by` and `roles` say who gave it, and as what.
        threaded: the tool runs in a thread, which no cancellation reaches.
        repeat: lets an equal call run in a later turn, when its tool has exceeded its time limit.

    Attributes:
        own: the exception by which it deferred itself, if it did; else it waits for another call.
        timed_out: what the framework tells the model when its tool has exceeded its time limit; None: it has not.
    """

    def __init__(
        self,
        place: Place,
        run: Callable[..., Awaitable[Any]] | None = None,
        *,
        approved: bool,
        threaded: bool = False,
        signed: object = None,
        repeat: Callable[[], None] | None = None,
    ) -> None:
        self.own: Exception | None = None
        self.timed_out: str | None = None
        self._repeat = None if threaded else repeat  # what runs in a thread may still act
        self._place = place
        self._tool = run
        self._threaded = threaded
        self._signed = _signature(signed)
        self._approved = approved
        self._caller = Caller()
        self._task = asyncio.current_task()

    @property
    def may_repeat(self) -> bool:
        """Whether an equal call may run in a later turn although nobody knows whether this one has acted."""
        return self.timed_out is not None and self._repeat is not None

    async def run(self) -> Any:
        """Run the tool as the model has issued it, or return the outside answer."""
        place = self._place
        return await self._run(() if place.edited is None else (self._taken(place.part.args_as_dict()),))

    async def _run(self, arguments: tuple[()] | tuple[Mapping[str, Any]]) -> Any:
        try:
            if self._tool is None:
                return _outcome(self._place)
            work = _awaited(partial(self._tool, *arguments))
            if asyncio.current_task() is not self._task:
                # Another call's task releases it: this one's context is passed along.
                work = self._caller.awaited(work)
            return await (to_its_end(work) if self._threaded else work)
        except DEFERRAL as control:
            self.own = control
            raise
        except ModelRetry as error:
            if isinstance(error.__context__, TimeoutError):
                self.timed_out = error.message
                if self._repeat is not None:
                    self._repeat()
                raise TimedOut(error) from error
            raise

    async def ask(self, gate: Gate) -> Any:
        """Return a person's answer, or defer the call; None if only somebody elsewhere has answered.

        Raises:
            ApprovalRequired, CallDeferred: nobody has been asked.
        """
        place = self._place
        if place.fate is Fate.DENIED:
            return reject(place.outcome.message)
        if place.fate is Fate.ANSWERED:
            return approve()
        if self._approved:
            return {**(approve() if place.edited is None else edit(place.edited)), **self._signed}
        if gate.answered:
            return None
        known = place.outcome if place.fate is Fate.WAITS else place.question
        waits: Exception = known or ApprovalRequired(metadata=gate.shown())
        self.own = waits
        raise waits

    def remake(self, arguments: Mapping[str, Any]) -> tuple[Callable[[], Any], Mapping[str, Any] | None]:
        """Return a function that runs the call with a person's arguments, and the arguments as its tool gets them.

        Arguments given to the framework are in the call already. Another process may have answered first.

        Raises:
            UsageError: the tool does not take them.
        """
        checked = self._place.checked
        if self._tool is None or (checked is not None and checked.part.args_as_dict() == arguments):
            return partial(self._run, ()), None if checked is None else checked.arguments
        given = self._taken(arguments)
        return partial(self._run, (given,)), given

    def _taken(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        place = self._place
        found = None if place.tool is None else taken(place.tool, replace(place.part, args=dict(arguments)))
        if found is None:
            raise not_taken(place.name, arguments)
        return found


def _outcome(place: Place) -> Any:
    """Return an outside answer for a call.

    Raises:
        Exception: the answer itself.
    """
    if place.fate is Fate.DENIED:
        raise ToolFailed(place.outcome.message)
    if isinstance(place.outcome, Exception):
        raise place.outcome
    return place.outcome


def _signature(metadata: object) -> dict[str, Any]:
    """Return who has answered, and as what, as far as the metadata of the answer say.

    >>> _signature({"by": "ada", "roles": ["finance"], "took": 3}), _signature(None)
    ({'by': 'ada', 'roles': ['finance']}, {})
    """
    given: Mapping[str, Any] = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
    return {name: given[name] for name in ("by", "roles") if given.get(name) is not None}


async def _awaited(run: Callable[[], Awaitable[Any]]) -> Any:
    return await run()


__all__ = ["DEFERRAL", "Seat", "TimeLimits", "TimedOut"]
