"""A workbench around ours may complete what a model leaves out: the calls are one turn, as they are declared."""

from __future__ import annotations

import pytest
from autogen_core.tools import StaticStreamWorkbench
from tests.integrations.autogen.world import Scripted, agent, answers, turn

from settlemark import State, effect


class Completing(StaticStreamWorkbench):
    """Adds to each call the tenant, which no model is asked for."""

    def __init__(self, inner):
        super().__init__([])
        self._inner = inner

    async def list_tools(self):
        return await self._inner.list_tools()

    async def call_tool(self, name, arguments=None, **how):
        return await self._inner.call_tool(name, {**arguments, "tenant": "acme"}, **how)

    async def call_tool_stream(self, name, arguments=None, **how):
        async for found in self._inner.call_tool_stream(name, {**arguments, "tenant": "acme"}, **how):
            yield found


@pytest.fixture
def play(world, settlement):
    """Have an agent play a turn behind such a workbench, and return what it is told."""

    @effect("reversible", scope="room:/{tenant}/{hotel}", undo=lambda tenant, hotel: world.act(f"cancel {hotel}"))
    async def reserve(tenant: str, hotel: str) -> str:
        """Reserve."""
        if hotel == "Bad":
            raise ValueError("no room")
        world.act(f"reserve {hotel} for {tenant}")
        return f"reserved {hotel}"

    @effect("irreversible", scope="mail:/{tenant}/{to}")
    async def post(tenant: str, to: str) -> str:
        """Post."""
        world.act(f"post {to} for {tenant}")
        return f"posted {to}"

    async def play_(*issued):
        clerk = agent(Scripted(turn(*issued)), [reserve, post], settlement)
        clerk._workbench = [Completing(found) for found in clerk._workbench]
        return answers(await clerk.run(task="go"))

    return play_


def states(settlement):
    return [([done.row.tool for done in each.effects], each.state) for each in settlement.transactions()]


async def test_completed_calls_settle_together(world, settlement, play):
    told = await play(("reserve", {"hotel": "Ada"}), ("post", {"to": "ada"}), ("reserve", {"hotel": "Bee"}))

    assert world.log == ["reserve Ada for acme", "reserve Bee for acme", "post ada for acme"]
    assert told == [(False, "reserved Ada"), (False, "posted ada"), (False, "reserved Bee")]
    assert states(settlement) == [(["reserve", "post", "reserve"], State.COMMITTED)]


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_one_that_fails_undoes_the_others_and_no_mail_leaves(world, settlement, play, place):
    issued = [("reserve", {"hotel": "Ada"}), ("post", {"to": "ada"})]
    issued.insert(place, ("reserve", {"hotel": "Bad"}))

    told = await play(*issued)

    assert world.log == ([] if place == 0 else ["reserve Ada for acme", "cancel Ada"])
    assert told[place] == (True, "no room")
    assert all(is_error for is_error, _ in told)
    assert [state for _, state in states(settlement)] == [State.ABORTED]
    assert settlement.residue() == []


async def test_what_is_still_not_taken_fails_the_turn_in_its_tools_words(world, settlement, play):
    told = await play(("reserve", {"hotel": "Ada"}), ("post", {"address": "ada"}), ("post", {"to": "bee"}))

    assert world.log == ["reserve Ada for acme", "cancel Ada"]
    assert [is_error for is_error, _ in told] == [True, True, True]
    assert "Field required" in told[1][1]
    assert settlement.residue() == []
