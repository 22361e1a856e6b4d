"""Questions to a person that an agent hands off: its turn is put aside, and continues after the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage

from settlemark import Gate, LedgerError, UsageError
from settlemark.hosting import approval_of, run_async, run_sync
from settlemark_autogen._standing import Standing, Stands


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

    The record decides what stands: an obsolete question takes no answer, and an answer is dropped when its question has
    settled, or was asked again by another attempt of its turn.

    Args:
        stands: finds which questions stand.
    """

    def __init__(self, stands: Stands) -> None:
        self._stands = stands
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
            found: dict[str, Standing] = run_sync(self._stands(asked)) if asked else {}
        except LedgerError:  # closed, or out of reach: only the last questions are known
            return list(asked.values())
        with self._lock:
            for key in asked.keys() - found.keys():
                if self._asked.get(key) is asked[key]:
                    del self._asked[key]
        now = {
            found[key].key: replace(gate, key=found[key].key, transaction=found[key].transaction)
            for key, gate in asked.items()
            if key in found and not found[key].is_answered
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
        found: dict[str, Standing] = run_sync(self._stands(asked))
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
        found: dict[str, Standing] = await run_async(self._stands(answers))
        waiting = [standing for key, standing in found.items() if standing.key == key]
        with self._lock:
            for key in answers.keys() - {standing.key for standing in waiting}:
                if self._answers.get(key) is answers[key]:
                    del self._answers[key]
        own = [standing for standing in waiting if standing.is_of(run, agent)]
        turns = _turns_in(reversed(messages))
        answered = (calls for calls in turns if any(ours.is_about(call) for ours in own for call in calls))
        return next(answered, list[FunctionCall]())


def _turns_in(messages: Iterable[LLMMessage]) -> Iterable[list[FunctionCall]]:
    contents = (message.content for message in messages if isinstance(message, AssistantMessage))
    return (content for content in contents if not isinstance(content, str))


__all__ = ["Desk", "Waits"]
