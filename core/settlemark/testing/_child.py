"""Runs something dangerous in a forked copy of this process, and returns what it reported before it ended.

A fork, not a new interpreter: the function may be a closure, and a start costs milliseconds. Only the forking thread
exists in the copy, so the function opens its own settlements, and the parent holds none open.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from settlemark._edges.errors import UsageError

_LOOK_SECONDS = 0.05
_TO_TELL_SECONDS = 0.25
_CHUNK = 65_536

Tell = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Exit:
    """How a child process ended.

    Attributes:
        signal: the signal that ended it, or None: it returned.
        error: the traceback of an exception that escaped, or None.
        late: it was killed because its time was over.
        told: what it reported, as plain JSON.
        stack: where its threads were when its time was over.
    """

    signal: int | None = None
    error: str | None = None
    late: bool = False
    told: list[Any] = field(default_factory=list[Any])
    stack: str = ""

    @property
    def killed(self) -> bool:
        """Whether something else than its time limit killed it."""
        return self.signal == signal.SIGKILL and not self.late


def can_fork() -> bool:
    """Whether this system can fork a process."""
    return hasattr(os, "fork")


def in_child(play: Callable[[Tell], object], *, timeout: float = 60.0) -> Exit:
    """Call `play(tell)` in a fork of this process, and return how that ended; `tell` sends JSON to the parent.

    Raises:
        UsageError: this system cannot fork.

    >>> in_child(lambda tell: tell("hello")).told
    ['hello']
    """
    if not can_fork():
        raise UsageError("killing a process needs os.fork, which this system lacks: use kill=False here")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # else the copy writes the buffered output again
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of other threads: the copy needs none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        # Not dump_traceback_later: pytest may use that, and it waits for a thread that does not exist here.
        faulthandler.register(signal.SIGUSR1, file=writer)
        _play(play, writer)
    os.close(writer)
    try:
        return _attend(child, reader, time.monotonic() + timeout)
    finally:
        os.close(reader)


def die() -> NoReturn:
    """End this process as a power cut would: nothing is flushed, closed or reported."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


def _play(play: Callable[[Tell], object], writer: int) -> NoReturn:
    def tell(value: Any) -> None:
        _send(writer, {"told": value})

    code = 0
    try:
        play(tell)
    except BaseException:
        code = 1
        _send(writer, {"error": traceback.format_exc()})
    finally:
        # Never return into the caller's frames: they, and the exit handlers, are the parent's.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _send(writer: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(writer, data) :]


def _attend(child: int, reader: int, deadline: float) -> Exit:
    received, status, late = b"", None, False
    while status is None:
        if not late and time.monotonic() > deadline:
            late, deadline = True, time.monotonic() + _TO_TELL_SECONDS
            os.kill(child, signal.SIGUSR1)
        elif late and time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        chunk = _read(reader, _LOOK_SECONDS)
        received += chunk or b""
        # Not only the pipe's end: a grandchild may keep it open.
        done, found = os.waitpid(child, 0 if chunk == b"" else os.WNOHANG)
        status = found if done else None
    while chunk := _read(reader, 0):
        received += chunk
    # A child may be killed while it writes a line: an unfinished line does not count.
    lines = [line.decode(errors="replace") for line in received.splitlines(keepends=True) if line.endswith(b"\n")]
    messages = [json.loads(line) for line in lines if line.startswith("{")]
    return Exit(
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        error=next((message["error"] for message in messages if "error" in message), None),
        late=late,
        told=[message["told"] for message in messages if "told" in message],
        stack="".join(line for line in lines if not line.startswith("{")),
    )


def _read(reader: int, seconds: float) -> bytes | None:
    """Return the received bytes, `b""` at the pipe's end, None when nothing arrives in time."""
    return os.read(reader, _CHUNK) if select.select([reader], [], [], seconds)[0] else None
