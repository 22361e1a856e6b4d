"""Core may move its files, and the insides of its engine.

Tests enter by public doors and by `tests/rooms`, and only a test about a file names it. Shims and adapters read neither
the engine's inside nor a private attribute of core: what they need, a door has.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
OUTSIDE_CORE = [
    folder for root in ("adapters", "integrations") for folder in sorted((HERE.parent / root).glob("settlemark_*"))
]
ROOMS = HERE / "rooms"

PRIVATE = re.compile(r"settlemark\w*(?:\.\w+)*(?:\.|\s+import[\w\s,(]*?\b)_[a-z]")
"""What a file has in it that may import a private name: the others need not be parsed."""
ABOUT = {
    "test_doors.py": "what counts as private is its subject",
    "integrations/upstream_crewai_plugin.py": "it runs where the package `tests` is CrewAI's own",
    "benchmarks/test_import.py": "the names of the modules that `import settlemark` loads are its subject",
}
"""Tests that name private modules, and whose own names do not say which."""
ENGINE = {"driver", "kernel"}
"""The attributes that lead from a settlement's host into the engine."""
OF_OTHERS = {
    "settlemark_adapters": {"_strip_protocol": "fsspec", "_pipe_file": "fsspec"},
    "settlemark_autogen": {"_tools": "AutoGen", "_tool_overrides": "AutoGen", "_func": "AutoGen"},
    "settlemark_crewai": {
        "_run": "CrewAI",
        "_arun": "CrewAI",
        "_original_tool": "CrewAI",
        "_settlemark": "its own mark on a tool",
    },
    "settlemark_langgraph": {
        "_to_args_and_kwargs": "LangChain",
        "_run": "LangChain",
        "_arun": "LangChain",
        "_messages_key": "LangGraph",
        "_put_checkpoint_fut": "LangGraph",
        "_replace": "Python: a named tuple's",
        "_update_as_tuples": "LangGraph",
    },
}
"""The private attributes that a package reads of other packages, and whose they are: never core's."""


def private_in(text):
    """Return the names that a file imports from private modules, and those that it names for a patch."""
    found = set()
    for node in ast.walk(ast.parse(text)) if PRIVATE.search(text) else ():
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w.]+", node.value):
            found.add(node.value)
    return {name for name in found if re.match(r"settlemark\w*\.(\w+\.)*_[a-z]", name)}


def is_about(path, name):
    """Whether a test has the name of a module, or of the module in which a name stands."""
    last = {part.lstrip("_") for part in name.split(".")[-2:]}
    return path.name.startswith("test_") and path.stem.removeprefix("test_") in last


def found():
    """Return the private names of each test file that has any, the rooms' faces apart."""
    names = {path: private_in(path.read_text()) for path in HERE.rglob("*.py") if not path.is_relative_to(ROOMS)}
    return {path: private for path, private in names.items() if private}


def test_a_private_module_is_imported_by_the_test_that_has_its_name_and_else_by_the_face_of_its_room():
    strangers = {
        path.relative_to(HERE).as_posix(): sorted(name for name in private if not is_about(path, name))
        for path, private in found().items()
    }
    assert {file: names for file, names in strangers.items() if names and file not in ABOUT} == {}, (
        "take what a public door has; else import it in tests/rooms, and from there"
    )
    assert [file for file in ABOUT if not strangers.get(file)] == [], "take it off the list"


def test_a_private_name_is_shown_by_one_face():
    faces = defaultdict(set)
    for path in ROOMS.glob("*.py"):
        for name in private_in(path.read_text()):
            faces[name].add(path.name)
    assert {name: sorted(files) for name, files in faces.items() if len(files) > 1} == {}


def test_what_a_face_shows_some_test_takes():
    taken = defaultdict(set)
    for path in HERE.rglob("*.py"):
        for room, names in re.findall(r"from tests\.rooms\.(\w+) import (\([^)]*\)|[^\n]*)", path.read_text()):
            taken[room] |= {name.split(" as ")[0].strip() for name in names.strip("()").split(",")}
    shown = {
        path.stem: ast.literal_eval(re.search(r"__all__ = (\[[^\]]*\])", path.read_text()).group(1))
        for path in ROOMS.glob("*.py")
        if path.stem != "__init__"
    }
    assert {room: sorted(set(names) - taken[room]) for room, names in shown.items() if set(names) - taken[room]} == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from settlemark import effect\nfrom settlemark.hosting import Turn", set()),
        ("def f():\n    import settlemark._api.host", {"settlemark._api.host"}),
        ("from settlemark.ledger import _lease", {"settlemark.ledger._lease"}),
        ("from settlemark.shop import _clock", {"settlemark.shop._clock"}),
        ("patch('settlemark_crewai._job._default', [])", {"settlemark_crewai._job._default"}),
        ("from settlemark_demo._world import World", {"settlemark_demo._world.World"}),
        ("say('from settlemark._api import host')", set()),
    ],
)
def test_what_counts_as_private(text, named):
    assert private_in(text) == named


# ---- shims and adapters


def reached_in(text):
    """Return the engine's attributes, and private ones of other objects, that a file reads or writes, with their lines.

    What a file reads of `self`, `cls` or `super()` is of its own class.
    """
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")), attr=name):
                inside = name in ENGINE
            case ast.Attribute(attr=name):
                inside = name in ENGINE or is_private(name)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr" | "attrgetter"),
                args=[*_, ast.Constant(value=str(name))] | [_, ast.Constant(value=str(name)), _],
            ):
                inside = name in ENGINE or is_private(name)
            case _:
                continue
        if inside:
            found.add((name, node.lineno))
    return found


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def own_names_in(text):
    """Return the private names that the classes of a file give their objects."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self"), attr=name)
            ):
                found.add(name)
    return {name for name in found if is_private(name)}


@pytest.mark.parametrize("package", OUTSIDE_CORE, ids=lambda folder: folder.name)
def test_a_shim_or_an_adapter_reads_neither_the_engines_inside_nor_a_private_attribute_of_core(package):
    texts = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
    own = set().union(*map(own_names_in, texts.values()))
    others = OF_OTHERS.get(package.name, {})
    reached = {path.relative_to(package).as_posix(): reached_in(text) for path, text in texts.items()}
    strangers = {
        file: sorted((name, line) for name, line in found if name not in own | others.keys())
        for file, found in reached.items()
    }
    assert {file: names for file, names in strangers.items() if names} == {}, (
        "give core's a door in settlemark.agents or settlemark.hosting; name the others in OF_OTHERS"
    )
    assert others.keys() - {name for found in reached.values() for name, _ in found} == set(), "take it off the list"


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("host_of(settlement).driver.kernel.look(look)", {("driver", 1), ("kernel", 1)}),
        ("self.driver.new_epoch()", {("driver", 1)}),
        ("call._inside", {("_inside", 1)}),
        ("x = 1\ngetattr(call, '_inside', None)", {("_inside", 2)}),
        ("getattr(host, 'driver')", {("driver", 1)}),
        ("call._inside = None", {("_inside", 1)}),
        ("self._inside, cls._made, super()._func()", set()),
        ("call.__class__, call.key", set()),
    ],
)
def test_what_counts_as_the_engines_inside(text, reached):
    assert reached_in(text) == reached
