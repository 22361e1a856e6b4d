"""An agent that another's tool runs, and that is resumed in its middle: it settles as if nobody had stopped it."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext
from tests.integrations.contract.world import desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.world import agent, texts

from settlemark_pydantic_ai import Settled

INNER = turns([("book", "Ada"), ("pay", "ada")], [("look", "Ada"), ("mail", "ada")], [("book", "Bee"), ("pay", "bee")])
"""What the inner agent does, turn by turn; a person is asked before it pays."""
WHOLE = ["book Ada", "look Ada", "book Bee", "pay ada", "mail ada", "pay bee"]


class Kept:
    """How far an agent that a tool runs has come: its messages, and what it asks."""

    def __init__(self, inner, *, stops=()):
        self._inner = inner
        self._stops = list(stops)
        self._kept = {}

    async def task(self, ctx: RunContext[None], what: str) -> str:
        """Have it done."""
        messages, answers = self._kept.get(ctx.tool_call_id, (None, None))
        async with self._inner.iter(what if messages is None else None, message_history=messages,
                                    deferred_tool_results=answers) as run:  # fmt: skip
            number = 0
            async for node in run:
                if Agent.is_model_request_node(node):
                    number = sum(message.kind == "response" for message in run.all_messages())
                    if number in self._stops:
                        self._stops.remove(number)
                        # What the node is about to send is what a new run begins with.
                        self._kept[ctx.tool_call_id] = [*run.all_messages(), node.request], None
                        raise ApprovalRequired
        found = run.result
        if isinstance(found.output, DeferredToolRequests):
            asked = {call.tool_call_id: True for call in found.output.approvals}
            self._kept[ctx.tool_call_id] = found.all_messages(), DeferredToolResults(approvals=asked)
            raise ApprovalRequired
        return found.output


def delegating(world, settlement, *, deep, broken=(), stops=(), settle="turn", script=None):
    """Return an agent whose tool runs another one, as deep as asked."""
    found = agent(script or INNER, desk(world, broken=broken), name="inner", final="inner is done",
                  capabilities=[Settled(settlement, run="trip", settle=settle)])  # fmt: skip
    for level in range(deep):
        kept = Kept(found, stops=stops if level == 0 else ())
        found = agent(
            turns([("task", "it"), ("book", "Cee")]) if level == deep - 1 else turns([("task", "it")]),
            [kept.task, *desk(world, broken=broken)], name=f"outer-{level}", final=f"outer {level} is done",
            capabilities=[Settled(settlement, run="trip", settle=settle)],
        )  # fmt: skip
    return found


async def to_its_end(clerk):
    """Answer yes to whatever is asked."""
    result, asked = await clerk.run("go"), 0
    while isinstance(result.output, DeferredToolRequests):
        asked += 1
        assert asked < 20
        given = {call.tool_call_id: True for call in result.output.approvals}
        result = await clerk.run(
            message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=given)
        )
    return result, asked


@pytest.mark.parametrize("settle", ["turn", "agent", "run"])
@pytest.mark.parametrize("deep", [1, 2])
async def test_an_agent_that_asks_a_person_in_its_middle_goes_on_with_all_it_did(world, settlement, deep, settle):
    result, asked = await to_its_end(delegating(world, settlement, deep=deep, settle=settle))

    assert asked == 2
    assert sorted(world.log) == sorted([*WHOLE, "book Cee"])
    assert world.log[-3:] == ["pay ada", "mail ada", "pay bee"]
    assert (texts(result)[0], result.output) == (
        f"{'inner' if deep == 1 else 'outer 0'} is done",
        f"outer {deep - 1} is done",
    )
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


@pytest.mark.parametrize("stop", range(4))
@pytest.mark.parametrize("deep", [1, 2])
async def test_an_agent_that_is_stopped_between_its_turns_goes_on_with_all_it_did(world, settlement, deep, stop):
    script = turns([("book", "Ada")], [("look", "Ada"), ("mail", "ada")], [("book", "Bee"), ("mail", "bee")])
    result, asked = await to_its_end(delegating(world, settlement, deep=deep, stops=[stop], script=script))

    assert asked == 1
    assert sorted(world.log) == sorted(["book Ada", "look Ada", "book Bee", "book Cee", "mail ada", "mail bee"])
    assert world.log[-2:] == ["mail ada", "mail bee"]
    assert result.output == f"outer {deep - 1} is done"
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


@pytest.mark.parametrize("broken", ["book Ada", "look Ada", "book Bee"])
@pytest.mark.parametrize("deep", [1, 2])
async def test_an_agent_that_fails_in_its_middle_leaves_nothing_behind(world, settlement, deep, broken):
    with pytest.raises(ValueError, match=f"no {broken.split()[1]} is to be had"):
        await to_its_end(delegating(world, settlement, deep=deep, broken={broken}))

    assert {entry: count for entry, count in world.standing().items() if "look" not in entry} == {}
    assert not {"pay ada", "pay bee", "mail ada"}.intersection(world.log)
    assert unfinished(settlement) == []
