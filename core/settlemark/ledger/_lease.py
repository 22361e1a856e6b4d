"""Leases: who is thought dead, and who may still be sending. The one place where silence is judged.

A worker keeps its lease by a *beat*: a number in the store that it raises. Whoever watches it looks at that number
and at its own monotonic clock, and at nothing else: no clock of another host, nor the store's, says that somebody
is dead, since each of them may be set, or stand still while a machine sleeps. A beat has stood still for a period
when the watcher itself has seen it so all the time: looks that lie too far apart (the store was away, the watcher
was stopped, or asleep) prove nothing, and the period begins anew. So nobody is buried at a first look, nor because
the store could not be reached for longer than a lease.

Who is buried may only be silent: its calls may still go out. It stays on the list as a *ghost* until it surely sends
no more: it came back and said what became of its calls, or its process ended (seen on its own host), or, elsewhere,
a quarantine is over. Until then what a probe calls absent is not believed, and whatever the ghost may be doing or
undoing keeps its scopes: its transaction does not end, so nobody reads or writes there what is yet to come, or to be
taken back. What it was only reading, and what it had not been let send, keeps nothing. A quarantine is added up from
what each watched: whoever ends before it is over leaves on record how long it has seen the ghost do nothing.

Sources: leases (Gray and Cheriton 1989); failure detectors by heartbeat counters (Aguilera et al. 1997), which need
no synchronized clocks; fencing of a lock's late holder (Kleppmann 2016).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import NamedTuple

from settlemark._model.effect_class import Outcome
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._workers import is_gone, is_here

QUARANTINE_SECONDS = 300.0
"""For how long a worker of another host that fell silent is thought to be sending: longer than clients wait."""


NOTED_SECONDS = 1.0
"""From how much more on it is on record that somebody was watched: every look would be a write."""


class Row(NamedTuple):
    """A worker as the store has it: how often its lease was renewed, and whether others have buried it."""

    worker: str
    beat: int
    lease: float
    buried: bool
    watched: float
    """Seconds for which others have watched it do nothing since then, one after the other."""


class Lease:
    """A worker's own lease: before it ends nobody else can have buried it.

    It is measured by a clock that goes on while the machine sleeps, too, where there is one.

    Args:
        seconds: its period.
        monotonic: returns seconds.
    """

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self.seconds = seconds
        self._clocks = (monotonic, *_sleepless()) if monotonic is time.monotonic else (monotonic,)
        self._renewed: tuple[float, ...] | None = None

    def now(self) -> tuple[float, ...]:
        """Return the moment, for `renewed`: to be taken before the store is asked."""
        return tuple(clock() for clock in self._clocks)

    def renewed(self, began: tuple[float, ...]) -> None:
        """Note that it was renewed by what was begun then."""
        self._renewed = began

    def lose(self) -> None:
        """Note that there is none any more."""
        self._renewed = None

    @property
    def is_held(self) -> bool:
        """Whether it was renewed at all."""
        return self._renewed is not None

    def is_older(self, share: float) -> bool:
        """Whether such a share of it is over."""
        return self._age() > self.seconds * share

    def is_fresh(self) -> bool:
        """Whether it surely lasts for a third of it yet: an act that begins now is over before it ends."""
        return self._age() < self.seconds * 2 / 3

    def _age(self) -> float:
        renewed, now = self._renewed, self.now()  # read once: another thread may lose it meanwhile
        if renewed is None:
            return float("inf")
        return max(moment - then for moment, then in zip(now, renewed, strict=True))


class _Seen:
    """What is known of one other worker: its beat, and since when it is seen to stand still."""

    __slots__ = ("beat", "buried", "lease", "moved", "since", "watched")

    def __init__(self, row: Row, since: float, *, moved: bool) -> None:
        self.beat, self.lease, self.buried, self.since, self.moved = row.beat, row.lease, row.buried, since, moved
        self.watched = row.watched


class Watch:
    """What one process has seen of the others' beats, on its own clock.

    Args:
        monotonic: returns seconds.
        quarantine: seconds for which a worker of another host that was buried may still be sending.
    """

    def __init__(self, monotonic: Callable[[], float], *, quarantine: float = QUARANTINE_SECONDS) -> None:
        self._monotonic = monotonic
        self.quarantine = quarantine
        self._seen: dict[str, _Seen] = {}
        self._last: float | None = None

    def look(self, rows: Iterable[Row]) -> None:
        """Take in what the store says of the others, after a step that wrote there: so that they could have, too."""
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
        """Whether it is time to look again, so that no look lies too far behind the last."""
        if self._last is None or not self._seen:
            return False
        return self._monotonic() - self._last > min(seen.lease for seen in self._seen.values()) / 3

    @property
    def pace(self) -> float:
        """Seconds between two looks."""
        return min((seen.lease for seen in self._seen.values()), default=float("inf")) / 3

    def undecided(self, worker: str) -> float:
        """Return for how many seconds one elsewhere is yet to be watched until it is known whether it is dead.

        0 once it was seen to move. One of this host is seen to be there.
        """
        seen = self._seen.get(worker)
        if seen is None or seen.moved or seen.buried or is_here(worker):
            return 0.0
        return max(0.0, seen.since + seen.lease - self._monotonic())

    def is_to_bury(self, row: Row) -> bool:
        """Whether a worker is to be taken for dead: its process has ended, or its beat stood still for its period."""
        return not row.buried and (is_gone(row.worker) or self._stood_still(row, row.lease))

    def is_laid(self, row: Row) -> bool:
        """Whether one that was buried surely sends nothing any more: its process has ended, or its time is over."""
        if is_here(row.worker):
            return row.buried and is_gone(row.worker)
        return row.buried and self.watched(row) >= self.quarantine

    def watched(self, row: Row) -> float:
        """Return for how many seconds, at least, one that was buried was seen to do nothing since: here, and before.

        What this process saw is added to what others had told when it began. So each second counts once, and it does
        not take a process that lives as long as the quarantine.
        """
        seen = self._seen.get(row.worker)
        if seen is None or self._last is None or not row.buried or not self._stood_still(row, 0.0):
            return row.watched
        return max(row.watched, seen.watched + self._monotonic() - seen.since)

    def may_send(self, worker: str) -> bool:
        """Whether one that has just fallen silent may still be sending: elsewhere not where there is no quarantine."""
        return self.quarantine > 0 or is_here(worker)

    def _stood_still(self, row: Row, seconds: float) -> bool:
        seen = self._seen.get(row.worker)
        if seen is None or self._last is None or (seen.beat, seen.buried) != (row.beat, row.buried):
            return False
        now = self._monotonic()
        # The look that asks is the last of those that saw it: it must not lie too far behind the others either.
        return now - self._last <= row.lease / 2 and now - seen.since >= seconds


def bury(protocol: Protocol, book: Book, worker: str) -> None:
    """Take a worker's transactions from it; of a ghost's it is put on record what it may still be sending."""
    ghosts = book.ghosts()
    running = {
        txn.id: {call.place for call in txn.calls.values() if call.admitted and not call.returned}
        for txn in protocol.live.values()
        if txn.owner == worker and worker in ghosts
    }
    for txn in protocol.bury(worker):
        recorded = book.load(txn.name) if txn.id in running else None
        if recorded is None or recorded.row.attempt != txn.attempt:
            continue
        others = ghosts - {worker}  # while one of them may be sending it, nobody else did more than wait
        out = {e.row.key for e in at_work_on(recorded, txn.state, running[txn.id]) if e.sender not in others}
        book.may_come(sorted(out), worker)
        book.may_come([e.row.key for e in recorded.effects if e.sender == worker and e.row.key not in out], None)


def at_work_on(recorded: RecordedTransaction, state: State, running: Container[int] = ()) -> list[RecordedEffect]:
    """Return the effects of a transaction that its worker may be sending, or undoing, at this very moment.

    What it has on record says so: the intent is there before an act, each outcome before the next release or undo.
    Of what is to leave any one may be the next. What is taken back by itself is `running`, by its position.
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


def haunted(recorded: RecordedTransaction, state: State, ghosts: Container[str | None]) -> list[RecordedEffect]:
    """Return the effects of an unfinished transaction that ghosts may be sending or undoing: they keep their scopes."""
    out = {State.RELEASING: (*_OUT, Outcome.QUEUED), State.ABORTING: (*_OUT, Outcome.CONFIRMED)}.get(state, _OUT)
    return [e for e in recorded.effects if e.sender in ghosts and e.tag is None and e.outcome in out]


_OUT = (Outcome.INTENDED, Outcome.UNKNOWN)


def _sleepless() -> list[Callable[[], float]]:
    """Return the clocks of this system that go on while it sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return []
    with suppress(OSError):
        time.clock_gettime(clock)
        return [lambda: time.clock_gettime(clock)]
    return []


class StoreTime:
    """The store's time, told between two of its answers by this process's own clock; it never goes back.

    Args:
        own: this process's lease, which knows its clocks.
    """

    def __init__(self, own: Lease) -> None:
        self._own = own
        self._told: tuple[float, tuple[float, ...]] | None = None

    def told(self, at: float) -> None:
        """Take in what the store says that it is."""
        self._told = at if self._told is None else max(at, self()), self._own.now()

    def __call__(self) -> float:
        """Return the time, in seconds since 1970."""
        if self._told is None:
            return time.time()
        at, since = self._told
        return at + max(now - then for now, then in zip(self._own.now(), since, strict=True))


__all__ = ["NOTED_SECONDS", "QUARANTINE_SECONDS", "Lease", "Row", "StoreTime", "Watch", "at_work_on", "bury", "haunted"]
