"""What a shared log asks of a store's isolation, step by step, and what goes wrong with less.

Two workers claim one scope at the same time: the first is stopped before its commit until the second waits for it.
One statement that locks the head and bumps it, and later ones that read the log, let one of them have the scope at
READ COMMITTED. Locking and reading in one statement does not, nor does a lock that leaves the row as it was
wherever a transaction reads from one snapshot: both workers claim what they must not share.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy as sa
from tests.core.explorer.stores import SharedStore, SteppedLedger
from tests.rooms.protocol import Blocked, Call, Mode
from tests.rooms.replica import Connection, Replica, StoreTransaction, image
from tests.rooms.sql import PostgresWire, SqliteWire, saying
from tests.rooms.sql import wire as _wire

from settlemark import LedgerError, Scope
from settlemark.ledger import open_ledger

ROOM = Scope.parse("room:/Ada")
PATIENCE = 30
READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"
SNAPSHOTS = (REPEATABLE_READ, SERIALIZABLE)


# ---- two workers, and what they do at the same time


class Duel:
    """Two workers on one store, of whom each has begun a transaction that the other knows."""

    def __init__(self, store):
        self.first, self.second = store()
        self.serials = {ledger: self._begin(ledger) for ledger in (self.first, self.second)}
        for ledger in self.serials:
            ledger.look()

    def _begin(self, ledger):
        return ledger.now(lambda protocol, _book: protocol.begin(ledger.worker, owner=ledger.worker).id)

    def claim(self, ledger):
        """Have a worker ask for the room; return None when it has it, else whose turn it is."""
        serial = self.serials[ledger]
        answer = ledger.now(lambda protocol, _book: protocol.admit(Call(protocol.by_id[serial], ROOM, Mode.EAGER)))
        return answer.holder.id if isinstance(answer, Blocked) else answer

    def at_once(self, is_waiting):
        """Have both ask at once: the first commits when the second waits for it, or has gone ahead."""
        answers, threads = {}, []

        def ask(ledger):
            try:
                answers[ledger] = self.claim(ledger)
            except LedgerError as error:
                answers[ledger] = error

        def let_the_second_go_ahead(moment, statement):
            if (moment, statement) != ("before", "COMMIT") or threading.current_thread() in threads or threads:
                return
            second = threading.Thread(target=ask, args=(self.second,))
            threads.append(second)
            second.start()
            deadline = time.monotonic() + PATIENCE
            while second.is_alive() and not is_waiting():
                assert time.monotonic() < deadline, "the second neither waits nor ends"

        with watching(let_the_second_go_ahead):
            ask(self.first)
            for thread in threads:
                thread.join(PATIENCE)
        return answers[self.first], answers[self.second]

    def is_right(self, answers):
        """Whether the first has the room, the second waits for it, and both replicas and the store say so."""
        for ledger in self.serials:
            ledger.look()
        states = [image(ledger.protocol) for ledger in (self.first, self.second, self.first.newcomer())]
        return answers == (None, self.serials[self.first]) and states[0] == states[1] == states[2]


@contextmanager
def watching(watcher):
    _wire.watchers.append(watcher)
    try:
        yield
    finally:
        _wire.watchers.remove(watcher)


BOTH_HAVE_IT = (None, None)


# ---- PostgreSQL


class OtherParts(SteppedLedger):
    """A ledger with other parts, and another wire to its store."""

    connections, transactions, replicas = Connection, StoreTransaction, Replica

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.connection.__class__ = self.connections
        self.transaction.__class__ = self.transactions
        self.replica.__class__ = self.replicas

    def hold(self, wire):
        wire.close()
        super().hold(self.connection.made())


class LevelConnection(Connection):
    level = READ_COMMITTED

    def made(self):
        return LevelWire(self.engine, self.level)

    def opened(self):
        self.wire = self.wire or self.made()
        return self.wire


class AtLevel(OtherParts):
    """A ledger whose transactions are at some isolation level."""

    level = READ_COMMITTED
    connections = LevelConnection

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.connection.level = self.level


class LevelWire(PostgresWire):
    def __init__(self, engine, level):
        super().__init__(engine)
        self.level = level

    def begin(self, *, durable):
        super().begin(durable=durable)
        self._waiting[0] = (f"BEGIN ISOLATION LEVEL {self.level}", {})


class LocksAndReads(StoreTransaction):
    def _lock_head(self, wire):
        rows = wire.query(_BUMP_AND_READ, {"namespace": self._log.namespace, "applied": self._replica.applied})
        self._replica.read = [(number, steps) for _, number, steps in rows if number is not None]
        return rows[0][0]


class WasRead(Replica):
    def catch_up(self, wire, upto):
        if self.applied < 0:
            super().catch_up(wire, upto)
            return
        for number, steps in self.read:
            self._replay(number, steps)


class LocksAndReadsInOneStatement(AtLevel):
    """Saves a round trip: one statement takes the head and reads the log behind it."""

    transactions, replicas = LocksAndReads, WasRead


class Locks(StoreTransaction):
    statement = saying("SELECT n FROM settlemark_head WHERE namespace = :namespace FOR UPDATE")

    def _lock_head(self, wire):
        wire.query(self.statement, {"namespace": self._log.namespace})
        return wire.query(_NEXT, {})[0][0]


class LocksWithoutBump(AtLevel):
    """Locks the head's row and leaves it as it is; entries are numbered by a sequence."""

    transactions = Locks


class Advises(Locks):
    statement = saying("SELECT pg_advisory_xact_lock(hashtext(:namespace))")


class LocksNoRow(AtLevel):
    """Takes an advisory lock instead of a row."""

    transactions = Advises


_BUMP_AND_READ = saying(
    "WITH head AS (UPDATE settlemark_head SET n = n + 1 WHERE namespace = :namespace RETURNING n)"
    " SELECT head.n, log.n, log.steps FROM head"
    " LEFT JOIN settlemark_log log ON log.namespace = :namespace AND log.n > :applied ORDER BY log.n"
)
_NEXT = saying("SELECT nextval('numbers')")


def on_postgresql(url, ledger, level=READ_COMMITTED):
    """Return whether a duel of these ledgers ends right, and the two answers."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as other, SharedStore(url, ledger=type("Ledger", (ledger,), {"level": level})) as store:
        other.execute(sa.text("CREATE SEQUENCE numbers"))
        waiting = sa.text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        duel = Duel(store)
        answers = duel.at_once(lambda: other.execute(waiting).scalar() > 0)
        right = duel.is_right(answers)
    engine.dispose()
    return right, answers


@pytest.mark.parametrize("level", [READ_COMMITTED, *SNAPSHOTS])
def test_the_engine_lets_one_of_two_have_a_scope_at_every_level(level, postgres_url):
    begun = []
    with watching(lambda moment, statement: begun.append((moment, threading.get_ident(), statement))):
        right, _ = on_postgresql(postgres_url, AtLevel, level)
    assert right
    tries = [
        statement
        for moment, thread, statement in begun
        if moment == "before" and thread != threading.get_ident() and statement.startswith("BEGIN")
    ]
    # Where a transaction reads from one snapshot the store refuses the second, and it is taken again.
    assert sum("READ ONLY" not in statement for statement in tries) == (1 if level == READ_COMMITTED else 2)


def test_a_lock_and_a_look_in_one_statement_let_both_have_it_at_read_committed(postgres_url):
    assert on_postgresql(postgres_url, LocksAndReadsInOneStatement) == (False, BOTH_HAVE_IT)


@pytest.mark.parametrize("lock", [LocksWithoutBump, LocksNoRow])
@pytest.mark.parametrize("level", SNAPSHOTS)
def test_a_lock_without_a_bump_lets_both_have_it_where_a_transaction_reads_one_snapshot(level, lock, postgres_url):
    assert on_postgresql(postgres_url, lock, level) == (False, BOTH_HAVE_IT)


@pytest.mark.parametrize("lock", [LocksWithoutBump, LocksNoRow])
def test_a_lock_without_a_bump_is_enough_at_read_committed(lock, postgres_url):
    right, _ = on_postgresql(postgres_url, lock)
    assert right


@pytest.mark.parametrize("default", ["serializable", "repeatable read"])
def test_the_ledger_steps_at_read_committed_whatever_the_databases_default_is(default, postgres_url):
    engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        name = connection.execute(sa.text("SELECT current_database()")).scalar()
        connection.execute(sa.text(f"ALTER DATABASE {name} SET default_transaction_isolation = '{default}'"))
    engine.dispose()
    ledger = open_ledger(postgres_url)
    try:
        levels = set()

        def ask(_protocol, _book):
            levels.add(ledger._member.connection.wire.query(saying("SHOW transaction_isolation"), {})[0][0])

        ledger.now(ask)
        ledger.submit(ask, durable=True).result(PATIENCE)
    finally:
        ledger.close()
    assert levels == {"read committed"}


def test_under_another_default_the_engine_lets_one_of_two_have_a_scope(postgres_url):
    engine = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        name = connection.execute(sa.text("SELECT current_database()")).scalar()
        connection.execute(sa.text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
    engine.dispose()
    right, _ = on_postgresql(postgres_url, SteppedLedger)
    assert right


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_look_reads_the_image_and_the_log_behind_it_as_of_one_moment(kind, request, tmp_path):
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path}/store.db"
    with SharedStore(url) as store:
        duel = Duel(store)
        serial = duel.serials[duel.first]
        told = []

        def cut_the_log_meanwhile(moment, statement):
            if moment == "after" and "settlemark_image" in statement and not told:
                told.append(statement)
                duel.claim(duel.first)
                cut(duel.first)

        cut(duel.first)
        with watching(cut_the_log_meanwhile):
            duel.second.look()
        assert told != []
        assert duel.claim(duel.second) == serial
        duel.first.look()
        assert image(duel.first.protocol) == image(duel.second.protocol)


def cut(ledger):
    """Write an image, behind which the log is cut, with an entry before it and one more behind it."""
    ledger.now(lambda protocol, _book: protocol.skip_epochs(1))
    ledger.replica._imaged = -(10**9)
    ledger.now(lambda _protocol, _book: None)
    ledger.now(lambda protocol, _book: protocol.skip_epochs(1))


# ---- what a store refuses for the moment


def failing(count, error):
    """Return a watcher that has the next commits fail."""
    left = [count]

    def fail(moment, statement):
        if (moment, statement) == ("before", "COMMIT") and left[0]:
            left[0] -= 1
            raise error()

    return fail


def busy():
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY_SNAPSHOT
    return error


PASSING = {
    "a serialization failure": ("postgresql", psycopg.errors.SerializationFailure),
    "a deadlock": ("postgresql", psycopg.errors.DeadlockDetected),
    "a busy file": ("sqlite", busy),
}


@pytest.fixture
def passing(request, tmp_path):
    kind, error = PASSING[request.param]
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path}/store.db"
    with SharedStore(url) as store:
        yield Duel(store), error


@pytest.mark.parametrize("passing", PASSING, indirect=True)
def test_what_a_store_refuses_for_the_moment_is_taken_again(passing):
    duel, error = passing
    with watching(failing(1, error)):
        answers = (duel.claim(duel.first), duel.claim(duel.second))
    assert duel.is_right(answers)


@pytest.mark.parametrize("passing", PASSING, indirect=True)
def test_what_a_store_goes_on_refusing_is_told_and_nothing_was_decided(passing):
    duel, error = passing
    before = image(duel.first.protocol)
    with watching(failing(1_000, error)), pytest.raises(LedgerError):
        duel.claim(duel.first)
    assert image(duel.first.protocol) == before
    answers = (duel.claim(duel.first), duel.claim(duel.second))
    assert duel.is_right(answers)


# ---- SQLite


class Deferred(SqliteWire):
    """Begins without the write lock, and takes it with the first write."""

    def begin(self, *, durable):
        self.begin_to_read()


class DeferredConnection(LevelConnection):
    def made(self):
        return Deferred(self.engine)


class NumbersByTheLast(StoreTransaction):
    refused = ()

    def _lock_head(self, wire):
        last = saying("SELECT coalesce(max(n), 0) FROM settlemark_log WHERE namespace = :namespace")
        return wire.query(last, {"namespace": self._log.namespace})[0][0] + 1

    def _write(self, items):
        try:
            super()._write(items)
        except sqlite3.OperationalError as error:
            type(self).refused += (error.sqlite_errorcode,)
            raise


class ReadsBeforeItWrites(OtherParts):
    """Numbers its entry by the last one that it sees, and writes when it has decided."""

    connections, transactions = DeferredConnection, NumbersByTheLast


class BeginsLate(SqliteWire):
    """Takes the write lock when it is told to, and not when it begins."""

    def begin(self, *, durable):
        self.durable = durable

    def begin_to_write(self):
        super().begin(durable=self.durable)


class LateConnection(LevelConnection):
    def made(self):
        return BeginsLate(self.engine)


class LocksLate(StoreTransaction):
    def _lock_head(self, wire):
        self._replica.read = self._log.behind(wire, self._replica.applied)
        wire.begin_to_write()
        return super()._lock_head(wire)


class ReadsBeforeItLocks(OtherParts):
    """Keeps the write lock short: it reads what others did, and locks the head then."""

    connections, transactions, replicas = LateConnection, LocksLate, WasRead


def on_sqlite(folder, ledger, statement, times=1):
    """Return whether a duel ends right, and the answers; the first commits when the second comes to a statement."""
    told, committed = [], threading.Event()

    def has_come():
        return sum(text.startswith(statement) for text in told) >= times

    def note(moment, text):
        if threading.current_thread() is threading.main_thread():
            if (moment, text) == ("after", "COMMIT") and has_come():
                committed.set()
        elif moment == "before":
            told.append(text)
            if has_come():
                assert committed.wait(PATIENCE)

    with SharedStore(f"sqlite:///{folder}/store.db", ledger=ledger) as store:
        duel = Duel(store)
        with watching(note):
            answers = duel.at_once(has_come)
        return duel.is_right(answers), answers


def test_on_sqlite_the_second_waits_to_begin_until_the_first_has_committed(tmp_path):
    right, _ = on_sqlite(tmp_path, SteppedLedger, "BEGIN IMMEDIATE", times=2)  # once it was told that the file is busy
    assert right


def test_on_sqlite_who_reads_before_the_write_lock_is_refused_for_good_and_must_begin_again(tmp_path):
    right, _ = on_sqlite(tmp_path, ReadsBeforeItWrites, "INSERT INTO settlemark_log")
    assert right
    assert NumbersByTheLast.refused == (sqlite3.SQLITE_BUSY_SNAPSHOT,)


def test_on_sqlite_who_reads_outside_the_transaction_that_locks_lets_both_have_it(tmp_path):
    assert on_sqlite(tmp_path, ReadsBeforeItLocks, "BEGIN IMMEDIATE") == (False, BOTH_HAVE_IT)
