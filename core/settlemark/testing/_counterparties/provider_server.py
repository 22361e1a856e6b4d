"""The travel agency's server, which `Provider` runs in a child process: its books, faults and HTTP."""

from __future__ import annotations

import hmac
import json
import secrets
import select
import socketserver
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import unquote

from settlemark.testing._counterparties.process import Journal, attend
from settlemark.testing._counterparties.provider import HOLD_SECONDS, Json

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("hotel", "flight", "car", "wire")

_ON = ("book", "cancel", "any")
_WHEN = ("before", "after", "timeout", "duplicate")
_LOOK_SECONDS = 0.05

Answer = tuple[int, Any]


class Refusal(Exception):
    """An answer that says no: nothing was done."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


class Desk:
    """The provider without its network: bookings, keys, faults and delays under one lock.

    A subclass says what it sells (`kinds`), and what a booking does: `take`, `give_back`.
    """

    kinds: ClassVar[tuple[str, ...]] = KINDS

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.lock = threading.Lock()
        self._counts: dict[str, int] = dict.fromkeys(self.kinds, 0)
        self.clear()

    def clear(self) -> None:
        """Forget everything but the given ids."""
        self._bookings: dict[str, Json] = {}
        self._by_key: dict[str, Json] = {}
        self._rules: list[Json] = []
        self._delays: dict[str, float] = {}
        self._healed = threading.Event()

    def book(self, kind: str, request: Json, key: str | None) -> Answer:
        with self.lock:
            known = self._by_key.get(key) if key is not None and self.honours_keys() else None
            if known is None:
                try:
                    self.take(kind, request)
                except Refusal:
                    self._log("refused", kind, None, key, request)
                    raise
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
                raise Refusal(422, f"the key {key!r} was used for another request: send a new key with a new one")
            self._log("replayed", kind, known["id"], key, request)
            return 200, known | {"status": "confirmed"}

    def honours_keys(self) -> bool:
        """Whether a repeat under one key is answered with the first outcome."""
        return True

    def take(self, kind: str, request: Json) -> None:
        """Do what a booking does beside being recorded, under the lock.

        Raises:
            Refusal: it cannot be done, and was not.
        """

    def give_back(self, kind: str, request: Json) -> None:
        """Do the reverse, when a booking is cancelled.

        Raises:
            Refusal: it cannot be done, and was not.
        """

    def cancel(self, kind: str, booking_id: str, key: str | None) -> Answer:
        with self.lock:
            booking = self._bookings.get(booking_id)
            if booking is None or booking["kind"] != kind:
                self._log("refused", kind, booking_id, key, None)
                raise Refusal(404, f"there is no {kind} {booking_id!r}")
            if booking["status"] == "cancelled":
                self._log("cancel-replayed", kind, booking_id, key, booking["request"])
                return 200, booking | {"status": "already cancelled"}
            try:
                self.give_back(kind, booking["request"])
            except Refusal:
                self._log("refused", kind, booking_id, key, booking["request"])
                raise
            booking["status"] = "cancelled"
            self._log("cancelled", kind, booking_id, key, booking["request"])
            return 200, dict(booking)

    def refuse(self, kind: str, booking_id: str | None, key: str | None, request: Json | None) -> Refusal:
        with self.lock:
            self._log("refused", kind, booking_id, key, request or self._request_of(booking_id))
        return Refusal(503, f"{kind} is out of service: nothing was done, try again")

    def _request_of(self, booking_id: str | None) -> Json:
        booking = self._bookings.get(booking_id or "")
        return booking["request"] if booking else {}

    def _log(self, event: str, kind: str, booking_id: str | None, key: str | None, request: Json | None) -> None:
        entry = {"event": event, "kind": kind, "id": booking_id, "key": key, "request": request}
        self._journal.append(entry)

    def get(self, kind: str, booking_id: str) -> Answer:
        with self.lock:
            booking = self._bookings.get(booking_id)
            if booking is None or booking["kind"] != kind:
                raise Refusal(404, f"there is no {kind} {booking_id!r}")
            return 200, dict(booking)

    def probe(self, key: str) -> Answer:
        with self.lock:
            if key not in self._by_key:
                raise Refusal(404, f"nothing was booked under the key {key!r}")
            return 200, dict(self._by_key[key])

    def list(self) -> Answer:
        with self.lock:
            return 200, [dict(booking) for booking in self._bookings.values()]

    def note(self, text: Any) -> Answer:
        self._journal.append({"event": "note", "text": text})
        return 201, {}

    def reset(self) -> Answer:
        with self.lock:
            self._healed.set()
            self.clear()
            self._journal.append({"event": "reset"})
        return 200, {}

    def add_faults(self, rules: Any) -> Answer:
        added = [_checked_rule(rule, self.kinds) for rule in _list(rules)]
        with self.lock:
            self._rules.extend(added)
        return 200, {}

    def clear_faults(self) -> Answer:
        with self.lock:
            self._healed.set()
            self._healed = threading.Event()
            self._rules.clear()
        return 200, {}

    def set_delays(self, delays: Json) -> Answer:
        if not set(delays) <= set(self.kinds) or not all(_is_seconds(value) for value in delays.values()):
            raise Refusal(400, f"delays are seconds for each of {', '.join(self.kinds)}, not {delays!r}")
        with self.lock:
            self._delays.update(delays)
        return 200, {}

    def delay(self, kind: str) -> float:
        with self.lock:
            return self._delays.get(kind, 0.0)

    def take_fault(self, kind: str, on: str, booking_id: str | None, request: Json | None) -> Json | None:
        """Use up one fault of the first matching rule."""
        with self.lock:
            trip = (request or self._request_of(booking_id)).get("trip")
            for rule in self._rules:
                fits = rule["kind"] == kind and rule["on"] in ("any", on) and rule["times"] != 0
                if fits and rule["trip"] in (None, trip):
                    rule["times"] -= rule["times"] > 0
                    return rule | {"healed": self._healed}
        return None


def _list(value: Any) -> list[object]:
    if not isinstance(value, list):
        raise Refusal(400, f"faults are a list of rules, not {value!r}")
    return cast("list[object]", value)


def _same(one: Json, other: Json) -> bool:
    # As text: in Python 1 == True, in JSON they are two requests.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and value >= 0


def _checked_rule(given: object, kinds: tuple[str, ...]) -> Json:
    rule: Json = {"on": "any", "times": 1, "trip": None, "seconds": HOLD_SECONDS}
    rule |= cast("Json", given) if isinstance(given, dict) else {}
    known = rule.get("kind") in kinds and rule["on"] in _ON and rule.get("when") in _WHEN
    times = rule["times"]
    if not known or not isinstance(times, int) or times < -1 or not _is_seconds(rule["seconds"]):
        raise Refusal(
            400,
            f"a fault has kind ({', '.join(kinds)}), on ({', '.join(_ON)}), when ({', '.join(_WHEN)}), "
            f"times (-1: for good) and seconds (>= 0), not {given!r}",
        )
    return rule


class Handler(BaseHTTPRequestHandler):
    """HTTP around the desk: routes, the token, and lost answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet an answer: the base class writes headers and body apart

    def __init__(self, desk: Desk, token: str, *arguments: Any) -> None:
        self.desk = desk
        self._token = token
        super().__init__(*arguments)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class named it
        pass

    def do_GET(self) -> None:
        self._serve(self.read)

    def do_POST(self) -> None:
        self._serve(self.write)

    def do_DELETE(self) -> None:
        self._serve(self.delete)

    def _serve(self, route: Callable[[list[str]], Answer | None]) -> None:
        # The body is always read first: else it would be taken for the connection's next request.
        self._raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self._check_token()
            answer = route([unquote(part) for part in self.path.split("/")[1:]])
        except Refusal as refusal:
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
            raise Refusal(401, "send the provider's token: Authorization: Bearer …")

    def read(self, path: list[str]) -> Answer | None:
        """Answer a GET."""
        match path:
            case ["bookings"]:
                return self.desk.list()
            case ["by-key", key]:
                return self.desk.probe(key)
            case [kind, booking_id] if kind in self.desk.kinds:
                time.sleep(self.desk.delay(kind))
                return self.desk.get(kind, booking_id)
            case _:
                raise self._no_such_page()

    def write(self, path: list[str]) -> Answer | None:
        """Answer a POST."""
        match path:
            case [kind] if kind in self.desk.kinds:
                key, request = self._key(), self.body()
                return self._perform(lambda: self.desk.book(kind, request, key), "book", kind, None, key, request)
            case ["note"]:
                return self.desk.note(self.body().get("text"))
            case ["_faults"]:
                return self.desk.add_faults(self._json())
            case ["_delays"]:
                return self.desk.set_delays(self.body())
            case ["_reset"]:
                return self.desk.reset()
            case _:
                raise self._no_such_page()

    def delete(self, path: list[str]) -> Answer | None:
        """Answer a DELETE."""
        match path:
            case [kind, booking_id] if kind in self.desk.kinds:
                key = self._key()
                return self._perform(
                    lambda: self.desk.cancel(kind, booking_id, key), "cancel", kind, booking_id, key, None
                )
            case ["_faults"]:
                return self.desk.clear_faults()
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
        time.sleep(self.desk.delay(kind))
        rule = self.desk.take_fault(kind, on, booking_id, request)
        when = rule["when"] if rule else None
        if when == "before":
            raise self.desk.refuse(kind, booking_id, key, request)
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
            raise Refusal(400, "an Idempotency-Key is text in UTF-8") from error

    def _json(self) -> Any:
        try:
            return json.loads(self._raw)
        except ValueError as error:
            raise Refusal(400, "the body is not JSON") from error

    def body(self) -> Json:
        """The request's JSON object."""
        value = self._json()
        if not isinstance(value, dict):
            raise Refusal(400, "the body must be a JSON object")
        return cast("Json", value)

    def _no_such_page(self) -> Refusal:
        return Refusal(404, f"no {self.command} {self.path}: the kinds are {', '.join(self.desk.kinds)}")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        # Not HTTPServer's: it looks up the name of 127.0.0.1, which can take seconds.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that hangs up before its answer; print anything else to stderr."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve(desk: Desk, handler: type[Handler] = Handler) -> None:
    """Serve on loopback until the parent is gone."""
    token = secrets.token_urlsafe(24)
    server = Server(("127.0.0.1", 0), partial(handler, desk, token))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    attend({"port": server.server_address[1], "token": token}, lambda _: {})


def main(log_path: str) -> None:
    """Run the travel agency until the parent is gone."""
    serve(Desk(Journal(log_path)))
