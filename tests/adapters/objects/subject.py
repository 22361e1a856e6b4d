"""What the conformance kit is told of the objects: eager and staged, in a folder."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from settlemark_adapters.objects import Objects
from settlemark_adapters.testing import Example, Subject, scope_of


@contextmanager
def world():
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def look(place):
    """Every object and its bytes, as the operating system says; a folder without objects is nothing to a store."""
    paths = (path for path in Path(place).rglob("*") if path.is_file())
    found = {path.relative_to(place).as_posix(): path.read_bytes().hex() for path in paths}
    return {key: data for key, data in sorted(found.items()) if not key.startswith(".settlemark/")}


def resources(place):
    return {scope_of("object", "file", *Path(place, key).parts[1:]): data for key, data in look(place).items()}


def put(*keys):
    def make(place):
        for key in keys:
            path = Path(place, key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"before, {key}")

    return make


def meddle(place, example):
    """Somebody else writes what the example has made or removed."""
    key = example.arguments.get("destination") or example.arguments["path"]
    Path(place, key).write_text("somebody else's")


EXAMPLES = [
    Example("get_object", {"path": "a"}, put("a")),
    Example("list_objects", {"folder": "d"}, put("d/a", "b")),
    Example("put_object", {"path": "a", "content": "after"}, put("a")),
    Example("put_object", {"path": "new/deep/a", "content": "AAE=", "encoding": "base64"}),
    Example("copy_object", {"source": "a", "destination": "b"}, put("a")),
    Example("copy_object", {"source": "a", "destination": "d/b"}, put("a", "d/b")),
    Example("delete_object", {"path": "a"}, put("a")),
]


def make(settlement, place, **options):
    return Objects(f"file://{place}", settlement, **options)


def make_unsteady(settlement, place, **options):
    """A store on disk that moves by copying and removing, as those in a network do."""
    return Objects(DirFileSystem(place, LocalFileSystem(auto_mkdir=True)), settlement, **options)


SUBJECTS = {
    "objects": Subject(make, world, look, EXAMPLES, meddle=meddle, resources=resources),
    "objects-unsteady": Subject(make_unsteady, world, look, EXAMPLES, meddle=meddle),
    "objects-staged": Subject(partial(make, staged=True), world, look, EXAMPLES, resources=resources),
}
