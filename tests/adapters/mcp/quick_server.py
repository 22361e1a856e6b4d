"""The notes of `notes_server.py` without a library: it starts at once, for the hundreds of starts of a conformance kit.

`python quick_server.py FOLDER`. A file `FOLDER/fault` that says `lost`: it dies when it has acted on the next call.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


class Notes:
    """The tools."""

    def __init__(self, folder):
        self.folder = folder

    def _note(self, title):
        return self.folder / f"{title}.note"

    def read_note(self, title):
        return self._note(title).read_text() if self._note(title).exists() else None

    def put_note(self, title, text):
        self._note(title).write_text(text)
        return len(text)

    def add_line(self, title, text):
        with self._note(title).open("a") as file:
            file.write(f"{text}\n")
        return 1

    def delete_note(self, title):
        self._note(title).unlink()
        return "gone"

    def became(self, of):
        """What became of a key: its result, "begun", or None when it was never heard of."""
        path = self.folder / "journal.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [entry for entry in map(json.loads, lines) if entry["key"] == of]
        return found[-1].get("result", "begun") if found else None

    def plain(self):
        self._note("plain").write_text("done")
        return "done"


HINTS = {
    "read_note": {"readOnlyHint": True},
    "put_note": {"destructiveHint": False, "idempotentHint": True},
    "add_line": {"destructiveHint": False},
    "delete_note": {"readOnlyHint": False},
    "became": {"readOnlyHint": True},
    "plain": None,
}
TAKES = {
    "became": ["of"],
    "read_note": ["title"],
    "put_note": ["title", "text"],
    "add_line": ["title", "text"],
    "delete_note": ["title"],
}


def described(name):
    takes = TAKES.get(name, [])
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in takes}, "required": takes}
    hints = {} if HINTS[name] is None else {"annotations": HINTS[name]}
    return {"name": name, "description": f"Do {name}.", "inputSchema": schema, **hints}


def journal(folder, entry):
    with (folder / "journal.jsonl").open("a") as file:
        file.write(json.dumps(entry) + "\n")


def call(folder, name, arguments, meta):
    fault = folder / "fault"
    reads = (HINTS[name] or {}).get("readOnlyHint", False)
    how = fault.read_text() if not reads and fault.exists() else None
    entry = {"tool": name, "key": meta.get("settlemark/key")}
    try:
        if not reads:
            journal(folder, entry)
        result = getattr(Notes(folder), name)(**arguments)
        if not reads:
            journal(folder, entry | {"result": result})
    except OSError as error:
        journal(folder, entry | {"result": None})
        return {"content": [{"type": "text", "text": f"{name}: {error.strerror}"}], "isError": True}
    if how is not None:
        fault.unlink()
        os._exit(1)
    return {"content": [], "structuredContent": {"result": result}}


def main(folder):
    for line in sys.stdin:
        message = json.loads(line)
        request, answer = message.get("params") or {}, None
        match message["method"]:
            case "initialize":
                about = {"name": "quick", "version": "1"}
                version = request["protocolVersion"]
                answer = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                answer = {"tools": [described(name) for name in HINTS]}
            case "tools/call":
                answer = call(folder, request["name"], request["arguments"], request["_meta"])
        if answer is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[-1]))
