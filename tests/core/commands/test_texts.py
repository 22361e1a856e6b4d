"""Whatever a text in the record is, every command prints it, and JSON stays JSON; so do logs, histories and spans."""

from __future__ import annotations

import io
import json
import logging

import pytest

from settlemark import Settlement, effect, json_logs
from settlemark.history import read
from settlemark.telemetry import OpenTelemetry

BAD = "half \ud83d, a NUL \0"
LEGIBLE = "half \\ud83d, a NUL \\x00"


@pytest.fixture
def url(tmp_path):
    """A ledger with such texts as a result, a rationale, a reason and a note; a history, spans and logs beside it."""
    url, out = f"sqlite:///{tmp_path / 'trip.db'}", io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    handler = json_logs(out, level="INFO")

    def undo(what):
        raise RuntimeError(BAD)

    @effect("reversible", scope="room:/{what}", undo=undo)
    def book(what):
        return {"said": BAD, BAD: 1}

    options = {"history": tmp_path / "history.jsonl", "observe": OpenTelemetry()}
    with Settlement(url, **options) as settlement:
        with pytest.raises(ZeroDivisionError), settlement.transaction("undone") as tx:
            tx.turn(because=BAD).call(book, "Ada")
            raise ZeroDivisionError(BAD)
        with settlement.transaction("kept") as tx:
            tx.call(book, "Bee")
        assert settlement.run("kept", lambda tx: tx.call(book, "Bee")) == {"said": BAD, BAD: 1}
    logging.getLogger("settlemark").removeHandler(handler)
    out.flush()
    lines = out.buffer.getvalue().decode().splitlines()
    assert any("its undo failed" in json.loads(line)["message"] for line in lines)
    assert [record.name for record in read(tmp_path / "history.jsonl")] == ["kept"]
    return url


@pytest.mark.parametrize("command", ["show", "residue", "export", "in-doubt", "waiting", "doctor"])
def test_every_command_prints_what_is_on_record(run, url, command):
    said = run(command, url)
    assert (said.exception is None or isinstance(said.exception, SystemExit), said.exit_code in (0, 1)) == (True, True)
    said.stdout_bytes.decode()  # else it could not have been printed


def test_json_of_a_command_has_the_result_as_it_was_and_the_texts_legibly(run, run_json, url):
    (undone, kept) = run_json("show", url)
    assert kept["effects"][0]["result"] == undone["effects"][0]["result"] == {"said": BAD, BAD: 1}
    assert undone["effects"][0]["rationale"] == LEGIBLE
    assert LEGIBLE in undone["effects"][0]["note"]
    assert LEGIBLE in undone["cause"]
    (left,) = run_json("residue", url)
    assert left["result"] == {"said": BAD, BAD: 1}
    assert [json.loads(line)["line"] for line in run("export", url).stdout.splitlines()] == ["decision", "effect"] * 2
