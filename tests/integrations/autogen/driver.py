"""AutoGen as the contract suite plays it: one `AssistantAgent`, with its state kept in a file where it is asked to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core.tools import StaticStreamWorkbench
from tests.integrations.autogen.world import Scripted, agent, told, turn
from tests.integrations.contract.driver import Answers, Heed, Rewrite, Saying, ScriptedCall, Tool, Turns

from settlemark import Settlement


class Rewriting(StaticStreamWorkbench):
    """A workbench around another one, which gives its calls other arguments."""

    def __init__(self, inner: Any, rewrite: Rewrite) -> None:
        super().__init__([])
        self._inner, self._rewrite = inner, rewrite

    async def list_tools(self) -> Any:
        return await self._inner.list_tools()

    async def call_tool(self, name: str, arguments: Any = None, **how: Any) -> Any:
        return await self._inner.call_tool(name, self._rewrite(name, dict(arguments)), **how)

    async def call_tool_stream(self, name: str, arguments: Any = None, **how: Any) -> Any:
        async for found in self._inner.call_tool_stream(name, self._rewrite(name, dict(arguments)), **how):
            yield found

    async def save_state(self) -> Any:
        return await self._inner.save_state()

    async def load_state(self, state: Any) -> None:
        await self._inner.load_state(state)


class Driver:
    """An agent asks its model until that has said all; without a file it begins each job anew."""

    name = "autogen"
    folder: Path | None = None
    cannot_resume: str | None = None
    rewrite: Rewrite | None = None
    primer = False
    agent: str | None = None
    heed: Heed | None = None

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
        """Play it in a loop of its own."""
        return asyncio.run(self.arun(tools, turns, settlement=settlement, run=run, effects=effects, final=final))

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
        """Play it; who is cancelled waits until what the framework leaves behind is over."""
        model = Scripted(*map(_answer, turns), final=final, heed=None if self.heed is None else self._heeded(turns))
        played = agent(
            model,
            [_readable(tool) for tool in tools],
            settlement,
            run=run,
            effects=effects,
            max_tool_iterations=len(turns) + 1,
            primer=self.primer,
            called=self.agent,
        )
        if self.rewrite is not None:
            played._workbench = [Rewriting(found, self.rewrite) for found in played._workbench]
        kept = None if self.folder is None else self.folder / f"{run}.json"
        task: str | None = "go"
        if kept is not None and kept.exists():
            await played.load_state(json.loads(kept.read_text(encoding="utf-8")))
            task = None
        before = asyncio.all_tasks()
        job = asyncio.create_task(_play(played, task, kept))
        try:
            await job
        except asyncio.CancelledError:
            await _others_are_over(before)
            raise
        return [(call_id, text) for call_id, _, text in told(await played.model_context.get_messages())]

    def _heeded(self, turns: Turns) -> Heed:
        heed = self.heed
        assert heed is not None
        return lambda text, _, said: [_answer(calls) for calls in heed(text, turns, said)]


def _answer(calls: Sequence[ScriptedCall]) -> Any:
    return turn(*((call.tool, call.arguments) for call in calls), ids=[call.id for call in calls], said=Saying.text)


def _readable(tool: Tool) -> Tool:
    """Return a function whose annotations are no texts, which AutoGen looks up in the module of its wrapper."""
    if hasattr(tool, "__wrapped__"):
        tool.__annotations__ = get_type_hints(tool, include_extras=True)
    return tool


async def _play(played: Any, task: str | None, kept: Path | None) -> None:
    async for event in played.run_stream(task=task):
        if kept is not None and isinstance(event, ToolCallExecutionEvent):
            fresh = kept.with_suffix(".new")
            fresh.write_text(json.dumps(await played.save_state()), encoding="utf-8")
            fresh.rename(kept)


async def _others_are_over(before: set[asyncio.Task[Any]]) -> None:
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left)
