"""Pages of the record in a SQL store: the last so many, those since a time, of a run, in a state, and all of it.

A page consists of parts, one for each state, and each part is a range of an index in the order of the output. So no
more of the store is read than is returned, nothing is sorted there, and the whole record is never in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from settlemark._protocol.states import FINISHED, State
from settlemark.ledger._contract import Page
from settlemark.ledger._record import tables as t
from settlemark.ledger._sql.wire import Row, Statement, Values, saying

Ask = Callable[[Statement, Values], list[Row]]
"""Returns the rows of a statement, with `:namespace` filled in."""

_NAMES = [column.name for column in t.transactions.columns]
COLUMNS = ", ".join(_NAMES)
_OPENED, _EPOCH, _ATTEMPT, _NAME = map(_NAMES.index, ("opened_at_seconds", "epoch", "attempt", "name"))
_ORDER = ("opened_at_seconds", "epoch", "attempt")
_EVER = -1e300


class Left(NamedTuple):
    """Which effects are listed: those for an operator to look at, or those dealt with; and sorted by which time."""

    which: str
    time: str


LEFT = Left(str(t.LEFT), "intended_at_seconds")
DEALT = Left(str(t.DEALT), "dealt_at_seconds")


def newest(ask: Ask, page: Page) -> list[Row]:
    """Return the transactions of a page, the newest first."""
    found = [ask(*of_state(page, state)) for state in _states(page)]
    return list(islice(merge(*found, key=_age, reverse=True), page.last))


def of_state(page: Page, state: State) -> tuple[Statement, Values]:
    """Return the statement for a page's part in one state, the newest first."""
    where, values = _where(page, state)
    if page.since is not None:
        where, values = f"{where} AND opened_at_seconds >= :since", {**values, "since": page.since}
    if page.last is not None:
        values = {**values, "last": page.last}
    return _select(where, " DESC", "" if page.last is None else " LIMIT :last"), values


def oldest(ask: Ask, page: Page, batch: int) -> Iterator[Row]:
    """Yield the transactions of a page, the oldest first, in batches: a change meanwhile may be shown either way.

    Unfinished ones are read first: so none can end unseen between two batches.
    """
    if page.last is not None:
        yield from reversed(newest(ask, page))
        return
    states = _states(page)
    still = [list(_part(ask, page, state, batch)) for state in states if state not in FINISHED]
    over = [_part(ask, page, state, batch) for state in states if state in FINISHED]
    began: float = _EVER
    told: set[tuple[str, int]] = set()
    for row in merge(*still, *over, key=_age):
        if row[_OPENED] != began:
            began = row[_OPENED]
            told.clear()
        if (place := place_of(row)) not in told:  # it has ended since it was read
            told.add(place)
            yield row


def after(page: Page, state: State) -> Statement:
    """Return the statement for the next transactions in one state, the oldest first, from a place in that order."""
    where, _ = _where(page, state)
    return _select(f"{where} AND ({', '.join(_ORDER)}) >= (:opened, :epoch, :attempt)", "", " LIMIT :most")


def _part(ask: Ask, page: Page, state: State, batch: int) -> Iterator[Row]:
    statement, (_, values) = after(page, state), _where(page, state)
    place: Any = (_EVER if page.since is None else page.since, 0, 0)
    told: set[tuple[str, int]] = set()  # those at this very place
    while True:
        most = batch + len(told)
        rows = ask(statement, {**values, **dict(zip(("opened", "epoch", "attempt"), place, strict=True)), "most": most})
        yield from (row for row in rows if place_of(row) not in told)
        if len(rows) < most:
            return
        place = _age(rows[-1])
        told = {place_of(row) for row in rows if _age(row) == place}


def _where(page: Page, state: State) -> tuple[str, Values]:
    if page.run is None:
        return f"namespace = :namespace AND state = '{state.value}'", {}
    return f"namespace = :namespace AND run = :run AND state = '{state.value}'", {"run": page.run}


def _select(where: str, way: str, most: str) -> Statement:
    order = ", ".join(f"{name}{way}" for name in _ORDER)
    return saying(f"SELECT {COLUMNS} FROM settlemark_transaction WHERE {where} ORDER BY {order}{most}")  # noqa: S608 - no value is in it


def _states(page: Page) -> tuple[State, ...]:
    return tuple(State) if page.state is None else (page.state,)


def _age(row: Row) -> Any:
    return row[_OPENED], row[_EPOCH], row[_ATTEMPT]


def place_of(row: Row) -> tuple[str, int]:
    """Return a row's transaction name and attempt."""
    return row[_NAME], row[_ATTEMPT]


def left_of(page: Page, which: Left) -> tuple[Statement, Values]:
    """Return the statement for the keys on a page of residue, the newest first."""
    where, values = [f"namespace = :namespace AND {which.which}"], dict[str, Any]()
    if page.run is not None:
        where.append("run = :run")
        values["run"] = page.run
    if page.since is not None:
        where.append(f"{which.time} >= :since")
        values["since"] = page.since
    most = ""
    if page.last is not None:
        most, values["last"] = " LIMIT :last", page.last
    order = f"{which.time} DESC, key DESC"
    text = f"SELECT key, name, attempt FROM settlemark_effect WHERE {' AND '.join(where)} ORDER BY {order}{most}"  # noqa: S608 - no value is in it
    return saying(text), values


__all__ = ["COLUMNS", "DEALT", "LEFT", "Ask", "after", "left_of", "newest", "of_state", "oldest", "place_of"]
