"""The entries of a ledger in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import NoReturn

from settlemark.ledger._age import Age
from settlemark.ledger._contract import Change, EffectRow, OutcomeChange, RecordedEffect, Said
from settlemark.ledger._entries import (
    STEERED,
    Chain,
    Draft,
    Entries,
    Entry,
    Which,
    made,
    ordered,
    place_key,
    scrubbed,
)
from settlemark.ledger._memory.attempts import MemoryAttempts
from settlemark.ledger._payloads.payloads import PRUNED, Packer
from settlemark.ledger._seals import KIND, Columns, columns_of, seal_id, sealing

Rollback = Callable[[Callable[[], object]], object]
Lasts = Callable[[Entry], bool]
"""Whether an entry's transaction has its payloads still."""


class MemoryEntries(Entries):
    """The entries of a ledger in memory: see `settlemark.ledger._entries.Entries`.

    Args:
        payloads: redacts bodies.
        on_rollback: is given the functions that undo what a step has written.
        transactions: the recorded attempts.
        effects: by key.
        retain: the chains of how many runs are kept, unless more have an open entry.
    """

    def __init__(
        self,
        payloads: Packer,
        on_rollback: Rollback,
        transactions: MemoryAttempts,
        effects: dict[str, RecordedEffect],
        *,
        retain: int,
    ) -> None:
        self._payloads = payloads
        self._on_rollback = on_rollback
        self._transactions, self._effects = transactions, effects
        self._retain = retain
        self._runs: dict[str, list[Entry]] = {}  # the one that was written last comes last
        self._versions: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._last: dict[str, dict[str, dict[str, Entry]]] = {}  # the last versions: by kind, run and id
        self.used = False  # whether anything was ever decided here
        self.grown = False  # whether there may be no room: an entry was written since that was looked at
        self.touched: dict[str, None] = {}  # the effects that the present step has written about

    def versions(self, kind: str, id: str) -> list[Entry]:  # noqa: A002 - as the record has it
        """Return all versions of an entry, the first one first."""
        return [self._runs[run][place - 1] for run, place in self._versions.get((kind, id), ())]

    def find(self, which: Which) -> list[Entry]:
        """Return the last versions of entries, the oldest first."""
        asked = which._replace(due_before=None, newest=None)._asdict().items()
        given = {name: value for name, value in asked if value is not None}
        told = attrgetter(*given, "latest")
        wanted, due = (*given.values(), True), which.due_before
        runs = self._last.get(which.kind, {})
        looked = runs.values() if which.run is None else (runs.get(which.run, {}),)
        found = [entry for entries in looked for entry in entries.values() if told(entry) == wanted]
        found = ordered([e for e in found if due is None or (e.due is not None and e.due < due)])
        return found if which.newest is None else found[max(0, len(found) - which.newest) :]

    def chain(self, run: str) -> Chain:
        """Return the entries of a run, all versions, and where its chain ends."""
        return self._end(run)._replace(entries=list(self._runs.get(run, ())))

    def _end(self, run: str) -> Chain:
        entries = self._runs.get(run)
        return Chain([], len(entries), entries[-1].digest) if entries else Chain([])

    def steers(self, run: str) -> bool:
        """Whether something that was said to a run, or its pause, is still to be dealt with."""
        return any(e.open for kind in STEERED for e in self._last.get(kind, {}).get(run, {}).values())

    # ---- seals of effects

    def touch(self, changes: Iterable[Change]) -> None:
        """Note which effects a step writes about, where anything was ever decided; see `seal`."""
        self.touched.update((c.key, None) for c in changes if isinstance(c, OutcomeChange | EffectRow | Said))

    def seal(self) -> None:
        """Seal the effects under a decision that the step has written about, as they are now."""
        for key in self.touched:
            effect = self._effects.get(key)
            if effect is not None and effect.row.under is not None:
                recorded = self._transactions[effect.row.name, effect.row.attempt]
                last = self.get(KIND, seal_id(key))
                if last is not None:
                    self._supersede(last)
                self._append(sealing(columns_of(effect, recorded.row.run)), 1 if last is None else last.version + 1)
        self.touched.clear()

    def effects(self, run: str) -> list[Columns]:
        """Return the rows of a run's effects that are under a decision."""
        theirs = self._transactions.of_run(run) if run in self._runs else []
        found = [effect for recorded in theirs for effect in recorded.effects if effect.row.under is not None]
        return [columns_of(effect, run) for effect in found]

    def strip_seals(self, keys: Iterable[str]) -> None:
        """Remove the bodies of seals of effects that are forgotten."""
        for entry in [entry for key in keys for entry in self.versions(KIND, seal_id(key))]:
            self._strip(entry)

    def _strip(self, entry: Entry) -> None:
        place = place_key(entry.kind, entry.id)
        pruned = self._payloads.read(PRUNED, effect_key=place, field="body", fetch=no_blob)
        self._put(entry._replace(body=pruned or "", kept=False))

    # ---- writing

    def _supersede(self, last: Entry) -> None:
        self._put(last._replace(latest=False))
        self._on_rollback(partial(self._put, last))

    def _append(self, draft: Draft, version: int) -> Entry:
        payloads, place = self._payloads, place_key(draft.kind, draft.id)
        self.used, self.grown = self.used or draft.kind == "decision", True
        stored = read = draft.body
        if draft.kind != KIND:
            body = scrubbed(draft.body, draft.key, payloads)
            stored = payloads.pack(body, effect_key=place, tool=draft.kind, field="body", blobs=[]) or "{}"
            read = payloads.read(stored, effect_key=place, field="body", fetch=no_blob) or "{}"
        kept = stored != PRUNED
        entry = made(draft, version, self._end(draft.run), stored, read)._replace(kept=kept)
        entries = self._runs.pop(draft.run, [])
        self._runs[draft.run] = entries
        entries.append(entry)
        places = self._versions.setdefault((draft.kind, draft.id), [])
        places.append((draft.run, entry.place))
        self._stands(entry)
        self._on_rollback(partial(self._take_back, entry))
        return entry

    def _take_back(self, entry: Entry) -> None:
        self._runs[entry.run].pop()
        if not self._runs[entry.run]:
            del self._runs[entry.run]
        places = self._versions[entry.kind, entry.id]
        places.pop()
        if not places:
            del self._versions[entry.kind, entry.id]
        self._stands_no_more(entry)

    def _put(self, entry: Entry) -> None:
        self._runs[entry.run][entry.place - 1] = entry
        if entry.latest:
            self._stands(entry)

    def _stands(self, entry: Entry) -> None:
        self._last.setdefault(entry.kind, {}).setdefault(entry.run, {})[entry.id] = entry

    def _stands_no_more(self, entry: Entry) -> None:
        runs = self._last.get(entry.kind, {})
        entries = runs.get(entry.run, {})
        entries.pop(entry.id, None)
        if not entries:
            runs.pop(entry.run, None)

    # ---- what is old

    def make_room(self) -> None:
        """Forget the runs that were written longest ago, if there are too many."""
        self.grown = False
        while len(self._runs) > self._retain:
            closed = (run for run, entries in self._runs.items() if not any(map(_is_open, entries)))
            oldest = next(closed, None)
            if oldest is None:
                return
            self._forget(oldest)

    def sweep(self, age: Age, *, limit: int, lasts: Lasts, lives: Callable[[str], bool]) -> int:
        """Remove at most so many old bodies, and as many runs of which nothing else is recorded; return how many."""
        bodies = self._old(age, lasts)[:limit]
        for entry in bodies:
            self._strip(entry)
        gone = sorted(
            (entries[-1].at, run)
            for run, entries in self._runs.items()
            if entries[-1].at < age.now - age.keys and not any(map(_is_kept, entries)) and not lives(run)
        )[:limit]
        for _, run in gone:
            self._forget(run)
        return len(bodies)

    def old(self, age: Age, lasts: Lasts) -> int:
        """Return how many bodies are old."""
        return len(self._old(age, lasts))

    def _old(self, age: Age, lasts: Lasts) -> list[Entry]:
        over = (e for e in self._all() if _is_kept(e) and not _is_open(e) and e.kind != KIND)
        return ordered([e for e in over if e.at < age.before and not lasts(e)])

    def _forget(self, run: str) -> None:
        for entry in self._runs.pop(run):
            self._versions.pop((entry.kind, entry.id), None)
            self._stands_no_more(entry)

    def _all(self) -> Iterator[Entry]:
        return (entry for entries in self._runs.values() for entry in entries)


def _is_open(entry: Entry) -> bool:
    return entry.open and entry.latest


def _is_kept(entry: Entry) -> bool:
    return entry.kept


def no_blob(digest: str) -> NoReturn:
    """Find no blob: memory keeps each payload whole."""
    raise LookupError(digest)


__all__ = ["MemoryEntries", "no_blob"]
