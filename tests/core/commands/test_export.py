from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.extent import examples
from tests.rooms.ledger import Page

from settlemark import Settlement, effect
from settlemark._cli.commands.export import lines
from settlemark.ledger import open_ledger


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel):
    return "R-7"


@effect("irreversible", scope="mail:/{to}")
def send(to, text): ...


def exported(run, *arguments):
    said = run("export", *arguments)
    assert said.exit_code == 0
    return [json.loads(line) for line in said.stdout.splitlines()]


@pytest.fixture
def trips(store):
    with Settlement(store) as settlement:
        with settlement.transaction("trip-1/book") as tx:
            tx.call(reserve, hotel="Ada")
            tx.call(send, to="a@b.example", text="the secret")
        with contextlib.suppress(ZeroDivisionError), settlement.transaction("trip-2/book") as tx:
            tx.call(reserve, hotel="Bee")
            raise ZeroDivisionError("the secret")
    return store


def test_every_decision_has_a_line_and_behind_it_every_effect_with_scope_class_key_and_tag(trips, run):
    told = exported(run, trips)

    assert [(line["line"], line["transaction"], line["run"], line["attempt"]) for line in told] == [
        ("decision", "trip-1/book", "trip-1", 1),
        ("effect", "trip-1/book", "trip-1", 1),
        ("effect", "trip-1/book", "trip-1", 1),
        ("decision", "trip-2/book", "trip-2", 1),
        ("effect", "trip-2/book", "trip-2", 1),
    ]
    assert [(line["state"], line["reason"]) for line in told if line["line"] == "decision"] == [
        ("committed", None),
        ("aborted", "failed"),
    ]
    effects = [line for line in told if line["line"] == "effect"]
    assert [(e["key"], e["tool"], e["class"], e["scope"], e["held"], e["outcome"], e["tag"]) for e in effects] == [
        ("trip-1/book#1/0", "reserve", "reversible", "room:/Ada", False, "confirmed", None),
        ("trip-1/book#1/1", "send", "irreversible", "mail:/a@b.example", True, "confirmed", None),
        ("trip-2/book#1/0", "reserve", "reversible", "room:/Bee", False, "undone", "clean"),
    ]


def test_no_line_has_what_a_tool_was_asked_or_answered_or_what_an_exception_said(trips, run):
    said = run("export", trips).stdout

    assert "the secret" not in said
    assert "R-7" not in said
    assert all(not {"arguments", "result", "error", "note", "rationale"} & line.keys() for line in exported(run, trips))


def test_it_can_be_limited_to_a_run_and_to_a_time(trips, run):
    assert [line["transaction"] for line in exported(run, trips, "--run", "trip-2")] == ["trip-2/book"] * 2
    assert exported(run, trips, "--run", "nobody") == []
    assert exported(run, trips, "--since", "2999-01-01") == []
    assert exported(run, trips, "--since", "2000-01-01T00:00:00+00:00") == exported(run, trips)
    assert exported(run, trips, "--since", "10m") == exported(run, trips)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (["--last", "1"], ["trip-2/book"]),
        (["--last", "5"], ["trip-1/book", "trip-2/book"]),
        (["--state", "committed"], ["trip-1/book"]),
        (["--state", "aborted", "--run", "trip-1"], []),
        (["--state", "aborted", "--since", "1h", "--last", "1"], ["trip-2/book"]),
    ],
)
def test_a_page_of_it_has_the_very_lines_of_the_whole(trips, run, page, told):
    whole = exported(run, trips)
    assert exported(run, trips, *page) == [line for line in whole if line["transaction"] in told]


@pytest.mark.parametrize("since", ["yesterday", "12", "3x", ""])
def test_a_time_that_is_none_is_refused_with_examples(trips, run, since):
    said = run("export", trips, "--since", since)

    assert said.exit_code == 2
    assert "is not a time: give one such as" in said.stderr
    assert said.stdout == ""


def test_json_is_what_it_prints_anyway(trips, run):
    assert run("export", trips, "--json").stdout == run("export", trips).stdout


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Transactions whose names sort in every way, with none to four effects, of two runs."""
    url = f"sqlite:///{tmp_path_factory.mktemp('many') / 'trips.db'}"
    with Settlement(url) as settlement:
        for number in range(40):
            run = "ab"[number % 2]
            with contextlib.suppress(ZeroDivisionError), settlement.transaction(f"{run}/{number * 7 % 40}") as tx:
                for hotel in range(number % 5):
                    tx.call(reserve, hotel=f"{number}-{hotel}")
                if number % 3 == 0:
                    raise ZeroDivisionError
    return url


@given(batch=st.integers(1, 60), run=st.sampled_from([None, "a", "b"]))
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_batch_the_lines_are_the_record_in_one_order(many, batch, run):
    ledger = open_ledger(many, readonly=True)
    try:
        told = list(lines(ledger, Page(run=run), batch=batch))
        record = ledger.read(lambda book: book.transactions())
    finally:
        ledger.close()

    expected = []
    for one in record:
        if run in (None, one.row.run):
            expected.append(("decision", one.row.name, one.row.attempt))
            expected += [("effect", effect.row.key, effect.row.position) for effect in one.effects]
    assert expected == [
        ("decision", line["transaction"], line["attempt"])
        if line["line"] == "decision"
        else ("effect", line["key"], line["position"])
        for line in told
    ]


def test_a_reader_that_has_had_enough_is_no_error(many):
    code = "from settlemark._cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "export", many],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        complaint = process.stderr.read()

    assert process.returncode == 0
    assert complaint == b""


@pytest.mark.parametrize("written", ["ledger.db", "ledger.db-wal", "ledger.db-shm", "other.db", "link"])
@pytest.mark.parametrize("command", ["export", "adopt"])
def test_what_is_written_to_a_file_is_never_written_over_a_ledger(run, tmp_path, command, written):
    with Settlement(f"sqlite:///{tmp_path / 'other.db'}"):
        pass
    (tmp_path / "link").symlink_to("ledger.db")
    (tmp_path / "tools.py").write_text("def send_mail(to):\n    ...\n")
    place = tmp_path / written
    given = {"export": [tmp_path / "ledger.db"], "adopt": [tmp_path / "tools.py", "--force"]}[command]
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        with settlement.transaction("trip") as tx:
            tx.call(reserve, hotel="Ada")
        said = run(command, *given, "--output", place)
        assert (said.exit_code, said.stdout) == (2, "")
        assert (
            said.stderr == f"settlemark: {place} is a database, which would be lost: name another file with --output\n"
        )
        with settlement.transaction("trip/again") as tx:
            tx.call(reserve, hotel="Bee")
    assert [line["transaction"] for line in exported(run, tmp_path / "ledger.db") if line["line"] == "decision"] == [
        "trip",
        "trip/again",
    ]
