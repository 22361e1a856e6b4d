"""Scopes and handlers see a call's arguments as its tool gets them; the ledger keeps what the model wrote."""

from __future__ import annotations

import datetime as dt
import json
from typing import Annotated, Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolCall
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field, field_validator
from tests.integrations.langgraph.world import THREAD, answers, graph, trip, turn

from settlemark import Settlement, State, UsageError, effect
from settlemark_langgraph import SequencedToolNode
from settlemark_langgraph._tools.arguments import before_injection


class Stay(BaseModel):
    hotel: str
    night: dt.date = Field(default=dt.date(2026, 12, 1))
    guests: int = 1

    @field_validator("hotel")
    @classmethod
    def known(cls, hotel: str) -> str:
        return hotel.strip().title()


def stay(world, kind="reversible"):
    """A tool with defaults and a schema of its own, and a tool that fails."""

    def undo(hotel, night, guests):
        world.act(("undo", hotel, night, guests))

    handlers = {"undo": undo} if kind == "reversible" else {}

    @tool(args_schema=Stay)
    @effect(kind, scope="room:/{hotel}/{night}", **handlers)
    def reserve(hotel, night, guests):
        """Reserve."""
        world.act((hotel, night, guests))
        return "reserved"

    @tool
    @effect("read")
    def fail(n: int) -> str:
        """Fail."""
        raise ValueError(f"no {n}")

    return [reserve, fail]


def effects_of(settlement):
    [recorded] = settlement.transactions()
    return [(e.row.tool, e.row.scope, json.loads(e.row.arguments)) for e in recorded.effects]


DECEMBER = dt.date(2026, 12, 1)


@pytest.mark.parametrize(
    ("written", "parsed"),
    [
        ({"hotel": "Ada"}, ("Ada", DECEMBER, 1)),
        ({"hotel": " ada ", "guests": "2"}, ("Ada", DECEMBER, 2)),
        ({"hotel": "Ada", "night": "2026-12-24"}, ("Ada", dt.date(2026, 12, 24), 1)),
    ],
    ids=["defaults", "coerced", "a date"],
)
def test_scope_tool_and_undo_see_the_same_parsed_arguments_and_the_ledger_what_the_model_wrote(
    world, settlement, invoke, written, parsed
):
    node = SequencedToolNode(stay(world), settlement=settlement, handle_tool_errors=True)

    sync_only = invoke(graph(node), {"messages": [turn(("reserve", written), ("fail", {"n": 1}))]}, THREAD)

    assert world.log == [parsed, ("undo", *parsed)]
    assert effects_of(settlement) == [("reserve", f"room:/{parsed[0]}/{parsed[1]}", written)]
    assert [status for status, _ in answers(sync_only)] == ["error", "error"]
    assert settlement.residue() == []


def test_a_probe_and_a_release_are_given_the_parsed_arguments_too(world, settlement, invoke):
    @tool(args_schema=Stay)
    @effect(
        "irreversible",
        scope="room:/{hotel}",
        probe=lambda hotel, night: world.act(("probe", hotel, night)),
        release=lambda hotel, night, guests: world.act(("release", hotel, night, guests)) or 1 / len(world.log[1:]),
    )
    def reserve(hotel, night, guests):
        """Reserve."""

    node = SequencedToolNode([reserve], settlement=settlement)
    state = invoke(graph(node), {"messages": [turn(("reserve", {"hotel": "Ada"}))]}, THREAD)

    release, probe = ("release", "Ada", DECEMBER, 1), ("probe", "Ada", DECEMBER)
    assert world.log == [release, probe, release]
    assert answers(state) == [("success", "0.5")]


def test_injected_arguments_are_neither_in_the_scope_nor_given_to_handlers(world, settlement, invoke):
    @tool
    @effect("reversible", scope="room:/{hotel}/{nights}", undo=lambda **given: world.act(given))
    def reserve(
        hotel: str,
        state: Annotated[dict, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime,
        nights: int = 2,
    ) -> str:
        """Reserve."""
        return f"{hotel} {nights} {call_id} {len(state['messages'])} {runtime.tool_call_id}"

    node = SequencedToolNode([reserve, stay(world)[1]], settlement=settlement, handle_tool_errors=True, order="scopes")
    forged = {"hotel": "Ada", "call_id": "mine", "runtime": "mine"}
    invoke(graph(node), {"messages": [turn(("reserve", forged), ("fail", {"n": 1}))]}, THREAD)

    assert world.log == [{"hotel": "Ada", "nights": 2}]
    assert effects_of(settlement) == [("reserve", "room:/Ada/2", forged)]


def test_arguments_are_parsed_before_injection_as_far_as_the_model_gives_them():
    @tool
    def reserve(hotel: str, state: Annotated[dict, InjectedState], nights: int = 2) -> str:
        """Reserve."""
        return hotel

    def parsed(**args: Any):
        return before_injection(reserve, ToolCall(name="reserve", args=args, id="1"))

    assert parsed(hotel="Ada") == {"hotel": "Ada", "nights": 2}
    assert parsed(hotel="Ada", nights="3") == {"hotel": "Ada", "nights": 3}
    assert parsed(nights=3) is None
    assert before_injection(None, ToolCall(name="unknown", args={}, id="1")) is None


def test_a_tool_with_a_json_schema_is_taken_at_the_models_word(world, settlement, invoke):
    schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    mail = StructuredTool(
        name="mail",
        description="Mail.",
        args_schema=schema,
        func=lambda to: world.act(f"mail {to}"),
    )
    effects = {"mail": {"kind": "irreversible", "scope": "mail:/{to}"}}
    invoke(
        graph(SequencedToolNode([mail], settlement=settlement, effects=effects)),
        {"messages": [turn(("mail", {"to": "a"}))]},
        THREAD,
    )

    assert world.log == ["mail a"]
    assert effects_of(settlement) == [("mail", "mail:/a", {"to": "a"})]


def test_a_call_that_goes_on_in_a_new_process_is_undone_with_its_defaults(world, tmp_path):
    url, saver = f"sqlite:///{tmp_path / 'trip.db'}", InMemorySaver()

    @tool
    @effect("read")
    def ask(question: str) -> str:
        """Ask a person, and fail on the answer."""
        raise ValueError(interrupt(question))

    def compiled(settlement):
        node = SequencedToolNode([stay(world)[0], ask], settlement=settlement, handle_tool_errors=True)
        return graph(node, checkpointer=saver)

    message = turn(("reserve", {"hotel": "Ada"}), ("ask", {"question": "sure?"}))
    with Settlement(url) as settlement:
        compiled(settlement).invoke({"messages": [message]}, THREAD)
    with Settlement(url) as settlement:
        compiled(settlement).invoke(Command(resume="no"), THREAD)
        assert settlement.residue() == []

    assert world.log == [("Ada", DECEMBER, 1), ("undo", "Ada", DECEMBER, 1)]


# ---- arguments that the tool cannot take

BAD = [{"hotell": "B"}, {"hotel": {"a": 1}}, {"hotel": "Ada", "night": "never"}, {"hotel": "Ada", "guests": None}]
MODES = [True, False, "oh no", KeyError, None]


class Heard(BaseCallbackHandler):
    def __init__(self):
        self.events = []

    def on_tool_start(self, serialized, input_str, *, inputs=None, **_):
        self.events.append(("start", serialized["name"], inputs))

    def on_tool_error(self, error, **_):
        self.events.append(("error", str(error)))


def ended(invoke, node, message):
    heard = Heard()
    try:
        state = invoke(graph(node), {"messages": [message]}, {**THREAD, "callbacks": [heard]})
    except Exception as error:
        return type(error), str(error), heard.events
    return [m.model_dump(exclude={"id"}) for m in state["messages"][1:]], heard.events


@pytest.mark.parametrize("kind", ["reversible", "irreversible", "read"])
@pytest.mark.parametrize("args", BAD, ids=str)
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_bad_arguments_end_and_are_reported_as_with_the_stock_node_whatever_the_class(world, invoke, kind, args, mode):
    options = {} if mode is None else {"handle_tool_errors": mode}
    stock, *ours = (
        ended(invoke, make(stay(world, kind), **options), turn(("reserve", args)))
        for make in (
            ToolNode,
            SequencedToolNode,
            lambda tools, **more: SequencedToolNode(tools, settlement=Settlement("memory:"), **more),
        )
    )

    assert ours == [stock, stock]
    assert world.log == []


@pytest.mark.parametrize("handled", [True, "mend it", lambda error: f"{error.error_count()} wrong"])
def test_a_tool_that_answers_bad_arguments_itself_does_so_and_the_call_has_failed(world, settlement, invoke, handled):
    reserve, _ = stay(world, "irreversible")
    reserve.handle_validation_error = handled
    message = turn(("book", {"hotel": "Ada"}), ("reserve", {"hotel": {}}))

    stock = invoke(graph(ToolNode([*trip(world), reserve])), {"messages": [message]})
    world.log.clear()
    state = invoke(graph(SequencedToolNode([*trip(world), reserve], settlement=settlement)), {"messages": [message]})

    assert answers(state)[1] == answers(stock)[1]
    assert world.log == ["book Ada", "cancel Ada"]


@pytest.mark.parametrize("kind", ["reversible", "irreversible"])
@pytest.mark.parametrize("args", BAD, ids=str)
def test_a_call_with_bad_arguments_fails_at_its_place_in_the_turn_and_nothing_of_it_is_recorded(
    world, settlement, invoke, kind, args
):
    node = SequencedToolNode([*trip(world), *stay(world, kind)], settlement=settlement)
    message = turn(("book", {"hotel": "Ada"}), ("reserve", args), ("rent", {"plate": "X"}), ("mail", {"to": "a"}))

    state = invoke(graph(node), {"messages": [message]}, THREAD)

    (_, undone), (_, bad), (_, rent), (_, mail) = answers(state)
    assert world.log in ([], ["book Ada", "cancel Ada"])  # it may have failed before the first had begun
    assert bad.startswith("Error invoking tool 'reserve' with kwargs ")
    assert undone.startswith(("undone: book ", "Refused: "))
    assert (rent[:21], mail[:21]) == ("Refused: rent was not", "Refused: mail was not") or "held" in mail + rent
    [recorded] = settlement.transactions()
    assert recorded.state is State.ABORTED
    assert "reserve" not in [e.row.tool for e in recorded.effects]


def test_a_scope_that_good_arguments_cannot_fill_is_still_a_scope_error(world, settlement, invoke):
    state = invoke(
        graph(SequencedToolNode(stay(world), settlement=settlement)),
        {"messages": [turn(("reserve", {"hotel": " "}))]},
        THREAD,
    )

    [(status, text)] = answers(state)
    assert (status, text[:12]) == ("error", "ScopeError: ")
    assert world.log == []


# ---- tools that only a loop can run


@pytest.mark.parametrize("kind", ["irreversible", "idempotent", "read"])
def test_an_async_tool_in_a_synchronous_run_is_refused_before_it_is_queued_and_undoes_its_turn(world, settlement, kind):
    @tool
    @effect(kind, scope="sms:/{to}")
    async def sms(to: str) -> str:
        """Send."""
        world.act(f"sms {to}")
        return to

    node = SequencedToolNode([*trip(world), sms], settlement=settlement)
    message = turn(("book", {"hotel": "Ada"}), ("sms", {"to": "a"}))

    with pytest.raises(
        UsageError, match=r"^sms is async: it was not run; call the graph with `await graph.ainvoke\(…\)`"
    ):
        graph(node).invoke({"messages": [message]}, THREAD)

    assert world.log in ([], ["book Ada", "cancel Ada"])
    assert [e.row.tool for t in settlement.transactions() for e in t.effects] in ([], ["book"])


async def test_an_async_tool_under_a_synchronous_wrapper_is_refused_with_the_wrapper_to_give(world, settlement):
    @tool
    @effect("irreversible", scope="sms:/{to}")
    async def sms(to: str) -> str:
        """Send."""
        world.act(f"sms {to}")
        return to

    node = SequencedToolNode([sms], settlement=settlement, wrap_tool_call=lambda request, execute: execute(request))

    with pytest.raises(
        UsageError, match="sms is async: it was not run; give the node an async wrapper: awrap_tool_call="
    ):
        await graph(node).ainvoke({"messages": [turn(("sms", {"to": "a"}))]}, THREAD)

    assert world.log == []
