"""A replica of the protocol that several processes keep equal through one log in a SQL store.

A step is taken in one transaction of the store: lock the log's head, take the steps that others took
since, take one's own, append it with the rows that belong to it, commit. So a decision and its record
are one, and every process decides on the same state. Whoever waits for an answer does the work that is
queued, all of it in one commit (flat combining): callers share commits, and a lone one needs no thread.

Sources: shared-log replication (Tango, SOSP 2013), flat combining (Hendler et al. 2010), the effect log
that Atomix §4 asks of a distributed version.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from math import inf
from queue import Empty
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from settlemark._acts.requests import Pending
from settlemark._edges.errors import InternalError, LedgerError, SettlemarkError
from settlemark._edges.wording import by_reader, message_of
from settlemark._model.json_text import encode_ascii
from settlemark._observe.logs import about, quote_of
from settlemark._protocol.commands import Bury, Command, TellTime
from settlemark._protocol.holdings import Ticket, fire
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason
from settlemark.ledger._acts import Acts, when_there
from settlemark.ledger._contract import Book, Step
from settlemark.ledger._failures import explain, is_gone, is_passing
from settlemark.ledger._forking import Origin
from settlemark.ledger._lease import QUARANTINE_SECONDS, Lease, StoreTime, Watch, bury
from settlemark.ledger._limits import Limit, is_late, patience, within
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._record import tables as t
from settlemark.ledger._record.book import SqlBook
from settlemark.ledger._replica.image import Own, detach, image, load
from settlemark.ledger._replica.journal import read, replay, written
from settlemark.ledger._sql.listening import NOTIFY, Ear
from settlemark.ledger._sql.sqlite import opened_file
from settlemark.ledger._sql.wire import Statement, Unsent, Wire, wire_to
from settlemark.ledger._urls import shown
from settlemark.ledger._workers import retire, worker_name

_log = logging.getLogger("settlemark")

BATCH = 512
EPOCHS = 1 << 20
"""Epochs left out when a process joins: those it might have lost with the power are never given again."""
LINGER_SECONDS = 0.001
LINGER_MOST_SECONDS = 0.008
"""For how long what nobody waits for may stay where callers take it along, the longer the busier they are."""
RETRY_SECONDS = 0.25
LOOK_OFTEN_SECONDS = 0.005
LOOK_SECONDS = 0.05
TRIES = 5
NEVER = -1
"""What has been applied to a replica that has not joined yet."""
UNREADABLE = -2
"""What has been applied to a replica that cannot be put into the state of its store."""
IMAGE_EVERY = 1_000
_PLAINER = 2
"""How often a step that nobody waits for may be refused for its own sake: as it is, and with its texts made plain."""
_NOT_WRITTEN = (UnicodeError, OverflowError)
"""What a step raises that asks the store with what that cannot hold: it refuses nothing."""
_NOT_BOUND = ("binding", "cannot adapt", "not supported")
"""What drivers say of a value that is of no kind they know."""
PATIENCE_SECONDS = 30.0
LAST_LOOK_SECONDS = 0.25
"""What a store is given that has been silent for too long, to say what became of the last step."""
SLICE_SECONDS = 0.5
FORK_SECONDS = 5.0
IN_DOUBT = (
    "whether this step was recorded is not known yet: it is found out, and what was begun is brought to its end, when"
    " the store answers again; do not repeat it under another name"
)


class _Answer(Pending):
    """The answer to a queued step.

    Attributes:
        item: the step; who gives it up says so there.
        limit: until when it is waited for.
    """

    __slots__ = ("_shared", "item", "limit")

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self.item: _Item | None = None
        self._shared = shared
        self.limit = shared.limited(shared.patience)

    def within(self, seconds: float) -> None:
        """Give the step up when the store has not taken it in so many seconds (or the least it is given)."""
        self.limit = self._shared.limited(patience(seconds))

    @property
    def remaining(self) -> float:
        """The seconds for which it is waited for."""
        return self.limit.remaining()

    def lead(self) -> None:
        """Do in this thread what is queued up to it, unless another thread does so already.

        Whoever is interrupted here leaves at once: the step is taken by then, or never is, or is in doubt.
        """
        try:
            while not self.done:
                if self.remaining <= 0:
                    self.give_up()
                elif self._shared.is_led:
                    self._wait()
                else:
                    self._shared.lead(self)
        except BaseException:
            self.give_up()
            self.hurry()  # it may have been this thread's turn to lead
            raise

    def _wait(self) -> None:
        woken = self.woken()
        self._shared.waiting.append(self)
        if self._shared.is_led:  # else whoever led may have seen nobody wait
            with suppress(Empty):
                woken.get(timeout=max(0.0, min(self.remaining, SLICE_SECONDS)))

    def hurry(self) -> None:
        """Ask another thread to take the step."""
        self._shared.hurry()

    def answer(self, value: Any, error: BaseException | None = None) -> None:
        """Let it be there."""
        self.item = None  # which has this answer: neither is to keep the other
        super().answer(value, error)

    def give_up(self) -> None:
        """Wait no longer: a step that is not begun never is, and of one that is being taken nobody knows yet."""
        self._shared.give_up(self)


class _Item:
    """A step in the queue; with nobody to answer to, it is tried until it is taken.

    Attributes:
        looks: it changes nothing: where all that is taken with it only look, too, nothing is written.
        over: it was taken, or somebody was told that it is not, or has left: it is not taken any more.
        refused: how often it could not be taken for its own sake.
        taking: it was done in the transaction that is open, or that nobody knows the end of.
        regrets: what is to be undone in this process when it turns out not to be taken, or nobody is there to go on.
    """

    __slots__ = ("answer", "durable", "looks", "over", "refused", "regrets", "step", "taking")

    def __init__(self, step: Step[Any], answer: _Answer | None, *, durable: bool, looks: bool = False) -> None:
        self.step = step
        self.answer = answer
        self.durable = durable
        self.looks = looks
        self.over = self.taking = False
        self.refused = 0
        self.regrets: list[Callable[[], object]] = []


class _Spoilt(Exception):
    """A step that has moved something cannot be taken for its own sake: nothing of its transaction may stay."""

    def __init__(self, item: _Item, error: Exception, named: list[str]) -> None:
        super().__init__(error)
        self.item = item
        self.error = error
        self.named = named


class Shared:
    """The inside of a SQL ledger: a connection, a replica, and the steps that wait for both.

    Attributes:
        protocol: the replica, guarded by `lock`.
        payloads: how payloads are recorded.
        leading: held by the one thread that takes steps.
        worker: this process's name in the store; a new one after its lease was lost.
        own: this worker's lease.
        watch: what is known of the others'.
        acts: what of this process is out in the world.
        time: the store's time.
        patience: seconds in which the store must have answered, where nobody says another number.
        stalled: whether somebody has given up waiting for the store, and it has not answered since.
    """

    tells_time = True
    enrols = True

    _forking = False
    _acknowledged = 0  # the last entry that the store is known to have had
    _former: tuple[str, ...] = ()  # the names that this worker had

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
        self.patience = patience(wait)
        self.limit = Limit()  # of whoever leads
        self.origin = Origin()
        self.stalled = False
        self._limbo: list[_Item] | None = None
        self._silence: BaseException | None = None
        self.engine = engine
        self.url = url
        self.namespace = namespace
        self.lease = lease
        self.protocol = Protocol()
        self.protocol.board.closed = []
        self.payloads = Packer()
        self.lock = threading.Lock()
        self._marking = threading.Lock()  # shorter still: who waits leaves, whatever a step does meanwhile
        self.leading = threading.Lock()
        self.wake = threading.Event()
        self.worker = worker_name()
        self.own = Lease(lease, monotonic)
        self.watch = Watch(monotonic, quarantine=quarantine)
        self.acts = Acts()
        self.acts.on_back = when_there(weakref.WeakMethod(self._lay))
        self._told_time = StoreTime(self.own)
        self.time = store_clock or self._told_time
        self.others = self.listeners = 0
        self.waiting: deque[_Answer] = deque()
        self.idle = False
        self._led = self._crowded = False
        self._at = 0
        self.on_abort: Callable[[], None] | None = None
        self.on_lost: Callable[[str, int], None] | None = None
        self._lost: list[tuple[str, int]] = []
        self.applied = NEVER
        self.taken = 0
        self._written: tuple[int, list[tuple[BaseException | None, Any]], list[Ticket]] | None = None
        self.hurried = self.failing = False
        self._book: SqlBook | None = None  # of the transaction that is open, or has failed
        self._tried: list[Command] = []  # the commands of that transaction
        self._amends: list[Callable[[Protocol], None]] = []
        self._notifies = engine.dialect.name == "postgresql"
        self._dbapi: Any = engine.dialect.loaded_dbapi
        self.store_errors: tuple[type[Exception], ...] = (SQLAlchemyError, self._dbapi.Error, LedgerError)
        self._not_a_steps: tuple[type[Exception], ...] = (SQLAlchemyError, self._dbapi.Error, Unsent)
        self._queue: deque[_Item] = deque()
        self._wire: Wire | None = None
        self._ear: Ear | None = None
        self._imaged = 0

    def listen(self, change: int) -> None:
        """Count those who wait for what other processes do; the first one has them listened to."""
        with self.lock:
            self.listeners += change
            if self._notifies and change > 0 and self.others and self._ear is None:
                self._ear = Ear(self.engine, self.namespace, self.wake)
                self._ear.start()
        if change > 0 and self.others:
            self.wake.set()

    # ---- what callers do

    def submit(self, step: Step[Any], *, durable: bool, looks: bool = False) -> _Answer:
        """Queue a step whose answer somebody waits for, until the store has had its time."""
        answer = _Answer(self)
        item = answer.item = _Item(step, answer, durable=durable, looks=looks)
        self._queue.append(item)
        return answer

    def limited(self, seconds: float) -> Limit:
        """Return the limit of a wait that begins now; when the replica is to be closed, a silent store gets little."""
        limit = Limit()
        silent = self.stalled and self.limit.closing < inf
        limit.begin(time.monotonic() + (LAST_LOOK_SECONDS if silent else seconds))
        limit.closing = self.limit.closing
        return limit

    def give_up(self, answer: _Answer) -> None:
        """Tell the waiting thread that the store has not answered."""
        with self._marking:
            item = answer.item
            if answer.done or item is None:
                return
            item.over = True
            if time.monotonic() - answer.limit.since >= LAST_LOOK_SECONDS:
                self.stalled = True  # else whoever waits was interrupted at once, and of the store nothing is known
            answer.answer(None, self._given_up(answer, in_doubt=item.taking))
        if item.regrets:
            with self.lock:
                self._regret(item)

    @staticmethod
    def _regret(item: _Item) -> None:
        """Take back what a step has done in this process: nobody goes on with it here."""
        while item.regrets:
            item.regrets.pop()()

    def _given_up(self, answer: _Answer, *, in_doubt: bool) -> LedgerError:
        waited = max(0.0, time.monotonic() - answer.limit.since)
        known = IN_DOUBT if in_doubt else "the step was withdrawn, so nothing was run and nothing was decided"
        advice = (
            "another program has its file locked (a backup, a shell in a transaction), or its disk hangs"
            if self.engine.dialect.name == "sqlite"
            else "the server, or the network to it, hangs"
        )
        remedy = by_reader("see to that, or raise wait=", "see to that, then give the command again")
        return LedgerError(
            f"the ledger {shown(self.url)} has not answered for {waited:.1f} s: {known}; probably {advice}: {remedy}",
            url=shown(self.url), waited=waited, in_doubt=in_doubt,
        )  # fmt: skip

    def expect_end(self) -> None:
        """Let waits for a store that does not answer end soon: the replica is to be closed."""
        self.limit.closing = min(self.limit.closing, time.monotonic())
        for answer in list(self.waiting):
            answer.limit.closing = self.limit.closing
            answer.wake()

    def later(self, step: Step[Any]) -> None:
        """Queue a step that must be taken, and that nobody waits for."""
        self._queue.append(_Item(step, None, durable=False))
        if self.idle:  # else the thread looks by itself
            self.idle = False
            self.wake.set()

    def hurry(self) -> None:
        """Wake the thread that takes what is queued."""
        self.hurried = True
        if not self.wake.is_set():
            self.wake.set()

    @property
    def is_led(self) -> bool:
        """Whether somebody takes steps, or is about to: whoever waited for the lock would not see its answer."""
        return self._led or self.leading.locked()

    def lead(self, leader: _Answer | None = None) -> None:
        """Take what is queued, in the thread that waits for `leader`, and pass the lead on."""
        self._led = True
        try:
            with self.leading:
                if leader is None or not leader.done:
                    self.limit.begin(time.monotonic() + self.patience if leader is None else leader.limit.at)
                    with within(self.limit):
                        self._gather()
                        self.take_queued(leader)
        finally:
            self._led = False
            self.pass_on()

    def pass_on(self) -> None:
        """Let one of the threads that wait for their answers lead."""
        while self.waiting:
            try:
                answer = self.waiting.popleft()
            except IndexError:  # another who led was faster
                return
            if not answer.done:
                answer.wake()
                return

    @property
    def queued(self) -> int:
        """How many steps wait."""
        return len(self._queue)

    @property
    def owns_some(self) -> bool:
        """Whether a transaction of this worker is unfinished."""
        return any(txn.owner == self.worker for txn in list(self.protocol.live.values()))

    @property
    def pace(self) -> float:
        """How long the thread may sleep, in seconds."""
        if self.listeners and self.others:
            return LOOK_OFTEN_SECONDS if self._ear is None else LOOK_SECONDS
        return LOOK_SECONDS if self.others else min(self.lease / 3, 1.0)

    def is_fresh(self) -> bool:
        """Whether the lease surely lasts for a third of it yet: an act that begins now is over before it ends."""
        return self.own.is_fresh()

    def is_due(self) -> bool:
        """Whether the lease must be renewed, or the others be looked at."""
        return self.own.is_older(1 / 3) or self.watch.is_due()

    # ---- taking steps; `leading` is held

    def _gather(self) -> None:
        """Let those who are about to queue a step do so, when there are several: they share this commit."""
        before = 0
        while self._crowded and before < len(self._queue) < BATCH:
            before = len(self._queue)
            time.sleep(0)

    def take_queued(self, leader: _Answer | None = None) -> None:
        """Take everything that is queued, in one transaction of the store; `leader` is whose thread this is."""
        items: list[_Item] = []
        try:
            silence = self._settle()
            self._raise_interrupt()
            while self._queue and len(items) < BATCH:
                items.append(self._queue.popleft())
            items = [item for item in items if not item.over]
            if items and isinstance(silence, Exception):
                self._fail(silence, items)
            elif items:
                self._take(items)
        except BaseException:
            # An interrupt from the keyboard is the leader's own: what others had queued is taken by another.
            self._put_back([item for item in items if item.answer is None or item.answer is not leader])
            self.hurry()
            raise

    def _put_back(self, items: list[_Item]) -> None:
        """Put steps back at the head of the queue, for the next leader."""
        limbo = self._limbo or ()
        left = [item for item in items if not (item.over or item in limbo)]
        self._queue.extendleft(reversed(left))

    def _settle(self) -> BaseException | None:
        """Find out what became of the last transaction, where nobody knows yet; return why not when that is so."""
        items, self._silence = self._limbo, None
        if items is None:
            return None
        committed = self._take_back(passing=False)
        if committed is None:
            return self._silence
        self._limbo = None
        if committed:
            self._deliver(items)
        else:
            self._undo(items)
            self._put_back(items)
        return None

    def _take(self, items: list[_Item]) -> None:
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
            if not isinstance(error, _Spoilt) and len(group) > 1:
                middle = len(group) // 2  # one of them is at fault, and only the store knows which
                groups.extendleft([group[middle:], group[:middle]])
                continue
            at_fault = error.item if isinstance(error, _Spoilt) else next(iter(group), None)
            if at_fault is not None and not at_fault.over:
                self._told_off(at_fault, error)
            left = [item for item in group if not item.over]
            if left:
                groups.appendleft(left)

    def _try(self, items: list[_Item]) -> Exception | None:
        """Take steps in one transaction of the store, and return what has kept them from being taken, if anything."""
        for tries_left in reversed(range(TRIES)):
            self._written = None
            try:
                if self.applied >= 0 and not self._amends and all(item.looks for item in items):
                    self._in_one_look(items)
                else:
                    self._in_one_transaction(items)
            except BaseException as raised:
                error = raised.orig if isinstance(raised, Unsent) else raised
                if isinstance(error, Exception):
                    error = opened_file(self.engine).behind(error)
                passing = is_passing(error)
                # A store that is only busy, or was given what it cannot hold, has lost nothing.
                whole = passing or (isinstance(error, Exception) and self._is_a_steps(error))
                late = is_late(error) or not isinstance(error, Exception)
                if late:  # one last look, and whoever leads leaves
                    self.limit.begin(time.monotonic() + LAST_LOOK_SECONDS)
                self._silence = None
                committed = self._take_back(passing=whole)
                if committed:
                    self._deliver(items)
                elif committed is None:
                    self._limbo = items
                else:
                    self._undo(items)
                if not isinstance(error, Exception):
                    raise
                self._raise_interrupt()
                if committed:
                    return None
                items = [item for item in items if not item.over]
                if tries_left and passing and not late and items:
                    continue
                return error
            self._deliver(items)
            return None
        raise AssertionError  # the last try returns

    def _raise_interrupt(self) -> None:
        """Raise an interrupt from the keyboard that came while the store was looked at."""
        silence = self._silence
        if silence is not None and not isinstance(silence, Exception):
            raise silence

    def _is_a_steps(self, error: Exception) -> bool:
        """Whether a transaction failed for what one of its steps is, and would not for the others."""
        if is_gone(error) or isinstance(error, InternalError):  # what others took cannot be taken here
            return False
        if isinstance(error, LedgerError) or not isinstance(error, self.store_errors):
            return True
        state: str | None = getattr(error, "sqlstate", None)
        if state is not None:
            # Bad data, a constraint, a limit (such as that of a row of an index), behind a failure of another's.
            return state[:2] in ("22", "23", "54") or state == "25P02"
        db = self._dbapi
        return isinstance(error, db.IntegrityError | db.DataError) or (
            isinstance(error, db.ProgrammingError | db.InterfaceError)
            and any(s in message_of(error) for s in _NOT_BOUND)
        )

    def _told_off(self, item: _Item, error: Exception) -> None:
        """Refuse a step that cannot be taken for its own sake; what nobody waits for is tried with plainer texts."""
        cause = error.error if isinstance(error, _Spoilt) else error
        if item.answer is not None:
            item.over = True
            item.answer.answer(None, cause if isinstance(cause, InternalError) else explain(self.url, cause))
            return
        item.refused += 1
        named = error.named if isinstance(error, _Spoilt) else []
        if item.refused < _PLAINER:
            _log.warning("a step is recorded with plainer texts: %s", quote_of(cause), extra=self._about())
            return
        item.over = True
        _log.critical(
            "what became of %s could not be recorded, and is not: %s; look at it by hand",
            ", ".join(named) or "a step", quote_of(cause), extra=self._about(keys=named),
        )  # fmt: skip

    def _deliver(self, items: list[_Item]) -> None:
        assert self._written is not None
        _, outcomes, woken = self._written
        answered = 0
        for item, (failure, value) in zip(items, outcomes, strict=True):
            item.over = True
            if item.answer is not None:
                with self._marking:
                    if not item.answer.done:  # else whoever waited has left
                        item.answer.answer(value, failure)
                answered += 1
            elif failure is not None:
                _log.error("a step could not be taken: %s", failure, exc_info=failure, extra=self._about())
        self._crowded = answered > 1
        self.failing = self.stalled = False
        self.taken += 1
        self._book, self._tried, self._amends = None, [], []
        self.protocol.board.closed = []
        fire(woken)
        self._tell_aborted()

    def _in_one_transaction(self, items: list[_Item]) -> None:
        wire = self._connected()
        began = self.own.now()
        wire.begin(durable=any(item.durable for item in items))
        number = self._lock_head(wire)
        with wire.holding(self.lock):
            book = SqlBook(wire, self.namespace, self.worker, self.payloads, self.watch)
            book.behind = number - 1
            if number != self.applied + 1:
                self._catch_up(wire, number - 1)
                book.worker = self.worker
            journal: list[Command] = []
            before = self._tell_time()
            self.protocol.journal = journal
            self._book, self._tried = book, journal
            try:
                for amend in self._amends:
                    amend(self.protocol)
                steps = [written(journal)] if journal else []
                outcomes = [self._one(item, book, steps) for item in items]
            finally:
                self.protocol.journal = None
            if not journal:
                self.protocol.time = before
            elif self.protocol.time != before:
                steps.insert(0, written([TellTime(self.protocol.time)]))
            woken = list(self.protocol.take_woken())
        book.flush()
        wire.execute(
            _APPEND,
            {"namespace": self.namespace, "n": number, "worker": self.worker, "steps": f"[{','.join(steps)}]"},
        )
        renews = self.enrols and (self.own.is_older(1 / 6) or self.watch.is_due())
        if renews:
            self._renew(wire, book)
        if number - self._imaged > IMAGE_EVERY + 2 * len(self.protocol.live):
            self._write_image(wire, number)
        if self.others and steps and self._notifies:
            wire.execute(NOTIFY, {"namespace": self.namespace})
        self._written = (number, outcomes, woken)
        wire.commit()
        self.applied = self._acknowledged = number
        if renews:
            self.own.renewed(began)
        if book.looked is not None:
            self.watch.look(book.looked)

    def _in_one_look(self, items: list[_Item]) -> None:
        """Take steps that change nothing: what others took is taken first, and nothing is written or locked."""
        wire = self._connected()
        wire.begin_to_read()
        number = int(wire.query(_HEAD, {"b_namespace": self.namespace})[0][0])
        with wire.holding(self.lock):
            if number != self.applied:
                self._catch_up(wire, number)
            book = SqlBook(wire, self.namespace, self.worker, self.payloads, self.watch)
            book.behind, self._book, self._tried = number, book, []
            outcomes = [] if self._amends else [self._one(item, book, []) for item in items]
            woken = [] if self._amends else list(self.protocol.take_woken())
        wire.commit()
        if self._amends:  # the store has gone back: what is to be done about that is written first
            self._in_one_transaction(items)
        else:
            self._written = (number, outcomes, woken)

    def _tell_time(self) -> int:
        """Tell the replica the store's time, and return the one it had."""
        before = self.protocol.time
        if self.tells_time:
            self.protocol.time = self._at
        return before

    def _one(self, item: _Item, book: SqlBook, steps: list[str]) -> tuple[BaseException | None, Any]:
        """Take one step, unless whoever waited for it has left, and have it known what is to be undone if it is not."""
        with self._marking:
            if item.over:
                return None, None
            item.taking = True
        regrets = book.regrets
        try:
            return self._encoded(item, book, steps)
        finally:
            item.regrets = book.regretted(regrets)
            self._regret_if_over(item)

    def _regret_if_over(self, item: _Item) -> None:
        """Take back what a step has done here whose caller has left while it was done."""
        if item.over:
            self._regret(item)

    def _encoded(self, item: _Item, book: SqlBook, steps: list[str]) -> tuple[BaseException | None, Any]:
        """Take one step, and have what it did encoded before any other's: all that is its own fault shows here.

        A refusal is an answer, and what it has moved stays. Of what cannot be written nothing may stay: then the
        transaction is begun anew without it.
        """
        journal, before = self._tried, len(self._tried)
        kept, book.plainly, book.named = book.written, item.refused > 0, {}
        self.protocol.fault = None
        refusal: Exception | None = None
        value: Any = None
        try:
            try:
                value = item.step(self.protocol, book)
            except LedgerError:
                raise
            except self._not_a_steps:
                raise
            except Exception as error:
                if isinstance(error, _NOT_WRITTEN) or (item.answer is None and not isinstance(error, SettlemarkError)):
                    raise  # with nobody to tell, it is tried again
                if self.protocol.fault is not None:
                    raise  # no replica could take that again
                refusal = error
            if len(journal) > before:
                steps.append(written(journal[before:]))
        except self._not_a_steps:
            raise  # the store's, or another step's
        except Exception as error:
            spoilt = _Spoilt(item, error, list(book.named))
            if len(journal) != before or book.written != kept:
                raise spoilt from error
            if item.answer is not None:
                return explain(self.url, error) if isinstance(error, LedgerError) else error, None
            self._told_off(item, spoilt)
            return (None, None) if item.over else self._encoded(item, book, steps)
        return refusal, value

    def _lock_head(self, wire: Wire) -> int:
        """Take the head of the log, and return the number of the entry that is ours to write.

        One statement that locks and bumps; what it guards is read by later statements, never by this one.
        """
        number, at = wire.query(_BUMP, {"namespace": self.namespace})[0]
        self._told_time.told(float(at))
        self._at = int(at)
        return int(number)

    # ---- keeping up with others

    def _catch_up(self, wire: Wire, upto: int) -> None:
        """Take what others took, up to this entry; the log may have been cut behind an image meanwhile."""
        rows = wire.query(_BEHIND, {"b_namespace": self.namespace, "b_n": self.applied})
        if self.applied < 0 or (rows[0][0] if rows else upto + 1) != self.applied + 1:
            whole = self.applied == NEVER or NEVER < self.applied <= upto  # whoever only fell behind has lost nothing
            amends = self._begin_anew(wire)
            if not whole:
                self._amends += amends
            return
        if rows:
            self.others = self.others or 1  # before the next renewal counts them: who waits for them looks often
        for number, steps in rows:
            self._replay(number, steps)

    def _replay(self, number: int, text: str) -> None:
        self.applied = UNREADABLE  # until all of it is taken
        commands = read(text, number)
        if Bury(self.worker) in commands:
            self._lose_lease()
        replay(self.protocol, commands, number)
        self.applied = self._acknowledged = number

    def _lose_lease(self, why: str | None = None) -> None:
        """Let go of everything: others, who thought this worker dead, bring its transactions to their end."""
        mine = [txn for txn in self.protocol.by_id.values() if txn.owner == self.worker]
        _log.error(
            "%s %s; %d unfinished transaction(s) are others' now",
            self.worker, why or f"lost its lease: it did not move for {self.lease:g} s", len(mine),
            extra=self._about(transactions=[txn.name for txn in mine]),
        )  # fmt: skip
        self._lost.append((self.worker, len(mine)))
        self._former = (*self._former, self.worker)
        for txn in mine:
            detach(self.protocol, txn, Reason.LEASE)
        self.worker = worker_name()
        self.own.lose()  # enrols the new name with the next transaction

    def _begin_anew(self, wire: Wire) -> list[Callable[[Protocol], None]]:
        """Put the replica into the state of the store: from the image, and the log behind it.

        Returns what is to be done about what the store has lost with its power.
        """
        found = wire.query(_IMAGE, {"b_namespace": self.namespace})
        number, state = found[0] if found else (0, "")
        joins = self.applied == NEVER  # then nobody has a transaction of this replica that must stay the same object
        fresh = self.protocol if joins else Protocol()
        chronicle, fresh.chronicle = fresh.chronicle, None  # what was decided before it joined is not its to tell
        load(fresh, json.loads(state) if state else _EMPTY)
        self._imaged = number
        for entry, steps in wire.query(_BEHIND, {"b_namespace": self.namespace, "b_n": number}):
            replay(fresh, read(steps, entry), entry)
            number = entry
        fresh.chronicle = chronicle
        reached, self._acknowledged = self._acknowledged, number
        if joins:
            self.applied = number
            fresh.take_aborted()  # by others, who conclude them, or long ago
            return []
        if number < reached:
            self._tell_of_loss(fresh, reached - number)
        own = Own(self.protocol, self.worker, self._tried)
        load(self.protocol, image(fresh), worker=self.worker, tried=self._tried)
        self.applied = number
        amends = own.amends(self.protocol)
        if self.own.is_held and not wire.query(_ENROLLED, self._me())[0][0]:
            self._lose_lease()
        return amends

    def _tell_of_loss(self, found: Protocol, steps: int) -> None:
        """Say that the store has gone back: of what is not on record any more nobody else can tell."""
        known = {(txn.name, txn.attempt) for txn in found.live.values()}
        mine = [txn for txn in self.protocol.live.values() if txn.owner == self.worker]
        gone = sorted(txn.name for txn in mine if (txn.name, txn.attempt) not in known)
        _log.critical(
            "the ledger %s has gone back by %d step(s) that it had acknowledged: an older copy of it was put back, or"
            " its server lost them; what they tell of stands, and is in no residue; of what was under way here %s;"
            " stop what uses it before you put back a copy, and look at by hand what was done since that was made",
            shown(self.url), steps, f"it knows nothing of {', '.join(gone)}" if gone else "it knows all",
            extra=self._about(transactions=gone),
        )  # fmt: skip

    def look(self) -> None:
        """Take the steps that others took, and none of one's own."""
        if self.applied < 0 or self._limbo is not None:
            return
        try:
            wire = self._connected()
            if not wire.changed():
                return
            wire.begin_to_read()
            head = wire.query(_HEAD, {"b_namespace": self.namespace})
            with wire.holding(self.lock):
                self._catch_up(wire, head[0][0])
                self.protocol.board.closed = []
                woken = list(self.protocol.take_woken())
            wire.commit()
        except Exception as error:  # the next step tells it to somebody
            _log.warning("%s", explain(self.url, error), extra=self._about())
            self._let_go()
            return
        fire(woken)
        self._tell_aborted()

    def _about(self, **data: Any) -> dict[str, Any]:
        return about(ledger=shown(self.url), namespace=self.namespace, worker=self.worker, **data)

    def _tell_aborted(self) -> None:
        while self._lost:
            worker, count = self._lost.pop()
            self._lay(worker)
            if self.on_lost is not None:
                self.on_lost(worker, count)
        if self.on_abort is not None and self.protocol.has_aborted:
            self.on_abort()

    def _renew(self, wire: Wire, book: SqlBook) -> None:
        """Keep the lease, and look who else is there."""
        values = {"namespace": self.namespace, "id": self.worker, "lease": self.lease, "applied": max(self.applied, 0)}
        wire.execute(_RENEW, values)
        book.worker = self.worker
        self.others = sum(not row.buried for row in book.workers())

    def _lay(self, worker: str) -> None:
        """Take a name that this worker had off the list, when nothing that it began is out any more."""
        if worker != self.worker and not self.acts.of(worker):
            self.later(lambda _protocol, book: book.strike_off([worker]))

    def _write_image(self, wire: Wire, number: int) -> None:
        """Write the state behind an entry, and drop the entries that no worker needs."""
        here = {"namespace": self.namespace, "n": number}
        try:
            state = encode_ascii(image(self.protocol))
        except Exception:  # the log is all that is needed: it grows, and nobody is refused for that
            _log.exception("no image of the protocol can be written: its log stays whole", extra=self._about())
            self._imaged = number
            return
        wire.execute(_WRITE_IMAGE, {**here, "state": state})
        needed = wire.query(_NEEDED, self._me())[0][0]
        # The image's own entry stays: it tells whoever wrote it, and lost the answer, that it was committed.
        here["n"] = min(number - 1, number if needed is None else needed)
        wire.execute(_DROP_LOG, here)
        self._imaged = number

    def _me(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "worker": self.worker}

    # ---- joining and leaving

    def join(self) -> None:
        """Take the state of the store, and leave out the epochs that might have been given and lost. Blocks."""

        def leap(protocol: Protocol, _book: Book) -> None:
            if self.applied > 0:  # else nobody was here before
                protocol.leap(EPOCHS)

        answer = self.submit(leap, durable=True)
        answer.lead()
        answer.result()

    def leave(self) -> None:
        """Take what is queued, and strike this worker off: what it left unfinished is others' at once."""
        worker = self.worker

        def go(protocol: Protocol, book: Book) -> None:
            if self.acts.of(worker):  # they may be back later than this process's end, and may not
                book.haunt(worker)
            if any(txn.owner == worker for txn in protocol.live.values()):
                bury(protocol, book, worker)
            if not self.acts.of(worker):
                book.strike_off([worker])

        answer = self.submit(go, durable=False)
        answer.lead()
        failed = answer.exception()
        if failed is not None:
            _log.warning("%s", failed, extra=self._about())
            self.own.lose()
            for name in (*self._former, worker):
                if not self.acts.of(name):
                    retire(name)

    def give_away(self) -> None:
        """Leave while acts are out: others end what was begun, and what comes of the acts is only told. Blocks."""
        worker = self.worker

        def go(protocol: Protocol, book: Book) -> None:
            book.haunt(worker)
            self._lose_lease("was closed while calls of it were out")
            bury(protocol, book, worker)

        answer = self.submit(go, durable=True)
        answer.lead()
        failed = answer.exception()
        if failed is not None:
            _log.warning("%s", failed, extra=self._about())

    # ---- when the store fails

    def _fail(self, error: Exception, items: list[_Item]) -> None:
        """Tell those who wait that nothing was decided, or is known; what nobody waits for stays queued, in its order.

        One that is only silent leaves each waiting for as long as that one has said.
        """
        self.failing = True
        if is_late(error):
            self._put_back(items)
            return
        self._put_back([item for item in items if item.answer is None])
        self._refuse(items, explain(self.url, error))

    def _refuse(self, items: list[_Item], error: LedgerError) -> None:
        in_doubt = None
        for item in items:
            if item.answer is None:
                continue
            if item.taking and in_doubt is None:
                in_doubt = LedgerError(f"{error}; {IN_DOUBT}", **error.data | {"in_doubt": True})
                in_doubt.__cause__ = error.__cause__
            with self.lock:
                self._regret(item)
            with self._marking:
                if not item.answer.done:
                    item.over = True
                    item.answer.answer(None, in_doubt if item.taking else error)
        if all(item.answer is None for item in items):
            _log.error("what was to be recorded is not yet: %s", error, extra=self._about())

    def _undo(self, items: list[_Item]) -> None:
        """Take back what a transaction that was not committed has done in this process; whom it woke looks again."""
        book, self._book = self._book, None
        with self.lock:
            if book is not None:
                book.undo()
            for item in items:
                item.taking, item.regrets = False, []
        if self._written is not None:
            fire(self._written[2])

    def _take_back(self, *, passing: bool) -> bool | None:
        """Put the replica into the state of the store, and return whether the last transaction was committed after all.

        An answer may be lost like any other: the log says whether its entry is there, once the server is done with
        that transaction, which has the log's head locked until then. None: the commit was sent, and nobody knows.
        While the store cannot be read, nothing of the replica is believed, and the next step tries again.
        """
        self._let_go()
        written, worker = self._written, self.worker
        unsure = written is not None and not passing  # the store itself has said that it took none of it
        try:
            wire = self._connected()
            if unsure and self._notifies:
                wire.begin(durable=False)
                wire.query(_LOCKED, {"namespace": self.namespace})
            else:
                wire.begin_to_read()
            with wire.holding(self.lock):
                amends = self._begin_anew(wire)
                woken = list(self.protocol.take_woken())
            here = {"namespace": self.namespace, "n": -1 if written is None else written[0]}
            found = wire.query(_WRITER, here)
            wire.commit()
        except BaseException as error:
            self.applied, self._silence = UNREADABLE, error
            self._let_go()
            return None if unsure else False
        if amends and not passing:
            self._amends += amends
            self.later(lambda _protocol, _book: None)
        fire(woken)
        return bool(found) and found[0][0] == worker

    # ---- the connection

    def _connected(self) -> Wire:
        if self._wire is None:
            # One connection for good: taking one from a pool for every commit costs more than the commit's work.
            self._wire = wire_to(self.engine)
        return self._wire

    def _let_go(self) -> None:
        """Close the connection: after an error nobody knows what state it is in."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.rollback()
            wire.close()

    def close(self) -> None:
        """Let go of the store."""
        if self._ear is not None:
            self._ear.stop()
        if self.leading.acquire(timeout=LAST_LOOK_SECONDS):  # else whoever is at the store lets go of it
            try:
                with within(LAST_LOOK_SECONDS):
                    self._let_go()
            finally:
                self.leading.release()
            self.engine.dispose()
        left = [item for item in [*self._queue, *(self._limbo or ())] if not item.over]
        if left:
            _log.error(
                "%d step(s) could not be recorded before the ledger was closed: what they tell of is in doubt, and is"
                " found out by whoever opens the ledger next",
                len(left), extra=self._about(),
            )  # fmt: skip

    # ---- a fork

    def before_fork(self) -> None:
        """Let go of a file before this process is forked: SQLite's locks are of no use to a child."""
        if self.engine.dialect.name != "sqlite" or self.origin.is_elsewhere:
            return
        self._forking = self.leading.acquire(timeout=FORK_SECONDS)
        if self._forking:
            self._let_go()
            self.engine.dispose()

    def after_fork(self) -> None:
        """Go on, in the parent."""
        if self._forking:
            self._forking = False
            self.leading.release()
            self.pass_on()

    def in_child(self) -> None:
        """Be nobody's: no lock is held by a thread that is not there, and nothing reaches the parent's store."""
        self.lock, self.leading, self.wake = threading.Lock(), threading.Lock(), threading.Event()
        self._marking = threading.Lock()
        self._led = self._forking = False
        self._queue.clear()
        self._limbo = self._ear = None
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.forget()
        self.engine.dispose(close=False)


_EMPTY = image(Protocol())
_LOCKED = Statement("SELECT n FROM settlemark_head WHERE namespace = :namespace FOR UPDATE")
_RENEW = Statement(
    "INSERT INTO settlemark_worker (namespace, id, lease_until_seconds, applied, since_seconds, beat, lease_seconds)"
    " VALUES (:namespace, :id, {clock} + :lease, :applied, {clock}, 1, :lease)"
    " ON CONFLICT (namespace, id) DO UPDATE"
    " SET lease_until_seconds = excluded.lease_until_seconds, applied = excluded.applied,"
    " beat = settlemark_worker.beat + 1"
)
_NEEDED = Statement(
    "SELECT min(applied) FROM settlemark_worker"
    " WHERE namespace = :namespace AND id <> :worker AND buried_at_seconds IS NULL"
)
_BUMP = Statement("UPDATE settlemark_head SET n = n + 1 WHERE namespace = :namespace RETURNING n, {clock}")
_HEAD = Statement(sa.select(t.heads.c.n).where(t.heads.c.namespace == sa.bindparam("b_namespace")))
_APPEND = Statement(sa.insert(t.log))
_BEHIND = Statement(
    sa.select(t.log.c.n, t.log.c.steps)
    .where(t.log.c.namespace == sa.bindparam("b_namespace"), t.log.c.n > sa.bindparam("b_n"))
    .order_by(t.log.c.n)
)
_IMAGE = Statement(sa.select(t.images.c.n, t.images.c.state).where(t.images.c.namespace == sa.bindparam("b_namespace")))
_WRITE_IMAGE = Statement(
    "INSERT INTO settlemark_image (namespace, n, state) VALUES (:namespace, :n, :state)"
    " ON CONFLICT (namespace) DO UPDATE SET n = excluded.n, state = excluded.state"
)
_ENROLLED = Statement(
    "SELECT count(*) FROM settlemark_worker WHERE namespace = :namespace AND id = :worker AND buried_at_seconds IS NULL"
)
_WRITER = Statement("SELECT worker FROM settlemark_log WHERE namespace = :namespace AND n = :n")
_DROP_LOG = Statement("DELETE FROM settlemark_log WHERE namespace = :namespace AND n <= :n")

__all__ = ["Shared"]
