"""An AutoGen workbench whose calls settle: the gate that every call of an agent comes through."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, Self, cast

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, ToolResult, ToolSchema, Workbench
from autogen_core.tools._static_workbench import StaticWorkbenchConfig

from settlemark import Gate, Settlement
from settlemark.agents import AgentRun, Declared, Unsettled, refuse_bad_options
from settlemark.hosting import Approver, Order, Park
from settlemark_autogen._calling import Calling
from settlemark_autogen._calls import Calls, finished
from settlemark_autogen._config import WorkbenchConfig, plain_effects, settlement_of_process
from settlemark_autogen._offered import Offered
from settlemark_autogen._wrapped import WrappedWorkbench

_OVER = object()
_RUN = "settlemark_run"


class SettledWorkbench(WrappedWorkbench):
    """The tools of an agent, or its workbench, with the effects of their calls settled.

    `AssistantAgent(…, workbench=SettledWorkbench(tools, settlement, run="trip-42"))`. With the agent's model client in
    a `SettledChatCompletionClient` the calls of a turn are one transaction: effects act in the order in which the model
    issued them, what is irreversible leaves when all calls have succeeded, and the first failure stops the later calls
    and undoes the earlier ones. Alone it does not know which calls were issued together: each settles by itself, in the
    order in which the calls come (AutoGen's agents start them in issuance order), and none is repeated.

    Loaded from a configuration it settles with the process's own `Settlement()`, at `$SETTLEMARK_URL`.

    It never raises from a call, for an agent whose workbench does hangs: a refusal is a `ToolResult` that says so.

    Args:
        tools: functions and tools, as `AssistantAgent(tools=…)` takes them, or any `Workbench`.
        settlement: settles them.
        run: your id for the job. The same id in another process is the same job begun again: what was decided is not
            done twice. `save_state` has it, too. An `AgentRun`, where one agent has several workbenches.
        agent: who uses it. In a team that is known; agents outside of one that share a run need names.
        effects: what the tools of others do: `{"search": "read"}`,
            `{"send_mail": {"kind": "irreversible", "scope": "mail:/{to}"}}` or a `Declaration`.
        order: `"turn"` keeps the order of effects that run at once, and what is held leaves last; `"scopes"` that of
            effects on overlapping scopes; `"issued"` that of all, also behind what cannot be undone.
        park: what becomes of a turn that waits for a person's yes: it is kept as it is, or split.
        may_touch: scopes that each turn holds before its first call runs.
        approver: asked for a person's yes where a tool is declared with `approve=`; the settlement's by default. With
            `"handoff"` the agent is told to hand off: its turn is put aside, `questions` has what is asked, and when
            that has been given to `answer`, or elsewhere (`settlement.approve`, `settlemark approve`), the agent's next
            request goes on with the turn.
        unsettled: what becomes of calls that act where the agent's client is no `SettledChatCompletionClient`, so that
            each would settle by itself: the model is told that they are refused (`"refuse"`), or they run, with a
            warning (`"warn"`) or without (`"allow"`).

    Raises:
        UsageError: `settlement` is no `Settlement`, or an option is none. DeclarationError: `effects` contradicts
            itself. TypeError: `tools` are none.

    >>> def search(query: str) -> str:
    ...     "Search the web."
    ...     return f"about {query}"
    >>> workbench = SettledWorkbench([search], Settlement("memory:"), run="trip-42", effects={"search": "read"})
    >>> asyncio.run(workbench.call_tool("search", {"query": "hotels"})).to_text()
    'about hotels'
    """

    component_provider_override = "settlemark_autogen.SettledWorkbench"
    component_config_schema = WorkbenchConfig  # type: ignore[assignment] # mypy does not let a type be narrowed

    def __init__(
        self,
        tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]],
        settlement: Settlement,
        *,
        run: str | AgentRun | None = None,
        agent: str | None = None,
        effects: Mapping[str, Declared] | None = None,
        order: Order = "turn",
        park: Park = "keep",
        may_touch: str | Sequence[str] = (),
        approver: Approver | Literal["handoff"] | None = None,
        unsettled: Unsettled = "refuse",
    ) -> None:
        name = run.name if isinstance(run, AgentRun) else run
        refuse_bad_options(settlement, settle="turn", order=order, park=park, run=name)
        super().__init__(tools)
        self.settlement = settlement
        scopes = [may_touch] if isinstance(may_touch, str) else [*may_touch]
        self._options: dict[str, Any] = {"order": order, "park": park, "may_touch": scopes}
        self._agent, self._effects, self._approver = agent, effects, approver
        self._calls = Calls(
            self.inner,
            settlement,
            run,
            agent=agent,
            effects=effects,
            approver=approver,
            unsettled=unsettled,
            options=self._options,
        )
        self._unsettled: Unsettled = unsettled
        self._listed: list[ToolSchema] = []

    @property
    def run(self) -> str:
        """The id of the calls' job."""
        return self._calls.job.name

    @property
    def questions(self) -> list[Gate]:
        """The calls that wait for a person's yes, if handed off, oldest first; each has the `key` to answer with."""
        return self._calls.desk.questions

    def answer(self, key: str, answer: Any) -> None:
        """Answer a question: `approve()`, `reject(…)` or `edit(…)`; also one from a process that has ended.

        Raises:
            UsageError: the answer is invalid, and the question stands; or there is no such question (any more).
        """
        self._calls.desk.answer(key, answer)

    # ---- AutoGen's workbench interface

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Run a call in its place of the turn, and answer it when the turn has settled."""
        calling = Calling(self.inner, name, arguments or {}, cancellation_token, call_id, None)
        return await finished(self._calls.started(calling), name)

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any | ToolResult, None]:
        """Do as `call_tool`, and pass on what the tool streams before its result."""
        events = asyncio.Queue[Any]()
        calling = Calling(self.inner, name, arguments or {}, cancellation_token, call_id, events.put_nowait)
        job = self._calls.started(calling)
        job.add_done_callback(lambda _: events.put_nowait(_OVER))
        try:
            while (event := await events.get()) is not _OVER:
                yield event
        except asyncio.CancelledError:
            job.cancel()
        except GeneratorExit:
            job.cancel()
            raise
        yield await finished(job, name)

    async def list_tools(self) -> list[ToolSchema]:
        """Return the available tools; while the calls of a turn come, those that its model was offered."""
        if not (self._listed and self._calls.are_coming):
            found = await self.inner.list_tools()
            self._calls.learn(found)
            self._listed = [cast("ToolSchema", Offered(schema, self._calls)) for schema in found]
        return self._listed

    async def save_state(self) -> Mapping[str, Any]:
        """Return the wrapped workbench's state, with the job's id. AutoGen's agents do not ask for it: keep both."""
        return {**await super().save_state(), _RUN: self.run}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Load such a state: the calls that follow belong to its job, begun again here."""
        if _RUN in state:
            self._calls.go_on_with(state[_RUN])
        await super().load_state({name: value for name, value in state.items() if name != _RUN})

    def _to_config(self) -> WorkbenchConfig:
        if self._approver not in (None, "handoff"):
            raise NotImplementedError(
                "approver= has no configuration: give it to the settlement, Settlement(approver=…)"
            )
        return WorkbenchConfig(
            workbench=self.inner.dump_component(),
            run=self._calls.run,
            agent=self._agent,
            effects=plain_effects(self._effects),
            approver=cast("str | None", self._approver),
            unsettled=self._unsettled,
            **self._options,
        )

    @classmethod
    def _from_config(cls, config: StaticWorkbenchConfig) -> Self:
        assert isinstance(config, WorkbenchConfig), "its schema is"
        given: dict[str, Any] = config.model_dump(exclude={"workbench", "tools", "tool_overrides"})
        return cls(Workbench.load_component(config.workbench), settlement_of_process(), **given)


__all__ = ["SettledWorkbench"]
