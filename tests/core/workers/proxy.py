"""A wire to a server that may be cut: it stands between clients and a PostgreSQL, and drops, delays and half-closes."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections import Counter
from pathlib import Path

from sqlalchemy import make_url

CUTS = ("drops", "delays", "half-closes", "refuses")


class Proxy:
    """Carries bytes from clients at `url` to the server of another URL, until it is told to harm them.

    What it can do: `drops` ends every connection at once; `delays` carries nothing for a while, and then all of it;
    `half-closes` closes one direction of each, and the rest after a while; `refuses` ends all, and lets nobody in.
    """

    def __init__(self, url):
        self._server = make_url(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        query = {key: value for key, value in self._server.query.items() if key != "host"}
        at = self._server.set(host="127.0.0.1", port=port, query={**query, "sslmode": "disable"})
        self.url = at.render_as_string(hide_password=False)
        self._pairs = set()
        self._half = Counter()  # how many directions of a pair have ended
        self._threads = []
        self._mends = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self._closed = False
        self._lock = threading.Lock()
        self._begin(self._accept)

    def _begin(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def cut(self, how, seconds, draw=random):
        """Harm every connection there is, and mend it all after so many seconds; return at once."""
        with self._lock:
            pairs = list(self._pairs)
        if how in ("drops", "refuses"):
            self._refusing = how == "refuses"
            self._end(pairs)
        elif how == "delays":
            self._flowing.clear()
        else:
            for pair in pairs:
                with contextlib.suppress(OSError):
                    draw.choice(pair).shutdown(draw.choice([socket.SHUT_RD, socket.SHUT_WR]))
        mend = threading.Timer(seconds, self._mend, [pairs if how == "half-closes" else []])
        mend.daemon = True
        self._mends.append(mend)
        mend.start()

    def _mend(self, pairs):
        self._end(pairs)
        self._refusing = False
        self._flowing.set()

    def close(self):
        self._closed = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for mend in self._mends:
            mend.cancel()
        self._mend(list(self._pairs))
        for thread in self._threads:
            thread.join(10)
        self._listening.close()

    def _end(self, pairs):
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            self._pairs.discard(pair)

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                pair = (client, self._connect())
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.add(pair)
            for source, target in (pair, pair[::-1]):
                self._begin(self._carry, pair, source, target)

    def _connect(self):
        host = self._server.query.get("host") or self._server.host or "127.0.0.1"
        port = self._server.port or 5432
        if not str(host).startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(Path(str(host)) / f".s.PGSQL.{port}"))
        return server

    def _carry(self, pair, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        with self._lock:
            self._pairs.discard(pair)
            self._half[pair] += 1
            over = self._half[pair] == len(pair)
        if over:
            del self._half[pair]
            for end in pair:
                end.close()


__all__ = ["CUTS", "Proxy"]
