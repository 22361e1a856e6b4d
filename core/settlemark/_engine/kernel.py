"""What every service of a driver stands on: the step, the way to the ledger, and which attempts are here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from settlemark._acts.effect import Effect
from settlemark._acts.failure import until_answered
from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Recorded
from settlemark._approvals.terms import Approval
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.telling import Telling
from settlemark._edges.errors import LedgerError
from settlemark._engine.callers import Callers
from settlemark._engine.wait import Waits
from settlemark._model import identity
from settlemark._model.budget import Budget, asks
from settlemark._model.declaration import Declaration
from settlemark._model.declare import declared_as
from settlemark._observe.logs import about
from settlemark._policy.service import Judging
from settlemark._protocol.holdings import DETACHED, Txn
from settlemark._protocol.protocol import Protocol
from settlemark.ledger._budgets import reserve
from settlemark.ledger._contract import Book, Change, Ledger, Step
from settlemark.ledger._local import Local

T = TypeVar("T")

log = logging.getLogger("settlemark")


class Kernel:
    """What every service of a driver stands on: the ledger, its protocol, the clocks, the attempts that are here.

    Args:
        ledger: takes the steps.
        clock: returns seconds since 1970, for the record.
        monotonic: returns seconds, for deadlines.
        declaration: finds what was declared of a tool by its name and version.
        namespace: of the ledger whose users share its scopes, names and keys.

    Attributes:
        attempts: what this process is at, by transaction.
        callers: says in whose call a caller runs, and what it must not wait for.
        waits: waits for others, and for one's own calls.
        wake_maintenance: called when there is work for the maintenance thread.
        retries: of an undo that no caller waits for.
        budgets: limits on what effects and charges spend here.
        judging: has the policy in force here judge calls.
        refuse_unwanted: aborts a transaction of a plan that is wanted no more, within the step that would decide it.
        warns: whether what stays of a transaction is logged.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        declaration: Callable[[str, str | None], Declaration | None] = declared_as,
        namespace: str = "default",
    ) -> None:
        self.ledger = ledger
        self.protocol = ledger.protocol
        self.local = Local(ledger)
        self.clock = clock
        self.monotonic = self.protocol.board.index.clock = monotonic
        self.prefix = identity.prefix_of(ledger.id, namespace)
        self.namespace = namespace
        self.declaration = declaration
        self.telling = Telling(self, monotonic)
        self.wake_maintenance: Callable[[], None] | None = None
        self.retries = Retries()
        self.budgets: tuple[Budget, ...] = ()
        self._counted: set[str] = set()  # units of budgets, and those that were told of
        self.judging = Judging(self)
        self.refuse_unwanted: Callable[[Txn, Protocol, Book], None] = lambda _txn, _protocol, _book: None
        self.on_lapse: Callable[[], Callable[[], None] | None] | None = None  # weak: what is called knows this kernel
        self.on_asked: Callable[[], Callable[[Approval], None] | None] | None = None  # weak, too
        self.warns = True  # an explorer, which aborts by the thousand, does not want to hear of each
        self.attempts: dict[Txn, Attempt] = {}
        self.callers = Callers(self, self.prefix, self.local, self.attempts)
        self.waits = Waits(
            ledger,
            self.local,
            self.step,
            clock=clock,
            monotonic=monotonic,
            telling=self.telling,
            callers=self.callers,
            attempts=self.attempts,
        )

    # ---- attempts that are here

    def seat(self, book: Book, txn: Txn, attempt: Attempt) -> None:
        """Register `attempt` as this process's program for a transaction; taken back if the step fails."""
        self.attempts[txn] = attempt
        attempt.since, attempt.age_told, attempt.worker = self.monotonic(), False, self.ledger.worker
        book.on_rollback(lambda: self.attempts.pop(txn, None))

    def call_maintenance(self) -> None:
        if self.wake_maintenance is not None:
            self.wake_maintenance()

    @staticmethod
    def come_to(book: Book, attempt: Attempt) -> None:
        """Register that this process goes on with a parked transaction; taken back if the step fails."""
        attempt.suspended = False
        book.on_rollback(partial(setattr, attempt, "suspended", True))

    def acting(self, attempt: Attempt) -> AbstractContextManager[None]:
        """Mark an act of an attempt as out, from before the last look at the lease until its outcome is noted."""
        worker = self.ledger.worker
        if attempt.txn is not None and attempt.txn.id != DETACHED:
            attempt.worker = worker
        return self.ledger.acts.out(worker)

    # ---- steps

    def step(
        self, step: Step[T], *, durable: bool = False, wait: float | None = None, looks: bool = False
    ) -> Program[T]:
        """Take a step and return its answer, when it (with `durable` on disk) is taken.

        Args:
            step: what is done to the protocol and the book.
            durable: whether its commit waits for the disk.
            wait: seconds in which the store must have answered; the settlement's by default.
            looks: whether it changes nothing.

        Raises:
            LedgerError: the store failed, or was silent for that long; `in_doubt` if it may have taken the step.
        """
        if self.ledger.immediate:
            return self.ledger.now(step)
        answer: T = yield Recorded(self.ledger.submit(step, durable=durable, looks=looks, wait=wait))
        return answer

    def look(self, step: Step[T], *, wait: float | None = None) -> Program[T]:
        """Return what a step finds that changes nothing: by itself it commits nothing."""
        return self.step(step, wait=wait, looks=True)

    def flush(self) -> Program[None]:
        """Write everything that was queued before to disk."""
        yield from self.step(lambda _protocol, _book: None, durable=True)

    def reserve(self, book: Book, attempt: Attempt, effect: Effect) -> None:
        """Reserve what an effect spends, and note what it will owe, or ask, in the step that records its intent.

        Raises:
            OverBudget: a budget has not so much left; nothing was reserved.
        """
        then = effect.declaration.then
        if then is not None:
            if then not in self.protocol.tools.owed:
                self.protocol.owe(then)
            told = None if self.on_lapse is None else self.on_lapse()
            if told is not None:
                told()
        if effect.gated:
            asked = None if self.on_asked is None else self.on_asked()
            if asked is not None:
                asked(effect.declaration.approval)
        if effect.spends and self.budgets:
            if not effect.spends.keys() <= self._counted:
                self._tell_uncounted(effect)
            wanted = asks(self.budgets, effect.spends, run=attempt.run, at=self.ledger.time())
            reserve(book.purse, effect.key, wanted, transaction=attempt.name, instead_of=effect.instead_of)

    def _tell_uncounted(self, effect: Effect) -> None:
        """Warn, once for each unit, of what no budget counts: most often a unit's name is misspelled."""
        self._counted.update(budget.name for budget in self.budgets)
        for unit in sorted(effect.spends.keys() - self._counted):
            log.warning(
                "%s spends %s, and no budget of this settlement is of that unit, but of %s: nothing counts it",
                effect.declaration.tool,
                unit,
                ", ".join(sorted({budget.name for budget in self.budgets})),
                extra=about(tool=effect.declaration.tool),
            )
            self._counted.add(unit)

    def note(self, attempt: Attempt, changes: list[Change]) -> None:
        """Queue changes to be written soon: a crash may lose them, because recovery asks again."""
        self.ledger.later(lambda _protocol, book: attempt.put(book, changes))

    def still_ours(self, txn: Txn) -> Program[None]:
        """Return when this worker may act for a transaction: it surely has its lease, and nobody has taken it over.

        Raises:
            LeaseLost: another worker has it. LedgerError: this is a forked child.
        """
        if self.ledger.is_elsewhere or not self.ledger.is_fresh():
            yield from self.step(lambda _protocol, _book: None)
        if txn.id == DETACHED:
            raise self.protocol.refusal(txn)

    def asking_of_failures(
        self,
        attempt: Attempt,
        effect: Effect,
        once: Callable[[], Program[T]],
        ours: Callable[[], Program[None]],
        *,
        held: bool,
        let_through: tuple[type[BaseException], ...] = (),
    ) -> Program[T]:
        """Perform an effect, and ask what each failure is to mean for its transaction, if it has an `ask=`.

        Raises:
            Skipped: the step is to go on without it. UsageError: the answer is none.
            BaseException: what the last try raised.
        """
        asks = attempt.asks
        return until_answered(
            effect,
            once,
            ours,
            ask=None if asks is None else partial(self.callers.asking, attempt.name, asks),
            transaction=attempt.name,
            state=lambda: attempt.state_here,
            held=held,
            let_through=let_through,
        )

    def queue_step(self, step: Step[Any], *, durable: bool = False) -> Program[bool]:
        """Queue a step that must not be lost, and return whether the store has taken it by now: else it will."""
        if self.ledger.is_elsewhere:
            yield from self.step(step)  # which tells a forked child so
        self.ledger.later(step)
        if self.ledger.immediate:
            return True
        if self.ledger.stalled:
            return False  # its caller has waited once
        try:
            yield from self.step(lambda _protocol, _book: None, durable=durable)
        except LedgerError:
            return False
        return True
