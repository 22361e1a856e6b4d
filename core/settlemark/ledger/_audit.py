"""Audits the chain of a run's entries: which of them was changed, removed or added by hand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from settlemark.ledger._contract import Book
from settlemark.ledger._entries import BEGINNING, Chain, Entry
from settlemark.ledger._seals import KIND, Columns, is_as_sealed


class Fault(StrEnum):
    """What is wrong: at a place of a chain, with the effect that one tells of, or with a digest that was kept."""

    CHANGED = "changed"
    MISSING = "missing"
    ADDED = "added"
    REPLACED = "replaced"
    EDITED = "edited"
    LOST = "lost"
    UNSEALED = "unsealed"


class Finding(NamedTuple):
    """One fault of a chain.

    Attributes:
        place: where in the chain of the run; 0: nowhere in it.
        fault: what is wrong there.
        entry: what stands there: kind, id and version; None where nothing does. Of an effect, its kind and key.
    """

    run: str
    place: int
    fault: Fault
    entry: str | None

    def __str__(self) -> str:
        return _TOLD[self.fault].format(
            where=f"entry {self.place} of the run {self.run}", run=self.run, entry=self.entry
        )


_TOLD = {
    Fault.CHANGED: "{where}, {entry}, is not what was recorded: it was changed, or has another's place",
    Fault.MISSING: "{where} is missing: restore the ledger from a backup",
    Fault.ADDED: "{where}, {entry}, stands behind the end of the chain: nobody recorded it",
    Fault.REPLACED: "the run {run} no longer has the digest that was kept: its rows up to that one were made anew",
    Fault.EDITED: "{where} says otherwise of {entry}: the effect's row was changed",
    Fault.LOST: "{where} tells of {entry}, whose row is missing: restore the ledger from a backup",
    Fault.UNSEALED: "{entry} of the run {run} is in no entry of its chain: nobody recorded it under a decision",
}


@dataclass(frozen=True, slots=True)
class Audit:
    """Whether a run's record is what was recorded: see `Settlement.audit`.

    Attributes:
        run: the run.
        rows: how many rows its chain has: its decisions, and of the effects under them each intent, outcome, and word
            of a person.
        removed: of how many of them retention has removed the text, as it should.
        digest: of the last row, over all before it. Kept elsewhere, it proves later that none of them was made anew.
        faults: what is not as recorded, in the order of the rows; each says, as text, which row and what is wrong.
    """

    run: str
    rows: int
    removed: int
    digest: str
    faults: tuple[Finding, ...]

    @property
    def intact(self) -> bool:
        """Whether every row is what was recorded."""
        return not self.faults

    def values(self) -> dict[str, Any]:
        """Return it as JSON values."""
        faults = [{**fault._asdict(), "fault": fault.fault.value, "told": str(fault)} for fault in self.faults]
        return {"run": self.run, "rows": self.rows, "removed": self.removed, "digest": self.digest, "faults": faults}


def audit_of(book: Book, run: str, digest: str | None = None) -> Audit:
    """Return whether a run's record is what was recorded; `digest` is one that an earlier audit returned."""
    chain = book.entries.chain(run)
    faults = [*audited(run, chain), *_unsealed(run, chain, book.entries.effects(run))]
    if digest is not None and digest not in {BEGINNING, *(entry.digest for entry in chain.entries)}:
        faults.append(Finding(run, 0, Fault.REPLACED, None))
    removed = sum(not entry.kept for entry in chain.entries)
    return Audit(run, len(chain.entries), removed, chain.digest, tuple(faults))


def audited(run: str, chain: Chain) -> list[Finding]:
    """Return the faults of a chain, in their places; none: it is what was recorded, but for bodies that retention took.

    Each digest is over the one before it, so a change of one row shows there, or at the next one where its own digest
    was made anew. Who makes the whole rest of a chain anew, its end included, is found by nobody but one who has kept
    a digest of it elsewhere.

    >>> audited("trip", Chain([], 1, "a digest"))
    [Finding(run='trip', place=1, fault=<Fault.MISSING: 'missing'>, entry=None)]
    """
    there = {entry.place: entry for entry in chain.entries}
    last = {(entry.kind, entry.id): entry.version for entry in chain.entries}
    before: str | None = BEGINNING
    found: list[Finding] = []
    for place in range(1, max([chain.length, *there]) + 1):
        entry = there.get(place)
        fault = _fault(chain, place, entry, before, last)
        if fault is not None:
            found.append(Finding(run, place, fault, _named(entry)))
        before = None if entry is None else entry.digest
    return found


def _unsealed(run: str, chain: Chain, rows: list[Columns]) -> list[Finding]:
    """Return the effects whose rows are not what the chain says of them."""
    there = {row["key"]: row for row in rows}
    last = {entry.key: entry for entry in chain.entries if entry.kind == KIND}
    found: list[Finding] = []
    for key, entry in last.items():
        row = there.pop(key, None)
        if row is None:
            if entry.kept:  # else retention has removed both
                found.append(Finding(run, entry.place, Fault.LOST, f"{KIND}/{key}"))
        elif not entry.kept or (entry.intact and not is_as_sealed(entry.body, row)):
            found.append(Finding(run, entry.place, Fault.EDITED, f"{KIND}/{key}"))
    return found + [Finding(run, 0, Fault.UNSEALED, f"{KIND}/{key}") for key in there]


def _named(entry: Entry | None) -> str | None:
    return None if entry is None else f"{entry.kind}/{entry.id}#{entry.version}"


def _fault(
    chain: Chain, place: int, entry: Entry | None, before: str | None, last: dict[tuple[str, str], int]
) -> Fault | None:
    if entry is None:
        return Fault.MISSING
    if place > chain.length:
        return Fault.ADDED
    follows = before is None or entry.link(before) == entry.digest  # what is behind a missing one cannot be told
    ends = place < chain.length or entry.digest == chain.digest
    marked = entry.latest == (entry.version == last[entry.kind, entry.id])
    return None if follows and ends and entry.intact and marked else Fault.CHANGED


__all__ = ["Audit", "Fault", "Finding", "audit_of", "audited"]
