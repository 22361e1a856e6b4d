"""A call that needs a person's yes, and how CrewAI's user is asked for it."""

from __future__ import annotations

import builtins

import pytest
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted, answers
from tests.integrations.crewai.world import call, crew_of, tools_of, trip

from settlemark import Settlement, effect
from settlemark_crewai import approve, edit, human_input, reject, settled_crew


def paying(world):
    @tool
    @effect("irreversible", scope="bill:/{what}", approve=True)
    def pay(what: str, amount: int = 1) -> str:
        """Pay a bill."""
        world.act(f"pay {what} {amount}")
        return "paid"

    return pay


def play(world, approver, native=True):
    turn = [call("pay", what="hotel")]
    llm = Scripted([call("book", hotel="Ada"), *turn] if native else turn, native=native)
    with Settlement("memory:", approver=approver) as settlement:
        settled_crew(crew_of(llm, [*tools_of(trip(world)), paying(world)]), settlement, run="r").kickoff()
    return [text.split("\n")[0] for _, text in answers(llm)]


@pytest.mark.parametrize(
    ("answer", "log", "told"),
    [
        (approve(), ["pay hotel 1"], "paid"),
        (edit({"what": "half", "amount": 2}), ["pay half 2"], "paid"),
        (reject("too dear"), [], "Rejected: pay was rejected by a human: too dear; nothing of it happened"),
    ],
    ids=["yes", "other arguments", "no"],
)
def test_what_is_answered_is_what_happens(world, native, answer, log, told):
    asked = []

    def person(gate):
        asked.append((gate.tool, dict(gate.arguments)))
        return answer

    texts = play(world, person, native)

    assert asked == [("pay", {"what": "hotel"})]
    assert [entry for entry in world.log if entry.startswith("pay")] == log
    assert texts[-1].startswith(told)
    assert ("cancel Ada" in world.log) is (native and not log)


@pytest.mark.parametrize(
    ("given", "why"),
    [({"whom": "x"}, "it has no 'whom'"), ({"what": "x", "amount": "much"}, "amount: "), ({}, "what: Field required")],
)
def test_other_arguments_that_the_tool_does_not_take_are_refused_and_nothing_of_the_turn_stays(world, given, why):
    texts = play(world, lambda gate: edit(given))

    assert why in texts[-1]
    assert world.log == ["book Ada", "cancel Ada"]


@pytest.mark.parametrize(
    ("typed", "log"),
    [("yes", ["pay hotel 1"]), ('{"what": "half"}', ["pay half 1"]), ("too dear", []), ("", [])],
)
def test_at_the_console_it_is_asked_in_crewais_manner(world, monkeypatch, capsys, typed, log):
    monkeypatch.setattr(builtins, "input", lambda: typed)

    texts = play(world, human_input)

    assert [entry for entry in world.log if entry.startswith("pay")] == log
    assert "pay would act on bill:/hotel" in capsys.readouterr().out
    assert ("too dear" in texts[-1]) is (typed == "too dear")


def test_at_the_console_a_mistyped_answer_is_asked_about_again_and_the_right_one_is_taken(world, monkeypatch, capsys):
    typed = iter(['{"whom": "half"}', '{"what": "half"}'])
    monkeypatch.setattr(builtins, "input", lambda: next(typed))

    texts = play(world, human_input)

    assert world.log == ["book Ada", "pay half 1"]
    assert texts == ["book done", "paid"]
    assert "it has no 'whom'" in capsys.readouterr().out


def test_at_the_console_nobody_is_asked_for_ever(world, monkeypatch):
    monkeypatch.setattr(builtins, "input", lambda: '{"whom": "half"}')

    texts = play(world, human_input)

    assert "it has no 'whom'" in texts[-1]
    assert world.log == ["book Ada", "cancel Ada"]


def test_where_nobody_can_be_asked_the_model_is_told_so_and_nothing_of_the_turn_acts(world):
    texts = play(world, None)

    assert "nobody to ask" in texts[-1]
    assert world.log == []
