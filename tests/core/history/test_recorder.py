"""Two lines around what an agent does make a history, in whatever loop it runs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from decimal import Decimal
from math import inf, nan

import pytest

from settlemark import StateError
from settlemark.history import HistoryError, HistoryFile, OpRecord, Recorder, analyze, read


@pytest.fixture(params=["memory", "file"])
def history(request, tmp_path):
    """A recorder, and what it has recorded."""
    if request.param == "memory":
        recorder = Recorder()
        yield recorder, lambda: recorder.records
    else:
        path = tmp_path / "h.jsonl"
        with Recorder(path) as recorder:
            yield recorder, lambda: list(read(path))


def absent(records):
    return {verdict.anomaly: verdict.count for verdict in analyze(records).verdicts if verdict.count}


def test_an_operation_reads_the_clock_when_it_begins_and_ticks_it_when_it_commits(history):
    recorder, records = history
    plan = recorder.begin("ada", reads={"date": None}, tool="book", registry={"book": "1"}, name="trip")
    recorder.begin("bob").commit(writes={"date": "21 June"})
    made = plan.commit(writes={"flight": "14 June"}, io=[("mail", 1)], externalized=True)
    assert records()[-1] == made
    assert (made.agent, made.read_time, made.write_time, made.name, made.planned_tool) == ("ada", 0, 2, "trip", "book")
    assert (made.io, made.co, made.write_registry, made.externalized) == (
        [("mail", 1)],
        [("mail", 1)],
        {"book": "1"},
        True,
    )
    assert absent(records()) == {"A1": 1}


def test_what_was_there_before_is_no_residue_when_it_is_seeded(history):
    recorder, records = history
    recorder.seed({"date": "14 June"})
    recorder.begin("ada", reads={"date": "14 June"}).commit()
    assert absent(records()) == {}
    assert (recorder.seed({}), len(records())) == (None, 2)


def test_who_had_written_what_was_read_is_a_predecessor_and_retracting_it_is_a_cascade(history):
    recorder, records = history
    wrote = recorder.begin("ada").commit(writes={"plan": "v1"})
    recorder.begin("bob", reads={"plan": "v1"}).commit(writes={"draft": "d1"}, externalized=True)
    recorder.begin("cy", reads={"draft": "d1"}).commit()
    assert [record.preds for record in records()] == [[], ["1"], ["2"]]
    recorder.retract(wrote)
    assert [record.aborted for record in records()] == [True, False, False]
    assert absent(records()) == {"A3": 2, "A3x": 1, "residue": 1}


def test_one_that_is_dropped_leaves_no_record(history):
    recorder, records = history
    recorder.begin("ada", reads={"x": 1}).drop()
    assert records() == []


def test_one_that_has_ended_is_over(history):
    recorder, records = history
    operation = recorder.begin("ada")
    operation.commit()
    for end in (operation.commit, operation.drop):
        with pytest.raises(StateError, match="this operation of ada has ended: begin another"):
            end()
    assert len(records()) == 1


def test_agents_in_threads_get_times_of_their_own(history):
    recorder, records = history

    def work(agent):
        for n in range(50):
            recorder.begin(agent, reads={"x": None}).commit(writes={f"{agent}/{n}": n})

    threads = [threading.Thread(target=work, args=(agent,)) for agent in ("ada", "bob", "cy")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.write_time for record in records()] == list(range(1, 151))
    assert absent(records()) == {}


def test_values_of_whatever_kind_are_recorded_as_json(history):
    recorder, records = history
    when = datetime(2026, 6, 14, tzinfo=UTC)
    values = {"when": when, "sum": Decimal("1.5"), "nan": nan, "most": inf, "pair": (1, 2), "of": {3: True}}
    plain = {
        "when": "2026-06-14T00:00:00+00:00",
        "sum": "Decimal('1.5')",
        "nan": "nan",
        "most": "inf",
        "pair": [1, 2],
        "of": {"3": True},
    }
    made = recorder.begin("ada", reads=values).commit(writes=values, io=[("mail", when)])
    assert records() == [made]
    assert (made.read_values, made.write_values) == (plain, plain)
    assert made.io == made.co == [("mail", plain["when"])]
    assert absent(records())["residue"] == 1


def test_what_becomes_of_a_value_afterwards_changes_no_record(history):
    recorder, records = history
    seen, written, sent = ["a"], ["b"], ["c"]
    operation = recorder.begin("ada", reads={"x": seen})
    seen.append(1)
    made = operation.commit(writes={"y": written}, io=[("mail", sent)])
    written.append(1)
    sent.append(1)
    assert records() == [made]
    assert (made.read_values, made.write_values, made.io) == ({"x": ["a"]}, {"y": ["b"]}, [("mail", ["c"])])


def test_what_cannot_be_told_is_refused_nothing_changed_and_it_can_be_committed_again(history):
    class Broken:
        def model_dump(self):
            raise ValueError("no model")

    recorder, records = history
    operation = recorder.begin("ada")
    with pytest.raises(ValueError, match="no model"):
        operation.commit(writes={"x": Broken()})
    assert (records(), recorder.clock, recorder.written_at("x")) == ([], 0, 0)
    assert operation.commit(writes={"x": 1}).write_time == 1
    assert len(records()) == 1


def test_what_the_file_does_not_take_is_refused_nothing_changed_and_it_can_be_committed_again(tmp_path):
    path = tmp_path / "h.jsonl"
    with Recorder(path) as recorder:
        plan = recorder.begin("ada", tool="book", registry={"book": "1"})
        with recorder.acting(plan, {"book": "2"}):
            operation = recorder.begin("bob")
            with pytest.raises(UnicodeEncodeError):
                operation.commit(writes={"x": "\ud800"})
            assert (path.read_bytes(), recorder.clock, recorder.written_at("x")) == (b"", 0, 0)
            made = operation.commit(writes={"x": "y"})
    assert (made.agent, made.planned_tool, made.write_registry) == ("ada", "book", {"book": "2"})
    assert list(read(path)) == [made]


def test_a_later_recorder_goes_on_with_the_history_at_its_clock(tmp_path):
    path = tmp_path / "h.jsonl"
    for n in range(3):
        with Recorder(path) as recorder:
            assert (recorder.clock, recorder.written_at("x")) == (n, n)
            recorder.begin("ada", reads={"x": n - 1 if n else None}).commit(writes={"x": n})
    assert [(r.id, r.read_time, r.write_time, r.preds) for r in read(path)] == [
        ("1", 0, 1, []),
        ("2", 1, 2, ["1"]),
        ("3", 2, 3, ["2"]),
    ]
    assert absent(read(path)) == {}


def test_a_file_that_is_no_history_is_refused_and_nothing_changed(tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_text('{"name": "ada"}\n')
    for _ in range(2):
        with pytest.raises(HistoryError, match="line 1"):
            Recorder(path)
    assert path.read_text() == '{"name": "ada"}\n'


def test_the_clock_and_when_a_cell_was_written_last_are_told(history):
    recorder, _ = history
    assert (recorder.clock, recorder.written_at("x")) == (0, 0)
    recorder.begin("ada").commit(writes={"x": 1})
    recorder.begin("bob").commit()
    assert (recorder.clock, recorder.written_at("x"), recorder.written_at("y")) == (2, 1, 0)


def test_all_who_record_share_what_they_know_of_its_cells(history):
    recorder, _ = history
    assert recorder.shared(lambda of: {"of": of}) is recorder.shared(lambda of: {})


@pytest.mark.parametrize(
    ("before", "after"), [({"seen": None}, {}), ({}, {"late": 1})], ids=["a read", "a second write"]
)
def test_only_the_first_write_within_is_the_act_of_the_plan(history, before, after):
    recorder, records = history
    plan = recorder.begin("ada", tool="book", registry={"book": "1"})
    with recorder.acting(plan, {"book": "2"}):
        if before:
            recorder.begin("bob", reads=before).commit()
        recorder.begin("bob").commit(writes={"room": "Ada"})
        if after:
            recorder.begin("bob").commit(writes=after)
    beside = ("bob", None, {}, {})
    act = ("ada", "book", {"book": "1"}, {"book": "2"})
    found = [(r.agent, r.planned_tool, r.read_registry, r.write_registry) for r in records()]
    assert found == ([beside, act] if before else [act, beside])


def test_a_recorder_goes_on_at_the_greatest_time_of_a_history_whose_lines_are_in_no_order(tmp_path):
    path = tmp_path / "h.jsonl"
    with HistoryFile(path) as file:
        for time in (1, 3, 2):
            file.write(OpRecord(agent="ada", read_time=time - 1, write_time=time, write_values={f"x{time}": time}))
    with Recorder(path) as recorder:
        assert (recorder.clock, recorder.begin("bob").commit().write_time) == (3, 4)
