"""A counterparty for processes that are killed: cells in a database of their own, and a log of all that was asked.

It knows nothing of settlements. Each request is one transaction of its database, so a kill leaves it whole.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from pathlib import Path

from settlemark import current_call, effect


class Desk:
    """Cells to read and write, and letters that leave for good; every request is logged under its key.

    `dwell` is for how many seconds at most a request is on its way.
    """

    def __init__(self, path, *, dwell=0.0):
        self.path = str(path)
        self.dwell = dwell
        self._lock = threading.Lock()
        fresh = not Path(path).exists()
        self._connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous=OFF")  # its own power never fails
        if fresh:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("CREATE TABLE cell (name TEXT PRIMARY KEY, value INTEGER NOT NULL)")
            self._connection.execute(
                "CREATE TABLE log (n INTEGER PRIMARY KEY, verb TEXT, cell TEXT, key TEXT, txn TEXT, attempt INTEGER)"
            )

    def ask(self, verb, cell, amount=0, *, keyed=False):
        """Do one thing once; with `keyed` a repeat under the same key is logged as such and changes nothing."""
        call = current_call()
        key, name, attempt = (call.key, call.transaction, call.attempt) if call else ("", "", 0)
        time.sleep(random.random() * self.dwell)  # no seed: a worker's own is for what it plans
        with self._lock:
            return self._ask(verb, cell, amount, key, name, attempt, keyed=keyed)

    def _ask(self, verb, cell, amount, key, name, attempt, *, keyed):
        db = self._connection
        db.execute("BEGIN IMMEDIATE")
        seen = keyed and db.execute("SELECT 1 FROM log WHERE key = ? AND verb = ?", (key, verb)).fetchone()
        told = f"repeated {verb}" if seen else verb
        db.execute(
            "INSERT INTO log (verb, cell, key, txn, attempt) VALUES (?,?,?,?,?)", (told, cell, key, name, attempt)
        )
        if amount and not seen:
            db.execute(
                "INSERT INTO cell VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                (cell, amount),
            )
        found = db.execute("SELECT value FROM cell WHERE name = ?", (cell,)).fetchone()
        db.execute("COMMIT")
        return found[0] if found else 0

    def knows(self, verb, key):
        """Whether a request of this kind was done under this key."""
        found = self._connection.execute("SELECT 1 FROM log WHERE key = ? AND verb = ?", (key, verb)).fetchone()
        return True if found else None

    def log(self):
        """Return everything that was asked: (verb, cell, key, transaction, attempt)."""
        return self._connection.execute("SELECT verb, cell, key, txn, attempt FROM log ORDER BY n").fetchall()

    def cells(self):
        return dict(self._connection.execute("SELECT name, value FROM cell"))

    def acknowledged(self):
        """Return the names of those whose callers were told that they are done."""
        return {json.loads(told)[0] for verb, told, *_ in self.log() if verb == "acknowledged"}

    def forget(self, *, but):
        """Have it that nobody in particular asked, but these: (transaction, attempt)."""
        for name, attempt in {(txn, attempt) for *_, txn, attempt in self.log()} - but:
            self._connection.execute("UPDATE log SET txn = '' WHERE txn = ? AND attempt = ?", (name, attempt))

    def close(self):
        self._connection.close()


def tools(desk):
    """The tools an agent has at the desk: one for each effect class that writes, and one that reads."""

    @effect("read", scope="cell:/{cell:path}")
    def look(cell):
        return desk.ask("read", cell)

    def take_back(cell, amount):
        return desk.ask("undo", cell, -amount, keyed=True)

    def was_written(key):
        return desk.knows("write", key)

    @effect("reversible", scope="cell:/{cell:path}", undo=take_back, probe=was_written)
    def add(cell, amount):
        return desk.ask("write", cell, amount)

    @effect("reversible", scope="cell:/{cell:path}/**", undo=take_back, probe=was_written)
    def add_under(cell, amount):
        """Claims everything below, and writes one thing there."""
        return desk.ask("write", cell, amount)

    @effect("staged", scope="cell:/{cell:path}", keyed=True)
    def put(cell, amount):
        return desk.ask("write", cell, amount, keyed=True)

    @effect("irreversible", scope="letter:/{cell}", keyed=True)
    def register(cell):
        """A registered letter: the post office honours keys."""
        return desk.ask("letter", cell, keyed=True)

    @effect("irreversible", scope="letter:/{cell}")
    def send(cell):
        """A plain letter: nobody can tell whether it left."""
        return desk.ask("plain letter", cell)

    return {f.__name__: f for f in (look, add, add_under, put, register, send)}
