"""One turn of a model, handed out to its agent call by call: how a client alone keeps the order.

A tool runs as soon as its agent knows the call. So handing a call out is running it: the turn says when its place has
come, and the agent's next request shows the tool's result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)

from settlemark import Refused
from settlemark.agents import AgentTurn, words
from settlemark.hosting import run_async
from settlemark_autogen._results import packed, text_result, unpacked


class Lapsed(Refused):
    """The agent went on before this call of its turn was handed out."""


class Unanswered(ConnectionError):
    """The agent never answered a call handed to it: nobody knows whether it happened."""


class FailedCall(Exception):
    """A call was answered with an error, whose text this is."""


class Handing:
    """One turn, handed out call by call; `next` hands out the first ones.

    Args:
        turn: settles it.
        settled: the calls of the turn, in order.
        others: calls of the same answer that are not settled; they are handed out last.
        answer: the model's.
        agent: the agent's name.
        messages: the agent's request; `told`, what the model was told.
    """

    def __init__(
        self,
        turn: AgentTurn,
        settled: Sequence[FunctionCall],
        others: Sequence[FunctionCall],
        *,
        answer: CreateResult,
        agent: str,
        messages: Sequence[LLMMessage],
        told: Sequence[LLMMessage],
    ) -> None:
        self.agent = agent
        self._turn = turn
        self._calls = list(settled)
        self._others = list(others)
        self._answer = answer
        self._asked = list(messages)
        self._told = list(told)
        self._ready: dict[int, asyncio.Future[FunctionExecutionResult]] = {}
        self._out: dict[int, asyncio.Future[FunctionExecutionResult]] = {}
        self._handed: list[list[FunctionCall]] = []
        self._seen: dict[str, FunctionExecutionResult] = {}
        self._source = agent or "assistant"
        self._moved = asyncio.Event()
        self._lapsed = False
        self._jobs = [asyncio.create_task(self._perform(place)) for place in range(len(self._calls))]

    # ---- handing out

    async def next(self) -> list[FunctionCall]:
        """Return the agent's next answer; None when the turn has settled, and nothing is left."""
        while True:
            if self._ready and not self._lapsed:
                place = min(self._ready)
                self._out[place] = self._ready.pop(place)
                return self._hand([self._calls[place]])
            if all(job.done() for job in self._jobs):
                others, self._others = self._others, []
                return self._hand(others) if others and not self._lapsed else []
            self._moved.clear()
            await self._moved.wait()

    def _hand(self, calls: list[FunctionCall]) -> list[FunctionCall]:
        self._handed.append(calls)
        return calls

    async def _perform(self, place: int) -> Any:
        call = self._calls[place]
        try:
            return await run_async(
                self._turn.perform(
                    place,
                    partial(self._hand_out, place),
                    pack=lambda text: packed(text_result(call.name, text)) if isinstance(text, str) else text,
                    unpack=lambda value: unpacked(value, call.name).to_text(),
                )
            )
        finally:
            self._moved.set()

    async def _hand_out(self, place: int) -> str:
        """Hand a call out, and return its answer."""
        name = self._calls[place].name
        if self._lapsed:
            raise self._too_late(name)
        ended: asyncio.Future[FunctionExecutionResult] = asyncio.get_running_loop().create_future()
        self._ready[place] = ended
        self._moved.set()
        result = await ended
        if result.is_error:
            raise FailedCall(result.content)
        return result.content

    # ---- the agent's answers

    def is_of(self, messages: Sequence[LLMMessage], agent: str) -> bool:
        """Whether an agent's request continues the conversation in which this turn began."""
        if agent != self.agent:
            return False
        return messages[: len(self._asked)] == self._asked or any(self._is_handed(message) for message in messages)

    def take(self, messages: Sequence[LLMMessage]) -> bool:
        """Record the results of the calls handed out; return whether the agent came back with exactly these."""
        shown = list(messages)
        last = max((n for n, m in enumerate(shown) if self._is_handed(m)), default=None)
        answers = shown[last + 1] if last is not None and last + 1 < len(shown) else None
        if last is None or not isinstance(answers, FunctionExecutionResultMessage):
            return False
        self._source = getattr(shown[last], "source", self._source)
        for result in answers.content:
            self._seen[result.call_id] = result
        for place, ended in list(self._out.items()):
            found = self._seen.get(self._calls[place].id)
            if found is not None:
                del self._out[place]
                ended.set_result(found)
        return last + 2 == len(shown)

    def lapse(self) -> None:
        """Hand out nothing more: the turn's effects are undone."""
        self._lapsed = True
        for place, ended in self._ready.items():
            ended.set_exception(self._too_late(self._calls[place].name))
        for place, ended in self._out.items():
            ended.set_exception(Unanswered(f"{self._calls[place].name} was handed out, and its agent never said more"))
        self._ready, self._out = {}, {}
        self._moved.set()

    async def close(self) -> None:
        """Abandon the turn."""
        self.lapse()
        await asyncio.wait(self._jobs)

    @staticmethod
    def _too_late(name: str) -> Lapsed:
        return Lapsed(
            f"{name} was not run: the agent went on before its turn came; give the agent more max_tool_iterations,"
            " or a SettledWorkbench",
            transaction=None,
            epoch=None,
        )

    # ---- what the model is shown

    def shown(self, messages: Sequence[LLMMessage], skip: set[int]) -> list[LLMMessage]:
        """Return an agent's messages with the turn in one piece, as issued, and the final results.

        `skip` has the identities of messages inserted by the turn.
        """
        kept: list[LLMMessage] = []
        at: int | None = None
        handed, answers = list(self._handed), False
        for message in messages:
            if answers and isinstance(message, FunctionExecutionResultMessage):
                answers = False
                continue
            answers = bool(handed) and id(message) not in skip and _calls_in(message) == handed[0]
            if answers:
                del handed[0]
                at = len(kept) if at is None else at
                continue
            kept.append(message)
        if at is None and kept[: len(self._told)] == self._told:
            at = len(self._told)
        if at is None:
            return list(messages)
        own = self._as_issued()
        skip.update(map(id, own))
        return [*kept[:at], *own, *kept[at:]]

    def _as_issued(self) -> list[LLMMessage]:
        calls = self._answer.content
        assert not isinstance(calls, str)
        issued = AssistantMessage(content=calls, thought=self._answer.thought, source=self._source)
        words_of = {id(call): self._last_word(place) for place, call in enumerate(self._calls)}
        results = [words_of.get(id(call)) or self._seen.get(call.id) or _unsaid(call) for call in calls]
        return [issued, FunctionExecutionResultMessage(content=results)]

    def _last_word(self, place: int) -> FunctionExecutionResult:
        call, job = self._calls[place], self._jobs[place]
        error = asyncio.CancelledError() if job.cancelled() else job.exception()
        if error is None:
            return _result(call, str(job.result()))
        return _result(call, str(error) if isinstance(error, FailedCall) else words(error), is_error=True)

    def _is_handed(self, message: LLMMessage) -> bool:
        return bool(self._handed) and _calls_in(message) == self._handed[-1]


def _calls_in(message: LLMMessage) -> list[FunctionCall] | None:
    content = message.content if isinstance(message, AssistantMessage) else None
    return None if isinstance(content, str) else content


def _unsaid(call: FunctionCall) -> FunctionExecutionResult:
    return _result(call, f"{call.name} was not run", is_error=True)


def _result(call: FunctionCall, text: str, *, is_error: bool = False) -> FunctionExecutionResult:
    return FunctionExecutionResult(content=text, name=call.name, call_id=call.id, is_error=is_error)


__all__ = ["FailedCall", "Handing", "Lapsed", "Unanswered"]
