"""Crews of several tasks: what settles together, what is on record of each, and how one goes on."""

from __future__ import annotations

import asyncio

import pytest
from crewai import Crew, Process
from crewai.tasks.conditional_task import ConditionalTask
from crewai.tools import tool
from pydantic import BaseModel
from tests.integrations.crewai.scripted import Scripted, answers
from tests.integrations.crewai.world import agent_of, call, crew_of, task_of, tools_of, trip

from settlemark import Cancelled, Refused, UsageError, effect
from settlemark_crewai import settled_crew


class Down(Exception):
    """A model that nobody can ask."""


def crew_of_two(world, *, fails=(), broken=(), **options):
    """A crew whose clerk books, and whose writer mails; it is told which of them cannot ask his model to the end."""

    def failing(role, turns):
        def before(number):
            if role in fails and number == turns:
                raise Down(role)

        return before

    tools = tools_of(trip(world, broken=broken))
    clerk_llm = Scripted([call("book", hotel="Ada")], final="booked", before=failing("clerk", 1))
    writer_llm = Scripted([call("mail", to="ada")], final="mailed", before=failing("writer", 1))
    clerk = agent_of(clerk_llm, tools, "clerk", max_retry_limit=0)
    writer = agent_of(writer_llm, tools, "writer", max_retry_limit=0)
    crew = Crew(agents=[clerk, writer], tasks=[task_of(clerk, "Book."), task_of(writer, "Mail.")], **options)
    return crew, clerk_llm, writer_llm


KICKOFFS = pytest.mark.parametrize(
    "kickoff",
    [lambda crew, **given: crew.kickoff(**given), lambda crew, **given: asyncio.run(crew.akickoff(**given))],
    ids=["kickoff", "akickoff"],
)


# ---- going on


@KICKOFFS
def test_a_crew_that_failed_in_its_second_task_goes_on_with_it_and_the_first_is_not_done_again(
    world, settlement, kickoff
):
    crew, _, _ = crew_of_two(world, fails={"writer"})
    with pytest.raises(Down):
        kickoff(settled_crew(crew, settlement, run="r"))
    assert world.log == ["book Ada", "mail ada"]

    crew, clerk, writer = crew_of_two(world)
    output = kickoff(settled_crew(crew, settlement, run="r"))

    assert world.log == ["book Ada", "mail ada"]
    assert [done.raw for done in output.tasks_output] == ["booked", "mailed"]
    assert clerk.seen == []
    assert "booked" in str(writer.seen[0])  # its context is what is on record
    assert [text for _, text in answers(writer)] == ["mail done"]


@KICKOFFS
def test_a_task_whose_last_turn_was_undone_is_unfinished_whatever_its_agent_made_of_it(world, settlement, kickoff):
    crew, _, _ = crew_of_two(world, broken={"book"})
    assert [done.raw for done in kickoff(settled_crew(crew, settlement, run="r")).tasks_output] == ["booked", "mailed"]
    assert world.log == ["mail ada"]

    crew, clerk, writer = crew_of_two(world)
    kickoff(settled_crew(crew, settlement, run="r"))

    assert world.log == ["mail ada", "book Ada"]
    assert ([text for _, text in answers(clerk)], writer.seen) == (["book done"], [])


@KICKOFFS
def test_with_stock_it_begins_from_the_start(world, kickoff):
    crew, _, _ = crew_of_two(world, fails={"writer"})
    with pytest.raises(Down):
        kickoff(crew)
    crew, _, _ = crew_of_two(world)
    kickoff(crew)

    assert world.log == ["book Ada", "mail ada", "book Ada", "mail ada"]


def test_tasks_beside_each_other_are_done_once_each(world, settlement):
    def crew(fails):
        made, clerk, writer = crew_of_two(world, fails=fails)
        made.tasks[0].async_execution = True
        return made, clerk, writer

    with pytest.raises(Down):
        settled_crew(crew({"writer"})[0], settlement, run="r").kickoff()
    again, clerk, _ = crew(())
    output = settled_crew(again, settlement, run="r").kickoff()

    assert sorted(world.log) == ["book Ada", "mail ada"]
    assert [done.raw for done in output.tasks_output] == ["booked", "mailed"]
    assert clerk.seen == []


def test_a_task_that_depends_on_another_is_done_when_it_was_and_remembered(world, settlement):
    def kickoff():
        tools = tools_of(trip(world))
        clerk = agent_of(Scripted([call("book", hotel="Ada")], final="booked"), tools, "clerk")
        then = ConditionalTask(
            description="Mail.",
            expected_output="It is done.",
            condition=lambda output: output.raw == "booked",
            agent=agent_of(Scripted([call("mail", to="ada")]), tools),
        )
        return settled_crew(Crew(agents=[clerk], tasks=[task_of(clerk), then]), settlement, run="r").kickoff()

    assert [kickoff().raw, kickoff().raw] == ["done", "done"]
    assert world.log == ["book Ada", "mail ada"]


def test_a_structured_output_is_remembered_as_what_it_is(world, settlement):
    class Booking(BaseModel):
        hotel: str
        nights: int = 1

    def kickoff():
        llm = Scripted(final='{"hotel": "Ada", "nights": 3}')
        crew = crew_of(llm, [], output_pydantic=Booking)
        return settled_crew(crew, settlement, run="r").kickoff(), llm

    (first, _), (again, llm) = kickoff(), kickoff()

    assert again.pydantic == first.pydantic == Booking(hotel="Ada", nights=3)
    assert llm.seen == []


# ---- inputs


def test_a_job_goes_on_with_the_inputs_it_was_begun_with(world, settlement):
    def crew(final):
        llm = Scripted([call("book", hotel="Ada")], final=final)
        return settled_crew(
            crew_of(llm, tools_of(trip(world)), description="Book in {city}."), settlement, run="r"
        ), llm

    first, llm = crew("booked")
    first.kickoff(inputs={"city": "Ada", "nights": 2})
    again, _ = crew("never said")

    assert again.kickoff().raw == "booked"
    assert again.kickoff(inputs={"city": "Ada", "nights": 2}).raw == "booked"
    assert "Book in Ada." in str(llm.seen[0])
    with pytest.raises(UsageError, match="was begun with {'city': 'Ada', 'nights': 2}"):
        again.kickoff(inputs={"city": "Bee"})
    assert world.log == ["book Ada"]


def test_each_of_many_inputs_is_a_job_of_its_own(world, settlement):
    @tool
    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Mail."""
        world.act(to)
        return "sent"

    def kickoff(inputs):
        crew = settled_crew(crew_of(Scripted([call("mail", to="x")]), [mail], description="{n}"), settlement, run="r")
        return [done.raw for done in crew.kickoff_for_each([{"n": n} for n in inputs])]

    assert kickoff(["1", "2"]) == kickoff(["1", "2", "3"])[:2] == ["done", "done"]
    assert world.log == ["x", "x", "x"]
    assert {found.row.run for found in settlement.transactions()} == {"r/0", "r/1", "r/2"}


# ---- what settles together


@KICKOFFS
@pytest.mark.parametrize(
    ("settle", "log"),
    [
        ("turn", ["book Ada", "mail ada"]),
        ("task", ["book Ada", "cancel Ada"]),
    ],
)
def test_a_task_that_fails_keeps_its_turns_or_is_undone_as_a_whole(world, settlement, kickoff, settle, log):
    def fail(number):
        if number == 2:
            raise Down

    llm = Scripted([call("book", hotel="Ada")], [call("mail", to="ada")], before=fail)
    crew = crew_of(llm, tools_of(trip(world)), agent={"max_retry_limit": 0})

    with pytest.raises(Down):
        kickoff(settled_crew(crew, settlement, run="r", settle=settle))

    assert world.log == log


@KICKOFFS
@pytest.mark.parametrize(
    ("settle", "log"),
    [
        ("task", ["book Ada"]),
        ("crew", ["book Ada", "cancel Ada"]),
    ],
)
def test_a_crew_that_fails_keeps_its_tasks_or_is_undone_as_a_whole_and_is_done_whole_when_it_goes_on(
    world, settlement, kickoff, settle, log
):
    crew, _, _ = crew_of_two(world, fails={"writer"})
    with pytest.raises(Down):
        kickoff(settled_crew(crew, settlement, run="r", settle=settle))
    assert world.log == log

    crew, clerk, writer = crew_of_two(world)
    output = kickoff(settled_crew(crew, settlement, run="r", settle=settle))

    assert [done.raw for done in output.tasks_output] == ["booked", "mailed"]
    assert world.log == (["book Ada", "mail ada"] if settle == "task" else [*log, "book Ada", "mail ada"])
    assert bool(clerk.seen) is (settle == "crew")
    assert [text for _, text in answers(writer)] == ["queued: will run when this step settles"]


def test_a_guardrail_that_never_agrees_undoes_the_task(world, settlement):
    crew = crew_of(
        Scripted([call("book", hotel="Ada"), call("mail", to="ada")]),
        tools_of(trip(world)),
        guardrail=lambda _output: (False, "no"),
        guardrail_max_retries=1,
        agent={"max_retry_limit": 0},
    )

    with pytest.raises(Exception, match="guardrail"):
        settled_crew(crew, settlement, run="r", settle="task").kickoff()

    assert world.log == ["book Ada", "cancel Ada"]


def test_a_task_whose_settling_is_refused_fails_and_the_crew_with_it(world, settlement):
    @tool
    @effect("irreversible", scope="wire:/{to}")
    def wire(to: str) -> str:
        """Wire."""
        raise ValueError("no such account")

    crew = crew_of(Scripted([call("book", hotel="Ada")], [call("wire", to="x")]), [*tools_of(trip(world)), wire])

    with pytest.raises(Refused, match="no such account"):
        settled_crew(crew, settlement, run="r", settle="task").kickoff()

    assert world.log == ["book Ada", "cancel Ada"]


# ---- who works for whom


def hierarchy(world, fails=False, times=1):
    """A manager who has a clerk book, so many times."""

    def fail(number):
        if fails and number == 1:
            raise Down

    clerk_llm = Scripted([call("book", hotel="Ada")], final="booked")
    clerk = agent_of(clerk_llm, tools_of(trip(world)), "clerk")
    delegate = call("delegate_work_to_coworker", task="Book.", context="Ada.", coworker="clerk")
    manager_llm = Scripted(*[[delegate]] * times, final="all done", before=fail)
    manager = agent_of(manager_llm, [], "manager", allow_delegation=True, max_retry_limit=0)
    crew = Crew(agents=[clerk], tasks=[task_of(None)], process=Process.hierarchical, manager_agent=manager)
    return crew, clerk_llm


def test_what_is_delegated_is_settled_and_not_repeated_when_the_manager_begins_again(world, settlement):
    crew, clerk = hierarchy(world, fails=True)
    with pytest.raises(Down):
        settled_crew(crew, settlement, run="r").kickoff()
    assert world.log == ["book Ada"]

    crew, clerk = hierarchy(world)
    output = settled_crew(crew, settlement, run="r").kickoff()

    assert (output.raw, world.log) == ("all done", ["book Ada"])
    assert clerk.seen == []  # the answer is on record


def test_what_is_delegated_twice_is_done_twice(world, settlement):
    crew, _ = hierarchy(world, times=2)

    settled_crew(crew, settlement, run="r").kickoff()

    assert world.log == ["book Ada", "book Ada"]


# ---- fences


def test_a_run_that_was_cancelled_acts_no_more(world, settlement):
    settlement.cancel("r")
    llm = Scripted([call("book", hotel="Ada")])

    with pytest.raises(Cancelled, match="start again under another run id"):
        settled_crew(crew_of(llm, tools_of(trip(world))), settlement, run="r").kickoff()

    assert world.log == []
    assert answers(llm)[0][1].startswith("Cancelled")


@pytest.mark.parametrize("again", [
    lambda crew: crew.replay("x"), lambda crew: crew.train(1, "f"), lambda crew: crew.test(1),
])  # fmt: skip # a list of names and values
def test_what_does_things_again_is_refused(world, settlement, again):
    crew = settled_crew(crew_of(Scripted([call("book", hotel="Ada")]), tools_of(trip(world))), settlement, run="r")

    with pytest.raises(UsageError, match="nothing was run"):
        again(crew)

    assert world.log == []


def test_another_crew_out_of_a_checkpoint_is_refused(world, settlement):
    from crewai import CheckpointConfig

    crew = settled_crew(crew_of(Scripted([call("book", hotel="Ada")]), tools_of(trip(world))), settlement, run="r")

    with pytest.raises(UsageError, match="restore it first"):
        crew.kickoff(from_checkpoint=CheckpointConfig(restore_from="somewhere"))

    assert world.log == []


def test_agents_of_a_crew_with_tools_of_one_name_have_each_its_own(world, settlement):
    def tools_for(who):
        @tool
        @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"{who} unbooks {hotel}"))
        def book(hotel: str) -> str:
            """Book a room."""
            world.act(f"{who} books {hotel}")
            return "booked"

        @tool
        @effect("read")
        def fail(what: str) -> str:
            """Fail."""
            raise ValueError(what)

        return [book, fail]

    roles = ("clerk", "writer")
    agents = [
        agent_of(Scripted([call("book", hotel="Ada"), call("fail", what="Bad")]), tools_for(role), role)
        for role in roles
    ]
    crew = Crew(agents=agents, tasks=[task_of(agent, agent.role) for agent in agents])

    settled_crew(crew, settlement, run="r").kickoff()

    assert world.log == [f"{role} {what} Ada" for role in roles for what in ("books", "unbooks")]
    assert settlement.residue() == []
