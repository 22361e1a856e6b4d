"""A policy's table: of the rules that speak of a call the first counts, and of its parts the strictest."""

from __future__ import annotations

from decimal import Decimal

import pytest

from settlemark import EffectClass, Policy, PolicyCall, PolicyRule, Scope, ScopeError, UsageError

OPS, TAX = "account:/ops", "account:/tax"


def call(tool="wire", *scopes, run="eod", transaction="eod/1", agent=None, **arguments):
    where = tuple(Scope.parse(scope) for scope in scopes or (OPS,))
    return PolicyCall(transaction, run, agent, tool, EffectClass.IRREVERSIBLE, where, arguments)


def said(rules, *given, default="deny", **named):
    judged = Policy("treasury-v7", rules, default=default, agent=str).judged(call(*given, **named))
    return judged.verdict, judged.rule


# ---- who, what, up to how much


def test_the_first_rule_that_speaks_of_a_call_counts_and_else_the_default():
    rules = [PolicyRule("wires", "ask", tool="wire"), PolicyRule("all", "allow", tool="w*")]
    assert said(rules) == ("ask", "wires")
    assert said(rules, "withdraw") == ("allow", "all")
    assert said(rules, "mail") == ("deny", "default")
    assert said(rules, "mail", default="ask") == ("ask", "default")


def test_a_rule_speaks_of_the_runs_transactions_and_agents_that_its_patterns_name():
    rules = [
        PolicyRule("night", "allow", run="night-*"),
        PolicyRule("close", "allow", transaction="*/close"),
        PolicyRule("clerk", "allow", agent="clerk"),
    ]
    assert said(rules, run="night-7") == ("allow", "night")
    assert said(rules, transaction="eod/close") == ("allow", "close")
    assert said(rules, agent="clerk") == ("allow", "clerk")
    assert said(rules, agent="Clerk") == ("deny", "default")


@pytest.mark.parametrize(
    ("amount", "verdict"),
    [(1000, "allow"), ("1000.00", "allow"), (Decimal("1000.01"), "ask"), (1e6, "ask"), (10**6 + 1, "deny")],
)
def test_amounts_are_compared_exactly(amount, verdict):
    rules = [
        PolicyRule("small", "allow", amount="{order.total}", up_to=1000),
        PolicyRule("large", "ask", amount="{order.total}", up_to="1000000"),
    ]
    assert said(rules, order={"total": amount})[0] == verdict


@pytest.mark.parametrize(
    "arguments", [{}, {"amount": "much"}, {"amount": -1}, {"amount": float("nan")}, {"amount": None}]
)
def test_a_call_without_an_amount_is_none_of_those_up_to_one(arguments):
    rules = [PolicyRule("small", "allow", amount="{amount}", up_to=1000), PolicyRule("rest", "ask")]
    assert said(rules, **arguments) == ("ask", "rest")


# ---- where


def test_a_rule_speaks_of_its_scope_and_all_below_it():
    rules = [PolicyRule("ops", "allow", scope=OPS)]
    assert said(rules, "wire", OPS) == said(rules, "wire", f"{OPS}/usd") == ("allow", "ops")
    assert said(rules, "wire", TAX) == ("deny", "default")
    assert said(rules, "wire", "room:/ops") == ("deny", "default")


def test_a_call_of_several_scopes_gets_the_strictest_verdict():
    rules = [PolicyRule("ops", "allow", scope=OPS), PolicyRule("tax", "ask", scope=TAX)]
    assert said(rules, "wire", OPS, TAX) == said(rules, "wire", TAX, OPS) == ("ask", "tax")
    assert said(rules, "wire", OPS, "account:/other") == ("deny", "default")


@pytest.mark.parametrize("broad", ["account:", "account:/*", "account:/**"])
def test_a_broad_scope_gets_the_strictest_verdict_of_its_parts(broad):
    a_part = [PolicyRule("ops", "allow", scope=OPS)]
    assert said(a_part, "wire", broad) == ("deny", "default")
    asked = [*a_part, PolicyRule("tax", "ask", scope=TAX), PolicyRule("others", "allow", scope="account:")]
    assert said(asked, "wire", broad) == ("ask", "tax")
    refused = [PolicyRule("tax", "ask", scope=TAX), PolicyRule("vault", "deny", scope="account:/vault"), asked[-1]]
    assert said(refused, "wire", broad) == ("deny", "vault")


# ---- what is no policy


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"name": ""}, "the name of a rule"),
        ({"name": "default"}, "named 'default'"),
        ({"verdict": "maybe"}, "choose one of 'allow', 'ask', 'deny'"),
        ({"tool": ""}, "tool= of the rule 'r'"),
        ({"run": 7}, "run= of the rule 'r'"),
        ({"amount": "{amount}"}, "go together"),
        ({"up_to": 7}, "go together"),
        ({"amount": "amount", "up_to": 7}, "name the argument"),
        ({"amount": "{amount}", "up_to": "much"}, "which is no number"),
        ({"amount": "{amount}", "up_to": 7, "verdict": "deny"}, "so that more would be allowed"),
    ],
)
def test_what_is_no_rule_is_refused(options, match):
    given = {"name": "r", "verdict": "allow", **options}
    with pytest.raises(UsageError, match=match):
        PolicyRule(given.pop("name"), given.pop("verdict"), **given)


def test_a_rule_with_a_malformed_scope_is_refused():
    with pytest.raises(ScopeError):
        PolicyRule("r", "allow", scope="account")


RULE = PolicyRule("r", "allow")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"version": ""}, "the version of a policy"),
        ({}, "denies all"),
        ({"rules": [RULE, RULE]}, "several rules named 'r'"),
        ({"rules": ["allow"]}, "is no rule"),
        ({"rules": [RULE], "default": "no"}, "choose one of"),
        ({"rules": [RULE], "judge": print}, "leave rules= and default= out"),
        ({"default": "ask", "judge": print}, "leave rules= and default= out"),
        ({"judge": 7}, "is no function"),
        ({"rules": [RULE], "agent": 7}, "is no function"),
        ({"rules": [PolicyRule("r", "allow", agent="a")]}, "asks for an agent"),
    ],
)
def test_what_is_no_policy_is_refused(options, match):
    given = {"version": "v7", **options}
    with pytest.raises(UsageError, match=match):
        Policy(given.pop("version"), **given)


def test_a_policy_that_is_a_function_has_no_table_to_ask():
    with pytest.raises(UsageError, match="call its judge"):
        Policy("v7", judge=lambda call: "allow").judged(call())


def test_two_tables_of_one_version_are_told_apart():
    rules = [PolicyRule("small", "allow", amount="{amount}", up_to=up_to) for up_to in ("10", "10.0", 11)]
    same, equal, other = (Policy("v7", [rule]).digest for rule in rules)
    assert same == equal != other
