"""An agent that another agent's tool runs is a part of its caller's act: it settles with it, and is undone with it."""

from __future__ import annotations

import logging

import pytest
from tests.integrations.contract.world import desk, play, turns, unaccounted, unfinished

INNER = ([("book", "Ada")], [("look", "Ada"), ("mail", "ada")], [("book", "Bee"), ("mail", "bee")])
"""What the innermost agent does, turn by turn."""
WHOLE = {"book Ada", "book Bee", "look Ada", "mail ada", "mail bee"}
DEEP = [1, 2]


@pytest.fixture(autouse=True)
def _undeclared(caplog):
    caplog.set_level(logging.ERROR, "settlemark")  # that a tool is undeclared is told


def delegating(driver, world, settlement, said, *, deep, sort, broken=()):
    """Return a tool that runs an agent, which does what is said, or has it done by another one."""

    def inner():
        if deep == 1:
            return desk(world, sort, broken=broken), turns(*said)
        return [delegating(driver, world, settlement, said, deep=deep - 1, sort=sort, broken=broken)], turns(
            [("task", "it")]
        )

    def task(what: str) -> str:
        """Have it done."""
        driver().run(*inner(), settlement=settlement, run=f"inner-{deep}")
        return f"task {what}: done"

    async def task_soon(what: str) -> str:
        """Have it done."""
        await driver().arun(*inner(), settlement=settlement, run=f"inner-{deep}")
        return f"task {what}: done"

    if sort == "sync":
        return task
    task_soon.__name__ = "task"
    return task_soon


def outer(driver, world, settlement, said, *, deep, sort, broken=()):
    task = delegating(type(driver), world, settlement, said, deep=deep, sort=sort, broken=broken)
    return [task, *desk(world, sort, broken=broken)]


@pytest.mark.parametrize("deep", DEEP)
def test_what_an_agent_did_for_a_call_settles_with_the_call(driver, world, settlement, sort, deep):
    tools = outer(driver, world, settlement, INNER, deep=deep, sort=sort)

    settled = play(driver, tools, turns([("task", "it"), ("book", "Cee")]), settlement, face=face_of(sort))

    assert settled.error is None
    assert world.standing() == dict.fromkeys({*WHOLE, "book Cee"}, 1)
    assert world.log[-2:] == ["mail ada", "mail bee"]
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


@pytest.mark.parametrize("deep", DEEP)
def test_what_an_agent_did_for_a_call_is_undone_with_the_call_and_the_model_is_told_so(
    driver, world, settlement, sort, deep
):
    script = turns([("task", "it"), ("book", "Bad")])
    tools = outer(driver, world, settlement, INNER, deep=deep, sort=sort, broken={"book Bad"})

    settled = play(driver, tools, script, settlement, face=face_of(sort))

    assert +world.standing() == {"look Ada": 1}
    assert unfinished(settlement) == []
    assert {left.tool for left in settlement.residue()} == {"task"}
    assert all("is undone" in left.note for left in settlement.residue())
    if settled.error is None:
        assert settled.texts[0].find("undone: what task had done by calls of its own was undone") != -1


def face_of(sort):
    return "run" if sort == "sync" else "arun"
