"""What one durable call of an empty tool costs, beside the disk's own floor and beside other durable engines.

Each peer runs as it is shipped: DBOS keeps its SQLite file in DELETE mode, LangGraph's saver in WAL mode, and it
does not wait for the write of a task. The floors are one synced append, and one committed row.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import monotonic

import pytest
from tests.benchmarks.peers import PeerProcess
from tests.servers import VARIABLE, PostgresServer, require_own_server

from settlemark import LedgerError, Settlement

# Found, not imported: a peer stays out of the process that judges it.
if missing := [name for name in ("dbos", "langgraph", "langgraph.checkpoint.sqlite") if find_spec(name) is None]:
    pytest.skip(f"a peer is not installed: {missing[0]}", allow_module_level=True)

APPEND = "append 256 B + fdatasync"
SQLITE = "bare sqlite3, WAL, FULL, one row"
PSYCOPG = "bare psycopg, autocommit, one row"
SETTLED_CALL = "settlemark, a call in a transaction"
SETTLED_WHOLE = "settlemark, a transaction of one call"
DBOS_STEP = "DBOS, a step"
DBOS_WHOLE = "DBOS, a workflow of one step"
TASK = "LangGraph, a @task (not waited for)"
TASK_WHOLE = "LangGraph, an @entrypoint of one @task"

CALLERS = 64


@contextmanager
def starting():
    """Yield a function that starts peers, all at once, or finds those that run already."""
    running = {}
    with ExitStack() as until_the_end:

        def start(places, *, traced=False):
            wanted = {kind: (kind, str(place), traced) for kind, place in places.items()}
            new = [what for what in wanted.values() if what not in running]
            for kind, place, _ in new:
                process = until_the_end.enter_context(closing(PeerProcess(kind, place, traced=traced)))
                running[kind, place, traced] = process
            for what in new:
                running[what].per_call("calls", 2)  # the first ones pay for what is set up late
            return {kind: running[what] for kind, what in wanted.items()}

        yield start


@pytest.fixture(scope="module")
def peers():
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    return tmp_path_factory.mktemp("disk")


@pytest.fixture(scope="module")
def memory():
    """A directory in memory: what a call costs there is the processor's share."""
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no file system in memory at /dev/shm")
    directory = tempfile.mkdtemp(dir=shared)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def server(request):
    """A PostgreSQL: to be measured, on a disk; to be tried, the one that all tests share."""
    if os.environ.get(VARIABLE) or not request.config.getoption("benchmark_enable"):
        yield request.getfixturevalue("postgres")
        return
    require_own_server()
    with PostgresServer(on_disk=True) as server:
        yield server


@pytest.fixture(scope="module")
def databases(server):
    """An empty database for each peer."""
    made = {kind: server.create_database() for kind in ("psycopg", "settled", "dbos")}
    try:
        Settlement(made["settled"]).close()
    except LedgerError as error:
        pytest.skip(str(error))
    yield made
    for url in made.values():
        server.drop_database(url)


@pytest.fixture(scope="module")
def peers_on_postgres(databases):
    with starting() as start:
        yield lambda kinds: start({kind: databases[kind] for kind in kinds})


@contextmanager
def on_record(*found):
    """Assert at the end that the peers kept what they were told to do."""
    yield
    for process in found:
        process.check()


def test_a_durable_call_on_a_disk(gauge, peers, disk):
    calls, wholes = gauge.scale(20, 2), gauge.scale(6, 2)
    found = peers(dict.fromkeys(("append", "sqlite", "settled", "dbos", "langgraph"), disk))

    with on_record(*found.values()):
        gauge.together(
            "durable call, SQLite on a disk",
            {
                APPEND: lambda: found["append"].per_call("calls", calls),
                SQLITE: lambda: found["sqlite"].per_call("calls", calls),
                SETTLED_CALL: lambda: found["settled"].per_call("calls", calls),
                DBOS_STEP: lambda: found["dbos"].per_call("calls", calls),
                TASK: lambda: found["langgraph"].per_call("calls", calls),
                SETTLED_WHOLE: lambda: found["settled"].per_call("whole", wholes),
                DBOS_WHOLE: lambda: found["dbos"].per_call("whole", wholes),
                TASK_WHOLE: lambda: found["langgraph"].per_call("whole", wholes),
            },
            aims_over={SETTLED_CALL: 1.5},
        )


def test_a_durable_call_in_memory(gauge, peers, memory):
    calls = gauge.scale(50, 2)
    kinds = {"sqlite": SQLITE, "settled": SETTLED_CALL, "dbos": DBOS_STEP, "langgraph": TASK}
    found = peers(dict.fromkeys(kinds if gauge.full else ("sqlite", "settled"), memory))

    with on_record(*found.values()):
        gauge.together(
            "durable call, SQLite in memory",
            {kinds[kind]: lambda process=process: process.per_call("calls", calls) for kind, process in found.items()},
            aims={SETTLED_CALL: 100},
        )


def test_a_durable_call_on_postgresql(gauge, peers_on_postgres):
    calls, wholes = gauge.scale(20, 2), gauge.scale(6, 2)
    found = peers_on_postgres(("psycopg", "settled", "dbos"))

    with on_record(*found.values()):
        gauge.together(
            "durable call, PostgreSQL",
            {
                PSYCOPG: lambda: found["psycopg"].per_call("calls", calls),
                SETTLED_CALL: lambda: found["settled"].per_call("calls", calls),
                DBOS_STEP: lambda: found["dbos"].per_call("calls", calls),
                SETTLED_WHOLE: lambda: found["settled"].per_call("whole", wholes),
                DBOS_WHOLE: lambda: found["dbos"].per_call("whole", wholes),
            },
            aims_over={SETTLED_CALL: 2},
        )


@pytest.mark.skipif(shutil.which("strace") is None, reason="fsyncs are counted by strace, which is not here")
def test_the_syncs_of_a_durable_call_on_sqlite(gauge, peers, disk):
    """Counted are the system calls fsync and fdatasync of the peer's process, in all its threads."""
    calls, wholes = gauge.scale(50, 4), gauge.scale(20, 4)
    wanted = {
        APPEND: ("append", "calls", calls),
        SQLITE: ("sqlite", "calls", calls),
        SETTLED_CALL: ("settled", "calls", calls),
        SETTLED_WHOLE: ("settled", "whole", wholes),
        DBOS_STEP: ("dbos", "calls", calls),
        DBOS_WHOLE: ("dbos", "whole", wholes),
        TASK: ("langgraph", "calls", calls),
        TASK_WHOLE: ("langgraph", "whole", wholes),
    }
    kinds = {kind for kind, *_ in wanted.values()} if gauge.full else {"append", "settled"}
    (disk / "traced").mkdir(exist_ok=True)
    found = peers(dict.fromkeys(kinds, disk / "traced"), traced=True)

    with on_record(*found.values()):
        counted = gauge.once(
            lambda: {label: found[kind].syncs(*what) for label, (kind, *what) in wanted.items() if kind in kinds}
        )
        for label, syncs in counted.items():
            gauge.count(f"fsyncs, SQLite: {label}", syncs, "")

    assert counted[APPEND] == 1
    assert counted[SETTLED_CALL] >= 1


def test_the_syncs_of_a_durable_call_on_postgresql(gauge, peers_on_postgres, databases):
    """Counted are the server's syncs of its log, as it counts them: what many calls took more than few."""
    labels = {"psycopg": PSYCOPG, "settled": SETTLED_CALL, "dbos": DBOS_STEP}
    found = peers_on_postgres(labels if gauge.full else ("psycopg", "settled"))
    few, many = gauge.scale(10, 2), gauge.scale(60, 12)

    def syncs_of(kind):
        first, second, third = (_log_syncs_after(databases[kind], found[kind], times) for times in (few, few, many))
        return ((third - second) - (second - first)) / (many - few)

    with on_record(*found.values()):
        counted = gauge.once(lambda: {kind: syncs_of(kind) for kind in found})
        for kind, syncs in counted.items():
            gauge.count(f"log syncs, PostgreSQL: {labels[kind]}", syncs, "")

    assert counted["psycopg"] >= 0.5
    assert counted["settled"] > 0


def _log_syncs_after(url, process, times):
    """Let a peer make its calls and part, upon which its sessions are counted in; return the server's count."""
    import psycopg

    process.per_call("calls", times)
    process.ask("close")
    deadline = monotonic() + 30
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        while connection.execute(others).fetchone() != (0,):
            assert monotonic() < deadline, "the peer's sessions did not end"
        source = (
            "sum(fsyncs) FROM pg_stat_io WHERE object = 'wal'"
            if connection.info.server_version >= 180000
            else "wal_sync FROM pg_stat_wal"
        )
        syncs = connection.execute(f"SELECT {source}").fetchone()[0]
    process.ask("open")
    return int(syncs)


@pytest.mark.parametrize("callers", ["threads", "tasks"])
def test_many_callers_in_open_transactions(gauge, peers, disk, callers):
    each = gauge.scale(16, 1)
    cases = {
        "settled": (f"settlemark, {CALLERS} {callers}", CALLERS * each),
        "sqlite": (f"{SQLITE}, {CALLERS} {callers} under a lock", CALLERS * each),
        "dbos": (f"DBOS, {CALLERS} workflows", CALLERS * 2),
    }
    kinds = cases if callers == "threads" and gauge.full else ("settled",)
    found = peers(dict.fromkeys(kinds, disk))
    alone, crowds = [], {kind: [] for kind in kinds}

    def one_round():
        alone.append(found["settled"].per_call("calls", each))
        for kind, process in found.items():
            crowds[kind].append(process.per_call(callers, cases[kind][1], CALLERS))

    with on_record(*found.values()):
        gauge.once(lambda: [one_round() for _ in range(gauge.scale(3, 1))])
        one = median(alone)
        gauge.count(f"durable effects, SQLite on a disk ({callers}): settlemark, one caller", 1 / one, "/s")
        for kind, found_costs in crowds.items():
            cost = median(found_costs)
            gauge.count(f"  {cases[kind][0]}", 1 / cost, "/s", ratios={"one caller": one / cost})
