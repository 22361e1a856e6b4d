"""Notices on record: what a person is to be told, by which channels, and by which it was told.

A notice is an entry of its run's chain, added in the commit of what it tells of. Its teller has it for a time: in
a process that dies meanwhile it stays to be told, and is told again under its id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from settlemark._approvals.channel import Notice
from settlemark._model import json_text
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft, Entry, Which
from settlemark.ledger._payloads.unreadable import Unreadable

KIND = "notice"
WAITING, TELLING, TOLD, DROPPED, FAILED = "waiting", "telling", "told", "dropped", "failed"
TELLING_SECONDS = 60.0
"""For how long a process that tells a notice has it, before another may."""
FIRST_PAUSE, LONGEST_PAUSE, TRIES = 30.0, 3_600.0, 12


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice on record.

    Attributes:
        notice: what is told.
        run: whose chain it is in.
        about: the key of the call that it is about; None: of none.
        left: the names of the channels by which it is still to be told.
        told: by which it was, and when, in seconds since 1970 on the store's clock.
        tries: how often it was tried in vain.
        state: `waiting`, `telling`, `told`, `dropped` (what it tells of is over), `failed`.
        version: how often it was written.
    """

    notice: Notice
    run: str
    about: str | None
    left: tuple[str, ...]
    told: Mapping[str, float]
    tries: int
    state: str
    version: int = 0

    def account(self) -> dict[str, Any]:
        """Return as JSON values who was told why, and by what, and what has failed."""
        notice = self.notice
        return {
            "id": notice.id,
            "occasion": notice.occasion,
            "to": list(notice.to),
            "at": notice.at,
            "state": self.state,
            "left": list(self.left),
            "told": dict(self.told),
            "tries": self.tries,
        }


def add_notice(
    book: Book,
    notice: Notice,
    *,
    run: str,
    channels: Iterable[str],
    name: str | None = None,
    attempt: int | None = None,
    key: str | None = None,
) -> bool:
    """Record that a notice is to be told, and return whether it was not recorded before.

    `name`, `attempt` and `key` are the transaction and the call that it is about, for retention.
    """
    row = NoticeRow(notice, run, key, tuple(channels), {}, 0, WAITING)
    draft = Draft(KIND, notice.id, run, WAITING, notice.at, _body(row), name, attempt, key, due=notice.at, open=True)
    return book.entries.add(draft).won


def _body(row: NoticeRow) -> str:
    return json_text.encode(
        {"notice": row.notice.to_json(), "left": list(row.left), "told": dict(row.told), "tries": row.tries}
    )


def notice_in(entry: Entry) -> NoticeRow | None:
    """Return a notice as recorded; None where it cannot be read here."""
    if isinstance(entry.body, Unreadable) or not entry.kept:
        return None
    said: dict[str, Any] = json_text.decode(entry.body)
    told = said["notice"]
    notice = Notice(
        told["id"], told["occasion"], tuple(told["to"]), told["subject"], told["text"], told["data"], float(told["at"])
    )
    return NoticeRow(
        notice, entry.run, entry.key, tuple(said["left"]), said["told"], int(said["tries"]), entry.state, entry.version
    )


def notices_about(book: Book, key: str) -> list[NoticeRow]:
    """Return the notices about a call that can be read here, the oldest first."""
    found = (notice_in(entry) for entry in book.entries.find(Which(KIND, key=key)))
    return [row for row in found if row is not None]


def next_notice(book: Book) -> float | None:
    """Return when the next notice is to be told; None: none is."""
    return min((entry.due for entry in _open(book, math.inf) if entry.due is not None), default=None)


def take_notices(book: Book, at: float, channels: Iterable[str]) -> list[NoticeRow]:
    """Have the caller tell what is to be told now by one of these channels; nobody else does meanwhile."""
    mine, known, taken = set(channels), _open(book, math.nextafter(at, math.inf)), list[NoticeRow]()
    for entry in known:
        row = notice_in(entry)
        if row is not None and mine & set(row.left):
            now = _write(book, row, TELLING, at, due=at + TELLING_SECONDS)
            taken += [] if now is None else [now]
    return taken


def note_told(book: Book, row: NoticeRow, at: float, channel: str) -> NoticeRow | None:
    """Record that a notice was told by a channel; return it as it is then; None: somebody else tells it by now."""
    left = tuple(name for name in row.left if name != channel)
    now = replace(row, left=left, told={**row.told, channel: at})
    return _write(book, now, TELLING if left else TOLD, at, due=at + TELLING_SECONDS if left else None)


def put_off(book: Book, row: NoticeRow, at: float) -> NoticeRow | None:
    """Record that a notice could not be told by all of its channels, and is tried again later, or no more."""
    tries = row.tries + 1
    due = None if tries >= TRIES else at + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1))
    return _write(book, replace(row, tries=tries), FAILED if due is None else WAITING, at, due=due)


def drop_notice(book: Book, row: NoticeRow, at: float) -> None:
    """Record that a notice need not be told any more."""
    _write(book, row, DROPPED, at, due=None)


def _write(book: Book, row: NoticeRow, state: str, at: float, *, due: float | None) -> NoticeRow | None:
    standing = book.entries.change(
        KIND,
        row.notice.id,
        state=state,
        at=at,
        from_version=row.version,
        body=_body(row),
        due=due,
        open=due is not None,
    )
    return replace(row, state=state, version=standing.entry.version) if standing.won else None


def _open(book: Book, before: float) -> list[Entry]:
    return book.entries.find(Which(KIND, due_before=before))


__all__ = [
    "KIND",
    "NoticeRow",
    "add_notice",
    "drop_notice",
    "next_notice",
    "note_told",
    "notice_in",
    "notices_about",
    "put_off",
    "take_notices",
]
