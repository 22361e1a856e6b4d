"""The calls of one model turn when a framework runs them: seated up front, settled when the last is over.

An integration opens a batch, seats every call in issuance order and lets its framework run them as
it likes. Where the tool itself would be called it runs `perform`; when the framework has its answer,
`leave`. A held call waits inside `perform` until all others are over, so that whoever called it (a
retry wrapper, an error handler) gets the tool's real result. The last one settles the batch.
Methods that may wait are programs for a runner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from settlemark._acts.effect import Effect
from settlemark._acts.failure import Skipped
from settlemark._acts.gate import Approver, is_asked
from settlemark._acts.perform import Program, in_doubt
from settlemark._acts.requests import Wait
from settlemark._api.settlement import Settlement
from settlemark._api.transaction import Queued
from settlemark._edges.errors import InDoubt, PartialCommit, Refused, ScopeError, SettlemarkError, Wounded
from settlemark._edges.wording import in_words, is_a, kind_of
from settlemark._engine.attempt import Attempt, Part
from settlemark._engine.splitting import is_elsewhere, rest_of
from settlemark._engine.turn import Seat, Turn
from settlemark._lifecycle.parking import Park
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import ANSWERED_NO, Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.guards import Order
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Ticket, fire
from settlemark._protocol.index import Position
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import HAPPENED

Control = tuple[type[BaseException], ...]
Remake = Callable[[Mapping[str, Any]], tuple[Callable[[], Any], Mapping[str, Any] | None]]
"""Returns what runs a call with other arguments, and these as the tool will get them."""

_NO_DEADLINE = 1e6  # a sibling may run as long as it likes; each of its own waits has a deadline
_UNSETTLED = (State.OPEN, State.SEALED)


@dataclass(slots=True, eq=False)
class BatchCall:
    """One call of a batch: its place, and what came of it."""

    declaration: Declaration
    arguments: Mapping[str, Any]
    call_id: str | None
    seat: Seat
    placed: Effect
    effects: list[Effect] = field(default_factory=list[Effect])
    failed: str | None = None
    skipped: bool = False
    over: bool = False
    stopped: bool = False  # by the failure of another, when the turn was settled: it is no failure of its own

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.declaration.tool


class Batch:
    """One turn of one transaction, run by a framework. Build it with `open_batch`.

    Attributes:
        calls: in issuance order.
        joined: it is a part of another transaction's call, and settles with that.
        refusal: why it did not commit as a whole, or None.
        suspended: a framework's control flow stopped it, and entering its name again goes on.
        look: finds calls that will not come and says so with `absent`, whenever somebody begins to wait; returns
            the seconds until it is to look again, or None when it tells by itself.
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
    ) -> None:
        self.settlement = settlement
        self.attempt = attempt = part.attempt
        self.calls: list[BatchCall] = []
        self.refusal: SettlemarkError | None = None
        self.broken: BaseException | None = None
        self.suspended = False
        self.settled = False
        self._driver = settlement.driver
        self.undoes = undoes
        self.joined = part.joined
        self._numbering = part.numbering
        if undoes and (within or not part.joined):
            attempt.expect(part.numbering.base)
        self._resumable = resumable
        self._let_through = let_through
        self._within = within
        self._park: Park = park
        self._before = before  # what has settled of the turn while it waited for an answer
        stops = undoes and attempt.on_failure != "continue"
        self._turn = turn or settlement.turn(order=order, stop_on_failure=stops)
        self._private = Scope.parse("run:/this")
        self._lock = threading.Lock()
        self._expected = 0
        self._settling = self._abandoned = False
        self._waiting: list[Ticket] = []
        self.look: Callable[[], float | None] = _nothing_to_see
        self._control: BaseException | None = None
        self._cause: str | None = None
        self._escaped = False
        self._cut: BaseException | None = None

    @property
    def holds(self) -> bool:
        """Whether a call of it waits for the others."""
        return any(call.seat.held for call in self.calls)

    @property
    def abandoned(self) -> bool:
        """Whether it was cut short, and undone for that: whoever comes to it now, or to its name, comes too late."""
        return self._cut is not None and self.undoes and self.attempt.replay is None

    @property
    def lost_race(self) -> bool:
        """Whether it was undone only because an older transaction needed what it had: run it again."""
        txn = self.attempt.txn
        undone = txn is not None and txn.state is State.ABORTED and txn.reason is Reason.WOUNDED
        return not self.joined and (undone or isinstance(self.refusal, Wounded))

    # ---- calls

    def seat(
        self,
        declaration: Declaration,
        arguments: Mapping[str, Any],
        *,
        given: Mapping[str, Any] | None = None,
        call_id: str | None = None,
    ) -> BatchCall:
        """Give a call the next place. Seat all before the first runs.

        `given` are the arguments as the tool will get them, where the framework makes them of the recorded ones.
        """
        call_id = call_id or None  # some models give their calls none, some an empty one
        if not self.undoes and declaration.kind is not EffectClass.READ:
            declaration = Declaration(declaration.tool, EffectClass.OPAQUE, declaration.scope)
        try:
            effect = self._filled(declaration, arguments, given, call_id)
        except ScopeError:
            effect = Effect(declaration, (), arguments, _unset)  # `perform` says so, unless it is given others
        with self._driver.local:
            seat = self._turn.take(declaration, *effect.scopes, held=self.attempt.is_held(declaration))
            self.attempt.place(effect, self._numbering)
            self._expected += 1
        call = BatchCall(declaration, arguments, call_id, seat, effect)
        self.calls.append(call)
        return call

    def _filled(
        self,
        declaration: Declaration,
        arguments: Mapping[str, Any],
        given: Mapping[str, Any] | None,
        call_id: str | None,
    ) -> Effect:
        named = dict(arguments if given is None else given)
        effect = self.settlement.effect_of(declaration, named, _unset, run=self.attempt.run, call_id=call_id)
        effect.arguments, effect.given = dict(arguments), given
        return effect

    def _effect(self, call: BatchCall, arguments: Mapping[str, Any], given: Mapping[str, Any] | None) -> Effect:
        if not self.undoes:
            # Order is all that is asked for: nothing is refused, and no other transaction is waited for.
            kept: dict[str, Any] = json_text.decode(json_text.encode_result(arguments))
            effect = Effect(call.declaration, (self._private,), kept, _unset, call_id=call.call_id)
        else:
            effect = self._filled(call.declaration, arguments, given, call.call_id)
        for earlier in call.effects:
            if earlier.arguments == effect.arguments and not _given_up(earlier):
                return earlier
        effect.path, effect.position = call.placed.path, call.placed.position
        before = self.attempt.effects.get(effect.path)
        if before is not None and before.arguments == effect.arguments:
            before.given = effect.given  # a new process knows only what was recorded
        if call.effects or (before is not None and _given_up(before)):
            # A wrapper asks for something else in the same place, or again for what it gave up: a decision of its own.
            with self._driver.local:
                self.attempt.place(effect, self._numbering)
        call.effects.append(effect)
        return effect

    def perform(
        self,
        call: BatchCall,
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
    ) -> Program:
        """Run a call's effect when its place has come, and return the tool's result.

        Again with the same arguments: the recorded result, or another try under the same key if it
        failed. With `may_wait=False`, or inside another's call, a held one returns a `Queued`. One
        that is cancelled while it is held does not leave, unless it was leaving already. One that needs a
        person's yes has it by then: `ask` asks, and `remake` returns what runs it with other arguments, and these as
        the tool will get them.

        Raises:
            UsageError: bad arguments; nothing was run. Refused: it did not run, or was undone.
            InDoubt: nobody can tell whether it happened. Else whatever the tool raised, also when the turn goes on
            without it because somebody who was asked said so.
        """
        self.refuse_late(call)
        effect = self._effect(call, arguments, given)
        effect.run, effect.pack, effect.unpack, effect.rationale = run, pack, unpack, because
        effect.ask, effect.remake = ask, None if remake is None else partial(self._remade, call, remake)
        attempt = self._attempt_of(effect)
        found = yield from self._driver.call(attempt, effect, call.seat, self._let_through, stay=True)
        if isinstance(found, Skipped):
            call.skipped = True
            raise found.error
        if not isinstance(found, Effect):
            if attempt.replay is not None and effect.outcome in _NEVER:
                raise self._why_not(effect)
            return found
        if found.path == effect.path:  # else it was approved with other arguments
            call.effects[call.effects.index(effect)] = found
        if self.joined or not may_wait:
            return Queued(found)
        if attempt.replay is None and not self.settled:
            self._arrived(call)
            try:
                yield from self._until_settled(call, cut=True)
            except BaseException:
                self._take_back(call, found)
                raise
        return self.result(found)

    def refuse_late(self, call: BatchCall) -> None:
        """Return when the batch was not abandoned.

        Raises:
            Refused: it was: nothing of it acts any more.
        """
        if self._cut is not None and self.abandoned:
            raise too_late(call.tool, self._cut, self.attempt.name)

    def _attempt_of(self, effect: Effect) -> Attempt:
        """Return the transaction that an effect belongs to: where a turn was split at a gate, it has several."""
        for attempt in self._before:
            found = attempt.recorded.get(effect.path)
            if found is not None and not is_elsewhere(found):
                return attempt
        return self.attempt

    def _remade(self, call: BatchCall, remake: Remake, _effect: Effect, arguments: Mapping[str, Any]) -> Effect:
        run, given = remake(arguments)
        made = self._filled(call.declaration, arguments, given, call.call_id)
        made.run = run
        return made

    def acting(self, call: BatchCall) -> Effect | None:
        """Return the effect that acts for a call: the last it asked for, or what was approved in its place."""
        if not call.effects:
            return None
        last = call.effects[-1]
        known = self.attempt.effects.get(last.path, last)
        if known.disposition is not Disposition.EDITED:
            return known
        return next((e for e in self.attempt.effects.values() if e.key == known.disposed.link), known)

    def result(self, effect: Effect) -> Any:
        """Return what a held effect returned when it left, or raise why it did not leave."""
        if effect.outcome is Outcome.CONFIRMED:
            return effect.result
        raise self._why_not(effect)

    def _why_not(self, effect: Effect) -> BaseException:
        if effect.outcome is Outcome.UNKNOWN:
            return self.refusal if isinstance(self.refusal, InDoubt) else in_doubt(effect)
        if effect.outcome is Outcome.FAILED and self.refusal is not None and self.refusal.__cause__ is not None:
            return self.refusal.__cause__
        if self._control is not None:
            return self._control
        if self.broken is not None:
            return self.broken
        seat = next((c.seat for c in self.calls if effect in c.effects or effect is self.acting(c)), None)
        if seat is not None and self.attempt.txn is not None and self._turn.stopped(seat):
            # Whether it had been queued by then is a matter of timing, and of no account to the model.
            return self._driver.why_stopped(self.attempt, seat)
        note = None if effect.disposition is Disposition.APPROVED else effect.disposed.told
        tool, reason = effect.declaration.tool, effect.error or note or self.because()
        return Refused(
            f"{tool} {'failed' if effect.outcome is Outcome.FAILED else 'was held and never left'}, so nothing of it"
            f" happened; decide again from this: {reason}",
            transaction=self.attempt.name,
        )  # fmt: skip

    # ---- the end of a call, and of the turn

    def leave(self, call: BatchCall, *, failed: str | None = None, error: BaseException | None = None) -> Program:
        """Say that the framework is done with a call, run or not; the last one settles the batch.

        `failed` says in words how a failure was answered; `error` is what escapes the framework's handling.
        """
        if error is not None and is_a(error, self._let_through):
            self._control = error if self._control is None else self._control
            if self.undoes:
                self._driver.interrupt(call.seat, error)
            else:
                self._driver.leave(call.seat, failed=False)  # as stock: it keeps back no other call
        else:
            self._escaped = self._escaped or (error is not None and is_a(error, Exception))
            call.failed = failed if error is None else in_words(error)
            call.stopped = self.settled and self._turn.failed is not None and self._turn.failed is not call.seat
            self._driver.leave(call.seat, failed=_has_failed(call))
        if error is not None and not is_a(error, Exception):
            self._cut = self._cut or error  # `abandon` follows
            self._wake()
        self._arrived(call)
        if self._is_to_settle():
            yield from self._settle()

    def absent(self, call: BatchCall) -> None:
        """Say that a call will not come: it was answered elsewhere, or was over in an earlier process."""
        self.attempt.keep(call.placed.path, call.call_id)
        self._driver.leave(call.seat, failed=False)
        self._arrived(call)
        self._wake()

    def finish(self, call: BatchCall) -> Program:
        """Wait, with a call that is over, until all are: whoever finds them so settles the batch."""
        return self._until_settled(call, cut=False)

    @property
    def unattended(self) -> bool:
        """Whether all calls are over, and nobody is there to settle the batch: `finish` does."""
        with self._lock:
            return not (self._expected or self._settling or self._cut is not None or self._waiting)

    def _until_settled(self, call: BatchCall, *, cut: bool) -> Program:
        while not self.settled and not (cut and self._cut is not None):
            pause = self.look()
            ticket = Ticket()
            with self._lock:
                self._waiting.append(ticket)
            if self._is_to_settle():
                yield from self._settle()
            elif not self.settled:
                yield Wait(ticket, pause or _NO_DEADLINE, "the other calls of its turn", call.tool)

    def _arrived(self, call: BatchCall) -> None:
        with self._lock:
            if not call.over:
                call.over = True
                self._expected -= 1

    def _is_to_settle(self) -> bool:
        """Whether all calls are over and nobody settles: then whoever asks does."""
        with self._lock:
            if self._expected or self._settling or self._cut is not None:
                return False
            self._settling = True
            return True

    def _take_back(self, call: BatchCall, effect: Effect) -> None:
        """Drop a held effect for which nobody waits any more; its call is not over before `leave`."""
        with self._lock:
            if call.over and not self._settling:
                call.over = False
                self._expected += 1
        self._driver._drop(self.attempt, effect)  # noqa: SLF001 - a batch is a part of the driver's work

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        fire(waiting)

    def because(self) -> str:
        """Return in words why the turn was undone."""
        if isinstance(self.refusal, InDoubt):
            return f"the outcome of {self.refusal.data.get('tool', 'a call')} is unknown"
        if self.refusal is not None:
            return str(self.refusal)
        if self._cause is not None:
            return self._cause
        first = next(filter(_has_failed, self.calls), None)
        return "the step was stopped" if first is None else f"{first.tool} failed: {first.failed}"

    def _settle(self) -> Program:
        try:
            try:
                yield from self._ending()
            except (Refused, InDoubt, PartialCommit) as refusal:
                self.refusal = refusal
            except Exception as error:
                # Raised by whoever collects the answers, not by the bystander who came last.
                self.broken = error
            if self.lost_race:
                yield from self._driver.let_pass(self.attempt)  # it is begun again when it is settled
        finally:
            self.settled = True
            self._wake()

    def _ending(self) -> Program:
        failed = any(map(_has_failed, self.calls))
        if self._within and not (failed or self._control or self._escaped):
            yield from self._driver.take_back_orphans(self.attempt, self._numbering.base)
        if (self.joined and not (self._within and failed)) or self.attempt.replay is not None:
            if self.attempt.speculative and self.attempt.written:
                yield from self._driver.flush()  # the framework keeps the answers, and asks no more
            return
        if self.undoes and failed and (self._escaped or self.attempt.on_failure != "continue"):
            self._cause = self.because()  # later those fail, too, that it stops
            yield from self._driver.abort(self.attempt, Reason.FAILED, cause=self._cause)
        elif (self._control is not None) is self.undoes and (self._control or self._escaped) and self._resumable:
            yield from self._suspend()
        elif self._control is not None and self.undoes:
            cause = "it was interrupted, and nothing can resume it"
            yield from self._driver.abort(self.attempt, Reason.ABANDONED, cause=cause)
        else:
            yield from self._driver.commit(self.attempt)

    def _suspend(self) -> Program:
        self.suspended = True
        gate = self._gate_to_split_at() if self._park == "split" and self.undoes else None
        if gate is None:
            yield from self._driver.suspend(self.attempt)
        else:
            yield from self._driver.split_at(self.attempt, gate, self._behind(gate))

    def _gate_to_split_at(self) -> Effect | None:
        """Return the effect that a person was asked about, when the turn waits for nothing else and has more to it."""
        effects = self.attempt.in_order()
        paused = [e for e in effects if e.outcome is Outcome.SUSPENDED]
        if len(paused) != 1 or not is_asked(paused[0]):
            return None
        holds = any(call.hold is not None for call in paused[0].calls)
        return paused[0] if holds or any(e.executed or e.outcome is Outcome.QUEUED for e in effects) else None

    def _behind(self, gate: Effect) -> list[Effect]:
        """Return the held effects that are not to leave before one that waits for an answer."""
        found = [gate]
        for effect in self.attempt.in_order():
            if effect.path <= gate.path or effect.outcome is not Outcome.QUEUED:
                continue
            ours = (scope for other in found for scope in other.scopes)
            if self._turn.order in ("turn", "issued") or any(a.overlaps(b) for a in ours for b in effect.scopes):
                found.append(effect)
        return found[1:]

    def abandon(self, error: BaseException) -> Program:
        """End what a cancellation or a crash of the framework left unsettled; nothing of it acts any more."""
        self._cut = self._cut or error
        self._wake()
        if self.settled or self._abandoned:
            return
        self._abandoned = True
        try:
            yield from self._ended_by(error)
        finally:
            self.settled = True
            self._wake()

    def _ended_by(self, error: BaseException) -> Program:
        if self.joined or self.attempt.replay is not None:
            return
        if self.undoes:
            cause = f"the step was stopped by {kind_of(error)}"
            yield from self._driver.abort(self.attempt, Reason.FAILED, cause=cause)
        elif self._resumable:
            yield from self._suspend()
        elif self.attempt.live.state in _UNSETTLED:
            yield from self._driver.commit(self.attempt)

    def undone(self, call: BatchCall) -> str | None:
        """Return what became of a call that had succeeded before its turn was undone, or None: its answer stands."""
        txn = self.attempt.txn
        if txn is None or txn.state not in (State.ABORTING, State.ABORTED) or self.suspended or not call.effects:
            return None
        known = self.attempt.effects.get(call.effects[-1].path)
        effect = None if known is None else self.acting(call)
        if call.failed is not None or call.declaration.kind is EffectClass.READ or effect is None:
            return None
        return became(
            call.tool, effect.outcome, because=self.because(), held=effect.held, tag=effect.tag,
            note=effect.disposed.told,
        )  # fmt: skip


def too_late(tool: str, cut: BaseException, transaction: str | None) -> Refused:
    """Return what is told to a call that comes when its turn was stopped."""
    return Refused(
        f"{tool} was called after its turn had been stopped by {kind_of(cut)}: nothing was run, for that turn is over",
        transaction=transaction,
    )


def became(tool: str, outcome: Outcome, *, because: str, held: bool, tag: Tag | None, note: str | None) -> str | None:
    """Return in words what became of a call that was answered before its transaction was undone, or None."""
    if outcome is Outcome.UNDONE and tag is Tag.CLEAN:
        return f"undone: {tool} had succeeded, and was undone because {because}"
    if outcome in HAPPENED or tag is Tag.UNRESOLVED:
        more = f" ({note})" if note else ""
        return (
            f"could not be undone: {tool} had succeeded and stays{more}, although {because};"
            " it is on record: settlement.residue()"
        )
    return f"never left: {tool} was held, and dropped because {because}" if held else None


def _has_failed(call: BatchCall) -> bool:
    """Whether a call has failed itself, and the turn does not go on without it."""
    return call.failed is not None and not (call.skipped or call.stopped)


def _given_up(effect: Effect) -> bool:
    """Whether an effect was dropped, and not because a person said no or gave it other arguments."""
    return effect.outcome is Outcome.DROPPED and effect.disposition not in ANSWERED_NO


_NEVER = (Outcome.FAILED, Outcome.DROPPED, Outcome.UNKNOWN, Outcome.UNDONE)


def _unset() -> None:
    raise AssertionError


def _nothing_to_see() -> None:
    return None


def open_batch(
    settlement: Settlement,
    name: str | None,
    *,
    run: str,
    within: Part | None = None,
    turn: Turn | None = None,
    order: Order = "turn",
    position: Position | None = None,
    may_touch: Sequence[str | Scope] = (),
    undoes: bool = True,
    resumable: bool = False,
    let_through: Control = (),
    park: Park = "keep",
) -> Program:
    """Return a batch: a transaction of its own, or a part of the one whose call it is opened in.

    Args:
        settlement: settles it.
        name: the transaction's; None when nothing can ever enter it again.
        run: the job it belongs to.
        within: the part of a transaction that others settle: a failure of the batch undoes all of it.
        turn: one that several batches share, so that their calls keep one order.
        order: see `Turn`.
        position: shared by the siblings of one superstep, but for the ordinal.
        may_touch: scopes that it holds before its first call runs.
        undoes: False asks for order and deduplication alone: nothing is held, nothing undone.
        resumable: the framework may come back to it under the same name.
        let_through: the framework's control flow: it suspends the batch.
        park: while it waits for a person's answer it is kept as it is, and holds what it holds; or it is split: what
            came before commits, and the rest becomes a transaction of its own.

    Raises:
        Refused: its run was cancelled, or its name is in use.
    """
    part = within or (
        yield from settlement.begin(name, run=run, position=position, may_touch=may_touch, comes_back=True)
    )
    before: list[Attempt] = []
    while not part.joined and part.attempt.replay is not None and (rest := rest_of(part.attempt.replay)) is not None:
        before.append(part.attempt)
        numbering = part.numbering
        part = yield from settlement.begin(rest, run=run)
        part.attempt.numbering = part.numbering = numbering
    return Batch(
        settlement, part, turn=turn, order=order, within=within is not None, undoes=undoes, resumable=resumable,
        let_through=let_through, park=park, before=before,
    )  # fmt: skip


__all__ = ["Batch", "BatchCall", "open_batch", "too_late"]
