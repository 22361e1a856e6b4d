"""Records each command's progress under its key, in a file that the command's own process group writes to the end.

The mark exists before the command begins, and its runner holds a lock on it that its processes inherit: so a later
process knows which command never began, which still runs although its starter is dead, and which was cut off.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

_BEGUN = "begun"
_UNDONE = "undone "
_STATUS = re.compile(r"-?[0-9]{1,9}")
_GRACE_SECONDS = 86_400.0
# Without a shell variable: the command may expect one of the same name in its environment.
_SCRIPT = '"$@"; set -- "$?"; echo "{word}$1" >>"$0"; exit "$1"'


class StillRunning(RuntimeError):
    """Processes of an earlier try hold the mark: nothing was done. Attribute `key`."""

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Told:
    """The contents of a mark.

    Attributes:
        began: the command was begun at least once.
        status: the exit status of its last try; None if that was cut off, still runs, or cannot be read.
        running: one of its processes is running.
        undone: its undo has succeeded, and it was not begun since.
    """

    began: bool = False
    status: int | None = None
    running: bool = False
    undone: bool = False


class Mark:
    """A mark that this process holds: `begin`, run what `wrapped` returns with `fd` passed on, or `end`."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path, self.fd = path, fd

    def begin(self) -> None:
        """Record on disk that the command has begun."""
        self._write(_BEGUN)

    def end(self, status: int, *, undo: bool = False) -> None:
        """Record on disk how the command ended, where no wrapped command did."""
        self._write(f"{_UNDONE if undo else ''}{status}")

    def wrapped(self, words: Sequence[str], *, undo: bool = False) -> list[str]:
        """Return a command that runs another and records its exit status here, even when nobody waits for it.

        The other is named by its path, else `sh` may have a command of that name itself.
        """
        return ["/bin/sh", "-c", _SCRIPT.format(word=_UNDONE if undo else ""), str(self.path), *words]

    def told(self) -> Told:
        """Return the contents."""
        return _told(self.path.read_text(errors="replace"))

    def _write(self, line: str) -> None:
        os.write(self.fd, f"{line}\n".encode())
        os.fsync(self.fd)


class Marks:
    """The marks of one folder's commands.

    Args:
        folder: their folder; created with the first mark.
        keep: seconds for which they are kept.

    >>> import tempfile
    >>> marks = Marks(Path(tempfile.mkdtemp()), keep=60)
    >>> with marks.held("trip#1/0") as mark:
    ...     mark.begin()
    ...     marks.told("trip#1/0").running
    True
    >>> marks.told("trip#1/0").status, marks.told("trip#1/1").began
    (None, False)
    """

    def __init__(self, folder: Path, keep: float) -> None:
        self._folder = folder
        self._clean(time.time() - keep - _GRACE_SECONDS)

    @contextlib.contextmanager
    def held(self, key: str) -> Generator[Mark]:
        """Yield the mark of a key, which nobody else holds until this and all processes with its `fd` have ended.

        Raises:
            StillRunning: a process holds it.
            OSError: it cannot be written.
        """
        path = self._path(key)
        if not self._folder.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / ".gitignore").write_text("*\n")  # keep the marks out of a repository
        new = not path.exists()
        fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if new:
                self._keep_entry()
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StillRunning(f"an earlier try of {key} is still running: nothing was done", key=key) from None
            yield Mark(path, fd)
        finally:
            os.close(fd)

    def told(self, key: str) -> Told:
        """Return what is known of a key's command."""
        try:
            with self._path(key).open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return Told(began=True, running=True)
                return _told(file.read().decode(errors="replace"))
        except FileNotFoundError:
            return Told()

    def _path(self, key: str) -> Path:
        return self._folder / hashlib.sha256(key.encode()).hexdigest()[:32]

    def _keep_entry(self) -> None:
        """Write a new mark's folder entry to disk: the mark must survive a power cut."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _clean(self, before: float) -> None:
        with contextlib.suppress(OSError):  # another process may be at it; the rest is cleaned up the next time
            for entry in os.scandir(self._folder):
                if not entry.name.startswith(".") and entry.stat().st_mtime < before:
                    Path(entry.path).unlink()


def _told(text: str) -> Told:
    r"""Parse a mark's lines.

    >>> _told("begun\n1\nbegun\n0\n")
    Told(began=True, status=0, running=False, undone=False)
    """
    began = undone = False
    status: int | None = None
    for line in text.splitlines():
        if line == _BEGUN:
            began, status, undone = True, None, False
        elif line.startswith(_UNDONE):
            undone = line == f"{_UNDONE}0"
        else:
            status = int(line) if _STATUS.fullmatch(line) else None  # a line torn by a power cut says nothing
    return Told(began, status, running=False, undone=undone)


__all__ = ["Mark", "Marks", "StillRunning", "Told"]
