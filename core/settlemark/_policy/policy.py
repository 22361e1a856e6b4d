"""A policy: a table of rules, or a function, that says of each call whether it may act.

A call may touch several scopes, and one scope may be broad. So a rule speaks of a part of it, or of the whole. What is
broad gets the strictest verdict that any of its parts gets: nothing is allowed by a rule that allows only a part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any, cast, get_args

from settlemark._acts.judged import STRICTNESS, Judged, Verdict
from settlemark._edges.errors import UsageError
from settlemark._edges.text import NAME, WHO, brief, identity
from settlemark._edges.user_code import is_lazy_function
from settlemark._model import json_text
from settlemark._model.budget import Amount, amount_of, amount_text
from settlemark._model.declaration import Price
from settlemark._model.effect_class import EffectClass
from settlemark._model.scope import Scope

DEFAULT = "default"
"""The name of the rule that speaks where no other does."""
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class PolicyCall:
    """A call that a policy judges, before it acts.

    Attributes:
        transaction: its name; `run` is the job that it belongs to, and `agent` is who that is, by the policy's
            `agent=`; None without one.
        tool: the tool's name; `kind` is its effect class.
        scopes: the resources that the call acts on.
        arguments: a copy of the call's arguments, as the tool gets them.
    """

    transaction: str
    run: str
    agent: str | None
    tool: str
    kind: EffectClass
    scopes: tuple[Scope, ...]
    arguments: Mapping[str, Any]


Judge = Callable[[PolicyCall], Any]
"""Returns a verdict, or a pair of a verdict and the name of the rule behind it; it may be async."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule of a policy: what is said of the calls that it speaks of. All that is given must hold.

    Args:
        name: names it in errors and in the record; unique in its policy.
        verdict: `"allow"`, `"deny"`, or `"ask"` a person first.
        tool: the tool's name, or a pattern such as `"wire_*"`.
        agent, run, transaction: who calls, as a pattern. For `agent=` the policy needs an `agent=`, too.
        scope: where the call acts, as in `"account:/ops"`, with all that is below it. A rule speaks of the part of a
            call that is in its scope; a call of several parts gets the strictest of their verdicts.
        amount: the argument that has the amount, as in `"{amount}"` or `"{order.total}"`.
        up_to: the rule speaks of amounts up to this one alone, exactly. A call without an amount is none of them, so
            a rule that denies takes no amount: have one before it allow, or ask, up to one.

    Raises:
        UsageError: a part of it is wrong. ScopeError: its scope is malformed.

    >>> PolicyRule("small wires", "allow", tool="wire", scope="account:/ops", amount="{amount}", up_to=1000).up_to
    Decimal('1000')
    """

    name: str
    verdict: Verdict
    tool: str
    agent: str | None
    run: str | None
    transaction: str | None
    scope: Scope | None
    amount: str | None
    up_to: Decimal | None

    def __init__(
        self,
        name: str,
        verdict: Verdict,
        *,
        tool: str = "*",
        agent: str | None = None,
        run: str | None = None,
        transaction: str | None = None,
        scope: str | Scope | None = None,
        amount: str | None = None,
        up_to: Amount | None = None,
    ) -> None:
        name = identity(name, "the name of a rule", WHO)
        what = f"the rule {name!r}"
        if name == DEFAULT:
            raise UsageError(f"a rule is named {DEFAULT!r}, as what is said where no rule speaks: name it otherwise")
        patterns = {"tool": tool, "agent": agent, "run": run, "transaction": transaction}
        for field, pattern in patterns.items():
            if pattern is not None:
                patterns[field] = identity(pattern, f"{field}= of {what}", NAME)
        if (amount is None) is not (up_to is None):
            raise UsageError(f"{what}: amount=, the argument that has it, and up_to= go together")
        if amount is not None and not _is_argument(amount):
            raise UsageError(f"amount={brief(amount)} of {what}: name the argument that has it, as in '{{amount}}'")
        if up_to is not None and verdict == "deny":
            raise UsageError(
                f"{what} denies up to an amount, so that more would be allowed: have a rule before it allow, or ask, up"
                " to one, and this one deny without one"
            )
        told: dict[str, Any] = {
            **patterns,
            "name": name,
            "verdict": _verdict(verdict, what),
            "amount": amount,
            "scope": None if scope is None else Scope.parse(scope),
            "up_to": None if up_to is None else amount_of(up_to, f"up_to= of {what}"),
        }
        for field, value in told.items():
            object.__setattr__(self, field, value)


@dataclass(frozen=True, slots=True)
class Policy:
    """What agents may do: a table of rules, or a function, with a version.

    Give it to `Settlement(policy=…)`. Each call that acts is judged before it does: allowed, denied (`Denied`), or put
    to a person first, as with `approve=`. Reads are not judged: they change nothing.

    Args:
        version: names it and its version, as in `"treasury-v7"`: it is recorded with each verdict.
        rules: of several that speak of a call, the first counts.
        default: what is said where no rule speaks.
        judge: a function of a `PolicyCall` in place of rules: it returns a verdict, or a pair of a verdict and a rule's
            name; it may be async. What it returns must depend on the call alone.
        agent: returns the name of the agent from the id of a run, for the rules' `agent=`.

    Raises:
        UsageError: a part of it is wrong.

    >>> small = PolicyRule("small wires", "allow", tool="wire", amount="{amount}", up_to=1000)
    >>> Policy("treasury-v7", rules=[small], default="ask").version
    'treasury-v7'
    """

    version: str
    rules: tuple[PolicyRule, ...]
    default: Verdict
    judge: Judge | None
    agent: Callable[[str], str] | None
    digest: str

    def __init__(
        self,
        version: str,
        rules: Iterable[PolicyRule] = (),
        *,
        default: Verdict = "deny",
        judge: Judge | None = None,
        agent: Callable[[str], str] | None = None,
    ) -> None:
        version = identity(version, "the version of a policy", WHO)
        what = f"the policy {version}"
        rules = tuple(rules)
        if judge is not None and (rules or default != "deny"):
            raise UsageError(f"{what} has a function, judge=, which says all: leave rules= and default= out")
        if judge is None and not rules and default == "deny":
            raise UsageError(f"{what} has no rules, and denies all: give rules=[PolicyRule(…)], or judge=")
        for role, function in (("judge", judge), ("agent", agent)):
            if function is not None and not callable(cast("object", function)):
                raise UsageError(f"{role}={brief(function)} of {what} is no function")
        if is_lazy_function(agent):
            raise UsageError(f"agent= of {what} is async, and runs where nothing can be awaited")
        for rule in rules:
            if not isinstance(cast("object", rule), PolicyRule):
                raise UsageError(f"{what}: {brief(rule)} is no rule: give PolicyRule(…)")
            if rule.agent is not None and agent is None:
                raise UsageError(
                    f"the rule {rule.name!r} of {what} asks for an agent: give the policy agent=, which names the agent"
                    " of a run"
                )
        names = [rule.name for rule in rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(f"{what} has several rules named {', '.join(map(repr, twice))}: the name says which spoke")
        _verdict(default, f"default= of {what}")
        table = json_text.canonical([default, [_told(rule) for rule in rules]])
        digest = "" if judge is not None else hashlib.sha256(table.encode()).hexdigest()[:_DIGITS]
        told = {
            "version": version,
            "rules": rules,
            "default": default,
            "judge": judge,
            "agent": agent,
            "digest": digest,
        }
        for field, value in told.items():
            object.__setattr__(self, field, value)

    def judged(self, call: PolicyCall) -> Judged:
        """Return what the rules say of a call.

        >>> rules = [PolicyRule("own", "allow", scope="account:/ops"), PolicyRule("others", "ask", scope="account:/**")]
        >>> table = Policy("v1", rules)
        >>> scopes = (Scope.parse("account:/ops"), Scope.parse("account:/tax"))
        >>> table.judged(PolicyCall("eod/1", "eod", None, "wire", EffectClass.IRREVERSIBLE, scopes, {}))[:2]
        ('ask', 'others')

        Raises:
            UsageError: it has no rules, but a function, which `judge` is.
        """
        if self.judge is not None:
            raise UsageError(f"the policy {self.version} is a function: call its judge")
        said = [self._of_scope(call, scope) for scope in call.scopes or (None,)]
        verdict, rule = max(said, key=_strictness)
        return Judged(verdict, rule, self.version, self.digest)

    def _of_scope(self, call: PolicyCall, scope: Scope | None) -> tuple[Verdict, str]:
        """Return the strictest of what is said of any part of a scope, and the rule that says it."""
        said: list[tuple[Verdict, str]] = []
        for rule in self.rules:
            if rule.scope is not None and (scope is None or not rule.scope.overlaps(scope)):
                continue
            if _speaks_of(rule, call):
                said.append((rule.verdict, rule.name))
                if rule.scope is None or (scope is not None and rule.scope.covers(scope)):
                    break
        else:
            said.append((self.default, DEFAULT))
        return max(said, key=_strictness)


def _speaks_of(rule: PolicyRule, call: PolicyCall) -> bool:
    """Whether a rule speaks of some part of a call, wherever that acts."""
    who = ((rule.agent, call.agent), (rule.run, call.run), (rule.transaction, call.transaction))
    if not fnmatchcase(call.tool, rule.tool):
        return False
    if any(wanted is not None and not fnmatchcase(found or "", wanted) for wanted, found in who):
        return False
    if rule.amount is None or rule.up_to is None:
        return True
    try:
        asked = amount_of(Price(rule.amount).of(call.arguments, result=None), rule.amount)
    except UsageError:
        return False
    return asked <= rule.up_to


def _told(rule: PolicyRule) -> list[str | None]:
    """Return a rule as JSON values, for the digest of its table."""
    scope, up_to = None if rule.scope is None else rule.scope.text, None
    if rule.up_to is not None:
        up_to = amount_text(rule.up_to)
    return [
        rule.name,
        rule.verdict,
        rule.tool,
        rule.agent,
        rule.run,
        rule.transaction,
        scope,
        rule.amount,
        up_to,
    ]


def _strictness(said: tuple[Verdict, str]) -> int:
    return STRICTNESS.index(said[0])


def _verdict(given: object, what: str) -> Verdict:
    if given not in get_args(Verdict):
        raise UsageError(f"{what} says {brief(given)}: choose one of {', '.join(map(repr, STRICTNESS))}")
    return cast("Verdict", given)


def _is_argument(amount: object) -> bool:
    return isinstance(amount, str) and amount.startswith("{") and amount.endswith("}") and bool(amount[1:-1].strip("."))


__all__ = ["DEFAULT", "Judge", "Policy", "PolicyCall", "PolicyRule"]
