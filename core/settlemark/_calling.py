"""Making one call: its place in the turn, its admission, its intent, its act, its outcome, in this order."""

from __future__ import annotations

from typing import Any

from settlemark import _codec
from settlemark._aborting import Aborting
from settlemark._acting import Program, in_doubt, perform
from settlemark._attempt import Attempt
from settlemark._effect import Effect, EffectClass, Outcome
from settlemark._errors import LedgerError, Refused, SettlemarkError
from settlemark._program import fire, scope_of
from settlemark._protocol import Protocol
from settlemark._requests import Act
from settlemark._scope import Scope
from settlemark._sequencer import Seat, Turn
from settlemark._states import State, Tag
from settlemark._txn import Blocked, Call, Mode, Ticket, Txn
from settlemark.ledger._contract import RecordedEffect

TURN_SECONDS = 600.0


class Calling(Aborting):
    """The part of a driver that makes calls."""

    def call(
        self,
        attempt: Attempt,
        effect: Effect,
        turn: Turn | None = None,
        seat: Seat | None = None,
        let_through: tuple[type[BaseException], ...] = (),
        *,
        stay: bool = False,
    ) -> Program:
        """Run, hold or replay one call; return its result, or the effect itself when it is held.

        Exceptions of the types in `let_through` are a framework's control flow: they suspend the call.
        With `stay` its seat is not vacated: the caller may try again, and says `leave` at the end.

        Raises:
            UsageError: bad arguments, before anything ran. Refused: the transaction is undone.
            InDoubt: nobody can tell whether it happened. Else whatever the tool raised.
        """
        attempt.entering.add(effect)
        try:
            result = yield from self._call(attempt, effect, turn, seat, let_through)
        except GeneratorExit:
            raise  # the program is thrown away: it can ask for nothing more
        except let_through as control:
            if turn is not None and seat is not None:
                self.interrupt(turn, seat, control)
            raise
        except BaseException:
            if turn is not None and seat is not None and not stay:
                self.leave(turn, seat, failed=True)
                self._drop(attempt, *turn.behind(seat))
            raise
        finally:
            self._entered(attempt, effect)
        if turn is not None and seat is not None and not stay:
            self.leave(turn, seat, failed=False)
        return result

    def _entered(self, attempt: Attempt, effect: Effect) -> None:
        """Note that a call is no longer on its way: a commit that waits for it may go on."""
        attempt.entering.discard(effect)
        if attempt.txn is not None and attempt.txn.watchers:
            with self.step as protocol:
                protocol.nudge(attempt.txn)

    def leave(self, turn: Turn, seat: Seat, *, failed: bool) -> None:
        """Say that a call of a turn is over, whether it ran or not: who waited for it goes on."""
        with self.step:
            tickets = turn.leave(seat, failed=failed)
        fire(tickets)

    def interrupt(self, turn: Turn, seat: Seat, control: BaseException) -> None:
        """Say that a framework suspended a call of a turn: who waited for it is suspended alike."""
        with self.step:
            tickets = turn.interrupt(seat, control)
        fire(tickets)

    def _call(
        self,
        attempt: Attempt,
        effect: Effect,
        turn: Turn | None,
        seat: Seat | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program:
        reads = effect.declaration.kind is EffectClass.READ
        if not reads:
            effect.payload = _codec.encode(effect.arguments)
            effect.arguments = _codec.snapshot(effect.arguments)
            effect.key = attempt.key(effect.position, effect.call_id)
            recorded = attempt.recall(effect)
            if recorded is not None:
                return self._replayed(effect, recorded)
        elif attempt.txn is None:
            return (yield Act(effect.run, {}, attempt.current(effect)))
        txn = attempt.live
        if turn is not None and seat is not None:
            yield from self._take_turn(attempt, turn, seat)
            effect.held = seat.held
        if reads:
            return (yield from self._read(attempt, txn, effect, let_through))
        earlier = attempt.resume(effect)
        if earlier is not None and (earlier.held or earlier.outcome is Outcome.CONFIRMED):
            return earlier if earlier.held else earlier.result
        effect = earlier or effect
        effect.held = effect.held or effect.declaration.held or attempt.behind_held(effect)
        if effect.held:
            if turn is not None and seat is not None:
                seat.effect = effect
            yield from self._hold(attempt, txn, effect)
            attempt.entering.discard(effect)
            if turn is not None and seat is not None and turn.stopped(seat):
                self._drop(attempt, effect)
                raise self.why_stopped(attempt, turn, seat)
            return effect
        return (yield from self._act(attempt, txn, effect, let_through))

    @staticmethod
    def _replayed(effect: Effect, recorded: RecordedEffect) -> Any:
        value = _codec.decode(recorded.result)
        effect.result = effect.unpack(value) if effect.unpack is not None and value is not None else value
        effect.outcome, effect.held, effect.error = recorded.outcome, recorded.row.held, recorded.error
        if effect.held or effect.outcome is Outcome.CONFIRMED:
            return effect if effect.held else effect.result
        if effect.outcome is Outcome.UNKNOWN:
            raise in_doubt(effect)
        raise Refused(
            f"{recorded.row.tool} failed before: {recorded.error}; {recorded.row.name} has committed without it, so it"
            " is not run again: use a new name for a new try",
            transaction=recorded.row.name, epoch=None,
        )  # fmt: skip

    def _take_turn(self, attempt: Attempt, turn: Turn, seat: Seat) -> Program:
        # A sibling holds nothing against this call, it is only slow: it gets longer than a rival.
        limit = max(attempt.wait, TURN_SECONDS)
        deadline = self._monotonic() + limit
        while True:
            with self.step as protocol:
                if attempt.live.state in (State.ABORTING, State.ABORTED):
                    raise protocol.refusal(attempt.live)
                if turn.stopped(seat):
                    raise self.why_stopped(attempt, turn, seat)
                earlier = turn.before(seat)
                if earlier is None:
                    return
                if earlier.interruption is not None:
                    raise earlier.interruption
                ticket = protocol.watch(attempt.live)
                earlier.tickets.append(ticket)
            blocked = Blocked(attempt.live, earlier.scope or scope_of(attempt.run))
            sibling = f"{earlier.declaration.tool}, issued before it,"
            yield from self._await(attempt, ticket, blocked, deadline, sibling, limit)

    @staticmethod
    def why_stopped(attempt: Attempt, turn: Turn, seat: Seat) -> Refused:
        """Return the error that tells a call of a turn which failure before it stopped it."""
        assert turn.failed is not None
        tool, failed = seat.declaration.tool, turn.failed.declaration.tool
        return Refused(
            f"{tool} was not run: {failed}, issued before it, failed; decide again from that failure",
            transaction=attempt.name, epoch=attempt.live.epoch, failed=failed,
        )  # fmt: skip

    def _drop(self, attempt: Attempt, *effects: Effect) -> None:
        """Take back queued effects that a failure before them has stopped."""
        for effect in effects:
            with self.step as protocol:
                if effect.outcome is not Outcome.QUEUED or attempt.live.state is not State.OPEN:
                    continue
                if effect in attempt.entering:
                    continue  # whoever queues it sees the failure when that is done
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.CLEAN
                for call in effect.calls:
                    protocol.unhold(call)
            if effect.position in attempt.effects:
                self._write([attempt.outcome(effect, self._clock())])

    def _read(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program:
        calls = yield from self._admit_all(attempt, txn, effect, Mode.READ)
        try:
            return (yield from self._perform(attempt, effect, let_through))
        finally:
            with self.step as protocol:
                for call in calls:
                    protocol.acted(call, happened=True)

    @staticmethod
    def _perform(attempt: Attempt, effect: Effect, let_through: tuple[type[BaseException], ...]) -> Program:
        return perform(
            effect, effect.run, attempt.current(effect), attempt.retries,
            retry_failures=attempt.on_failure == "retry", final=False, let_through=let_through,
        )  # fmt: skip

    def _hold(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        effect.outcome = Outcome.QUEUED
        effect.calls = yield from self._admit_all(attempt, txn, effect, Mode.HELD)
        yield from self._record_intent(attempt, txn, effect)
        return effect

    def _act(self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]) -> Program:
        mode = Mode.EAGER if effect.declaration.undoable else Mode.FINAL
        if effect.position not in attempt.effects:
            effect.calls = yield from self._admit_all(attempt, txn, effect, mode)
            yield from self._record_intent(attempt, txn, effect)
        else:
            yield from self._intend_again(attempt, txn, effect, mode)
        try:
            result = yield from self._perform(attempt, effect, let_through)
            refined = _refined(effect)
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, let_through):
                effect.outcome = Outcome.SUSPENDED
            yield from self._returned(attempt, effect, [])
            raise
        yield from self._returned(attempt, effect, refined)
        if txn.state is not State.OPEN and txn.state in (State.ABORTING, State.ABORTED):
            raise self._protocol.refusal(txn)
        return result

    def _intend_again(self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode) -> Program:
        """Make it durable that an effect which failed, or was suspended, acts again under its key."""
        if effect.outcome is Outcome.FAILED or not effect.calls:
            effect.calls = yield from self._admit_all(attempt, txn, effect, mode)
        else:
            with self.step as protocol:
                protocol.resumed(effect.calls)
        if effect.outcome is Outcome.UNKNOWN:
            return  # the counterparty is asked before anything acts
        before, effect.outcome = effect.outcome, Outcome.INTENDED
        try:
            yield from self._answer(self._write([attempt.outcome(effect, self._clock())]))
            if txn.state is not State.OPEN:
                raise self._protocol.refusal(txn)
        except GeneratorExit:
            raise
        except BaseException:
            effect.outcome = before
            with self.step as protocol:
                for call in effect.calls:
                    protocol.acted(call, happened=before is not Outcome.FAILED)
            yield from self._tidy()
            raise

    def _returned(self, attempt: Attempt, effect: Effect, refined: list[Scope]) -> Program:
        with self.step as protocol:
            for call in effect.calls:
                protocol.acted(call, happened=effect.outcome is not Outcome.FAILED)
        self._write([attempt.outcome(effect, self._clock())])
        try:
            if refined:
                with self.step as protocol:
                    effect.calls = _narrowed(protocol, effect, refined)
        finally:
            yield from self._tidy()

    def _admit_all(self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode) -> Program:
        calls: list[Call] = []
        try:
            for scope in effect.scopes:
                call = self._protocol.request(txn, scope, mode)
                calls.append(call)
                yield from self._admit(attempt, call)
        except GeneratorExit:
            raise
        except BaseException:
            admitted = [call for call in calls if call.admitted]
            if admitted:
                with self.step as protocol:
                    for call in admitted:
                        if mode is Mode.HELD:
                            protocol.unhold(call)
                        else:
                            protocol.acted(call, happened=False)
                yield from self._tidy()
            raise
        return calls

    def _admit(self, attempt: Attempt, call: Call) -> Program:
        deadline: float | None = None
        while True:
            ticket: Ticket | None = None
            try:
                with self.step as protocol:
                    blocked = protocol.admit(call)
                    if blocked is not None:
                        ticket = protocol.watch(blocked.holder, call.txn)
            except SettlemarkError:
                yield from self._tidy()
                raise
            yield from self._tidy()
            if blocked is None or ticket is None:
                if attempt.told_waiting:
                    attempt.told_waiting = False
                    self._write([attempt.state_change(self._clock())])  # it waits no more
                return
            if deadline is None:
                deadline = self._monotonic() + attempt.wait
            try:
                yield from self._await(attempt, ticket, blocked, deadline, blocked.holder.name)
            except BaseException:
                with self.step as protocol:
                    protocol.withdraw(call)
                raise

    def _record_intent(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        """Make an intent durable; when this raises, nothing of the effect will act."""
        written = attempt.written
        try:
            with self.step as protocol:
                if attempt.live.state is not State.OPEN:
                    raise protocol.refusal(txn)
                attempt.add(effect)
                changes = attempt.intent(effect, owner=self._worker, fence=0, at=self._clock())
                pending = self.ledger.write(changes)
            yield from self._answer(pending)
            if txn.state is not State.OPEN:
                with self.step as protocol:
                    raise protocol.refusal(txn)
        except GeneratorExit:
            raise
        except BaseException as error:
            effect.outcome = Outcome.DROPPED
            if isinstance(error, LedgerError):
                attempt.effects.pop(effect.position, None)
                attempt.written = written
            elif effect.position in attempt.effects:
                effect.tag = Tag.CLEAN
                self._write([attempt.outcome(effect, self._clock())])
            with self.step as protocol:
                for call in effect.calls:
                    if effect.held:
                        protocol.unhold(call)
                    else:
                        protocol.acted(call, happened=False)
            yield from self._tidy()
            raise


def _refined(effect: Effect) -> list[Scope]:
    """Return what the effect's result says it really touched; empty when there is nothing to say."""
    refine = effect.declaration.refine
    if refine is None:
        return []
    found = refine(effect.result)
    texts = (found,) if isinstance(found, str | Scope) else tuple(found)
    return [Scope.parse(text) for text in texts]


def _narrowed(protocol: Protocol, effect: Effect, refined: list[Scope]) -> list[Call]:
    """Replace the calls on an effect's broad scopes by those on what it really touched."""
    broad = len(effect.declaration.may_touch) or len(effect.calls)
    kept, calls = effect.calls[:-broad], effect.calls[-broad:]
    outside = [scope for scope in refined if not any(call.scope.covers(scope) for call in effect.calls)]
    if outside:
        return protocol.refine(calls[0], outside)  # says what is wrong, and moves nothing
    narrower = [protocol.refine(call, [s for s in refined if call.scope.covers(s)]) for call in calls]
    return [*kept, *(call for found in narrower for call in found)]
