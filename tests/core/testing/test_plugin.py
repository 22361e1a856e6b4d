"""The fixtures a user of pytest has: found through the entry point, and costing nothing until they are asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest_settlemark

CORE = Path(pytest_settlemark.__file__).parent

AGENT = """
import pytest
from settlemark import Settlement, current_call, effect

OPENING = {"ops": 100, "fund": 0}

def agent(bank, **parts):
    @effect("irreversible", scope="account:/{source}", **parts)
    def wire(source, target, amount):
        return bank.wire(current_call().key, source, target, amount)

    def run(settlement):
        with settlement.transaction("sweep") as tx:
            tx.call(wire, source="ops", target="fund", amount=30)

    return run

def test_it_settles(settlemark_bank, prove_settlement):
    bank = settlemark_bank(OPENING)
    run = agent(bank, probe=lambda key: bank.status(key))
    prove_settlement(run, bank.balances, rerun=True).assert_ok()

def test_it_does_not(settlemark_bank, prove_settlement):
    bank = settlemark_bank(OPENING, keyed=False)
    prove_settlement(agent(bank, keyed=True), bank.balances).assert_ok()

def test_time_stands_still(settlemark_ledger, settlemark_clock):
    with Settlement(settlemark_ledger, **settlemark_clock.options()) as settlement:
        settlemark_clock.advance(60)
        with settlement.transaction("trip") as tx:
            tx.call(print)
        assert settlement.transactions()[0].row.at == settlemark_clock()

def test_a_provider_books(settlemark_provider):
    settlemark_provider.book("hotel", trip="t1")
    assert settlemark_provider.picture() == [{"kind": "hotel", "trip": "t1"}]

def test_a_ledger_is_new(settlemark_ledger, tmp_path):
    assert settlemark_ledger.startswith(f"sqlite:///{tmp_path}")
    assert list(tmp_path.iterdir()) == []
"""


def run(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_settlemark", "-p", "no:cacheprovider", "-q", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(CORE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    )


def test_a_users_tests_have_the_fixtures_and_a_broken_agent_fails_with_its_proof(tmp_path):
    (tmp_path / "test_agent.py").write_text(AGENT)
    done = run(tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert "FAILED test_agent.py::test_it_does_not" in done.stdout
    assert "after 2. wire (release): TORN" in done.stdout
    assert "'fund': 60, 'ops': 40" in done.stdout


def test_every_fixture_says_what_it_is(tmp_path):
    done = run(tmp_path, "--fixtures")
    own = [line for line in done.stdout.splitlines() if "pytest_settlemark.py:" in line]
    assert {line.split(" -- ")[0] for line in own} == {
        "prove_settlement",
        "settlemark_bank",
        "settlemark_clock",
        "settlemark_ledger",
        "settlemark_mailbox",
        "settlemark_provider",
    }
    assert "no docstring available" not in done.stdout.split("pytest_settlemark.py:", 1)[1]


def test_loading_it_loads_nothing_of_settlemark():
    code = "import pytest, sys; before = set(sys.modules); import pytest_settlemark; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(CORE)},
    )
    assert done.stdout.split() == ["pytest_settlemark"]


def test_pytest_finds_it_by_its_entry_point():
    project = CORE.parent / "pyproject.toml"
    points = tomllib.loads(project.read_text())["project"]["entry-points"]["pytest11"]
    assert points == {"settlemark": pytest_settlemark.__name__}
