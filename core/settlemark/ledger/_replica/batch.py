"""A batch of queued steps: taken together where that is possible, and told what became of each.

No step harms another: where one of them is at fault the rest is taken without it, in the same order. Where the store
has not said what became of a batch, the batch is in doubt until the store is read again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from settlemark._edges.errors import InternalError, LedgerError
from settlemark._edges.wording import is_a, message_of
from settlemark._observe.logs import log_failure
from settlemark._protocol.holdings import fire
from settlemark.ledger._failures import explain, is_gone, is_transient
from settlemark.ledger._lease import Lease
from settlemark.ledger._limits import LAST_LOOK_SECONDS, Limit, is_late
from settlemark.ledger._replica.enrolment import Enrolment
from settlemark.ledger._replica.replica import Replica
from settlemark.ledger._replica.shared_log import SharedLog
from settlemark.ledger._replica.step_queue import QueuedStep, StepQueue
from settlemark.ledger._replica.store_transaction import SpoiltError, StoreTransaction
from settlemark.ledger._sql.connection import Connection
from settlemark.ledger._sql.sqlite import opened_file
from settlemark.ledger._sql.wire import Unsent
from settlemark.ledger._urls import shown

_log = logging.getLogger("settlemark")

BATCH = 512
TRIES = 5
_NOT_BOUND = ("binding", "cannot adapt", "not supported")
"""What drivers say of a value that is of no kind they know."""
IN_DOUBT = (
    "whether this step was recorded is not known yet: it is found out, and what was begun is brought to its end, when"
    " the store answers again; do not repeat it under another name"
)


class Batches:
    """The batches of one process, one after the other, each in the hands of the thread that leads.

    Args:
        queue: where the steps come from, and where those go back that are to be taken later.
        transaction: takes steps in the store.
        replica: the protocol that they move.
        log: the shared log.
        connection: to the store.
        lease: this worker's.
        enrolment: told of lost names.

    Attributes:
        limit: until when the leading thread waits for the store.
        in_doubt: the batch whose commit is unknown, if there is one.
        was_shared: several callers shared the last batch.
        failing: the store has failed since it last took a batch.
        stalled: a caller has given up waiting for the store, and it has taken no batch since.
        count: how many batches were taken.
        on_abort: called when others' steps may have aborted a transaction of this process.
        store_errors: what a store's failure raises.
    """

    def __init__(
        self,
        queue: StepQueue,
        transaction: StoreTransaction,
        replica: Replica,
        log: SharedLog,
        *,
        connection: Connection,
        lease: Lease,
        enrolment: Enrolment,
    ) -> None:
        self.limit = Limit()
        self.in_doubt: list[QueuedStep] | None = None
        self.was_shared = self.failing = self.stalled = False
        self.count = 0
        self.on_abort: Callable[[], None] | None = None
        self._queue = queue
        self._transaction = transaction
        self._replica = replica
        self._shared_log = log
        self._connection = connection
        self._lease = lease
        self._enrolment = enrolment
        self._driver: Any = connection.engine.dialect.loaded_dbapi
        self.store_errors: tuple[type[Exception], ...] = (SQLAlchemyError, self._driver.Error, LedgerError)

    def gather(self) -> None:
        """Let callers that are about to queue a step do so, when there are several: they share this commit."""
        before = 0
        while self.was_shared and before < len(self._queue.steps) < BATCH:
            before = len(self._queue.steps)
            time.sleep(0)

    def take_queued(self, leader: object = None) -> None:
        """Take what is queued, in one transaction of the store; `leader` is the answer that this thread waits for."""
        items: list[QueuedStep] = []
        try:
            silence = None
            if self.in_doubt is not None:
                silence = self._settle(self.in_doubt)
                self._raise_interrupt()
            while self._queue.steps and len(items) < BATCH:
                items.append(self._queue.steps.popleft())
            items = [item for item in items if not item.over]
            if items and silence is not None and is_a(silence, Exception):
                self._fail(silence, items)
            elif items:
                self._take(items)
        except BaseException:
            # An interrupt from the keyboard is the leader's own: what others had queued is taken by another.
            self._put_back([item for item in items if item.answer is None or item.answer is not leader])
            self._queue.wake_thread()
            raise

    def look(self) -> None:
        """Take the steps that others took, and none of one's own."""
        replica = self._replica
        if replica.applied < 0 or self.in_doubt is not None:
            return
        try:
            wire = self._connection.opened()
            if not wire.changed():
                return
            wire.begin_to_read()
            head = self._shared_log.head(wire)
            with wire.holding(replica.lock):
                replica.catch_up(wire, head)
                replica.protocol.board.forget_closed()
                woken = list(replica.protocol.take_woken())
            wire.commit()
        except Exception as error:  # the next step tells its caller
            _log.warning("%s", explain(self._connection.url, error), extra=self._lease.about())
            self._connection.let_go()
            return
        fire(woken)
        self._tell_aborted()

    def left(self) -> list[QueuedStep]:
        """Return the steps that are not taken: those in the queue, and those in doubt."""
        return [item for item in [*self._queue.steps, *(self.in_doubt or ())] if not item.over]

    def _put_back(self, items: list[QueuedStep]) -> None:
        """Put steps back at the head of the queue, for the next leader."""
        in_doubt = self.in_doubt or ()
        self._queue.put_back([item for item in items if item not in in_doubt])

    def _settle(self, items: list[QueuedStep]) -> BaseException | None:
        """Find out what became of a batch in doubt; return why that cannot be known yet, if so."""
        self._transaction.silence = None
        committed = self._transaction.find_out(transient=False)
        if committed is None:
            return self._transaction.silence
        self.in_doubt = None
        if committed:
            self._deliver(items)
        else:
            self._transaction.undo(items)
            self._put_back(items)
        return None

    def _take(self, items: list[QueuedStep]) -> None:
        groups = deque([items])
        while groups:
            group = groups.popleft()
            error = self._try(group)
            if error is None:
                continue
            group = [item for item in group if not item.over]
            if not self._is_a_steps(error):
                self._fail(error, [*group, *chain.from_iterable(groups)])
                return
            # No step may harm another: what shared its transaction is taken again without it, in the same order.
            if not isinstance(error, SpoiltError) and len(group) > 1:
                middle = len(group) // 2  # one of them is at fault, and only the store knows which
                groups.extendleft([group[middle:], group[:middle]])
                continue
            at_fault = error.item if isinstance(error, SpoiltError) else next(iter(group), None)
            if at_fault is not None and not at_fault.over:
                self._transaction.refuse(at_fault, error)
            left = [item for item in group if not item.over]
            if left:
                groups.appendleft(left)

    def _try(self, items: list[QueuedStep]) -> Exception | None:
        """Take steps in one transaction of the store, and return what has kept them from being taken, if anything."""
        transaction = self._transaction
        for tries_left in reversed(range(TRIES)):
            try:
                transaction.take(items)
            except BaseException as raised:
                error = raised.orig if is_a(raised, Unsent) else raised
                if is_a(error, Exception):
                    error = opened_file(self._connection.engine).behind(error)
                transient = is_transient(error)
                # A store that is only busy, or was given what it cannot hold, has lost nothing.
                whole = transient or (is_a(error, Exception) and self._is_a_steps(error))
                late = is_late(error) or not is_a(error, Exception)
                if late:  # one last look, and the thread that leads leaves
                    self.limit.begin(time.monotonic() + LAST_LOOK_SECONDS)
                transaction.silence = None
                committed = transaction.find_out(transient=whole)
                if committed:
                    self._deliver(items)
                elif committed is None:
                    self.in_doubt = items
                else:
                    transaction.undo(items)
                if not is_a(error, Exception):
                    raise
                self._raise_interrupt()
                if committed:
                    return None
                items = [item for item in items if not item.over]
                if tries_left and transient and not late and items:
                    continue
                return error
            self._deliver(items)
            return None
        raise AssertionError  # the last try returns

    def _raise_interrupt(self) -> None:
        """Raise an interrupt from the keyboard that came while the store was looked at."""
        silence = self._transaction.silence
        if silence is not None and not is_a(silence, Exception):
            raise silence

    def _is_a_steps(self, error: Exception) -> bool:
        """Whether a transaction failed for what one of its steps is, and would not for the others."""
        if is_gone(error) or is_a(error, InternalError):  # what others took cannot be taken here
            return False
        if is_a(error, LedgerError) or not is_a(error, self.store_errors):
            return True
        state: str | None = getattr(error, "sqlstate", None)
        if state is not None:
            # Bad data, a constraint, a limit (such as that of a row of an index), behind a failure of another's.
            return state[:2] in ("22", "23", "54") or state == "25P02"
        driver = self._driver
        return isinstance(error, driver.IntegrityError | driver.DataError) or (
            isinstance(error, driver.ProgrammingError | driver.InterfaceError)
            and any(said in message_of(error) for said in _NOT_BOUND)
        )

    def _deliver(self, items: list[QueuedStep]) -> None:
        """Answer the steps of a transaction that the store has taken."""
        taken = self._transaction.taken
        assert taken is not None
        answered = 0
        for item, (failure, value) in zip(items, taken.outcomes, strict=True):
            item.over = True
            if item.answer is not None:
                with self._queue.marking:
                    if not item.answer.done:  # else its caller has left
                        item.answer.answer(value, failure)
                answered += 1
            elif failure is not None:
                log_failure(
                    _log,
                    "a step could not be taken",
                    failure,
                    ledger=shown(self._connection.url),
                    worker=self._lease.worker,
                )
        self.was_shared = answered > 1
        self.failing = self.stalled = False
        self.count += 1
        self._transaction.delivered()
        if taken.woken:
            fire(taken.woken)
        self._tell_aborted()

    def _tell_aborted(self) -> None:
        self._enrolment.tell_lost()
        if self.on_abort is not None and self._replica.protocol.board.aborted:
            self.on_abort()

    def _fail(self, error: Exception, items: list[QueuedStep]) -> None:
        """Tell callers that nothing was decided, or is known; steps without a caller stay queued, in its order.

        A store that is only silent leaves each caller waiting for as long as that caller has said.
        """
        self.failing = True
        if is_late(error):
            self._put_back(items)
            return
        self._put_back([item for item in items if item.answer is None])
        self._refuse(items, explain(self._connection.url, error))

    def _refuse(self, items: list[QueuedStep], error: LedgerError) -> None:
        in_doubt = None
        for item in items:
            if item.answer is None:
                continue
            if item.taking and in_doubt is None:
                in_doubt = LedgerError(f"{error}; {IN_DOUBT}", **error.data | {"in_doubt": True})
                in_doubt.__cause__ = error.__cause__
            with self._replica.lock:
                item.roll_back()
            with self._queue.marking:
                if not item.answer.done:
                    item.over = True
                    item.answer.answer(None, in_doubt if item.taking else error)
        if all(item.answer is None for item in items):
            _log.error("what was to be recorded is not yet: %s", error, extra=self._lease.about())


__all__ = ["IN_DOUBT", "Batches"]
