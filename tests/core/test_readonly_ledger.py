from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from settlemark import LedgerError, Settlement, State, effect
from settlemark.hosting import host_of
from settlemark.ledger import Fence, open_ledger


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "a folder, 100% ours #1"
    folder.mkdir()
    path = folder / "trip.db"
    book(path)
    yield path
    path.chmod(0o644)
    folder.chmod(0o755)


def book(path):
    with Settlement(f"sqlite:///{path}") as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")


def read(path, **options):
    ledger = open_ledger(f"sqlite:///{path}", readonly=True, **options)
    try:
        recorded = ledger.read(lambda book: book.transactions())
        return [(each.row.name, each.state, len(each.effects)) for each in recorded]
    finally:
        ledger.close()


def without_room_beside(path):
    # A link to nowhere stands where SQLite would put its index: it has no room, whoever runs this.
    path.with_name(f"{path.name}-shm").symlink_to(path.parent / "nowhere" / "index")


def test_a_ledger_is_read_as_it_is(path):
    before = path.read_bytes()

    assert read(path) == [("trip-1", State.COMMITTED, 1)]
    assert read(path, namespace="team") == []
    assert path.read_bytes() == before


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o755), (0o644, 0o555), (0o444, 0o555)])
def test_a_ledger_that_nobody_may_write_is_read(path, file, folder):
    path.chmod(file)
    path.parent.chmod(folder)

    assert read(path) == [("trip-1", State.COMMITTED, 1)]


def test_a_closed_ledger_is_read_where_nothing_can_be_put_beside_it(path):
    without_room_beside(path)
    before = path.read_bytes()

    assert read(path) == [("trip-1", State.COMMITTED, 1)]
    assert path.read_bytes() == before


def test_a_ledger_in_use_is_read_up_to_its_last_commit_and_its_user_goes_on(path):
    with Settlement(f"sqlite:///{path}") as settlement:
        with settlement.transaction("trip-2") as tx:
            tx.call(reserve, hotel="Bee")
            assert read(path)[0] == ("trip-1", State.COMMITTED, 1)
        settlement.transactions()  # returns when all before it is on disk
        assert read(path) == [("trip-1", State.COMMITTED, 1), ("trip-2", State.COMMITTED, 1)]
        with settlement.transaction("trip-3") as tx:
            tx.call(reserve, hotel="Cox")

    assert [name for name, _, _ in read(path)] == ["trip-1", "trip-2", "trip-3"]


def test_what_was_not_closed_and_cannot_be_read_whole_is_refused_and_the_remedy_named(path, tmp_path):
    copy = tmp_path / "copy.db"
    with Settlement(f"sqlite:///{path}") as settlement:
        with settlement.transaction("trip-2") as tx:
            tx.call(reserve, hotel="Bee")
        settlement.transactions()
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", f"{copy}-wal")
    without_room_beside(copy)

    with pytest.raises(LedgerError, match=r"was not closed, and copy\.db-wal .* copy both files"):
        read(copy)

    copy.with_name("copy.db-shm").unlink()
    assert [name for name, _, _ in read(copy)] == ["trip-1", "trip-2"]


def fence(protocol, book):
    protocol.cancel("trip-1")
    book.write([Fence("trip-1", 1.0)])


@pytest.mark.parametrize(
    "act",
    [
        lambda ledger: ledger.now(fence),
        lambda ledger: ledger.submit(fence, durable=True).result(),
        lambda ledger: ledger.read(lambda book: book.write([Fence("trip-1", 1.0)])),
        lambda ledger: ledger.read(lambda book: book.remove_workers(["somebody"])),
    ],
    ids=["now", "submit", "a query that writes", "a query that strikes off"],
)
def test_writing_is_refused_and_nothing_changed(path, act):
    before = path.read_bytes()
    ledger = open_ledger(f"sqlite:///{path}", readonly=True)
    kept = ledger.read(lambda book: book.transactions())

    with pytest.raises(LedgerError):
        act(ledger)

    assert (ledger.protocol.fenced, ledger.read(lambda book: book.transactions())) == (set(), kept)
    ledger.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("how", ["now", "submit"])
def test_a_step_is_told_that_the_ledger_was_opened_to_be_read(path, how):
    ledger = open_ledger(f"sqlite:///{path}", readonly=True)

    with pytest.raises(LedgerError, match="was opened for reading: nothing was written"):
        ledger.now(fence) if how == "now" else ledger.submit(fence, durable=False)

    ledger.close()


def test_one_who_reads_is_no_worker_and_leaves_the_one_who_works_alone(path):
    with Settlement(f"sqlite:///{path}") as settlement, settlement.transaction("trip-2") as tx:
        tx.call(reserve, hotel="Bee")
        assert [name for name, _, _ in read(path)] == ["trip-1", "trip-2"]
        settlement.transactions()
        assert host_of(settlement).ledger.read(lambda book: book.gone()) == []
    assert tx.state is State.COMMITTED


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(LedgerError, match="there is no ledger at"):
        read(tmp_path / "none.db")

    assert list(tmp_path.iterdir()) == []


def test_a_database_of_somebody_else_gets_no_tables(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = path.read_bytes()

    with pytest.raises(LedgerError, match="no ledger of settlemark"):
        read(path)

    assert path.read_bytes() == before


def test_a_ledger_of_another_schema_is_refused(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE settlemark_meta SET value = '99'")
        connection.commit()

    with pytest.raises(LedgerError, match="has schema version 99"):
        read(path)
