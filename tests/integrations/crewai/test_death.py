"""SIGKILL in the middle of a crew, and its going on in another process: real files, and a counterparty with a log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.integrations.crewai.child import Counterparty, main

from settlemark import Settlement, State

ROOT = Path(__file__).resolve().parents[3]
WORK = ["book Ada", "book Bee", "mail ada", "publish trip"]
DEATHS = ["after book Ada", "after mail ada", "writer asks for 0"]
MORE_DEATHS = [
    "before book Ada", "before book Bee", "after book Bee", "before mail ada", "clerk asks for 1",
    "before publish trip", "after publish trip", "writer asks for 1",
]  # fmt: skip # a list of names and values
FORGETS = ["after mail ada"]
MORE_FORGETS = ["after book Ada", "clerk asks for 1", "writer asks for 0", "writer asks for 1"]


def some(few, more):
    return [*few, *(pytest.param(where, marks=pytest.mark.long) for where in more)]


@pytest.fixture
def killed(tmp_path):
    """Run the crew in a process of its own, until it is killed."""

    def run(side, where, *crew):
        path = os.pathsep.join([str(ROOT), *(str(ROOT / part) for part in ("core", "adapters", "integrations"))])
        done = subprocess.run(
            [sys.executable, "-m", "tests.integrations.crewai.child", str(tmp_path), side, where, *crew],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    return run


@pytest.mark.timeout(200)
@pytest.mark.parametrize("where", some(DEATHS, MORE_DEATHS))
def test_a_crew_that_was_killed_goes_on_and_does_each_thing_once(killed, tmp_path, where):
    killed("ours", where)

    assert main(tmp_path, "ours") == "published"

    did = Counter(act["what"] for act in Counterparty(tmp_path).acts())
    undone = Counter({what.replace("cancel", "book"): n for what, n in did.items() if what.startswith("cancel")})
    assert did - undone - Counter({what: n for what, n in did.items() if what.startswith("cancel")}) == Counter(WORK)
    with Settlement(f"sqlite:///{tmp_path}/ledger.db") as settlement:
        assert {found.state for found in settlement.transactions()} <= {State.COMMITTED, State.ABORTED}
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])


DELEGATED = ["book Ada", "book Bee", "publish trip", "mail ada"]


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "where",
    some(
        ["after book Ada", "lead asks for 1", "after mail ada"],
        ["before book Ada", "after book Bee", "clerk asks for 1", "writer asks for 0", "before publish trip",
         "after publish trip", "writer asks for 1", "before mail ada", "manager asks for 1"],
    ),
)  # fmt: skip # a table of values
def test_a_hierarchy_that_was_killed_goes_on_two_levels_deep_and_does_each_thing_once(killed, tmp_path, where):
    killed("ours", where, "hierarchy")

    assert main(tmp_path, "ours", which="hierarchy") == "published"

    assert [act["what"] for act in Counterparty(tmp_path).acts()] == DELEGATED
    with Settlement(f"sqlite:///{tmp_path}/ledger.db") as settlement:
        assert {found.state for found in settlement.transactions()} <= {State.COMMITTED, State.ABORTED}
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])


@pytest.mark.timeout(200)
@pytest.mark.parametrize("where", some(FORGETS, MORE_FORGETS))
def test_with_stock_it_does_things_twice(killed, tmp_path, where):
    killed("stock", where)

    assert main(tmp_path, "stock") == "published"

    did = Counter(act["what"] for act in Counterparty(tmp_path).acts())
    assert did > Counter(WORK)


def test_a_crew_that_has_ended_only_tells_what_it_came_to(tmp_path):
    assert [main(tmp_path, "ours"), main(tmp_path, "ours")] == ["published", "published"]

    assert [act["what"] for act in Counterparty(tmp_path).acts()] == WORK
