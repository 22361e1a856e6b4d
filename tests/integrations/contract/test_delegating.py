"""An agent that another agent's tool runs is a part of its caller's act: it settles with it, and is undone with it."""

from __future__ import annotations

import logging

import pytest
from tests.integrations.contract.driver import Person
from tests.integrations.contract.world import desk, play, turns, unaccounted, unfinished

from settlemark import Settlement, effect
from settlemark.hosting import reject

INNER = ([("book", "Ada")], [("look", "Ada"), ("mail", "ada")], [("book", "Bee"), ("mail", "bee")])
"""What the innermost agent does, turn by turn."""
WHOLE = {"book Ada", "book Bee", "look Ada", "mail ada", "mail bee"}
DEEP = [1, 2]


@pytest.fixture(autouse=True)
def _undeclared(caplog):
    caplog.set_level(logging.ERROR, "settlemark")  # that a tool is undeclared is told


def delegating(driver, world, settlement, said, *, deep, sort, broken=(), told=None, more=()):
    """Return a tool that runs an agent, which does what is said, or has it done by another one."""
    told = [] if told is None else told
    runs = driver()  # what it remembers of its jobs is there when the tool is called again

    def inner():
        if deep == 1:
            return [*desk(world, sort, broken=broken), *more], turns(*said)
        deeper = delegating(
            driver, world, settlement, said, deep=deep - 1, sort=sort, broken=broken, told=told, more=more
        )
        return [deeper], turns([("task", "it")])

    def task(what: str) -> str:
        """Have it done."""
        told.extend(runs.run(*inner(), settlement=settlement, run=f"inner-{deep}"))
        return f"task {what}: done"

    async def task_soon(what: str) -> str:
        """Have it done."""
        told.extend(await runs.arun(*inner(), settlement=settlement, run=f"inner-{deep}"))
        return f"task {what}: done"

    if sort == "sync":
        return task
    task_soon.__name__ = "task"
    return task_soon


def outer(driver, world, settlement, said, *, deep, sort, broken=(), told=None, more=()):
    task = delegating(type(driver), world, settlement, said, deep=deep, sort=sort, broken=broken, told=told, more=more)
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


@pytest.mark.parametrize("deep", DEEP)
def test_what_of_an_agents_acts_has_no_undo_stays_and_is_told_apart_from_what_was_undone(
    driver, world, settlement, sort, deep
):
    @effect("idempotent", scope="note:/{what}")
    def note(what: str) -> str:
        """Keep a note."""
        return f"note {what}: number {world.act(f'note {what}')}"

    said = [[("book", "Ada"), ("note", "ada"), ("mail", "ada")]]
    tools = outer(driver, world, settlement, said, deep=deep, sort=sort, broken={"book Bad"}, more=[note])

    settled = play(driver, tools, turns([("task", "it"), ("book", "Bad")]), settlement, face=face_of(sort))

    assert world.log == ["book Ada", "note ada", "cancel Ada"]
    left = {left.tool: left.note for left in settlement.residue()}
    assert left.keys() == {"task", "note"}
    if deep == 1:
        assert left["task"] == (
            "of what it did by calls of its own note on note:/ada stays, and the rest is undone, or never left (book on"
            " room:/Ada); what else it did, if anything, is not known, and has no undo"
        )
        if settled.error is None:
            assert f"a part of what task had done stays ({left['task']})" in settled.texts[0]


@pytest.mark.parametrize("failing", range(len(INNER)))
@pytest.mark.parametrize("deep", DEEP)
def test_a_turn_that_fails_inside_a_call_is_undone_by_itself_and_the_others_settle_with_the_call(
    driver, world, settlement, sort, deep, failing
):
    said = [[*turn, ("book", "Bad")] if number == failing else turn for number, turn in enumerate(INNER)]
    told = []
    tools = outer(driver, world, settlement, said, deep=deep, sort=sort, broken={"book Bad"}, told=told)

    settled = play(driver, tools, turns([("task", "it"), ("book", "Cee")]), settlement, face=face_of(sort))

    gone = {f"{tool} {what}" for tool, what in INNER[failing] if tool != "look"}
    assert settled.error is None
    assert world.standing() == dict.fromkeys({*WHOLE, "book Cee"} - gone, 1)
    assert not any(f"mail {what}" in world.log for tool, what in INNER[failing] if tool == "mail")
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    texts = dict(reversed(told))  # who was told first is the innermost
    for place, (tool, _) in enumerate(INNER[failing]):
        told_of = texts[f"call-{failing}-{place}"]
        assert "look" in told_of if tool == "look" else ("undone" in told_of or "never left" in told_of)


@pytest.mark.parametrize("deep", DEEP)
def test_what_a_turn_that_failed_inside_a_call_had_done_can_be_done_by_a_later_one(
    driver, world, settlement, sort, deep
):
    said = ([("book", "Ada"), ("book", "Bad")], [("book", "Ada"), ("mail", "ada")])
    tools = outer(driver, world, settlement, said, deep=deep, sort=sort, broken={"book Bad"})

    settled = play(driver, tools, turns([("task", "it")]), settlement, face=face_of(sort))

    assert settled.error is None
    assert world.log == ["book Ada", "cancel Ada", "book Ada", "mail ada"]
    assert (unfinished(settlement), settlement.residue()) == ([], [])


ASKING = ([("book", "Ada"), ("pay", "ada")], [("look", "Ada"), ("mail", "ada")], [("book", "Bee"), ("pay", "bee")])
"""What the innermost agent does where a person is asked before it pays."""


class Choosy(Person):
    """Says no to the bills that are too dear for him."""

    def __init__(self, dear):
        super().__init__({})
        self._dear = dear

    def answer(self, tool, arguments):
        self.asked.append((tool, dict(arguments)))
        return reject("too dear") if arguments["what"] in self._dear else True


@pytest.mark.parametrize("dear", [(), ("ada",), ("bee",), ("ada", "bee")], ids=lambda dear: "-".join(dear) or "nothing")
@pytest.mark.parametrize("deep", DEEP)
def test_a_person_who_is_asked_inside_a_call_decides_on_the_turn_that_asks_and_on_no_other(driver, world, deep, dear):
    if driver.name == "langgraph":
        pytest.skip("a graph that a tool runs hands its questions to the graph around it: test_subagents has them")
    person = Choosy(dear)
    with Settlement("memory:", wait=20, approver=person) as settlement:
        tools = outer(driver, world, settlement, ASKING, deep=deep, sort="sync")
        settled = play(driver, tools, turns([("task", "it"), ("book", "Cee")]), settlement)
        assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])

    asked = {"look Ada", "mail ada", "book Cee"} | {
        f"{tool} {what}" for turn in (ASKING[0], ASKING[2]) for tool, what in turn if what.lower() not in dear
    }
    assert settled.error is None
    assert (world.standing(), person.asked) == (
        dict.fromkeys(asked, 1),
        [("pay", {"what": "ada"}), ("pay", {"what": "bee"})],
    )
    assert not {f"pay {what}" for what in dear}.intersection(world.log)


def face_of(sort):
    return "run" if sort == "sync" else "arun"
