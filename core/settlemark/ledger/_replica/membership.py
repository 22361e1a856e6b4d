"""This process as a member of those that share a store: it joins, looks what others do, leaves, and is forked."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import sqlalchemy as sa

from settlemark._protocol.protocol import Protocol
from settlemark.ledger._acts import Acts, when_there
from settlemark.ledger._contract import Book, Step
from settlemark.ledger._forking import Origin
from settlemark.ledger._lease import QUARANTINE_SECONDS, Lease, Watch
from settlemark.ledger._limits import LAST_LOOK_SECONDS, within
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._replica.batch import Batches
from settlemark.ledger._replica.enrolment import Enrolment
from settlemark.ledger._replica.group_commit import Answer, GroupCommit
from settlemark.ledger._replica.replica import Replica
from settlemark.ledger._replica.shared_log import SharedLog
from settlemark.ledger._replica.step_queue import StepQueue
from settlemark.ledger._replica.store_transaction import StoreTransaction
from settlemark.ledger._sql.connection import Connection
from settlemark.ledger._sql.other_workers import Others
from settlemark.ledger._urls import shown

_log = logging.getLogger("settlemark")

EPOCHS = 1 << 20
"""Epochs left out when a process joins: those that the store might have lost with its power are never given again."""
PATIENCE_SECONDS = 30.0
FORK_SECONDS = 5.0


class Member:
    """The inside of a SQL ledger: the parts by which this process shares a store.

    Args:
        engine: makes connections to the store.
        url: names the store, in errors and logs.
        namespace: keeps several users of one store apart.
        lease: seconds after which a process that does not move is thought dead.
        monotonic: returns seconds, for leases.
        quarantine: seconds for which a worker of another host that fell silent may still be sending.
        store_clock: tells the store's time in its place, for tests.
        wait: seconds in which the store must have answered, unless a call gives another number.

    Attributes:
        lease: this worker's lease, and the worker's name.
        watch: what is known of the others' leases.
        acts: what of this process is out in the world.
        others: the other workers.
        time: the store's time.
    """

    _forking = False

    def __init__(
        self,
        engine: sa.Engine,
        *,
        url: str,
        namespace: str,
        lease: float,
        monotonic: Callable[[], float],
        quarantine: float = QUARANTINE_SECONDS,
        store_clock: Callable[[], float] | None = None,
        wait: float = PATIENCE_SECONDS,
    ) -> None:
        self.origin = Origin()
        self.namespace = namespace
        self.connection = Connection(engine, url)
        self.lease = Lease(lease, monotonic, ledger=shown(url), namespace=namespace)
        self.watch = Watch(monotonic, quarantine=quarantine)
        self.acts = Acts()
        self.queue = StepQueue()
        self.others = Others(engine, namespace, self.queue.wake, alone=min(lease / 3, 1.0))
        self.enrolment = Enrolment(namespace, self.lease, self.acts, self.others, self.queue)
        self.acts.on_back = when_there(weakref.WeakMethod(self.enrolment.remove_former))
        log = SharedLog(namespace)
        self.replica = Replica(log, self.lease, self.enrolment, self.others, url)
        self.transaction = StoreTransaction(
            self.connection,
            self.replica,
            log,
            self.lease,
            enrolment=self.enrolment,
            others=self.others,
            watch=self.watch,
            queue=self.queue,
        )
        self.time = store_clock or self.transaction.time
        self.batches = Batches(
            self.queue,
            self.transaction,
            self.replica,
            log,
            connection=self.connection,
            lease=self.lease,
            enrolment=self.enrolment,
        )
        self.commits = GroupCommit(self.queue, self.batches, self.replica, self.connection, wait=wait)

    @property
    def protocol(self) -> Protocol:
        """This process's replica."""
        return self.replica.protocol

    @property
    def lock(self) -> threading.Lock:
        """Guards the replica, and what of this process belongs to it."""
        return self.replica.lock

    @property
    def payloads(self) -> Packer:
        """How payloads are recorded."""
        return self.transaction.payloads

    @property
    def worker(self) -> str:
        """The name under which this process owns its transactions."""
        return self.lease.worker

    @property
    def owns_some(self) -> bool:
        """Whether a transaction of this worker is unfinished."""
        return any(txn.owner == self.worker for txn in list(self.protocol.live.values()))

    def is_fresh(self) -> bool:
        """Whether a third of the lease is surely left: an act that begins now is over before the lease ends."""
        return self.lease.is_fresh()

    def is_due(self) -> bool:
        """Whether it is time to renew the lease, or to look at the others."""
        return self.lease.is_older(1 / 3) or self.watch.is_due()

    def submit(self, step: Step[Any], *, durable: bool, looks: bool = False, wait: float | None = None) -> Answer:
        """Queue a step whose answer its caller waits for, until the store has had its time."""
        return self.commits.submit(step, durable=durable, looks=looks, wait=wait)

    def later(self, step: Step[Any]) -> None:
        """Queue a step that must be taken, and that has no caller."""
        self.queue.later(step)

    def listen(self, change: int) -> None:
        """Count the programs that wait for what other processes do."""
        self.others.listen(change)

    # ---- joining and leaving

    def join(self) -> None:
        """Take the state of the store, and leave out the epochs that might have been given and lost. Blocks."""

        def skip_epochs(protocol: Protocol, _book: Book) -> None:
            if self.replica.applied > 0:  # else no process was here before
                protocol.skip_epochs(EPOCHS)

        answer = self.submit(skip_epochs, durable=True)
        answer.lead()
        answer.result()

    def leave(self) -> None:
        """Take what is queued, and strike this worker off: what it left unfinished is others' at once."""
        worker = self.worker
        if self._taken(partial(self.enrolment.leave, worker), durable=False) is not None:
            self.enrolment.retire_names(worker)

    def give_away(self) -> None:
        """Leave while acts are out: others end what was begun, and what comes of the acts is only told. Blocks."""
        self._taken(partial(self.enrolment.give_away, self.worker), durable=True)

    def _taken(self, step: Step[Any], *, durable: bool) -> BaseException | None:
        """Take a last step, and return why the store has not taken it, if it has not."""
        answer = self.submit(step, durable=durable)
        answer.lead()
        failed = answer.exception()
        if failed is not None:
            _log.warning("%s", failed, extra=self.lease.about())
        return failed

    def close(self) -> None:
        """Let go of the store."""
        self.others.close()
        if self.commits.leading.acquire(timeout=LAST_LOOK_SECONDS):  # else the thread at the store lets go of it
            try:
                with within(LAST_LOOK_SECONDS):
                    self.connection.let_go()
            finally:
                self.commits.leading.release()
            self.connection.engine.dispose()
        left = self.batches.left()
        if left:
            _log.error(
                "%d step(s) could not be recorded before the ledger was closed: what they tell of is in doubt, and is"
                " found out by the process that opens the ledger next",
                len(left),
                extra=self.lease.about(),
            )

    # ---- a fork

    def before_fork(self) -> None:
        """Let go of a file before this process is forked: SQLite's locks are of no use to a child."""
        if not self.connection.is_file or self.origin.is_elsewhere:
            return
        self._forking = self.commits.leading.acquire(timeout=FORK_SECONDS)
        if self._forking:
            self.connection.let_go()
            self.connection.engine.dispose()

    def after_fork(self) -> None:
        """Go on, in the parent."""
        if self._forking:
            self._forking = False
            self.commits.leading.release()
            self.queue.pass_on()

    def in_child(self) -> None:
        """Be nobody's: no lock is held by a thread that is not there, and nothing reaches the parent's store."""
        self._forking = False
        self.replica.in_child()
        self.commits.in_child()
        self.queue.in_child()
        self.batches.in_doubt = None
        self.others.in_child(self.queue.wake)
        self.connection.in_child()


__all__ = ["EPOCHS", "PATIENCE_SECONDS", "Member"]
