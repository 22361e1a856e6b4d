"""Settling a transaction: seal, wait, decide, record the decision, and let what was held leave in order."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Literal

from settlemark._acts.effect import Effect
from settlemark._acts.failure import Skipped
from settlemark._acts.perform import Program, in_doubt, perform, refuse_withheld
from settlemark._edges.errors import (
    InDoubt,
    LedgerError,
    PartialCommit,
    Refused,
    SettlemarkError,
    StateError,
    WaitTimeout,
)
from settlemark._edges.wording import in_words, is_a, message_of
from settlemark._engine.attempt import Attempt, Hook
from settlemark._engine.kernel import Deadline, log, scope_of
from settlemark._engine.orphans import Orphaning
from settlemark._engine.probe import unless_told
from settlemark._engine.splitting import Splitting
from settlemark._model import json_text
from settlemark._model.disposition import Disposed
from settlemark._model.effect_class import UNKNOWN, Outcome
from settlemark._observe.logs import about_txn, quote_of
from settlemark._protocol.holdings import DETACHED, Blocked, Call, Ticket, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import Book, Change

_OVER = (Outcome.CONFIRMED, Outcome.DROPPED)
_STAYS = (*_OVER, Outcome.SUSPENDED)  # a question that nobody came back to is no approval


@contextmanager
def settling(attempt: Attempt) -> Generator[None]:
    """Have it that a program is at the commit of an attempt, for as long as that goes on."""
    attempt.settling += 1
    try:
        yield
    finally:
        attempt.settling -= 1


class Settling(Orphaning, Splitting):
    """The part of a driver that commits."""

    def commit(self, attempt: Attempt, *, sealed: bool = False) -> Program:
        """Seal, unless it is `sealed`, wait until it may, decide, and let the held effects leave, in their order.

        Raises:
            Refused: it was undone instead. PartialCommit: a release failed behind another.
            InDoubt: nobody can tell whether a release happened. StateError: it was sealed before.
            LedgerError: the store failed; what is decided goes on by itself when it works again, else it is undone.
        """
        txn = attempt.live if attempt.replay is None else None
        if txn is None:
            _tell_again(attempt)
            return
        with self.ledger.acts.under_way(), settling(attempt):
            yield from self._commit(attempt, txn, sealed=sealed)

    def _commit(self, attempt: Attempt, txn: Txn, *, sealed: bool) -> Program:
        try:
            if not sealed:
                yield from self.take_back_orphans(attempt)
            yield from self._decide(attempt, txn, sealed=sealed)
        except (StateError, GeneratorExit):
            raise  # committed, or being committed, by somebody else: nothing moves
        except Refused as error:
            yield from self._tidy()
            if txn.state in (State.OPEN, State.SEALED):
                yield from self.abort(attempt, Reason.FAILED, cause=str(error))
            yield from self._until_finished(attempt, txn)
            raise
        except BaseException as error:
            cause = in_words(error)
            if txn.state in (State.OPEN, State.SEALED):
                yield from self.abort(attempt, Reason.FAILED, cause=cause)
            elif is_a(error, LedgerError) and not self.ledger.immediate:
                yield from self._find_out(attempt, txn, cause)
            elif txn.state is State.RELEASING:
                yield from self._stop(attempt, txn, cause)  # not durable means not decided
            elif txn.state is State.COMMITTED:
                self._leave(attempt, txn)  # an interrupt from the keyboard came behind the decision
            raise
        if attempt.splinters:
            self._adopt_splinters(attempt)
        if txn.finished:
            self._leave(attempt, txn)
        else:
            yield from self._release_all(attempt, txn)

    def _find_out(self, attempt: Attempt, txn: Txn, cause: str) -> Program:
        """Have a decision whose record nobody knows of carried out, or undone, when the store can tell which it is."""
        attempt.adrift = True

        def settle(protocol: Protocol, book: Book) -> None:
            protocol.abort(txn, Reason.FAILED, **attempt.cause({"cause": cause}))
            attempt.adrift = txn.state in (State.RELEASING, State.COMMITTED)
            book.otherwise(partial(setattr, attempt, "adrift", True))
            self._call_tender()

        yield from self._surely(settle)
        yield from self._tidy()

    def _quiesce(self, attempt: Attempt, txn: Txn) -> Program:
        """Wait for the calls still in flight: a seal promises that nothing is added after it."""
        if not attempt.in_flight():
            return
        deadline = Deadline(attempt.wait)
        while True:
            with self.local as protocol:
                ticket = protocol.watch(txn)
                if not attempt.in_flight():
                    protocol.unwatch(ticket, txn)
                    return
                blocked = Blocked(txn, next((hold.scope for hold in txn.holds.values()), scope_of(attempt.run)))
                out = frozenset(attempt.entering), txn.running, txn.reading
            holder = "a call of its own that has not returned,"
            yield from self._await(attempt, ticket, blocked, deadline, holder, whom=out)

    def _decide(self, attempt: Attempt, txn: Txn, *, sealed: bool) -> Program:
        deadline = Deadline(attempt.wait)
        examined = unseen = False

        def decide(protocol: Protocol, book: Book) -> tuple[Blocked, Ticket] | Literal["later"] | None:
            if not sealed and txn.state is State.OPEN and attempt.in_flight():
                return "later"  # a call slipped in between
            if not sealed:
                protocol.seal(txn, hooked=unseen)
                self._note_sealed(attempt, book)
            if unseen and not examined:
                blocked = protocol.waits_for(txn)
            else:
                if attempt.splinters:
                    blocked = self._decide_split(attempt, txn, protocol, book)
                else:
                    blocked = protocol.decide(txn, lasting=attempt.written)
                if blocked is None and attempt.written:
                    self._record_decision(attempt, txn, protocol, book)
            return None if blocked is None else (blocked, protocol.watch(blocked.holder, txn))

        while True:
            if not sealed:
                yield from self._quiesce(attempt, txn)
            unseen = bool(self._to_ask(attempt) or self._live_reads(attempt))
            lasting = attempt.written and (examined or not unseen)
            found = yield from self._step(decide, durable=lasting, wait=attempt.wait)
            if found == "later":
                continue
            sealed = True
            if found is None:
                if examined or not unseen:
                    return
                yield from self._examine(attempt)
                examined = True
                continue
            blocked, ticket = found
            # Whoever it waits for may change what the hooks saw: they look again afterwards.
            examined = False
            self._refuse_wait_within(attempt, blocked)
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
                with self.local as protocol:
                    raise protocol.refusal(txn) from None

    def _record_decision(self, attempt: Attempt, txn: Txn, protocol: Protocol, book: Book) -> None:
        """Write the decision in the step that takes it; with nothing to let leave, it is finished in that step too."""
        unknown = self._unknown(attempt, book)
        attempt.decided_at = self.ledger.time()
        book.otherwise(partial(setattr, attempt, "decided_at", None))
        attempt.put(book, [*unknown, attempt.state_change(self._clock())])
        if not self._to_leave(attempt):
            protocol.finish(txn)
            attempt.put(book, [attempt.state_change(self._clock())])

    def _note_sealed(self, attempt: Attempt, book: Book) -> None:
        """Note when a transaction is sealed, within the step that does it: what is written next of it says so."""
        attempt.sealed_at = self.ledger.time()
        book.otherwise(partial(setattr, attempt, "sealed_at", None))

    @staticmethod
    def _to_leave(attempt: Attempt) -> list[Effect]:
        elsewhere = {e for splinter in attempt.splinters for e in (*splinter.effects, *splinter.behind)}
        return [e for e in attempt.leaving() if e.outcome not in _STAYS and e not in elsewhere]

    @staticmethod
    def _to_ask(attempt: Attempt) -> tuple[Hook, ...]:
        return () if attempt.judged else attempt.hooks

    def _examine(self, attempt: Attempt) -> Program:
        for hook in self._to_ask(attempt):
            name = getattr(hook, "__name__", repr(hook))
            # By position: what a hook calls its argument is its own affair.
            verdict = yield self.asking(attempt.name, hook, Footprint(attempt))
            if verdict is False or isinstance(verdict, str):
                said = verdict if isinstance(verdict, str) else "it returned False"
                yield from self.refuse(attempt, Reason.VETOED, hook=name, verdict=said)
        # Last, because a hook may take its time.
        wrong = yield from self._verify(attempt, self._live_reads(attempt))
        if wrong is not None:
            yield from self.refuse(attempt, Reason.STALE, **wrong)

    def _release_all(self, attempt: Attempt, txn: Txn) -> Program:
        """Let what was held leave, now that the decision is durable; whatever happens, it is finished or undone.

        While the store fails it stays releasing, and goes on when the store works again.
        """
        try:
            yield from self._let_leave(attempt, txn)
        except GeneratorExit:
            raise
        except BaseException as error:
            if txn.id == DETACHED:
                yield from self._until_concluded(attempt, txn)
            elif attempt.adrift:
                log.info("%s: %s", attempt.name, quote_of(error), extra=about_txn(txn, state=txn.state.value))
            elif txn.state is State.RELEASING and txn in self._attempts:  # else its end is queued
                if isinstance(error, LedgerError):
                    raise self._put_off(attempt, error) from error
                yield from self._stop(attempt, txn, in_words(error))
            raise

    def _put_off(self, attempt: Attempt, error: LedgerError) -> LedgerError:
        """Have a release that the store's failure has stopped gone on with when the store works again."""
        held = [effect for effect in attempt.in_order() if effect.held]
        left = [effect for effect in held if effect.outcome is Outcome.CONFIRMED]
        told: list[Change] = []
        with suppress(LedgerError):  # what cannot be recorded is known here
            told = [attempt.outcome(e, self._clock()) for e in held if e.outcome in _OVER]

        def tell(_protocol: Protocol, book: Book) -> None:
            attempt.put(book, told)
            self._call_tender()

        attempt.adrift = True
        self.ledger.later(tell)
        return LedgerError(
            f"{attempt.name} is decided, and {len(left)} of its {len(held)} held effects have left; the rest follows by"
            f" itself when the store works again, so repeat nothing: {error}",
            **error.data | {"transaction": attempt.name},
        )

    def _let_leave(self, attempt: Attempt, txn: Txn) -> Program:
        held = self._to_leave(attempt)
        for number, effect in enumerate(held):
            if attempt.run in self._protocol.fenced:
                yield from self._wait_for_sender(attempt, effect, in_doubt(effect))
                yield from self._stop(attempt, txn, "the run was cancelled", Reason.CANCELLED)
                raise self._stopped_midway(attempt, txn)
            try:
                # What has left is on disk before the next leaves: a crash leaves one in doubt, not many.
                with self._acting(attempt):
                    yield from self._let_one_leave(attempt, txn, effect, last=number == len(held) - 1)
            except GeneratorExit:
                raise
            except Skipped:
                yield from self._leave_out(attempt, effect)
        yield from self._finish(attempt, txn, held[-1:])
        if txn.id == DETACHED:
            raise self._protocol.refusal(txn)

    def _let_one_leave(self, attempt: Attempt, txn: Txn, effect: Effect, *, last: bool) -> Program:
        if not _has_left(attempt):
            wrong = yield from self._verify(attempt, self._live_reads(attempt))
            if wrong is not None:
                yield from self._revert(attempt, txn, Reason.STALE, wrong)
                raise self._protocol.refusal(txn)
        yield from self._still_ours(txn)  # last: what is read anew may take its time
        try:
            yield from self._release(attempt, effect, last=last)
        except (GeneratorExit, Skipped):
            raise
        except BaseException as error:
            if effect.outcome is Outcome.CONFIRMED or txn.id == DETACHED:
                raise  # it has left, and that could not be recorded; or another goes on with it
            if is_a(error, LedgerError) and not self.ledger.is_fresh():
                raise  # whether it may be tried again is not known before the store works
            yield from self._wait_for_sender(attempt, effect, error)
            yield from self._refused(attempt, txn, effect, error)

    def _wait_for_sender(self, attempt: Attempt, effect: Effect, error: BaseException) -> Program:
        """Return, unless somebody may still be sending an effect of which nobody knows what became of it.

        Raises:
            InDoubt: so it is (`error`); its transaction keeps what it holds, and is gone on with when that is known.
        """
        if effect.outcome is not Outcome.UNKNOWN:
            return
        silent, told = yield from self._of_sender(effect)
        if silent or told is not UNKNOWN:
            attempt.adrift = True
            raise error

    def _leave_out(self, attempt: Attempt, effect: Effect) -> Program:
        """Go on without a held effect that failed: it never leaves."""
        effect.outcome, effect.tag = Outcome.DROPPED, Tag.CLEAN
        told = attempt.outcome(effect, self._clock())

        def leave_out(protocol: Protocol, book: Book) -> None:
            for call in effect.calls:
                protocol.unhold(call)
            attempt.put(book, [told])

        yield from self._step(leave_out)

    def _refused(self, attempt: Attempt, txn: Txn, effect: Effect, error: BaseException) -> Program:
        """End what one release has stopped: undo it all when nothing has left, else name what stays."""
        tool = effect.declaration.tool
        if effect.outcome is Outcome.UNKNOWN:
            self.ledger.later(partial(_left, effect.calls))
            effect.tag = Tag.UNRESOLVED
            effect.disposed = Disposed(note="nobody can tell whether it left: ask the counterparty")
        elif _has_left(attempt):
            effect.tag = Tag.PARTIAL_COMMIT
            effect.disposed = Disposed(note=f"failed for good after another had left: {effect.error}")
        yield from self._stop(attempt, txn, f"{tool}: {message_of(error)}", because=f"{tool}, before it, failed")
        if not is_a(error, Exception):
            raise error
        behind = [e for e in attempt.in_order() if e.tag is Tag.PARTIAL_COMMIT and e is not effect]
        if is_a(error, InDoubt) and not behind:
            raise error
        raise self._stopped_midway(attempt, txn, effect) from error

    def _stop(
        self, attempt: Attempt, txn: Txn, cause: str, reason: Reason = Reason.REFUSED, *, because: str | None = None
    ) -> Program:
        """Stop a release midway: undo everything when nothing has left, else drop the rest and name it."""
        if not _has_left(attempt):
            yield from self._revert(attempt, txn, reason, attempt.cause({"cause": cause}))
            return
        held = [e for e in attempt.in_order() if e.held]
        for effect in held:
            if effect.outcome is Outcome.QUEUED:
                effect.outcome, effect.tag = Outcome.DROPPED, Tag.PARTIAL_COMMIT
                effect.disposed = Disposed(note=f"not run: {because or cause}")
        # All of them: what has left may be what could not be recorded.
        yield from self._finish(attempt, txn, held)

    def _revert(self, attempt: Attempt, txn: Txn, reason: Reason, detail: dict[str, Any]) -> Program:
        """Take back a decision of which nothing has left yet, and undo everything."""
        yield from self._step(lambda protocol, _book: protocol.revert(txn, reason, **detail))
        yield from self._withdraw_splinters(attempt)
        yield from self._tidy()
        yield from self._until_finished(attempt, txn)

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

    def _release(self, attempt: Attempt, effect: Effect, *, last: bool) -> Program:
        handler = effect.declaration.release
        run = effect.run
        if handler is not None:

            def run() -> Any:
                refuse_withheld(effect, "release")
                arguments = handler.bind(effect.for_handlers(), result=None, key=effect.key)
                return handler.function(**arguments)

        if effect.outcome is Outcome.QUEUED and effect.declaration.window is not None:
            effect.at = self.ledger.time()  # it may have waited long for this, its first sending
        try:
            current = attempt.current(effect)
            ours = partial(self._still_ours, attempt.live)

            def once() -> Program:
                again = attempt.on_failure == "retry" or effect.declaration.may_leave_again
                releasing = perform(effect, run, current, attempt.retries, self, ours, retry_failures=again, final=True)
                if self.observer is not None:
                    releasing = self._observed(attempt, effect, "release", current, releasing)
                return releasing

            yield from self.asking_of_failures(attempt, effect, once, ours, held=True)
        finally:
            if effect.outcome is Outcome.CONFIRMED or (effect.executed and effect.sender is None):
                self.ledger.later(partial(_left, effect.calls))  # else it may be yet to come
            if attempt.live.id == DETACHED or not self.ledger.is_fresh():
                # Whoever goes on with it waits for this: it is told before this act is no longer out.
                told = attempt.outcome(effect, self._clock())
                self.ledger.later(lambda _protocol, book: attempt.put(book, [told]))
        if not last:
            told = attempt.outcome(effect, self._clock())
            yield from self._step(lambda _protocol, book: attempt.put(book, [told]), durable=True)

    def _finish(self, attempt: Attempt, txn: Txn, untold: Iterable[Effect] = ()) -> Program:
        """Note that nothing more will leave: it is committed, and recorded in one step with the outcomes untold."""
        if txn.finished:
            return
        at = self._clock()
        changes: list[Change] = [
            attempt.outcome(e, at) for e in attempt.in_order() if e.tag not in (None, Tag.CLEAN) or e in untold
        ]

        def finish(protocol: Protocol, book: Book) -> None:
            for effect in attempt.in_order():
                for call in effect.calls if effect.held else ():
                    protocol.unhold(call)
            if txn.state is State.RELEASING:
                protocol.finish(txn)
            if attempt.written:
                attempt.put(book, [*unless_told(book, changes), attempt.state_change(at)])

        yield from self._surely(finish)
        self._leave(attempt, txn)

    def _leave(self, attempt: Attempt, txn: Txn) -> None:
        with self.local:
            self._attempts.pop(txn, None)
        self._keep_plan(attempt, txn)
        self._tell_ended(attempt)
        self._tell_residue(attempt)
        attempt.forget_secrets()


def _tell_again(attempt: Attempt) -> None:
    """Raise what a replayed transaction ended with: that nobody knows an outcome, or that a part of it is missing."""
    for recorded in attempt.recorded.values():
        if recorded.row.held and recorded.outcome is Outcome.UNKNOWN:
            raise InDoubt(
                f"the outcome of {recorded.row.tool} on {recorded.row.scope} ({recorded.row.key}) is unknown since"
                " it was first run: do not repeat it; see settlement.in_doubt()",
                key=recorded.row.key, tool=recorded.row.tool, scope=recorded.row.scope,
            )  # fmt: skip
    missing = [r.row.key for r in attempt.recorded.values() if r.tag is Tag.PARTIAL_COMMIT]
    if missing:
        raise PartialCommit(
            f"{attempt.name} is committed in part since it was first run: see settlement.residue() and mend by hand",
            transaction=attempt.name, failed=missing,
            released=[r.row.key for r in attempt.recorded.values() if r.row.held and r.outcome is Outcome.CONFIRMED],
        )  # fmt: skip


def _has_left(attempt: Attempt) -> bool:
    return any(effect.held and effect.executed for effect in attempt.effects.values())


def _left(calls: list[Call], protocol: Protocol, _book: Book) -> None:
    for call in calls:
        protocol.released(call)


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
                "arguments": effect.shown(), "result": json_text.recorded_result(effect.result), "held": effect.held,
            }
            for effect in attempt.in_order()
            if effect.outcome not in (Outcome.DROPPED, Outcome.UNDONE)
        ]  # fmt: skip
