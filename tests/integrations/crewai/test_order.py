"""The calls of a turn: effects happen in the order in which the model issued them, however it is kicked off."""

from __future__ import annotations

import asyncio
import threading
from uuid import uuid4

import pytest
from crewai.flow.flow import Flow, start
from crewai.hooks import InterceptionPoint, on, unregister_hook
from crewai.hooks.dispatch import get_global_hook_list
from crewai.tools import BaseTool, tool
from pydantic import BaseModel, Field
from tests.integrations.crewai.scripted import Scripted, answers
from tests.integrations.crewai.world import World, agent_of, call, crew_of, five
from tests.rooms.crewai import _job

from settlemark import Settlement, UsageError, effect
from settlemark_crewai import settled, settled_crew

ORDER = ["0", "1", "2", "3", "4"]
TOLD = [f"acted {number}" for number in range(5)]


def texts(llm):
    return [text for _, text in answers(llm)]


# ---- the ways to settle a tool


def above(function, **how):
    return settled(**how)(tool(function))


def below(function, **how):
    return tool(settled(**how)(function))


def on_a_class(function, **how):
    @settled(**how)
    class ActOn(BaseTool):
        name: str = "act_on"
        description: str = "Act."

        def _run(self, number: int) -> str:
            return function(number)

    return ActOn()


def on_an_instance(function, **how):
    class ActOn(BaseTool):
        name: str = "act_on"
        description: str = "Act."

        def _run(self, number: int) -> str:
            return function(number)

    made = settled(ActOn(), **how)
    assert isinstance(made, ActOn)
    return made


def on_an_async_function(function, **how):
    @settled(**how)
    @tool
    async def act_on(number: int) -> str:
        """Act."""
        return await asyncio.to_thread(function, number)

    return act_on


def on_an_async_method(function, **how):
    @settled(**how)
    class ActOn(BaseTool):
        name: str = "act_on"
        description: str = "Act."

        async def _run(self, number: int) -> str:
            return await asyncio.to_thread(function, number)

    return ActOn()


WAYS = [above, below, on_a_class, on_an_instance, on_an_async_function, on_an_async_method]


@pytest.mark.parametrize("way", WAYS)
def test_however_a_tool_is_settled_its_effects_happen_in_the_order_issued_in_a_plain_crew(world, settlement, way):
    act_on, turn = five(world.act, patience=0.02)
    llm = Scripted(turn)

    crew_of(llm, [way(act_on, settlement=settlement)]).kickoff()

    assert world.log == ORDER
    assert texts(llm) == TOLD


@pytest.mark.parametrize("way", WAYS)
def test_in_a_settled_crew_it_belongs_to_the_crews_run(world, settlement, way):
    act_on, turn = five(world.act, patience=0.02)

    settled_crew(crew_of(Scripted(turn), [way(act_on)]), settlement, run="r").kickoff()

    assert world.log == ORDER
    assert {found.row.run for found in settlement.transactions()} == {"r"}


def test_the_tools_of_a_settled_crew_need_no_word_of_ours_and_the_crew_is_the_same(world, settlement):
    act_on, turn = five(world.act, patience=0.02)
    stock = tool(act_on)
    crew = crew_of(Scripted(turn), [stock])
    task, agent = crew.tasks[0], crew.agents[0]

    assert settled_crew(crew, settlement, run="r") is crew
    crew.kickoff()

    assert world.log == ORDER
    assert (crew.tasks[0], crew.agents[0]) == (task, agent)
    assert type(stock.func) is type(act_on)
    assert stock.func is act_on


def test_a_settled_copy_leaves_the_tool_it_was_made_of_as_it_was(world, settlement):
    act_on, turn = five(world.act, patience=30)
    stock = tool(act_on)
    settled(stock, settlement=settlement)

    crew_of(Scripted(turn), [stock]).kickoff()

    assert world.log == ["4", "3", "2", "1", "0"]
    assert settlement.transactions() == []


# ---- the ways to kick off


def crew_kickoff(llm, tools):
    return crew_of(llm, tools).kickoff().raw


def crew_kickoff_async(llm, tools):
    return asyncio.run(crew_of(llm, tools).kickoff_async()).raw


def crew_akickoff(llm, tools):
    return asyncio.run(crew_of(llm, tools).akickoff()).raw


def crew_streamed(llm, tools):
    streaming = crew_of(llm, tools, crew={"stream": True}).kickoff()
    for _ in streaming:
        pass
    return streaming.result.raw


def agent_kickoff(llm, tools):
    return agent_of(llm, tools).kickoff("Do it.").raw


def agent_kickoff_async(llm, tools):
    return asyncio.run(agent_of(llm, tools).kickoff_async("Do it.")).raw


def crew_in_a_flow(llm, tools):
    class Whole(Flow):
        @start()
        def begin(self):
            return crew_of(llm, tools).kickoff().raw

    return Whole().kickoff()


def agent_in_a_flow(llm, tools):
    class Whole(Flow):
        @start()
        async def begin(self):
            return (await agent_of(llm, tools).kickoff_async("Do it.")).raw

    return Whole().kickoff()


KICKOFFS = [
    crew_kickoff, crew_kickoff_async, crew_akickoff, crew_streamed, agent_kickoff, agent_kickoff_async,
    crew_in_a_flow, agent_in_a_flow,
]  # fmt: skip # a list of names and values


@pytest.mark.parametrize("kickoff", KICKOFFS)
def test_however_it_is_kicked_off_the_order_is_kept_and_with_stock_it_is_not(settlement, kickoff):
    stock, ours = World(), World()
    unsettled, turn = five(stock.act, patience=30)
    act_on, _ = five(ours.act, patience=0.02)
    llm = Scripted(turn)

    assert kickoff(Scripted(turn), [tool(unsettled)]) == "done"
    assert kickoff(llm, [settled(tool(act_on), settlement=settlement)]) == "done"

    assert (stock.log, ours.log) == (["4", "3", "2", "1", "0"], ORDER)
    assert texts(llm) == TOLD


@pytest.mark.parametrize(
    "kickoff",
    [
        lambda crew: crew.kickoff(),
        lambda crew: asyncio.run(crew.kickoff_async()),
        lambda crew: asyncio.run(crew.akickoff()),
    ],
    ids=["kickoff", "kickoff_async", "akickoff"],
)
def test_so_it_is_with_a_settled_crew(world, settlement, kickoff):
    act_on, turn = five(world.act, patience=0.02)

    output = kickoff(settled_crew(crew_of(Scripted(turn), [tool(act_on)]), settlement, run="r"))

    assert (output.raw, world.log) == ("done", ORDER)


def test_so_it_is_with_a_settled_crew_that_streams(world, settlement):
    act_on, turn = five(world.act, patience=0.02)
    crew = settled_crew(crew_of(Scripted(turn), [tool(act_on)], crew={"stream": True}), settlement, run="r")

    streaming = crew.kickoff()
    chunks = list(streaming)

    assert (streaming.result.raw, world.log, chunks) == ("done", ORDER, chunks)


def test_a_crew_that_was_kicked_off_before_it_was_settled_settles_all_the_same(settlement):
    stock, ours = World(), World()
    unsettled, _ = five(stock.act, patience=30)
    act_on, _ = five(ours.act, patience=0.02)
    acts = [unsettled, act_on]

    @tool
    def act(number: int) -> str:
        """Act."""
        return acts[0](number)

    crew = crew_of(Scripted([call("act", number=number) for number in range(5)]), [act])
    crew.kickoff()
    acts.pop(0)
    settled_crew(crew, settlement, run="r").kickoff()

    assert (stock.log, ours.log) == (["4", "3", "2", "1", "0"], ORDER)


def test_where_somebody_has_cleared_all_hooks_each_call_of_a_settled_tool_still_settles_by_itself(world, settlement):
    made = settled(tool(numbered(world, "irreversible")), settlement=settlement)
    hooks = {point: get_global_hook_list(point)[:] for point in InterceptionPoint}
    for point in InterceptionPoint:
        get_global_hook_list(point).clear()

    try:
        crew_of(Scripted([call("act_on", number=number) for number in range(3)]), [made]).kickoff()
    finally:
        for point, kept in hooks.items():
            get_global_hook_list(point)[:] = kept

    assert sorted(world.log) == ["0", "1", "2"]
    assert [found.state.value for found in settlement.transactions()] == ["committed"] * 3


# ---- the shapes of a turn


def numbered(world, kind="opaque", broken=()):
    @effect(kind, **({} if kind == "opaque" else {"scope": "thing:/{number}"}))
    def act_on(number: int) -> str:
        """Act."""
        if number in broken:
            raise ValueError(f"no {number}")
        world.act(str(number))
        return f"acted {number}"

    return act_on


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["opaque", "idempotent", "irreversible"])
def test_a_turn_of_more_calls_than_crewai_has_threads_does_not_hang(world, patient, kind):
    calls = [call("act_on", number=number) for number in range(13)]
    llm = Scripted(calls)

    settled_crew(crew_of(llm, [tool(numbered(world, kind))]), patient, run="r").kickoff()

    assert world.log == [str(number) for number in range(13)]
    assert texts(llm) == [f"acted {number}" for number in range(13)]


@pytest.mark.timeout(60)
def test_what_it_was_told_too_early_is_put_right_before_the_model_goes_on(world, patient):
    """Nine calls are one more than CrewAI runs at once: they are answered before the last one turns out to fail."""
    llm = Scripted([*(call("act_on", number=number) for number in range(8)), call("look", number=8)])
    told, all_others = [], threading.Event()

    @effect("read")
    def look(number: int) -> str:
        """Look."""
        all_others.wait(30)
        raise ValueError("blind")

    @on(InterceptionPoint.POST_TOOL_CALL)
    def listen(context):
        told.append(context.tool_result)
        if len(told) == 8:
            all_others.set()

    try:
        settled_crew(crew_of(llm, [tool(numbered(world, "irreversible")), tool(look)]), patient, run="r").kickoff()
    finally:
        unregister_hook(InterceptionPoint.POST_TOOL_CALL, listen)

    assert sorted(told)[1:] == ["queued: will run when this step settles"] * 8
    assert world.log == []
    assert all("never left" in text for text in texts(llm)[:8])
    assert "blind" in texts(llm)[8]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["opaque", "irreversible"])
def test_a_turn_that_crewai_runs_one_after_the_other_does_not_hang(world, patient, kind):
    calls = [call("act_on", number=number) for number in range(4)]

    settled_crew(crew_of(Scripted(calls), [tool(max_usage_count=9)(numbered(world, kind))]), patient, run="r").kickoff()

    assert world.log == ["0", "1", "2", "3"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["opaque", "irreversible"])
def test_a_call_that_is_the_answer_ends_its_turn_with_its_real_result(world, patient, kind):
    calls = [call("other", number=0), call("act_on", number=1), call("act_on", number=2)]

    @effect("irreversible", scope="other:/{number}")
    def other(number: int) -> str:
        """Act otherwise."""
        world.act(f"other {number}")
        return "other"

    tools = [tool(result_as_answer=True)(numbered(world, kind)), tool(other)]
    output = settled_crew(crew_of(Scripted(calls), tools), patient, run="r").kickoff()

    assert output.raw == "acted 1"
    assert world.log == (["1", "other 0"] if kind == "opaque" else ["other 0", "1"])


@pytest.mark.timeout(60)
def test_with_order_issued_what_is_issued_behind_what_cannot_be_undone_happens_behind_it(world, patient):
    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return "sent"

    calls = [call("mail", to="ada"), call("act_on", number=1)]
    tools = [tool(mail), tool(numbered(world, "opaque"))]
    settled_crew(crew_of(Scripted(calls), tools), patient, run="r", order="issued").kickoff()

    assert world.log == ["mail ada", "1"]


@pytest.mark.timeout(60)
def test_an_answering_call_that_fails_is_no_answer_and_what_comes_after_it_is_not_run(world, patient):
    calls = [call("act_on", number=1), call("act_on", number=2)]
    llm = Scripted(calls)
    tools = [tool(result_as_answer=True)(numbered(world, broken={1}))]

    output = settled_crew(crew_of(llm, tools), patient, run="r").kickoff()

    assert (output.raw, world.log) == ("done", [])
    assert "no 1" in texts(llm)[0]
    assert "nothing was run" in texts(llm)[1]


def test_calls_that_are_equal_have_each_its_own_answer(world, settlement):
    count = iter(range(9))

    @effect("irreversible", scope="thing:/all")
    def act_on(number: int) -> str:
        """Act."""
        return f"acted {next(count)}"

    llm = Scripted([call("act_on", number=1)] * 5 + [call("act_on", number=2)])

    settled_crew(crew_of(llm, [tool(act_on)]), settlement, run="r").kickoff()

    assert texts(llm) == [f"acted {number}" for number in range(6)]


def test_a_model_that_writes_its_calls_has_them_settled_one_by_one(world, settlement):
    llm = Scripted([call("act_on", number=0)], [call("act_on", number=1)], native=False)

    settled_crew(crew_of(llm, [tool(numbered(world, "irreversible"))]), settlement, run="r").kickoff()

    assert world.log == ["0", "1"]
    assert [text.split("\n")[0] for text in texts(llm)] == ["acted 0", "acted 1"]


# ---- arguments that the model leaves out


class Night(BaseModel):
    date: str
    ref: str = Field(default_factory=lambda: uuid4().hex)


class Stay(BaseModel):
    hotel: str
    night: Night
    ref: str = Field(default_factory=lambda: uuid4().hex)


BOOK_AND_FAIL = [call("book", hotel="Ada", night={"date": "May 1"}), call("act_on", number=0)]


def booking(world, rooms):
    """A tool that books under references which are drawn anew whenever its arguments are validated."""

    def cancel(hotel, night, ref):
        rooms.remove((hotel, night["ref"], ref))

    class Book(BaseTool):
        name: str = "book"
        description: str = "Book a room."
        args_schema: type[BaseModel] = Stay

        @effect("reversible", scope="room:/{ref}", undo=cancel)
        def _run(self, hotel: str, night: dict[str, str], ref: str) -> str:
            rooms.append((hotel, night["ref"], ref))
            world.act(f"book {hotel} {ref}")
            return "booked"

    return Book()


def test_a_call_whose_defaults_are_drawn_anew_keeps_its_turn_and_is_undone_as_it_was_made(world, settlement):
    rooms, llm = [], Scripted(BOOK_AND_FAIL)
    crew = crew_of(llm, [booking(world, rooms), tool(numbered(world, broken={0}))])

    settled_crew(crew, settlement, run="r").kickoff()

    (booked,) = world.log
    done = [done for found in settlement.transactions() for done in found.effects if done.row.tool == "book"]
    assert rooms == []
    assert texts(llm)[0].startswith("undone: book had succeeded")
    assert [found.row.scopes for found in done] == [f'["room:/{booked.split()[-1]}"]']


def test_what_a_hook_fills_in_in_place_of_such_a_default_is_what_acts_and_is_undone(world, settlement):
    rooms, llm = [], Scripted(BOOK_AND_FAIL)
    crew = crew_of(llm, [booking(world, rooms), tool(numbered(world, broken={0}))])

    @on(InterceptionPoint.PRE_TOOL_CALL)
    def fill_in(context):
        if context.tool_name == "book":
            context.tool_input["ref"] = "mine"

    try:
        settled_crew(crew, settlement, run="r").kickoff()
    finally:
        unregister_hook(InterceptionPoint.PRE_TOOL_CALL, fill_in)

    done = [done for found in settlement.transactions() for done in found.effects if done.row.tool == "book"]
    assert (world.log, rooms) == (["book Ada mine"], [])
    assert texts(llm)[0].startswith("undone: book had succeeded")
    assert [found.row.scopes for found in done] == ['["room:/mine"]']


# ---- outside of an agent's turns


def test_called_by_ones_own_code_a_settled_tool_settles_by_itself_and_raises(world, settlement):
    made = settled(tool(numbered(world, "irreversible", broken={1})), settlement=settlement, run="r")

    assert made.run(number=0) == "acted 0"
    with pytest.raises(ValueError, match="no 1"):
        made.run(number=1)

    assert world.log == ["0"]
    assert [found.state.value for found in settlement.transactions()] == ["committed", "aborted"]


def test_outside_of_its_crew_a_tool_of_a_settled_crew_is_as_stock(world, settlement):
    crew = settled_crew(crew_of(Scripted(), [tool(numbered(world))]), settlement, run="r")

    assert crew.agents[0].tools[0].run(number=7) == "acted 7"

    assert (world.log, settlement.transactions()) == (["7"], [])


def test_what_is_no_tool_is_refused():
    with pytest.raises(UsageError, match="is no tool"):
        settled(42)


def test_without_a_settlement_it_is_the_default_one_for_all(world, monkeypatch, tmp_path):
    monkeypatch.setenv("SETTLEMARK_URL", f"sqlite:///{tmp_path}/ledger.db")
    monkeypatch.setattr(_job, "_default", [])
    first = settled(tool(numbered(world, "irreversible")))

    assert first.run(number=0) == "acted 0"

    with Settlement(f"sqlite:///{tmp_path}/ledger.db") as settlement:
        assert [found.state.value for found in settlement.transactions()] == ["committed"]
