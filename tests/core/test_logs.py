"""Every record of settlemark's log says as data what it is about, and can be printed as JSON."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.sql import wire

import settlemark
from settlemark import Scope, Settlement, effect, json_logs
from settlemark._observe.logs import JsonLines, about
from settlemark.hosting import host_of

CORE = Path(settlemark.__file__).parent
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


@pytest.fixture
def printed():
    out = io.StringIO()
    logger = logging.getLogger("settlemark")
    level = logger.level
    handler = json_logs(out)
    yield lambda: [json.loads(line) for line in out.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


def log_calls():
    for path in sorted(CORE.rglob("*.py")):
        if "testing" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in METHODS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in ("log", "_log", "logger")
            ):
                yield f"{path.relative_to(CORE)}:{node.lineno}", node


def test_every_call_of_the_log_says_what_it_is_about():
    calls = dict(log_calls())

    assert len(calls) > 10
    without = [where for where, call in calls.items() if "extra" not in {keyword.arg for keyword in call.keywords}]
    assert without == []


def test_a_line_has_the_sentence_and_its_data_and_no_argument(printed):
    def never():
        raise LookupError("no such room")

    @effect("reversible", scope="room:/{hotel}", undo=never)
    def reserve(hotel, password): ...

    with (
        Settlement("memory:") as settlement,
        contextlib.suppress(ZeroDivisionError),
        settlement.transaction("trip-1/book") as tx,
    ):
        tx.call(reserve, hotel="Ada", password="the secret")
        raise ZeroDivisionError

    (line,) = printed()
    assert {key: line[key] for key in ("level", "logger", "transaction", "run", "attempt", "epoch")} == {
        "level": "warning",
        "logger": "settlemark",
        "transaction": "trip-1/book",
        "run": "trip-1",
        "attempt": 1,
        "epoch": 1,
    }
    assert (line["tool"], line["scope"], line["key"], line["tag"]) == (
        "reserve",
        "room:/Ada",
        "trip-1/book#1/0",
        "unresolved",
    )
    assert line["message"].startswith("trip-1/book left reserve on room:/Ada: its undo failed 3 times")
    assert line["at"].endswith("+00:00")
    assert "the secret" not in json.dumps(line)


def test_a_ledgers_password_is_in_no_line(printed, monkeypatch, tmp_path):
    monkeypatch.setenv("SETTLEMARK_URL", "nosuch://ada:secret@host/db")
    with pytest.raises(settlemark.LedgerError):
        Settlement()

    assert [line["ledger"] for line in printed()] == ["nosuch://ada:***@host/db"]
    assert "secret" not in json.dumps(printed())


def test_an_exception_is_printed_with_its_traceback_and_its_message_in_one_line(printed):
    try:
        raise LookupError("no\nroom")
    except LookupError:
        logging.getLogger("settlemark").exception("it failed", extra=about(tool="reserve"))

    (line,) = printed()
    assert line["message"] == "it failed"
    assert line["tool"] == "reserve"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("\nLookupError: no\\nroom")


def test_a_second_call_replaces_what_the_first_one_set_up():
    logger = logging.getLogger("settlemark")
    before = list(logger.handlers)
    level = logger.level
    first, second = json_logs(io.StringIO()), json_logs(io.StringIO(), level="ERROR")
    try:
        assert first not in logger.handlers
        assert [handler for handler in logger.handlers if handler not in before] == [second]
        assert second.level == logging.ERROR
    finally:
        logger.removeHandler(second)
        logger.setLevel(level)


@given(st.text(), st.dictionaries(st.text(min_size=1), st.none() | st.integers() | st.text() | st.binary()))
def test_whatever_is_said_is_one_line_of_json_in_which_the_sentence_stays(message, data):
    record = logging.LogRecord("settlemark", logging.INFO, "", 0, message.replace("%", "%%"), (), None)
    record.settlemark = data

    line = JsonLines().format(record)

    assert "\n" not in line
    found = json.loads(line)
    assert found["level"] == "info"
    assert found["message"] == message.replace("%", "%%")
    assert data.keys() <= found.keys()


def test_a_line_about_a_store_that_refuses_names_its_ledger_and_its_namespace(tmp_path, printed, monkeypatch):
    refused = threading.Event()

    def refuse(moment, text):
        if text == "COMMIT" and moment != "after" and not refused.is_set():
            refused.set()
            raise sqlite3.OperationalError("disk I/O error")

    url = f"sqlite:///{tmp_path / 'trip.db'}"
    with Settlement(url, namespace="team") as settlement:
        host_of(settlement)._maintenance.stop()
        monkeypatch.setattr(wire, "watchers", [refuse])
        host_of(settlement).ledger.later(lambda protocol, _book: protocol.advance(Scope.parse("room:/Ada"), 0))
        assert refused.wait(60)
    told = next(line for line in printed() if line["message"].startswith("what was to be recorded is not yet"))
    assert (told["ledger"], told["namespace"]) == (url, "team")
