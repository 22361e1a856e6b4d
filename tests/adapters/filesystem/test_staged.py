"""Staged files: nothing is to be seen before the commit but by the step itself, and then all of it."""

from __future__ import annotations

import pytest
from tests.adapters.filesystem.step import AFTER, FILES, held, stage

from settlemark import PartialCommit


class Failed(Exception):
    """The step fails."""


def test_nothing_is_there_before_the_commit_and_all_of_it_behind(desk):
    desk.put(*FILES)
    before = desk.look()
    with desk.settlement.transaction("t") as tx:
        stage(tx, desk.staged)
        assert desk.look() == before
    assert (held(desk.look()), desk.settlement.residue()) == (AFTER, [])


def test_an_abort_drops_it(desk):
    desk.put(*FILES)
    before = desk.look()
    with pytest.raises(Failed), desk.settlement.transaction("t") as tx:
        stage(tx, desk.staged)
        raise Failed
    assert (desk.look(), desk.settlement.residue()) == (before, [])


def test_reads_of_the_same_step_see_what_it_has_staged(desk):
    desk.put(*FILES)
    files = desk.staged
    with desk.settlement.transaction("t") as tx:
        stage(tx, files)
        tx.call(files.append, path="new/a.txt", content=" two")
        tx.call(files.append, path="d/b.txt", content="moved")
        assert tx.call(files.read, path="new/a.txt") == "one two"
        assert tx.call(files.read, path="log.txt") == "before\nagain\n"
        assert tx.call(files.read, path="d/b.txt") == "before\nmoved"
        for gone in ("b.txt", "d/c.txt"):
            with pytest.raises(FileNotFoundError):
                tx.call(files.read, path=gone)
        assert tx.call(files.entries, path=".") == [
            {"name": "d", "kind": "folder", "bytes": 0},
            {"name": "empty", "kind": "folder", "bytes": 0},
            {"name": "log.txt", "kind": "file", "bytes": 13},
            {"name": "new", "kind": "folder", "bytes": 0},
        ]
        assert tx.call(files.entries, path="d") == [{"name": "b.txt", "kind": "file", "bytes": 12}]
        assert tx.call(files.entries, path="empty/deep") == []
    assert held(desk.look()) == AFTER | {"new/a.txt": b"one two".hex(), "d/b.txt": b"before\nmoved".hex()}


def test_others_do_not(desk):
    desk.put(*FILES)
    with desk.settlement.transaction("t") as tx:
        stage(tx, desk.staged)
        assert desk.staged.read("log.txt") == "before\n"
        with pytest.raises(FileNotFoundError):
            desk.files.read("new/a.txt")


def test_what_cannot_land_is_refused_when_it_is_called_by_what_the_step_has_staged(desk):
    desk.put(*FILES)
    files = desk.staged
    refused = [
        (files.delete, {"path": "b.txt"}, "does not exist"),
        (files.move, {"source": "d/c.txt", "destination": "e.txt"}, "does not exist"),
        (files.move, {"source": "log.txt", "destination": "d/b.txt"}, "exists"),
        (files.write, {"path": "new/a.txt/x", "content": ""}, "nothing can be below it"),
        (files.write, {"path": "empty/deep", "content": ""}, "name a file"),
        (files.make_directory, {"path": "new/a.txt"}, "choose another name"),
    ]
    with desk.settlement.transaction("t") as tx:
        stage(tx, files)
        for tool, arguments, said in refused:
            with pytest.raises(OSError, match=said):
                tx.call(tool, **arguments)
        tx.call(files.move, source="new/a.txt", destination="empty/deep/a.txt")
    assert [outcome for _, outcome in desk.outcomes()] == ["confirmed"] * 6
    assert desk.text("empty/deep/a.txt") == "one"


def test_what_somebody_else_has_made_impossible_since_is_refused_and_nothing_has_landed(desk):
    desk.put(*FILES)
    with pytest.raises(Exception, match="does not exist"), desk.settlement.transaction("t") as tx:
        tx.call(desk.staged.delete, path="b.txt")
        tx.call(desk.staged.write, path="new/a.txt", content="one")
        (desk.root / "b.txt").unlink()
    assert sorted(desk.look()) == ["d", "d/c.txt", "log.txt"]


def test_behind_what_has_landed_it_is_a_partial_commit_that_is_named(desk):
    desk.put(*FILES)
    with pytest.raises(PartialCommit, match="mend by hand"), desk.settlement.transaction("t") as tx:
        tx.call(desk.staged.write, path="new/a.txt", content="one")
        tx.call(desk.staged.delete, path="b.txt")
        (desk.root / "b.txt").unlink()
    assert [left.tool for left in desk.settlement.residue()] == ["later_delete_file"]


def test_a_function_of_the_users_own_is_staged_too_and_read_by_its_arguments(desk):
    def save(name: str, content: str) -> None:
        (desk.root / name).write_text(content)

    def stamp(path: str) -> None:
        (desk.root / path).write_text("now")

    save, stamp = desk.staged.declare("write_file", save, path="name"), desk.staged.declare("write_file", stamp)
    with desk.settlement.transaction("t") as tx:
        tx.call(save, name="a.txt", content="one")
        tx.call(stamp, path="b.txt")
        assert tx.call(desk.staged.read, path="a.txt") == "one"
        with pytest.raises(BlockingIOError, match="not known yet"):
            tx.call(desk.staged.read, path="b.txt")
        assert desk.look() == {}
    assert (desk.text("a.txt"), desk.text("b.txt")) == ("one", "now")


def test_what_a_staged_delete_has_taken_is_kept_nowhere(desk):
    desk.put("secret.txt", content="the secret")
    with desk.settlement.transaction("t") as tx:
        tx.call(desk.staged.delete, path="secret.txt")
    kept = [path.read_bytes() for path in (desk.root / ".settlemark").iterdir()]
    assert (desk.look(), any(b"the secret" in data for data in kept)) == ({}, False)
