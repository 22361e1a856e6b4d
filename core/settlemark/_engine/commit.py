"""Settling a transaction: seal, wait until it may, decide, and record the decision."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Literal
from typing import Protocol as Port

from settlemark._acts.effect import Effect
from settlemark._acts.judged import Judged
from settlemark._acts.perform import NOBODY_KNOWS, Program
from settlemark._attempt.attempt import Attempt, Hook
from settlemark._edges.errors import (
    Denied,
    Halted,
    InDoubt,
    LedgerError,
    PartialCommit,
    Refused,
    StateError,
    WaitTimeout,
)
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.admission import give_back
from settlemark._engine.doubt import told_of
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._engine.orphans import Orphans
from settlemark._engine.release import Releases
from settlemark._engine.splitting import Splitting
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.wait import Deadline
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._owing.debts import fulfil, refuse_ended
from settlemark._policy.service import Asked
from settlemark._protocol.holdings import DETACHED, PLANNED, Blocked, Halt, Ticket, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted
from settlemark._protocol.states import Reason, State, Tag
from settlemark._report.stuck import MENDS
from settlemark.ledger._contract import Book, Change

First = Literal["later", "judge"]


class Regatekeeper(Port):
    """Who asks a person anew about a held effect before its transaction is sealed."""

    def ask_again(self, attempt: Attempt, txn: Txn, effect: Effect) -> Program[None]:
        """Return when a person has said yes, with the arguments as they are or with others.

        Raises:
            Rejected: the person said no. Stale: what was read has changed. UsageError: the answer cannot be read.
        """
        ...


@contextmanager
def settling(attempt: Attempt) -> Generator[None]:
    """Mark an attempt as being committed by this program, for as long as the block lasts."""
    attempt.settling += 1
    try:
        yield
    finally:
        attempt.settling -= 1


class Settling:
    """Commits transactions."""

    def __init__(
        self,
        kernel: Kernel,
        freshness: Freshness,
        splitting: Splitting,
        undoing: Undoing,
        orphans: Orphans,
        releases: Releases,
        gates: Regatekeeper,
    ) -> None:
        self._kernel = kernel
        self._freshness = freshness
        self._splitting = splitting
        self._undoing = undoing
        self._orphans = orphans
        self._releases = releases
        self._gates = gates

    def commit(self, attempt: Attempt, *, sealed: bool = False) -> Program[None]:
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
        try:
            with self._kernel.ledger.acts.under_way(), settling(attempt):
                yield from self._commit(attempt, txn, sealed=sealed)
        except Refused:
            away = attempt.turned_away
            if away is None or away.txn is not txn:
                raise
            yield from away.enter()
            yield from self.commit(attempt)

    def have_place(self, attempt: Attempt) -> Program[None]:
        """Return when an attempt has its place, or is what another has made of its name by then.

        Raises:
            Cancelled, Rewound, WaitTimeout: as one who enters it now is told.
        """
        txn = attempt.txn
        if txn is None or txn.id not in (PLANNED, DETACHED):
            return
        yield from self._kernel.look(lambda _protocol, _book: None)  # it comes behind what is queued, which is taken
        away = attempt.turned_away
        if away is not None and away.txn is txn:
            yield from away.enter()

    def _commit(self, attempt: Attempt, txn: Txn, *, sealed: bool) -> Program[None]:
        try:
            if not sealed:
                yield from self._orphans.take_back_orphans(attempt)
                yield from self._orphans.ask_about_kept(attempt)
            yield from self._decide(attempt, txn, sealed=sealed)
        except (StateError, GeneratorExit):
            raise  # committed, or being committed, by somebody else: nothing moves
        except Refused as error:
            yield from self._undoing.tidy()
            if txn.state in (State.OPEN, State.SEALED):
                yield from self._undoing.abort(attempt, Reason.FAILED, cause=str(error))
            yield from self._kernel.waits.until_finished(attempt, txn)
            raise
        except BaseException as error:
            cause = in_words(error)
            if txn.state in (State.OPEN, State.SEALED):
                yield from self._undoing.abort(attempt, Reason.FAILED, cause=cause)
            elif is_a(error, LedgerError) and not self._kernel.ledger.immediate:
                yield from self._find_out(attempt, txn, cause)
            elif txn.state is State.RELEASING:
                yield from self._releases.stop(attempt, txn, cause)  # not durable means not decided
            elif txn.state is State.COMMITTED:
                self._releases.leave(attempt, txn)  # an interrupt from the keyboard came behind the decision
            raise
        if attempt.splinters:
            self._splitting.adopt_splinters(attempt)
        if txn.finished:
            self._releases.leave(attempt, txn)
        else:
            yield from self._releases.release_all(attempt, txn)

    def _find_out(self, attempt: Attempt, txn: Txn, cause: str) -> Program[None]:
        """Carry out, or undo, a decision whose record is unknown, once the store can tell which it is."""
        attempt.handed_over = True

        def settle(protocol: Protocol, book: Book) -> None:
            protocol.abort(txn, Reason.FAILED, **attempt.records.cause({"cause": cause}))
            attempt.handed_over = txn.state in (State.RELEASING, State.COMMITTED)
            book.on_rollback(partial(setattr, attempt, "handed_over", True))
            self._kernel.call_maintenance()

        yield from self._kernel.queue_step(settle)
        yield from self._undoing.tidy()

    def _decide(self, attempt: Attempt, txn: Txn, *, sealed: bool) -> Program[None]:
        deadline = Deadline(attempt.wait)
        examined = unseen = False

        def decide(protocol: Protocol, book: Book) -> tuple[Blocked, Ticket] | First | Halted | None:
            halt = protocol.halted(txn)
            if halt is not None and txn.state in (State.OPEN, State.SEALED):
                return self._stopped(attempt, txn, protocol, halt)
            first = self._comes_first(attempt, txn, sealed=sealed)
            if first is not None:
                return first
            if not sealed:
                protocol.seal(txn, hooked=unseen)
                self.note_sealed(attempt, book)
            if unseen and not examined:
                protocol.refuse_stale(txn)
                self.refuse_unwanted(attempt, txn, protocol, book)
                blocked = protocol.waits_for(txn)
            else:
                self.refuse_unwanted(attempt, txn, protocol, book)
                if attempt.splinters:
                    blocked = self._splitting.decide_split(attempt, txn, protocol, book)
                else:
                    blocked = protocol.decide(txn, releasing=attempt.written and bool(self._releases.to_leave(attempt)))
                if blocked is None and attempt.written:
                    self.record_decision(attempt, txn, protocol, book)
            return None if blocked is None else (blocked, protocol.watch(blocked.holder, txn))

        while True:
            if not sealed:
                yield from self._kernel.waits.quiesce(attempt, txn)
            unseen = bool(self._to_ask(attempt) or self._freshness.live_reads(attempt))
            durable = attempt.written and (examined or not unseen)
            found = yield from self._kernel.step(decide, durable=durable, wait=attempt.wait)
            if isinstance(found, str):
                yield from self.look_again(attempt, sealed=txn.state is not State.OPEN)
                continue
            if isinstance(found, Halted):
                attempt.handed_over = found.parked  # last: another program may go on with it from here on
                raise found
            sealed = True
            if found is None:
                if examined or not unseen:
                    return
                yield from self._examine(attempt)
                examined = True
                continue
            blocked, ticket = found
            # The transaction it waits for may change what the hooks saw: they look again afterwards.
            examined = False
            self._kernel.callers.refuse_wait_within(attempt, blocked)
            try:
                yield from self._kernel.waits.wait_for(attempt, ticket, blocked, deadline, blocked.holder.name)
            except WaitTimeout:
                yield from self._undoing.abort(
                    attempt,
                    Reason.TIMEOUT,
                    waited=attempt.wait,
                    holder=blocked.holder.name,
                    scope=blocked.scope,
                )
                with self._kernel.local as protocol:
                    raise protocol.refusal(txn) from None

    def _comes_first(self, attempt: Attempt, txn: Txn, *, sealed: bool) -> First | None:
        """Return what has to be before it is decided: a call slipped in between, or another policy is in force."""
        if not sealed and txn.state is State.OPEN and attempt.in_flight():
            return "later"
        undecided = txn.state in (State.OPEN, State.SEALED)
        judging = self._kernel.judging
        return "judge" if undecided and judging.policy is not None and not judging.stands(attempt) else None

    def judge_again(self, attempt: Attempt, *, sealed: bool = False, later: bool = False) -> Program[list[Asked]]:
        """Have judged what is to leave and was judged by another policy; return what a person is to be asked about.

        Raises:
            Denied: the policy in force denies some of it; all is undone. UsageError: the policy's function failed.
        """
        try:
            return (yield from self._kernel.judging.judge_again(attempt, sealed=sealed, later=later))
        except Denied as error:
            yield from self._undoing.abort(attempt, Reason.FAILED, cause=str(error))
            raise

    def look_again(self, attempt: Attempt, *, sealed: bool) -> Program[None]:
        """Return when all that is to leave was judged by the policy in force, and a person was asked where that asks.

        Raises:
            Denied: the policy denies it. Rejected: a person does. Vetoed: nobody can be asked now. All is undone.
        """
        for effect, said in (yield from self.judge_again(attempt, sealed=sealed)):
            if sealed or attempt.approver is None:
                yield from self.refuse_unasked(attempt, effect, said)
            yield from self._gates.ask_again(attempt, attempt.live, effect)

    def refuse_unasked(self, attempt: Attempt, effect: Effect, said: Judged) -> Program[None]:
        """Abort a transaction of which the policy in force asks what nobody can be asked.

        Raises:
            Vetoed: always.
        """
        hook, tool = f"the policy {said.policy}, in force since,", effect.declaration.tool
        verdict = f"{tool} needs a person's yes by its rule {said.rule!r}, and nobody can be asked"
        yield from self._undoing.refuse(attempt, Reason.VETOED, hook=hook, verdict=verdict)

    def _stopped(self, attempt: Attempt, txn: Txn, protocol: Protocol, halt: Halt) -> Halted:
        """Put a halted transaction aside if it is sealed and whole, else have it undone; return what is told."""
        whole = txn.state is State.SEALED and not attempt.splinters
        if whole:
            protocol.put_aside(txn, self._kernel.ledger.worker)
        return halted(attempt.name, txn.epoch, halt, parked=whole)

    def refuse_unwanted(self, attempt: Attempt, txn: Txn, protocol: Protocol, book: Book) -> None:
        """Abort a transaction, and raise why, when what it was begun for is over: what was due, or was to be mended."""
        refuse_ended(attempt, txn, protocol, book, self._kernel.clock())
        if txn.name.startswith(MENDS):
            self._kernel.refuse_unwanted(txn, protocol, book)

    def record_decision(self, attempt: Attempt, txn: Txn, protocol: Protocol, book: Book) -> None:
        """Write the decision in the step that takes it; with nothing to let leave, it is finished in that step too."""
        unknown = self._unknown(attempt, book)
        attempt.decided_at = at = self._kernel.ledger.time()
        fulfilled = fulfil(attempt, protocol, book, at)
        book.on_rollback(partial(setattr, attempt, "decided_at", None))
        if txn.state is State.RELEASING and not self._releases.to_leave(attempt):
            protocol.finish(txn)
        attempt.put(book, [*unknown, *fulfilled, attempt.state_change(self._kernel.clock())])

    def note_sealed(self, attempt: Attempt, book: Book) -> None:
        """Note when a transaction is sealed, within the step that does it: what is written next of it says so."""
        attempt.sealed_at = self._kernel.ledger.time()
        book.on_rollback(partial(setattr, attempt, "sealed_at", None))

    @staticmethod
    def _to_ask(attempt: Attempt) -> tuple[Hook, ...]:
        return () if attempt.judged else attempt.hooks

    def _examine(self, attempt: Attempt) -> Program[None]:
        for hook in self._to_ask(attempt):
            name = getattr(hook, "__name__", repr(hook))
            # By position: what a hook calls its argument is its own affair.
            verdict = yield self._kernel.callers.asking(attempt.name, hook, Footprint(attempt))
            if verdict is False or isinstance(verdict, str):
                said = verdict if isinstance(verdict, str) else "it returned False"
                yield from self._undoing.refuse(attempt, Reason.VETOED, hook=name, verdict=said)
        # Last, because a hook may take its time.
        wrong = yield from self._freshness.verify(attempt, self._freshness.live_reads(attempt))
        if wrong is not None:
            yield from self._undoing.refuse(attempt, Reason.STALE, **wrong)

    def _unknown(self, attempt: Attempt, book: Book) -> list[Change]:
        """Tag what a commit would leave in doubt: nothing whose outcome nobody knows is swallowed."""
        found = [
            e
            for e in attempt.in_order()
            if e.outcome is Outcome.UNKNOWN and not e.held and e.tag in (None, Tag.UNRESOLVED)
        ]
        for effect in found:
            known = told_of(book, effect.key)
            if known is None:
                orphan = effect.disposition is Disposition.ORPHANED
                effect.tag, effect.disposed = Tag.UNRESOLVED, effect.disposed if orphan else NOBODY_KNOWS
            else:
                effect.outcome, effect.tag, effect.disposed = known.outcome, known.tag, known.disposed
        return [attempt.records.outcome(e, self._kernel.clock()) for e in found if e.outcome is Outcome.UNKNOWN]

    def split_at(self, attempt: Attempt, gates: list[Effect], behind: list[Effect]) -> Program[None]:
        """Commit, but for effects that wait for an answer, and those behind them, which are dropped.

        Raises: as `commit`; nothing was split off then.
        """
        yield from self._orphans.take_back_orphans(attempt)
        splinter = self._splitting.splinter_at(attempt, gates, behind)
        yield from self._kernel.step(partial(_give_back, gates))  # while it is open
        for gate in gates:
            gate.calls = []
        attempt.splinters = [splinter]
        yield from self.commit(attempt)


def _give_back(effects: Iterable[Effect], protocol: Protocol, _book: Book) -> None:
    for effect in effects:
        give_back(protocol, effect)


def _tell_again(attempt: Attempt) -> None:
    """Raise what a replayed transaction ended with: that nobody knows an outcome, or that a part of it is missing."""
    for recorded in attempt.recorded.values():
        if recorded.row.held and recorded.outcome is Outcome.UNKNOWN:
            raise InDoubt(
                f"the outcome of {recorded.row.tool} on {recorded.row.scope} ({recorded.row.key}) is unknown since"
                " it was first run: do not repeat it; see settlement.in_doubt()",
                key=recorded.row.key,
                tool=recorded.row.tool,
                scope=recorded.row.scope,
            )
    missing = [r.row.key for r in attempt.recorded.values() if r.tag is Tag.PARTIAL_COMMIT]
    if missing:
        raise PartialCommit(
            f"{attempt.name} is committed in part since it was first run: see settlement.residue() and mend by hand",
            transaction=attempt.name,
            failed=missing,
            released=[r.row.key for r in attempt.recorded.values() if r.row.held and r.outcome is Outcome.CONFIRMED],
        )


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
                "tool": effect.declaration.tool,
                "class": effect.declaration.kind.value,
                "scope": effect.scope_text,
                "arguments": effect.shown(),
                "result": json_text.recorded_result(effect.result),
                "held": effect.held,
            }
            for effect in attempt.in_order()
            if effect.outcome not in (Outcome.DROPPED, Outcome.UNDONE)
        ]
