"""Where a private name that the shim reads is gone from LangGraph, nothing is made, or run, unless that is allowed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("langgraph")

import settlemark_langgraph
from settlemark import Settlement, UsageError
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, _private, settled
from settlemark_langgraph._private import NAMES


def look(at: str) -> str:
    """Look."""
    return at


MADE = {
    "node": lambda **more: SequencedToolNode([look], settlement=Settlement("memory:"), **more),
    "node without a settlement": lambda **more: SequencedToolNode([look], **more),
    "middleware": lambda **more: SettlementMiddleware(Settlement("memory:"), **more),
}


@pytest.mark.parametrize("what", MADE)
def test_where_a_name_is_gone_nothing_is_made(what, monkeypatch):
    monkeypatch.setitem(vars(NAMES), "absent", ["langgraph.types.gone"])

    with pytest.raises(UsageError, match=r'has no langgraph\.types\.gone, .* or pass unsettled="warn"'):
        MADE[what]()


def test_where_a_name_is_gone_no_tool_is_settled(monkeypatch):
    monkeypatch.setitem(vars(NAMES), "absent", ["langgraph.types.gone"])

    with pytest.raises(UsageError, match=r"has no langgraph\.types\.gone"):
        settled(look, Settlement("memory:"))


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("unsettled", ["warn", "allow"])
def test_a_user_may_go_on_without_a_name_and_a_warning_says_so(what, unsettled, monkeypatch, caplog):
    monkeypatch.setitem(vars(NAMES), "absent", ["langgraph.types.gone"])

    MADE[what](unsettled=unsettled)

    assert len([r for r in caplog.records if "langgraph.types.gone" in r.getMessage()]) == (unsettled == "warn")


@pytest.mark.parametrize("what", MADE)
def test_what_is_no_choice_is_refused(what):
    with pytest.raises(UsageError, match="unsettled='maybe': choose one of 'refuse', 'warn', 'allow'"):
        MADE[what](unsettled="maybe")


def test_no_other_file_of_the_shim_has_a_private_key_of_langgraph():
    room = Path(settlemark_langgraph.__file__).parent
    known = {
        "__pregel_tasks",
        "__pregel_push",
        _private.CALL,
        _private.CHECKPOINTER,
        _private.RESUME_MAP,
        _private.SCRATCHPAD,
    }
    found = {
        (path.relative_to(room).as_posix(), node.value)
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("__pregel")
    }

    assert {value for _, value in found} <= known
    assert {value for path, value in found if path != "_private.py"} <= {"__pregel_tasks", "__pregel_push"}
