"""What is no list, no function or no settings is refused where it is given, before anything is begun."""

from __future__ import annotations

import pytest

from settlemark import Approval, Settlement, UsageError

SETTINGS = {
    "budgets": (5, "budgets= is 5: give a list"),
    "channels": (None, "channels= is None: give a list"),
    "approver": (5, "approver= is 5: give a function"),
    "ask": (5, "ask= is 5: give a function"),
    "on_residue": (5, "on_residue= is 5: give a function"),
    "observe": (print, r"observe= is <built-in function print>, which has no tell\(\): give an observer"),
    "retries": (5, r"retries=5: give a settlemark.Retries, as in Retries\(…\)"),
}
OPTIONS = {
    "may_touch": (5, "may_touch= is 5: give a list"),
    "before_commit": (5, "before_commit= is 5: give a list"),
    "before_commit, one of several": ([print, 5], "before_commit= is 5: give a function"),
    "approver": (5, "approver= is 5: give a function"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_none_is_refused_as_the_settlement_is_opened(name, tmp_path):
    given, said = SETTINGS[name]
    with pytest.raises(UsageError, match=said):
        Settlement(f"sqlite:///{tmp_path}/ledger.db", **{name: given})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("begin", ["transaction", "run"])
def test_an_option_of_a_transaction_that_is_none_is_refused_and_nothing_is_begun(quick, begin, name):
    given, said = OPTIONS[name]
    ran = []
    opening = {"transaction": quick.transaction, "run": lambda name, **how: quick.run(name, ran.append, **how)}[begin]
    with pytest.raises(UsageError, match=said):
        opening("trip", **{name.partition(",")[0]: given})
    assert (ran, list(quick.transactions())) == ([], [])


def test_what_cannot_be_run_is_refused_before_a_transaction_is_begun(quick):
    with pytest.raises(UsageError, match=r"what run\(\) is to run is 5: give a function"):
        quick.run("trip", 5)
    with pytest.raises(UsageError, match=r"a branch of speculate\(\) is 5: give a function"):
        quick.speculate([lambda tx: None, 5], list.pop, name="trip")
    with pytest.raises(UsageError, match=r"what speculate\(\) chooses by is 5: give a function"):
        quick.speculate([lambda tx: None], 5, name="trip")
    assert list(quick.transactions()) == []


def test_an_escalation_that_is_none_is_refused_where_the_approval_is_made():
    with pytest.raises(UsageError, match="escalate= is None: give a list"):
        Approval(escalate=None)
