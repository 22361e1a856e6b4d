"""A wait for the holder of a scope: how it begins, and how it ends.

A wait ends when the holder is out of the way, or when the holder has not changed for as long as the attempt waits:
then the error names the holder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, MutableMapping
from math import inf

from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.telling import Telling
from settlemark._edges.errors import LedgerError, WaitTimeout
from settlemark._edges.wording import by_reader
from settlemark._engine.callers import Callers
from settlemark._model.scope import Scope, escape
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import DETACHED, Blocked, Ticket, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State
from settlemark.ledger._contract import Book, Ledger, Step
from settlemark.ledger._lease import held_by_zombies
from settlemark.ledger._local import Local
from settlemark.ledger._workers import process

_log = logging.getLogger("settlemark")


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


class Waits:
    """The waits of the programs of one driver.

    Args:
        ledger: looks for what other processes do while a program waits.
        local: looks at this process's protocol.
        step: takes a step.
        clock, monotonic: return seconds: for the record, and for deadlines.
        telling: tells an observer of waits.
        callers: says what a caller must not wait for.
        attempts: what this process is at, by transaction.

    Attributes:
        waiting: by ticket, the transaction that waits here, the holder it waits for, and the scope.
    """

    def __init__(
        self,
        ledger: Ledger,
        local: Local,
        step: Callable[[Step[str]], Program[str]],
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        telling: Telling,
        callers: Callers,
        attempts: MutableMapping[Txn, Attempt],
    ) -> None:
        self.waiting: dict[Ticket, tuple[str, str, Scope]] = {}
        self._ledger = ledger
        self._local = local
        self._step = step
        self._clock = clock
        self._monotonic = monotonic
        self._telling = telling
        self._callers = callers
        self._attempts = attempts

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
        since = 0.0 if self._telling.observer is None else self._monotonic()
        rival, scope = blocked.holder.name, blocked.scope.text
        if blocked.holder is not attempt.txn:  # else it is one of its own calls
            attempt.waited.begins(rival, scope, self._ledger.time())
        attempt.told_waiting = attempt.told_waiting or attempt.written
        self.waiting[ticket] = (attempt.name, holder, blocked.scope)
        if attempt.written:
            self.tell_waiting(attempt, (holder, scope))
        woken = False
        try:
            first, _ = self._moved(attempt, blocked, deadline, whom, again=False)
            moves = True
            while moves and not woken:
                seconds = deadline.at - self._monotonic()
                woken = yield from self.listen(Wait(ticket, seconds, holder, blocked.scope.text))
                if not woken:
                    first, moves = self._moved(attempt, blocked, deadline, whom, again=True)
        finally:
            self.waiting.pop(ticket, None)
            attempt.waited.ends(rival, scope, self._ledger.time())
            self._telling.waited(attempt, holder, blocked.scope.text, since, gave_up=not woken)
            if not woken:
                with self._local as protocol:
                    protocol.unwatch(ticket, blocked.holder, attempt.live)
        if not woken:
            deadline.pass_by()
            waited = attempt.wait if limit is None else limit
            behind = "" if first in (holder, attempt.name) else f", behind {first}"
            behind += yield from self.silence(blocked.holder)
            raise WaitTimeout(
                f"{attempt.name} gave up after {waited:g} s waiting for {holder}, which holds {blocked.scope}{behind}:"
                f" nothing was run; {by_reader('try again later, or raise wait=', 'give the command again later')}",
                transaction=attempt.name,
                epoch=attempt.live.epoch,
                holder=holder,
                scope=blocked.scope,
                waited=waited,
            )

    def silence(self, txn: Txn) -> Program[str]:
        """Return in words which worker fell silent at a call of a transaction, which waits for that; "" without one."""
        if txn.state not in (State.ABORTING, State.RELEASING):
            return ""

        def look(_protocol: Protocol, book: Book) -> str:
            zombies = book.zombies()
            recorded = book.load(txn.name) if zombies else None
            out = [] if recorded is None else held_by_zombies(recorded, txn.state, zombies)
            told = [
                f"{process(effect.sender or '')}, which fell silent, may still be at {effect.row.tool}"
                for effect in out
            ]
            return f" until nothing more can come of it ({'; '.join(told)}: see settlemark waiting)" if told else ""

        try:
            return (yield from self._step(look))
        except LedgerError:
            return ""

    def _moved(
        self, attempt: Attempt, blocked: Blocked, deadline: Deadline, whom: Hashable, *, again: bool
    ) -> tuple[str, bool]:
        """Return the name of the first of those for whom is waited, and whether they have changed.

        Looked at `again`, they may have changed some time ago: only those before the nearest one wake nobody.
        """
        now = self._monotonic()
        if whom is not None:
            return attempt.name, deadline.moves(now, whom, now)
        with self._local as protocol:
            first, left = protocol.first(attempt.live, blocked)
        return first, deadline.moves(now, (blocked.holder.name, first), left if again else now)

    def listen(self, wait: Wait) -> Program[bool]:
        """Wait, while the ledger looks for what other processes do."""
        self._ledger.listen(1)
        try:
            woken: bool = yield wait
        finally:
            self._ledger.listen(-1)
        return woken

    def tell_waiting(self, attempt: Attempt, told: tuple[str, str] | None) -> None:
        """Record for whom a transaction waits, and on what; None when the wait is over."""

        def tell(_protocol: Protocol, book: Book) -> None:
            # Not behind the end of a transaction that was aborted just now.
            if attempt.live.state in (State.OPEN, State.SEALED):
                attempt.put(book, [attempt.state_change(self._clock(), waiting=told)])

        self._ledger.later(tell)

    def until_finished(self, attempt: Attempt, txn: Txn) -> Program[None]:
        deadline = self._monotonic() + self._callers.time_for(txn, attempt.wait)
        while not (txn.finished or attempt.handed_over or (attempt.suspended and txn.state is State.OPEN)):
            with self._local as protocol:
                ticket = protocol.watch(txn)
            seconds, final = deadline - self._monotonic(), not txn.running
            woken = yield from self.listen(Wait(ticket, seconds, "a call that has not returned", "its own", final))
            if not woken:
                _log.warning(
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
            self._telling.ended(attempt)
        with self._local:
            if txn.id == DETACHED:
                self._attempts.pop(txn, None)  # another worker concludes it, or there is nothing to conclude
            mine = txn in self._attempts and txn.owner == self._ledger.worker
            if txn.state is not State.ABORTED or not mine:
                return
            ticket = Ticket()
            attempt.waiters.append(ticket)
        yield Wait(ticket, attempt.wait, txn.name, "its own", final=True)

    def quiesce(self, attempt: Attempt, txn: Txn) -> Program[None]:
        """Wait for the calls still in flight: a seal promises that nothing is added after it."""
        if not attempt.in_flight():
            return
        deadline = Deadline(attempt.wait)
        while True:
            with self._local as protocol:
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


__all__ = ["Deadline", "Waits", "scope_of"]
