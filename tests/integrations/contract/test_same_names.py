"""Tools of the same name in several agents of one settlement: each is called, and undone, as its own agent has it."""

from __future__ import annotations

import pytest
from tests.integrations.contract.world import as_is, play, turns

from settlemark import effect

WANTS = turns([("book", "Ada"), ("fail", "Bad")], [("mail", "Bee")])


def made_for(customer, world, sort):
    """The tools of one customer's agent, as a server makes them for each request."""

    def book(what: str) -> str:
        """Book a room."""
        world.act(f"{customer} books {what}")
        return "booked"

    def fail(what: str) -> str:
        """Fail."""
        raise ValueError(what)

    def mail(what: str) -> str:
        """Send a mail."""
        world.act(f"{customer} mails {what}")
        return "sent"

    def unbook(what):
        world.act(f"{customer} unbooks {what}")

    def checked(what):
        world.act(f"{customer} checks {what}")

    return [as_is(function, sort) for function in (book, fail, mail)], {
        "book": {"kind": "reversible", "scope": "room:/{what}", "undo": unbook},
        "fail": {"kind": "reversible", "scope": "other:/{what}", "undo": lambda: None},
        "mail": {"kind": "irreversible", "scope": "mail:/{what}", "check": checked},
    }


def declared_on(tools, effects):
    """The tools, with `@effect` on their functions."""
    return [effect(parts.pop("kind"), **parts)(tool) for tool, parts in zip(tools, effects.values(), strict=True)]


@pytest.mark.parametrize("way", ["@effect", "effects="])
def test_each_agents_tools_are_undone_and_checked_by_their_own_functions(driver, world, settlement, sort, way):
    for customer in ("ada", "bob", "ada again"):
        tools, effects = made_for(customer, world, sort)
        if way == "@effect":
            play(driver, declared_on(tools, effects), WANTS, settlement, run=customer)
        else:
            play(driver, tools, WANTS, settlement, run=customer, effects=effects)

    assert [entry for entry in world.log if "checks" not in entry] == [
        f"{customer} {what}"
        for customer in ("ada", "bob", "ada again")
        for what in ("books Ada", "unbooks Ada", "mails Bee")
    ]
    mailed = [n for n, entry in enumerate(world.log) if "mails" in entry]
    assert [world.log[n - 1] for n in mailed] == [f"{customer} checks Bee" for customer in ("ada", "bob", "ada again")]
    assert settlement.residue() == []


@pytest.mark.parametrize("declared", [True, False])
def test_what_one_agents_tool_is_says_nothing_of_anothers(driver, world, settlement, declared):
    def note(what: str) -> str:
        """Keep a note."""
        world.act(f"note {what}")
        return "noted"

    def fail(what: str) -> str:
        """Fail."""
        raise ValueError(what)

    def mail(what: str) -> str:
        """Mail a note."""
        world.act(f"mail {what}")
        return "sent"

    mail.__name__ = "note"
    mails = effect("irreversible", scope="mail:/{what}")(mail) if declared else mail
    effects = {} if declared else {"note": {"kind": "irreversible", "scope": "mail:/{what}"}}
    keeps = effect("staged", scope="note:/{what}")(note)
    broken = turns([("note", "Bad"), ("fail", "Bad")], [("note", "Ada")])
    play(driver, [mails, fail], broken, settlement, run="mails", effects=effects)
    play(driver, [keeps, fail], broken, settlement, run="keeps")

    kinds = [(row.row.tool, row.row.kind) for done in settlement.transactions() for row in done.effects]
    assert world.log == ["mail Ada", "note Ada"]
    assert sorted(kind for tool, kind in kinds if tool == "note") == ["irreversible"] * 2 + ["staged"] * 2
