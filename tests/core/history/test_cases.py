"""The cases that are not obvious: what fires, what does not, and why. Each is a paragraph of the anomaly papers."""

from __future__ import annotations

import pytest

from settlemark.history import Level, OpRecord, analyze


def op(agent, read, write, reads=None, writes=None, **rest):
    return OpRecord(
        agent=agent, read_time=read, write_time=write, read_values=reads or {}, write_values=writes or {}, **rest
    )


def found(*history):
    return {verdict.anomaly for verdict in analyze(history).verdicts if not verdict.absent}


def test_a_reader_that_commits_nothing_is_stale_too():
    assert "A1" in found(
        op("reporter", 0, 1, writes={"bug": "v0"}),
        op("reporter", 1, 2, writes={"bug": "v1"}),
        op("triager", 1, 3, reads={"bug": "v0"}),
    )


def test_a_read_that_is_a_true_snapshot_may_be_stale_when_it_is_acted_on():
    history = (op("a1", 0, 1, writes={"c": 1}), op("a2", 0, 2, reads={"c": None}, writes={"d": 1}))
    assert found(*history) == {"A1"}
    assert analyze(history)["A1"].witnesses[0].sentence == (
        "a2 read c = None at 0 and committed at 2; in between, at 1, a1 wrote 1"
    )


def test_a_value_that_went_and_came_back_was_stale_meanwhile():
    history = (
        op("a", 0, 1, writes={"c": "v0"}),
        op("b", 1, 2, writes={"c": "v1"}),
        op("b", 2, 3, writes={"c": "v0"}),
        op("a", 1, 4, reads={"c": "v0"}),
    )
    assert analyze(history)["A1"].witnesses[0].times == (1, 2, 4)


def test_the_boundaries_of_the_window_are_strict():
    assert found(op("a", 0, 1, writes={"c": 1}), op("b", 1, 2, reads={"c": 1})) == set()


def test_a_write_of_the_value_that_was_read_changes_nothing():
    assert found(
        op("a", 0, 1, writes={"c": 1}), op("a", 0, 2, writes={"c": 1}), op("b", 1, 3, reads={"c": 1}),
    ) == set()  # fmt: skip


def test_what_the_agent_wrote_itself_is_told_apart():
    assert found(op("a", 0, 1, writes={"c": 1}), op("a", 0, 2, reads={"c": None})) == {"A1-self"}


def test_a_retracted_reader_and_a_retracted_writer_count():
    assert "A1" in found(op("a", 0, 1, writes={"c": 1}, aborted=True), op("b", 0, 2, reads={"c": None}, aborted=True))


def test_on_the_clock_of_supersteps_nodes_of_one_step_are_stale_whoever_ended_first():
    a = {"read_barrier": 0, "write_barrier": 1, "agent": "a", "read_values": {}, "write_values": {"c": 1}}
    b = {"read_barrier": 0, "write_barrier": 1, "agent": "b", "read_values": {"c": None}, "write_values": {}}
    first = [OpRecord(read_time=0, write_time=n, **each) for n, each in enumerate((a, b), 1)]
    last = [OpRecord(read_time=0, write_time=n, **each) for n, each in enumerate((b, a), 1)]
    assert (found(*first), found(*last)) == ({"A1", "A1-semantic"}, {"A1-semantic"})


@pytest.mark.parametrize(
    ("planned", "before", "after", "fires"),
    [
        ("t", {"t": "1"}, {}, True),
        ("t", {"t": "1"}, {"t": "2"}, True),
        ("t", {"t": "1"}, {"t": "1", "u": "1"}, False),
        ("t", {"t": "1"}, {"t": "1"}, False),
        ("t", {}, {}, False),  # hallucinated: it was never there
        (None, {"t": "1"}, {}, False),
    ],
)
def test_a_phantom_tool_was_there_and_is_gone_or_another(planned, before, after, fires):
    record = op("a", 0, 1, planned_tool=planned, read_registry=before, write_registry=after)
    assert ("A2" in found(record)) is fires


def test_a_cascade_is_a_record_that_stands_on_a_retracted_one():
    assert found(
        op("a", 0, 1, writes={"c": 1}, aborted=True, id="p"), op("b", 1, 2, reads={"c": 1}, preds=["p"]),
    ) == {"A3", "residue"}  # fmt: skip


def test_a_cascading_abort_satisfies_a3_and_not_a3x_when_the_mail_has_left():
    assert found(op("a", 0, 1, aborted=True, id="p"), op("b", 1, 2, preds=["p"], aborted=True, externalized=True)) == {
        "A3x"
    }


def test_direct_predecessors_are_followed_to_what_lies_behind_them():
    history = [op("a", 0, 1, aborted=True, id="p"), op("b", 1, 2, preds=["p"], direct=True, id="q", aborted=True)]
    assert "A3" in found(*history, op("c", 2, 3, preds=["q"], direct=True))
    assert "A3" in found(*history[:1], op("b", 1, 2, preds=["p"], direct=True, id="q"), op("c", 2, 3, preds=["q"]))


def test_residue_fires_on_a_value_that_was_there_before_and_not_when_that_was_logged():
    reader = op("b", 1, 2, reads={"c": "seed"})
    assert found(reader) == {"residue"}
    assert found(op("setup", 0, 1, writes={"c": "seed"}), reader) == set()


def test_residue_misses_a_cascade_where_a_survivor_wrote_the_same_value_or_the_value_was_none():
    retracted = op("a", 0, 1, writes={"c": "v"}, aborted=True, id="p")
    survivor = op("d", 0, 2, writes={"c": "v"})
    assert found(retracted, survivor, op("b", 2, 3, reads={"c": "v"}, preds=["p"])) == {"A3"}
    nothing = op("a", 0, 1, writes={"c": None}, aborted=True, id="p")
    assert found(nothing, op("b", 1, 2, reads={"c": None}, preds=["p"])) == {"A3"}


def test_effects_that_left_in_another_order_are_reordered_and_lost_ones_are_not():
    io = [("mail", 1), ("pay", 2)]
    assert found(op("a", 0, 1, io=io, co=io[::-1])) == {"A6"}
    assert found(op("a", 0, 1, io=io, co=io[:1])) == {"effects"}
    assert found(op("a", 0, 1, io=io, co=[*io, ("pay", 2)])) == {"effects"}
    assert found(op("a", 0, 1, io=[("m", 1), ("m", 1)], co=[("m", 1), ("m", 1)])) == set()
    assert found(op("a", 0, 1, io=[("m", True), ("m", 1)], co=[("m", 1), ("m", True)])) == {"A6"}


def test_the_chain_calls_a_trace_with_stale_generation_alone_l0_and_the_point_says_the_rest():
    history = (op("a1", 0, 1, writes={"c": 1}), op("a2", 0, 2, reads={"c": None}))
    analysis = analyze(history)
    assert (analysis.level, analysis.point) == (Level.L0, {"A2", "A3", "A6"})


def test_a_clean_history_is_at_the_top():
    assert analyze([op("a", 0, 1, writes={"c": 1})]).level is Level.L4
