"""When a call has returned, a power cut takes nothing of it: every name and byte that it changed is on disk."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.adapters.filesystem.test_filesystem import ACTS

from settlemark_adapters.filesystem import Filesystem


class Failed(Exception):
    """The step fails."""


class Disk:
    """What a power cut would take: folders whose names, and files whose bytes, changed since they were synced."""

    def __init__(self):
        self.unsynced = {}

    @contextmanager
    def watched(self, monkeypatch):
        """Note what every function of `os` changes, and what it has on disk."""
        with monkeypatch.context() as patched:
            for name in ("rename", "replace", "link"):
                patched.setattr(os, name, self._changing(name, "src_dir_fd", "dst_dir_fd"))
            for name in ("unlink", "mkdir", "rmdir"):
                patched.setattr(os, name, self._changing(name, "dir_fd"))
            write, fsync = os.write, os.fsync

            def writing(file, data):
                self._changed(file)
                return write(file, data)

            def syncing(file):
                fsync(file)
                self.unsynced.pop(_identity(file), None)

            patched.setattr(os, "write", writing)
            patched.setattr(os, "fsync", syncing)
            yield

    def _changing(self, name, *folders):
        change = getattr(os, name)

        def act(*args, **kwargs):
            result = change(*args, **kwargs)
            for folder in folders:
                if kwargs.get(folder) is not None:
                    self._changed(kwargs[folder])
            return result

        return act

    def _changed(self, descriptor):
        self.unsynced[_identity(descriptor)] = Path(f"/proc/self/fd/{descriptor}").readlink()

    def lost(self, root):
        """Return what of a root a power cut would take, as far as it is there."""
        there = {_identity(path): str(path.relative_to(root)) for path in (root, *root.rglob("*"))}
        return sorted(there[each] for each in self.unsynced if each in there and ".settlemark" not in there[each])


def _identity(file):
    found = os.stat(file)  # noqa: PTH116 - a descriptor or a path
    return found.st_dev, found.st_ino


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="it asks /proc what a descriptor is of")


@pytest.mark.parametrize("staged", [False, True], ids=["at once", "at the commit"])
@pytest.mark.parametrize("act", ACTS)
def test_what_a_step_did_outlives_a_power_cut_behind_its_commit(desk, monkeypatch, act, staged):
    method, arguments = ACTS[act]
    desk.put("a.txt", "d/b.txt")
    disk = Disk()
    with disk.watched(monkeypatch), desk.settlement.transaction("works") as tx:
        tx.call(getattr(desk.staged if staged else desk.files, method), **arguments)
        if not staged:
            assert disk.lost(desk.root) == []
    assert (disk.lost(desk.root), desk.outcomes()) == ([], [(desk.outcomes()[0][0], "confirmed")])


@pytest.mark.parametrize("act", ACTS)
def test_what_an_abort_put_back_outlives_a_power_cut_too(desk, monkeypatch, act):
    method, arguments = ACTS[act]
    desk.put("a.txt", "d/b.txt")
    before = desk.look()
    disk = Disk()
    with pytest.raises(Failed), disk.watched(monkeypatch), desk.settlement.transaction("fails") as tx:
        tx.call(getattr(desk.files, method), **arguments)
        raise Failed
    assert (disk.lost(desk.root), desk.look(), desk.settlement.residue()) == ([], before, [])


def test_called_bare_it_does_as_well(root, monkeypatch):
    disk = Disk()
    with disk.watched(monkeypatch):
        Filesystem(root).write("x/y/new.txt", "after")
    assert (disk.lost(root), (root / "x/y/new.txt").read_text()) == ([], "after")
