"""What `SequencedToolNode` adds to a stock `ToolNode`, per call; reads run beside each other in both."""

from __future__ import annotations

import asyncio
from itertools import count
from time import sleep

import pytest

from settlemark import Settlement

langgraph = pytest.importorskip("langgraph.graph")
messages = pytest.importorskip("langchain_core.messages")
tools = pytest.importorskip("langchain_core.tools")
prebuilt = pytest.importorskip("langgraph.prebuilt")
ours = pytest.importorskip("settlemark_langgraph")

CALLS = 5


class Desk:
    """One tool that takes `seconds`, and the order in which it was begun and ended."""

    def __init__(self, seconds, *, is_async):
        self.begun = []
        self.ended = []

        def work(number: int) -> int:
            """Work."""
            self.begun.append(number)
            if seconds:
                sleep(seconds)
            self.ended.append(number)
            return number

        async def awork(number: int) -> int:
            """Work."""
            self.begun.append(number)
            await asyncio.sleep(seconds)
            self.ended.append(number)
            return number

        self.tool = (
            tools.StructuredTool.from_function(coroutine=awork, name="work")
            if is_async
            else tools.StructuredTool.from_function(work, name="work")
        )


def graph_of(node):
    """The smallest graph around a tool node: what surrounds it is the same for both."""
    builder = langgraph.StateGraph(langgraph.MessagesState)
    builder.add_node("tools", node)
    builder.set_entry_point("tools")
    builder.set_finish_point("tools")
    return builder.compile()


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("seconds", [0, 0.001], ids=["0 ms", "1 ms"])
@pytest.mark.parametrize("kind", ["effects", "reads"])
def test_five_calls_of_a_turn(gauge, kind, seconds, is_async, request):
    desk = Desk(seconds, is_async=is_async)
    settlement = Settlement("memory:")
    if kind == "reads":
        settlement.declare("work", "read", scope="desk:/{number}")
    else:
        settlement.declare("work", "reversible", scope="desk:/{number}", undo=lambda number: None)
    sequenced = graph_of(ours.SequencedToolNode([desk.tool], settlement=settlement))
    stock = graph_of(prebuilt.ToolNode([desk.tool]))
    turns = gauge.scale(6, 1)
    numbers = count()

    def turn():
        number = next(numbers)
        calls = [
            {"name": "work", "args": {"number": n}, "id": f"call-{number}-{n}", "type": "tool_call"}
            for n in range(CALLS)
        ]
        return {"messages": [messages.AIMessage(content="", id=f"turn-{number}", tool_calls=calls)]}

    def answers(state):
        return [int(message.content) for message in state["messages"] if message.type == "tool"]

    def through(graph):
        async def aturns():
            return [answers(await graph.ainvoke(turn())) for _ in range(turns)]

        desk.begun.clear()
        desk.ended.clear()
        found = asyncio.run(aturns()) if is_async else [answers(graph.invoke(turn())) for _ in range(turns)]
        assert found == [list(range(CALLS))] * turns
        return turns * CALLS

    def one_by_one():
        async def aturns():
            for _ in range(turns):
                for call in turn()["messages"][0].tool_calls:
                    await desk.tool.ainvoke(call)

        if is_async:
            asyncio.run(aturns())
        else:
            for _ in range(turns):
                for call in turn()["messages"][0].tool_calls:
                    desk.tool.invoke(call)
        return turns * CALLS

    name = f"call of a turn of five: {request.node.callspec.id}"
    measured = gauge.beside(
        name,
        lambda: through(sequenced),
        {"a stock ToolNode": lambda: through(stock), "the tools alone, one by one": one_by_one},
        rounds=5,
    )
    gauge.count("  overhead over stock", measured.over["a stock ToolNode"], "µs")

    assert measured.done == turns * CALLS
    through(sequenced)
    assert sorted(desk.begun) == sorted(desk.ended) == sorted([*range(CALLS)] * turns)
    if kind == "effects":
        assert desk.begun == desk.ended == [*range(CALLS)] * turns
