"""Judging a call before it acts, and again when another policy has come into force before it leaves."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Protocol as Port
from typing import TypeVar

from settlemark._acts.effect import Effect
from settlemark._acts.judged import Judged
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._model.declaration import Declaration
from settlemark._model.disposition import NOTHING, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._policy.judging import Asking, denied, has_judged, is_judged, judge, record
from settlemark._policy.policy import Policy
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Tag
from settlemark._report.judged import judged_on
from settlemark._report.questions import answer_on_record
from settlemark.ledger._approvals import put_again
from settlemark.ledger._contract import Book, Ledger, Said

T = TypeVar("T")
Asked = tuple[Effect, Judged]
"""An effect that a person is to be asked about, and what has been said of it."""


class _Callers(Port):
    @property
    def asking(self) -> Asking: ...


class _Kernel(Port):
    @property
    def ledger(self) -> Ledger: ...
    @property
    def clock(self) -> Callable[[], float]: ...
    @property
    def callers(self) -> _Callers: ...
    def step(self, step: Callable[[Protocol, Book], T], *, durable: bool = False) -> Program[T]: ...


class Judging:
    """Has the policy of this process judge calls.

    Attributes:
        policy: that policy; None says nothing.
    """

    def __init__(self, kernel: _Kernel) -> None:
        self._kernel = kernel
        self.policy: Policy | None = None

    def judge(self, attempt: Attempt, effect: Effect, *, sealed: bool = False) -> Program[Judged | None]:
        """Have an effect judged, unless this policy has judged it, and return what it says then.

        What it says of a new effect is recorded with that one's intent. What is on record already and is to be asked
        about now needs a new answer: one that was given under another policy is taken back. What is `sealed` is not
        asked about any more: that it was to be is not recorded, and stays to be found.

        Raises:
            Denied: it is denied; that is recorded, and nothing of the effect will act.
            UsageError: the policy's function failed.
        """
        policy, known = self.policy, effect.path in attempt.effects
        if policy is None or not is_judged(effect.declaration):
            return None
        if known and effect.judged is None:
            effect.judged = yield from self._kernel.step(lambda _protocol, book: judged_on(book, effect.key))
        if has_judged(policy, effect.judged):
            if effect.judged is not None and effect.judged.verdict == "deny":
                raise denied(attempt, effect, effect.judged)  # it was, and its end was not reached
            return None
        said = yield from judge(policy, attempt, effect, self._kernel.callers.asking)
        if sealed and said.verdict == "ask":
            return said
        no, waits = said.verdict == "deny", effect.outcome is Outcome.SUSPENDED

        def tell(protocol: Protocol, book: Book) -> None:
            record(book, attempt, effect, said, self._kernel.ledger.time())
            if not known:
                return
            if no and waits:
                _give_back(protocol, effect)
            attempt.put(book, [attempt.records.outcome(effect, self._kernel.clock())])
            if said.verdict == "ask":
                self._take_back_answers(book, effect, said)

        if known and no and waits:  # else its transaction is undone: what is held stays with all the rest until then
            effect.outcome, effect.tag, effect.disposed = Outcome.DROPPED, Tag.CLEAN, NOTHING
        elif said.verdict == "ask" and effect.disposition is Disposition.APPROVED:
            effect.disposed = NOTHING
        if known or no:
            yield from self._kernel.step(tell, durable=True)
        effect.judged = said
        if no:
            raise denied(attempt, effect, said)
        return said

    def foretell(self, attempt: Attempt, effect: Effect) -> Program[Judged | None]:
        """Return what this policy is going to say of a call; None: nothing. Nothing of it is recorded.

        Raises:
            UsageError: the policy's function failed.
        """
        if self.policy is None or not is_judged(effect.declaration):
            return None
        return (yield from judge(self.policy, attempt, effect, self._kernel.callers.asking))

    def _take_back_answers(self, book: Book, effect: Effect, said: Judged) -> None:
        """Have a question wait for new answers, if any was given: those were about what another policy had planned."""
        if _is_answered(book, effect.key):
            tool = effect.declaration.tool
            book.write([Said(effect.key, "{}", "settlemark", self._kernel.clock(), dealt=False, tool=tool)])
        put_again(book, effect.key, self._kernel.ledger.time(), (said.policy, said.digest))

    def may_ask(self, declaration: Declaration, *, by_function: bool = True) -> bool:
        """Whether a person may be asked about a tool's calls: it has `approve=`, or the policy in force may ask.

        A function may, as far as anybody knows: `by_function` says what to answer then.
        """
        policy = self.policy
        if declaration.approve is not None:
            return True
        if policy is None or not is_judged(declaration):
            return False
        if policy.judge is not None:
            return by_function
        asks = (rule.tool for rule in policy.rules if rule.verdict == "ask")
        return policy.default == "ask" or any(fnmatchcase(declaration.tool, pattern) for pattern in asks)

    def refuse_again(self, attempt: Attempt, effect: Effect) -> Program[None]:
        """Return when a call that is replayed was not denied before.

        Raises:
            Denied: it was, and its transaction has committed without it.
        """
        if attempt.replay is None or effect.path in attempt.recorded:
            return
        said: Judged | None = yield from self._kernel.step(lambda _protocol, book: judged_on(book, effect.key))
        if said is not None and said.verdict == "deny":
            raise denied(attempt, effect, said)

    def stands(self, attempt: Attempt) -> bool:
        """Whether all that is to leave when an attempt commits was judged by the policy in force."""
        policy = self.policy
        return policy is None or all(_stands(policy, effect.judged) for effect in _to_leave(attempt))

    def judge_again(self, attempt: Attempt, *, sealed: bool = False, later: bool = False) -> Program[list[Asked]]:
        """Have judged what is to leave and was judged by another policy; return what a person is to be asked about.

        Of what is asked about `later`, some cannot wait for an answer: of those it is not recorded that they were to
        be, as where it is `sealed`.

        Raises: as `judge`.
        """
        asked: list[Asked] = []
        for effect in _to_leave(attempt):
            unasked = sealed or (later and not effect.declaration.can_wait)
            said = yield from self.judge(attempt, effect, sealed=unasked)
            if said is not None and said.verdict == "ask":
                asked.append((effect, said))
        return asked


def _to_leave(attempt: Attempt) -> list[Effect]:
    elsewhere = {e for splinter in attempt.splinters for e in (*splinter.effects, *splinter.behind)}
    held = [effect for effect in attempt.in_order() if effect.held and effect.outcome is Outcome.QUEUED]
    return [effect for effect in held if is_judged(effect.declaration) and effect not in elsewhere]


def _stands(policy: Policy, judged: Judged | None) -> bool:
    return judged is not None and has_judged(policy, judged) and judged.verdict != "deny"


def _is_answered(book: Book, key: str) -> bool:
    recorded = book.find(key)
    effects = [] if recorded is None else recorded.effects
    return any(effect.row.key == key and answer_on_record(effect) is not None for effect in effects)


def _give_back(protocol: Protocol, effect: Effect) -> None:
    """Give up what an effect holds that has not acted, and never will."""
    calls = [call for call in effect.calls if call.hold is not None]
    if not effect.held:
        protocol.resumed([call for call in calls if call.returned])
    for call in calls:
        if effect.held:
            protocol.drop_call(call)
        elif call.admitted and not call.returned:
            protocol.acted(call, happened=False)


__all__ = ["Asked", "Judging"]
