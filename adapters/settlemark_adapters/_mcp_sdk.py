"""One interface over the MCP SDK's two generations, which speak the same wire protocol."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import Any, Self, cast

import mcp
from mcp import ClientSession, types
from mcp.client.session import ClientSession as _Session

_parts: Any = mcp
McpError: type[Exception] = getattr(_parts, "MCPError", None) or _parts.McpError
_SECONDS = "float" in str(
    inspect.signature(_Session.send_request).parameters["request_read_timeout_seconds"].annotation
)


def wire(model: Any) -> dict[str, Any]:
    """Return a part of an answer as JSON, with the protocol's own names.

    >>> wire(types.ToolAnnotations.model_validate({"readOnlyHint": True}))
    {'readOnlyHint': True}
    """
    return cast("dict[str, Any]", model.model_dump(mode="json", by_alias=True, exclude_none=True))


def error_of(error: Exception) -> types.ErrorData:
    """Return what an error of a server says."""
    return cast("types.ErrorData", cast("Any", error).error)


async def call_tool(
    session: ClientSession, tool: str, arguments: dict[str, Any], meta: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """Call a tool and return the server's answer, whether or not it fits the tool's own schema.

    Not `session.call_tool`: that raises when a result does not fit its schema, as if the tool had failed.

    Raises:
        McpError: the server refused, or did not answer in time.
        ValidationError: its answer is not of the protocol.
    """
    params = types.CallToolRequestParams.model_validate({"name": tool, "arguments": arguments, "_meta": meta})
    request: Any = types.CallToolRequest(method="tools/call", params=params)
    patience: Any = seconds if _SECONDS else timedelta(seconds=seconds)
    return wire(await session.send_request(request, types.CallToolResult, request_read_timeout_seconds=patience))


class Outgoing:
    """The stream to a server, which counts the messages handed to it.

    A connection found closed before a request was handed over has carried nothing of it.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.handed = 0

    async def send(self, item: Any) -> None:
        """Hand a message over; one that the stream refuses was not."""
        self.handed += 1
        try:
            await self._stream.send(item)
        except BaseException as error:
            if type(error).__name__ in ("BrokenResourceError", "ClosedResourceError"):
                self.handed -= 1
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *how: object) -> None:
        await self._stream.__aexit__(*how)


__all__ = ["McpError", "Outgoing", "call_tool", "error_of", "wire"]
