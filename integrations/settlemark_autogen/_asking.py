"""Questions to a person that an agent hands off: its turn is put aside, and goes on when somebody has answered."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage

from settlemark import Gate
from settlemark._gates import approval_of


class Waits(Exception):
    """A call waits for a person's yes, and its agent is to hand off. Attribute `gate`: what is asked."""

    def __init__(self, gate: Gate) -> None:
        wrong = "" if gate.error is None else f"; the last answer was none: {gate.error}"
        super().__init__(
            f"{gate.tool} waits for a person's yes, and has not run: {gate.would}{wrong}. Hand off to whoever decides;"
            " it goes on by itself when they have answered: do not call it again"
        )
        self.gate = gate


class Desk:
    """The questions that wait for an answer, and the answers that wait to be asked for."""

    def __init__(self) -> None:
        self._asked: dict[str, Gate] = {}
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, gate: Gate) -> Any:
        """Return the answer to a question.

        Raises:
            Waits: it has none yet.
        """
        with self._lock:
            answer = self._answers.pop(gate.key, None)
            if answer is None:
                self._asked[gate.key] = gate
                raise Waits(gate)
            return answer

    @property
    def questions(self) -> list[Gate]:
        """What is asked, oldest first."""
        with self._lock:
            return list(self._asked.values())

    def answer(self, key: str, answer: Any) -> None:
        """Take in an answer to the question about the call with this key.

        Raises:
            UsageError: it is none.
        """
        approval_of(answer)
        with self._lock:
            self._asked.pop(key, None)
            self._answers[key] = answer

    def answered(self, messages: Sequence[LLMMessage]) -> list[FunctionCall]:
        """Return the calls of the latest turn that waits for an answer which is there by now."""
        with self._lock:
            ids = set(map(_call_id_in, self._answers))
        turns = (calls for calls in _turns_in(reversed(messages)) if any(call.id in ids for call in calls))
        return next(turns, list[FunctionCall]())


def _turns_in(messages: Iterable[LLMMessage]) -> Iterable[list[FunctionCall]]:
    contents = (message.content for message in messages if isinstance(message, AssistantMessage))
    return (content for content in contents if not isinstance(content, str))


def _call_id_in(key: str) -> str:
    """Return the id of the call that a key was made for.

    >>> _call_id_in("trip-42/agent/0#1/2:call-9")
    'call-9'
    """
    return key.rpartition("#")[2].partition(":")[2]


__all__ = ["Desk", "Waits"]
