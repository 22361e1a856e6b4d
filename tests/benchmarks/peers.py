"""One durable call of an empty tool, as several engines make it, each in a process of its own and as it is shipped.

A peer is told what to do and how often, and answers how long that took, and at the end what it has on record.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[2]


class PeerProcess:
    """A peer in a process of its own; with `traced`, under strace, which tells what it syncs."""

    def __init__(self, kind, place, *, traced=False):
        self._asked = 0
        self._files = Path(tempfile.mkdtemp(prefix="settlemark-peer-"))
        self._trace = self._files / "trace"
        tracer = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", self._trace] if traced else []
        with (self._files / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [*tracer, sys.executable, "-P", "-c", "from tests.benchmarks.peers import main; main()", kind, place],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, str(ROOT)]))},
            )

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        shutil.rmtree(self._files)

    def per_call(self, what, times, *more):
        """Return the seconds that one call took of so many."""
        self._asked += times
        return self.ask(what, times, *more) / times

    def syncs(self, what, times, *more):
        """Return how many fsyncs and fdatasyncs one call took of so many."""
        before = self._traced()
        self.per_call(what, times, *more)
        return (self._traced() - before) / times

    def check(self):
        """Assert that every call left its record: one that did nothing would measure nothing."""
        kept = self.ask("kept")
        assert kept >= self._asked > 0, f"{self._asked} calls left {kept} records"

    def ask(self, *message):
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the peer died: {(self._files / 'stderr').read_text()}"
        return json.loads(line)

    def _traced(self):
        # the second line of one that another thread's interrupts says `fdatasync resumed`
        return sum(b"sync(" in line for line in self._trace.read_bytes().splitlines())


class Peer:
    """A peer makes `calls` in one unit of its own, or a `whole` unit of each; `kept` is what it has on record.

    One that must prepare first, and end after, returns the seconds that the calls alone took.
    """

    def open(self): ...

    def close(self): ...

    def kept(self):
        raise NotImplementedError


class Append(Peer):
    """The floor of a disk: 256 bytes appended and synced."""

    def __init__(self, place):
        self._path = Path(place) / "append"

    def open(self):
        self._file = self._path.open("ab", buffering=0)

    def close(self):
        self._file.close()

    def kept(self):
        return self._path.stat().st_size // 256

    def calls(self, times):
        for _ in range(times):
            self._file.write(b"." * 256)
            os.fdatasync(self._file.fileno())


class Sqlite(Peer):
    """The floor of SQLite: one row, in WAL mode with full sync."""

    def __init__(self, place):
        self._path = Path(place) / "bare.db"

    def open(self):
        self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS entry (n INTEGER PRIMARY KEY, payload TEXT)")
        self._lock = threading.Lock()

    def close(self):
        self._connection.close()

    def kept(self):
        return self._connection.execute("SELECT count(*) FROM entry").fetchone()[0]

    def calls(self, times):
        for _ in range(times):
            self._connection.execute("INSERT INTO entry (payload) VALUES (?)", ("." * 256,))

    def threads(self, times, callers):
        def call():
            for _ in range(times // callers):
                with self._lock:
                    self.calls(1)

        with Crowd(callers) as crowd:
            crowd.run(lambda: crowd.act(call))
        return crowd.seconds


class Psycopg(Peer):
    """The floor of PostgreSQL: one row, committed by itself."""

    def __init__(self, url):
        self._url = url.replace("+psycopg", "")

    def open(self):
        import psycopg

        self._connection = psycopg.connect(self._url, autocommit=True)
        self._connection.execute("CREATE TABLE IF NOT EXISTS entry (n bigserial PRIMARY KEY, payload text)")

    def close(self):
        self._connection.close()

    def kept(self):
        return self._connection.execute("SELECT count(*) FROM entry").fetchone()[0]

    def calls(self, times):
        for _ in range(times):
            self._connection.execute("INSERT INTO entry (payload) VALUES (%s)", ("." * 256,))


class Settled(Peer):
    """A call in an open transaction, and a transaction of one call."""

    def __init__(self, url):
        self._url = url if ":" in url else f"sqlite:///{url}/ledger.db"
        self._numbers = count()

    def open(self):
        from settlemark import Settlement, effect

        @effect("reversible", scope="cell:/{n}", undo=lambda n: None)
        def act(n):
            return n

        self._act = act
        self._settlement = Settlement(self._url)

    def close(self):
        self._settlement.close()

    def kept(self):
        return sum(
            str(effect.outcome) == "confirmed" for found in self._settlement.transactions() for effect in found.effects
        )

    def _transaction(self):
        number = next(self._numbers)
        return number, self._settlement.transaction(f"{os.getpid()}-{number}")

    def calls(self, times):
        number, opening = self._transaction()
        with opening as tx:
            started = perf_counter()
            for _ in range(times):
                tx.call(self._act, n=number)
            return perf_counter() - started

    def whole(self, times):
        for _ in range(times):
            self.calls(1)

    def threads(self, times, callers):
        def caller():
            number, opening = self._transaction()
            with opening as tx:
                crowd.act(lambda: [tx.call(self._act, n=number) for _ in range(times // callers)])

        with Crowd(callers) as crowd:
            crowd.run(caller)
        return crowd.seconds

    def tasks(self, times, callers):
        ready, acted = asyncio.Barrier(callers), asyncio.Barrier(callers)
        moments = []

        async def caller():
            number, opening = self._transaction()
            async with opening as tx:
                await ready.wait()
                moments.append(perf_counter())
                for _ in range(times // callers):
                    await tx.call(self._act, n=number)
                moments.append(perf_counter())
                await acted.wait()

        async def all_callers():
            await asyncio.gather(*(caller() for _ in range(callers)))

        asyncio.run(all_callers())
        return max(moments) - min(moments)


class Dbos(Peer):
    """A step of a running workflow, and a workflow of one step."""

    def __init__(self, place):
        self._url = place if ":" in place else f"sqlite:///{place}/dbos.db"

    def open(self):
        from dbos import DBOS

        self._dbos = DBOS

        @DBOS.step(name="act")
        def act(n):
            return n

        @DBOS.workflow(name="calls")
        def calls(times):
            started = perf_counter()
            for n in range(times):
                act(n)
            return perf_counter() - started

        @DBOS.workflow(name="together")
        def together(times):
            self._crowd.act(lambda: [act(n) for n in range(times)])

        self._calls, self._together = calls, together
        DBOS(
            config={
                "name": "peer",
                "system_database_url": self._url,
                "application_version": "1",
                "log_level": "ERROR",
            }
        )
        DBOS.launch()

    def close(self):
        self._dbos.destroy(destroy_registry=True)

    def kept(self):
        from dbos._dbos import _get_dbos_instance
        from sqlalchemy import func, select

        database = _get_dbos_instance()._sys_db
        steps = select(func.count()).select_from(database.tables.operation_outputs)
        with database.engine.connect() as connection:
            return connection.execute(steps).scalar_one()

    def calls(self, times):
        return self._calls(times)

    def whole(self, times):
        for _ in range(times):
            self._calls(1)

    def threads(self, times, callers):
        with Crowd(callers) as self._crowd:
            self._crowd.run(lambda: self._together(times // callers))
        return self._crowd.seconds


class LangGraph(Peer):
    """A task of a running entrypoint, and an entrypoint of one task."""

    def __init__(self, place):
        self._path = Path(place) / "langgraph.db"
        self._numbers = count()

    def open(self):
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.func import entrypoint, task

        self._connection = sqlite3.connect(self._path, check_same_thread=False)

        @task
        def act(n):
            return n

        @entrypoint(checkpointer=SqliteSaver(self._connection))
        def calls(times):
            started = perf_counter()
            for n in range(times):
                act(n).result()
            return perf_counter() - started

        self._calls = calls
        self.calls(1)

    def close(self):
        self._connection.close()

    def kept(self):
        found = self._connection.execute("SELECT count(*) FROM writes WHERE channel = '__return__'")
        return found.fetchone()[0]

    def calls(self, times):
        return self._calls.invoke(times, {"configurable": {"thread_id": f"{os.getpid()}-{next(self._numbers)}"}})

    def whole(self, times):
        for _ in range(times):
            self.calls(1)


class Crowd:
    """Threads that begin to act together; `seconds` is the time from then until the last has acted."""

    def __init__(self, callers):
        self._callers = callers
        self._moments = []
        self._ready, self._acted = (threading.Barrier(callers, self._note, timeout=60) for _ in range(2))
        self._pool = ThreadPoolExecutor(callers)

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self._pool.shutdown()

    @property
    def seconds(self):
        return self._moments[1] - self._moments[0]

    def _note(self):
        self._moments.append(perf_counter())

    def run(self, caller):
        """Let every thread be a caller: it makes itself ready, and then calls `act`."""
        for ended in [self._pool.submit(caller) for _ in range(self._callers)]:
            ended.result()

    def act(self, calls):
        self._ready.wait()
        calls()
        self._acted.wait()


PEERS = {
    "append": Append,
    "sqlite": Sqlite,
    "psycopg": Psycopg,
    "settled": Settled,
    "dbos": Dbos,
    "langgraph": LangGraph,
}


def main():
    kind, place = sys.argv[1:]
    peer = PEERS[kind](place)
    peer.open()
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        gc.collect()
        started = perf_counter()
        answer = getattr(peer, what)(*arguments)
        if answer is None:
            answer = perf_counter() - started
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    peer.close()
