"""What every service of a driver shares: the step, the wait, and the way to the ledger."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from types import TracebackType
from typing import Any, TypeVar

from settlemark._acts.bodies import asked_for, names_asked_for
from settlemark._acts.current import current_call
from settlemark._acts.effect import Effect
from settlemark._acts.failure import until_answered
from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Act, Recorded, Wait
from settlemark._attempt.attempt import Attempt, Inside
from settlemark._attempt.telling import Telling
from settlemark._edges.errors import LedgerError, WaitTimeout
from settlemark._edges.shield import closed, locked, unlocked
from settlemark._edges.wording import by_reader
from settlemark._model import identity
from settlemark._model.declaration import Declaration
from settlemark._model.declare import declared_as
from settlemark._model.scope import Scope, escape
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import DETACHED, Blocked, Ticket, Txn, fire
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark._protocol.ties import callers, refuse_to_wait
from settlemark.ledger._contract import Book, Change, Ledger, Step
from settlemark.ledger._lease import haunted
from settlemark.ledger._workers import process

T = TypeVar("T")

log = logging.getLogger("settlemark")


class _Local:
    """A look at what is this process's own: seats, tickets, its replica; who it woke is woken after."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @closed
    def __enter__(self) -> Protocol:
        self._ledger.lock.acquire()
        locked()
        return self._ledger.protocol

    @closed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        woken = self._ledger.protocol.board.woken and self._ledger.protocol.take_woken()
        self._ledger.lock.release()
        unlocked()
        if woken:
            fire(woken)


class Deadline:
    """When a wait is given up: so many seconds after whom it waits for has last changed.

    Attributes:
        at: that time.
    """

    __slots__ = ("_seconds", "_whom", "at")

    def __init__(self, seconds: float) -> None:
        self.at = -inf
        self._seconds = seconds
        self._whom: Hashable = None

    def moves(self, now: float, whom: Hashable, changed: float) -> bool:
        """Count from then on, if whom it waits for has changed; return whether it has."""
        if whom == self._whom:
            return False
        self._whom, self.at = whom, min(max(changed, self.at - self._seconds), now) + self._seconds
        return True

    def pass_by(self) -> None:
        """Note that it has passed, whatever the clock says, until whom it waits for has changed."""
        self.at = -inf


class Kernel:
    """What every service of a driver stands on: the ledger, its protocol, the clocks, its attempts and waits.

    Args:
        ledger: takes the steps.
        clock: returns seconds since 1970, for the record.
        monotonic: returns seconds, for deadlines.
        declaration: finds what was declared of a tool by its name and version.
        namespace: of the ledger whose users share its scopes, names and keys.

    Attributes:
        attempts: what this process is at, by transaction.
        waiting: who waits here for whom, on which scope, by ticket.
        wake_tender: called when there is something to tend.
        retries: of an undo that nobody waits for.
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
        self.local = _Local(ledger)
        self.clock = clock
        self.monotonic = self.protocol.board.index.clock = monotonic
        self.prefix = identity.prefix_of(ledger.id, namespace)
        self.namespace = namespace
        self.declaration = declaration
        self.telling = Telling(self, monotonic)
        self.wake_tender: Callable[[], None] | None = None
        self.retries = Retries()
        self.warns = True  # an explorer, which aborts by the thousand, does not want to hear of each
        self.waiting: dict[Ticket, tuple[str, str, Scope]] = {}
        self.attempts: dict[Txn, Attempt] = {}

    # ---- who is at what

    def seat(self, book: Book, txn: Txn, attempt: Attempt) -> None:
        """Register `attempt` as this process's program for a transaction; taken back if the step fails."""
        self.attempts[txn] = attempt
        attempt.since, attempt.age_told, attempt.worker = self.monotonic(), False, self.ledger.worker
        book.otherwise(lambda: self.attempts.pop(txn, None))

    def call_tender(self) -> None:
        if self.wake_tender is not None:
            self.wake_tender()

    @staticmethod
    def come_to(book: Book, attempt: Attempt) -> None:
        """Register that this process goes on with a parked transaction; taken back if the step fails."""
        attempt.suspended = False
        book.otherwise(partial(setattr, attempt, "suspended", True))

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
            LedgerError: the store failed, or was silent for that long; `in_doubt` where nobody knows if it was taken.
        """
        if self.ledger.immediate:
            return self.ledger.now(step)
        pending = self.ledger.submit(step, durable=durable, looks=looks)
        if wait is not None:
            pending.within(wait)
        answer: T = yield Recorded(pending)
        return answer

    def look(self, step: Step[T], *, wait: float | None = None) -> Program[T]:
        """Return what a step finds that changes nothing: by itself it commits nothing."""
        return self.step(step, wait=wait, looks=True)

    def flush(self) -> Program[None]:
        """Write everything that was queued before to disk."""
        yield from self.step(lambda _protocol, _book: None, durable=True)

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

    # ---- waiting

    def wait_for(
        self,
        attempt: Attempt,
        ticket: Ticket,
        blocked: Blocked,
        deadline: Deadline,
        holder: str,
        whom: Hashable = None,
        limit: float | None = None,
    ) -> Program[None]:
        """Wait until the ticket fires; `whom` says whom for, where that is not told by the scope.

        Raises:
            WaitTimeout: the deadline passed, and whom it waits for had not changed all the while.
        """
        since = 0.0 if self.telling.observer is None else self.monotonic()
        rival, scope = blocked.holder.name, blocked.scope.text
        if blocked.holder is not attempt.txn:  # else it is one of its own calls
            attempt.waits_for(rival, scope, self.ledger.time())
        attempt.told_waiting = attempt.told_waiting or attempt.written
        self.waiting[ticket] = (attempt.name, holder, blocked.scope)
        if attempt.written:
            self.tell_waiting(attempt, (holder, scope))
        woken = False
        try:
            first, _ = self._moved(attempt, blocked, deadline, whom, again=False)
            moves = True
            while moves and not woken:
                seconds = deadline.at - self.monotonic()
                woken = yield from self.listen(Wait(ticket, seconds, holder, blocked.scope.text))
                if not woken:
                    first, moves = self._moved(attempt, blocked, deadline, whom, again=True)
        finally:
            self.waiting.pop(ticket, None)
            attempt.waits_no_more(rival, scope, self.ledger.time())
            self.telling.waited(attempt, holder, blocked.scope.text, since, gave_up=not woken)
            if not woken:
                with self.local as protocol:
                    protocol.unwatch(ticket, blocked.holder, attempt.live)
        if not woken:
            deadline.pass_by()
            waited = attempt.wait if limit is None else limit
            behind = "" if first in (holder, attempt.name) else f", behind {first}"
            behind += yield from self.silence(blocked.holder)
            raise WaitTimeout(
                f"{attempt.name} gave up after {waited:g} s waiting for {holder}, which holds {blocked.scope}{behind}:"
                f" nothing was run; {by_reader('try again later, or raise wait=', 'give the command again later')}",
                transaction=attempt.name, epoch=attempt.live.epoch, holder=holder, scope=blocked.scope,
                waited=waited,
            )  # fmt: skip

    def silence(self, txn: Txn) -> Program[str]:
        """Return in words who fell silent at a call of a transaction that waits for it; nothing where nobody did."""
        if txn.state not in (State.ABORTING, State.RELEASING):
            return ""

        def look(_protocol: Protocol, book: Book) -> str:
            ghosts = book.ghosts()
            recorded = book.load(txn.name) if ghosts else None
            out = [] if recorded is None else haunted(recorded, txn.state, ghosts)
            told = [
                f"{process(effect.sender or '')}, which fell silent, may still be at {effect.row.tool}"
                for effect in out
            ]
            return f" until nothing more can come of it ({'; '.join(told)}: see settlemark waiting)" if told else ""

        try:
            return (yield from self.step(look))
        except LedgerError:
            return ""

    def _moved(
        self, attempt: Attempt, blocked: Blocked, deadline: Deadline, whom: Hashable, *, again: bool
    ) -> tuple[str, bool]:
        """Return the name of the first of those for whom is waited, and whether they have changed.

        Looked at `again`, they may have changed some time ago: only those before the nearest one wake nobody.
        """
        now = self.monotonic()
        if whom is not None:
            return attempt.name, deadline.moves(now, whom, now)
        with self.local as protocol:
            first, left = protocol.first(attempt.live, blocked)
        return first, deadline.moves(now, (blocked.holder.name, first), left if again else now)

    def listen(self, wait: Wait) -> Program[bool]:
        """Wait, while the ledger looks for what other processes do."""
        self.ledger.listen(1)
        try:
            woken: bool = yield wait
        finally:
            self.ledger.listen(-1)
        return woken

    def tell_waiting(self, attempt: Attempt, told: tuple[str, str] | None) -> None:
        """Record for whom a transaction waits, and on what; None when the wait is over."""

        def tell(_protocol: Protocol, book: Book) -> None:
            # Not behind the end of a transaction that was aborted just now.
            if attempt.live.state in (State.OPEN, State.SEALED):
                attempt.put(book, [attempt.state_change(self.clock(), waiting=told)])

        self.ledger.later(tell)

    def inside(self) -> int:
        """Return the number of the transaction in whose call the caller runs, or 0."""
        inside = self.outer()
        return 0 if inside is None else inside.attempt.live.id

    def outer(self) -> Inside | None:
        """Return where in the call of an unfinished transaction of this driver the caller runs, or None."""
        call = current_call()
        inside = None if call is None else call._inside  # noqa: SLF001 - kept there for this
        if not isinstance(inside, Inside) or inside.over or inside.attempt.txn is None:
            return None
        return inside if self.attempts.get(inside.attempt.txn) is inside.attempt else None

    def asking(self, name: str, function: Callable[..., Any], /, *given: Any) -> Act:
        """Return the request to ask a function of the user's for a transaction of this name: it is no call of a tool.

        Who waits in it for the end of that transaction would wait for itself, as in a call.
        """
        return Act(partial(function, *given), {}, None, around=partial(asked_for, self, name))

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
        """Perform an effect, and ask what each failure is to mean for its transaction, where somebody is to be asked.

        Raises:
            Skipped: the step is to go on without it. UsageError: the answer is none.
            BaseException: what the last try raised.
        """
        asks = attempt.asks
        return until_answered(
            effect, once, ours, ask=None if asks is None else partial(self.asking, attempt.name, asks),
            transaction=attempt.name, state=lambda: attempt.state_here, held=held, let_through=let_through,
        )  # fmt: skip

    def is_within(self, txn: Txn) -> bool:
        """Whether a transaction cannot end before the caller has returned: he runs in a call of it, or is asked."""
        inside, names = self.inside(), names_asked_for(self)
        if not (inside or names):
            return False
        with self.local as protocol:
            asked = [protocol.named[name].id for name in names if name in protocol.named]
            if txn.group in asked and protocol.by_id[txn.group].role == "choice":
                return True  # it ends when it is chosen, or not
            return any(caller is txn for number in (inside, *asked) for caller in callers(protocol.by_id, number))

    def time_for(self, txn: Txn, seconds: float) -> float:
        """Return for how long the caller may wait for the end of a transaction: within it, not at all."""
        return 0.0 if self.is_within(txn) else seconds

    def refuse_wait_within(self, attempt: Attempt, blocked: Blocked) -> None:
        """Return when whom an attempt is to wait for can end while the caller waits, as far as he runs in it.

        Raises:
            Entangled: it cannot.
        """
        holder = blocked.holder
        if holder is not attempt.txn and self.is_within(holder):
            refuse_to_wait(attempt.name, blocked)

    def until_finished(self, attempt: Attempt, txn: Txn) -> Program[None]:
        deadline = self.monotonic() + self.time_for(txn, attempt.wait)
        while not (txn.finished or attempt.adrift):
            with self.local as protocol:
                ticket = protocol.watch(txn)
            seconds, final = deadline - self.monotonic(), not txn.running
            woken = yield from self.listen(Wait(ticket, seconds, "a call that has not returned", "its own", final))
            if not woken:
                log.warning(
                    "%s is %s, but a call of it has not returned yet: it ends when that does",
                    txn.name,
                    txn.state,
                    extra=about_txn(txn, state=txn.state.value),
                )
                return
        yield from self.until_concluded(attempt, txn)

    def until_concluded(self, attempt: Attempt, txn: Txn) -> Program[None]:
        """Wait until the program that concludes an abort has done so: the abort's end may come before its record."""
        if txn.id == DETACHED:
            self.telling.ended(attempt)
        with self.local:
            if txn.id == DETACHED:
                self.attempts.pop(txn, None)  # another worker concludes it, or there is nothing to conclude
            mine = txn in self.attempts and txn.owner == self.ledger.worker
            if txn.state is not State.ABORTED or not mine:
                return
            ticket = Ticket()
            attempt.waiters.append(ticket)
        yield Wait(ticket, attempt.wait, txn.name, "its own", final=True)

    def surely(self, step: Step[Any], *, durable: bool = False) -> Program[bool]:
        """Queue a step that must not be lost, and return whether the store has taken it by now: else it will."""
        if self.ledger.is_elsewhere:
            yield from self.step(step)  # which tells a forked child so
        self.ledger.later(step)
        if self.ledger.immediate:
            return True
        if self.ledger.stalled:
            return False  # whoever comes from there has waited once
        try:
            yield from self.step(lambda _protocol, _book: None, durable=durable)
        except LedgerError:
            return False
        return True

    def quiesce(self, attempt: Attempt, txn: Txn) -> Program[None]:
        """Wait for the calls still in flight: a seal promises that nothing is added after it."""
        if not attempt.in_flight():
            return
        deadline = Deadline(attempt.wait)
        while True:
            with self.local as protocol:
                ticket = protocol.watch(txn)
                if not attempt.in_flight():
                    protocol.unwatch(ticket, txn)
                    return
                blocked = Blocked(txn, next((hold.scope for hold in txn.holds.values()), scope_of(attempt.run)))
                out = frozenset(attempt.entering), txn.running, txn.reading
            holder = "a call of its own that has not returned,"
            yield from self.wait_for(attempt, ticket, blocked, deadline, holder, whom=out)


def scope_of(run: str) -> Scope:
    return Scope.parse(f"run:/{escape(run)}")
