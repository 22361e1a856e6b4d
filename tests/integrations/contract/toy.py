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

from tests.integrations.contract.driver import Answers, Heed, Rewrite, Saying, ScriptedCall, Tool, Turns

from settlemark import Settlement
from settlemark.agents import AgentRun, AgentTurn, Call, Declarations, Said, refuse_bad_primer, run_async, words


class Toy:
    """A framework: an agent is its tools, and a model, which here is a script; a hook may change what is called."""

    def __init__(self, tools: Sequence[Tool], *, hook: Rewrite | None = None, heed: Heed | None = None) -> None:
        self.tools = {tool.__name__: tool for tool in tools}
        self._hook = hook
        self._heed = heed

    async def run(self, script: Turns) -> Answers:
        """Have the model say its turns, and return what it was told of their calls."""
        told: Answers = []
        prompt, said = await self.prompt(), 0
        while said < len(turns := script if self._heed is None else self._heed(prompt, script, said)):
            calls = turns[said]
            answers = await asyncio.gather(*self.begin_turn(calls))
            told.extend(zip((call.id for call in calls), answers, strict=True))
            said += 1
        return told

    async def prompt(self) -> str:
        """Return what the model is told before all else."""
        return "Do it."

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
        heed: Heed | None = None,
        primer: bool = False,
        agent: str | None = None,
    ) -> None:
        super().__init__(tools, hook=hook, heed=heed)
        refuse_bad_primer(primer)
        self._primer = primer
        self._job = AgentRun(settlement, run)
        self._work, self._turns = self._job.work(agent=agent), 0
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

    async def prompt(self) -> str:
        """Put the primer of a job that is taken up again behind it."""
        primer = await run_async(self._job.primers.text(self._work.name, 0)) if self._primer else None
        return "\n".join(filter(None, [await super().prompt(), primer]))

    def begin_turn(self, calls: Sequence[ScriptedCall]) -> Sequence[Any]:
        """Open the turn before the first of its calls runs."""
        self._turns += 1
        said = Said(Saying.text, f"answer-{self._turns}", "script", tuple(self.tools))
        turn = self._work.turn([self._call(call) for call in calls], because=said)
        return [self._settled(turn, place, call) for place, call in enumerate(calls)]

    def _call(self, call: ScriptedCall) -> Call:
        refused = self.turned_down(call)
        return Call(call.tool, call.arguments, self._declarations.of(call.tool), call.id, refused=refused)

    async def _settled(self, turn: AgentTurn, place: int, call: ScriptedCall) -> str:
        if why := self.turned_down(call):
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
    primer = False
    agent: str | None = "clerk"
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
        """Play it."""
        how: Any = {"hook": self.rewrite, "heed": self.heed}
        if settlement is None:
            return await Toy(tools, **how).run(turns)
        return await SettledToy(tools, settlement, run, effects, primer=self.primer, agent=self.agent, **how).run(turns)
