"""Undoing what an abort leaves, in the program that made the last step before the abort."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._engine.doubt import Probing, Residue, effect_of_key
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.take_back import TakingBack
from settlemark._model.effect_class import Outcome
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import DETACHED, Txn, fire
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import Reason, State
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

    def abort(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[None]:
        """Abort a transaction and return when everything of it is undone or named.

        One that is releasing is past that: this waits for it, and leaves it as it ends. One that goes on by
        itself when the store works again is not waited for.
        """
        txn = attempt.txn
        if txn is None or attempt.handed_over:
            return
        yield from self.abort_within_call(attempt, reason, **detail)
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

    def abort_within_call(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[None]:
        """Abort a transaction from within one of its calls: it is undone when that has returned."""
        txn, detail = attempt.live, attempt.records.cause(detail)

        def mark(protocol: Protocol, _book: Book) -> None:
            protocol.abort(txn, reason, **detail)
            if txn.id == DETACHED:
                self._kernel.attempts.pop(txn, None)  # its caller may have gone when the store works again

        # While the store fails this stays queued, and the maintenance thread concludes it when the store works again.
        yield from self._kernel.queue_step(mark)
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
            if attempt is None or attempt.concluding:
                return  # another worker's, or one that recovery takes up; or a program is at it
            attempt.concluding = True
        try:
            if txn.owner == self._kernel.ledger.worker or (yield from self._own(txn)):
                yield from self._conclude_attempt(attempt, txn)
        finally:
            attempt.concluding = False

    def _conclude_attempt(self, attempt: Attempt, txn: Txn) -> Program[None]:
        interrupted: BaseException | None = None
        if attempt.written and txn.state is State.ABORTING:
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
        with self._kernel.local:
            waiters, attempt.waiters = attempt.waiters, []
        fire(waiters)
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
        with self._kernel.local:
            waiters, attempt.waiters = attempt.waiters, []
        fire(waiters)
        if effect.outcome is Outcome.UNKNOWN:
            self._probing.doubt()

    def _own(self, txn: Txn) -> Program[bool]:
        """Own what was put aside, and return whether that was possible: another process may have come back to it."""

        def own(protocol: Protocol, _book: Book) -> bool:
            if txn.owner not in (NOBODY, self._kernel.ledger.worker):
                self._kernel.attempts.pop(txn, None)
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
