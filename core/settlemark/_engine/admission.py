"""Before a call acts: its arguments are fit, its scopes are free, and its intent is on disk."""

from __future__ import annotations

from settlemark._acts.effect import Effect
from settlemark._acts.perform import Program
from settlemark._acts.requests import Act
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import current_of
from settlemark._edges.errors import LedgerError, UsageError, WaitTimeout, WouldBlock
from settlemark._edges.wording import in_words, is_a
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.wait import Deadline
from settlemark._model.effect_class import Outcome
from settlemark._protocol.holdings import Blocked, Call, Mode, Ticket, Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State, Tag
from settlemark.ledger._contract import Book


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
        """
        if intends:
            attempt.records.prepare(effect)
        place, turned = -1 if mode is Mode.READ else effect.position, effect.turned or mode is Mode.HELD
        calls = [Call(txn, scope, mode, place, turned=turned, leaves=effect.leaves) for scope in effect.scopes]
        tool = effect.declaration
        planned = None if effect.bound is None else (tool.tool, tool.signature, effect.bound)
        deadline: Deadline | None = None

        def admit(protocol: Protocol, book: Book) -> tuple[Blocked, Ticket] | None:
            blocked = _admitted(protocol, calls, planned, patient=attempt.patient)
            if blocked is not None:
                return blocked, protocol.watch(blocked.holder, txn)
            if intends:
                if txn.state is not State.OPEN:
                    raise protocol.refusal(txn)
                effect.calls = calls
                attempt.add(effect)
                at, sent = self._kernel.clock(), self._kernel.ledger.time()
                attempt.put(book, attempt.intent(effect, owner=self._kernel.ledger.worker, at=at, sent=sent))
            return None

        try:
            while True:
                found = yield from self._kernel.step(admit, durable=intends, wait=attempt.wait)
                if self._kernel.protocol.board.aborted:
                    yield from self._undoing.tidy()
                if found is None:
                    break
                blocked, ticket = found
                deadline = deadline or Deadline(attempt.wait)
                yield from self._in_the_way(attempt, blocked, ticket, deadline)
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
        if mode is Mode.READ:
            attempt.expected.sees(effect.scopes)
        return calls

    def _in_the_way(self, attempt: Attempt, blocked: Blocked, ticket: Ticket, deadline: Deadline) -> Program[None]:
        """Wait until the transaction in a call's way has moved; a call that stood in line in vain goes ahead."""
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

    A read keeps none of its scopes while it waits for another: whoever holds that may wait for this one.
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
