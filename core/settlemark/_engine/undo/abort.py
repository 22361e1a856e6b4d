"""Undoing what an abort leaves, in the program that made the last step before the abort."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._attempt.attempt import Attempt
from settlemark._engine.doubt import Probing, Residue, effect_of_key
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.record_end import record_end
from settlemark._engine.undo.take_back import TakingBack
from settlemark._model.effect_class import Outcome
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import DETACHED, Ticket, Txn, fire
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import FINISHED, Reason, State
from settlemark.ledger._contract import Book
from settlemark.ledger._workers import process

Beside = Callable[[Program[None], Callable[[], None]], None]
"""Runs a program beside the one that gives it; calls the function when it will not be begun any more."""


class Undoing:
    """Aborts transactions, and undoes what they did."""

    def __init__(
        self, kernel: Kernel, probing: Probing, freshness: Freshness, residue: Residue, taking_back: TakingBack
    ) -> None:
        self._kernel = kernel
        self._probing = probing
        self._freshness = freshness
        self._residue = residue
        self._taking_back = taking_back
        self.given: set[Txn] = set()  # taken to be concluded, by programs that have perhaps yet to begin

    def abort(self, attempt: Attempt, reason: Reason, *, retried: bool = True, **detail: Any) -> Program[None]:
        """Abort a transaction and return when everything of it is undone or named.

        One that is releasing is past that: this waits for it, and leaves it as it ends. One that goes on by
        itself when the store works again is not waited for. With `retried` false nobody would run a retry of it.
        """
        txn = attempt.txn
        if txn is None or attempt.handed_over:
            return
        yield from self.abort_within_call(attempt, reason, retried=retried, **detail)
        if txn.state in (State.ABORTING, State.RELEASING, State.ABORTED):
            yield from self._kernel.waits.until_finished(attempt, txn)

    def refuse(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[NoReturn]:
        """Abort a transaction, and raise why it was.

        Raises:
            Refused: always.
        """
        yield from self.abort(attempt, reason, **detail)
        with self._kernel.local as protocol:
            raise protocol.refusal(attempt.live)

    def abort_within_call(
        self, attempt: Attempt, reason: Reason, *, retried: bool = True, **detail: Any
    ) -> Program[None]:
        """Abort a transaction from within one of its calls: it is undone when that has returned."""
        txn, detail = attempt.live, attempt.records.cause(detail)
        noted = False

        def mark(protocol: Protocol, book: Book) -> None:
            nonlocal noted
            if not retried:
                protocol.drop_retry(txn)
            protocol.abort(txn, reason, **detail)
            if txn.id == DETACHED:
                self._kernel.attempts.pop(txn, None)  # its caller may have gone when the store works again
            elif attempt.written and txn.state is State.ABORTING:
                attempt.put(book, [attempt.state_change(self._kernel.clock())])
                noted = True

        if retried:
            # While the store fails this stays queued, and the maintenance thread concludes it when the store works.
            taken = yield from self._kernel.queue_step(mark, durable=attempt.written)
        else:  # what ended processes left is taken up again, should the store fail
            yield from self._kernel.step(mark, durable=attempt.written)
            taken = True
        attempt.abort_on_disk = taken and noted
        yield from self.tidy()

    def suspend(self, attempt: Attempt) -> Program[None]:
        """Leave a transaction open: entering its name again goes on where it stopped."""
        txn = attempt.live
        hooked = bool(attempt.hooks)
        yield from self._kernel.step(
            lambda protocol, _book: protocol.park(txn, parked=True, hooked=hooked), durable=attempt.written
        )
        with self._kernel.local as protocol:
            attempt.suspended = True
            protocol.wake_watchers(txn)

    def abandon(self, attempt: Attempt) -> Program[None]:
        """Give up the place that an aborted attempt's retry has taken, or would take: no attempt will use it."""
        txn = attempt.txn
        if txn is None:
            return
        yield from self._kernel.queue_step(lambda protocol, _book: protocol.drop_retry(txn))
        yield from self.tidy()
        yield from self._kernel.waits.until_concluded(
            attempt, txn
        )  # what was queued before may have made the retry already
        again = self._kernel.attempts.get(txn.successor) if txn.successor is not None else None
        if again is not None:
            yield from self.abort(again, Reason.ABANDONED)

    def tidy(self, beside: Beside | None = None) -> Program[None]:
        """Conclude whatever this program's last step aborted, its own transaction or another's.

        `beside` runs a program beside this one.
        """
        interrupted: BaseException | None = None
        while self._kernel.protocol.board.aborted:
            with self._kernel.local as protocol:
                aborted = protocol.take_aborted(1)  # a handler that hangs leaves the others to other programs
                self.given.update(aborted)
            for txn in aborted:
                if beside is not None:
                    beside(self._conclude_given(txn), partial(self.given.discard, txn))
                    continue
                try:
                    yield from self._conclude_given(txn)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    # An interrupt from the keyboard: the others are undone first.
                    interrupted = error if interrupted is None else interrupted
        if interrupted is not None:
            raise interrupted

    def _conclude_given(self, txn: Txn) -> Program[None]:
        try:
            yield from self.conclude(txn)
        finally:
            self.given.discard(txn)

    def conclude(self, txn: Txn) -> Program[None]:
        with self._kernel.local:
            attempt = self._kernel.attempts.get(txn)
            if attempt is not None and attempt.concluding:
                return  # a program is at it
            if attempt is not None:
                attempt.concluding = True
        if attempt is None:
            yield from self._conclude_nobodys(txn)
            return
        try:
            if txn.owner == self._kernel.ledger.worker or (yield from self._own(txn)):
                yield from self._conclude_attempt(attempt, txn)
            else:
                self._fire_waiters(attempt)
        finally:
            attempt.concluding = False

    def _conclude_nobodys(self, txn: Txn) -> Program[None]:
        """Record the end of a transaction that was put aside, and whose process may have ended; it had nothing to undo.

        What is still to be undone is taken up by recovery, and what another worker owns is its own to conclude.
        """
        if txn.state is not State.ABORTED or txn.owner != NOBODY or txn.id == DETACHED:
            return

        def record(_protocol: Protocol, book: Book) -> None:
            found = book.load(txn.name)
            if found is not None and found.row.attempt == txn.attempt and found.state not in FINISHED:
                cause = txn.detail.get("cause") or txn.detail.get("verdict")
                record_end(book, found, txn.reason, self._kernel.clock(), str(cause) if cause else None)

        yield from self._kernel.queue_step(record)

    def is_at(self, txn: Txn) -> bool:
        """Whether a program of this process concludes the abort of a transaction, or is to."""
        attempt = self._kernel.attempts.get(txn)
        waits = txn in self.given or txn in self._kernel.protocol.board.aborted
        return attempt is not None and (waits or attempt.concluding or attempt.end_queued)

    def until_on_record(self, txn: Txn) -> Program[None]:
        """Wait until the end of an aborted transaction is on record, where a program of this process sees to that."""
        with self._kernel.local:
            attempt, ticket = self._kernel.attempts.get(txn), Ticket()
            waits = attempt is not None and self.is_at(txn)
            if attempt is not None and waits:
                attempt.waiters.append(ticket)
        if attempt is None:
            yield from self._conclude_nobodys(txn)
        elif waits:
            yield Wait(ticket, self._kernel.callers.time_for(txn, attempt.wait), txn.name, "its own", final=True)

    def _fire_waiters(self, attempt: Attempt) -> None:
        with self._kernel.local:
            waiters, attempt.waiters = attempt.waiters, []
        fire(waiters)

    def _conclude_attempt(self, attempt: Attempt, txn: Txn) -> Program[None]:
        interrupted: BaseException | None = None
        if attempt.written and txn.state is State.ABORTING and not attempt.abort_on_disk:
            # On disk before anything is undone: a process that comes after a crash must not go on with it.
            try:
                if not (yield from self._recorded(attempt)):
                    self._hand_over(attempt)
                    return
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = error
        left, interrupted = yield from self._conclude_effects(attempt, txn, interrupted)
        if left is not None:
            if attempt.handed_over:
                self._hand_over(attempt)
            elif not (txn.id == DETACHED or self._kernel.ledger.is_elsewhere):
                yield from self._put_off_undo(attempt, txn, left)
            if interrupted is not None:
                raise interrupted
            return

        def finish(protocol: Protocol, book: Book) -> None:
            attempt.end_queued = False
            book.on_rollback(partial(setattr, attempt, "end_queued", True))
            if not txn.finished:
                protocol.finish_abort(txn)
            if (
                attempt.written or attempt.effects
            ):  # the program of the first intent may not know yet that it is written
                attempt.put(book, [attempt.state_change(self._kernel.clock())])
            self._kernel.attempts.pop(txn, None)
            if txn.successor is not None:
                self._kernel.seat(book, txn.successor, attempt.next(txn.successor))

        attempt.end_queued = True
        yield from self._kernel.queue_step(finish)
        self._freshness.keep_plan(attempt, txn)
        with self._kernel.local:
            waiters, attempt.waiters = attempt.waiters, []
        self._kernel.telling.ended(attempt, None if txn.successor is None else self._kernel.attempts.get(txn.successor))
        fire(waiters)
        self._residue.tell(attempt)
        attempt.records.forget_secrets()
        if interrupted is not None:
            raise interrupted

    def _conclude_effects(
        self, attempt: Attempt, txn: Txn, interrupted: BaseException | None
    ) -> Program[tuple[Effect, BaseException | None] | tuple[None, BaseException | None]]:
        """Undo what can be, the last first; return the effect at which it had to stop, if any, and what interrupted it.

        It stops where another goes on: another worker, the parent of this forked child, or none for the moment; and
        where the store fails, so that a crash then repeats one undo, not many.
        """
        for effect in reversed(attempt.as_acted()):
            if txn.id == DETACHED or self._kernel.ledger.is_elsewhere:
                return effect, interrupted
            recorded = effect.stored and effect.tag is not None and not effect.calls
            if recorded or effect.path in attempt.concluded:
                continue  # it was concluded before this abort was put off
            try:
                concluded = yield from self._conclude_effect(attempt, effect)
            except GeneratorExit:
                raise
            except BaseException as error:
                # An interrupt from the keyboard: the rest is undone first.
                interrupted = error if interrupted is None else interrupted
            else:
                if concluded is False:
                    return effect, interrupted  # what came before it is undone behind it, in its order
                attempt.handed_over = concluded is None
            attempt.concluded.add(effect.path)
            if attempt.handed_over:
                return effect, interrupted
        return None, interrupted

    def _hand_over(self, attempt: Attempt) -> None:
        """Leave an abort where the store's failure has stopped it: it is gone on with when the store works again."""
        attempt.handed_over = True
        why = "does not answer: that goes on by itself when it does"
        if self._kernel.ledger.is_closed:
            why = "was closed: the next process that opens the ledger goes on with that"
        log.warning(
            "%s is to be undone, and the ledger %s",
            attempt.name,
            why,
            extra=about_txn(attempt.live, state=attempt.live.state.value),
        )
        self._fire_waiters(attempt)
        self._kernel.call_maintenance()

    def _put_off_undo(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Leave an abort where it is, holding what it holds: a worker that fell silent may be at an effect of it.

        The next look goes on with it: when the silent worker does nothing more, or is known to have done it.
        """
        attempt.handed_over = True
        told = attempt.records.outcome(effect, self._kernel.clock())

        def put_off(protocol: Protocol, book: Book) -> None:
            found = effect_of_key(book, effect.key)
            if found is not None and found.outcome is Outcome.INTENDED:
                attempt.put(book, [told])
                log.warning(
                    "%s keeps %s: %s, which fell silent, may still be sending %s; it is undone when that is known",
                    attempt.name,
                    effect.scope_text,
                    process(effect.sender or ""),
                    effect.declaration.tool,
                    extra=attempt.about(effect),
                )
            if not attempt.knows_more:
                self._kernel.attempts.pop(txn, None)
            protocol.wake_watchers(txn)  # programs that wait for its end here have done what can be done now

        yield from self._kernel.queue_step(put_off)
        self._fire_waiters(attempt)
        if effect.outcome is Outcome.UNKNOWN:
            self._probing.doubt()

    def _own(self, txn: Txn) -> Program[bool]:
        """Own what was put aside, and return whether that was possible: another process may have come back to it."""

        def own(protocol: Protocol, _book: Book) -> bool:
            if txn.owner not in (NOBODY, self._kernel.ledger.worker):
                self._kernel.telling.leave(self._kernel.attempts.pop(txn, None))
                return False
            if txn.owner == NOBODY:
                protocol.own(txn, self._kernel.ledger.worker)
            return True

        return (yield from self._kernel.step(own))

    def _conclude_effect(self, attempt: Attempt, effect: Effect) -> Program[bool | None]:
        """Undo one effect, note what came of that, and return as `undo_one`."""
        calls = effect.calls  # what did not happen has given them back, unless another program came to know it

        def back(protocol: Protocol, clean: bool) -> None:
            for call in () if effect.held else calls:
                protocol.undone(call, clean=clean)

        return self._taking_back.undo_one(attempt, effect, back)

    def _recorded(self, attempt: Attempt) -> Program[bool]:
        """Record that a transaction aborts, behind all that was queued before; return whether it is on disk."""
        return (
            yield from self._kernel.queue_step(
                lambda _protocol, book: attempt.put(book, [attempt.state_change(self._kernel.clock())]), durable=True
            )
        )

    def discard(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[None]:
        """Abort a transaction that will not be tried again, and return when everything of it is undone or named."""
        yield from self.abandon(attempt)
        yield from self.abort(attempt, reason, **detail)
