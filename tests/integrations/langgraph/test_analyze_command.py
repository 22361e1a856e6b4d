from __future__ import annotations

import json
import sys

import pytest
import typer
from tests.rooms.langgraph import analyze
from typer.testing import CliRunner

GRAPHS = """
from typing import TypedDict
from langgraph.graph import START, StateGraph
{imports}
class State(TypedDict):
    text: str
    summary: str

class OnlyText(TypedDict):
    text: str

def edit(state: OnlyText):
    return {{"text": "new"}}

def summarize(state: OnlyText):
    return {{"summary": state["text"]}}

def either(state: OnlyText):
    return {{key: state["text"] for key in state}}

def build(*edges, second=summarize):
    builder = StateGraph(State).add_node("edit", edit).add_node("summarize", second)
    for edge in edges:
        builder.add_edge(*edge)
    return builder

racy = build((START, "edit"), (START, "summarize"))
compiled = racy.compile()
sound = build((START, "edit"), ("edit", "summarize"))
unread = build((START, "edit"), ("edit", "summarize"), second=either)
invalid = build(("edit", "summarize"))
number = 7

def make():
    return sound.compile()

async def make_async():
    return sound

def make_from(config):
    return sound

def fail():
    raise LookupError("no key")

class Graphs:
    sound = sound
"""


@pytest.fixture
def run():
    app = typer.Typer()
    app.command(name="analyze")(analyze)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def graphs(tmp_path, monkeypatch):
    """A package and a file with graphs, in the folder the command runs in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    package = tmp_path / "their_app"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "agent.py").write_text(GRAPHS.format(imports=""))
    files = tmp_path / "src"
    files.mkdir()
    (files / "their_helper.py").write_text("KEY = 1\n")
    (files / "their_agent.py").write_text(GRAPHS.format(imports="from their_helper import KEY"))
    (files / "their_broken.py").write_text("import no_such_module\n")
    yield
    for name in set(sys.modules) - before:
        if name.startswith("their_"):
            del sys.modules[name]


@pytest.mark.parametrize("target", ["their_app.agent:racy", "their_app.agent:compiled", "src/their_agent.py:racy"])
def test_findings_are_told_as_json_and_by_the_exit_status(run, target):
    result = run(target, "--json")

    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["findings"][0].pop("why").startswith("summarize reads 'text' while edit writes it")
    assert told == {
        "clean": False,
        "complete": True,
        "findings": [
            {
                "kind": "stale-read",
                "channel": "text",
                "nodes": ["summarize", "edit"],
                "superstep": ["edit", "summarize"],
                "suggestion": "latest_by_version",
                "tool": None,
            }
        ],
        "supersteps": [["edit", "summarize"]],
        "notes": [],
    }


@pytest.mark.parametrize(
    "target",
    ["their_app.agent:sound", "their_app.agent:make", "src/their_agent.py:make", "their_app.agent:Graphs.sound"],
)
def test_a_graph_without_findings_exits_with_0(run, target):
    assert json.loads(run(target, "--json").stdout)["clean"] is True
    assert run(target).exit_code == 0
    assert run(target).stdout == "nothing found (2 supersteps)\n"


def test_people_are_told_in_a_table(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    result = run("their_app.agent:racy")

    assert result.exit_code == 1
    for word in (
        "stale-read",
        "text",
        "summarize, edit",
        "latest_by_version",
        "1. summarize reads 'text'",
        "1 finding (1 superstep)",
    ):
        assert word in result.stdout


def test_a_run_tells_what_the_source_does_not(run):
    unread = json.loads(run("their_app.agent:unread", "--json").stdout)
    ran = json.loads(run("their_app.agent:unread", "--json", "--run", '{"text": "old"}').stdout)

    (note,) = unread["notes"]
    assert note.startswith("what summarize writes cannot be read from its source")
    assert ran["notes"] == []


def test_a_limit_that_is_reached_is_said(run):
    result = run("their_app.agent:sound", "--limit", 1)

    assert result.exit_code == 1
    assert "and not all)" in result.stdout
    assert "more supersteps than the limit allows" in result.stdout


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("their_app.agent", "names no graph: say yourapp.agent:graph, or path/to/agent.py:graph"),
        ("no_such_app:graph", "no_such_app cannot be imported: ModuleNotFoundError"),
        ("src/no_such.py:graph", "src/no_such.py cannot be imported: FileNotFoundError: there is no such file in"),
        ("src/their_broken.py:graph", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("their_app.agent:no_such", "their_app.agent has no 'no_such': name a graph, or a function that returns one"),
        ("their_app.agent:number", "analyze() takes a StateGraph, or what its compile() returns, not a int"),
        ("their_app.agent:invalid", "LangGraph refuses this graph"),
        ("their_app.agent:fail", "their_app.agent:fail() failed: LookupError: no key"),
        ("their_app.agent:make_async", "is async: name a function without arguments that returns a graph"),
        ("their_app.agent:make_from", "needs config: name a function without arguments that returns a graph"),
    ],
)
def test_what_is_no_graph_is_told_and_exits_with_2(run, target, told):
    result = run(target)

    assert result.exit_code == 2
    assert told in result.stderr
    assert result.stdout == ""


def test_a_run_of_what_is_no_json_exits_with_2(run):
    result = run("their_app.agent:sound", "--run", "{text")

    assert result.exit_code == 2
    assert "--run is no JSON" in result.stderr


def test_a_file_that_cannot_be_imported_leaves_no_module_behind(run):
    run("src/their_broken.py:graph")

    assert "their_broken" not in sys.modules
