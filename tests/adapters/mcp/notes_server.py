"""An MCP server over stdio: notes in a folder, with a journal of all it was asked, and ways to fail.

`python notes_server.py FOLDER`. A file `FOLDER/fault` says how the next call of a tool that writes ends: `lost`, it
dies when it has acted; `dead`, before; `hang`, it has acted and never answers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

from mcp.types import ToolAnnotations
from pydantic import Field

try:
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # the SDK's first generation
    from mcp.server.fastmcp import Context, Image
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

FOLDER = Path(sys.argv[-1])
server = MCPServer("notes & more", log_level="ERROR")


def journal(tool, ctx, **arguments):
    meta = ctx.request_context.meta
    key = (meta if isinstance(meta, dict) else getattr(meta, "model_extra", None) or {}).get("settlemark/key")
    with (FOLDER / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"tool": tool, "key": key, **arguments}) + "\n")


def fault():
    try:
        found = (FOLDER / "fault").read_text()
        (FOLDER / "fault").unlink()
    except FileNotFoundError:
        return None
    if found == "dead":
        os._exit(1)
    return found


def end(how):
    if how == "lost":
        os._exit(1)
    if how == "hang":
        time.sleep(600)


def told(act):
    """Do it, and tell the caller why not: of other errors the SDK keeps the words to itself."""
    try:
        return act()
    except OSError as error:
        raise ToolError(str(error)) from error


def note(title):
    return FOLDER / f"{title}.note"


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def read_note(title: Annotated[str, Field(description="Which note.")], ctx: Context) -> str:
    """Read a note."""
    journal("read_note", ctx, title=title)
    return told(note(title).read_text)


@server.tool(annotations=ToolAnnotations(destructiveHint=False, idempotentHint=True))
def put_note(title: str, text: str, ctx: Context) -> dict[str, int]:
    """Have a note say this."""
    how = fault()
    journal("put_note", ctx, title=title)
    note(title).write_text(text)
    end(how)
    return {"length": len(text)}


@server.tool(annotations=ToolAnnotations(destructiveHint=False))
def add_line(title: str, text: str, ctx: Context, times: int = 1, style: Literal["plain", "loud"] | None = None) -> int:
    """Add a line to a note."""
    how = fault()
    journal("add_line", ctx, title=title)
    with note(title).open("a") as file:
        file.write(f"{text}\n" * times)
    end(how)
    return times


@server.tool(annotations=ToolAnnotations(readOnlyHint=False))
def delete_note(title: str, ctx: Context) -> str:
    """Delete a note."""
    how = fault()
    journal("delete_note", ctx, title=title)
    told(note(title).unlink)
    end(how)
    return "gone"


@server.tool(annotations=ToolAnnotations(destructiveHint=True, idempotentHint=True))
def wipe(ctx: Context) -> int:
    """Delete all notes."""
    how = fault()
    journal("wipe", ctx)
    found = list(FOLDER.glob("*.note"))
    for each in found:
        each.unlink()
    end(how)
    return len(found)


@server.tool()
def plain(ctx: Context) -> str:
    """Do something."""
    journal("plain", ctx)
    return "done"


@server.tool(annotations=ToolAnnotations(title="A titled one", openWorldHint=False))
def titled() -> str:
    return "done"


@server.tool(annotations=ToolAnnotations(readOnlyHint=True), structured_output=False)
def picture() -> list:
    """Show a picture."""
    return ["a dot", Image(data=b"\x89PNG", format="png")]


@server.tool(annotations=ToolAnnotations(readOnlyHint=True), structured_output=False)
def words() -> str:
    """Say something."""
    return "hello"


if __name__ == "__main__":
    server.run()
