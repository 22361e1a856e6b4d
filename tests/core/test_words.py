"""One function puts exceptions into words, and one door calls what is the user's: no module does either by itself."""

import ast
from pathlib import Path

import pytest
from tests.rooms.edges import MOST, Through, is_a, through

import settlemark
from settlemark.hosting import in_words, kind_of, message_of

CORE = Path(settlemark.__file__).parent
ROOMS = [CORE, CORE.parents[1] / "adapters", CORE.parents[1] / "integrations"]
ENGINE = ("_edges", "_model", "_protocol", "_acts", "_observe", "_report", "_engine", "_lifecycle", "_runtime", "_api")
BROAD = {"Exception", "BaseException"}
AT_LEISURE = {"settlemark_demo", "lint", "benchmarks"}  # they speak of errors of their own making
USERS = {"function", "refine", "_source", "_on_residue", "_rule", "around", "tell", "fetch"}
"""Attributes that hold what is the user's."""
ASKS_NOBODY = {"user_code.py"}


def files():
    return [
        file
        for room in ROOMS
        for file in sorted(room.rglob("*.py"))
        if not AT_LEISURE & set(file.relative_to(room).parts)
    ]


def caught(node):
    """The names of what a handler catches."""
    if node is None:
        return BROAD
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }


def strangers(tree):
    """Yield the names that hold anybody's exception, with the code in which they do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name and caught(node.type) & BROAD:
            yield node.name, node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if argument.annotation is not None and caught(argument.annotation) & BROAD:
                    yield argument.arg, node.body


def is_name(node, name):
    return isinstance(node, ast.Name) and node.id == name


def asks(node, name):
    """Whether code asks an exception for its text, or for what it says it is."""
    if isinstance(node, ast.FormattedValue):
        return is_name(node.value, name)
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.BoolOp) and any(is_name(value, name) for value in node.values[:-1])
    given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg != "exc_info")]
    if isinstance(node.func, ast.Name) and node.func.id in ("str", "repr", "format", "bool"):
        return any(is_name(value, name) for value in given)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("debug", "info", "warning", "error", "exception"):
        return any(is_name(value, name) for value in given)
    return False


def test_no_module_asks_an_exception_for_its_text_by_itself():
    found = []
    for file in files():
        if file.name == "wording.py":
            continue
        for name, body in strangers(ast.parse(file.read_text())):
            found += [f"{file.name}:{n.lineno}" for part in body for n in ast.walk(part) if asks(n, name)]
    assert found == []


OURS = {
    # Those of an observer are `Told`'s, which goes through the door; a release is called by its act.
    "ages.py: self._kernel.telling.observer.tell", "act.py: protocol.refine", "abort.py: self._residue.tell",
    "recovery.py: self._kernel.telling.observer.tell", "owing.py: self._kernel.telling.observer.tell",
    "release.py: self._residue.tell",
    "retention.py: self.tell", "host.py: told.tell", "protocol.py: self._calls.refine",
    "release.py: handler.function", "telling.py: observer.tell", "telling.py: self.observer.tell",
}  # fmt: skip # a table


def test_no_module_of_the_engine_calls_what_is_the_users_past_the_door():
    found = {
        f"{file.name}: {ast.unparse(node.func)}"
        for room in ENGINE
        for file in sorted((CORE / room).rglob("*.py"))
        if file.name not in ASKS_NOBODY
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in USERS
    }
    assert found - OURS == set()


class Silent(Exception):
    def __str__(self):
        raise LookupError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no room"), "ValueError: no room"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent: (its own message is not available: LookupError)"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ExceptionGroup("two", [ValueError(), Silent()]), "ExceptionGroup: two (2 sub-exceptions)"),
    ],
)
def test_an_exception_in_words_is_its_class_and_its_message(error, words):
    assert in_words(error) == words


def test_words_are_bounded():
    class Long(str):
        __slots__ = ()

        def __len__(self):
            return 3

        def __getitem__(self, _part):
            return self

    class Loud(Exception):
        def __str__(self):
            return Long("x" * 10_000_000)

    assert len(message_of(Loud())) < MOST + 50
    assert type(message_of(Loud())) is str
    assert len(kind_of(type("K" * 100_000, (Exception,), {})())) < 300


def test_an_exception_is_what_its_type_says():
    class Liar(Exception):
        @property
        def __class__(self):
            raise LookupError

    assert is_a(Liar(), Exception)
    assert not is_a(Liar(), (ValueError, KeyError))


@pytest.mark.parametrize("error", [StopIteration(7), StopAsyncIteration(), GeneratorExit()])
def test_what_ends_generators_becomes_an_ordinary_failure(error):
    def tool():
        raise error

    with pytest.raises(RuntimeError, match=f"tool raised {type(error).__name__}") as raised:
        through(tool)
    assert raised.value.__cause__ is error


def test_a_coroutine_that_is_thrown_away_is_not_taken_for_one_that_fails():
    cleaned = []

    async def tool():
        try:
            await Forever()
        finally:
            cleaned.append("closed")

    async def outer():
        await Through(tool())

    coroutine = outer()
    coroutine.send(None)
    coroutine.close()
    assert cleaned == ["closed"]


class Forever:
    def __await__(self):
        while True:
            yield
