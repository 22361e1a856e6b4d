"""Making one call: its place in the turn, its admission, its intent, its act, its outcome, in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from settlemark._acts.effect import Effect
from settlemark._acts.failure import Skipped
from settlemark._acts.perform import Program, in_doubt
from settlemark._acts.requests import Act
from settlemark._attempt.anew import place_again
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import current_of
from settlemark._attempt.recall import recall, resume, stayed
from settlemark._attempt.turn import Seat
from settlemark._edges.errors import Refused, StateError
from settlemark._edges.text import KEY, identity
from settlemark._engine.act import Acting
from settlemark._engine.admission import Admission, AskedSince, Gatekeeper, checked
from settlemark._engine.doubt import effect_of_key
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.wait import Deadline, scope_of
from settlemark._model import json_text
from settlemark._model.disposition import NOTHING, Disposition, words
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._protocol.holdings import Blocked, Mode, Txn, fire
from settlemark._protocol.leaving import Leaves
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark._report.approval_rejected_on_replay import refuse_recorded_rejection
from settlemark.ledger._contract import Book, RecordedEffect

TURN_SECONDS = 600.0
_KEY = "the key of a call, made of its transaction's name and the call's id,"
_PUT_ASIDE = (Outcome.SUSPENDED, Outcome.QUEUED)


class Calls:
    """Makes calls."""

    def __init__(
        self,
        kernel: Kernel,
        undoing: Undoing,
        admission: Admission,
        acting: Acting,
        gates: Gatekeeper,
    ) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._admission = admission
        self._acting = acting
        self._gates = gates

    def call(
        self,
        attempt: Attempt,
        effect: Effect,
        seat: Seat | None = None,
        let_through: tuple[type[BaseException], ...] = (),
        *,
        stay: bool = False,
    ) -> Program[Any]:
        """Run, hold or replay one call; return its result, the effect itself when it is held, or a `Skipped`.

        Exceptions of the types in `let_through` are a framework's control flow: they suspend the call.
        With `stay` its seat is not vacated: the caller may try again, and says `leave` at the end.

        Raises:
            UsageError: bad arguments, before anything ran. Refused: the transaction is undone.
            InDoubt: nobody can tell whether it happened. Else whatever the tool raised.
        """
        attempt.entering.add(effect)
        txn = attempt.txn
        try:
            try:
                result = yield from self._call(attempt, effect, seat, let_through)
            except (Refused, StateError):
                away = attempt.turned_away
                if away is None or away.txn is not txn:
                    raise
                yield from away.enter()
                result = yield from self._call(attempt, effect, seat, let_through)
        except GeneratorExit:
            raise  # the program is thrown away: it can ask for nothing more
        except let_through as control:
            if seat is not None:
                self.interrupt(seat, control)
            raise
        except Skipped as skipped:
            result = skipped
        except BaseException:
            if seat is not None and stay:
                self._passed(seat)
            elif seat is not None:
                self.leave(seat, failed=True)
                self.drop(attempt, *seat.turn.behind(seat))
            raise
        finally:
            self._entered(attempt, effect)
        if seat is not None and stay:
            self._passed(seat)
        elif seat is not None:
            self.leave(seat, failed=False)
        return result

    def _passed(self, seat: Seat) -> None:
        """Say that nobody is asked about a call any more, and that it is in its queue: who waited for that goes on."""
        with self._kernel.local:
            tickets = seat.turn.passed(seat) + seat.turn.queued(seat)
        fire(tickets)

    def _come(self, seat: Seat, effect: Effect) -> None:
        """Say on which scopes a call acts, and whether it is held: who waited for it to run then goes on."""
        with self._kernel.local:
            tickets = seat.turn.comes(seat, effect.scopes, held=effect.held)
        fire(tickets)

    def _entered(self, attempt: Attempt, effect: Effect) -> None:
        """Note that a call is no longer on its way: a commit that waits for it may go on."""
        attempt.entering.discard(effect)
        if attempt.txn is not None and attempt.txn.watchers:
            with self._kernel.local as protocol:
                protocol.wake_watchers(attempt.txn, siblings=False)

    def leave(self, seat: Seat, *, failed: bool) -> None:
        """Say that a call of a turn is over, whether it ran or not: who waited for it goes on."""
        with self._kernel.local:
            tickets = seat.turn.leave(seat, failed=failed)
        fire(tickets)

    def interrupt(self, seat: Seat, control: BaseException) -> None:
        """Say that a framework suspended a call of a turn: who waited for it is suspended alike."""
        with self._kernel.local:
            tickets = seat.turn.interrupt(seat, control)
        fire(tickets)

    def _call(
        self,
        attempt: Attempt,
        effect: Effect,
        seat: Seat | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program[Any]:
        reads, txn = effect.declaration.kind is EffectClass.READ, attempt.txn  # its key is for this one alone
        if not reads:
            effect.arguments = json_text.snapshot(dict(effect.arguments))
            effect.payload = json_text.encode(effect.arguments)
            effect.key = identity(attempt.key(effect.path, effect.call_id), _KEY, KEY, tool=effect.declaration.tool)
            if attempt.replay is not None or attempt.stays:
                yield from self._kernel.judging.refuse_again(attempt, effect)
                recorded = recall(attempt, effect) or stayed(attempt, effect)
                if recorded is not None:
                    return self._replayed(effect, recorded)
            if attempt.placed_before:
                place_again(attempt, effect)
        elif txn is None:
            return (yield Act(effect.run, {}, current_of(attempt, effect)))
        txn = txn or attempt.live
        if seat is not None:
            yield from self._take_turn(attempt, seat, seat.turn.before_asking)
            self._come(seat, effect)
            effect.held, effect.turned = seat.held, True
            if seat.turn.order == "issued":
                effect.leaves |= Leaves.AS_ISSUED
        if reads:
            return (yield from self._acting.read(attempt, txn, effect, let_through))
        earlier = None
        if effect.path in attempt.effects:
            yield from self._refuse_another_tool(attempt, txn, effect)
            earlier = resume(attempt, effect)
        if earlier is not None:
            yield from self._refuse_orphan(attempt, earlier)
        elif effect.declaration.check is not None:
            yield from checked(attempt, effect)
        while True:
            try:
                if (yield from self._admission.asks(attempt, effect, earlier)) or (seat is not None and seat.gated):
                    earlier = yield from self._approved(attempt, txn, effect, earlier, seat, let_through)
                return (yield from self._go_on(attempt, txn, earlier or effect, seat, let_through))
            except AskedSince as since:
                effect, earlier = since.again(attempt, effect)

    def _approved(
        self,
        attempt: Attempt,
        txn: Txn,
        effect: Effect,
        earlier: Effect | None,
        seat: Seat | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program[Effect | None]:
        """Ask a person about a call in its turn; return the effect on record that acts in its place, or None."""
        effect.held = effect.held or attempt.must_hold(effect)
        earlier = yield from self._gates.gate(attempt, txn, effect, earlier, let_through)
        if seat is not None and seat.asks_in is not None and not (earlier or effect).held:
            yield from self._take_turn(attempt, seat, seat.turn.before)  # others may still wait for a person
        return earlier

    def _refuse_another_tool(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Return when a call that was put aside before it acted comes back with the tool it was planned with.

        Raises:
            Stale: the tool is another one by now, and the transaction is aborted.
        """
        planned = attempt.effects[effect.path]
        if planned.outcome not in _PUT_ASIDE or txn.guards.tools != "checked":
            return
        before, now = planned.declaration, effect.declaration
        if before.tool != now.tool and before.tool not in now.aliases:
            return  # nobody has changed it: another call has come in its place, and is told so
        known = bool(before.templates)  # else nothing but its version is on record
        if now.speaks_for(before.version) and not (known and now.signature != before.signature):
            return

        def refuse(protocol: Protocol, _book: Book) -> None:
            protocol.phantom(txn, before.tool, "was changed", "plan the call again")

        yield from self._kernel.step(refuse)
        yield from self._undoing.tidy()
        with self._kernel.local as protocol:
            raise protocol.refusal(txn)

    def _refuse_orphan(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Return when a decision that comes back was not taken back meanwhile.

        Raises:
            Stale: it was, or may be by now, and its key is used up: all of its transaction is undone.
        """
        if effect.disposition not in (Disposition.ORPHANED, Disposition.TO_UNDO):
            return
        if _is_untouched(effect) and (yield from self._stands_again(attempt, effect)):
            return
        before = f"{words(Disposition.ORPHANED)}, taken back"
        how = f"is not as {effect.declaration.tool} left it: that was {before}, and is asked for now"
        yield from self._undoing.refuse(attempt, Reason.STALE, scope=effect.scope_text, how=how, remedy="begin anew")

    def _stands_again(self, attempt: Attempt, effect: Effect) -> Program[bool]:
        """Report that a plan asks again for an effect that was not taken back; return whether that is so."""

        def stand(_protocol: Protocol, book: Book) -> bool:
            known = effect_of_key(book, effect.key)
            if known is not None and known.outcome is not effect.outcome:
                return False  # somebody has told of it, and it was judged as what nobody asks for
            effect.tag, effect.disposed = None, NOTHING
            attempt.put(book, [attempt.records.outcome(effect, self._kernel.clock())])
            return True

        return (yield from self._kernel.step(stand))

    def _go_on(
        self,
        attempt: Attempt,
        txn: Txn,
        effect: Effect,
        seat: Seat | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program[Any]:
        """Hold an effect that is to be held, or have it act, unless it is known by now what came of it."""
        if effect.path in attempt.effects:
            if effect.held:
                if effect.outcome is Outcome.SUSPENDED:  # it asked as it was to leave: it leaves when this settles
                    yield from self._hold_again(attempt, txn, effect)
                return self._held_or_stopped(attempt, effect, seat)
            if effect.outcome is Outcome.CONFIRMED:
                attempt.expected.keep(effect.path)  # with all that it called within
                return effect.result
            if effect.disposition is Disposition.SKIPPED:
                raise Skipped(_failed_before(effect.declaration.tool, effect.error, attempt.name))
            yield from self._refuse_to_hold(attempt, effect)
        effect.held = effect.held or attempt.must_hold(effect)
        if not effect.held:
            return (yield from self._acting.act(attempt, txn, effect, let_through))
        if seat is not None:
            self._come(seat, effect)
        yield from self.hold(attempt, txn, effect)
        return self._held_or_stopped(attempt, effect, seat)

    def _refuse_to_hold(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Return when an effect that is on record as one that acts at once is none that has to wait for the commit now.

        Raises:
            Stale: its tool, or what it comes behind, was declared otherwise since. It may have acted already, and its
                key is used up: all of its transaction is undone.
        """
        if effect.held or not attempt.must_hold(effect):
            return
        tool = effect.declaration.tool
        how = f"was for {tool} to act on at once when it was planned, and is to wait for the commit now"
        yield from self._undoing.refuse(attempt, Reason.STALE, scope=effect.scope_text, how=how, remedy="begin anew")

    def _held_or_stopped(self, attempt: Attempt, effect: Effect, seat: Seat | None) -> Effect:
        """Return an effect that is held, unless a failure before it stops it."""
        if seat is not None:
            seat.effect = effect  # in this order: a failure from here on finds it, and takes it back
            attempt.entering.discard(effect)
            if seat.turn.stopped(seat):
                self.drop(attempt, effect)
                raise self.why_stopped(attempt, seat)
        return effect

    @staticmethod
    def _replayed(effect: Effect, recorded: RecordedEffect) -> Any:
        value = json_text.decode(recorded.result)
        effect.result = effect.unpack(value) if effect.unpack is not None and value is not None else value
        effect.outcome, effect.held, effect.error = recorded.outcome, recorded.row.held, recorded.error
        refuse_recorded_rejection(recorded)
        if effect.held or effect.outcome is Outcome.CONFIRMED:
            return effect if effect.held else effect.result
        if effect.outcome is Outcome.UNKNOWN:
            raise in_doubt(effect)
        failed = _failed_before(recorded.row.tool, recorded.error, recorded.row.name)
        raise Skipped(failed) if recorded.disposition is Disposition.SKIPPED else failed

    def _take_turn(self, attempt: Attempt, seat: Seat, before: Callable[[Seat], Seat | None]) -> Program[None]:
        # A sibling holds nothing against this call, it is only slow: it gets longer than a rival.
        limit = max(attempt.wait, TURN_SECONDS)
        deadline = Deadline(limit)
        while True:
            with self._kernel.local as protocol:
                if attempt.live.state in (State.ABORTING, State.ABORTED):
                    raise protocol.refusal(attempt.live)
                if seat.turn.stopped(seat):
                    raise self.why_stopped(attempt, seat)
                earlier = before(seat)
                if earlier is None:
                    return
                if earlier.interruption is not None:
                    raise earlier.interruption
                ticket = protocol.watch(attempt.live, sibling=True)
                earlier.tickets.append(ticket)
            blocked = Blocked(attempt.live, earlier.scope or scope_of(attempt.run))
            sibling = f"{earlier.declaration.tool}, issued before it,"
            yield from self._kernel.waits.wait_for(
                attempt, ticket, blocked, deadline, sibling, whom=id(earlier), limit=limit
            )

    @staticmethod
    def why_stopped(attempt: Attempt, seat: Seat) -> Refused:
        """Return the error that tells a call of a turn which failure before it stopped it."""
        assert seat.turn.failed is not None
        tool, failed = seat.declaration.tool, seat.turn.failed.declaration.tool
        return Refused(
            f"{tool} was not run: {failed}, issued before it, failed; decide again from that failure",
            transaction=attempt.name,
            epoch=attempt.live.epoch,
            failed=failed,
        )

    def drop(self, attempt: Attempt, *effects: Effect) -> None:
        """Take back queued effects that a failure before them has stopped."""

        def drop(protocol: Protocol, book: Book) -> None:
            for effect in effects:
                if effect.outcome is not Outcome.QUEUED or attempt.live.state is not State.OPEN:
                    continue
                if effect in attempt.entering:
                    continue  # the call that queues it sees the failure when that is done
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.CLEAN
                for call in effect.calls:
                    protocol.drop_call(call)
                attempt.put(book, [attempt.records.outcome(effect, self._kernel.clock())])

        self._kernel.ledger.later(drop)

    def hold(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        effect.outcome = Outcome.QUEUED
        yield from self._admission.admit(attempt, txn, effect, Mode.HELD, intends=True)

    def _hold_again(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        if not any(call.hold is not None for call in effect.calls):
            effect.calls = yield from self._admission.admit(attempt, txn, effect, Mode.HELD)
        effect.outcome = Outcome.QUEUED
        told = attempt.records.outcome(effect, self._kernel.clock())
        yield from self._kernel.step(lambda _protocol, book: attempt.put(book, [told]), durable=True)


def _is_untouched(effect: Effect) -> bool:
    """Whether nothing was done about an effect that no plan asked for, but to name it."""
    if effect.disposition is not Disposition.ORPHANED:
        return False
    if effect.outcome is Outcome.FAILED:
        return True
    undoable = effect.declaration.undo is not None or effect.missing is not None
    return effect.tag is Tag.UNRESOLVED and (effect.outcome is Outcome.UNKNOWN or (effect.executed and not undoable))


def _failed_before(tool: str, error: str | None, name: str) -> Refused:
    return Refused(
        f"{tool} failed before: {error}; {name} has gone on without it, so it is not run again: use a new name for a"
        " new try",
        transaction=name,
    )
