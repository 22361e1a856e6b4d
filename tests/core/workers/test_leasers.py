"""One checkout, two agents in processes of their own: one that stood still finds the other's work untouched by it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.core.workers.conftest import HERE

START = 1_767_268_800.0

pytestmark = pytest.mark.deep


class Clock:
    """The store's clock: a file that the test writes and every process reads."""

    def __init__(self, file):
        self.file = file
        self.advance(START)

    def __call__(self):
        return float(self.file.read_text()) if self.file.exists() else 0.0

    def advance(self, seconds):
        aside = self.file.with_suffix(".new")
        aside.write_text(str(self() + seconds))
        aside.replace(self.file)


class Agent:
    """A process that does as it is told."""

    def __init__(self, *asked):
        command = [sys.executable, str(HERE / "leaser.py"), *map(str, asked)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, command):
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def signal(self, number):
        os.kill(self.process.pid, number)

    def end(self):
        self.process.kill()
        self.process.wait(20)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def agents(shared_url, clock, root):
    found = {who: Agent(shared_url, root, clock.file, who) for who in ("ada", "bob")}
    yield found
    for agent in found.values():
        agent.end()


def test_a_holder_that_stood_still_is_kept_out_by_the_files_and_told_by_the_ledger(agents, clock, root):
    ada, bob = agents["ada"], agents["bob"]
    first = ada("lease")["token"]
    assert bob("lease") == {"held": "ada", "since": START, "free_at": START + 70}
    assert ada("write ada's") == {"path": "log.txt", "bytes": 5}

    ada.signal(signal.SIGSTOP)
    clock.advance(61)
    assert bob("lease") == {"held": "ada", "since": START, "free_at": START + 71}  # not yet is not no longer
    clock.advance(10)
    second = bob("lease")["token"]
    assert bob("write bob's") == {"path": "log.txt", "bytes": 5}
    ada.signal(signal.SIGCONT)

    assert ada("write late") == {"fenced": "bob", "token": first, "current": second}
    assert ada("renew") == {"fenced": "bob", "token": first, "current": second}
    assert (root / "log.txt").read_text() == "bob's"

    bob.signal(signal.SIGKILL)
    clock.advance(61)
    assert ada("lease") == {"held": "bob", "since": START + 71, "free_at": START + 142}
    clock.advance(10)
    third = ada("lease")["token"]
    assert ada("write again") == {"path": "log.txt", "bytes": 5}
    assert first < second < third
    assert (root / "log.txt").read_text() == "again"
