"""With a settlement each invocation is a transaction: it leaves together, or is undone and says so."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from tests.integrations.langgraph.world import THREAD, answers, graph, trip, turn

from settlemark import Cancelled, Settlement, State, current_call
from settlemark_langgraph import SequencedToolNode

BOOK_RENT_MAIL = turn(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))


def states(settlement):
    return [(t.row.attempt, t.state) for t in settlement.transactions()]


def test_an_irreversible_call_leaves_once_after_the_calls_of_its_turn_and_answers_with_its_real_result(
    world, settlement, invoke
):
    message = turn(("mail", {"to": "a"}), ("look", {"hotel": "Ada"}))

    state = invoke(graph(SequencedToolNode(trip(world), settlement=settlement)), {"messages": [message]}, THREAD)

    assert world.log == ["look Ada", "mail a"]
    assert answers(state) == [("success", "mail done"), ("success", "look done")]
    assert states(settlement) == [(1, State.COMMITTED)]


def test_a_failing_call_undoes_the_earlier_ones_stops_the_later_ones_and_nothing_irreversible_left(
    world, settlement, invoke
):
    node = SequencedToolNode(trip(world, broken=("rent",)), settlement=settlement, handle_tool_errors=True)

    state = invoke(graph(node), {"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == ["book Ada", "cancel Ada"]
    undone, failed, never = answers(state)
    assert undone[0] == failed[0] == never[0] == "error"
    assert undone[1].startswith("undone: book had succeeded, and was undone because rent failed: ")
    assert failed[1] == "Error: ValueError('rent is down')\n Please fix your mistakes."
    # It was at the gate before the failure, or came after it.
    assert never[1] in (
        "Refused: mail was not run: rent, issued before it, failed; decide again from that failure",
        "Refused: mail was held and never left, so nothing of it happened; decide again from this: rent failed: "
        + failed[1],
    )
    assert states(settlement) == [(1, State.ABORTED)]
    assert settlement.residue() == []


def test_a_held_call_issued_before_the_failure_never_left_and_says_so(world, settlement, invoke):
    node = SequencedToolNode(trip(world, broken=("look",)), settlement=settlement, handle_tool_errors=True)
    message = turn(("mail", {"to": "a"}), ("look", {"hotel": "Ada"}))

    state = invoke(graph(node), {"messages": [message]}, THREAD)

    assert world.log == []
    assert answers(state)[0] == (
        "error",
        (
            "Refused: mail was held and never left, so nothing of it happened; decide again from this: look failed:"
            " Error: ValueError('look is down')\n Please fix your mistakes."
        ),
    )


def test_an_error_that_stock_lets_out_leaves_the_node_as_the_tools_own_after_the_undo(world, settlement, invoke):
    node = SequencedToolNode(trip(world, broken=("rent",)), settlement=settlement)

    with pytest.raises(ValueError, match="rent is down") as caught:
        invoke(graph(node), {"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert type(caught.value) is ValueError
    assert world.log == ["book Ada", "cancel Ada"]
    assert states(settlement) == [(1, State.ABORTED)]


def test_a_release_that_fails_is_the_tools_own_error_and_undoes_the_rest(world, settlement, invoke):
    node = SequencedToolNode(trip(world, broken=("mail",)), settlement=settlement, handle_tool_errors=True)

    state = invoke(graph(node), {"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log[:2] == ["book Ada", "rent X"]
    assert world.log[2:] == ["cancel Ada"]
    assert [status for status, _ in answers(state)] == ["error", "error", "error"]
    assert answers(state)[2][1] == "Error: ValueError('mail is down')\n Please fix your mistakes."
    assert "could not be undone: rent had succeeded and stays" in answers(state)[1][1]
    assert answers(state)[1][1].endswith("; it is on record: settlement.residue()")
    assert [residue.tool for residue in settlement.residue()] == ["rent"]


def test_on_failure_continue_commits_what_succeeded(world, invoke):
    with Settlement("memory:", on_failure="continue") as settlement:
        node = SequencedToolNode(trip(world, broken=("rent",)), settlement=settlement, handle_tool_errors=True)
        state = invoke(graph(node), {"messages": [BOOK_RENT_MAIL]}, THREAD)

        assert world.log == ["book Ada", "mail a"]
        assert [status for status, _ in answers(state)] == ["success", "error", "success"]
        assert states(settlement) == [(1, State.COMMITTED)]


def test_a_retry_policy_runs_the_node_again_as_a_new_attempt(world, settlement, invoke):
    broken = ["rent"]

    def heal(error):
        broken.clear()
        return True

    node = SequencedToolNode(trip(world, broken=broken), settlement=settlement)
    retry = RetryPolicy(retry_on=heal, initial_interval=0.001, jitter=False)

    state = invoke(graph(node, retry=retry), {"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == ["book Ada", "cancel Ada", "book Ada", "rent X", "mail a"]
    assert world.keys[0] != world.keys[2]
    assert [status for status, _ in answers(state)] == ["success"] * 3
    assert states(settlement) == [(1, State.ABORTED), (2, State.COMMITTED)]


def test_without_a_settlement_a_retry_policy_repeats_no_call_that_succeeded(world, invoke):
    broken = ["rent"]

    def heal(error):
        broken.clear()
        return True

    retry = RetryPolicy(retry_on=heal, initial_interval=0.001, jitter=False)
    node = SequencedToolNode(trip(world, broken=broken))

    state = invoke(graph(node, retry=retry), {"messages": [BOOK_RENT_MAIL]})

    assert sorted(world.log) == ["book Ada", "mail a", "rent X"]
    assert [status for status, _ in answers(state)] == ["success"] * 3


def test_an_interrupt_resumes_without_repeating_a_confirmed_call(world, settlement, invoke):
    def ask(question: str) -> str:
        """Ask a human."""
        return interrupt(question)

    node = SequencedToolNode([*trip(world), ask], settlement=settlement)
    compiled = graph(node, checkpointer=InMemorySaver())
    message = turn(("book", {"hotel": "Ada"}), ("ask", {"question": "sure?"}), ("mail", {"to": "a"}))

    stopped = invoke(compiled, {"messages": [message]}, THREAD)
    assert [i.value for i in stopped["__interrupt__"]] == ["sure?"]
    assert world.log == ["book Ada"]

    state = invoke(compiled, Command(resume="yes"), THREAD)

    assert world.log == ["book Ada", "mail a"]
    assert answers(state) == [("success", "book done"), ("success", "yes"), ("success", "mail done")]
    assert states(settlement) == [(1, State.COMMITTED)]


def test_a_held_call_that_waits_for_an_approval_in_its_wrapper_leaves_once_it_is_given(world, settlement):
    def approve(request, execute):
        if request.tool_call["name"] == "mail":
            interrupt("send it?")
        return execute(request)

    node = SequencedToolNode(trip(world), settlement=settlement, wrap_tool_call=approve)
    compiled = graph(node, checkpointer=InMemorySaver())
    message = turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}), ("rent", {"plate": "X"}))

    compiled.invoke({"messages": [message]}, THREAD)
    assert world.log == ["book Ada", "rent X"]
    state = compiled.invoke(Command(resume=True), THREAD)

    assert world.log == ["book Ada", "rent X", "mail a"]
    assert [status for status, _ in answers(state)] == ["success"] * 3


def test_a_held_tool_that_asks_when_it_is_released_leaves_once_it_is_answered(world, settlement):
    def publish(page: str) -> str:
        """Publish a page."""
        if not interrupt("publish?"):
            return "kept"
        world.act(f"publish {page}")
        return "published"

    node = SequencedToolNode(
        [*trip(world), publish],
        settlement=settlement,
        effects={"publish": {"kind": "irreversible", "scope": "web:/{page}"}},
    )
    compiled = graph(node, checkpointer=InMemorySaver())

    calls = (("book", {"hotel": "Ada"}), ("publish", {"page": "p"}), ("mail", {"to": "a"}))
    stopped = compiled.invoke({"messages": [turn(*calls)]}, THREAD)
    assert [i.value for i in stopped["__interrupt__"]] == ["publish?"]
    assert world.log == ["book Ada"]  # it stands: asking undoes nothing
    state = compiled.invoke(Command(resume=True), THREAD)

    assert world.log == ["book Ada", "publish p", "mail a"]
    assert answers(state) == [("success", "book done"), ("success", "published"), ("success", "mail done")]


def crashing_after(node, *, crashes):
    """The node, in a process that dies when the node has settled and before LangGraph knows."""

    def end(update):
        if crashes:
            raise RuntimeError("the process died here")
        return update

    async def acting(state, config):
        return end(await node.ainvoke(state, config))

    return RunnableLambda(lambda state, config: end(node.invoke(state, config)), afunc=acting)


def test_a_committed_superstep_that_is_run_again_repeats_nothing_also_in_a_new_process(world, tmp_path, invoke):
    url, saver = f"sqlite:///{tmp_path / 'trip.db'}", InMemorySaver()
    with Settlement(url) as settlement:
        node = SequencedToolNode(trip(world), settlement=settlement)
        with pytest.raises(RuntimeError, match="died"):
            invoke(graph(crashing_after(node, crashes=[1]), checkpointer=saver), {"messages": [BOOK_RENT_MAIL]}, THREAD)
    ran = list(world.log)

    with Settlement(url) as settlement:
        node = SequencedToolNode(trip(world), settlement=settlement)
        state = invoke(graph(crashing_after(node, crashes=[]), checkpointer=saver), None, THREAD)
        recorded = states(settlement)

    assert ran == ["book Ada", "rent X", "mail a"]
    assert world.log == ran
    assert answers(state) == [("success", "book done"), ("success", "rent done"), ("success", "mail done")]
    assert recorded == [(1, State.COMMITTED)]


def test_a_fork_by_time_travel_acts_again_although_the_call_ids_are_the_same(world, settlement, invoke):
    compiled = graph(SequencedToolNode(trip(world), settlement=settlement), checkpointer=InMemorySaver())
    invoke(compiled, {"messages": [BOOK_RENT_MAIL]}, THREAD)
    before = next(s for s in compiled.get_state_history(THREAD) if s.next == ("tools",))

    invoke(compiled, None, before.config)

    assert world.log == ["book Ada", "rent X", "mail a"] * 2
    assert len(set(world.keys)) == 6


def test_a_wrapper_may_execute_in_a_thread_of_its_own(world, settlement):
    def threaded(request, execute):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(execute, request).result()

    node = SequencedToolNode(trip(world), settlement=settlement, wrap_tool_call=threaded)
    graph(node).invoke({"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == ["book Ada", "rent X", "mail a"]
    [recorded] = settlement.transactions()
    assert {effect.row.tool for effect in recorded.effects} == {"book", "rent", "mail"}


def test_a_call_of_a_cancelled_run_is_refused_and_nothing_acts(world, settlement, invoke):
    settlement.cancel("trip-42")

    with pytest.raises(Cancelled, match="trip-42 was cancelled"):
        invoke(graph(SequencedToolNode(trip(world), settlement=settlement)), {"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == []


async def test_an_outer_cancellation_undoes_what_happened_and_leaves_nothing_late(world, settlement):
    inside = asyncio.Event()

    async def wait(n: int) -> str:
        """Wait for ever."""
        inside.set()
        await asyncio.Event().wait()
        return str(n)

    effects = {"wait": {"kind": "idempotent", "scope": "wait:/{n}", "probe": lambda n: None}}
    node = SequencedToolNode([*trip(world), wait], settlement=settlement, effects=effects)
    message = turn(("book", {"hotel": "Ada"}), ("wait", {"n": 1}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))
    task = asyncio.create_task(graph(node).ainvoke({"messages": [message]}, THREAD))
    await inside.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert world.log == ["book Ada", "cancel Ada"]
    assert states(settlement) == [(1, State.ABORTED)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert world.log == ["book Ada", "cancel Ada"]


async def test_one_failing_async_sibling_leaves_none_running_behind_its_node(world, settlement):
    async def fail(n: int) -> str:
        """Fail."""
        raise ValueError(f"no {n}")

    async def slow(n: int) -> str:
        """Take long."""
        for _ in range(50):
            await asyncio.sleep(0)
        world.act(f"slow {n}")
        return str(n)

    node = SequencedToolNode([fail, slow], settlement=settlement, effects={"fail": "read"})
    with pytest.raises(ValueError, match="no 1"):
        await graph(node).ainvoke({"messages": [turn(("slow", {"n": 0}), ("fail", {"n": 1}))]}, THREAD)

    seen = list(world.log)
    for _ in range(200):
        await asyncio.sleep(0)
    assert world.log == seen == ["slow 0"]
    assert [residue.tool for residue in settlement.residue()] == ["slow"]


def test_the_nodes_of_one_superstep_share_its_epoch(world, settlement, invoke):
    seen = {}

    def where(name: str) -> str:
        """Tell where the call settles."""
        seen[name] = current_call().epoch
        return name

    effects = {"where": {"kind": "idempotent", "scope": "node:/{name}"}}

    builder = StateGraph(MessagesState)
    for name in ("left", "right"):
        node = SequencedToolNode([where], settlement=settlement, effects=effects)
        builder.add_node(
            name,
            lambda state, config, runtime, node=node, name=name: node.invoke(
                {"messages": [turn(("where", {"name": name}))]}, config
            ),
        )
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    builder.compile(checkpointer=InMemorySaver()).invoke({"messages": []}, THREAD)
    one_superstep = dict(seen)

    assert len(set(one_superstep.values())) == 1
    rows = [t.row for t in settlement.transactions()]
    assert len({row.epoch for row in rows}) == 1
    assert len({row.ordinal for row in rows}) == 2


def test_the_models_words_are_recorded_as_the_why_of_its_effects(world, settlement, invoke):
    node = SequencedToolNode(trip(world), settlement=settlement)
    message = turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}), text="Ada is nearest.")

    invoke(graph(node), {"messages": [message]}, THREAD)

    [recorded] = settlement.transactions()
    assert {e.row.tool: e.row.rationale for e in recorded.effects} == {
        "book": "Ada is nearest. [ai-1]",
        "mail": "Ada is nearest. [ai-1]",
    }


def test_a_wrapper_that_tries_a_failed_call_again_keeps_its_key_and_the_turn_goes_on(world, settlement):
    broken = ["rent"]
    tries = []

    def retrying(request, execute):
        try:
            return execute(request)
        except ValueError:
            tries.append(request.tool_call["name"])
            broken.clear()
            return execute(request)

    node = SequencedToolNode(
        trip(world, broken=broken), settlement=settlement, wrap_tool_call=retrying, handle_tool_errors=False
    )
    state = graph(node).invoke({"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert (tries, world.log) == (["rent"], ["book Ada", "rent X", "mail a"])
    assert [status for status, _ in answers(state)] == ["success"] * 3
    [recorded] = settlement.transactions()
    assert (recorded.state, len(recorded.effects)) == (State.COMMITTED, 3)


def test_a_wrapper_that_executes_a_call_twice_gets_the_recorded_result(world, settlement):
    node = SequencedToolNode(
        trip(world),
        settlement=settlement,
        wrap_tool_call=lambda request, execute: (execute(request), execute(request))[1],
    )
    state = graph(node).invoke({"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == ["book Ada", "rent X", "mail a"]
    assert [status for status, _ in answers(state)] == ["success"] * 3


def test_a_wrapper_that_answers_itself_does_not_keep_the_later_calls_waiting(world, settlement):
    def cached(request, execute):
        if request.tool_call["name"] == "book":
            return ToolMessage("from the cache", tool_call_id=request.tool_call["id"])
        return execute(request)

    node = SequencedToolNode(trip(world), settlement=settlement, wrap_tool_call=cached)
    state = graph(node).invoke({"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == ["rent X", "mail a"]
    assert answers(state)[0] == ("success", "from the cache")


async def test_a_synchronous_wrapper_in_an_async_node_does_not_block_a_held_call(world, settlement):
    node = SequencedToolNode(
        trip(world), settlement=settlement, wrap_tool_call=lambda request, execute: execute(request)
    )
    state = await graph(node).ainvoke({"messages": [BOOK_RENT_MAIL]}, THREAD)

    assert world.log == ["book Ada", "rent X", "mail a"]
    assert answers(state) == [("success", "book done"), ("success", "rent done"), ("success", "mail done")]


def test_arguments_that_name_no_resource_are_told_to_the_model_and_nothing_ran(world, settlement, invoke):
    node = SequencedToolNode(trip(world), settlement=settlement)

    state = invoke(graph(node), {"messages": [turn(("book", {"hotel": ""}))]}, THREAD)

    [(status, text)] = answers(state)
    assert status == "error"
    assert text.startswith("ScopeError: ")
    assert world.log == []


def test_a_sub_agent_inside_a_tool_call_is_a_part_of_its_callers_transaction(world, settlement):
    inner = SequencedToolNode(trip(world), settlement=settlement)

    def delegate(hotel: str) -> str:
        """Let a sub-agent book."""
        state = graph(inner).invoke({"messages": [turn(("book", {"hotel": hotel}))]})
        return answers(state)[0][1]

    node = SequencedToolNode([delegate, *trip(world, broken=("rent",))], settlement=settlement, handle_tool_errors=True)
    graph(node).invoke({"messages": [turn(("delegate", {"hotel": "Ada"}), ("rent", {"plate": "X"}))]}, THREAD)

    assert world.log == ["book Ada", "cancel Ada"]
    assert states(settlement) == [(1, State.ABORTED)]


def test_an_unknown_outcome_is_told_to_the_model_in_its_own_terms(world, settlement, invoke):
    def pay(to: str) -> str:
        """Pay."""
        raise TimeoutError("no answer")

    node = SequencedToolNode(
        [pay, *trip(world)], settlement=settlement, effects={"pay": {"kind": "irreversible", "scope": "card:/{to}"}}
    )
    state = invoke(graph(node), {"messages": [turn(("book", {"hotel": "Ada"}), ("pay", {"to": "x"}))]}, THREAD)

    assert answers(state)[1] == (
        "error",
        (
            "InDoubt: the outcome of pay on card:/x is unknown: do not repeat it; say so, or find out first whether it"
            " happened"
        ),
    )
    assert "declare" not in answers(state)[0][1]


# ---- a wrapper that gives up waiting


def giving_up(reached, given_up, *, again=False):
    """A wrapper that cancels the execution of a mail once `reached`, and answers for it or tries it again."""

    async def guard(request, execute):
        if request.tool_call["name"] != "mail":
            return await execute(request)
        executing = asyncio.ensure_future(execute(request))
        await reached()
        executing.cancel()
        await asyncio.wait([executing])
        given_up.set()
        assert executing.cancelled()
        if again:
            return await execute(request)
        return ToolMessage("timed out: not sent", name="mail", tool_call_id=request.tool_call["id"])

    return guard


@pytest.mark.parametrize("again", [False, True])
async def test_a_held_call_that_a_wrapper_gives_up_does_not_leave_unless_it_is_tried_again(world, settlement, again):
    given_up = asyncio.Event()

    async def held():
        for _ in range(100):
            await asyncio.sleep(0)
        assert {e.row.tool for t in settlement.transactions() for e in t.effects} == {"slow", "mail"}

    async def slow(n: int) -> str:
        """Take as long as the wrapper does."""
        await given_up.wait()
        world.act(f"slow {n}")
        return str(n)

    effects = {"slow": {"kind": "idempotent", "scope": "slow:/{n}"}}
    guard = giving_up(held, given_up, again=again)
    node = SequencedToolNode([*trip(world), slow], settlement=settlement, effects=effects, awrap_tool_call=guard)
    state = await graph(node).ainvoke({"messages": [turn(("slow", {"n": 1}), ("mail", {"to": "a"}))]}, THREAD)

    [recorded] = settlement.transactions()
    outcomes = {(effect.row.tool, effect.outcome.value) for effect in recorded.effects}
    assert recorded.state is State.COMMITTED
    if again:
        assert world.log == ["slow 1", "mail a"]
        assert answers(state) == [("success", "1"), ("success", "mail done")]
        assert outcomes == {("slow", "confirmed"), ("mail", "dropped"), ("mail", "confirmed")}
    else:
        assert world.log == ["slow 1"]
        assert answers(state) == [("success", "1"), ("success", "timed out: not sent")]
        assert outcomes == {("slow", "confirmed"), ("mail", "dropped")}


async def test_a_held_call_that_was_leaving_when_its_wrapper_gave_up_answers_with_what_became_of_it(world, settlement):
    leaving, go = asyncio.Event(), asyncio.Event()

    async def mail(to: str) -> str:
        """Send."""
        leaving.set()
        await go.wait()
        world.act(f"mail {to}")
        return "sent"

    async def soon():
        await leaving.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        go.set()

    effects = {"mail": {"kind": "irreversible", "scope": "mail:/{to}"}}
    guard = giving_up(leaving.wait, asyncio.Event())
    node = SequencedToolNode([mail], settlement=settlement, effects=effects, awrap_tool_call=guard)
    state, _ = await asyncio.gather(graph(node).ainvoke({"messages": [turn(("mail", {"to": "a"}))]}, THREAD), soon())

    assert world.log == ["mail a"]
    assert answers(state) == [("success", "sent")]
    assert states(settlement) == [(1, State.COMMITTED)]
