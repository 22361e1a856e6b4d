"""Arguments that others rewrite between the shim and the tool: what will run names the scope, and the undo gets it."""

from __future__ import annotations

import json

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, wrap_tool_call
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from tests.integrations.langgraph.world import THREAD, graph, turn

from settlemark import effect
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def tools(world, kind, **more):
    handlers = {"undo": lambda to, note: world.act(f"undo {to} {note}")} if kind == "reversible" else {}

    @tool
    @effect(kind, scope="mail:/{to}", **handlers, **more)
    def mail(to: str, runtime: ToolRuntime, note: str = "") -> str:
        """Send a mail."""
        world.act(f"mail {to} {note}")
        return "sent"

    @tool
    @effect("read")
    def look(at: str) -> str:
        """Look."""
        raise ValueError(f"no {at}")

    return [mail, look]


def changed(**new):
    def rewrite(request, handler):
        call = request.tool_call
        return handler(
            request.override(tool_call={**call, "args": {**call["args"], **new}} if "to" in call["args"] else call)
        )

    return rewrite


PLACES = ["behind", "before", "node", "edit behind", "edit before"]
NEW = [{"to": "ada"}, {"note": "tenant-7"}, {"to": "bee", "note": "tenant-7"}]


def made(place, new, settlement, tools):
    """A graph, or an agent, in which a call's arguments are rewritten in this place."""
    if place == "node":
        return graph(SequencedToolNode(tools, settlement=settlement, wrap_tool_call=changed(**new)))
    settles = SettlementMiddleware(settlement)
    edits = HumanInTheLoopMiddleware(interrupt_on={"mail": {"allowed_decisions": ["edit"]}})
    rewrites = edits if "edit" in place else wrap_tool_call(changed(**new))
    both = [settles, rewrites] if "behind" in place else [rewrites, settles]
    model = Model(messages=iter([turn(("mail", {"to": "ADA"}), ("look", {"at": "sky"})), AIMessage("Done.")]))
    return create_agent(model, tools, middleware=both, checkpointer=InMemorySaver())


def run(agent, place, new):
    given = {
        "messages": [turn(("mail", {"to": "ADA"}), ("look", {"at": "sky"}))] if place == "node" else [("human", "go")]
    }
    state = agent.invoke(given, THREAD)
    if "edit" in place:
        args = {"to": "ADA", **new}
        edit = {"type": "edit", "edited_action": {"name": "mail", "args": args}}
        state = agent.invoke(Command(resume={"decisions": [edit]}), THREAD)
    return state


@pytest.mark.parametrize("new", NEW, ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_rewritten_arguments_name_the_scope_and_reach_the_tool_and_the_undo(world, settlement, place, new):
    with pytest.raises(ValueError, match="no sky"):
        run(made(place, new, settlement, tools(world, "reversible")), place, new)

    to, note = {"to": "ADA", "note": "", **new}.values()
    [recorded] = settlement.transactions()
    [mailed] = recorded.effects
    assert world.log == [f"mail {to} {note}", f"undo {to} {note}"]
    assert mailed.row.scope == f"mail:/{to}"
    assert json.loads(mailed.row.arguments) == {"to": "ADA", **new}


def two(world):
    """A tool that books, one that mails, and one that looks."""

    @tool
    @effect("reversible", scope="room:/{to}", undo=lambda to: world.act(f"undo {to}"))
    def book(to: str) -> str:
        """Book a room."""
        world.act(f"book {to}")
        return "booked"

    @tool
    @effect("irreversible", scope="mail:/{to}")
    def mail(to: str) -> str:
        """Send a mail."""
        world.act(f"mail {to}")
        return "sent"

    @tool
    @effect("read")
    def look(to: str) -> str:
        """Look."""
        world.act(f"look {to}")
        return "seen"

    return {"book": book, "mail": mail, "look": look}


def swapped(instead):
    def swap(request, handler):
        call = {**request.tool_call, "name": instead.name}
        return handler(request.override(tool_call=call, tool=instead))

    return swap


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("called", ["book", "mail", "look"])
@pytest.mark.parametrize("instead", ["book", "mail", "look"])
@pytest.mark.parametrize("place", PLACES)
def test_another_tool_in_a_calls_place_settles_as_what_it_is(world, settlement, place, called, instead, fails):
    tools = two(world)

    @tool
    @effect("read")
    def late(n: int) -> str:
        """Look late."""
        assert not fails, "late"
        return "late"

    message = turn((called, {"to": "Ada"}), ("late", {"n": 1}))
    swap = swapped(tools[instead])

    def own(request, handler):
        return swap(request, handler) if request.tool_call["name"] == called else handler(request)

    if place == "node":
        agent = graph(SequencedToolNode([*tools.values(), late], settlement=settlement, wrap_tool_call=own))
        given = {"messages": [message]}
    else:
        settles = SettlementMiddleware(settlement)
        edits = HumanInTheLoopMiddleware(interrupt_on={called: {"allowed_decisions": ["edit"]}})
        changes = edits if "edit" in place else wrap_tool_call(own)
        both = [settles, changes] if "behind" in place else [changes, settles]
        model = Model(messages=iter([message, AIMessage("Done.")]))
        agent = create_agent(model, [*tools.values(), late], middleware=both, checkpointer=InMemorySaver())
        given = {"messages": [("human", "go")]}
    edit = {"type": "edit", "edited_action": {"name": instead, "args": {"to": "Ada"}}}

    def go():
        agent.invoke(given, THREAD)
        if "edit" in place:
            agent.invoke(Command(resume={"decisions": [edit]}), THREAD)

    if fails:
        with pytest.raises(AssertionError, match="late"):
            go()
    else:
        go()

    undone = {"book": ["book Ada", "undo Ada"], "mail": [], "look": ["look Ada"]}
    assert world.log == (undone[instead] if fails else [f"{instead} Ada"])
    acted = [effect.row for recorded in settlement.transactions() for effect in recorded.effects]
    assert [(row.tool, row.kind) for row in acted] == [
        (instead, {"book": "reversible", "mail": "irreversible"}[instead]) for _ in acted
    ]
    assert bool(acted) == (instead == "book" or (instead == "mail" and not fails)) or instead == "mail"


@pytest.mark.parametrize("place", ["node", "behind", "before"])
def test_a_wrapper_that_gives_a_call_another_state_keeps_its_seat(world, settlement, place):
    def other_state(request, handler):
        return handler(request.override(state={**request.state, "messages": list(request.state["messages"])}))

    tools = [*two(world).values()]
    message = turn(("book", {"to": "Ada"}))
    if place == "node":
        graph(SequencedToolNode(tools, settlement=settlement, wrap_tool_call=other_state)).invoke(
            {"messages": [message]}
        )
    else:
        both = [SettlementMiddleware(settlement), wrap_tool_call(other_state)]
        model = Model(messages=iter([message, AIMessage("Done.")]))
        create_agent(model, tools, middleware=both if place == "behind" else both[::-1]).invoke(
            {"messages": [("human", "go")]}
        )

    [recorded] = settlement.transactions()
    assert [effect.row.tool for effect in recorded.effects] == ["book"]
