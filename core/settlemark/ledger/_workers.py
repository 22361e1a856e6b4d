"""Workers' names: they identify host, kernel and process, so that a neighbour sees that a process is gone.

A lease works for every host, but takes a whole period. On its own host a killed process is noticed at once: its number
is free, or belongs to a process with another start.

The identity of a host is the boot of its kernel, never its name: cloned machines share a name and often a machine id,
and the first PID namespace has one inode on every Linux. Each kernel draws a new boot id. Where the system has none,
nobody counts as a neighbour: then the lease alone decides.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import socket
import sys
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

_PARTS = 4
_NAME_LENGTH = 48
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@cache
def _host() -> str:
    """This running system, and the namespace of its process numbers and start times.

    The machine's name comes first, for people; it decides nothing: see `_same_system`.
    """
    called = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:_NAME_LENGTH] or "unnamed"
    boot = _boot_id()
    if not boot:
        return f"{called}/alone-{uuid.uuid4().hex}"  # matches no other process's
    return f"{called}/{_machine_id()}/{boot}/{_namespace('pid')}.{_namespace('time')}"


def _machine_id() -> str:
    """The machine's permanent id, or "". A copied image copies it: it is never enough."""
    for path in _MACHINE_IDS:
        with suppress(OSError, UnicodeDecodeError):
            found = Path(path).read_text().strip()
            if re.fullmatch(r"[0-9a-fA-F-]{8,64}", found):
                return found
    return _sysctl("kern.uuid")


def _boot_id() -> str:
    """The kernel's boot id, which no other boot shares, or ""."""
    with suppress(OSError, UnicodeDecodeError):
        return Path(_BOOT_ID).read_text().strip()
    return _sysctl("kern.bootsessionuuid")


def _sysctl(name: str) -> str:
    """A text that macOS reports about itself; "" elsewhere."""
    if platform.system() != "Darwin":
        return ""
    size = ctypes.c_size_t(64)
    told = ctypes.create_string_buffer(size.value)
    with suppress(OSError, AttributeError):
        if ctypes.CDLL(None).sysctlbyname(name.encode(), told, ctypes.byref(size), None, 0) == 0:
            return told.value.decode("ascii", "ignore")
    return ""


def _namespace(kind: str) -> int:
    """The number of this process's namespace of a kind; 0 without namespaces."""
    try:
        return Path(f"/proc/self/ns/{kind}").stat().st_ino
    except OSError:
        return 0


def _started(process: int) -> str | None:
    """When a process started, in the system's own unit; None if unknown.

    Raises:
        ProcessLookupError: there is no process of this number, or it is a zombie.
    """
    if sys.platform == "win32":  # `os.kill` would end the process there
        return None
    with suppress(PermissionError):
        os.kill(process, 0)
    here = Path(f"/proc/{process}")
    try:
        # The name in parentheses may hold spaces; the start is the 20th field after it.
        fields = (here / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if fields[0] in "ZX" and len(list((here / "task").iterdir())) <= 1:
            raise ProcessLookupError(process)
        return fields[19]
    except ProcessLookupError:
        raise
    except (OSError, IndexError):
        return None  # it exists but is hidden from us, or this system keeps no such files


def worker_name() -> str:
    """Return a fresh name for a worker in this process."""
    return f"{_host()}:{os.getpid()}:{_started(os.getpid()) or ''}:{uuid.uuid4().hex[:8]}"


_retired: set[str] = set()


def retire(worker: str) -> None:
    """Record that a worker of this living process is over, with nothing in flight; the store could not be told."""
    _retired.add(worker)


def _same_system(host: str) -> bool:
    """Whether a worker's host is this running system, whatever their names."""
    theirs, ours = host.partition("/")[2], _host().partition("/")[2]
    return bool(theirs) and theirs == ours


def is_here(worker: str) -> bool:
    """Whether a worker's process is, or was, one of this running system: then its end is noticed.

    >>> is_here("elsewhere/0/1/2:1:0:token"), is_here(worker_name())
    (False, True)
    """
    parts = worker.rsplit(":", 3)
    return len(parts) == _PARTS and parts[1].isdigit() and _same_system(parts[0])


def is_gone(worker: str) -> bool:
    """Whether this worker surely does nothing more: its process has ended, or it was closed in this one.

    Of another system nobody here can tell.

    >>> is_gone("elsewhere/0/1/2:1:0:token"), is_gone(worker_name())
    (False, False)
    """
    if worker in _retired:
        return True
    if not is_here(worker):
        return False
    _, process, started, _ = worker.rsplit(":", 3)
    try:
        now = _started(int(process))
    except (ProcessLookupError, OverflowError):
        return True
    return now is not None and now != started


def process(worker: str) -> str:
    """Return a worker's name as shown to people: its host and process.

    >>> process("web-3/4026531836:812:1734373:13186bcd"), process("memory")
    ('process 812 on web-3', 'memory')
    """
    parts = worker.rsplit(":", 3)
    return worker if len(parts) == 1 else f"process {parts[1]} on {parts[0].partition('/')[0]}"


__all__ = ["is_gone", "is_here", "process", "retire", "worker_name"]
