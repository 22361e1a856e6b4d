"""Waits for the lock of a SQLite file that others write to."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from settlemark.ledger._limits import LateError, remaining

BUSY_SECONDS = 30
BASE_CODE = 0xFF  # SQLite's extended error codes have the basic code in their last byte
_PAUSE_SECONDS = 0.0005
_chance = random.SystemRandom()
"""Chance of our own: a program that has seeded `random`, or looks after it, is not disturbed from a thread."""


class LateLockError(sqlite3.OperationalError, LateError):
    """Another program has held the lock on the file for longer than the limit."""


def patiently(run: Callable[[], Any]) -> Any:
    """Do something that needs a lock of the file, and return its result; try again while another holds the lock.

    SQLite's own busy handler sleeps longer and longer: under load some writers hardly ever find the file free. Here
    every one tries again after the same short pause, so that each has the same chance.

    Raises:
        sqlite3.OperationalError: the file was locked for as long as this thread may wait.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return run()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & BASE_CODE != sqlite3.SQLITE_BUSY:
                raise
            if remaining() <= 0 or time.monotonic() > deadline:
                late = LateLockError(str(error))
                late.sqlite_errorcode, late.sqlite_errorname = error.sqlite_errorcode, error.sqlite_errorname
                raise late from error
            time.sleep(_PAUSE_SECONDS * (0.5 + _chance.random()))  # so that they do not collide again


__all__ = ["BASE_CODE", "LateLockError", "patiently"]
