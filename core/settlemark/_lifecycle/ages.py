"""Transactions that stay open for long in a living process: they are reported, and ended at their `max_age=`.

A lease shows that a process is gone. In a living process, an agent that hangs in a model's call, or waits for an answer
that never comes, keeps its scopes: only the transaction's age shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import inf

from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import LedgerError
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Beside, Undoing
from settlemark._lifecycle.recovery import Recovery
from settlemark._observe.events import Aging as AgingTold
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark.ledger._contract import Book

WARNED_AT = 0.75
"""The fraction of `max_age` at which a transaction is first reported."""
OLD_SECONDS = 3_600.0
"""The age (seconds) at which an open transaction without `max_age` is reported."""


DROPPED = "its caller dropped it without leaving its block"
"""Why a transaction was undone that nobody can resume."""


class Ages:
    """Watches how long transactions have been open.

    Attributes:
        on_age: called when a transaction becomes due earlier than all others.
    """

    def __init__(self, kernel: Kernel, undoing: Undoing, recovery: Recovery) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._recovery = recovery
        self.on_age: Callable[[], None] | None = None
        self._next_look = inf

    def stranded(self) -> list[str]:
        """Return this process's unfinished transactions that nobody would end, by name; there should be none.

        Every unfinished transaction has a running program, a lease or a deadline: one of this process either has a
        program, or is put aside for a person, about to be concluded, or due at the maintenance thread's next look.
        """
        with self._kernel.local as protocol:
            coming, aborted = self._recovery.coming(), protocol.aborted()
            return [
                f"{txn.name} is {txn.state}"
                for txn in protocol.live.values()
                if txn.owner == self._kernel.ledger.worker and txn not in coming and self._is_stranded(txn, aborted)
            ]

    def _is_stranded(self, txn: Txn, aborted: Collection[Txn]) -> bool:
        attempt = self._kernel.attempts.get(txn)
        if attempt is None or attempt.handed_over:
            return self._kernel.wake_maintenance is None  # else the next look takes it up
        if txn.state is State.OPEN or txn.running or attempt.concluding or attempt in self._recovery.ending:
            return False  # its caller, or a program, is at work on it
        if txn.state is State.ABORTING:
            return not (attempt.end_queued or txn in aborted or txn in self._undoing.given or txn.dependents)
        return not attempt.settling

    def end_dropped(self, attempt: Attempt) -> Program[None]:
        """Undo a transaction that nobody can resume: its caller dropped it without leaving its block."""
        txn = attempt.txn
        if txn is None or txn.state is not State.OPEN or self._kernel.ledger.is_elsewhere:
            return

        def is_dropped(_protocol: Protocol, _book: Book) -> bool:
            goes_on = txn.parked or attempt.suspended or attempt.settling
            return txn.state is State.OPEN and self._kernel.attempts.get(txn) is attempt and not goes_on

        try:
            if not (yield from self._kernel.step(is_dropped)):
                return
        except LedgerError as error:
            if getattr(error, "closed", False):
                return  # its settlement was closed: the transaction is left as it is
        log.warning(
            "%s was dropped by its caller, who did not leave its block: nobody can resume it, and it is undone;"
            " enter a transaction by `with` or `async with`",
            txn.name,
            extra=about_txn(txn),
        )
        yield from self._undoing.abandon(attempt)
        yield from self._undoing.abort(attempt, Reason.ABANDONED, cause=DROPPED)

    def look_at_ages(self, beside: Beside | None = None) -> Program[None]:
        """Report transactions open for long, and abort those past their `max_age`, each in a program for `beside`."""
        for attempt in self._aged():
            age = self._kernel.monotonic() - attempt.since
            if attempt.max_age is None or age < attempt.max_age:
                if not attempt.age_told:
                    self._tell_age(attempt, age)
                continue
            if attempt.overdue:
                continue  # already aborting: one of its calls has not returned
            attempt.overdue = True
            if beside is None:
                yield from self._end_overdue(attempt)
            else:
                beside(self._end_overdue(attempt), lambda: None)
        self._next_look = self._kernel.monotonic() + (self.until_aged() or inf)

    def until_aged(self) -> float | None:
        """Return the seconds until the next transaction is due; None if there is none."""
        with self._kernel.local:
            due = min(map(_due, filter(_may_age, self._kernel.attempts.values())), default=inf)
        return None if due == inf else max(0.0, due - self._kernel.monotonic())

    def watch_age(self, attempt: Attempt) -> None:
        """Watch a transaction that has begun here: report it when it is due."""
        if attempt.max_age is None or self.on_age is None or attempt.txn is None:
            return
        due = _due(attempt)
        if due < self._next_look:
            self._next_look = due
            self.on_age()

    def _aged(self) -> list[Attempt]:
        now = self._kernel.monotonic()
        with self._kernel.local:
            return [attempt for attempt in self._kernel.attempts.values() if _may_age(attempt) and _due(attempt) <= now]

    def _end_overdue(self, attempt: Attempt) -> Program[None]:
        cause = f"it was open for longer than max_age={attempt.max_age:g} s"
        yield from self._undoing.abandon(attempt)
        yield from self._undoing.abort(attempt, Reason.OVERDUE, cause=cause, max_age=attempt.max_age)

    def _tell_age(self, attempt: Attempt, age: float) -> None:
        attempt.age_told = True
        txn = attempt.live
        held = ", ".join(sorted(hold.scope.text for hold in list(txn.holds.values()))) or "nothing"
        if attempt.max_age is None:
            then = "nobody ends it while this process lives, unless it has max_age="
        else:
            then = f"at {attempt.max_age:g} s (max_age=) it is undone"
        log.warning("%s has been open for %.0f s, and holds %s: %s", txn.name, age, held, then, extra=about_txn(txn))
        self._kernel.telling.observe(txn.name, AgingTold(attempt.began, txn.name, age, attempt.max_age))


def _may_age(attempt: Attempt) -> bool:
    """Whether a transaction can be too old: not one that is put aside for a person, nor a hold for work to come."""
    txn = attempt.txn
    return txn is not None and txn.state is State.OPEN and not (attempt.suspended or txn.parked or bool(txn.role))


def _due(attempt: Attempt) -> float:
    if attempt.max_age is None:
        return inf if attempt.age_told else attempt.since + OLD_SECONDS
    if attempt.overdue:
        return inf
    return attempt.since + attempt.max_age * (1.0 if attempt.age_told else WARNED_AT)


__all__ = ["OLD_SECONDS", "WARNED_AT", "Ages"]
