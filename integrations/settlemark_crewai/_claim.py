"""A call of a settled tool: where it has its place in a turn, and what it is answered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure

from settlemark import Outcome, Queued
from settlemark.agents import TOLD, AgentTurn, Call, Caller, Declarations, Work, words
from settlemark.hosting import Program, json_text, run_async, run_sync
from settlemark_crewai._results import Reported, checked, pack, unpack
from settlemark_crewai._tools import Mark, edited, given_to, same_but_defaults


class Claim:
    """One call that CrewAI is about to run, or has refused to.

    Args:
        mark: the tool's.
        name: by which models call it.
        tool: the tool as CrewAI has it; None where only its function is known.
        work: whose call it is.
        declarations: know what the tool does.
        turn: its turn; None when nobody knows what else the model has issued.
        place: its place there.
        asked: what CrewAI shows of its arguments; a hook that changes them changes this.
        waits: it is answered when its turn has settled.
        last: when it has succeeded CrewAI runs no later call of its turn.
        tells: what settlement refuses is an answer for a model; else it is raised.

    Attributes:
        came: its tool was run, or asked for.
        text: what the agent was told, when it was.
    """

    def __init__(
        self,
        mark: Mark,
        name: str,
        tool: BaseTool | None,
        work: Work,
        declarations: Declarations,
        *,
        turn: AgentTurn | None = None,
        place: int = 0,
        asked: Mapping[str, Any] | None = None,
        waits: bool = True,
        last: bool = False,
        tells: bool = True,
    ) -> None:
        self.mark = mark
        self.name = name
        self._tool = tool
        self._work = work
        self._declarations = declarations
        self._turn = turn
        self._place = place
        self._asked: Mapping[str, Any] = {} if asked is None else asked
        self._waits = waits
        self._last = last
        self._tells = tells
        self._ended: Callable[[], Any] | None = None
        self._queued: Queued | None = None
        self.came = False
        self.text: str | None = None

    def absent(self) -> None:
        """Say that CrewAI has answered it without running the tool."""
        if not self.came and self._turn is not None:
            self._turn.absent(self._place)

    def perform(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Run the tool in its turn, once, and return what the agent is told; asked again it says the same.

        Raises:
            Exception: the tool's own; of settlement, where it is nobody's answer.
        """
        if self._ended is None:
            self._ended = _ended(lambda: run_sync(self._program(function, arguments)))
        return self._ended()

    async def aperform(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Do the same for an async tool."""
        if self._ended is None:
            try:
                found = await run_async(self._program(function, arguments))
            except Exception as error:
                self._ended = partial(_raise, error)
            else:
                self._ended = lambda: found
        return self._ended()

    def _program(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Program[Any]:
        self.came = True
        turn, place, waits = self._turn, self._place, self._waits
        if turn is not None:
            planned = self._planned(turn.calls[place], arguments)
            if planned is None:
                # A hook has changed what the model asked for: what runs is another call.
                turn.absent(place)
                turn = None
            else:
                arguments = planned
        if turn is None:
            call = Call(self.name, dict(arguments), self._declarations.of(self.name), given=dict(arguments))
            turn, place, waits = self._work.single(call), 0, True
        elif self._last:
            for later in range(place + 1, len(turn.calls)):
                turn.absent(later)
        run = partial(acting, function)
        try:
            found = yield from turn.perform(
                place,
                run(arguments),
                pack=pack,
                unpack=partial(unpack, tool=self._tool),
                waits=waits,
                remake=partial(self._remade, run),
            )
        except Reported as reported:
            return reported.failure
        except TOLD as error:
            if not self._tells:
                raise
            # Not raised: CrewAI runs a tool that raised again.
            return ToolFailure(message=words(error))
        if isinstance(found, Queued):
            self._queued = found
            return str(found)
        return found

    def _planned(self, call: Call, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what the tool gets of a call in a turn, or None: these arguments are not what the model asked for."""
        given = call.arguments if call.given is None else call.given
        if given == arguments:
            return arguments
        if self._asked != call.arguments or not same_but_defaults(call.arguments, given, arguments):
            return None
        # CrewAI has drawn a default again. Its scopes, its undo and the question to a person have the first one.
        return {name: value if value == given[name] else given[name] for name, value in arguments.items()}

    def answered_since(self) -> str | None:
        """Return what the agent would have been told had the call not been answered before it was made, or None."""
        queued, self._queued = self._queued, None
        if queued is None or queued.outcome != Outcome.CONFIRMED:
            self._queued = queued
            return None
        result = queued.result()
        return str(result) if self._tool is None else self._tool.format_output_for_agent(result)

    def _remade(
        self, run: Callable[[Mapping[str, Any]], Callable[[], Any]], arguments: Mapping[str, Any]
    ) -> tuple[Callable[[], Any], Mapping[str, Any]]:
        given = dict(arguments) if self._tool is None else edited(self._tool, arguments)
        return run(given), given


claimed: ContextVar[Claim | None] = ContextVar("settlemark_crewai_claim", default=None)
"""The call that CrewAI is running in this context."""


def claim_of(mark: Mark) -> Claim | None:
    """Return the call that a settled tool is being run for, or None: somebody calls it outside of an agent's turn."""
    found = claimed.get()
    return found if found is not None and found.mark is mark else None


def call_of(
    name: str, tool: BaseTool, arguments: Mapping[str, Any], call_id: str | None, declarations: Declarations
) -> Call | None:
    """Return a call of a settled tool, or None: the tool cannot take these arguments, and CrewAI will say so."""
    with suppress(Exception):
        return Call(name, dict(arguments), declarations.of(name), call_id, given_to(tool, arguments))
    return None


def acting(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """Return what runs a tool in the context of this call, whoever runs it."""
    context = copy_context()
    context.run(claimed.set, None)  # what the tool calls in its turn is no call of this turn
    caller = Caller(context)
    arguments = json_text.snapshot(dict(arguments))

    async def awaited(work: Any) -> Any:
        return checked(await caller.awaited(work))

    if inspect.iscoroutinefunction(function):

        async def act() -> Any:
            return await awaited(function(**json_text.snapshot(arguments)))

        return act

    def run() -> Any:
        result = caller.run(partial(function, **json_text.snapshot(arguments)))
        return awaited(result) if inspect.isawaitable(result) else checked(result)

    return run


def _ended(run: Callable[[], Any]) -> Callable[[], Any]:
    try:
        found = run()
    except Exception as error:
        return partial(_raise, error)
    return lambda: found


def _raise(error: Exception) -> Any:
    raise error


__all__ = ["Claim", "acting", "call_of", "claim_of", "claimed"]
