"""A retry, a guardrail, or a second beginning repeats no effect; what never becomes a call keeps nobody waiting."""

from __future__ import annotations

import threading

import pytest
from crewai.hooks import HookAborted, InterceptionPoint, on, unregister_hook
from crewai.tools import tool
from crewai.tools.tool_failure import ToolFailure
from tests.integrations.crewai.scripted import Scripted, ScriptedCall, answers
from tests.integrations.crewai.world import agent_of, call, crew_of, tools_of, trip

from settlemark import UsageError, effect
from settlemark_crewai import settled, settled_crew

PAY = [call("pay", card="7")]


def texts(llm):
    return [text for _, text in answers(llm)]


def paying(world, kind="idempotent", *, raises=False):
    """A tool that pays, and may then say that it got no answer."""

    @tool
    @effect(kind, **({} if kind == "opaque" else {"scope": "card:/{card}"}))
    def pay(card: str) -> str:
        """Pay."""
        world.act(f"pay {card}")
        if raises:
            raise TimeoutError("no answer")
        return "paid"

    return pay


@pytest.fixture(params=["settled crew", "settled tool"])
def settled_one(request, settlement):
    """Make a crew of one agent whose tools are settled: all by the crew, or each by itself."""

    def make(llm, tools, run="r", **options):
        if request.param == "settled crew":
            return settled_crew(crew_of(llm, tools, **options), settlement, run=run)
        return crew_of(llm, [settled(found, settlement=settlement, run=run) for found in tools], **options)

    return make


# ---- again in the same process


@pytest.mark.parametrize("kind", ["opaque", "irreversible"])
def test_a_tool_that_raises_after_its_effect_is_executed_once_and_the_agent_is_told_not_to_repeat_it(
    world, native, settled_one, kind
):
    llm = Scripted(PAY, native=native)

    settled_one(llm, [paying(world, kind, raises=True)]).kickoff()

    assert world.log == ["pay 7"]
    assert texts(llm)[0].startswith("InDoubt: the outcome of pay")


def test_a_counterparty_that_knows_keys_is_asked_again_under_the_same_one(world, native, settled_one):
    settled_one(Scripted(PAY, native=native), [paying(world, "idempotent", raises=True)]).kickoff()

    assert len(world.keys) == 3
    assert len(set(world.keys)) == 1


def refusing(tried, kind):
    """A tool whose counterparty says for certain that nothing happens."""

    @tool
    @effect(kind, **({"scope": "card:/{card}"} if kind == "irreversible" else {}))
    def pay(card: str) -> str:
        """Pay."""
        tried.append(card)
        raise ValueError("no such card")

    return pay


@pytest.mark.parametrize("kind", ["read", "opaque", "irreversible"])
def test_a_tool_that_fails_for_certain_is_tried_once_and_its_own_error_is_the_answer(native, settled_one, kind):
    tried, llm = [], Scripted(PAY, native=native)

    settled_one(llm, [refusing(tried, kind)]).kickoff()

    assert tried == ["7"]
    assert "no such card" in texts(llm)[0]


def test_a_guardrail_that_refuses_an_answer_repeats_no_effect(world, native, settled_one):
    refusals = [True]

    def check(output):
        return (False, "say more") if refusals and refusals.pop() else (True, output.raw)

    llm = Scripted(PAY, native=native)
    output = settled_one(llm, [paying(world)], guardrail=check).kickoff()

    assert (output.raw, world.log, texts(llm)[0].split("\n")[0]) == ("done", ["pay 7"], "paid")
    assert len(llm.seen) == 4  # it was asked anew, and issued the call again


def test_the_guardrail_of_an_agent_that_is_kicked_off_repeats_no_effect(world, native, settlement):
    refusals = [True]

    def check(output):
        return (False, "say more") if refusals and refusals.pop() else (True, output.raw)

    llm = Scripted(PAY, native=native)
    agent_of(llm, [settled(paying(world), settlement=settlement)], guardrail=check).kickoff("Pay.")

    assert (len(llm.seen), world.log) == (4, ["pay 7"])


def test_a_model_that_fails_after_an_effect_repeats_none(world, native, settled_one):
    failures = [True]

    def fail_once(number):
        if number == 1 and failures:
            raise RuntimeError(f"overloaded {failures.pop()}")

    llm = Scripted(PAY, native=native, before=fail_once)
    settled_one(llm, [paying(world)]).kickoff()

    assert (len(llm.seen), world.log) == (4, ["pay 7"])


def test_the_same_call_in_a_later_turn_is_another_effect(world, native, settled_one):
    settled_one(Scripted(PAY, PAY, native=native), [paying(world)]).kickoff()

    # Where calls are written, CrewAI itself turns down one that is equal to the last.
    assert world.log == (["pay 7", "pay 7"] if native else ["pay 7"])


def test_with_the_cache_on_a_second_equal_effect_is_one(world, settlement):
    crew = crew_of(Scripted(PAY, PAY), [paying(world)], agent={"cache": True}, crew={"cache": True})

    settled_crew(crew, settlement, run="r").kickoff()

    assert world.log == ["pay 7", "pay 7"]


def test_and_with_stock_it_silently_is_none(world):
    crew_of(Scripted(PAY, PAY), [paying(world)], agent={"cache": True}, crew={"cache": True}).kickoff()

    assert world.log == ["pay 7"]


def test_kicked_off_again_under_its_id_a_crew_returns_what_it_returned_and_asks_no_model(world, settlement):
    llm = Scripted(PAY)
    first = settled_crew(crew_of(llm, [paying(world)]), settlement, run="r").kickoff()
    requests = len(llm.seen)

    again = settled_crew(crew_of(llm, [paying(world)]), settlement, run="r").kickoff()

    assert again.tasks_output == first.tasks_output
    assert (world.log, len(llm.seen)) == (["pay 7"], requests)


def test_under_another_id_it_does_its_own(world, settlement):
    crew = crew_of(Scripted(PAY), [paying(world)])

    for run in ("r", "s"):
        settled_crew(crew, settlement, run=run).kickoff()

    assert world.log == ["pay 7", "pay 7"]


def test_without_an_id_each_kickoff_is_a_job_of_its_own_and_it_is_said_once_that_none_can_go_on(
    world, settled_one, caplog
):
    crew = settled_one(Scripted(PAY), [paying(world)], None)

    for _ in range(2):
        crew.kickoff()

    assert world.log == ["pay 7", "pay 7"]
    assert caplog.text.count("has no id of yours") == 1


def test_an_agent_that_is_kicked_off_again_with_the_same_request_repeats_no_effect(world, native, settlement):
    for request in ("Pay the room.", "Pay the room.", "Pay the car."):
        tools = [settled(paying(world), settlement=settlement, run="r")]
        agent_of(Scripted(PAY, native=native), tools).kickoff(request)

    assert world.log == ["pay 7", "pay 7"]


# ---- what never becomes a call


def refuse(context):
    if context.tool_input.get("hotel") == "Bee":
        return False
    return None


def abort(context):
    if context.tool_input.get("hotel") == "Bee":
        raise HookAborted("not Bee")


def alter(context):
    if context.tool_input.get("hotel") == "Bee":
        context.tool_input["hotel"] = "Cee"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("never", "told"),
    [
        (ScriptedCall("nobody_has_this", {"hotel": "x"}), "Tool not found"),
        (ScriptedCall("book", {"inn": "x"}), "validation failed"),
        (ScriptedCall("book", '{"hotel": '), "Failed to parse"),
    ],
    ids=["unknown tool", "bad arguments", "no JSON"],
)
def test_a_call_that_crewai_turns_down_keeps_nobody_waiting(world, patient, never, told, place):
    turn = [call("book", hotel="Ada"), call("mail", to="ada")]
    turn.insert(place, never)
    llm = Scripted(turn)

    settled_crew(crew_of(llm, tools_of(trip(world))), patient, run="r").kickoff()

    assert world.log in ([], ["book Ada", "cancel Ada"])
    assert told in texts(llm)[place]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hook", [refuse, abort])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_call_that_a_hook_stops_keeps_nobody_waiting(world, patient, hook, place):
    turn = [call("book", hotel="Ada"), call("mail", to="ada")]
    turn.insert(place, call("book", hotel="Bee"))
    llm = Scripted(turn)

    on(InterceptionPoint.PRE_TOOL_CALL)(hook)
    try:
        settled_crew(crew_of(llm, tools_of(trip(world))), patient, run="r").kickoff()
    finally:
        unregister_hook(InterceptionPoint.PRE_TOOL_CALL, hook)

    assert world.log == ["book Ada", "mail ada"]
    assert "blocked by hook" in texts(llm)[place]


@pytest.mark.timeout(60)
def test_a_call_that_a_hook_alters_is_made_as_altered_and_undone_as_it_was_made(world, patient):
    llm = Scripted([call("book", hotel="Bee"), call("look", hotel="Ada")])

    on(InterceptionPoint.PRE_TOOL_CALL)(alter)
    try:
        settled_crew(crew_of(llm, tools_of(trip(world))), patient, run="r").kickoff()
    finally:
        unregister_hook(InterceptionPoint.PRE_TOOL_CALL, alter)

    assert sorted(world.log) == ["book Cee", "look Ada"]
    done = [done for found in patient.transactions() for done in found.effects if done.row.tool == "book"]
    assert [(found.row.arguments, found.row.scopes) for found in done] == [('{"hotel":"Cee"}', '["room:/Cee"]')]


def test_an_altered_call_that_raises_is_tried_once_too(world, native, settlement):
    @tool
    @effect("opaque")
    def book(hotel: str) -> str:
        """Book."""
        world.act(f"book {hotel}")
        raise ValueError("no room")

    on(InterceptionPoint.PRE_TOOL_CALL)(alter)
    try:
        settled_crew(
            crew_of(Scripted([call("book", hotel="Bee")], native=native), [book]), settlement, run="r"
        ).kickoff()
    finally:
        unregister_hook(InterceptionPoint.PRE_TOOL_CALL, alter)

    assert world.log == ["book Cee"]


@pytest.mark.timeout(60)
def test_a_call_above_its_tools_limit_keeps_nobody_waiting(world, patient):
    @tool(max_usage_count=1)
    @effect("irreversible", scope="thing:/{number}")
    def act_on(number: int) -> str:
        """Act."""
        world.act(str(number))
        return "acted"

    llm = Scripted([call("act_on", number=0), call("act_on", number=1), call("mail", to="ada")])
    crew = crew_of(llm, [act_on, *tools_of(trip(world))])

    settled_crew(crew, patient, run="r").kickoff()

    assert world.log == ["0", "mail ada"]
    assert ["usage limit" in text for text in texts(llm)] == [False, True, False]


# ---- what settlement refuses


def test_a_failed_call_undoes_its_turn_and_each_call_is_told_so(world, settlement):
    llm = Scripted([call("book", hotel="Ada"), call("rent", plate="X"), call("mail", to="ada")])
    crew = crew_of(llm, tools_of(trip(world, broken={"rent"})))

    settled_crew(crew, settlement, run="r").kickoff()

    assert world.log == ["book Ada", "cancel Ada"]
    booked, rented, mailed = texts(llm)
    assert booked.startswith("undone: book had succeeded")
    assert rented == "Error executing tool: rent is down"
    assert "mail was not run" in mailed


def test_a_tool_that_says_that_it_failed_undoes_its_turn_and_its_own_words_are_the_answer(world, settlement):
    @tool
    @effect("idempotent", scope="car:/{plate}")
    def rent(plate: str) -> str:
        """Rent."""
        return ToolFailure(message="no car", code="sold_out")

    llm = Scripted([call("book", hotel="Ada"), call("rent", plate="X")])
    crew = crew_of(llm, [*tools_of({"book": trip(world)["book"]}), rent])

    output = settled_crew(crew, settlement, run="r").kickoff()

    assert world.log == ["book Ada", "cancel Ada"]
    assert texts(llm)[1] == "no car (code: sold_out)"
    assert sorted(failed.tool_name for failed in output.tasks_output[0].tool_failures) == ["book", "rent"]


def test_a_refusal_is_told_once_where_the_model_writes_its_calls_and_runs_nothing(world, settlement):
    llm = Scripted([call("mail", to="")], native=False)

    settled_crew(crew_of(llm, tools_of(trip(world))), settlement, run="r").kickoff()

    assert world.log == []
    assert texts(llm)[0].startswith("ScopeError")
    assert len(llm.seen) == 2


def test_a_result_that_no_ledger_can_hold_is_kept_as_it_reads_and_the_agent_gets_the_real_one(world, settlement):
    class Odd:
        def __str__(self):
            return "odd"

    @tool
    @effect("idempotent", scope="thing:/one")
    def make() -> object:
        """Make."""
        world.act("make")
        return {"made": Odd(), "of": {1, 2} and ("clay",)}

    llm = Scripted([call("make")])
    settled_crew(crew_of(llm, [make]), settlement, run="r").kickoff()

    assert "object at" in texts(llm)[0] or "odd" in texts(llm)[0]
    (found,) = (found for found in settlement.transactions() if found.effects and found.effects[0].row.tool == "make")
    assert found.effects[0].result == '{"made":"odd","of":["clay"]}'


def test_two_agents_that_cancel_and_modify_one_order_never_do_both(world, settlement):
    """Each reads it, and acts on what it read, when both have read: one of the two is told that it has changed."""
    both = threading.Barrier(2, timeout=30)
    order = {"state": "open"}

    def tools(role):
        @tool
        @effect("read", scope="order:/7")
        def look() -> str:
            """Look at the order."""
            return order["state"]

        @tool
        @effect("idempotent", scope="order:/7")
        def change(to: str) -> str:
            """Change the order."""
            world.act(f"{role} {to}")
            order["state"] = to
            return to

        return [look, change]

    def meet(number):
        if number == 1:
            both.wait()

    def play(role, to):
        llm = Scripted([call("look")], [call("change", to=to)], before=meet)
        found[role] = llm
        settled_crew(crew_of(llm, tools(role)), settlement, run=role).kickoff()

    found = {}
    threads = [threading.Thread(target=play, args=given) for given in (("one", "cancelled"), ("other", "modified"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(world.log) == 1
    told = sorted(texts(llm)[1].partition(":")[0] for llm in found.values())
    assert told in (["Stale", "cancelled"], ["Stale", "modified"])


def test_options_that_there_are_not_are_refused_and_nothing_was_changed(world, settlement):
    stock = paying(world)
    crew = crew_of(Scripted(PAY), [stock])

    with pytest.raises(UsageError, match="choose one of 'turn', 'task', 'crew'"):
        settled_crew(crew, settlement, run="r", settle="run")
    with pytest.raises(UsageError, match="no Settlement"):
        settled_crew(crew, "sqlite://", run="r")

    assert crew.agents[0].tools[0] is stock
