"""Steps as one transaction of the store: what they decide and what they record is there together, or not at all.

The log's head is locked, the steps that others took are taken, then this process's own, the entry is appended with
the rows that belong to it, and all is committed. So every process decides on the same state.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from settlemark._edges.errors import InternalError, LedgerError, SettlemarkError
from settlemark._edges.wording import is_a
from settlemark._observe.logs import quote_of
from settlemark._protocol.commands import Command, TellTime
from settlemark._protocol.holdings import Ticket, fire
from settlemark.ledger._failures import explain
from settlemark.ledger._lease import Lease, StoreTime, Watch
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._replica.enrolment import Enrolment
from settlemark.ledger._replica.journal import written
from settlemark.ledger._replica.replica import UNREADABLE, Replica
from settlemark.ledger._replica.shared_log import SharedLog
from settlemark.ledger._replica.step_queue import QueuedStep, StepQueue
from settlemark.ledger._sql.connection import Connection
from settlemark.ledger._sql.other_workers import Others
from settlemark.ledger._sql.wire import Unsent, Wire

_log = logging.getLogger("settlemark")

_PLAINER = 2
"""How often a step without a caller may be refused for its own sake: as it is, and with its texts made plain."""
_NOT_WRITTEN = (UnicodeError, OverflowError)
"""What a step raises that asks the store with what that cannot hold: it refuses nothing."""


class SpoiltError(Exception):
    """A step that has moved something cannot be taken for its own sake: nothing of its transaction may stay.

    Attributes:
        item: the step.
        error: why it cannot be taken.
        named: the keys that it was about.
    """

    def __init__(self, item: QueuedStep, error: Exception, named: list[str]) -> None:
        super().__init__(error)
        self.item = item
        self.error = error
        self.named = named


class Taken(NamedTuple):
    """What a transaction did before its commit: its entry, each step's failure or value, and tickets to wake."""

    number: int
    outcomes: list[tuple[BaseException | None, Any]]
    woken: list[Ticket]


class StoreTransaction:
    """The transactions of this process, one after the other.

    Args:
        connection: to the store.
        replica: the protocol that the steps move.
        log: the shared log.
        lease, enrolment: renewed with a transaction when it is time.
        others: told that a step is taken.
        watch: what is known of the others' leases.
        queue: says which steps are over; takes what is to be done later.

    Attributes:
        payloads: how payloads are recorded.
        time: the store's time.
        taken: what the open transaction, or the last one, did; None before its commit is sent.
        silence: why it is not known what became of the last transaction, if so.
        tells_time: whether the replica is told the store's time.
        enrols: whether a transaction renews the lease.
    """

    def __init__(
        self,
        connection: Connection,
        replica: Replica,
        log: SharedLog,
        lease: Lease,
        *,
        enrolment: Enrolment,
        others: Others,
        watch: Watch,
        queue: StepQueue,
    ) -> None:
        self.payloads = Packer()
        self.time = StoreTime(lease)
        self.taken: Taken | None = None
        self.silence: BaseException | None = None
        self.tells_time = self.enrols = True
        self._connection = connection
        self._replica = replica
        self._log = log
        self._lease = lease
        self._enrolment = enrolment
        self._others = others
        self._watch = watch
        self._queue = queue
        self._at = 0
        self._book: SqlBook | None = None  # of the transaction that is open, or has failed
        driver: Any = connection.engine.dialect.loaded_dbapi
        self._not_a_steps: tuple[type[Exception], ...] = (SQLAlchemyError, driver.Error, Unsent)

    def take(self, items: list[QueuedStep]) -> None:
        """Take steps in one transaction; those that only look write and lock nothing."""
        self.taken = None
        if self._replica.applied >= 0 and not self._replica.repairs and all(item.looks for item in items):
            self._look(items)
        else:
            self._write(items)

    def _write(self, items: list[QueuedStep]) -> None:
        replica, protocol = self._replica, self._replica.protocol
        wire = self._connection.opened()
        began = self._lease.now()
        wire.begin(durable=any(item.durable for item in items))
        number = self._lock_head(wire)
        with wire.holding(replica.lock):
            book = self._new_book(wire, number - 1)
            if number != replica.applied + 1:
                replica.catch_up(wire, number - 1)
                book.worker = self._lease.worker
            journal: list[Command] = []
            board = protocol.board
            before = board.time
            if self.tells_time:
                board.time = self._at
            protocol.journal = journal
            self._book, replica.tried = book, journal
            try:
                for repair in replica.repairs:
                    repair(protocol)
                steps = [written(journal)] if journal else []
                outcomes = [self._one(item, book, steps) for item in items]
            finally:
                protocol.journal = None
            if not journal:
                board.time = before
            elif board.time != before:
                steps.insert(0, written([TellTime(board.time)]))
            woken = list(board.take_woken())
        book.entries.seal(book.named)
        book.flush()
        self._log.append(wire, number, self._lease.worker, f"[{','.join(steps)}]")
        renews = self.enrols and (self._lease.is_older(1 / 6) or self._watch.is_due())
        if renews:
            self._enrolment.renew(wire, book, replica.applied)
        replica.write_image(wire, number)
        if steps:
            self._others.tell(wire)
        self.taken = Taken(number, outcomes, woken)
        wire.commit()
        replica.wrote(number)
        if renews:
            self._lease.renewed(began)
        if book.looked is not None:
            self._watch.look(book.looked)

    def _look(self, items: list[QueuedStep]) -> None:
        """Take steps that change nothing: what others took is taken first, and nothing is written or locked."""
        replica = self._replica
        wire = self._connection.opened()
        wire.begin_to_read()
        number = self._log.head(wire)
        with wire.holding(replica.lock):
            if number != replica.applied:
                replica.catch_up(wire, number)
            book = self._new_book(wire, number)
            self._book, replica.tried = book, []
            outcomes = [] if replica.repairs else [self._one(item, book, []) for item in items]
            woken = [] if replica.repairs else list(replica.protocol.take_woken())
        wire.commit()
        if replica.repairs:  # the store has gone back: what is to be done about that is written first
            self._write(items)
        else:
            self.taken = Taken(number, outcomes, woken)

    def _new_book(self, wire: Wire, behind: int) -> SqlBook:
        book = SqlBook(wire, self._log.namespace, self._lease.worker, self.payloads, self._watch)
        book.behind, book.purse.used, book.entries.used = behind, self._log.budgets, self._log.decisions
        book.debts.used = bool(self._replica.protocol.tools.owed)
        return book

    def _lock_head(self, wire: Wire) -> int:
        number, at = self._log.lock_head(wire)
        self.time.told(at)
        self._at = int(at)
        return number

    def _one(self, item: QueuedStep, book: SqlBook, steps: list[str]) -> tuple[BaseException | None, Any]:
        """Take one step, unless its caller has left, and keep what is to be undone if the step is not taken."""
        with self._queue.marking:
            if item.over:
                return None, None
            item.taking = True
        before = len(book.rollbacks)
        try:
            return self._encoded(item, book, steps)
        finally:
            item.rollbacks = book.rollbacks[before:]
            self._roll_back_if_over(item)

    def _roll_back_if_over(self, item: QueuedStep) -> None:
        """Undo a step's changes to this process if its caller left meanwhile."""
        if item.over:
            item.roll_back()

    def _encoded(self, item: QueuedStep, book: SqlBook, steps: list[str]) -> tuple[BaseException | None, Any]:
        """Take one step, and encode what it did before any other's: all that is its own fault shows here.

        A refusal is an answer, and what it has moved stays. Of what cannot be written nothing may stay: then the
        transaction is begun anew without it.
        """
        protocol, journal, before = self._replica.protocol, self._replica.tried, len(self._replica.tried)
        book.entries.touched.update(book.named)
        kept, book.short_ascii, book.named = book.written, item.refused > 0, {}
        protocol.fault = None
        refusal: Exception | None = None
        value: Any = None
        try:
            try:
                value = item.step(protocol, book)
            except LedgerError:
                raise
            except self._not_a_steps:
                raise
            except Exception as error:
                if is_a(error, _NOT_WRITTEN) or (item.answer is None and not is_a(error, SettlemarkError)):
                    raise  # with nobody to tell, it is tried again
                if protocol.fault is not None:
                    raise  # no replica could take that again
                refusal = error
            if len(journal) > before:
                steps.append(written(journal[before:]))
        except self._not_a_steps:
            raise  # the store's, or another step's
        except Exception as error:
            spoilt = SpoiltError(item, error, list(book.named))
            if len(journal) != before or book.written != kept:
                raise spoilt from error
            if item.answer is not None:
                return explain(self._connection.url, error) if is_a(error, LedgerError) else error, None
            self.refuse(item, spoilt)
            return (None, None) if item.over else self._encoded(item, book, steps)
        return refusal, value

    def refuse(self, item: QueuedStep, error: Exception) -> None:
        """Refuse a step that cannot be taken for its own sake; a step without a caller is tried with plainer texts."""
        cause = error.error if isinstance(error, SpoiltError) else error
        if item.answer is not None:
            item.over = True
            told = cause if is_a(cause, InternalError) else explain(self._connection.url, cause)
            item.answer.answer(None, told)
            return
        item.refused += 1
        named = error.named if isinstance(error, SpoiltError) else []
        if item.refused < _PLAINER:
            _log.warning("a step is recorded with plainer texts: %s", quote_of(cause), extra=self._lease.about())
            return
        item.over = True
        _log.critical(
            "what became of %s could not be recorded, and is not: %s; look at it by hand",
            ", ".join(named) or "a step",
            quote_of(cause),
            extra=self._lease.about(keys=named),
        )

    # ---- when the store does not take it

    def undo(self, items: list[QueuedStep]) -> None:
        """Take back what a transaction that was not committed has done in this process; whom it woke looks again."""
        book, self._book = self._book, None
        with self._replica.lock:
            if book is not None:
                book.roll_back()
            for item in items:
                item.taking, item.rollbacks = False, []
        if self.taken is not None:
            fire(self.taken.woken)

    def delivered(self) -> None:
        """Forget a transaction that the store has taken."""
        self._book = None
        self._replica.delivered()

    def find_out(self, *, transient: bool) -> bool | None:
        """Put the replica into the state of the store, and return whether the last transaction was committed after all.

        An answer may be lost like any other: the log says whether its entry is there, once the server is done with
        that transaction, which has the log's head locked until then. None: the commit was sent, with no answer.
        While the store cannot be read, nothing of the replica is believed, and the next step tries again.
        """
        self._connection.let_go()
        taken, worker = self.taken, self._lease.worker
        unsure = taken is not None and not transient  # the store itself has said that it took none of it
        try:
            wire = self._connection.opened()
            if unsure and not self._connection.is_file:
                wire.begin(durable=False)
                self._log.await_head(wire)
            else:
                wire.begin_to_read()
            with wire.holding(self._replica.lock):
                repairs = self._replica.begin_anew(wire)
                woken = list(self._replica.protocol.take_woken())
            writer = self._log.writer(wire, -1 if taken is None else taken.number)
            wire.commit()
        except BaseException as error:
            self._replica.applied, self.silence = UNREADABLE, error
            self._connection.let_go()
            return None if unsure else False
        if repairs and not transient:
            self._replica.repairs += repairs
            self._queue.later(lambda _protocol, _book: None)
        fire(woken)
        return writer == worker


__all__ = ["SpoiltError", "StoreTransaction", "Taken"]
