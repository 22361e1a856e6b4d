"""A turn of a model that has begun: its calls have their places, and it settles when the last of them is over.

A shim opens a turn (`open_turn`), has every call placed in issuance order, and lets its framework run them as it
likes. Where the tool itself would be called it runs `perform`; when the framework has its answer, `leave`. A held call
waits inside `perform` until all others are over, so that its caller (a retry wrapper, an error handler) gets
the tool's real result. The last one settles the turn. Methods that may wait are programs for a runner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from settlemark._acts.effect import Effect
from settlemark._acts.failure import Skipped
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._api.transaction import Queued
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Asked, Part
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import ScopeError, SettlemarkError
from settlemark._edges.wording import is_a
from settlemark._engine.splitting import is_elsewhere
from settlemark._lifecycle.parking import Park
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.guards import Order
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import fire
from settlemark.agents._call import Call, PlacedCall, is_given_up, unset
from settlemark.agents._declarations import as_settled
from settlemark.agents._open.answers import Answers
from settlemark.agents._open.deciding import Deciding
from settlemark.agents._open.settling import Control, Settling
from settlemark.agents._record.before import Before, answer_before, before_turn, claiming
from settlemark.agents._record.doubts import doubts_of
from settlemark.agents._words import words

_PRIVATE = Scope.parse("run:/this")

Remake = Callable[[Mapping[str, Any]], tuple[Callable[[], Any], Mapping[str, Any] | None]]
"""Returns what runs a call with other arguments, and these as the tool will get them."""
_Named = Mapping[str, Any]


class OpenTurn(Deciding):
    """One turn of a model, as a transaction or a part of one, run by a framework. Get one from `open_turn`.

    Attributes:
        settlement: settles it.
        calls: in issuance order.
        joined: it is a part of another transaction's call, and settles with that.
        undoes: it settles; else it keeps order and deduplicates, and that is all.
    """

    def __init__(
        self,
        settlement: Settlement,
        part: Part,
        *,
        turn: Turn | None,
        order: Order,
        within: bool,
        undoes: bool,
        resumable: bool,
        let_through: Control,
        park: Park = "keep",
        before: Sequence[Attempt] = (),
        recalls: bool = False,
        asked: Asked | None = None,
    ) -> None:
        self.settlement = settlement
        self.attempt = attempt = part.attempt
        self.calls: list[PlacedCall] = []
        self.undoes, self.joined = undoes, part.joined
        host = host_of(settlement)
        self._driver, self._tools = host.driver, host.tools
        self._numbering, self._let_through = part.numbering, let_through
        if undoes and (within or not part.joined):
            attempt.expect(part.numbering.base)
        self._before = before  # what has settled of the turn while it waited for an answer
        stops = undoes and attempt.on_failure != "continue"
        self._turn = turn or host.turn(order=order, stop_on_failure=stops)
        self._end = Settling(
            self._driver,
            part,
            self._turn,
            self.calls,
            within=within,
            undoes=undoes,
            resumable=resumable,
            let_through=let_through,
            park=park,
        )
        self._recalls, self._resumable, self._end.ended = recalls and undoes, resumable, self._note_doubts
        self._asked, self._decided = asked or Asked(), cast("Before | None", None)
        self._answers = Answers(self._driver, attempt, self._turn, self.calls, self._end)

    # ---- what it is

    @property
    def name(self) -> str:
        """Its transaction's name."""
        return self.attempt.name

    @property
    def holds(self) -> bool:
        """Whether a call of it waits for the others."""
        return any(call.held for call in self.calls)

    @property
    def settled(self) -> bool:
        """Whether nothing of it is open any more."""
        return self._end.settled

    @property
    def is_open(self) -> bool:
        """Whether its transaction has not come to its end."""
        return (txn := self.attempt.txn) is not None and not txn.finished

    @property
    def suspended(self) -> bool:
        """Whether a framework's control flow put it aside."""
        return self._end.suspended

    @property
    def refusal(self) -> SettlemarkError | None:
        """Why it did not commit as a whole, or None."""
        return self._end.refusal

    @property
    def broken(self) -> BaseException | None:
        """What else kept it from settling, or None."""
        return self._end.broken

    @property
    def because(self) -> str:
        """Why it was undone, in words."""
        return self._end.because

    @property
    def is_left(self) -> bool:
        """Whether it was put aside, and nobody has come back to it."""
        return self.attempt.suspended and (self.attempt.txn is None or not self.attempt.txn.finished)

    @property
    def abandoned(self) -> bool:
        """Whether it was cut short, and undone for that: who comes to it now, or to its name, comes too late."""
        return self._end.abandoned

    @property
    def lost_race(self) -> bool:
        """Whether it was undone only because an older transaction needed what it had: run it again."""
        return self._end.lost_race

    @property
    def unattended(self) -> bool:
        """Whether all calls are over, and nobody is there to settle it: `finish` does."""
        return self._end.unattended

    @property
    def is_undone(self) -> bool:
        """Whether it acted, and that was undone, or nobody knows what came of it."""
        return self.refusal is not None or self._end.is_undone

    def look_with(self, look: Callable[[], float | None]) -> None:
        """Call `look` whenever a call begins to wait: it reports calls that will not come, by `absent`.

        It returns the seconds until it is to look again, or None when it tells by itself.
        """
        self._end.look = look

    # ---- calls

    def place(
        self,
        declaration: Declaration,
        arguments: Mapping[str, Any],
        *,
        given: Mapping[str, Any] | None = None,
        call_id: str | None = None,
    ) -> PlacedCall:
        """Give a call the next place. Place all before the first runs.

        `given` are the arguments as the tool will get them, where the framework makes them of the recorded ones.
        """
        call_id = call_id or None  # some models give their calls none, some an empty one
        declaration = as_settled(declaration, self.undoes)
        try:
            effect = self._filled(declaration, arguments, given, call_id)
        except ScopeError:
            effect = Effect(declaration, (), arguments, unset)  # `perform` says so, unless it is given others
        with self._driver.kernel.local:
            seat = self._turn.take(declaration, *effect.scopes, held=self.attempt.is_held(declaration))
            self.attempt.place(effect, self._numbering)
            self._end.expect()
        call = PlacedCall(declaration, arguments, call_id, seat, effect)
        self.calls.append(call)
        return call

    def place_all(self, calls: Sequence[Call]) -> Program[list[PlacedCall]]:
        """Give calls their places, in this order, and return these; where one can have none the turn is abandoned."""
        try:
            acting = any(call.declaration.kind is not EffectClass.READ for call in calls)
            if self._recalls and self.attempt.replay is None and acting:
                asked, recorded = self._asked, self._resumable
                self._decided = yield from before_turn(self.settlement, self.attempt.run, asked, recorded=recorded)
            placed = (self.place(c.declaration, c.arguments, given=c.given, call_id=c.call_id).of(c) for c in calls)
            return (yield from claiming(self._decided, placed))
        except Exception as error:
            yield from self.abandon(error)
            raise

    def rewrite(
        self, call: PlacedCall, arguments: _Named, given: _Named | None, declaration: Declaration | None = None
    ) -> None:
        """Say, before a call runs in its place, with which other arguments it will, or that another tool will.

        Raises:
            ScopeError: nobody can tell on what that acts.
        """
        will_run = call.declaration if declaration is None else as_settled(declaration, self.undoes)
        made = self._filled(will_run, arguments, given, call.call_id)
        with self._driver.kernel.local:
            call.arguments = arguments
            waiting = call.change(made, held=self.attempt.is_held(made.declaration))
        fire(waiting)

    def _filled(self, declaration: Declaration, arguments: _Named, given: _Named | None, call_id: str | None) -> Effect:
        named = dict(arguments if given is None else given)
        effect = self._tools.effect_of(declaration, named, unset, run=self.attempt.name, call_id=call_id)
        effect.arguments, effect.given = dict(arguments), given
        return effect

    def _effect(self, call: PlacedCall, arguments: Mapping[str, Any], given: Mapping[str, Any] | None) -> Effect:
        if not self.undoes:
            # Order is all that is asked for: nothing is refused, and no other transaction is waited for.
            kept: dict[str, Any] = json_text.decode(json_text.encode_result(arguments))
            effect = Effect(call.declaration, (_PRIVATE,), kept, unset, call_id=call.call_id)
        else:
            effect = self._filled(call.declaration, arguments, given, call.call_id)
        for earlier in call.effects:
            if earlier.arguments == effect.arguments and not is_given_up(earlier):
                return earlier
        effect.path, effect.position = call.placed.path, call.placed.position
        before = self.attempt.effects.get(effect.path)
        if before is not None and before.arguments == effect.arguments:
            before.given = effect.given  # a new process knows only what was recorded
        if call.effects or (before is not None and is_given_up(before)):
            # A wrapper asks for something else in the same place, or again for what it gave up: a decision of its own.
            with self._driver.kernel.local:
                self.attempt.place(effect, self._numbering)
        call.effects.append(effect)
        effect.decision = self._decision
        return effect

    def perform(
        self,
        call: PlacedCall,
        run: Callable[[], Any],
        arguments: Mapping[str, Any],
        *,
        given: Mapping[str, Any] | None = None,
        because: str | None = None,
        pack: Callable[[Any], Any] | None = None,
        unpack: Callable[[Any], Any] | None = None,
        ask: Approver | None = None,
        remake: Remake | None = None,
        may_wait: bool = True,
        declaration: Declaration | None = None,
    ) -> Program[Any]:
        """Run a call's effect when its place has come, and return the tool's result.

        Again with the same arguments: the recorded result, or another try under the same key if it
        failed. With `may_wait=False`, or inside another's call, a held one returns a `Queued`. One that is cancelled
        while it is held does not leave, unless it was leaving already. One that needs a person's yes has it by then:
        `ask` asks, and `remake` returns what runs it with other arguments, and these as the tool will get them. Another
        tool's `declaration` says that this will run in its place.

        Raises:
            UsageError: bad arguments; nothing was run. Refused: it did not run, or was undone. InDoubt: nobody can
            tell whether it, or one that is the same, happened. Else what the tool raised, also where a person goes on.
        """
        self.refuse_late(call)
        if declaration is not None and as_settled(declaration, self.undoes) != call.declaration:
            self.rewrite(call, arguments, given, declaration)
        same = yield from answer_before(self._decided, call, arguments, self.attempt, unpack)
        if same is not None:
            return same()
        effect = self._effect(call, arguments, given)
        effect.run, effect.pack, effect.unpack, effect.rationale = run, pack, unpack, because
        effect.ask, effect.controls = ask, self._end.controls
        effect.remake = None if remake is None else partial(self._remade, call, remake)
        attempt = self._attempt_of(effect)
        found = yield from self._driver.calls.call(attempt, effect, call.seat, self._let_through, stay=True)
        if isinstance(found, Skipped):
            call.skipped = True
            raise found.error
        if not isinstance(found, Effect):
            return found
        call.acts_by(found, effect)
        if self.joined or not may_wait:
            return Queued(found)
        if attempt.replay is None and not self.settled:
            self._end.arrived(call)
            try:
                yield from self._end.until_settled(call, cut=True)
            except BaseException:
                self._end.take_back(call, found)
                raise
        return self._answers.result(found)

    def _attempt_of(self, effect: Effect) -> Attempt:
        """Return the transaction that an effect belongs to: where a turn was split at a gate, it has several."""
        for attempt in self._before:
            found = attempt.recorded.get(effect.path)
            if found is not None and not is_elsewhere(found):
                return attempt
        return self.attempt

    def _remade(self, call: PlacedCall, remake: Remake, _effect: Effect, arguments: Mapping[str, Any]) -> Effect:
        run, given = remake(arguments)
        made = self._filled(call.declaration, arguments, given, call.call_id)
        made.run = run
        return made

    # ---- the end of a call, and of the turn

    def leave(
        self, call: PlacedCall, *, failed: str | None = None, error: BaseException | None = None
    ) -> Program[None]:
        """Say that the framework is done with a call, run or not; the last one settles the turn.

        `failed` says in words how a failure was answered; `error` is what escapes the framework's handling.
        """
        return self._end.leave(call, failed=failed, error=error)

    def answer(self, call: PlacedCall, error: BaseException | None = None) -> Program[None]:
        """Say that a call is over, and that its model is told of the error, unless that is the framework's own."""
        is_told = error is None or (is_a(error, Exception) and not is_a(error, self._let_through))
        if is_told:
            return self.leave(call, failed=None if error is None else words(error))
        return self.leave(call, error=error)

    def absent(self, call: PlacedCall) -> None:
        """Say that a call will not come: it was answered elsewhere, or was over in an earlier process."""
        call.recall(self.attempt.effects)
        self._end.absent(call)

    def finish(self, call: PlacedCall) -> Program[None]:
        """Wait, with a finished call, until all calls are finished; the last one settles the turn."""
        return self._end.until_settled(call, cut=False)

    def abandon(self, error: BaseException) -> Program[None]:
        """End what a cancellation or a crash of the framework left unsettled; nothing of it acts any more."""
        return self._end.abandon(error)

    def _note_doubts(self) -> None:
        for effect in filter(None, map(self._answers.acting, self.calls if self._recalls else ())):
            if effect.outcome is Outcome.UNKNOWN:
                doubts_of(self.settlement).note(self.attempt.run, effect)

    def let_go(self) -> Program[None]:
        """Settle what was put aside as far as it came: nobody will come back to it."""
        if self.is_left:
            yield from self._driver.settling.commit(self.attempt)

    def refuse_late(self, call: PlacedCall) -> None:
        """Return when it was not abandoned.

        Raises:
            Refused: it was: nothing of it acts any more.
        """
        self._end.refuse_late(call.tool)

    # ---- what a model is told

    @property
    def is_final(self) -> bool:
        """Whether its answers are the last word: it has settled by itself, and was not put aside."""
        return self._answers.are_final

    def acting(self, call: PlacedCall) -> Effect | None:
        """Return the effect that acts for a call: the last it asked for, or what was approved in its place."""
        return self._answers.acting(call)

    def correction(self, call: PlacedCall) -> str | None:
        """Return what a model is to be told in place of the answer that it was given, or None: that stands so far."""
        return self._answers.correction(call)

    def last_word(self, call: PlacedCall, found: Any) -> Any:
        """Return the answer to a call that had `found` one before its turn settled, or raise what became of it since.

        Raises:
            Undone: it had succeeded, and was undone. Refused, InDoubt: it was held, and did not leave. Else what kept
                the turn from settling.
        """
        return self._answers.last_word(call, found)


__all__ = ["OpenTurn", "Remake"]
