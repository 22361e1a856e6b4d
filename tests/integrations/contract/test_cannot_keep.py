"""Where a shim cannot keep its promises it refuses before the first effect, unless its user knows and says so.

The places are enumerated here for all frameworks: every name of a framework that a shim reads and no import checks, and
every half of a shim without the other. Which calls of a framework lose their turns then is in its own tests.
"""

from __future__ import annotations

import asyncio
import importlib
from importlib import import_module
from types import SimpleNamespace

import pytest
from tests.integrations.contract.conftest import missing
from tests.integrations.contract.driver import FRAMEWORKS
from tests.integrations.contract.world import World

from settlemark import Settlement, UsageError, effect

SHIMS = [name for name in FRAMEWORKS if not missing(name)]


def names_of(framework):
    return importlib.import_module(f"settlemark_{framework}._private").NAMES


def book(what: str) -> str:
    """Book a room."""
    return what


def langgraph_node(settlement, **options):
    from settlemark_langgraph import SequencedToolNode

    return SequencedToolNode([book], settlement=settlement, **options)


def langgraph_middleware(settlement, **options):
    from settlemark_langgraph import SettlementMiddleware

    return SettlementMiddleware(settlement, **options)


def crewai_crew(settlement, **options):
    from crewai import Agent, Crew, Task
    from crewai.tools import tool
    from tests.integrations.crewai.scripted import Scripted

    from settlemark_crewai import settled_crew

    agent = Agent(role="clerk", goal="Do it.", backstory="Diligent.", llm=Scripted(), tools=[tool("book")(book)])
    crew = Crew(agents=[agent], tasks=[Task(description="Do it.", expected_output="It is done.", agent=agent)])
    return settled_crew(crew, settlement, **options)


def crewai_tool(settlement, **options):
    from crewai.tools import tool

    from settlemark_crewai import settled

    return settled(tool("book")(book), settlement=settlement, **options)


def autogen_workbench(settlement, **options):
    from settlemark_autogen import SettledWorkbench

    return SettledWorkbench([book], settlement, **options)


def autogen_client(settlement, **options):
    from tests.integrations.autogen.world import Scripted

    from settlemark_autogen import SettledChatCompletionClient

    return SettledChatCompletionClient(Scripted(), settlement, **options)


def pydantic_ai_capability(settlement, **options):
    from settlemark_pydantic_ai import Settled

    return Settled(settlement, **options)


def pydantic_ai_toolset(settlement, **options):
    from pydantic_ai import FunctionToolset

    from settlemark_pydantic_ai import SettledToolset

    return SettledToolset(FunctionToolset([book]), settlement, **options)


MADE = [
    pytest.param(make, make.__name__.rpartition("_")[0], id=make.__name__)
    for make in (
        langgraph_node, langgraph_middleware, crewai_crew, crewai_tool, autogen_workbench, autogen_client,
        pydantic_ai_capability, pydantic_ai_toolset,
    )
    if make.__name__.rpartition("_")[0] in SHIMS
]  # fmt: skip # a list of names and values
"""Everything that a user puts in a framework's place, and its framework."""


def without(module, within, name):
    """Load modules as they are installed, but for one name."""

    def load(asked):
        found = import_module(asked)
        if asked != module:
            return found
        if not within:
            return SimpleNamespace(**{key: value for key, value in vars(found).items() if key != name})
        if isinstance(getattr(found, within), type):
            return SimpleNamespace(**{**vars(found), within: type(within, (), {})})
        return SimpleNamespace(**{**vars(found), within: lambda other: other})

    return load


@pytest.mark.parametrize("framework", SHIMS)
def test_the_installed_release_has_every_name_that_the_shim_reads(framework):
    assert names_of(framework).absent == []


@pytest.mark.parametrize("framework", SHIMS)
def test_each_name_that_is_gone_is_told(framework):
    names = names_of(framework)
    told = [names.missing(without(*found)) for found in names.each()]

    assert [".".join(filter(None, found)) in gone for found, gone in zip(names.each(), told, strict=True)] == [
        True for _ in told
    ]


@pytest.mark.parametrize("framework", SHIMS)
def test_a_module_that_is_gone_is_told_by_its_names(framework):
    names = names_of(framework)
    for module in sorted({module for module, *_ in names.each()}):

        def load(asked, module=module):
            if asked == module:
                raise ImportError(asked)
            return import_module(asked)

        assert names.missing(load) == [".".join(filter(None, found)) for found in names.each() if found[0] == module]


@pytest.mark.parametrize(("make", "framework"), MADE)
def test_where_a_name_is_gone_nothing_is_made(make, framework, settlement, monkeypatch):
    names = names_of(framework)
    monkeypatch.setitem(vars(names), "absent", ["some.hook"])

    with pytest.raises(UsageError, match=r"this release has no some\.hook, so .*") as refused:
        make(settlement)

    assert f"settlemark was tested with {names.tested[0]} to {names.tested[1]}: install one of these" in str(
        refused.value
    )
    assert str(refused.value).endswith('or pass unsettled="warn" to go on without; nothing was run')
    assert settlement.transactions() == []


@pytest.mark.parametrize("unsettled", ["warn", "allow"])
@pytest.mark.parametrize(("make", "framework"), MADE)
def test_a_user_may_go_on_without_a_name_and_a_warning_says_so_once(
    make, framework, settlement, unsettled, monkeypatch, caplog
):
    monkeypatch.setitem(vars(names_of(framework)), "absent", ["some.hook"])

    make(settlement, unsettled=unsettled)
    make(settlement, unsettled=unsettled)

    assert len([r for r in caplog.records if "some.hook" in r.getMessage()]) == (unsettled == "warn")


@pytest.mark.parametrize(("make", "framework"), MADE)
def test_what_is_no_choice_is_refused(make, framework, settlement):
    with pytest.raises(UsageError, match="unsettled='maybe': choose one of 'refuse', 'warn', 'allow'"):
        make(settlement, unsettled="maybe")


# ---- one half without the other


def an_autogen_workbench_alone(world, settlement):
    from autogen_agentchat.agents import AssistantAgent
    from tests.integrations.autogen.world import Scripted, turn

    from settlemark_autogen import SettledWorkbench

    workbench = SettledWorkbench([gated_by_nothing(world)], settlement, run="r")
    agent = AssistantAgent("clerk", Scripted(turn(("act", {"what": "x"}))), workbench=workbench)
    return str(asyncio.run(agent.run(task="go")).messages)


def an_autogen_client_alone(world, settlement):
    from autogen_agentchat.agents import AssistantAgent
    from tests.integrations.autogen.world import Scripted, turn

    from settlemark_autogen import SettledChatCompletionClient

    client = SettledChatCompletionClient(Scripted(turn(("act", {"what": "x"}))), settlement, run="r")
    agent = AssistantAgent("clerk", client, tools=[gated_by_nothing(world)])
    return str(asyncio.run(agent.run(task="go")).messages)


def a_pydantic_ai_agent_that_cannot_ask(world, settlement):
    from pydantic_ai import Agent

    from settlemark_pydantic_ai import Settled

    return Agent("test", tools=[gated(world)], capabilities=[Settled(settlement)])


def a_langgraph_node_without_a_settlement_that_is_to_settle(world, settlement):
    from settlemark_langgraph import SequencedToolNode

    return SequencedToolNode([gated_by_nothing(world)], settle="superstep")


# ---- a person is to be asked, and nobody can be


def an_autogen_agent_with_no_approver(world, settlement):
    from autogen_agentchat.agents import AssistantAgent
    from tests.integrations.autogen.world import Scripted, turn

    from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench

    client = SettledChatCompletionClient(Scripted(turn(("book", {"what": "x"}), ("act", {"what": "x"}))), settlement)
    workbench = SettledWorkbench([booked(world), gated(world)], settlement, run="r")
    agent = AssistantAgent("clerk", client, workbench=workbench)
    return str(asyncio.run(agent.run(task="go")).messages)


def a_crewai_crew_with_no_approver(world, settlement):
    from crewai import Agent, Crew, Task
    from crewai.tools import tool
    from tests.integrations.crewai.scripted import Scripted, answers
    from tests.integrations.crewai.world import call

    from settlemark_crewai import settled_crew

    llm = Scripted([call("book", what="x"), call("act", what="x")])
    tools = [tool("book")(booked(world)), tool("act")(gated(world))]
    agent = Agent(role="clerk", goal="Do it.", backstory="Diligent.", llm=llm, tools=tools)
    crew = Crew(agents=[agent], tasks=[Task(description="Do it.", expected_output="It is done.", agent=agent)])
    settled_crew(crew, settlement, run="r").kickoff()
    return str(answers(llm))


def a_langgraph_graph_without_a_checkpointer(world, settlement):
    from langgraph.graph import START, MessagesState, StateGraph
    from tests.integrations.langgraph.world import turn

    from settlemark_langgraph import SequencedToolNode

    node = SequencedToolNode([booked(world), gated(world)], settlement=settlement)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    return str(graph.invoke({"messages": [turn(("book", {"what": "x"}), ("act", {"what": "x"}))]}))


def a_job_of_no_framework_that_asks_nobody(world, settlement):
    from tests.integrations.contract.driver import ScriptedCall
    from tests.integrations.contract.toy import SettledToy

    toy = SettledToy([booked(world), gated(world)], settlement, "r", {})
    script = [[ScriptedCall("book", {"what": "x"}, "1"), ScriptedCall("act", {"what": "x"}, "2")]]
    return str(asyncio.run(toy.run(script)))


HALVES = [
    pytest.param(half, id=half.__name__)
    for half, framework in (
        (an_autogen_workbench_alone, "autogen"),
        (an_autogen_client_alone, "autogen"),
        (a_pydantic_ai_agent_that_cannot_ask, "pydantic_ai"),
        (a_langgraph_node_without_a_settlement_that_is_to_settle, "langgraph"),
        (an_autogen_agent_with_no_approver, "autogen"),
        (a_crewai_crew_with_no_approver, "crewai"),
        (a_langgraph_graph_without_a_checkpointer, "langgraph"),
        (a_job_of_no_framework_that_asks_nobody, None),
    )
    if framework is None or framework in SHIMS
]


def gated_by_nothing(world):
    def act(what: str) -> str:
        """Act."""
        world.act(f"act {what}")
        return what

    return effect("irreversible", scope="thing:/{what}")(act)


def booked(world):
    def book(what: str) -> str:
        """Book a room."""
        world.act(f"book {what}")
        return what

    return effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"cancel {what}"))(book)


def gated(world):
    def act(what: str) -> str:
        """Act."""
        world.act(f"act {what}")
        return what

    return effect("irreversible", scope="thing:/{what}", approve=True)(act)


@pytest.mark.parametrize("half", HALVES)
def test_one_half_without_the_other_refuses_before_anything_acts(half):
    world = World()
    with Settlement("memory:") as settlement:
        try:
            told = half(world, settlement)
        except UsageError as error:
            told = str(error)

        assert world.log == []
        assert settlement.transactions() == []
    assert "nothing was run" in told or "pass settlement=" in told
