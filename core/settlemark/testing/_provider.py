"""A travel agency in another process: books over HTTP, keeps its own log, and fails on request.

The log is the truth about what happened out there: the helpers of `Provider` read nothing else.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import secrets
import select
import socketserver
import sys
import threading
import time
from collections import deque
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self, cast
from urllib.parse import quote, unquote, urlsplit

from settlemark.testing._process import ChildServer, Journal, attend, read_journal

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType

KINDS = ("hotel", "flight", "car", "wire")

_ON = ("book", "cancel", "any")
_WHEN = ("before", "after", "timeout", "duplicate")
_TIMEOUT_SECONDS = 10.0
_HOLD_SECONDS = 30.0
_LOOK_SECONDS = 0.05

Json = dict[str, Any]
Answer = tuple[int, Any]


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

    def __init__(self, log_path: str | os.PathLike[str] | None = None) -> None:
        child = ChildServer("settlemark.testing._provider", log_path)
        self._attach(f"http://127.0.0.1:{child.ready['port']}", child.ready["token"], child.log_path, child)

    @classmethod
    def connect(cls, url: str, token: str, log_path: str) -> Self:
        """A provider that runs already; closing this one leaves it running."""
        self = cls.__new__(cls)
        self._attach(url, token, log_path, None)
        return self

    def _attach(self, url: str, token: str, log_path: str, child: ChildServer | None) -> None:
        self.url = url
        self.token = token
        self.log_path = log_path
        self._child = child
        self._idle: deque[http.client.HTTPConnection] = deque()

    @property
    def address(self) -> dict[str, str]:
        """What `connect` takes, as plain JSON."""
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
        seconds: float = _HOLD_SECONDS,
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
        """Clear all faults, and let go the answers they hold."""
        self._ask("DELETE", "/_faults")

    def delay(self, kind: str, seconds: float) -> None:
        """Let every request for `kind` take that long from now on, before its effect."""
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
        try:
            connection = self._idle.pop()
        except IndexError:
            return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=timeout)
        connection.timeout = timeout
        # None after an answer with `Connection: close`; the next request reconnects by itself.
        if cast("Any", connection.sock) is not None:
            connection.sock.settimeout(timeout)
        return connection


def _segment(text: str) -> str:
    return quote(text, safe="")


class _Refusal(Exception):
    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


class _Desk:
    """The provider without its network: bookings, keys, faults and delays under one lock."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._counts: dict[str, int] = dict.fromkeys(KINDS, 0)
        self._clear()

    def _clear(self) -> None:
        self._bookings: dict[str, Json] = {}
        self._by_key: dict[str, Json] = {}
        self._rules: list[Json] = []
        self._delays: dict[str, float] = {}
        self._healed = threading.Event()

    def book(self, kind: str, request: Json, key: str | None) -> Answer:
        with self._lock:
            known = self._by_key.get(key) if key is not None else None
            if known is None:
                self._counts[kind] += 1
                booking_id = f"{kind}-{self._counts[kind]}"
                booking = {"id": booking_id, "kind": kind, "request": request, "status": "confirmed"}
                self._bookings[booking_id] = booking
                if key is not None:
                    self._by_key[key] = booking
                self._log("booked", kind, booking_id, key, request)
                return 201, dict(booking)
            if known["kind"] != kind or not _same(known["request"], request):
                self._log("refused", kind, None, key, request)
                raise _Refusal(422, f"the key {key!r} was used for another request: send a new key with a new one")
            self._log("replayed", kind, known["id"], key, request)
            return 200, known | {"status": "confirmed"}

    def cancel(self, kind: str, booking_id: str, key: str | None) -> Answer:
        with self._lock:
            booking = self._bookings.get(booking_id)
            if booking is None or booking["kind"] != kind:
                self._log("refused", kind, booking_id, key, None)
                raise _Refusal(404, f"there is no {kind} {booking_id!r}")
            if booking["status"] == "cancelled":
                self._log("cancel-replayed", kind, booking_id, key, booking["request"])
                return 200, booking | {"status": "already cancelled"}
            booking["status"] = "cancelled"
            self._log("cancelled", kind, booking_id, key, booking["request"])
            return 200, dict(booking)

    def refuse(self, kind: str, booking_id: str | None, key: str | None, request: Json | None) -> _Refusal:
        with self._lock:
            self._log("refused", kind, booking_id, key, request or self._request_of(booking_id))
        return _Refusal(503, f"{kind} is out of service: nothing was done, try again")

    def _request_of(self, booking_id: str | None) -> Json:
        booking = self._bookings.get(booking_id or "")
        return booking["request"] if booking else {}

    def _log(self, event: str, kind: str, booking_id: str | None, key: str | None, request: Json | None) -> None:
        entry = {"event": event, "kind": kind, "id": booking_id, "key": key, "request": request}
        self._journal.append(entry)

    def get(self, kind: str, booking_id: str) -> Answer:
        with self._lock:
            booking = self._bookings.get(booking_id)
            if booking is None or booking["kind"] != kind:
                raise _Refusal(404, f"there is no {kind} {booking_id!r}")
            return 200, dict(booking)

    def probe(self, key: str) -> Answer:
        with self._lock:
            if key not in self._by_key:
                raise _Refusal(404, f"nothing was booked under the key {key!r}")
            return 200, dict(self._by_key[key])

    def list(self) -> Answer:
        with self._lock:
            return 200, [dict(booking) for booking in self._bookings.values()]

    def note(self, text: Any) -> Answer:
        self._journal.append({"event": "note", "text": text})
        return 201, {}

    def reset(self) -> Answer:
        with self._lock:
            self._healed.set()
            self._clear()
            self._journal.append({"event": "reset"})
        return 200, {}

    def add_faults(self, rules: Any) -> Answer:
        added = [_checked_rule(rule) for rule in _list(rules)]
        with self._lock:
            self._rules.extend(added)
        return 200, {}

    def clear_faults(self) -> Answer:
        with self._lock:
            self._healed.set()
            self._healed = threading.Event()
            self._rules.clear()
        return 200, {}

    def set_delays(self, delays: Json) -> Answer:
        if not set(delays) <= set(KINDS) or not all(_is_seconds(value) for value in delays.values()):
            raise _Refusal(400, f"delays are seconds for each of {', '.join(KINDS)}, not {delays!r}")
        with self._lock:
            self._delays.update(delays)
        return 200, {}

    def delay(self, kind: str) -> float:
        with self._lock:
            return self._delays.get(kind, 0.0)

    def take_fault(self, kind: str, on: str, booking_id: str | None, request: Json | None) -> Json | None:
        """Use up one of the first rule that matches."""
        with self._lock:
            trip = (request or self._request_of(booking_id)).get("trip")
            for rule in self._rules:
                fits = rule["kind"] == kind and rule["on"] in ("any", on) and rule["times"] != 0
                if fits and rule["trip"] in (None, trip):
                    rule["times"] -= rule["times"] > 0
                    return rule | {"healed": self._healed}
        return None


def _list(value: Any) -> list[object]:
    if not isinstance(value, list):
        raise _Refusal(400, f"faults are a list of rules, not {value!r}")
    return cast("list[object]", value)


def _same(one: Json, other: Json) -> bool:
    # As text: in Python 1 == True, in JSON they are two requests.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and value >= 0


def _checked_rule(given: object) -> Json:
    rule: Json = {"on": "any", "times": 1, "trip": None, "seconds": _HOLD_SECONDS}
    rule |= cast("Json", given) if isinstance(given, dict) else {}
    known = rule.get("kind") in KINDS and rule["on"] in _ON and rule.get("when") in _WHEN
    times = rule["times"]
    if not known or not isinstance(times, int) or times < -1 or not _is_seconds(rule["seconds"]):
        raise _Refusal(
            400,
            f"a fault has kind ({', '.join(KINDS)}), on ({', '.join(_ON)}), when ({', '.join(_WHEN)}), "
            f"times (-1: for good) and seconds (>= 0), not {given!r}",
        )
    return rule


class _Handler(BaseHTTPRequestHandler):
    """HTTP around the desk: routes, the token, and how an answer gets lost."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet an answer: the base class writes headers and body apart

    def __init__(self, desk: _Desk, token: str, *arguments: Any) -> None:
        self._desk = desk
        self._token = token
        super().__init__(*arguments)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class named it
        pass

    def do_GET(self) -> None:
        self._serve(self._read)

    def do_POST(self) -> None:
        self._serve(self._write)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def _serve(self, route: Callable[[list[str]], Answer | None]) -> None:
        # The body is read first, whatever comes: else it would be taken for the connection's next request.
        self._raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self._check_token()
            answer = route([unquote(part) for part in self.path.split("/")[1:]])
        except _Refusal as refusal:
            answer = refusal.status, {"error": refusal.error}
        if answer is None:
            self.close_connection = True
            return
        body = json.dumps(answer[1]).encode()
        self.send_response(answer[0])
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _check_token(self) -> None:
        wanted = f"Bearer {self._token}".encode()
        if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), wanted):
            raise _Refusal(401, "send the provider's token: Authorization: Bearer …")

    def _read(self, path: list[str]) -> Answer | None:
        match path:
            case ["bookings"]:
                return self._desk.list()
            case ["by-key", key]:
                return self._desk.probe(key)
            case [kind, booking_id] if kind in KINDS:
                time.sleep(self._desk.delay(kind))
                return self._desk.get(kind, booking_id)
            case _:
                raise self._no_such_page()

    def _write(self, path: list[str]) -> Answer | None:
        match path:
            case [kind] if kind in KINDS:
                key, request = self._key(), self._object()
                return self._perform(lambda: self._desk.book(kind, request, key), "book", kind, None, key, request)
            case ["note"]:
                return self._desk.note(self._object().get("text"))
            case ["_faults"]:
                return self._desk.add_faults(self._body())
            case ["_delays"]:
                return self._desk.set_delays(self._object())
            case ["_reset"]:
                return self._desk.reset()
            case _:
                raise self._no_such_page()

    def _delete(self, path: list[str]) -> Answer | None:
        match path:
            case [kind, booking_id] if kind in KINDS:
                key = self._key()
                return self._perform(
                    lambda: self._desk.cancel(kind, booking_id, key), "cancel", kind, booking_id, key, None
                )
            case ["_faults"]:
                return self._desk.clear_faults()
            case _:
                raise self._no_such_page()

    def _perform(
        self,
        act: Callable[[], Answer],
        on: str,
        kind: str,
        booking_id: str | None,
        key: str | None,
        request: Json | None,
    ) -> Answer | None:
        """The answer to an effect, or None where a fault loses it."""
        time.sleep(self._desk.delay(kind))
        rule = self._desk.take_fault(kind, on, booking_id, request)
        when = rule["when"] if rule else None
        if when == "before":
            raise self._desk.refuse(kind, booking_id, key, request)
        answer = act()
        if when == "duplicate":
            act()
        if when == "after":
            return None
        if rule and when == "timeout":
            self._hold(rule["healed"], rule["seconds"])
        return answer

    def _hold(self, healed: threading.Event, seconds: float) -> None:
        """Keep the answer back until the client hangs up, the faults are cleared, or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not healed.wait(_LOOK_SECONDS):
            if select.select([self.connection], [], [], 0)[0]:
                return

    def _key(self) -> str | None:
        value = self.headers.get("Idempotency-Key")
        try:
            return None if value is None else value.encode("latin-1").decode()
        except UnicodeError as error:
            raise _Refusal(400, "an Idempotency-Key is text in UTF-8") from error

    def _body(self) -> Any:
        try:
            return json.loads(self._raw)
        except ValueError as error:
            raise _Refusal(400, "the body is not JSON") from error

    def _object(self) -> Json:
        value = self._body()
        if not isinstance(value, dict):
            raise _Refusal(400, "the body must be a JSON object")
        return cast("Json", value)

    def _no_such_page(self) -> _Refusal:
        return _Refusal(404, f"no {self.command} {self.path}: the kinds are {', '.join(KINDS)}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the name service who 127.0.0.1 is, which can take seconds.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may hang up before it was answered; anything else is a bug to be told on stderr."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main(log_path: str) -> None:
    """Serve until the parent is gone."""
    token = secrets.token_urlsafe(24)
    desk = _Desk(Journal(log_path))
    server = _Server(("127.0.0.1", 0), partial(_Handler, desk, token))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    attend({"port": server.server_address[1], "token": token}, lambda _: {})
