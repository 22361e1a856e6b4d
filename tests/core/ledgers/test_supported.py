"""A ledger is kept where its promises were tried, and nowhere else: the others are refused before a table is made."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.rooms.doctor import examine
from tests.rooms.record import migrate

from settlemark import LedgerError, Settlement, effect
from settlemark.hosting import shown
from settlemark.ledger import open_ledger
from settlemark.ledger._sql.supported import refuse_version, supported

OTHERS = (
    "mysql://ada@localhost/x", "mysql+pymysql://ada@localhost/x", "mariadb+pymysql://ada@localhost/x",
    "mssql+pyodbc://ada@localhost/x", "oracle+oracledb://ada@localhost/x", "duckdb:///{folder}/x.db",
    "duckdb:///:memory:", "cockroachdb+psycopg://ada@localhost/x", "redshift+psycopg2://ada@localhost/x",
    "snowflake://ada@localhost/x", "yugabytedb+psycopg2://ada@localhost/x",
)  # fmt: skip # a table of values
DRIVERS = (
    "sqlite+aiosqlite:///{folder}/x.db",
    "sqlite+pysqlcipher:///{folder}/x.db",
    "postgresql+psycopg2://ada@localhost/x",
    "postgresql+asyncpg://ada@localhost/x",
    "postgresql+pg8000://ada@localhost/x",
)
MISNAMED = {
    "postgres://ada@localhost/x": "postgresql",
    "Postgres://ada@localhost/x": "postgresql",
    "PostgreSQL://ada@localhost/x": "postgresql",
    "SQLite:///{folder}/x.db": "sqlite",
    "sqlite3:///{folder}/x.db": "sqlite",
}
MALFORMED = (
    "sqlite:///{folder}/x\0.db",
    "sqlite:///{folder}/x\ud800.db",
    "sqlite:///{folder}/x.db?timeout=long",
    "sqlite:///{folder}/x.db?uri=perhaps",
    "sqlite:///{folder}/" + "x" * 9_000,
    "postgresql://ada@localhost:port/x",
    "postgresql://ada@localhost/x?host=a:1,b:2&host=c",
    " ",
    "x.db",
)
OPENING = {
    "Settlement": Settlement,
    "open_ledger": open_ledger,
    "migrate": migrate,
    "doctor": examine,
    "read": lambda url: open_ledger(url, readonly=True),
}


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("url", OTHERS)
def test_another_store_is_refused_and_nothing_is_made(url, opening, tmp_path):
    with pytest.raises(LedgerError, match="on which a ledger's promises were never tested, so no ledger is made there"):
        OPENING[opening](url.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("url", MISNAMED)
def test_a_supported_store_by_another_name_is_refused_with_its_own(url, opening, tmp_path):
    with pytest.raises(LedgerError, match=f"names no store: write {MISNAMED[url]}:// in its place"):
        OPENING[opening](url.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("url", DRIVERS)
def test_another_driver_is_refused_with_the_one_to_write(url, opening, tmp_path):
    with pytest.raises(LedgerError, match=r"write (sqlite\+pysqlite|postgresql\+psycopg):// in its place"):
        OPENING[opening](url.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("url", MALFORMED)
def test_what_is_no_url_is_refused_with_those_that_are(url, opening, tmp_path):
    with pytest.raises(LedgerError, match=r"ledger.*use memory:, sqlite:///FILE or postgresql\+psycopg://"):
        OPENING[opening](url.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("query", ["mode=rwc&uri=true", "uri=1&mode=ro", "cache=private&uri=yes"])
def test_a_query_that_sqlite_would_take_for_a_part_of_the_files_name_is_refused(query, opening, tmp_path):
    with pytest.raises(LedgerError, match="write sqlite:///file:FILE"):
        OPENING[opening](f"sqlite:///{tmp_path}/x.db?{query}")
    assert list(tmp_path.iterdir()) == []


# Each turns a promise off (locks, the file itself, who may read it) or on: all that SQLite reads in a URI, and more.
OPTIONS = {
    "nolock=1": "nolock=", "n%6Flock=1": "nolock=", "nolock=0": "nolock=", "immutable=1": "immutable=",
    "vfs=unix-none": "vfs=", "vfs=unix-dotfile": "vfs=", "vfs=memdb": "vfs=", "vfs=nosuch": "vfs=", "psow=1": "psow=",
    "modeof=/etc/passwd": "modeof=", "cache=shared": "cache=shared",
    "cache=private%26nolock=1": "cache=private&nolock=1",
    "mode=perhaps": "mode=perhaps", "mode=rwc%26nolock=1": "mode=rwc&nolock=1",
    "isolation_level=IMMEDIATE": "isolation_level=",
    "detect_types=3": "detect_types=", "factory=x": "factory=", "anything=1": "anything=",
    "timeout=1&timeout=2": "timeout= twice", "mode=rwc&mode=memory": "mode= twice", "uri=1&uri=0": "uri= twice",
}  # fmt: skip # a table


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("name", ["{folder}/x.db", "file:{folder}/x.db"])
@pytest.mark.parametrize("uri", ["", "&uri=true"])
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_with_which_no_promise_was_tested_is_refused_by_its_name(option, uri, name, opening, tmp_path):
    with pytest.raises(LedgerError, match=f"has {re.escape(OPTIONS[option])}.*leave"):
        OPENING[opening](f"sqlite:///{name.format(folder=tmp_path)}?{option}{uri}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("written", ["%3Fnolock=1", "%23x", "#x", "%2500"])
def test_what_sqlite_would_read_in_a_files_name_but_not_as_its_name_is_refused(written, opening, tmp_path):
    with pytest.raises(LedgerError, match="in its file's name"):
        OPENING[opening](f"sqlite:///file:{tmp_path}/x.db{written}?uri=true")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_a_mode_that_makes_no_file_makes_none(mode, opening, tmp_path):
    with pytest.raises(LedgerError):
        OPENING[opening](f"sqlite:///file:{tmp_path}/x.db?mode={mode}&uri=true")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opening", OPENING)
@pytest.mark.parametrize("name", ["autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"])
def test_what_the_driver_takes_from_python_alone_is_refused_in_a_url(name, opening):
    with pytest.raises(LedgerError, match=f"has {name}=, which the driver takes from Python alone: leave it out"):
        OPENING[opening](f"postgresql://ada@localhost/x?{name}=1")


@effect("idempotent", scope="note:/{text}", keyed=True)
def note(text: str) -> str:
    return text


@pytest.mark.parametrize("how", ["client_encoding=latin1", "client_encoding=sql_ascii", "PGCLIENTENCODING"])
def test_every_text_reaches_a_server_whatever_encoding_its_client_is_told_to_use(how, postgres_url, monkeypatch):
    if how == "PGCLIENTENCODING":
        monkeypatch.setenv(how, "latin1")
    else:
        postgres_url += ("&" if "?" in postgres_url else "?") + how
    with Settlement(postgres_url) as settlement:
        with settlement.transaction("漢字") as tx:
            tx.call(note, text="漢字")
        assert [json.loads(txn.effects[0].result or "") for txn in settlement.transactions()] == ["漢字"]


@pytest.mark.parametrize("opening", ["Settlement", "open_ledger"])
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_keep_every_text_is_refused(encoding, opening, postgres_url):
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    name = make_url(postgres_url).database + "_" + encoding.lower()
    with engine.connect() as connection:
        connection.execute(
            text(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
        )
        try:
            with pytest.raises(LedgerError, match=f"has the encoding {encoding}, in which not every text"):
                OPENING[opening](make_url(postgres_url).set(database=name).render_as_string(hide_password=False))
        finally:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


FILES = {
    "x.db": "x.db", "x.db?timeout=5": "x.db", "x.db?uri=true": "x.db", "file:x.db?uri=true": "x.db",
    "file:x.db?mode=rwc&uri=1": "x.db", "file:x%2520y.db?uri=yes": "x y.db", "file:x.db": "file:x.db",
    "file:x.db?uri=false": "file:x.db", "file:x.db?timeout=5": "file:x.db", "x%20y.db": "x y.db",
    "x%3Fmode=rwc.db": "x?mode=rwc.db", "file:x%253Fnolock=1.db?uri=1": "x?nolock=1.db",
    "x.db?cached_statements=0": "x.db",
    "file:x%2523y.db?uri=1&cache=private": "x#y.db",
}  # fmt: skip # a table


@pytest.mark.parametrize("named", FILES)
def test_however_a_file_is_named_it_is_its_owners_alone_read_by_that_name_and_missed_when_it_is_gone(
    named, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    url, file = f"sqlite:///{named}", tmp_path / FILES[named]
    with Settlement(url) as settlement:
        with settlement.transaction("t"):
            pass
        assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {file.name}
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
        open_ledger(url, readonly=True).close()
        file.unlink()
        with pytest.raises(LedgerError, match="was deleted or moved away"), settlement.transaction("u"):
            pass


@pytest.mark.parametrize("url", [7, b"sqlite:///x.db", Path("x.db"), make_url("sqlite:///x.db")])
def test_what_is_no_text_is_refused_by_its_type(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match=f"the URL of a ledger is an? {type(url).__name__}, not a text; use memory:"):
        Settlement(url)
    assert list(tmp_path.iterdir()) == []


def test_where_the_driver_is_not_installed_the_error_names_the_ledger_and_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerError, match=r'needs psycopg: pip install "settlemark\[postgres\]"') as refused:
        Settlement("postgresql://ada:secret@localhost/x")
    assert refused.value.data["url"] == "postgresql://ada:***@localhost/x"


def test_a_url_without_a_driver_gets_the_one_that_was_tried():
    urls = ("sqlite:///x.db", "postgresql://h/x", "postgresql+psycopg://h/x")
    assert [supported(url).drivername for url in urls] == [
        "sqlite+pysqlite",
        "postgresql+psycopg",
        "postgresql+psycopg",
    ]


def test_a_ledger_opens_where_no_driver_is_named(tmp_path, postgres_url):
    for url in (f"sqlite:///{tmp_path}/x.db", postgres_url.replace("postgresql+psycopg://", "postgresql://")):
        with Settlement(url) as settlement, settlement.transaction("t"):
            pass
    with sqlite3.connect(tmp_path / "x.db") as connection:
        assert connection.execute("SELECT count(*) FROM settlemark_head").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "version",
    [
        "PostgreSQL 11.2-YB-2.18.0.0-b0 on x86_64-pc-linux-gnu",
        "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)",
        "PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.77467",
        "PostgreSQL 9.4.26 (Greenplum Database 6.25.3)",
        "PostgreSQL 13.0 (DuckDB v1.0)",
        "something else",
    ],
)
def test_a_server_that_only_speaks_like_postgresql_is_refused(version):
    with pytest.raises(LedgerError, match="its locks and isolation are not PostgreSQL's"):
        refuse_version(version, "postgresql://h/x")


def test_postgresql_is_none_of_these():
    refuse_version(
        "PostgreSQL 16.2 (Debian 16.2-1.pgdg120+2) on x86_64-pc-linux-gnu, compiled by gcc", "postgresql://h"
    )


@pytest.mark.parametrize("url", ["x" * 200_000, "x:" + "/" * 200_000, "a=" * 100_000], ids=["a word", "marks", "words"])
def test_a_url_of_any_length_is_shown_at_once(url):
    assert shown(url) == url  # pytest's own limit ends a look that takes the length squared


def test_a_password_behind_a_long_name_is_not_shown():
    assert shown("x" * 200_000 + ".password=secret") == "x" * 200_000 + ".password=***"
