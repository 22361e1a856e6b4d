"""With `tool_failure_policy="raise"` the error that ends a crew names the tool that failed, not what failed with it."""

from __future__ import annotations

import pytest

pytest.importorskip("crewai")

from crewai.tools import tool
from crewai.tools.tool_failure import ToolExecutionFailedError, ToolFailure
from tests.integrations.crewai.scripted import Scripted
from tests.integrations.crewai.world import call, crew_of

from settlemark import effect
from settlemark_crewai import settled_crew

TOOLS = ("first", "second", "third", "letter")


def made(world, name, fails, how):
    kind = "irreversible" if name == "letter" else "reversible"
    undo = {} if name == "letter" else {"undo": lambda: world.act(f"undo {name}")}

    def act() -> str:
        """Act."""
        if name == fails and how == "raises":
            raise ValueError("there is none")
        if name == fails:
            return ToolFailure(message="there is none")
        world.act(name)
        return name

    act.__name__ = name
    return tool(name)(effect(kind, scope=f"{name}:/one", **undo)(act))


@pytest.mark.parametrize("how", ["raises", "reports"])
@pytest.mark.parametrize("fails", TOOLS)
def test_the_tool_that_failed_is_named_and_its_turn_undone(world, settlement, fails, how):
    tools = [made(world, name, fails, how) for name in TOOLS]
    crew = crew_of(Scripted([call(name) for name in TOOLS]), tools, agent={"tool_failure_policy": "raise"})

    with pytest.raises(ToolExecutionFailedError, match=f"Tool '{fails}' failed .*there is none"):
        settled_crew(crew, settlement, run="r").kickoff()

    stands = set(world.log) - {entry.removeprefix("undo ") for entry in world.log if entry.startswith("undo")}
    assert {entry for entry in stands if not entry.startswith("undo")} == set()


@pytest.mark.parametrize("policy", ["warn", "ignore"])
def test_with_another_policy_each_call_is_told_what_became_of_it(world, settlement, policy):
    llm = Scripted([call(name) for name in TOOLS])
    tools = [made(world, name, "second", "raises") for name in TOOLS]

    settled_crew(crew_of(llm, tools, agent={"tool_failure_policy": policy}), settlement, run="r").kickoff()

    told = [message["content"] for message in llm.seen[-1] if message["role"] == "tool"]
    assert [text.partition(" ")[0] for text in told] == ["undone:", "Error", "Refused:", "Refused:"]
