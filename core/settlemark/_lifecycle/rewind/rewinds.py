"""Rewind: undoing committed transactions on request, all in one transaction, newest first.

That transaction (`trip/rewind/17`) works as a mend does: it claims every scope, holds the effects as if they had just
acted, and aborts. One step decides: it checks what others have built meanwhile, records what is to be undone and what
stays, and has every name refused from then on. So a crash leaves either nothing of it, or all of it for recovery to
continue, and each undo is recorded before the next begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Literal

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import afresh, revive
from settlemark._edges.errors import DeclarationError, WaitTimeout, Wounded
from settlemark._edges.wording import in_words
from settlemark._engine.admission import returned
from settlemark._engine.doubt import Residue
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.wait import Deadline
from settlemark._lifecycle.recovery import Recovery
from settlemark._lifecycle.resolution import REWIND, Resolution
from settlemark._lifecycle.rewind.plan import Rewind, Sorted, Touched
from settlemark._lifecycle.rewind.survey import Look, Request, Survey, refuse_foreign
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._observe.events import Recovered
from settlemark._observe.logs import about
from settlemark._protocol.holdings import Blocked, Call, Mode, Ticket, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted
from settlemark._protocol.states import Reason, State, Tag
from settlemark._report.verdicts import Word, is_rewound
from settlemark.ledger._contract import (
    Book,
    Change,
    OutcomeChange,
    RecordedEffect,
    RecordedTransaction,
    StateChange,
    TransactionRow,
)

TRIES = 20
"""How often a rewind that loses races is tried."""


class Rewinds:
    """Rewinds transactions on request."""

    def __init__(
        self, kernel: Kernel, residue: Residue, undoing: Undoing, recovery: Recovery, resolution: Resolution
    ) -> None:
        self._kernel = kernel
        self._residue = residue
        self._undoing = undoing
        self._recovery = recovery
        self._resolution = resolution
        self._survey = Survey(kernel, resolution)

    def rewind(self, request: Request, *, dry_run: bool, wait: float) -> Program[Rewind]:
        """Undo transactions' effects, newest first, and return a `Rewind`; with `dry_run` only the plan.

        Unfinished ones are aborted first. From then on all their names are refused.

        Raises:
            UsageError: one of them was never begun, or a key of `overwrite` is none of theirs.
            DeclarationError: the undo of an effect is unknown here; nothing moved.
            WaitTimeout: another holds a scope, or a call of theirs has not returned; nothing committed moved.
            Halted: one of them is put aside midway, by a halt; nothing committed moved.
        """
        look: Look = yield from self._kernel.step(partial(self._survey.over, request))
        refuse_foreign(request, look)
        if dry_run:
            return look.rewind(request, done=False)
        if look.undeclared:
            raise DeclarationError(
                f"the undo of {', '.join(look.undeclared)} is not known in this process: nothing was undone; import or"
                " declare it, then rewind again",
                tool=look.undeclared[0],
            )
        # An abort without effects leaves no record, but its name is to be refused all the same.
        barred = dict(request.barred) if look.live or look.sorted.undo else {}
        request = replace(request, barred=barred | {txn.name: txn.run for txn in look.live})
        yield from self._end_unfinished(request, wait)
        for again in range(TRIES - 1, -1, -1):
            try:
                decided: Look | None = yield from self._undo_all(request, wait)
            except Wounded:
                if not again:
                    raise
                continue
            if decided is not None:
                return (yield from self._report(request, look, decided))
            yield from self._end_unfinished(request, wait)
        raise WaitTimeout(
            f"others entered what is to be undone again and again: it was not undone in {TRIES} tries; stop the"
            " programs that enter it, then rewind again",
            transaction=request.names[0],
            holder=request.names[0],
            waited=wait,
        )

    def word(self, by: str, note: str) -> Word:
        """Return who says so, when and why."""
        return Word(True, by, self._kernel.clock(), note)

    def of_run(self, run: str) -> Program[tuple[list[RecordedTransaction], list[str]]]:
        """Return the record of a run, and the names of its unfinished transactions."""

        def look(protocol: Protocol, book: Book) -> tuple[list[RecordedTransaction], list[str]]:
            return book.of_run(run), [txn.name for txn in protocol.live.values() if txn.run == run]

        return (yield from self._kernel.step(look))

    # ---- unfinished transactions

    def _end_unfinished(self, request: Request, wait: float) -> Program[None]:
        """Abort unfinished transactions, and return when all are undone, or have committed after all."""
        deadline = self._kernel.monotonic() + wait

        def doom(protocol: Protocol, book: Book) -> list[Txn]:
            found = self._survey.over(request, protocol, book).live
            for txn in found:
                protocol.drop_retry(txn)
                protocol.abort(txn, Reason.REWOUND, cause=str(request.word))
            return found

        for _ in range(TRIES):
            found: list[Txn] = yield from self._kernel.step(doom)
            if not found:
                return
            yield from self._undoing.tidy()
            report: Recovered = yield from self._recovery.take_up()
            stuck = next((txn.name for txn in found if txn.name in report.stuck), None)
            if stuck is not None:
                missing = report.stuck[stuck]
                raise DeclarationError(
                    f"{stuck} has not ended, and nothing called {', '.join(missing)} is declared in this process:"
                    " nothing that had committed was undone; import or declare it, or give encrypt= the key if its"
                    " record cannot be read here, then rewind again",
                    tool=missing[0],
                )
            for txn in found:
                yield from self._until_ended(txn, deadline, wait)

    def _until_ended(self, txn: Txn, deadline: float, wait: float) -> Program[None]:
        deadline = min(deadline, self._kernel.monotonic() + self._kernel.callers.time_for(txn, wait))
        while not txn.finished:
            with self._kernel.local as protocol:
                halt = protocol.halted(txn) if txn.parked and protocol.stays(txn) else None
                ticket = protocol.watch(txn)
            if halt is not None:  # it does not end before that is lifted
                raise halted(txn.name, txn.epoch, halt, parked=True)
            seconds = deadline - self._kernel.monotonic()
            if not (yield from self._kernel.waits.listen(Wait(ticket, seconds, txn.name, "its own"))):
                raise WaitTimeout(
                    f"{txn.name} is {txn.state}, and a call of it has not returned: nothing that had committed was"
                    " undone; rewind again when it has, or raise wait=",
                    transaction=txn.name,
                    epoch=txn.epoch,
                    holder=txn.name,
                    waited=wait,
                )

    # ---- committed transactions

    def _undo_all(self, request: Request, wait: float) -> Program[Look | None]:
        """Undo what has committed, and return what was decided; None when others have entered it again."""
        look: Look = yield from self._kernel.step(partial(self._survey.over, request))
        if look.live:
            return None
        if not look.sorted.undo:
            return (yield from self._kernel.step(partial(self._bar, request), durable=True))
        attempt: Attempt = yield from self._kernel.step(partial(self._enter, look, wait))
        mirrors = {touched.key: self._mirror(attempt, touched) for touched in reversed(look.sorted.undo)}
        calls = {
            key: [Call(attempt.live, scope, Mode.EAGER, mirror.position) for scope in mirror.scopes]
            for key, mirror in mirrors.items()
        }
        self._kernel.telling.began(attempt)
        try:
            decided: Look | None = yield from self._claim_and_decide(request, attempt, mirrors, calls)
        except GeneratorExit:
            raise
        except BaseException as error:
            yield from self._give_up(attempt, calls, in_words(error))
            raise
        if decided is None:
            yield from self._give_up(attempt, calls, "what is to be undone has changed")
            return None
        yield from self._undoing.tidy()
        yield from self._kernel.waits.until_finished(attempt, attempt.live)
        return decided

    def _enter(self, look: Look, wait: float, protocol: Protocol, book: Book) -> Attempt:
        oldest = look.sorted.undo[-1].recorded.row
        name = f"{oldest.run}{REWIND}{protocol.next_epoch}"
        txn = protocol.begin(name, name, owner=self._kernel.ledger.worker, mends=True)
        attempt = Attempt(
            txn,
            name,
            name,
            1,
            prefix=self._kernel.prefix,
            payloads=self._kernel.ledger.payloads,
            wait=wait,
            hooks=(),
            on_failure="abort",
            retries=self._kernel.retries,
        )
        self._kernel.seat(book, txn, attempt)
        return attempt

    def _mirror(self, attempt: Attempt, touched: Touched) -> Effect:
        """Return the effect as the undoing transaction holds it: as if it had acted there."""
        effect = touched.effect
        mirror = revive(afresh(effect), self._kernel.declaration(effect.row.tool, effect.row.version))
        mirror.held = False
        mirror.call_id = effect.row.key
        attempt.place(mirror)
        mirror.key = attempt.key(mirror.path, None)
        attempt.records.prepare(mirror)
        return mirror

    def _claim_and_decide(
        self, request: Request, attempt: Attempt, mirrors: dict[str, Effect], calls: dict[str, list[Call]]
    ) -> Program[Look | None]:
        """Claim every scope and, in the step that claims the last, decide; None when there is other work to undo."""
        txn = attempt.live
        deadline = Deadline(attempt.wait)

        def decide(protocol: Protocol, book: Book) -> tuple[Blocked, Ticket] | Look | Literal["other"]:
            for call in (call for found in calls.values() for call in found):
                blocked = None if call.admitted else protocol.admit(call)
                if blocked is not None:
                    return blocked, protocol.watch(blocked.holder, txn)
            if txn.state is not State.OPEN:
                raise protocol.refusal(txn)
            look = self._survey.over(request, protocol, book)
            chosen = {touched.key for touched in look.sorted.undo}
            if look.live or not chosen <= mirrors.keys():
                return "other"
            for key in mirrors:
                returned(protocol, calls[key], happened=key in chosen)
            self._record(request, look, protocol, book)
            book.on_rollback(attempt.effects.clear)
            book.on_rollback(partial(setattr, attempt, "written", False))
            for key in chosen:
                mirrors[key].calls = calls[key]
            for key, mirror in mirrors.items():
                if key in chosen:
                    attempt.add(mirror)
                    at, sent = self._kernel.clock(), self._kernel.ledger.time()
                    attempt.put(book, attempt.intent(mirror, owner=self._kernel.ledger.worker, at=at, sent=sent))
                    attempt.written = True
            protocol.abort(txn, Reason.REWOUND, cause=str(request.word))
            if attempt.written:
                attempt.put(book, [attempt.state_change(self._kernel.clock())])
            return look

        while True:
            found = yield from self._kernel.step(decide, durable=True)
            yield from self._undoing.tidy()
            if found == "other":
                return None
            if isinstance(found, Look):
                return found
            blocked, ticket = found
            yield from self._kernel.waits.wait_for(attempt, ticket, blocked, deadline, blocked.holder.name)

    def _give_up(self, attempt: Attempt, calls: dict[str, list[Call]], cause: str) -> Program[None]:
        """End an undoing transaction that is no longer wanted, with nothing undone."""

        def give_up(protocol: Protocol, _book: Book) -> None:
            for call in (call for found in calls.values() for call in found):
                if call.admitted:
                    returned(protocol, [call], happened=False)
                else:
                    protocol.withdraw(call)

        self._kernel.ledger.later(give_up)
        yield from self._undoing.abort(attempt, Reason.FAILED, cause=cause)

    # ---- the record

    def _bar(self, request: Request, protocol: Protocol, book: Book) -> Look | None:
        look = self._survey.over(request, protocol, book)
        if look.live or look.sorted.undo:
            return None
        self._record(request, look, protocol, book)
        return look

    def _record(self, request: Request, look: Look, protocol: Protocol, book: Book) -> None:
        """Record what is to be undone and what stays, and have every name refused from now on."""
        at = self._kernel.clock()
        todo = Disposed(Disposition.TO_REWIND, f"({request.word})")
        changes: list[Change] = [_outcome(touched, Tag.UNRESOLVED, todo, at) for touched in look.sorted.undo]
        conflicts = {touched.key for touched in look.sorted.conflicts}
        for touched in (*look.sorted.residue, *look.sorted.conflicts):
            if touched.effect.tag in (None, Tag.CLEAN):  # else the residue names it, and why
                tag = Tag.LEAKED if touched.effect.row.held else Tag.UNRESOLVED
                note = f"it stays, although it was to be undone on request: {touched.why} ({request.word})"
                stuck = Disposition.MOVED_ON if touched.key in conflicts else Disposition.NO_UNDO
                changes.append(_outcome(touched, tag, Disposed(stuck, note), at))
        cause = str(request.word)
        for attempts in look.attempts.values():
            last = max(attempts, key=lambda recorded: recorded.row.attempt)
            if not is_rewound(last):
                row = last.row
                ended = last.settled_at or at
                if last.state is State.COMMITTED:
                    protocol.retract(row.name, row.attempt)
                changes.append(
                    StateChange(row.name, row.attempt, last.state, last.epoch, Reason.REWOUND, ended, cause=cause)
                )
        barred = {name: run for name, run in request.barred.items() if name not in look.attempts}
        for name, run in barred.items():
            if protocol.named.get(name) is None and book.load(name) is None:
                epoch = protocol.next_epoch - 1
                changes.append(TransactionRow(name, 1, run, State.ABORTED, epoch, "", self._kernel.ledger.worker, at))
                changes.append(StateChange(name, 1, State.ABORTED, epoch, Reason.REWOUND, at, cause=cause))
        book.write(changes)

    def _tell_what_stays(self, stays: Iterable[Touched]) -> None:
        names: dict[str, None] = {}
        for touched in stays:
            row = touched.effect.row
            names[row.name] = None
            told = about(transaction=row.name, attempt=row.attempt, tool=row.tool, scope=row.scope, key=row.key)
            log.warning("%s was undone on request, and %s on %s stays", row.name, row.tool, row.scope, extra=told)
        for name in names:
            self._residue.tell_listener(name)

    def _report(self, request: Request, before: Look, decided: Look) -> Program[Rewind]:
        """Return what has happened, from the record."""
        aborted = [touched for touched in before.sorted.undo if not touched.finished]
        later = {touched.key for touched in decided.sorted.undo}
        planned = [*(touched for touched in aborted if touched.key not in later), *decided.sorted.undo]

        def look(_protocol: Protocol, book: Book) -> list[Touched]:
            return [touched.now(_as_recorded(book, touched)) for touched in planned]

        found: list[Touched] = yield from self._kernel.step(look)
        self._tell_what_stays((*decided.sorted.residue, *decided.sorted.conflicts))
        done = Sorted(
            [touched for touched in found if touched.effect.outcome not in (Outcome.CONFIRMED, Outcome.UNKNOWN)],
            [*decided.sorted.residue, *(touched for touched in found if touched.effect.tag not in (None, Tag.CLEAN))],
            decided.sorted.conflicts,
        )
        return replace(
            Look(before.attempts | decided.attempts, [], done, []).rewind(request, done=True),
            unfinished=tuple(txn.name for txn in before.live),
        )


def _outcome(touched: Touched, tag: Tag, disposed: Disposed, at: float) -> OutcomeChange:
    effect = touched.effect
    return OutcomeChange.of(
        effect.row.key, effect.outcome, effect.result, effect.error, tag, disposed, at, effect.row.tool
    )


def _as_recorded(book: Book, touched: Touched) -> RecordedEffect:
    recorded = book.find(touched.key)
    found = () if recorded is None else recorded.effects
    return next((effect for effect in found if effect.row.key == touched.key), touched.effect)


__all__ = ["Request", "Rewinds"]
