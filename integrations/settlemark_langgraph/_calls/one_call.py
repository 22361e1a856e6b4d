"""One call that somebody else runs, a middleware's handler or a tool by itself, settled in its turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import ToolCall

from settlemark.agents import TRIES, words
from settlemark.hosting import Program, end_async, run_async, run_sync
from settlemark_langgraph._messages.messages import told
from settlemark_langgraph._turns.seated import SeatedCall
from settlemark_langgraph._turns.sends import UndoneWithOthers
from settlemark_langgraph._turns.visit import Visit

Begin = Callable[[bool], Program[Visit]]
"""Returns what the run of a node has of its turn; the argument says that it is not repeated when it loses a race."""

Writer = Callable[[Any], object]
"""Writes to the graph's custom stream what became of an effect."""


def settle(
    begin: Begin, call: ToolCall, runtime: Any, act: Callable[[SeatedCall], Any], writer: Writer | None = None
) -> Any:
    """Run a call in its place of the turn, and return its answer when the turn has settled."""
    for tries in range(TRIES, 0, -1):
        try:
            visit = run_sync(begin(tries == 1))
        except UndoneWithOthers as error:
            return told(call, words(error))
        seated = visit.begin(call, runtime)
        try:
            seated.answer = act(seated)
        except BaseException as error:
            seated.error = error
        try:
            run_sync(seated.leave())
            if not visit.lost_race:
                return visit.answered(seated, writer)
        except BaseException as error:
            run_sync(visit.abandon(error))
            raise
    raise AssertionError


async def asettle(
    begin: Begin,
    call: ToolCall,
    runtime: Any,
    act: Callable[[SeatedCall], Awaitable[Any]],
    writer: Writer | None = None,
) -> Any:
    """Run a call in its place of the turn, and return its answer when the turn has settled."""
    for tries in range(TRIES, 0, -1):
        try:
            visit = await run_async(begin(tries == 1))
        except UndoneWithOthers as error:
            return told(call, words(error))
        seated = visit.begin(call, runtime)
        try:
            seated.answer = await act(seated)
        except BaseException as error:
            seated.error = error
        try:
            await run_async(seated.leave())
            if not visit.lost_race:
                return visit.answered(seated, writer)
        except BaseException as error:
            await end_async(visit.abandon(error))
            raise
    raise AssertionError


__all__ = ["asettle", "settle"]
