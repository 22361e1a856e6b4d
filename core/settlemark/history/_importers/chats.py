"""Reads chat logs: messages with the calls that a model issued and the tools' answers.

A transcript keeps the order in which calls were issued, whatever order their effects happened in. So only messages with
times show reordered effects, and concurrent conversations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from settlemark.history._importers.messages import Message, is_list, is_mapping, message
from settlemark.history._importers.readers import Into, shared_notes
from settlemark.history._importers.turns import Turns

_CONVERSATION = ("messages", "conversation", "chat")
_SESSION = ("conversation_id", "thread_id", "session_id", "session", "sessionId", "chat_id", "run_id")


@dataclass(frozen=True)
class _Said:
    message: Message
    session: str | None


class Chats:
    """Reads messages, and conversations of them."""

    def __init__(self, into: Into) -> None:
        self._into = into
        self._turns = Turns(into.recorder, into.tools)
        self._said: list[_Said] = []
        self._conversations = 0
        self._turn_of: dict[str, object] = {}
        self._since: dict[str, int] = {}
        self._strays = 0

    @staticmethod
    def recognizes(sample: Sequence[Any]) -> bool:
        """Whether there is a message, or a conversation, among these values."""
        return any(any(message(each) is not None for each in _within(value)) for value in sample)

    def begin(self, sample: Sequence[Any]) -> None:
        """Do nothing: no value is needed in advance."""

    def add(self, value: Any) -> Iterable[str | None]:
        """Add a message, or a conversation."""
        session = _session(value)
        several = is_list(value) or _listed(value) is not None
        if several:
            self._conversations += 1
            session = session or f"conversation {self._conversations}"
        inside = _within(value)
        if several and not inside:
            yield "a conversation without messages"
        for each in inside:
            found = message(each)
            if found is None:
                yield "no message: it has no role that is known, or no content"
                continue
            if found.calls or found.results or found.role == "assistant":
                self._said.append(_Said(found, session or _session(each)))
            yield None

    def end(self) -> None:
        """Record the messages, in the order of their times where they have some."""
        sessions = {each.session for each in self._said}
        timed = bool(self._said) and all(each.message.time is not None for each in self._said)
        said = sorted(self._said, key=lambda each: each.message.time or 0.0) if timed else self._said
        for each in said:
            self._take(each.message, each.session, alone=len(sessions) == 1, timed=timed)
        self._turns.close()
        self._tell(timed=timed, sessions=len(sessions))

    def _take(self, found: Message, session: str | None, *, alone: bool, timed: bool) -> None:
        turns = self._turns
        for result in found.results:
            key = self._key(session, result.call or result.tool)
            if not turns.ended(
                key,
                result.content,
                failed=result.failed,
                since=self._since.get(key, 0),
                at=found.time if timed else None,
            ):
                self._strays += 1
        if found.role != "assistant":
            return
        agent = found.name or ("assistant" if alone or session is None else session)
        if found.name is not None and not alone and session is not None:
            agent = f"{session}/{found.name}"
        before = self._turn_of.pop(agent, None)
        if before is not None:
            turns.over(before)
        if found.calls:
            turn = self._turn_of[agent] = object()
            calls = [call._replace(id=self._key(session, call.id)) for call in found.calls]
            self._since |= {call.id: turns.moment for call in calls}
            turns.issued(agent, calls, turn=turn, name=session)
        else:
            turns.answered(agent, name=session)

    def _key(self, session: str | None, call: str | None) -> str:
        return f"{session}\n{call}"

    def _tell(self, *, timed: bool, sessions: int) -> None:
        notes = self._into.notes
        if self._turns.unordered and not timed:
            notes.append(
                "the messages have no times, and a transcript keeps the order in which calls were issued whatever order"
                " their effects happened in: reordered effects (A6) cannot be seen in it"
            )
        elif self._turns.unordered:
            notes.append(
                f"in {self._turns.unordered} turns the answers have the same time: the order of their effects is not"
                " told"
            )
        if not timed and sessions > 1:
            notes.append(
                "the messages have no times: conversations count as one after the other, and what ran beside what is"
                " not told"
            )
        if self._strays:
            notes.append(f"{self._strays} answers belong to no call that was issued here")
        notes.extend(shared_notes(self._turns))


def _listed(value: Any) -> list[Any] | None:
    if is_mapping(value) and message(value) is None:
        return next((value[key] for key in _CONVERSATION if is_list(value.get(key))), None)
    return None


def _within(value: Any) -> list[Any]:
    """Return the messages inside a value, or the message that it is."""
    if is_list(value):
        return value
    listed = _listed(value)
    return [value] if listed is None else listed


def _session(value: Any) -> str | None:
    if not is_mapping(value):
        return None
    return next((str(value[key]) for key in _SESSION if isinstance(value.get(key), str | int)), None)


__all__ = ["Chats"]
