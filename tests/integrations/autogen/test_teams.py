"""Teams: each agent's turns are its own, agents that run beside each other do not wait for each other."""

from __future__ import annotations

import asyncio

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from tests.integrations.autogen.world import Scripted, agent, answers, told, trip, turn

from settlemark import effect
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench


def names(settlement):
    return [t.row.name for t in settlement.transactions()]


def side_by_side(*agents):
    builder = DiGraphBuilder()
    for played in agents:
        builder.add_node(played)
    return GraphFlow(list(agents), graph=builder.build())


async def test_in_a_round_robin_team_each_agents_work_has_the_agents_name_in_the_one_run(world, settlement):
    tools = trip(world)
    team = RoundRobinGroupChat(
        [
            agent(
                Scripted(turn(("book", {"hotel": "Ada"})), turn(("book", {"hotel": "Bee"}))),
                tools,
                settlement,
                name="booker",
                max_tool_iterations=1,
            ),
            agent(Scripted(turn(("mail", {"to": "a"}))), tools, settlement, name="clerk", max_tool_iterations=1),
        ],
        termination_condition=MaxMessageTermination(4),
    )

    await team.run(task="go")

    assert world.log == ["book Ada", "mail a", "book Bee"]
    assert names(settlement) == ["trip-42/booker/0", "trip-42/clerk/0", "trip-42/booker/1"]


async def test_agents_may_share_one_workbench_and_one_client(world, settlement):
    """In a team they are told apart by their names, and their turns by the context they were asked in."""
    workbench = SettledWorkbench(trip(world), settlement, run="trip-42")
    client = SettledChatCompletionClient(Scripted(turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))), settlement)
    team = RoundRobinGroupChat(
        [AssistantAgent(name, client, workbench=workbench) for name in ("first", "second")],
        termination_condition=MaxMessageTermination(3),
    )

    await team.run(task="go")

    assert world.log == ["book Ada", "mail a"] * 2
    assert names(settlement) == ["trip-42/first/0", "trip-42/second/0"]


async def test_a_selector_team_settles_and_its_selector_may_be_the_same_client(world, settlement):
    class Selecting(Scripted):
        async def create(self, messages, **options):
            if not options.get("tools"):
                self.turns, final, self.final = (), self.final, "clerk"
                try:
                    return await super().create(messages, **options)
                finally:
                    self.turns, self.final = script, final
            return await super().create(messages, **options)

    script = (turn(("mail", {"to": "a"}), ("book", {"hotel": "Ada"})),)
    client = SettledChatCompletionClient(Selecting(*script), settlement)
    workbench = SettledWorkbench(trip(world), settlement, run="trip-42")
    team = SelectorGroupChat(
        [AssistantAgent(name, client, workbench=workbench) for name in ("booker", "clerk")],
        model_client=client,
        termination_condition=MaxMessageTermination(2),
    )

    result = await team.run(task="go")

    assert result.messages[-1].source == "clerk"
    assert world.log == ["book Ada", "mail a"]
    assert names(settlement) == ["trip-42/clerk/0"]


async def test_a_swarm_hands_over_between_settled_turns(world, settlement):
    tools = trip(world)
    handing = turn(("book", {"hotel": "Ada"}), ("transfer_to_clerk", {}), ("mail", {"to": "a"}))
    team = Swarm(
        [
            agent(Scripted(handing), tools, settlement, name="booker", handoffs=[Handoff(target="clerk")]),
            agent(
                Scripted(turn(("rent", {"plate": "X"})), turn(("rent", {"plate": "Y"}))),
                tools,
                settlement,
                name="clerk",
                max_tool_iterations=1,
            ),
        ],
        termination_condition=MaxMessageTermination(4),
    )

    await team.run(task="go")

    assert world.log[:2] == ["book Ada", "mail a"]
    assert names(settlement)[:2] == ["trip-42/booker/0", "trip-42/clerk/0"]


@pytest.mark.parametrize("shared", [True, False], ids=["one workbench", "a workbench each"])
async def test_agents_of_a_graph_that_run_beside_each_other_act_beside_each_other(world, settlement, shared):
    """A lock over a whole workbench would have the one wait for the other for ever."""
    here = {name: asyncio.Event() for name in ("north", "south")}

    @effect("idempotent", scope="pole:/{pole}")
    async def act(pole: str) -> str:
        """Act."""
        here[pole].set()
        await asyncio.gather(*(event.wait() for event in here.values()))
        world.act(pole)
        return pole

    def played(name, workbench):
        model = Scripted(turn(("act", {"pole": name}), ids=["call-0"]))
        client = SettledChatCompletionClient(model, settlement)
        return AssistantAgent(name, client, workbench=workbench)

    common = SettledWorkbench([act], settlement, run="trip-42")
    agents = [played(name, common if shared else SettledWorkbench([act], settlement, run="trip-42")) for name in here]

    await side_by_side(*agents).run(task="go")

    assert sorted(world.log) == ["north", "south"]
    assert sorted(names(settlement)) == ["trip-42/north/0", "trip-42/south/0"]


async def test_a_failure_in_one_agent_of_a_graph_undoes_nothing_of_the_one_beside_it(world, settlement):
    book, mail, _, rent = trip(world, broken=["rent"])
    fine = agent(
        Scripted(turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))), [book, mail], settlement, name="fine"
    )
    fails = agent(
        Scripted(turn(("book", {"hotel": "Bee"}), ("rent", {"plate": "X"}))), [book, rent], settlement, name="fails"
    )

    await side_by_side(fine, fails).run(task="go")

    assert [entry for entry in world.log if "Bee" not in entry] == ["book Ada", "mail a"]
    assert [entry for entry in world.log if "Bee" in entry] == ["book Bee", "cancel Bee"]


# ---- two agents and one order


def canceller_and_modifier(world, settlement):
    read = {name: asyncio.Event() for name in ("canceller", "modifier")}

    def tools(name, act):
        async def look() -> str:
            """Look the order up."""
            read[name].set()
            await asyncio.gather(*(event.wait() for event in read.values()))
            return "open"

        async def write() -> str:
            """Do it."""
            world.act(act)
            return act

        write.__name__ = act
        return [
            effect("read", scope="order:/17")(look),
            effect("reversible", scope="order:/17", undo=lambda: world.act(f"undo {act}"))(write),
        ]

    acts = {"canceller": "cancel_order", "modifier": "modify_order"}
    models = {name: Scripted(turn(("look", {})), turn((act, {}), ids=["call-9"])) for name, act in acts.items()}
    agents = [agent(models[name], tools(name, act), settlement, name=name) for name, act in acts.items()]
    return side_by_side(*agents), models


async def test_of_cancel_and_modify_one_happens_and_the_other_agent_is_told_and_with_stock_both_do(world, settlement):
    stock = type(world)()
    await canceller_and_modifier(stock, None)[0].run(task="go")
    team, models = canceller_and_modifier(world, settlement)

    await team.run(task="go")

    assert sorted(stock.log) == ["cancel_order", "modify_order"]
    standing = [act for act in world.log if not act.startswith("undo") and f"undo {act}" not in world.log]
    assert len(standing) == 1
    last = {name: told(model.requests[-1][0])[-1][1:] for name, model in models.items()}
    winner, loser = ("canceller", "modifier") if standing == ["cancel_order"] else ("modifier", "canceller")
    assert last[winner] == (False, standing[0])
    assert last[loser][0]
    assert "read it again" in last[loser][1]
    assert settlement.residue() == []


# ---- state


async def test_an_agent_that_loads_its_state_in_another_team_goes_on_and_repeats_nothing(world, settlement):
    """Calls whose answers the model is shown are no longer taken for new ones: asked for again, they are meant."""
    tools = trip(world)
    script = [turn(("book", {"hotel": "Ada"}), ids=["call-0"]), turn(("book", {"hotel": "Ada"}), ids=["call-1"])]

    def team():
        played = agent(Scripted(*script), tools, settlement, name="booker", max_tool_iterations=1)
        return RoundRobinGroupChat([played], max_turns=1)

    first = team()
    await first.run(task="go")
    second = team()
    await second.load_state(await first.save_state())
    result = await second.run()

    assert world.log == ["book Ada", "book Ada"]
    assert answers(result) == [(False, "book done")]
    assert names(settlement) == ["trip-42/booker/0", "trip-42/booker/1"]


async def test_a_job_begun_again_without_its_state_does_nothing_twice_and_says_what_was_done_otherwise(
    world, settlement
):
    tools = trip(world)

    async def begin(*calls):
        model = Scripted(turn(*calls))
        return answers(await agent(model, tools, settlement, max_tool_iterations=1).run(task="go"))

    await begin(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))
    same = await begin(("mail", {"to": "a"}), ("book", {"hotel": "Ada"}))
    more = await begin(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}))

    assert world.log == ["book Ada", "mail a", "rent X"]
    assert same == [(False, "mail done"), (False, "book done")]
    assert more == [(False, "book done"), (False, "rent done")]


@pytest.mark.parametrize("both", [True, False], ids=["client and workbench", "workbench alone"])
async def test_an_agent_that_anothers_tool_runs_cannot_hand_a_question_off_and_says_so_before_it_acts(
    world, settlement, both
):
    """The outer agent would take the handing off for an answer, and what waits would be lost."""

    @effect("irreversible", scope="money:/{amount}", approve=True)
    def pay(amount: int) -> str:
        """Pay."""
        world.act(f"pay {amount}")
        return "paid"

    model = Scripted(turn(("book", {"hotel": "Ada"})), turn(("pay", {"amount": 800})))
    workbench = SettledWorkbench([*trip(world), pay], settlement, run="trip-42", approver="handoff", unsettled="allow")
    client = SettledChatCompletionClient(model, settlement) if both else model
    inner = AssistantAgent("inner", client, workbench=workbench, handoffs=["boss"], max_tool_iterations=4)
    outer = agent(
        Scripted(turn(("inner", {"task": "pay"}))), [AgentTool(agent=inner)], settlement, max_tool_iterations=3
    )

    result = await outer.run(task="go")

    assert (world.log, workbench.questions) == ([], [])
    told = answers(result) if both else model.requests
    assert "cannot ask for it here" in str(told)
