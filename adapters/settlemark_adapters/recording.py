"""A history of HTTP traffic: what an agent got, and what it then put, posted, patched or deleted.

```python
recorder = Recorder("history.jsonl")
traffic = HttpRecorder(recorder)
client = traffic.watch(httpx.Client())
with traffic.operation("ada"):
    order = client.get("https://shop.example/orders/7").json()
    client.put("https://shop.example/orders/7", json=changed(order))
```

This settles and changes nothing: it is for finding anomalies before you adopt settlemark, with `settlemark check
history.jsonl`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from settlemark.hosting import missing

try:
    import httpx
except ImportError as _error:
    raise missing("this recorder watches httpx", "http", _error) from _error

from settlemark.history import Recorder
from settlemark.lint import is_secret
from settlemark.recording import Cells, Pair, Seen

_log = logging.getLogger("settlemark")
_READS = frozenset({"GET", "HEAD"})
_WRITES = frozenset({"PUT", "POST", "PATCH", "DELETE"})
_ISSUED = "settlemark_issued"
_GONE = frozenset({404, 410})
_NOT_MODIFIED = 304
_NOT_DONE = frozenset({307, 308, 501})
_UNKNOWN = frozenset({408})
_SERVER_ERRORS = 500
_CLIENT_ERRORS = 400
_MOST = 1 << 20

Client = TypeVar("Client", httpx.Client, httpx.AsyncClient)


def path_of(url: httpx.URL) -> str:
    """Return the cell that a URL is: its host and path, and its query without secrets.

    >>> path_of(httpx.URL("https://shop.example/orders/7")), path_of(httpx.URL("http://localhost:80/a?b=1&api_key=x"))
    ('shop.example/orders/7', 'localhost/a?b=1&api_key=[secret]')
    """
    query = "&".join(f"{name}={'[secret]' if is_secret(name) else value}" for name, value in url.params.multi_items())
    return f"{url.netloc.decode()}{url.path}{f'?{query}' if query else ''}"


@dataclass(eq=False)
class _Issued:
    """A request: its operation, its place among the operation's writes, and the moment it left."""

    operation: _Operation
    place: int
    since: int


@dataclass(eq=False)
class _Operation:
    agent: str
    name: str | None
    seen: dict[str, Seen] = field(default_factory=dict[str, "Seen"])
    fresh: set[str] = field(default_factory=set[str])
    issued: dict[int, Pair] = field(default_factory=dict[int, Pair])
    left: list[Pair] = field(default_factory=list[Pair])
    places: int = 0


class HttpRecorder:
    """Records what httpx clients read and write. Safe for threads and tasks.

    GET and HEAD read: the cell is the URL, its value the ETag, or else the digest of the body; nothing where there is
    nothing (404). PUT, POST, PATCH and DELETE write, and commit when they are answered, on all that the operation has
    read. What was refused (4xx) has written nothing; of what was not answered, or with a 5xx, nobody knows, and it is
    issued and has not left. No body and no header is kept.

    Args:
        recorder: records.
        cell: names the cell that a URL is: its host and path by default.

    >>> recorder = Recorder()
    >>> traffic = HttpRecorder(recorder)
    >>> shop = httpx.MockTransport(lambda request: httpx.Response(200, headers={"ETag": '"1"'}))
    >>> client = traffic.watch(httpx.Client(transport=shop, base_url="https://shop.example"))
    >>> with traffic.operation("ada"):
    ...     _ = client.get("/orders/7"), client.delete("/orders/7")
    >>> [(record.agent, record.read_values, record.write_values) for record in recorder.records]  # doctest: +ELLIPSIS
    [('setup', {}, {'shop.example/orders/7': '"1"'}), ('ada', {...: '"1"'}, {'shop.example/orders/7': None})]
    """

    def __init__(self, recorder: Recorder, *, cell: Callable[[httpx.URL], str] = path_of) -> None:
        self._cells = recorder.shared(Cells)
        self._cell = cell
        self._lock = threading.RLock()
        self._current: ContextVar[_Operation | None] = ContextVar("settlemark_http_operation", default=None)
        self._stands: dict[str, tuple[str | None, set[str | None]]] = {}
        self._warned = False

    def watch(self, client: Client) -> Client:
        """Let a client report its requests, and return the client.

        The body of an answer is read before its caller gets it, if it is short or there is no ETag, even where the
        caller wanted to stream it.
        """
        asks: list[Any] = client.event_hooks["request"]
        answers: list[Any] = client.event_hooks["response"]
        if isinstance(client, httpx.AsyncClient):

            async def arequested(request: httpx.Request) -> None:
                self._requested(request)

            async def aanswered(response: httpx.Response) -> None:
                if self._wants_body(response):
                    await response.aread()
                self._answered(response)

            client.event_hooks = {"request": [*asks, arequested], "response": [aanswered, *answers]}
            return client

        def answered(response: httpx.Response) -> None:
            if self._wants_body(response):
                response.read()
            self._answered(response)

        client.event_hooks = {"request": [*asks, self._requested], "response": [answered, *answers]}
        return client

    @contextmanager
    def operation(self, agent: str, *, name: str | None = None) -> Generator[None]:
        """Group the requests made within as one operation of an agent, in this thread or task and the tasks it begins.

        One without writes commits at the end, unless it is left with an exception.

        Args:
            agent: the agent.
            name: what it is part of, for people.
        """
        operation = _Operation(agent, name)
        before = self._current.set(operation)
        ended = False
        try:
            yield
            ended = True
        finally:
            self._current.reset(before)
            self._end(operation, ended=ended)

    # ---- reports of clients

    def _requested(self, request: httpx.Request) -> None:
        operation = self._current.get()
        if request.method not in _READS | _WRITES:
            return
        if operation is None:
            self._warn(request)
            return
        with self._lock:
            operation.places += 1
            request.extensions[_ISSUED] = _Issued(operation, operation.places, self._cells.recorder.clock)
            if request.method in _WRITES:
                operation.issued[operation.places] = (self._cell(request.url), self._aliases(request, None)[0])

    def _warn(self, request: httpx.Request) -> None:
        if not self._warned:
            self._warned = True
            _log.warning(
                "%s %s was requested outside of an operation, and is not recorded: name its agent with `with"
                " traffic.operation(agent):`",
                request.method,
                self._cell(request.url),
            )

    def _wants_body(self, response: httpx.Response) -> bool:
        if _ISSUED not in response.request.extensions or response.is_stream_consumed:
            return False
        length = response.headers.get("Content-Length", "")
        return "ETag" not in response.headers or (length.isdecimal() and int(length) <= _MOST)

    def _answered(self, response: httpx.Response) -> None:
        issued = response.request.extensions.get(_ISSUED)
        if isinstance(issued, _Issued):
            with self._lock:
                act = self._read if response.request.method in _READS else self._wrote
                act(issued, response)

    def _read(self, issued: _Issued, response: httpx.Response) -> None:
        request, operation = response.request, issued.operation
        if response.status_code in _GONE:
            aliases: list[str | None] = [None]
        elif response.status_code == _NOT_MODIFIED:
            aliases = [request.headers.get("If-None-Match")]
        elif response.is_success:
            aliases = self._aliases(None, response)
        else:
            return
        cell = self._cell(request.url)
        value, known = self._stands.setdefault(cell, (aliases[0], set(aliases)))
        if known & set(aliases):
            known |= set(aliases)
        else:
            value = aliases[0]
        operation.seen[cell] = self._cells.read(cell, value, issued.since)
        operation.fresh.add(cell)

    def _wrote(self, issued: _Issued, response: httpx.Response) -> None:
        request, operation, status = response.request, issued.operation, response.status_code
        if status in _UNKNOWN or (status >= _SERVER_ERRORS and status not in _NOT_DONE):
            return
        pair = operation.issued[issued.place]
        if status >= _CLIENT_ERRORS or status in _NOT_DONE:
            del operation.issued[issued.place]
            return
        cell = pair[0]
        aliases = [None] if request.method == "DELETE" else self._aliases(request, response)
        self._stands[cell] = aliases[0], set(aliases)
        operation.issued[issued.place] = (cell, aliases[0])
        operation.left.append(operation.issued[issued.place])
        operation.seen = self._cells.commit(operation.agent, operation.seen, {cell: aliases[0]}, name=operation.name)
        operation.fresh.clear()

    def _end(self, operation: _Operation, *, ended: bool) -> None:
        with self._lock:
            issued = [pair for _, pair in sorted(operation.issued.items())]
            seen = {cell: each for cell, each in operation.seen.items() if ended and cell in operation.fresh}
            if seen or len(issued) > 1 or issued != operation.left:
                self._cells.commit(operation.agent, seen, {}, io=issued, co=operation.left, name=operation.name)

    @staticmethod
    def _aliases(request: httpx.Request | None, response: httpx.Response | None) -> list[str | None]:
        """Return the names by which a resource's state may be known, the best first: ETag, body, what was sent."""
        found: list[str | None] = []
        if response is not None:
            tag = response.headers.get("ETag")
            found += [tag.removeprefix("W/")] if tag else []
            found += [_digest(response.content)] if response.is_stream_consumed and response.content else []
        if request is not None:
            try:
                found.append(_digest(request.content))
            except httpx.RequestNotRead:
                found.append(None)
        return found or [_digest(b"")]


def _digest(body: bytes) -> str:
    """Return a short name for a body; for JSON independent of its formatting.

    >>> _digest(b'{"a": 1, "b": 2}') == _digest(b'{"b":2,"a":1}')
    True
    """
    with suppress(ValueError):
        body = json.dumps(json.loads(body), sort_keys=True).encode()
    return f"sha256:{hashlib.sha256(body).hexdigest()[:16]}"


__all__ = ["HttpRecorder", "path_of"]
