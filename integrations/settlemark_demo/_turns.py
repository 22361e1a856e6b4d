"""A live model's turns, and what the counterparties' logs say of each.

A turn settles together, so a turn is what is judged. What the model made of the prompt is shown, not judged: it may ask
for less than it was asked to, or ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from settlemark_demo._evidence import Entry, Evidence
from settlemark_demo._graph import Conversation

Stopped = Literal["turns", "calls"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the model's, and its answer; None when it was not run."""

    tool: str
    arguments: dict[str, Any]
    answer: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """The model's turn: a text, and calls.

    Args:
        unreadable: how many of its calls cannot be parsed.
    """

    at: float
    text: str
    calls: tuple[Call, ...] = ()
    unreadable: int = 0

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools it called that were run, in order."""
        return tuple(call.tool for call in self.calls if call.answer is not None)

    def values(self) -> dict[str, Any]:
        """Return the turn as JSON values."""
        return {
            "at": self.at,
            "text": self.text,
            "unreadable": self.unreadable,
            "calls": [
                {"tool": call.tool, "arguments": call.arguments, "answer": call.answer, "failed": call.failed}
                for call in self.calls
            ],
        }


def turns_of(conversation: Conversation) -> list[Turn]:
    """Return the turns of the model in a conversation."""
    turns: list[Turn] = []
    said = [(n, m) for n, m in enumerate(conversation.messages) if isinstance(m, AIMessage)]
    for (number, message), at in zip(said, conversation.moments, strict=True):
        answers = _answers_after(conversation.messages[number + 1 :])
        calls = tuple(_call(call["name"], call["args"], answers.get(call["id"] or "")) for call in message.tool_calls)
        turns.append(Turn(at, str(message.text), calls, len(message.invalid_tool_calls)))
    return turns


def _answers_after(messages: Iterable[BaseMessage]) -> dict[str, ToolMessage]:
    """Return the answers up to the next turn, by call: a model may use its call ids again."""
    found: dict[str, ToolMessage] = {}
    for message in messages:
        if not isinstance(message, ToolMessage):
            break
        found[message.tool_call_id] = message
    return found


def _call(tool: str, arguments: dict[str, Any], answer: ToolMessage | None) -> Call:
    if answer is None:
        return Call(tool, arguments)
    return Call(tool, arguments, str(answer.text), failed=answer.status == "error")


def stopped_by(conversation: Conversation) -> Stopped | None:
    """Return the limit a conversation ended at; None when the model ended it."""
    last = conversation.messages[-1]
    if isinstance(last, ToolMessage):
        return "turns"
    return "calls" if isinstance(last, AIMessage) and last.tool_calls else None


@dataclass(frozen=True)
class ByTurn(Evidence):
    """Evidence of a conversation with a live model: each turn is judged by itself.

    Args:
        turns: the model's turns.
        parts: the evidence of the turns with tool calls.
        stopped: the limit at which the conversation was ended, if any.
    """

    turns: tuple[Turn, ...] = ()
    parts: tuple[Evidence, ...] = ()
    stopped: Stopped | None = None

    @classmethod
    def of(
        cls,
        turns: Sequence[Turn],
        entries: Sequence[Entry],
        named: frozenset[str],
        *,
        must_complete: Callable[[Sequence[Call], Sequence[Call]], bool],
        in_sequence: bool = False,
        stopped: Stopped | None = None,
    ) -> ByTurn:
        """Build the evidence from the model's turns and everything logged and named meanwhile.

        `must_complete` is called for each turn, with the calls of earlier turns and its own.
        """
        acting = [turn for turn in turns if turn.tools]
        shares: list[list[Entry]] = [[] for _ in acting]
        for entry in entries:
            shares[_turn_of(entry, acting)].append(entry)
        parts: list[Evidence] = []
        earlier: list[Call] = []
        for turn, share in zip(acting, shares, strict=True):
            keys = named & {entry.key for entry in share if entry.key is not None}
            must = must_complete(earlier, turn.calls)
            parts.append(Evidence(turn.tools, tuple(share), keys, must_complete=must, in_sequence=in_sequence))
            earlier.extend(turn.calls)
        issued = tuple(tool for turn in acting for tool in turn.tools)
        return cls(issued, tuple(entries), named, turns=tuple(turns), parts=tuple(parts), stopped=stopped)

    @cached_property
    def order(self) -> list[int]:
        """The numbers of the calls, counted through the conversation, in the order in which their effects happened."""
        found: list[tuple[Entry, int]] = []
        before = 0
        for part in self.parts:
            found.extend((entry, before + number) for entry, number in zip(part.effects, part.order, strict=True))
            before += len(part.issued)
        return [number for _, number in sorted(found, key=lambda one: one[0].at)]

    @cached_property
    def duplicates(self) -> int:
        """How many effects happened while the same one stood already, as often as its turn issued it."""
        return sum(part.duplicates for part in self.parts)

    @property
    def outcome(self) -> str:
        """As of one turn, when all turns are alike; `each` when each is all of it or nothing."""
        found = {part.outcome for part in self.parts} or {"nothing"}
        if found & {"broken", "named"} or not self._all_named_is_there:
            return "named" if "broken" not in found and self._all_named_is_there else "broken"
        return found.pop() if len(found) == 1 else "each"

    @property
    def _all_named_is_there(self) -> bool:
        return self.named == frozenset(key for part in self.parts for key in part.named)

    @property
    def clean(self) -> bool:
        """Whether every turn is clean, and nothing is named that did not happen."""
        return self._all_named_is_there and all(part.clean for part in self.parts)

    @property
    def left_over(self) -> list[Entry]:
        """What is left of incomplete turns."""
        return [entry for part in self.parts for entry in part.left_over]

    def values(self) -> dict[str, Any]:
        """Return the evidence as JSON values."""
        return super().values() | {"turns": [turn.values() for turn in self.turns], "stopped": self.stopped}


def _turn_of(entry: Entry, turns: Sequence[Turn]) -> int:
    """Return the number of an entry's turn: the last one before it that called its tool."""
    calling = [number for number, turn in enumerate(turns) if entry.tool in turn.tools]
    before = [number for number in calling if turns[number].at <= entry.at]
    return before[-1] if before else calling[0]
