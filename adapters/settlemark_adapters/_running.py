"""Runs one command: bounded in time and in the output kept, and with nothing left running afterwards."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

_CHUNK = 65_536
_LOOK_SECONDS, _PAUSE_SECONDS = 0.05, 0.002
_HIDDEN = b"***"


class CommandFailed(RuntimeError):
    """A command's exit status says that it was not done. Attributes `exit_code`, `stdout`, `stderr`."""

    def __init__(self, message: str, *, exit_code: int = 0, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.exit_code, self.stdout, self.stderr = exit_code, stdout, stderr


class CommandUnknown(CommandFailed):
    """A command was killed, or its exit status does not say whether it was done."""


class CommandTimeout(TimeoutError):
    """A command was killed at its time limit: how far it came is unknown. Attributes as of `CommandFailed`."""

    def __init__(self, message: str, *, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.stdout, self.stderr = stdout, stderr


def checked_words(name: str, given: object) -> list[str]:
    """Return the words of a command that can be started.

    Raises:
        ValueError: they are one text, or none, or one of them is no text that a program can be given.
    """
    words = [] if isinstance(given, str) or not isinstance(given, Sequence) else list(cast("Sequence[object]", given))
    if not words or not all(_can_be_given(word) for word in words):
        raise ValueError(f"{name}={given!r:.80}: give a command as a list of its words, as in ['make', 'install']")
    return cast("list[str]", words)


def checked_environment(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return variables that a command can be given.

    Raises:
        ValueError: one has a name or a value that no program can be given; the message does not repeat the value.
    """
    for variable, value in given.items():
        if not _can_be_given(variable) or not variable or "=" in variable or not _can_be_given(value):
            raise ValueError(
                f"{name}= has {variable!r:.80}, which no program can be given: give names and values as text"
            )
    return dict(given)


def _can_be_given(word: object) -> bool:
    try:
        return isinstance(word, str) and b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        return False


class Kept:
    r"""The beginning and the end of a stream, in bounded memory, without secrets.

    >>> kept = Kept(8)
    >>> kept.add(b"0123456789"); kept.add(b"abcdef")
    >>> kept.text()
    '0123\n[… 8 bytes left out …]\ncdef'
    """

    def __init__(self, most: int, hidden: Collection[bytes] = ()) -> None:
        self._most, self._half = most, most // 2
        self._hidden = sorted(filter(None, hidden), key=len, reverse=True)
        # Room for a secret that reaches over a cut.
        self._margin = max(map(len, self._hidden), default=0)
        self._head, self._tail, self._length = bytearray(), bytearray(), 0

    def add(self, chunk: bytes) -> None:
        """Add what has come."""
        self._length += len(chunk)
        self._head += chunk[: max(0, self._most + self._margin - len(self._head))]
        self._tail += chunk
        del self._tail[: max(0, len(self._tail) - self._half - self._margin)]

    @property
    def truncated(self) -> bool:
        """Whether something is left out."""
        return self._length > self._most

    def text(self) -> str:
        """Return what is kept of it."""
        if not self.truncated:
            return self._shown(self._head)
        end, _ = self._uncut(self._head, self._half)
        _, start = self._uncut(self._tail, len(self._tail) - self._half)
        left_out = self._length - end - (len(self._tail) - start)
        return f"{self._shown(self._head[:end])}\n[… {left_out} bytes left out …]\n{self._shown(self._tail[start:])}"

    def _uncut(self, text: bytearray, at: int) -> tuple[int, int]:
        """Return where to cut a text so that no part of a secret is shown: before it, and after it."""
        before = behind = at
        for secret in self._hidden:
            found = text.find(secret, max(0, at - len(secret) + 1), at + len(secret) - 1)
            if found >= 0:
                before, behind = min(before, found), max(behind, found + len(secret))
        return before, behind

    def _shown(self, text: bytearray) -> str:
        for secret in self._hidden:
            text = text.replace(secret, _HIDDEN)
        return text.decode(errors="replace")


def run(
    words: Sequence[str],
    *,
    where: Path,
    environment: Mapping[str, str],
    timeout: float,
    most: int,
    hidden: Collection[bytes] = (),
    inherited: Collection[int] = (),
) -> dict[str, Any]:
    """Run a command and return its exit status and output: `exit_code`, `stdout`, `stderr`, `truncated`.

    Its standard input is empty; it inherits only its outputs, and the files in `inherited`. It leads a process group,
    all of which ends with it.

    Raises:
        CommandTimeout: it was not done in time, and was killed.
        OSError: there is no such program, or it cannot be run; nothing was done.
    """
    out, err = Kept(most, hidden), Kept(most, hidden)
    process = subprocess.Popen(  # noqa: S603 - running commands is the purpose
        words,
        cwd=where,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=tuple(inherited),
        bufsize=0,
    )
    try:
        in_time = _attend(process, ((process.stdout, out), (process.stderr, err)), time.monotonic() + timeout)
    finally:
        _kill(process)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            cast("IO[bytes]", pipe).close()
    if not in_time:
        raise CommandTimeout(
            f"{words[0]} was killed after {timeout:g} s: how far it came is unknown",
            stdout=out.text(),
            stderr=err.text(),
        )
    return {
        "exit_code": process.returncode,
        "stdout": out.text(),
        "stderr": err.text(),
        "truncated": out.truncated or err.truncated,
    }


def _attend(
    process: subprocess.Popen[bytes], streams: Iterable[tuple[IO[bytes] | None, Kept]], deadline: float
) -> bool:
    """Keep what a command writes until it has ended; return whether that was in time."""
    with selectors.DefaultSelector() as selector:
        for pipe, kept in streams:
            selector.register(cast("IO[bytes]", pipe), selectors.EVENT_READ, kept)
        while time.monotonic() < deadline:
            ended = _has_ended(process)  # checked first: what it wrote until then is read below
            if ended:
                _kill(process)  # its remaining processes hold the pipes open, and may write for ever
            if not _read(selector, 0 if ended else _LOOK_SECONDS) and ended:
                return True
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its remaining processes: nothing of a call runs on."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _read(selector: selectors.BaseSelector, seconds: float) -> bool:
    """Read what comes within that time; return whether anything has."""
    if not selector.get_map():
        time.sleep(min(seconds, _PAUSE_SECONDS))  # it has closed its output: it is about to end, or goes on
        return False
    ready = selector.select(seconds)
    for key, _ in ready:
        chunk = os.read(key.fd, _CHUNK)
        key.data.add(chunk)
        if not chunk:
            selector.unregister(key.fileobj)
    return bool(ready)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended, without reaping it where possible: until then its process group's number is its own."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


__all__ = [
    "CommandFailed",
    "CommandTimeout",
    "CommandUnknown",
    "Kept",
    "checked_environment",
    "checked_words",
    "run",
]
