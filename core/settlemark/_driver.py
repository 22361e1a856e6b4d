"""The one program behind every face: what happens, in which order, when a call is made or a step ends.

Each method is a generator that asks the protocol (one short lock a step, never held across I/O)
and yields requests for the world; `_runners` carries them out, synchronously, in asyncio, or in
every possible interleaving.

The order that matters: admission, then the durable intent, then the act, then its outcome. A commit
decision is durable before the first release. An abort's undos run in whoever's program made the
last step before them, so that nobody waits for a thread that is away thinking.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, cast

from settlemark import _codec
from settlemark._acting import Program, Retries, in_doubt, perform, undo
from settlemark._attempt import Attempt, Hook, OnFailure
from settlemark._current import CurrentCall
from settlemark._effect import Declaration, Effect, EffectClass, Outcome, declared_as
from settlemark._errors import (
    InDoubt,
    LedgerError,
    PartialCommit,
    Refused,
    SettlemarkError,
    Stale,
    StateError,
    WaitTimeout,
    Wounded,
)
from settlemark._index import Position
from settlemark._protocol import Protocol
from settlemark._recovery import is_running, revive
from settlemark._requests import Act, Recorded, Wait
from settlemark._scope import Scope, escape
from settlemark._sequencer import Seat, Turn
from settlemark._states import Reason, State, Tag
from settlemark._txn import Blocked, Call, Mode, Ticket, Txn
from settlemark.ledger._contract import Change, Fence, Ledger, RecordedEffect, RecordedTransaction

_log = logging.getLogger("settlemark")

EPOCH_BLOCK = 1 << 20
TURN_SECONDS = 600.0


class _Step:
    """One step of the protocol: the lock is held inside, and who it woke is woken after."""

    __slots__ = ("_lock", "_protocol")

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._lock = threading.Lock()

    def __enter__(self) -> Protocol:
        self._lock.acquire()
        return self._protocol

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        woken = self._protocol.take_woken()
        self._lock.release()
        if woken:
            fire(woken)


def fire(tickets: Iterable[Ticket]) -> None:
    """Wake whoever waits on these tickets, or will."""
    for ticket in tickets:
        ticket.fired = True
        if ticket.wake is not None:
            ticket.wake()


class Driver:
    """Runs transactions over a protocol and a ledger.

    Args:
        protocol: decides.
        ledger: remembers.
        clock: returns seconds since 1970, for the record.
        monotonic: returns seconds, for deadlines.
        worker: this process's name in the ledger.
        declaration: finds what was declared of a tool by its name.
        on_residue: told of every transaction that left something, once.
    """

    def __init__(
        self,
        protocol: Protocol,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        worker: str,
        declaration: Callable[[str], Declaration | None] = declared_as,
        prefix: str = "",
        on_residue: Callable[[str], None] | None = None,
    ) -> None:
        self.ledger = ledger
        self.step = _Step(protocol)
        self._protocol = protocol
        self._clock = clock
        self._monotonic = monotonic
        self._worker = worker
        self._prefix = prefix
        self._declaration = declaration
        self._on_residue = on_residue
        self.waiting: dict[Ticket, tuple[str, str, Scope]] = {}
        self._attempts: dict[Txn, Attempt] = {}
        self._names: dict[str, Attempt] = {}
        protocol.next_epoch = ledger.reserve_epochs(EPOCH_BLOCK)
        self._epoch_limit = protocol.next_epoch + EPOCH_BLOCK
        protocol.fenced.update(ledger.fences())

    # ---- beginning

    def begin(
        self,
        name: str,
        run: str,
        *,
        known: bool,
        declared: Iterable[Scope],
        hooks: tuple[Hook, ...],
        wait: float,
        on_failure: OnFailure,
        retries: Retries,
        retry: bool,
        position: Position | None = None,
    ) -> Program:
        """Return an attempt of a transaction: fresh, resumed, or a replay of what has committed.

        `known` says that the name was chosen by the caller, so that the ledger may know it.

        Raises:
            Cancelled: its run was cancelled. WaitTimeout: the name is in use and stays so.
        """
        if self._protocol.next_epoch > self._epoch_limit - EPOCH_BLOCK // 2:
            with self.step as protocol:
                protocol.next_epoch = self.ledger.reserve_epochs(EPOCH_BLOCK)
                self._epoch_limit = protocol.next_epoch + EPOCH_BLOCK
        deadline = self._monotonic() + wait
        while True:
            ticket: Ticket | None = None
            with self.step as protocol:
                same = self._names.get(name)
                if same is None:
                    txn = protocol.begin(name, run, declared=declared, position=position, retry=retry)
                    attempt = Attempt(
                        txn, name, run, 1, prefix=self._prefix, wait=wait, hooks=hooks, on_failure=on_failure,
                        retries=retries,
                    )  # fmt: skip
                    self._enter(attempt, txn)
                    break
                if same.suspended:
                    same.suspended = False
                    same.started = 0
                    return same
                ticket = protocol.watch(same.live)
            seconds = deadline - self._monotonic()
            if not (yield Wait(ticket, seconds, name, name)):
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {name} is in use by another caller and has not finished;"
                    " give this work a name of its own, or raise wait=",
                    transaction=name, epoch=None, holder=name, scope=None, waited=wait,
                )  # fmt: skip
        if known:
            yield from self._recall(attempt, txn)
        return attempt

    def _recall(self, attempt: Attempt, txn: Txn) -> Program:
        try:
            recorded: RecordedTransaction | None = yield from self._answer(self.ledger.load(attempt.name))
        except GeneratorExit:
            raise
        except BaseException:
            yield from self.abort(attempt, Reason.ABANDONED)
            raise
        if recorded is None:
            return
        if recorded.state is State.COMMITTED:
            with self.step as protocol:
                protocol.unretry(txn)
                protocol.abort(txn, Reason.ABANDONED)
                self._leave(attempt, txn)
            yield from self._tidy()
            attempt.txn = None
            attempt.number = recorded.row.attempt
            attempt.replay = recorded
            attempt.recorded = {effect.row.position: effect for effect in recorded.effects}
        elif recorded.state is State.ABORTED:
            attempt.number = txn.attempt = recorded.row.attempt + 1
        else:
            try:
                yield from self._adopt(attempt, txn, recorded)
            except GeneratorExit:
                raise
            except BaseException:
                yield from self.abort(attempt, Reason.ABANDONED)
                raise

    def _adopt(self, attempt: Attempt, txn: Txn, recorded: RecordedTransaction) -> Program:
        """Go on with an attempt that the end of its process cut off: under the same keys, nothing anew.

        Its effects take their claims again. One with an intent and no outcome is unknown until its
        call comes again and the counterparty is asked.
        """
        if is_running(recorded.row.owner):
            raise StateError(
                f"{attempt.name} is being run by another worker ({recorded.row.owner}):"
                " wait for it, or use another name",
                transaction=attempt.name, state=recorded.state,
            )  # fmt: skip
        attempt.number = txn.attempt = recorded.row.attempt
        attempt.written = True
        for found in recorded.effects:
            effect = revive(found, self._declaration(found.row.tool), released=recorded.state is State.RELEASING)
            if effect.held:
                effect.calls = yield from self._admit_all(attempt, txn, effect, Mode.HELD)
            elif effect.executed:
                mode = Mode.EAGER if effect.declaration.undoable else Mode.FINAL
                effect.calls = yield from self._admit_all(attempt, txn, effect, mode)
                with self.step as protocol:
                    for call in effect.calls:
                        protocol.acted(call, happened=True)
            attempt.add(effect)
        if recorded.state is State.ABORTING:
            yield from self.abort(attempt, Reason.ABANDONED, cause="its process ended while it was being undone")
            with self.step as protocol:
                again = protocol.begin(attempt.name, attempt.run, attempt=attempt.number + 1, retry=txn.retry)
                attempt.txn, attempt.number = again, attempt.number + 1
                attempt.effects, attempt.held_scopes, attempt.written = {}, {}, False
                self._enter(attempt, again)

    def _enter(self, attempt: Attempt, txn: Txn) -> None:
        self._attempts[txn] = attempt
        self._names[attempt.name] = attempt

    def _leave(self, attempt: Attempt, txn: Txn) -> None:
        self._attempts.pop(txn, None)
        if self._names.get(attempt.name) is attempt:
            del self._names[attempt.name]

    # ---- calling

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
        if turn is not None and seat is not None and not stay:
            self.leave(turn, seat, failed=False)
        return result

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
            if turn is not None and seat is not None and turn.stopped(seat):
                self._drop(attempt, effect)
                raise self._stopped(attempt, turn, seat)
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
                    raise self._stopped(attempt, turn, seat)
                earlier = turn.before(seat)
                if earlier is None:
                    return
                if earlier.interruption is not None:
                    raise earlier.interruption
                ticket = protocol.watch(attempt.live)
                earlier.tickets.append(ticket)
            blocked = Blocked(attempt.live, earlier.scope or _scope_of(attempt.run))
            sibling = f"{earlier.declaration.tool}, issued before it,"
            yield from self._await(attempt, ticket, blocked, deadline, sibling, limit)

    @staticmethod
    def _stopped(attempt: Attempt, turn: Turn, seat: Seat) -> Refused:
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
            return (
                yield from perform(
                    effect,
                    effect.run,
                    attempt.current(effect),
                    attempt.retries,
                    retry_failures=attempt.on_failure == "retry",
                    final=False,
                    let_through=let_through,
                )
            )
        finally:
            with self.step as protocol:
                for call in calls:
                    protocol.acted(call, happened=True)

    def _hold(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        effect.outcome = Outcome.QUEUED
        attempt.entering.add(effect)
        try:
            effect.calls = yield from self._admit_all(attempt, txn, effect, Mode.HELD)
            yield from self._record_intent(attempt, txn, effect)
        finally:
            attempt.entering.discard(effect)
            if txn.watchers:
                with self.step as protocol:
                    protocol.nudge(txn)
        return effect

    def _act(self, attempt: Attempt, txn: Txn, effect: Effect, let_through: tuple[type[BaseException], ...]) -> Program:
        mode = Mode.EAGER if effect.declaration.undoable else Mode.FINAL
        if effect.position not in attempt.effects:
            effect.calls = yield from self._admit_all(attempt, txn, effect, mode)
            yield from self._record_intent(attempt, txn, effect)
        elif effect.outcome is Outcome.FAILED:
            # Its failure gave the claims back; the key, and so the recorded intent, stay the same.
            effect.calls = yield from self._admit_all(attempt, txn, effect, mode)
            effect.outcome = Outcome.INTENDED
        else:
            with self.step as protocol:
                protocol.resumed(effect.calls)
        try:
            result = yield from perform(
                effect,
                effect.run,
                attempt.current(effect),
                attempt.retries,
                retry_failures=attempt.on_failure == "retry",
                final=False,
                let_through=let_through,
            )
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
                return
            if deadline is None:
                deadline = self._monotonic() + attempt.wait
            try:
                yield from self._await(attempt, ticket, blocked, deadline, blocked.holder.name)
            except BaseException:
                with self.step as protocol:
                    protocol.withdraw(call)
                raise

    def _await(
        self,
        attempt: Attempt,
        ticket: Ticket,
        blocked: Blocked,
        deadline: float,
        holder: str,
        limit: float | None = None,
    ) -> Program:
        woken = False
        self.waiting[ticket] = (attempt.name, holder, blocked.scope)
        if attempt.written:
            told = f"waiting for {holder}, which holds {blocked.scope}"
            # Under the lock, so that it cannot be recorded after the end of a transaction aborted just now.
            with self.step:
                if attempt.live.state in (State.OPEN, State.SEALED):
                    self._write([attempt.state_change(self._clock(), waiting=told)])
        try:
            woken = yield Wait(ticket, deadline - self._monotonic(), holder, blocked.scope.text)
        finally:
            self.waiting.pop(ticket, None)
            if not woken:
                with self.step as protocol:
                    protocol.unwatch(ticket, blocked.holder, attempt.live)
        if not woken:
            waited = attempt.wait if limit is None else limit
            raise WaitTimeout(
                f"{attempt.name} gave up after {waited:g} s waiting for {holder}, which holds {blocked.scope}:"
                " nothing was run; try again later, or raise wait=",
                transaction=attempt.name, epoch=attempt.live.epoch, holder=holder, scope=blocked.scope,
                waited=waited,
            )  # fmt: skip

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

    # ---- settling

    def commit(self, attempt: Attempt) -> Program:
        """Seal, wait until it may, decide, and let the held effects leave, in issuance order.

        Raises:
            Refused: it was undone instead. PartialCommit: a release failed behind another.
            InDoubt: nobody can tell whether a release happened. StateError: it was sealed before.
        """
        txn = attempt.live if attempt.replay is None else None
        if txn is None:
            return
        try:
            yield from self._decide(attempt, txn)
        except (StateError, GeneratorExit):
            raise  # committed, or being committed, by somebody else: nothing moves
        except Refused as error:
            yield from self._tidy()
            if txn.state in (State.OPEN, State.SEALED):
                yield from self.abort(attempt, Reason.FAILED, cause=str(error))
            yield from self._until_finished(attempt, txn)
            raise
        except BaseException as error:
            if txn.state in (State.OPEN, State.SEALED):
                yield from self.abort(attempt, Reason.FAILED, cause=f"{type(error).__name__}: {error}")
            raise
        yield from self._release_all(attempt, txn)

    def _quiesce(self, attempt: Attempt, txn: Txn) -> Program:
        """Wait for the calls still in flight: a seal promises that nothing is added after it."""
        if not attempt.in_flight():
            return
        deadline = self._monotonic() + attempt.wait
        while True:
            with self.step as protocol:
                ticket = protocol.watch(txn)
                if not attempt.in_flight():
                    protocol.unwatch(ticket, txn)
                    return
                blocked = Blocked(txn, next((hold.scope for hold in txn.holds.values()), _scope_of(attempt.run)))
            yield from self._await(attempt, ticket, blocked, deadline, "a call of its own that has not returned,")

    def _decide(self, attempt: Attempt, txn: Txn) -> Program:
        deadline = self._monotonic() + attempt.wait
        examined = not attempt.hooks
        sealed = False
        while True:
            if not sealed:
                yield from self._quiesce(attempt, txn)
            with self.step as protocol:
                if not sealed:
                    if attempt.in_flight():
                        continue  # a call slipped in between
                    protocol.seal(txn)
                    sealed = True
                blocked = protocol.decide(txn) if examined else protocol.waits_for(txn)
                ticket = protocol.watch(blocked.holder, txn) if blocked is not None else None
            if blocked is None or ticket is None:
                if examined:
                    return
                yield from self._examine(attempt, txn)
                examined = True
                continue
            # Whoever it waits for may change what the hooks saw: they look again afterwards.
            examined = not attempt.hooks
            try:
                yield from self._await(attempt, ticket, blocked, deadline, blocked.holder.name)
            except WaitTimeout:
                yield from self.abort(
                    attempt,
                    Reason.TIMEOUT,
                    waited=attempt.wait,
                    holder=blocked.holder.name,
                    scope=blocked.scope,
                )
                with self.step as protocol:
                    raise protocol.refusal(txn) from None

    def _examine(self, attempt: Attempt, txn: Txn) -> Program:
        for hook in attempt.hooks:
            name = getattr(hook, "__name__", repr(hook))
            # By position: what a hook calls its argument is its own affair.
            verdict = yield Act(partial(hook, Footprint(attempt)), {}, None)
            if verdict is False or isinstance(verdict, str):
                said = verdict if isinstance(verdict, str) else "it returned False"
                yield from self.abort(attempt, Reason.VETOED, hook=name, verdict=said)
                with self.step as protocol:
                    raise protocol.refusal(txn)

    def _release_all(self, attempt: Attempt, txn: Txn) -> Program:
        if attempt.written:
            try:
                yield from self._answer(self.ledger.write([attempt.state_change(self._clock())]))
            except LedgerError as error:
                # Not durable means not decided: nothing has left, so it is undone.
                if txn.state is State.RELEASING:
                    yield from self.abort(attempt, Reason.REFUSED, cause=f"{error}")
                raise
        if txn.state is State.COMMITTED:
            with self.step:
                self._leave(attempt, txn)
            return
        over = (Outcome.CONFIRMED, Outcome.DROPPED)
        held = [e for e in attempt.in_order() if e.held and e.outcome not in over]
        for number, effect in enumerate(held):
            try:
                # What has left is on record before the next leaves: a crash leaves one in doubt, not many.
                yield from self._release(attempt, effect, wait=number < len(held) - 1)
            except GeneratorExit:
                raise
            except BaseException as error:
                if effect.outcome is Outcome.FAILED and not txn.released:
                    yield from self.abort(attempt, Reason.REFUSED, cause=f"{effect.declaration.tool}: {error}")
                    if not isinstance(error, Exception):
                        raise
                    with self.step as protocol:
                        raise protocol.refusal(txn) from error
                yield from self._finish(attempt, txn, failed=effect, left_over=held[number + 1 :])
                self._raise_partial(attempt, effect, held[number + 1 :], error)
        yield from self._finish(attempt, txn)

    def _release(self, attempt: Attempt, effect: Effect, *, wait: bool) -> Program:
        handler = effect.declaration.release
        current = attempt.current(effect)
        run = effect.run
        recorded: Future[Any] | None = None
        if handler is not None:
            arguments = handler.bind(effect.arguments, result=None, key=effect.key)

            def run() -> Any:
                return handler.function(**arguments)

        try:
            yield from perform(effect, run, current, attempt.retries, retry_failures=True, final=True)
        finally:
            if effect.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN):
                with self.step as protocol:
                    for call in effect.calls:
                        protocol.released(call)
                recorded = self._write([attempt.outcome(effect, self._clock())])
        if wait:
            yield from self._answer(recorded)

    def _finish(
        self, attempt: Attempt, txn: Txn, *, failed: Effect | None = None, left_over: Iterable[Effect] = ()
    ) -> Program:
        at = self._clock()
        changes: list[Change] = []
        if failed is not None:
            if failed.outcome is Outcome.UNKNOWN:
                failed.tag, failed.note = (
                    Tag.UNRESOLVED,
                    "nobody can tell whether it left: ask the counterparty",
                )
            else:
                failed.tag, failed.note = (
                    Tag.PARTIAL_COMMIT,
                    f"failed for good after another had left: {failed.error}",
                )
            changes.append(attempt.outcome(failed, at))
            for effect in left_over:
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.PARTIAL_COMMIT
                effect.note = f"not run: {failed.declaration.tool}, before it, failed"
                changes.append(attempt.outcome(effect, at))
        with self.step as protocol:
            for effect in (failed, *left_over) if failed is not None else ():
                for call in effect.calls:
                    protocol.unhold(call)
            protocol.finish(txn)
            self._leave(attempt, txn)
        changes.append(attempt.state_change(at))
        self._write(changes)
        self._tell_residue(attempt)
        yield from ()

    @staticmethod
    def _raise_partial(attempt: Attempt, failed: Effect, left_over: list[Effect], error: BaseException) -> None:
        if not isinstance(error, Exception) or (isinstance(error, InDoubt) and not left_over):
            raise error
        released = [e.key for e in attempt.in_order() if e.held and e.outcome is Outcome.CONFIRMED]
        raise PartialCommit(
            f"{attempt.name} is committed in part: {failed.declaration.tool} on {failed.scope_text} failed for good"
            f" ({failed.error}) after {len(released)} other(s) had left; see settlement.residue() and mend by hand",
            transaction=attempt.name, released=released, failed=[failed.key, *(e.key for e in left_over)],
        ) from error  # fmt: skip

    def run(self, begin: Program, body: Callable[[Attempt], Callable[[], Any]], *, tries: int) -> Program:
        """Begin, call the body, commit, and return the body's value; again on fresh state when it lost a race.

        Raises:
            Refused: it lost `tries` races, or was refused for another reason. Else what the body raised.
        """
        attempt: Attempt = yield from begin
        while True:
            tries -= 1
            try:
                value = yield Act(body(attempt), {}, None)
                yield from self.commit(attempt)
            except (Stale, Wounded):
                again = yield from self._retry(attempt, last=tries <= 0)
                if again is None:
                    raise
                attempt = again
            except GeneratorExit:
                raise
            except BaseException as error:
                yield from self.abort(attempt, Reason.FAILED, cause=f"{type(error).__name__}: {error}")
                yield from self._abandon(attempt)
                raise
            else:
                return value

    def _retry(self, attempt: Attempt, *, last: bool) -> Program:
        """Return the attempt that took this one's place, once it is finished, or None."""
        txn = attempt.txn
        if txn is None:
            return None
        # The body may have raised this for another transaction than its own: then it failed.
        yield from self.abort(attempt, Reason.FAILED)
        yield from self._until_finished(attempt, txn)
        if last:
            yield from self._abandon(attempt)
            return None
        return self._attempts.get(txn.successor) if txn.successor is not None else None

    def _abandon(self, attempt: Attempt) -> Program:
        """Give up the place that an aborted attempt's retry has taken: nobody will use it."""
        successor = attempt.txn.successor if attempt.txn is not None else None
        again = self._attempts.get(successor) if successor is not None else None
        if again is not None:
            yield from self.abort(again, Reason.ABANDONED)

    # ---- aborting

    def abort(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program:
        """Abort a transaction and return when everything of it is undone or named; settled ones stay."""
        txn = attempt.txn
        if txn is None:
            return
        with self.step as protocol:
            protocol.abort(txn, reason, **detail)
        yield from self._tidy()
        if txn.state is State.ABORTING:
            yield from self._until_finished(attempt, txn)

    def nothing(self) -> Program:
        """Do nothing, as a program."""
        yield from ()

    def suspend(self, attempt: Attempt) -> None:
        """Leave a transaction open: entering its name again goes on where it stopped."""
        with self.step as protocol:
            attempt.suspended = True
            protocol.nudge(attempt.live)

    def cancel(self, run: str) -> Program:
        """Put up a fence before a run, durably, and undo what of it has not settled."""
        with self.step as protocol:
            found = protocol.cancel(run)
            pending = self.ledger.write([Fence(run, self._clock())])
        yield from self._answer(pending)
        yield from self._tidy()
        for txn in found:
            attempt = self._attempts.get(txn)
            if attempt is not None:
                yield from self._until_finished(attempt, txn)

    def _until_finished(self, attempt: Attempt, txn: Txn) -> Program:
        deadline = self._monotonic() + attempt.wait
        while not txn.finished:
            with self.step as protocol:
                ticket = protocol.watch(txn)
            woken = yield Wait(ticket, deadline - self._monotonic(), "a call that has not returned", "its own")
            if not woken:
                _log.warning(
                    "%s is aborted, but a call of it has not returned yet: it is undone when it does",
                    txn.name,
                )
                return

    def _tidy(self) -> Program:
        """Conclude whatever this program's last step aborted, its own transaction or another's."""
        while self._protocol.has_aborted:
            with self.step as protocol:
                aborted = protocol.take_aborted()
            for txn in aborted:
                yield from self._conclude(txn)

    def _conclude(self, txn: Txn) -> Program:
        attempt = self._attempts.get(txn)
        if attempt is None:
            return
        if attempt.written and txn.state is State.ABORTING:
            self._write([attempt.state_change(self._clock())])
        interrupted: BaseException | None = None
        for effect in reversed(attempt.in_order()):
            if effect.held and effect.executed:
                effect.tag, clean = Tag.LEAKED, False
                effect.note = "it had left, or may have, before the abort: ask the counterparty"
                calls = []
            elif effect.held or not effect.executed:
                # A suspended call still has its claim; one that failed or never began has none.
                calls = effect.calls if effect.outcome is Outcome.SUSPENDED else []
                if effect.outcome is not Outcome.FAILED:
                    effect.outcome = Outcome.DROPPED
                effect.tag, clean = Tag.CLEAN, True
            else:
                try:
                    clean = yield from undo(effect, attempt.current(effect), attempt.retries)
                except GeneratorExit:
                    raise
                except BaseException as error:
                    interrupted = error
                    effect.tag, effect.note, clean = (
                        Tag.UNRESOLVED,
                        f"its undo was interrupted: {error!r}",
                        False,
                    )
                calls = effect.calls
            with self.step as protocol:
                for call in calls:
                    protocol.undone(call, clean=clean)
            self._write([attempt.outcome(effect, self._clock())])
        with self.step as protocol:
            if not txn.finished:
                protocol.finish_abort(txn)
            self._leave(attempt, txn)
            if txn.successor is not None:
                again = Attempt(
                    txn.successor, attempt.name, attempt.run, attempt.number + 1, prefix=attempt.prefix,
                    wait=attempt.wait, hooks=attempt.hooks, on_failure=attempt.on_failure, retries=attempt.retries,
                )  # fmt: skip
                self._enter(again, txn.successor)
        if attempt.written:
            self._write([attempt.state_change(self._clock())])
        self._tell_residue(attempt)
        if interrupted is not None:
            raise interrupted

    # ---- the ledger

    def _write(self, changes: list[Change]) -> Future[Any] | None:
        """Queue what a crash may lose, because recovery asks the counterparty anyway."""
        pending = self.ledger.write(changes)
        if pending is not None:
            pending.add_done_callback(_log_failure)
        return pending

    @staticmethod
    def _answer(value: Any) -> Program:
        if isinstance(value, Future):
            value = yield Recorded(cast("Any", value))
        return value

    def _tell_residue(self, attempt: Attempt) -> None:
        if self._on_residue is None or all(e.tag in (None, Tag.CLEAN) for e in attempt.effects.values()):
            return
        try:
            self._on_residue(attempt.name)
        except Exception:  # a listener's own fault must not reach whoever settled
            _log.exception("on_residue failed for %s", attempt.name)


def _scope_of(run: str) -> Scope:
    return Scope.parse(f"run:/{escape(run)}")


def _log_failure(pending: Future[Any]) -> None:
    if not pending.cancelled() and pending.exception() is not None:
        _log.error("an outcome could not be recorded: %s", pending.exception())


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


class Footprint:
    """What a sealed transaction read and will do, for a pre-commit hook to judge.

    Attributes:
        transaction: its name.
        effects: one mapping an effect, in issuance order: tool, class, scope, arguments, result, held.
    """

    def __init__(self, attempt: Attempt) -> None:
        self.transaction = attempt.name
        self.reads = [scope.text for scope in attempt.live.reads]
        self.effects = [
            {
                "tool": effect.declaration.tool, "class": effect.declaration.kind.value, "scope": effect.scope_text,
                "arguments": dict(effect.arguments), "result": effect.result, "held": effect.held,
            }
            for effect in attempt.in_order()
        ]  # fmt: skip


__all__ = ["CurrentCall", "Driver", "Footprint", "fire"]
