"""Worker processes on one store, and the desk they all act at."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from settlemark import Settlement
from settlemark.hosting import host_of

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from world import Desk, tools  # noqa: E402 - the path is the line above

PATIENCE = 300  # on a machine that is busy: nobody hangs


class Crew:
    """Worker processes that run agents against one desk over one store, and may be killed."""

    def __init__(self, url, home, *, lease=3.0):
        self.url = url
        self.home = home
        self.lease = lease
        self.desk = Desk(home / "desk.db")
        self.tools = tools(self.desk)
        self.running = {}
        self.killed = 0
        self.over = home / "over"
        self._told_before = {}

    def start(self, number, *, seed=1, env=None):
        """Start a worker that works until it is told that the work is over."""
        asked = (self.url, self.home / "desk.db", seed, number, self.over, self.lease)
        self.begin(number, "agent.py", *asked, env=env)

    def begin(self, number, program, *asked, env=None):
        """Begin a worker's process, which is to say `ready` when it has joined the store."""
        self._told_before[number] = len(self.told(number))
        paths = os.pathsep.join([str(HERE.parents[2] / "core"), os.environ.get("PYTHONPATH", "")])
        with (self.home / f"worker-{number}").open("a") as out:
            self.running[number] = subprocess.Popen(
                [sys.executable, str(HERE / program), *map(str, asked)],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": paths, **(env or {})},
            )

    def kill_at_random(self, enough, *, each, seed):
        """Kill a worker about `each` seconds and start it anew, until there was enough of it; then the work is over.

        A worker that has yet to join the store is left alone: on a busy machine nobody would ever do anything.
        """
        draw, pause = random.Random(seed), threading.Event()
        end = time.monotonic() + PATIENCE
        while not enough():
            assert time.monotonic() < end, self.told()
            pause.wait(draw.expovariate(1 / each))
            joined = [number for number in sorted(self.running) if self.has_joined(number)]
            if joined:
                number = draw.choice(joined)
                self.kill(number)
                self.start(number)
        self.say_it_is_over()

    def has_joined(self, number):
        """Whether a worker's newest process has joined the store."""
        return "ready" in self.told(number)[self._told_before[number] :]

    def say_it_is_over(self):
        """Tell the workers that the work is over, once each has done something."""
        self.over.touch()

    def kill(self, number):
        self.running[number].send_signal(signal.SIGKILL)
        self.running[number].wait(PATIENCE)
        self.killed += 1

    def finish(self):
        """Wait until every worker is done."""
        for worker in self.running.values():
            assert worker.wait(PATIENCE) == 0, self.faults()

    def faults(self):
        """What the workers said that they should not have."""
        expected = ("ready", "committed", "done")
        return "\n".join(line for line in self.told().splitlines() if not line.startswith(expected))

    def told(self, number="*"):
        """What the workers said, all of them or one."""
        return "".join(path.read_text() for path in sorted(self.home.glob(f"worker-{number}")))

    def settle_the_rest(self):
        """Return a settlement that has taken up everything that was left, and does nothing more by itself.

        Whoever judges looks at the record and then at the desk's log: nothing may be undone in between.
        """
        settlement = Settlement(self.url, lease=self.lease, keep_open=0.0)
        host = host_of(settlement)
        host._maintenance.stop()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            undone = settlement.recover(keep_open=0.0).undone
            if not (undone or host.protocol.live):
                break
        return settlement

    def close(self):
        for worker in self.running.values():
            if worker.poll() is None:
                worker.kill()
                worker.wait(PATIENCE)


def wait_until(happened):
    """Return when something has happened in the processes, which nobody here is told of."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while not happened():
        assert time.monotonic() < end
        pause.wait(0.02)


@pytest.fixture(params=["sqlite", "postgres"])
def shared_url(request, tmp_path):
    """The URL of a fresh store that processes can share."""
    return (
        f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )


@pytest.fixture
def make_crew(tmp_path):
    crews = []

    def make(url, **options):
        crew = Crew(url, tmp_path, **options)
        crews.append(crew)
        return crew

    yield make
    for crew in crews:
        crew.close()
