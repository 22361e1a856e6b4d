"""Obligations in a SQL store: a table of their own, read beside what their state is derived from."""
# ruff: noqa: SLF001 - it writes with a book's rows, in their order

from __future__ import annotations

from typing import Any
from weakref import proxy

from settlemark._protocol.states import Reason, State
from settlemark.ledger._contract import OutcomeChange
from settlemark.ledger._owed import (
    GONE,
    Lapse,
    OwedChange,
    OwedPage,
    OwedRow,
    RecordedOwed,
    Told,
    due_first,
    is_on,
    lapse_id,
)
from settlemark.ledger._record import tables as t
from settlemark.ledger._record.entries import Sheet
from settlemark.ledger._record.statements import INSERT_LAPSE, INSERT_OWED, REMOVE_LAPSE, REOPEN, UPDATE_OWED
from settlemark.ledger._sql.wire import Row, Statement

_NAMES = ", ".join(f"o.{column.name}" for column in t.owed.columns)
_FROM = (
    f"SELECT {_NAMES}, t.state, t.reason FROM settlemark_owed AS o"  # noqa: S608 - constant names
    " LEFT JOIN settlemark_transaction AS t"
    " ON t.namespace = o.namespace AND t.name = o.name AND t.attempt = o.attempt"
    " WHERE o.namespace = :namespace"
)
_UNENDED = " AND o.fulfilled_key IS NULL AND o.waived_by IS NULL"
_ONE = Statement(f"{_FROM} AND o.id = :id")
_OF_TOOL = Statement(f"{_FROM}{_UNENDED} AND o.tool = :tool")
_ALL_UNENDED = Statement(_FROM + _UNENDED)
_ALL = Statement(_FROM)


class SqlDebts:
    """The obligations of a namespace, in the open transaction of a book: see `settlemark.ledger._owed.Debts`.

    Attributes:
        used: whether anything was ever owed here.
    """

    __slots__ = ("_book", "used")

    def __init__(self, book: Sheet) -> None:
        self._book: Sheet = proxy(book)  # no circle: a book is freed when its step is over
        self.used = False

    def write(self, change: OwedRow | OwedChange) -> None:
        """Record an obligation, or news of one; one that is recorded stays as it is."""
        if isinstance(change, OwedRow):
            self._open(change)
        else:
            self._change(change)

    def _open(self, row: OwedRow) -> None:
        book = self._book
        payload = book._payloads.pack(row.payload, effect_key=row.id, tool=row.tool, field="arguments", blobs=[])
        book._rows[INSERT_OWED].append({
            "namespace": book._namespace, "id": row.id, "name": row.name, "attempt": row.attempt, "run": row.run,
            "position": row.position, "owed_to": row.to, "tool": row.tool, "scope": row.scope, "payload": payload,
            "opened_at_seconds": row.at, "due_seconds": row.due, "fulfilled_key": None, "fulfilled_at_seconds": None,
            "waived_by": None, "waived_at_seconds": None, "note": None, "told": None, "told_at_seconds": None,
        })  # fmt: skip # a table of columns, compared with `tables` at a glance

    def _change(self, change: OwedChange) -> None:
        book = self._book
        note = book._payloads.pack(change.note, effect_key=change.id, tool="", field="note", blobs=[])
        book._rows[UPDATE_OWED].append({
            "b_namespace": book._namespace, "b_id": change.id, "b_at": change.at, "b_fulfilled": change.fulfilled,
            "b_waived": change.waived_by, "b_note": note, "b_told": change.told and change.told.value,
        })  # fmt: skip # a table of columns, compared with `tables` at a glance

    def reopen(self, change: OutcomeChange) -> None:
        """Open again what an effect had fulfilled that never left, or was taken back."""
        if change.outcome in GONE:
            self._book._rows[REOPEN].append({"namespace": self._book._namespace, "key": change.key})

    def lapse(self, key: str, lapse: Lapse, at: float) -> None:
        """Open what an effect owes for what it got until a time, or let it go: the effect was taken back."""
        book, number = self._book, lapse_id(key)
        here: dict[str, Any] = {"namespace": book._namespace, "id": number}
        if lapse.due is None:
            book._rows[REMOVE_LAPSE].append(here)
            return
        payload = book._payloads.pack(lapse.payload, effect_key=number, tool=lapse.tool, field="arguments", blobs=[])
        told = {"owed_to": lapse.to, "tool": lapse.tool, "scope": lapse.scope, "payload": payload}
        book._rows[INSERT_LAPSE].append({**here, **told, "at": at, "due": lapse.due, "key": key})

    def find(self, page: OwedPage) -> list[RecordedOwed]:
        """Return the obligations of a page, those due first at the front."""
        here: dict[str, Any] = {"namespace": self._book._namespace}
        query, rest = self._book._wire.query, page._replace(unended=False)
        if page.id is not None:
            found, rest = query(_ONE, {**here, "id": page.id}), page._replace(id=None)
        elif page.tools is not None and page.unended:
            found = [row for tool in page.tools for row in query(_OF_TOOL, {**here, "tool": tool})]
            rest = rest._replace(tools=None)
        else:
            found = query(_ALL_UNENDED if page.unended else _ALL, here)
        return due_first(each for each in map(self._read, found) if is_on(rest, each))

    def _read(self, found: Row) -> RecordedOwed:
        (
            _, number, name, attempt, run, position, to, tool, scope, payload, at, due, fulfilled, fulfilled_at,
            waived_by, waived_at, note, told, told_at, state, reason,
        ) = found  # fmt: skip # a row, unpacked in the order of its columns
        payloads, fetch = self._book._payloads, self._book._blobs.fetch
        text = payloads.read(payload, effect_key=number, field="arguments", fetch=fetch)
        told_why = payloads.read(note, effect_key=number, field="note", fetch=fetch)
        row = OwedRow(number, name, attempt, run, position, to, tool, scope, text or "", at, due)
        return RecordedOwed(
            row, fulfilled, fulfilled_at, waived_by, waived_at, told_why, Told(told) if told else None, told_at,
            State(state) if state else None, Reason(reason) if reason else None,
        )  # fmt: skip # in the order of the row's fields


__all__ = ["SqlDebts"]
