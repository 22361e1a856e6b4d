"""Undoing what an abort leaves, in whoever's program made the last step before it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from settlemark._acting import NOBODY_KNOWS, ORPHANED, TO_UNDO, Program, is_to_be_undone, no_undo, undo
from settlemark._asking import Asking, effect_of_key, told_of
from settlemark._attempt import Attempt
from settlemark._effect import Effect, Outcome
from settlemark._errors import LeaseLost, LedgerError
from settlemark._freshness import Freshening
from settlemark._protocol import NOBODY, Protocol
from settlemark._states import Reason, State, Tag
from settlemark._txn import DETACHED, Txn, fire
from settlemark._wording import in_words
from settlemark.ledger._contract import Book, Change, OutcomeChange, Step

UNDER_WAY = f"{TO_UNDO}: a worker that fell silent may be undoing it now"

Beside = Callable[[Program, Callable[[], None]], None]
"""Runs a program beside the one that gives it; calls the function when it will not be begun any more."""


class Aborting(Asking, Freshening):
    """The part of a driver that aborts and undoes."""

    def abort(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program:
        """Abort a transaction and return when everything of it is undone or named.

        One that is releasing is past that: this waits for it, and leaves it as it ends. One that goes on by
        itself when the store works again is not waited for.
        """
        txn = attempt.txn
        if txn is None or attempt.adrift:
            return
        yield from self.doom(attempt, reason, **detail)
        if txn.state in (State.ABORTING, State.RELEASING, State.ABORTED):
            yield from self._until_finished(attempt, txn)

    def doom(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program:
        """Abort a transaction from within one of its calls: it is undone when that has returned."""
        txn, detail = attempt.live, attempt.cause(detail)

        def doom(protocol: Protocol, _book: Book) -> None:
            protocol.abort(txn, reason, **detail)
            if txn.id == DETACHED:
                self._attempts.pop(txn, None)  # whoever doomed it may have gone when the store works again

        # While the store fails this stays queued, and whoever tends concludes it when the store works again.
        yield from self._surely(doom)
        yield from self._tidy()

    def suspend(self, attempt: Attempt) -> Program:
        """Leave a transaction open: entering its name again goes on where it stopped."""
        txn = attempt.live
        yield from self._step(lambda protocol, _book: protocol.park(txn, parked=True), durable=attempt.written)
        with self.local as protocol:
            attempt.suspended = True
            protocol.nudge(txn)

    def _abandon(self, attempt: Attempt) -> Program:
        """Give up the place that an aborted attempt's retry has taken, or would take: nobody will use it."""
        txn = attempt.txn
        if txn is None:
            return
        yield from self._surely(lambda protocol, _book: protocol.unretry(txn))
        yield from self._tidy()
        yield from self._until_concluded(attempt, txn)  # what was queued before may have made the retry already
        again = self._attempts.get(txn.successor) if txn.successor is not None else None
        if again is not None:
            yield from self.abort(again, Reason.ABANDONED)

    def _tidy(self, beside: Beside | None = None) -> Program:
        """Conclude whatever this program's last step aborted, its own transaction or another's.

        `beside` runs a program beside this one.
        """
        interrupted: BaseException | None = None
        while self._protocol.has_aborted:
            with self.local as protocol:
                aborted = protocol.take_aborted(1)  # a handler that hangs leaves the others to other programs
            for txn in aborted:
                if beside is not None:
                    beside(self._conclude(txn), _nothing)
                    continue
                try:
                    yield from self._conclude(txn)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    # An interrupt from the keyboard: the others are undone first.
                    interrupted = error if interrupted is None else interrupted
        if interrupted is not None:
            raise interrupted

    def _conclude(self, txn: Txn) -> Program:
        with self.local:
            attempt = self._attempts.get(txn)
            if attempt is None or attempt.concluding:
                return  # another worker's, or one that recovery takes up; or a program is at it
            attempt.concluding = True
        try:
            if txn.owner == self.ledger.worker or (yield from self._own(txn)):
                yield from self._conclude_attempt(attempt, txn)
        finally:
            attempt.concluding = False

    def _conclude_attempt(self, attempt: Attempt, txn: Txn) -> Program:
        interrupted: BaseException | None = None
        if attempt.written and txn.state is State.ABORTING:
            # On disk before anything is undone: whoever comes after a crash must not go on with it.
            try:
                yield from self._recorded(attempt)
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = error
        for effect in reversed(attempt.as_acted()):
            if txn.id == DETACHED or self.ledger.is_elsewhere:
                return  # another worker goes on with it, or the parent of this forked child
            try:
                yield from self._conclude_effect(attempt, effect)
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = (
                    error if interrupted is None else interrupted
                )  # an interrupt from the keyboard: the rest is undone first

        def finish(protocol: Protocol, book: Book) -> None:
            if not txn.finished:
                protocol.finish_abort(txn)
            if attempt.written or attempt.effects:  # whoever wrote the first intent may not know yet that it has
                attempt.put(book, [attempt.state_change(self._clock())])
            self._attempts.pop(txn, None)
            if txn.successor is not None:
                self._seat(book, txn.successor, attempt.next(txn.successor))

        yield from self._surely(finish)
        self._keep_plan(attempt, txn)
        with self.local:
            waiters, attempt.waiters = attempt.waiters, []
        self._tell_ended(attempt, None if txn.successor is None else self._attempts.get(txn.successor))
        fire(waiters)
        self._tell_residue(attempt)
        attempt.forget_secrets()
        if interrupted is not None:
            raise interrupted

    def _own(self, txn: Txn) -> Program:
        """Own what was put aside, and return whether that was possible: another process may have come back to it."""

        def own(protocol: Protocol, _book: Book) -> bool:
            if txn.owner not in (NOBODY, self.ledger.worker):
                self._attempts.pop(txn, None)
                return False
            if txn.owner == NOBODY:
                protocol.own(txn, self.ledger.worker)
            return True

        return (yield from self._step(own))

    def _conclude_effect(self, attempt: Attempt, effect: Effect) -> Program:
        # What was undone before, as no plan asked for it, may have left something: that holds what it touched.
        stays = effect.executed or effect.outcome in (Outcome.SUSPENDED, Outcome.UNDONE)
        calls = effect.calls if stays else []

        def back(protocol: Protocol, clean: bool) -> None:
            for call in () if effect.held else calls:
                protocol.undone(call, clean=clean)

        return self._undo_one(attempt, effect, back)

    def _undo_one(
        self, attempt: Attempt, effect: Effect, back: Callable[[Protocol, bool], None], *, because: str | None = None
    ) -> Program:
        """Take an effect back, unless that was done, and note what came of it; what interrupts that is raised then.

        `back` has the protocol know whether nothing of it stays; `because` stands before what else is noted.
        """
        acted = effect.executed and effect.tag is None
        clean = effect.tag is Tag.CLEAN
        unsure = effect.outcome in (Outcome.UNKNOWN, Outcome.FAILED)
        interrupted: BaseException | None = None
        with self._acting(attempt):
            if effect.tag is None:
                try:
                    clean = yield from self._take_back(attempt, effect)
                except GeneratorExit:
                    raise
                except LeaseLost:
                    return  # another worker goes on with it
                except BaseException as error:
                    interrupted = error
                    effect.tag, effect.note = Tag.UNRESOLVED, f"its undo was interrupted: {in_words(error)}"
            if because is not None and not (effect.note or "").startswith(UNDER_WAY):
                effect.note = because if effect.note in (None, because) else f"{because}; {effect.note}"
            yield from self._tell_undone(
                attempt, effect, lambda protocol: back(protocol, clean), acted=acted, unsure=unsure
            )
        if interrupted is not None:
            raise interrupted

    def _tell_undone(
        self, attempt: Attempt, effect: Effect, back: Callable[[Protocol], None], *, acted: bool, unsure: bool
    ) -> Program:
        """Note what has become of an effect that was taken back."""
        under_way = (effect.note or "").startswith(UNDER_WAY)
        told = attempt.outcome(effect, self._clock())

        def undone(protocol: Protocol, book: Book) -> None:
            change = self._told_meanwhile(book, effect, told) if unsure else told
            if under_way and (undone := _undone_by_sender(book, effect)) is not None:
                change = undone
            back(protocol)
            attempt.put(book, [change])

        if acted:
            # On disk before the next is undone: a crash repeats one undo, not many.
            yield from self._surely(undone, durable=True)
        else:
            self.ledger.later(undone)

    def _recorded(self, attempt: Attempt) -> Program:
        """Have it on disk that a transaction aborts, with all that was queued before."""
        yield from self._surely(
            lambda _protocol, book: attempt.put(book, [attempt.state_change(self._clock())]), durable=True
        )

    def _surely(self, step: Step[Any], *, durable: bool = False) -> Program:
        """Take a step that must not be lost: while the store fails it stays queued, and stops nobody's undo."""
        if self.ledger.is_elsewhere:
            yield from self._step(step)  # which tells a forked child so
        if self.ledger.immediate:
            with suppress(LedgerError):
                self.ledger.now(step)
            return
        self.ledger.later(step)
        if self.ledger.stalled:
            return  # whoever comes from there has waited once: it is taken when the store answers again
        with suppress(LedgerError):
            yield from self._step(lambda _protocol, _book: None, durable=durable)

    def _take_back(self, attempt: Attempt, effect: Effect) -> Program:
        """Undo one effect as far as it can be, tag it, and return whether nothing of it stays."""
        if not effect.executed:
            if effect.outcome is not Outcome.FAILED:
                effect.outcome = Outcome.DROPPED
            effect.tag = Tag.CLEAN
            return True
        if effect.held:
            effect.tag = Tag.LEAKED
            effect.note = "it had left, or may have, before the abort: ask the counterparty"
            return False
        if effect.sender is not None and effect.outcome is Outcome.CONFIRMED:
            silent, undone = yield from self._undone_elsewhere(effect)
            if undone:
                return effect.tag is Tag.CLEAN
            if silent:
                effect.tag, effect.note = Tag.UNRESOLVED, UNDER_WAY
                return False
        current = attempt.current(effect)
        undoing = undo(effect, current, attempt.retries, self, partial(self._ours_to_undo, attempt.live))
        if self.observer is not None:
            undoing = self._observed(attempt, effect, "undo", current, undoing)
        return (yield from undoing)

    def _undone_elsewhere(self, effect: Effect) -> Program:
        """Return whether a worker that fell silent may be undoing an effect now, and whether it said that it has."""
        sender = effect.sender or ""

        def look(_protocol: Protocol, book: Book) -> tuple[bool, bool]:
            return sender in book.ghosts(), _undone_by_sender(book, effect) is not None

        try:
            return (yield from self._step(look))
        except LedgerError:
            return True, False

    @staticmethod
    def _told_meanwhile(book: Book, effect: Effect, change: OutcomeChange) -> OutcomeChange:
        """Return what to record of an undone effect: what was told of it meanwhile goes before not knowing."""
        if change.outcome not in (Outcome.UNKNOWN, Outcome.FAILED):
            return change
        known = told_of(book, effect.key)
        if known is None or known.outcome is change.outcome:
            return change
        effect.outcome = known.outcome
        if known.outcome is Outcome.FAILED:
            effect.tag, effect.note = Tag.CLEAN, known.note
        elif effect.held:
            effect.tag, effect.note = Tag.LEAKED, f"it had left before the abort ({known.note})"
        else:
            undoable = effect.declaration.undo is not None or effect.missing is not None
            noted = known.note if is_to_be_undone(known.note) else f"{TO_UNDO} ({known.note})"
            why = noted if undoable else f"it happened, and {no_undo(effect)} ({known.note})"
            effect.tag, effect.note = Tag.UNRESOLVED, why
        return change._replace(
            outcome=effect.outcome, result=known.result, error=None, tag=effect.tag, note=effect.note
        )

    def _unknown(self, attempt: Attempt, book: Book) -> list[Change]:
        """Tag what a commit would leave in doubt: nothing whose outcome nobody knows is swallowed."""
        found = [
            e
            for e in attempt.in_order()
            if e.outcome is Outcome.UNKNOWN and not e.held and e.tag in (None, Tag.UNRESOLVED)
        ]
        for effect in found:
            known = told_of(book, effect.key)
            if known is None:
                named = (effect.note or "").startswith(ORPHANED)
                effect.tag, effect.note = Tag.UNRESOLVED, effect.note if named else NOBODY_KNOWS
            else:
                effect.outcome, effect.tag, effect.note = known.outcome, known.tag, known.note
        return [attempt.outcome(e, self._clock()) for e in found if e.outcome is Outcome.UNKNOWN]


def _undone_by_sender(book: Book, effect: Effect) -> OutcomeChange | None:
    """Return the record of an effect that was undone meanwhile by who had been at it, and take it over, or None."""
    found = effect_of_key(book, effect.key)
    if found is None or found.outcome is not Outcome.UNDONE:
        return None
    effect.outcome, effect.tag, effect.note = found.outcome, found.tag or Tag.CLEAN, found.note
    at = found.settled_at or 0.0
    return OutcomeChange(
        effect.key, found.outcome, found.result, found.error, effect.tag, found.note, at, found.row.tool
    )


def _nothing() -> None:
    """What is not concluded here is taken up by whoever looks next."""
