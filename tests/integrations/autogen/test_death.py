"""SIGKILL between and within the agents of a graph: a new process skips none and repeats none."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from tests.integrations.autogen.child import DONE, DONE_WITHIN, POINTS, POINTS_WITHIN, Nursery
from tests.integrations.langgraph.death.office import Office
from tests.servers import _roomy_memory

from settlemark.testing import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="a process is killed in a copy of another")


@pytest.fixture(scope="module")
def nursery():
    """A process that has loaded AutoGen, and from which those that die are copied."""
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def folder():
    folder = Path(tempfile.mkdtemp(dir=_roomy_memory()))
    yield folder
    shutil.rmtree(folder)


def die(nursery, folder, at, *, settled, keeps):
    """Kill a job there, go on with it in another process, and return what the office logged and what is left."""
    case = folder / at.replace(" ", "-")
    case.mkdir()
    assert nursery.play(case, at=at, settled=settled, keeps=keeps)["killed"], f"{at} was not come by"
    (told,) = nursery.play(case, settled=settled, keeps=keeps)["told"]
    assert told["stopped"] == "Digraph execution is complete"
    return [f"{entry['verb']} {entry['what']}" for entry in Office(case / "office.jsonl").log()], told["left"]


@pytest.mark.parametrize("keeps", [True, False], ids=["state is loaded", "begun again"])
def test_wherever_the_process_dies_each_agents_effects_happen_once_and_in_order(
    nursery, folder, keeps, record_property
):
    found = {at: die(nursery, folder, at, settled=True, keeps=keeps) for at in POINTS}

    # "again" is a request under a key that the office knows: nothing happens.
    assert {at: log for at, (log, _) in found.items() if [e for e in log if "again" not in e] != DONE} == {}
    assert {at: left for at, (_, left) in found.items() if left} == {}
    record_property("explored_deaths of a graph of AutoGen agents", len(POINTS))


@pytest.mark.parametrize("deep", [1, 2])
def test_wherever_the_process_dies_in_an_agent_that_anothers_tool_runs_its_effects_happen_once(nursery, folder, deep):
    found = {}
    for at in POINTS_WITHIN:
        case = folder / at.replace(" ", "-")
        case.mkdir()
        assert nursery.play(case, at=at, settled=True, deep=deep)["killed"], f"{at} was not come by"
        (told,) = nursery.play(case, settled=True, deep=deep)["told"]
        log = [f"{entry['verb']} {entry['what']}" for entry in Office(case / "office.jsonl").log()]
        found[at] = [entry for entry in log if "again" not in entry], told["left"]

    assert {at: log for at, (log, _) in found.items() if sorted(log) != sorted(DONE_WITHIN)} == {}
    assert {at: log for at, (log, _) in found.items() if log[-2:] != DONE_WITHIN[-2:]} == {}
    assert {at: left for at, (_, left) in found.items() if left} == {}


@pytest.mark.parametrize(
    ("at", "keeps", "twice"),
    [
        ("clerk is asked", False, ["book Ada", "mail ada", "rent X", "mail garage"]),
        ("after mail garage", True, ["mail garage"]),
    ],
)
def test_with_stock_what_was_done_is_done_again(nursery, folder, at, keeps, twice):
    log, _ = die(nursery, folder, at, settled=False, keeps=keeps)

    # Of calls that run beside each other, others may have been done, too.
    assert {entry for entry in log if log.count(entry) == 2} >= {*twice}
