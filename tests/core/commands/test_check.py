"""`settlemark check` tells which anomalies a trace has, and its exit status says whether there are any."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from settlemark import Settlement, current_call, effect
from settlemark.history import OpRecord, Recorder, ReplicaRead, ReplicaReadFile, encode, read
from settlemark.testing import Bank

AGENTS = 16


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


OP = '{"agent":"a","read_time":0,"write_time":1'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OP + "}\n" + '{"retracted":"a', "h.jsonl, line 2: Input data was truncated"),
        (OP + ',"write_values":{"x":' + "[" * 100_000 + "]" * 100_000 + "}}\n", "line 1"),
    ],
)
def test_input_that_cannot_be_read_is_named_and_the_exit_status_is_2(run, tmp_path, text, said):
    path = tmp_path / "h.jsonl"
    path.write_text(text)
    found = run("check", str(path))
    assert (found.exit_code, said in found.stderr, type(found.exception)) == (2, True, SystemExit)


@pytest.mark.parametrize("name", ["h[/red].jsonl", "h[red].jsonl"])
def test_a_name_is_told_as_it_is_whatever_it_looks_like(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).parent.mkdir(exist_ok=True)
    clean(name)
    found = run("check", name)
    assert (found.exit_code, f"{name}: 1 operations" in found.stdout) == (0, True)


def test_halves_of_characters_are_told_as_json_escapes_them(run, tmp_path):
    path = tmp_path / "t.jsonl"
    call = {"id": "1", "type": "function", "function": {"name": "set_\ud800", "arguments": '{"a": 1}'}}
    lines = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    found = run("check", str(path))
    assert (found.exit_code, "set_\\ud800" in found.stdout) == (0, True)
    found = run("check", str(path), "--json")
    assert list(json.loads(found.stdout)[0]["tools"]) == ["set_\ud800"]


# ---- traces of others


def chat(path, *lines):
    call = [
        {"id": n, "type": "function", "function": {"name": "forward", "arguments": json.dumps({"to": n})}} for n in "ab"
    ]
    said = [
        {"role": "assistant", "content": None, "tool_calls": call, "timestamp": 1},
        {"role": "tool", "tool_call_id": "a", "content": "ok", "timestamp": 3},
        {"role": "tool", "tool_call_id": "b", "content": "ok", "timestamp": 2},
    ]
    path.write_text("\n".join([*map(json.dumps, said), *lines]))
    return str(path)


def test_of_a_trace_of_others_it_is_told_how_much_was_understood_and_how(run, tmp_path):
    said = run("check", chat(tmp_path / "chat.jsonl", "{", *['{"role": "oracle"}'] * 6))
    assert said.exit_code == 1
    assert "3 of 10 parsed as chat" in said.stdout
    assert "not parsed, line 4: no JSON" in said.stdout
    assert "not parsed, line 5: no message" in said.stdout
    assert "not parsed: 2 more; --json has them all" in said.stdout
    assert "by their names: forward writes" in said.stdout
    assert "note: the names of forward do not say" in said.stdout
    assert (
        "A6 (operation 2): assistant issued forward:/a='forward', forward:/b='forward', and they left as forward:/b"
        in said.stdout
    )


def test_as_json_that_is_there_for_every_file(run, tmp_path):
    said = run("check", chat(tmp_path / "chat.jsonl", "{"), clean(tmp_path / "h.jsonl"), "--json")
    chats, history = json.loads(said.stdout)
    assert (chats["format"], chats["parsed"], chats["total"], chats["tools"]) == ("chat", 3, 4, {"forward": "write"})
    assert [each["line"] for each in chats["skipped"]] == [4]
    assert len(chats["notes"]) == 1
    assert (history["format"], history["parsed"], history["total"], history["skipped"]) == ("history", 1, 1, [])


@pytest.mark.parametrize("how", ["effects", "module"])
def test_what_tools_do_may_be_said(run, tmp_path, how):
    (tmp_path / "effects.json").write_text('{"forward": "read"}')
    (tmp_path / "bank_tools.py").write_text(
        'from settlemark import effect\n\n\n@effect("read", scope="account:/{to}")\ndef forward(to): ...\n'
    )
    path = chat(tmp_path / "chat.jsonl")
    options = ["--effects", "effects.json"] if how == "effects" else ["--module", "bank_tools"]
    said = run("check", path, *options, "--json")
    assert (said.exit_code, json.loads(said.stdout)[0]["tools"]) == (0, {})


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ('{"level": "info"}\n', [], "line 1: it is none of the traces that are known"),
        ('{"level": "info"}\n', ["--format", "chat"], "none of 1 parsed as chat; line 1: no message"),
        ('{"role": "user", "content": "x"}\n', ["--format", "csv"], "format='csv' is unknown: choose auto or one of"),
        ('{"role": "user", "content": "x"}\n', ["--effects", "none.json"], "none.json cannot be read"),
        ('{"role": "user", "content": "x"}\n', ["--effects", "list.json"], "list.json is not a JSON object"),
        ('{"role": "user", "content": "x"}\n', ["--effects", "bad.json"], "effects says 'reads' of forward"),
        ('{"role": "user", "content": "x"}\n', ["--module", "nowhere"], "--module nowhere cannot be imported"),
    ],
)
def test_what_is_no_trace_and_what_cannot_be_said_of_it_is_refused_with_2(run, tmp_path, content, options, said):
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "bad.json").write_text('{"forward": "reads"}')
    (tmp_path / "trace").write_text(content)
    done = run("check", str(tmp_path / "trace"), *options)
    assert (done.exit_code, said in " ".join(done.stderr.split())) == (2, True)


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


# ---- logs of reads


def reads(path, *answers):
    with ReplicaReadFile(path) as log:
        for version, (replica, value) in enumerate(answers, 1):
            log(ReplicaRead(cell="plan", replica=replica, version=version, value=value))
    return str(path)


def test_a_split_view_in_a_log_of_reads_is_told_and_has_no_level(run, tmp_path):
    path = reads(tmp_path / "reads.jsonl", ("eu", "fly"), ("primary", "drive"))
    for options in ((), ("--format", "reads")):
        said = run("check", path, *options)
        text = " ".join(said.stdout.split())
        assert said.exit_code == 1
        assert "2 reads" in text
        assert "2 of 2 parsed as reads" in text
        assert (
            "A4 (read 1, 2): somebody read plan = 'fly' from eu (version 1), and somebody read plan = 'drive' from"
            " primary (version 2)" in text
        )
        assert "level" not in text
        assert "=L0" not in text


def test_a_log_of_reads_without_a_split_view_ends_with_0(run, tmp_path):
    said = run("check", reads(tmp_path / "reads.jsonl", ("primary", "fly"), ("primary", "drive")))
    assert (said.exit_code, "none" in said.stdout) == (0, True)


def test_as_json_a_log_of_reads_has_the_fields_of_every_file(run, tmp_path):
    path = reads(tmp_path / "reads.jsonl", ("eu", "fly"), ("primary", "drive"))
    log, history = json.loads(run("check", path, clean(tmp_path / "h.jsonl"), "--json").stdout)
    assert log.keys() == history.keys()
    assert (log["format"], log["records"], log["level"], log["absent"]) == ("reads", 2, None, None)
    assert [(v["anomaly"], v["count"], v["witnesses"][0]["values"]) for v in log["verdicts"]] == [
        ("A4", 2, ["fly", "drive"])
    ]


def test_a_split_view_is_drawn_too(run, tmp_path):
    path, picture = reads(tmp_path / "reads.jsonl", ("eu", "fly"), ("primary", "drive")), tmp_path / "h.svg"
    assert run("check", path, stale(tmp_path / "h.jsonl"), "--plot", str(picture)).exit_code == 1
    drawn = picture.read_text()
    assert [f"<!-- {path}: A4, split view, 2 times -->" in drawn, "A1, stale generation" in drawn] == [True, True]


@pytest.mark.parametrize(
    ("picture", "said"),
    [
        ("z.bogus", "names no format that can be drawn: end it in .png or .svg"),
        ("nowhere/z.png", "to draw z.png in: make it, or name another file"),
        ("folder.png", "may not be written: name another file"),
    ],
)
def test_where_no_picture_can_be_drawn_is_said_and_nothing_is_looked_at(run, tmp_path, picture, said):
    (tmp_path / "folder.png").mkdir()
    done = run("check", str(tmp_path / "there-is-none"), "--plot", str(tmp_path / picture))
    told = " ".join(done.stderr.split())
    assert (done.exit_code, done.stdout, said in told, "nothing was looked at" in told) == (2, "", True, True)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_bad_line_of_a_log_of_reads_is_named_and_the_exit_status_is_2(run, tmp_path):
    path = reads(tmp_path / "reads.jsonl", ("eu", "fly"))
    with (tmp_path / "reads.jsonl").open("a") as file:
        file.write('{"cell": "plan", "replica": "eu", "version": "one", "value": 1}\n')
    said = run("check", path)
    assert (said.exit_code, f"{path}, line 2, field version: Expected `int`" in said.stderr) == (2, True)


# ---- what cannot be looked at is said


def test_a_ledger_in_which_nothing_has_committed_says_that_there_was_nothing_to_look_at(run, tmp_path):
    ledger = tmp_path / "trip.db"
    with Settlement(f"sqlite:///{ledger}") as settlement, pytest.raises(KeyError):
        with settlement.transaction("trip") as tx:
            tx.call(effect("irreversible", scope="cell:/x")(lambda: None))
            raise KeyError

    said = run("check", str(ledger))

    assert said.exit_code == 0
    assert "note: no effect in it has committed, so there was nothing to look at" in said.stdout


def test_a_ledger_is_looked_at_for_the_order_of_effects_alone_and_has_no_level(run, tmp_path):
    ledger = tmp_path / "trip.db"
    with Settlement(f"sqlite:///{ledger}") as settlement, settlement.transaction("trip") as tx:
        tx.call(effect("irreversible", scope="cell:/x")(lambda: None))
    (found,) = json.loads(run("check", str(ledger), "--json").stdout)
    assert [verdict["anomaly"] for verdict in found["verdicts"]] == ["A6", "effects"]
    assert (found["level"], found["absent"], found["records"]) == (None, None, 1)
    assert ["A1, A2 and A3 were not looked at" in note for note in found["notes"]] == [True]


def test_where_nothing_was_done_no_level_is_claimed(run, tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    done = run("check", str(tmp_path / "empty.jsonl"))
    assert (done.exit_code, "level" in done.stdout, "nothing to look at" in done.stdout) == (0, False, True)


def test_a_pipe_is_refused_for_it_is_read_more_than_once(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run("check", str(tmp_path / "pipe"))
    assert (done.exit_code, done.stdout, "save it as a file" in done.stderr) == (2, "", True)


def test_a_function_of_a_module_that_fails_is_named(run, tmp_path):
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps([{"role": "assistant", "content": "hello", "tool_calls": []}]))
    done = run("check", str(chat), "--module", "json:dumps")
    told = " ".join(done.stderr.split())
    assert (done.exit_code, "--module json:dumps: dumps failed: TypeError" in told) == (2, True)


def test_effects_that_are_no_words_are_refused(run, tmp_path):
    chat, effects = tmp_path / "chat.json", tmp_path / "effects.json"
    call = {"id": "1", "function": {"name": "foo", "arguments": "{}"}}
    chat.write_text(json.dumps([{"role": "assistant", "content": "", "tool_calls": [call]}]))
    effects.write_text('{"foo": 5}')
    done = run("check", str(chat), "--effects", str(effects))
    assert (done.exit_code, "effects says 5 of foo" in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize("store", ["memory:", "sqlite"])
def test_what_sixteen_agents_add_beside_each_other_is_without_anomaly_by_the_command(tmp_path, run, store):
    path = tmp_path / "h.jsonl"
    url = store if store == "memory:" else f"sqlite:///{tmp_path / 'ledger.db'}"
    all_have_paid = threading.Barrier(AGENTS, timeout=60)
    with Bank({"payer": 1_000, "fund": 0}) as bank:

        @effect("reversible", scope="account:/fund", undo=lambda result: bank.reverse(result), commutes="pay in")
        def pay(amount: int) -> str:
            return bank.wire(current_call().key, "payer", "fund", amount)

        def agent(number):
            with settlement.transaction(f"agent-{number}") as tx:
                tx.call(pay, amount=number + 1)
                all_have_paid.wait()

        with Settlement(url, history=path) as settlement:
            threads = [threading.Thread(target=agent, args=(number,)) for number in range(AGENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with settlement.transaction("auditor") as tx:
                assert tx.read("account:/fund", lambda: bank.balances()["fund"]) == 136
    said = run("check", str(path))
    assert (said.exit_code, "17 operations, level L4" in said.stdout) == (0, True)
    assert [r.commutes for r in read(path) if r.write_values] == [{"account:/fund": "pay in"}] * AGENTS
