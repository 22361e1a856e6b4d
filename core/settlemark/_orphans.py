"""What was decided before and is not asked for any more, when a name is entered again.

A process that comes back to an open transaction makes its decisions anew: those that are on record are answered from
there. A plan that was made again may lack some of them, as a model's that is asked a second time; so may a tool that
is called again, of what it had called within. Nobody's plan asks for these: before anything settles on the new plan
they are taken back. What is held never leaves, what acted is undone, what cannot be undone is named.
"""

from __future__ import annotations

from collections.abc import Iterable

from settlemark._aborting import UNDER_WAY, Aborting
from settlemark._acting import ORPHANED, Program
from settlemark._attempt import Attempt
from settlemark._calling import give_back, returned
from settlemark._effect import Effect, Outcome
from settlemark._nesting import Path
from settlemark._protocol import Protocol
from settlemark._states import Reason, State, Tag
from settlemark._txn import Txn
from settlemark._wording import in_words
from settlemark.ledger._contract import Book


class Orphaning(Aborting):
    """The part of a driver that takes back what nobody asks for any more."""

    def _quiesce(self, attempt: Attempt, txn: Txn) -> Program:
        """Wait for the calls still in flight: see `Settling`."""
        raise NotImplementedError

    def take_back_orphans(self, attempt: Attempt, base: Path = ()) -> Program:
        """Undo what was expected to be decided again (below `base`) and was not; what is held is dropped.

        Raises:
            Refused: something else was built upon it, so all of the transaction was undone; or it had been.
        """
        txn = attempt.txn
        if txn is None or not attempt.expected:
            return
        yield from self._quiesce(attempt, txn)
        if txn.state is not State.OPEN:
            return
        found = attempt.orphans(base)
        for effect in reversed(found):
            yield from self._refuse_built_upon(attempt, txn, effect, found)
        for effect in reversed(found):
            if effect.held or effect.outcome is Outcome.SUSPENDED:
                yield from self._drop_orphan(attempt, effect)
            else:
                yield from self._undo_orphan(attempt, txn, effect)
            attempt.expected.discard(effect.path)

    def _refuse_built_upon(self, attempt: Attempt, txn: Txn, orphan: Effect, orphans: Iterable[Effect]) -> Program:
        """Return when an effect can be undone by itself, without what acted behind it.

        Raises:
            Refused: it cannot, and all of its transaction is undone, the newest first.
        """
        if orphan.held or not orphan.executed:
            return
        upon = next((e for e in attempt.in_order() if e not in orphans and _is_built_upon(orphan, e)), None)
        if upon is None and not txn.dependents:
            return
        why = "others have seen it" if upon is None else f"{upon.declaration.tool} acted on it behind that"
        yield from self.abort(
            attempt,
            Reason.FAILED,
            cause=f"{orphan.declaration.tool} on {orphan.scope_text} was {ORPHANED}, and {why}: begin anew",
        )
        with self.local as protocol:
            raise protocol.refusal(txn)

    def _drop_orphan(self, attempt: Attempt, effect: Effect) -> Program:
        effect.outcome, effect.tag, effect.note = Outcome.DROPPED, Tag.CLEAN, ORPHANED
        told = attempt.outcome(effect, self._clock())

        def drop(protocol: Protocol, book: Book) -> None:
            if attempt.live.state is State.OPEN:
                give_back(protocol, effect)
            attempt.put(book, [told])

        yield from self._step(drop, durable=True)
        yield from self._tidy()

    def _undo_orphan(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        calls = [call for call in effect.calls if call.hold is not None]

        def begin(protocol: Protocol, _book: Book) -> None:
            if txn.state is not State.OPEN:
                raise protocol.refusal(txn)
            # As long as it runs, nobody concludes an abort: it would be undone twice.
            protocol.resumed([call for call in calls if call.returned])

        yield from self._step(begin)
        interrupted: BaseException | None = None
        clean = False
        with self._acting(attempt):
            try:
                clean = yield from self._take_back(attempt, effect)
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = error
                effect.tag, effect.note = Tag.UNRESOLVED, f"its undo was interrupted: {in_words(error)}"
            if not (effect.note or "").startswith(UNDER_WAY):
                effect.note = ORPHANED if effect.note is None else f"{ORPHANED}; {effect.note}"
            told = attempt.outcome(effect, self._clock())

            def undone(protocol: Protocol, book: Book) -> None:
                returned(protocol, calls, happened=not clean)
                attempt.put(book, [self._told_meanwhile(book, effect, told)])

            yield from self._surely(undone, durable=True)
        yield from self._tidy()
        if interrupted is not None:
            raise interrupted


def _is_built_upon(orphan: Effect, effect: Effect) -> bool:
    if effect.held or not effect.executed or (effect.came, effect.path) < (orphan.came, orphan.path):
        return False
    return any(ours.overlaps(theirs) for ours in effect.scopes for theirs in orphan.scopes)


__all__ = ["Orphaning"]
