"""Effects of a turn happen in the order issued, wherever a tool comes from and however an agent is run."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext, ToolOutput
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.tool_manager import ToolManager
from tests.integrations.contract.world import desk, turns
from tests.integrations.pydantic_ai.driver import ToolErrors, scripted
from tests.integrations.pydantic_ai.world import FIVE, TOLD, agent, slow_act, soon, texts

from settlemark import Settlement, effect
from settlemark_pydantic_ai import Settled, SettledToolset

IN_ORDER = [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["reversible", "idempotent", "opaque", "irreversible"])
async def test_effects_of_each_class_happen_in_the_order_issued(world, settlement, kind):
    result = await agent(FIVE, [slow_act(world, kind)], capabilities=[Settled(settlement)]).run("go")

    assert world.log == IN_ORDER
    assert texts(result) == TOLD


@pytest.mark.parametrize("kind", ["reversible", "irreversible"])
async def test_a_wrapped_toolset_alone_keeps_the_order_of_its_own_tools(world, settlement, kind):
    toolset = SettledToolset(FunctionToolset([slow_act(world, kind)]), settlement)

    result = await agent(FIVE, toolsets=[toolset]).run("go")

    assert world.log == IN_ORDER
    assert texts(result) == TOLD


async def test_tools_of_the_agent_and_of_toolsets_keep_one_order_and_a_prefix_changes_nothing(world, settlement):
    async def first(number: int) -> str:
        await soon(100)
        return str(world.act(number))

    third = slow_act(world)
    clerk = agent(
        turns([(tool, {"number": n}) for n, tool in enumerate(("first", "second", "x_act", "fourth"))]),
        [first],
        toolsets=[FunctionToolset([third]).prefixed("x")],
        capabilities=[Settled(settlement)],
    )

    @clerk.tool
    async def second(ctx: RunContext, number: int) -> str:
        await soon(50)
        return str(world.act(number))

    @clerk.tool_plain
    def fourth(number: int) -> str:
        return str(world.act(number))

    assert texts(await clerk.run("go")) == ["1", "2", "acted 2", "4"]
    assert world.log == [0, 1, 2, 3]


async def test_a_wrapped_toolset_knows_its_tools_again_under_another_name(world, settlement):
    toolset = SettledToolset(FunctionToolset([slow_act(world)]), settlement).prefixed("x")
    script = turns([("x_act", {"number": number}) for number in range(5)])

    assert texts(await agent(script, toolsets=[toolset]).run("go")) == TOLD
    assert world.log == IN_ORDER


async def by_run(clerk):
    return await clerk.run("go")


async def by_iter(clerk):
    async with clerk.iter("go") as running:
        async for _ in running:
            pass
    return running.result


async def by_streamed_nodes(clerk):
    """The caller streams each node himself: its tools run before the framework's hooks around it do."""
    async with clerk.iter("go") as running:
        async for node in running:
            if Agent.is_call_tools_node(node):
                async with node.stream(running.ctx) as events:
                    async for _ in events:
                        pass
    return running.result


async def by_stream(clerk):
    async with clerk.run_stream("go") as streamed:
        await streamed.get_output()
    return streamed


async def by_thread(clerk):
    def run():
        loop = asyncio.new_event_loop()  # its own would never be closed
        asyncio.set_event_loop(loop)
        try:
            return clerk.run_sync("go")
        finally:
            loop.close()

    return await asyncio.to_thread(run)


def streaming(script):
    """A model that plays a script, and can be streamed."""
    whole = scripted(script)

    async def stream(messages, info):
        found = whole.function(messages, info)
        for place, part in enumerate(found.parts):
            if isinstance(part, ToolCallPart):
                yield {place: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif len(found.parts) == 1:
                yield part.content

    return FunctionModel(whole.function, stream_function=stream)


@pytest.mark.parametrize(
    "ways", [by_run, by_iter, by_streamed_nodes, by_stream, by_thread], ids=lambda way: way.__name__
)
@pytest.mark.parametrize("kind", ["reversible", "irreversible"])
async def test_however_an_agent_is_run(world, settlement, ways, kind):
    clerk = Agent(streaming(FIVE), tools=[slow_act(world, kind)], capabilities=[Settled(settlement)])

    result = await ways(clerk)

    assert world.log == IN_ORDER
    assert texts(result) == TOLD


@pytest.mark.parametrize("kind", ["reversible", "irreversible"])
async def test_where_the_framework_runs_calls_one_after_the_other_none_waits_for_the_next(world, settlement, kind):
    clerk = agent(FIVE, [slow_act(world, kind)], capabilities=[Settled(settlement)])

    with ToolManager.parallel_execution_mode("sequential"):
        result = await clerk.run("go")

    assert world.log == IN_ORDER
    acknowledged = kind == "irreversible"  # but for the last one, which may wait for all
    assert ["will run when" in text for text in texts(result)] == [acknowledged] * 4 + [False]
    assert texts(result)[-1] == "acted 4"


async def test_a_tool_that_runs_alone_does_so_and_calls_beside_it_keep_their_places(world, settlement):
    act = slow_act(world)
    toolset = FunctionToolset([act])
    toolset.add_function(slow_act(world), name="alone", sequential=True)
    script = turns([("act", {"number": 0}), ("alone", {"number": 1}), ("act", {"number": 2})])

    result = await agent(script, toolsets=[toolset], capabilities=[Settled(settlement)]).run("go")

    assert world.log == [0, 1, 2]
    assert texts(result) == ["acted 0", "acted 1", "acted 2"]


@pytest.mark.parametrize("strategy", ["early", "graceful", "exhaustive"])
async def test_an_output_tool_in_the_midst_of_a_turn_holds_nothing_up(world, settlement, strategy):
    script = turns([("act", {"number": 0}), ("final_result", {"response": "done"}), ("act", {"number": 2})])
    clerk = agent(
        script,
        [slow_act(world)],
        capabilities=[Settled(settlement)],
        output_type=ToolOutput(str),
        end_strategy=strategy,
    )

    result = await clerk.run("go")

    assert result.output == "done"
    assert world.log == ([] if strategy == "early" else [0, 2])


async def test_reads_run_beside_each_other(settlement):
    met = asyncio.Barrier(5)

    @effect("read")
    async def act(number: int) -> str:
        await met.wait()
        return f"acted {number}"

    assert texts(await agent(FIVE, [act], capabilities=[Settled(settlement)]).run("go")) == TOLD


async def test_order_of_scopes_keeps_only_what_overlaps_in_order(world, settlement):
    first_of_other = asyncio.Event()

    @effect("reversible", scope="thing:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    async def act(what: str, number: int) -> str:
        if (what, number) == ("a", 0):
            await first_of_other.wait()
        world.act(f"{what}{number}")
        if what == "b":
            first_of_other.set()
        return "acted"

    script = turns([("act", {"what": w, "number": n}) for w, n in (("a", 0), ("b", 0), ("a", 1), ("b", 1))])
    await agent(script, [act], capabilities=[Settled(settlement, order="scopes")]).run("go")

    assert world.log.index("b0") < world.log.index("a0")
    assert [entry for entry in world.log if entry[0] == "a"] == ["a0", "a1"]
    assert [entry for entry in world.log if entry[0] == "b"] == ["b0", "b1"]


async def test_with_order_issued_what_is_issued_behind_a_mail_happens_behind_it(world, settlement):
    script = turns([("mail", "ada"), ("book", "Ada")])
    await agent(script, desk(world), capabilities=[Settled(settlement, order="issued")]).run("go")

    assert world.log == ["mail ada", "book Ada"]


async def test_the_why_of_a_call_is_on_record(world, settlement):
    await agent(FIVE, [slow_act(world)], capabilities=[Settled(settlement, run="trip-42")]).run("go")

    effects = [effect.row for found in settlement.transactions() for effect in found.effects]
    assert {row.rationale for row in effects} == {"I act."}
    assert [row.call_id for row in effects] == [f"call-0-{number}" for number in range(5)]
    assert {row.key.partition("#")[0] for row in effects} == {"trip-42/clerk/0"}


async def test_without_a_job_of_the_callers_the_run_that_issued_a_call_names_it(world, settlement):
    result = await agent(FIVE, [slow_act(world)], capabilities=[Settled(settlement)]).run("go")

    (issuing,) = [m for m in result.all_messages() if isinstance(m, ModelResponse) and m.tool_calls]
    assert {found.row.run for found in settlement.transactions()} == {issuing.run_id}


def test_it_loads_with_its_framework_alone_and_a_bad_option_is_said_at_once():
    from settlemark import UsageError

    with Settlement("memory:") as settlement:
        for options, said in (
            ({"settle": "node"}, "'turn', 'agent', 'run'"),
            ({"order": "any"}, "order="),
            ({"run": " "}, "run="),
        ):
            with pytest.raises(UsageError, match=said):
                Settled(settlement, **options)
    with pytest.raises(UsageError, match="is no Settlement"):
        Settled("memory:")


async def test_a_toolset_that_is_made_for_each_run_is_undone_by_its_own_functions(world, settlement):
    clerk = Agent(
        scripted(turns([("book", "Ada"), ("fail", "Bad")])),
        deps_type=str,
        capabilities=[Settled(settlement), ToolErrors()],
    )

    @clerk.toolset
    def tools_of(ctx: RunContext[str]):
        who = ctx.deps

        @effect("reversible", scope="room:/{what}", undo=lambda what: world.act(f"{who} unbooks {what}"))
        def book(what: str) -> str:
            world.act(f"{who} books {what}")
            return "booked"

        @effect("read")
        def fail(what: str) -> str:
            raise ValueError(what)

        return FunctionToolset([book, fail])

    for who in ("ada", "bob"):
        await clerk.run("go", deps=who)

    assert world.log == ["ada books Ada", "ada unbooks Ada", "bob books Ada", "bob unbooks Ada"]
    assert settlement.residue() == []
