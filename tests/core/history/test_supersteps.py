"""Nodes of supersteps as operations: they commit together at its end, on both clocks, or not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from settlemark.history import Recorder, analyze
from settlemark.history._importers.supersteps import Supersteps


class Run:
    """A graph whose nodes run as told."""

    def __init__(self, thread="g"):
        self.recorder = Recorder()
        self.steps = Supersteps(self.recorder)
        self.thread = thread
        self.number = 0

    def begin(self, node, step, given=None, *, run="r", keeps_state=True):
        self.number += 1
        task = f"{node} {self.number}"
        self.steps.began(
            task, graph=self.thread, run=run, node=node, step=step, given=given, prefix="", keeps_state=keeps_state
        )
        return task

    def node(self, node, step, given=None, writes=None, **more):
        self.steps.ended(self.begin(node, step, given, **more), writes or {})

    @property
    def shown(self):
        return [(r.agent, r.read_time, r.write_time, r.write_values) for r in self.recorder.records]

    @property
    def found(self):
        return {v.anomaly: v.count for v in analyze(self.recorder.records).verdicts if v.count}


NODES = st.lists(
    st.lists(st.tuples(st.sets(st.sampled_from("xyz")), st.sets(st.sampled_from("xyz"))), min_size=1, max_size=3),
    min_size=1,
    max_size=4,
)


@given(NODES)
def test_a_node_is_stale_exactly_when_one_beside_it_writes_what_it_reads(supersteps):
    run, state, stale = Run(), dict.fromkeys("xyz", 0), 0
    for step, nodes in enumerate(supersteps, 1):
        begun = [run.begin(f"n{n}", step, {key: state[key] for key in reads}) for n, (reads, _) in enumerate(nodes)]
        after = dict(state)
        for n, (_, writes) in enumerate(nodes):
            after |= dict.fromkeys(writes, f"{step}.{n}")
            run.steps.ended(begun[n], {key: after[key] for key in writes})
        state = after
        for n, (reads, _) in enumerate(nodes):
            stale += any(reads & writes for m, (_, writes) in enumerate(nodes) if m != n)
    run.steps.over("r")

    assert run.found.get("A1-semantic", 0) == stale
    assert run.found.get("residue") is None
    assert run.found.get("A1", 0) <= stale
    times = [record.write_time for record in run.recorder.records]
    assert times == sorted(times)


def test_a_superstep_commits_when_the_next_one_begins_in_the_order_in_which_its_nodes_ended():
    run = Run()
    a, b = run.begin("a", 1, {"x": 0}), run.begin("b", 1, {"x": 0})
    run.steps.ended(b, {"y": 1})
    run.steps.ended(a, {"x": 1})
    assert [r.agent for r in run.recorder.records] == ["input"]
    run.node("c", 2, {"x": 1, "y": 1})

    assert run.shown == [("input", 0, 1, {"x": 0}), ("b", 1, 2, {"y": 1}), ("a", 1, 3, {"x": 1})]
    assert [(r.read_barrier, r.write_barrier) for r in run.recorder.records[1:]] == [(0, 1), (0, 1)]


def test_what_a_failed_superstep_returned_did_not_become_visible():
    run = Run()
    run.node("a", 1, writes={"x": 1})
    run.steps.failed(run.begin("b", 1))
    run.steps.over("r", applied=False)
    run.steps.close()
    assert (run.shown, run.steps.lost) == ([], 1)


def test_two_writes_that_the_channel_refuses_did_not_become_visible_either():
    run = Run()
    run.node("a", 1, writes={"x": 1})
    run.node("b", 1, writes={"x": 2})
    run.steps.over("r", applied=False)
    run.node("c", 2, {"x": None}, run="r2")
    run.steps.over("r2")
    assert [r.agent for r in run.recorder.records] == ["c"]


def test_a_failed_node_that_is_resumed_completes_its_superstep():
    run = Run()
    run.node("a", 1, writes={"x": 1})
    run.steps.failed(run.begin("b", 1))
    run.steps.over("r", applied=False)
    run.node("b", 1, writes={"y": 1}, run="r2")
    run.steps.over("r2")
    assert [(r.agent, r.write_values) for r in run.recorder.records] == [("a", {"x": 1}), ("b", {"y": 1})]


def test_and_one_that_is_not_takes_its_superstep_with_it():
    run = Run()
    run.node("a", 1, writes={"x": 1})
    run.steps.failed(run.begin("b", 1))
    run.steps.over("r", applied=False)
    run.node("a", 2, writes={"x": 2}, run="r2")
    run.steps.over("r2")
    assert [(r.agent, r.write_values) for r in run.recorder.records] == [("a", {"x": 2})]


def test_a_run_without_a_thread_leaves_nothing_behind():
    run = Run()
    run.node("a", 1, {"x": 0}, {"x": 1}, keeps_state=False)
    run.steps.over("r")
    run.node("a", 1, {"x": 0}, {"x": 1}, keeps_state=False, run="r2")
    run.steps.over("r2")
    assert [r.agent for r in run.recorder.records] == ["input", "a", "input", "a"]
    assert run.steps._graphs == {}
    assert run.steps._of == {}


def test_what_somebody_edits_between_two_supersteps_is_logged_as_a_write_of_its_own():
    run = Run()
    run.node("a", 1, {"x": 0}, {"x": 1})
    run.node("b", 2, {"x": 7})
    run.steps.over("r")
    assert run.shown[-2:] == [("a", 1, 2, {"x": 7}), ("b", 2, 3, {})]
    run.node("c", 3, {"x": 8})
    assert run.shown[-1] == ("input", 3, 4, {"x": 8})
