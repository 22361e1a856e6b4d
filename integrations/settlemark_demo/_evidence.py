"""What the counterparties' logs say of one piece of work: all of it, nothing, or something in between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

HAPPENED = frozenset({"booked", "mailed", "done"})
_REVERSED = frozenset({"cancelled", "reverted"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a counterparty's log: when, which tool's effect, its fate, its id and key."""

    at: float
    tool: str
    event: str
    id: str
    key: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Evidence:
    """The log entries of one piece of work, beside what was issued and what was named as left over.

    Laws: every answer below is computed from `entries`; nothing knows which side made them.

    Args:
        issued: the tools in the order in which the model's turn issued them.
        entries: the counterparties' log entries, in the order they happened.
        named: the keys of the effects reported as left over.
        must_complete: nothing stood in the way for good, so doing nothing counts as a failure.
        in_sequence: each step needs the one before, so any other order is a failure.
    """

    issued: tuple[str, ...]
    entries: tuple[Entry, ...]
    named: frozenset[str] = frozenset()
    must_complete: bool = False
    in_sequence: bool = False

    @cached_property
    def effects(self) -> list[Entry]:
        """What happened, reversed later or not."""
        return [entry for entry in self.entries if entry.event in HAPPENED]

    @cached_property
    def order(self) -> list[int]:
        """The issuance numbers, from 1, in the order in which the effects happened."""
        places: dict[str, list[int]] = {}
        for number, tool in enumerate(self.issued, 1):
            places.setdefault(tool, []).append(number)
        met: Counter[str] = Counter()
        found: list[int] = []
        for entry in self.effects:
            numbers = places[entry.tool]
            found.append(numbers[min(met[entry.tool], len(numbers) - 1)])
            met[entry.tool] += 1
        return found

    @property
    def in_order(self) -> bool:
        """Whether effects happened in the order in which they were issued."""
        return self.order == sorted(self.order)

    @property
    def reversals(self) -> list[Entry]:
        """What was undone, in order."""
        return [entry for entry in self.entries if entry.event in _REVERSED]

    @property
    def undone(self) -> list[int]:
        """The issuance numbers of what was undone, in order."""
        numbers = dict(zip((entry.id for entry in self.effects), self.order, strict=True))
        return [numbers[entry.id] for entry in self.reversals if entry.id in numbers]

    @cached_property
    def left(self) -> list[Entry]:
        """What happened, mails apart, and was not undone."""
        gone = {entry.id for entry in self.reversals}
        return [entry for entry in self.effects if entry.event != "mailed" and entry.id not in gone]

    @property
    def mails(self) -> int:
        """How many mails were accepted."""
        return sum(entry.event == "mailed" for entry in self.effects)

    @cached_property
    def duplicates(self) -> int:
        """How many effects happened while the same one stood already, as often as it was issued."""
        standing: dict[str, str] = {}
        found = 0
        for number, entry in enumerate(self.entries):
            if entry.event in _REVERSED:
                standing.pop(entry.id, None)
            elif entry.event in HAPPENED:
                stands = sum(tool == entry.tool for tool in standing.values())
                found += stands >= max(1, self.issued.count(entry.tool))
                # A mail that was sent twice has the same id twice.
                standing[f"{number}" if entry.event == "mailed" else entry.id] = entry.tool
        return found

    @property
    def standing(self) -> list[str]:
        """The tools of what happened and was not undone, once for each time."""
        return [e.tool for e in self.left] + [e.tool for e in self.effects if e.event == "mailed"]

    @property
    def complete(self) -> bool:
        """Whether each effect issued stands, exactly once."""
        return sorted(self.standing) == sorted(self.issued)

    @property
    def left_over(self) -> list[Entry]:
        """What still stands although not all of it does."""
        return [] if self.complete else self.left

    @property
    def nothing(self) -> bool:
        """Whether no booking is left over and no mail was sent."""
        return not self.left and not self.mails

    @property
    def named_exactly(self) -> bool:
        """Whether exactly what is left over was named, and no mail speaks of it."""
        keys: set[str | None] = {entry.key for entry in self.left}
        return bool(self.left) and not self.mails and keys == set(self.named)

    @property
    def outcome(self) -> str:
        """`all`, `nothing`, `named` or `broken`."""
        if self.complete and not self.named:
            return "all"
        if self.nothing and not self.named:
            return "nothing"
        return "named" if self.named_exactly else "broken"

    @property
    def clean(self) -> bool:
        """Whether the world is all or nothing, or what is left of it was named exactly, and nothing is double."""
        if self.duplicates or self.outcome == "broken":
            return False
        return (self.in_order or not self.in_sequence) and (self.outcome == "all" or not self.must_complete)

    def values(self) -> dict[str, Any]:
        """Return the evidence as JSON values."""
        return {
            "issued": list(self.issued),
            "order": self.order,
            "in_order": self.in_order,
            "mails": self.mails,
            "left_over": [entry.id for entry in self.left_over],
            "duplicates": self.duplicates,
            "named": sorted(self.named),
            "outcome": self.outcome,
            "clean": self.clean,
            "log": [
                {"at": e.at, "tool": e.tool, "event": e.event, "id": e.id, "key": e.key, "detail": e.detail}
                for e in self.entries
            ],
        }
