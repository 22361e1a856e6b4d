"""Undoing what an abort leaves, in the program that made the last step before the abort."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.undo import no_undo, undo
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import LeaseLost, LedgerError
from settlemark._edges.wording import in_words
from settlemark._engine.doubt import Probing, Residue, effect_of_key, told_of
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.mend import Mending
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._observe.logs import about_txn
from settlemark._protocol.holdings import DETACHED, Txn, fire
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import Book, OutcomeChange
from settlemark.ledger._workers import process

Beside = Callable[[Program[None], Callable[[], None]], None]
"""Runs a program beside the one that gives it; calls the function when it will not be begun any more."""


class Undoing:
    """Aborts transactions, and undoes what they did."""

    def __init__(
        self, kernel: Kernel, probing: Probing, freshness: Freshness, residue: Residue, mending: Mending
    ) -> None:
        self._kernel = kernel
        self._probing = probing
        self._freshness = freshness
        self._residue = residue
        self._mending = mending
        self.given: set[Txn] = set()  # aborted ones whose conclusion was given to a thread that has yet to begin it

    def abort(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[None]:
        """Abort a transaction and return when everything of it is undone or named.

        One that is releasing is past that: this waits for it, and leaves it as it ends. One that goes on by
        itself when the store works again is not waited for.
        """
        txn = attempt.txn
        if txn is None or attempt.adrift:
            return
        yield from self.doom(attempt, reason, **detail)
        if txn.state in (State.ABORTING, State.RELEASING, State.ABORTED):
            yield from self._kernel.until_finished(attempt, txn)

    def refuse(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[NoReturn]:
        """Abort a transaction, and raise why it was.

        Raises:
            Refused: always.
        """
        yield from self.abort(attempt, reason, **detail)
        with self._kernel.local as protocol:
            raise protocol.refusal(attempt.live)

    def doom(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[None]:
        """Abort a transaction from within one of its calls: it is undone when that has returned."""
        txn, detail = attempt.live, attempt.cause(detail)

        def doom(protocol: Protocol, _book: Book) -> None:
            protocol.abort(txn, reason, **detail)
            if txn.id == DETACHED:
                self._kernel.attempts.pop(txn, None)  # whoever doomed it may have gone when the store works again

        # While the store fails this stays queued, and whoever tends concludes it when the store works again.
        yield from self._kernel.surely(doom)
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
            protocol.nudge(txn)

    def abandon(self, attempt: Attempt) -> Program[None]:
        """Give up the place that an aborted attempt's retry has taken, or would take: nobody will use it."""
        txn = attempt.txn
        if txn is None:
            return
        yield from self._kernel.surely(lambda protocol, _book: protocol.unretry(txn))
        yield from self.tidy()
        yield from self._kernel.until_concluded(attempt, txn)  # what was queued before may have made the retry already
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
                if beside is not None:
                    self.given.update(aborted)
            for txn in aborted:
                if beside is not None:
                    beside(self._conclude_given(txn), partial(self.given.discard, txn))
                    continue
                try:
                    yield from self.conclude(txn)
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
            # On disk before anything is undone: whoever comes after a crash must not go on with it.
            try:
                if not (yield from self._recorded(attempt)):
                    self._drift(attempt)
                    return
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = error
        left, interrupted = yield from self._conclude_effects(attempt, txn, interrupted)
        if left is not None:
            if attempt.adrift:
                self._drift(attempt)
            elif not (txn.id == DETACHED or self._kernel.ledger.is_elsewhere):
                yield from self._put_off_undo(attempt, txn, left)
            if interrupted is not None:
                raise interrupted
            return

        def finish(protocol: Protocol, book: Book) -> None:
            if not txn.finished:
                protocol.finish_abort(txn)
            if attempt.written or attempt.effects:  # whoever wrote the first intent may not know yet that it has
                attempt.put(book, [attempt.state_change(self._kernel.clock())])
            self._kernel.attempts.pop(txn, None)
            if txn.successor is not None:
                self._kernel.seat(book, txn.successor, attempt.next(txn.successor))

        yield from self._kernel.surely(finish)
        self._freshness.keep_plan(attempt, txn)
        with self._kernel.local:
            waiters, attempt.waiters = attempt.waiters, []
        self._kernel.telling.ended(attempt, None if txn.successor is None else self._kernel.attempts.get(txn.successor))
        fire(waiters)
        self._residue.tell(attempt)
        attempt.forget_secrets()
        if interrupted is not None:
            raise interrupted

    def _conclude_effects(
        self, attempt: Attempt, txn: Txn, interrupted: BaseException | None
    ) -> Program[tuple[Effect, BaseException | None] | tuple[None, BaseException | None]]:
        """Undo what can be, the last first; return the effect at which it had to stop, if any, and what interrupted it.

        It stops where another goes on: another worker, the parent of this forked child, or nobody for the moment; and
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
                attempt.adrift = concluded is None
            attempt.concluded.add(effect.path)
            if attempt.adrift:
                return effect, interrupted
        return None, interrupted

    def _drift(self, attempt: Attempt) -> None:
        """Leave an abort where the store's failure has stopped it: it is gone on with when the store works again."""
        attempt.adrift = True
        log.warning(
            "%s is to be undone, and the ledger does not answer: that goes on by itself when it does", attempt.name,
            extra=about_txn(attempt.live, state=attempt.live.state.value),
        )  # fmt: skip
        with self._kernel.local:
            waiters, attempt.waiters = attempt.waiters, []
        fire(waiters)
        self._kernel.call_tender()

    def _put_off_undo(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Leave an abort where it is, holding what it holds: a worker that fell silent may be at an effect of it.

        Whoever looks next goes on with it: when who fell silent does nothing more, or is known to have done it.
        """
        attempt.adrift = True
        told = attempt.outcome(effect, self._kernel.clock())

        def put_off(protocol: Protocol, book: Book) -> None:
            found = effect_of_key(book, effect.key)
            if found is not None and found.outcome is Outcome.INTENDED:
                attempt.put(book, [told])
                log.warning(
                    "%s keeps %s: %s, which fell silent, may still be sending %s; it is undone when that is known",
                    attempt.name, effect.scope_text, process(effect.sender or ""), effect.declaration.tool,
                    extra=attempt.about(effect),
                )  # fmt: skip
            if not attempt.knows_more:
                self._kernel.attempts.pop(txn, None)
            protocol.nudge(txn)  # whoever waits for its end here has done what can be done now

        yield from self._kernel.surely(put_off)
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
        calls = effect.calls  # what did not happen has given them back, unless somebody else came to know it

        def back(protocol: Protocol, clean: bool) -> None:
            for call in () if effect.held else calls:
                protocol.undone(call, clean=clean)

        return self.undo_one(attempt, effect, back)

    def undo_one(
        self, attempt: Attempt, effect: Effect, back: Callable[[Protocol, bool], None], *,
        because: Disposition | None = None,
    ) -> Program[bool | None]:  # fmt: skip
        """Take an effect back, unless that was done, and note what came of it; what interrupts that is raised then.

        Return True, or None where the store has not taken the note yet. Return False, and nothing is noted, while
        another worker is at it, or one that fell silent may be. `back` has the protocol know whether nothing of it
        stays; `because` is what it stands as, whatever else is noted.
        """
        acted = effect.executed and effect.tag is None
        clean: bool | None = effect.tag is Tag.CLEAN
        unsure = effect.outcome in (Outcome.UNKNOWN, Outcome.FAILED)
        interrupted: BaseException | None = None
        with self._kernel.acting(attempt):
            if effect.tag is None:
                try:
                    clean = yield from self._take_back(attempt, effect)
                except GeneratorExit:
                    raise
                except LeaseLost:
                    return False  # another worker goes on with it
                except LedgerError:
                    effect.tag = None
                    return False  # another may have it by now: nothing acts before the store tells
                except BaseException as error:
                    interrupted = error
                    why = f"its undo was interrupted: {in_words(error)}"
                    effect.tag, effect.disposed = Tag.UNRESOLVED, Disposed(note=why)
            if clean is None:
                return False
            stays_clean = clean
            if because is not None and effect.disposition is not because:
                effect.disposed = effect.disposed._replace(disposition=because, note=effect.disposed.told)
            noted = yield from self._tell_undone(
                attempt, effect, lambda protocol: back(protocol, stays_clean), acted=acted, unsure=unsure
            )
        if interrupted is not None:
            raise interrupted
        return True if noted else None

    def _tell_undone(
        self, attempt: Attempt, effect: Effect, back: Callable[[Protocol], None], *, acted: bool, unsure: bool
    ) -> Program[bool]:
        """Note what has become of an effect that was taken back; return whether that is on disk, if it has to be."""
        told = attempt.outcome(effect, self._kernel.clock())

        def undone(protocol: Protocol, book: Book) -> None:
            change = self._told_meanwhile(book, effect, told) if unsure else told
            back(protocol)
            attempt.put(book, [change])

        if acted:
            # On disk before the next is undone: a crash repeats one undo, not many.
            return (yield from self._kernel.surely(undone, durable=True))
        self._kernel.ledger.later(undone)
        return True

    def _recorded(self, attempt: Attempt) -> Program[bool]:
        """Record that a transaction aborts, behind all that was queued before; return whether it is on disk."""
        return (
            yield from self._kernel.surely(
                lambda _protocol, book: attempt.put(book, [attempt.state_change(self._kernel.clock())]), durable=True
            )
        )

    def _take_back(self, attempt: Attempt, effect: Effect) -> Program[bool | None]:
        """Undo one effect as far as it can be, tag it, and return whether nothing of it stays.

        None, and it is left as it is, while a worker that fell silent may be sending it, or undoing it.
        """
        if attempt.live.mends and effect.call_id is not None:
            return (yield from self._mending.take_back(attempt, effect))
        if not effect.executed:
            if effect.outcome is not Outcome.FAILED:
                effect.outcome = Outcome.DROPPED
            effect.tag = Tag.CLEAN
            return True
        if effect.held:
            effect.tag = Tag.LEAKED
            effect.disposed = Disposed(note="it had left, or may have, before the abort: ask the counterparty")
            return False
        current = attempt.current(effect)
        if effect.sender is not None:
            silent, undone = yield from self._undone_elsewhere(effect)
            if undone:
                return effect.tag is Tag.CLEAN
            if silent and (
                effect.outcome is Outcome.CONFIRMED or not (yield from self._has_come(attempt, effect, current))
            ):
                return None
        undoing = undo(
            effect, current, attempt.retries, self._probing, partial(self._kernel.still_ours, attempt.live),
            came=lambda: self._note_come(attempt, effect),
        )  # fmt: skip
        if self._kernel.telling.observer is not None:
            undoing = self._kernel.telling.observed(attempt, effect, "undo", current, undoing)
        return (yield from undoing)

    def _has_come(self, attempt: Attempt, effect: Effect, current: CurrentCall) -> Program[bool]:
        """Return whether it is known what became of what a silent worker was sending: nothing more of it is to come."""
        found = yield from self._probing.ask(effect, current, attempt.retries, final=True)
        if found is UNKNOWN:
            return False
        if found is not None:  # else somebody has said so meanwhile, who knows
            effect.confirm(found)
            return (yield from self._note_come(attempt, effect))
        return True

    def _note_come(self, attempt: Attempt, effect: Effect) -> Program[bool]:
        """Record that an effect in doubt did happen, before its undo; return whether it is on disk.

        Should this worker fall silent, nobody then takes it for a call that is still to come: it may be undoing it.
        """
        told = attempt.outcome(effect, self._kernel.clock())

        def tell(_protocol: Protocol, book: Book) -> None:
            attempt.put(book, [told])
            book.may_come([effect.key], None)

        try:
            yield from self._kernel.step(tell, durable=True)
        except LedgerError:
            return False
        effect.sender = None
        return True

    def _undone_elsewhere(self, effect: Effect) -> Program[tuple[bool, bool]]:
        """Return whether a worker that fell silent may be at an effect now, and whether it said that it undid it."""
        sender = effect.sender or ""

        def look(_protocol: Protocol, book: Book) -> tuple[bool, bool]:
            return sender in book.ghosts(), _undone_by_sender(book, effect) is not None

        try:
            return (yield from self._kernel.step(look))
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
            effect.tag, effect.disposed = Tag.CLEAN, known.disposed
        elif effect.held:
            effect.tag, effect.disposed = Tag.LEAKED, Disposed(note=f"it had left before the abort ({known.disposed})")
        else:
            undoable = effect.declaration.undo is not None or effect.missing is not None
            effect.tag, effect.disposed = Tag.UNRESOLVED, known.disposed
            if not undoable:
                effect.disposed = Disposed(note=f"it happened, and {no_undo(effect)} ({known.disposed})")
            elif known.disposition is not Disposition.TO_UNDO:
                effect.disposed = Disposed(Disposition.TO_UNDO, f"({known.disposed})")
        return OutcomeChange.of(
            change.key, effect.outcome, known.result, None, effect.tag, effect.disposed, change.at, change.tool
        )

    def discard(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program[None]:
        """Abort a transaction that nobody will try again, and return when everything of it is undone or named."""
        yield from self.abandon(attempt)
        yield from self.abort(attempt, reason, **detail)


def _undone_by_sender(book: Book, effect: Effect) -> OutcomeChange | None:
    """Return the record of an effect that was undone meanwhile by who had been at it, and take it over, or None."""
    found = effect_of_key(book, effect.key)
    if found is None or found.outcome is not Outcome.UNDONE:
        return None
    effect.outcome, effect.tag, effect.disposed = found.outcome, found.tag or Tag.CLEAN, found.disposed
    at = found.settled_at or 0.0
    return OutcomeChange.of(
        effect.key, found.outcome, found.result, found.error, effect.tag, found.disposed, at, found.row.tool
    )
