"""`settlemark verdicts`: what policies have said of calls."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from tests.rooms.cli import build
from typer.testing import CliRunner

from settlemark import Denied, Policy, PolicyRule, Settlement, effect


@effect("irreversible", scope="account:/{account}")
def wire(account, amount): ...


POLICY = Policy("treasury-v7", [PolicyRule("small", "allow", amount="{amount}", up_to=100)])


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "t.db"
    with Settlement(f"sqlite:///{path}", policy=POLICY) as settlement:
        for run, amount in (("eod", 5), ("late", 5_000)):
            with settlement.transaction(run) as tx, suppress(Denied):
                tx.call(wire, account="ops", amount=amount)
    return path


def run(*arguments):
    return CliRunner().invoke(build(), ["verdicts", *map(str, arguments)])


def test_each_verdict_is_told_with_its_rule_and_the_policys_version(ledger):
    told = run(ledger)
    assert told.exit_code == 0
    allowed, key, denied, _ = told.stdout.splitlines()
    assert allowed.startswith("eod: wire on account:/ops was allowed, ")
    assert allowed.endswith(", by the rule small of treasury-v7")
    assert key.endswith("eod#1/0")
    assert denied.startswith("late: wire on account:/ops was denied, ")


def test_what_was_denied_exits_with_1_and_else_with_0(ledger):
    assert (run(ledger, "--denied").exit_code, run(ledger, "--denied", "--run", "eod").exit_code) == (1, 0)


def test_json_has_every_field(ledger):
    (said,) = json.loads(run(ledger, "--run", "late", "--json").stdout)
    assert said.pop("at") > 0
    assert said.pop("key").endswith("late#1/0")
    assert said == {
        "verdict": "deny", "rule": "default", "policy": "treasury-v7", "tool": "wire", "scope": "account:/ops",
        "transaction": "late", "attempt": 1, "run": "late", "version": 1,
    }  # fmt: skip # a table


def test_where_no_policy_was_nothing_was_said(tmp_path):
    with Settlement(f"sqlite:///{tmp_path / 't.db'}") as settlement, settlement.transaction("eod") as tx:
        tx.call(wire, account="ops", amount=5)
    assert run(tmp_path / "t.db").stdout == "No policy has said anything.\n"


def test_why_tells_the_verdict_on_an_effect(ledger):
    told = CliRunner().invoke(build(), ["why", "--run", "eod", str(ledger)]).stdout
    assert "allowed by the rule small of the policy treasury-v7" in told
