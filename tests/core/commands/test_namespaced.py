"""A command looks at the namespace that it is given, and changes nothing in another."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress

import pytest

from settlemark import InDoubt, Injected, Retries, Settlement, effect

LONG_AGO = 86_400.0


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture
def tools():
    """Declare a tool for each way to end."""

    def stuck(hotel):
        raise LookupError(hotel)

    def unanswered(account):
        raise TimeoutError(account)

    return {
        "old": (effect("reversible", scope="room:/{hotel}", undo=lambda hotel: None)(lambda hotel: None), "Ada"),
        "left": (effect("reversible", scope="suite:/{hotel}", undo=stuck)(lambda hotel: None), "Ada"),
        "asked": (effect("irreversible", scope="mail:/{to}", approve=True)(lambda to: None), "ada"),
        "doubt": (effect("idempotent", scope="account:/{account}")(unanswered), "ada"),
    }


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trip.db"


@pytest.fixture
def fill(file, tools):
    """Have a transaction of each kind in a namespace, all of them long ago."""

    def fill(space, prefix):
        options = {"retries": Retries(first=0, most=0), "injected": Injected(clock=lambda: LONG_AGO)}
        with Settlement(f"sqlite:///{file}", namespace=space, **options) as settlement:
            for kind, (tool, argument) in tools.items():
                with suppress(Boom, InDoubt), settlement.transaction(f"{prefix}-{kind}") as tx:
                    tx.call(tool, argument)
                    if kind == "left":
                        raise Boom

    return fill


def key_of(file, space, name):
    """Return the key of the effect of a transaction."""
    with closing(sqlite3.connect(file)) as store:
        asked = "SELECT key FROM settlemark_effect WHERE namespace = ? AND name = ?"
        ((key,),) = store.execute(asked, [space, name]).fetchall()
    return key


def rows(file, space):
    """Return what the store has of a namespace."""
    with closing(sqlite3.connect(file)) as store:
        return [
            store.execute(f"SELECT * FROM settlemark_{table} WHERE namespace = ? ORDER BY name", [space]).fetchall()
            for table in ("transaction", "effect")
        ]


@pytest.mark.parametrize("command", ["show", "residue", "in-doubt", "approvals", "export", "doctor"])
def test_a_command_tells_of_its_namespace_alone(run, file, fill, command):
    for space in ("default", "acme"):
        fill(space, f"{space}-trip")
    told = [run(command, file, *given).stdout for given in ([], ["--namespace", "acme"])]
    assert [("default-trip" in each, "acme-trip" in each) for each in told] == [(True, False), (False, True)]


CHANGES = {
    "prune": ([], ["--older-than", "30d"]),
    "resolve": (["trip-doubt", "confirmed"], ["--by", "ada"]),
    "approve": (["trip-asked"], ["--by", "ada"]),
    "edit": (["trip-asked", '{"to": "cy"}'], ["--as", "ada"]),
    "reject": (["trip-asked"], ["--by", "ada", "--because", "no"]),
}
"""What each command that changes a ledger is given, before the ledger and behind it."""


@pytest.mark.parametrize("command", CHANGES)
def test_a_command_changes_its_namespace_and_nothing_in_another(run, file, fill, command):
    for space in ("default", "acme"):
        fill(space, "trip")
    before = rows(file, "default"), rows(file, "acme")
    what, options = CHANGES[command]
    what = [key_of(file, "acme", each) if each.startswith("trip-") else each for each in what]
    done = run(command, *what, file, *options, "--namespace", "acme")
    assert done.exit_code == 0, done.output
    assert rows(file, "default") == before[0]
    assert rows(file, "acme") != before[1]
