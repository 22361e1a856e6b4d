"""A web site in a child process: a page with buttons, each of which is logged here when it is pressed."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.rooms.testing import ChildServer, Journal, attend, read_journal

PAGE = """<!doctype html><title>Shop</title>
<style>#lit:hover {{ background: black }} #lit:focus {{ outline: 60px solid black }}</style>
<body style="font: 20px sans-serif">
<h1>Shop</h1><p id=offer>{offer}</p>
<button id=buy onclick="fetch('/press?what=buy&offer={offer}').then(() => document.title = 'Bought')
  .then(() => document.getElementById('offer').textContent = 'You have bought it')">Buy</button>
<button id=dead>Dead</button>
<button id=lit>Lit</button>
<a id=next href=/next>Next</a>
<button id=paint onclick="document.body.style.background = 'linear-gradient(90deg, black, white, black, white)'">
Paint</button>
<input id=name></body>"""
NEXT = """<!doctype html><title>Next</title><img src=/large style="width: 900px; height: 500px"></body>"""
LARGE = b"""<svg xmlns="http://www.w3.org/2000/svg" width="9" height="5"><rect width="4" height="5"/></svg>"""


class Site:
    """The site, started; `offer` is what its page says, and `pressed` what was pressed, from its own log."""

    def __init__(self):
        self._child = ChildServer("tests.adapters.browser.site")
        self.url = f"http://127.0.0.1:{self._child.ready['port']}/"

    def offer(self, text):
        self._child.ask({"offer": text})

    def send_large(self):
        """Send what is large on the next page: it is kept back until then."""
        self._child.ask({"send": True})

    def pressed(self):
        return [(entry["what"], entry["offer"]) for entry in read_journal(self._child.log_path)]

    def close(self):
        self._child.close()


def main(log_path):
    journal = Journal(log_path)
    shown, sent = {"offer": "A room for 100"}, threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = urlsplit(self.path)
            if asked.path == "/press":
                journal.append({name: values[0] for name, values in parse_qs(asked.query).items()})
            kind, body = (
                "text/html",
                {"/": PAGE.format(offer=shown["offer"]), "/next": NEXT}.get(asked.path, "ok").encode(),
            )
            if asked.path == "/large":
                kind, body = "image/svg+xml", LARGE
                sent.wait(60)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def control(message):
        if message.pop("send", False):
            sent.set()
        shown.update(message)
        return {}

    attend({"port": server.server_address[1]}, control)
