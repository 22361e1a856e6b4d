"""A store that does not answer: every command says so in time, and exits with 2."""

from __future__ import annotations

import time

import pytest
from tests.core.hanging import LockedFile, stopped_server
from tests.rooms.cli import main as cli
from tests.rooms.cli import options
from tests.rooms.ledger import _limits
from tests.rooms.record import migrating

from settlemark import Settlement, effect

GENEROUS = 15  # for what waits a third of a second, perhaps twice

COMMANDS = {
    "show": [],
    "waiting": [],
    "residue": ["--all"],
    "approvals": [],
    "approve": ["trip", "--by", "ada"],
    "reject": ["trip", "--by", "ada", "--because", "no"],
    "in-doubt": [],
    "resolve": ["trip#1/0", "confirmed", "--by", "ada"],
    "recover": [],
    "export": [],
    "doctor": [],
    "migrate": [],
    "prune": ["--older-than", "30d"],
    "check": [],
}
"""What each is given beside the ledger, which stands behind what has no dashes."""
OF_NO_STORE = {"lint", "adopt"}
ONLY_LOOKS = {"show", "waiting", "residue", "approvals", "in-doubt", "export", "doctor", "check"}


def given(command, url):
    arguments = COMMANDS[command]
    first = next((place for place, word in enumerate(arguments) if word.startswith("--")), len(arguments))
    return [command, *arguments[:first], url, *arguments[first:]]


def test_the_table_has_every_command():
    assert {command.__name__.replace("_", "-") for command in cli.COMMANDS} == set(COMMANDS) | OF_NO_STORE


@pytest.fixture(params=["locked", "locked for all", "stopped"])
def hanging(request, tmp_path, monkeypatch):
    """Have a ledger with something in it that does not answer: its URL, and how."""
    monkeypatch.setattr(_limits, "LEAST_SECONDS", 0.2)
    monkeypatch.setattr(_limits, "CLOSE_SECONDS", 0.5)
    monkeypatch.setattr(options, "WAIT_SECONDS", 0.3)
    monkeypatch.setattr(migrating, "PATIENCE_SECONDS", 0.3)
    store = stopped_server(request) if request.param == "stopped" else LockedFile(tmp_path)

    @effect("irreversible", scope="mail:/{to}")
    def mail(to):
        pass

    with Settlement(store.url) as settlement:
        settlement.run("trip", lambda tx: tx.call(mail, to="ada"))
        before = settlement.transactions()
    with store.hanging_for_all() if request.param == "locked for all" else store.hanging():
        yield store.url, request.param
    with Settlement(store.url) as settlement:
        assert (settlement.transactions(), settlement.residue()) == (before, [])
    if request.param == "stopped":
        store.close()


def test_each_command_on_a_store_that_hangs_ends_in_time_says_so_and_changes_nothing(hanging, run):
    url, how = hanging
    found, expected = {}, {}
    for command in COMMANDS:
        began = time.monotonic()
        ended = run(*given(command, url))
        lasted = time.monotonic() - began
        told = ended.stderr.startswith("settlemark: the ledger ") and ended.stderr.count("\n") == 1
        told = told and "hangs" in ended.stderr and "wait=" not in ended.stderr  # which no command has
        found[command] = (lasted < GENEROUS, ended.exit_code, told, ended.stderr, lasted)
        # Who only looks waits for no writer.
        expected[command] = (True, *((0, False) if how == "locked" and command in ONLY_LOOKS else (2, True)))
    assert {command: end[:3] for command, end in found.items()} == expected, found
