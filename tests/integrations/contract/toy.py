"""The smallest framework there is, a shim for it, and its driver: what a fifth framework needs.

The framework is `Toy`: it asks a model, runs the calls of each answer beside each other, and tells the model what
they came to. The shim is `SettledToy`: it says what happens to `settlemark.agents`, and runs the tools through it.
The driver has both play the suite's scripts.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.integrations.contract.driver import Answers, Rewrite, ScriptedCall, Tool, Turns

from settlemark import Settlement
from settlemark.agents import AgentRun, AgentTurn, Call, Declarations, run_async, words


class Toy:
    """A framework: an agent is its tools, and a model, which here is a script; a hook may change what is called."""

    def __init__(self, tools: Sequence[Tool], *, hook: Rewrite | None = None) -> None:
        self.tools = {tool.__name__: tool for tool in tools}
        self._hook = hook

    async def run(self, script: Turns) -> Answers:
        """Have the model say its turns, and return what it was told of their calls."""
        told: Answers = []
        for calls in script:
            answers = await asyncio.gather(*self.begin_turn(calls))
            told.extend(zip((call.id for call in calls), answers, strict=True))
        return told

    def begin_turn(self, calls: Sequence[ScriptedCall]) -> Sequence[Any]:
        """Return what runs each call, to be awaited."""
        return [self.answer(call) for call in calls]

    async def answer(self, call: ScriptedCall) -> str:
        """Run a call, and return what the model is told of it."""
        try:
            return str(await self.execute(self.hooked(call)))
        except Exception as error:
            return repr(error)

    def hooked(self, call: ScriptedCall) -> ScriptedCall:
        """Return a call as it will run."""
        return call if self._hook is None else replace(call, arguments=self._hook(call.tool, dict(call.arguments)))

    async def execute(self, call: ScriptedCall) -> Any:
        """Run a call's tool."""
        tool = self.tools[call.tool]
        if inspect.iscoroutinefunction(tool):
            return await tool(**call.arguments)
        return await asyncio.to_thread(tool, **call.arguments)

    def turned_down(self, call: ScriptedCall) -> str | None:
        """Why a call is no call of a tool, or None."""
        if call.tool not in self.tools:
            return f"there is no tool {call.tool!r}"
        try:
            inspect.signature(self.tools[call.tool]).bind(**call.arguments)
        except TypeError as error:
            return str(error)
        return None


class SettledToy(Toy):
    """The shim: the same agent, with what its tools do settled."""

    def __init__(
        self,
        tools: Sequence[Tool],
        settlement: Settlement,
        run: str | None,
        effects: Mapping[str, Any],
        *,
        hook: Rewrite | None = None,
    ) -> None:
        super().__init__(tools, hook=hook)
        self._job = AgentRun(settlement, run)
        self._work = self._job.work()
        self._declarations = Declarations(settlement, effects)
        for name, tool in self.tools.items():
            self._declarations.learn(name, tool, arguments=[*inspect.signature(tool).parameters])

    async def run(self, script: Turns) -> Answers:
        """Do as the framework does, and end the job with it."""
        try:
            told = await super().run(script)
        except BaseException as error:
            await run_async(self._job.end(error))
            raise
        await run_async(self._job.end())
        return told

    def begin_turn(self, calls: Sequence[ScriptedCall]) -> Sequence[Any]:
        """Open the turn before the first of its calls runs."""
        turn = self._work.turn([self._call(call) for call in calls])
        return [self._settled(turn, place, call) for place, call in enumerate(calls)]

    def _call(self, call: ScriptedCall) -> Call:
        return Call(call.tool, call.arguments, self._declarations.of(call.tool), call.id)

    async def _settled(self, turn: AgentTurn, place: int, call: ScriptedCall) -> str:
        if why := self.turned_down(call):
            turn.absent(place)
            return why
        try:
            hooked = self.hooked(call)
            how = {"remake": functools.partial(self._remake, call.tool)}
            if hooked != call:
                how["rewritten"] = self._call(hooked)
            return str(await run_async(turn.perform(place, self._runs(call.tool, hooked.arguments), **how)))
        except Exception as error:
            return words(error)

    def _remake(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return what a person has made of a call: what runs it, and the arguments as the tool will get them."""
        return self._runs(name, arguments), arguments

    def _runs(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return what runs a tool with these arguments: a coroutine function for one of that kind."""
        return functools.partial(self.tools[name], **arguments)


class Driver:
    """The toy remembers nothing: a job that is gone on with is played from its beginning."""

    name = "toy"
    folder: Path | None = None
    cannot_resume: str | None = None
    rewrite: Rewrite | None = None

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
        """Play it."""
        hook = self.rewrite
        agent = Toy(tools, hook=hook) if settlement is None else SettledToy(tools, settlement, run, effects, hook=hook)
        return await agent.run(turns)
