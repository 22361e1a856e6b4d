"""A call equal to one in doubt is not done again: its job is told so until somebody knows what came of the first."""

from __future__ import annotations

import pytest
from tests.integrations.contract.world import as_is, play, turns

from settlemark import effect

SCRIPT = turns([("wire", "x")], [("wire", "x")], [("wire", "x"), ("note", "y")], [("wire", "z")])


def tools(world, sort, kind):
    def wire(what: str) -> str:
        """Wire money."""
        world.act(f"wire {what}")
        if what == "x" and world.log.count("wire x") == 1:
            raise TimeoutError("no answer")
        return f"wired {what}"

    def note(what: str) -> str:
        """Take a note."""
        world.act(f"note {what}")
        return "noted"

    undo = {} if kind == "irreversible" else {"undo": lambda what: world.act(f"unwire {what}")}
    return [
        effect(kind, scope="money:/{what}", **undo)(as_is(wire, sort)),
        effect("reversible", scope="note:/{what}", undo=lambda what: world.act(f"unnote {what}"))(as_is(note, sort)),
    ]


@pytest.mark.parametrize("kind", ["irreversible", "reversible"])
def test_a_call_equal_to_one_in_doubt_is_not_done_again_and_its_job_is_told(
    driver, world, settlement, face, sort, kind
):
    settled = play(driver, tools(world, sort, kind), SCRIPT, settlement, face=face)

    assert world.log.count("wire x") == 1
    assert [left.scope for left in settlement.residue() if left.tool == "wire"] == ["money:/x"]
    if settled.error is None:
        first, second, third, note, other = settled.texts
        assert all("is unknown: do not repeat it" in text for text in (first, second, third))
        assert "wired z" in other
        assert "wired" not in note


@pytest.mark.parametrize("known", ["happened", "absent"])
def test_when_somebody_has_told_what_came_of_it_the_call_goes_by_that(driver, world, settlement, face, known):
    found = tools(world, "sync", "irreversible")

    def learn(what: str) -> str:
        """Find out what came of it."""
        (doubt,) = settlement.in_doubt()
        if known == "happened":
            settlement.confirm(doubt.key, "wired x")
        else:
            settlement.resolve(doubt.key, "absent", by="ada")
        return "known"

    script = turns([("wire", "x")], [("learn", "x")], [("wire", "x")])
    settled = play(driver, [*found, effect("read", scope="desk:/{what}")(learn)], script, settlement, face=face)

    if settled.error is None:
        assert world.log.count("wire x") == (1 if known == "happened" else 2)
        assert "wired x" in settled.texts[-1]
