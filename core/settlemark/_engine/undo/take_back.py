"""Taking back one effect: undone, dropped or named, and what came of that on record before the next."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from settlemark._acts.current import CurrentCall
from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import current_of
from settlemark._edges.errors import LeaseLost, LedgerError
from settlemark._edges.wording import in_words
from settlemark._engine.doubt import Probing, effect_of_key, told_of
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.mend import Mending
from settlemark._engine.undo.retries import no_undo, undo
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Tag
from settlemark.ledger._contract import Book, OutcomeChange


class TakingBack:
    """Takes back effects, one at a time."""

    def __init__(self, kernel: Kernel, probing: Probing, mending: Mending) -> None:
        self._kernel = kernel
        self._probing = probing
        self._mending = mending

    def undo_one(
        self,
        attempt: Attempt,
        effect: Effect,
        back: Callable[[Protocol, bool], None],
        *,
        because: Disposition | None = None,
    ) -> Program[bool | None]:
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
                    return False  # another worker may have it by now: nothing acts before the store tells
                except BaseException as error:
                    interrupted = error
                    why = f"its undo was interrupted: {in_words(error)}"
                    effect.tag, effect.disposed = Tag.UNRESOLVED, Disposed(Disposition.UNDO_FAILED, why)
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
        told = attempt.records.outcome(effect, self._kernel.clock())

        def undone(protocol: Protocol, book: Book) -> None:
            change = self._told_meanwhile(book, effect, told) if unsure else told
            back(protocol)
            attempt.put(book, [change])

        if acted:
            # On disk before the next is undone: a crash repeats one undo, not many.
            return (yield from self._kernel.queue_step(undone, durable=True))
        self._kernel.ledger.later(undone)
        return True

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
        current = current_of(attempt, effect)
        if effect.sender is not None:
            silent, undone = yield from self._undone_elsewhere(effect)
            if undone:
                return effect.tag is Tag.CLEAN
            if silent and (
                effect.outcome is Outcome.CONFIRMED or not (yield from self._has_come(attempt, effect, current))
            ):
                return None
        undoing = undo(
            effect,
            current,
            attempt.retries,
            self._probing,
            partial(self._kernel.still_ours, attempt.live),
            came=lambda: self._note_come(attempt, effect),
            made=partial(attempt.made_by, effect),
        )
        if self._kernel.telling.observer is not None:
            undoing = self._kernel.telling.observed(attempt, effect, "undo", current, undoing)
        return (yield from undoing)

    def find_out(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Ask once what became of an effect in doubt; one that turns out to have happened is confirmed, on disk."""
        found = yield from self._probing.ask(effect, current_of(attempt, effect), None, final=False)
        if found is not UNKNOWN and found is not None:
            effect.confirm(found)
            yield from self._note_come(attempt, effect)

    def _has_come(self, attempt: Attempt, effect: Effect, current: CurrentCall) -> Program[bool]:
        """Return whether it is known what became of what a silent worker was sending: nothing more of it is to come."""
        found = yield from self._probing.ask(effect, current, attempt.retries, final=True)
        if found is UNKNOWN:
            return False
        if found is not None:  # else an operator, who knows, has said so meanwhile
            effect.confirm(found)
            return (yield from self._note_come(attempt, effect))
        return True

    def _note_come(self, attempt: Attempt, effect: Effect) -> Program[bool]:
        """Record that an effect in doubt did happen, before its undo; return whether it is on disk.

        Should this worker fall silent, no other then takes the effect for a call that is still to come.
        """
        told = attempt.records.outcome(effect, self._kernel.clock())

        def tell(_protocol: Protocol, book: Book) -> None:
            attempt.put(book, [told])
            book.set_sender([effect.key], None)

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
            return sender in book.zombies(), _undone_by_sender(book, effect) is not None

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
                note = f"it happened, and {no_undo(effect)} ({known.disposed})"
                effect.disposed = Disposed(Disposition.NO_UNDO, note)
            elif known.disposition is not Disposition.TO_UNDO:
                effect.disposed = Disposed(Disposition.TO_UNDO, f"({known.disposed})")
        return OutcomeChange.of(
            change.key, effect.outcome, known.result, None, effect.tag, effect.disposed, change.at, change.tool
        )


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


__all__ = ["TakingBack"]
