"""What fails stops the later calls of its turn and undoes the earlier ones; the model is told so."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_ai import BinaryContent, FunctionToolset, ModelRetry, RunContext, ToolFailed, ToolReturn
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import SkipToolExecution, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import UsageLimits
from tests.integrations.clocks import LIMIT, use_up
from tests.integrations.contract.world import desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.world import agent, answers, texts

from settlemark import effect
from settlemark_pydantic_ai import Settled

NOTHING = {}


def outcomes(result):
    return [outcome for outcome, _ in answers(result)]


def clean(world, settlement):
    return unaccounted(world, settlement) == [] and unfinished(settlement) == []


# ---- a call fails


@pytest.mark.parametrize(("failure", "outcome"), [(ModelRetry("use IATA"), "retried"), (ToolFailed("full"), "failed")])
async def test_what_a_tool_tells_its_model_reaches_it_as_it_is_and_its_turn_is_undone(
    world, settlement, failure, outcome
):
    def fly(what: str) -> str:
        raise failure

    script = turns([("book", "Ada"), ("fly", "X"), ("mail", "ada"), ("look", "Ada")])
    result = await agent(script, [*desk(world), fly], capabilities=[Settled(settlement)]).run("go")

    (booked, undone), (failed, said), (mailed, never), looked = answers(result)
    assert (booked, failed, mailed) == ("failed", outcome, "failed")
    assert undone.startswith("undone: book had succeeded, and was undone because fly failed")
    assert failure.message in said
    assert "mail" in never
    assert looked[0] == "success"
    assert [entry for entry in world.log if not entry.startswith("look")] == ["book Ada", "cancel Ada"]
    assert clean(world, settlement)


async def test_a_retry_of_the_model_is_a_turn_of_its_own_and_counts_as_with_stock(world, settlement):
    tried = []

    @effect("reversible", scope="flight:/{to}", undo=lambda to: world.act(f"cancel {to}"))
    def fly(ctx: RunContext, to: str) -> str:
        tried.append(ctx.retry)
        if len(to) > 3:
            raise ModelRetry("use IATA")
        world.act(f"fly {to}")
        return "flying"

    script = turns([("fly", {"to": "Lisbon"})], [("fly", {"to": "LIS"})])
    result = await agent(script, [fly], capabilities=[Settled(settlement)]).run("go")

    assert outcomes(result) == ["retried", "success"]
    assert (tried, world.log) == ([0, 1], ["fly LIS"])


async def test_when_retries_are_used_up_the_run_fails_as_with_stock_and_nothing_of_the_turn_stays(world, settlement):
    def fly(what: str) -> str:
        raise ModelRetry("no")

    script = turns([("book", "Ada"), ("fly", "X"), ("mail", "ada")], [("fly", "X")], [("fly", "X")])
    with pytest.raises(UnexpectedModelBehavior):
        await agent(script, [*desk(world), fly], capabilities=[Settled(settlement)]).run("go")

    assert world.standing() == NOTHING
    assert clean(world, settlement)


@pytest.mark.parametrize("sort", ["sync", "async"])
async def test_what_a_tool_raises_ends_the_run_and_nothing_of_the_turn_stays_or_comes_later(world, settlement, sort):
    async def fly(what: str) -> str:
        raise ValueError("down")

    script = turns([("book", "Ada"), ("fly", "X"), ("book", "Bo"), ("mail", "ada")])
    with pytest.raises(ValueError, match="down"):
        await agent(script, [*desk(world, sort), fly], capabilities=[Settled(settlement)]).run("go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert clean(world, settlement)


async def test_a_turn_that_was_undone_is_no_part_of_what_follows(world, settlement):
    def fly(what: str) -> str:
        raise ToolFailed("full")

    script = turns([("book", "Ada"), ("fly", "X")], [("book", "Ada"), ("mail", "ada")])
    result = await agent(script, [*desk(world), fly], capabilities=[Settled(settlement, run="trip")]).run("go")

    assert outcomes(result) == ["failed", "failed", "success", "success"]
    assert world.log == ["book Ada", "cancel Ada", "book Ada", "mail ada"]


# ---- calls that never come to their tools; the settlement would wait ten minutes for one it did not know of


@pytest.mark.parametrize("bad", [("nothing", "x"), ("book", {"where": 1})], ids=["no tool", "bad arguments"])
@pytest.mark.parametrize("place", [0, 1, 2])
async def test_a_call_of_no_tool_and_one_with_bad_arguments_hold_nobody_up_and_fail_their_turn(
    world, settlement, bad, place
):
    script = [("book", "Ada"), ("mail", "ada")]
    script.insert(place, bad)

    result = await agent(turns(script, [("book", "Bee")]), desk(world), capabilities=[Settled(settlement)]).run("go")

    expected = ["failed", "failed", "success"]
    expected.insert(place, "retried")
    assert outcomes(result) == expected
    assert world.standing() == {"book Bee": 1}
    assert (settlement.residue(), unfinished(settlement)) == ([], [])


class Meddler(AbstractCapability):
    """Does something to the calls of one tool, before the tool."""

    def __init__(self, tool, do):
        self.tool = tool
        self.do = do

    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        return self.do(args) if call.tool_name == self.tool else args


def skip(args):
    raise SkipToolExecution("from the cache")


def refuse(args):
    raise ModelRetry("not today")


@pytest.mark.parametrize(("do", "outcome"), [(skip, "success"), (refuse, "retried")])
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("place", [0, 1])
async def test_a_call_that_another_capability_answers_holds_nobody_up(
    world, settlement, do, outcome, ours_first, place
):
    both = [Settled(settlement), Meddler("book", do)]
    calls = [("mail", "ada")]
    calls.insert(place, ("book", "Ada"))

    clerk = agent(turns(calls), desk(world), capabilities=both if ours_first else both[::-1])
    result = await clerk.run("go")

    expected = ["success"]
    expected.insert(place, outcome)
    assert outcomes(result) == expected
    assert world.log == ["mail ada"]


async def test_a_tool_gets_the_arguments_that_another_capability_made_of_the_models(world, settlement):
    script = turns([("book", "Ada")])

    result = await agent(
        script, desk(world), capabilities=[Settled(settlement), Meddler("book", lambda args: {"what": "Bo"})]
    ).run("go")

    assert texts(result) == ["book Bo: number 1"]
    assert world.log == ["book Bo"]


class Again(AbstractCapability):
    """Tries a tool again when it fails."""

    async def wrap_tool_execute(self, ctx, *, call, tool_def, args, handler):
        try:
            return await handler(args)
        except ValueError:
            return await handler(args)


async def test_a_retry_around_the_tool_finds_its_turn_undone_and_is_made_by_itself(world, settlement):
    failures = iter([True, False])

    @effect("reversible", scope="flight:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    def fly(what: str) -> str:
        if next(failures):
            raise ValueError("down")
        world.act(f"fly {what}")
        return "flying"

    script = turns([("book", "Ada"), ("fly", "X")])
    result = await agent(script, [*desk(world), fly], capabilities=[Settled(settlement), Again()]).run("go")

    assert outcomes(result) == ["failed", "success"]
    assert world.log == ["book Ada", "cancel Ada", "fly X"]
    assert clean(world, settlement)


# ---- what was answered before the turn had settled


async def test_an_answer_that_is_not_true_any_more_is_corrected_before_the_model_is_asked_again(world, settlement):
    told = []

    def fly(what: str) -> str:
        raise ToolFailed("full")

    script = turns([("book", "Ada"), ("fly", "X"), ("mail", "ada")])
    clerk = agent(script, [*desk(world), fly], capabilities=[Settled(settlement)])
    answer = clerk.model.function

    def listening(messages, info):
        told.extend(part.content for m in messages for part in m.parts if isinstance(part, ToolReturnPart))
        return answer(messages, info)

    clerk.model.function = listening
    with ToolManager.parallel_execution_mode("sequential"):
        result = await clerk.run("go")

    assert outcomes(result) == ["failed"] * 3
    assert told == texts(result)
    undone, full, never = told
    assert undone.startswith("undone: book had succeeded, and was undone because fly failed")
    assert full == "full"
    assert "mail was not run" in never
    assert world.standing() == NOTHING


# ---- results


class Room(BaseModel):
    number: int


RESULTS = [
    Room(number=7), [Room(number=1), Room(number=2)], {"a": [1, None, 2.5]}, None, "text", 3.5, b"\x00\xff",
    BinaryContent(b"\x89PNG", media_type="image/png"), ToolReturn("done", content=["look", "here"], metadata={"n": 1}),
]  # fmt: skip # a list of names and values


@pytest.mark.parametrize("value", RESULTS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("kind", ["idempotent", "irreversible"])
async def test_the_model_is_told_the_same_of_a_result_from_the_record_as_of_the_one_that_stock_tells(
    settlement, value, kind
):
    ran = []

    def book(what: str):
        ran.append(what)
        return value

    script = turns([("book", "Ada")])
    tool = effect(kind, scope="room:/{what}")(book)

    def seen(result):
        parts = [part for m in result.all_messages() if isinstance(m, ModelRequest) for part in m.parts]
        return [
            (part.model_response_str(), part.metadata) if isinstance(part, ToolReturnPart) else part.content
            for part in parts
            if isinstance(part, ToolReturnPart | UserPromptPart)
        ]

    stock = seen(await agent(script, [book]).run("go"))
    first = seen(await agent(script, [tool], capabilities=[Settled(settlement, run="trip")]).run("go"))
    again = seen(await agent(script, [tool], capabilities=[Settled(settlement, run="trip")]).run("go"))

    assert stock == first == again
    assert ran == ["Ada", "Ada"]  # once with stock, and once with ours


# ---- what settles together


async def test_all_of_an_agents_run_may_settle_together(world, settlement):
    before = []

    def note(what: str) -> str:
        before.append(list(world.log))
        return "noted"

    script = turns([("book", "Ada"), ("mail", "ada")], [("note", "x")])
    settled = Settled(settlement, settle="agent", effects={"note": "read"})
    result = await agent(script, [*desk(world), note], capabilities=[settled]).run("go")

    assert before == [["book Ada"]]
    assert "will run when" in texts(result)[1]
    assert world.log == ["book Ada", "mail ada"]
    assert clean(world, settlement)


async def test_what_settles_with_an_agents_run_is_undone_when_the_run_fails(world, settlement):
    def fly(what: str) -> str:
        raise ValueError("down")

    script = turns([("book", "Ada"), ("mail", "ada")], [("fly", "X")])
    settled = Settled(settlement, settle="agent")
    with pytest.raises(ValueError, match="down"):
        await agent(script, [*desk(world), fly], capabilities=[settled]).run("go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert clean(world, settlement)


async def test_agents_of_one_job_may_settle_together(world, settlement):
    async with Settled(settlement, run="trip", settle="run") as settled:
        first = agent(turns([("book", "Ada"), ("mail", "ada")]), desk(world), name="first", capabilities=[settled])
        second = agent(turns([("book", "Bo")]), desk(world), name="second", capabilities=[settled])
        await first.run("go")
        await second.run("go")
        assert world.log == ["book Ada", "book Bo"]

    assert world.log == ["book Ada", "book Bo", "mail ada"]
    assert clean(world, settlement)


async def test_a_job_that_fails_between_its_agents_is_undone(world, settlement):
    with pytest.raises(RuntimeError, match="no budget"):
        async with Settled(settlement, run="trip", settle="run") as settled:
            await agent(turns([("book", "Ada"), ("mail", "ada")]), desk(world), capabilities=[settled]).run("go")
            raise RuntimeError("no budget")

    assert world.log == ["book Ada", "cancel Ada"]
    assert clean(world, settlement)


async def test_an_agent_that_another_ones_tool_runs_is_a_part_of_that_call(world, settlement):
    inner = agent(
        turns([("book", "Ada"), ("mail", "ada")]), desk(world), name="inner", capabilities=[Settled(settlement)]
    )

    async def delegate(what: str) -> str:
        result = await inner.run(what)
        return result.output

    async def fly(what: str) -> str:
        raise ToolFailed("full")

    outer = agent(
        turns([("delegate", "go"), ("fly", "X")]), [delegate, fly], name="outer", capabilities=[Settled(settlement)]
    )
    result = await outer.run("go")

    assert outcomes(result) == ["failed", "failed"]
    assert world.log == ["book Ada", "cancel Ada"]
    assert unfinished(settlement) == []


async def test_one_agent_may_be_run_twice_at_a_time_in_one_job_and_neither_run_waits_for_the_other(world, settlement):
    met = asyncio.Barrier(2)

    @effect("reversible", scope="flight:/{what}", undo=lambda what: world.act(f"cancel {what}"))
    async def fly(what: str) -> str:
        await met.wait()
        return str(world.act(f"fly {what}"))

    settled = Settled(settlement, run="trip")
    both = [agent(turns([("fly", what), ("mail", what)]), [*desk(world), fly], capabilities=[settled]) for what in "XY"]

    await asyncio.gather(*(clerk.run("go") for clerk in both))

    assert world.standing() == {"fly X": 1, "mail X": 1, "fly Y": 1, "mail Y": 1}
    assert clean(world, settlement)


def failing(what: str) -> str:
    raise ValueError("down")


async def test_an_agent_that_fails_beside_another_one_is_undone_and_the_other_one_settles(world, settlement):
    settled, go_on, begun = Settled(settlement, run="trip", settle="agent"), asyncio.Event(), asyncio.Event()

    @effect("read")
    async def stay(what: str) -> str:
        begun.set()
        await go_on.wait()
        return what

    good = agent(turns([("book", "Bo")], [("stay", "x")]), [*desk(world), stay], name="good", capabilities=[settled])
    bad = agent(turns([("book", "Ada")]), desk(world), name="bad", capabilities=[settled])
    beside = asyncio.create_task(good.run("go"))
    await begun.wait()
    with pytest.raises(UsageLimitExceeded):
        await bad.run("go", usage_limits=UsageLimits(request_limit=1))
    assert world.standing() == {"book Bo": 1}
    go_on.set()
    await beside

    assert world.standing() == {"book Bo": 1}
    assert clean(world, settlement)


async def test_an_agent_settles_with_its_own_run_also_while_its_job_is_held(world, settlement):
    async with Settled(settlement, run="trip", settle="agent") as settled:
        await agent(turns([("book", "Ada"), ("mail", "ada")]), desk(world), capabilities=[settled]).run("go")
        assert world.log == ["book Ada", "mail ada"]
        bad = agent(
            turns([("book", "Bo")], [("failing", "x")]), [*desk(world), failing], name="bad", capabilities=[settled]
        )
        with pytest.raises(ValueError, match="down"):
            await bad.run("go")
        assert world.log == ["book Ada", "mail ada", "book Bo", "cancel Bo"]

    assert world.standing() == {"book Ada": 1, "mail ada": 1}
    assert clean(world, settlement)


async def held(settled, bad, good):
    async with settled:
        with pytest.raises(ValueError, match="down"):
            await bad.run("go")
        await good.run("go")


async def test_a_job_one_of_whose_agents_failed_is_undone_as_a_whole(world, settlement):
    settled = Settled(settlement, run="trip", settle="run")
    bad = agent(
        turns([("book", "Ada")], [("failing", "x")]), [*desk(world), failing], name="bad", capabilities=[settled]
    )
    good = agent(turns([("book", "Bo"), ("mail", "bo")]), desk(world), name="good", capabilities=[settled])

    await held(settled, bad, good)

    assert world.standing() == {}
    assert "mail bo" not in world.log
    assert clean(world, settlement)


async def test_an_agent_that_failed_and_succeeds_when_it_is_run_again_does_not_undo_its_job(world, settlement):
    settled, script = Settled(settlement, run="trip", settle="run"), turns([("book", "Ada")], [("fly", "x")])
    downs = iter([True, False])

    def fly(what: str) -> str:
        if next(downs):
            raise ValueError("down")
        return "flying"

    clerk = agent(script, [*desk(world), effect("read")(fly)], capabilities=[settled])

    await held(settled, clerk, clerk)

    assert world.log == ["book Ada"]
    assert clean(world, settlement)


async def test_of_three_runs_of_one_agent_none_takes_the_place_of_one_that_is_at_work(world, settlement):
    settled = Settled(settlement, run="trip")
    paid, leave, begun = [], {who: asyncio.Event() for who in "AB"}, {who: asyncio.Event() for who in "AB"}

    @effect("idempotent", scope="card:/{what}")
    def charge(what: str) -> str:
        paid.append(what)
        return f"payment {len(paid)}"

    @effect("read")
    async def stay(what: str) -> str:
        begun[what].set()
        await leave[what].wait()
        return what

    def clerk(*script):
        return agent(turns(*script), [charge, stay], capabilities=[settled])

    first = asyncio.create_task(clerk([("stay", "A")]).run("go"))
    await begun["A"].wait()
    second = asyncio.create_task(clerk([("charge", "7")], [("stay", "B")]).run("go"))
    await begun["B"].wait()
    leave["A"].set()
    await first
    third = await clerk([("charge", "7")]).run("go")
    leave["B"].set()

    assert (texts(await second)[0], texts(third)) == ("payment 1", ["payment 2"])
    assert paid == ["7", "7"]
    assert unfinished(settlement) == []


# ---- toolsets


async def test_a_tool_that_another_tool_calls_is_a_part_of_that_call(world, settlement):
    from pydantic_ai.messages import ToolCallPart

    clerk = agent(turns([("program", {})]), desk(world), capabilities=[Settled(settlement)])

    @clerk.tool
    async def program(ctx: RunContext) -> str:
        manager = ctx.tool_manager
        found = [
            await manager.handle_call(ToolCallPart(n, {"what": w}, f"in-{n}"))
            for n, w in (("book", "Ada"), ("mail", "ada"))
        ]
        return "; ".join(found)

    result = await clerk.run("go")

    (text,) = texts(result)
    assert text == "book Ada: number 1; queued: will run when this step settles"
    assert world.log == ["book Ada", "mail ada"]
    assert clean(world, settlement)


async def test_with_stock_nothing_is_undone(world):
    def fly(what: str) -> str:
        raise ToolFailed("full")

    await agent(turns([("book", "Ada"), ("fly", "X"), ("mail", "ada")]), [*desk(world), fly]).run("go")

    assert sorted(world.log) == ["book Ada", "mail ada"]


# ---- a tool that takes too long


@pytest.mark.parametrize("happens", [True, False])
async def test_what_took_too_long_may_have_happened_its_counterparty_is_asked_and_the_model_is_not_told_to_try_again(
    world, settlement, happens
):
    @effect("reversible", scope="flight:/{what}", undo=lambda what: world.act(f"cancel {what}"), probe=lambda: probed())
    async def fly(what: str) -> str:
        if happens:
            world.act(f"fly {what}")
        use_up()
        await asyncio.Event().wait()

    def probed():
        return "flying" if "fly X" in world.log else None

    toolset = FunctionToolset([fly], timeout=LIMIT)
    clerk = agent(turns([("fly", "X")]), toolsets=[toolset], capabilities=[Settled(settlement)])
    result = await clerk.run("go")

    expected = ("success", "flying") if happens else ("retried", f"Timed out after {LIMIT} seconds.")
    assert answers(result) == [expected]
    assert world.standing() == ({"fly X": 1} if happens else {})
    assert (settlement.in_doubt(), unfinished(settlement)) == ([], [])


async def test_what_took_too_long_and_cannot_be_asked_about_is_in_doubt_and_the_model_is_told_so(world, settlement):
    @effect("irreversible", scope="mail:/{what}")
    async def fly(what: str) -> str:
        world.act(f"fly {what}")
        use_up()
        await asyncio.Event().wait()

    toolset = FunctionToolset([fly], timeout=LIMIT)
    clerk = agent(turns([("fly", "X")]), toolsets=[toolset], capabilities=[Settled(settlement)])
    ((outcome, text),) = answers(await clerk.run("go"))

    assert (outcome, world.log) == ("retried", ["fly X"])  # it counts as a retry, as with stock
    assert "the outcome of fly on mail:/X is unknown: do not repeat it" in text
    assert [doubt.tool for doubt in settlement.in_doubt()] == ["fly"]


@pytest.mark.parametrize("settled", [False, True], ids=["stock", "settled"])
@pytest.mark.parametrize("second", ["Y", "X"], ids=["another", "equal"])
async def test_tools_that_take_too_long_use_up_the_retries(world, settlement, second, settled):
    @effect("irreversible", scope="mail:/{what}")
    async def fly(what: str) -> str:
        world.act(f"fly {what}")
        use_up()
        await asyncio.Event().wait()

    ours = [Settled(settlement)] if settled else []
    clerk = agent(
        turns([("fly", "X")], [("fly", second)]), toolsets=[FunctionToolset([fly], timeout=LIMIT)], capabilities=ours
    )
    with pytest.raises(UnexpectedModelBehavior, match="exceeded max retries count of 1"):
        await clerk.run("go")
    assert world.log == (["fly X"] if settled and second == "X" else ["fly X", f"fly {second}"])


async def test_an_undo_gets_the_value_of_a_tool_return_and_the_model_its_content(world, settlement):
    got = []

    @effect("reversible", scope="room:/{what}", undo=lambda result: got.append(result))
    def book(what: str) -> ToolReturn:
        """Book a room."""
        return ToolReturn({"id": 7}, content=["a picture"], metadata={"took": 3})

    @effect("reversible", scope="other:/{what}", undo=lambda: None)
    def fail(what: str) -> str:
        """Fail."""
        raise ModelRetry(what)

    await agent(
        turns([("book", "Ada"), ("fail", "Bad")]), [book, fail], capabilities=[Settled(settlement, run="trip")]
    ).run("go")

    assert got == [{"id": 7}]
