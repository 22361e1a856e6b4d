"""A store that does not answer: every command says so in time, and exits with 2."""

from __future__ import annotations

import pytest
from tests.core.hanging import LockedFile, stopped_server
from tests.rooms.cli import main as cli
from tests.rooms.cli import options
from tests.rooms.record import migrating

from settlemark import Settlement, effect
from settlemark.ledger import open_ledger

FOREVER = 86_400.0

COMMANDS = {
    "show": [],
    "waiting": [],
    "residue": ["--all"],
    "approvals": [],
    "approve": ["trip", "--by", "ada"],
    "edit": ["trip", "{}", "--as", "ada"],
    "reject": ["trip", "--by", "ada", "--because", "no"],
    "in-doubt": [],
    "resolve": ["trip#1/0", "confirmed", "--by", "ada"],
    "stuck": [],
    "undo-again": ["trip", "--by", "ada"],
    "settle-by-hand": ["trip", "--by", "ada"],
    "recover": [],
    "export": [],
    "doctor": [],
    "migrate": [],
    "prune": ["--older-than", "30d"],
    "budgets": [],
    "leases": [],
    "release": ["checkout:/repo", "--by", "ada", "--because", "odd"],
    "obligations": [],
    "waive": ["17", "--by", "ada"],
    "primer": ["trip"],
    "claims": ["I did not book it."],
    "why": ["trip#1/0"],
    "audit": ["trip"],
    "verdicts": [],
    "halt": ["everything", "--by", "ada", "--because", "odd"],
    "resume": ["1", "--by", "ada"],
    "halts": [],
    "steer": ["trip", "add", "a seat", "--by", "ada"],
    "steering": [],
    "pause": ["trip", "--by", "ada", "--because", "no"],
    "pauses": [],
    "go-on": ["trip", "--by", "ada"],
    "hand-over": ["trip", "--to", "bob", "--by", "ada"],
    "discard": ["trip", "--by", "ada"],
    "check": [],
}
"""What each is given beside the ledger, which stands behind what has no dashes."""
OF_NO_STORE = {"lint", "adopt"}
ONLY_LOOKS = {
    "show",
    "stuck",
    "waiting",
    "residue",
    "approvals",
    "in-doubt",
    "export",
    "doctor",
    "check",
    "budgets",
    "leases",
    "obligations",
    "primer",
    "claims",
    "why",
    "audit",
    "verdicts",
    "halts",
    "steering",
    "pauses",
}


def given(command, url):
    arguments = COMMANDS[command]
    first = next((place for place, word in enumerate(arguments) if word.startswith("--")), len(arguments))
    return [command, *arguments[:first], url, *arguments[first:]]


def test_the_table_has_every_command():
    assert {command.__name__.replace("_", "-") for command in cli.COMMANDS} == set(COMMANDS) | OF_NO_STORE


@pytest.fixture(params=["locked", "locked for all", "stopped"])
def hanging(request, tmp_path, monkeypatch):
    """Have a ledger with something in it that does not answer: its URL, and how."""
    for opening in (open_ledger, Settlement.__init__):  # a command that says no time of its own never ends
        monkeypatch.setitem(opening.__kwdefaults__, "wait", FOREVER)
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
        ended = run(*given(command, url))
        told = ended.stderr.startswith("settlemark: the ledger ") and ended.stderr.count("\n") == 1
        told = told and "hangs" in ended.stderr and "wait=" not in ended.stderr  # which no command has
        found[command] = (ended.exit_code, told, ended.stderr)
        # Who only looks waits for no writer.
        expected[command] = (0, False) if how == "locked" and command in ONLY_LOOKS else (2, True)
    assert {command: end[:2] for command, end in found.items()} == expected, found
