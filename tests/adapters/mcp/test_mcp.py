"""Every tool of a server is a tool here, declared by its hints unless somebody knows better."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import StdioServerParameters, types
from tests.adapters.mcp.subject import asked, look, make, make_quick
from tests.rooms.adapters import Arguments
from tests.rooms.mcp import _mcp_server

from settlemark import DeclarationError, InDoubt, Refused, Settlement, Stale, UsageError, current_call
from settlemark.hosting import declaration_of, host_of
from settlemark.testing import die, in_child
from settlemark_adapters.mcp import (
    Mcp,
    McpLost,
    McpRefused,
    McpTimeout,
    McpToolFailed,
    McpUnavailable,
    as_json,
    effect_of,
)

ODD = str(Path(__file__).with_name("odd_server.py"))
SCOPE = "mcp:/notes & more"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder and its server, which is started once: what a test changes is its own settlement."""
    place = tmp_path_factory.mktemp("notes")
    with make(None, place) as notes:
        yield place, notes


@pytest.fixture
def place(shared):
    place, _ = shared
    for path in place.iterdir():
        path.unlink()
    return place


@pytest.fixture
def settlement():
    with Settlement("memory:") as opened:
        yield opened


@pytest.fixture
def notes(shared, place, settlement):
    """The shared server's tools, known to this test's settlement."""
    for declaration in shared[1].declarations():
        host_of(settlement).tools.adopt(declaration)
    return shared[1]


@pytest.fixture
def made(settlement, tmp_path):
    """Makes adapters with servers of their own, on a folder of this test."""
    opened = []

    def making(**options):
        opened.append(make(settlement, tmp_path, **options))
        return opened[-1]

    yield making
    for each in opened:
        each.close()


@pytest.fixture
def impatient(monkeypatch):
    """What waits for a server that has stopped does so for a moment."""
    monkeypatch.setattr(_mcp_server, "_GRACE_SECONDS", 0.1)
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 0.1)


def odd(*words, settlement=None, **options):
    return Mcp([sys.executable, "-S", ODD, *words], settlement, **options)


class Abandoned(Exception):
    pass


def call(settlement, tool, *, fail=False, **arguments):
    with settlement.transaction("t") as tx:
        result = tx.call(tool, **arguments)
        if fail:
            raise Abandoned
    return result


# ---- every tool of a server


def test_each_is_a_tool_with_a_signature_a_docstring_and_a_declaration(notes):
    kinds = {tool.__name__: declaration_of(tool).kind.value for tool in notes.tools()}
    assert kinds == {
        "read_note": "read", "put_note": "idempotent", "add_line": "opaque", "delete_note": "irreversible",
        "wipe": "irreversible", "plain": "opaque", "titled": "opaque", "picture": "read", "words": "read",
    }  # fmt: skip # a table
    parameters = inspect.signature(notes.tool("add_line")).parameters
    assert {name: (p.annotation, p.default) for name, p in parameters.items()} == {
        "title": (str, inspect.Parameter.empty),
        "text": (str, inspect.Parameter.empty),
        "times": (int, 1),
        "style": (Literal["plain", "loud"] | None, None),
    }
    assert inspect.getdoc(notes.tool("read_note")) == "Read a note.\n\nArgs:\n    title: Which note."
    assert {tool.__name__ for tool in notes.tools() if declaration_of(tool).keyed} == {"put_note", "wipe"}
    assert {str(declaration_of(tool).scope.text) for tool in notes.tools()} == {SCOPE}


def test_also_when_they_come_in_pages_and_have_names_that_python_does_not_allow():
    with odd() as server:
        assert [tool.__name__ for tool in server.tools()] == ["one", "two.parts", "three"]
        assert list(inspect.signature(server.tool("one")).parameters) == ["from_", "argument_2nd_choice"]
        assert {declaration_of(tool).kind.value for tool in server.tools()} == {"opaque"}
        assert {declaration_of(tool).scope.text for tool in server.tools()} == {"mcp:/odd"}
        # It acted: that its answer does not fit its own schema does not make it a failure.
        assert server.tool("one")(from_="Ada", argument_2nd_choice=2) == {"n": "no number"}


def test_pages_without_an_end_are_not_read_for_ever():
    with pytest.raises(McpUnavailable, match="its list of tools has more than 1000 pages"):
        odd("--endless")


def test_called_bare_it_acts_at_once_under_a_key_of_its_own(notes, place):
    assert notes.tool("put_note")("todo", "call Ada") == {"length": 8}
    assert (look(place), len(asked(place)[0][1])) == ({"todo": "call Ada"}, 32)


def test_its_key_goes_along(notes, place, settlement):
    with settlement.transaction("t") as tx:
        tx.call(notes.tool("add_line"), title="todo", text="a", times=2)
        tx.call(notes.tool("add_line"), title="todo", text="b", style="loud")
        tx.call(notes.tool("wipe"))
    assert asked(place) == [("add_line", "t#1/0"), ("add_line", "t#1/1"), ("wipe", "t#1/2")]


# ---- what it answers


def test_what_it_answers_is_json(notes):
    assert notes.tool("words")() == "hello"
    assert notes.tool("plain")() == {"result": "done"}
    assert notes.tool("picture")() == [
        {"type": "text", "text": "a dot"},
        {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
    ]


def test_that_a_tool_failed_is_its_failure_and_nobody_is_in_doubt(notes, place, settlement):
    with pytest.raises(McpToolFailed, match="read_note: .*No such file") as failed:
        call(settlement, notes.tool("read_note"), title="missing")
    assert "No such file" in failed.value.content
    with pytest.raises(Refused, match="delete_note"):
        call(settlement, notes.tool("delete_note"), title="missing")
    assert (look(place), settlement.residue(), settlement.in_doubt()) == ({}, [], [])


def test_that_there_is_no_such_tool_too():
    with odd() as server:
        with pytest.raises(McpRefused, match="said no .there is no four.") as refused:
            server.call("four")
        with pytest.raises(McpToolFailed, match="one: there is nobody"):
            server.call("one", **{"from": "nobody"})
    assert refused.value.code == types.INVALID_PARAMS


def test_an_answer_that_is_none_leaves_it_unknown(settlement):
    with odd(settlement=settlement) as server:
        with pytest.raises(InDoubt, match="its answer is none"):
            call(settlement, server.tool("one"), from_="nonsense")


# ---- classes from hints


def test_a_server_that_failed_within_it_leaves_it_unknown():
    with Mcp([sys.executable, "-S", ODD]) as odd:
        with pytest.raises(
            McpLost, match="failed .the disk is full, error -32603., and what it had done by then is unkn"
        ):
            odd.tool("one")("failure")
        assert odd.tool("one")("Ada") == {"n": "no number"}


def test_one_that_has_stopped_reading_is_waited_for_as_long_as_any_and_then_replaced(impatient):
    with Mcp([sys.executable, "-S", ODD]) as odd:
        odd._server._timeout = 0.2
        with pytest.raises(McpTimeout):
            odd.tool("one")("stillness")
        stopped = odd._server._live
        with pytest.raises(McpTimeout, match=r"did not answer within 0.2 s"):
            odd.tool("one")("x" * 300_000)
        if odd._server._live is stopped:  # the first has only filled the pipe: the second cannot be sent
            with pytest.raises(McpTimeout, match=r"did not answer within 0.2 s"):
                odd.tool("one")("x" * 300_000)
        assert odd._server._live is not stopped
        odd._server._timeout = 30
        assert odd.tool("one")("Ada") == {"n": "no number"}


def test_what_reads_is_stale_when_something_of_the_server_has_written_since(notes, place, settlement):
    (place / "todo.note").write_text("milk")
    with settlement.transaction("mine/1") as tx:
        assert tx.call(notes.tool("read_note"), title="todo") == {"result": "milk"}
    with settlement.transaction("other") as tx:
        tx.call(notes.tool("wipe"))
    with pytest.raises(Stale), settlement.transaction("mine/2") as tx:
        tx.call(notes.tool("delete_note"), title="todo")
    assert asked(place, "delete_note", "wipe") == [("wipe", "other#1/0")]


def test_what_destroys_is_held_until_its_step_settles(notes, place, settlement):
    (place / "todo.note").write_text("milk")
    with pytest.raises(Abandoned):
        call(settlement, notes.tool("delete_note"), title="todo", fail=True)
    assert look(place) == {"todo": "milk"}
    with settlement.transaction("t2") as tx:
        queued = tx.call(notes.tool("delete_note"), title="todo")
        assert (queued.outcome, look(place)) == ("queued", {"todo": "milk"})
    assert (queued.result(), look(place)) == ({"result": "gone"}, {})


def test_what_is_opaque_stays_and_is_named_when_its_step_fails(notes, place, settlement):
    with pytest.raises(Abandoned):
        call(settlement, notes.tool("add_line"), title="todo", text="a", fail=True)
    (left,) = settlement.residue()
    assert (look(place), left.tool, left.tag, left.scope) == ({"todo": "a\n"}, "add_line", "unresolved", SCOPE)


HINTS = st.none() | st.booleans()


@given(HINTS, HINTS, HINTS, HINTS)
def test_no_hint_makes_a_tool_more_harmless_than_all_of_them_together_say(reads, destroys, repeats, is_open):
    hints = {"readOnlyHint": reads, "destructiveHint": destroys, "idempotentHint": repeats, "openWorldHint": is_open}
    kind, keyed = effect_of(hints)
    silent = (reads, destroys, repeats) == (None, None, None)
    assert (kind == "read") == (reads is True and not destroys)
    assert (kind == "irreversible") == (not silent and kind != "read" and destroys is not False)
    assert (kind == "idempotent") == (kind not in ("read", "irreversible") and bool(repeats))
    assert keyed == (bool(repeats) and kind in ("irreversible", "idempotent"))


def test_unhinted_is_opaque():
    assert effect_of(None) == effect_of({"title": "A tool", "openWorldHint": True}) == ("opaque", False)


def test_of_a_server_that_is_not_trusted_every_tool_is_opaque(made):
    assert {declaration_of(tool).kind.value for tool in made(trust_hints=False).tools()} == {"opaque"}


# ---- overridable


def test_whoever_knows_better_says_so(made, settlement, tmp_path):
    notes = made(
        name="my",
        effects={
            "put_note": {"kind": "reversible", "undo": lambda title: notes.call("delete_note", title=title)},
            "plain": "read",
        },
        scopes={"put_note": "note:/{title}", "read_note": lambda title: f"note:/{title}"},
    )
    assert notes.tool("plain").__name__ == "my_plain"
    assert declaration_of(notes.tool("plain")).kind == "read"
    with pytest.raises(Abandoned):
        call(settlement, notes.tool("put_note"), title="todo", text="a", fail=True)
    assert (look(tmp_path), settlement.residue()) == ({}, [])
    assert asked(tmp_path) == [("put_note", "t#1/0"), ("delete_note", "t#1/0:delete_note")]
    assert [effect.row.scope for effect in settlement.transactions()[0].effects] == ["note:/todo"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"effects": {"four": "read"}}, "effects= of Mcp: there is no tool 'four'; there are one, two.parts"),
        ({"scopes": {"four": "a:/b"}}, "scopes= of Mcp: odd has no tool 'four'; it has one, two.parts"),
        ({"scopes": {"one": "note:/{name}"}}, "uses 'name', which it does not take"),
        ({"effects": {"one": "reversible"}}, "one is reversible but has no undo"),
    ],
)
def test_what_it_cannot_be_told_is_refused(wrong, said):
    with pytest.raises(DeclarationError) as refused:
        odd(**wrong)
    assert said in str(refused.value)


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(DeclarationError, match="has two tools 'one'"):
        odd("one")


def test_a_function_of_the_users_own_runs_under_a_tools_declaration(notes, place, settlement):
    ran = []

    def remove(name: str) -> None:
        ran.append((name, current_call().key))

    mine = notes.declare("delete_note", remove, title="name")
    with settlement.transaction("t") as tx:
        tx.call(mine, name="todo")
        assert ran == []
    assert (ran, asked(place)) == ([("todo", "t#1/0")], [])


# ---- a server that dies or does not answer


def test_when_the_answer_is_lost_nobody_knows_and_it_is_not_repeated(made, settlement, tmp_path):
    notes = made()
    (tmp_path / "fault").write_text("lost")
    with pytest.raises(InDoubt, match="look what it did before you ask again"):
        call(settlement, notes.tool("add_line"), title="todo", text="a")
    assert asked(tmp_path) == [("add_line", "t#1/0")]
    assert [left.tag for left in settlement.residue()] == ["unresolved"]
    # It is started again for who comes next.
    assert notes.tool("words")() == "hello"


def test_what_may_be_repeated_is_sent_again_to_a_new_server(made, settlement, tmp_path):
    notes = made()
    (tmp_path / "fault").write_text("lost")
    assert call(settlement, notes.tool("put_note"), title="todo", text="a") == {"length": 1}
    assert asked(tmp_path) == [("put_note", "t#1/0")] * 2
    assert (look(tmp_path), settlement.residue()) == ({"todo": "a"}, [])


def test_a_probe_tells_what_became_of_it(made, settlement, tmp_path):
    notes = made(effects={"delete_note": {"probe": lambda title: None if title in look(tmp_path) else "gone"}})
    (tmp_path / "todo.note").write_text("milk")
    (tmp_path / "fault").write_text("lost")
    with settlement.transaction("t") as tx:
        queued = tx.call(notes.tool("delete_note"), title="todo")
    assert (queued.result(), look(tmp_path)) == ("gone", {})
    assert asked(tmp_path) == [("delete_note", "t#1/0")]


def test_an_answer_that_does_not_come_in_time_is_unknown(made, settlement, tmp_path):
    notes = made()
    notes._server._timeout = 0.3
    (tmp_path / "fault").write_text("hang")
    with pytest.raises(InDoubt, match="did not answer within 0.3 s"):
        call(settlement, notes.tool("add_line"), title="todo", text="a")
    assert look(tmp_path) == {"todo": "a\n"}


@pytest.mark.parametrize("how", ["dead", "lost"])
def test_a_process_that_dies_with_its_server_is_recovered_from(tmp_path, how):
    url = f"sqlite:///{tmp_path}/ledger.db"
    place = tmp_path / "notes"
    place.mkdir()
    (place / "todo.note").write_text("milk")

    def probe(title):
        return None if title in look(place) else {"result": "gone"}

    effects = {"delete_note": {"probe": probe}}

    def play(_tell):
        with Settlement(url) as settlement:
            notes = make_quick(settlement, place, effects)
            ask = notes._ask

            def and_die(*arguments):
                if how == "lost":
                    ask(*arguments)
                die()

            notes._ask = and_die
            with settlement.transaction("t") as tx:
                tx.call(notes.tool("delete_note"), title="todo")

    assert in_child(play).killed
    with Settlement(url) as settlement, make_quick(settlement, place, effects):
        settlement.recover()
        assert (look(place), settlement.residue(), settlement.in_doubt()) == ({}, [], [])
    assert asked(place) == [("delete_note", "t#1/0")]


def test_a_server_that_cannot_be_started_is_told(tmp_path, impatient):
    for server in (
        str(tmp_path / "missing"),
        [sys.executable, "-S", "-c", "raise SystemExit(3)"],
        StdioServerParameters(command=sys.executable, args=["-S", "-c", "raise SystemExit(3)"]),
    ):
        with pytest.raises(McpUnavailable, match="cannot be started .*: nothing was asked of it"):
            Mcp(server)
    with pytest.raises(McpUnavailable, match=r"it said nothing for 0.2 s"):
        Mcp([sys.executable, "-S", "-c", "import time; time.sleep(60)"], timeout=0.2)
    with pytest.raises(ValueError, match="give the command"):
        Mcp("")


def test_one_that_can_be_started_only_once_is_told_when_it_is_to_be_asked_again(tmp_path, settlement):
    with odd("--once", str(tmp_path / "once"), settlement=settlement) as server:
        with pytest.raises(McpLost, match="it died"):
            server.call("one", **{"from": "death"})
        with pytest.raises(McpUnavailable, match="nothing was asked of it"):
            call(settlement, server.tool("one"), from_="Ada")
    assert settlement.in_doubt() == []


def test_one_that_died_unasked_is_started_again_and_asked_once():
    with odd() as server:
        running = server._server._live
        with pytest.raises(McpLost):
            server.call("one", **{"from": "death"})
        server._server._live = running  # as if nobody had noticed
        assert server.call("one", **{"from": "Ada"}) == {"n": "no number"}


def test_closed_it_says_so():
    server = odd()
    server.close()
    server.close()
    with pytest.raises(UsageError, match="closed"):
        server.call("one")


# ---- bad input


@pytest.mark.parametrize(
    ("tool", "wrong", "said"),
    [
        ("delete_note", {"title": 7}, "delete_note: title: 7 is not of type 'string'"),
        ("add_line", {"title": "a", "text": "b", "times": "often"}, "times: 'often' is not of type 'integer'"),
        ("add_line", {"title": "a", "text": "b", "style": "quiet"}, "style: "),
        ("delete_note", {"title": object()}, ""),
        ("delete_note", {}, "title"),
        ("delete_note", {"title": "a", "more": 1}, "more"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything(notes, place, settlement, tool, wrong, said):
    with pytest.raises((ValueError, TypeError)) as refused:
        call(settlement, notes.tool(tool), **wrong)
    assert said in str(refused.value)
    assert (asked(place), settlement.transactions()) == ([], [])


def test_what_it_is_started_with_is_not_told(tmp_path):
    secret = "tok-123456"
    with odd(environment={"TOKEN": secret}, log=tmp_path / "log") as server:
        assert server.call("one", **{"from": "environment"}) == secret
        assert secret not in f"{server!r} {server.declarations()!r} {vars(server)!r}"
    with pytest.raises(McpUnavailable) as refused:
        Mcp([sys.executable, "-c", "raise SystemExit(3)"], environment={"TOKEN": secret})
    assert secret not in f"{refused.value!r} {refused.value.__cause__!r} {refused.value.__context__!r}"


def test_what_it_writes_of_itself_is_kept_where_it_is_told_to(tmp_path):
    with pytest.raises(McpUnavailable):
        Mcp([sys.executable, "-c", "raise SystemExit('no such port')"], log=tmp_path / "log")
    assert (tmp_path / "log").read_text() == "no such port\n"


def test_its_errors_survive_a_pickle():
    for error in (McpToolFailed("no", content=["x"]), McpRefused("no", code=7), McpLost("x"), McpTimeout("x")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_arguments_of_any_server_are_named_for_python():
    assert Arguments({"properties": {"self": {}, "class": {}}}).names == {"self_": "self", "class_": "class"}


def test_without_the_library_it_names_what_to_install():
    code = "import sys; sys.modules['mcp'] = None; import settlemark_adapters.mcp"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert 'ImportError: settlemark_adapters.mcp needs mcp: pip install "settlemark[mcp]"' in ended.stderr


TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"content": [TEXT]}, "hello"),
        ({"content": [IMAGE]}, [IMAGE]),
        ({"content": [TEXT, IMAGE]}, [TEXT, IMAGE]),
        ({"content": []}, []),
        ({"content": [TEXT], "structuredContent": {"a": 1}}, {"a": 1}),
        ({"content": [TEXT, IMAGE], "structuredContent": {"a": 1}}, {"structured": {"a": 1}, "content": [IMAGE]}),
    ],
)
def test_whatever_a_tool_answers_a_model_gets_it_whole(answer, told):
    assert as_json(answer) == told
