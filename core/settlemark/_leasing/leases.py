"""Leases from their granting to their end, each change in one step: all processes decide on the same rows.

"Not yet" is not "no longer". That a lease has ended by the store's clock does not say that its holder is gone: the
store may have been away, or all processes stopped, so that nobody could renew. So the first one who asks for a lease
that has ended only has that recorded, and is refused. From then on the holder has a grace, in which the store is known
to be there; a lease that is not renewed in it may be taken. The request is on record, so it needs no process that
watches.

A holder without its lease may still act on what it began: only the resource itself can refuse that, by the token. Each
grant has a greater one than all before, so a resource that has seen a token refuses the lesser ones.

Sources: leases (Gray and Cheriton 1989), fencing tokens (Kleppmann 2016), grace periods after a restart (NFSv4, RFC
7530, 9.6.2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from settlemark._acts.perform import Program
from settlemark._edges.errors import Fenced, LeaseHeld, LedgerError, UsageError
from settlemark._edges.text import prose
from settlemark._edges.wording import is_a
from settlemark._engine.kernel import Kernel
from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark._observe.logs import about, quote_of
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft
from settlemark.ledger._leased.rows import LeaseRow
from settlemark.ledger._payloads.unreadable import Unreadable

log = logging.getLogger("settlemark")

ENDED = "lease"
"""The kind of the entries that tell of leases that somebody has ended, and the name of their chain."""
KEPT_SECONDS = 7 * 86_400.0
"""For how many seconds a lease that has ended, and that nobody wants, stays on record."""


class Kept:
    """A lease that this process keeps renewed.

    Attributes:
        row: as it was renewed last.
        lost: why it is lost, or None.
        next: when it is to be renewed, on the store's clock.
    """

    __slots__ = ("lost", "next", "row")

    def __init__(self, row: LeaseRow) -> None:
        self.row = row
        self.lost: Fenced | None = None
        self.next = _renewal(row)

    def renewed(self, row: LeaseRow) -> None:
        """Record that it was renewed."""
        self.row, self.next = row, _renewal(row)


class Leases:
    """Grants leases, renews them, and takes them back.

    Attributes:
        on_kept: called when a lease is to be kept renewed by somebody.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._kept: dict[int, Kept] = {}
        self.on_kept: Callable[[], None] | None = None

    def time(self) -> float:
        """Return the store's time, in seconds since 1970."""
        return self._kernel.ledger.time()

    def grant(self, scope: Scope, *, holder: str, period: float, grace: float) -> Program[LeaseRow]:
        """Grant a lease.

        Raises:
            LeaseHeld: another has one that overlaps, or had it until now; nothing was granted.
        """

        def take(protocol: Protocol, book: Book) -> LeaseRow | LeaseHeld:
            now = self._kernel.ledger.time()
            over: list[LeaseRow] = []
            for row in _overlapping(book, scope):
                if row.asked is None and now >= row.until:
                    row = row._replace(asked=now)  # noqa: PLW2901 - the same lease, asked for
                    book.leases.put(row)
                if now < row.free_at:
                    return _held(scope, row, now)
                over.append(row)
            for row in over:
                book.leases.drop(row)
            book.leases.forget(now - KEPT_SECONDS)
            granted = LeaseRow(scope.text, protocol.skip_epochs(1), holder, now, now + period, period, grace)
            book.leases.put(granted)
            return granted

        answer = yield from self._kernel.step(take, durable=True)
        if isinstance(answer, LeaseHeld):
            raise answer
        return answer

    def renew(self, lease: LeaseRow) -> Program[LeaseRow]:
        """Renew a lease, also one that has ended, if nobody has taken it; return it as it is now.

        Raises:
            Fenced: it is lost.
        """

        def extend(_protocol: Protocol, book: Book) -> LeaseRow | Fenced:
            now, found = self._kernel.ledger.time(), _found(book, lease)
            if found is None:
                return _fenced(book, lease)
            row = found._replace(until=max(found.until, now + found.period), asked=None)
            book.leases.put(row)
            return row

        answer = yield from self._kernel.step(extend, durable=True)
        if isinstance(answer, Fenced):
            raise answer
        return answer

    def release(self, lease: LeaseRow) -> Program[None]:
        """Give a lease back: it is free at once.

        Raises:
            Fenced: it was lost before.
        """

        def drop(_protocol: Protocol, book: Book) -> Fenced | None:
            if _found(book, lease) is None:
                return _fenced(book, lease)
            book.leases.drop(lease)
            return None

        answer = yield from self._kernel.step(drop, durable=True)
        if answer is not None:
            raise answer

    def end(self, scope: Scope, *, by: str, because: str) -> Program[LeaseRow]:
        """End the lease on exactly this scope, any agent's, and record who has ended it, and why; return it.

        Raises:
            UsageError: nobody has a lease on it; nothing was recorded.
        """

        def end(_protocol: Protocol, book: Book) -> LeaseRow:
            row = book.leases.on(scope.text)
            if row is None:
                others = ", ".join(sorted({other.scope for other in _overlapping(book, scope)}))
                told = f"; leases that overlap it are on {others}: name one of these" if others else ""
                raise UsageError(f"nobody has a lease on {scope.text}: nothing was ended{told}; see settlemark leases")
            book.leases.drop(row)
            told = json_text.encode({"scope": row.scope, "holder": row.holder, "by": by, "because": because})
            at = self._kernel.ledger.time()
            book.entries.add(Draft(ENDED, str(row.token), ENDED, "ended", at, told))
            return row

        return (yield from self._kernel.step(end, durable=True))

    # ---- keeping them renewed

    def keep(self, lease: LeaseRow) -> Kept:
        """Keep a lease renewed until `let_go`."""
        kept = Kept(lease)
        with self._kernel.local:
            self._kept[lease.token] = kept
        if self.on_kept is not None:
            self.on_kept()
        return kept

    def let_go(self, lease: LeaseRow) -> None:
        """Renew a lease no more."""
        with self._kernel.local:
            self._kept.pop(lease.token, None)

    def until_due(self) -> float | None:
        """Return for how many seconds no lease is to be renewed; None: none is kept."""
        with self._kernel.local:
            due = [kept.next for kept in self._kept.values()]
        return max(0.0, min(due) - self._kernel.ledger.time()) if due else None

    def renew_due(self) -> Program[None]:
        """Renew the leases that are kept and of which a third is over; report once that one is lost."""
        now = self._kernel.ledger.time()
        with self._kernel.local:
            due = [kept for kept in self._kept.values() if kept.next <= now]
        for kept in due:
            try:
                renewed = yield from self.renew(kept.row)
            except Fenced as error:
                with self._kernel.local:
                    told, kept.lost = kept.lost is not None, error
                self.let_go(kept.row)
                if told:
                    continue  # by another thread
                log.error("%s", quote_of(error), extra=about(scope=kept.row.scope))  # noqa: TRY400 - no fault of ours
            except BaseException as error:
                kept.next = now + kept.row.period / 10
                if not is_a(error, LedgerError):
                    raise
                told_why = quote_of(error)
                log.warning("the lease on %s could not be renewed yet: %s", kept.row.scope, told_why, extra=about())
            else:
                kept.renewed(renewed)


def _renewal(row: LeaseRow) -> float:
    return row.until - row.period * 2 / 3


def _overlapping(book: Book, scope: Scope) -> list[LeaseRow]:
    return [row for row in book.leases.near(scope) if Scope.parse(row.scope).overlaps(scope)]


def _found(book: Book, lease: LeaseRow) -> LeaseRow | None:
    found = book.leases.on(lease.scope)
    return found if found is not None and found.token == lease.token else None


def _held(scope: Scope, row: LeaseRow, now: float) -> LeaseHeld:
    if now < row.until:
        how = f"until {_clock(row.until)}, and may renew it"
        then = "ask again later"
    else:
        how = f"until {_clock(row.until)}, and may still renew it: only now somebody asked for it"
        then = f"ask again at {_clock(row.free_at)}"
    return LeaseHeld(
        f"{scope.text} is not free: {prose(row.holder)} holds {row.scope} since {_clock(row.since)}, {how}; nothing was"
        f" granted: {then}, or see settlemark leases",
        scope=row.scope,
        holder=row.holder,
        since=row.since,
        until=row.until,
        free_at=row.free_at,
        token=row.token,
    )


def _ended_by(book: Book, lease: LeaseRow) -> str | None:
    entry = book.entries.get(ENDED, str(lease.token))
    if entry is None:
        return None
    said: dict[str, Any] = {} if isinstance(entry.body, Unreadable) else json_text.decode(entry.body)
    who, why = prose(str(said.get("by", "somebody"))), said.get("because")
    return f"{who} has ended it at {_clock(entry.at)}{f': {prose(str(why))}' if why else ''}"


def _fenced(book: Book, lease: LeaseRow) -> Fenced:
    """Return the error that says how a lease was lost: to whom, or that it ended and was forgotten or given back."""
    other = next(iter(_overlapping(book, Scope.parse(lease.scope))), None)
    has = None if other is None else f"{prose(other.holder)} holds it since {_clock(other.since)}"
    to = "; ".join(filter(None, (_ended_by(book, lease), has))) or "it is on record no more"
    return Fenced(
        f"the lease of {prose(lease.holder)} on {lease.scope} is lost: {to}; stop acting on it, and ask for it anew",
        scope=lease.scope,
        token=lease.token,
        holder=None if other is None else other.holder,
        since=None if other is None else other.since,
        current=None if other is None else other.token,
    )


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


__all__ = ["KEPT_SECONDS", "Kept", "Leases"]
