"""A call of a settled tool: its place in a turn, and its answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure

from settlemark import Declaration, Outcome, Queued, Refused
from settlemark.agents import TOLD, AgentTurn, Call, Caller, Work, words
from settlemark.hosting import Program, json_text, run_async, run_sync
from settlemark_crewai._human import console_of
from settlemark_crewai._results import Reported, checked, pack, unpack
from settlemark_crewai._tools import Mark, edited, given_to, same_but_defaults, takes


class Claim:
    """One call that CrewAI is about to run, or has refused to.

    Args:
        mark: the tool's.
        name: the tool's name for models.
        tool: the tool as CrewAI has it; None where only its function is known.
        work: the work that the call belongs to.
        declares: returns what the tool does.
        turn: its turn; None when the model's other calls are unknown.
        place: its place there.
        asked: CrewAI's view of its arguments, which a hook may change.
        waits: it is answered when its turn has settled.
        last: when it has succeeded CrewAI runs no later call of its turn.
        tells: a refusal by settlement is an answer for a model; else it is raised.
        once: a program has made it: an equal one of its job is the same act.

    Attributes:
        came: its tool was run, or asked for.
        raises: the first failure that CrewAI is told of ends the agent's task.
        text: the agent's answer, once given.
        refuse: raises where it is not to act without a turn.
    """

    def __init__(
        self,
        mark: Mark,
        name: str,
        tool: BaseTool | None,
        work: Work,
        declares: Callable[[], Declaration],
        *,
        turn: AgentTurn | None = None,
        place: int = 0,
        asked: Mapping[str, Any] | None = None,
        waits: bool = True,
        last: bool = False,
        tells: bool = True,
        once: bool = False,
    ) -> None:
        self.mark = mark
        self.name = name
        self._tool = tool
        self._work = work
        self._declares = declares
        self._turn = turn
        self._place = place
        self._asked: Mapping[str, Any] = {} if asked is None else asked
        self._waits = waits
        self._last = last
        self._tells = tells
        self._once = once
        self._ended: Callable[[], Any] | None = None
        self._queued: Queued | None = None
        self.came = self.raises = False
        self.text: str | None = None
        self.refuse: Callable[[], object] | None = None

    def over(self, arguments: Mapping[str, Any]) -> None:
        """Record that CrewAI is done with it; where the tool cannot take these arguments its turn has failed."""
        if self.came or self._turn is None:
            return
        if self._tool is None or takes(self._tool, arguments):
            self._turn.absent(self._place)  # a hook has stopped it, or its tool's limit
            return
        with suppress(Refused):  # it comes late: its turn has gone on
            run_sync(self._turn.turn_down(self._place, "its tool does not take its arguments", waits=self._waits))

    def perform(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Run the tool in its turn, once, and return the agent's answer; the same when repeated.

        Raises:
            Exception: the tool's own; or settlement's, where there is no agent to answer.
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
        rewritten: Call | None = None
        if turn is not None:
            planned = self._planned(turn.calls[place], arguments)
            if planned is None:
                rewritten = self._rewritten(turn.calls[place], arguments)
            else:
                arguments = planned
        if turn is None:
            call = Call(self.name, dict(arguments), self._declares(), given=dict(arguments))
            turn, place, waits = self._work.single(call, once=self._once), 0, True
        elif self._last:
            for later in range(place + 1, len(turn.calls)):
                turn.absent(later)
        run = partial(acting, function)
        try:
            if self.refuse is not None and turn.calls[place].acts:
                self.refuse()
            found = yield from turn.perform(
                place,
                run(arguments),
                pack=pack,
                unpack=partial(unpack, tool=self._tool),
                waits=waits,
                remake=partial(self._remade, run),
                rewritten=rewritten,
                ask=console_of(self._work.run.settlement),
            )
        except Reported as reported:
            return reported.failure
        except TOLD as error:
            if not self._tells:
                raise
            # Not raised: CrewAI runs a tool that raised again.
            return words(error) if self._names_another(turn, place) else ToolFailure(message=words(error))
        if isinstance(found, Queued):
            self._queued = found
            return str(found)
        return found

    def _names_another(self, turn: AgentTurn, place: int) -> bool:
        """Whether the failure that ends the agent's task is to be another call's, which caused this one's."""
        return self.raises and self._waits and turn.failed_by() not in (None, place)

    def _planned(self, call: Call, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the arguments the tool gets for a call in a turn, or None: they are not the model's."""
        given = call.arguments if call.given is None else call.given
        if given == arguments:
            return arguments
        if self._asked != call.arguments or not same_but_defaults(call.arguments, given, arguments):
            return None
        # CrewAI has computed a default again. Its scopes, its undo and the question to a person use the first one.
        return {name: value if value == given[name] else given[name] for name, value in arguments.items()}

    def _rewritten(self, call: Call, arguments: Mapping[str, Any]) -> Call:
        """Return a call as it will run, when a hook has given it other arguments than its model."""
        asked = arguments if self._asked == call.arguments else self._asked
        return replace(call, arguments=json_text.snapshot(dict(asked)), given=dict(arguments), untaken=False)

    def answered_since(self) -> str | None:
        """Return the agent's answer for a call that was answered before it was made, or None if it was not."""
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
    """Return the call that a settled tool is being run for, or None: it is called outside of an agent's turn."""
    found = claimed.get()
    return found if found is not None and found.mark is mark else None


def call_of(
    name: str, tool: BaseTool, arguments: Mapping[str, Any], call_id: str | None, declaration: Declaration
) -> Call:
    """Return a call of a settled tool, also where that cannot take these arguments: a hook may give it others."""
    call = Call(name, dict(arguments), declaration, call_id)
    return replace(call, given=given_to(tool, arguments)) if takes(tool, arguments) else replace(call, untaken=True)


def acting(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """Return a function that runs the tool in the context of this call, from any thread."""
    context = copy_context()
    context.run(claimed.set, None)  # calls that the tool itself makes are no calls of this turn
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
