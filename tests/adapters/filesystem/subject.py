"""What the conformance kit is told of the files: eager and staged, on a real folder."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from settlemark_adapters.filesystem import Filesystem
from settlemark_adapters.testing import Example, Subject, scope_of

OLD = 1_600_000_000 * 10**9 + 123_456_789


@contextmanager
def world():
    with tempfile.TemporaryDirectory() as folder:
        yield folder


def look(place):
    """What is there, as the operating system says: bytes, mode and time of each file."""
    found = {}
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if name != ".settlemark")
        for name in (*folders, *files):
            path = Path(folder, name)
            about = path.lstat()
            held = [path.read_bytes().hex(), about.st_mode, about.st_mtime_ns] if path.is_file() else "folder"
            found[str(path.relative_to(place))] = held
    return found


def resources(place):
    return {scope_of("file", *Path(place, name).parts[1:]): held for name, held in look(place).items()}


def put(*names, content="before\n", mode=0o640):
    """Make files that are older than any test."""

    def make(place):
        for name in names:
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
            path.chmod(mode)
            os.utime(path, ns=(OLD, OLD))

    return make


def meddle(place, example):
    """Somebody else writes into whatever the example has made or left."""
    arguments = example.arguments
    path = Path(place, arguments.get("destination") or arguments["path"])
    (path / "theirs.txt" if path.is_dir() else path).write_text("somebody else's")


EXAMPLES = [
    Example("read_file", {"path": "a.txt"}, put("a.txt")),
    Example("list_files", {"path": "."}, put("a.txt")),
    Example("write_file", {"path": "a.txt", "content": "after"}, put("a.txt")),
    Example("write_file", {"path": "new/deep/a.txt", "content": "AAE=", "encoding": "base64"}),
    Example("append_file", {"path": "a.txt", "content": "after"}, put("a.txt")),
    Example("append_file", {"path": "b.txt", "content": "first"}),
    Example("move_file", {"source": "a.txt", "destination": "d/b.txt"}, put("a.txt", "d/c.txt")),
    Example("delete_file", {"path": "d/a.txt"}, put("d/a.txt")),
    Example("make_directory", {"path": "new/deep"}),
]


def make(settlement, place, **options):
    return Filesystem(place, settlement, **options)


SUBJECTS = {
    "filesystem": Subject(make, world, look, EXAMPLES, meddle=meddle, resources=resources),
    "filesystem-staged": Subject(partial(make, staged=True), world, look, EXAMPLES, resources=resources),
}
