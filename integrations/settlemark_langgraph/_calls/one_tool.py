"""Tools that settle by themselves: for supervisors, agents and loops that run their tools in nodes of their own."""

# The stock classes leave the type parameters of `ToolRuntime` open.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.runtime import get_runtime

from settlemark import Settlement, UsageError
from settlemark.agents import Declarations, Opened
from settlemark.hosting import OfSettlement, Program, kind_of
from settlemark_langgraph._calls.one_call import asettle, settle
from settlemark_langgraph._calls.settled_tool import SettledTool
from settlemark_langgraph._messages.messages import calls_in, content_of, messages_in
from settlemark_langgraph._supersteps.superstep import Superstep
from settlemark_langgraph._tools.arguments import models_part
from settlemark_langgraph._tools.declarations import Declared
from settlemark_langgraph._tools.standing_in import real_tool, stand_in
from settlemark_langgraph._turns.opening import Opener, Options
from settlemark_langgraph._turns.seated import Arrival, SeatedCall
from settlemark_langgraph._turns.turns import Turns
from settlemark_langgraph._turns.visit import Visit


@dataclass(slots=True, weakref_slot=True)
class _Runtime:
    """What LangGraph tells a tool, where the tool does not ask for it."""

    config: RunnableConfig
    execution_info: Any
    _settlemark_seat: SeatedCall | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """A call as it came to a tool.

    Attributes:
        issued: the model's, as far as it can be found.
        call: the same with what was injected.
        siblings: how many calls the model issued in that turn.
        sent: the call is a task of its own.
        is_call: somebody gave the tool a call, and gets a message; else arguments, and gets what the tool returns.
    """

    issued: ToolCall
    call: dict[str, Any]
    config: RunnableConfig
    runtime: Any
    state: Any
    siblings: int
    sent: bool
    is_call: bool


class Alone:
    """Settles the calls of tools that are run by nodes, or by code, that know nothing of settlement.

    Args:
        opener: opens their turns.
        turns: finds their turns, where each call of a turn is a task of its own.
        owner: the node that the tools were taken from: there the calls of a turn belong together.
    """

    def __init__(self, opener: Opener, turns: Turns, *, owner: str | None = None) -> None:
        self._opener = opener
        self._turns = turns
        self._owner = owner

    def learn(self, tool: BaseTool, effect: Declared | None) -> None:
        """Take in what a tool does, before its first call."""
        self._opener.declares(tool, effect)

    def stand_in(self, tool: BaseTool, effect: Declared | None = None) -> BaseTool:
        """Return a tool that is the same, and whose calls settle."""
        ways = (partial(way, tool, effect) for way in (self.invoke, self.ainvoke))
        return stand_in(tool, *ways)

    def invoke(self, tool: BaseTool, effect: Declared | None, given: Any, config: RunnableConfig | None) -> Any:
        """Run a call of the tool in a turn, and return its answer when that has settled."""
        made = self._given(tool, given, config)

        def act(seated: SeatedCall) -> Any:
            return SettledTool(tool, seated, made.issued).invoke(made.call, made.config)

        begin = partial(self._begin, tool, effect, made, threads=True)
        return _answer(settle(begin, made.issued, made.runtime, act), made)

    async def ainvoke(self, tool: BaseTool, effect: Declared | None, given: Any, config: RunnableConfig | None) -> Any:
        """Run a call of the tool in a turn, and return its answer when that has settled."""
        made = self._given(tool, given, config)

        async def act(seated: SeatedCall) -> Any:
            return await SettledTool(tool, seated, made.issued).ainvoke(made.call, made.config)

        begin = partial(self._begin, tool, effect, made, threads=False)
        return _answer(await asettle(begin, made.issued, made.runtime, act), made)

    def _given(self, tool: BaseTool, given: Any, config: RunnableConfig | None) -> _Given:
        config = cast("RunnableConfig", dict(ensure_config(config)))
        is_call = isinstance(given, dict) and given.get("type") == "tool_call"
        arguments: Any = given["args"] if is_call else given
        if not isinstance(arguments, dict):
            arguments = {next(iter(tool.args), "input"): arguments}
        superstep = Superstep.of(config)
        runtime: Any = next((value for value in arguments.values() if isinstance(value, ToolRuntime)), None)
        if runtime is None:
            runtime = _runtime(config, superstep)
        state: Any = None if superstep is None else superstep.own.given
        sent = calls_in(state)
        if sent and isinstance(state, dict):
            state = state.get("state")
        id_ = given.get("id") if is_call else None
        calls = sent or _issued(messages_in(state), id_, arguments)
        same = [call for call in calls if call["args"] is arguments or (id_ and call["id"] == id_)]
        own = ToolCall(name=tool.name, args=models_part(tool, arguments), id=id_, type="tool_call")
        if len(same) > 1:
            raise UsageError(f"{tool.name} was called twice under the id {id_!r} in one turn: nothing was run")
        issued = same[0] if same else own
        call = {"name": tool.name, "args": arguments, "id": issued["id"] or f"call_{tool.name}", "type": "tool_call"}
        is_sent = bool(same) and len(sent) == 1
        return _Given(issued, call, config, runtime, state, len(calls), is_sent, is_call)

    def _begin(
        self, tool: BaseTool, effect: Declared | None, made: _Given, last: bool, *, threads: bool
    ) -> Program[Visit]:
        self._opener.declares(tool, effect)
        arrival = Arrival(
            made.runtime,
            made.config,
            made.state,
            messages_in(made.state),
            raises=not made.is_call,
            last=last,
            threads=threads,
            declares=partial(self._opener.declares, effect=effect),
        )
        if made.sent:
            return (yield from self._turns.visit([made.issued], arrival, sent=True))
        self._refuse_half_a_turn(made)
        identity = arrival.identity
        name = None
        if identity.name is not None:
            if not made.issued["id"] and identity.resumable:
                raise UsageError(
                    f"{made.issued['name']} was called with its arguments alone, in a node that may be run again: a"
                    " second run could not know the call again; give it the model's call, tool.invoke(call);"
                    " nothing was run"
                )
            name = f"{identity.name}/{made.issued['id']}" if made.issued["id"] else None
        identity = replace(identity, ordinal=f"{identity.ordinal}/{made.issued['id']}")
        opened: Opened = yield from self._opener.open([made.issued], arrival, identity, name)
        return Visit([made.issued], opened.calls.values(), arrival)

    def _refuse_half_a_turn(self, made: _Given) -> None:
        if self._owner is not None and made.siblings > 1:
            raise UsageError(
                f"{made.issued['name']} was taken out of the SequencedToolNode {self._owner!r}, and a node of another"
                " class runs it (create_supervisor makes one): there the calls of one turn neither keep their order nor"
                " settle together, so nothing was run; send each call to a task of its own"
                ' (create_react_agent(…, version="v2")), use create_agent with SettlementMiddleware, or pass settled'
                " tools, settled(tool, settlement), of which each call settles by itself"
            )


def _answer(answer: Any, made: _Given) -> Any:
    if made.is_call or not isinstance(answer, ToolMessage):
        return answer
    return content_of(answer)


def _runtime(config: RunnableConfig, superstep: Superstep | None) -> _Runtime:
    found: Any = get_runtime() if superstep is not None else None
    return _Runtime(config, getattr(found, "execution_info", None))


def _issued(messages: Any, id_: str | None, arguments: Mapping[str, Any]) -> list[ToolCall]:
    """Return the calls of the message that issued a call, known by its id or by its very arguments."""
    for message in reversed(messages) if isinstance(messages, list) else ():
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        if any(call["args"] is arguments or (id_ and call["id"] == id_) for call in calls):
            return list(calls)
    return []


def _alone_of(settlement: Settlement) -> Alone:
    opener = Opener(settlement, None, None, Options("turn", "node", "keep", (), None))
    return Alone(opener, Turns(opener))


_alone = OfSettlement(_alone_of)


def settled(tool: BaseTool | Callable[..., Any], settlement: Settlement, *, effect: Declared | None = None) -> BaseTool:
    """Return a tool whose calls settle, whoever runs it: a supervisor, an agent's own node, or a loop by hand.

    Where each call of a turn is a task of its own (`create_react_agent`, `create_supervisor`), the settled calls of a
    turn are one transaction, in issuance order. Elsewhere each call is one by itself: it is on record, is not done
    twice by a resume, and a refusal is its answer; `SequencedToolNode` and `SettlementMiddleware` do more.

    Args:
        tool: the tool, or a function that is made one.
        settlement: settles its calls.
        effect: what it does: a class (`"read"`), or the parts of a declaration; else `@effect`, or
            `settlement.declare`, has said it.

    Raises:
        UsageError: `settlement` is no `Settlement`. DeclarationError: `effect` contradicts itself.

    >>> sent = []
    >>> def mail(to: str) -> str:
    ...     "Send a mail."
    ...     sent.append(to)
    ...     return "sent"
    >>> tool = settled(mail, Settlement("memory:"), effect={"kind": "irreversible", "scope": "mail:/{to}"})
    >>> tool.invoke({"to": "ada"}), sent
    ('sent', ['ada'])
    """
    if not isinstance(cast("object", settlement), Settlement):
        raise UsageError(f"settlement={settlement!r} is no Settlement: pass settled(tool, Settlement(url))")
    if not (isinstance(tool, BaseTool) or callable(tool)):
        raise UsageError(f"settled({tool!r}): a {kind_of(tool)} is no tool")
    made = real_tool(tool if isinstance(tool, BaseTool) else StructuredTool.from_function(tool))
    if effect is not None:
        Declarations(settlement, {made.name: effect})
    alone = _alone(settlement)
    alone.learn(made, effect)
    return alone.stand_in(made, effect)


__all__ = ["Alone", "settled"]
