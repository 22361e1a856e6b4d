"""What the linter says of this project's own declarations, and of code that has nothing to do with it."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from settlemark.lint import adopt, lint

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def told(*targets):
    return sorted({(each.rule, each.tool) for each in lint(*targets)})


def test_the_readme_the_docs_and_the_example_are_clean():
    assert told(ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples") == []


def test_the_integrations_declare_nothing_wrong():
    folders = [path for path in sorted((ROOT / "integrations").iterdir()) if path.name != "settlemark_demo"]
    assert told(*(path for path in folders if path.is_dir()), ROOT / "core" / "settlemark" / "agents") == []


def test_of_the_demo_it_is_told_that_the_pipelines_database_can_be_asked_nothing():
    steps = ["build_search_index", "create_database", "enable_live_traffic", "run_migrations", "seed_reference_data"]
    assert told(ROOT / "integrations" / "settlemark_demo") == [("SM104", step) for step in steps]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_of_the_notebooks_it_is_told_what_stays_in_doubt_and_no_error(notebook):
    if notebook.stem.startswith("06"):
        pytest.skip("its story is that the linter finds its mistakes")
    assert {rule for rule, _ in told(notebook)} <= {"SM104", "SM405"}


def test_the_adapters_declare_nothing_wrong():
    assert [str(each) for each in lint(ROOT / "adapters") if each.severity == "error"] == []


# ---- whatever the code is


@pytest.mark.parametrize("package", ["json", "email", "http", "sqlite3"])
def test_code_without_tools_has_no_findings(package):
    folder = Path(sysconfig.get_paths()["stdlib"], package)
    assert told(folder) == []
    assert adopt(folder).guesses == ()


EXPRESSIONS = st.recursive(
    st.sampled_from([
        "path", "to", "amount", "1", "'a'", "None", "self", "uuid4()", "current_call().key", "db", "[]", "{}", "...",
        "f'/o/{to}'", "open(path, 'w')", "lambda x: x", "lambda: None", "not to", "(yield)", "await db.go(to)",
    ]),
    lambda inner: st.one_of(
        st.builds("{}.get({})".format, inner, inner),
        st.builds("({})({}, key={})".format, inner, inner, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("({} / {} + {})".format, inner, inner, inner),
        st.builds("{{{}: {}, **{}}}".format, inner, inner, inner),
        st.builds("[{} for path, *to in {}]".format, inner, inner),
        st.builds("db.execute('UPDATE t SET a = ? WHERE b = ?', {})".format, inner),
        st.builds("helper({}, to={})".format, inner, inner),
        st.builds("f'{{{}}}-{{{}!r:>{{to}}}}'".format, st.sampled_from(["to", "path"]), st.sampled_from(["to", "db"])),
    ),
    max_leaves=6,
)  # fmt: skip # a table of values
STATEMENTS = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(["x", "a, b", "*a, b", "x[to]", "self.x", "path"]), EXPRESSIONS),
    st.builds("return {}".format, EXPRESSIONS),
    st.builds("for path in {}: x = {}".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("with {} as (to, x): pass".format, EXPRESSIONS),
    st.builds("del ({})[{}]".format, EXPRESSIONS, EXPRESSIONS),
    st.builds("x += {}".format, EXPRESSIONS),
    st.builds("{}".format, EXPRESSIONS),
)
KINDS = ["read", "idempotent", "reversible", "staged", "irreversible", "opaque", "nonsense"]


@given(
    kind=st.sampled_from(KINDS),
    scope=EXPRESSIONS | st.sampled_from(["'mail:/{to}'", "'file:/{path}'", "'x:/{to.id}/a-{path}'", "''", "'a{'"]),
    parts=st.dictionaries(
        st.sampled_from(["undo", "probe", "may_touch", "cost", "keyed", "approve", "live"]), EXPRESSIONS
    ),
    body=st.lists(STATEMENTS, min_size=1, max_size=4),
    helper=st.lists(STATEMENTS, min_size=1, max_size=2),
)
@example(
    kind="read", scope="'a:/b'", parts={"may_touch": "{[]: 1, **{}}", "keyed": "{[]: 1}"}, body=["x"], helper=["x"]
)
def test_whatever_stands_there_it_is_looked_at_to_the_end_and_twice_alike(
    tmp_path_factory, kind, scope, parts, body, helper
):
    given_parts = "".join(f", {role}={value}" for role, value in parts.items())
    lines = "".join(f"    {line}\n" for line in body)
    text = (
        f"from settlemark import effect, current_call\n"
        f"async def helper(path, /, to=1, *more, **rest):\n{''.join(f'    {line}{chr(10)}' for line in helper)}"
        f"@tool\n@effect('{kind}', scope={scope}{given_parts})\n"
        f"async def send_file(path, to, *rest, amount=0, **more):\n{lines}"
        f"s.declare('send_file', '{kind}', scope={scope}{given_parts})\n"
    )
    path = tmp_path_factory.mktemp("any") / "tools.py"
    path.write_text(text)
    found = lint(path)
    assert found == lint(path)
    try:
        ast.parse(text)
    except SyntaxError:
        assert [each.rule for each in found] == ["SM001"]
    for each in found:
        assert each.what
        assert 1 <= each.line <= text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "class A(B):\n    def act(self):\n        self.gone()\nclass B(A): ...\n",
        "def act(): undo_a()\nundo_a = undo_b\nundo_b = undo_a\n",
        "def act(a):\n    return " + " + ".join(["a"] * 900) + "\n",
        "def act(a):\n    x = " + "a" + ".b(a)" * 400 + "\n",
    ],
    ids=["bases in a circle", "names in a circle", "a long sum", "a long chain"],
)
def test_what_never_ends_or_is_nested_deeply_does_not_stop_it(tmp_path, text):
    path = tmp_path / "tools.py"
    path.write_text(
        f"from settlemark import effect\n{text}"
        "@effect('reversible', scope='room:/{a}', undo=undo_a)\ndef book(a):\n    act(a)\n    A.gone()\n"
        "    return act\n"
    )
    assert {each.rule for each in lint(path)} <= {"SM001", "SM104"}


def test_a_file_that_is_nested_too_deeply_is_told_and_the_others_are_looked_at(tmp_path):
    (tmp_path / "deep.py").write_text("if a: pass\n" + "elif a: pass\n" * 2000)
    (tmp_path / "tools.py").write_text("@tool\ndef send_mail(to): mailer.send(to)\n")
    assert [each.rule for each in lint(tmp_path)] == ["SM001", "SM405"]


def test_a_file_may_have_another_encoding_and_dubious_escapes(tmp_path):
    (tmp_path / "tools.py").write_bytes(b"# -*- coding: latin-1 -*-\nname = 'Zo\xeb \\('\n")
    assert lint(tmp_path) == []
