"""The entries of a SQL store, as seen by one open transaction."""
# ruff: noqa: SLF001 - it writes with a book's wire, behind what the book has written

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Protocol
from weakref import proxy

import sqlalchemy as sa

from settlemark.ledger._entries import (
    Chain,
    Draft,
    Entries,
    Entry,
    Which,
    is_intact,
    made,
    place_key,
    scrubbed,
)
from settlemark.ledger._payloads.payloads import PRUNED, Blob, Packer
from settlemark.ledger._record import tables as t
from settlemark.ledger._record.blobs import Blobs
from settlemark.ledger._seals import KIND, Columns, seal_id, sealing
from settlemark.ledger._sql.wire import Row, Statement, Values, Wire, saying


class Sheet(Protocol):
    """What entries and obligations need of the book that they are a part of."""

    named: dict[str, None]
    _rows: defaultdict[Statement, list[Values]]
    _namespace: str
    _payloads: Packer

    @property
    def _blobs(self) -> Blobs: ...

    @property
    def _wire(self) -> Wire: ...


class SqlEntries(Entries):
    """The entries of a namespace, in the open transaction of a book: see `settlemark.ledger._entries.Entries`."""

    __slots__ = ("_book", "_ends", "touched", "used")

    def __init__(self, book: Sheet) -> None:
        self.used = False  # whether anything was ever decided here: the head of the log says so
        self.touched: dict[str, None] = {}  # the effects that the steps before the present one have written about
        self._book: Sheet = proxy(book)  # no circle: a book is freed when its step is over
        self._ends: dict[str, Chain] = {}  # nobody else writes while this transaction is open

    def versions(self, kind: str, id: str) -> list[Entry]:  # noqa: A002 - as the record has it
        """Return all versions of an entry, the first one first."""
        return self._read(_VERSIONS, {"kind": kind, "id": id})

    def find(self, which: Which) -> list[Entry]:
        """Return the last versions of entries, the oldest first."""
        return self._read(*finding(which))

    def chain(self, run: str) -> Chain:
        """Return the entries of a run, all versions, and where its chain ends."""
        return self._end(run)._replace(entries=self._read(_OF_RUN, {"run": run}))

    def page(self, run: str, place: int, most: int) -> list[Entry]:
        """Return the next entries of all runs behind a place in a run, all versions."""
        return self._read(_NEXT, {"run": run, "place": place, "most": most})

    # ---- seals of effects

    def seal(self, named: Iterable[str]) -> None:
        """Seal the effects under a decision that were written about, these and those touched before, as they are now.

        In one transaction of the store an effect gets one seal, however often it was written.
        """
        if not self.used:
            return
        for key in {**self.touched, **dict.fromkeys(named)}:
            for *row, last in self._book._wire.query(_TO_SEAL, {**self._here, "key": key, "id": seal_id(key)}):
                draft = sealing(dict(zip(_SEALED, row, strict=True)))
                if last is not None:
                    self._book._wire.execute(_SUPERSEDE, {**self._here, "kind": KIND, "id": draft.id})
                self._append(draft, (last or 0) + 1)

    def effects(self, run: str) -> list[Columns]:
        """Return the rows of a run's effects that are under a decision, or were."""
        rows = self._book._wire.query(_SEALED_OF_RUN, {**self._here, "run": run})
        return [dict(zip(_SEALED, row, strict=True)) for row in rows]

    @property
    def _here(self) -> dict[str, Any]:
        return {"namespace": self._book._namespace}

    def _end(self, run: str) -> Chain:
        rows = self._book._wire.query(_END, {**self._here, "run": run})
        return next((Chain([], *row) for row in rows), Chain([]))

    def _supersede(self, last: Entry) -> None:
        self._book._wire.execute(_SUPERSEDE, {**self._here, "kind": last.kind, "id": last.id})

    def _append(self, draft: Draft, version: int) -> Entry:
        book, place = self._book, place_key(draft.kind, draft.id)
        blobs: list[Blob] = []
        body = stored = draft.body
        if draft.kind != KIND:  # a seal has digests alone, of what is redacted and encrypted already
            body = scrubbed(draft.body, draft.key, book._payloads)
            packed = book._payloads.pack(body, effect_key=place, tool=draft.kind, field="body", blobs=blobs)
            stored = packed or "{}"
        before = self._ends.get(draft.run) or self._end(draft.run)
        entry = made(draft, version, before, stored, body)
        if draft.key is not None:
            book.named[draft.key] = None
        wire = book._wire
        wire.execute(_INSERT, entry_values(book._namespace, entry, stored))
        wire.execute(
            _LINK,
            {**self._here, "run": draft.run, "length": entry.place, "digest": entry.digest, "at_seconds": entry.at},
        )
        self._ends[draft.run] = Chain([], entry.place, entry.digest)
        if draft.kind == "decision" and not self.used:
            wire.execute(_USED, self._here)
            self.used = True
        book._blobs.keep(blobs, place, -version)
        return entry

    def _read(self, statement: Statement, values: Values) -> list[Entry]:
        return [self._entry(row) for row in self._book._wire.query(statement, {**self._here, **values})]

    def _entry(self, row: Row) -> Entry:
        (
            _, run, place, kind, id_, version, name, attempt, key, state, is_open, latest, body, at, due, content,
            digest, kept,
        ) = row  # fmt: skip # a row, unpacked in the order of its columns
        book = self._book
        text = book._payloads.read(body, effect_key=place_key(kind, id_), field="body", fetch=book._blobs.fetch) or "{}"
        intact = is_intact(body, text, content, kept=bool(kept))
        told = Draft(kind, id_, run, state, at, text, name, attempt, key, due, bool(is_open))
        return Entry(*told, version, place, content, digest, intact, bool(latest), bool(kept))


def entry_values(namespace: str, entry: Entry, stored: str) -> dict[str, Any]:
    """Return the columns of an entry."""
    return {
        "namespace": namespace, "run": entry.run, "place": entry.place, "kind": entry.kind, "id": entry.id,
        "version": entry.version, "name": entry.name, "attempt": entry.attempt, "key": entry.key,
        "state": entry.state, "open": entry.open, "latest": True, "body": stored, "at_seconds": entry.at,
        "due_seconds": entry.due, "content": entry.content, "digest": entry.digest, "kept": stored != PRUNED,
    }  # fmt: skip # a table of columns, compared with `tables` at a glance


def finding(which: Which) -> tuple[Statement, Values]:
    """Return the statement for the last versions of entries, the oldest first."""
    where, values = ["namespace = :namespace AND latest AND kind = :kind"], dict[str, Any](kind=which.kind)
    for name in ("run", "state", "key", "name"):
        if (value := getattr(which, name)) is not None:
            where.append(f"{name} = :{name}")
            values[name] = value
    if which.due_before is not None:
        where.append("due_seconds < :due_before")
        values["due_before"] = which.due_before
    text = f"SELECT {_COLUMNS} FROM settlemark_entry WHERE {' AND '.join(where)}"  # noqa: S608 - constant names
    if which.newest is not None:
        values["newest"] = which.newest
        text = f"SELECT * FROM ({text} ORDER BY at_seconds DESC, run DESC, place DESC LIMIT :newest) AS found"  # noqa: S608 - no value is in it
    return saying(f"{text} ORDER BY at_seconds, run, place"), values


_COLUMNS = ", ".join(column.name for column in t.entries.columns)
_VERSIONS = Statement(
    f"SELECT {_COLUMNS} FROM settlemark_entry"  # noqa: S608 - constant names
    " WHERE namespace = :namespace AND kind = :kind AND id = :id ORDER BY version"
)
_OF_RUN = Statement(
    f"SELECT {_COLUMNS} FROM settlemark_entry WHERE namespace = :namespace AND run = :run ORDER BY place"  # noqa: S608 - no value is in it
)
_NEXT = Statement(
    f"SELECT {_COLUMNS} FROM settlemark_entry WHERE namespace = :namespace"  # noqa: S608 - no value is in it
    " AND (run, place) > (:run, :place) ORDER BY run, place LIMIT :most"
)
_INSERT = Statement(sa.insert(t.entries))
_SUPERSEDE = Statement(
    "UPDATE settlemark_entry SET latest = false WHERE namespace = :namespace AND kind = :kind AND id = :id AND latest"
)
_END = Statement("SELECT length, digest FROM settlemark_chain WHERE namespace = :namespace AND run = :run")
_LINK = Statement(
    "INSERT INTO settlemark_chain (namespace, run, length, digest, at_seconds)"
    " VALUES (:namespace, :run, :length, :digest, :at_seconds)"
    " ON CONFLICT (namespace, run) DO UPDATE SET length = :length, digest = :digest, at_seconds = :at_seconds"
)
_USED = Statement("UPDATE settlemark_head SET decisions = 1 WHERE namespace = :namespace")
_OF_EFFECT = [column.name for column in t.effects.columns if column.name not in ("run", "sender")]
_SEALED = ("run", *_OF_EFFECT)
_EFFECT = f"t.run, {', '.join(f'e.{name}' for name in _OF_EFFECT)}"
_JOINED = (
    " FROM settlemark_effect AS e JOIN settlemark_transaction AS t"
    " ON t.namespace = e.namespace AND t.name = e.name AND t.attempt = e.attempt WHERE e.namespace = :namespace"
)
_TO_SEAL = Statement(
    f"SELECT {_EFFECT}, (SELECT max(s.version) FROM settlemark_entry AS s WHERE s.namespace = e.namespace"  # noqa: S608 - no value is in it
    f" AND s.kind = 'effect' AND s.id = :id){_JOINED} AND e.key = :key AND e.decision IS NOT NULL"
)
_SEALED_OF_RUN = Statement(
    f"SELECT {_EFFECT}{_JOINED} AND t.run = :run AND (e.decision IS NOT NULL OR EXISTS (SELECT 1"  # noqa: S608 - no value is in it
    " FROM settlemark_entry AS s WHERE s.namespace = e.namespace AND s.key = e.key AND s.kind = 'effect'))"
)

__all__ = ["Sheet", "SqlEntries", "entry_values", "finding"]
