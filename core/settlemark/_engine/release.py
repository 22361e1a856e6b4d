"""Letting what was held leave, in its order, once its transaction is decided."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from settlemark._acts.effect import Effect
from settlemark._acts.failure import Skipped
from settlemark._acts.perform import Program, in_doubt, perform, refuse_withheld
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import current_of
from settlemark._edges.errors import (
    Halted,
    InDoubt,
    LedgerError,
    PartialCommit,
    SettlemarkError,
)
from settlemark._edges.wording import in_words, is_a, kind_of, message_of
from settlemark._engine.doubt import Probing, Residue, unless_told
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.splitting import Splitting
from settlemark._engine.undo.abort import Undoing
from settlemark._model.disposition import Disposed
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._observe.logs import about_txn, quote_of
from settlemark._protocol.holdings import DETACHED, Call, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import Book, Change

_OVER = (Outcome.CONFIRMED, Outcome.DROPPED)
_STAYS = (*_OVER, Outcome.SUSPENDED)  # a question that nobody came back to is no approval


class _MayBeUnderWay(Exception):
    """Somebody may still be sending an effect: its transaction keeps what it holds, and is gone on with later.

    Attributes:
        error: what the caller is told.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _PutAside(Exception):
    """What is to leave is halted: its transaction stays as it is, and goes on when that is lifted.

    Attributes:
        error: what the caller is told.
    """

    def __init__(self, error: Halted) -> None:
        super().__init__(error)
        self.error = error


class Releases:
    """Lets held effects leave, and ends what was decided."""

    def __init__(
        self,
        kernel: Kernel,
        probing: Probing,
        freshness: Freshness,
        splitting: Splitting,
        residue: Residue,
        undoing: Undoing,
    ) -> None:
        self._kernel = kernel
        self._probing = probing
        self._freshness = freshness
        self._splitting = splitting
        self._residue = residue
        self._undoing = undoing

    def release_all(self, attempt: Attempt, txn: Txn) -> Program[None]:
        """Let what was held leave, now that the decision is durable; whatever happens, it is finished or undone.

        While the store fails it stays releasing, and goes on when the store works again.
        """
        try:
            yield from self._let_leave(attempt, txn)
        except GeneratorExit:
            raise
        except _MayBeUnderWay as found:
            log.info("%s: %s", attempt.name, quote_of(found.error), extra=about_txn(txn, state=txn.state.value))
            # Last: from here on another program may take it up, and this one moves nothing more.
            attempt.handed_over = True
            raise found.error from found.error.__cause__
        except _PutAside as found:
            attempt.handed_over = True  # last, as above
            raise found.error from None
        except BaseException as error:
            if txn.id == DETACHED:
                yield from self._kernel.waits.until_concluded(attempt, txn)
            elif txn.state is State.RELEASING and txn in self._kernel.attempts:  # else its end is queued
                if is_a(error, LedgerError):
                    raise self._put_off(attempt, error) from error
                yield from self.stop(attempt, txn, in_words(error))
            raise

    def _put_off(self, attempt: Attempt, error: LedgerError) -> LedgerError:
        """Go on with a release that a failure of the store stopped, when the store works again."""
        held = [effect for effect in attempt.in_order() if effect.held]
        left = [effect for effect in held if effect.outcome is Outcome.CONFIRMED]
        told: list[Change] = []
        with suppress(LedgerError):  # what cannot be recorded is known here
            told = [attempt.records.outcome(e, self._kernel.clock()) for e in held if e.outcome in _OVER]

        def tell(_protocol: Protocol, book: Book) -> None:
            attempt.put(book, told)
            self._kernel.call_maintenance()

        attempt.handed_over = True
        self._kernel.ledger.later(tell)
        return LedgerError(
            f"{attempt.name} is decided, and {len(left)} of its {len(held)} held effects have left; the rest follows by"
            f" itself when the store works again, so repeat nothing: {error}",
            **error.data | {"transaction": attempt.name},
        )

    def _let_leave(self, attempt: Attempt, txn: Txn) -> Program[None]:
        held = self.to_leave(attempt)
        for number, effect in enumerate(held):
            if attempt.run in self._kernel.protocol.fenced:
                yield from self._find_out(attempt, effect)
                yield from self.stop(attempt, txn, "the run was cancelled", Reason.CANCELLED)
                raise self._stopped_midway(attempt, txn)
            if self._kernel.protocol.halts:
                yield from self._stop_if_halted(attempt, txn, effect)
            try:
                # What has left is on disk before the next leaves: a crash leaves one in doubt, not many.
                with self._kernel.acting(attempt):
                    yield from self._let_one_leave(attempt, txn, effect, last=number == len(held) - 1)
            except GeneratorExit:
                raise
            except Skipped:
                yield from self._leave_out(attempt, effect)
        yield from self._finish(attempt, txn, held[-1:])
        if txn.id == DETACHED:
            raise self._kernel.protocol.refusal(txn)

    def _stop_if_halted(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Return when an effect may leave; what has left before it is on disk.

        Raises:
            _PutAside: it is halted, and its transaction is put aside.
        """

        def look(protocol: Protocol, _book: Book) -> Halted | None:
            halt = protocol.halted_call(txn.run, effect.scopes)
            if halt is None or effect.outcome is Outcome.UNKNOWN or txn.state is not State.RELEASING:
                return None  # whether one has left is found out first
            protocol.put_aside(txn, self._kernel.ledger.worker)
            return halted(attempt.name, txn.epoch, halt, parked=True)

        error = yield from self._kernel.step(look, durable=True)
        if error is not None:
            raise _PutAside(error)

    def _let_one_leave(self, attempt: Attempt, txn: Txn, effect: Effect, *, last: bool) -> Program[None]:
        if not _has_left(attempt):
            wrong = yield from self._freshness.verify(attempt, self._freshness.live_reads(attempt))
            if wrong is not None:
                yield from self._revert(attempt, txn, Reason.STALE, wrong)
                raise self._kernel.protocol.refusal(txn)
        yield from self._kernel.still_ours(txn)  # last: what is read anew may take its time
        try:
            yield from self._release(attempt, effect, last=last)
        except (GeneratorExit, Skipped):
            raise
        except BaseException as error:
            if effect.outcome is Outcome.CONFIRMED or txn.id == DETACHED:
                raise  # it has left, and that could not be recorded; or another goes on with it
            if is_a(error, effect.controls):
                yield from self._set_aside(attempt, txn, effect)
                raise
            if is_a(error, LedgerError) and not self._kernel.ledger.is_fresh():
                raise  # whether it may be tried again is not known before the store works
            yield from self._wait_for_sender(effect, error)
            yield from self._refused(attempt, txn, effect, error)

    def _set_aside(self, attempt: Attempt, txn: Txn, gate: Effect) -> Program[None]:
        """End a decided transaction without what asks somebody as it is to leave, and what was to leave behind it.

        That waits for the answer in a transaction of its own: nothing is undone because somebody is asked.
        """
        gate.outcome = Outcome.SUSPENDED
        behind = [effect for effect in self.to_leave(attempt) if effect.outcome is Outcome.QUEUED]
        left = [effect for effect in attempt.in_order() if effect.held and effect.outcome is Outcome.CONFIRMED]
        attempt.splinters = [self._splitting.splinter_at(attempt, [gate], behind)]
        yield from self._kernel.step(partial(self._splitting.split_off, attempt, txn), durable=True)
        self._splitting.adopt_splinters(attempt)
        yield from self._finish(attempt, txn, left[-1:])

    def _wait_for_sender(self, effect: Effect, error: BaseException) -> Program[None]:
        """Return, unless somebody may still be sending an effect of which nobody knows what became of it.

        Raises:
            _MayBeUnderWay: so it is.
        """
        if effect.outcome is not Outcome.UNKNOWN:
            return
        silent, told = yield from self._probing.of_sender(effect)
        if silent or told is not UNKNOWN:
            raise _MayBeUnderWay(error) from error

    def _find_out(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Find out whether an effect in doubt has left, without sending it: what stops here depends on that.

        Raises:
            _MayBeUnderWay: somebody may still be sending it.
        """
        if effect.outcome is not Outcome.UNKNOWN:
            return
        found = yield from self._probing.ask(effect, current_of(attempt, effect), attempt.retries, final=True)
        if found is None:
            effect.outcome = Outcome.QUEUED
        elif found is UNKNOWN:
            yield from self._wait_for_sender(effect, in_doubt(effect))
        else:
            effect.confirm(found)
            effect.error = None

    def _leave_out(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Go on without a held effect that failed: it never leaves."""
        effect.outcome, effect.tag = Outcome.DROPPED, Tag.CLEAN
        told = attempt.records.outcome(effect, self._kernel.clock())

        def leave_out(protocol: Protocol, book: Book) -> None:
            for call in effect.calls:
                protocol.drop_call(call)
            attempt.put(book, [told])

        yield from self._kernel.step(leave_out)

    def _refused(self, attempt: Attempt, txn: Txn, effect: Effect, error: BaseException) -> Program[NoReturn]:
        """End what one release has stopped: undo it all when nothing has left, else name what stays."""
        tool = effect.declaration.tool
        if effect.outcome is not Outcome.UNKNOWN and _has_left(attempt):
            effect.tag = Tag.PARTIAL_COMMIT
            effect.disposed = Disposed(note=f"failed for good after another had left: {effect.error}")
        yield from self.stop(
            attempt, txn, f"{tool}: {message_of(error) or kind_of(error)}", because=f"{tool}, before it, failed"
        )
        if not is_a(error, Exception):
            raise error
        behind = [e for e in attempt.in_order() if e.tag is Tag.PARTIAL_COMMIT and e is not effect]
        if is_a(error, InDoubt) and not behind:
            raise error
        raise self._stopped_midway(attempt, txn, effect) from error

    def stop(
        self, attempt: Attempt, txn: Txn, cause: str, reason: Reason = Reason.REFUSED, *, because: str | None = None
    ) -> Program[None]:
        """Stop a release midway: undo everything when nothing has left, else drop the rest and name it.

        What may have left counts as left, and is named.
        """
        if not _has_left(attempt):
            yield from self._revert(attempt, txn, reason, attempt.records.cause({"cause": cause}))
            return
        held = [e for e in attempt.in_order() if e.held]
        for effect in held:
            if effect.outcome is Outcome.QUEUED:
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.PARTIAL_COMMIT
                effect.disposed = Disposed(note=f"not run: {because or cause}")
            elif effect.outcome is Outcome.UNKNOWN and effect.tag is None:
                self._kernel.ledger.later(partial(_left, effect.calls))
                effect.tag = Tag.UNRESOLVED
                effect.disposed = Disposed(note="nobody can tell whether it left: ask the counterparty")
        # All of them: what has left may be what could not be recorded.
        yield from self._finish(attempt, txn, held)

    def _revert(self, attempt: Attempt, txn: Txn, reason: Reason, detail: dict[str, Any]) -> Program[None]:
        """Take back a decision of which nothing has left yet, and undo everything."""

        def revert(protocol: Protocol, _book: Book) -> None:
            protocol.revert(txn, reason, **detail)
            self._splitting.withdraw_splinters(attempt, protocol)

        yield from self._kernel.step(revert)
        yield from self._undoing.tidy()
        yield from self._kernel.waits.until_finished(attempt, txn)

    def _stopped_midway(self, attempt: Attempt, txn: Txn, effect: Effect | None = None) -> SettlemarkError:
        if txn.state is State.ABORTED:
            return self._kernel.protocol.refusal(txn)
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
            transaction=attempt.name,
            released=released,
            failed=[e.key for e in effects if e.tag is not None],
        )

    def _release(self, attempt: Attempt, effect: Effect, *, last: bool) -> Program[None]:
        handler = effect.declaration.release
        run = effect.run
        if handler is not None:

            def run() -> Any:
                refuse_withheld(effect, "release")
                arguments = handler.bind(effect.for_handlers(), result=None, key=effect.key)
                return handler.function(**arguments)

        if effect.outcome is Outcome.QUEUED and effect.declaration.window is not None:
            effect.at = self._kernel.ledger.time()  # it may have waited long for this, its first sending
        try:
            current = current_of(attempt, effect)
            ours = partial(self._kernel.still_ours, attempt.live)

            def once() -> Program[Any]:
                again = attempt.on_failure == "retry" or effect.declaration.may_leave_again
                releasing = perform(
                    effect,
                    run,
                    current,
                    attempt.retries,
                    self._probing,
                    ours,
                    retry_failures=again,
                    final=True,
                    let_through=effect.controls,
                )
                if self._kernel.telling.observer is not None:
                    releasing = self._kernel.telling.observed(attempt, effect, "release", current, releasing)
                return releasing

            yield from self._kernel.asking_of_failures(
                attempt, effect, once, ours, held=True, let_through=effect.controls
            )
        finally:
            if effect.outcome is Outcome.CONFIRMED or (effect.executed and effect.sender is None):
                self._kernel.ledger.later(partial(_left, effect.calls))  # else it may be yet to come
            if attempt.live.id == DETACHED or not self._kernel.ledger.is_fresh():
                # A process that goes on with it waits for this: it is told before this act is no longer out.
                told = attempt.records.outcome(effect, self._kernel.clock())
                self._kernel.ledger.later(lambda _protocol, book: attempt.put(book, [told]))
        if not last:
            told = attempt.records.outcome(effect, self._kernel.clock())
            yield from self._kernel.step(lambda _protocol, book: attempt.put(book, [told]), durable=True)

    def _finish(self, attempt: Attempt, txn: Txn, untold: Iterable[Effect] = ()) -> Program[None]:
        """Note that nothing more will leave: it is committed, and recorded in one step with the outcomes untold."""
        if txn.finished:
            return
        at = self._kernel.clock()
        changes: list[Change] = [
            attempt.records.outcome(e, at) for e in attempt.in_order() if e.tag not in (None, Tag.CLEAN) or e in untold
        ]

        def finish(protocol: Protocol, book: Book) -> None:
            for effect in attempt.in_order():
                for call in effect.calls if effect.held else ():
                    protocol.drop_call(call)
            if txn.state is State.RELEASING:
                protocol.finish(txn)
            if attempt.written:
                attempt.put(book, [*unless_told(book, changes), attempt.state_change(at)])

        yield from self._kernel.queue_step(finish)
        self.leave(attempt, txn)

    def leave(self, attempt: Attempt, txn: Txn) -> None:
        with self._kernel.local:
            self._kernel.attempts.pop(txn, None)
        self._freshness.keep_plan(attempt, txn)
        self._kernel.telling.ended(attempt)
        self._residue.tell(attempt)
        attempt.records.forget_secrets()

    @staticmethod
    def to_leave(attempt: Attempt) -> list[Effect]:
        elsewhere = {e for splinter in attempt.splinters for e in (*splinter.effects, *splinter.behind)}
        return [e for e in attempt.leaving() if e.outcome not in _STAYS and e not in elsewhere]


def _has_left(attempt: Attempt) -> bool:
    return any(effect.held and effect.executed for effect in attempt.effects.copy().values())


def _left(calls: list[Call], protocol: Protocol, _book: Book) -> None:
    for call in calls:
        protocol.released(call)
