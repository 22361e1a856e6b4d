"""Edit-review, plan-execute and triage."""

from __future__ import annotations

from tests.evidence._report import Share

RUNS = 100
SIZE = 10


def shares(found, workload):
    return {row["runtime"]: row["A1"] for row in found.tables[0].rows if row["workload"] == workload}


def test_edit_review_is_always_stale_and_plan_execute_never(found):
    none = Share(0, SIZE)
    guarded = {"pessimistic, drop": none, "snapshot": none, "serializable": none, "all guards": none}
    assert shares(found, "edit-review") == {"vanilla": Share(SIZE, SIZE), **guarded}
    assert shares(found, "plan-execute") == {"vanilla": none, **guarded}


def test_in_triage_snapshot_isolation_leaves_those_who_write_nothing(found):
    stale = shares(found, "triage")
    assert stale["vanilla"].count > 1
    assert {name: share.count for name, share in stale.items() if name != "vanilla"} == {
        "pessimistic, drop": 0,
        "snapshot": 1,
        "serializable": 0,
        "all guards": 0,
    }


def test_every_effect_is_there_once_or_its_operation_is_counted_as_dropped(found):
    rows = found.tables[0].rows
    assert {(row["complete"], row["log agrees"]) for row in rows} == {("10/10", "10/10")}
    assert {row["runtime"] for row in rows if row["drops"]} == {"pessimistic, drop"}
