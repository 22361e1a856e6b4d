"""Files change at once and are as they were after an abort: bytes, mode and time, and nothing that it made is left."""

from __future__ import annotations

import os
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.filesystem.desk import Desk
from tests.adapters.filesystem.subject import put
from tests.extent import examples
from tests.rooms.adapters import Desk as Kept
from tests.rooms.adapters import Order, Plans, digest_of, mark_of

from settlemark import DeclarationError, KeyConflict, PayloadError, Settlement, StateError, Tag, effect
from settlemark.testing import in_child
from settlemark_adapters.filesystem import Filesystem


class Failed(Exception):
    """The step fails."""


ACTS = {
    "write a file that is there": ("write", {"path": "a.txt", "content": "after"}),
    "write a new file": ("write", {"path": "new.txt", "content": "after"}),
    "write a new file in new folders": ("write", {"path": "x/y/new.txt", "content": "after"}),
    "append to a file that is there": ("append", {"path": "a.txt", "content": "more"}),
    "append to a new file": ("append", {"path": "x/new.txt", "content": "more"}),
    "move a file": ("move", {"source": "a.txt", "destination": "d/moved.txt"}),
    "delete a file": ("delete", {"path": "d/b.txt"}),
    "make folders": ("make_directory", {"path": "x/y/z"}),
    "make a folder that is there": ("make_directory", {"path": "d"}),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_a_transaction_did_stays_after_its_commit_and_is_gone_after_its_abort(desk, act):
    method, arguments = ACTS[act]
    desk.put("a.txt", "d/b.txt")
    before = desk.look()
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(getattr(desk.files, method), **arguments)
        during = desk.look()
        raise Failed
    assert (desk.look(), desk.settlement.residue()) == (before, [])
    with desk.settlement.transaction("works") as tx:
        tx.call(getattr(desk.files, method), **arguments)
    assert {name: held[:2] for name, held in desk.look().items()} == {n: held[:2] for n, held in during.items()}


def test_the_whole_of_a_step_is_undone_in_reverse(desk):
    desk.put("a.txt", "d/b.txt", mode=0o751)
    before = desk.look()
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(desk.files.make_directory, path="out/2026")
        tx.call(desk.files.move, source="a.txt", destination="out/2026/a.txt")
        tx.call(desk.files.append, path="out/2026/a.txt", content="more")
        tx.call(desk.files.write, path="a.txt", content="another")
        tx.call(desk.files.delete, path="d/b.txt")
        tx.call(desk.files.write, path="d/b.txt", content="again")
        assert desk.text("out/2026/a.txt") == "before\nmore"
        raise Failed
    assert (desk.look(), desk.settlement.residue()) == (before, [])


_NAMES = st.sampled_from(["a.txt", "b.txt", "d/c.txt", "d/e/f.txt"])
_TEXTS = st.text(max_size=8)
_CALLS = st.one_of(
    st.tuples(st.just("write"), st.fixed_dictionaries({"path": _NAMES, "content": _TEXTS})),
    st.tuples(st.just("append"), st.fixed_dictionaries({"path": _NAMES, "content": _TEXTS})),
    st.tuples(st.just("move"), st.fixed_dictionaries({"source": _NAMES, "destination": _NAMES})),
    st.tuples(st.just("delete"), st.fixed_dictionaries({"path": _NAMES})),
    st.tuples(st.just("make_directory"), st.fixed_dictionaries({"path": st.sampled_from(["d", "d/e", "x/y"])})),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.lists(_CALLS, max_size=4), then=st.lists(_CALLS, max_size=6))
def test_whatever_was_done_and_refused_an_abort_leaves_what_was_there(tmp_path_factory, first, then):
    root = tmp_path_factory.mktemp("root")
    with Settlement("memory:") as settlement:
        files = Filesystem(root, settlement)
        desk = Desk(root, settlement)
        for method, arguments in first:
            _try(lambda method=method, arguments=arguments: getattr(files, method)(**arguments))
        before = desk.look()
        with pytest.raises(Failed), settlement.transaction("fails", on_failure="continue") as tx:
            for method, arguments in then:
                _try(lambda method=method, arguments=arguments: tx.call(getattr(files, method), **arguments))
            raise Failed
        assert (desk.look(), settlement.residue()) == (before, [])


def _try(act):
    try:
        act()
    except (OSError, ValueError):
        return


def test_what_is_written_has_the_mode_of_what_it_replaces(desk):
    desk.put("a.txt", mode=0o751)
    desk.files.write("a.txt", "after")
    assert (desk.text("a.txt"), (desk.root / "a.txt").stat().st_mode & 0o777) == ("after", 0o751)


def test_bytes_go_as_base64_both_ways(desk):
    assert desk.files.write("a.bin", "AAH/", encoding="base64") == {"path": "a.bin", "bytes": 3}
    assert ((desk.root / "a.bin").read_bytes(), desk.files.read("a.bin", "base64")) == (b"\x00\x01\xff", "AAH/")


def test_a_folder_is_listed_by_name_kind_and_size_without_what_is_kept_for_undoing(desk):
    desk.put("b.txt", "d/a.txt")
    (desk.root / "l").symlink_to("b.txt")
    desk.files.write("c.txt", "12")
    assert desk.files.entries() == [
        {"name": "b.txt", "kind": "file", "bytes": 7},
        {"name": "c.txt", "kind": "file", "bytes": 2},
        {"name": "d", "kind": "folder", "bytes": 0},
        {"name": "l", "kind": "link", "bytes": 0},
    ]


# ---- the three ways of use


def test_its_tools_say_what_they_do_to_a_model_and_to_the_settlement(desk):
    tools = {tool.__name__: tool for tool in desk.files.tools()}
    assert list(tools) == [
        "read_file", "list_files", "write_file", "append_file", "move_file", "delete_file", "make_directory",
    ]  # fmt: skip # a list of names and values
    assert all(tool.__doc__.strip() and "Args:" in tool.__doc__ for tool in tools.values())
    assert {declared.kind.value for declared in desk.files.declarations()} == {"read", "reversible"}


def test_called_bare_it_acts_at_once_and_keeps_nothing(desk):
    desk.files.write("a.txt", "one")
    desk.files.append("a.txt", " two")
    desk.files.move("a.txt", "b.txt")
    desk.files.delete("b.txt")
    assert (desk.look(), list((desk.root / ".settlemark").iterdir())) == ({}, [])


def test_a_tool_of_the_users_own_may_use_it_several_times(desk):
    @effect("reversible", scope="report:/{name}", undo=lambda name: desk.files.delete(name))
    def report(name):
        desk.files.write(name, "one")
        desk.files.append(name, " two")

    with desk.settlement.transaction("t") as tx:
        tx.call(report, name="a.txt")
    assert desk.text("a.txt") == "one two"


def test_a_function_of_the_users_own_is_undone_under_its_declaration(desk):
    def save_report(name: str, lines: list[str]) -> int:
        """Save a report."""
        path = desk.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            return file.write("\n".join(lines))

    save = desk.files.declare("write_file", save_report, path="name")
    desk.put("a.txt")
    before = desk.look()
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        assert tx.call(save, name="a.txt", lines=["1", "2"]) == 3
        assert tx.call(save, name="x/y/b.txt", lines=["3"]) == 1
        raise Failed
    assert (desk.look(), desk.settlement.residue()) == (before, [])
    with desk.settlement.transaction("works") as tx:
        tx.call(save, name="a.txt", lines=["1"])
    assert desk.text("a.txt") == "before\n1"


def test_one_that_raises_halfway_has_done_nothing(desk):
    def save(path: str) -> None:
        (desk.root / path).write_text("half of")
        raise Failed

    save = desk.files.declare("write_file", save)
    desk.put("a.txt")
    before = desk.look()
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(save, path="a.txt")
    assert (desk.look(), desk.settlement.residue(), desk.outcomes()) == (before, [], [("save", "failed")])


@pytest.mark.parametrize("raises", [False, True])
def test_called_bare_it_keeps_nothing_and_one_that_raises_has_done_nothing(desk, raises):
    def save(path: str) -> None:
        (desk.root / path).write_text("theirs")
        if raises:
            raise Failed

    desk.put("a.txt")
    before = desk.look()
    with pytest.raises(Failed) if raises else nullcontext():
        desk.files.declare("write_file", save)("a.txt")
    assert list((desk.root / ".settlemark").iterdir()) == []
    assert desk.look() == before if raises else desk.text("a.txt") == "theirs"


def test_so_is_one_that_moves(desk):
    def rename(old: str, new: str) -> None:
        (desk.root / old).replace(desk.root / new)

    rename = desk.files.declare("move_file", rename, source="old", destination="new")
    desk.put("a.txt", "b.txt")
    before = desk.look()
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(rename, old="a.txt", new="b.txt")
        assert list(desk.look()) == ["b.txt"]
        raise Failed
    assert (desk.look(), desk.settlement.residue()) == (before, [])


# ---- what somebody else does


@pytest.mark.parametrize("act", [act for act in ACTS if act != "make a folder that is there"])
def test_what_somebody_else_has_changed_since_is_left_as_it_is_and_named(desk, act):
    method, arguments = ACTS[act]
    desk.put("a.txt", "d/b.txt")
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(getattr(desk.files, method), **arguments)
        path = desk.root / (arguments.get("destination") or arguments["path"])
        (path / "theirs" if path.is_dir() else path).write_text("somebody else's")
        theirs = desk.look()
        raise Failed
    (left,) = desk.settlement.residue()
    assert left.tag is Tag.UNRESOLVED
    assert "by hand" in left.note or "look at what was put into it" in left.note
    assert {name: held for name, held in desk.look().items() if held != "folder"} == {
        name: held for name, held in theirs.items() if held != "folder"
    }


LEFT = {
    "write_file": {"path": "a.txt", "content": "ours"},
    "append_file": {"path": "a.txt", "content": "ours"},
    "move_file": {"source": "before.txt", "destination": "a.txt"},
}


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("tool", LEFT)
def test_a_change_that_keeps_size_and_time_is_seen_too(desk, tool, exchanged):
    (desk.root / "before.txt").write_text("ours")
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(desk.files.tool(tool), **LEFT[tool])
        about = (desk.root / "a.txt").stat()
        theirs = desk.root / ("b.txt" if exchanged else "a.txt")
        theirs.write_text("else")
        os.utime(theirs, ns=(about.st_atime_ns, about.st_mtime_ns))
        theirs.rename(desk.root / "a.txt")
        raise Failed
    assert (desk.text("a.txt"), len(desk.settlement.residue())) == ("else", 1)


def test_every_tool_that_leaves_a_file_is_tried_there(desk):
    leaving = {declared.tool for declared in desk.files.declarations() if declared.kind != "read"}
    assert leaving - {"delete_file", "make_directory"} == set(LEFT)


# ---- what is kept


def test_what_is_kept_may_be_pruned_and_then_an_undo_says_so(desk):
    desk.put("a.txt")
    with pytest.raises(Failed), desk.settlement.transaction("fails") as tx:
        tx.call(desk.files.write, path="a.txt", content="after")
        assert (desk.files.prune(days=1), desk.files.prune(days=0), desk.files.prune(days=0)) == (0, 1, 0)
        raise Failed
    assert "it was pruned" in desk.settlement.residue()[0].note
    assert desk.text("a.txt") == "after"


def test_it_may_be_kept_elsewhere_on_the_file_system(tmp_path, settlement):
    (tmp_path / "root").mkdir()
    files = Filesystem(tmp_path / "root", settlement, state=tmp_path / "state")
    with settlement.transaction("t") as tx:
        tx.call(files.write, path="a.txt", content="after")
    assert len(list((tmp_path / "state").iterdir())) == 1
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["a.txt"]


def test_it_is_not_kept_in_the_root_where_the_tools_could_change_it(root):
    with pytest.raises(ValueError, match="choose a folder outside"):
        Filesystem(root, state=root / "undo")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("raises", [False, True])
def test_a_folder_that_was_there_stays_when_a_function_of_the_users_own_that_makes_it_is_undone(desk, raises):
    (desk.root / "d").mkdir()

    def prepare(path: str) -> None:
        (desk.root / path).mkdir(exist_ok=True)
        if raises:
            raise Failed

    mine = desk.files.declare("make_directory", prepare)
    with pytest.raises(Failed), desk.settlement.transaction("t") as tx:
        tx.call(mine, path="d")
        raise Failed
    assert (desk.look(), desk.settlement.residue()) == ({"d": "folder"}, [])


def test_what_is_kept_under_a_key_that_the_ledger_does_not_know_is_not_taken_for_its_own(root, tmp_path):
    def write(url, content):
        with Settlement(url) as settlement, settlement.transaction("t") as tx:
            tx.call(Filesystem(root, settlement).append, path="a.txt", content=content)

    write(f"sqlite:///{tmp_path}/one.db", "one")
    for content in ("one", "two"):
        with pytest.raises(KeyConflict, match="another ledger"):
            write(f"sqlite:///{tmp_path}/two.db", content)
    assert (root / "a.txt").read_text() == "one"


@pytest.mark.usefixtures("whole_keys")
def test_a_ledger_in_memory_begins_anew_in_each_process(root):
    def write():
        with Settlement("memory:") as settlement, settlement.transaction("t") as tx:
            tx.call(Filesystem(root, settlement).append, path="a.txt", content="once a day;")

    assert in_child(lambda tell: write()).error is None
    assert in_child(lambda tell: write()).error is None
    assert (root / "a.txt").read_text() == "once a day;once a day;"


# ---- bad input


@pytest.mark.parametrize(
    ("method", "arguments", "error", "said"),
    [
        ("read", {"path": "none.txt"}, FileNotFoundError, "list_files tells which do"),
        ("read", {"path": "d"}, IsADirectoryError, "'d' is no file"),
        ("read", {"path": "a.txt", "encoding": "utf-16"}, ValueError, "choose another encoding, or base64"),
        ("read", {"path": "a.txt", "encoding": "klingon"}, ValueError, "unknown encoding"),
        ("entries", {"path": "none"}, FileNotFoundError, "the folder 'none' does not exist"),
        ("entries", {"path": "a.txt"}, NotADirectoryError, "'a.txt' is no folder"),
        ("write", {"path": "d", "content": ""}, IsADirectoryError, "name a file"),
        ("write", {"path": ".", "content": ""}, IsADirectoryError, "name a file"),
        ("write", {"path": "a.txt/b", "content": ""}, NotADirectoryError, "'a.txt' is a file"),
        ("write", {"path": "n", "content": "é", "encoding": "ascii"}, ValueError, "the content is no ascii"),
        ("write", {"path": "n", "content": "!", "encoding": "base64"}, ValueError, "the content is no base64"),
        ("append", {"path": "d", "content": ""}, IsADirectoryError, "name a file"),
        ("move", {"source": "none.txt", "destination": "b.txt"}, FileNotFoundError, "'none.txt' does not exist"),
        ("move", {"source": "d", "destination": "e"}, IsADirectoryError, "'d' is no file"),
        ("move", {"source": "a.txt", "destination": "d/b.txt"}, FileExistsError, "choose another"),
        ("move", {"source": "a.txt", "destination": "a.txt"}, FileExistsError, "choose another"),
        ("move", {"source": "a.txt", "destination": "x/b.txt"}, FileNotFoundError, "with make_directory"),
        ("delete", {"path": "none.txt"}, FileNotFoundError, "list_files tells which do"),
        ("delete", {"path": "d"}, IsADirectoryError, "name one"),
        ("make_directory", {"path": "a.txt"}, FileExistsError, "choose another name"),
        ("make_directory", {"path": "a.txt/d"}, NotADirectoryError, "nothing can be below it"),
        ("write", {"path": "x" * 300, "content": ""}, OSError, "File name too long"),
    ],
)
@pytest.mark.parametrize("way", ["bare", "eager", "staged"])
def test_what_cannot_be_done_is_a_clear_error_and_nothing_changed(desk, way, method, arguments, error, said):
    desk.put("a.txt", "d/b.txt")
    before = desk.look()
    with pytest.raises(Exception, match=said) as raised:
        if way == "bare":
            getattr(desk.files, method)(**arguments)
        else:
            with desk.settlement.transaction("t") as tx:
                tx.call(getattr(desk.files if way == "eager" else desk.staged, method), **arguments)
    assert isinstance(raised.value, error) or isinstance(raised.value.__cause__, error)
    assert (desk.look(), desk.settlement.residue()) == (before, [])
    assert [outcome for _, outcome in desk.outcomes()] in ([], ["failed"])
    if way == "staged":
        assert desk.outcomes() == []


def test_arguments_that_json_cannot_hold_are_refused_and_nothing_changed(desk):
    with pytest.raises(PayloadError), desk.settlement.transaction("t") as tx:
        tx.call(desk.files.write, path="a.txt", content=b"bytes")
    assert (desk.look(), desk.settlement.transactions()) == ({}, [])


def test_a_root_that_is_none_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="make it first"):
        Filesystem(tmp_path / "none")
    with pytest.raises(NotADirectoryError, match="no folder"):
        Filesystem(tmp_path / "file")
    with pytest.raises(ValueError, match="keep_days=0"):
        Filesystem(tmp_path, keep_days=0)
    with pytest.raises(DeclarationError, match="there is no tool 'chmod'"):
        Filesystem(tmp_path, effects={"chmod": "read"})


def test_a_class_may_be_told_it_for_one_tool(root, settlement):
    files = Filesystem(root, settlement, effects={"delete_file": "irreversible", "write_file": {"approve": True}})
    kinds = {declared.tool: declared.kind.value for declared in files.declarations()}
    assert (kinds["delete_file"], kinds["write_file"], kinds["read_file"]) == ("irreversible", "reversible", "read")


def test_what_the_system_refuses_changes_nothing(desk, monkeypatch):
    desk.put("a.txt")
    before = desk.look()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="write_file on 'a.txt' changed nothing: No space left on device"):
        desk.files.write("a.txt", "after")
    monkeypatch.undo()
    assert (desk.look(), list((desk.root / ".settlemark").iterdir())) == (before, [])


def test_two_that_race_for_one_new_folder_both_write(desk, monkeypatch):
    rename, others = os.rename, [desk.root / "new"]

    def overtaken(source, target, **folders):
        if target == "new" and others:
            others.pop().mkdir()
            (desk.root / "new/theirs.txt").touch()
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", overtaken)
    desk.files.write("new/ours.txt", "ours")
    assert sorted(path.name for path in (desk.root / "new").iterdir()) == ["ours.txt", "theirs.txt"]


def ordered(tool, about, **arguments):
    """An order under one key, as the engine gives it to whoever asks again for what it was not told."""
    return Order(tool, about, "t#1/0", mark_of("t#1/0"), digest_of(arguments), alone=False, keeps=True, scopes=None)


def test_asked_again_under_its_key_it_answers_as_before_and_does_nothing_again(desk):
    desk.put("a.txt", "b.txt", content="one")
    acts, plans = desk.files._acts, Plans(desk.files._root)
    append, move = ordered("append_file", "a.txt", content=" two"), ordered("move_file", "b.txt")
    appending = plans.putting(append, ("a.txt",), b" two", {"bytes": 4}, append=True)
    assert [acts.perform(append, appending) for _ in range(3)] == [{"bytes": 4}] * 3
    assert desk.text("a.txt") == "one two"
    with pytest.raises(KeyConflict, match="is already used here by another call of append_file"):
        acts.perform(move, plans.moving(move, ("b.txt",), ("c.txt",), "moved"))
    assert sorted(desk.look()) == ["a.txt", "b.txt"]


def test_what_was_undone_is_not_done_again_under_its_key(desk):
    desk.put("a.txt", content="one")
    acts, order = desk.files._acts, ordered("append_file", "a.txt")
    appending = Plans(desk.files._root).putting(order, ("a.txt",), b" two", None, append=True)
    acts.perform(order, appending)
    acts.undo(order.mark, order.about)
    with pytest.raises(StateError, match="was undone: its key is used up"):
        acts.perform(order, appending)
    assert desk.text("a.txt") == "one"


# ---- what somebody else does between the look and the act


def before_it_lands(monkeypatch, meddle):
    """Let somebody else act once, when all is recorded and nothing has changed yet."""
    save, waiting = Kept.save, [meddle]

    def saved(self, record):
        save(self, record)
        if waiting:
            waiting.pop()()

    monkeypatch.setattr(Kept, "save", saved)


@pytest.mark.parametrize("act", ["append", "write", "move", "delete"])
def test_a_file_that_was_exchanged_for_one_that_looks_alike_is_theirs_and_comes_back_when_the_step_fails(
    desk, monkeypatch, act
):
    desk.put("a.txt", content="ours then")
    arguments = {
        "append": {"path": "a.txt", "content": "; more"},
        "write": {"path": "a.txt", "content": "after"},
        "move": {"source": "a.txt", "destination": "b.txt"},
        "delete": {"path": "a.txt"},
    }[act]

    def exchange():
        put("theirs", content="their own")(desk.root)  # of the same size, mode and time
        (desk.root / "theirs").replace(desk.root / "a.txt")

    before_it_lands(monkeypatch, exchange)
    with pytest.raises(Failed), desk.settlement.transaction("t") as tx:
        tx.call(getattr(desk.files, act), **arguments)
        during = {path.name: path.read_text() for path in desk.root.iterdir() if path.is_file()}
        raise Failed
    expected = {"append": {"a.txt": "their own; more"}, "write": {"a.txt": "after"}, "move": {"b.txt": "their own"}}
    assert during == expected.get(act, {})
    assert (list(desk.look()), desk.text("a.txt"), desk.settlement.residue()) == (["a.txt"], "their own", [])


def test_a_move_replaces_no_file_that_was_made_meanwhile_where_it_was_to_go(desk, monkeypatch):
    desk.put("a.txt", content="ours")
    before_it_lands(monkeypatch, lambda: (desk.root / "b.txt").write_text("theirs"))
    with pytest.raises(FileExistsError, match=r"'b\.txt' exists: delete it first, or choose another"):
        with desk.settlement.transaction("t") as tx:
            tx.call(desk.files.move, source="a.txt", destination="b.txt")
    assert (desk.text("a.txt"), desk.text("b.txt"), desk.settlement.residue()) == ("ours", "theirs", [])
