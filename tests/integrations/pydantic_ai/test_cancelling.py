"""A run that is cancelled leaves nothing half done; two agents that want one order never both have their way."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import RunContext
from pydantic_ai.exceptions import RunCancelled
from tests.integrations.contract.world import desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.world import agent, answers

from settlemark import Settlement, effect
from settlemark_pydantic_ai import Settled


def clean(world, settlement):
    return unaccounted(world, settlement) == [] and unfinished(settlement) == []


def waiting(world, *, begun, never):
    """A call that acts, and then hears of nobody."""

    @effect("reversible", scope="flight:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    async def fly(what: str) -> str:
        begun.set()
        await never.wait()
        return world.act(f"fly {what}")

    return fly


SCRIPT = turns([("book", "Ada"), ("fly", "X"), ("mail", "ada")])


@pytest.mark.parametrize("settle", ["turn", "agent"])
async def test_a_run_whose_task_is_cancelled_undoes_its_turn_and_the_rest_never_acts(world, settlement, settle):
    begun = asyncio.Event()
    fly = waiting(world, begun=begun, never=asyncio.Event())
    clerk = agent(SCRIPT, [*desk(world), fly], capabilities=[Settled(settlement, settle=settle)])

    running = asyncio.ensure_future(clerk.run("go"))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert world.standing() == {}
    assert "mail ada" not in world.log
    assert unfinished(settlement) == []


async def test_a_run_that_cancels_itself_undoes_its_turn(world, settlement):
    @effect("reversible", scope="flight:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    async def fly(ctx: RunContext, what: str) -> str:
        await ctx.cancel()
        await asyncio.Event().wait()

    clerk = agent(SCRIPT, [*desk(world), fly], capabilities=[Settled(settlement)])
    with pytest.raises(RunCancelled):
        await clerk.run("go")

    assert world.standing() == {}
    assert "mail ada" not in world.log
    assert unfinished(settlement) == []


async def test_a_caller_who_leaves_his_loop_ends_the_turn(world, settlement):
    begun = asyncio.Event()
    fly = waiting(world, begun=begun, never=asyncio.Event())
    clerk = agent(SCRIPT, [*desk(world), fly], capabilities=[Settled(settlement)])

    async def drive():
        async with clerk.iter("go") as running:
            async for _ in running:
                pass

    task = asyncio.ensure_future(drive())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert world.standing() == {}
    assert unfinished(settlement) == []


async def test_a_job_that_was_cancelled_by_its_id_acts_no_more(world, settlement):
    settled = Settled(settlement, run="trip")
    await agent(turns([("book", "Ada")]), desk(world), capabilities=[settled]).run("go")

    settlement.cancel("trip")
    result = await agent(turns([("book", "Bo")]), desk(world), capabilities=[Settled(settlement, run="trip")]).run("go")

    assert world.log == ["book Ada"]
    ((outcome, text),) = answers(result)
    assert outcome == "failed"
    assert "cancelled" in text


# ---- two agents and one order


class Shop:
    """One order, of which each change is on record; a change of what is cancelled cannot be undone by anybody."""

    def __init__(self):
        self.log = []
        self.state = "open"

    def tools(self, met=None):
        async def change(to):
            if met is not None:
                await met.wait()  # both have seen it open
            before, self.state = self.state, to
            self.log.append((before, to))
            return before

        @effect("read", scope="order:/{order}")
        def look(order: str) -> str:
            return self.state

        def restore(order, result):
            self.log.append(("undo", result))
            self.state = result

        @effect("reversible", scope="order:/{order}", undo=restore)
        async def cancel(order: str) -> str:
            return await change("cancelled")

        @effect("reversible", scope="order:/{order}", undo=restore)
        async def modify(order: str) -> str:
            return await change("modified")

        return [look, cancel, modify]


def script(act):
    return turns([("look", {"order": "7"})], [(act, {"order": "7"})])


async def test_of_two_agents_that_saw_one_order_open_one_has_its_way_and_the_other_is_told_that_it_changed(settlement):
    shop = Shop()
    looked = asyncio.Barrier(2)

    def agent_for(act):
        look, *others = shop.tools()

        @effect("read", scope="order:/{order}")
        async def looks(order: str) -> str:
            found = look(order)
            await looked.wait()
            return found

        looks.__name__ = "look"
        return agent(script(act), [looks, *others], name=act, capabilities=[Settled(settlement, run=f"{act} 7")])

    results = await asyncio.gather(agent_for("cancel").run("go"), agent_for("modify").run("go"))

    outcomes = sorted(answers(result)[-1][0] for result in results)
    assert outcomes == ["failed", "success"]
    (told,) = [text for result in results for outcome, text in answers(result) if outcome == "failed"]
    assert "order:/7" in told
    assert [entry for entry in shop.log if entry[0] == "open"] == [("open", shop.state)]
    assert ("cancelled", "modified") not in shop.log
    assert ("modified", "cancelled") not in shop.log
    assert unfinished(settlement) == []


async def test_with_stock_both_have_their_way():
    shop, met = Shop(), asyncio.Barrier(2)
    both = [agent(script(act), shop.tools(met), name=act).run("go") for act in ("cancel", "modify")]

    await asyncio.gather(*both)

    assert sorted(shop.log) in (
        [("cancelled", "modified"), ("open", "cancelled")],
        [("modified", "cancelled"), ("open", "modified")],
    )


async def test_agents_of_two_processes_share_one_ledger(tmp_path):
    """Two settlements on one file are two processes to each other."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    shop = Shop()
    with Settlement(url, wait=60) as one, Settlement(url, wait=60) as other:
        first = agent(script("cancel"), shop.tools(), name="cancel", capabilities=[Settled(one, run="cancel 7")])
        second = agent(script("modify"), shop.tools(), name="modify", capabilities=[Settled(other, run="modify 7")])
        results = await asyncio.gather(first.run("go"), second.run("go"))

    acted = [outcome for result in results for outcome, _ in answers(result)[1:]]
    assert acted.count("success") >= 1
    standing = [entry for entry in shop.log if entry[0] != "undo"]
    assert len(standing) - sum(entry[0] == "undo" for entry in shop.log) == acted.count("success")
