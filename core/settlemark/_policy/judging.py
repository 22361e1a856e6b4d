"""Judging a call before it acts: what is said of it is recorded in the step that records its intent.

A denied call has no intent: that it was refused is all that is recorded of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from settlemark._acts.effect import Effect
from settlemark._acts.judged import STRICTNESS, Judged
from settlemark._acts.perform import Program
from settlemark._acts.requests import Act
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import Denied, UsageError
from settlemark._edges.text import NAME, WHO, brief, identity
from settlemark._edges.user_code import through
from settlemark._edges.wording import in_words
from settlemark._model.declaration import Declaration
from settlemark._model.effect_class import EffectClass
from settlemark._policy.policy import Judge, Policy, PolicyCall
from settlemark._report.judged import KIND, body_of, says_the_same
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft
from settlemark.ledger._seals import seal_id

Asking = Callable[..., Act]
"""Returns the request to ask a function of the user's, for a transaction of this name."""


def judge(policy: Policy, attempt: Attempt, effect: Effect, asking: Asking) -> Program[Judged]:
    """Return what a policy says of a call.

    Raises:
        UsageError: its function failed, or returned no verdict; nothing was run.
    """
    tool = effect.declaration.tool
    try:
        call = _call_of(policy, attempt, effect)
        if policy.judge is None:
            return policy.judged(call)
        answer: Any = yield asking(attempt.name, policy.judge, call)
        return _said(policy, policy.judge, answer)
    except Exception as error:
        raise UsageError(
            f"the policy {policy.version} failed, so nobody knows whether {tool} may be called: {tool} was not run;"
            f" correct the policy: {in_words(error)}",
            tool=tool,
            policy=policy.version,
        ) from error


def has_judged(policy: Policy, judged: Judged | None) -> bool:
    """Whether a verdict is of a policy, in this version."""
    return judged is not None and (judged.policy, judged.digest) == (policy.version, policy.digest)


def is_judged(declaration: Declaration) -> bool:
    """Whether a tool's calls are judged: reads change nothing, and what settlemark records for itself is no call."""
    return declaration.kind is not EffectClass.READ and not declaration.own


def _call_of(policy: Policy, attempt: Attempt, effect: Effect) -> PolicyCall:
    declaration, agent = effect.declaration, None
    if policy.agent is not None:
        agent = identity(through(policy.agent, attempt.run), f"what agent= of the policy {policy.version} said", NAME)
    return PolicyCall(
        attempt.name, attempt.run, agent, declaration.tool, declaration.kind, effect.scopes, effect.for_handlers()
    )


def _said(policy: Policy, function: Judge, answer: object) -> Judged:
    """Return what a policy's function has said.

    Raises:
        UsageError: it is no verdict.
    """
    told: object = answer
    pair = cast("tuple[object, ...]", answer) if isinstance(answer, tuple) else (answer, None)
    if len(pair) != 2 or pair[0] not in STRICTNESS:  # noqa: PLR2004 - a pair
        raise UsageError(
            f"judge= returned {brief(told)}, which is no verdict: return 'allow', 'ask' or 'deny', or a pair of that"
            " and a rule's name"
        )
    rule = getattr(function, "__name__", "judge") if pair[1] is None else pair[1]
    return Judged(pair[0], identity(rule, "the rule that judge= named", WHO), policy.version)


def record(book: Book, attempt: Attempt, effect: Effect, judged: Judged, at: float) -> None:
    """Record what was said of a call; another verdict on it is another version of the same entry."""
    worker = "" if attempt.txn is None else attempt.txn.owner
    body = body_of(judged, effect.declaration.tool, effect.scope_text, effect.key, worker)
    whose = attempt.name, attempt.number  # without its key, by which secrets of the effect would be looked for in it
    stands = book.entries.add(Draft(KIND, seal_id(effect.key), attempt.run, judged.verdict, at, body, *whose))
    last = stands.entry
    if not stands.won and not (last.state == judged.verdict and says_the_same(last, body)):
        book.entries.change(KIND, last.id, state=judged.verdict, at=at, from_version=last.version, body=body)


def denied(attempt: Attempt, effect: Effect, judged: Judged) -> Denied:
    """Return the error that tells the caller that a policy has denied a call."""
    tool, scope = effect.declaration.tool, effect.scope_text
    return Denied(
        f"{tool} on {scope} is denied by the rule {judged.rule!r} of the policy {judged.policy}; nothing of it"
        " happened: plan again without this call, or have the policy changed",
        transaction=attempt.name,
        epoch=None if attempt.txn is None else attempt.txn.epoch,
        tool=tool,
        key=effect.key,
        scope=scope,
        rule=judged.rule,
        policy=judged.policy,
    )


__all__ = ["Asking", "denied", "has_judged", "is_judged", "judge", "record"]
