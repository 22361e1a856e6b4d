"""What the conformance kit is told of the MCP adapter: a server of notes in a folder."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path

from settlemark import UNKNOWN
from settlemark_adapters.mcp import Mcp
from settlemark_adapters.testing import Example, Subject

SERVER = Path(__file__).with_name("notes_server.py")
QUICK = Path(__file__).with_name("quick_server.py")


def make(settlement, place, **options):
    """Tools of the server that is written with the `mcp` package."""
    return Mcp([sys.executable, str(SERVER), str(place)], settlement, **options)


def make_quick(settlement, place, effects=None):
    """Tools of the one that starts at once."""

    def became(key):
        found = quick.call("became", of=key)["result"]
        return UNKNOWN if found == "begun" else found and {"result": found}

    command = [sys.executable, "-S", str(QUICK), str(place)]
    quick = Mcp(command, settlement, effects=effects or {"delete_note": {"probe": became}})
    return quick


@contextlib.contextmanager
def world():
    with tempfile.TemporaryDirectory(prefix="settlemark-mcp-") as folder:
        yield Path(folder)


def look(place):
    return {path.stem: path.read_text() for path in sorted(place.glob("*.note"))}


def asked(place, *tools):
    """What the server was asked, of these tools: name and key."""
    try:
        lines = (place / "journal.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines]
    return [
        (entry["tool"], entry["key"])
        for entry in found
        if "result" not in entry and (not tools or entry["tool"] in tools)
    ]


def _with_note(place):
    (place / "todo.note").write_text("buy milk\n")


TODO = {"title": "todo"}
SUBJECTS = {
    "mcp": Subject(
        make=make_quick,
        world=world,
        look=look,
        examples=[
            Example("read_note", TODO, before=_with_note),
            Example("put_note", TODO | {"text": "call Ada"}),
            Example("add_line", TODO | {"text": "call Ada"}),
            Example("delete_note", TODO, before=_with_note),
            Example("became", {"of": "nothing"}),
            Example("plain", {}),
        ],
        lose=lambda place: (place / "fault").write_text("lost"),
    )
}
