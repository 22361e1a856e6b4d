"""SIGKILL before and after every statement of the ledger, through every kind of transaction and of effect.

Keyed and askable effects happen exactly once; others at most once, else they are in doubt and named; nothing
is lost: what was intended on record is finished, undone or named, and what was not is run once when its
framework comes back. The desk's own log is what is believed.

`SETTLEMARK_CRASHES=full pytest tests/core/crashes` kills at every point of every program, on both stores.
"""

from __future__ import annotations

import pytest
from tests.core.crashes.conftest import FULL
from tests.core.crashes.mutants import (
    EffectBeforeIntent,
    OutcomesTogether,
    ReleaseBeforeDecision,
    ReleasesAgain,
    UndoneTogether,
)
from tests.core.crashes.programs import ALONE, MIXES
from tests.core.crashes.sweep import Sweep
from tests.core.parts import driver_with
from tests.rooms.api import host

PROGRAMS = {program.title: program for program in (*ALONE, *MIXES)}
EVERYTHING = "eager, staged and irreversible"
RELEASES = "releases of every kind"
HASTY = PROGRAMS if FULL else (RELEASES, "two threads")
ON_POSTGRESQL = PROGRAMS if FULL else (RELEASES,)
AGAIN = (
    [(title, at) for title in PROGRAMS for at in (0.2, 0.4, 0.6, 0.8)] if FULL else [(RELEASES, 0.6), ("undone", 0.7)]
)

pytestmark = pytest.mark.usefixtures("still")


def swept(store, title, record_property, points):
    """Die at these points of a program; nothing is wrong afterwards."""
    sweep = Sweep(store, PROGRAMS[title])
    numbers = sweep.every if FULL else points(sweep)
    tally = sweep.run(numbers)
    assert tally.wrong == []
    assert tally.kills >= 0.9 * len(numbers) > 0  # threads may need a statement less than they did the first time
    record_property("explored_kills", tally.kills)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("title", [program.title for program in ALONE])
def test_each_class_of_effect_at_each_statement(in_memory, title, record_property):
    swept(in_memory, title, record_property, lambda sweep: sweep.each)


@pytest.mark.long
@pytest.mark.parametrize("title", [program.title for program in MIXES])
def test_each_kind_of_transaction_between_any_two_commits(in_memory, title, record_property):
    swept(in_memory, title, record_property, lambda sweep: sweep.some)


@pytest.mark.long
def test_joining_and_leaving_the_store_are_no_exception_and_a_disk_is_none(on_disk, record_property):
    swept(on_disk, EVERYTHING, record_property, lambda sweep: sweep.every[::2])


@pytest.mark.usefixtures("hasty")
@pytest.mark.long
@pytest.mark.parametrize("title", HASTY)
def test_neither_when_every_outcome_is_on_record_at_once(in_memory, title, record_property):
    swept(in_memory, title, record_property, lambda sweep: sweep.some)


@pytest.mark.long
@pytest.mark.parametrize("title", ON_POSTGRESQL)
def test_on_postgresql(namespaces, title, record_property):
    swept(namespaces, title, record_property, lambda sweep: sweep.some)


@pytest.mark.long
@pytest.mark.parametrize(("title", "at"), AGAIN)
def test_a_recovery_that_dies_is_recovered_from_alike(in_memory, title, at, record_property):
    sweep = Sweep(in_memory, PROGRAMS[title])
    sweep.die_again_after(sweep.each[int(at * len(sweep.each))])
    assert sweep.tally.wrong == []
    assert sweep.tally.kills > 1
    record_property("explored_kills", sweep.tally.kills)


@pytest.mark.parametrize(
    ("mutant", "title", "sign"),
    [
        (EffectBeforeIntent, "add alone", "acted and is not on record"),
        (ReleaseBeforeDecision, "send alone", "of an aborted one stays"),
        (OutcomesTogether, RELEASES, "acted 2 times"),
        (ReleasesAgain, "send alone", "acted 2 times"),
        (UndoneTogether, "undone", "repeated 2 acts"),
    ],
)
def test_a_driver_that_is_wrong_about_the_order_is_caught(in_memory, monkeypatch, mutant, title, sign):
    monkeypatch.setattr(host, "Driver", driver_with(mutant))
    sweep = Sweep(in_memory, PROGRAMS[title])
    assert sweep.tally.wrong == []  # where nobody is killed nobody can tell
    wrong = sweep.run(sweep.some).wrong
    assert [what for what in wrong if sign in what], wrong
