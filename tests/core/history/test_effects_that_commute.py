"""Histories with effects that commute: who writes one says which group they were of, and what nobody has observed."""

from __future__ import annotations

import pytest
from tests.rooms.protocol import Chronicle, Mode

from settlemark import Scope
from settlemark.history import Recorder, analyze, read
from settlemark.hosting import Reason

AGENTS = 16


@pytest.fixture
def records():
    return []


@pytest.fixture
def told(stage, records):
    stage.protocol.chronicle = Chronicle(records.append)
    return stage


def add(stage, txn, mode=Mode.EAGER, scope="stock:/nails"):
    call = stage.protocol.request(txn, Scope.parse(scope), mode, commutes="add")
    assert stage.protocol.admit(call) is None
    if mode is Mode.EAGER:
        stage.protocol.acted(call, happened=True)
    return call


def releasing(stage, name):
    """A transaction that is decided, and whose addition is to leave."""
    txn = stage.begin(name)
    add(stage, txn, Mode.HELD)
    stage.protocol.seal(txn)
    assert stage.protocol.decide(txn) is None
    return txn


def undone(stage, txn):
    stage.protocol.abort(txn, Reason.FAILED)
    stage.protocol.finish_abort(txn)


# ---- of the engine


def test_the_group_of_an_effect_is_told_with_its_cell(told, records):
    ada = told.begin("ada")
    add(told, ada)
    told.write(ada, "room:/7")
    told.commit(ada)
    assert [(r["write_values"], r["commutes"]) for r in records] == [
        ({"stock:/nails": "ada#1", "room:/7": "ada#1"}, {"stock:/nails": "add"})
    ]


@pytest.mark.parametrize("scope", ["stock:/nails", "stock:", "stock:/*", "stock:/nails/long"])
def test_what_was_read_of_the_scope_beside_is_no_part_of_the_effect(told, records, scope):
    ada = told.begin("ada")
    told.read(ada, scope)
    add(told, ada)
    told.commit(ada)
    assert [record.get("commutes", {}) for record in records] == [{}]


@pytest.mark.parametrize("first", ["ada", "bob"])
def test_what_two_add_and_both_cannot_release_leaves_what_was_there_before(told, records, first):
    setup = told.begin("setup")
    told.write(setup, "stock:/nails")
    told.commit(setup)
    both = {name: releasing(told, name) for name in ("ada", "bob")}
    for name in sorted(both, key=first.__ne__):
        undone(told, both[name])
    cy = told.begin("cy")
    told.read(cy, "stock:/nails")
    told.commit(cy)
    last = records[-1]
    assert (last["read_values"], last["preds"]) == ({"stock:/nails": "setup#1"}, ["setup#1"])
    assert [record["id"] for record in records if record.get("aborted")] == ["ada#1", "bob#1"]


def test_what_is_undone_beneath_what_stands_is_not_what_a_later_one_reads(told, records):
    first, stands = releasing(told, "first"), releasing(told, "stands")
    undone(told, first)
    told.protocol.finish(stands)
    reader = told.begin("reader")
    told.read(reader, "stock:/nails")
    told.commit(reader)
    assert (records[-1]["read_values"], records[-1]["preds"]) == ({"stock:/nails": "stands#1"}, ["stands#1"])
    assert told.protocol.chronicle._undone == {}


# ---- of a recorder


def added(recorder, agent, **parts):
    """An addition that read the sum, and has not committed."""
    plan = recorder.begin(agent, reads={"sum": recorder.clock})
    return lambda: plan.commit(writes={"sum": recorder.clock + 1}, **({"commutes": {"sum": "add"}} | parts))


def test_an_addition_has_observed_what_stood_beneath_its_group_and_nothing_of_that():
    recorder = Recorder()
    recorder.seed({"sum": 1})
    for agent in ("ada", "bob"):
        added(recorder, agent)()
    other = added(recorder, "cy", commutes={"sum": "multiply"})()
    assert [record.preds for record in recorder.records] == [[], ["1"], ["1"], ["3"]]
    assert [record.commutes for record in recorder.records[1:]] == [{"sum": "add"}] * 2 + [{"sum": "multiply"}]
    assert added(recorder, "dan", commutes={"sum": "multiply"})().preds == ["3"]
    assert other.preds == ["3"]


def test_what_it_has_observed_on_another_cell_it_has_observed():
    recorder = Recorder()
    recorder.begin("ada").commit(writes={"sum": 1, "page": 1}, commutes={"sum": "add"})
    plan = recorder.begin("bob", reads={"sum": 1, "page": 1})
    assert plan.commit(writes={"sum": 2}, commutes={"sum": "add"}).preds == ["1"]


def test_a_recorder_that_goes_on_with_a_file_knows_the_group_and_what_is_beneath(tmp_path):
    path = tmp_path / "h.jsonl"
    for agent in ("ada", "bob", "cy"):
        with Recorder(path) as recorder:
            if agent == "ada":
                recorder.seed({"sum": 1})
            added(recorder, agent)()
    assert [record.preds for record in read(path)] == [[], ["1"], ["1"], ["1"]]


@pytest.mark.parametrize("commutes", [{}, {"sum": "add"}], ids=["without", "with"])
def test_agents_that_read_a_sum_and_add_to_it_are_stale_unless_their_effects_commute(commutes):
    recorder = Recorder()
    recorder.seed({"sum": 0})
    plans = [added(recorder, f"agent-{number}", commutes=commutes) for number in range(AGENTS)]
    done = [plan() for plan in plans]
    recorder.retract(done[0])
    late = added(recorder, "late", commutes=commutes)()
    found = analyze(recorder.records)
    assert (found["A1"].count, found["A3"].count) == ((0, 0) if commutes else (AGENTS - 1, 0))
    assert late.preds == (["1"] if commutes else [done[-1].id])
