"""Before a call acts: its arguments are fit, its scopes are free, and its intent is on disk."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal
from typing import Protocol as Port

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.requests import Act
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import current_of
from settlemark._edges.errors import Denied, LedgerError, Refused, UsageError, WaitTimeout, WouldBlock
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.wait import Deadline
from settlemark._model import json_text
from settlemark._model.disposition import AT_A_GATE, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._policy.judging import has_judged, is_judged, record
from settlemark._protocol.holdings import Blocked, Call, Mode, Ticket, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State, Tag
from settlemark._protocol.versions import then
from settlemark.ledger._approvals import asked_draft, digest_of
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft

_InTheWay = tuple[Blocked, Ticket] | Literal["judge"]


class Gatekeeper(Port):
    """Who asks a person before a gated call acts."""

    def gate(
        self,
        attempt: Attempt,
        txn: Txn,
        effect: Effect,
        earlier: Effect | None,
        let_through: tuple[type[BaseException], ...],
    ) -> Program[Effect | None]:
        """Return the recorded effect that may act now, or None: it is not on record, and needs nobody's yes."""
        ...


class AskedSince(Refused):
    """A policy has come into force while a call was on its way, and a person is to be asked about that call first."""

    remedy: ClassVar[str] = "Call the tool again: a person is asked about it first."
    effect: Effect

    @classmethod
    def of(cls, attempt: Attempt, effect: Effect) -> AskedSince:
        """Return the error for an effect of an attempt."""
        tool = effect.declaration.tool
        error = cls(
            f"{tool} needs a person's yes by the policy that is in force since: it was not run; call it again",
            transaction=attempt.name,
            epoch=None if attempt.txn is None else attempt.txn.epoch,
            tool=tool,
        )
        error.effect = effect
        return error

    def again(self, attempt: Attempt, asked: Effect) -> tuple[Effect, Effect | None]:
        """Return the call to ask about, and what is on record of it: an edited one is asked about as it is by now."""
        if self.effect.path in attempt.effects and self.effect is not asked:
            self.effect.ask = asked.ask
            return self.effect, self.effect
        return asked, attempt.effects.get(asked.path)


class Admission:
    """Admits the calls of effects to their scopes."""

    def __init__(self, kernel: Kernel, undoing: Undoing) -> None:
        self._kernel = kernel
        self._undoing = undoing

    def admit(
        self, attempt: Attempt, txn: Txn, effect: Effect, mode: Mode, *, intends: bool = False
    ) -> Program[list[Call]]:
        """Wait until an effect may touch its scopes; with `intends`, have its intent on disk in the same step.

        When this raises, nothing of the effect will act.

        Raises:
            Denied: a policy denies it; that is recorded.
        """
        if intends:
            yield from self._prepare(attempt, effect)
        tool, turned = effect.declaration, effect.turned or mode is Mode.HELD
        place, group = (-1, "") if mode is Mode.READ else (effect.position, effect.declaration.commutes or "")
        calls = [
            Call(txn, scope, mode, place, turned=turned, leaves=effect.leaves, commutes=group)
            for scope in effect.scopes
        ]
        planned = None if effect.bound is None else (tool.tool, tool.signature, effect.bound)
        deadline: Deadline | None = None

        def admit(protocol: Protocol, book: Book) -> _InTheWay | None:
            blocked = _admitted(protocol, calls, planned, patient=attempt.patient)
            if blocked is not None:
                return blocked, protocol.watch(blocked.holder, txn)
            if intends:
                if txn.state is not State.OPEN:
                    raise protocol.refusal(txn)
                if self._kernel.judging.policy is not None and self.is_unjudged(effect):
                    return "judge"
                self._kernel.reserve(book, attempt, effect)
                effect.calls = calls
                attempt.add(effect)
                at, sent = self._kernel.clock(), self._kernel.ledger.time()
                intent = attempt.intent(effect, owner=self._kernel.ledger.worker, at=at, sent=sent)
                _reasons(protocol, book, attempt, effect, sent)  # before the row that is sealed behind it
                attempt.put(book, intent)
            return None

        try:
            while True:
                found = yield from self._kernel.step(admit, durable=intends, wait=attempt.wait)
                if self._kernel.protocol.board.aborted:
                    yield from self._undoing.tidy()
                if found is None:
                    break
                deadline = deadline or Deadline(attempt.wait)
                yield from self._in_the_way(attempt, effect, found, deadline)
            if intends:
                attempt.written = True
                if txn.state is not State.OPEN:
                    raise self._kernel.protocol.refusal(txn)
        except GeneratorExit:
            raise
        except BaseException as error:
            unrecorded = is_a(error, LedgerError) and not getattr(error, "in_doubt", False)
            yield from self._take_out(attempt, effect, calls, mode, unrecorded=unrecorded)
            raise
        if attempt.told_waiting:
            attempt.told_waiting = False
            self._kernel.waits.tell_waiting(attempt, None)
        return calls

    def asks(self, attempt: Attempt, effect: Effect, earlier: Effect | None) -> Program[bool]:
        """Have a call judged that has not acted yet, and return whether a person is asked about it, or was.

        `earlier` is what of this same call is on record already.

        Raises:
            Denied: a policy denies it; that is recorded.
        """
        if self._kernel.judging.policy is not None and (earlier is None or earlier.outcome in MAY_ACT):
            yield from self._kernel.judging.judge(attempt, earlier or effect)
            effect.judged = (earlier or effect).judged
        asked = effect.judged is not None and effect.judged.verdict == "ask"
        known = earlier is not None and earlier.disposition in AT_A_GATE
        return asked or known or effect.declaration.approve is not None

    def _prepare(self, attempt: Attempt, effect: Effect) -> Program[None]:
        if self._kernel.judging.policy is not None:
            yield from self.judged_now(attempt, effect)
        attempt.records.prepare(effect)

    def is_unjudged(self, effect: Effect) -> bool:
        """Whether the policy in force has yet to judge an effect that is about to act."""
        policy = self._kernel.judging.policy
        return policy is not None and not has_judged(policy, effect.judged) and is_judged(effect.declaration)

    def judged_now(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Return when the policy in force has judged an effect that is about to act, and lets it.

        Raises:
            Denied: it denies it; that is recorded. AskedSince: a person is to be asked about it anew.
        """
        before = effect.judged
        said = yield from self._kernel.judging.judge(attempt, effect)
        waits = effect.outcome is Outcome.SUSPENDED and effect.disposition is Disposition.ASKED
        if said is not None and said.verdict == "ask" and before is not None and not waits:
            raise AskedSince.of(attempt, effect)

    def _in_the_way(self, attempt: Attempt, effect: Effect, found: _InTheWay, deadline: Deadline) -> Program[None]:
        """Wait until the transaction in a call's way has moved; a call that stood in line in vain goes ahead.

        What is in its way may be that the policy in force has not judged it.
        """
        if found == "judge":
            yield from self.judged_now(attempt, effect)
            return
        blocked, ticket = found
        if not blocked.in_line:
            self._kernel.callers.refuse_wait_within(attempt, blocked)
        try:
            yield from self._kernel.waits.wait_for(attempt, ticket, blocked, deadline, blocked.holder.name)
        except (WaitTimeout, WouldBlock):
            if not blocked.in_line:
                raise
            attempt.patient = False

    def _take_out(
        self, attempt: Attempt, effect: Effect, calls: list[Call], mode: Mode, *, unrecorded: bool
    ) -> Program[None]:
        """Give up a call that was not admitted everywhere, or was and must not act after all."""
        if effect.calls is calls:
            effect.outcome = Outcome.DROPPED
            if unrecorded:
                attempt.effects.pop(effect.path, None)
            else:
                effect.tag = Tag.CLEAN
                self._kernel.note(attempt, [attempt.records.outcome(effect, self._kernel.clock())])

        def give_up(protocol: Protocol, _book: Book) -> None:
            for call in calls:
                if not call.admitted:
                    protocol.withdraw(call)
                elif mode is Mode.HELD:
                    protocol.drop_call(call)
                else:
                    returned(protocol, [call], happened=False)

        self._kernel.ledger.later(give_up)
        yield from self._undoing.tidy()


def _admitted(
    protocol: Protocol, calls: list[Call], planned: tuple[str, str, int] | None, *, patient: bool
) -> Blocked | None:
    """Admit all of an effect's calls, or return whom one of them waits for.

    A read keeps none of its scopes while it waits for another: the holder of that may wait for this one.
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


def _reasons(protocol: Protocol, book: Book, attempt: Attempt, effect: Effect, at: float) -> None:
    """Record what a policy has said of an effect, the question about it, and its decision with that one's first."""
    if effect.gated:
        book.entries.add(question_of(attempt, effect, at))
    if effect.judged is not None:
        record(book, attempt, effect, effect.judged, at)
    found = effect.decision
    if found is None or found.is_recorded:
        return
    told = attempt.name, attempt.number, effect.key
    body = found.told(partial(_reads, protocol, attempt.live))
    book.entries.add(Draft("decision", found.id, attempt.run, "made", at, body, *told))
    found.is_recorded = True
    book.on_rollback(partial(setattr, found, "is_recorded", False))


def question_of(attempt: Attempt, effect: Effect, at: float) -> Draft:
    """Return the entry by which a person is asked about an effect."""
    tool = effect.declaration
    shown = json_text.decode(attempt.payloads.redact(effect.payload, tool=tool.tool))
    return asked_draft(
        effect.key,
        run=attempt.run,
        name=attempt.name,
        attempt=attempt.number,
        digest=digest_of(shown),
        spends=effect.spends,
        terms=tool.approval,
        at=at,
        policy=None if effect.judged is None else (effect.judged.policy, effect.judged.digest),
    )


_MOST_READS = 100
MAY_ACT = (Outcome.SUSPENDED, Outcome.QUEUED, Outcome.FAILED, Outcome.INTENDED)


def _reads(protocol: Protocol, txn: Txn) -> list[dict[str, Any]]:
    """Return what a transaction, and its run since it last wrote, has read, the latest last; of many the last few.

    A version is that of the scope when it was read; of one that has changed since, at most that.
    """
    seen = list({**txn.plan, **txn.reads}.items())[-_MOST_READS:]
    return [{"scope": scope.text, "version": min(protocol.version(scope), then(at))} for scope, at in seen]


def returned(protocol: Protocol, calls: list[Call], *, happened: bool) -> None:
    """Report that an effect's calls returned, and whether the effect happened."""
    for call in calls:
        if call.admitted and call.hold is not None and not call.returned:
            protocol.acted(call, happened=happened)


def give_back(protocol: Protocol, effect: Effect) -> None:
    """Give up what an effect holds that was put aside before it acted, and never will."""
    calls = [call for call in effect.calls if call.hold is not None]
    if effect.held:
        for call in calls:
            protocol.drop_call(call)
        return
    protocol.resumed([call for call in calls if call.returned])
    returned(protocol, calls, happened=False)


def checked(attempt: Attempt, effect: Effect) -> Program[None]:
    """Return when a call's arguments are fit; else what its check raises is its failure, and it left no trace."""
    check = effect.declaration.check
    if check is not None:
        bound = check.bind(effect.for_handlers(), result=None, key=effect.key)
        yield Act(check.function, bound, current_of(attempt, effect))


def checked_as_given(attempt: Attempt, effect: Effect) -> Program[None]:
    """Return when arguments that a person gave in place of a call's own are as fit as those have to be.

    Raises:
        UsageError: its check refuses them, and it left no trace.
    """
    try:
        yield from checked(attempt, effect)
    except Exception as error:
        tool = effect.declaration.tool
        raise UsageError(
            f"{tool} refuses the arguments that were given in place of its own: {in_words(error)}; nothing was run",
            tool=tool,
        ) from error


def judged_as_given(kernel: Kernel, attempt: Attempt, effect: Effect) -> Program[None]:
    """Return when the policy lets a call act with arguments that a person gave in place of its own.

    Raises:
        UsageError: it denies it, and that is recorded.
    """
    try:
        yield from kernel.judging.judge(attempt, effect)
    except Denied as error:
        raise UsageError(
            f"the arguments that were given in place of its own are refused: {error}", tool=effect.declaration.tool
        ) from error
