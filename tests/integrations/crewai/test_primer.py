"""What CrewAI's agents are told of a job when they are begun again, and what cannot be told is refused."""

from __future__ import annotations

import pytest
from crewai import Agent, Crew, Task
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted, ScriptedCall

from settlemark import Settlement, UsageError, effect
from settlemark_crewai import settled_crew

DONE = "Done, and not to be done again:"


@pytest.fixture
def settlement():
    with Settlement("memory:", wait=20) as settlement:
        yield settlement


def crew_with(llm, log, *, guardrail=None, **options):
    @tool
    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        log.append(to)
        return "sent"

    agent = Agent(role="clerk", goal="Do it.", backstory="Diligent.", llm=llm, tools=[mail], **options)
    task = Task(description="Do it.", expected_output="It is done.", agent=agent, guardrail=guardrail)
    return Crew(agents=[agent], tasks=[task])


def prompts(llm):
    """The system messages of each request."""
    return ["\n".join(m["content"] for m in messages if m["role"] == "system") for messages in llm.seen]


def test_an_agent_that_a_guardrail_begins_again_is_told_what_it_has_done(settlement):
    answers, log = iter([(False, "say more"), (True, "done")]), []
    llm = Scripted([ScriptedCall("mail", {"to": "ada"})])
    crew = crew_with(llm, log, guardrail=lambda _output: next(answers))
    settled_crew(crew, settlement, run="trip-42", primer=True).kickoff()
    told = [DONE in prompt for prompt in prompts(llm)]
    assert told == sorted(told)
    assert (told[0], told[-1], log) == (False, True, ["ada"])


def test_an_agent_that_plans_cannot_be_told_and_the_crew_is_refused(settlement):
    from crewai.agent.planning_config import PlanningConfig

    crew = crew_with(Scripted(), [], planning_config=PlanningConfig())
    with pytest.raises(UsageError, match="planning_config"):
        settled_crew(crew, settlement, run="trip-42", primer=True)
    assert settlement.transactions() == []
