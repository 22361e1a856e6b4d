"""The control: what CrewAI does to effects without us. A release that stops doing so makes these fail, and is news."""

from __future__ import annotations

import pytest
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted, answers
from tests.integrations.crewai.world import call, crew_of, five


def test_the_effects_of_a_turn_happen_in_the_order_in_which_they_are_ready_and_the_transcript_does_not_show_it(world):
    act_on, turn = five(world.act, patience=30)
    llm = Scripted(turn)

    crew_of(llm, [tool(act_on)]).kickoff()

    assert world.log == ["4", "3", "2", "1", "0"]
    assert [text for _, text in answers(llm)] == [f"acted {number}" for number in range(5)]


def test_a_tool_that_raises_after_its_effect_is_executed_six_times_where_the_model_writes_its_calls(world):
    @tool
    def pay(card: str) -> str:
        """Pay."""
        world.act(f"pay {card}")
        raise TimeoutError("no answer")

    crew_of(Scripted([call("pay", card="7")], native=False), [pay]).kickoff()

    assert world.log == ["pay 7"] * 6


def test_a_guardrail_that_refuses_an_answer_once_doubles_the_effect(world, native):
    refusals = [True]

    def check(output):
        return (False, "say more") if refusals and refusals.pop() else (True, output.raw)

    @tool
    def pay(card: str) -> str:
        """Pay."""
        world.act(f"pay {card}")
        return "paid"

    crew_of(Scripted([call("pay", card="7")], native=native), [pay], guardrail=check).kickoff()

    assert world.log == ["pay 7"] * 2


def test_a_model_that_fails_once_after_an_effect_doubles_it(world, native):
    failures = [True]

    def fail_once(number):
        if number == 1 and failures:
            raise RuntimeError(f"overloaded {failures.pop()}")

    @tool
    def pay(card: str) -> str:
        """Pay."""
        world.act(f"pay {card}")
        return "paid"

    crew_of(Scripted([call("pay", card="7")], native=native, before=fail_once), [pay]).kickoff()

    assert world.log == ["pay 7"] * 2


def test_a_failed_sibling_stops_nobody(world):
    @tool
    def book(hotel: str) -> str:
        """Book."""
        raise ValueError("full")

    @tool
    def mail(to: str) -> str:
        """Mail."""
        world.act(f"mail {to}")
        return "sent"

    llm = Scripted([call("book", hotel="Ada"), call("mail", to="a@b")])
    crew_of(llm, [book, mail]).kickoff()

    assert world.log == ["mail a@b"]


def test_a_second_kickoff_does_all_again(world, native):
    @tool
    def pay(card: str) -> str:
        """Pay."""
        world.act(f"pay {card}")
        return "paid"

    crew = crew_of(Scripted([call("pay", card="7")], native=native), [pay])
    crew.kickoff()
    crew.kickoff()

    assert world.log == ["pay 7"] * 2


@pytest.mark.parametrize("limits", [{"max_usage_count": 9}, {"result_as_answer": True}])
def test_a_limited_or_answering_tool_makes_its_turn_serial(world, limits):
    act_on, turn = five(world.act, patience=0.02)

    crew_of(Scripted(turn), [tool(**limits)(act_on)]).kickoff()

    assert world.log == (["0"] if "result_as_answer" in limits else ["0", "1", "2", "3", "4"])
