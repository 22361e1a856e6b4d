"""Carrying a plan out: a person's yes, where it needs one; then a transaction of its own; then the proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from settlemark._acts.current import CurrentCall
from settlemark._acts.perform import Program
from settlemark._acts.requests import Sleep
from settlemark._attempt.revival import afresh, revive
from settlemark._edges.errors import Halted, LedgerError, Refused, SettlemarkError, UsageError, WaitTimeout
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.doubt import Probing
from settlemark._engine.kernel import Kernel
from settlemark._mending.claims import GATE, YES, Case, NotOurs, recorded_of
from settlemark._mending.paging import say
from settlemark._mending.remedy import KIND, RemedyState
from settlemark._mending.stuck import Stuck
from settlemark._mending.wanted import stands
from settlemark._model import json_text
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import RETRIED, Reason, State, Tag
from settlemark._report.stuck import is_stuck
from settlemark.ledger._contract import Book, Change, OutcomeChange, RecordedEffect, RecordedTransaction
from settlemark.ledger._payloads.redaction import withheld
from settlemark.ledger._payloads.unreadable import Unreadable

_AGAIN = (*RETRIED, Reason.LEFT, Reason.LEASE, Reason.LOST, Reason.HALTED, Reason.TIMEOUT)
"""Why a plan's transaction was undone although nothing is wrong with the plan."""


class Unproven(Exception):
    """The probe of what a plan was to mend still finds it, or cannot tell."""


@dataclass(frozen=True, slots=True)
class Call:
    """A checked call of a plan.

    Attributes:
        tool: its name.
        function: calls it.
        arguments: for it.
        undoable: whether it can be undone.
        held: whether it leaves at the commit alone.
    """

    tool: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    undoable: bool
    held: bool = False


class Carrying:
    """Carries plans out.

    Attributes:
        checking: returns the checked calls of a plan for what is stuck, within these scopes.
        running: returns the program that runs calls in a transaction: of this name, in this run, holding these scopes;
            it runs the first program as it begins, and the second before it commits, if nothing is to leave then.
        gating: returns the program that has a person say yes or no to a plan.
        plans: the calls as they are, by id, with what redaction keeps off the record.
    """

    def __init__(self, kernel: Kernel, probing: Probing) -> None:
        self._kernel = kernel
        self._probing = probing
        self.checking: Callable[[Stuck, Sequence[str], Any], list[Call]] = lambda _stuck, _scopes, _plan: []
        self.running: Callable[..., Program[Any]] | None = None
        self.gating: Callable[..., Program[Any]] | None = None
        self.plans: dict[str, list[Call]] = {}

    def check(self, case: Case, plan: object) -> Program[tuple[RemedyState, list[dict[str, Any]]]]:
        """Return what becomes of a plan: it runs, or needs a person's yes; and the plan as it is recorded.

        Raises:
            UsageError: it is none that may run.
        """
        scopes: list[str] = yield from self._kernel.step(partial(_scopes, case.stuck))
        calls = self.plans[case.id] = self.checking(case.stuck, scopes, plan)
        state = RemedyState.PROPOSED if all(call.undoable for call in calls) else RemedyState.GATED
        return state, self._recorded_plan(calls)

    def _recorded_plan(self, calls: Sequence[Call]) -> list[dict[str, Any]]:
        payloads = self._kernel.ledger.payloads
        return [
            {
                "tool": call.tool,
                "arguments": json_text.decode(payloads.redact(json_text.encode(call.arguments), tool=call.tool)),
            }
            for call in calls
        ]

    def gate(self, case: Case) -> Program[bool]:
        """Have a person say yes or no to a plan; with a yes, it is the plan that this is about that runs."""
        name = f"{case.name}{GATE}"
        assert self.gating is not None
        try:
            answered: bool | None = yield from self._ended(name)
            if answered is False:
                yield from self.gating(name, case.stuck, list(case.remedy.plan or ()))
                answered = yield from self._ended(name)
            agreed: list[dict[str, Any]] = [] if not answered else (yield from self._agreed(case, name))
        except SettlemarkError as error:
            if is_a(error, (Halted, WaitTimeout, LedgerError)):
                raise
            return (yield from say(self._kernel, case, RemedyState.REFUSED, f"the plan was refused: {in_words(error)}"))
        if not answered:  # it waits for its answer
            raise NotOurs
        return (yield from say(self._kernel, case, RemedyState.PROPOSED, "", plan=agreed))

    def _agreed(self, case: Case, name: str) -> Program[list[dict[str, Any]]]:
        """Return the plan, as it is recorded, that a person has said yes to: the one asked about, or an edited one.

        Raises:
            UsageError: no yes to this is on record, or what the person has made of the plan may not run.
        """
        recorded: RecordedTransaction | None = yield from self._kernel.step(lambda _protocol, book: book.load(name))
        answers: list[dict[str, Any]] = [
            json_text.decode(effect.row.arguments)
            for effect in (() if recorded is None else recorded.effects)
            if effect.row.tool == YES
            and effect.outcome is Outcome.CONFIRMED
            and not isinstance(effect.row.arguments, Unreadable)
        ]
        plan = list(case.remedy.plan or ())
        asked: dict[str, Any] = {"mend": case.id, "mends": case.stuck.transaction, "plan": plan}
        if json_text.decode(self._kernel.ledger.payloads.redact(json_text.encode(asked), tool=YES)) in answers:
            return plan
        answer = next((answer for answer in answers if answer == {**asked, "plan": answer.get("plan")}), None)
        if answer is None:
            raise UsageError(f"{name} is on record without a yes to this plan; nothing was run", transaction=name)
        if withheld(json_text.encode(answer)):
            raise UsageError("the edited plan cannot be run: redaction has kept arguments of it off the record")
        _, plan = yield from self.check(case, answer["plan"])
        return plan

    def _ended(self, name: str) -> Program[bool | None]:
        """Return whether a transaction has committed; None while it goes on.

        Raises:
            Refused: it was undone, and not because a process ended, or a race was lost.
        """

        def look(protocol: Protocol, book: Book) -> RecordedTransaction | bool | None:
            return None if name in protocol.named else book.load(name) or False

        found: RecordedTransaction | bool | None = yield from self._kernel.step(look)
        if found is None or found is False or found is True:
            return found
        if found.state is State.ABORTED and found.reason not in _AGAIN:
            raise Refused(found.because or f"{name} was undone", transaction=name, epoch=found.epoch)
        return found.state is State.COMMITTED

    def run(self, case: Case) -> Program[bool]:
        """Run the plan, unless it has run, and have it proven."""
        assert self.running is not None
        try:
            done: bool | None = yield from self._ended(case.name)
            if done is None:
                raise NotOurs
            if not done:
                calls: list[Call] = yield from self._calls_of(case)
                begun: int = yield from self._kernel.step(partial(_attempts, case.name))
                yield from self.running(
                    case.name,
                    case.stuck.run,
                    [scope for effect in case.stuck.effects for scope in effect.scopes],
                    calls,
                    partial(self._still_ours, case, begun),
                    partial(self._prove, case),
                )
                done = yield from self._ended(case.name)
                if not done:  # a call of it waits for a person
                    raise NotOurs
            yield from self._prove(case)
        except (GeneratorExit, KeyboardInterrupt, Halted, WaitTimeout, NotOurs):
            raise
        except BaseException as error:
            if is_a(error, LedgerError):
                raise
            if not (yield from self._kernel.step(lambda _protocol, book: all(stands(book, key) for key in case.keys))):
                raise NotOurs from error  # a person has ended it meanwhile: there is nothing to tell
            state = RemedyState.UNPROVEN if is_a(error, Unproven) else RemedyState.FAILED
            return (yield from say(self._kernel, case, state, in_words(error)))
        yield from self._kernel.step(partial(self._mended, case), durable=True)
        return False

    def _calls_of(self, case: Case) -> Program[list[Call]]:
        """Return the calls of a plan; those on record where another process, or an earlier one, had it proposed.

        Raises:
            UsageError: redaction has kept arguments of it off the record, or it is none any more.
        """
        known = self.plans.get(case.id)
        if known is not None:
            return known
        plan = list(case.remedy.plan or ())
        if withheld(json_text.encode(plan)):
            raise UsageError("the plan cannot be gone on with: redaction has kept arguments of it off the record")
        scopes: list[str] = yield from self._kernel.step(partial(_scopes, case.stuck))
        return self.checking(case.stuck, scopes, plan)

    def _still_ours(self, case: Case, begun: int, attempt: int) -> Program[None]:
        """Return when what is to be mended is as it was when the plan's transaction was to begin.

        Raises:
            NotOurs: another worker has run the plan meanwhile, or a person has ended what was stuck.
        """

        def look(_protocol: Protocol, book: Book) -> bool:
            entry = book.entries.get(KIND, case.id)
            ours = entry is not None and entry.version == case.version and attempt == begun + 1
            return ours and all(stands(book, key) for key in case.keys)

        if not (yield from self._kernel.step(look)):
            raise NotOurs(f"{case.stuck.transaction} is not for this worker to mend any more")

    def _prove(self, case: Case) -> Program[None]:
        """Return when the probe of each effect says that it is gone.

        Raises:
            Unproven: one does not.
        """
        for key in case.keys:
            recorded: tuple[RecordedTransaction, RecordedEffect] | None
            recorded = yield from self._kernel.step(partial(_look_up, key))
            if recorded is None:
                raise Unproven(f"{key} is on record no more")
            txn, effect = recorded
            row = effect.row
            late = revive(afresh(effect), self._kernel.declaration(row.tool, row.version))
            current = CurrentCall(key, row.name, txn.epoch, row.attempt)
            for tried in range(1, self._kernel.retries.tries + 1):
                found = yield from self._probing.ask(late, current, None, final=True)
                if found is None:
                    break
                if tried < self._kernel.retries.tries:
                    yield Sleep(self._kernel.retries.pause(tried), final=True)
            else:
                raise Unproven(f"the plan ran, and the probe of {row.tool} does not say that {key} is gone")

    def _mended(self, case: Case, _protocol: Protocol, book: Book) -> None:
        """Record that what was stuck is mended, by what, and that the remedy is at its end."""
        at = self._kernel.ledger.time()
        changes: list[Change] = []
        for key in case.keys:
            found = recorded_of(book, key)
            if found is not None and is_stuck(*found):
                row, effect = found[1].row, found[1]
                disposed = Disposed(Disposition.MENDED, effect.note, case.name)
                changes.append(
                    OutcomeChange.of(
                        key,
                        Outcome.UNDONE,
                        effect.result,
                        effect.error,
                        Tag.CLEAN,
                        disposed,
                        self._kernel.clock(),
                        row.tool,
                    )
                )
        book.write(changes)
        book.entries.change(KIND, case.id, state=RemedyState.MENDED, at=at, from_version=case.version)


def _scopes(stuck: Stuck, _protocol: Protocol, book: Book) -> list[str]:
    """Return the scopes that a stuck transaction touched."""
    found = recorded_of(book, stuck.effects[0].key)
    effects = () if found is None else found[0].effects
    return sorted({scope for effect in effects for scope in json_text.decode(effect.row.scopes)})


def _look_up(key: str, _protocol: Protocol, book: Book) -> tuple[RecordedTransaction, RecordedEffect] | None:
    return recorded_of(book, key)


def _attempts(name: str, _protocol: Protocol, book: Book) -> int:
    """Return how many attempts of a transaction are on record."""
    found = book.load(name)
    return (book.forgotten(name) or 0) if found is None else found.row.attempt


__all__ = ["Call", "Carrying", "Unproven"]
