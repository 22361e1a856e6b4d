"""Programs that broke simpler rules and that small bounds do not reach; and rivals that never stop."""

from __future__ import annotations

import pytest
from tests.core.explorer.explorer import explore

STORED = {
    "a restamp that does not move an aborting transaction with a retry to come": (("ey sz", "sz", "rz sy ex"), ()),
    "a restamp that leaves behind those that follow its claim": (("ex ry", "rx sx", "sy"), ()),
    "restamping the holder of a claim": (("ex ey", "ey ex"), ()),
    "finished at the decision instead of after the releases": (("ex sy", "rx ry"), ()),
    "finished at the decision, one step each": (("sx", "ex"), ()),
    "a commit while an undo runs on its scope": (("sx", "ex f"), (0,)),
    "claims that ignore held irreversibles": (("ix", "ex"), ()),
    "wounds only by eager requests": (("rx sx", "ex"), ()),
    "wound ping-pong when a claim ignores an older waiting request": (("rx ex", "ex"), ()),
    "an eager effect that overtakes its own held one": (("sx ex",), ()),
    "a refused first release beside a reader and a claimant": (("ey jx", "ry sx", "ey"), ()),
    "a lost answer beside a rival": (("ux sy", "rx ey", "sx"), ()),
    "three claimants on crossed scopes with a failure": (("ex ey f", "ey ex", "rp"), ()),
}


# Among three there is most to visit: that waits for all.
NAMED = [name if len(case[0]) < 3 else pytest.param(name, marks=pytest.mark.long) for name, case in STORED.items()]


@pytest.mark.parametrize("name", NAMED)
def test_stored_counterexample_is_right_in_every_interleaving(name, record_property):
    programs, declared = STORED[name]
    found = explore(*programs, declared=declared, limit=2_000_000)
    record_property("explored_programs", 1)
    record_property("explored_states", found.states)
    record_property("explored_ends", found.finals)
    assert found.violations == {}
    assert found.finals > 0


@pytest.mark.sampled(5)
@pytest.mark.parametrize("victim", ["rx sx", "rx ex", "rx", "ex"])
@pytest.mark.parametrize("rival", ["rx sx", "sx", "ex"])
def test_a_rival_that_loops_does_not_make_its_victim_retry_more(victim, rival):
    attempts = [explore(rival, victim, loops={0: laps}, tries=12).attempts for laps in (1, 2, 3)]
    assert attempts[0] == attempts[1] == attempts[2] <= 4


def test_a_late_sibling_is_refused_in_every_interleaving_and_nothing_of_it_stays():
    for programs, late in ((("sx",), "sy"), (("ex",), "ey"), (("ex f",), "ey")):
        found = explore(*programs, "ry", siblings={0: late})
        assert found.violations == {}
        assert found.finals > 0


@pytest.mark.long
def test_three_laps_of_rivals_on_a_parent_and_its_child_stay_serializable():
    found = explore("ep", "rx sx", loops={0: 2, 1: 1}, tries=12)
    assert found.violations == {}
