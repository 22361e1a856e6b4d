"""An MCP server over stdio for synchronous callers: started on demand, and again when it has died."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp import types as protocol
from mcp.client.stdio import stdio_client
from pydantic import ValidationError

from settlemark.hosting import in_words
from settlemark_adapters import _mcp_sdk as sdk
from settlemark_adapters._loop import LoopThread

KEY = "settlemark/key"
_TIMED_OUT = frozenset({408, -32001})  # the SDK's codes for an answer that did not come in time
_GRACE_SECONDS = 1.0  # for the SDK to raise it
_NOT_BEGUN = frozenset(
    {protocol.PARSE_ERROR, protocol.INVALID_REQUEST, protocol.METHOD_NOT_FOUND, protocol.INVALID_PARAMS}
)
_PAGES = 1000


class McpUnavailable(RuntimeError):
    """The server cannot be started: nothing was asked of it."""


class McpLost(ConnectionError):
    """The server died, failed, or sent an invalid answer, after it was asked: whether it acted is unknown."""


class McpTimeout(TimeoutError):
    """The server did not answer in time: whether it acted is unknown."""


class McpRefused(RuntimeError):
    """The server refused before it began. Attribute `code`: its error's code."""

    def __init__(self, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(eq=False)
class _Live:
    """A running server."""

    closing: asyncio.Event = field(default_factory=asyncio.Event)
    session: ClientSession | None = None
    outgoing: sdk.Outgoing | None = None
    name: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    serving: asyncio.Task[None] | None = None


class McpServer:
    """Starts a server and asks it.

    Args:
        parameters: how it is started.
        timeout: seconds to wait for its start, and for each answer.
        log: the file that its standard error is appended to; nowhere by default.
    """

    def __init__(self, parameters: StdioServerParameters, timeout: float, log: str | os.PathLike[str] | None) -> None:
        self._parameters, self._timeout = parameters, timeout
        self._log = os.devnull if log is None else log
        self._loop = LoopThread("mcp")
        self._opening = asyncio.Lock()
        self._live: _Live | None = None

    def described(self) -> tuple[str, list[dict[str, Any]]]:
        """Return its name and its tools, as JSON.

        Raises:
            McpUnavailable: it cannot be started.
        """
        live = self._loop.run(self._opened())
        return live.name, live.tools

    def ask(self, tool: str, arguments: dict[str, Any], key: str) -> dict[str, Any]:
        """Call a tool and return the answer as JSON; the key is sent as `_meta`.

        Raises:
            McpUnavailable: it cannot be started.
            McpRefused: it does not know the tool, or not with these arguments.
            McpLost: it died meanwhile.
            McpTimeout: it did not answer.
            UsageError: this is closed.
        """
        try:
            return self._loop.run(self._asked(tool, arguments, key))
        except CancelledError:
            raise McpLost(f"{tool}: this adapter was closed before its server answered: ask it what it did") from None

    def close(self) -> None:
        """End it. A second call does nothing."""
        self._loop.close()

    # ---- in the loop

    async def _opened(self) -> _Live:
        async with self._opening:
            if self._live is None:
                self._live = await self._open()
            return self._live

    async def _open(self) -> _Live:
        live, ready = _Live(), asyncio.Event()
        live.serving = asyncio.create_task(self._serve(live, ready))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({live.serving, waiting}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
            if ready.is_set():
                return live
        finally:
            waiting.cancel()
        why: object = f"it said nothing for {self._timeout:g} s"
        if live.serving.done():
            why = _innermost(live.serving.exception()) or "it ended"
        live.serving.cancel()
        await asyncio.wait({live.serving})
        raise McpUnavailable(
            f"the MCP server {self._parameters.command!r} cannot be started ({why}): nothing was asked of it; run it by"
            " hand, or see what it writes with log="
        )

    async def _serve(self, live: _Live, ready: asyncio.Event) -> None:
        """Keep it running until it is to close: the same task must enter and leave it."""
        with Path(self._log).open("a", encoding="utf-8") as errors:  # noqa: ASYNC230 - opened before anything runs
            async with (
                stdio_client(self._parameters, errlog=errors) as (incoming, stream),
                ClientSession(incoming, cast("Any", outgoing := sdk.Outgoing(stream))) as session,
            ):
                live.outgoing = outgoing
                live.name = sdk.wire(await session.initialize())["serverInfo"]["name"]
                live.tools = await _listed(session)
                live.session = session
                ready.set()
                await live.closing.wait()

    async def _forget(self, live: _Live) -> None:
        if self._live is live:
            self._live = None
        live.closing.set()
        if live.serving is not None:
            await asyncio.wait({live.serving})
            if not live.serving.cancelled():
                live.serving.exception()  # retrieved: it has been raised already

    async def _asked(self, tool: str, arguments: dict[str, Any], key: str) -> dict[str, Any]:
        for _ in range(2):
            live = await self._opened()
            assert live.session is not None
            assert live.outgoing is not None
            assert live.serving is not None
            before = live.outgoing.handed
            asking = asyncio.create_task(sdk.call_tool(live.session, tool, arguments, {KEY: key}, self._timeout))
            # The SDK counts from when the request was sent, which never happens if the server stops reading.
            patience = self._timeout + _GRACE_SECONDS
            await asyncio.wait({asking, live.serving}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                died = live.serving.done()
                asking.cancel()
                await asyncio.wait({asking})
                await self._forget(live)
                raise _lost(tool, "it died") if died else self._late(tool)
            try:
                return asking.result()
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self._forget(live)  # it had died before: nothing was sent, so another server may be asked
            except anyio.EndOfStream:
                await self._forget(live)
                raise _lost(tool, "it died") from None
            except ValidationError as error:
                raise _lost(tool, f"its answer is none: {error.error_count()} errors") from error
            except sdk.McpError as error:
                if sdk.error_of(error).code != protocol.CONNECTION_CLOSED:
                    raise self._refusal(tool, sdk.error_of(error)) from error
                await self._forget(live)
                if live.outgoing.handed != before:
                    raise _lost(tool, "it died") from error
        raise McpUnavailable(f"{tool}: its MCP server dies as soon as it is started: nothing was asked of it")

    def _refusal(self, tool: str, error: protocol.ErrorData) -> Exception:
        if error.code in _TIMED_OUT:
            return self._late(tool)
        if error.code in _NOT_BEGUN:
            return McpRefused(f"{tool}: its MCP server said no ({error.message})", code=error.code)
        return McpLost(
            f"{tool}: its MCP server failed ({error.message}, error {error.code}), and what it had done by"
            " then is unknown: look there before you ask again"
        )

    def _late(self, tool: str) -> McpTimeout:
        return McpTimeout(f"{tool}: its MCP server did not answer within {self._timeout:g} s: ask it what it did")


def _lost(tool: str, what: str) -> McpLost:
    return McpLost(f"{tool}: its MCP server did not answer ({what}): look what it did before you ask again")


async def _listed(session: ClientSession) -> list[dict[str, Any]]:
    """Return its tools, page by page, as JSON.

    Raises:
        ValueError: the pages do not end.
    """
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = sdk.wire(await session.list_tools(params=protocol.PaginatedRequestParams(cursor=cursor)))
        found += page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            return found
    raise ValueError(f"its list of tools has more than {_PAGES} pages")


def _innermost(error: BaseException | None) -> str:
    """Return the actual error inside the exception groups of task groups."""
    inner: Any = error
    while isinstance(inner, BaseExceptionGroup):
        inner = cast("Any", inner).exceptions[0]
    return "" if error is None else in_words(inner)


__all__ = ["KEY", "McpLost", "McpRefused", "McpServer", "McpTimeout", "McpUnavailable"]
