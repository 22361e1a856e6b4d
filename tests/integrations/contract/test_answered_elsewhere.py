"""A question that is answered at a terminal alone: whoever comes back to the job goes on with that answer, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest
from tests.integrations.contract.answering import PATIENCE, url
from tests.integrations.contract.conftest import missing
from tests.integrations.langgraph.death.office import Office

from settlemark import Settlement
from settlemark.testing import can_fork

pytestmark = pytest.mark.skipif(not can_fork(), reason="a process is killed in a copy of another")

BOOKED, DONE, UNDONE = [("book", "Ada")], [("book", "Ada"), ("pay", "hotel"), ("mail", "ada")], ("cancel", "Ada")
YES, HALF = ("approve",), ("edit", json.dumps({"what": "half"}))
NO = ("reject", "--because", "too dear")


class Processes:
    """Has a framework loaded in another process, and copies of that begin a job, or go on with it."""

    def __init__(self, name):
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.contract.answering", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._answer()

    def play(self, folder, at=None):
        """Begin a job, or go on with it, and return how that process ended."""
        return self._copy({"folder": str(folder), "at": at})

    def terminal(self, *arguments):
        """Be at a terminal, and return the exit status."""
        return self._copy({"terminal": arguments})["told"][0]

    def _copy(self, part):
        self._process.stdin.write(json.dumps(part) + "\n")
        self._process.stdin.flush()
        ended = self._answer()
        assert (ended["error"], ended["late"]) == (None, False), ended
        return ended

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, "the framework was not loaded, or ended its process"
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


@pytest.fixture(scope="module", params=["autogen", "pydantic_ai", "crewai"])
def processes(request):
    """LangGraph has tests of its own, with its interrupts."""
    if missing(request.param):
        pytest.skip(missing(request.param))
    processes = Processes(request.param)
    yield processes
    processes.close()


class Job:
    """One job, whose process has asked, and has ended since."""

    def __init__(self, processes, folder):
        self.folder = folder
        self._processes = processes
        # CrewAI has no way to put a turn aside: its process asks until somebody answers, or it dies.
        asks = processes.play(folder, at="asking")
        assert asks["killed"] is (processes.name == "crewai")
        assert self.log == BOOKED
        with Settlement(url(folder)) as settlement:
            (question,) = settlement.approvals()
        self.key = question.key

    def say(self, verb, *options):
        return self._processes.terminal(verb, self.key, *options, url(self.folder), "--by", "ada")

    def go_on(self, at=None):
        return self._processes.play(self.folder, at)

    def until_settled(self):
        """Have a process come back until the turn has settled: one may end before its recovery has come to the turn."""
        deadline = time.monotonic() + PATIENCE
        while len(self.log) < len(DONE):
            assert time.monotonic() < deadline, self.log
            self.go_on()

    @property
    def log(self):
        return [(entry["verb"], entry["what"]) for entry in Office(self.folder / "office.jsonl").log()]

    def assert_over(self, state):
        with Settlement(url(self.folder)) as settlement:
            # CrewAI's crew has one more, of what its task came to.
            assert {found.state.value for found in settlement.transactions()} == {state}
            assert (settlement.residue(), settlement.in_doubt(), settlement.approvals()) == ([], [], [])


@pytest.fixture
def job(processes, tmp_path):
    return Job(processes, tmp_path)


@pytest.mark.parametrize(
    ("answer", "paid", "killed"),
    [(YES, "hotel", False), (HALF, "half", False), (HALF, "half", True)],
    ids=["yes", "other arguments", "other arguments, killed before it acts"],
)
def test_what_is_approved_at_a_terminal_happens_once_and_as_it_was_approved(processes, job, answer, paid, killed):
    """Also when the process that goes on with it is killed on its way."""
    said = [job.say(*answer), job.say(*answer), job.say(*NO)]
    before = job.log
    if killed:
        assert job.go_on(at="pay")["killed"]
    (texts,) = job.go_on()["told"]
    again = job.say(*NO)
    if killed:
        job.until_settled()

    assert (said, again, before) == ([0, 0, 1], 1, BOOKED)
    assert job.log == [("book", "Ada"), ("pay", paid), ("mail", "ada")]
    told = [text.split(":")[0] for text in texts[-3:]]
    # Where the turn has settled before AutoGen's agent comes back, there is nothing left that its next request goes on
    # with, and the agent is not told.
    assert told == ([] if killed and processes.name == "autogen" else ["book Ada", f"pay {paid}", "mail ada"])
    job.assert_over("committed")


def test_what_is_rejected_at_a_terminal_undoes_its_turn_and_the_model_is_told_why(job):
    said = [job.say(*NO), job.say(*YES)]
    (texts,) = job.go_on()["told"]

    assert (said, job.log) == ([0, 1], [*BOOKED, UNDONE])
    assert "too dear" in texts[-2]
    job.assert_over("aborted")


def test_a_process_that_still_asks_goes_on_with_what_is_answered_elsewhere(processes, tmp_path):
    if processes.name != "crewai":
        pytest.skip("it puts the turn aside, and no process of it asks")
    (texts,) = processes.play(tmp_path, at="answered meanwhile")["told"]

    log = [(entry["verb"], entry["what"]) for entry in Office(tmp_path / "office.jsonl").log()]
    assert log == DONE
    assert [text.split(":")[0] for text in texts] == ["book Ada", "pay hotel", "mail ada"]
