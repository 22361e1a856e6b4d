"""Several processes on one store, killed at random: what the desk saw is what some serial order would have done.

`SETTLEMARK_STRESS_KILLS=200 pytest tests/core/workers` runs it for minutes.
"""

from __future__ import annotations

import os
from contextlib import closing

import pytest
from audit import audit, dirty, serial
from tests.core.workers.conftest import wait_until

KILLS = int(os.environ.get("SETTLEMARK_STRESS_KILLS", "6"))


def test_the_checker_finds_a_cycle_and_finds_none_where_there_is_none():
    crossed = [
        ("read", "a", "", "x", 1),
        ("read", "b", "", "y", 1),
        ("write", "b", "", "x", 1),
        ("write", "a", "", "y", 1),
    ]
    assert not serial(crossed, {("x", 1), ("y", 1)}).serializable
    assert serial(crossed, {("x", 1)}).serializable
    after_each_other = [crossed[0], crossed[2], crossed[1], crossed[3]]
    assert serial(after_each_other, {("x", 1), ("y", 1)}).serializable


def test_the_checker_finds_who_met_what_was_undone_later_and_nobody_else():
    log = [
        ("write", "a", "k1", "x", 1), ("read", "a", "k2", "y", 1), ("write", "a", "k3", "z", 1),
        ("read", "a", "", "x", 1), ("undo", "a", "k1", "x", 1), ("read", "a", "", "v", 1), ("read", "b", "", "w", 1),
    ]  # fmt: skip # a list of names and values
    met = dirty(log, {("y", 1), ("z", 1), ("v", 1), ("w", 1)})
    assert [one.split(" met ")[0] for one in met] == ["dirty read: y#1", "dirty write: z#1"]
    assert dirty(log, {("v", 1), ("w", 1)}) == []


@pytest.mark.parametrize("workers", [8])
def test_processes_that_are_killed_at_random_lose_nothing_double_nothing_and_strand_nothing(
    shared_url, make_crew, workers, record_property
):
    crew = make_crew(shared_url)
    for number in range(1, workers + 1):
        crew.start(number)
    crew.kill_at_random(
        lambda: crew.killed >= KILLS and crew.told().count("committed ") >= 2 * KILLS, each=0.6, seed=workers
    )
    crew.finish()
    with closing(crew.settle_the_rest()) as settlement:
        assert audit(crew.desk, settlement) == []
        named = len(settlement.residue())
    told = crew.told()
    assert "Traceback" not in told
    record_property("workers", f"{crew.killed} kills, {told.count('committed ')} committed, {named} named in doubt")


def test_processes_that_nobody_kills_all_commit(shared_url, make_crew):
    crew = make_crew(shared_url)
    for number in (1, 2, 3):
        crew.start(number)
    wait_until(lambda: all(crew.told(number).count("committed ") >= 3 for number in (1, 2, 3)))
    crew.say_it_is_over()
    crew.finish()
    with closing(crew.settle_the_rest()) as settlement:
        assert audit(crew.desk, settlement) == []
        assert settlement.residue() == []
    told = crew.told()
    assert "refused" not in told
