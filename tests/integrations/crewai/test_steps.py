"""The steps of a plan (`planning_config`) have turns: in order, undone together, known again."""

from __future__ import annotations

import json
import threading

import pytest

pytest.importorskip("crewai")

from crewai import Crew
from crewai.agent.planning_config import PlanningConfig
from crewai.agents.step_executor import StepExecutor
from crewai.tools import tool
from tests.integrations.crewai.scripted import Scripted, turns_in
from tests.integrations.crewai.world import agent_of, call, task_of, tools_of, trip
from tests.rooms.crewai import NATIVE, STEPS, WRITTEN

from settlemark import State, UsageError, effect
from settlemark_crewai import settled, settled_crew


class Down(Exception):
    """The model's provider."""


class Planning(Scripted):
    """Plans as many steps as it has scripts, one after the other or beside each other; each step says its own turns."""

    def __init__(self, *steps, beside=False, fails_at=None, **options):
        super().__init__(**options)
        object.__setattr__(self, "_steps", steps)
        object.__setattr__(self, "_beside", beside)
        object.__setattr__(self, "_fails_at", fails_at)
        object.__setattr__(self, "_is_planned", False)

    def supports_function_calling(self):
        return self.native or not self._is_planned  # it plans by a function, whatever it does then

    def call(self, messages, *given, **named):
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        tools = named.get("tools") or (given[0] if given else None) or []
        if any("reasoning_plan" in json.dumps(each) for each in tools if isinstance(each, dict)):
            object.__setattr__(self, "_is_planned", True)
            return json.dumps({"plan": "p", "steps": self._planned(), "ready": True})
        self.seen.append([dict(message) for message in messages])
        said = " ".join(str(message.get("content")) for message in messages)
        step = next((number for number in range(len(self._steps)) if f"<step {number}>" in said), None)
        if step is None:
            return self._done()
        if step == self._fails_at:
            raise Down
        turn = turns_in(messages)
        object.__setattr__(self, "_turns", [*self._steps[step]])
        return self._done() if turn >= len(self._steps[step]) else Scripted.call(self, messages)

    def _done(self):
        return "done" if self.native else "Thought: I know.\nFinal Answer: done"

    def _planned(self):
        return [
            {
                "step_number": number + 1,
                "description": f"<step {number}>",
                "tool_to_use": None,
                "depends_on": [] if self._beside or number == 0 else [number],
            }
            for number in range(len(self._steps))
        ]


@tool("fail")
@effect("reversible", scope="failure:/one", undo=lambda: None)
def fail() -> str:
    """Fail."""
    raise ValueError("there is none")


FIRST = [call("book", hotel="Ada"), call("mail", to="ada"), call("book", hotel="Bee")]
SECOND = [call("book", hotel="Cee"), call("mail", to="cee")]


def planned(llm, tools, **options):
    agent = agent_of(llm, tools, planning_config=PlanningConfig(reasoning_effort="low"), **options)
    return Crew(agents=[agent], tasks=[task_of(agent)])


def test_the_calls_of_a_step_are_a_turn_and_with_stock_none(world, settlement):
    tools = tools_of(trip(world))

    planned(Planning([FIRST], [SECOND]), tools).kickoff()
    stock, world.log = world.log, []
    settled_crew(planned(Planning([FIRST], [SECOND]), tools), settlement, run="r").kickoff()

    assert stock == ["book Ada", "mail ada", "book Bee", "book Cee", "mail cee"]
    assert world.log == ["book Ada", "book Bee", "mail ada", "book Cee", "mail cee"]
    assert settlement.residue() == []


@pytest.mark.parametrize("step", [0, 1])
def test_a_call_that_fails_undoes_its_turn_of_the_step_and_the_model_is_told(world, settlement, step):
    steps = [[FIRST], [SECOND]]
    steps[step] = [[*steps[step][0], call("fail")]]
    llm = Planning(*steps)

    settled_crew(planned(llm, [*tools_of(trip(world)), fail]), settlement, run="r").kickoff()

    undone = [
        ["book Ada", "book Bee", "cancel Bee", "cancel Ada", "book Cee", "mail cee"],
        ["book Ada", "book Bee", "mail ada", "book Cee", "cancel Cee"],
    ]
    told = [message["content"] for messages in llm.seen for message in messages if message["role"] == "tool"]
    assert world.log == undone[step]
    assert any(text.startswith("undone: book had succeeded") for text in told)
    assert any(text.startswith("never left: mail was held") for text in told)
    assert settlement.residue() == []


@pytest.mark.parametrize("native", [True, False], ids=["native", "written"])
def test_steps_that_are_carried_out_again_repeat_nothing(world, settlement, native):
    steps = [[[each]] for each in (*FIRST, *SECOND)] if not native else [[FIRST], [SECOND]]
    tools = tools_of(trip(world))
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever CrewAI makes of it
        crew = planned(Planning(*steps, fails_at=len(steps) - 1, native=native), tools, max_retry_limit=0)
        crew.tasks[0].callback = _down
        settled_crew(crew, settlement, run="r").kickoff()
    before = list(world.log)

    settled_crew(planned(Planning(*steps, native=native), tools), settlement, run="r").kickoff()

    assert before
    assert sorted(world.log) == ["book Ada", "book Bee", "book Cee", "mail ada", "mail cee"]
    assert world.log[: len(before)] == before


def _down(_output):
    raise Down


def test_steps_beside_each_other_do_not_mix_their_turns(world, settlement):
    """Each turn settles as a whole, whichever comes first."""
    steps = [[FIRST], [SECOND, [call("book", hotel="Dee"), call("fail")]]]

    crew = planned(Planning(*steps, beside=True), [*tools_of(trip(world)), fail])
    settled_crew(crew, settlement, run="r").kickoff()

    first = [entry for entry in world.log if entry in ("book Ada", "book Bee", "mail ada")]
    second = [entry for entry in world.log if entry not in first]
    assert first == ["book Ada", "book Bee", "mail ada"]
    assert second == ["book Cee", "mail cee", "book Dee", "cancel Dee"]
    assert settlement.residue() == []


def test_so_it_is_for_an_agent_without_a_settled_crew(world, settlement):
    tools = [settled(found, settlement=settlement, run="r") for found in [*tools_of(trip(world)), fail]]

    planned(Planning([[*FIRST, call("fail")]], [SECOND]), tools).kickoff()

    assert world.log == ["book Ada", "book Bee", "cancel Bee", "cancel Ada", "book Cee", "mail cee"]


@pytest.fixture
def without_steps(monkeypatch):
    monkeypatch.setitem(vars(STEPS), "absent", ["crewai.agents.step_executor.StepExecutor._execute_native_tool_calls"])
    for name in (NATIVE, WRITTEN):
        stock = getattr(StepExecutor, name)
        monkeypatch.setattr(StepExecutor, name, getattr(stock, "__wrapped__", stock))


GONE = r"no crewai\.agents\.step_executor\.StepExecutor\._execute_native_tool_calls.*nothing was run"


@pytest.mark.usefixtures("without_steps")
def test_where_a_release_lacks_what_a_plan_settles_by_it_is_refused_and_nothing_runs(world, settlement):
    tools = tools_of(trip(world))

    with pytest.raises(UsageError, match=GONE):
        settled_crew(planned(Planning([FIRST]), tools), settlement, run="r").kickoff()
    assert world.log == []

    llm = Scripted(FIRST)
    agent = agent_of(llm, tools)
    settled_crew(Crew(agents=[agent], tasks=[task_of(agent)]), settlement, run="s").kickoff()  # it plans nothing
    assert world.log == ["book Ada", "book Bee", "mail ada"]


@pytest.mark.usefixtures("without_steps")
def test_so_it_is_for_settled_tools_in_a_crew_that_is_not_and_the_model_is_told(world, settlement):
    llm = Planning([FIRST])
    tools = [settled(found, settlement=settlement, run="r") for found in tools_of(trip(world))]

    planned(llm, tools).kickoff()

    told = [message["content"] for messages in llm.seen for message in messages if message["role"] == "tool"]
    assert world.log == []
    assert told
    assert all("StepExecutor._execute_native_tool_calls" in text and "nothing was run" in text for text in told)
    assert settlement.transactions() == []


@pytest.mark.usefixtures("without_steps")
def test_a_plan_whose_tools_only_read_needs_no_turns(world, settlement):
    (look,) = [found for found in tools_of(trip(world)) if found.name == "look"]

    settled_crew(planned(Planning([[call("look", hotel="Ada")]]), [look]), settlement, run="r").kickoff()

    assert world.log == ["look Ada"]


@pytest.mark.usefixtures("without_steps")
@pytest.mark.parametrize("unsettled", ["warn", "allow"])
@pytest.mark.parametrize("in_crew", [True, False], ids=["settled crew", "settled tools"])
def test_a_user_may_have_each_call_of_a_plan_settle_by_itself(world, settlement, caplog, unsettled, in_crew):
    tools = tools_of(trip(world))
    if in_crew:
        settled_crew(planned(Planning([FIRST]), tools), settlement, run="r", unsettled=unsettled).kickoff()
    else:
        own = [settled(found, settlement=settlement, run="r", unsettled=unsettled) for found in tools]
        planned(Planning([FIRST]), own).kickoff()

    assert world.log == ["book Ada", "mail ada", "book Bee"]
    own = [found for found in settlement.transactions() if found.effects[0].row.tool in ("book", "mail")]
    assert [(len(found.effects), found.state) for found in own] == [(1, State.COMMITTED)] * 3
    assert len([r for r in caplog.records if "_execute_native_tool_calls" in r.getMessage()]) == (unsettled == "warn")


def test_a_planned_step_of_an_agent_that_settles_nothing_is_as_stock(world):
    threads = set()

    @tool("note")
    def note(text: str) -> str:
        """Note."""
        threads.add(threading.get_ident())
        world.act(f"note {text}")
        return "noted"

    planned(Planning([[call("note", text="a"), call("note", text="b")]]), [note]).kickoff()

    assert world.log == ["note a", "note b"]
