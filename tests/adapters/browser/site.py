"""A web site in a child process: a page with buttons, each of which is logged here when it is pressed."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.rooms.testing import ChildServer, Journal, attend, read_journal

PAGE = """<!doctype html><title>Shop</title><body style="font: 20px sans-serif">
<h1>Shop</h1><p id=offer>{offer}</p>
<button id=buy onclick="fetch('/press?what=buy&offer={offer}').then(() => document.title = 'Bought')
  .then(() => document.getElementById('offer').textContent = 'You have bought it')">Buy</button>
<button id=dead>Dead</button>
<button id=paint onclick="document.body.style.background = 'linear-gradient(90deg, black, white, black, white)'">
Paint</button>
<input id=name></body>"""


class Site:
    """The site, started; `offer` is what its page says, and `pressed` what was pressed, from its own log."""

    def __init__(self):
        self._child = ChildServer("tests.adapters.browser.site")
        self.url = f"http://127.0.0.1:{self._child.ready['port']}/"

    def offer(self, text):
        self._child.ask({"offer": text})

    def pressed(self):
        return [(entry["what"], entry["offer"]) for entry in read_journal(self._child.log_path)]

    def close(self):
        self._child.close()


def main(log_path):
    journal = Journal(log_path)
    shown = {"offer": "A room for 100"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = urlsplit(self.path)
            if asked.path == "/press":
                journal.append({name: values[0] for name, values in parse_qs(asked.query).items()})
            body = PAGE.format(offer=shown["offer"]).encode() if asked.path == "/" else b"ok"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def control(message):
        shown.update(message)
        return {}

    attend({"port": server.server_address[1]}, control)
