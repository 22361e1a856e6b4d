"""SIGKILL at every statement of the ledger, and whoever comes back to the name has another plan; killed there as well.

What the last plan asks for is there once, and nothing else: what it does not ask for was undone, never left, or is
named. The desk's own log is what is believed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from tests.core.crashes.programs import PATIENCE
from tests.core.crashes.sweep import OTHER_DATABASES
from tests.core.crashes.tools import tools
from tests.core.explorer.mutants import TakesBackUnsaid, TakesNothingBack
from tests.core.parts import driver_with
from tests.core.workers.audit import audit, named
from tests.rooms.api import host

from settlemark import InDoubt, KeyConflict, Refused, State
from settlemark.testing import KillPoints, die, in_child

pytestmark = pytest.mark.usefixtures("still")

FIRST = (("add", "a"), ("charge_refundable", "b"), ("hire", "c"), ("put", "d"), ("wire", "e"), ("add", "f"))
PLANS = {
    "the same calls": FIRST,
    "a prefix": FIRST[:2],
    "the first call": FIRST[:1],
    "no calls": (),
    "other calls": (("add", "a"), ("add_keyed", "y"), ("wire", "z")),
    "an argument changed": (*FIRST[:4], ("wire", "z"), FIRST[5]),
    "another order": FIRST[::-1],
}
SHARDS = 12
TRIES = 3
"""A plan that is refused is made again: once for what it does not agree with, and once for what is read since."""


def enter(case, plan):
    """Play a plan under the name until it stands, and return whether it does."""
    settlement, desk = case.open()
    with settlement, closing(desk):
        return played(settlement, tools(desk), plan)


def played(settlement, known, plan):
    for _ in range(TRIES):
        try:
            with settlement.transaction("trip") as tx:
                for tool, cell in plan:
                    tx.call(known[tool], cell=cell)
        except (Refused, KeyConflict):
            continue
        except InDoubt:
            return False
        return True
    raise AssertionError("it was refused again and again")


def cut_off(case, plan, *, at=None):
    """Play a plan in a process that dies at this kill point, else when it has made all its calls; return whether."""

    def child(_tell):
        settlement, desk = case.open()
        with KillPoints(at, url=OTHER_DATABASES):
            if at is not None:
                with settlement, closing(desk):
                    played(settlement, tools(desk), plan)
                return
            tx = settlement.transaction("trip").__enter__()
            for tool, cell in plan:
                tx.call(tools(desk)[tool], cell=cell)
            settlement.transactions()  # with it goes what nobody waits for: its last outcome is known
            die()

    ended = in_child(child, timeout=2 * PATIENCE)
    assert ended.error is None, ended.error
    assert not ended.late, ended.stack
    return ended.killed


def wrong(case, plan):
    """Play the last plan to its end here, and return everything that is wrong then, in words."""
    settlement, desk = case.open()
    with settlement, closing(desk):
        stands = played(settlement, tools(desk), plan)
        settlement.recover(keep_open=0)
        found = audit(desk, settlement)
        without = named(settlement)
        left = Counter()
        for verb, cell, key, *_ in desk.log():
            if key not in without:
                left[cell] += {"write": 1, "letter": 1, "undo": -1}.get(verb, 0)
        recorded = settlement.transactions()
        asked = Counter(cell for _, cell in plan)
        if stands and +left != asked:
            found.append(f"there is {+left}, and asked for was {asked}")
        if stands and recorded and State.COMMITTED not in {each.state for each in recorded}:
            found.append("it was played to its end, and has not committed")
        letters = {cell for verb, cell, *_ in desk.log() if verb == "letter"} - {c for t, c in plan if t == "wire"}
        found += [f"nobody's plan asked for the letter to {cell}" for cell in letters]
        # Of what stays, only what has no undo is named, or what an abort can ask nobody about.
        tool_of = {effect.row.key: effect.row.tool for each in recorded for effect in each.effects}
        found += [
            f"{key} is named" for key in without if tool_of[key] not in ("hire", "charge_refundable", "add_keyed")
        ]
        return found


def deaths(store, plan, last, numbers, *, first=FIRST):
    """Die at each of these points of the second process, and return what is wrong when the third has played."""
    found = {}
    base = store.fresh()
    assert cut_off(base, first)
    kills = 0
    for number in numbers:
        case = store.copy(base)
        kills += cut_off(case, plan, at=number)
        # What has committed on another plan is not to be had under its name.
        if (last is plan or not has_decided(case)) and (said := wrong(case, last)):
            found[number] = said
        store.drop(case)
    store.drop(base)
    return found, kills


def points(store, plan, *, first=FIRST):
    """How many kill points the second process has."""
    case = store.fresh()
    cut_off(case, first)
    ended = KillPoints(url=OTHER_DATABASES).run(lambda: enter(case, plan), timeout=2 * PATIENCE)
    assert ended.error is None, ended.error
    store.drop(case)
    return len(ended.told)


@pytest.mark.sampled(SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("plan", PLANS)
def test_whoever_dies_while_it_takes_back_what_its_plan_lacks_is_followed_by_one_that_ends_alike(
    in_memory, plan, shard, record_property
):
    numbers = range(1 + shard, points(in_memory, PLANS[plan]) + 1, SHARDS)
    found, kills = deaths(in_memory, PLANS[plan], PLANS[plan], numbers)
    assert found == {}
    record_property("explored_kills", kills)


@pytest.mark.sampled(SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("plan", [name for name in PLANS if name != "the same calls"])
def test_one_that_asks_again_for_what_was_being_taken_back_gets_it_anew(in_memory, plan, shard, record_property):
    numbers = range(1 + shard, points(in_memory, PLANS[plan]) + 1, SHARDS)
    found, kills = deaths(in_memory, PLANS[plan], FIRST, numbers)
    assert found == {}
    record_property("explored_kills", kills)


@pytest.mark.sampled(SHARDS)
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("plan", PLANS)
def test_wherever_the_first_dies_another_plan_leaves_nothing_that_only_that_one_had_asked_for(
    in_memory, plan, shard, record_property
):
    found, kills = first_dies(in_memory, PLANS[plan], shard, SHARDS)
    assert found == {}
    record_property("explored_kills", kills)


@pytest.mark.sampled(len(PLANS))
@pytest.mark.parametrize("plan", PLANS)
def test_on_postgresql_too(namespaces, plan, record_property):
    found, kills = first_dies(namespaces, PLANS[plan], 3, 18)
    assert found == {}
    record_property("explored_kills", kills)


def first_dies(store, plan, shard, shards):
    """Let the first die at a share of its kill points, and return what is wrong when another plan has come, and kills.

    Behind the decision it is committed: what is replayed then is another sweep's.
    """
    case = store.fresh()
    told = KillPoints(url=OTHER_DATABASES).run(lambda: enter(case, FIRST), timeout=2 * PATIENCE).told
    commits = [number for number, when, what in told if (when, what) == ("after", "COMMIT")]
    store.drop(case)
    found, kills = {}, 0
    for number in range(1 + shard, commits[-3] if len(commits) > 3 else len(told), shards):
        case = store.fresh()
        kills += cut_off(case, FIRST, at=number)
        if not has_decided(case) and (said := wrong(case, plan)):
            found[number] = said
        store.drop(case)
    return found, kills


def has_decided(case):
    """Whether the name is past its decision: what was decided then is replayed, or goes on by itself."""
    settlement, desk = case.open()
    with settlement, closing(desk):
        states = {one.state for one in settlement.transactions()}
        return bool(states - {State.OPEN, State.ABORTING, State.ABORTED})


# ---- engines that are wrong about it are caught


@pytest.mark.parametrize(("mutant", "plan", "last"), [(TakesNothingBack, "a prefix", "a prefix")])
def test_a_driver_that_takes_nothing_back_is_caught(in_memory, monkeypatch, mutant, plan, last):
    monkeypatch.setattr(host, "Driver", driver_with(mutant))
    found, _ = deaths(in_memory, PLANS[plan], PLANS[last], [10_000])
    assert found != {}


def test_a_driver_that_undoes_before_it_says_so_is_caught(in_memory, monkeypatch):
    monkeypatch.setattr(host, "Driver", driver_with(TakesBackUnsaid))
    first = (("add", "a"), ("add", "f"))
    numbers = range(1, points(in_memory, first[:1], first=first) + 1, 2)
    found, _ = deaths(in_memory, first[:1], first, numbers, first=first)
    assert found != {}
