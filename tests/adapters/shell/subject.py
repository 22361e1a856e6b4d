"""What the conformance kit is told of the shell adapter: a folder, commands that are declared, and any other."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from settlemark_adapters.shell import OWN, Pattern, Shell
from settlemark_adapters.testing import Example, Subject, scope_of

PATTERNS = [
    Pattern(
        "mkdir {path:path}",
        "reversible",
        scope="file:/{path:path}",
        undo="rmdir {path}",
        probe="test -d {path}",
        check="test ! -e {path}",
        refused=(1,),
    ),
    Pattern("ls -A {path:path}", "read", name="ls", scope="file:/{path:path}"),
    Pattern("touch {path:path}", "idempotent", scope="file:/{path:path}", probe="test -e {path}"),
    Pattern(
        "cp {source:path} {target:path}",
        "irreversible",
        name="publish",
        scope="file:/{target:path}",
        probe="test -e {target}",
    ),
]


def make(settlement, place):
    return Shell(place, settlement, patterns=PATTERNS)


@contextlib.contextmanager
def world():
    with tempfile.TemporaryDirectory(prefix="settlemark-shell-") as folder:
        yield Path(folder)


def look(place):
    found = [path for path in place.rglob("*") if OWN not in path.parts]
    return sorted((str(path.relative_to(place)), None if path.is_dir() else path.read_text()) for path in found)


def resources(place):
    return {scope_of("file", *name.split("/")): content or "a folder" for name, content in look(place)}


def meddle(place, _example):
    for path in place.iterdir():
        if path.is_dir() and path.name != OWN:
            (path / "of another").write_text("x")


SUBJECTS = {
    "shell": Subject(
        make=make,
        world=world,
        look=look,
        examples=[
            Example("run_command", {"command": "mktemp --tmpdir=. made.XXXX"}),
            Example("mkdir", {"path": "inbox"}),
            Example("ls", {"path": "."}),
            Example("touch", {"path": "note"}),
            Example(
                "publish", {"source": "draft", "target": "page"}, before=lambda place: (place / "draft").write_text("7")
            ),
        ],
        resources=resources,
        meddle=meddle,
    )
}
