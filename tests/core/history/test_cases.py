"""The cases that are not obvious: what fires, what does not, and why. Each is a paragraph of the anomaly papers."""

from __future__ import annotations

import pytest

from settlemark.history import Level, OpRecord, Witness, analyze


def op(agent, read, write, reads=None, writes=None, **rest):
    return OpRecord(
        agent=agent, read_time=read, write_time=write, read_values=reads or {}, write_values=writes or {}, **rest
    )


def found(*history):
    return {verdict.anomaly for verdict in analyze(history).verdicts if not verdict.absent}


def witnesses(anomaly, *history):
    return analyze(history)[anomaly].witnesses


def test_a_reader_that_commits_nothing_is_stale_too():
    assert "A1" in found(
        op("reporter", 0, 1, writes={"bug": "v0"}),
        op("reporter", 1, 2, writes={"bug": "v1"}),
        op("triager", 1, 3, reads={"bug": "v0"}),
    )


def test_a_read_that_is_a_true_snapshot_may_be_stale_when_it_is_acted_on():
    history = (op("a1", 0, 1, writes={"c": 1}), op("a2", 0, 2, reads={"c": None}, writes={"d": 1}))
    assert found(*history) == {"A1"}
    assert witnesses("A1", *history) == [
        Witness(
            "a2 read c = None at 0 and committed at 2; in between, at 1, a1 wrote 1", (2, 1), "c", (0, 1, 2), (None, 1)
        )
    ]


def test_a_value_that_went_and_came_back_was_stale_meanwhile():
    history = (
        op("a", 0, 1, writes={"c": "v0"}),
        op("b", 1, 2, writes={"c": "v1"}),
        op("b", 2, 3, writes={"c": "v0"}),
        op("a", 1, 4, reads={"c": "v0"}),
    )
    assert witnesses("A1", *history) == [
        Witness(
            "a read c = 'v0' at 1 and committed at 4; in between, at 2, b wrote 'v1'",
            (4, 2),
            "c",
            (1, 2, 4),
            ("v0", "v1"),
        )
    ]


def test_the_boundaries_of_the_window_are_strict():
    assert found(op("a", 0, 1, writes={"c": 1}), op("b", 1, 2, reads={"c": 1})) == set()


def test_a_write_of_the_value_that_was_read_changes_nothing():
    assert (
        found(
            op("a", 0, 1, writes={"c": 1}),
            op("a", 0, 2, writes={"c": 1}),
            op("b", 1, 3, reads={"c": 1}),
        )
        == set()
    )


def test_what_the_agent_wrote_itself_is_told_apart():
    history = (op("a", 0, 1, writes={"c": 1}), op("a", 0, 2, reads={"c": None}))
    assert found(*history) == {"A1-self"}
    assert witnesses("A1-self", *history) == [
        Witness(
            "a read c = None at 0 and committed at 2; in between, at 1, a wrote 1", (2, 1), "c", (0, 1, 2), (None, 1)
        )
    ]


def test_a_retracted_reader_and_a_retracted_writer_count():
    assert "A1" in found(op("a", 0, 1, writes={"c": 1}, aborted=True), op("b", 0, 2, reads={"c": None}, aborted=True))


def test_on_the_clock_of_supersteps_nodes_of_one_step_are_stale_whoever_ended_first():
    a = {"read_barrier": 0, "write_barrier": 1, "agent": "a", "read_values": {}, "write_values": {"c": 1}}
    b = {"read_barrier": 0, "write_barrier": 1, "agent": "b", "read_values": {"c": None}, "write_values": {}}
    first = [OpRecord(read_time=0, write_time=n, **each) for n, each in enumerate((a, b), 1)]
    last = [OpRecord(read_time=0, write_time=n, **each) for n, each in enumerate((b, a), 1)]
    assert (found(*first), found(*last)) == ({"A1", "A1-semantic"}, {"A1-semantic"})
    assert [witness.records for witness in witnesses("A1-semantic", *last)] == [(1, 2)]


def test_a_graph_that_is_run_again_from_an_older_checkpoint_is_not_stale_by_what_came_before():
    def steps(*barriers):
        return [
            op(agent, n, n + 1, {"c": "old"}, {"c": n}, read_barrier=barrier - 1, write_barrier=barrier)
            for n, (agent, barrier) in enumerate(zip("abababab", barriers, strict=False))
        ]

    assert found(*steps(1, 2, 3, 1, 2, 3)) == {"residue"}
    assert found(*steps(1, 2, 3, 1, 1, 2)) == {"residue", "A1-semantic"}
    assert [witness.records for witness in witnesses("A1-semantic", *steps(1, 2, 3, 1, 1, 2))] == [(4, 5), (5, 4)]


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


@pytest.mark.parametrize(("now", "what"), [(None, "was gone"), ("2", "was another one: '2' in place of '1'")])
def test_the_witness_of_a_phantom_tool_tells_what_has_become_of_it(now, what):
    record = op("a", 3, 7, planned_tool="t", read_registry={"t": "1"}, write_registry={} if now is None else {"t": now})
    assert witnesses("A2", record) == [Witness(f"a chose t at 3, and it {what} at 7", (1,), None, (3, 7), ("1", now))]


def test_a_cascade_is_a_record_that_stands_on_a_retracted_one():
    history = op("a", 0, 1, writes={"c": 1}, aborted=True, id="p"), op("b", 1, 2, reads={"c": 1}, preds=["p"])
    assert found(*history) == {"A3", "residue"}
    assert witnesses("A3", *history) == [
        Witness("b's operation of 2 stands, and it had observed operation 1, which was retracted", (2, 1), None, (2,))
    ]
    assert witnesses("residue", *history) == [
        Witness("b read c = 1 at 1, and no operation that stands had written that by then", (2,), "c", (1,), (1,))
    ]


def test_it_is_one_wherever_in_the_history_the_retracted_one_stands():
    history = op("b", 0, 2, preds=["p"], id="q"), op("c", 0, 3, preds=["q"], direct=True), op("a", 0, 4, id="p")
    assert found(*history) == set()
    history = (*history[:2], op("a", 0, 4, id="p", aborted=True))
    assert found(*history) == {"A3"}
    assert witnesses("A3", *history) == [
        Witness("b's operation of 2 stands, and it had observed operation 3, which was retracted", (1, 3), None, (2,)),
        Witness("c's operation of 3 stands, and it had observed operation 3, which was retracted", (2, 3), None, (3,)),
    ]


def test_an_id_that_is_used_again_means_the_last_record_before_the_reader_or_else_the_first_after():
    def reader(time):
        return op("r", time - 1, time, preds=["p"])

    def writer(time, aborted):
        return op("w", time - 1, time, id="p", aborted=aborted)

    assert found(writer(1, aborted=True), writer(2, aborted=False), reader(3)) == set()
    assert found(writer(1, aborted=False), writer(2, aborted=True), reader(3)) == {"A3"}
    assert found(writer(1, aborted=False), reader(2), writer(3, aborted=True)) == set()
    assert found(reader(1), writer(2, aborted=True), writer(3, aborted=False)) == {"A3"}
    assert found(reader(1), writer(2, aborted=False), writer(3, aborted=True)) == set()


def test_a_cascading_abort_satisfies_a3_and_not_a3x_when_the_mail_has_left():
    history = op("a", 0, 1, aborted=True, id="p"), op("b", 1, 2, preds=["p"], aborted=True, externalized=True)
    assert found(*history) == {"A3x"}
    assert witnesses("A3x", *history) == [
        Witness("b's operation of 2 has left, and it had observed operation 1, which was retracted", (2, 1), None, (2,))
    ]


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
    assert witnesses("effects", op("a", 0, 1, io=io, co=[*io[:1], ("sms", 3)])) == [
        Witness("of a's effects pay was lost, sms was added", (1,), None, (1,))
    ]
    assert found(op("a", 0, 1, io=io, co=[*io, ("pay", 2)])) == {"effects"}
    assert found(op("a", 0, 1, io=[("m", 1), ("m", 1)], co=[("m", 1), ("m", 1)])) == set()
    assert found(op("a", 0, 1, io=[("m", True), ("m", 1)], co=[("m", 1), ("m", True)])) == {"A6"}


def test_the_witness_of_reordered_effects_names_the_first_that_is_out_of_place():
    io = [("log", 0), ("mail", 1), ("pay", 2)]
    assert witnesses("A6", op("a", 0, 1, io=io, co=[io[0], io[2], io[1]])) == [
        Witness(
            "a issued log=0, mail=1, pay=2, and they left as log=0, pay=2, mail=1",
            (1,),
            "mail",
            (1,),
            ([["log", 0], ["mail", 1], ["pay", 2]], [["log", 0], ["pay", 2], ["mail", 1]]),
        )
    ]


def test_the_chain_calls_a_trace_with_stale_generation_alone_l0_and_the_point_says_the_rest():
    history = (op("a1", 0, 1, writes={"c": 1}), op("a2", 0, 2, reads={"c": None}))
    analysis = analyze(history)
    assert (analysis.level, analysis.point) == (Level.L0, {"A2", "A3", "A6"})


def test_a_clean_history_is_at_the_top():
    assert analyze([op("a", 0, 1, writes={"c": 1})]).level is Level.L4


def test_a_number_that_is_somebodys_id_is_nobodys_place():
    """Only who has no id is called by its place: what reads `1` waits for whoever is called so."""
    history = [
        OpRecord(agent="ada", id="7", read_time=0, write_time=1),
        OpRecord(agent="bob", read_time=1, write_time=2, preds=["1"]),
        OpRecord(agent="cy", id="1", read_time=0, write_time=3, aborted=True),
    ]
    assert [witness.records for witness in analyze(history)["A3"].witnesses] == [(2, 3)]
