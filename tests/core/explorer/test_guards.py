"""Every lattice point in every interleaving: what a point prevents never happens, and what it does not does."""

from __future__ import annotations

import itertools

import pytest
from tests.core.explorer.explorer import explore

from settlemark._model.guards import ALL_ON, guards_for
from settlemark.history import ANOMALIES

POINTS = [frozenset(some) for size in range(5) for some in itertools.combinations(ANOMALIES, size)]
MEETINGS = {
    "A1": [(("sx", "rx sy"), {}), (("rx sy", "sx"), {}), (("ex", "rx sx"), {})],
    "A3": [(("ex f", "rx sy"), {}), (("ex ey f", "rx ey"), {}), (("ex f", "rp"), {})],
    "A6": [(("ix",), {"turns": {0: "iy"}}), (("ex",), {"turns": {0: "sy"}})],
    "A2": [(("ix",), {"revoked": "ix"}), (("ex sy",), {"revoked": "ex"})],
}
TOGETHER = [
    (("sx", "rx sy", "ry sx"), {}),
    (("ex f", "rx sy", "ry ex"), {}),
    (("ex", "rx ey", "ry sx"), {"aborted": (0,)}),
    (("rx ix", "ex f"), {"turns": {0: "iy"}, "revoked": "ix"}),
    (("ex ey", "rx ry sx", "sx sy"), {}),
    (("rx sy", "ry sx", "rx ry"), {}),
]
EARLY = [
    ("ex", "rx sy"), ("ex f", "rx sy"), ("ex f", "rx ex"), ("ex ex", "rx sy"), ("ex ex", "rx rx"), ("ex sx", "rx sy"),
    ("ex ey f", "rx ry sx"), ("ex f", "rp ey"), ("ep f", "rx ey"), ("ep f", "rx", "ry sx"), ("ex", "rx ox"),
    ("ex f", "rx oy"), ("ex f", "rx iy"), ("ex jy", "rx iy"), ("ux f", "rx sy"), ("rx ex", "rx ex"),
    ("ex ry", "ey rx"), ("ex", "ex f", "rx sy"), ("ex f", "rx ey", "rx ry"), ("ex f", "oy rx"),
]  # fmt: skip # a list of names and values
EARLY_LONGER = [
    ("ex f", "rx ey", "ry sx"),
    ("ex f", "rx ey f", "ry"),
    ("ex", "rx ey f", "ry sx"),
    ("ex ry", "ey rx", "rx ry"),
    ("ex sy f", "rx ey", "rx ry"),
    ("ex jy", "rx ey", "ry iz"),
]


def guarded(point, case, **options):
    programs, more = case
    return explore(*programs, **more, guards=guards_for(point), **options)


@pytest.mark.parametrize("point", POINTS, ids=lambda point: "+".join(sorted(point)) or "none")
def test_what_a_point_prevents_never_happens_and_each_other_does_at_least_once(point, record_property):
    seen, wrong, states = set(), [], 0
    for cases in MEETINGS.values():
        for case in cases:
            found = guarded(point, case)
            seen |= found.anomalies
            states += found.states
            wrong += [(case, found.violations)] if found.violations or not found.finals else []
    record_property("explored_states", states)
    assert (wrong, seen) == ([], set(ANOMALIES) - point)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS, ids=lambda point: "+".join(sorted(point)) or "none")
@pytest.mark.parametrize("case", TOGETHER, ids=lambda case: " , ".join(case[0]))
def test_three_transactions_on_two_resources_keep_what_a_point_promises(point, case, record_property):
    found = guarded(point, case)
    record_property("explored_states", found.states)
    assert (found.violations, found.anomalies & point) == ({}, set())
    assert found.finals


@pytest.mark.sampled(4)
@pytest.mark.parametrize("programs", EARLY, ids=" , ".join)
def test_early_reads_are_as_right_as_settled_ones(programs, record_property):
    found = explore(*programs, guards=ALL_ON._replace(reads="early"))
    record_property("explored_states", found.states)
    assert (found.violations, found.anomalies) == ({}, set())
    assert found.finals


@pytest.mark.long
@pytest.mark.parametrize("programs", EARLY_LONGER, ids=" , ".join)
@pytest.mark.parametrize("durable", [False, True])
def test_early_reads_are_right_among_three_and_between_an_act_and_its_answer(programs, durable, record_property):
    found = explore(*programs, guards=ALL_ON._replace(reads="early"), durable=durable)
    record_property("explored_states", found.states)
    assert (found.violations, found.anomalies) == ({}, set())


@pytest.mark.parametrize("inner", ["ez", "rz", "sz", "oz"])
def test_what_waits_for_an_undo_that_waits_for_its_caller_is_refused(inner, record_property):
    found = explore("ex ez f", "rx ny", inside={1: inner}, guards=ALL_ON._replace(reads="early"))
    record_property("explored_states", found.states)
    assert found.violations == {}


@pytest.mark.long
def test_without_its_guards_the_engine_still_undoes_what_it_aborts_and_releases_once():
    found = explore("ex sy", "ex ey f", "rx sx", guards=guards_for(()))
    assert found.violations == {}
