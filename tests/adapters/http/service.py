"""An API in a child process, with its own log, its own clock, keys that it forgets, and faults that it is told.

Both ends: `Api` is the parent's, `Service` the child's. Orders are kept here; other tests serve other things.
"""

from __future__ import annotations

import json
import select
import threading
import time
import urllib.request
import zlib
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.rooms.testing import ChildServer, Journal, Server, attend, read_journal

ROOT = Path(__file__).parents[3]
DAY = 86_400.0
HOLD_SECONDS = 10.0


class Api:
    """The parent's end: where it is, what it has been asked, and what goes wrong next. Usable behind a fork."""

    module = "tests.adapters.http.service"

    def __init__(self):
        self._child = ChildServer(self.module)
        self.host = f"127.0.0.1:{self._child.ready['port']}"
        self.url = f"http://{self.host}"

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self._child.close()

    def tell(self, what, **message):
        request = urllib.request.Request(f"{self.url}/_{what}", json.dumps(message).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def reset(self):
        self.tell("reset")

    def fail(self, on, do, **rule):
        """Let the next request that begins with `on` go wrong: see `Service.fault`."""
        self.tell("faults", on=on, do=do, **rule)

    def heal(self):
        """Let nothing go wrong any more."""
        self.tell("heal")

    def state(self):
        return self.tell("state")

    def at(self, now):
        """Set its clock."""
        self.tell("now", now=now)

    def log(self):
        """What it was asked, oldest first."""
        return read_journal(self._child.log_path)

    def events(self, *fields):
        """What came of each request: `did`, or also other fields of the log."""
        return [entry["did"] if not fields else tuple(entry[f] for f in ("did", *fields)) for entry in self.log()]

    def stop(self):
        self._child.close()


class Refusal(Exception):
    def __init__(self, status, error):
        super().__init__(error)
        self.status, self.error = status, error


class Service:
    """The child's end. A subclass has other `routes`."""

    window = DAY
    raw = b""

    def __init__(self, journal):
        self.journal, self.lock = journal, threading.RLock()
        self.clear()

    def clear(self):
        self.now, self.keys, self.faults = 0.0, {}, []
        self.orders, self.notes, self.letters = {}, {}, []

    # ---- what every API of the tests has

    def control(self, what, message):
        with self.lock:
            if what == "reset":
                self.clear()
                self.journal.append({"event": "reset"})
            elif what == "heal":
                self.faults.clear()
            elif what == "now":
                self.now = message["now"]
            elif what == "faults":
                self.faults.append(message)
            elif what == "seed":
                self.seed(**message)
            return self.state() if what == "state" else {}

    def fault(self, line):
        """Return the rule for a request, if one is due.

        `do`: `status` (answer with `status`, `headers`, `body`), `cut` (hang up), `hang` (answer nothing until the
        other end hangs up), `half` (hang up within the answer), `twice` (act twice). `acts`: whether it acts first.
        """
        with self.lock:
            for rule in self.faults:
                if line.startswith(rule["on"]):
                    rule["times"] = rule.get("times", 1) - 1
                    if rule["times"] == 0:
                        self.faults.remove(rule)
                    return rule
            return None

    def keyed(self, key, asked, act):
        """Act once for a key; what is asked again under it is answered as the first time, for a while."""
        known = self.keys.get(key)
        if known is not None and self.now - known["at"] < self.window:
            if known["asked"] != asked:
                raise Refusal(422, "the key was used for another request")
            return "replayed", 200, known["answer"]
        did, status, answer = act()
        if key is not None:
            self.keys[key] = {"asked": asked, "answer": answer, "at": self.now}
        return did, status, answer

    def under(self, key):
        known = self.keys.get(key)
        if known is None or self.now - known["at"] >= self.window:
            raise Refusal(404, "nothing is known under this key")
        return known["answer"]

    # ---- orders, notes and letters

    def seed(self, **message):
        self.orders.update(message.get("orders", {}))
        self.notes.update(message.get("notes", {}))

    def state(self):
        return {"orders": self.orders, "notes": self.notes, "letters": self.letters}

    def route(self, method, path, query, headers, body):  # noqa: PLR0911 - a line for each route
        key = headers.get("Idempotency-Key")
        match method, *path:
            case "POST", "orders":
                return self.keyed(key, body, lambda: self._order(body))
            case "GET", "orders", "by-key", key:
                order = self.under(key)
                if order["id"] not in self.orders:
                    raise Refusal(404, "it was deleted")
                return "told", 200, order
            case "GET", "orders" if query:
                found = [order for order in self.orders.values() if order.get("note") in query["note"]]
                return "told", 200, {"data": found}
            case _, "orders", name:
                return self._one(method, self.orders, name, headers)
            case "PUT" | "PATCH", "notes", name:
                self.notes[name] = {**(self.notes.get(name, {}) if method == "PATCH" else {}), **body}
                return "written", 200, {"name": name, **self.notes[name]}
            case _, "notes", name:
                return self._one(method, self.notes, name, headers)
            case "POST", "letters":
                return self.keyed(key, body, lambda: self._letter(body))
            case "GET", "headers":
                return "told", 200, dict(headers)
        raise Refusal(404, f"no {method} {path}")

    def _order(self, body):
        name = f"order-{len(self.orders) + 1}"
        self.orders[name] = {"id": name, **body}
        return "created", 201, dict(self.orders[name])

    def _letter(self, body):
        self.letters.append(body)
        return "sent", 202, {"number": len(self.letters)}

    def _one(self, method, kept, name, headers):
        if name not in kept:
            raise Refusal(404, f"there is no {name}")
        if method == "GET":
            return "told", 200, kept[name]
        if headers.get("If-Match") not in (None, version(kept[name])):
            raise Refusal(412, "it has changed")
        del kept[name]
        return "deleted", 204, None


def version(answer):
    return f'"{zlib.crc32(json.dumps(answer, sort_keys=True).encode())}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, service, *args):
        self.service = service
        super().__init__(*args)

    def log_message(self, *_args):
        pass

    def _handle(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        if path[0].startswith("_"):
            self._send(200, {}, json.dumps(self.service.control(path[0][1:], json.loads(raw))).encode())
            return
        rule = self.service.fault(f"{self.command} {self.path}") or {"do": "nothing", "acts": True}
        did, status, headers, content = "nothing", 200, {}, b""
        if rule.get("acts"):
            did, status, headers, content = self._acted(path, parts, raw)
        if rule["do"] == "twice":
            self._record(did, raw)
            did, status, headers, content = self._acted(path, parts, raw)
        self._record(did, raw)
        if rule["do"] == "hang":
            self._hold()
        if rule["do"] in ("cut", "hang"):
            self.close_connection = True
            return
        if rule["do"] == "status":
            content = rule["body"].encode() if "body" in rule else content
            status, headers = rule["status"], rule.get("headers", {})
        self._send(status, headers, content, half=rule["do"] == "half")

    def _acted(self, path, parts, raw):
        try:
            body = json.loads(raw) if raw else None
            with self.service.lock:
                self.service.raw = raw
                did, status, answer = self.service.route(self.command, path, parse_qs(parts.query), self.headers, body)
                headers = {"ETag": version(answer)} if isinstance(answer, dict) else {}
                return did, status, headers, b"" if answer is None else json.dumps(answer).encode()
        except Refusal as refusal:
            return "refused", refusal.status, {}, json.dumps({"error": refusal.error}).encode()

    def _record(self, did, raw):
        self.service.journal.append(
            {
                "did": did,
                "request": f"{self.command} {self.path}",
                "key": self.headers.get("Idempotency-Key"),
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": raw.decode(),
                "now": self.service.now,
            }
        )

    def _send(self, status, headers, content, *, half=False):
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(content) + (1 if half else 0)))
        self.end_headers()
        if status != 204 and self.command != "HEAD":
            self.wfile.write(content)
        self.close_connection = half

    def _hold(self):
        end = time.monotonic() + HOLD_SECONDS
        while time.monotonic() < end:
            if select.select([self.connection], [], [], 0.05)[0]:
                return


for _method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
    setattr(Handler, f"do_{_method}", Handler._handle)


def serve(service):
    server = Server(("127.0.0.1", 0), partial(Handler, service))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    attend({"port": server.server_address[1]}, lambda _: {})


def main(log_path):
    serve(Service(Journal(log_path)))
