"""A chat completion client that sees which calls a model issued together, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, cast

from autogen_core import CancellationToken, Component, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from settlemark import Declaration, EffectClass, Settlement, UsageError
from settlemark.agents import (
    AgentRun,
    Call,
    Declarations,
    Declared,
    Primers,
    Unsettled,
    keep_answered,
    refuse_bad_options,
    refuse_bad_primer,
)
from settlemark.hosting import run_async
from settlemark_autogen._alone import Alone, Ask, handed
from settlemark_autogen._calls import Calls
from settlemark_autogen._config import ClientConfig, plain_effects, settlement_of_process
from settlemark_autogen._identity import acting_agent
from settlemark_autogen._issued import NO_SUCH_TOOL, UNREADABLE, Issued, issued_here
from settlemark_autogen._messages import NO_JSON, answered_in, arguments_of, said_in
from settlemark_autogen._offered import owners
from settlemark_autogen._priming import primed
from settlemark_autogen._private import NAMES
from settlemark_autogen._wrapped import WrappedClient

Choice = Tool | Literal["auto", "required", "none"]


class SettledChatCompletionClient(WrappedClient, Component[ClientConfig]):
    """A model client that has the calls of a turn settled together, in the order in which the model issued them.

    With a `SettledWorkbench` among the agent's tools, which is the gate, it opens a transaction for each answer with
    calls. Calls that never reach the gate (unknown tools, arguments that are no JSON, handoffs, other workbenches) are
    no part of it. The turn is settled when the agent has the answers to its calls, whether or not it asks again.

    Alone it cannot keep a tool from running once its agent knows the call. So it hands the calls of a turn to the agent
    one at a time, each in its turn; irreversible ones when all others have succeeded. It learns a call's outcome from
    the agent's next request, so the agent has to come back: `max_tool_iterations` must be at least the number of calls
    of a turn. When the agent asks for something else first (with `tool_choice="none"`, to reflect, or with a new
    message) the rest of the turn is not run, and its effects so far are undone. It sees no `@effect` on the agent's
    functions: declare them in `effects=`.

    All other attributes are the wrapped client's. Loaded from a configuration it settles with the process's own
    `Settlement()`, at `$SETTLEMARK_URL`.

    Args:
        client: any chat completion client.
        settlement: settles the turns; with a `SettledWorkbench`, the same one.
        run: your id for the job, where no `SettledWorkbench` has it.
        agent: the agent's name; as for `SettledWorkbench`.
        effects: what tools do, where no `SettledWorkbench` says it.
        unsettled: what becomes of an answer with calls that act where the agent has no `SettledWorkbench`, and they
            would have to be handed out one at a time: it is refused (`"refuse"`), before anything runs, or they are
            handed out, with a warning (`"warn"`) or without (`"allow"`).
        primer: whether the model is told, behind the agent's system message, what the record says of a job that was
            begun before: see `Settlement.primer`.

    Raises:
        UsageError: `settlement` is no `Settlement`, or `run` is no id.
    """

    component_type = "model"
    component_provider_override = "settlemark_autogen.SettledChatCompletionClient"
    component_config_schema = ClientConfig

    def __init__(
        self,
        client: ChatCompletionClient,
        settlement: Settlement,
        *,
        run: str | None = None,
        agent: str | None = None,
        effects: Mapping[str, Declared] | None = None,
        unsettled: Unsettled = "refuse",
        primer: bool = False,
    ) -> None:
        refuse_bad_options(settlement, settle="turn", order="turn", park="keep", run=run)
        refuse_bad_primer(primer)
        NAMES.refuse_without(settlement, unsettled)
        super().__init__(client)
        self.settlement = settlement
        self._run = run
        self._agent = agent
        self._effects = effects
        declarations = Declarations(
            settlement, effects, example='SettledChatCompletionClient(…, effects={{"{name}": "read"}})'
        )
        self._alone = Alone(lambda: AgentRun(settlement, run), declarations, unsettled, agent)
        self._unsettled: Unsettled = unsettled
        self._primer = primer
        self._primers = None if run is None else Primers(settlement, run)

    # ---- a model's answer

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Choice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Ask the model, and open a turn for the calls it issues."""
        how: dict[str, Any] = {
            "tools": tools,
            "tool_choice": tool_choice,
            "json_output": json_output,
            "extra_create_args": extra_create_args or {},
            "cancellation_token": cancellation_token,
        }

        async def ask(told: Sequence[LLMMessage]) -> AsyncGenerator[str | CreateResult, None]:
            yield await self.client.create(told, **how)

        async for answer in self._answers(ask, messages, tools, tool_choice):
            if isinstance(answer, CreateResult):
                return answer
        raise AssertionError

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: Choice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Ask the model, pass on its stream, and open a turn for the calls it issues."""
        how: dict[str, Any] = {
            "tools": tools,
            "tool_choice": tool_choice,
            "json_output": json_output,
            "extra_create_args": extra_create_args or {},
            "cancellation_token": cancellation_token,
        }

        def ask(told: Sequence[LLMMessage]) -> AsyncGenerator[str | CreateResult, None]:
            return self.client.create_stream(told, **how)

        async for answer in self._answers(ask, messages, tools, tool_choice):
            yield answer

    async def _answers(
        self, ask: Ask, messages: Sequence[LLMMessage], tools: Sequence[Tool | ToolSchema], choice: Choice
    ) -> AsyncGenerator[str | CreateResult, None]:
        owned = owners(tools)
        ours = {id(calls): calls for calls in owned.values() if calls is not None}
        self._refuse_strangers(ours.values())
        keep_answered(self.settlement, answered_in(messages))
        for calls in ours.values():
            calls.refuse_to_ask_within()
        if self._primer:
            ask = primed(ask, await self._told(ours.values()))
        if not ours and (owned or self._alone.has_any):
            async for answer in self._alone.answers(ask, messages, tools, choice, acting_agent(self._agent)):
                yield answer
            return
        for calls in ours.values() if choice != "none" else ():
            put_aside = await calls.answered(messages)
            if put_aside:
                calls.work().begin()  # so that its turn is found on record, and continued
                answer = handed(put_aside)
                self._open(answer, owned, messages)
                yield answer
                return
        async for answer in ask(messages):
            if isinstance(answer, CreateResult) and not isinstance(answer.content, str):
                self._open(answer, owned, messages)
            yield answer

    async def _told(self, ours: Iterable[Calls]) -> str | None:
        """Return what the model is told of the job; None: nothing, since it is new, or has no id of the user's."""
        job = next((calls.job for calls in ours), None)
        primers = self._primers if job is None else job.primers if job.resumable else None
        return None if primers is None else await run_async(primers.text(acting_agent(self._agent), 0))

    def _open(self, answer: CreateResult, owned: Mapping[str, Calls | None], messages: Sequence[LLMMessage]) -> None:
        """Open a turn for the calls that will come to a settled workbench, and leave it in this context."""
        issued = cast("list[FunctionCall]", answer.content)
        settling = [ours for call in issued if (ours := owned.get(call.name)) is not None]
        if not settling:
            return
        first = settling[0]
        calls = [_call_of(call, owned.get(call.name)) for call in issued if owned.get(call.name, first) is not None]
        said = said_in(answer, owned, self.client)
        turn = first.work().turn(calls, because=said, answered=answered_in(messages))
        coming = Issued(first.job, turn, asyncio.current_task())
        for ours in {id(ours): ours for ours in settling}.values():
            ours.expect(coming)
        issued_here.set(coming)

    def _refuse_strangers(self, ours: Iterable[Calls]) -> None:
        """Check that all workbenches of an agent settle the same job as this client.

        Raises:
            UsageError: they do not; the model was not asked.
        """
        jobs = {id(calls.job): calls for calls in ours}
        if any(calls.settlement is not self.settlement for calls in jobs.values()):
            raise UsageError(
                "this client and the agent's SettledWorkbench have different settlements: give both the same one; the"
                " model was not asked"
            )
        if len(jobs) > 1:
            raise UsageError(
                f"the agent's workbenches belong to {len(jobs)} jobs, so their calls cannot settle together: make one"
                " job = AgentRun(settlement, run) and give each run=job; the model was not asked"
            )

    async def close(self) -> None:
        """Close the wrapped client, and abandon calls handed out and not answered."""
        await self._alone.close()
        await super().close()

    def _to_config(self) -> ClientConfig:
        return ClientConfig(
            client=self.client.dump_component(),
            run=self._run,
            agent=self._agent,
            effects=plain_effects(self._effects),
            unsettled=self._unsettled,
            primer=self._primer,
        )

    @classmethod
    def _from_config(cls, config: ClientConfig) -> Self:
        given: dict[str, Any] = config.model_dump(exclude={"client"})
        return cls(ChatCompletionClient.load_component(config.client), settlement_of_process(), **given)


def _call_of(call: FunctionCall, ours: Calls | None) -> Call:
    """Return a call as the workbench that has its tool settles it, or as one of which nothing runs."""
    arguments = arguments_of(call)
    if ours is not None and arguments is not NO_JSON:
        return ours.call(call.name, arguments or {}, call.id)
    why = NO_SUCH_TOOL if ours is None else UNREADABLE
    return Call(call.name, {}, Declaration(call.name, EffectClass.READ), call.id, refused=why)


__all__ = ["SettledChatCompletionClient"]
