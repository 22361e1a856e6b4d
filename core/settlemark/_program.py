"""What every program of the driver shares: the step, the wait, and the way to the ledger."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, cast

from settlemark import _codec
from settlemark._acting import Program
from settlemark._attempt import Attempt
from settlemark._effect import Declaration, declared_as
from settlemark._errors import LedgerError, WaitTimeout
from settlemark._protocol import Protocol
from settlemark._requests import Recorded, Wait
from settlemark._scope import Scope, escape
from settlemark._states import State, Tag
from settlemark._txn import Blocked, Ticket, Txn
from settlemark.ledger._contract import Change, Ledger

log = logging.getLogger("settlemark")

EPOCH_BLOCK = 1 << 20


class _Step:
    """One step of the protocol: the lock is held inside, and who it woke is woken after."""

    __slots__ = ("_lock", "_protocol")

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._lock = threading.Lock()

    def __enter__(self) -> Protocol:
        self._lock.acquire()
        return self._protocol

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        woken = self._protocol.take_woken()
        self._lock.release()
        if woken:
            fire(woken)


def fire(tickets: Iterable[Ticket]) -> None:
    """Wake whoever waits on these tickets, or will."""
    for ticket in tickets:
        ticket.fired = True
        if ticket.wake is not None:
            ticket.wake()


class Programs:
    """The parts of a driver: a protocol that decides, a ledger that remembers, and who waits for whom.

    Args:
        protocol: decides.
        ledger: remembers.
        clock: returns seconds since 1970, for the record.
        monotonic: returns seconds, for deadlines.
        worker: this process's name in the ledger.
        declaration: finds what was declared of a tool by its name.
        on_residue: told of every transaction that left something, once.
    """

    def __init__(
        self,
        protocol: Protocol,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        worker: str,
        declaration: Callable[[str], Declaration | None] = declared_as,
        prefix: str = "",
        on_residue: Callable[[str], None] | None = None,
    ) -> None:
        self.ledger = ledger
        self.step = _Step(protocol)
        self._protocol = protocol
        self._clock = clock
        self._monotonic = monotonic
        self._worker = worker
        self._prefix = prefix
        self._declaration = declaration
        self._on_residue = on_residue
        self.warns = True  # an explorer, which aborts by the thousand, does not want to hear of each
        self.waiting: dict[Ticket, tuple[str, str, Scope]] = {}
        self._attempts: dict[Txn, Attempt] = {}
        self._names: dict[str, Attempt] = {}
        protocol.next_epoch = ledger.reserve_epochs(EPOCH_BLOCK)
        self._epoch_limit = protocol.next_epoch + EPOCH_BLOCK
        protocol.fenced.update(ledger.fences())

    def _enter(self, attempt: Attempt, txn: Txn) -> None:
        self._attempts[txn] = attempt
        self._names[attempt.name] = attempt

    def _leave(self, attempt: Attempt, txn: Txn) -> None:
        self._attempts.pop(txn, None)
        if self._names.get(attempt.name) is attempt:
            del self._names[attempt.name]

    # ---- waiting

    def _await(
        self,
        attempt: Attempt,
        ticket: Ticket,
        blocked: Blocked,
        deadline: float,
        holder: str,
        limit: float | None = None,
    ) -> Program:
        woken = False
        attempt.told_waiting = attempt.told_waiting or attempt.written
        self.waiting[ticket] = (attempt.name, holder, blocked.scope)
        if attempt.written:
            told = f"waiting for {holder}, which holds {blocked.scope}"
            # Under the lock, so that it cannot be recorded after the end of a transaction aborted just now.
            with self.step:
                if attempt.live.state in (State.OPEN, State.SEALED):
                    self._write([attempt.state_change(self._clock(), waiting=told)])
        try:
            woken = yield Wait(ticket, deadline - self._monotonic(), holder, blocked.scope.text)
        finally:
            self.waiting.pop(ticket, None)
            if not woken:
                with self.step as protocol:
                    protocol.unwatch(ticket, blocked.holder, attempt.live)
        if not woken:
            waited = attempt.wait if limit is None else limit
            raise WaitTimeout(
                f"{attempt.name} gave up after {waited:g} s waiting for {holder}, which holds {blocked.scope}:"
                " nothing was run; try again later, or raise wait=",
                transaction=attempt.name, epoch=attempt.live.epoch, holder=holder, scope=blocked.scope,
                waited=waited,
            )  # fmt: skip

    def _until_finished(self, attempt: Attempt, txn: Txn) -> Program:
        deadline = self._monotonic() + attempt.wait
        while not txn.finished:
            with self.step as protocol:
                ticket = protocol.watch(txn)
            woken = yield Wait(ticket, deadline - self._monotonic(), "a call that has not returned", "its own")
            if not woken:
                log.warning(
                    "%s is %s, but a call of it has not returned yet: it ends when that does",
                    txn.name,
                    txn.state,
                )
                return

    # ---- the ledger

    def _write(self, changes: list[Change]) -> Future[Any] | None:
        """Queue what a crash may lose, because recovery asks the counterparty anyway."""
        pending: Future[Any] | None
        try:
            pending = self.ledger.write(changes)
        except LedgerError as error:
            pending = Future[Any]()
            pending.set_exception(error)
        if pending is not None:
            pending.add_done_callback(_log_failure)
        return pending

    @staticmethod
    def _answer(value: Any) -> Program:
        if isinstance(value, Future):
            value = yield Recorded(cast("Any", value))
        return value

    def _tell_residue(self, attempt: Attempt) -> None:
        left = [e for e in attempt.effects.values() if e.tag not in (None, Tag.CLEAN)]
        if not left:
            return
        for effect in left if self.warns else ():
            note = _codec.printable(effect.note)
            log.warning("%s left %s on %s: %s", attempt.name, effect.declaration.tool, effect.scope_text, note)
        if self._on_residue is None:
            return
        try:
            self._on_residue(attempt.name)
        except Exception:  # a listener's own fault must not reach whoever settled
            log.exception("on_residue failed for %s", attempt.name)


def scope_of(run: str) -> Scope:
    return Scope.parse(f"run:/{escape(run)}")


def _log_failure(pending: Future[Any]) -> None:
    if not pending.cancelled() and pending.exception() is not None:
        log.error("an outcome could not be recorded: %s", pending.exception())
