"""Making one call: its place in the turn, its admission, its intent, its act, its outcome, in this order."""

from __future__ import annotations

from functools import partial
from typing import Any

from settlemark._acts.bodies import asked_for
from settlemark._acts.effect import Effect
from settlemark._acts.failure import Skipped
from settlemark._acts.gate import is_asked, rejection
from settlemark._acts.perform import Program, in_doubt, perform
from settlemark._acts.requests import Act
from settlemark._edges.door import through
from settlemark._edges.errors import (
    LeaseLost,
    LedgerError,
    Refused,
    SettlemarkError,
    UsageError,
    WaitTimeout,
    WouldBlock,
)
from settlemark._edges.text import KEY, identity
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.attempt import Attempt
from settlemark._engine.kernel import Deadline, scope_of
from settlemark._engine.probe import effect_of_key, unless_told
from settlemark._engine.turn import Seat
from settlemark._engine.undo import Aborting
from settlemark._model import json_text
from settlemark._model.disposition import NOTHING, Disposition, words
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import DETACHED, Blocked, Call, Mode, Ticket, Txn, fire
from settlemark._protocol.leaving import Leaves
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark._report.verdicts import because_in
from settlemark.ledger._contract import Book, RecordedEffect, Step

TURN_SECONDS = 600.0
_KEY = "the key of a call, made of its transaction's name and the call's id,"
_PUT_ASIDE = (Outcome.SUSPENDED, Outcome.QUEUED)


class Calling(Aborting):
    """The part of a driver that makes calls."""

    def call(
        self,
        attempt: Attempt,
        effect: Effect,
        seat: Seat | None = None,
        let_through: tuple[type[BaseException], ...] = (),
        *,
        stay: bool = False,
    ) -> Program:
        """Run, hold or replay one call; return its result, the effect itself when it is held, or a `Skipped`.

        Exceptions of the types in `let_through` are a framework's control flow: they suspend the call.
        With `stay` its seat is not vacated: the caller may try again, and says `leave` at the end.

        Raises:
            UsageError: bad arguments, before anything ran. Refused: the transaction is undone.
            InDoubt: nobody can tell whether it happened. Else whatever the tool raised.
        """
        attempt.entering.add(effect)
        try:
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
                self._drop(attempt, *seat.turn.behind(seat))
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
        with self.local:
            tickets = seat.turn.passed(seat) + seat.turn.queued(seat)
        fire(tickets)

    def _come(self, seat: Seat, effect: Effect) -> None:
        """Say on which scopes a call acts, and whether it is held: who waited for it to run then goes on."""
        with self.local:
            tickets = seat.turn.comes(seat, effect.scopes, held=effect.held)
        fire(tickets)

    def _entered(self, attempt: Attempt, effect: Effect) -> None:
        """Note that a call is no longer on its way: a commit that waits for it may go on."""
        attempt.entering.discard(effect)
        if attempt.txn is not None and attempt.txn.watchers:
            with self.local as protocol:
                protocol.nudge(attempt.txn, siblings=False)

    def leave(self, seat: Seat, *, failed: bool) -> None:
        """Say that a call of a turn is over, whether it ran or not: who waited for it goes on."""
        with self.local:
            tickets = seat.turn.leave(seat, failed=failed)
        fire(tickets)

    def interrupt(self, seat: Seat, control: BaseException) -> None:
        """Say that a framework suspended a call of a turn: who waited for it is suspended alike."""
        with self.local:
            tickets = seat.turn.interrupt(seat, control)
        fire(tickets)

    def _call(
        self,
        attempt: Attempt,
        effect: Effect,
        seat: Seat | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program:
        reads = effect.declaration.kind is EffectClass.READ
        if not reads:
            effect.arguments = json_text.snapshot(dict(effect.arguments))
            effect.payload = json_text.encode(effect.arguments)
            effect.key = identity(attempt.key(effect.path, effect.call_id), _KEY, KEY, tool=effect.declaration.tool)
            recorded = attempt.recall(effect)
            recorded = recorded or attempt.stayed(effect)
            if recorded is not None:
                return self._replayed(effect, recorded)
        elif attempt.txn is None:
            return (yield Act(effect.run, {}, attempt.current(effect)))
        txn = attempt.live
        if seat is not None:
            yield from self._take_turn(attempt, seat)
            self._come(seat, effect)
            effect.held, effect.turned = seat.held, True
            if seat.turn.order == "issued":
                effect.leaves |= Leaves.AS_ISSUED
        if reads:
            return (yield from self._read(attempt, txn, effect, let_through))
        if effect.path in attempt.effects:
            yield from self._refuse_another_tool(attempt, txn, effect)
        earlier = attempt.resume(effect)
        if earlier is not None:
            yield from self._refuse_orphan(attempt, earlier)
        if earlier is None:
            yield from self._checked(attempt, effect)
        if effect.declaration.approve is not None or (earlier is not None and is_asked(earlier)):
            effect.held = effect.held or attempt.must_hold(effect)
            earlier = yield from self._gate(attempt, txn, effect, earlier, let_through)
        if earlier is not None and earlier.held:
            return self._held_or_stopped(attempt, earlier, seat)
        return (yield from self._go_on(attempt, txn, earlier or effect, seat, let_through))

    def _refuse_another_tool(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        """Return when a call that was put aside before it acted comes back with the tool it was planned with.

        Raises:
            Stale: the tool is another one by now, and the transaction is aborted.
        """
        planned = attempt.effects[effect.path]
        if planned.outcome not in _PUT_ASIDE or txn.guards.tools != "checked":
            return
        before, now = planned.declaration, effect.declaration
        known = bool(before.templates)  # else nothing but its version is on record
        if now.speaks_for(before.version) and not (known and now.signature != before.signature):
            return

        def refuse(protocol: Protocol, _book: Book) -> None:
            protocol.phantom(txn, before.tool, "was changed", "plan the call again")

        yield from self._step(refuse)
        yield from self._tidy()
        with self.local as protocol:
            raise protocol.refusal(txn)

    def _refuse_orphan(self, attempt: Attempt, effect: Effect) -> Program:
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
        yield from self.refuse(attempt, Reason.STALE, scope=effect.scope_text, how=how, remedy="begin anew")

    def _stands_again(self, attempt: Attempt, effect: Effect) -> Program:
        """Have it that a plan asks for an effect again of which nothing was taken back; return whether that is so."""

        def stand(_protocol: Protocol, book: Book) -> bool:
            known = effect_of_key(book, effect.key)
            if known is not None and known.outcome is not effect.outcome:
                return False  # somebody has told of it, and it was judged as what nobody asks for
            effect.tag, effect.disposed = None, NOTHING
            attempt.put(book, [attempt.outcome(effect, self._clock())])
            return True

        return (yield from self._step(stand))

    @staticmethod
    def _checked(attempt: Attempt, effect: Effect) -> Program:
        """Return when a call's arguments are fit; else what its check raises is its failure, and it left no trace."""
        check = effect.declaration.check
        if check is not None:
            bound = check.bind(effect.for_handlers(), result=None, key=effect.key)
            yield Act(check.function, bound, attempt.current(effect))

    def _checked_as_given(self, attempt: Attempt, effect: Effect) -> Program:
        """Return when arguments that a person gave in place of a call's own are as fit as those have to be.

        Raises:
            UsageError: its check refuses them, and it left no trace.
        """
        try:
            yield from self._checked(attempt, effect)
        except Exception as error:
            tool = effect.declaration.tool
            raise UsageError(
                f"{tool} refuses the arguments that were given in place of its own: {in_words(error)}; nothing was run",
                tool=tool,
            ) from error

    def _go_on(
        self,
        attempt: Attempt,
        txn: Txn,
        effect: Effect,
        seat: Seat | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program:
        """Hold an effect that is to be held, or have it act, unless it is known by now what came of it."""
        if effect.path in attempt.effects:
            if effect.outcome is Outcome.CONFIRMED:
                attempt.keep(effect.path)  # with all that it called within
                return effect.result
            if effect.disposition is Disposition.SKIPPED:
                raise Skipped(_failed_before(effect.declaration.tool, effect.error, attempt.name))
            yield from self._refuse_to_hold(attempt, effect)
        effect.held = effect.held or attempt.must_hold(effect)
        if not effect.held:
            return (yield from self._act(attempt, txn, effect, let_through))
        if seat is not None:
            self._come(seat, effect)
        yield from self._hold(attempt, txn, effect)
        return self._held_or_stopped(attempt, effect, seat)

    def _refuse_to_hold(self, attempt: Attempt, effect: Effect) -> Program:
        """Return when an effect that is on record as one that acts at once is none that has to wait for the commit now.

        Raises:
            Stale: its tool, or what it comes behind, was declared otherwise since. It may have acted already, and its
                key is used up: all of its transaction is undone.
        """
        if effect.held or not attempt.must_hold(effect):
            return
        tool = effect.declaration.tool
        how = f"was for {tool} to act on at once when it was planned, and is to wait for the commit now"
        yield from self.refuse(attempt, Reason.STALE, scope=effect.scope_text, how=how, remedy="begin anew")

    def _held_or_stopped(self, attempt: Attempt, effect: Effect, seat: Seat | None) -> Effect:
        """Return an effect that is held, unless a failure before it stops it."""
        if seat is not None:
            seat.effect = effect  # in this order: a failure from here on finds it, and takes it back
            attempt.entering.discard(effect)
            if seat.turn.stopped(seat):
                self._drop(attempt, effect)
                raise self.why_stopped(attempt, seat)
        return effect

    def _gate(
        self,
        attempt: Attempt,
        txn: Txn,
        effect: Effect,
        earlier: Effect | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program:
        """Return the recorded effect that may act now, or None: it is not on record, and needs nobody's yes."""
        raise NotImplementedError

    @staticmethod
    def _replayed(effect: Effect, recorded: RecordedEffect) -> Any:
        value = json_text.decode(recorded.result)
        effect.result = effect.unpack(value) if effect.unpack is not None and value is not None else value
        effect.outcome, effect.held, effect.error = recorded.outcome, recorded.row.held, recorded.error
        if recorded.disposition is Disposition.REJECTED:
            raise rejection(recorded.row.tool, recorded.row.key, recorded.row.name, because_in(recorded.note))
        if effect.held or effect.outcome is Outcome.CONFIRMED:
            return effect if effect.held else effect.result
        if effect.outcome is Outcome.UNKNOWN:
            raise in_doubt(effect)
        failed = _failed_before(recorded.row.tool, recorded.error, recorded.row.name)
        raise Skipped(failed) if recorded.disposition is Disposition.SKIPPED else failed

    def _take_turn(self, attempt: Attempt, seat: Seat) -> Program:
        # A sibling holds nothing against this call, it is only slow: it gets longer than a rival.
        limit = max(attempt.wait, TURN_SECONDS)
        deadline = Deadline(limit)
        while True:
            with self.local as protocol:
                if attempt.live.state in (State.ABORTING, State.ABORTED):
                    raise protocol.refusal(attempt.live)
                if seat.turn.stopped(seat):
                    raise self.why_stopped(attempt, seat)
                earlier = seat.turn.before(seat)
                if earlier is None:
                    return
                if earlier.interruption is not None:
                    raise earlier.interruption
                ticket = protocol.watch(attempt.live, sibling=True)
                earlier.tickets.append(ticket)
            blocked = Blocked(attempt.live, earlier.scope or scope_of(attempt.run))
            sibling = f"{earlier.declaration.tool}, issued before it,"
            yield from self._await(attempt, ticket, blocked, deadline, sibling, whom=id(earlier), limit=limit)

    @staticmethod
    def why_stopped(attempt: Attempt, seat: Seat) -> Refused:
        """Return the error that tells a call of a turn which failure before it stopped it."""
        assert seat.turn.failed is not None
        tool, failed = seat.declaration.tool, seat.turn.failed.declaration.tool
        return Refused(
            f"{tool} was not run: {failed}, issued before it, failed; decide again from that failure",
            transaction=attempt.name, epoch=attempt.live.epoch, failed=failed,
        )  # fmt: skip

    def _drop(self, attempt: Attempt, *effects: Effect) -> None:
        """Take back queued effects that a failure before them has stopped."""

        def drop(protocol: Protocol, book: Book) -> None:
            for effect in effects:
                if effect.outcome is not Outcome.QUEUED or attempt.live.state is not State.OPEN:
                    continue
                if effect in attempt.entering:
                    continue  # whoever queues it sees the failure when that is done
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.CLEAN
                for call in effect.calls:
                    protocol.unhold(call)
                attempt.put(book, [attempt.outcome(effect, self._clock())])

        self.ledger.later(drop)

    def _read(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program:
        calls = yield from self._admit(attempt, txn, effect, Mode.READ)
        try:
            live = (yield from self._look(attempt, effect)) if txn.guards.current else None
            result = yield from self._perform(attempt, effect, let_through)
            if live is not None:
                attempt.live_reads.setdefault(live.what, live)
            return result
        finally:
            self.ledger.later(lambda protocol, _book: returned(protocol, calls, happened=True))

    def _perform(self, attempt: Attempt, effect: Effect, let_through: tuple[type[BaseException], ...]) -> Program:
        if attempt.asks is None:
            return self._try(attempt, effect, let_through)
        once = partial(self._try, attempt, effect, let_through)
        ours = partial(self._still_ours, attempt.live)
        return self.asking_of_failures(attempt, effect, once, ours, held=False, let_through=let_through)

    def _try(self, attempt: Attempt, effect: Effect, let_through: tuple[type[BaseException], ...]) -> Program:
        current = attempt.current(effect)
        performing = perform(
            effect, effect.run, current, attempt.retries, self, partial(self._still_ours, attempt.live),
            retry_failures=attempt.on_failure == "retry", final=False, let_through=let_through,
        )  # fmt: skip
        if self.observer is not None:
            performing = self._observed(attempt, effect, "call", current, performing)
        try:
            return (yield from performing)
        finally:
            current._end()  # noqa: SLF001 - its own

    def _hold(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        effect.outcome = Outcome.QUEUED
        yield from self._admit(attempt, txn, effect, Mode.HELD, intends=True)

    def _act(self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]) -> Program:
        mode = Mode.EAGER if effect.declaration.undoable else Mode.FINAL
        if attempt.live_reads:
            yield from self._before_writing(attempt, txn, effect)
        if effect.path not in attempt.effects:
            yield from self._admit(attempt, txn, effect, mode, intends=True)
        else:
            yield from self._intend_again(attempt, txn, effect, mode)
        with self._acting(attempt):
            result = yield from self._send(attempt, txn, effect, let_through)
        if txn.state is not State.OPEN and txn.state in (State.ABORTING, State.ABORTED):
            raise self._protocol.refusal(txn)
        return result

    def _send(
        self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]
    ) -> Program:
        """Have an effect act whose intent is on disk, and note what came of it."""
        try:
            yield from self._still_ours(txn)
        except LeaseLost:
            if effect.outcome is Outcome.INTENDED:  # nothing of it was sent, and nothing will be
                effect.outcome = Outcome.DROPPED
                self._note(attempt, [attempt.outcome(effect, self._clock())])
            raise
        called = effect.called
        try:
            result = yield from self._perform(attempt, effect, let_through)
            if effect.called == called:
                attempt.keep(effect.path)  # its counterparty knew of it
            with asked_for(self, attempt.name):
                refined = _refined(effect)
        except GeneratorExit:
            raise
        except BaseException as error:
            if is_a(error, let_through):
                effect.outcome = Outcome.SUSPENDED
            yield from self._come_back(attempt, txn, effect, [])
            raise
        self._after_writing(attempt, effect)
        yield from self._come_back(attempt, txn, effect, refined)
        return result

    def _intend_again(self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode) -> Program:
        """Make it durable that an effect which failed, or was suspended, acts again under its key."""
        if effect.outcome is Outcome.FAILED or not effect.calls:
            effect.calls = yield from self._admit(attempt, txn, effect, mode)
        else:
            calls = effect.calls
            yield from self._step(lambda protocol, _book: protocol.resumed(calls))
        if effect.outcome is Outcome.UNKNOWN:
            return  # the counterparty is asked before anything acts
        before, effect.outcome = effect.outcome, Outcome.INTENDED
        effect.at = self.ledger.time()  # nothing of it is out there: its key is as good as new
        told = attempt.outcome(effect, self._clock())

        def intend(protocol: Protocol, book: Book) -> None:
            if txn.state is not State.OPEN:
                raise protocol.refusal(txn)
            attempt.put(book, [told])

        try:
            yield from self._step(intend, durable=True, wait=attempt.wait)
        except GeneratorExit:
            raise
        except BaseException:
            effect.outcome = before
            calls, happened = effect.calls, before is not Outcome.FAILED
            yield from self._step(lambda protocol, _book: returned(protocol, calls, happened=happened))
            yield from self._tidy()
            raise

    def _come_back(self, attempt: Attempt, txn: Txn, effect: Effect, refined: list[Scope]) -> Program:
        """Note what came of an act; who waits for that is this program alone when the transaction was undone."""
        calls, happened = effect.calls, effect.outcome is not Outcome.FAILED
        told = attempt.outcome(effect, self._clock())

        def back(protocol: Protocol, book: Book) -> None:
            if txn.id == DETACHED:
                self._doubt()  # it may have come too late
            returned(protocol, calls, happened=happened)
            attempt.put(book, [told] if told.outcome is not Outcome.UNKNOWN else unless_told(book, [told]))

        def narrow(protocol: Protocol, book: Book) -> None:
            back(protocol, book)  # in one step with it: nobody sees a scope that it turned out not to have touched
            try:
                effect.calls = _narrowed(protocol, effect, refined)
            except SettlemarkError as error:
                outside.append(error)

        outside: list[SettlemarkError] = []
        self.ledger.later(narrow if refined else back)
        if refined:
            try:
                yield from self._step(lambda _protocol, _book: None)  # it is noted by then
            except SettlemarkError as error:
                outside.append(error)
        elif txn.state is not State.OPEN:
            yield from self._step(lambda _protocol, _book: None)  # it is noted by then
        yield from self._tidy()
        if told.outcome is Outcome.UNKNOWN:
            self._doubt()
        if outside:
            raise outside[0]

    def _admit(self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode, *, intends: bool = False) -> Program:
        """Wait until an effect may touch its scopes; with `intends`, have its intent on disk in the same step.

        When this raises, nothing of the effect will act.
        """
        if intends:
            attempt.prepare(effect)
        place, turned = -1 if mode is Mode.READ else effect.position, effect.turned or mode is Mode.HELD
        calls = [Call(txn, scope, mode, place, turned=turned, leaves=effect.leaves) for scope in effect.scopes]
        tool = effect.declaration
        planned = None if effect.bound is None else (tool.tool, tool.signature, effect.bound)
        deadline = Deadline(attempt.wait)

        def admit(protocol: Protocol, book: Book) -> tuple[Blocked, Ticket] | None:
            blocked = _admitted(protocol, calls, planned, patient=attempt.patient)
            if blocked is not None:
                return blocked, protocol.watch(blocked.holder, txn)
            if intends:
                if txn.state is not State.OPEN:
                    raise protocol.refusal(txn)
                effect.calls = calls
                attempt.add(effect)
                attempt.put(book, self._intent(attempt, effect))
            return None

        try:
            while (found := (yield from self._tidied(admit, durable=intends, wait=attempt.wait))) is not None:
                blocked, ticket = found
                yield from self._in_the_way(attempt, blocked, ticket, deadline)
            if intends:
                attempt.written = True
                if txn.state is not State.OPEN:
                    raise self._protocol.refusal(txn)
        except GeneratorExit:
            raise
        except BaseException as error:
            unrecorded = is_a(error, LedgerError) and not getattr(error, "in_doubt", False)
            yield from self._take_out(attempt, effect, calls, mode, unrecorded=unrecorded)
            raise
        if attempt.told_waiting:
            attempt.told_waiting = False
            self._tell_waiting(attempt, None)
        if mode is Mode.READ:
            attempt.sees(effect.scopes)
        return calls

    def _tidied(self, step: Step[Any], *, durable: bool, wait: float) -> Program:
        found = yield from self._step(step, durable=durable, wait=wait)
        yield from self._tidy()
        return found

    def _in_the_way(self, attempt: Attempt, blocked: Blocked, ticket: Ticket, deadline: Deadline) -> Program:
        """Wait until whoever is in a call's way has moved; one that stood in line in vain goes ahead."""
        if not blocked.in_line:
            self._refuse_wait_within(attempt, blocked)
        try:
            yield from self._await(attempt, ticket, blocked, deadline, blocked.holder.name)
        except (WaitTimeout, WouldBlock):
            if not blocked.in_line:
                raise
            attempt.patient = False

    def _take_out(
        self, attempt: Attempt, effect: Effect, calls: list[Call], mode: Mode, *, unrecorded: bool
    ) -> Program:
        """Give up a call that was not admitted everywhere, or was and must not act after all."""
        if effect.calls is calls:
            effect.outcome = Outcome.DROPPED
            if unrecorded:
                attempt.effects.pop(effect.path, None)
            else:
                effect.tag = Tag.CLEAN
                self._note(attempt, [attempt.outcome(effect, self._clock())])

        def give_up(protocol: Protocol, _book: Book) -> None:
            for call in calls:
                if not call.admitted:
                    protocol.withdraw(call)
                elif mode is Mode.HELD:
                    protocol.unhold(call)
                else:
                    returned(protocol, [call], happened=False)

        self.ledger.later(give_up)
        yield from self._tidy()


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
    )  # fmt: skip


def _admitted(
    protocol: Protocol, calls: list[Call], planned: tuple[str, str, int] | None, *, patient: bool
) -> Blocked | None:
    """Admit all of an effect's calls, or return whom one of them waits for.

    A read keeps none of its scopes while it waits for another: whoever holds that may wait for this one.
    """
    for call in calls:
        blocked = None if call.admitted else protocol.admit(call, planned, *(() if patient else (False,)))
        if blocked is None:
            continue
        for place, other in enumerate(calls):
            if other.admitted and other.mode is Mode.READ:
                protocol.acted(other, happened=True)
                calls[place] = Call(other.txn, other.scope, other.mode, other.place, turned=other.turned)
        return blocked
    return None


def returned(protocol: Protocol, calls: list[Call], *, happened: bool) -> None:
    """Have it that an effect's calls are back from the world, and whether it happened."""
    for call in calls:
        if call.admitted and call.hold is not None and not call.returned:
            protocol.acted(call, happened=happened)


def give_back(protocol: Protocol, effect: Effect) -> None:
    """Give up what an effect holds that was put aside before it acted, and never will."""
    calls = [call for call in effect.calls if call.hold is not None]
    if effect.held:
        for call in calls:
            protocol.unhold(call)
        return
    protocol.resumed([call for call in calls if call.returned])
    returned(protocol, calls, happened=False)


def _refined(effect: Effect) -> list[Scope]:
    """Return what the effect's result says it really touched; empty when there is nothing to say."""
    refine = effect.declaration.refine
    if refine is None:
        return []
    found = through(refine, effect.result)
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
