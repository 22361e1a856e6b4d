"""Stores that hang: a file that a foreign program has locked, a server behind a network that carries nothing, and one
whose processes do not run.

Only while a store hangs has nobody the time to wait for it: a busy machine's store that works may take long.
"""

from __future__ import annotations

import select
import socket
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress

import pytest
from sqlalchemy import make_url
from tests.rooms.ledger import _limits
from tests.servers import PostgresServer


@contextmanager
def _little_time():
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(_limits, "LEAST_SECONDS", 0.2)
        limits.setattr(_limits, "CLOSE_SECONDS", 0.5)
        yield


class LockedFile:
    """A SQLite file that a foreign program may lock."""

    def __init__(self, folder):
        self._path = folder / "ledger.db"
        self.url = f"sqlite:///{self._path}"

    @contextmanager
    def hanging(self):
        with closing(sqlite3.connect(self._path, isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            with _little_time():
                yield
            foreign.execute("ROLLBACK")

    @contextmanager
    def hanging_for_all(self):
        """Have it that nobody may even read it."""
        with closing(sqlite3.connect(self._path, isolation_level=None)) as foreign:
            foreign.execute("PRAGMA locking_mode=EXCLUSIVE")
            foreign.execute("BEGIN EXCLUSIVE")
            with _little_time():
                yield
            foreign.execute("ROLLBACK")


class StoppedServer:
    """A PostgreSQL server whose processes may be stopped for a while, which its clients are not told."""

    def __init__(self, server):
        self._server = server
        self.url = server.create_database()

    @contextmanager
    def hanging(self):
        with self._server.paused(), _little_time():
            yield

    def close(self):
        self._server.drop_database(self.url)


def stopped_server(request):
    """Return the run's own server as one that may be stopped."""
    server = request.getfixturevalue("postgres")
    if not isinstance(server, PostgresServer):
        pytest.skip("this test stops its server's processes, which a server that somebody named is not for")
    return StoppedServer(server)


class SilentNetwork:
    """The way to a PostgreSQL server, which may carry nothing for a while, or no answers."""

    def __init__(self, url):
        parsed = make_url(url)
        self._host = parsed.query.get("host") or parsed.host or "127.0.0.1"
        self._port = parsed.port or 5432
        self._listening = socket.create_server(("127.0.0.1", 0))
        query = {name: value for name, value in parsed.query.items() if name != "host"}
        here = parsed.set(host="127.0.0.1", port=self._listening.getsockname()[1], query=query)
        self.url = here.render_as_string(hide_password=False)
        self._carries = threading.Event()
        self._carries.set()
        self._over = False
        self._answers = threading.Event()
        self._answers.set()
        threading.Thread(target=self._accept, daemon=True).start()

    @contextmanager
    def hanging(self):
        self._carries.clear()
        with _little_time():
            yield
        self.go_on()

    def go_on(self):
        self._answers.set()
        self._carries.set()

    def lose_answers(self):
        """Carry what is asked, and none of the answers."""
        self._answers.clear()

    def close(self):
        self._over = True
        self.go_on()
        self._listening.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        with suppress(OSError), closing(client), closing(self._reach()) as server:
            other = {client: server, server: client}
            while not self._over:
                ready, _, _ = select.select(list(other), [], [], 0.2)
                self._carries.wait()
                for one in ready:
                    if one is server and not self._answers.wait(0.05):
                        continue
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    other[one].sendall(data)

    def _reach(self):
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        found = socket.socket(socket.AF_UNIX)
        found.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return found
