"""What the calls of an open turn are answered: what came of each, as far as that is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from settlemark._acts.effect import Effect
from settlemark._acts.perform import in_doubt
from settlemark._api.transaction import Queued
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import InDoubt, Refused
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._protocol.states import State
from settlemark._runtime.driver import Driver
from settlemark.agents._call import PlacedCall
from settlemark.agents._open.settling import Settling
from settlemark.agents._words import Undone, became, keeps_its_answer, words


class Answers:
    """What became of the calls of one open turn.

    Args:
        driver, attempt, turn: the turn's.
        calls: all of it, as they get their places.
        end: how the turn ends.
    """

    def __init__(
        self, driver: Driver, attempt: Attempt, turn: Turn, calls: Sequence[PlacedCall], end: Settling
    ) -> None:
        self._driver = driver
        self._attempt = attempt
        self._turn = turn
        self._calls = calls
        self._end = end

    @property
    def are_final(self) -> bool:
        """Whether they are the last word: the turn has settled by itself, and was not put aside."""
        return self._end.settled and not (self._end.joined or self._end.suspended)

    def acting(self, call: PlacedCall) -> Effect | None:
        """Return the effect that acts for a call: the last it asked for, or what was approved in its place."""
        last = call.last
        if last is None:
            return None
        known = self._attempt.effects.get(last.path, last)
        if known.disposition is not Disposition.EDITED:
            return known
        return next((e for e in self._attempt.effects.copy().values() if e.key == known.disposed.link), known)

    def result(self, effect: Effect) -> Any:
        """Return what a held effect returned when it left, or raise why it did not leave."""
        if effect.outcome is Outcome.CONFIRMED:
            return effect.result
        raise self.why_not(effect)

    def why_not(self, effect: Effect) -> BaseException:
        """Return why an effect did not happen, or is not known to have."""
        if effect.outcome is Outcome.UNKNOWN:
            return self._end.refusal if isinstance(self._end.refusal, InDoubt) else in_doubt(effect)
        if (
            effect.outcome is Outcome.FAILED
            and self._end.refusal is not None
            and self._end.refusal.__cause__ is not None
        ):
            return self._end.refusal.__cause__
        if self._end.control is not None:
            return self._end.control
        if self._end.broken is not None:
            return self._end.broken
        seat = next((c.seat for c in self._calls if effect in c.effects or effect is self.acting(c)), None)
        if seat is not None and self._attempt.txn is not None and self._turn.stopped(seat):
            # Whether it had been queued by then is a matter of timing, and of no account to the model.
            return self._driver.calls.why_stopped(self._attempt, seat)
        note = None if effect.disposition is Disposition.APPROVED else effect.disposed.told
        tool, reason = effect.declaration.tool, effect.error or note or self._end.because
        return Refused(
            f"{tool} {'failed' if effect.outcome is Outcome.FAILED else 'was held and never left'}, so nothing of it"
            f" happened; decide again from this: {reason}",
            transaction=self._attempt.name,
        )

    def undone(self, call: PlacedCall) -> str | None:
        """Return what became of a call that had succeeded before its turn was undone, or None: its answer stands."""
        last = call.last
        if not self._end.is_undone or self._end.suspended or last is None:
            return None
        effect = self.acting(call) if last.path in self._attempt.effects else None
        if call.failed is not None or call.declaration.kind is EffectClass.READ or effect is None:
            return None
        made = [made.outcome for made in self._attempt.made_by(effect)]
        if keeps_its_answer(effect.declaration.kind, effect.outcome, made):
            return None
        return became(
            call.tool,
            effect.outcome,
            because=self._end.because,
            held=effect.held,
            tag=effect.tag,
            is_being_undone=self._attempt.txn is not None and self._attempt.txn.state is State.ABORTING,
            note=effect.disposed.told,
            made=made,
        )

    def correction(self, call: PlacedCall) -> str | None:
        """Return what a model is to be told in place of the answer that it was given, or None: that stands so far."""
        undone, effect = self.undone(call), self.acting(call)
        if undone is not None or effect is None or not effect.held or not self._end.settled or self._end.joined:
            return undone
        try:
            self.result(effect)
        except Exception as error:
            return words(error)
        return None

    def last_word(self, call: PlacedCall, found: Any) -> Any:
        """Return the answer to a call that had `found` one before its turn settled.

        Raises:
            Undone: it had succeeded, and was undone. Refused, InDoubt: it was held, and did not leave. Else what kept
                the turn from settling.
        """
        if self._end.broken is not None:
            raise self._end.broken
        if isinstance(found, Queued) and self.are_final:
            effect = self.acting(call)
            assert effect is not None, "it was queued"
            return self.result(effect)
        undone = self.undone(call)
        if undone is not None:
            raise Undone(undone, transaction=self._attempt.name, epoch=None)
        return found


__all__ = ["Answers"]
