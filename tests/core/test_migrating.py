"""A ledger of before the first release is refused and stays as it is; one of ours has the tables of its migrations."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from tests.rooms.cli import main as cli
from tests.rooms.ledger import SCHEMA_VERSION
from tests.rooms.record import REVISION, blobs, sweeping
from tests.rooms.record import statements as _statements
from tests.rooms.record import tables as t
from typer.testing import CliRunner

from settlemark import LedgerError, Settlement, effect
from settlemark.hosting import shown
from settlemark.ledger import open_ledger
from settlemark.ledger._record import migrating as _migrating
from settlemark.ledger._record.migrating import migrate

log = []


@effect("reversible", scope="room:/{room}", undo=lambda room: log.append(("cancel", room)))
def book(room, **more):
    log.append(("book", room))
    return {"confirmation": f"R-{room}"}


@pytest.fixture(autouse=True)
def nothing_happened():
    log.clear()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=[1, 2, 3])
def old_url(request, url):
    """A store with a record, whose log is of a version before the first release."""
    settlement = Settlement(url)
    with settlement.transaction("trip/1") as tx:
        tx.call(book, room="a")
    settlement.close()
    say(url, f"UPDATE settlemark_meta SET value = '{request.param}' WHERE key = 'schema'")
    say(url, """UPDATE settlemark_log SET steps = '[["seal",[{"t":1}],{}]]'""")
    return url


def say(url, statement):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)


def contents(url):
    """Every row of every table."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    tables = sa.MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        return {
            table.name: sorted(map(repr, connection.execute(sa.select(table)).all())) for table in tables.sorted_tables
        }


def run(*arguments):
    return CliRunner().invoke(cli.build(), [str(a) for a in arguments], prog_name="settlemark")


# ---- refusing


def openings(url):
    return [
        lambda: open_ledger(url),
        lambda: open_ledger(url, readonly=True),
        lambda: Settlement(url),
        lambda: migrate(url),
        lambda: migrate(url, dry_run=True),
    ]


def test_a_ledger_of_before_is_refused_with_what_to_do_and_nothing_of_it_is_touched(old_url):
    before = contents(old_url)
    for opens in openings(old_url):
        with pytest.raises(LedgerError) as refused:
            opens()
        version = dict(rows_of(old_url, "settlemark_meta"))["schema"]
        assert str(refused.value) == (
            f"the ledger {shown(old_url)} has schema version {version}, of before the first release; this settlemark"
            f" needs {SCHEMA_VERSION}, and has changed nothing: end what is unfinished with the settlemark that wrote"
            f" it, print its record with that (`settlemark export {shown(old_url)}`), move it away, and begin a new"
            " ledger"
        )
        assert refused.value.url == shown(old_url)
    assert contents(old_url) == before
    assert log == [("book", "a")]


def rows_of(url, table):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return connection.exec_driver_sql(f"SELECT * FROM {table}").fetchall()


@pytest.mark.parametrize("command", ["show", "residue", "export", "migrate", "recover"])
def test_every_command_names_what_to_do_with_a_ledger_of_before(old_url, command):
    before = contents(old_url)
    said = run(command, old_url)
    assert (said.exit_code, said.stdout) == (2, "")
    assert "of before the first release" in " ".join(said.stderr.split())
    assert contents(old_url) == before


@pytest.mark.parametrize("act", [open_ledger, migrate])
def test_a_newer_ledger_asks_for_a_newer_settlemark(url, act):
    open_ledger(url).close()
    say(url, "UPDATE settlemark_meta SET value = '99' WHERE key = 'schema'")
    before = contents(url)
    with pytest.raises(LedgerError, match="has schema version 99, this settlemark knows .*: install a newer"):
        act(url)
    assert contents(url) == before


def test_what_is_no_ledger_is_not_made_one(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with pytest.raises(LedgerError, match="is a database, but no ledger of settlemark"):
        migrate(url)
    with pytest.raises(LedgerError, match="there is no ledger at"):
        migrate(f"sqlite:///{tmp_path / 'none.db'}")
    assert contents(url) == {"t": []}
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("command", ["show", "residue", "export", "migrate", "recover", "halts", "prune"])
@pytest.mark.parametrize("statements", [(), ("CREATE TABLE t (x)",), ("CREATE TABLE settlemark_meta (key, value)",)])
def test_a_database_of_somebody_else_stays_as_it_is_whatever_command_is_given_it(tmp_path, command, statements):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    path.touch()
    before = path.read_bytes()
    said = run(command, path, *(["--older-than", "30d"] if command == "prune" else []))
    assert (said.exit_code, said.stdout) == (2, "")
    assert "is a database, but no ledger of settlemark: name another one" in said.stderr
    assert path.read_bytes() == before


# ---- the tables


def test_the_migrations_make_the_tables_of_a_fresh_ledger(url, tmp_path):
    config = Config()
    config.set_main_option("script_location", str(_migrating._FOLDER))
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": t.migrations.name, "compare_type": True}
        )
        assert compare_metadata(context, t.metadata) == []
        assert connection.execute(sa.select(t.migrations.c.version_num)).scalars().all() == [REVISION]
        assert connection.execute(sa.select(t.meta.c.value)).scalars().all() == [str(SCHEMA_VERSION)]
    if engine.dialect.name == "sqlite":
        open_ledger(f"sqlite:///{tmp_path / 'fresh.db'}").close()
        assert shapes(tmp_path / "ledger.db") == shapes(tmp_path / "fresh.db")


def shapes(path):
    """Every table of a file: its columns in their order, its key, its indexes, and whether it has row ids."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name, wr FROM pragma_table_list WHERE name LIKE 'settlemark%'").fetchall()
        return {
            name: (
                without_rowid,
                [row[1:4] + row[5:] for row in connection.execute(f"PRAGMA table_info({name})")],
                sorted(row[1:] for row in connection.execute(f"PRAGMA index_list({name})") if row[3] == "c"),
                sorted(row[2:5] for row in connection.execute(f"PRAGMA foreign_key_list({name})")),
            )
            for name, without_rowid in tables
        }


@pytest.mark.parametrize("dry_run", [True, False])
def test_to_migrate_a_ledger_of_this_version_changes_nothing(url, dry_run):
    settlement = Settlement(url)
    with settlement.transaction("trip/1") as tx:
        tx.call(book, room="a")
    settlement.close()
    before = contents(url)
    assert migrate(url, dry_run=dry_run) == (shown(url), SCHEMA_VERSION, SCHEMA_VERSION, dry_run)
    assert contents(url) == before


def test_the_command_tells_that_there_is_nothing_to_do(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    open_ledger(url).close()
    assert [run("migrate", url, *options).stdout for options in ([], ["--dry-run"])] == [
        f"{url} has schema version {SCHEMA_VERSION} already.\n"
    ] * 2
    assert json.loads(run("migrate", url, "--json").stdout) == {
        "ledger": url,
        "before": SCHEMA_VERSION,
        "after": SCHEMA_VERSION,
        "dry_run": False,
    }


# ---- opening


def test_a_fresh_ledger_is_made_at_once_in_its_last_version(tmp_path, sqlite_rows):
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    Settlement(url).close()
    assert sqlite_rows(url, "SELECT version_num FROM settlemark_migration") == [(REVISION,)]
    assert sqlite_rows(url, "SELECT key, length(value) FROM settlemark_meta ORDER BY key") == [
        ("ledger", 16),
        ("salt", 64),
        ("schema", 1),
    ]


@pytest.mark.parametrize("kind", ["fresh", "migrated", "made by this very process"])
def test_what_is_asked_of_a_few_rows_does_not_read_them_all(tmp_path, kind):
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    if kind == "migrated":
        open_ledger(url).close()
        migrate(url)
    ledger = open_ledger(url)
    if kind != "made by this very process":
        ledger.close()
        ledger = open_ledger(url)
    # What a connection knows of the tables it knows from when it was opened, or was told.
    connection = ledger._member.connection
    dialect, wire = connection.engine.dialect, connection.wire
    asked = [
        _statements.UNFINISHED, _statements.UNFINISHED_EFFECTS, _statements.LAST, _statements.EFFECTS,
        _statements.ALL_UNRESOLVED, _statements.UNRESOLVED_EFFECTS,
        sweeping._OLD, sweeping._OVER, sweeping._STRIP_EFFECTS,
        sweeping._FORGET_EFFECTS, blobs._DROP, blobs._USE,
    ]  # fmt: skip # a list of names and values
    for statement in asked:
        text, names = statement.said(dialect)
        found = wire._driver.execute(f"EXPLAIN QUERY PLAN {text}", tuple("x" for _ in names)).fetchall()
        steps = [row[3] for row in found if "settlemark" in row[3] or " e " in row[3] or " t " in row[3]]
        assert steps, text
        assert not [step for step in steps if "(namespace=?)" in step], (text, steps)
        assert not [step for step in steps if step.startswith("SCAN settlemark")], (text, steps)
    ledger.close()


def test_opening_a_ledger_looks_at_its_version_and_at_no_other_table_of_its_schema(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    open_ledger(url).close()
    salt = contents(url)["settlemark_meta"]
    monkeypatch.setattr(t.metadata, "create_all", lambda *_: pytest.fail("the tables are there"))
    open_ledger(url).close()
    assert contents(url)["settlemark_meta"] == salt
