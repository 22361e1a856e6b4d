"""One object has one scope through whichever view of its store, and a store that keeps copies is none to act on."""

from __future__ import annotations

import pytest
from fsspec.implementations.cached import CachingFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from settlemark_adapters.objects import Objects

VIEWS = {
    "the store": lambda folder: Objects(f"file://{folder}"),
    "the store by its other name": lambda folder: Objects(f"local://{folder}"),
    "its file system": lambda folder: Objects(LocalFileSystem(), root=str(folder)),
    "a view of the folder": lambda folder: Objects(DirFileSystem(str(folder), LocalFileSystem())),
    "a view of the folder above": lambda folder: Objects(DirFileSystem(folder.parent, LocalFileSystem()), root="d"),
    "a view of a view": lambda folder: Objects(DirFileSystem("d", DirFileSystem(folder.parent, LocalFileSystem()))),
    "a link": lambda folder: Objects(DirFileSystem(str(folder.parent / "link"), LocalFileSystem())),
}


def _below(known):
    return {known, *(each for sub in known.__subclasses__() for each in _below(sub))}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "d"
    made.mkdir()
    (tmp_path / "link").symlink_to(made)
    return made


def scopes(objects):
    (declared,) = [each for each in objects.declarations() if each.tool == "put_object"]
    return [scope.text for scope in declared.scopes({"path": "a/b", "content": ""})]


@pytest.mark.parametrize("view", VIEWS)
def test_an_object_has_one_scope_through_every_view_of_its_store(folder, view):
    objects = VIEWS[view](folder)
    assert scopes(objects) == [f"object:/file{folder}/a/b"]
    objects.put("a", "here")
    assert (folder / "a").read_text() == "here"


def test_a_view_of_a_folder_in_memory_is_that_folder():
    view = DirFileSystem("/x", MemoryFileSystem())
    assert scopes(Objects(view, root="y")) == scopes(Objects("memory://x/y")) == ["object:/memory/x/y/a/b"]


@pytest.mark.parametrize("protocol", ["simplecache", "filecache", "blockcache"])
def test_a_store_that_keeps_copies_is_refused_by_its_address_and_as_a_file_system(protocol):
    with pytest.raises(ValueError, match="keeps copies of objects"):
        Objects(f"{protocol}::memory://x")


def test_so_is_every_kind_of_it_also_beneath_a_view(tmp_path):
    for known in _below(CachingFileSystem):
        kept = known(fs=MemoryFileSystem(), cache_storage=str(tmp_path))
        for store in (kept, DirFileSystem("/x", kept)):
            with pytest.raises(ValueError, match=f"{known.__name__} keeps copies of objects"):
                Objects(store)
