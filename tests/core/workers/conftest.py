"""Worker processes on one store, and the desk they all act at."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from settlemark import Settlement
from settlemark.hosting import host_of

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from world import Desk, tools  # noqa: E402 - the path is the line above

PATIENCE = 60


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

    def start(self, number, seconds, *, seed=1, env=None):
        """Start a worker that works for so many seconds, and return when it has joined the store."""
        asked = (self.url, self.home / "desk.db", seed, number, seconds, self.lease)
        command = [sys.executable, str(HERE / "agent.py"), *map(str, asked)]
        out = (self.home / f"worker-{number}").open("a")
        paths = os.pathsep.join([str(HERE.parents[2] / "core"), os.environ.get("PYTHONPATH", "")])
        worker = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": paths, **(env or {})}
        )
        out.close()
        self.running[number] = worker
        return worker

    def kill_at_random(self, seconds, *, each, seed):
        """For so many seconds, kill a worker about `each` seconds and start it anew."""
        draw = random.Random(seed)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            number = draw.choice(sorted(self.running))
            try:
                self.running[number].wait(min(left, draw.expovariate(1 / each)))
            except subprocess.TimeoutExpired:
                if end - time.monotonic() > 1:
                    self.kill(number)
                    self.start(number, end - time.monotonic())

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
