"""While a person is asked, nothing waits that does not need what the asking turn holds; feedback repeats nothing."""

from __future__ import annotations

import builtins
import threading

import pytest

pytest.importorskip("crewai")

from crewai import Crew
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import agent_of, call, task_of, tools_of, trip

from settlemark import Settlement, effect
from settlemark_crewai import approve, settled_crew

PATIENCE = 60


def asking(world):
    @tool("pay")
    @effect("irreversible", scope="bill:/{bill}", approve=True)
    def pay(bill: str) -> str:
        """Pay a bill."""
        world.act(f"pay {bill}")
        return "paid"

    return pay


def noting(world, noted):
    """A tool that nobody has declared."""

    @tool("note")
    def note(text: str) -> str:
        """Note."""
        world.act(f"note {text}")
        noted.set()
        return "noted"

    return note


@pytest.mark.parametrize("settle", ["turn", "task"])
def test_a_task_beside_one_that_asks_goes_on_with_undeclared_tools(world, settle):
    """Both tasks use a tool that nobody has declared; the person answers when the other task has noted."""
    begun, noted = threading.Event(), threading.Event()

    def person(_gate):
        assert noted.wait(PATIENCE), "the other task waits for the person"
        return approve()

    asks = agent_of(
        Scripted([call("note", text="asking"), call("book", hotel="Ada"), call("pay", bill="7")]),
        [*tools_of(trip(world)), noting(world, begun), asking(world)],
        "asking",
    )
    other = agent_of(
        Scripted([call("note", text="other"), call("book", hotel="Bee")], before=lambda _: begun.wait(PATIENCE)),
        [*tools_of(trip(world)), noting(world, noted)],
        "other",
    )
    tasks = [task_of(agent, f"As {agent.role}.", async_execution=True) for agent in (asks, other)]
    last = task_of(agent_of(Scripted(), [], "last"), "Tell.", context=tasks)

    with Settlement("memory:", approver=person, wait=PATIENCE) as settlement:
        crew = Crew(agents=[asks, other, last.agent], tasks=[*tasks, last])
        settled_crew(crew, settlement, run="r", settle=settle).kickoff()
        assert settlement.residue() == []

    assert sorted(world.log) == ["book Ada", "book Bee", "note asking", "note other", "pay 7"]


def test_another_crew_goes_on_while_a_person_is_asked(world):
    with Settlement("memory:", approver=lambda _gate: second() or approve(), wait=PATIENCE) as settlement:

        def second():
            llm = Scripted([call("note", text="b"), call("book", hotel="Bee"), call("mail", to="bee")])
            clerk = agent_of(llm, [*tools_of(trip(world)), noting(world, threading.Event())], "second")
            job = settled_crew(Crew(agents=[clerk], tasks=[task_of(clerk)]), settlement, run="second")
            thread = threading.Thread(target=job.kickoff, daemon=True)
            thread.start()
            thread.join(PATIENCE)
            assert not thread.is_alive()

        llm = Scripted([call("note", text="a"), call("book", hotel="Ada"), call("pay", bill="7")])
        clerk = agent_of(llm, [*tools_of(trip(world)), noting(world, threading.Event()), asking(world)], "first")
        settled_crew(Crew(agents=[clerk], tasks=[task_of(clerk)]), settlement, run="first").kickoff()
        assert settlement.residue() == []

    assert world.log == ["note a", "book Ada", "note b", "book Bee", "mail bee", "pay 7"]


@pytest.mark.parametrize("settle", ["turn", "task", "crew"])
def test_what_a_person_says_of_an_answer_undoes_nothing_and_repeats_nothing(world, settlement, monkeypatch, settle):
    """CrewAI's own `human_input=True`: a remark, which the agent answers with a further turn, then a yes."""
    said = iter(["say it again", ""])
    monkeypatch.setattr(builtins, "input", lambda *_: next(said))
    llm = Scripted([call("book", hotel="Ada"), call("mail", to="ada")], final="booked")
    clerk = agent_of(llm, tools_of(trip(world)))
    crew = Crew(agents=[clerk], tasks=[task_of(clerk, human_input=True)])

    assert settled_crew(crew, settlement, run="r", settle=settle).kickoff().raw == "booked"

    assert (world.log, next(said, "asked twice")) == (["book Ada", "mail ada"], "asked twice")
    assert settlement.residue() == []
