"""The calls of one workbench, each settled in its place of the turn that it belongs to."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

from autogen_core import FunctionCall
from autogen_core.models import LLMMessage
from autogen_core.tools import ToolResult, ToolSchema, Workbench

from settlemark import Declaration, EffectClass, Settlement, UsageError, current_call
from settlemark.agents import (
    AgentRun,
    AgentTurn,
    Call,
    Declarations,
    Declared,
    Learned,
    Unsettled,
    Work,
    cannot_keep,
    not_taken,
    open_questions,
)
from settlemark.hosting import Approver, host_of, run_async
from settlemark_autogen._asking import Desk, Waits
from settlemark_autogen._calling import Calling
from settlemark_autogen._identity import acting_agent, own_name
from settlemark_autogen._issued import Issued, is_as_issued, issued_here
from settlemark_autogen._private import NAMES
from settlemark_autogen._results import text_result
from settlemark_autogen._tools import as_given, function_of, names_of, tools_of


class Calls:
    """Settles the calls of a workbench.

    Args:
        workbench: has the tools.
        settlement: settles them.
        run, agent, effects, approver, unsettled: as for `SettledWorkbench`.
        options: of the job.

    Raises:
        UsageError: a parked call could not be found again.
        DeclarationError: `effects` contradicts itself.
    """

    def __init__(
        self,
        workbench: Workbench,
        settlement: Settlement,
        run: str | AgentRun | None,
        *,
        agent: str | None,
        effects: Mapping[str, Declared] | None,
        approver: Approver | Literal["handoff"] | None,
        unsettled: Unsettled,
        options: Mapping[str, Any],
    ) -> None:
        NAMES.refuse_without(settlement, unsettled)
        self._unsettled: Unsettled = unsettled
        self.workbench = workbench
        self.settlement = settlement
        self.desk = Desk(lambda keys: open_questions(settlement, self.job.name, keys))
        self._ask = self.desk if approver == "handoff" else approver
        self._agent = agent
        self._options = options
        self._run = run
        if self._ask is self.desk:
            _refuse_to_put_aside(run)
        static = tools_of(workbench)
        self._declarations = Declarations(
            settlement,
            effects,
            names=static or None,
            owner="this workbench",
            example='SettledWorkbench(…, effects={{"{name}": "read"}})',
        )
        self._arguments: dict[str, list[str]] = {}
        self._learned: dict[str, Learned] = {}
        self._expected: list[Issued] = []
        self._has_client = False
        self.learn([tool.schema for tool in static.values()])

    @property
    def run(self) -> str | None:
        """The caller's id for the job, if there is one."""
        return self._run.name if isinstance(self._run, AgentRun) else self._run

    @property
    def job(self) -> AgentRun:
        """The job of the calls."""
        if not isinstance(self._run, AgentRun):
            together = self._ask is self.desk  # it has all questions of a turn, each with a key of its own
            self._run = AgentRun(
                self.settlement, self._run, let_through=(Waits,), asks_together=together, **self._options
            )
        self._run.asks = self._run.asks or self._ask is not None
        return self._run

    def go_on_with(self, run: str) -> None:
        """Continue with another job, which was begun again here."""
        self._run = run

    def work(self) -> Work:
        """Return the work of the agent that acts here."""
        return self.job.work(acting_agent(self._agent), agent=own_name(self._agent))

    async def answered(self, messages: Sequence[LLMMessage]) -> list[FunctionCall]:
        """Return the calls of this agent's latest parked turn that a person has answered."""
        if self._ask is not self.desk:
            return []
        return await self.desk.answered(messages, self.job.name, acting_agent(self._agent))

    def refuse_to_ask_within(self) -> None:
        """Return when no question is to be handed off from within the call of another agent.

        That agent would take the handing off for the call's answer, settle, and lose what waits.

        Raises:
            UsageError: one is; nothing was run.
        """
        if self._ask is not self.desk or current_call() is None:
            return
        may_ask, said_of = host_of(self.settlement).may_ask, self._declarations.said_of
        opaque = EffectClass.OPAQUE
        gated = [name for name, tool in self._learned.items() if may_ask(said_of(tool) or Declaration(name, opaque))]
        if gated:
            raise UsageError(
                f'{", ".join(gated)} needs a person\'s yes, and approver="handoff" cannot ask for it here, in an agent'
                " that another agent's tool runs: nothing was run. Give Settlement(approver=function), which is asked"
                " at once, or make it a participant of a team, which can hand off"
            )

    def _refuse_alone(self, turn: AgentTurn) -> None:
        try:
            if turn.calls[0].acts and not self._has_client:
                cannot_keep(
                    self.settlement,
                    "no client",
                    "this workbench has no SettledChatCompletionClient beside it, so nobody says which calls its model"
                    " issued together: each settles by itself, a later one's failure undoes nothing, and what is"
                    " irreversible leaves at once; AssistantAgent(…, SettledChatCompletionClient(client, settlement),"
                    " …)",
                    self._unsettled,
                )
            self.refuse_to_ask_within()
        except UsageError:
            turn.absent(0)
            raise

    def learn(self, schemas: Sequence[ToolSchema]) -> None:
        """Record the available tools."""
        tools = tools_of(self.workbench)
        self._arguments = names_of(cast("Sequence[Mapping[str, Any]]", schemas))
        for name, arguments in self._arguments.items():
            tool = tools.get(name)
            self._learned[name] = self._declarations.learn(
                name, function_of(tool), declared_on=(tool, type(tool)), arguments=arguments
            )

    def call(self, name: str, arguments: Any, call_id: str | None) -> Call:
        """Return a call as it is settled; another workbench may complete arguments that its tool does not take."""
        named = cast("Mapping[str, Any]", arguments) if isinstance(arguments, Mapping) else {}
        try:
            given = as_given(tools_of(self.workbench).get(name), arguments)
        except ValueError:
            return Call(name, named, self._declarations.of(name), call_id, untaken=True)
        return Call(name, named, self._declarations.of(name), call_id, given)

    def expect(self, issued: Issued) -> None:
        """Record a turn whose calls are to come."""
        self._has_client = True
        self._expected = [turn for turn in self._expected if not turn.is_over]
        self._expected.append(issued)

    @property
    def are_coming(self) -> bool:
        """Whether this task belongs to a call of an incomplete turn."""
        here = issued_here.get()
        return here is not None and here.job is self.job and not here.is_over

    # ---- one call

    def started(self, calling: Calling) -> asyncio.Task[ToolResult]:
        """Begin a call in a task of its own; cancelling the token cancels the task wherever it waits."""
        turn, place, issued = self._seat(calling)
        job = asyncio.create_task(self._settled(calling, turn, place))
        job.add_done_callback(lambda job: turn.absent(place) if job.cancelled() else None)  # cancelled before it began
        if calling.token is not None:
            calling.token.link_future(job)
        if issued is not None:
            issued.watch(job)
        return job

    def _seat(self, calling: Calling) -> tuple[AgentTurn, int, Issued | None]:
        """Return a call's turn and its place there; an unannounced call has a turn of its own."""
        here = issued_here.get()
        for issued in (*([here] if here is not None and here.job is self.job else []), *self._expected):
            place = issued.take(calling.name, calling.arguments, calling.call_id)
            if place is not None:
                return issued.turn, place, issued
        call = self.call(calling.name, calling.arguments, calling.call_id)
        return self.work().single(call), 0, None

    async def _settled(self, calling: Calling, turn: AgentTurn, place: int) -> ToolResult:
        issued = turn.calls[place]
        rewritten = None
        if not is_as_issued(issued, calling.arguments):
            rewritten = self.call(calling.name, calling.arguments, issued.call_id)
        if (rewritten or issued).untaken:  # it has no effect, and fails in its tool's words
            rewritten = replace(rewritten or issued, declaration=Declaration(calling.name, EffectClass.READ))
        program = turn.perform(
            place,
            calling.run,
            pack=calling.pack,
            unpack=calling.unpack,
            ask=self._ask,
            remake=partial(self._remade, calling),
            rewritten=rewritten,
        )
        try:
            if turn.alone:
                self._refuse_alone(turn)
            return calling.told(await run_async(program))
        except Exception as error:
            return calling.refused(error)

    def _remade(
        self, calling: Calling, arguments: Mapping[str, Any]
    ) -> tuple[Callable[[], Any], Mapping[str, Any] | None]:
        """Return a function that runs a call with other arguments, and the arguments as its tool gets them.

        Raises:
            UsageError: it does not take them.
        """
        allowed = self._arguments.get(calling.name, [])
        unknown = sorted(arguments.keys() - set(allowed)) if allowed else []
        try:
            given = as_given(tools_of(self.workbench).get(calling.name), arguments)
        except ValueError as error:
            raise not_taken(calling.name, arguments, str(error)) from error
        if unknown:
            raise not_taken(calling.name, arguments, f"it has no {', '.join(map(repr, unknown))}")
        return calling.with_arguments(arguments).run, given


async def finished(job: asyncio.Task[ToolResult], name: str) -> ToolResult:
    """Return a call's answer; if the caller is cancelled, the call is cancelled too, and the exception says so."""
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError:
            job.cancel()
    return _cancelled(name) if job.cancelled() else job.result()


def _cancelled(name: str) -> ToolResult:
    return text_result(
        name,
        f"{name} was cancelled: what had happened of its turn was undone, or is on record (settlement.residue())",
        is_error=True,
    )


def _refuse_to_put_aside(run: str | AgentRun | None) -> None:
    if run is None or (isinstance(run, AgentRun) and Waits not in run.let_through):
        raise UsageError(
            'approver="handoff" needs run=, your id for the job: what is put aside could not be found again without'
        )


__all__ = ["Calls", "finished"]
