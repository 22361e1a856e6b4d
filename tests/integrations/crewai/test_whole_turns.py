"""A turn is all that its model issued: also where a hook fills in a call, two tools share a name, or none is meant."""

from __future__ import annotations

import pytest
from crewai.hooks import InterceptionPoint, on, unregister_hook
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted, ScriptedCall, answers
from tests.integrations.crewai.world import call, crew_of, tools_of, trip

from settlemark import State, effect
from settlemark_crewai import settled, settled_crew

NEVER = {
    "unknown tool": ScriptedCall("nobody_has_this", {"hotel": "x"}),
    "bad arguments": ScriptedCall("book", {"inn": "x"}),
    "no JSON": ScriptedCall("book", '{"hotel": '),
}


@pytest.fixture(params=["settled crew", "settled tools"])
def play(request, patient):
    """Have a crew of one agent play a turn, settled whole or tool by tool; return what the agent is told."""

    def play_(tools, *issued):
        llm = Scripted(issued)
        if request.param == "settled crew":
            settled_crew(crew_of(llm, tools), patient, run="r").kickoff()
        else:
            crew_of(llm, [settled(found, settlement=patient, run="r") for found in tools]).kickoff()
        return [text for _, text in answers(llm)]

    return play_


def acted(settlement):
    """Each transaction that is not CrewAI's answer: its tools, and how it ended."""
    found = ([done.row.tool for done in each.effects] for each in settlement.transactions())
    states = [each.state for each in settlement.transactions()]
    return [(tools, state) for tools, state in zip(found, states, strict=True) if tools != ["settlemark.result"]]


# ---- what CrewAI turns down


@pytest.mark.parametrize("never", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_call_that_crewai_turns_down_fails_its_turn_wherever_it_stands(world, patient, play, never, place):
    turn = [call("book", hotel="Ada"), call("mail", to="ada")]
    turn.insert(place, never)

    told = play(tools_of(trip(world)), *turn)

    assert world.log == ([] if place == 0 else ["book Ada", "cancel Ada"])
    del told[place]
    booked, mailed = told
    assert booked.startswith("undone: book had succeeded" if place else "Refused: book was not run")
    assert mailed.startswith("Refused: mail was")
    assert patient.residue() == []


def test_an_unknown_tool_behind_the_call_whose_result_is_the_answer_undoes_nothing(world, patient, play):
    @tool(result_as_answer=True)
    @effect("irreversible", scope="mail:/{to}")
    def report(to: str) -> str:
        """Report."""
        world.act(f"report {to}")
        return "reported"

    play([*tools_of(trip(world)), report], call("book", hotel="Ada"), call("report", to="ada"), NEVER["unknown tool"])

    assert world.log == ["book Ada", "report ada"]
    assert acted(patient) == [(["book", "report"], State.COMMITTED)]


# ---- what a hook fills in


def add_tenant(context):
    context.tool_input["tenant"] = "acme"


@pytest.mark.parametrize("broken", [True, False], ids=["one fails", "all succeed"])
def test_calls_whose_arguments_a_hook_completes_are_one_turn(world, patient, play, broken):
    @tool
    @effect("reversible", scope="room:/{tenant}/{hotel}", undo=lambda tenant, hotel: world.act(f"cancel {hotel}"))
    def reserve(tenant: str, hotel: str) -> str:
        """Reserve."""
        if broken and hotel == "Bee":
            raise ValueError("no room")
        world.act(f"reserve {hotel} for {tenant}")
        return "reserved"

    @tool
    @effect("irreversible", scope="mail:/{tenant}/{to}")
    def post(tenant: str, to: str) -> str:
        """Post."""
        world.act(f"post {to} for {tenant}")
        return "posted"

    on(InterceptionPoint.PRE_TOOL_CALL)(add_tenant)
    try:
        told = play([reserve, post], call("reserve", hotel="Ada"), call("post", to="ada"), call("reserve", hotel="Bee"))
    finally:
        unregister_hook(InterceptionPoint.PRE_TOOL_CALL, add_tenant)

    tools = ["reserve", "post", "reserve"]
    if broken:
        assert world.log == ["reserve Ada for acme", "cancel Ada"]
        assert acted(patient) == [(tools, State.ABORTED)]
    else:
        assert world.log == ["reserve Ada for acme", "reserve Bee for acme", "post ada for acme"]
        assert told == ["reserved", "posted", "reserved"]
        assert acted(patient) == [(tools, State.COMMITTED)]


# ---- two tools of one name


@pytest.mark.parametrize("broken", [True, False], ids=["one fails", "all succeed"])
def test_the_calls_of_two_tools_that_have_one_name_are_one_turn(world, patient, play, broken):
    first, second = trip(world), trip(world, broken={"book"} if broken else set())
    tools = [*tools_of(first), tool("Book")(second["book"])]

    play(tools, call("book", hotel="Ada"), call("mail", to="ada"), call("book_2", hotel="Bee"))

    issued = ["book", "mail", "book_2"]
    if broken:
        assert world.log == ["book Ada", "cancel Ada"]
        assert acted(patient) == [(issued, State.ABORTED)]
    else:
        assert world.log == ["book Ada", "book Bee", "mail ada"]
        assert acted(patient) == [(issued, State.COMMITTED)]
