"""What was decided before and is not asked for any more, when a name is entered again.

A process that comes back to an open transaction makes its decisions anew: those that are on record are answered from
there. A plan that was made again may lack some of them, as a model's that is asked a second time; so may a tool that
is called again, of what it had called within. Nobody's plan asks for these: before anything settles on the new plan
they are taken back. What is held never leaves, what acted is undone, what cannot be undone is named.
"""

from __future__ import annotations

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program, in_doubt
from settlemark._attempt.attempt import Attempt
from settlemark._engine.admission import give_back, returned
from settlemark._engine.doubt import told_of
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.undo.take_back import TakingBack
from settlemark._model.disposition import Disposed, Disposition, words
from settlemark._model.effect_class import Outcome
from settlemark._model.identity import Path
from settlemark._protocol.holdings import DETACHED, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import Book, OutcomeChange


class Orphans:
    """Takes back what nobody asks for any more."""

    def __init__(self, kernel: Kernel, undoing: Undoing, taking_back: TakingBack) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._taking_back = taking_back

    def take_back_orphans(self, attempt: Attempt, base: Path = (), *, because: str | None = None) -> Program[None]:
        """Undo what was expected to be decided again (below `base`) and was not; what is held is dropped.

        `because` says in words why nobody asks for it, where that is known.
        That they are taken back is on disk before the first is undone: a process after a crash builds on none.

        Raises:
            Refused: something else was built upon it, so all of the transaction was undone; or it had been.
            InDoubt: a worker that fell silent may still be sending one of them.
        """
        if not attempt.expected.paths:
            return
        txn = attempt.live
        if not base:  # else the calls below it are over, and others are none of its
            yield from self._kernel.waits.quiesce(attempt, txn)
        if txn.state is not State.OPEN:
            return
        found = attempt.expected.orphans(base)
        yield from self._refuse_built_upon(attempt, txn, found)
        yield from self._strike_out(attempt, txn, found, because)
        for effect in reversed(found):
            if effect.executed:
                yield from self._undo_orphan(attempt, txn, effect)
            attempt.expected.paths.discard(effect.path)

    def go_on(self, attempt: Attempt, base: Path) -> Program[None]:
        """Undo what a process that has ended had begun to take back below `base`.

        Raises:
            Refused: its transaction was undone. InDoubt: a worker that fell silent may still be sending one of them.
        """
        if attempt.replay is not None or attempt.live.state is not State.OPEN:
            return
        found = [effect for path, effect in sorted(attempt.effects.copy().items()) if path[: len(base)] == base]
        for effect in reversed(found):
            if effect.disposition is Disposition.ORPHANED and effect.executed and effect.tag is None:
                yield from self._undo_orphan(attempt, attempt.live, effect)

    def ask_about_kept(self, attempt: Attempt) -> Program[None]:
        """Ask what became of calls that an ended process made, and that stand although nobody makes them again.

        Their answers were given before that process died: what their counterparty does not know of stays in doubt.
        """
        if not attempt.again:
            return  # nothing of it is from before
        for effect in attempt.in_order():
            kept = effect.came < attempt.again and effect.tag is None and not effect.held
            if kept and effect.outcome is Outcome.UNKNOWN and effect.declaration.probe is not None:
                yield from self._taking_back.find_out(attempt, effect)

    def _refuse_built_upon(self, attempt: Attempt, txn: Txn, orphans: list[Effect]) -> Program[None]:
        """Return when effects can be taken back by themselves, without what read them, or acted behind them.

        Raises:
            Stale: they cannot, and all of their transaction is undone, the newest first.
        """
        why = next((why for effect in reversed(orphans) if (why := _built_upon(attempt, txn, effect, orphans))), None)
        if why is None:
            return
        orphan, what = why
        how = f"is as {orphan.declaration.tool} left it, which was {words(Disposition.ORPHANED)}, and {what}"
        yield from self._undoing.refuse(attempt, Reason.STALE, scope=orphan.scope_text, how=how, remedy="begin anew")

    def _strike_out(self, attempt: Attempt, txn: Txn, orphans: list[Effect], because: str | None) -> Program[None]:
        """Record that effects are taken back, before any undo begins; held effects are dropped by that."""
        told: list[OutcomeChange] = []
        for effect in orphans:
            if effect.held or effect.outcome is Outcome.SUSPENDED:
                effect.outcome = Outcome.DROPPED
            if not effect.executed:
                effect.tag = Tag.CLEAN
            effect.disposed = Disposed(Disposition.ORPHANED, because)
            told.append(attempt.records.outcome(effect, self._kernel.clock()))

        def strike_out(protocol: Protocol, book: Book) -> None:
            if txn.state is State.OPEN:
                for effect in orphans:
                    if effect.outcome is Outcome.DROPPED:
                        give_back(protocol, effect)
            attempt.put(book, [_as_known(book, change) for change in told])

        yield from self._kernel.step(strike_out, durable=True)
        yield from self._undoing.tidy()

    def _undo_orphan(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        calls = [call for call in effect.calls if call.hold is not None]

        def begin(protocol: Protocol, _book: Book) -> None:
            if txn.state is not State.OPEN:
                raise protocol.refusal(txn)
            # As long as it runs, nobody concludes an abort: it would be undone twice.
            protocol.resumed([call for call in calls if call.returned])

        yield from self._kernel.step(begin)
        known = yield from self._taking_back.undo_one(
            attempt,
            effect,
            lambda protocol, clean: returned(protocol, calls, happened=not clean),
            because=Disposition.ORPHANED,
        )
        if known is False and txn.id == DETACHED:
            raise self._kernel.protocol.refusal(txn)
        if known is False:  # it may still come: what would commit now could be read before that
            yield from self._kernel.step(lambda protocol, _book: returned(protocol, calls, happened=True))
            raise in_doubt(effect)
        yield from self._undoing.tidy()


def _built_upon(attempt: Attempt, txn: Txn, orphan: Effect, orphans: list[Effect]) -> tuple[Effect, str] | None:
    """Return why an effect cannot be taken back by itself, or None."""
    if orphan.path in attempt.expected.seen:
        return orphan, "it was read since"
    if orphan.held or not orphan.executed:
        return None
    upon = next((e for e in attempt.in_order() if e not in orphans and _is_built_upon(orphan, e)), None)
    if upon is not None:
        return orphan, f"{upon.declaration.tool} acted on it behind that"
    return (orphan, "others have seen it") if txn.dependents else None


def _as_known(book: Book, change: OutcomeChange) -> OutcomeChange:
    """Return a change that says nothing else of an outcome in doubt than what was told of it meanwhile."""
    known = told_of(book, change.key) if change.outcome is Outcome.UNKNOWN else None
    if known is None:
        return change
    return change._replace(outcome=known.outcome, result=known.result, error=known.error)


def _is_built_upon(orphan: Effect, effect: Effect) -> bool:
    if effect.held or not effect.executed or (effect.came, effect.path) < (orphan.came, orphan.path):
        return False
    return any(ours.overlaps(theirs) for ours in effect.scopes for theirs in orphan.scopes)


__all__ = ["Orphans"]
