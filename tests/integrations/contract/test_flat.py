"""What a turn does grows neither with the jobs that are over, nor with the turns of its own job."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path

import pytest
from tests.integrations.contract.world import desk, play, turns
from tests.way import CORE, lines

FEW, MANY = 4, 24


def ours(driver):
    """The folders of core and of the framework's shim."""
    name = f"settlemark_{driver.name}"
    shims = [] if driver.name == "toy" else [Path(str(importlib.import_module(name).__file__)).parent]
    return (CORE, *shims)


@pytest.fixture
def job(driver, settlement, world):
    """Play a job of so many turns, in a run of its own."""
    numbers = itertools.count()

    def play_one(length=1):
        number = next(numbers)
        script = turns(*[[("look", "Ada"), ("book", f"{number}-{turn}")] for turn in range(length)])
        played = play(driver, desk(world), script, settlement, run=f"run-{number}")
        assert played.error is None

    return play_one


def test_a_job_does_no_more_behind_many_that_are_over(driver, job):
    for _ in range(FEW):
        job()
    before = lines(job, roots=ours(driver))
    for _ in range(MANY):
        job()
    after = lines(job, roots=ours(driver))

    assert {line: (before[line], count) for line, count in after.items() if count > before[line] + MANY // 2} == {}


def test_core_does_no_more_for_a_turn_behind_many_of_its_job(job):
    """A shim looks through the messages of its job, as the model does.

    What goes through all turns before, at each turn, comes to 28 rounds for 8 of them, and to 120 for 16.
    """
    job()
    some, many = (lines(lambda length=length: job(length)) for length in (2 * FEW, 4 * FEW))

    grown = {line: (some[line], count) for line, count in many.items() if count > 2.3 * some[line] + 4 * FEW}
    assert grown == {}
