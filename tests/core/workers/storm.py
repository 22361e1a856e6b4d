"""Bad weather for workers: they are killed, stopped, put to sleep, their clocks are set, and their wires are cut."""

from __future__ import annotations

import os
import random
import shutil
import signal
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

from proxy import CUTS
from tests.core.workers.conftest import wait_until

HERE = Path(__file__).parent
DWELL = 0.1  # seconds at most for which a request is on its way: so that what strikes a worker strikes it at a call
EACH = {"kill": 1.5, "stop": 1.0, "sleep": 2.5, "clock": 0.8, "cut": 2.0}
"""Seconds between two of a kind, on average."""


def clock_shim(folder):
    """Return the shim that sets the clocks of a process, or None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    shim = folder / "clocks.so"
    made = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", shim, HERE / "clocks.c", "-ldl", "-lm"], check=False
    )
    return shim if made.returncode == 0 else None


class Storm:
    """Does harm to a crew for a while, and counts what it has done.

    Args:
        crew: whose workers; they are started by `rage`.
        proxy: the wire between them and the store, if it is one that can be cut.
        shim: what sets a worker's clocks, if there is one.
    """

    def __init__(self, crew, *, proxy=None, shim=None, seed=1):
        self.crew = crew
        self.proxy = proxy
        self.shim = shim
        self.draw = random.Random(seed)
        self.done = Counter()
        self._clocks = {}
        self._asleep = {}  # number: when it wakes, and for how long its monotonic clock stood still

    def start(self, number):
        env = {"SETTLEMARK_TEST_DWELL": str(DWELL)}
        if self.shim is not None:
            clocks = self._clocks.setdefault(number, self.crew.home / f"clocks-{number}")
            clocks.write_bytes(struct.pack("dd", self.draw.uniform(-5000, 5000), 0))
            env |= {"LD_PRELOAD": str(self.shim), "SETTLEMARK_TEST_CLOCKS": str(clocks)}
        self.crew.start(number, env=env)

    def rage(self, workers, seconds):
        """Let so many workers, each with work done before, go through it, until it is over and all are awake."""
        for number in range(1, workers + 1):
            self.start(number)
        wait_until(lambda: all("committed " in self.crew.told(number) for number in range(1, workers + 1)))
        end = time.monotonic() + seconds
        due = {kind: time.monotonic() + self.draw.expovariate(1 / each) for kind, each in EACH.items()}
        while (now := time.monotonic()) < end:
            for number in [n for n, (until, _) in self._asleep.items() if now >= until]:
                self._wake(number)
            for kind in [kind for kind, at in due.items() if now >= at]:
                due[kind] = now + self.draw.expovariate(1 / EACH[kind])
                number = self.draw.choice(sorted(self.crew.running))
                if self.crew.running[number].poll() is None and end - now > 1:
                    getattr(self, kind)(number)
            time.sleep(0.01)
        for number in list(self._asleep):
            self._wake(number)
        self.crew.say_it_is_over()

    def kill(self, number):
        self._asleep.pop(number, None)
        self.crew.kill(number)
        self.start(number)
        self.done["kills"] += 1

    def stop(self, number):
        self._lay(number, self.draw.uniform(0.2, 5.0), sleeps=False)

    def sleep(self, number):
        self._lay(number, self.draw.uniform(0.5, 3.0), sleeps=self.shim is not None)

    def clock(self, number):
        if self.shim is not None:
            self._set(number, wall=self.draw.choice([-3600, -60, -2, 2, 60, 3600, 86_400]))
            self.done["clock steps"] += 1

    def cut(self, _number):
        if self.proxy is not None:
            self.proxy.cut(self.draw.choice(CUTS), self.draw.uniform(0.05, 2.5), self.draw)
            self.done["cuts"] += 1

    def _lay(self, number, seconds, *, sleeps):
        if number not in self._asleep:
            os.kill(self.crew.running[number].pid, signal.SIGSTOP)
            self._asleep[number] = (time.monotonic() + seconds, seconds if sleeps else 0.0)
            self.done["sleeps" if sleeps else "stops"] += 1

    def _wake(self, number):
        _, asleep = self._asleep.pop(number)
        if asleep:
            self._set(number, asleep=asleep)
        os.kill(self.crew.running[number].pid, signal.SIGCONT)

    def _set(self, number, *, wall=0.0, asleep=0.0):
        with self._clocks[number].open("r+b") as file:
            before = struct.unpack("dd", file.read(16))
            file.seek(0)
            file.write(struct.pack("dd", before[0] + wall, before[1] + asleep))


__all__ = ["Storm", "clock_shim"]
