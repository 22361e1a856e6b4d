"""The one program behind every face: what happens, in which order, when a call is made or a step ends.

Each method is a generator that asks the protocol (one short lock a step, never held across I/O)
and yields requests for the world; `_runners` carries them out, synchronously, in asyncio, or in
every possible interleaving.

The order that matters: admission, then the durable intent, then the act, then its outcome. A commit
decision is durable before the first release. An abort's undos run in whoever's program made the
last step before them, so that nobody waits for a thread that is away thinking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from settlemark._acting import Program, Retries
from settlemark._attempt import Attempt, Hook, OnFailure
from settlemark._calling import Calling
from settlemark._effect import Effect, Outcome
from settlemark._errors import (
    DeclarationError,
    InDoubt,
    PartialCommit,
    Refused,
    Stale,
    StateError,
    UsageError,
    WaitTimeout,
    Wounded,
)
from settlemark._index import Position
from settlemark._program import EPOCH_BLOCK
from settlemark._recovery import is_running, revive
from settlemark._requests import Act, Wait
from settlemark._scope import Scope
from settlemark._settling import Settling
from settlemark._states import Reason, State
from settlemark._txn import Mode, Ticket, Txn
from settlemark.ledger._contract import Fence, RecordedTransaction


class Driver(Calling, Settling):
    """Runs transactions over a protocol and a ledger: begins, recalls and repeats them.

    Making calls, settling and aborting are its bases' parts.
    """

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
        self._reserve_epochs()
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
            if seconds <= 0 or not (yield Wait(ticket, seconds, name, name)):
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {name} is in use by another caller and has not finished;"
                    " give this work a name of its own, or raise wait=",
                    transaction=name, epoch=None, holder=name, scope=None, waited=wait,
                )  # fmt: skip
        if known:
            yield from self._recall(attempt, txn)
        return attempt

    def _reserve_epochs(self) -> None:
        if self._protocol.next_epoch <= self._epoch_limit - EPOCH_BLOCK // 2:
            return
        first = self.ledger.reserve_epochs(EPOCH_BLOCK)
        with self.step as protocol:
            protocol.next_epoch = max(protocol.next_epoch, first)
            self._epoch_limit = first + EPOCH_BLOCK

    def _recall(self, attempt: Attempt, txn: Txn) -> Program:
        """Become what the ledger knows of this name: a replay, the next attempt, or the one that was cut off."""
        try:
            recorded: RecordedTransaction | None = yield from self._answer(self.ledger.load(attempt.name))
            if recorded is None:
                return
            if recorded.state is State.ABORTED:
                attempt.number = txn.attempt = recorded.row.attempt + 1
                return
            if recorded.state is not State.COMMITTED:
                yield from self._adopt(attempt, txn, recorded)
                if recorded.state is not State.RELEASING:
                    return
                recorded = yield from self._answer(self.ledger.load(attempt.name))
                assert recorded is not None
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._shelve(attempt)
            raise
        yield from self._shelve(attempt)
        attempt.become_replay(recorded)

    def _shelve(self, attempt: Attempt) -> Program:
        """Let go of an attempt in this process; what the ledger says of it stays as it is."""
        txn = attempt.txn
        if txn is None or txn.finished:
            return
        with self.step as protocol:
            protocol.unretry(txn)
            self._leave(attempt, txn)
            for effect in attempt.effects.values():
                for call in effect.calls:
                    if not effect.held and call.admitted:
                        protocol.undone(call, clean=True)
            protocol.abort(txn, Reason.ABANDONED)
        yield from self._tidy()

    def _adopt(self, attempt: Attempt, txn: Txn, recorded: RecordedTransaction) -> Program:
        """Go on with an attempt that the end of its process cut off: under the same keys, nothing anew.

        Its effects take their claims again. One with an intent and no outcome is unknown until its
        call comes again and the counterparty is asked. What was decided is finished at once; what was
        being undone is undone to the end, and the next attempt takes its place.
        """
        if recorded.row.owner != self._worker and is_running(recorded.row.owner):
            raise StateError(
                f"{attempt.name} is being run by another worker ({recorded.row.owner}):"
                " wait for it, or use another name",
                transaction=attempt.name, state=recorded.state,
            )  # fmt: skip
        attempt.number = txn.attempt = recorded.row.attempt
        effects = [revive(found, self._declaration(found.row.tool)) for found in recorded.effects]
        if recorded.state is State.RELEASING:
            self._check_handlers(attempt, effects)
        for effect in effects:
            yield from self._claim_again(attempt, txn, effect)
            attempt.add(effect)
        # Until here, and until a decision is taken again, a wait must not write over the recorded state.
        attempt.written = recorded.state is not State.RELEASING
        if recorded.state is State.RELEASING:
            yield from self._finish_decided(attempt, txn)
        elif recorded.state is State.ABORTING:
            yield from self.abort(attempt, Reason.ABANDONED, cause="its process ended while it was being undone")
            with self.step as protocol:
                again = protocol.begin(
                    attempt.name, attempt.run, attempt=attempt.number + 1, retry=txn.retry, fenced=True
                )
                attempt.txn, attempt.number = again, attempt.number + 1
                attempt.effects, attempt.held_scopes, attempt.written = {}, {}, False
                self._enter(attempt, again)

    def _claim_again(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program:
        if effect.held:
            effect.calls = yield from self._admit_all(attempt, txn, effect, Mode.HELD)
        elif effect.executed or effect.outcome is Outcome.SUSPENDED:
            mode = Mode.EAGER if effect.declaration.undoable else Mode.FINAL
            effect.calls = yield from self._admit_all(attempt, txn, effect, mode)
            with self.step as protocol:
                for call in effect.calls:
                    protocol.acted(call, happened=True)

    @staticmethod
    def _check_handlers(attempt: Attempt, effects: list[Effect]) -> None:
        missing = sorted(
            {e.declaration.tool for e in effects if e.outcome is Outcome.QUEUED and e.declaration.function is None}
        )
        if missing:
            raise DeclarationError(
                f"{attempt.name} has committed and {', '.join(missing)} still has to leave, but nothing of that name is"
                " declared in this process: import or declare it, then enter the name again",
                tool=missing[0],
            )

    def _finish_decided(self, attempt: Attempt, txn: Txn) -> Program:
        """Carry out a commit decision that was durable before its process ended."""
        queued = [effect for effect in attempt.in_order() if effect.outcome is Outcome.QUEUED]
        if queued:
            queued[0].outcome = Outcome.UNKNOWN  # each outcome was on record before the next was let go
        txn.released = any(effect.held and effect.executed for effect in attempt.effects.values())
        deadline = self._monotonic() + attempt.wait
        with self.step as protocol:
            protocol.seal(txn)
        while True:
            with self.step as protocol:
                blocked = protocol.decide(txn, lasting=True)
                ticket = protocol.watch(blocked.holder, txn) if blocked is not None else None
            if blocked is None or ticket is None:
                break
            yield from self._await(attempt, ticket, blocked, deadline, blocked.holder.name)
        attempt.written = True
        yield from self._release_all(attempt, txn)

    def cancel(self, run: str) -> Program:
        """Put up a fence before a run, durably, and end what of it has not settled, in this process or before it.

        Raises:
            UsageError: this names a transaction, not a run; there is no fence.
        """
        with self.step as protocol:
            known = next((a.run for a in self._attempts.values() if a.name == run and a.run != run), None)
            if known is not None:
                raise UsageError(f"{run} is a transaction of the run {known}: nothing was cancelled; cancel {known!r}")
            found = protocol.cancel(run)
            pending = self.ledger.write([Fence(run, self._clock())])
        yield from self._answer(pending)
        yield from self._tidy()
        for txn in found:
            attempt = self._attempts.get(txn)
            if attempt is not None:
                yield from self._until_finished(attempt, txn)
        left: list[RecordedTransaction] = yield from self._answer(self.ledger.unfinished(run))
        for recorded in left:
            if recorded.row.name not in self._names and not is_running(recorded.row.owner):
                yield from self._end_cut_off(recorded)

    def _end_cut_off(self, recorded: RecordedTransaction) -> Program:
        """Undo, or finish releasing, what an ended process left of a run that is now fenced."""
        row = recorded.row
        with self.step as protocol:
            txn = protocol.begin(row.name, row.run, attempt=row.attempt, fenced=True)
            attempt = Attempt(
                txn, row.name, row.run, row.attempt, prefix=self._prefix, wait=30.0, hooks=(), on_failure="abort",
                retries=Retries(),
            )  # fmt: skip
            self._enter(attempt, txn)
        try:
            yield from self._adopt(attempt, txn, recorded)
            yield from self.abort(attempt, Reason.CANCELLED)
        except (Refused, PartialCommit, InDoubt):
            pass  # it ended as it could, and what is left is named
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._shelve(attempt)
            raise

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
                yield from self._abandon(attempt)
                yield from self.abort(attempt, Reason.FAILED, cause=f"{type(error).__name__}: {error}")
                raise
            else:
                return value

    def _retry(self, attempt: Attempt, *, last: bool) -> Program:
        """Return the attempt that took this one's place, once it is finished, or None."""
        txn = attempt.txn
        if txn is None:
            return None
        if last:
            yield from self._abandon(attempt)
        # The body may have raised this for another transaction than its own: then it failed.
        yield from self.abort(attempt, Reason.FAILED)
        if not txn.finished:
            yield from self._abandon(attempt)
        return self._attempts.get(txn.successor) if txn.successor is not None and not last else None


__all__ = ["Driver"]
