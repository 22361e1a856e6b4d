"""What an agent does for another that has delegated to it is a part of that one's call, at every level."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("crewai")

from crewai import Crew, Process
from crewai.tools import tool
from crewai.tools.agent_tools.agent_tools import AgentTools
from tests.integrations.crewai.scripted import Scripted, answers
from tests.integrations.crewai.world import agent_of, call, task_of, tools_of, trip

from settlemark import Settlement, effect
from settlemark.agents import Call, open_turn, run_sync
from settlemark_crewai import approve, reject, settled, settled_crew

TURNS = (
    [call("book", hotel="Ada")],
    [call("look", hotel="Ada"), call("mail", to="ada")],
    [call("book", hotel="Bee"), call("mail", to="bee")],
)
"""What the clerk does, turn by turn."""
FAILS = call("fail")
DEEP = [1, 2]


def delegate(coworker, task="Do it."):
    return call("delegate_work_to_coworker", task=task, context="Now.", coworker=coworker)


@tool("fail")
@effect("reversible", scope="failure:/one", undo=lambda: None)
def fail() -> str:
    """Fail."""
    raise ValueError("there is none")


def company(world, turns, manages, *, deep=1, tools=()):
    """A manager with a clerk, or with a lead who has the clerk do all; return the crew, and the models."""
    clerk_llm, lead_llm = Scripted(*turns, final="booked"), Scripted([delegate("clerk")], final="led")
    manager_llm = Scripted(*manages, final="all done")
    clerk = agent_of(clerk_llm, [*tools_of(trip(world)), fail, *tools], "clerk")
    lead = agent_of(lead_llm, AgentTools(agents=[clerk]).tools(), "lead")
    manager = agent_of(manager_llm, [], "manager", allow_delegation=True)
    crew = Crew(agents=[lead, clerk], tasks=[task_of(None)], process=Process.hierarchical, manager_agent=manager)
    return crew, clerk_llm, manager_llm


def to(deep):
    return "clerk" if deep == 1 else "lead"


def texts(llm):
    return [text for _, text in answers(llm)]


@pytest.mark.parametrize("deep", DEEP)
def test_what_is_delegated_settles_with_the_managers_turn(world, settlement, deep):
    crew, _, _ = company(world, TURNS, [[delegate(to(deep))]], deep=deep)

    assert settled_crew(crew, settlement, run="r").kickoff().raw == "all done"

    assert world.log == ["book Ada", "look Ada", "book Bee", "mail ada", "mail bee"]
    assert settlement.residue() == []
    assert sum(bool(found.effects) for found in settlement.transactions()) == 2  # the turn, and the task's output


@pytest.mark.parametrize("failing", range(len(TURNS)))
@pytest.mark.parametrize("deep", DEEP)
def test_a_turn_that_fails_for_another_agent_is_undone_by_itself(world, settlement, deep, failing):
    turns = [[*turn, FAILS] if number == failing else turn for number, turn in enumerate(TURNS)]
    crew, _, _ = company(world, turns, [[delegate(to(deep))]], deep=deep)

    settled_crew(crew, settlement, run="r").kickoff()

    stands = [entry for entry in world.log if not entry.startswith(("cancel", "look"))]
    for cancelled in [entry for entry in world.log if entry.startswith("cancel")]:
        stands.remove(cancelled.replace("cancel", "book"))
    assert (
        stands
        == [["book Bee", "mail ada", "mail bee"], ["book Ada", "book Bee", "mail bee"], ["book Ada", "mail ada"]][
            failing
        ]
    )
    assert settlement.residue() == []


@pytest.mark.parametrize("deep", DEEP)
def test_what_is_delegated_is_undone_with_the_managers_turn_and_nothing_is_left(world, settlement, deep):
    crew, _, manager = company(world, TURNS, [[delegate(to(deep)), FAILS]], deep=deep)
    crew.manager_agent.tools = []
    crew.tasks[0].tools = [fail]

    settled_crew(crew, settlement, run="r").kickoff()

    assert world.log == ["book Ada", "look Ada", "book Bee", "cancel Bee", "cancel Ada"]
    assert settlement.residue() == []
    assert texts(manager)[0].startswith("undone: delegate_work_to_coworker had succeeded")


def delegating_twice(act):
    """The first coworker books, and waits for the mail of the second as long as it has patience."""

    def crew_of(patience):
        mailed = threading.Event()

        @tool("book_slowly")
        @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: act(f"cancel {hotel}"))
        def book_slowly(hotel: str) -> str:
            """Book a room."""
            mailed.wait(patience)
            act(f"book {hotel}")
            return "booked"

        @tool("send")
        @effect("irreversible", scope="mail:/{to}")
        def send(to: str) -> str:
            """Send a mail."""
            act(f"mail {to}")
            mailed.set()
            return "sent"

        booker = agent_of(Scripted([call("book_slowly", hotel="Ada")]), [book_slowly], "booker")
        mailer = agent_of(Scripted([call("send", to="ada")]), [send], "mailer")
        manager = agent_of(Scripted([delegate("booker"), delegate("mailer")]), [], "manager", allow_delegation=True)
        return Crew(agents=[booker, mailer], tasks=[task_of(None)], process=Process.hierarchical, manager_agent=manager)

    return crew_of


def test_two_delegations_of_one_turn_act_in_their_order_and_with_stock_as_they_come(world, settlement):
    made = delegating_twice(world.act)

    made(20).kickoff()
    stock, world.log = world.log, []
    settled_crew(made(0.05), settlement, run="r").kickoff()

    assert stock == ["mail ada", "book Ada"]
    assert world.log == ["book Ada", "mail ada"]


@pytest.mark.parametrize("deep", DEEP)
@pytest.mark.parametrize("at", range(len(TURNS)))
@pytest.mark.parametrize("answer", [approve(), reject("no")], ids=["approve", "reject"])
def test_a_person_is_asked_in_any_turn_of_whoever_was_delegated_to(world, deep, at, answer):
    @tool("pay")
    @effect("irreversible", scope="bill:/{bill}", approve=True)
    def pay(bill: str) -> str:
        """Pay a bill."""
        world.act(f"pay {bill}")
        return "paid"

    turns = [[*turn, call("pay", bill="7")] if number == at else turn for number, turn in enumerate(TURNS)]
    crew, _, _ = company(world, turns, [[delegate(to(deep))]], deep=deep, tools=[pay])
    asked = []

    with Settlement("memory:", approver=lambda gate: asked.append(gate.arguments) or answer) as settlement:
        settled_crew(crew, settlement, run="r").kickoff()
        assert settlement.residue() == []

    gone = {0: {"book Ada"}, 1: {"mail ada"}, 2: {"book Bee", "mail bee"}}[at]
    yes = answer["decision"] == "approve"
    cancelled = {entry.replace("cancel", "book") for entry in world.log if entry.startswith("cancel")}
    assert asked == [{"bill": "7"}]
    assert ("pay 7" in world.log) is yes
    assert {"book Ada", "mail ada", "book Bee", "mail bee"} - ({*world.log} - cancelled) == (set() if yes else gone)


def test_a_question_to_a_coworker_is_a_part_of_its_call_too(world, settlement):
    asks = call("ask_question_to_coworker", question="What?", context="Now.", coworker="clerk")
    crew, _, _ = company(world, TURNS[:1], [[asks, FAILS]])
    crew.tasks[0].tools = [fail]

    settled_crew(crew, settlement, run="r").kickoff()

    assert (world.log, settlement.residue()) == (["book Ada", "cancel Ada"], [])


class Stop(Exception):
    """A framework around CrewAI puts aside the call in which an agent runs."""


def test_an_agent_that_goes_on_behind_its_last_turn_inside_a_call_keeps_what_it_did(world, settlement):
    """Its messages are handed to it again: it comes to no turn any more, and nothing is taken back for that."""

    known = []

    def ask(number):
        known[:] = [dict(message) for message in llm.seen[-1]]
        if number == 1 and len(llm.seen) == 2:
            raise Stop

    llm = Scripted([call("book", hotel="Ada")], final="booked", before=ask)
    clerk = agent_of(llm, [settled(found, settlement=settlement, run="r") for found in tools_of(trip(world))])
    declared = settlement.declare("task", "idempotent", scope="task:/{what}", keyed=True)
    for going_on in (False, True):
        turn = run_sync(open_turn(settlement, "outer", run="r", resumable=True, let_through=(Stop,)))
        (seat,) = run_sync(turn.place_all([Call("task", {"what": "it"}, declared, "outer-0")]))
        asked = known[1:] if going_on else "Do it."
        error = None
        try:
            run_sync(turn.perform(seat, lambda asked=asked: str(clerk.kickoff(asked)), {"what": "it"}))
        except Stop as stop:
            error = stop
        run_sync(turn.leave(seat, error=error))

    assert any(message["role"] == "tool" for message in known)
    assert (turn.settled, turn.refusal, world.log, settlement.residue()) == (True, None, ["book Ada"], [])
