"""Where a private name that the shim reads is gone from LangGraph, nothing is made, or run, unless that is allowed."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("langgraph")

import settlemark_langgraph
from settlemark import Settlement, UsageError
from settlemark_langgraph import SequencedToolNode, SettlementMiddleware, _private, settled
from settlemark_langgraph._private import absent_names, read_names


def look(at: str) -> str:
    """Look."""
    return at


MADE = {
    "node": lambda **more: SequencedToolNode([look], settlement=Settlement("memory:"), **more),
    "node without a settlement": lambda **more: SequencedToolNode([look], **more),
    "middleware": lambda **more: SettlementMiddleware(Settlement("memory:"), **more),
}


def without(module, within, name):
    """Load modules as they are installed, but for one name."""

    def load(asked):
        found = import_module(asked)
        if asked != module:
            return found
        if not within:
            return SimpleNamespace(**{key: value for key, value in vars(found).items() if key != name})
        if name in {"task", "futures", "schedule_task"}:
            return SimpleNamespace(**{**vars(found), within: lambda other: other})
        return SimpleNamespace(**{**vars(found), within: type(within, (), {})})

    return load


@pytest.mark.parametrize(("module", "within", "name"), read_names())
def test_each_name_that_is_gone_is_told(module, within, name):
    assert absent_names() == []
    assert f"{module}.{within}.{name}".replace("..", ".") in absent_names(without(module, within, name))


@pytest.mark.parametrize("module", sorted({module for module, *_ in read_names() if "_" in module}))
def test_a_module_that_is_gone_is_told_by_its_names(module):
    def load(asked):
        if asked == module:
            raise ImportError(asked)
        return import_module(asked)

    assert absent_names(load) == [".".join(filter(None, found)) for found in read_names() if found[0] == module]


def test_a_key_that_has_another_value_is_told():
    moved = without("langgraph._internal._constants", "", "CONFIG_KEY_CALL")

    def load(asked):
        found = moved(asked)
        if asked == "langgraph._internal._constants":
            found.CONFIG_KEY_CALL = "__pregel_call_v2"
        return found

    assert absent_names(load) == ["langgraph._internal._constants.CONFIG_KEY_CALL"]


@pytest.mark.parametrize("what", MADE)
def test_where_a_name_is_gone_nothing_is_made(what, monkeypatch):
    monkeypatch.setattr(_private, "ABSENT", ["langgraph.types.gone"])

    with pytest.raises(UsageError, match=r'does not have langgraph\.types\.gone, .* or pass unsettled="warn"'):
        MADE[what]()


def test_where_a_name_is_gone_no_tool_is_settled(monkeypatch):
    monkeypatch.setattr(_private, "ABSENT", ["langgraph.types.gone"])

    with pytest.raises(UsageError, match=r"does not have langgraph\.types\.gone"):
        settled(look, Settlement("memory:"))


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("unsettled", ["warn", "allow"])
def test_a_user_may_go_on_without_a_name_and_a_warning_says_so(what, unsettled, monkeypatch, caplog):
    monkeypatch.setattr(_private, "ABSENT", ["langgraph.types.gone"])

    MADE[what](unsettled=unsettled)

    assert len([r for r in caplog.records if "langgraph.types.gone" in r.getMessage()]) == (unsettled == "warn")


@pytest.mark.parametrize("what", MADE)
def test_what_is_no_choice_is_refused(what):
    with pytest.raises(UsageError, match="unsettled='maybe' is none of refuse, warn, allow"):
        MADE[what](unsettled="maybe")


def test_no_other_file_of_the_shim_has_a_private_key_of_langgraph():
    room = Path(settlemark_langgraph.__file__).parent
    known = {"__pregel_tasks", "__pregel_push", _private.CALL, _private.CHECKPOINTER, _private.SCRATCHPAD}
    found = {
        (path.relative_to(room).as_posix(), node.value)
        for path in room.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("__pregel")
    }

    assert {value for _, value in found} <= known
    assert {value for path, value in found if path != "_private.py"} <= {"__pregel_tasks", "__pregel_push"}
