"""A call that needs a person's yes is an interrupt of LangGraph's, and acts as it was approved or not at all."""

from __future__ import annotations

import asyncio
from typing import TypedDict

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from tests.integrations.langgraph.test_shared_turns import Model
from tests.integrations.langgraph.world import THREAD, answers, graph, turn

from settlemark import DeclarationError, Settlement, State, UsageError, WaitTimeout, effect
from settlemark.hosting import host_of
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, approve, edit, reject, settled_checkpointer

MAIL = {"kind": "irreversible", "scope": "mail:/{to}", "approve": True}


def desk(world, *, broken=(), needs=("rent", "mail", "pay")):
    """Tools of every class; those that act and are named in `needs` need a yes, `pay` from 100 on."""

    def happen(name, detail):
        if name in broken:
            broken.discard(name)
            raise ValueError(f"{name} is down")
        world.act(f"{name} {detail}")
        return f"{name} done"

    def cancel_car(plate: str):
        world.act(f"cancel {plate}")

    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: world.act(f"cancel {hotel}"))
    def book(hotel: str) -> str:
        """Book a room."""
        return happen("book", hotel)

    @effect("reversible", scope="car:/{plate}", undo=cancel_car, approve="rent" in needs)
    def rent(plate: str) -> str:
        """Rent a car."""
        return happen("rent", plate)

    @effect("irreversible", scope="mail:/{to}", approve="mail" in needs)
    def mail(to: str, text: str = "hello") -> str:
        """Send a mail."""
        return happen("mail", f"{to} {text}")

    @effect("opaque", approve=(lambda amount: amount >= 100) if "pay" in needs else False)
    def pay(amount: int) -> str:
        """Pay."""
        return happen("pay", amount)

    @effect("read", scope="price:/{item}")
    def look(item: str) -> str:
        """Look a price up."""
        return f"price of {item}"

    @effect("opaque")
    def ask(question: str) -> str:
        """Ask a person."""
        answer = interrupt(question)
        world.act(f"ask {question} {answer}")
        return answer

    @effect("opaque", approve=True)
    def negotiate() -> str:
        """Ask a person twice."""
        answer = f"{interrupt('how much?')} {interrupt('when?')}"
        world.act(f"negotiate {answer}")
        return answer

    return [_both(f) for f in (book, rent, mail, pay, look, ask, negotiate)]


def _both(function):
    async def coroutine(**arguments):
        return function(**arguments)

    return StructuredTool.from_function(function, coroutine=coroutine, name=function.__name__)


class Node:
    """A turn whose calls are one task: a graph of one tool node."""

    def built(self, tools, message, settlement, saver, **options):
        del message
        return graph(SequencedToolNode(tools, settlement=settlement, **options), checkpointer=saver)

    def begun(self, message):
        return {"messages": [message]}


class Agent:
    """A turn whose calls are a task each: an agent, with or without its first message still to say."""

    def built(self, tools, message, settlement, saver, *, behind=(), **options):
        said = iter([*([message] if message else []), AIMessage("done", id="ai-done")])
        middleware = [SettlementMiddleware(settlement, **options), *behind]
        return create_agent(Model(messages=said, told=[]), tools, middleware=middleware, checkpointer=saver)

    def begun(self, message):
        del message
        return {"messages": [HumanMessage("go")]}


@pytest.fixture(params=[Node, Agent], ids=["node", "create_agent"])
def kind(request):
    return request.param()


@pytest.fixture
def start(world, settlement, kind, invoke):
    """Begin a turn of these calls; return its graph, and what the graph said first."""

    def start(*calls, tools=None, **options):
        message = turn(*calls)
        built = kind.built(tools or desk(world), message, settlement, InMemorySaver(), **options)
        return built, invoke(built, kind.begun(message), THREAD)

    return start


@pytest.fixture
def resume(invoke):
    """Answer the first question that is open, in the order of the calls."""

    def resume(built, answer, config=THREAD):
        return invoke(built, answering(built.get_state(config), answer), config)

    return resume


def answering(state, answer):
    """Return the command that answers the first open question; LangGraph wants it named where there are several."""
    first, *others = state.interrupts
    return Command(resume={first.id: answer} if others else answer)


def questions(*said):
    """What a graph asks in these answers; each has a question once."""
    found = [i for one in said for i in one.get("__interrupt__", ())]
    assert all(len({i.id for i in one.get("__interrupt__", ())}) == len(one.get("__interrupt__", ())) for one in said)
    new = {i.id: i.value for i in found}
    return [value if isinstance(value, str) else (value["tool"], value["arguments"]) for value in new.values()]


def in_any_order(asked):
    """Return questions in one order: those that are asked at once come in any."""
    return sorted(asked, key=str)


def states(settlement):
    return [t.state for t in settlement.transactions()]


# ---- what is asked


def test_a_gate_is_an_interrupt_that_tells_the_call_its_reason_and_what_it_would_do(start, world, settlement, kind):
    _, said = start(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))

    (asked,) = said["__interrupt__"]
    (trip,) = settlement.transactions()
    assert asked.value == {
        "kind": "settlemark.gate", "tool": "mail", "class": "irreversible", "scope": "mail:/a",
        "arguments": {"to": "a"}, "rationale": "I act. [ai-1]", "key": f"{trip.row.name}#1/1:call-1",
        "transaction": trip.row.name,
        "would": 'mail would act on mail:/a with to="a" when its step settles; that cannot be undone',
    }  # fmt: skip # a table
    assert world.log == ["book Ada"]
    assert [effect.outcome.value for effect in trip.effects] == ["confirmed", "suspended"]


def test_a_predicate_over_the_request_says_which_calls_are_asked_about(start, resume, world):
    built, said = start(("pay", {"amount": 99}), ("pay", {"amount": 100}))

    assert questions(said) == [("pay", {"amount": 100})]
    assert world.log == ["pay 99"]
    resume(built, "approve")
    assert world.log == ["pay 99", "pay 100"]


@pytest.mark.parametrize("answer", [True, "approve", {"decision": "approve"}, approve()])
def test_a_yes_in_any_of_its_forms_lets_the_call_run_as_it_was_shown(start, resume, world, settlement, answer):
    built, _ = start(("rent", {"plate": "X"}))

    said = resume(built, answer)

    assert world.log == ["rent X"]
    assert answers(said) == [("success", "rent done")]
    assert states(settlement) == [State.COMMITTED]
    assert host_of(settlement).protocol.live == {}


# ---- order

THREE = (("mail", {"to": "a"}), ("rent", {"plate": "X"}), ("book", {"hotel": "Ada"}), ("mail", {"to": "b"}))


def test_gates_of_a_turn_are_asked_one_after_the_other_or_all_at_once_and_each_answer_is_its_own(
    start, resume, world, settlement, kind
):
    built, said = start(*THREE)
    all_said = [said]
    assert len(questions(said)) == 3
    for answer, acted in ((edit({"to": "1"}), []), (edit({"plate": "2"}), ["rent 2", "book Ada"])):
        all_said.append(resume(built, answer))
        assert world.log == acted
    said = resume(built, edit({"to": "3"}))

    asked = questions(*all_said)
    assert in_any_order(asked) == in_any_order([("mail", {"to": "a"}), ("rent", {"plate": "X"}), ("mail", {"to": "b"})])
    assert world.log == ["rent 2", "book Ada", "mail 1 hello", "mail 3 hello"]
    assert [text for _, text in answers(said)] == ["mail done", "rent done", "book done", "mail done"]
    assert states(settlement) == [State.COMMITTED]
    assert len(set(world.keys)) == 4


@pytest.mark.parametrize("limit", [1, 2])
def test_that_few_calls_run_at_once_changes_nothing_of_it(world, settlement, kind, invoke, resume, limit):
    config = {**THREAD, "max_concurrency": limit}
    message = turn(("rent", {"plate": "X"}), ("pay", {"amount": 100}), ("book", {"hotel": "Ada"}))
    built = kind.built(desk(world), message, settlement, InMemorySaver())

    first = invoke(built, kind.begun(message), config)
    second = resume(built, "approve", config)
    assert world.log == ["rent X"]
    said = resume(built, "approve", config)

    assert in_any_order(questions(first, second)) == [("pay", {"amount": 100}), ("rent", {"plate": "X"})]
    assert world.log == ["rent X", "pay 100", "book Ada"]
    assert [text for _, text in answers(said)] == ["rent done", "pay done", "book done"]


@pytest.mark.parametrize("park", ["keep", "split"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_each_answer_may_come_to_a_process_of_its_own(tmp_path, world, kind, mode, park):
    message = turn(*THREE)

    def process(given, said):
        with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
            if mode == "async":
                return asyncio.run(awaited(given, said, settlement))
            with SqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
                built = kind.built(desk(world), said, settlement, saver, park=park)
                return built.invoke(answering(built.get_state(THREAD), given) if said is None else given, THREAD)

    async def awaited(given, said, settlement):
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
            built = kind.built(desk(world), said, settlement, saver, park=park)
            return await built.ainvoke(
                answering(await built.aget_state(THREAD), given) if said is None else given, THREAD
            )

    all_said = [process(kind.begun(message), message)]
    for answer in (edit({"to": "1"}), edit({"plate": "2"}), edit({"to": "3"})):
        said = process(answer, None)
        all_said.append(said)

    asked = questions(*all_said)
    assert in_any_order(asked) == in_any_order([("mail", {"to": "a"}), ("rent", {"plate": "X"}), ("mail", {"to": "b"})])
    first, booked = ["mail 1 hello"], ["rent 2", "book Ada"]  # split, the mail is settled when rent is asked about
    assert world.log == [*(booked + first if park == "keep" else first + booked), "mail 3 hello"]
    assert [text for _, text in answers(said)] == ["mail done", "rent done", "book done", "mail done"]
    assert len(set(world.keys)) == 4
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        assert set(states(settlement)) == {State.COMMITTED}
        assert settlement.residue() == settlement.in_doubt() == settlement.parked() == []


def test_a_later_call_does_not_act_while_an_earlier_one_waits_for_an_answer(start, resume, world):
    built, _ = start(("rent", {"plate": "X"}), ("book", {"hotel": "Ada"}))
    assert world.log == []

    resume(built, "approve")

    assert world.log == ["rent X", "book Ada"]


def test_one_on_another_scope_does_where_the_order_was_relaxed(start, resume, world):
    built, _ = start(("rent", {"plate": "X"}), ("book", {"hotel": "Ada"}), order="scopes")
    assert world.log == ["book Ada"]

    resume(built, "approve")

    assert world.log == ["book Ada", "rent X"]


class Asked(TypedDict):
    answers: list


def test_with_stock_a_resume_without_an_answer_gives_the_next_question_the_last_one():
    builder = StateGraph(Asked)
    builder.add_node("ask", lambda state: {"answers": [interrupt("first"), interrupt("second")]})
    builder.add_edge(START, "ask")
    stock = builder.compile(checkpointer=InMemorySaver())
    stock.invoke({"answers": []}, THREAD)
    stock.invoke(Command(resume="approve"), THREAD)

    assert stock.invoke(None, THREAD) == {"answers": ["approve", "approve"]}


def test_a_resume_without_an_answer_approves_nothing(start, resume, invoke, world):
    built, _ = start(("rent", {"plate": "X"}), ("pay", {"amount": 100}))
    resume(built, "approve")
    assert world.log == ["rent X"]

    said = invoke(built, None, THREAD)

    assert questions(said) == [("pay", {"amount": 100})]
    assert world.log == ["rent X"]
    resume(built, "approve")
    assert world.log == ["rent X", "pay 100"]


def test_questions_of_a_tools_own_and_gates_have_each_their_own_answer(start, resume, world):
    built, said = start(
        ("ask", {"question": "1"}), ("rent", {"plate": "X"}), ("ask", {"question": "2"}), ("pay", {"amount": 100})
    )
    all_said = [said, *(resume(built, answer) for answer in ("one", "approve", "two", "approve"))]

    asked = ["1", ("rent", {"plate": "X"}), "2", ("pay", {"amount": 100})]
    assert in_any_order(questions(*all_said)) == in_any_order(asked)
    assert world.log == ["ask 1 one", "rent X", "ask 2 two", "pay 100"]


def test_a_tool_that_needs_a_yes_and_then_asks_itself_is_asked_about_once(start, resume, world):
    built, said = start(("negotiate", {}), ("rent", {"plate": "X"}))
    all_said = [said, *(resume(built, answer) for answer in ("approve", "10", "now", "approve"))]

    asked = [("negotiate", {}), "how much?", "when?", ("rent", {"plate": "X"})]
    assert in_any_order(questions(*all_said)) == in_any_order(asked)
    assert world.log == ["negotiate 10 now", "rent X"]


# ---- no


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (False, "Rejected: rent was rejected by a human; nothing of it happened: plan again without this call"),
        (
            reject("no car"),
            "Rejected: rent was rejected by a human: no car; nothing of it happened: plan again without this call",
        ),
    ],
)
def test_a_no_is_told_to_the_model_undoes_what_came_before_and_stops_what_comes_after(
    start, resume, world, settlement, answer, told
):
    built, _ = start(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))

    said = resume(built, answer)

    assert world.log == ["book Ada", "cancel Ada"]
    undone, rejected, never = answers(said)
    assert undone == ("error", f"undone: book had succeeded, and was undone because rent failed: {told}")
    assert rejected == ("error", told)
    assert never == (
        "error",
        "Refused: mail was not run: rent, issued before it, failed; decide again from that failure",
    )
    assert questions(said) == []
    assert states(settlement) == [State.ABORTED]
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


def test_where_failures_do_not_stop_a_turn_a_no_does_not_either(world, kind, invoke, resume):
    with Settlement("memory:", on_failure="continue") as settlement:
        message = turn(("rent", {"plate": "X"}), ("mail", {"to": "a"}), ("pay", {"amount": 100}))
        built = kind.built(desk(world), message, settlement, InMemorySaver())
        invoke(built, kind.begun(message), THREAD)
        for answer in ("reject", reject("no mail"), "approve"):
            said = resume(built, answer)

        assert world.log == ["pay 100"]
        assert [status for status, _ in answers(said)] == ["error", "error", "success"]
        assert states(settlement) == [State.COMMITTED]


# ---- other arguments


def test_other_arguments_run_once_on_their_own_scope_and_are_on_record_with_those_they_replace(
    start, resume, world, settlement
):
    built, _ = start(("rent", {"plate": "X"}), ("pay", {"amount": 100}))
    resume(built, edit({"plate": "Y"}))
    assert world.log == ["rent Y"]

    said = resume(built, edit({"amount": 7}))

    assert world.log == ["rent Y", "pay 7"]
    assert answers(said) == [("success", "rent done"), ("success", "pay done")]
    (trip,) = settlement.transactions()
    name = trip.row.name
    assert [
        (e.row.arguments, e.row.scope, e.outcome.value, e.disposed.told) for e in trip.effects if e.row.tool == "rent"
    ] == [
        ('{"plate":"X"}', "car:/X", "dropped", f"approved with other arguments as {name}#1/0.0:call-0"),
        ('{"plate":"Y"}', "car:/Y", "confirmed", f"approved by a person, in place of {name}#1/0:call-0"),
    ]
    assert world.keys[0] == f"{name}#1/0.0:call-0"


def test_what_was_approved_with_other_arguments_is_undone_with_them(start, resume, world):
    built, _ = start(("rent", {"plate": "X"}), ("mail", {"to": "a"}))
    resume(built, edit({"plate": "Y"}))

    said = resume(built, "reject")

    assert world.log == ["rent Y", "cancel Y"]
    assert answers(said)[0][1].startswith("undone: rent had succeeded, and was undone because mail failed: Rejected")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("maybe", '\'maybe\' is not a decision: answer "approve" (or True), "reject" (or False)'),
        ({"decision": "edit"}, '"edit" needs all "arguments" of the call, not None'),
        (edit({}), "mail does not take {}: to: Field required; nothing was run"),
        (edit({"to": "b", "cc": "c"}), "mail does not take {'to': 'b', 'cc': 'c'}: it has no 'cc'; nothing was run"),
        (edit({"to": 7}), "mail does not take {'to': 7}: to: Input should be a valid string; nothing was run"),
        (edit({"to": ""}), "mail:/{to}"),
    ],
)
def test_what_is_no_answer_is_asked_again_with_what_was_wrong_and_nothing_acted(start, resume, world, answer, error):
    built, _ = start(("mail", {"to": "a"}))

    said = resume(built, answer)

    assert error in said["__interrupt__"][0].value["error"]
    assert questions(said) == [("mail", {"to": "a"})]
    assert world.log == []
    said = resume(built, "approve")
    assert world.log == ["mail a hello"]
    assert answers(said) == [("success", "mail done")]


# ---- an approval is for what was shown


def test_an_answer_approves_nothing_that_was_not_asked_about(start, resume, invoke, world, kind):
    built, _ = start(("mail", {"to": "a"}))
    config = built.update_state(THREAD, {"messages": [turn(("mail", {"to": "everybody"}))]}, as_node=_before(kind))

    said = invoke(built, Command(resume="approve"), config)

    assert questions(said) == [("mail", {"to": "everybody"})]
    assert world.log == []
    resume(built, "approve")
    assert world.log == ["mail everybody hello"]


def _before(kind):
    return "__start__" if isinstance(kind, Node) else "model"


def test_a_call_whose_arguments_changed_while_it_waited_is_not_the_one_that_was_approved(world, settlement, invoke):
    to = ["a"]

    def rewrite(request, handler):
        return handler(request.override(tool_call={**request.tool_call, "args": {"to": to[0]}}))

    async def arewrite(request, handler):
        return await handler(request.override(tool_call={**request.tool_call, "args": {"to": to[0]}}))

    node = SequencedToolNode(desk(world), settlement=settlement, wrap_tool_call=rewrite, awrap_tool_call=arewrite)
    built = graph(node, checkpointer=InMemorySaver())
    invoke(built, {"messages": [turn(("mail", {"to": "x"}))]}, THREAD)
    to[0] = "everybody"

    said = invoke(built, Command(resume="approve"), THREAD)

    assert world.log == []
    assert answers(said)[0][0] == "error"
    assert 'was mail({"to":"a"}) before and is mail({"to":"everybody"}) now: nothing was run' in answers(said)[0][1]


def test_a_failing_call_is_tried_again_with_the_yes_it_has(world, settlement, invoke):
    retry = ToolRetryMiddleware(max_retries=1, initial_delay=0.0, jitter=False)
    message = turn(("rent", {"plate": "X"}))
    built = Agent().built(desk(world, broken={"rent"}), message, settlement, InMemorySaver(), behind=[retry])
    invoke(built, Agent().begun(message), THREAD)

    said = invoke(built, Command(resume=edit({"plate": "Y"})), THREAD)

    assert world.log == ["rent Y"]
    assert answers(said) == [("success", "rent done")]
    assert questions(said) == []


# ---- the world is looked at again


@pytest.mark.parametrize("park", ["keep", "split"])
@pytest.mark.parametrize("call", [("rent", {"plate": "X"}), ("mail", {"to": "a"})], ids=["rent", "mail"])
def test_what_was_read_and_changed_while_it_waited_refuses_it_and_the_model_is_told(
    start, resume, world, settlement, call, park
):
    with settlement.transaction("older") as older:
        built, _ = start(("look", {"item": "Ada"}), call, park=park)
        older.read("price:/Ada")
        older.call(_raise_price, item="Ada")
        older.commit()
        said = resume(built, "approve")

    assert world.log == []
    status, told = answers(said)[1]
    assert status == "error"
    assert told.startswith("Stale: ")
    assert "price:/Ada changed" in told
    assert State.ABORTED in states(settlement)
    assert host_of(settlement).protocol.live == {}


@effect("idempotent", scope="price:/{item}")
def _raise_price(item):
    """The counterparty's own doing: nothing of it concerns the world here."""


@pytest.mark.parametrize("park", ["keep", "split"])
def test_what_changed_behind_its_back_and_was_read_live_refuses_it_too(start, resume, world, settlement, park):
    tags = [1]
    settlement.declare("look", "read", scope="price:/{item}", live=lambda item: (item, tags[-1]))
    built, _ = start(("look", {"item": "Ada"}), ("rent", {"plate": "X"}), park=park)
    tags.append(2)

    said = resume(built, "approve")

    assert world.log == []
    assert "price:/Ada changed, from outside, after it was read" in answers(said)[1][1]
    assert host_of(settlement).protocol.live == {}


# ---- while it waits


def test_kept_it_holds_what_it_did_and_what_it_is_about_until_the_answer(start, resume, world, settlement):
    built, _ = start(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}))

    for scope in ("room:/Ada", "car:/X"):
        with settlement.transaction(f"other {scope}", wait=0) as other, pytest.raises(WaitTimeout, match=scope):
            other.read(scope)
    resume(built, "approve")

    assert world.log == ["book Ada", "rent X"]


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_split_what_came_before_settles_and_the_gate_waits_alone_and_holds_nothing(
    start, resume, world, settlement, answer
):
    built, said = start(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("pay", {"amount": 1}), park="split")
    assert questions(said) == [("rent", {"plate": "X"})]
    assert world.log == ["book Ada"]
    assert states(settlement) == [State.COMMITTED, State.OPEN]
    assert [txn.holds for txn in host_of(settlement).protocol.live.values()] == [{}]

    said = resume(built, answer)

    if answer == "approve":
        assert world.log == ["book Ada", "rent X", "pay 1"]
        assert [status for status, _ in answers(said)] == ["success"] * 3
        assert states(settlement) == [State.COMMITTED] * 2
    else:
        assert world.log == ["book Ada"]
        assert [status for status, _ in answers(said)] == ["success", "error", "error"]
        assert states(settlement) == [State.COMMITTED, State.ABORTED]
    assert len(set(world.keys)) == len(world.keys)
    assert host_of(settlement).protocol.live == {}
    assert settlement.residue() == []


def test_split_what_is_irreversible_and_was_issued_before_the_gate_leaves_and_what_was_issued_behind_it_does_not(
    start, resume, world, settlement
):
    tools = desk(world, needs=("rent",))
    built, _ = start(("mail", {"to": "a"}), ("rent", {"plate": "X"}), ("mail", {"to": "b"}), tools=tools, park="split")
    assert world.log == ["mail a hello"]

    resume(built, "approve")

    assert world.log == ["mail a hello", "rent X", "mail b hello"]
    assert host_of(settlement).protocol.live == {}


def test_a_question_that_is_asked_again_does_not_split_again(start, resume, world, settlement):
    built, _ = start(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), park="split")
    for answer in ("maybe", "perhaps"):
        resume(built, answer)

    assert states(settlement) == [State.COMMITTED, State.OPEN]
    resume(built, "approve")
    assert world.log == ["book Ada", "rent X"]


def test_only_its_graph_answers_it(start, resume, world, settlement):
    built, _ = start(("mail", {"to": "a"}))
    (parked,) = settlement.parked()

    with pytest.raises(UsageError, match="waits in its framework, which resumes it with the answer"):
        settlement.answer(parked.transaction, approve=True)

    assert world.log == []
    resume(built, "approve")
    assert world.log == ["mail a hello"]


# ---- other graphs


def test_nodes_that_wait_at_once_are_answered_by_the_ids_of_their_questions(world, settlement, invoke):
    builder = StateGraph(MessagesState)
    for number in range(2):
        said = turn(("rent", {"plate": f"{number}"}), ("mail", {"to": f"{number}", "text": ""}))
        node = SequencedToolNode(desk(world), settlement=settlement)
        builder.add_node(f"tools {number}", _on(node, said))
        builder.add_edge(START, f"tools {number}")
        builder.add_edge(f"tools {number}", END)
    built = builder.compile(checkpointer=InMemorySaver())

    said = invoke(built, {"messages": [HumanMessage("go")]}, THREAD)
    asked = [("mail", {"to": "0", "text": ""}), ("mail", {"to": "1", "text": ""}), ("rent", {"plate": "0"})]
    assert in_any_order(questions(said)) == in_any_order([*asked, ("rent", {"plate": "1"})])
    while said.get("__interrupt__"):
        by_id = {i.id: edit(_marked(i.value["arguments"])) for i in said["__interrupt__"]}
        said = invoke(built, Command(resume=by_id), THREAD)

    assert sorted(world.log) == ["mail 0! !", "mail 1! !", "rent 0!", "rent 1!"]
    assert states(settlement) == [State.COMMITTED] * 2


def _marked(arguments):
    return {name: f"{value}!" for name, value in arguments.items()}


def _on(node, said):
    """A subgraph that says what the model would, and runs the node."""
    builder = StateGraph(MessagesState)
    builder.add_node("say", lambda _state: {"messages": [said]})
    builder.add_node("tools", node)
    builder.add_edge(START, "say")
    builder.add_edge("say", "tools")
    return builder.compile()


def test_a_gate_in_a_graph_within_a_graph_is_asked_and_answered_alike(world, settlement, invoke):
    said = turn(("rent", {"plate": "X"}), ("pay", {"amount": 100}))
    builder = StateGraph(MessagesState)
    builder.add_node("inner", _on(SequencedToolNode(desk(world), settlement=settlement), said))
    builder.add_edge(START, "inner")
    built = builder.compile(checkpointer=InMemorySaver())

    said = invoke(built, {"messages": []}, THREAD)
    rent = next(one.id for one in said["__interrupt__"] if one.value["tool"] == "rent")
    given = (Command(resume={rent: "approve"}), None, Command(resume="approve"))
    asked = [questions(said), *(questions(invoke(built, each, THREAD)) for each in given)]

    both = [("rent", {"plate": "X"}), ("pay", {"amount": 100})]
    assert asked == [both, both[1:], both[1:], []]
    assert world.log == ["rent X", "pay 100"]


@pytest.mark.parametrize("settle", ["call", "superstep", "run"])
def test_what_settles_together_otherwise_waits_alike(world, settlement, invoke, resume, kind, settle):
    message = turn(("book", {"hotel": "Ada"}), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))
    saver = settled_checkpointer(InMemorySaver(), settlement)
    built = kind.built(desk(world), message, settlement, saver, settle=settle)

    first = invoke(built, kind.begun(message), THREAD)
    assert world.log == ["book Ada"]
    second = resume(built, "approve")
    assert world.log == ["book Ada", "rent X"]
    resume(built, "approve")

    assert in_any_order(questions(first, second)) == [("mail", {"to": "a"}), ("rent", {"plate": "X"})]
    assert world.log == ["book Ada", "rent X", "mail a hello"]
    assert set(states(settlement)) == {State.COMMITTED}
    assert host_of(settlement).protocol.live == {}


def test_where_nothing_can_be_resumed_nothing_acts_and_nothing_waits(world, settlement, kind, invoke):
    message = turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))
    built = kind.built(desk(world), message, settlement, None)

    with pytest.raises(UsageError, match=r"mail needs a person's yes, and there is nobody to ask: nothing was run"):
        invoke(built, kind.begun(message))

    assert world.log == []
    assert settlement.transactions() == []
    assert host_of(settlement).protocol.live == {}


def test_where_nothing_can_be_resumed_a_call_that_cannot_be_taken_is_told_what_is_wrong_with_it(
    world, settlement, kind, invoke
):
    message = turn(("mail", {"whom": "a"}))

    said = invoke(kind.built(desk(world), message, settlement, None), kind.begun(message))

    ((status, text),) = answers(said)
    assert (status, "nobody to ask" in text, "to\n" in text or "to:" in text) == ("error", False, True)
    assert (world.log, settlement.residue(), host_of(settlement).protocol.live) == ([], [], {})


def test_where_nothing_can_be_resumed_an_approver_of_the_settlement_is_asked(world, kind, invoke):
    message = turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))
    asked = []
    with Settlement("memory:", approver=lambda gate: asked.append(gate.tool) or "approve") as asking:
        invoke(kind.built(desk(world), message, asking, None), kind.begun(message))
        assert host_of(asking).protocol.live == {}

    assert (asked, world.log) == (["mail"], ["book Ada", "mail a hello"])


def test_a_gated_call_inside_of_a_tool_is_refused_with_whom_to_give(world, settlement, invoke):
    inner = next(tool.func for tool in desk(world) if tool.name == "mail")

    def delegate() -> str:
        """Have somebody else do it."""
        with settlement.transaction() as tx:
            tx.call(inner, to="a")
        return "done"

    tools = [StructuredTool.from_function(delegate)]
    built = graph(
        SequencedToolNode(tools, settlement=settlement, handle_tool_errors=True), checkpointer=InMemorySaver()
    )

    said = built.invoke({"messages": [turn(("delegate", {}))]}, THREAD)

    assert "mail needs a person's yes, and there is nobody to ask" in answers(said)[0][1]
    assert world.log == []


# ---- at construction


def test_a_node_without_a_settlement_refuses_a_tool_that_needs_a_yes(world):
    with pytest.raises(DeclarationError, match="rent needs a person's yes .* pass settlement=Settlement"):
        SequencedToolNode(desk(world))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"park": "drop"}, "park='drop': choose one of 'keep', 'split'"),
        ({"park": "split", "settle": "run"}, "park=\"split\" with settle='run': what turns share waits as a whole"),
    ],
)
def test_what_is_no_way_to_wait_is_refused(settlement, options, told):
    for build in (
        lambda: SequencedToolNode([], settlement=settlement, **options),
        lambda: SettlementMiddleware(settlement, **options),
    ):
        with pytest.raises(UsageError) as caught:
            build()
        assert told in str(caught.value)
