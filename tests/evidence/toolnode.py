"""LangGraph's `ToolNode` on turns of several calls: the order of the effects, and that of the transcript."""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from tests.evidence._cells import Cells, shared_cells
from tests.evidence._clock import play
from tests.evidence._report import Findings, Share, Table, Told, bars

from settlemark import Payloads, Settlement
from settlemark.history import OpRecord, Recorder, analyze, read
from settlemark_langgraph import SequencedToolNode, record

PIPELINE = ("create_database", "run_migrations", "seed_reference_data", "build_search_index", "enable_live_traffic")
BATCHED = {2: 12, 5: 18}
"""How many turns of which width the paper's models issued at once: 30 of 30 of one model."""
FEW = {3: 3}
"""Three of 30 of another, whose widths the paper does not tell."""
ALONE = 57
EFFECTS = {tool: {"kind": "opaque", "scope": f"stage:/{{turn}}/{tool}"} for tool in PIPELINE}
TURNS = 90


def tools_of(cells: Cells) -> list[StructuredTool]:
    """The five steps of setting a service up. Each takes its time, and is in the log when it has happened."""

    def step(name: str) -> StructuredTool:
        async def act(turn: str, place: int, latency: float) -> str:
            await asyncio.sleep(latency)
            cells.note("act", turn, tool=name, place=place)
            return f"{name}: done"

        return StructuredTool.from_function(coroutine=act, name=name, description=name.replace("_", " "))

    return [step(name) for name in PIPELINE]


def turns_of(count: int, chance: random.Random, *, uniform: bool) -> list[tuple[str, list[float]]]:
    """Turns in the paper's mix of widths, each call with a latency: its own, or the same for all."""
    widths = [width for mix in (BATCHED, FEW, {1: ALONE}) for width, turns in mix.items() for _ in range(turns)]
    chosen = [widths[n % len(widths)] for n in range(count)] if count >= len(widths) else chance.sample(widths, count)
    return [
        (f"t{n}", [1.0] * width if uniform else chance.sample(range(1, width + 1), width))
        for n, width in enumerate(chosen)
    ]


BECAUSE = """
The paper's turns are those of two models (12 of width two and 18 of width five; 3 more of untold width, taken as
three): the widths are an input here, and latencies are a random order of the calls. So its 24 of 33 (22 and 2) is a
figure of its latencies: 4 of 12 at width two, where half is expected.

With equal latencies the stock node keeps the order under asyncio, in the paper as here.

The stock node's history is what `settlemark_langgraph.record` heard, ours is the engine's own. Both are beside the
log of what the tools did.
"""


def run(runs: int, told: Told) -> Findings:
    """Play 90 turns for every 100 of `runs`: with the stock node and with ours, on the same turns."""
    count = max(30, TURNS * runs // 100)
    rows, widths = [], []
    for uniform in (False, True):
        turns = turns_of(count, random.Random(11), uniform=uniform)
        several = [turn for turn in turns if len(turn[1]) > 1]
        for name, node in (("stock ToolNode", _stock), ("SequencedToolNode", _sequenced)):
            cells = shared_cells()
            cells.clear()
            found, transcripts = node(cells, turns, told)
            acted = _order(cells)
            reordered = {turn: acted[turn] != sorted(acted[turn]) for turn, _ in several}
            rows.append(
                {
                    "latencies": "equal" if uniform else "drawn",
                    "node": name,
                    "A6": Share(sum(found[turn]["A6"].count > 0 for turn, _ in several), len(several)),
                    "reordered in the log": Share(sum(reordered.values()), len(several)),
                    "by latency": Share(sum(acted[turn] == _by_latency(late) for turn, late in several), len(several)),
                    "transcript in order": Share(sum(transcripts[turn] for turn, _ in several), len(several)),
                    "complete": f"{sum(sorted(acted[turn]) == [*range(len(late))] for turn, late in turns)}/{count}",
                }
            )
            if uniform:
                continue
            for width in sorted({len(late) for _, late in several}):
                those = [turn for turn, late in several if len(late) == width]
                widths.append(
                    {
                        "node": name,
                        "width": str(width),
                        "A6": Share(sum(reordered[turn] for turn in those), len(those)),
                        "expected unguarded": 1 - 1 / math.factorial(width),
                    }
                )
    tables = [
        Table(f"the turns of several calls among {count}; the paper has 24 of 33, and 0 of 33", rows),
        Table("by width, latencies drawn", widths),
    ]
    return Findings(
        "toolnode",
        "ToolNode: effects reorder by latency, and the transcript does not show it",
        tables,
        BECAUSE,
        bars(tables[0], ["A6", "transcript in order"]),
    )


Found = tuple[Mapping[str, Any], Mapping[str, bool]]


def _stock(cells: Cells, turns: Sequence[tuple[str, list[float]]], told: Told) -> Found:
    recorder = Recorder()
    graph = record(_graph(ToolNode(tools_of(cells))), recorder, effects=EFFECTS)
    transcripts = play(_invoke(graph, turns, told))
    return _by_turn(recorder.records, _turn_of), transcripts


def _sequenced(cells: Cells, turns: Sequence[tuple[str, list[float]]], told: Told) -> Found:
    with tempfile.TemporaryDirectory(prefix="settlemark-evidence-") as folder:
        path = Path(folder) / "history.jsonl"
        with Settlement("memory:", history=path, payloads=Payloads(retain=10**7)) as settlement:
            graph = _graph(SequencedToolNode(tools_of(cells), settlement=settlement, effects=EFFECTS))
            transcripts = play(_invoke(graph, turns, told))
        return _by_turn(read(path), _turn_of), transcripts


def _graph(node: ToolNode) -> Any:
    builder = StateGraph(MessagesState).add_node("tools", node)
    return builder.add_edge(START, "tools").add_edge("tools", END).compile()


async def _invoke(graph: Any, turns: Sequence[tuple[str, list[float]]], told: Told) -> dict[str, bool]:
    found = {}
    for turn, latencies in turns:
        calls = [
            {
                "name": tool,
                "id": f"{turn}-{place}",
                "type": "tool_call",
                "args": {"turn": turn, "place": place, "latency": latency},
            }
            for place, (tool, latency) in enumerate(zip(PIPELINE, latencies, strict=False))
        ]
        state = await graph.ainvoke(
            {"messages": [AIMessage("I set it up.", id=turn, tool_calls=calls)]},
            {"configurable": {"thread_id": turn}},
        )
        answered = [message.tool_call_id for message in state["messages"] if message.type == "tool"]
        found[turn] = answered == [call["id"] for call in calls]
        told()
    return found


def _by_turn(records: Sequence[OpRecord] | Any, turn_of: Callable[[OpRecord], str | None]) -> dict[str, Any]:
    found: dict[str, list[OpRecord]] = {}
    for each in records:
        turn = turn_of(each)
        if turn is not None:
            found.setdefault(turn, []).append(each)
    return {turn: analyze(each) for turn, each in found.items()}


def _turn_of(record: OpRecord) -> str | None:
    """The turn of a record, by the cells of its effects."""
    cells = [cell for cell, _ in record.io]
    return cells[0].removeprefix("stage:/").split("/")[0] if cells else None


def _order(cells: Cells) -> dict[str, list[int]]:
    acted: dict[str, list[int]] = {}
    for line in cells.log():
        acted.setdefault(line["by"], []).append(line["place"])
    return acted


def _by_latency(latencies: Sequence[float]) -> list[int]:
    return sorted(range(len(latencies)), key=latencies.__getitem__)


__all__ = ["run"]
