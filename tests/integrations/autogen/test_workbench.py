"""A settled workbench is the workbench it wraps, whatever that is, and settles its calls."""

from __future__ import annotations

import asyncio
import copy
import pickle

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.tools import AgentTool
from autogen_core import Image
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import (
    BaseStreamTool,
    FunctionTool,
    ImageResultContent,
    StaticStreamWorkbench,
    StaticWorkbench,
    TextResultContent,
    ToolOverride,
    ToolResult,
    Workbench,
)
from autogen_ext.models.replay import ReplayChatCompletionClient
from pydantic import BaseModel
from tests.integrations.autogen.world import INFO, Scripted, agent, answers, trip, turn
from tests.rooms.autogen import _config

from settlemark import DeclarationError, UsageError
from settlemark_autogen import SettledChatCompletionClient, SettledWorkbench


class Remote(Workbench):
    """Like an MCP server: tools nobody sees the functions of, which may come and go, and a state of its own."""

    params = "of its own"

    def __init__(self, world):
        self.world = world
        self.tools = ["book", "look"]
        self.listed = 0
        self.events = []

    async def list_tools(self):
        self.listed += 1
        return [{"name": name, "parameters": {"type": "object", "properties": {"hotel": {}}}} for name in self.tools]

    async def call_tool(self, name, arguments=None, cancellation_token=None, call_id=None):
        self.world.act(f"{name} {arguments['hotel']} {call_id}")
        if arguments["hotel"] == "Bad":
            return ToolResult(name=name, result=[TextResultContent(content="no room")], is_error=True)
        text = TextResultContent(content='{\n  "id": "R7"\n}')
        return ToolResult(name=name, result=[text, ImageResultContent(content=Image.from_base64(DOT))])

    async def start(self):
        self.events.append("start")

    async def stop(self):
        self.events.append("stop")

    async def reset(self):
        self.events.append("reset")

    async def save_state(self):
        return {"events": self.events}

    async def load_state(self, state):
        self.events = state["events"]


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
EFFECTS = {"look": "read", "book": {"kind": "idempotent", "scope": "room:/{hotel}"}}


def with_undo(world):
    def cancel(result):
        world.act(f"cancel {result['id']}")

    return {**EFFECTS, "book": {"kind": "reversible", "scope": "room:/{hotel}", "undo": cancel}}


async def test_any_workbench_is_settled_and_an_undo_reads_what_it_said_in_json(world, settlement):
    remote = Remote(world)
    workbench = SettledWorkbench(remote, settlement, run="trip-42", effects=with_undo(world))
    model = Scripted(turn(("book", {"hotel": "Ada"}), ("book", {"hotel": "Bad"})))

    result = await AssistantAgent("agent", SettledChatCompletionClient(model, settlement), workbench=workbench).run()

    assert world.log == ["book Ada call-0", "book Bad call-1", "cancel R7"]
    assert answers(result)[1] == (True, "no room")


async def test_its_answers_come_whole_out_of_the_record_images_too(world, settlement):
    async def answer():
        workbench = SettledWorkbench(Remote(world), settlement, run="trip-42", effects=EFFECTS, unsettled="allow")
        return await workbench.call_tool("book", {"hotel": "Ada"}, call_id="call-0")

    first, again = await answer(), await answer()

    assert world.log == ["book Ada call-0"]
    assert again.model_dump(mode="json") == first.model_dump(mode="json")
    assert [type(part) for part in again.result] == [TextResultContent, ImageResultContent]


async def test_while_a_turn_comes_its_tools_are_listed_once_and_for_the_next_request_anew(world, settlement):
    remote = Remote(world)
    workbench = SettledWorkbench(remote, settlement, run="trip-42", effects=EFFECTS)
    model = Scripted(turn(*[("look", {"hotel": str(n)}) for n in range(5)]))
    played = AssistantAgent(
        "agent", SettledChatCompletionClient(model, settlement), workbench=workbench, max_tool_iterations=2
    )

    remote.tools.append("leave")
    await played.run(task="go")

    assert remote.listed == 2
    assert [[tool["name"] for tool in options["tools"]] for _, options in model.requests] == [
        ["book", "look", "leave"],
        ["book", "look", "leave"],
    ]


async def test_it_starts_stops_and_resets_what_it_wraps_and_has_its_members(world, settlement):
    remote = Remote(world)
    workbench = SettledWorkbench(remote, settlement, run="trip-42")

    async with workbench:
        await workbench.reset()

    assert remote.events == ["start", "reset", "stop"]
    assert workbench.params == "of its own"
    with pytest.raises(AttributeError):
        _ = workbench.nothing_of_the_kind


async def test_its_state_has_the_jobs_id_and_the_state_of_what_it_wraps(world, settlement):
    first, second, stock = Remote(world), Remote(world), Remote(world)
    await first.start()
    state = await SettledWorkbench(first, settlement, run="trip-42").save_state()

    loaded = SettledWorkbench(second, settlement, run="another")
    await loaded.load_state(state)
    other = SettledWorkbench(stock, settlement, run="another")
    await other.load_state(await first.save_state())

    assert (loaded.run, second.events) == ("trip-42", ["start"])
    assert (other.run, stock.events) == ("another", ["start"])


async def test_a_job_without_an_id_goes_on_where_its_state_was_saved(world, settlement, caplog):
    async def play(workbench):
        return await workbench.call_tool("book", {"hotel": "Ada"}, call_id="call-0")

    first = SettledWorkbench(Remote(world), settlement, effects=EFFECTS, unsettled="allow")
    await play(first)
    again, stranger = (
        SettledWorkbench(Remote(world), settlement, effects=EFFECTS, unsettled="allow") for _ in range(2)
    )
    await again.load_state(await first.save_state())
    await play(again)
    await play(stranger)

    assert world.log == ["book Ada call-0"] * 2
    assert len({first.run, again.run, stranger.run}) == 2
    assert [r.message for r in caplog.records if "no id of yours" in r.message] != []


async def test_schemas_are_the_stock_ones_and_a_copy_of_one_is_a_plain_mapping(world, settlement):
    stock = await StaticWorkbench([FunctionTool(t, description=t.__doc__) for t in trip(world)]).list_tools()

    offered = await SettledWorkbench(trip(world), settlement, run="trip-42").list_tools()

    assert offered == stock
    for copied in (copy.deepcopy(offered[0]), pickle.loads(pickle.dumps(offered[0]))):
        assert (copied, type(copied)) == (stock[0], dict)


async def test_overridden_names_are_settled_under_the_names_the_model_knows(world, settlement):
    async def ring(bell: str) -> str:
        """Ring."""
        world.act(f"ring {bell}")
        return "rang"

    inner = StaticWorkbench([FunctionTool(ring, description="ring")], {"ring": ToolOverride(name="toll")})
    effects = {"toll": {"kind": "irreversible", "scope": "bell:/{bell}"}}
    workbench = SettledWorkbench(inner, settlement, run="trip-42", unsettled="allow", effects=effects)

    result = await workbench.call_tool("toll", {"bell": "big"})

    assert (result.to_text(), world.log) == ("rang", ["ring big"])
    assert [(e.row.tool, e.row.scope) for t in settlement.transactions() for e in t.effects] == [("toll", "bell:/big")]


# ---- tools that stream


class Question(BaseModel):
    about: str


class Stream(BaseStreamTool[Question, TextMessage, TextMessage]):
    """Says two things on its way to a result."""

    def __init__(self, world, *, breaks=False):
        super().__init__(Question, TextMessage, "ask", "Ask.")
        self.world = world
        self.breaks = breaks

    async def run(self, args, cancellation_token):
        raise AssertionError

    async def run_stream(self, args, cancellation_token):
        self.world.act(f"ask {args.about}")
        for n in range(2):
            yield TextMessage(content=f"step {n}", source="ask")
        if self.breaks:
            raise ValueError("it broke")
        yield TextMessage(content=f"all about {args.about}", source="ask")

    def return_value_as_string(self, value):
        return value.content


@pytest.mark.parametrize("breaks", [False, True])
async def test_what_a_tool_streams_reaches_the_agent_as_with_stock(world, settlement, breaks):
    message = turn(("ask", {"about": "x"}))

    def shown(result):
        return [(type(m).__name__, m.content) for m in result.messages if getattr(m, "source", "") == "ask"], answers(
            result
        )

    stock = shown(await agent(Scripted(message), [Stream(type(world)(), breaks=breaks)]).run(task="go"))
    ours = shown(await agent(Scripted(message), [Stream(world, breaks=breaks)], settlement).run(task="go"))
    again = shown(await agent(Scripted(message), [Stream(world, breaks=breaks)], settlement).run(task="go"))

    assert ours == stock
    assert ours[1] == [(True, "it broke")] if breaks else [(False, "all about x")]
    if not breaks:
        assert world.log == ["ask x"]
        assert again == ([], ours[1])  # it is answered from the record, and nothing streams


async def test_an_agent_inside_a_tool_call_is_part_of_it_and_is_undone_with_it(world, settlement):
    """A sub-agent's acts join the call that it runs in; a later failure of the caller's turn undoes them."""
    book, _, _, rent = trip(world, broken=["rent"])
    inner = agent(Scripted(turn(("book", {"hotel": "Ada"}))), [book], settlement, name="inner", max_tool_iterations=1)
    ask = AgentTool(agent=inner)
    outer = agent(Scripted(turn(("inner", {"task": "go"}), ("rent", {"plate": "X"}))), [ask, rent], settlement)

    result = await outer.run(task="go")

    assert world.log == ["book Ada", "cancel Ada"]
    assert answers(result)[-1] == (True, "rent is down")
    assert {t.state.value for t in settlement.transactions()} == {"aborted"}


# ---- declarations, and mistakes


async def test_an_undeclared_tool_runs_in_its_place_and_it_is_said_once_how_to_declare_it(world, settlement, caplog):
    async def send_note(to: str) -> str:
        """Send."""
        world.act(f"note {to}")
        return "sent"

    await agent(Scripted(turn(*[("send_note", {"to": str(n)}) for n in range(3)])), [send_note], settlement).run()

    assert world.log == ["note 0", "note 1", "note 2"]
    (advice,) = [r.message for r in caplog.records if "undeclared" in r.message]
    assert 'settlement.declare("send_note", "irreversible", scope="send_note:/{to}")' in advice


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ({"settlement": "sqlite://"}, UsageError, "is no Settlement"),
        ({"run": ""}, UsageError, "give your id for the job"),
        ({"order": "any"}, UsageError, 'choose "turn"'),
        ({"park": "shelve"}, UsageError, "park"),
        ({"effects": {"nobody": "read"}}, DeclarationError, "which is no tool of this workbench"),
        ({"effects": {"book": {"scope": "a:/b"}}}, DeclarationError, 'no "kind"'),
        ({"tools": [3]}, TypeError, "3 is no tool"),
    ],
)
def test_a_mistake_is_refused_when_it_is_made(world, settlement, how, error, said):
    given = {"tools": trip(world), "settlement": settlement, "run": "trip-42", **how}

    with pytest.raises(error, match=said):
        SettledWorkbench(given.pop("tools"), given.pop("settlement"), **given)

    assert settlement.transactions() == []


async def test_a_configuration_has_all_but_the_settlement_which_each_process_has_of_its_own(settlement, monkeypatch):
    monkeypatch.setenv("SETTLEMARK_URL", "memory:")
    monkeypatch.setattr(_config, "_opened", [])
    inner = StaticStreamWorkbench([])
    replay = ReplayChatCompletionClient(["done"], model_info=INFO)
    how = {"run": "trip-42", "agent": "clerk", "effects": {"search": "read"}}
    workbench = SettledWorkbench(inner, settlement, run="trip-42", agent="clerk", may_touch="room:/Ada")
    client = SettledChatCompletionClient(replay, settlement, primer=True, **how)

    workbench_again = Workbench.load_component(workbench.dump_component())
    client_again = ChatCompletionClient.load_component(client.dump_component())

    assert type(workbench_again) is SettledWorkbench
    assert type(client_again) is SettledChatCompletionClient
    assert workbench_again.dump_component() == workbench.dump_component()
    assert client_again.dump_component() == client.dump_component()
    assert client.dump_component().config["primer"] is True
    assert (workbench_again.run, workbench_again.settlement.url) == ("trip-42", "memory:")
    assert workbench_again.settlement is client_again.settlement is not settlement
    workbench_again.settlement.close()


def test_what_no_configuration_can_hold_is_refused_with_what_to_do(world, settlement):
    by_hand = {"book": {"kind": "reversible", "scope": "room:/{hotel}", "undo": lambda hotel: None}}
    with pytest.raises(NotImplementedError, match="Settlement\\(approver=…\\)"):
        SettledWorkbench([], settlement, run="trip-42", approver=lambda gate: True).dump_component()
    with pytest.raises(NotImplementedError, match="give such tools to settlement.declare"):
        SettledWorkbench(trip(world), settlement, run="trip-42", effects=by_hand).dump_component()
    with pytest.raises(NotImplementedError, match="give such tools to settlement.declare"):
        SettledChatCompletionClient(
            ReplayChatCompletionClient([], model_info=INFO), settlement, effects=by_hand
        ).dump_component()


async def test_a_client_is_the_one_it_wraps_but_for_the_calls(settlement):
    model = Scripted()
    client = SettledChatCompletionClient(model, settlement)

    await client.close()

    assert model.closed
    assert client.actual_usage() == model.actual_usage()
    assert client.total_usage() == model.total_usage()
    assert (client.count_tokens([]), client.remaining_tokens([])) == (11, 989)
    assert client.model_info == client.capabilities == model.model_info
    assert client.final == "done"
    with pytest.raises(AttributeError):
        _ = client.nothing_of_the_kind


async def test_what_a_request_says_reaches_the_wrapped_client_as_it_is(settlement):
    model, token = Scripted(), object()
    client = SettledChatCompletionClient(model, settlement)
    said = {
        "tools": [],
        "tool_choice": "required",
        "json_output": True,
        "extra_create_args": {"a": 1},
        "cancellation_token": token,
    }

    await client.create(["x"], **said)
    streamed = [part async for part in client.create_stream(["y"], **said)]

    assert model.requests == [(["x"], said), (["y"], said)]
    assert streamed[0] == "done"
    assert streamed[-1].content == "done"


def test_the_stock_class_is_its_own_so_agents_stream_from_it(world, settlement):
    assert isinstance(SettledWorkbench(trip(world), settlement, run="trip-42"), StaticStreamWorkbench)


@pytest.mark.parametrize(
    ("name", "hotel", "call_id"),
    [("look", "Ada", "call-0"), ("book", "Bee", "call-7"), ("book", "Ada", "call-7")],
    ids=["another tool", "other arguments and another id", "another id"],
)
async def test_only_the_call_that_was_issued_takes_its_place_in_the_turn(world, settlement, name, hotel, call_id):
    workbench = SettledWorkbench(trip(world), settlement, run="trip-42")
    client = SettledChatCompletionClient(Scripted(turn(("book", {"hotel": "Ada"}), ("mail", {"to": "a"}))), settlement)
    await client.create([], tools=await workbench.list_tools())

    await workbench.call_tool(name, {"hotel": hotel}, call_id=call_id)
    strange = list(world.log)
    answers = await asyncio.gather(
        workbench.call_tool("book", {"hotel": "Ada"}, call_id="call-0"),
        workbench.call_tool("mail", {"to": "a"}, call_id="call-1"),
    )

    assert strange == [f"{name} {hotel}"]
    assert [answer.to_text() for answer in answers] == ["book done", "mail done"]
    assert [len(t.effects) for t in settlement.transactions()][-1] == 2


@pytest.mark.parametrize("unsettled", ["refuse", "warn", "allow"])
@pytest.mark.parametrize("both", [True, False], ids=["with the client", "alone"])
async def test_a_workbench_without_the_client_refuses_what_acts_and_says_what_it_cannot_do(
    world, settlement, caplog, both, unsettled
):
    model = Scripted(turn(("look", {"hotel": "Ada"}), ("book", {"hotel": "Ada"})))
    workbench = SettledWorkbench(trip(world), settlement, run="trip-42", unsettled=unsettled)
    client = SettledChatCompletionClient(model, settlement) if both else model

    result = await AssistantAgent("agent", client, workbench=workbench, max_tool_iterations=2).run(task="go")

    refused = not both and unsettled == "refuse"
    warned = [r.getMessage() for r in caplog.records if "no SettledChatCompletionClient beside it" in r.getMessage()]
    assert world.log == (["look Ada"] if refused else ["look Ada", "book Ada"])
    assert len(warned) == (1 if not both and unsettled == "warn" else 0)
    looked, booked = answers(result)
    assert (looked[0], booked[0]) == (False, refused)
    if refused:
        assert 'or pass unsettled="warn" to go on without; nothing was run' in booked[1]


def test_a_mistyped_unsettled_is_refused(world, settlement):
    with pytest.raises(UsageError, match="unsettled='no': choose one of 'refuse', 'warn', 'allow'"):
        SettledWorkbench(trip(world), settlement, run="trip-42", unsettled="no")
