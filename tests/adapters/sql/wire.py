"""A wire to PostgreSQL that is cut at a COMMIT: behind it, so that its answer is lost, or before it."""

from __future__ import annotations

import socket
import tempfile
import threading
from pathlib import Path

from sqlalchemy import make_url

COMMIT = b"COMMIT\0"
SOCKET = ".s.PGSQL.5432"


class Wire:
    """Passes on what clients of `url` and the server say; `lose` and `cut` break one connection each.

    What it is told stands in files, so that a copy of this process may tell it too.
    """

    def __init__(self, url):
        self._home = Path(tempfile.mkdtemp(prefix="settlemark-wire-"))
        self._server = make_url(url)
        self.url = self._server.set(query={"host": str(self._home)}).render_as_string(hide_password=False)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._home / SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self):
        """Let the next COMMIT be done, and its answer be lost."""
        (self._home / "lose").touch()

    def cut(self):
        """Let the next COMMIT not arrive."""
        (self._home / "cut").touch()

    def close(self):
        self._listener.close()

    def _told(self, what):
        try:
            (self._home / what).unlink()
        except FileNotFoundError:
            return False
        return True

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._server.query['host']}/{SOCKET}")
        lost = threading.Event()
        threading.Thread(target=self._answer, args=(client, server, lost), daemon=True).start()
        with client, server:
            while data := _received(client):
                if COMMIT in data and self._told("cut"):
                    break
                if COMMIT in data and self._told("lose"):
                    lost.set()
                    server.sendall(data)
                    server.shutdown(socket.SHUT_WR)
                    while _received(server):
                        pass  # the server answers, and hangs up when it has done all: only then its client hears so
                    break
                try:
                    server.sendall(data)
                except OSError:
                    break
            for end in (client, server):
                _hang_up(end)

    def _answer(self, client, server, lost):
        while data := _received(server):
            if lost.is_set():
                continue
            try:
                client.sendall(data)
            except OSError:
                return
        _hang_up(client)


def _received(end):
    try:
        return end.recv(65_536)
    except OSError:
        return b""


def _hang_up(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
