"""A ledger in a SQL store: a face on the state that its processes share, and the thread that keeps it alive.

The thread takes steps that nobody waits for, renews the lease, and looks for other processes' steps while a caller
waits for them. SQLite runs in WAL mode with full sync: what was acknowledged survives a loss of power.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from settlemark._edges.errors import LedgerError
from settlemark._edges.shield import shielded
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._contract import Book, Step, T
from settlemark.ledger._failures import explain
from settlemark.ledger._forking import at_fork
from settlemark.ledger._lease import QUARANTINE_SECONDS
from settlemark.ledger._limits import CLOSE_SECONDS, within
from settlemark.ledger._payloads.encryption import Encryption
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._payloads.redaction import Redaction
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._record.schema import prepare
from settlemark.ledger._replica.membership import PATIENCE_SECONDS, Member
from settlemark.ledger._replica.replica import NEVER
from settlemark.ledger._sql.other_workers import LOOK_SECONDS
from settlemark.ledger._sql.postgres import postgres_engine
from settlemark.ledger._sql.sqlite import check_file, reading_engine, writing_engine
from settlemark.ledger._sql.supported import refuse_alike, supported
from settlemark.ledger._sql.wire import wire_to
from settlemark.ledger._urls import discreet, shown

LEASE_SECONDS = 30.0
LINGER_SECONDS = 0.001
LINGER_MOST_SECONDS = 0.008
"""How long a step that nobody waits for may stay where callers take it along, the longer the busier they are."""
RETRY_SECONDS = 0.25
LOOK_PATIENCE_SECONDS = 5.0


def engine_to(url: sa.URL, *, readonly: bool, create: bool) -> sa.Engine:
    """Return an engine for a store, with settings that make acknowledged commits durable."""
    if url.get_backend_name() != "sqlite":
        return discreet(postgres_engine(url))
    if not create:
        check_file(url)
    return reading_engine(url) if readonly else writing_engine(url)


def _keep(member: Member, stopped: threading.Event) -> None:
    """The thread's work; it holds no reference to the ledger."""
    queue, batches, commits, others = member.queue, member.batches, member.commits, member.others
    lingered, wait = -1, LOOK_SECONDS  # the number of commits when it began to linger
    while not stopped.is_set():
        queue.wake.wait(wait)
        queue.wake.clear()  # cleared before the queue is read: a later step sets it again
        if queue.woken or (queue.steps and batches.count == lingered):
            queue.woken = queue.idle = False
            commits.lead()
            lingered, wait = -1, RETRY_SECONDS if batches.failing else LINGER_SECONDS
            continue
        if not queue.idle and batches.count != lingered:
            # Callers take queued steps along: only steps left alone for a while are taken here.
            wait = LINGER_SECONDS if lingered < 0 or others.listeners else min(2 * wait, LINGER_MOST_SECONDS)
            lingered = batches.count
            continue
        queue.idle = True
        lingered, wait = -1, others.pace
        if queue.steps:  # from a thread that did not see this one idle
            queue.idle, wait = False, LINGER_SECONDS
        if member.is_due():
            answer = member.submit(_nothing, durable=False)
            answer.lead()
        elif others.count and (others.listeners or member.owns_some):
            with commits.leading, within(LOOK_PATIENCE_SECONDS):
                batches.look()
            queue.pass_on()


def _nothing(_protocol: Protocol, _book: Book) -> None:
    return None


class SqlLedger:
    """A ledger at a SQLAlchemy URL, such as `sqlite:///trip.db` or `postgresql+psycopg://user@host/db`.

    Args:
        url: where it is; tables are created if missing.
        namespace: keeps several users of one store apart: scopes, epochs, names and keys.
        readonly: open an existing one for reading: nothing is created or changed, and no step is taken.
        create: create it if missing.
        lease: seconds of silence after which a process is thought dead.
        wait: seconds within which the store must answer, unless a call gives another number.
        redaction, encryption: applied to payloads before they are stored.
        monotonic: returns seconds, for leases.
        quarantine: seconds for which a silent worker of another host may still be sending.
        store_clock: replaces the store's clock, for tests.

    Raises:
        LedgerError: it cannot be opened, or was written by another schema version.
    """

    immediate = False

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        readonly: bool = False,
        create: bool = True,
        lease: float = LEASE_SECONDS,
        wait: float = PATIENCE_SECONDS,
        redaction: Redaction | None = None,
        encryption: Encryption | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        quarantine: float = QUARANTINE_SECONDS,
        store_clock: Callable[[], float] | None = None,
    ) -> None:
        self.url = url
        self._readonly = readonly
        try:
            engine = engine_to(supported(url), readonly=readonly, create=create)
        except OSError as error:
            raise explain(url, error) from error
        except ModuleNotFoundError as error:
            raise LedgerError(
                f'{shown(url)!r} needs {error.name}: pip install "settlemark[postgres]"', url=shown(url)
            ) from error
        self._member = Member(
            engine,
            url=url,
            namespace=namespace,
            lease=lease,
            monotonic=monotonic,
            quarantine=quarantine,
            store_clock=store_clock,
            wait=wait,
        )
        at_fork(self._member)
        self._origin = self._member.origin
        self.protocol, self.acts, self.time = self._member.replica.protocol, self._member.acts, self._member.time
        self.is_fresh = self._member.lease.is_fresh
        self._lingers = False
        stopped = threading.Event()
        thread = threading.Thread(target=_keep, args=(self._member, stopped), name="settlemark-ledger", daemon=True)
        self._closed = weakref.finalize(self, _stop, self._member, stopped, thread, readonly)
        atexit.register(self._closed)
        try:
            with within(self._member.commits.patience):
                found = self._open(create=create)
            self.id = found["ledger"]
            self.payloads = self._member.transaction.payloads = Packer(
                redaction=redaction, encryption=encryption, salt=found.get("salt", ""), url=shown(url)
            )
            if not readonly:
                self._member.join()
                thread.start()
        except LedgerError:
            self._closed()
            raise

    def _open(self, *, create: bool) -> dict[str, str]:
        namespace = self._member.namespace
        try:
            with self._member.connection.engine.connect() as connection, connection.begin():
                refuse_alike(connection, self.url)
                return prepare(connection, self.url, namespace=namespace, readonly=self._readonly, create=create)
        except self._member.batches.store_errors as error:
            raise explain(self.url, error) from error

    @property
    def lock(self) -> threading.Lock:
        """Guards the replica and this process's own state."""
        return self._member.replica.lock

    @property
    def worker(self) -> str:
        """The name under which this process owns its transactions."""
        return self._member.lease.worker

    def undecided(self) -> float:
        """Return for how many more seconds others must be watched to know which are dead."""
        with self._member.replica.lock:
            owners = {txn.owner for txn in self._member.replica.protocol.live.values()}
        return max((self._member.watch.undecided(owner) for owner in owners), default=0.0)

    @property
    def stalled(self) -> bool:
        """Whether the store was silent for longer than a caller waited, and has not answered since."""
        return self._member.batches.stalled

    @property
    def is_closed(self) -> bool:
        """Whether this process has closed the ledger: no further step is taken here."""
        return self._lingers or not self._closed.alive

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process was forked since the ledger was opened: the ledger is then its parent's."""
        return self._origin.is_elsewhere

    def expect_end(self) -> None:
        """Limit waits for an unresponsive store to some seconds: the ledger is about to be closed."""
        self._member.commits.expect_end()

    def watch_aborts(self, told: Callable[[], None]) -> None:
        """Call a function when others' steps may have aborted a transaction of this process."""
        self._member.batches.on_abort = told

    def watch_leases(self, told: Callable[[str, int], None]) -> None:
        """Call a function when this process has lost its lease."""
        self._member.enrolment.on_lost = told

    # ---- steps

    @shielded
    def now(self, step: Step[T]) -> T:
        """Take a step and return its result. Blocks."""
        answer = self.submit(step, durable=False)
        answer.lead()
        result: T = answer.result()
        return result

    def submit(self, step: Step[T], *, durable: bool, looks: bool = False, wait: float | None = None) -> Any:
        """Queue a step after all earlier ones."""
        self._refuse_when_closed()
        return self._member.commits.submit(step, durable=durable, looks=looks, wait=wait)

    def later(self, step: Step[Any]) -> None:
        """Queue a step that is taken eventually, in its order."""
        if self._closed.alive and not self._origin.is_elsewhere:
            self._member.queue.later(step)

    @shielded
    def read(self, query: Callable[[Book], T]) -> T:
        """Return a query's result, after all earlier steps. Blocks."""
        if not self._readonly:
            return self.now(lambda _protocol, book: query(book))
        self._refuse_when_closed(writing=False)
        try:
            with within(self._member.commits.patience):
                return self._look(query)
        except self._member.batches.store_errors as error:
            raise explain(self.url, error) from error

    def _look(self, query: Callable[[Book], T]) -> T:
        wire = wire_to(self._member.connection.engine)
        try:
            wire.begin_to_read()
            book = SqlBook(wire, self._member.namespace, "", self._member.transaction.payloads)
            found = query(book)
            book.flush()
            wire.commit()
        finally:
            wire.close()
        return found

    def listen(self, change: int) -> None:
        """Look more often for other processes' steps while a caller waits."""
        self._member.others.listen(change)

    def _refuse_when_closed(self, *, writing: bool = True) -> None:
        if self._origin.is_elsewhere:
            raise self._origin.refusal(shown(self.url))
        if self.is_closed:
            raise LedgerError(
                f"the ledger {shown(self.url)} is closed: make a new Settlement", url=shown(self.url), closed=True
            )
        if writing and self._readonly:
            raise LedgerError(
                f"the ledger {shown(self.url)} was opened for reading: nothing was written", url=shown(self.url)
            )

    def close(self) -> None:
        """Take what is queued and close the store; safe to call twice, and bounded when the store is silent.

        While acts are in flight their transactions are handed over, in doubt; their outcomes are reported when they
        return, and then the store is closed.
        """
        member = self._member
        if self.is_elsewhere:
            return
        member.commits.expect_end()
        worker = member.worker
        if self._lingers:
            return
        if not (self._closed.alive and member.acts.of(worker)):
            self._closed()
            return
        self._lingers = True
        lay, close = member.acts.on_back, self._closed

        def back(name: str) -> None:
            if lay is not None:
                lay(name)
            if name == worker:
                close()

        member.acts.on_back = back
        member.give_away()
        if not member.acts.of(worker):
            close()


def _stop(member: Member, stopped: threading.Event, thread: threading.Thread, readonly: bool) -> None:
    if member.origin.is_elsewhere:
        return  # a forked child: the thread is its parent's
    member.commits.expect_end()
    stopped.set()
    member.queue.wake.set()
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(CLOSE_SECONDS + 1)
    if not readonly and member.replica.applied != NEVER:
        member.leave()
    member.close()


__all__ = ["LEASE_SECONDS", "SqlLedger"]
