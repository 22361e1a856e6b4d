"""An agent that another's tool runs, and that is resumed in its middle: it settles as if nobody had stopped it."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
from tests.integrations.contract.world import World, desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.world import agent, answers, texts

from settlemark import Settlement
from settlemark_pydantic_ai import Settled

INNER = turns([("book", "Ada"), ("pay", "ada")], [("look", "Ada"), ("mail", "ada")], [("book", "Bee"), ("pay", "bee")])
"""What the inner agent does, turn by turn; a person is asked before it pays."""
WHOLE = ["book Ada", "look Ada", "book Bee", "pay ada", "mail ada", "pay bee"]


class Kept:
    """How far an agent that a tool runs has come: its messages, and what it asks; a person says no to some of it."""

    def __init__(self, inner, *, stops=(), no=()):
        self.inner = inner
        self._stops = list(stops)
        self._no = no
        self._kept = {}
        self.told = []

    async def task(self, ctx: RunContext[None], what: str) -> str:
        """Have it done."""
        messages, given = self._kept.get(ctx.tool_call_id, (None, None))
        async with self.inner.iter(
            what if messages is None else None, message_history=messages, deferred_tool_results=given
        ) as run:
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
            asked = {call.tool_call_id: self._answer(call) for call in found.output.approvals}
            self._kept[ctx.tool_call_id] = found.all_messages(), DeferredToolResults(approvals=asked)
            raise ApprovalRequired
        self.told = answers(found)
        return found.output

    def _answer(self, call):
        return ToolDenied("too dear") if call.tool_call_id in self._no else True


def delegating(world, settlement, *, deep, broken=(), stops=(), no=(), settle="turn", script=None, kept=None):
    """Return an agent whose tool runs another one, as deep as asked; `kept` has how far those that are run came."""
    kept = {} if kept is None else kept
    found = agent(
        script or INNER,
        desk(world, broken=broken),
        name="inner",
        final="inner is done",
        capabilities=[Settled(settlement, run="trip", settle=settle)],
    )
    for level in range(deep):
        run = kept.setdefault(level, Kept(found, stops=stops if level == 0 else (), no=no if level == 0 else ()))
        run.inner = found
        found = agent(
            turns([("task", "it"), ("book", "Cee")]) if level == deep - 1 else turns([("task", "it")]),
            [run.task, *desk(world, broken=broken)],
            name=f"outer-{level}",
            final=f"outer {level} is done",
            capabilities=[Settled(settlement, run="trip", settle=settle)],
        )
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


REJECTED = [("call-0-1",), ("call-2-1",), ("call-0-1", "call-2-1")]
"""What a person says no to: what the first turn of the inner agent asks, what its third does, or both."""
LAST = turns([("book", "Dee"), ("mail", "dee")])


@pytest.mark.parametrize("no", REJECTED, ids="-".join)
@pytest.mark.parametrize("settle", ["turn", "agent", "run"])
@pytest.mark.parametrize("deep", [1, 2])
async def test_an_agent_that_is_told_no_in_its_middle_goes_on_as_it_would_by_itself(
    world, settlement, deep, settle, no
):
    alone = World()
    with Settlement("memory:") as apart:
        clerk = agent([*INNER, *LAST], desk(alone), name="inner", capabilities=[Settled(apart, settle=settle)])
        result = await clerk.run("go")
        while isinstance(result.output, DeferredToolRequests):
            given = {
                c.tool_call_id: ToolDenied("too dear") if c.tool_call_id in no else True
                for c in result.output.approvals
            }
            result = await clerk.run(
                message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=given)
            )
    kept = {}
    script = [*INNER, *LAST]
    found, _ = await to_its_end(
        delegating(world, settlement, deep=deep, settle=settle, script=script, no=no, kept=kept)
    )

    assert found.output == f"outer {deep - 1} is done"
    assert world.standing() == {**alone.standing(), "book Cee": 1}
    assert [outcome for outcome, _ in kept[0].told] == [outcome for outcome, _ in answers(result)]
    assert not any("stays" in text for _, text in kept[0].told)
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])


@pytest.mark.parametrize("no", REJECTED, ids="-".join)
@pytest.mark.parametrize("killed", [1, 2])
@pytest.mark.parametrize("deep", [1, 2])
async def test_an_agent_that_is_told_no_in_another_process_goes_on_there(world, tmp_path, deep, killed, no):
    url, kept = f"sqlite:///{tmp_path / 'ledger.db'}", {}
    settlement = Settlement(url)
    script = [*INNER, *LAST]
    clerk = delegating(world, settlement, deep=deep, script=script, no=no, kept=kept)
    result, asked = await clerk.run("go"), 0
    while isinstance(result.output, DeferredToolRequests):
        asked += 1
        if asked == killed:
            settlement.close()
            settlement = Settlement(url)
            clerk = delegating(world, settlement, deep=deep, script=script, no=no, kept=kept)
        given = {call.tool_call_id: True for call in result.output.approvals}
        result = await clerk.run(
            message_history=result.all_messages(), deferred_tool_results=DeferredToolResults(approvals=given)
        )
    gone = {
        *(["book Ada", "pay ada"] if "call-0-1" in no else []),
        *(["book Bee", "pay bee"] if "call-2-1" in no else []),
    }
    assert world.standing() == dict.fromkeys({*WHOLE, "book Cee", "book Dee", "mail dee"} - gone, 1)
    assert (unaccounted(world, settlement), unfinished(settlement), settlement.residue()) == ([], [], [])
    settlement.close()
