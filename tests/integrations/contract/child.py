"""What is killed: one job of two turns and one that is undone, played by a named framework.

`python -m tests.integrations.contract.child NAME` loads a framework once. Then each line it reads is a job to play in
a copy of itself, which is a process of its own and may die; it answers with how that ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

from tests.integrations.contract.conftest import driver_of
from tests.integrations.contract.world import turns, unfinished
from tests.integrations.langgraph.death.office import Office

from settlemark import Settlement, current_call, effect
from settlemark.testing import die, in_child

SCRIPT = turns(
    [("look", "Ada"), ("book", "Ada"), ("mail", "ada")],
    [("book", "Cee"), ("rent", "X"), ("mail", "cee")],
    [("book", "Bee"), ("mail", "bee")],
)
"""In the second turn no car is to be had, so it is undone."""

PLANS = {
    "the same": SCRIPT,
    "only a look": turns([("look", "Ada")]),
    "a look first": turns([("look", "Ada")], [("book", "Ada"), ("mail", "ada")]),
    "other calls": turns([("book", "Dee"), ("mail", "dee")]),
    "a turn less": SCRIPT[:2],
    "no calls": [],
}
"""What the model says when a new process asks it anew."""

GOALS = {
    ("book", "Ada"): 1,
    ("mail", "ada"): 1,
    ("book", "Bee"): 1,
    ("mail", "bee"): 1,
    ("book", "Cee"): 0,
    ("mail", "cee"): 0,
}
PATIENCE = 60.0
INSTEAD = {"Ada": "Zoe", "ada": "zoe"}
"""What a hook makes of some arguments, where calls are rewritten before they run."""


def rewrite(_tool, arguments):
    return {**arguments, "what": INSTEAD.get(arguments["what"], arguments["what"])}


class Points:
    """Counts what a process comes by, and kills it at the chosen point."""

    def __init__(self, at):
        self.seen = []
        self._at = at
        self._counts = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def around(self, what):
        with self._lock:
            self._counts[what] += 1
            number = self._counts[what]
        self._pass(f"before {what} #{number}")
        yield
        self._pass(f"after {what} #{number}")

    def _pass(self, point):
        with self._lock:
            self.seen.append(point)
            if point == self._at:
                die()


def tools(office, points):
    """Tools that act at the office, under their calls' keys."""

    def at_office(verb, what):
        call = current_call()
        with points.around(f"{verb} {what}"):
            return f"{verb} {what}: number {office.act(verb, what, call and call.key)}"

    def cancel(what, key):
        with points.around(f"cancel {what}"):
            office.act("cancel", what, key)

    def knows(verb):
        def probe(what, key):
            number = office.knows(verb, key)
            return None if number is None else f"{verb} {what}: number {number}"

        return probe

    @effect("reversible", scope="room:/{what}", undo=cancel, probe=knows("book"))
    def book(what: str) -> str:
        """Book a room."""
        return at_office("book", what)

    @effect("irreversible", scope="mail:/{what}", probe=knows("mail"))
    def mail(what: str) -> str:
        """Send a mail."""
        return at_office("mail", what)

    @effect("read", scope="room:/{what}")
    def look(what: str) -> str:
        """Look a room up."""
        with points.around(f"look {what}"):
            return "a room"

    @effect("reversible", scope="car:/{what}", undo=cancel)
    def rent(what: str) -> str:
        """Rent a car: there is none."""
        raise ValueError("no car is to be had")

    return [book, mail, look, rent]


def within(driver, found, script, settlement, deep):
    """Return the tools and the script of an agent whose only call has that done by another one, so many levels deep."""
    if deep == 0:
        return found, script

    @effect("idempotent", scope="task:/{what}", keyed=True)
    def task(what: str) -> str:
        """Have it done."""
        inner = within(driver, found, script, settlement, deep - 1)
        return f"task: {len(driver_of(driver.name).run(*inner, settlement=settlement, run=f'inner-{deep}'))} calls"

    return [task], turns([("task", "it")])


def played(name, folder, at, settled, plan, rewritten, deep):
    """Play the job, or go on with it, and return what can be told of it."""
    points = Points(at)
    driver = driver_of(name)
    driver.rewrite = rewrite if rewritten else None
    driver.folder = folder / "framework"
    driver.folder.mkdir(exist_ok=True)
    opened = Settlement(f"sqlite:///{folder / 'ledger.db'}", wait=20) if settled else nullcontext()
    with opened as settlement:
        found = tools(Office(folder / "office.jsonl"), points)
        job = within(driver, found, PLANS[plan], settlement, deep)
        answers = driver.run(*job, settlement=settlement, run="trip-42")
        told = {"points": points.seen, "texts": [text for _, text in answers], "unfinished": [], "left": []}
        if settlement is not None:
            told["open"] = unfinished(settlement)
            settlement.recover(keep_open=0)
            told["unfinished"] = unfinished(settlement)
            told["left"] = [f"{left.tool} on {left.scope}" for left in settlement.residue()]
            told["left"] += [f"{doubt.tool} on {doubt.scope}" for doubt in settlement.in_doubt()]
    return told


# ---- the processes


class Nursery:
    """Has a framework loaded in another process, and jobs played in copies of that."""

    def __init__(self, name):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integrations.contract.child", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.cannot_resume = self._answer()["cannot_resume"]

    def play(self, folder, *, at, settled, plan="the same", rewritten=False, deep=0):
        """Return how a process ended that played the job in this folder; one that fails or hangs is an error here."""
        asked = {
            "folder": str(folder),
            "at": at,
            "settled": settled,
            "plan": plan,
            "rewritten": rewritten,
            "deep": deep,
        }
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        ended = self._answer()
        assert ended["error"] is None, f"{at}: {ended['error']}"
        assert not ended["late"], f"{at}: it hangs: {ended['stack']}"
        return ended

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, "the framework was not loaded, or ended its process"
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


def main(name):
    """Serve a nursery."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a framework prints is none of the answers
    print(json.dumps({"cannot_resume": driver_of(name).cannot_resume}), file=told, flush=True)
    assert threading.active_count() == 1, f"{name} starts threads when it is loaded: {threading.enumerate()}"
    for line in sys.stdin:
        asked = json.loads(line)
        folder = Path(asked.pop("folder"))
        ended = in_child(
            lambda tell, asked=asked, folder=folder: tell(played(name, folder, **asked)),
            timeout=PATIENCE,
        )
        told_of = {**asdict(ended), "killed": ended.killed, "told": (ended.told or [None])[0]}
        print(json.dumps(told_of), file=told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
