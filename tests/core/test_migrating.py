"""A ledger of an older release is refused by name, migrated whole or not at all, and then goes on as it was."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from typer.testing import CliRunner

from settlemark import Cancelled, LedgerError, Settlement, Tag, effect
from settlemark._cli import main as cli
from settlemark._protocol.states import State
from settlemark.ledger import open_ledger
from settlemark.ledger._record import blobs, sweeping
from settlemark.ledger._record import book as _book
from settlemark.ledger._record import migrating as _migrating
from settlemark.ledger._record import tables as t
from settlemark.ledger._record.migrating import migrate

LEDGERS = Path(__file__).parent / "ledgers"
log = []


@effect("reversible", scope="room:/{room}", undo=lambda room: log.append(("cancel", room)))
def book(room, **more):
    log.append(("book", room))
    return {"confirmation": f"R-{room}"}


@effect("irreversible", scope="mail:/{to}")
def send(to):
    log.append(("send", to))
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_happened():
    log.clear()


def restored(path, kind="finished", version=1):
    """Write the file that a release left."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((LEDGERS / f"version_{version}" / f"{kind}.sql").read_text())
    return f"sqlite:///{path}"


@pytest.fixture
def old_url(tmp_path):
    return restored(tmp_path / "old.db")


@pytest.fixture
def old_postgres(postgres_url, tmp_path):
    """A PostgreSQL store with the tables and rows of release 0.1."""
    config = Config()
    config.set_main_option("script_location", str(_migrating._FOLDER))
    source = sa.create_engine(restored(tmp_path / "old.db"))
    target = sa.create_engine(postgres_url)
    with target.begin() as connection, source.connect() as reading:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(sa.text("DELETE FROM settlemark_meta"))
        connection.execute(sa.text("DROP TABLE settlemark_migration"))
        tables = sa.MetaData()
        tables.reflect(connection)
        for table in tables.sorted_tables:
            rows = [dict(row) for row in reading.execute(sa.select(table)).mappings()]
            if rows:
                connection.execute(sa.insert(table), rows)
    source.dispose()
    target.dispose()
    return postgres_url


@pytest.fixture(params=["sqlite", "postgres"])
def either(request):
    return request.getfixturevalue("old_url" if request.param == "sqlite" else "old_postgres")


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


@pytest.mark.parametrize("readonly", [False, True])
def test_an_older_ledger_is_refused_with_the_command_to_run_and_stays_as_it_is(old_url, readonly):
    before = contents(old_url)
    with pytest.raises(LedgerError) as refused:
        open_ledger(old_url, readonly=readonly)
    assert str(refused.value) == (
        f"the ledger {old_url} has schema version 1, this settlemark needs 3: stop what uses it, and run"
        f" `settlemark migrate {old_url}`"
    )
    assert refused.value.url == old_url
    assert contents(old_url) == before


def test_an_older_ledger_on_postgresql_is_refused_without_its_password(old_postgres):
    with pytest.raises(LedgerError, match="has schema version 1, .*run `settlemark migrate postgresql"):
        open_ledger(old_postgres)


@pytest.mark.parametrize("act", [open_ledger, migrate])
def test_a_newer_ledger_asks_for_a_newer_settlemark(tmp_path, act):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    open_ledger(url).close()
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection, connection:
        connection.execute("UPDATE settlemark_meta SET value = '4' WHERE key = 'schema'")
    before = contents(url)
    with pytest.raises(LedgerError, match="has schema version 4, this settlemark knows 3: install a newer settlemark"):
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


# ---- migrating


def test_a_migrated_ledger_has_the_tables_of_a_fresh_one(either, tmp_path, request):
    migrate(either)
    engine = sa.create_engine(either, poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": t.migrations.name, "compare_type": True}
        )
        assert compare_metadata(context, t.metadata) == []
        assert connection.execute(sa.select(t.migrations.c.version_num)).scalars().all() == ["0003"]
    if engine.dialect.name == "sqlite":
        open_ledger(f"sqlite:///{tmp_path / 'fresh.db'}").close()
        assert shapes(tmp_path / "old.db") == shapes(tmp_path / "fresh.db")


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


def test_what_was_decided_before_replays_and_nothing_happens_twice(either, open_settlement):
    assert (migrate(either).before, migrate(either).before) == (1, 3)

    settlement = open_settlement(either)
    with settlement.transaction("trip/1") as tx:
        assert tx.call(book, room="a") == {"confirmation": "R-a"}
        assert tx.call(send, to="ada").result() == "sent to ada"
    with settlement.transaction("trip/4") as tx:
        tx.call(book, room="d", more={"$ref": "sha256:0"})
        assert tx.call(book, room="e", **{"$ref": "sha256:0"}) == {"confirmation": "R-e"}
    assert log == []
    assert [(r.row.name, r.row.attempt, r.state) for r in settlement.transactions()] == [
        ("trip/1", 1, State.COMMITTED),
        ("trip/2", 1, State.ABORTED),
        ("trip/3", 1, State.COMMITTED),
        ("trip/4", 1, State.COMMITTED),
    ]
    assert [(left.transaction, left.tool, left.tag) for left in settlement.residue()] == [
        ("trip/2", "book_for_good", Tag.UNRESOLVED)
    ]
    other = open_settlement(either, namespace="acme")
    assert [(r.row.name, e.row.key) for r in other.transactions() for e in r.effects] == [("trip/1", "acme:trip/1#1/0")]


def test_new_work_comes_after_the_old_and_a_cancelled_run_stays_cancelled(either, open_settlement):
    migrate(either)
    settlement = open_settlement(either)
    with settlement.transaction("trip/5") as tx:
        tx.call(book, room="a")
        assert tx.epoch > 1_048_576  # those that a process of release 0.1 had reserved
    with pytest.raises(Cancelled), settlement.transaction("job/1"):
        pass
    assert log == [("book", "a")]


def test_a_dry_run_changes_nothing(either):
    before = contents(either)
    assert migrate(either, dry_run=True)[1:] == (1, 3, True)
    assert contents(either) == before


def test_a_migration_that_fails_changes_nothing(either, monkeypatch):
    before = contents(either)
    monkeypatch.setattr("secrets.token_hex", lambda _: None)  # the last thing it writes
    with pytest.raises(LedgerError):
        migrate(either)
    assert contents(either) == before


# ---- what is unfinished


def test_unfinished_work_of_release_0_1_is_named_and_nothing_changed(tmp_path):
    url = restored(tmp_path / "old.db", "unfinished")
    before = contents(url)
    with pytest.raises(LedgerError, match=r"3 transaction\(s\) of release 0.1 have not finished: held, open, releas"):
        migrate(url)
    assert contents(url) == before


def test_unfinished_work_can_be_given_up_and_is_named_as_residue(tmp_path, open_settlement):
    url = restored(tmp_path / "old.db", "unfinished")
    migrate(url, give_up=True)
    settlement = open_settlement(url)
    assert [(r.row.name, r.state) for r in settlement.transactions()] == [
        ("open", State.ABORTED), ("held", State.ABORTED), ("releasing", State.ABORTED),
    ]  # fmt: skip
    assert [(left.transaction, left.tool, left.tag) for left in settlement.residue()] == [
        ("open", "book", Tag.UNRESOLVED),
        ("releasing", "book", Tag.UNRESOLVED),
        ("releasing", "send_and_die", Tag.UNRESOLVED),
    ]
    assert not settlement.recover()
    with settlement.transaction("held") as tx:
        assert tx.attempt == 2
        tx.call(send, to="held")
    assert log == [("send", "held")]


# ---- the command


def test_the_command_tells_what_it_did(old_url):
    tried, done, again = run("migrate", old_url, "--dry-run"), run("migrate", old_url), run("migrate", old_url)
    assert [result.stdout for result in (tried, done, again)] == [
        f"{old_url} can be migrated from schema version 1 to 3.\n",
        f"{old_url} was migrated from schema version 1 to 3.\n",
        f"{old_url} has schema version 3 already.\n",
    ]
    assert json.loads(run("migrate", old_url, "--json").stdout) == {
        "ledger": old_url, "before": 3, "after": 3, "dry_run": False,
    }  # fmt: skip


def test_the_command_refuses_unfinished_work_and_gives_it_up_when_told_to(tmp_path):
    url = restored(tmp_path / "old.db", "unfinished")
    refused, given_up = run("migrate", url), run("migrate", url, "--give-up")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Enter their names once more with settlemark 0.1" in refused.stderr
    assert (given_up.exit_code, given_up.stderr) == (0, "")


def test_showing_an_older_ledger_names_the_command(old_url):
    shown = run("show", old_url)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert f"run `settlemark migrate {old_url}`" in shown.stderr


# ---- opening


def test_a_fresh_ledger_is_made_at_once_in_its_last_version(tmp_path, sqlite_rows):
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    Settlement(url).close()
    assert sqlite_rows(url, "SELECT version_num FROM settlemark_migration") == [("0003",)]
    assert sqlite_rows(url, "SELECT key, length(value) FROM settlemark_meta ORDER BY key") == [
        ("ledger", 16), ("salt", 64), ("schema", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["fresh", "migrated", "made by this very process"])
def test_what_is_asked_of_a_few_rows_does_not_read_them_all(tmp_path, old_url, kind):
    url = old_url if kind == "migrated" else f"sqlite:///{tmp_path / 'fresh.db'}"
    if kind == "migrated":
        migrate(url)
    ledger = open_ledger(url)
    if kind != "made by this very process":
        ledger.close()
        ledger = open_ledger(url)
    # What a connection knows of the tables it knows from when it was opened, or was told.
    dialect, wire = ledger._shared.engine.dialect, ledger._shared._wire
    asked = [
        _book._UNFINISHED, _book._UNFINISHED_EFFECTS, _book._LAST, _book._EFFECTS, _book._UNRESOLVED,
        _book._UNRESOLVED_EFFECTS, sweeping._OLD, sweeping._OVER, sweeping._STRIP_EFFECTS,
        sweeping._FORGET_EFFECTS, blobs._DROP, blobs._USE,
    ]  # fmt: skip
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
