"""One run of a graph that tells what its nodes wrote, for the nodes whose source does not."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from langgraph.graph.state import CompiledStateGraph

from settlemark.hosting import in_words
from settlemark_langgraph.analysis._wiring import Builder, Compiled

_LIMIT = 100


def record(graph: Builder | Compiled, given: Any) -> tuple[dict[tuple[str, ...], frozenset[str]], str | None]:
    """Run a graph once, and return what each node wrote, by its path, and what ended the run early.

    The graph really runs: its models and tools are called. A builder is compiled for it; a compiled graph
    keeps its checkpointer, and the run gets a thread of its own.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="settlemark-analyze") as threads:
        # In a thread, so that it works within a running loop as well; async, so that async nodes do.
        return threads.submit(lambda: asyncio.run(_record(graph, given))).result()


async def _record(graph: Builder | Compiled, given: Any) -> tuple[dict[tuple[str, ...], frozenset[str]], str | None]:
    found: dict[tuple[str, ...], set[str]] = {}
    compiled = cast("Any", graph if isinstance(graph, CompiledStateGraph) else _compiled(graph))
    config = {"configurable": {"thread_id": f"analyze-{uuid.uuid4()}"}, "recursion_limit": _LIMIT}
    ended = None
    try:
        async for space, chunk in compiled.astream(given, config, stream_mode="updates", subgraphs=True):
            path = tuple(cast("str", part).partition(":")[0] for part in space)
            for node, update in chunk.items():
                found.setdefault((*path, node), set()).update(_keys(update))
    except Exception as error:
        # What was written before is worth as much: a fail-stop is what is looked for.
        ended = in_words(error).partition("\n")[0]
    return {path: frozenset(keys) for path, keys in found.items()}, ended


def _keys(update: Any) -> set[str]:
    if isinstance(update, Mapping):
        return set(cast("Mapping[str, Any]", update))
    if isinstance(update, list | tuple):
        return set[str]().union(*(_keys(part) for part in cast("list[Any]", update)))
    return set()


def _compiled(builder: Builder) -> Any:
    # Compiling marks the builder, and LangGraph then warns of every node that is added.
    was = builder.compiled
    try:
        return cast("Any", builder).compile()
    finally:
        builder.compiled = was


__all__ = ["record"]
