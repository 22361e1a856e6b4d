"""Nothing leads out of a root, and every spelling of one file is one scope."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.extent import examples

from settlemark import Scope, ScopeError, Settlement
from settlemark.testing import in_child
from settlemark_adapters.filesystem import Filesystem

NFC, NFD = unicodedata.normalize("NFC", "é.txt"), unicodedata.normalize("NFD", "é.txt")


@pytest.fixture
def around(tmp_path, root):
    """What lies beside the root, and must stay as it is."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "beside").mkdir()
    (tmp_path / "rootling").mkdir()
    return lambda: sorted((str(p), p.is_dir() or p.read_text()) for p in tmp_path.rglob("*") if root not in p.parents)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def scopes(desk, path):
    return [scope.text for scope in desk.files.declarations()[2].scopes({"path": path, "content": ""})]


def calls(path):
    """Every call in which a path may stand."""
    return {
        "read_file": {"path": path},
        "list_files": {"path": path},
        "write_file": {"path": path, "content": "in"},
        "append_file": {"path": path, "content": "in"},
        "delete_file": {"path": path},
        "make_directory": {"path": path},
    } | {"move_file": {"source": "a.txt", "destination": path}}


OUTSIDE = {
    "a path that climbs": "../secret.txt",
    "one that climbs later": "d/../../secret.txt",
    "one that climbs far": "../" * 40 + "etc/passwd",
    "an absolute path": "/etc/passwd",
    "one beside the root whose name begins alike": "../rootling/new.txt",
    "a link to a file outside": "link.txt",
    "a link to a folder outside": "out/secret.txt",
    "a link to a new file outside": "dangling",
    "a link by way of another": "chain/secret.txt",
    "a link that climbs": "climbing/secret.txt",
}


@pytest.mark.parametrize("way", OUTSIDE)
@pytest.mark.parametrize("mode", ["bare", "eager", "staged"])
def test_what_leads_out_of_the_root_is_refused_and_nothing_changed(desk, around, way, mode):
    desk.put("a.txt", "d/b.txt")
    (desk.root / "link.txt").symlink_to("../secret.txt")
    (desk.root / "out").symlink_to(desk.root.parent)
    (desk.root / "dangling").symlink_to("../beside/new.txt")
    (desk.root / "chain").symlink_to("out")
    (desk.root / "climbing").symlink_to("d/../..")
    before, outside = desk.look(), around()
    for tool, arguments in calls(OUTSIDE[way]).items():
        with pytest.raises(PermissionError if mode == "bare" else (PermissionError, ScopeError)) as refused:
            if mode == "bare":
                desk.files.tool(tool)(**arguments)
            else:
                with desk.settlement.transaction(f"{tool}-{mode}") as tx:
                    tx.call((desk.files if mode == "eager" else desk.staged).tool(tool), **arguments)
        assert "leads out of" in str(refused.value) or "is a link to" in str(refused.value)
    assert (desk.look(), around(), desk.outcomes()) == (before, outside, [])


@pytest.mark.parametrize(
    "path", [".settlemark", ".settlemark/x", "d/../.settlemark/x", ".SettleMark/x", "d/.settlemark"]
)
def test_what_is_kept_for_undoing_is_nobodys_to_touch(desk, path):
    desk.put("a.txt", "d/b.txt")
    before = desk.look()
    for tool, arguments in calls(path).items():
        with pytest.raises(PermissionError, match="choose another name"):
            desk.files.tool(tool)(**arguments)
    assert desk.look() == before


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(desk, path):
    for tool, arguments in calls(path).items():
        with pytest.raises(ValueError, match="is no path"):
            desk.files.tool(tool)(**arguments)
    assert desk.look() == {}


def test_half_a_character_is_refused(desk):
    with pytest.raises(ScopeError), desk.settlement.transaction("t") as tx:
        tx.call(desk.files.write, path="a\udc80.txt", content="")
    assert (desk.look(), desk.outcomes()) == ({}, [])


def test_spellings_of_one_file_are_one_scope(desk):
    desk.put("d/a.txt")
    (desk.root / "l").symlink_to("d")
    (desk.root / "absolute").symlink_to(desk.root / "d")
    spelled = [
        "d/a.txt",
        "./d//a.txt",
        "d/x/../a.txt",
        "l/a.txt",
        "absolute/a.txt",
        "l/../d/a.txt",
        f"{desk.root}/d/a.txt",
    ]
    assert {tuple(scopes(desk, path)) for path in spelled} == {(f"file:{desk.root}/d/a.txt",)}
    assert {desk.files.read(path) for path in spelled} == {"before\n"}


def test_a_link_is_written_through_and_stays_a_link(desk):
    desk.put("d/a.txt")
    (desk.root / "l.txt").symlink_to("d/a.txt")
    desk.files.write("l.txt", "after")
    assert (desk.text("d/a.txt"), str((desk.root / "l.txt").readlink())) == ("after", "d/a.txt")


def test_a_link_itself_is_neither_moved_nor_deleted(desk):
    desk.put("a.txt")
    (desk.root / "l.txt").symlink_to("a.txt")
    for call in (lambda: desk.files.delete("l.txt"), lambda: desk.files.move("l.txt", "m.txt")):
        with pytest.raises(PermissionError, match="name the file itself"):
            call()
    assert sorted(desk.look()) == ["a.txt", "l.txt"]


def test_links_without_an_end_are_refused(desk):
    (desk.root / "a").symlink_to("b")
    (desk.root / "b").symlink_to("a")
    with pytest.raises(OSError, match="without an end"):
        desk.files.read("a/c.txt")


def test_a_new_file_has_one_scope_in_both_unicode_spellings_and_is_made_in_the_composed_one(desk):
    assert scopes(desk, NFC) == scopes(desk, NFD)
    desk.files.write(NFD, "one")
    desk.files.append(NFC, " two")
    assert (names(desk.root), desk.files.read(NFD)) == ([".settlemark", NFC], "one two")


def test_a_file_that_is_there_is_found_in_both_spellings(desk):
    (desk.root / NFD).write_text("there")
    assert (desk.files.read(NFC), desk.files.read(NFD), scopes(desk, NFC)) == ("there", "there", scopes(desk, NFD))


def test_two_files_that_differ_in_spelling_alone_are_refused(desk):
    (desk.root / NFC).write_text("composed")
    (desk.root / NFD).write_text("decomposed")
    for path in (NFC, NFD):
        with pytest.raises(FileExistsError, match="rename one of them"):
            desk.files.write(path, "which?")
    assert sorted(held[0] for held in desk.look().values()) == sorted([b"composed".hex(), b"decomposed".hex()])


def test_a_character_that_becomes_a_plain_one_is_that_one(desk):
    kelvin = "\u212a.txt"
    (desk.root / kelvin).write_text("there")
    assert (desk.files.read("K.txt"), scopes(desk, kelvin)) == ("there", scopes(desk, "K.txt"))


def test_where_case_makes_no_difference_one_file_has_one_scope(desk):
    desk.files._root.folds = True  # as on macOS and Windows
    desk.put("Notes/Today.txt")
    assert scopes(desk, "notes/TODAY.TXT") == scopes(desk, "Notes/Today.txt")
    assert scopes(desk, "new/A.txt") == scopes(desk, "NEW/a.TXT")
    assert desk.files.read("NOTES/today.txt") == "before\n"


def test_where_case_makes_a_difference_there_are_two(desk):
    assert not desk.files._root.folds
    assert scopes(desk, "a.txt") != scopes(desk, "A.txt")


_NAMES = st.sampled_from(
    ["a", "b", "..", ".", "", "out", "in", "back", "file", "é", "e\u0301", "...", "*", "%2e%2e", "c:"]
)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(_NAMES, min_size=1, max_size=6), absolute=st.sampled_from(["", "/", "root"]))
def test_whatever_is_asked_for_it_is_below_the_root_and_below_its_scope_or_refused(tmp_path_factory, names, absolute):
    base = tmp_path_factory.getbasetemp() / "everywhere"
    root = base / "root"
    if not root.exists():
        (root / "a").mkdir(parents=True)
        (root / "file").write_text("in")
        (root / "out").symlink_to("..")
        (root / "in").symlink_to("a")
        (root / "a/back").symlink_to("../..")
    files = Filesystem(root)
    path = {"": "", "/": "/", "root": f"{root}/"}[absolute] + "/".join(names)
    try:
        parts = files._root.locate(path)
    except (ValueError, OSError):
        return
    real = os.path.realpath(root.joinpath(*parts))
    assert real == str(root.joinpath(*parts))
    assert os.path.commonpath([real, root]) == str(root)
    assert Scope.parse(f"file:{root}").covers(Scope.parse(files._root.scope(parts)))
    assert files._root.locate("/".join(parts) or ".") == parts


# ---- what changes between a look and the act


@pytest.mark.parametrize(
    "act",
    [
        lambda files: files.write("d/a.txt", "in"),
        lambda files: files.append("d/a.txt", "in"),
        lambda files: files.write("d/x/new.txt", "in"),
        lambda files: files.delete("d/a.txt"),
        lambda files: files.move("d/a.txt", "b.txt"),
        lambda files: files.move("c.txt", "d/b.txt"),
        lambda files: files.make_directory("d/x"),
        lambda files: files.read("d/a.txt"),
        lambda files: files.entries("d"),
    ],
)
def test_a_folder_that_becomes_a_link_after_it_was_looked_at_leads_nowhere(desk, around, monkeypatch, act):
    desk.put("d/a.txt", "c.txt")
    (desk.root.parent / "beside/a.txt").write_text("secret")
    outside, entered = around(), type(desk.files._root).entered

    def swapped(root, parts):
        if (desk.root / "d").is_dir() and not (desk.root / "d").is_symlink():
            (desk.root / "d").rename(desk.root / "was")
            (desk.root / "d").symlink_to("../beside")
        return entered(root, parts)

    monkeypatch.setattr(type(desk.files._root), "entered", swapped)
    with pytest.raises(OSError, match="became a link"):
        act(desk.files)
    assert (around(), names(desk.root / "was")) == (outside, ["a.txt"])
    assert desk.text("c.txt") == "before\n"


def test_a_file_that_becomes_a_link_is_not_followed(desk, around, monkeypatch):
    desk.put("a.txt")
    outside, existing = around(), type(desk.files._root).existing

    def swapped(root, parts):
        (desk.root / "a.txt").unlink(missing_ok=True)
        (desk.root / "a.txt").symlink_to("../secret.txt")
        return existing(root, parts)

    monkeypatch.setattr(type(desk.files._root), "existing", swapped)
    with pytest.raises(OSError, match=r"a\.txt"):
        desk.files.append("a.txt", "in")
    assert around() == outside


def test_a_link_that_leads_elsewhere_when_a_staged_write_lands_is_refused(desk):
    desk.put("one/a.txt", "two/a.txt")
    (desk.root / "current").symlink_to("one")
    before = desk.look()
    with pytest.raises(Exception, match="leads to .*two/a.txt now"), desk.settlement.transaction("t") as tx:
        tx.call(desk.staged.write, path="current/a.txt", content="after")
        (desk.root / "current").unlink()
        (desk.root / "current").symlink_to("two")
    (desk.root / "current").unlink()
    (desk.root / "current").symlink_to("one")
    assert desk.look() == before


def test_a_device_is_no_file(desk):
    os.mkfifo(desk.root / "pipe")
    for act in (
        lambda: desk.files.read("pipe"),
        lambda: desk.files.write("pipe", "in"),
        lambda: desk.files.delete("pipe"),
    ):
        with pytest.raises(IsADirectoryError):
            act()
    assert desk.files.entries() == [{"name": "pipe", "kind": "other", "bytes": 0}]


@pytest.fixture
def open_folder():
    """A folder that every user may enter and write, as are those above it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, and only root can become one")
@pytest.mark.parametrize("staged", [False, True])
def test_what_may_not_be_written_is_refused_and_nothing_changed(open_folder, staged):
    root = open_folder
    (root / "d").mkdir(parents=True)
    (root / "fixed.txt").write_text("fixed")
    (root / "d/a.txt").write_text("fixed")

    def play(tell):
        os.setgroups([])
        os.setgid(65_534)
        os.setuid(65_534)
        with Settlement("memory:") as settlement:
            files = Filesystem(root, settlement, staged=staged)
            for number, (tool, arguments) in enumerate(
                [
                    ("write_file", {"path": "fixed.txt", "content": "after"}),
                    ("write_file", {"path": "d/new.txt", "content": "after"}),
                    ("append_file", {"path": "d/a.txt", "content": "after"}),
                    ("delete_file", {"path": "d/a.txt"}),
                    ("make_directory", {"path": "d/e"}),
                    ("move_file", {"source": "d/a.txt", "destination": "b.txt"}),
                ]
            ):
                try:
                    with settlement.transaction(f"t{number}") as tx:
                        tx.call(files.tool(tool), **arguments)
                except PermissionError as error:
                    tell(str(error))

    told = in_child(play)
    assert (told.error, len(told.told)) == (None, 6)
    assert all("not writable" in said for said in told.told)
    assert ((root / "fixed.txt").read_text(), names(root / "d")) == ("fixed", ["a.txt"])
