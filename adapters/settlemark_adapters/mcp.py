"""Every tool of an MCP server, declared by the server's hints, or by yours where you know better.

A hint is a server's word about itself. Hints that say "hold it" cost nothing when they are wrong; those that say "it is
harmless" are believed as long as the server is trusted. A tool without hints may do anything: it is opaque.
"""

from __future__ import annotations

import inspect
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

from settlemark.hosting import missing

try:
    from mcp import StdioServerParameters
except ImportError as _error:
    raise missing("settlemark_adapters.mcp needs mcp", "mcp", _error) from _error

from settlemark import DeclarationError, Settlement
from settlemark.hosting import EffectName, escape
from settlemark_adapters._adapter import Adapter, Operation, Parts
from settlemark_adapters._mcp_server import McpLost, McpRefused, McpServer, McpTimeout, McpUnavailable
from settlemark_adapters._schemas import Arguments
from settlemark_adapters._spans import span

_SHOWN = 1000


class McpToolFailed(RuntimeError):
    """A tool of an MCP server reports a failure. Attribute `content`: its answer, as JSON."""

    def __init__(self, message: str, *, content: Any = None) -> None:
        super().__init__(message)
        self.content = content


class Mcp(Adapter):
    """A tool for each tool of an MCP server.

    The server is a child process. It is started here, and again when it has died; `close` ends it. Each call carries
    its idempotency key as `_meta["settlemark/key"]`, for a server that honours one.

    | hints of a tool                                          | its class                                       |
    |----------------------------------------------------------|-------------------------------------------------|
    | none, or `trust_hints=False`                             | opaque                                          |
    | `readOnlyHint`                                           | read                                            |
    | `destructiveHint`, or neither it nor `readOnlyHint` said | irreversible: held until its step settles       |
    | not destructive, `idempotentHint`                        | idempotent: sent again when its answer was lost |
    | not destructive                                          | opaque: it adds something nobody can take back  |

    What is destructive and idempotent is sent again, too. A tool that says it only reads and destroys is held.

    Args:
        server: how it is started: its command line, as a text or as words, or `mcp.StdioServerParameters`.
        settlement: as for every adapter.
        environment: variables for the server beside the few that it inherits; may hold secrets.
        scopes: what a tool acts on, by its name: a template over its arguments, or a function of them. By default
            all of a server's tools act on `mcp:/<its name>`, so that what it reads is seen to change.
        trust_hints: believe the hints.
        timeout: seconds to wait for the server's start and for each of its answers.
        log: the file that the server's standard error is appended to.
        options: `name` and `effects`, as for every adapter. What takes a tool back is often another one:
            `effects={"add": {"kind": "reversible", "undo": lambda title: notes.call("delete", title=title)}}`.

    Raises:
        McpUnavailable: the server cannot be started.
        DeclarationError: `scopes` or `effects` name no tool of it, or two of its tools have one name.
    """

    def __init__(
        self,
        server: str | Sequence[str] | StdioServerParameters,
        settlement: Settlement | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        scopes: Mapping[str, str | Callable[..., Any]] | None = None,
        trust_hints: bool = True,
        timeout: float = 60.0,
        log: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        self._trust_hints = trust_hints
        self._scopes = dict(scopes or {})
        self._server = McpServer(_parameters(server, environment), span("timeout", timeout), log)
        try:
            self.server_name, listed = self._server.described()
            self._operations = self._declared(listed)
            super().__init__(settlement, **options)
        except BaseException:
            self._server.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server. A second call does nothing."""
        self._server.close()

    def operations(self) -> dict[str, Operation[Any, Any]]:
        """Return the server's tools."""
        return dict(self._operations)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool of the server directly, and return its answer: for handlers, which undo or probe with it.

        Args:
            tool: its name there.
            arguments: its arguments, by their names there.

        Raises:
            McpToolFailed: it reports a failure.
            McpRefused: there is no such tool, or not with these arguments.
            McpUnavailable: nobody could be asked.
            McpLost, McpTimeout: whether it acted is unknown.
        """
        # Another key than the call's own: for a server that honours keys this is another call.
        return self._ask(tool, arguments, f"{self.key}:{tool}")

    # ---- making

    def _declared(self, listed: list[dict[str, Any]]) -> dict[str, Operation[Any, Any]]:
        found: dict[str, Operation[Any, Any]] = {}
        for tool in listed:
            name = tool["name"]
            if name in found:
                raise DeclarationError(f"the MCP server {self.server_name} has two tools {name!r}", tool=name)
            found[name] = self._operation(tool)
        unknown = [name for name in self._scopes if name not in found]
        if unknown:
            raise DeclarationError(
                f"scopes= of Mcp: {self.server_name} has no tool {unknown[0]!r}; it has {', '.join(found) or 'none'}",
                tool=unknown[0],
            )
        return found

    def _operation(self, tool: dict[str, Any]) -> Operation[Any, Any]:
        name: str = tool["name"]
        arguments = Arguments(tool["inputSchema"])
        signature = arguments.signature(Any)

        def acting(_self: Mcp, *args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return self._ask(name, arguments.given(bound.arguments), self.key)

        def check(**given: Any) -> None:
            wrong = arguments.wrong(arguments.given(given))
            if wrong is not None:
                raise ValueError(f"{name}: {wrong}: nothing was asked of its server; correct the arguments")

        method: Any = acting
        own = list(signature.parameters.values())
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        method.__name__ = name
        method.__doc__ = arguments.documented(tool.get("description") or tool.get("title") or name)
        method.__annotations__ = {p.name: p.annotation for p in own} | {"return": Any}
        method.__signature__ = signature.replace(parameters=[first, *own])  # what inspect.signature looks for
        check.__name__ = check.__qualname__ = f"{name}.check"
        kind, keyed = effect_of(tool.get("annotations") if self._trust_hints else None)
        scope = self._scopes.get(name, f"mcp:/{escape(self.server_name)}")
        return Operation(name, kind, cast("Parts", {"scope": scope, "keyed": keyed, "check": check}), method)

    def _ask(self, tool: str, arguments: dict[str, Any], key: str) -> Any:
        answer = self._server.ask(tool, arguments, key)
        content = as_json(answer)
        if answer.get("isError"):
            said = "; ".join(part["text"] for part in answer["content"] if part["type"] == "text")
            raise McpToolFailed(f"{tool}: {said[:_SHOWN] or 'its MCP server says that it failed'}", content=content)
        return content


def effect_of(hints: Mapping[str, Any] | None) -> tuple[EffectName, bool]:
    """Return the class that a tool's hints imply, and whether it may be sent again when its answer was lost.

    >>> effect_of({"readOnlyHint": False})
    ('irreversible', False)
    """
    reads, destroys, repeats = (
        (hints or {}).get(name) for name in ("readOnlyHint", "destructiveHint", "idempotentHint")
    )
    if (reads, destroys, repeats) == (None, None, None):
        return "opaque", False
    if reads and not destroys:
        return "read", False
    if destroys is not False:
        return "irreversible", bool(repeats)
    return ("idempotent", True) if repeats else ("opaque", False)


def as_json(answer: Mapping[str, Any]) -> Any:
    """Return a tool's answer: its structured content, else its single text, else the list of its contents.

    Pictures and the like are in the list as base64, with their type.

    >>> as_json({"content": [{"type": "text", "text": "hello"}]})
    'hello'
    """
    parts: list[Any] = answer["content"]
    structured = answer.get("structuredContent")
    if structured is not None:
        beside = [part for part in parts if part["type"] != "text"]
        return {"structured": structured, "content": beside} if beside else structured
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _parameters(
    server: str | Sequence[str] | StdioServerParameters, environment: Mapping[str, str] | None
) -> StdioServerParameters:
    if isinstance(server, StdioServerParameters):
        if environment is None:
            return server
        return server.model_copy(update={"env": {**(server.env or {}), **environment}})
    words = shlex.split(server) if isinstance(server, str) else list(server)
    if not words:
        raise ValueError("server= of Mcp is empty: give the command that starts it")
    return StdioServerParameters(
        command=words[0], args=words[1:], env=None if environment is None else dict(environment)
    )


__all__ = ["Mcp", "McpLost", "McpRefused", "McpTimeout", "McpToolFailed", "McpUnavailable"]
