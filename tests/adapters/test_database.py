"""A database that tools act on: a call writes all of it or nothing, no wait is without an end, and errors say which."""

from __future__ import annotations

import contextlib
import sqlite3
import threading

import pytest
import sqlalchemy as sa

from settlemark_adapters._database import (
    Database,
    DatabaseLocked,
    DatabaseRefused,
    DatabaseUnavailable,
    insert_unless_there,
)

TABLES = sa.MetaData()
ROOMS = sa.Table("rooms", TABLES, sa.Column("hotel", sa.Text, primary_key=True), sa.Column("guest", sa.Text))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hotel.db"


@pytest.fixture
def database(path):
    made = Database(f"sqlite:///{path}", create=True)
    made.prepare(TABLES)
    with contextlib.closing(made):
        yield made


def rooms(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT hotel, guest FROM rooms"))


def book(connection, hotel="Ritz", guest="Ada"):
    connection.execute(ROOMS.insert().values(hotel=hotel, guest=guest))


# ---- which database


@pytest.mark.parametrize(
    "spelled", ["{path}", "file:{path}?uri=true", "file://{path}?mode=rw&uri=1", "{folder}/./hotel.db"]
)
def test_one_file_has_one_name_however_it_is_spelled(path, spelled):
    with contextlib.closing(Database(f"sqlite:///{path}", create=True)) as made:
        made.prepare(TABLES)
    url = f"sqlite:///{spelled.format(path=path, folder=path.parent)}"
    with contextlib.closing(Database(url)) as found, found.begin("book") as connection:
        book(connection)
    assert (found.name, found.shown, rooms(path)) == ("hotel", str(path), {"Ritz": "Ada"})


@pytest.mark.parametrize("url", ["file::memory:?cache=shared&uri=true", "file:x?mode=memory&cache=shared&uri=true"])
def test_a_database_in_memory_is_refused_by_its_other_names_too(url):
    with pytest.raises(ValueError, match="a SQLite database in memory ends with its connection"):
        Database(f"sqlite:///{url}")


def test_a_file_that_is_not_there_is_refused_and_not_made_unless_it_is_to_be(path):
    with contextlib.closing(Database(f"sqlite:///{path}")) as missing:
        for use in (missing.begin("book"), missing.looking("look")):
            with pytest.raises(DatabaseUnavailable, match=f"there is no database at {path}, and nothing was done"), use:
                pytest.fail("it was used")
        with pytest.raises(DatabaseUnavailable, match="name one that is there"):
            missing.prepare(TABLES)
        assert not path.exists()
        with contextlib.closing(Database(f"sqlite:///{path}", create=True)) as made:
            made.prepare(TABLES)
        assert rooms(path) == {}
        with missing.begin("book") as connection:  # it is there now
            book(connection)
    assert rooms(path) == {"Ritz": "Ada"}


def test_the_file_of_an_engine_is_its_owners_to_make(path):
    engine = sa.create_engine(f"sqlite:///{path}")
    Database(engine).prepare(TABLES)
    assert rooms(path) == {}
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://localhost/hotel", "mysql is no database known here: give a URL of sqlite or postgresql"),
        ("sqlite://", "a SQLite database in memory ends with its connection: name a file, or give an engine"),
        ("sqlite:///:memory:", "a SQLite database in memory ends with its connection: name a file, or give an engine"),
    ],
)
def test_what_cannot_serve_is_refused_before_it_is_opened(url, said):
    with pytest.raises(ValueError, match=said):
        Database(url)


def test_it_shows_where_it_is_and_no_password(path, database):
    assert (repr(database), database.shown) == ("Database('hotel')", str(path))
    server = Database("postgresql+psycopg://ada:secret@localhost:1/hotel")
    assert repr(server) == "Database('hotel')"
    assert "localhost:1/hotel" in server.shown
    assert "secret" not in server.shown + repr(server)


# ---- all or nothing


@pytest.mark.parametrize("keep", [True, False])
def test_all_of_a_block_is_written_at_its_end_or_nothing(path, database, keep):
    with database.begin("book", keep=keep) as connection:
        book(connection)
        book(connection, "Savoy", "Bea")
        assert rooms(path) == {}
    assert rooms(path) == ({"Ritz": "Ada", "Savoy": "Bea"} if keep else {})


def test_of_a_block_that_raises_nothing_is_written_and_its_error_is_its_own(path, database):
    with pytest.raises(LookupError, match="no such guest"), database.begin("book") as connection:
        book(connection)
        raise LookupError("no such guest")
    with database.begin("book") as connection:  # and nothing is locked
        book(connection, "Savoy")
    assert rooms(path) == {"Savoy": "Ada"}


def test_what_breaks_a_constraint_or_cannot_be_understood_is_refused_and_nothing_of_the_block_is_written(
    path, database
):
    with pytest.raises(DatabaseRefused, match="book on .* was refused, and nothing was changed: UNIQUE"):
        with database.begin("book") as connection:
            book(connection)
            book(connection)
    with pytest.raises(DatabaseRefused, match="look on .* was refused, .*: no such table: guests"):
        with database.looking("look") as connection:
            connection.exec_driver_sql("SELECT * FROM guests")
    assert rooms(path) == {}


def test_a_file_that_may_only_be_read_is_refused_and_is_not_taken_for_one_that_is_away(path, database):
    database.close()
    with contextlib.closing(Database(sa.create_engine(f"sqlite:///file:{path}?mode=ro&uri=true"))) as reader:
        with pytest.raises(DatabaseRefused, match="readonly"), reader.begin("book") as connection:
            book(connection)
    assert rooms(path) == {}


def test_an_error_has_the_databases_words_and_none_of_the_values(database):
    with pytest.raises(DatabaseRefused) as raised, database.begin("book") as connection:
        book(connection, guest="a secret")
        book(connection, guest="a secret")
    assert "a secret" not in str(raised.value)


def test_a_row_is_inserted_once_and_it_is_told_whether_it_was(path, database):
    told = []
    for guest in ("Ada", "Bea"):
        with database.begin("book") as connection:
            told.append(insert_unless_there(connection, ROOMS, {"hotel": "Ritz", "guest": guest}))
    assert (told, rooms(path)) == ([True, False], {"Ritz": "Ada"})


# ---- beside others


@pytest.fixture
def writer(path, database):
    """Somebody else, in the midst of a write."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("INSERT INTO rooms VALUES ('Savoy', 'Bea')")
    yield other
    other.close()


def test_who_may_not_wait_is_told_at_once_that_another_writes_and_that_nothing_was_done(path, database, writer):
    with (
        pytest.raises(
            DatabaseLocked, match="book on .* did nothing: .*locked.*nobody holds it locked, then call again"
        ),
        database.begin("book", waits=False) as connection,
    ):
        book(connection)
    writer.execute("COMMIT")
    assert rooms(path) == {"Savoy": "Bea"}


def test_who_may_not_wait_leaves_the_engines_owner_as_much_patience_as_it_had(path, database, writer):
    engine = sa.create_engine(f"sqlite:///{path}", poolclass=sa.StaticPool, connect_args={"timeout": 7})
    shared = Database(engine)
    for _ in range(2):
        with pytest.raises(DatabaseLocked), shared.begin("book", waits=False) as connection:
            book(connection)
    writer.execute("COMMIT")
    with shared.begin("book", waits=False) as connection:
        book(connection)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 7_000
    engine.dispose()


def test_who_may_wait_writes_when_the_other_has_ended(path, database, writer):
    began = threading.Event()

    def waiting():
        began.set()
        with database.begin("book") as connection:
            book(connection)

    thread = threading.Thread(target=waiting)
    thread.start()
    began.wait(60)
    writer.execute("COMMIT")
    thread.join(60)
    assert rooms(path) == {"Savoy": "Bea", "Ritz": "Ada"}


@pytest.mark.parametrize("reads", [True, False])
def test_who_writes_keeps_others_from_writing_from_the_first_statement_on_and_who_reads_nobody(path, database, reads):
    with (
        contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other,
        database.begin("look", reads=reads, keep=False) as connection,
        contextlib.nullcontext() if reads else pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        if reads:
            assert connection.execute(sa.select(ROOMS)).all() == []
        other.execute("BEGIN IMMEDIATE")


def test_tables_are_made_once_whoever_else_makes_them_meanwhile(path, database):
    others = [Database(f"sqlite:///{path}") for _ in range(2)]
    for other in (*others, database, database):
        other.prepare(TABLES)
    with database.begin("book") as connection:
        book(connection)
    others[0].prepare(TABLES)
    assert rooms(path) == {"Ritz": "Ada"}


def test_an_act_may_name_no_row_that_is_not_there(path):
    with contextlib.closing(Database(f"sqlite:///{path}", create=True)) as made:
        with made.begin("prepare") as connection:
            connection.exec_driver_sql("CREATE TABLE hotels (name TEXT PRIMARY KEY)")
            connection.exec_driver_sql("CREATE TABLE beds (hotel TEXT REFERENCES hotels (name))")
        with pytest.raises(DatabaseRefused, match="FOREIGN KEY"), made.begin("book") as connection:
            connection.exec_driver_sql("INSERT INTO beds VALUES ('Ritz')")
