"""A child process that serves on loopback, writes its own log, and never outlives its parent.

Parent and child exchange JSON lines: the child's first line on stdout tells where it listens, later ones answer the
parent's lines on its stdin, and the end of stdin ends the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 60.0
STOP_SECONDS = 5.0

_ROOT = Path(__file__).parents[3]


class ChildServer:
    """A server running as a child process, listening when the constructor returns.

    `module` has a function `main(log_path)` that ends in `attend`. `ready` is what the child announced;
    `log_path` is its log, in a temporary directory of its own (removed by `close`) unless one is given.

    Laws: the child ends when `close` is called, and by itself when this process dies, however it dies.

    Raises:
        RuntimeError: The child died before it listened; the message carries its stderr.
    """

    def __init__(self, module: str, log_path: str | os.PathLike[str] | None = None) -> None:
        self._own_directory = tempfile.mkdtemp(prefix="settlemark-") if log_path is None else None
        self.log_path = str(Path(log_path or f"{self._own_directory}/log.jsonl").resolve())
        self._module = module
        self._asking = threading.Lock()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it; a pipe nobody reads fills up
        roots = [str(_ROOT), *filter(None, sys.path)]  # a user's own server is found where this process found it
        # `-c` and not `-m`: the package has imported the module by then, and runpy warns about a second copy.
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and a module of ours
            [
                sys.executable,
                "-P",
                "-c",
                f"import sys; from {module} import main; main(sys.argv[1])",
                self.log_path,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(roots)},
        )
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        too_slow = threading.Timer(START_SECONDS, self._process.kill)
        too_slow.start()
        try:
            self.ready = self._read_line()
        except BaseException:
            self.close()
            raise
        finally:
            too_slow.cancel()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The child's answer to a control message; thread-safe, one at a time."""
        with self._asking:
            # A dead child is reported by the missing answer, with its stderr.
            with contextlib.suppress(BrokenPipeError):
                self._stdin.write(json.dumps(message).encode() + b"\n")
                self._stdin.flush()
            return self._read_line()

    def close(self) -> None:
        """End the child, wait for it, and remove temporary files. A second call does nothing."""
        self._process.terminate()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()
        if self._own_directory is not None:
            shutil.rmtree(self._own_directory, ignore_errors=True)

    def _read_line(self) -> dict[str, Any]:
        line = self._stdout.readline()
        if not line.endswith(b"\n"):
            self._process.kill()
            code = self._process.wait()
            self._stderr.seek(0)
            said = self._stderr.read().decode(errors="replace").strip() or "nothing"
            raise RuntimeError(f"the child running {self._module} died (exit code {code}). Its stderr: {said}")
        return cast("dict[str, Any]", json.loads(line))


def attend(ready: dict[str, Any], answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """In the child: announce `ready`, answer the parent's messages, and return when the parent is gone."""
    # Ctrl-C reaches the whole process group: the parent decides when its counterparties stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _write_line(ready)
    for line in sys.stdin:
        _write_line(answer(json.loads(line)))


def _write_line(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Journal:
    """An append-only log of JSON lines: an entry is in the file when `append` returns.

    Laws: entries are numbered from 1 in the order they happened; nothing is ever rewritten.

    Raises:
        FileExistsError: The file has entries already: a log belongs to one server.
    """

    def __init__(self, path: str) -> None:
        if Path(path).exists() and Path(path).stat().st_size:
            raise FileExistsError(f"{path} is another server's log: name a new file, or move it away")
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - open as long as its server lives
        self._lock = threading.Lock()
        self._count = 0

    def append(self, entry: dict[str, Any]) -> None:
        """Write one line, with its number and the time."""
        with self._lock:
            self._count += 1
            line = json.dumps({"n": self._count, "at": time.time(), **entry})
            self._file.write(line.encode() + b"\n")


def read_journal(path: str) -> list[dict[str, Any]]:
    """Return the entries since the last reset, oldest first, without an unfinished last line."""
    whole, _, _ = Path(path).read_bytes().rpartition(b"\n")
    found: list[dict[str, Any]] = []
    for line in reversed(whole.splitlines()):
        entry: dict[str, Any] = json.loads(line)
        if entry.get("event") == "reset":
            break
        found.append(entry)
    return found[::-1]
