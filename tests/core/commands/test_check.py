"""`settlemark check` tells which anomalies a trace has, and its exit status says whether there are any."""

from __future__ import annotations

import json

import pytest

from settlemark import Settlement
from settlemark.history import OpRecord, Recorder, encode


def stale(path):
    with Recorder(path) as recorder:
        plan = recorder.begin("ada", reads={"date": None})
        recorder.begin("bob").commit(writes={"date": "21 June"})
        plan.commit(writes={"flight": "14 June"})
    return str(path)


def clean(path):
    with Recorder(path) as recorder:
        recorder.begin("bob").commit(writes={"date": "21 June"})
    return str(path)


def test_a_finding_is_told_in_a_sentence_with_its_lines_and_the_exit_status_is_1(run, tmp_path):
    said = run("check", stale(tmp_path / "h.jsonl"))
    assert said.exit_code == 1
    assert "2 operations, level L0" in said.stdout
    assert (
        "A1 (line 2, 1): ada read date = None at 0 and committed at 2; in between, at 1, bob wrote '21 June'"
        in said.stdout
    )
    assert "nothing =L0" in said.stdout


def test_without_a_finding_it_is_0_and_the_level_the_highest(run, tmp_path):
    said = run("check", clean(tmp_path / "h.jsonl"))
    assert (said.exit_code, "level L4" in said.stdout, "[A1·A3·A6·A2 =L4]" in said.stdout) == (0, True, True)


def test_as_json_it_has_every_verdict_of_every_file(run, tmp_path):
    said = run("check", stale(tmp_path / "a.jsonl"), clean(tmp_path / "b.jsonl"), "--json")
    one, two = json.loads(said.stdout)
    assert (said.exit_code, one["level"], two["level"], one["absent"]) == (1, "L0", "L4", ["A2", "A3", "A6"])
    assert [(v["anomaly"], v["count"]) for v in one["verdicts"] if v["count"]] == [("A1", 1)]
    assert one["verdicts"][0]["witnesses"][0]["records"] == [2, 1]


def test_a_history_out_of_order_is_sorted(run, tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"\n".join(encode(OpRecord(agent="a", read_time=0, write_time=time)) for time in (2, 1)))
    assert run("check", str(path)).exit_code == 0


def test_what_is_only_advisory_counts_when_it_is_to(run, tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(encode(OpRecord(agent="a", read_time=0, write_time=1, read_values={"x": "seed"})))
    assert [run("check", str(path), *options).exit_code for options in ((), ("--strict",))] == [0, 1]


def test_a_ledger_is_checked_too(run, tmp_path):
    ledger = tmp_path / "trip.db"
    with Settlement(f"sqlite:///{ledger}") as settlement, settlement.transaction("trip"):
        pass
    for name in (str(ledger), f"sqlite:///{ledger}"):
        assert run("check", name).exit_code == 0


def test_the_witness_is_drawn(run, tmp_path):
    picture = tmp_path / "h.png"
    assert run("check", stale(tmp_path / "h.jsonl"), "--plot", str(picture)).exit_code == 1
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), (b'{"agent": 7}\n', "line 1, field agent: Expected `str`, got `int`")],
)
def test_what_cannot_be_read_is_said_and_the_exit_status_is_2(run, tmp_path, content, said):
    path = tmp_path / "h.jsonl"
    if content is not None:
        path.write_bytes(content)
    done = run("check", str(path))
    assert (done.exit_code, said in done.stderr) == (2, True)
