"""The public face is a list: sorted, documented, light to import."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tests.rooms.edges import errors

import settlemark
from settlemark import Scope

CORE = Path(settlemark.__file__).parents[1]
ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
HEAVY = ["sqlalchemy", "typer", "rich", "langgraph", "langchain_core", "crewai", "autogen_core", "pydantic_ai"]


def test_all_is_sorted_and_is_what_is_there():
    def rank(name):
        return (not name.isupper(), not name[0].isupper(), name)

    there = {
        name for name, value in vars(settlemark).items() if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(settlemark.__all__) == there - {"annotations"}
    assert settlemark.__all__ == sorted(settlemark.__all__, key=rank)


@pytest.mark.parametrize("name", [name for name in settlemark.__all__ if name != "UNKNOWN"])
def test_every_public_name_and_method_says_what_the_caller_gets(name):
    value = getattr(settlemark, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        for method, member in vars(value).items():
            if not method.startswith("_") and (inspect.isroutine(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{name}.{method}"


def test_importing_settlemark_loads_no_store_no_terminal_and_no_framework():
    code = f"import sys; sys.path.insert(0, {str(CORE)!r}); import settlemark; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {module.split(".")[0] for module in done.stdout.split()}
    assert loaded & set(HEAVY) == set()
    assert "settlemark" in loaded


def test_a_memory_settlement_loads_no_store_either():
    code = (
        f"import sys; sys.path.insert(0, {str(CORE)!r}); import settlemark;"
        " s = settlemark.Settlement('memory:')\nwith s.transaction('a') as tx: tx.read('x-y:/1')\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert {module.split(".")[0] for module in done.stdout.split()} & set(HEAVY) == set()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("travel", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_every_error_survives_a_journey_with_its_data(error, travel):
    sent = error("room:/a is held", scope=Scope.parse("room:/a"), holder="other", waited=1.5, transaction="trip")
    back = travel(sent)
    assert (type(back), str(back), back.data) == (error, "room:/a is held", sent.data)
    assert (back.scope, back.holder, back.waited) == (Scope.parse("room:/a"), "other", 1.5)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_is_drawn_in_the_tree_and_is_public(error):
    assert error.__name__ in errors.__doc__
    assert getattr(settlemark, error.__name__) is error
    assert issubclass(error, settlemark.SettlemarkError)


def test_what_an_error_does_not_carry_is_an_attribute_error():
    error = settlemark.Stale("changed", scope="price:/a")
    with pytest.raises(AttributeError, match="'Stale' object has no attribute 'holder'"):
        _ = error.holder


def test_without_a_url_the_ledger_is_the_environments_or_a_file_here_and_that_is_said(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "settlemark")
    monkeypatch.setenv("SETTLEMARK_URL", "memory:")
    assert settlemark.Settlement().url == "memory:"
    monkeypatch.delenv("SETTLEMARK_URL")
    monkeypatch.chdir(tmp_path)
    with settlemark.Settlement() as settlement:
        assert settlement.url == "sqlite:///settlemark.db"
    assert (tmp_path / "settlemark.db").exists()
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "the ledger is memory:",
        "the ledger is sqlite:///settlemark.db",
    ]
