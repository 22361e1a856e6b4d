"""SIGKILL before and after every act and every checkpoint of an agent, which the next process resumes.

With `durability="sync"` and `"async"`: by the office's own log no effect that has a key is there twice, none is lost,
and what has no key is there at most once, or in doubt and named; the state says what the world is like. Stock
LangGraph, beside it, does effects twice.

With `durability="exit"` nothing is stored before the end: a process that dies leaves a thread that knows of nothing,
its caller starts again with the same input, and the model decides again, under new ids. No effect of the dead run is
half-done: a turn that was not committed is undone or dropped, what was committed stays, and what nobody can know is
named. But a turn that was committed is committed once more, as another decision. With `settle="run"` nothing is
committed before the run's end: only who dies between that and the checkpoint decides all of it again.
"""

from __future__ import annotations

import pytest

pytest.importorskip("langgraph.checkpoint.sqlite")

from tests.integrations.langgraph.death.audit import audit, audit_ours, audit_settled
from tests.integrations.langgraph.death.child import ACTED_BEFORE, REFUSED, STAYS, TRIP, Way
from tests.integrations.langgraph.death.sweep import Sweep

from settlemark.testing import can_fork

LONG = pytest.mark.long
pytestmark = pytest.mark.skipif(not can_fork(), reason="a process is killed in a copy of this one")

EACH = [
    Way(shape, settle, durability, plan, is_async)
    for shape in ("graph", "agent")
    for settle in ("node", "superstep")
    for durability in ("sync", "async")
    for plan in (TRIP, REFUSED)
    for is_async in (False, True)
]
SOME = {
    Way("graph", "node", "sync"): 4,
    Way("graph", "node", "async"): 4,
    Way("graph", "superstep", "sync"): 3,
    Way("graph", "superstep", "async"): 4,
    Way("agent", "node", "sync"): 6,
    Way("agent", "node", "async"): 6,
    Way("agent", "superstep", "sync"): 6,
    Way("graph", "node", "sync", REFUSED): 4,
    Way("graph", "node", "async", is_async=True): 11,
    Way("agent", "superstep", "async", is_async=True): 11,
}
"""Every so manieth point is enough each time."""


def swept(sweep, points, record_property):
    """Die at these points, nearly all of which are come by again: threads may need a checkpoint less then."""
    tally = sweep.run(points)
    assert tally.kills >= 0.9 * len(points) > 0
    record_property("explored_deaths of agents", tally.kills)
    return {*points}, tally


def settles(folder, way, every, record_property):
    sweep = Sweep(folder, way, audit_ours)

    _, tally = swept(sweep, sweep.points[::every], record_property)

    assert tally.wrong == {}
    assert tally.twice == {}
    assert not [point for point in sweep.points if point.startswith(ACTED_BEFORE)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("way", "every"), SOME.items(), ids=str)
def test_each_effect_happens_exactly_once_or_is_named(folder, way, every, record_property):
    settles(folder, way, every, record_property)


@LONG
@pytest.mark.parametrize("way", EACH, ids=str)
def test_each_effect_happens_exactly_once_or_is_named_wherever_it_dies(folder, way, record_property):
    settles(folder, way, 1, record_property)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("shape", ["graph", "agent"])
def test_with_stock_effects_happen_twice(folder, shape, durability, record_property):
    sweep = Sweep(folder, Way(shape, None, durability), audit)
    at_acts = [point for point in sweep.points if point.startswith(("after book", "after mail", ACTED_BEFORE))]

    tally = sweep.run(at_acts)

    assert len(tally.twice) > 1
    assert tally.wrong.keys() == tally.twice.keys()
    assert any(point.startswith(ACTED_BEFORE) for point in sweep.points) is (durability == "async")
    record_property("explored_effects that stock did twice", sum(tally.twice.values()))


@LONG
@pytest.mark.parametrize("way", [Way("graph", "node", "sync"), Way("graph", "superstep", "async")], ids=str)
@pytest.mark.parametrize("at", ["after book Ada", "before hire guide", "before mail ada", "after post letter", "put 4"])
def test_a_process_that_resumes_and_dies_is_resumed_alike(folder, way, at, record_property):
    sweep = Sweep(folder, way, audit_ours)

    tally = sweep.run_twice(next(point for point in sweep.points if at in point))

    assert tally.wrong == {}
    record_property("explored_deaths of agents", tally.kills)


def test_a_run_that_was_to_settle_as_a_whole_settles_although_only_its_last_word_was_missing(folder):
    sweep = Sweep(folder, Way("graph", "run", "sync"), audit_ours)

    assert sweep.run(["before put_writes #6", "after put 5 #1"]).wrong == {}


def test_what_stays_of_a_turn_that_is_undone_is_not_done_again_by_whoever_comes_back_to_the_turn(folder):
    sweep = Sweep(folder, Way("graph", "node", "sync", STAYS), audit_ours)

    assert sweep.run(["before put_writes #3"]).twice == {}


# ---- where nothing is stored before the end


@pytest.mark.parametrize(
    ("shape", "every"), [("graph", 4), pytest.param("graph", 1, marks=LONG), pytest.param("agent", 1, marks=LONG)]
)
def test_under_exit_nothing_half_done_stays_and_a_turn_is_repeated_only_if_it_had_committed(
    folder, shape, every, record_property
):
    sweep = Sweep(folder, Way(shape, "node", "exit"), audit_settled)
    first, second = (sweep.points.index(f"before {act} #1") for act in ("mail ada", "book Bee"))

    died, tally = swept(sweep, sweep.points[::every], record_property)

    assert tally.wrong == {}
    # What nobody has declared stays when its turn is undone: it is named.
    undeclared = {"before hire guide #1", "after hire guide #1"}
    assert tally.twice.keys() & {*sweep.points[:first]} <= undeclared
    assert tally.twice.keys() >= died & {*sweep.points[second:-1]}
    assert sweep.points[-1] not in tally.twice
    record_property("explored_effects done twice under exit", sum(tally.twice.values()))


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=LONG)])
def test_under_exit_a_run_that_settles_as_a_whole_is_repeated_only_if_it_died_behind_its_commit(
    folder, every, record_property
):
    sweep = Sweep(folder, Way("graph", "run", "exit"), audit_settled)
    hired, commits = (sweep.points.index(point) for point in ("before hire guide #1", "before mail ada #1"))

    died, tally = swept(sweep, sweep.points[::every], record_property)

    assert tally.wrong == {}
    undeclared, behind = {*sweep.points[hired:commits]}, {*sweep.points[commits:-1]}
    assert died & behind <= tally.twice.keys() <= undeclared | behind
    record_property("explored_effects done twice under exit", sum(tally.twice.values()))
