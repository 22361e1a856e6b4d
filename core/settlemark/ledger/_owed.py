"""Obligations on record: what a transaction owes once it has committed, and what has become of that.

What an obligation is now is *derived* from what stands beside it in the record: it is owed when its transaction is
decided, it never was when that is undone, and it is withdrawn when that is rewound. So it cannot be lost between two
writes, or stay behind: there is no second write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Reason, State

DECIDED = (State.RELEASING, State.COMMITTED)
PAYLOAD_BYTES = 16_384
"""The most bytes that the payload of an obligation has, as JSON."""
GONE = (Outcome.FAILED, Outcome.DROPPED, Outcome.UNDONE)
"""The outcomes of an effect that has left nothing: it fulfils nothing, and nothing of it can lapse."""
_DIGITS = 24


class OwedState(StrEnum):
    """What an obligation is now.

    `pending`: its transaction has not committed yet; `void`: that was undone, so nothing is owed; `open`: it is owed;
    `fulfilled`: a later effect has done it; `waived`: a person has struck it out; `withdrawn`: its transaction was
    rewound.
    """

    PENDING = "pending"
    VOID = "void"
    OPEN = "open"
    FULFILLED = "fulfilled"
    WAIVED = "waived"
    WITHDRAWN = "withdrawn"


class Told(StrEnum):
    """What was done when an obligation was due: its handler ran, or an alert was given."""

    HANDLED = "handled"
    ALERTED = "alerted"


class OwedRow(NamedTuple):
    """An obligation, as first recorded; times are in seconds since 1970, on the store's clock.

    `to` and `scope` are scopes. `tool` is the tool that fulfils it, "" for none. `payload` is JSON: its text, and the
    arguments that a fulfilling call has. `position` is the place of the next effect in its transaction.
    """

    id: str
    name: str
    attempt: int
    run: str
    position: int
    to: str
    tool: str
    scope: str
    payload: str
    at: float
    due: float


class OwedChange(NamedTuple):
    """News of an obligation; a field that is None leaves what is recorded unchanged.

    `fulfilled` is the key of the effect that does it. `note` is prose.
    """

    id: str
    at: float
    fulfilled: str | None = None
    waived_by: str | None = None
    note: str | None = None
    told: Told | None = None


class RecordedOwed(NamedTuple):
    """An obligation as recorded, with what its state is derived from: its transaction's state."""

    row: OwedRow
    fulfilled: str | None = None
    fulfilled_at: float | None = None
    waived_by: str | None = None
    waived_at: float | None = None
    note: str | None = None
    told: Told | None = None
    told_at: float | None = None
    committed: State | None = None
    reason: Reason | None = None

    @property
    def state(self) -> OwedState:
        """What it is now."""
        if self.waived_by is not None:
            return OwedState.WAIVED
        if self.committed in (State.ABORTING, State.ABORTED):
            return OwedState.VOID
        if self.committed is not None and self.committed not in DECIDED:
            return OwedState.PENDING
        if self.reason is Reason.REWOUND:
            return OwedState.WITHDRAWN
        return OwedState.OPEN if self.fulfilled is None else OwedState.FULFILLED


class Lapse(NamedTuple):
    """What an effect owes for what it got until a time: that `tool` is called by then; `due` None: nothing any more.

    `payload` is JSON, as an obligation's. A lapse is known by the key of its effect: see `lapse_id`.
    """

    due: float | None
    to: str = ""
    tool: str = ""
    scope: str = ""
    payload: str = "{}"


def lapse_id(key: str) -> str:
    """Return the id of the obligation that an effect opens: one for each effect."""
    return hashlib.sha256(f"{key}/lapses".encode()).hexdigest()[:_DIGITS]


class OwedPage(NamedTuple):
    """Which obligations are asked for: all conditions hold at once.

    `unended` leaves out what is fulfilled or waived, without looking at it; `untold` also what was dealt with when it
    was due.
    """

    id: str | None = None
    tools: tuple[str, ...] | None = None
    run: str | None = None
    to: str | None = None
    due_before: float | None = None
    unended: bool = False
    untold: bool = False


def is_on(page: OwedPage, found: RecordedOwed) -> bool:
    """Whether an obligation is on a page."""
    row = found.row
    return (
        page.id in (None, row.id)
        and (page.tools is None or row.tool in page.tools)
        and page.run in (None, row.run)
        and page.to in (None, row.to)
        and (page.due_before is None or row.due < page.due_before)
        and not (page.unended and is_ended(found))
        and not (page.untold and found.told is not None)
    )


class Debts(Protocol):
    """The obligations of a book."""

    def find(self, page: OwedPage) -> list[RecordedOwed]:
        """Return the obligations of a page, those due first at the front."""
        ...


def due_first(found: Iterable[RecordedOwed]) -> list[RecordedOwed]:
    """Return obligations in the order in which they are due; of those due together, the one opened first leads."""
    return sorted(found, key=lambda each: (each.row.due, each.row.at, each.row.id))


def is_ended(found: RecordedOwed) -> bool:
    """Whether an obligation is fulfilled or waived."""
    return found.fulfilled is not None or found.waived_by is not None


def stands(found: RecordedOwed) -> bool:
    """Whether an obligation keeps its transaction on record, however old that is."""
    return found.state in (OwedState.OPEN, OwedState.PENDING)


__all__ = [
    "DECIDED",
    "GONE",
    "PAYLOAD_BYTES",
    "Debts",
    "Lapse",
    "OwedChange",
    "OwedPage",
    "OwedRow",
    "OwedState",
    "RecordedOwed",
    "Told",
    "due_first",
    "is_on",
    "lapse_id",
    "stands",
]
