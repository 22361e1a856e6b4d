"""The PostgreSQL that other tests rely on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError
from tests.servers import SIGNALS, Postgres, require_own_server

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def run():
    """Execute statements in one transaction; return the rows of the last."""

    def run_(url, *statements):
        with create_engine(url, poolclass=NullPool).begin() as connection:
            for statement in statements:
                result = connection.execute(text(statement))
            return result.fetchall() if result.returns_rows else None

    return run_


def tables(url):
    return inspect(create_engine(url, poolclass=NullPool)).get_table_names()


def test_a_fresh_database_is_empty_and_its_commits_wait_for_a_sync(postgres_url, run):
    assert tables(postgres_url) == []
    assert run(postgres_url, "SELECT current_setting('fsync'), current_setting('synchronous_commit')") == [("on", "on")]


def test_two_fresh_databases_share_nothing(postgres, run):
    one, other = postgres.create_database(), postgres.create_database()

    run(one, "CREATE TABLE kept (n int)")

    assert (tables(one), tables(other)) == (["kept"], [])
    postgres.drop_database(one)
    postgres.drop_database(other)


def test_a_database_is_dropped_under_an_open_connection(postgres, run):
    url = postgres.create_database()
    with create_engine(url, poolclass=NullPool).connect() as connection:
        connection.execute(text("SELECT 1"))

        postgres.drop_database(url)

        with pytest.raises(DBAPIError, match="terminating connection"):
            connection.execute(text("SELECT 1"))
        connection.invalidate()
    with pytest.raises(DBAPIError, match="does not exist"):
        run(url, "SELECT 1")


def test_a_server_that_somebody_else_runs_gives_fresh_databases_too(postgres, run):
    named = Postgres(postgres.url("postgres").replace("+psycopg", ""))

    url = named.create_database()

    assert run(url, "SELECT 1") == [(1,)]
    named.drop_database(url)


def test_what_was_committed_survives_every_immediate_stop_and_nothing_else_does(private_postgres, run):
    url = private_postgres.create_database()
    run(url, "CREATE TABLE kept (n int)")
    for n in range(5):
        with create_engine(url, poolclass=NullPool).connect() as unfinished:
            unfinished.execute(text("INSERT INTO kept VALUES (-1)"))
            run(url, f"INSERT INTO kept VALUES ({n})")

            private_postgres.stop("immediate")

            unfinished.invalidate()
        with pytest.raises(DBAPIError, match="Is the server running"):
            run(url, "SELECT 1")

        private_postgres.start()

        assert run(url, "SELECT n FROM kept ORDER BY n") == [(kept,) for kept in range(n + 1)]


def test_a_server_can_be_stopped_twice_and_started_twice(private_postgres, run):
    for mode in SIGNALS:
        private_postgres.stop(mode)
        private_postgres.stop(mode)
        private_postgres.start()
        private_postgres.start()

        assert run(private_postgres.url("postgres"), "SELECT 1") == [(1,)]


def test_a_closed_server_leaves_nothing_behind(private_postgres, run):
    private_postgres.close()

    assert not private_postgres.home.exists()
    assert not private_postgres.data.exists()
    with pytest.raises(DBAPIError, match="Is the server running"):
        run(private_postgres.url("postgres"), "SELECT 1")


STARTED = """
import sys
from tests.servers import PostgresServer
with PostgresServer() as server:
    print(server.home, server.data, server._process.pid, flush=True)
    sys.stdin.read()
"""


def runs(pid):
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=lambda sent: sent.name)
def test_whoever_is_killed_leaves_no_server_behind(sent):
    require_own_server()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", STARTED], cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as killed:
        home, data, pid = killed.stdout.readline().split()
        assert (Path(home).is_dir(), Path(data).is_dir(), runs(int(pid))) == (True, True, True)

        killed.send_signal(sent)

        assert killed.stdout.read() == ""  # ends with the last process that holds it: the guard, when all is done
    assert (Path(home).exists(), Path(data).exists(), runs(int(pid))) == (False, False, False)
