"""An MCP server over stdio in plain Python, which starts at once and does what a library would not: its tools come in
pages, have names Python does not allow, and it answers what does not fit its own schema.

`python odd_server.py [--endless] [--once FILE] [NAME…]`: names of tools beside its own; pages without an end; a file
that must not be there yet when it starts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

INPUT = {
    "type": "object",
    "properties": {"from": {"type": "string"}, "2nd-choice": {"type": "integer"}},
    "required": ["from"],
}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def listed(request, names, *, endless):
    at = int(request.get("cursor") or 0)
    tool = {"name": names[at % len(names)], "description": f"Tool {at}.", "inputSchema": INPUT, "outputSchema": OUTPUT}
    following = {"nextCursor": str(at + 1)} if endless or at + 1 < len(names) else {}
    return {"tools": [tool], **following}


def called(request):
    match request["arguments"].get("from"):
        case "nobody":
            return {"content": [{"type": "text", "text": "there is nobody"}], "isError": True}
        case "death":
            os._exit(1)
        case "stillness":
            time.sleep(3600)
        case "nonsense":
            return {"content": "nonsense"}
        case "environment":
            return {"content": [{"type": "text", "text": os.environ["TOKEN"]}]}
    return {"content": [], "structuredContent": {"n": "no number"}}


def main(*, endless=False, once=None, names=()):
    if once is not None:
        Path(once).open("x").close()
    for line in sys.stdin:
        message = json.loads(line)
        request, answer = message.get("params") or {}, None
        match message["method"]:
            case "initialize":
                answer = {
                    "protocolVersion": request["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "odd", "version": "1"},
                }
            case "tools/list":
                answer = listed(request, ["one", "two.parts", "three", *names], endless=endless)
            case "tools/call" if request["arguments"].get("from") == "failure":
                error = {"code": -32603, "message": "the disk is full"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)  # noqa: T201
            case "tools/call" if request["name"] in ("one", "two.parts", "three"):
                answer = called(request)
            case "tools/call":
                error = {"code": -32602, "message": f"there is no {request['name']}"}
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)  # noqa: T201
        if answer is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)  # noqa: T201


if __name__ == "__main__":
    arguments = sys.argv[1:]
    once = arguments.pop(arguments.index("--once") + 1) if "--once" in arguments else None
    main(
        endless="--endless" in arguments,
        once=once,
        names=[each for each in arguments if not each.startswith("-")],
    )
