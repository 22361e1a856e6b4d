"""Calls act in the order in which the model issued them; the stock node is the control."""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.types import Send
from tests.integrations.langgraph.world import THREAD, answers, graph, trip, turn
from tests.rooms.langgraph import Superstep

from settlemark import DeclarationError, Settlement, Tag, UsageError, effect
from settlemark_langgraph import SequencedToolNode

FIVE = turn(*[("act", {"n": n}) for n in range(5)])


def slow_tool(world, patience):
    """A tool whose call n takes longer than call n + 1: it waits for that one as long as it has patience."""
    acted = [threading.Event() for _ in range(6)]
    acted[5].set()

    def act(n: int) -> str:
        """Act."""
        acted[n + 1].wait(patience)
        world.act(n)
        acted[n].set()
        return str(n)

    return act


@pytest.mark.parametrize("settled", [False, True])
def test_effects_of_one_turn_happen_in_issuance_order_and_in_the_reverse_one_with_the_stock_node(
    world, settlement, settled
):
    graph(ToolNode([slow_tool(world, 30)])).invoke({"messages": [FIVE]})
    stock, world.log = world.log, []

    state = graph(SequencedToolNode([slow_tool(world, 0.02)], settlement=settlement if settled else None)).invoke(
        {"messages": [FIVE]}
    )

    assert stock == [4, 3, 2, 1, 0]
    assert world.log == [0, 1, 2, 3, 4]
    assert answers(state) == [("success", str(n)) for n in range(5)]


@pytest.mark.parametrize("settled", [False, True])
async def test_effects_of_one_async_turn_happen_in_issuance_order(world, settlement, settled):
    async def act(n: int) -> str:
        """Act."""
        for _ in range((5 - n) * 20):  # latency in steps of the event loop
            await asyncio.sleep(0)
        world.act(n)
        return str(n)

    await graph(ToolNode([act])).ainvoke({"messages": [FIVE]})
    stock, world.log = world.log, []

    state = await graph(SequencedToolNode([act], settlement=settlement if settled else None)).ainvoke(
        {"messages": [FIVE]}
    )

    assert stock == [4, 3, 2, 1, 0]
    assert world.log == [0, 1, 2, 3, 4]
    assert answers(state) == [("success", str(n)) for n in range(5)]


@pytest.mark.parametrize("settled", [False, True])
def test_five_declared_reads_run_at_once(settlement, settled):
    together = threading.Barrier(5)

    def look(n: int) -> str:
        """Look."""
        together.wait(30)
        return str(n)

    node = SequencedToolNode([look], effects={"look": "read"}, settlement=settlement if settled else None)
    state = graph(node).invoke({"messages": [turn(*[("look", {"n": n}) for n in range(5)])]})

    assert answers(state) == [("success", str(n)) for n in range(5)]


def test_with_order_scopes_effects_on_different_scopes_do_not_wait_for_each_other(world, settlement):
    together = threading.Barrier(2)

    def put(where: str) -> str:
        """Put."""
        together.wait(30)
        world.act(where)
        return where

    node = SequencedToolNode(
        [put],
        settlement=settlement,
        order="scopes",
        effects={"put": {"kind": "idempotent", "scope": "shelf:/{where}"}},
    )
    state = graph(node).invoke({"messages": [turn(("put", {"where": "a"}), ("put", {"where": "b"}))]})

    assert answers(state) == [("success", "a"), ("success", "b")]
    assert sorted(world.log) == ["a", "b"]


def test_with_one_thread_held_calls_still_leave_and_nothing_waits_for_ever(world, settlement):
    node = SequencedToolNode(trip(world), settlement=settlement)
    message = turn(("mail", {"to": "a"}), ("mail", {"to": "b"}), ("look", {"hotel": "Ada"}), ("book", {"hotel": "Ada"}))

    state = graph(node).invoke({"messages": [message]}, {"max_concurrency": 1})

    assert world.log == ["look Ada", "book Ada", "mail a", "mail b"]
    assert answers(state) == [
        ("success", "mail done"),
        ("success", "mail done"),
        ("success", "look done"),
        ("success", "book done"),
    ]


@pytest.mark.parametrize("limit", [1, None])
def test_a_call_whose_wrapper_has_it_act_on_what_an_earlier_one_holds_is_held_and_keeps_nobody_waiting(
    world, settlement, limit
):
    @effect("staged", scope="room:/{hotel}")
    def note(hotel: str) -> str:
        """Note something of a room."""
        world.act(f"note {hotel}")
        return "noted"

    def elsewhere(request, execute):
        call = request.tool_call
        other = {**call, "args": {"hotel": "Ada"}} if call["args"] == {"hotel": "Bee"} else call
        return execute(request.override(tool_call=other))

    node = SequencedToolNode(
        [*trip(world), StructuredTool.from_function(note, name="note")], settlement=settlement, wrap_tool_call=elsewhere
    )
    message = turn(("note", {"hotel": "Ada"}), ("book", {"hotel": "Bee"}), ("rent", {"plate": "X"}))
    config = {} if limit is None else {"max_concurrency": limit}

    state = graph(node).invoke({"messages": [message]}, config)

    assert world.log == ["rent X", "note Ada", "book Ada"]
    assert answers(state) == [("success", "noted"), ("success", "book done"), ("success", "rent done")]


@pytest.mark.parametrize("broken", [(), ("book",)])
def test_with_order_issued_what_is_issued_behind_a_mail_happens_behind_it_and_its_failure_is_named(
    world, settlement, broken
):
    node = SequencedToolNode(trip(world, broken=broken), settlement=settlement, order="issued", handle_tool_errors=True)
    graph(node).invoke({"messages": [turn(("mail", {"to": "a"}), ("book", {"hotel": "Ada"}))]})

    assert world.log == ["mail a", *(() if broken else ["book Ada"])]
    assert [(left.tool, left.tag) for left in settlement.residue()] == [(tool, Tag.PARTIAL_COMMIT) for tool in broken]


@pytest.mark.parametrize("most", [2, 3])
def test_tools_that_run_at_once_are_as_many_as_max_concurrency_and_never_more(settlement, most):
    inside, seen, lock, together = [0], [], threading.Lock(), threading.Barrier(most)

    def look(n: int) -> str:
        """Look, when as many others look as may."""
        with lock:
            inside[0] += 1
            seen.append(inside[0])
        together.wait(30)
        with lock:
            inside[0] -= 1
        together.wait(30)
        return str(n)

    node = SequencedToolNode([look], effects={"look": "read"}, settlement=settlement)
    message = turn(*[("look", {"n": n}) for n in range(6)])
    state = graph(node).invoke({"messages": [message]}, {"max_concurrency": most})

    assert answers(state) == [("success", str(n)) for n in range(6)]
    assert max(seen) == most


def test_calls_with_the_same_id_in_one_message_both_run(world, invoke):
    node = SequencedToolNode(trip(world))
    message = turn(("rent", {"plate": "X"}), ("rent", {"plate": "Y"}), ids=["same", "same"])

    state = invoke(graph(node), {"messages": [message]})

    assert world.log == ["rent X", "rent Y"]
    assert answers(state) == [("success", "rent done"), ("success", "rent done")]


def test_an_undeclared_tool_is_said_once_with_the_line_that_declares_a_read(world, caplog):
    def search(query: str) -> str:
        """Search."""
        return query

    node = SequencedToolNode([search])
    for _ in range(2):
        graph(node).invoke({"messages": [turn(("search", {"query": "q"}))]})

    assert [r.getMessage() for r in caplog.records if r.name == "settlemark"] == [
        (
            "search is undeclared, so it runs after the calls issued before it; if it only reads, say so, and it"
            ' runs beside them: SequencedToolNode(…, effects={"search": "read"})'
        )
    ]


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "settlemark" and r.levelname == "WARNING"]


def test_an_undeclared_tool_is_first_said_to_be_beyond_undo_and_then_how_to_declare_it(settlement, caplog):
    def reserve(hotel: str) -> str:
        """Reserve."""
        return hotel

    for _ in range(2):
        graph(SequencedToolNode([reserve], settlement=settlement)).invoke(
            {"messages": [turn(("reserve", {"hotel": "Ada"}))]}
        )

    assert [said for said in warnings_of(caplog) if "undeclared" in said] == [
        (
            "reserve is undeclared: it runs when it is called, and cannot be undone when another call of its turn"
            ' fails; declare it: settlement.declare("reserve", "reversible", scope="reserve:/{hotel}", undo=…) undoes'
            ' it, settlement.declare("reserve", "irreversible", scope="reserve:/{hotel}") holds it until the turn has'
            ' succeeded; if it only reads: settlement.declare("reserve", "read"); if it only runs an agent whose calls'
            " settle, leave it as it is"
        )
    ]


@pytest.mark.parametrize("name", ["send_email", "payInvoice", "delete_user"])
def test_an_undeclared_tool_that_sends_pays_or_deletes_is_warned_of_with_its_declare_line(caplog, name):
    from langchain_core.tools import StructuredTool

    def act(who: str) -> str:
        """Act."""
        return who

    with Settlement("memory:") as settlement:
        node = SequencedToolNode([StructuredTool.from_function(act, name=name)], settlement=settlement)
        graph(node).invoke({"messages": [turn((name, {"who": "x"}))]}, THREAD)

    said = [r.getMessage() for r in caplog.records if name in r.getMessage()]
    assert len(said) == 1
    assert f'settlement.declare("{name}", "irreversible", scope="{name}:/{{who}}")' in said[0]


def test_a_bad_declaration_is_refused_at_construction(world):
    with pytest.raises(DeclarationError, match="names no scope"):
        SequencedToolNode(trip(world), effects={"look": "irreversible"})
    with pytest.raises(DeclarationError, match="does not take"):
        SequencedToolNode(trip(world), effects={"mail": {"kind": "irreversible", "scope": "mail:/{whom}"}})


def test_effects_that_name_no_tool_of_the_node_are_refused_with_the_tools_it_has(world):
    with pytest.raises(
        DeclarationError, match="'luk', which is no tool of this node; its tools: book, mail, look, rent"
    ):
        SequencedToolNode(trip(world), effects={"luk": "read"})


def test_effects_without_a_kind_are_refused_with_the_line_to_write(world, settlement):
    with pytest.raises(DeclarationError, match="effects= of mail has 'class', 'scope' and no \"kind\": say") as caught:
        SequencedToolNode(
            trip(world), settlement=settlement, effects={"look": "read", "mail": {"class": "read", "scope": "x:/{to}"}}
        )

    assert caught.value.tool == "mail"
    assert settlement.declared("look") is None


def test_an_order_that_does_not_exist_is_refused_with_those_that_do(world):
    with pytest.raises(UsageError, match='order=\'turns\': choose "turn" .* "scopes" .* "issued" .* or "none"'):
        SequencedToolNode(trip(world), order="turns")


def test_a_url_in_the_place_of_a_settlement_is_refused_with_what_to_pass(world):
    with pytest.raises(UsageError, match="settlement='memory:' is no Settlement: pass Settlement.url."):
        SequencedToolNode(trip(world), settlement="memory:")


# ---- turns that a graph takes apart


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def agent(node, message, version):
    model = Model(messages=iter([message, AIMessage("done")]))
    return create_react_agent(model, node, version=version)


def fanned_out(node, message):
    """A graph that sends each call of a message to the node by itself."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [message]})
    builder.add_node("tools", node)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: [Send("tools", [call]) for call in message.tool_calls])
    builder.add_edge("tools", END)
    return builder.compile()


FAN_OUTS = pytest.mark.parametrize(
    "make", [fanned_out, lambda node, message: agent(node, message, "v2")], ids=["send", "react"]
)


SAID = (
    r"the calls of one turn \(look, rent\) are sent to a node one by one \(Send\), and this release of LangGraph does"
    r" not tell which tasks belong together: each would be a turn of its own and {}; use create_react_agent"
)


@pytest.mark.filterwarnings("ignore:.*create_react_agent.*")
@FAN_OUTS
@pytest.mark.parametrize(
    ("settled", "lost"),
    [(False, "their order would be lost"), (True, "their order and their settling together would be lost")],
)
def test_where_langgraph_does_not_tell_which_tasks_belong_together_nothing_is_run(
    world, settlement, make, settled, lost, monkeypatch
):
    monkeypatch.setattr(Superstep, "of", lambda config: None)
    node = SequencedToolNode(trip(world), settlement=settlement if settled else None)
    message = turn(("look", {"hotel": "Ada"}), ("rent", {"plate": "X"}))

    with pytest.raises(UsageError, match=SAID.format(lost)):
        make(node, message).invoke({"messages": [HumanMessage("go")]})

    assert world.log == []
    assert settlement.transactions() == []


@pytest.mark.filterwarnings("ignore:.*create_react_agent.*")
@FAN_OUTS
@pytest.mark.parametrize("unsettled", ["warn", "allow"])
def test_where_a_user_allows_it_each_call_is_a_turn_of_its_own_and_a_warning_says_so_once(
    world, settlement, caplog, make, unsettled, monkeypatch
):
    monkeypatch.setattr(Superstep, "of", lambda config: None)
    node = SequencedToolNode(trip(world), settlement=settlement, unsettled=unsettled)

    make(node, turn(("look", {"hotel": "Ada"}), ("rent", {"plate": "X"}))).invoke({"messages": [HumanMessage("go")]})

    assert len([text for text in warnings_of(caplog) if "one by one" in text]) == (unsettled == "warn")
    assert sorted(world.log) == ["look Ada", "rent X"]


@pytest.mark.filterwarnings("ignore:.*create_react_agent.*")
def test_a_turn_that_is_whole_and_a_turn_of_one_call_are_not_warned_of(world, settlement, caplog):
    two = turn(("look", {"hotel": "Ada"}), ("rent", {"plate": "X"}))

    agent(SequencedToolNode(trip(world), settlement=settlement), two, "v1").invoke({"messages": [HumanMessage("go")]})
    fanned_out(SequencedToolNode(trip(world), settlement=settlement), turn(("look", {"hotel": "Ada"}))).invoke(
        {"messages": []}
    )

    assert [text for text in warnings_of(caplog) if "one by one" in text] == []
