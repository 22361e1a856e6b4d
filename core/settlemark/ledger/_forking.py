"""What a forked child inherits of its parent's ledgers, and must not touch.

A child has the parent's sockets, files and locks, and none of its threads. Using them would reach the parent's server
session, or wait for a thread that is not there. So a ledger belongs to its process alone: a child has to make its own,
the inherited connections are cut, and the inherited locks are freed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from settlemark._edges.alive import Alive
from settlemark._edges.errors import LedgerError

_origins: Alive[Origin] = Alive()
_connections: Alive[Any] = Alive()
_ledgers: Alive[Any] = Alive()
_files: set[tuple[int, int]] = set()


class Origin:
    """Remembers in which process an object was made.

    >>> Origin().is_elsewhere
    False

    Attributes:
        is_elsewhere: whether this is a later forked child.
    """

    __slots__ = ("__weakref__", "is_elsewhere")

    def __init__(self) -> None:
        self.is_elsewhere = False
        _origins.add(self)

    def refusal(self, url: str) -> LedgerError:
        """Return the error for a child that uses its parent's ledger."""
        return LedgerError(
            f"the ledger {url} was opened before this process was forked, and is its parent's: nothing was run; make a"
            " new Settlement in the child (in a server that preloads its application: in its post-fork hook)",
            url=url,
            forked=True,
        )

    def guarded(self, function: Callable[[], object]) -> Callable[[], None]:
        """Return a finalizer that does nothing in a forked child."""

        def here() -> None:
            if not self.is_elsewhere:
                function()

        return here


class Forking(Protocol):
    """Receives fork events."""

    def before_fork(self) -> None:
        """Release, in the parent, what a child must not have."""

    def after_fork(self) -> None:
        """Resume, in the parent."""

    def in_child(self) -> None:
        """Give everything up, in the child."""


def at_fork(ledger: Forking) -> None:
    """Register a ledger for fork events."""
    _ledgers.add(ledger)


def disconnect_in_child(connection: Any) -> None:
    """Cut a psycopg connection off in a forked child: closing it would end the parent's session."""
    _connections.add(connection)


def never_close(connection: Any, file: tuple[int, int] | None) -> None:
    """Never close a child's inherited SQLite connection: that would wait for, or release, the parent's locks."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    if file is not None:
        _files.add(file)


def is_inherited(file: tuple[int, int]) -> bool:
    """Whether a SQLite file was in use at the moment of the fork: SQLite's locks on it are unusable here."""
    return file in _files


def _prepare() -> None:
    for ledger in _ledgers:
        with suppress(Exception):
            ledger.before_fork()


def _go_on() -> None:
    for ledger in _ledgers:
        with suppress(Exception):
            ledger.after_fork()


def _enter_child() -> None:
    for origin in _origins:  # the only thing that tells a child from its parent
        origin.is_elsewhere = True
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for connection in _connections:
            with suppress(Exception):  # a closed connection has no socket
                os.dup2(nowhere, connection.pgconn.socket)
        os.close(nowhere)
    for ledger in _ledgers:
        with suppress(Exception):
            ledger.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_go_on, after_in_child=_enter_child)

__all__ = ["Forking", "Origin", "at_fork", "disconnect_in_child", "is_inherited", "never_close"]
