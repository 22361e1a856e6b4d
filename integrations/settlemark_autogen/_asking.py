"""Questions to a person that an agent hands off: its turn is put aside, and continues after the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage

from settlemark import Gate, LedgerError, UsageError
from settlemark.agents import OpenQuestion
from settlemark.hosting import Program, approval_of, run_async, run_sync
from settlemark_autogen._messages import NO_JSON, arguments_of

Find = Callable[[Iterable[str]], Program[dict[str, OpenQuestion]]]
"""Finds, by the keys under which they were asked, the questions that are open, and those answered elsewhere."""


class Waits(Exception):
    """A call waits for a person's yes, and its agent is to hand off. Attribute `gate`: the question."""

    def __init__(self, gate: Gate) -> None:
        wrong = "" if gate.error is None else f"; the last answer was none: {gate.error}"
        super().__init__(
            f"{gate.tool} waits for a person's yes, and has not run: {gate.would}{wrong}. Hand off to the one who"
            " decides; it goes on by itself when they have answered: do not call it again"
        )
        self.gate = gate


class Desk:
    """The questions that wait for an answer, and the answers that are not used yet.

    The record decides which questions are open: an obsolete question takes no answer, and an answer is dropped when its
    question has settled, or was asked again by another attempt of its turn.

    Args:
        find: finds the open questions.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._asked: dict[str, Gate] = {}
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, gate: Gate) -> Any:
        """Return the answer to a question; None if only somebody elsewhere has answered it.

        Raises:
            Waits: there is no answer yet.
        """
        with self._lock:
            answer = self._answers.pop(gate.key, None)
            if answer is None and not gate.answered:
                self._asked[gate.key] = gate
                raise Waits(gate)
            return answer

    @property
    def questions(self) -> list[Gate]:
        """The open questions, oldest first, each with its present key."""
        with self._lock:
            asked = dict(self._asked)
        try:
            found: dict[str, OpenQuestion] = run_sync(self._find(asked)) if asked else {}
        except LedgerError:  # closed, or out of reach: only the last questions are known
            return list(asked.values())
        with self._lock:
            for key in asked.keys() - found.keys():
                if self._asked.get(key) is asked[key]:
                    del self._asked[key]
        now = {
            found[key].key: replace(gate, key=found[key].key, transaction=found[key].transaction)
            for key, gate in asked.items()
            if key in found and not found[key].answered
        }
        return list(now.values())

    def answer(self, key: str, answer: Any) -> None:
        """Store an answer to the question about the call with this key.

        Raises:
            UsageError: it is invalid, or there is no such question; nothing changed.
        """
        approval_of(answer)
        with self._lock:
            asked = {key, *self._asked}
        found: dict[str, OpenQuestion] = run_sync(self._find(asked))
        if key not in found:
            raise UsageError(
                f"there is no open question about {key!r}: it was answered and has gone on, or its turn was undone,"
                " or it belongs to another job; nothing changed. Answer one of `questions`, by its key",
                key=key,
            )
        now = found[key].key
        with self._lock:
            for other in asked:
                if other in found and found[other].key == now:
                    self._asked.pop(other, None)
            self._answers[now] = answer

    async def answered(self, messages: Sequence[LLMMessage], run: str, agent: str) -> list[FunctionCall]:
        """Return the calls of an agent's latest waiting turn whose answer is there by now.

        It was given here, or elsewhere and is on record (with `settlemark approve`, for example).
        """
        with self._lock:
            answers = dict(self._answers)
        found: dict[str, OpenQuestion] = await run_async(self._find(answers))
        waiting = [question for key, question in found.items() if question.key == key]
        with self._lock:
            for key in answers.keys() - {question.key for question in waiting}:
                if self._answers.get(key) is answers[key]:
                    del self._answers[key]
        own = [question for question in waiting if question.is_of(run, agent)]
        turns = _turns_in(reversed(messages))
        answered = (calls for calls in turns if any(_is_about(ours, call) for ours in own for call in calls))
        return next(answered, list[FunctionCall]())


def _is_about(question: OpenQuestion, call: FunctionCall) -> bool:
    given = arguments_of(call)
    if given is NO_JSON:
        return False
    return question.is_about(call.id, call.name, cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {})


def _turns_in(messages: Iterable[LLMMessage]) -> Iterable[list[FunctionCall]]:
    contents = (message.content for message in messages if isinstance(message, AssistantMessage))
    return (content for content in contents if not isinstance(content, str))


__all__ = ["Desk", "Waits"]
