"""Undoing what an abort leaves, in whoever's program made the last step before it."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from settlemark._acting import Program, undo
from settlemark._attempt import Attempt
from settlemark._effect import Effect, Outcome
from settlemark._errors import LedgerError
from settlemark._program import Programs
from settlemark._requests import Recorded
from settlemark._states import Reason, State, Tag
from settlemark._txn import Txn

_UNKNOWN = "nobody can tell whether it happened: ask the counterparty"


class Aborting(Programs):
    """The part of a driver that aborts and undoes."""

    def abort(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program:
        """Abort a transaction and return when everything of it is undone or named.

        One that is releasing is past that: this waits for it, and leaves it as it ends.
        """
        txn = attempt.txn
        if txn is None:
            return
        with self.step as protocol:
            protocol.abort(txn, reason, **detail)
        yield from self._tidy()
        if txn.state in (State.ABORTING, State.RELEASING):
            yield from self._until_finished(attempt, txn)

    def suspend(self, attempt: Attempt) -> None:
        """Leave a transaction open: entering its name again goes on where it stopped."""
        with self.step as protocol:
            attempt.suspended = True
            protocol.nudge(attempt.live)

    def _abandon(self, attempt: Attempt) -> Program:
        """Give up the place that an aborted attempt's retry has taken, or would take: nobody will use it."""
        txn = attempt.txn
        if txn is None:
            return
        with self.step as protocol:
            protocol.unretry(txn)
        again = self._attempts.get(txn.successor) if txn.successor is not None else None
        if again is not None:
            yield from self.abort(again, Reason.ABANDONED)

    def _tidy(self) -> Program:
        """Conclude whatever this program's last step aborted, its own transaction or another's."""
        interrupted: BaseException | None = None
        while self._protocol.has_aborted:
            with self.step as protocol:
                aborted = protocol.take_aborted()
            for txn in aborted:
                try:
                    yield from self._conclude(txn)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    # An interrupt from the keyboard: the others are undone first.
                    interrupted = interrupted or error
        if interrupted is not None:
            raise interrupted

    def _conclude(self, txn: Txn) -> Program:
        attempt = self._attempts.get(txn)
        if attempt is None:
            return
        interrupted: BaseException | None = None
        if attempt.written and txn.state is State.ABORTING:
            # On record before anything is undone: whoever comes after a crash must not go on with it.
            try:
                yield from self._recorded(self._write([attempt.state_change(self._clock())]))
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = error
        for effect in reversed(attempt.in_order()):
            try:
                yield from self._conclude_effect(attempt, effect)
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = interrupted or error  # an interrupt from the keyboard: the rest is undone first
        with self.step as protocol:
            if not txn.finished:
                protocol.finish_abort(txn)
            self._leave(attempt, txn)
            if txn.successor is not None:
                self._enter(attempt.next(txn.successor), txn.successor)
        if attempt.written:
            self._write([attempt.state_change(self._clock())])
        self._tell_residue(attempt)
        if interrupted is not None:
            raise interrupted

    def _conclude_effect(self, attempt: Attempt, effect: Effect) -> Program:
        acted = effect.executed and effect.tag is None
        calls = effect.calls if effect.executed or effect.outcome is Outcome.SUSPENDED else []
        clean = effect.tag is Tag.CLEAN
        interrupted: BaseException | None = None
        if effect.tag is None:
            try:
                clean = yield from self._take_back(attempt, effect)
            except GeneratorExit:
                raise
            except BaseException as error:
                interrupted = error
                effect.tag, effect.note = Tag.UNRESOLVED, f"its undo was interrupted: {error!r}"
        with self.step as protocol:
            for call in () if effect.held else calls:
                protocol.undone(call, clean=clean)
        recorded = self._write([attempt.outcome(effect, self._clock())])
        if acted:
            # On record before the next is undone: a crash repeats one undo, not many.
            yield from self._recorded(recorded)
        if interrupted is not None:
            raise interrupted

    @staticmethod
    def _recorded(pending: Future[Any] | None) -> Program:
        """Wait until a write is on record; that it failed has been told, and stops nobody's undo."""
        if pending is not None:
            with suppress(LedgerError):
                yield Recorded(pending)

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
        return (yield from undo(effect, attempt.current(effect), attempt.retries))

    def _name_unknown(self, attempt: Attempt) -> None:
        """Tag what a commit would leave in doubt: nothing whose outcome nobody knows is swallowed."""
        for effect in attempt.in_order():
            if effect.outcome is Outcome.UNKNOWN and not effect.held and effect.tag is None:
                effect.tag, effect.note = Tag.UNRESOLVED, _UNKNOWN
                self._write([attempt.outcome(effect, self._clock())])
