"""This worker on the list of those that share a store: entered, renewed, and taken off."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from settlemark._protocol.protocol import Protocol
from settlemark.ledger._acts import Acts
from settlemark.ledger._contract import Book
from settlemark.ledger._lease import Lease, bury
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._replica.step_queue import StepQueue
from settlemark.ledger._sql.other_workers import Others
from settlemark.ledger._sql.wire import Statement, Wire
from settlemark.ledger._workers import retire

_log = logging.getLogger("settlemark")


class Enrolment:
    """A worker's row in the store.

    Args:
        namespace: whose list it is.
        lease: says under which name the worker is on the list.
        acts: what of this process is out in the world: a name stays on the list while an act of it is out.
        others: the other workers on the list.
        queue: takes the steps that change the list later.

    Attributes:
        on_lost: told each name that was lost, and how many transactions went with it.
    """

    def __init__(self, namespace: str, lease: Lease, acts: Acts, others: Others, queue: StepQueue) -> None:
        self._namespace = namespace
        self._lease = lease
        self._acts = acts
        self._others = others
        self._queue = queue
        self.on_lost: Callable[[str, int], None] | None = None

    def renew(self, wire: Wire, book: SqlBook, applied: int) -> None:
        """Keep the lease, say how much of the log this worker has taken, and look who else is there."""
        worker, seconds = self._lease.worker, self._lease.seconds
        values = {"namespace": self._namespace, "id": worker, "lease": seconds, "applied": max(applied, 0)}
        wire.execute(_RENEW, values)
        book.worker = worker
        self._others.count = sum(not row.buried for row in book.workers())

    def is_entered(self, wire: Wire) -> bool:
        """Whether this worker is on the list, and others have not buried it."""
        ((entered,),) = wire.query(_ENTERED, self._me())
        return bool(entered)

    def least_applied(self, wire: Wire) -> int | None:
        """Return how much of the log each other worker has taken at least; None where there is no other."""
        ((least,),) = wire.query(_LEAST_APPLIED, self._me())
        return None if least is None else int(least)

    def remove_former(self, worker: str) -> None:
        """Remove a former name of this worker from the list once all of its calls have returned."""
        if worker != self._lease.worker and not self._acts.of(worker):
            self._queue.later(lambda _protocol, book: book.remove_workers([worker]))

    def tell_lost(self) -> None:
        """Tell which names this worker has lost."""
        while self._lease.lost:
            worker, count = self._lease.lost.pop()
            self.remove_former(worker)
            if self.on_lost is not None:
                self.on_lost(worker, count)

    def leave(self, worker: str, protocol: Protocol, book: Book) -> None:
        """Remove a worker from the list: its unfinished transactions are others' at once. A step."""
        if self._acts.of(worker):  # they may be back later than this process's end, and may not
            book.mark_zombie(worker)
        if any(txn.owner == worker for txn in protocol.live.values()):
            bury(protocol, book, worker)
        if not self._acts.of(worker):
            book.remove_workers([worker])

    def give_away(self, worker: str, protocol: Protocol, book: Book) -> None:
        """Leave the worker's transactions to others while calls of them are out. A step."""
        book.mark_zombie(worker)
        self._lease.lose(protocol, "was closed while calls of it were out")
        bury(protocol, book, worker)

    def retire_names(self, worker: str) -> None:
        """Retire this worker's names in this host, as the store failed: neighbours see that they do nothing more."""
        self._lease.lapse()
        for name in (*self._lease.former, worker):
            if not self._acts.of(name):
                retire(name)

    def _me(self) -> dict[str, Any]:
        return {"namespace": self._namespace, "worker": self._lease.worker}


_RENEW = Statement(
    "INSERT INTO settlemark_worker (namespace, id, lease_until_seconds, applied, since_seconds, beat, lease_seconds)"
    " VALUES (:namespace, :id, {clock} + :lease, :applied, {clock}, 1, :lease)"
    " ON CONFLICT (namespace, id) DO UPDATE"
    " SET lease_until_seconds = excluded.lease_until_seconds, applied = excluded.applied,"
    " beat = settlemark_worker.beat + 1"
)
_LEAST_APPLIED = Statement(
    "SELECT min(applied) FROM settlemark_worker"
    " WHERE namespace = :namespace AND id <> :worker AND buried_at_seconds IS NULL"
)
_ENTERED = Statement(
    "SELECT count(*) FROM settlemark_worker WHERE namespace = :namespace AND id = :worker AND buried_at_seconds IS NULL"
)

__all__ = ["Enrolment"]
