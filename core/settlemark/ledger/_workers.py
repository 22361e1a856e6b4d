"""A worker's name: which process, on which host, it is, so that a neighbour can see that it is gone.

A lease tells this for every host, but only when it has run out. On its own host a process that was
killed is seen at once: its number is free, or another process with a later start has it.
"""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

_PARTS = 4


@cache
def _host() -> str:
    """This host, and in it the space in which process numbers are unique: containers may share a name."""
    try:
        return f"{socket.gethostname()}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


def _started(process: int) -> str:
    """When a process started, in whatever unit the system counts; empty where it does not tell.

    Raises:
        ProcessLookupError: there is none of this number.
    """
    with suppress(PermissionError):
        os.kill(process, 0)
    try:
        # The name in parentheses may hold spaces; the start is the 20th field behind it.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    if fields[0] == "Z":
        raise ProcessLookupError(process)
    return fields[19]


def worker_name() -> str:
    """Return a fresh name for a worker in this process."""
    return f"{_host()}:{os.getpid()}:{_started(os.getpid())}:{uuid.uuid4().hex[:8]}"


def is_gone(worker: str) -> bool:
    """Whether the process of this worker surely runs no more; of another host nobody here can tell.

    >>> is_gone("elsewhere:1:0:token"), is_gone(worker_name())
    (False, False)
    """
    parts = worker.rsplit(":", 3)
    if len(parts) != _PARTS or parts[0] != _host() or not parts[1].isdigit():
        return False
    process, started = parts[1], parts[2]
    try:
        return _started(int(process)) != started
    except ProcessLookupError:
        return True


__all__ = ["is_gone", "worker_name"]
