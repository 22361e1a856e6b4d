"""The counterparty of agents that are killed: it logs every act, with the key it came under, before it answers.

Its log is a file of its own and knows nothing of settlements. A line is one write, so a kill leaves it whole.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from contextlib import contextmanager


class Office:
    """Takes orders. One that comes again under its key is answered with the first; one without a key is done again."""

    def __init__(self, path):
        self._path = str(path)

    def act(self, verb, what, key=None):
        """Do one thing, and return its number."""
        with self._open() as file:
            log = _read(file)
            found = next((entry for entry in log if key and entry["verb"] == verb and entry["key"] == key), None)
            if found is None:
                return _append(file, {"verb": verb, "what": what, "key": key, "number": len(log) + 1})
            return _append(file, {"verb": f"{verb} again", "what": what, "key": key, "number": found["number"]})

    def knows(self, verb, key):
        """The number of what was done under a key, or None: nothing was."""
        return next((entry["number"] for entry in self.log() if (entry["verb"], entry["key"]) == (verb, key)), None)

    def log(self):
        """Every order, oldest first."""
        with self._open() as file:
            return _read(file)

    def standing(self):
        """How often each thing was done and not taken back, by (verb, what)."""
        stands = Counter()
        for entry in self.log():
            verb = entry["verb"]
            if not verb.endswith("again"):
                stands["book" if verb == "cancel" else verb, entry["what"]] += -1 if verb == "cancel" else 1
        return stands

    @contextmanager
    def _open(self):
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)


def _read(file):
    return [json.loads(line) for line in os.pread(file, os.fstat(file).st_size, 0).splitlines()]


def _append(file, entry):
    os.write(file, json.dumps(entry).encode() + b"\n")
    return entry["number"]
