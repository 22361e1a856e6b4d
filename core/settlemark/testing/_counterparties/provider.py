"""A travel agency in a child process: books over HTTP, keeps its own log, and fails on demand.

The log is the truth about what happened: the helpers of `Provider` read nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast
from urllib.parse import quote, urlsplit

from settlemark.testing._counterparties.process import ChildServer, read_journal

if TYPE_CHECKING:
    from types import TracebackType

HOLD_SECONDS = 30.0
_TIMEOUT_SECONDS = 10.0

Json = dict[str, Any]


class ProviderRefused(Exception):
    """The provider said no, and nothing was done. Attributes: `status` (of HTTP) and `body`."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body

    def __str__(self) -> str:
        return f"the provider answered {self.status}: {self.body.get('error', self.body)}"


class Provider:
    """A provider of hotels, flights, cars and wires, started as a child process.

    Usable from many threads; another process reaches the same provider with `connect(**provider.address)`.

    Laws: an effect is in the log before it is answered, in the order it really happened. A booking sent with
    an idempotency key happens once, whatever is sent again. Ids are never reused, also not after `reset`.

    Raises:
        ProviderRefused: A definite no (4xx, 5xx): nothing was done.
        TimeoutError: No answer in time: the outcome is unknown.
        ConnectionError: The connection broke before an answer: the outcome is unknown.

    >>> with Provider() as provider:
    ...     seat = provider.book("flight", key="k1", trip="t1", to="Lisbon")
    ...     again = provider.book("flight", key="k1", trip="t1", to="Lisbon")
    ...     [seat["id"], again["id"]], [entry["event"] for entry in provider.log()]
    (['flight-1', 'flight-1'], ['booked', 'replayed'])
    """

    url: str
    token: str
    log_path: str
    _child: ChildServer | None
    _server: ClassVar[str] = "settlemark.testing._counterparties.provider_server"

    def __init__(self, log_path: str | os.PathLike[str] | None = None) -> None:
        child = ChildServer(self._server, log_path)
        self._attach(f"http://127.0.0.1:{child.ready['port']}", child.ready["token"], child.log_path, child)

    @classmethod
    def connect(cls, url: str, token: str, log_path: str) -> Self:
        """Return a running provider; closing this object leaves it running."""
        self = cls.__new__(cls)
        self._attach(url, token, log_path, None)
        return self

    def _attach(self, url: str, token: str, log_path: str, child: ChildServer | None) -> None:
        self.url = url
        self.token = token
        self.log_path = log_path
        self._child = child
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._owner = os.getpid()

    @property
    def address(self) -> dict[str, str]:
        """The arguments for `connect`, as plain JSON."""
        return {"url": self.url, "token": self.token, "log_path": self.log_path}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and end the child this object started (with its log, if temporary)."""
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().close()
        if self._child is not None:
            self._child.close()

    def book(self, kind: str, *, key: str | None = None, timeout: float = _TIMEOUT_SECONDS, **request: Any) -> Json:
        """The booking just made (`id`, `kind`, `request`, `status`), or the first answer to this `key`."""
        return self._ask_object("POST", f"/{_segment(kind)}", request, key=key, timeout=timeout)

    def cancel(self, kind: str, booking_id: str, *, key: str | None = None, timeout: float = _TIMEOUT_SECONDS) -> Json:
        """The booking, `cancelled`, or `already cancelled` when it was before: that is no second effect."""
        path = f"/{_segment(kind)}/{_segment(booking_id)}"
        return self._ask_object("DELETE", path, key=key, timeout=timeout)

    def get(self, kind: str, booking_id: str, *, timeout: float = _TIMEOUT_SECONDS) -> Json:
        """The booking as it stands now."""
        return self._ask_object("GET", f"/{_segment(kind)}/{_segment(booking_id)}", timeout=timeout)

    def bookings(self) -> list[Json]:
        """Every booking since the last reset as the provider sees it, cancelled ones included."""
        return cast("list[Json]", self._ask("GET", "/bookings"))

    def probe(self, key: str, *, timeout: float = _TIMEOUT_SECONDS) -> Json | None:
        """The booking made under `key` as it stands now, or None: it never happened."""
        try:
            return self._ask_object("GET", f"/by-key/{_segment(key)}", timeout=timeout)
        except ProviderRefused as refused:
            if refused.status == http.client.NOT_FOUND:
                return None
            raise

    def note(self, text: str) -> None:
        """Log any other effect, in order with the bookings."""
        self._ask("POST", "/note", {"text": text})

    def fail(
        self,
        kind: str,
        when: Literal["before", "after", "timeout", "duplicate"],
        *,
        on: Literal["book", "cancel", "any"] = "any",
        times: int = 1,
        trip: str | None = None,
        seconds: float = HOLD_SECONDS,
    ) -> None:
        """Let the next `times` matching requests fail (-1: for good); earlier rules are used up first.

        `before`: 503, nothing done. `after`: done, then the connection drops without an answer.
        `timeout`: done, then the answer is held until the client gives up, the faults are cleared, or
        `seconds` are over. `duplicate`: handled twice, as if delivered twice. `trip` picks the requests of
        one trip.
        """
        rule = {"kind": kind, "when": when, "on": on, "times": times, "trip": trip, "seconds": seconds}
        self._ask("POST", "/_faults", [rule])

    def heal(self) -> None:
        """Clear all faults, and release the answers they hold."""
        self._ask("DELETE", "/_faults")

    def delay(self, kind: str, seconds: float) -> None:
        """From now on, delay every request for `kind` by so many seconds, before its effect."""
        self._ask("POST", "/_delays", {kind: seconds})

    def reset(self) -> None:
        """Start afresh: no bookings, keys, faults or delays; the log keeps its lines, helpers skip them."""
        self._ask("POST", "/_reset")

    def log(self) -> list[Json]:
        """The log's entries since the last reset, oldest first, read from the file."""
        return read_journal(self.log_path)

    def bookings_left(self) -> list[Json]:
        """The `booked` entries of the log that no `cancelled` one followed."""
        log = self.log()
        gone = {entry["id"] for entry in log if entry["event"] == "cancelled"}
        return [entry for entry in log if entry["event"] == "booked" and entry["id"] not in gone]

    def picture(self) -> list[Json]:
        """What is booked and not cancelled, kind and request, sorted and without ids.

        Two runs that did the same leave the same picture, so it is a world for `prove_settlement`.
        """
        left = [{"kind": entry["kind"], **entry["request"]} for entry in self.bookings_left()]
        return sorted(left, key=lambda booking: json.dumps(booking, sort_keys=True))

    def duplicates(self) -> list[Json]:
        """The `booked` entries made while the same kind was booked already for the same trip."""
        live: dict[str, tuple[str, str]] = {}
        found: list[Json] = []
        for entry in self.log():
            if entry["event"] == "cancelled":
                live.pop(entry["id"], None)
            elif entry["event"] == "booked" and entry["request"].get("trip") is not None:
                what = (entry["kind"], json.dumps(entry["request"]["trip"], sort_keys=True))
                if what in live.values():
                    found.append(entry)
                live[entry["id"]] = what
        return found

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> Any:
        """The answer's JSON. Never sends twice: whether to try again is the caller's decision."""
        headers: dict[str, Any] = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
        }
        if key is not None:
            headers["Idempotency-Key"] = key.encode()
        payload = b"" if body is None else json.dumps(body).encode()
        connection = self._connection(timeout)
        answered = False
        try:
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            answered = True
        except TimeoutError as late:
            raise TimeoutError(
                f"no answer to {method} {path} within {timeout} s: the outcome is unknown, probe it"
            ) from late
        except (http.client.HTTPException, OSError) as broken:
            raise ConnectionError(
                f"the connection broke before an answer to {method} {path}: the outcome is unknown, probe it"
            ) from broken
        finally:
            if answered:
                self._idle.append(connection)
            else:
                connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise ProviderRefused(response.status, answer)
        return answer

    def _ask_object(self, method: str, path: str, body: Any = None, **options: Any) -> Json:
        return cast("Json", self._ask(method, path, body, **options))

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._owner != os.getpid():
            # In a forked copy: the original's connections belong to the original.
            self._owner, self._idle = os.getpid(), deque()
        try:
            connection = self._idle.pop()
        except IndexError:
            return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        connection.timeout = timeout
        # None after an answer with `Connection: close`; the next request reconnects.
        if cast("Any", connection.sock) is not None:
            connection.sock.settimeout(timeout)
        return connection


def _segment(text: str) -> str:
    return quote(text, safe="")
