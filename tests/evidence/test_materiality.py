"""Materiality, and the policy."""

from __future__ import annotations

from tests.evidence._report import Share
from tests.evidence.materiality import ROLES, Policy

RUNS = 100
SIZE = 20


def test_whether_a_stale_read_mattered_depends_on_the_role(found):
    shares = {row["role"]: row["p_op"] for row in found.tables[0].rows}
    assert shares["reviewer"] == Share(SIZE, SIZE)
    assert shares["editor"] == Share(0, SIZE)
    assert 0 < shares["engineer"].count < SIZE
    assert 0 < shares["triager"].count < SIZE


def test_the_policy_chooses_what_is_undone_and_the_detector_reports_the_rest(found):
    shares = {row["role"]: row["p_op"] for row in found.tables[0].rows}
    for row in found.tables[1].rows:
        left = sum(share.value < float(row["min_materiality"]) for share in shares.values())
        assert row["A1"] == Share(left * SIZE, len(ROLES) * SIZE)
        assert row["aborts"] == (len(ROLES) - left) * SIZE
        assert (row["complete"], row["log agrees"]) == ("80/80", "80/80")


def test_leaving_out_who_never_decides_otherwise_changes_no_decision(found):
    changed = [row["decisions that would be others"].count for row in found.tables[1].rows]
    assert changed[:2] == [0, 0]
    assert changed == sorted(changed)
    assert changed[-1] > 0


def test_a_role_that_nobody_has_measured_is_acted_for():
    policy = Policy({"editor": Share(0, 10)}, min_materiality=0.5)
    assert (policy.acts_for("editor"), policy.acts_for("stranger")) == (False, True)
