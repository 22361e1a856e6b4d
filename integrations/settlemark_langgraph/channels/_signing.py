"""Names on the writes of a graph's nodes, asked of the graph and not of the nodes."""

# What nodes write comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from langchain_core.runnables import RunnableLambda
from langgraph.graph import StateGraph
from langgraph.types import Command

from settlemark_langgraph.channels._conflicts import signed_by
from settlemark_langgraph.channels._single_writer import SingleWriter, overwritten

Builder = TypeVar("Builder", bound=StateGraph[Any, Any, Any, Any])

# LangSmith and LangGraph's own streams leave out what carries it
_HIDDEN = "langsmith:hidden"


def signed(builder: Builder) -> Builder:
    """Return the graph's builder, its nodes' writes to `SingleWriter` channels now carrying their names.

    Call it once all nodes are added: `signed(builder).compile()`. It names what a node returns as a mapping, a
    `Command`, or a list of these. What it returns as a state object (dataclass, pydantic) stays without a name,
    and so do writes of `update_state` and of a graph's input.
    """
    keys = frozenset(key for key, channel in builder.channels.items() if isinstance(channel, SingleWriter))
    for name, spec in builder.nodes.items():
        sign_all = RunnableLambda(cast("Callable[[Any], Any]", partial(_sign, name, keys)), name="sign")
        spec.runnable = cast("Any", spec.runnable) | sign_all.with_config(tags=[_HIDDEN])
    return builder


def _sign(node: str, keys: frozenset[str], output: Any) -> Any:
    if isinstance(output, list):
        return [_sign(node, keys, part) for part in output]
    if isinstance(output, Command):
        # what is for the parent graph does not write this one's channels
        return output if output.graph is not None else replace(output, update=_sign(node, keys, output.update))
    if not isinstance(output, dict):
        return output
    fields = cast("dict[str, Any]", output)
    return {
        key: signed_by(node, value) if key in keys and value is not None and not overwritten(value)[0] else value
        for key, value in fields.items()
    }
