"""How a worker's lease is lost: the worker falls silent, others see that and bury it, and it lets go. The one place.

A worker keeps its lease by a *beat*: a number in the store that it increments. A watcher looks at that number and at
its own monotonic clock only: no other clock, neither another host's nor the store's, can say that a worker is dead,
since any of them may be set, or stand still while a machine sleeps. A beat has stood still for a period when the
watcher itself has seen it do so all the time: looks that are too far apart (the store was away, the watcher was
stopped, or asleep) prove nothing, and the period begins anew. So nobody is buried at a first look, nor because the
store could not be reached for longer than a lease.

A buried worker may only be silent: its calls may still go out. It stays on the list as a *zombie* until it surely sends
no more: it has come back and reported its calls' outcomes, or its process has ended (seen on its own host), or,
elsewhere, a quarantine is over. Until then a probe's "absent" is not believed, and an effect that the zombie may be
doing or undoing keeps its scopes: its transaction does not end, so nobody reads or writes what is yet to come, or to be
taken back. Its reads, and calls it had not been allowed to send, keep nothing. A quarantine is the sum of the periods
that several processes watched: one that ends earlier records for how long it has seen the zombie do nothing.

Sources: leases (Gray and Cheriton 1989); failure detectors by heartbeat counters (Aguilera et al. 1997), which need no
synchronized clocks; fencing of a lock's late holder (Kleppmann 2016).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from functools import partial
from operator import sub
from typing import Any, NamedTuple

from settlemark._model.effect_class import Outcome
from settlemark._observe.logs import about
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._detached import detach
from settlemark.ledger._workers import is_gone, is_here, worker_name

_log = logging.getLogger("settlemark")

QUARANTINE_SECONDS = 300.0
"""How long a silent worker of another host is thought to be sending (seconds): longer than clients wait."""


NOTED_SECONDS = 1.0
"""How much more watching is worth recording (seconds): recording every look would be a write each."""


class Row(NamedTuple):
    """A worker as stored: how often its lease was renewed, and whether others have buried it."""

    worker: str
    beat: int
    lease: float
    buried: bool
    watched: float
    """Seconds for which others have watched it do nothing since then, added up."""


class Lease:
    """A worker's own lease: before the lease ends nobody else can have buried the worker.

    A lease is measured by a clock that runs while the machine sleeps, where there is one.

    Args:
        seconds: the period.
        monotonic: returns seconds.
        ledger, namespace: where the worker is enrolled, for the log.

    Attributes:
        worker: the name of this process in the store; a new one after the lease was lost.
        former: the names that this process had before.
        lost: the names that this process has lost and not told yet, each with how many transactions went with it.
    """

    def __init__(
        self, seconds: float, monotonic: Callable[[], float], *, ledger: str = "", namespace: str = "default"
    ) -> None:
        self.seconds = seconds
        self.worker = worker_name()
        self.former: tuple[str, ...] = ()
        self.lost: list[tuple[str, int]] = []
        self._where = {"ledger": ledger, "namespace": namespace}
        self._clocks = (monotonic, *_sleepless()) if monotonic is time.monotonic else (monotonic,)
        self._renewed: tuple[float, ...] | None = None

    def about(self, **data: Any) -> dict[str, Any]:
        """Return the `extra=` of a log call about this worker."""
        return about(**self._where, worker=self.worker, **data)

    def now(self) -> tuple[float, ...]:
        """Return the moment for `renewed`, to be taken before the store is asked."""
        return tuple([clock() for clock in self._clocks])

    def renewed(self, began: tuple[float, ...]) -> None:
        """Record that the lease was renewed by a request that began at this moment."""
        self._renewed = began

    def lapse(self) -> None:
        """Hold the lease no longer; the next transaction of the store enrols the worker."""
        self._renewed = None

    def lose(self, protocol: Protocol, why: str | None = None) -> None:
        """Let go of everything: others, who thought this worker dead, bring its transactions to their end."""
        mine = [txn for txn in protocol.by_id.values() if txn.owner == self.worker]
        _log.error(
            "%s %s; %d unfinished transaction(s) are others' now",
            self.worker,
            why or f"lost its lease: it did not move for {self.seconds:g} s",
            len(mine),
            extra=self.about(transactions=[txn.name for txn in mine]),
        )
        self.lost.append((self.worker, len(mine)))
        self.former = (*self.former, self.worker)
        for txn in mine:
            detach(protocol, txn, Reason.LEASE)
        self.worker = worker_name()
        self.lapse()

    @property
    def is_held(self) -> bool:
        """Whether the lease was renewed at all."""
        return self._renewed is not None

    def is_older(self, share: float) -> bool:
        """Whether such a share of its period is over."""
        return self._age() > self.seconds * share

    def is_fresh(self) -> bool:
        """Whether at least a third of it surely remains: an act that begins now ends before it."""
        return self._age() < self.seconds * 2 / 3

    def _age(self) -> float:
        renewed, now = self._renewed, self.now()  # read once: another thread may lose the lease meanwhile
        if renewed is None:
            return float("inf")
        return _between(renewed, now)


class _Seen:
    """What is known of one other worker: its beat, and since when it stands still."""

    __slots__ = ("beat", "buried", "lease", "moved", "since", "watched")

    def __init__(self, row: Row, since: float, *, moved: bool) -> None:
        self.beat, self.lease, self.buried, self.since, self.moved = row.beat, row.lease, row.buried, since, moved
        self.watched = row.watched


class Watch:
    """What one process has seen of the others' beats, on its own clock.

    Args:
        monotonic: returns seconds.
        quarantine: seconds for which a buried worker of another host may still be sending.
    """

    def __init__(self, monotonic: Callable[[], float], *, quarantine: float = QUARANTINE_SECONDS) -> None:
        self._monotonic = monotonic
        self.quarantine = quarantine
        self._seen: dict[str, _Seen] = {}
        self._last: float | None = None

    def look(self, rows: Iterable[Row]) -> None:
        """Record the beats of the others, after a step that wrote to the store: so that they could have, too."""
        now = self._monotonic()
        gap = float("inf") if self._last is None else now - self._last
        self._last = now
        found: dict[str, _Seen] = {}
        for row in rows:
            seen = self._seen.get(row.worker)
            still = seen is not None and (seen.beat, seen.buried) == (row.beat, row.buried) and gap <= row.lease / 2
            moved = seen is not None and (seen.moved or seen.beat != row.beat)
            found[row.worker] = seen if seen is not None and still else _Seen(row, now, moved=moved)
        self._seen = found

    def is_due(self) -> bool:
        """Whether it is time to look again, so that looks are not too far apart."""
        if self._last is None or not self._seen:
            return False
        return self._monotonic() - self._last > min(seen.lease for seen in self._seen.values()) / 3

    @property
    def pace(self) -> float:
        """Seconds between two looks."""
        return min((seen.lease for seen in self._seen.values()), default=float("inf")) / 3

    def undecided(self, worker: str) -> float:
        """Return for how many more seconds a worker elsewhere must be watched to know whether it is dead.

        0 once it was seen to move. For a worker of this host its process tells.
        """
        seen = self._seen.get(worker)
        if seen is None or seen.moved or seen.buried or is_here(worker):
            return 0.0
        return max(0.0, seen.since + seen.lease - self._monotonic())

    def is_to_bury(self, row: Row) -> bool:
        """Whether to take a worker for dead: its process has ended, or its beat stood still for its period."""
        return not row.buried and (is_gone(row.worker) or self._stood_still(row, row.lease))

    def cannot_send(self, row: Row) -> bool:
        """Whether a buried worker can send nothing more: its process has ended, or its quarantine is over."""
        if is_here(row.worker):
            return row.buried and is_gone(row.worker)
        return row.buried and self.watched(row) >= self.quarantine

    def watched(self, row: Row) -> float:
        """Return for how many seconds, at least, a buried worker was seen to do nothing, here and before.

        This process's observation is added to what others had recorded when it began. So each second counts once, and
        no process needs to live as long as the quarantine.
        """
        seen = self._seen.get(row.worker)
        if seen is None or self._last is None or not row.buried or not self._stood_still(row, 0.0):
            return row.watched
        return max(row.watched, seen.watched + self._monotonic() - seen.since)

    def may_send(self, worker: str) -> bool:
        """Whether a worker that has just fallen silent may still be sending; not without a quarantine, if elsewhere."""
        return self.quarantine > 0 or is_here(worker)

    def _stood_still(self, row: Row, seconds: float) -> bool:
        seen = self._seen.get(row.worker)
        if seen is None or self._last is None or (seen.beat, seen.buried) != (row.beat, row.buried):
            return False
        now = self._monotonic()
        # The present look is the last observation: it must not be too far from the others either.
        return now - self._last <= row.lease / 2 and now - seen.since >= seconds


def bury(protocol: Protocol, book: Book, worker: str) -> None:
    """Take a worker's transactions from it, and record the effects that a zombie may still be sending."""
    zombies = book.zombies()
    running = {
        txn.id: {call.place for call in txn.calls.values() if call.admitted and not call.returned}
        for txn in protocol.live.values()
        if txn.owner == worker and worker in zombies
    }
    for txn in protocol.bury(worker):
        recorded = book.load(txn.name) if txn.id in running else None
        if recorded is None or recorded.row.attempt != txn.attempt:
            continue
        others = zombies - {worker}  # effects that a zombie may be sending, nobody else has sent
        out = {e.row.key for e in at_work_on(recorded, txn.state, running[txn.id]) if e.sender not in others}
        book.set_sender(sorted(out), worker)
        book.set_sender([e.row.key for e in recorded.effects if e.sender == worker and e.row.key not in out], None)


def at_work_on(recorded: RecordedTransaction, state: State, running: Container[int] = ()) -> list[RecordedEffect]:
    """Return the effects of a transaction that its worker may be sending, or undoing, at this moment.

    The record shows them: the intent is there before an act, each outcome before the next release or undo. Of the held
    effects, any may be next. `running` are the positions of those undone on their own.
    """
    eager = [e for e in recorded.effects if not e.row.held]
    found = [e for e in eager if e.outcome in _OUT]
    done = [e for e in eager if e.outcome is Outcome.CONFIRMED and e.tag is None]
    found += [e for e in done if e.row.position in running]
    if state is State.RELEASING:
        found += [e for e in recorded.effects if e.row.held and e.outcome in (Outcome.QUEUED, Outcome.UNKNOWN)]
    elif state is State.ABORTING:
        found += [e for e in done[-1:] if e.row.position not in running]
    return found


def held_by_zombies(
    recorded: RecordedTransaction, state: State, zombies: Container[str | None]
) -> list[RecordedEffect]:
    """Return an unfinished transaction's effects that zombies may be sending or undoing; they keep their scopes."""
    out = {State.RELEASING: (*_OUT, Outcome.QUEUED), State.ABORTING: (*_OUT, Outcome.CONFIRMED)}.get(state, _OUT)
    return [e for e in recorded.effects if e.sender in zombies and e.tag is None and e.outcome in out]


_OUT = (Outcome.INTENDED, Outcome.UNKNOWN)


def _between(then: tuple[float, ...], now: tuple[float, ...]) -> float:
    """Return the seconds between two moments, by the clock that has gone on for longest."""
    seconds: float = max(map(sub, now, then))
    return seconds


def _sleepless() -> list[Callable[[], float]]:
    """Return the system's clocks that run while it sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return []
    with suppress(OSError):
        time.clock_gettime(clock)
        return [partial(time.clock_gettime, clock)]
    return []


class StoreTime:
    """The store's time, advanced by this process's own clock between two answers; it never goes back.

    Args:
        own: this process's lease, which knows its clocks.
    """

    def __init__(self, own: Lease) -> None:
        self._own = own
        self._told: tuple[float, tuple[float, ...]] | None = None

    def told(self, at: float) -> None:
        """Record the store's time."""
        now = self._own.now()
        if self._told is not None:
            before, since = self._told
            at = max(at, before + _between(since, now))
        self._told = at, now

    def __call__(self) -> float:
        """Return the time, in seconds since 1970."""
        if self._told is None:
            return time.time()
        at, since = self._told
        return at + _between(since, self._own.now())


__all__ = [
    "NOTED_SECONDS",
    "QUARANTINE_SECONDS",
    "Lease",
    "Row",
    "StoreTime",
    "Watch",
    "at_work_on",
    "bury",
    "held_by_zombies",
]
