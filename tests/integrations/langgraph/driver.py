"""LangGraph in the contract suite: `create_agent`, with `SettlementMiddleware` or without."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from tests.integrations.contract.driver import Answers, Heed, Rewrite, Saying, Tool, Turns, answer_of

from settlemark import Settlement
from settlemark_langgraph import SettlementMiddleware, asteered, steered

GO: dict[str, Any] = {"messages": [HumanMessage("go", id="go")]}
_CHECKPOINTS = "checkpoints.db"


class Script(BaseChatModel):
    """Says the turn that comes next by its messages."""

    turns: Any
    final: str
    heed: Any = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        said = sum(isinstance(message, AIMessage) for message in messages)
        told = "\n".join(message.text for message in messages)
        turns = self.turns if self.heed is None else self.heed(told, self.turns, said)
        return ChatResult(generations=[ChatGeneration(message=self._turn(turns, said))])

    def _turn(self, turns: Any, number: int) -> AIMessage:
        if number >= len(turns):
            return AIMessage(self.final, id=f"ai-{number}")
        calls = [
            {"name": call.tool, "args": call.arguments, "id": call.id, "type": "tool_call"} for call in turns[number]
        ]
        return AIMessage(Saying.text, tool_calls=calls, id=f"ai-{number}")


class ToolErrors(AgentMiddleware[Any, Any, Any]):
    """Hands what a tool raises to the model, as LangChain's page on agents has it."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            return _told(request, error)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            return _told(request, error)


class Rewriting(AgentMiddleware[Any, Any, Any]):
    """Gives calls other arguments before they run."""

    def __init__(self, rewrite: Rewrite) -> None:
        super().__init__()
        self._rewrite = rewrite

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self._rewritten(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self._rewritten(request))

    def _rewritten(self, request: Any) -> Any:
        call = request.tool_call
        return request.override(tool_call={**call, "args": self._rewrite(call["name"], dict(call["args"]))})


def _told(request: Any, error: Exception) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(repr(error), name=call["name"], tool_call_id=call["id"], status="error")


class Driver:
    """A job is a thread: it is gone on with from its last checkpoint, if it has one."""

    name = "langgraph"
    folder: Path | None = None
    cannot_resume = (
        None if find_spec("langgraph.checkpoint.sqlite") else "a thread survives in langgraph-checkpoint-sqlite"
    )

    rewrite: Rewrite | None = None
    primer = False
    agent: str | None = None
    heed: Heed | None = None
    hears = False

    def __init__(self) -> None:
        self._memory = InMemorySaver()

    def run(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        *,
        settlement: Settlement | None,
        run: str = "run-1",
        effects: Mapping[str, Any] = {},
        final: str = "done",
    ) -> Answers:
        """Play it with `invoke`; with `ainvoke` where a tool is a coroutine function, since `invoke` takes none."""
        if any(inspect.iscoroutinefunction(tool) for tool in tools):
            return asyncio.run(self.arun(tools, turns, settlement=settlement, run=run, effects=effects, final=final))
        config: Any = {"configurable": {"thread_id": run}}
        with self._saver() as saver:
            agent = self._agent(tools, turns, settlement, effects, final, saver)
            given = None if agent.get_state(config).values else GO
            if self.hears and settlement is not None:
                return _answers(steered(agent, given, config, settlement))
            state = agent.invoke(given, config)
            while asked := state.get("__interrupt__"):
                state = agent.invoke(_answered(asked, settlement), config)
        return _answers(state)

    async def arun(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        *,
        settlement: Settlement | None,
        run: str = "run-1",
        effects: Mapping[str, Any] = {},
        final: str = "done",
    ) -> Answers:
        """Play it with `ainvoke`."""
        config: Any = {"configurable": {"thread_id": run}}
        async with self._async_saver() as saver:
            agent = self._agent(tools, turns, settlement, effects, final, saver)
            begun = (await agent.aget_state(config)).values
            if self.hears and settlement is not None:
                return _answers(await asteered(agent, None if begun else GO, config, settlement))
            state = await agent.ainvoke(None if begun else GO, config)
            while asked := state.get("__interrupt__"):
                state = await agent.ainvoke(_answered(asked, settlement), config)
        return _answers(state)

    def _agent(
        self,
        tools: Sequence[Tool],
        turns: Turns,
        settlement: Settlement | None,
        effects: Mapping[str, Any],
        final: str,
        saver: Any,
    ) -> Any:
        ours: list[Any] = []
        if settlement is not None:
            ours.append(SettlementMiddleware(settlement, effects=effects, primer=self.primer))
        ours += [] if self.rewrite is None else [Rewriting(self.rewrite)]
        return create_agent(
            Script(turns=turns, final=final, heed=self.heed),
            [_tool(function) for function in tools],
            middleware=[*ours, ToolErrors()],
            checkpointer=saver,
            name=self.agent,
        )

    @contextmanager
    def _saver(self) -> Iterator[Any]:
        if self.folder is None:
            yield self._memory
            return
        from langgraph.checkpoint.sqlite import SqliteSaver

        connection = sqlite3.connect(self.folder / _CHECKPOINTS, check_same_thread=False)
        try:
            yield SqliteSaver(connection)
        finally:
            connection.close()

    @asynccontextmanager
    async def _async_saver(self) -> AsyncIterator[Any]:
        if self.folder is None:
            yield self._memory
            return
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(str(self.folder / _CHECKPOINTS)) as saver:
            yield saver


def _tool(function: Tool) -> StructuredTool:
    if inspect.iscoroutinefunction(function):
        return StructuredTool.from_function(coroutine=function)
    return StructuredTool.from_function(function)


def _answered(asked: Any, settlement: Settlement | None) -> Command[Any]:
    assert settlement is not None
    return Command(resume={question.id: answer_of(settlement, question.value) for question in asked})


def _answers(state: Any) -> Answers:
    return [(message.tool_call_id, message.text) for message in state["messages"] if message.type == "tool"]
