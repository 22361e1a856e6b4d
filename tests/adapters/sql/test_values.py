"""Values: a model's JSON is stored exactly or refused, and a row is put back to the last bit."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.adapters.sql.shop import Shop
from tests.extent import examples

from settlemark import PayloadError
from settlemark_adapters.sql import DatabaseRefused, Sql

WIDE = """CREATE TABLE wide (id INTEGER PRIMARY KEY, big BIGINT, real DOUBLE PRECISION, exact NUMERIC(30, 10),
    word TEXT, yes BOOLEAN, day DATE, at TIMESTAMP, clock TIME, bytes {bytes}, data {json}, code {uuid})"""
POSTGRES_ONLY = """CREATE TABLE odd (id INTEGER PRIMARY KEY, at TIMESTAMPTZ, words TEXT[], span INTERVAL, ip INET,
    spread INT4RANGE, mood mood, pair pair, doubled INTEGER GENERATED ALWAYS AS (id * 2) STORED, bits BIT(3),
    js JSON, far DATE, loose NUMERIC, f4 REAL, padded CHAR(5))"""

FULL = {
    "big": 2**62, "real": 0.1, "exact": "12345678901.5", "word": "naïve - 'quote' \\ :x %s", "yes": True,
    "day": "2026-12-01", "at": "2026-12-01T09:30:00.123456", "clock": "09:30:00", "bytes": {"base64": "AAH/"},
    "data": {"a": [1, None, "ü"]}, "code": "12345678-1234-5678-1234-567812345678",
}  # fmt: skip # a table


@pytest.fixture
def wide(shop, open_sql):
    types = {"bytes": "BYTEA", "json": "JSONB", "uuid": "UUID"}
    if shop.is_sqlite:
        types = {"bytes": "BLOB", "json": "JSON", "uuid": "TEXT"}
    shop.run("DROP TABLE IF EXISTS wide", WIDE.format(**types))
    return open_sql(shop, tables=["wide"])


def test_what_a_model_writes_it_reads_again(wide, shop):
    wide.insert("wide", 1, FULL)
    row = wide.read("wide", 1)
    if shop.is_sqlite:  # it has neither truth values nor times nor decimals of its own
        row |= {"yes": bool(row["yes"]), "at": row["at"].replace(" ", "T"), "exact": str(row["exact"])}
        row |= {"clock": row["clock"].removesuffix(".000000"), "data": FULL["data"]}
    else:
        row |= {"exact": row["exact"].rstrip("0")}
    assert row == {"id": 1, **FULL}


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("big", "7", "a whole number, and not '7'"),
        ("big", 7.5, "a whole number, and not 7.5"),
        ("big", True, "a whole number, and not True"),
        ("big", 2**63, "it has more than 64 bits"),
        ("real", "much", "a number, and not 'much'"),
        ("real", 2**53 + 1, "it has more than 53 bits"),
        ("exact", "ten", 'a number, or one as text, as in "12.50", and not'),
        ("exact", "NaN", "a number, or one as text"),
        ("word", 7, "text, and not 7"),
        ("yes", 1, "true or false, and not 1"),
        ("day", "tomorrow", 'a date as text, as in "2026-12-01", and not'),
        ("at", "2026-12-01T09:30:00+01:00", "leave out the offset: it would be dropped"),
        ("clock", 9, "a time of day as text"),
        ("bytes", "AAH/", 'bytes as {"base64": "…"}'),
        ("bytes", {"base64": "?"}, 'bytes as {"base64": "…"}'),
    ],
)
def test_what_is_no_value_of_a_column_is_refused_before_anything_is_recorded(
    file_shop, settlement, open_sql, column, value, said
):
    file_shop.run(WIDE.format(bytes="BLOB", json="JSON", uuid="TEXT"))
    sql = open_sql(file_shop, settlement, tables=["wide"])
    with pytest.raises(ValueError, match=f"column {column} takes ") as refused, settlement.transaction("t") as tx:
        tx.call(sql.insert, table="wide", key=1, values={column: value})
    assert said in str(refused.value)
    assert (file_shop.rows("wide"), settlement.transactions()) == ([], [])


@pytest.mark.parametrize("price", ["0.12345678901234567890", str(2**63), str(-(2**63))])
def test_a_decimal_that_sqlite_would_round_is_refused_and_nothing_changed(file_shop, open_sql, price):
    sql = open_sql(file_shop)
    with pytest.raises(ValueError, match="SQLite keeps it as a float, which differs"):
        sql.insert("item", 1, {"name": "lamp", "price": price})
    assert file_shop.rows("item") == []


def test_what_is_no_json_is_refused_before_anything_is_done(shop, settlement, sql):
    with pytest.raises(PayloadError), settlement.transaction("t") as tx:
        tx.call(sql.insert, table="item", key=1, values={"name": {1, 2}})
    assert (shop.rows("item"), settlement.transactions()) == ([], [])


CELLS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(CELLS, min_size=3, max_size=3))
@example(cells=[float("inf"), float("-inf"), b"bits"])
def test_any_row_of_sqlite_is_put_back_to_the_last_bit(file_shop, open_sql, monkeypatch, cells):
    sql = open_sql(file_shop, tables=["loose"])
    monkeypatch.setattr(type(sql), "key", "k1")
    file_shop.run(
        "DROP TABLE IF EXISTS loose",
        "DROP TABLE IF EXISTS settlemark_effects",
        "CREATE TABLE loose (id INT PRIMARY KEY, a, b REAL, c NUMERIC)",
    )
    with file_shop.connection() as connection:
        clean = [c.encode("utf-8", "ignore").decode().replace("\0", "") if isinstance(c, str) else c for c in cells]
        connection.execute("INSERT INTO loose VALUES (1, ?, ?, ?)", clean)
        kinds = "SELECT typeof(a), quote(a), typeof(b), quote(b), typeof(c), quote(c) FROM loose"
        before = connection.execute(kinds).fetchall()
    sql.delete("loose", 1)
    sql.undo_change()
    with file_shop.connection() as connection:
        assert connection.execute(kinds).fetchall() == before


def test_any_type_of_postgres_is_put_back_to_the_last_bit(postgres_url, open_sql, settlement):
    shop = Shop(postgres_url)
    shop.run("CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE TYPE pair AS (a INT, b TEXT)", POSTGRES_ONLY)
    shop.run(
        "INSERT INTO odd (id, at, words, span, ip, spread, mood, pair, bits, js, loose, f4, padded) VALUES"
        " (1, '2026-12-01 09:30:00.123456+05:30', '{a,\"b,c\",NULL}', '1 year 2 days 03:04:05', '10.0.0.1/8', '[1,5)',"
        " 'sad', '(7,\"x, y\")', B'101', '{\"b\": 1,  \"a\": 0.12345678901234567890}', 'NaN', 0.1, 'ab')"
    )
    sql = open_sql(shop, settlement, tables=["odd"])
    texts = "SELECT odd::text FROM odd"
    with shop.connection() as connection:
        before = connection.execute(texts).fetchall()
    with pytest.raises(ZeroDivisionError), settlement.transaction("t") as tx:
        tx.call(
            sql.update, table="odd", key=1, values={"mood": "glad", "words": ["z"], "at": "2026-01-01T00:00:00+02:00"}
        )
        assert tx.call(sql.read, table="odd", key=1)["mood"] == "glad"
        tx.call(sql.delete, table="odd", key=1)
        raise ZeroDivisionError
    with shop.connection() as connection:
        assert connection.execute(texts).fetchall() == before
    assert settlement.residue() == []


def test_a_time_with_a_zone_needs_its_offset_and_a_computed_column_none(postgres_url, open_sql):
    shop = Shop(postgres_url)
    shop.run(
        "CREATE TABLE meeting (id INTEGER PRIMARY KEY, at TIMESTAMPTZ, nxt INTEGER GENERATED ALWAYS AS (id + 1) STORED)"
    )
    sql = open_sql(shop, tables=["meeting"])
    with pytest.raises(ValueError, match="give its offset from UTC"):
        sql.insert("meeting", 1, {"at": "2026-12-01T09:30:00"})
    with pytest.raises(ValueError, match="column nxt of meeting is computed by the database: leave it out"):
        sql.insert("meeting", 1, {"nxt": 7})
    assert shop.rows("meeting") == []
    assert sql.insert("meeting", 1, {"at": "2026-12-01T09:30:00+01:00"})["nxt"] == 2


def test_a_process_in_another_time_zone_finds_the_row_unchanged(postgres_url, open_sql, monkeypatch):
    shop = Shop(postgres_url)
    shop.run("CREATE TABLE meeting (id INTEGER PRIMARY KEY, at TIMESTAMPTZ)")
    first = open_sql(shop, tables=["meeting"])
    monkeypatch.setattr(type(first), "key", "k1")
    first.insert("meeting", 1, {"at": "2026-12-01T09:30:00+01:00"})
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    open_sql(shop, tables=["meeting"]).undo_change()
    assert shop.rows("meeting", "1") == []


# What PostgreSQL lets each process choose of how it writes a value.
WRITTEN = (
    "intervalstyle=iso_8601",
    "intervalstyle=sql_standard",
    "datestyle=German",
    "datestyle=SQL,DMY",
    "bytea_output=escape",
    "extra_float_digits=0",
    "timezone=Asia/Kolkata",
)


def test_a_process_that_writes_values_in_another_style_finds_the_row_unchanged(postgres_url, open_sql, monkeypatch):
    shop = Shop(postgres_url)
    shop.run(
        "CREATE TABLE stay (id INTEGER PRIMARY KEY, span INTERVAL, day DATE, at TIMESTAMPTZ, f FLOAT8, raw BYTEA,"
        " note TEXT DEFAULT 'before')"
    )
    row = "(1, '1 year 2 days 03:04:05', '2026-12-01', '2026-12-01 09:30+01', 0.1::float8 + 0.2::float8, '\\x00ff')"
    shop.run(f"INSERT INTO stay VALUES {row}")
    first = open_sql(shop, tables=["stay"])
    before = shop.rows("stay", "1")
    for number, style in enumerate(WRITTEN):
        monkeypatch.setattr(type(first), "key", f"k{number}")
        first.update("stay", 1, {"note": "after"})
        monkeypatch.setenv("PGOPTIONS", f"-c {style}")
        open_sql(shop, tables=["stay"]).undo_change()
        monkeypatch.delenv("PGOPTIONS")
        assert (style, shop.rows("stay", "1")) == (style, before)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("secret", 1, {}), "there is no table 'secret' for these tools: name one of item, seat"),
        (("settlemark_effects", "k", {}), "there is no table 'settlemark_effects'"),
        (("item; DROP TABLE item", 1, {}), "there is no table"),
        ((7, 1, {}), "there is no table 7"),
        (("item", 1, {"colour": "red"}), "item has no column 'colour': there are id, name, price, stock"),
        (("item", 1, {"name = 'x' --": 1}), "item has no column"),
        (("item", 1, {"name": "x", "hue": 1, "size": 2}), "item has no column 'hue' and no 'size': there are"),
        (("item", None, {}), "the key of item has no id: give a value"),
        (("item", "1", {}), "column id takes a whole number, and not '1'"),
        (("item", {"number": 1}, {}), "{'number': 1} is no key of item: give {\"id\": …} or its value"),
        (("seat", "hall", {}), '\'hall\' is no key of seat: give {"room": …, "number": …}'),
        (("item", 1, {"id": 2}), "id names row 1 of item, and 2 another"),
    ],
)
def test_what_is_no_row_of_these_tables_is_refused_before_anything_is_done(file_shop, settlement, open_sql, call, said):
    table, key, values = call
    sql = open_sql(file_shop, settlement)
    with pytest.raises(ValueError, match=re.escape(said)), settlement.transaction("t") as tx:
        tx.call(sql.upsert, table=table, key=key, values=values)
    assert [rows for rows in file_shop.everything().values() if rows] + settlement.transactions() == []


@pytest.mark.parametrize(
    ("verb", "arguments", "kind", "said"),
    [
        ("insert", (1, {"name": "x"}), DatabaseRefused, "there is a row 1 of item already, and nothing was changed"),
        ("insert", (2, {"name": None}), DatabaseRefused, "insert_row on .* was refused, and nothing was changed"),
        ("update", (9, {"name": "x"}), LookupError, "there is no row 9 of item, and nothing was changed"),
        ("update", (1, {}), ValueError, "there is nothing to update of row 1 of item"),
        ("delete", (9,), LookupError, "there is no row 9 of item, and nothing was changed"),
    ],
)
def test_what_the_database_refuses_changes_nothing_and_is_no_doubt(shop, settlement, sql, verb, arguments, kind, said):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    before = shop.everything()
    given = dict(zip(("key", "values"), arguments, strict=False))
    with pytest.raises(kind, match=said), settlement.transaction("t") as tx:
        tx.call(getattr(sql, verb), table="item", **given)
    assert (shop.everything(), settlement.in_doubt(), settlement.residue()) == (before, [], [])


def test_a_text_key_is_the_row_that_is_written_so_and_no_other(file_shop, open_sql):
    file_shop.run(
        "CREATE TABLE person (name TEXT PRIMARY KEY COLLATE NOCASE, age INTEGER)",
        "INSERT INTO person VALUES ('Ada', 36)",
    )
    sql = open_sql(file_shop, tables=["person"])
    for refused in (lambda: sql.update("person", "ADA", {"age": 1}), lambda: sql.upsert("person", "ada", {"age": 1})):
        with pytest.raises(DatabaseRefused, match="it is written 'Ada'; write it so"):
            refused()
    assert file_shop.rows("person") == [("Ada", 36)]


@pytest.mark.parametrize(
    ("table", "kind", "key"),
    [
        ("daily", "DATE", "2026-12-01"),
        ("priced", "NUMERIC(8, 2)", "12.50"),
        ("timed", "TIMESTAMP", "2026-12-01T09:30:00"),
    ],
)
def test_a_key_that_is_no_text_finds_its_row_however_the_database_gives_it_back(shop, open_sql, table, kind, key):
    shop.run(f"CREATE TABLE {table} (at {kind} PRIMARY KEY, percent INTEGER)")
    sql = open_sql(shop, tables=[table])
    sql.insert(table, key, {"percent": 7})
    assert sql.update(table, key, {"percent": 8})["percent"] == sql.read(table, key)["percent"] == 8
    assert len(shop.rows(table)) == 1


def test_a_number_that_sqlite_keeps_as_no_value_is_refused_in_columns_with_and_without_a_type(file_shop, open_sql):
    file_shop.run("CREATE TABLE loose (id INTEGER PRIMARY KEY, real REAL, any)")
    sql = open_sql(file_shop, tables=["loose"])
    for column in ("real", "any"):
        with pytest.raises(ValueError, match=f"column {column} takes .* SQLite keeps it as no value at all"):
            sql.insert("loose", 1, {column: float("nan")})
    assert file_shop.rows("loose") == []


@pytest.mark.parametrize("key", [1, 1.0, True])
def test_one_row_of_a_key_without_a_type_has_one_scope_however_its_number_is_written(file_shop, open_sql, key):
    file_shop.run("CREATE TABLE loose (id, word TEXT, PRIMARY KEY (id))", "INSERT INTO loose VALUES (1, 'here')")
    sql = open_sql(file_shop, tables=["loose"])
    assert (sql.read("loose", key), sql.rows.scope("loose", key)) == (
        {"id": 1, "word": "here"},
        sql.rows.scope("loose", 1),
    )


def test_a_row_that_was_deleted_comes_back_into_a_table_with_another_column_by_then(file_shop, open_sql, settlement):
    sql = open_sql(file_shop)
    sql.insert("item", 1, {"name": "lamp"})
    (before,) = file_shop.rows("item")
    with pytest.raises(RuntimeError), settlement.transaction("t") as tx:
        tx.call(sql.delete, table="item", key=1)
        file_shop.run("ALTER TABLE item ADD COLUMN colour TEXT DEFAULT 'red'")
        raise RuntimeError
    assert settlement.residue() == []
    assert file_shop.rows("item") == [(*before, "red")]


def test_a_table_that_is_not_there_or_has_no_key_is_refused(shop, open_sql):
    sql = open_sql(shop, tables=["nothing", "nameless"])
    with pytest.raises(DatabaseRefused, match="there is no table nothing in .*: mend tables="):
        sql.read("nothing", 1)
    with pytest.raises(DatabaseRefused, match="nameless has no primary key"):
        sql.read("nameless", 1)
    with pytest.raises(ValueError, match="which is settlemark's own"):
        Sql(shop.url, tables=["settlemark_effects"])


def test_columns_that_were_added_meanwhile_are_noticed(file_shop, open_sql):
    sql = open_sql(file_shop)
    sql.insert("item", 1, {"name": "lamp"})
    file_shop.run("ALTER TABLE item ADD COLUMN colour TEXT DEFAULT 'red'")
    with pytest.raises(DatabaseRefused, match="the columns of item are not what they were .* call again"):
        sql.delete("item", 1)
    assert sql.delete("item", 1)["colour"] == "red"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://localhost/shop"])
def test_a_database_that_cannot_serve_is_refused_at_once(url):
    with pytest.raises(ValueError, match="in memory ends with its connection|is no database known here"):
        Sql(url)
