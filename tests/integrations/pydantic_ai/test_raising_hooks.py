"""A hook that ends the run before a call comes to its tool fails the call's turn: no mail leaves a run that ends so."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipToolExecution
from tests.integrations.contract.world import desk, turns, unaccounted
from tests.integrations.pydantic_ai.driver import scripted
from tests.integrations.pydantic_ai.world import answers

from settlemark import State
from settlemark_pydantic_ai import Settled

TURN = [("book", "Ada"), ("mail", "ada"), ("book", "Bee")]


class Guard(AbstractCapability):
    """Raises for one call, before its tool."""

    def __init__(self, at, error):
        self._at, self._error = at, error

    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        if args["what"] == self._at:
            raise self._error
        return args


def clerk(world, settlement, guard, *, sequential=False):
    tools = [Tool(found, sequential=sequential) for found in desk(world) if found.__name__ != "pay"]
    return Agent(scripted(turns(TURN)), name="clerk", tools=tools, capabilities=[guard, Settled(settlement)])


@pytest.mark.parametrize("sequential", [False, True], ids=["beside each other", "one after the other"])
@pytest.mark.parametrize(("place", "at"), [(0, "Ada"), (1, "ada"), (2, "Bee")])
async def test_a_hook_that_raises_undoes_the_calls_beside(world, settlement, place, at, sequential):
    agent = clerk(world, settlement, Guard(at, RuntimeError("not allowed")), sequential=sequential)

    with pytest.raises(RuntimeError, match="not allowed"):
        await agent.run("go")

    assert world.log == ([] if place == 0 else ["book Ada", "cancel Ada"])
    assert [each.state for each in settlement.transactions()] == ([] if place == 0 else [State.ABORTED])
    assert (unaccounted(world, settlement), settlement.residue()) == ([], [])


@pytest.mark.parametrize("error", [ModelRetry("not Bee"), SkipToolExecution("not Bee")], ids=["retry", "skip"])
async def test_a_hook_that_answers_in_a_tools_place_lets_the_others_settle(world, settlement, error):
    result = await clerk(world, settlement, Guard("Bee", error)).run("go")

    assert world.log == ["book Ada", "mail ada"]
    assert [text for _, text in answers(result)] == ["book Ada: number 1", "mail ada: number 2", "not Bee"]
    assert [each.state for each in settlement.transactions()] == [State.COMMITTED]
