"""What settling adds to each framework's own cost of a tool call: the same job, stock and settled, in the same run.

A job is an agent that is made, and a script of turns that its model plays; a tool returns at once, or waits 50 ms. The
aims: 3 % of a tool of 50 ms for an effect, and no more than stock for reads. The toy is the contract suite's smallest
framework, which does next to nothing itself: beside it stands what settling costs alone. Nothing fails for being slow;
what is asserted is that every call acted, in the order issued, and was answered.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import sleep

import pytest
from tests.integrations.contract.conftest import EACH, driver_of
from tests.integrations.contract.driver import ScriptedCall

from settlemark import Settlement

STORES = ["memory", "a file in memory", "a file on disk"]
FIFTY = 0.05
_jobs = count()


class Desk:
    """A tool that waits `seconds`, and what it was called with, in the order in which the calls began."""

    def __init__(self, seconds=0.0):
        self.begun = []

        def work(number: int) -> str:
            """Work."""
            self.begun.append(number)
            if seconds:
                sleep(seconds)
            return f"worked {number}"

        self.tool = work


def script(turns, calls):
    """So many turns of so many calls each, numbered throughout."""
    return [
        [ScriptedCall("work", {"number": turn * calls + n}, f"call-{turn}-{n}") for n in range(calls)]
        for turn in range(turns)
    ]


def job(name, desk, settlement, *, turns, calls):
    """Play a job in a framework, under an id of its own, and return how many calls it made."""
    desk.begun.clear()
    answers = driver_of(name).run([desk.tool], script(turns, calls), settlement=settlement, run=f"{name}-{next(_jobs)}")
    assert [text for _, text in answers] == [f"worked {n}" for n in range(turns * calls)]
    assert sorted(desk.begun) == [*range(turns * calls)]
    return turns * calls


@pytest.fixture(params=EACH)
def framework(request):
    driver_of(request.param)  # loaded before anything is timed
    return request.param


@contextmanager
def settling(store, kind, folder):
    """A settlement in which `work` is an effect or a read."""
    memory = Path("/dev/shm")
    if store == "a file in memory" and not memory.is_dir():
        pytest.skip("there is no memory to keep a file in")
    made = Path(tempfile.mkdtemp(dir=memory if store == "a file in memory" else folder))
    url = "memory:" if store == "memory" else f"sqlite:///{made / 'ledger.db'}"
    with Settlement(url) as settlement:
        if kind == "read":
            settlement.declare("work", "read")
        else:
            settlement.declare("work", "reversible", scope="desk:/{number}", undo=_undo)
        yield settlement
    shutil.rmtree(made)


def _undo(number):
    raise AssertionError(number)


def synced_appends(folder, turns, calls):
    """What the effects of a turn have to wait for on a disk: an append for each intent, and one for the decision."""
    with (folder / "floor").open("ab", buffering=0) as file:
        for _ in range((calls + 1) * turns):
            file.write(bytes(256))
            os.fdatasync(file.fileno())
    return turns * calls


def beside_stock(gauge, name, framework, settlement, desk, *, turns, calls, floor=None):
    controls = {"stock": lambda: job(framework, desk, None, turns=turns, calls=calls)}
    if floor is not None:
        controls["stock and as many synced appends, the disk's floor"] = lambda: (
            job(framework, desk, None, turns=turns, calls=calls) and synced_appends(floor, turns, calls)
        )
    return gauge.beside(name, lambda: job(framework, desk, settlement, turns=turns, calls=calls), controls)


@pytest.mark.parametrize("seconds", [0, FIFTY], ids=["0 ms", "50 ms"])
@pytest.mark.parametrize("store", STORES)
def test_an_effect_beside_stock(gauge, framework, store, seconds, tmp_path):
    desk, turns = Desk(seconds), gauge.scale(4 if seconds else 20, 1)
    with settling(store, "effect", tmp_path) as settlement:
        floor = tmp_path if store == "a file on disk" else None
        name = f"an effect of {seconds * 1e3:.0f} ms, {framework}, {store}"
        measured = beside_stock(gauge, name, framework, settlement, desk, turns=turns, calls=1, floor=floor)
        gauge.count("  overhead", measured.over["stock"], "µs", aim=0.03 * FIFTY * 1e6 if seconds else None)

    assert desk.begun == [*range(turns)]
    assert measured.done == turns


@pytest.mark.parametrize("calls", [2, 5])
@pytest.mark.parametrize("store", STORES)
def test_the_effects_of_a_turn_beside_stock(gauge, framework, store, calls, tmp_path):
    """Each returns at once: what order costs of time, where tools take any, is what was asked for."""
    desk, turns = Desk(), gauge.scale(10, 1)
    with settling(store, "effect", tmp_path) as settlement:
        floor = tmp_path if store == "a file on disk" else None
        name = f"one of {calls} effects of a turn, {framework}, {store}"
        measured = beside_stock(gauge, name, framework, settlement, desk, turns=turns, calls=calls, floor=floor)
        gauge.count("  overhead", measured.over["stock"], "µs")

    assert desk.begun == [*range(calls * turns)]
    assert measured.done == calls * turns


@pytest.mark.parametrize("seconds", [0, FIFTY], ids=["0 ms", "50 ms"])
def test_five_reads_of_a_turn_beside_stock(gauge, framework, seconds, tmp_path):
    desk, turns = Desk(seconds), gauge.scale(4 if seconds else 10, 1)
    with settling("a file on disk", "read", tmp_path) as settlement:
        name = f"one of five reads of {seconds * 1e3:.0f} ms of a turn, {framework}"
        measured = beside_stock(gauge, name, framework, settlement, desk, turns=turns, calls=5)
        gauge.count("  overhead", measured.over["stock"], "µs")
        if seconds:
            gauge.count("  times stock", measured.ratios["stock"], "x", aim=1.03)
        recorded = settlement.transactions()

    assert measured.done == 5 * turns
    assert {effect.row.tool for one in recorded for effect in one.effects} <= {"settlemark.result"}  # of CrewAI's tasks
