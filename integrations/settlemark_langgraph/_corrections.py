"""Answers that became something else after they were given: what was acknowledged, and left, was refused or undone.

An answer that is given before its transaction has settled carries its key. Once it has settled, in this process
or another, the record says what became of the call, and the answer is replaced by that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.config import get_config

from settlemark import Settlement
from settlemark.agents import Since, since_answered
from settlemark.hosting import in_event_loop, run_sync
from settlemark_langgraph._messages.acknowledged import key_of, unmarked
from settlemark_langgraph._messages.messages import answer_from, told
from settlemark_langgraph._supersteps.superstep import Superstep


def corrections(messages: Iterable[Any], settlement: Settlement) -> list[Any]:
    """Return what is to replace answers that were acknowledgements, now that it is known what became of their calls.

    The messages have the ids of those they replace, so LangGraph's `add_messages` puts them in their place. A
    `SettlementMiddleware` does this by itself; in a graph of your own, do it before the model is called.

    Args:
        messages: the state's.
        settlement: which settled, or will settle, the calls.

    Raises:
        LedgerError: the ledger cannot be read.

    >>> corrections([ToolMessage("done", tool_call_id="1")], Settlement("memory:"))
    []
    """
    waiting = [(key, message) for message in messages if isinstance(message, ToolMessage) and (key := key_of(message))]
    if not waiting:
        return []

    _until_settled()
    found = since_answered(settlement, [key for key, _ in waiting])
    return [_corrected(message, found[key]) for key, message in waiting if key in found]


def _until_settled() -> None:
    """Wait for the checkpoint that the caller's node runs on: with `durability="async"` it may be stored late."""
    try:
        superstep = Superstep.of(get_config())
    except RuntimeError:  # not in a graph
        return
    if superstep is not None and not in_event_loop():
        run_sync(superstep.until_stored())


def _corrected(message: ToolMessage, since: Since) -> ToolMessage:
    call = ToolCall(name=message.name or since.tool, args={}, id=message.tool_call_id, type="tool_call")
    answer: Any = message
    if since.left:
        answer = answer_from(since.result, call)
    elif since.told is not None:
        answer = told(call, since.told)
    if not isinstance(answer, ToolMessage):
        answer = message  # a command was obeyed long ago
    return unmarked(answer).model_copy(update={"id": message.id})


__all__ = ["corrections"]
