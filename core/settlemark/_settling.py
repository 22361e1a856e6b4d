"""Settling a transaction: seal, wait, decide, record the decision, and let what was held leave in order."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from settlemark._aborting import Aborting
from settlemark._acting import Program, perform
from settlemark._attempt import Attempt
from settlemark._effect import Effect, Outcome
from settlemark._errors import InDoubt, PartialCommit, Refused, SettlemarkError, StateError, WaitTimeout
from settlemark._program import scope_of
from settlemark._requests import Act
from settlemark._states import Reason, State, Tag
from settlemark._txn import Blocked, Txn
from settlemark.ledger._contract import Change


class Settling(Aborting):
    """The part of a driver that commits."""

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
                blocked = Blocked(txn, next((hold.scope for hold in txn.holds.values()), scope_of(attempt.run)))
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
                blocked = protocol.decide(txn, lasting=attempt.written) if examined else protocol.waits_for(txn)
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
        """Make the decision durable, then let what was held leave; whatever happens, it is finished or undone."""
        try:
            if attempt.written:
                yield from self._answer(self.ledger.write([attempt.state_change(self._clock())]))
            self._name_unknown(attempt)
            yield from self._let_leave(attempt, txn)
        except GeneratorExit:
            raise
        except BaseException as error:
            if txn.state is State.RELEASING:
                # Not durable means not decided: what has not begun to leave is undone.
                yield from self._stop(attempt, txn, f"{type(error).__name__}: {error}")
            if txn.finished:
                with self.step:
                    self._leave(attempt, txn)
            raise

    def _let_leave(self, attempt: Attempt, txn: Txn) -> Program:
        over = (Outcome.CONFIRMED, Outcome.DROPPED)
        held = [e for e in attempt.in_order() if e.held and e.outcome not in over]
        for number, effect in enumerate(held):
            if attempt.run in self._protocol.fenced:
                yield from self._stop(attempt, txn, "the run was cancelled", Reason.CANCELLED)
                raise self._stopped_midway(attempt, txn)
            try:
                # What has left is on record before the next leaves: a crash leaves one in doubt, not many.
                yield from self._release(attempt, effect, wait=number < len(held) - 1)
            except GeneratorExit:
                raise
            except BaseException as error:
                if effect.outcome is Outcome.CONFIRMED:
                    raise  # it has left, and that could not be recorded
                yield from self._refused(attempt, txn, effect, error)
        self._finish(attempt, txn, held[-1:])

    def _refused(self, attempt: Attempt, txn: Txn, effect: Effect, error: BaseException) -> Program:
        """End what one release has stopped: undo it all when nothing has left, else name what stays."""
        tool = effect.declaration.tool
        if effect.outcome is Outcome.UNKNOWN:
            effect.tag, effect.note = Tag.UNRESOLVED, "nobody can tell whether it left: ask the counterparty"
        elif txn.released:
            effect.tag = Tag.PARTIAL_COMMIT
            effect.note = f"failed for good after another had left: {effect.error}"
        yield from self._stop(attempt, txn, f"{tool}: {error}", because=f"{tool}, before it, failed")
        if not isinstance(error, Exception):
            raise error
        behind = [e for e in attempt.in_order() if e.tag is Tag.PARTIAL_COMMIT and e is not effect]
        if isinstance(error, InDoubt) and not behind:
            raise error
        raise self._stopped_midway(attempt, txn, effect) from error

    def _stop(
        self, attempt: Attempt, txn: Txn, cause: str, reason: Reason = Reason.REFUSED, *, because: str | None = None
    ) -> Program:
        """Stop a release midway: undo everything when nothing has left, else drop the rest and name it."""
        if not txn.released:
            with self.step as protocol:
                protocol.revert(txn, reason, cause=cause)
            yield from self._tidy()
            yield from self._until_finished(attempt, txn)
            return
        held = [e for e in attempt.in_order() if e.held]
        for effect in held:
            if effect.outcome is Outcome.QUEUED:
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.PARTIAL_COMMIT
                effect.note = f"not run: {because or cause}"
        # All of them: what has left may be what could not be recorded.
        self._finish(attempt, txn, held)

    def _stopped_midway(self, attempt: Attempt, txn: Txn, effect: Effect | None = None) -> SettlemarkError:
        if txn.state is State.ABORTED:
            return self._protocol.refusal(txn)
        effects = [e for e in attempt.in_order() if e.held]
        released = [e.key for e in effects if e.outcome is Outcome.CONFIRMED]
        what = (
            "its run was cancelled"
            if effect is None
            else f"{effect.declaration.tool} on {effect.scope_text} failed for good ({effect.error})"
        )
        return PartialCommit(
            f"{attempt.name} is committed in part: {what} after {len(released)} other(s) had left;"
            " see settlement.residue() and mend by hand",
            transaction=attempt.name, released=released, failed=[e.key for e in effects if e.tag is not None],
        )  # fmt: skip

    def _release(self, attempt: Attempt, effect: Effect, *, wait: bool) -> Program:
        handler = effect.declaration.release
        run = effect.run
        if handler is not None:
            arguments = handler.bind(effect.for_handlers(), result=None, key=effect.key)

            def run() -> Any:
                return handler.function(**arguments)

        try:
            current = attempt.current(effect)
            yield from perform(effect, run, current, attempt.retries, retry_failures=True, final=True)
        finally:
            if effect.executed:
                with self.step as protocol:
                    for call in effect.calls:
                        protocol.released(call)
        if wait:
            yield from self._answer(self._write([attempt.outcome(effect, self._clock())]))

    def _finish(self, attempt: Attempt, txn: Txn, untold: Iterable[Effect] = ()) -> None:
        """Note that nothing more will leave: it is committed, and recorded in one write with the outcomes untold."""
        at = self._clock()
        changes: list[Change] = [
            attempt.outcome(e, at) for e in attempt.in_order() if e.tag not in (None, Tag.CLEAN) or e in untold
        ]
        with self.step as protocol:
            for effect in attempt.in_order():
                for call in effect.calls if effect.held else ():
                    protocol.unhold(call)
            if txn.state is State.RELEASING:
                protocol.finish(txn)
            self._leave(attempt, txn)
        if attempt.written:
            changes.append(attempt.state_change(at))
        if changes:  # a turn that only read has nothing to record
            self._write(changes)
        self._tell_residue(attempt)


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
