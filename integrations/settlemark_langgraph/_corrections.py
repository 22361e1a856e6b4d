"""Answers that became something else after they were given: what was acknowledged, and left, was refused or undone.

An answer that is given before its transaction has settled carries its key. Once it has settled, in this process
or another, the record says what became of the call, and the answer is replaced by that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import ToolCall, ToolMessage
from langgraph.config import get_config

from settlemark import Outcome, Settlement, State
from settlemark.hosting import FINISHED, became, in_event_loop, json_text, run_sync
from settlemark.ledger import Book, RecordedEffect, RecordedTransaction
from settlemark_langgraph._acknowledged import key_of, unmarked
from settlemark_langgraph._messages import answer_from, told
from settlemark_langgraph._superstep import Superstep


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
    waiting = [message for message in messages if isinstance(message, ToolMessage) and key_of(message) is not None]
    if not waiting:
        return []

    _until_settled()

    def look(book: Book) -> list[Any]:
        found: list[Any] = []
        for message in waiting:
            recorded = book.find(key_of(message) or "")
            if recorded is not None and recorded.state in FINISHED:
                found.append(_corrected(message, recorded))
        return found

    return settlement.ledger.read(look)


def _until_settled() -> None:
    """Wait for the checkpoint that the caller's node runs on: with `durability="async"` it may be stored late."""
    try:
        superstep = Superstep.of(get_config())
    except RuntimeError:  # not in a graph
        return
    if superstep is not None and not in_event_loop():
        run_sync(superstep.until_stored())


def _corrected(message: ToolMessage, recorded: RecordedTransaction) -> ToolMessage:
    effect = next(effect for effect in recorded.effects if effect.row.key == key_of(message))
    call = ToolCall(name=message.name or effect.row.tool, args={}, id=message.tool_call_id, type="tool_call")
    answer = _answer(effect, recorded, message, call)
    if not isinstance(answer, ToolMessage):
        answer = message  # a command was obeyed long ago
    return unmarked(answer).model_copy(update={"id": message.id})


def _answer(effect: RecordedEffect, recorded: RecordedTransaction, message: ToolMessage, call: ToolCall) -> Any:
    row = effect.row
    because = recorded.cause or recorded.reason or "its transaction was undone"
    if recorded.state is State.COMMITTED and not row.held and effect.outcome in (Outcome.INTENDED, Outcome.UNKNOWN):
        return message  # whoever answered did know
    if recorded.state is State.COMMITTED:
        because = effect.disposed.told or effect.error or "it failed"  # of others it left, or was undone by an operator
    if effect.outcome is Outcome.CONFIRMED and effect.tag is None:
        return answer_from(json_text.decode(effect.result), call) if row.held else message
    text = became(row.tool, effect.outcome, because=because, held=row.held, tag=effect.tag, note=effect.disposed.told)
    return message if text is None else told(call, text)


__all__ = ["corrections"]
