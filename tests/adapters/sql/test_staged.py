"""Staged changes wait for the commit; their own step sees them, and nobody else."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa
from sqlalchemy import make_url
from tests.adapters.sql.shop import on_file

from settlemark_adapters.sql import DatabaseRefused, Statement


class Boom(Exception):
    """The step fails."""


TOTAL = Statement("total", "SELECT SUM(stock) AS total FROM item", scope="row:/shop/item", kind="read")


@pytest.fixture
def sql(shop, settlement, open_sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    return open_sql(shop, settlement, staged=True, statements=[TOTAL])


def change(sql, tx):
    tx.call(sql.update, table="item", key=1, values={"stock": 2})
    tx.call(sql.upsert, table="item", key=1, values={"name": "lantern"})
    tx.call(sql.insert, table="item", key=2, values={"name": "rug"})
    tx.call(sql.delete, table="item", key=2)
    tx.call(sql.insert, table="item", key=3, values={"name": "pot"})


def test_rows_are_written_when_the_step_commits(shop, settlement, sql):
    with settlement.transaction("t") as tx:
        change(sql, tx)
        assert [row[1] for row in shop.rows("item")] == ["lamp"]
    assert [row[1::2] for row in shop.rows("item")] == [("lantern", 2), ("pot", 1)]


def test_its_own_reads_see_what_is_staged_and_those_of_others_do_not(shop, settlement, sql):
    before = shop.everything()
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        change(sql, tx)
        assert tx.call(sql.read, table="item", key=1)["name"] == "lantern"
        assert tx.call(sql.read, table="item", key=2) is None
        assert tx.call(sql.read, table="item", key=3) == {"id": 3, "name": "pot", "price": None, "stock": 1}
        assert tx.call(sql.query, statement="total") == [{"total": 3}]
        assert sql.read("item", 1)["name"] == "lamp"
        raise Boom
    assert shop.everything() == before
    assert sql.query("total") == [{"total": 3}]


@on_file
def test_a_step_that_fails_drops_them(shop, settlement, sql):
    before = shop.everything()
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        change(sql, tx)
        raise Boom
    assert (shop.everything(), settlement.residue()) == (before, [])


@pytest.mark.parametrize(
    ("verb", "arguments", "said"),
    [
        ("insert", {"key": 2, "values": {"name": "again"}}, "there is a row 2 of item already"),
        ("update", {"key": 9, "values": {"name": "x"}}, "there is no row 9 of item"),
        ("insert", {"key": 4, "values": {"name": None}}, "was refused, and nothing was changed"),
    ],
)
def test_what_cannot_be_done_is_refused_when_it_is_asked_for_and_not_at_the_commit(
    shop, settlement, sql, verb, arguments, said
):
    with settlement.transaction("t") as tx:
        tx.call(sql.insert, table="item", key=2, values={"name": "rug"})
        with pytest.raises((DatabaseRefused, LookupError), match=said):
            tx.call(getattr(sql, verb), table="item", **arguments)
    assert [row[0] for row in shop.rows("item")] == [1, 2]


@on_file
def test_nobody_else_writes_between_the_look_and_the_write_of_a_call_that_is_tried(shop, settlement, sql):
    others = []

    def write_too(_connection, _cursor, statement, *_):
        if statement.startswith("UPDATE item"):
            try:
                other = sqlite3.connect(make_url(shop.url).database, timeout=0, isolation_level=None)
                with closing(other):
                    other.execute("BEGIN IMMEDIATE")
                others.append("was let in")
            except sqlite3.OperationalError as error:
                others.append(str(error))

    sa.event.listen(sql.database.engine, "before_cursor_execute", write_too)
    with settlement.transaction("t") as tx:
        tx.call(sql.update, table="item", key=1, values={"stock": 2})
        assert others == ["database is locked"]


@on_file
def test_what_an_outsider_took_meanwhile_is_refused_at_the_commit_and_nothing_of_the_step_stays(shop, settlement, sql):
    with pytest.raises(Exception, match="there is a row 2 of item already"), settlement.transaction("t") as tx:
        tx.call(sql.insert, table="item", key=2, values={"name": "rug"})
        shop.run("INSERT INTO item VALUES (2, 'theirs', NULL, 7)")
    assert [row[1] for row in shop.rows("item")] == ["lamp", "theirs"]


@on_file
def test_two_adapters_of_one_database_stage_each_its_own(shop, settlement, open_sql, sql):
    other = open_sql(shop, settlement, name="other", staged=True)
    with settlement.transaction("t") as tx:
        tx.call(sql.update, table="item", key=1, values={"stock": 2})
        tx.call(other.update, table="item", key=1, values={"name": "theirs"})
        assert tx.call(other.read, table="item", key=1)["stock"] == 3
        assert tx.call(sql.read, table="item", key=1)["name"] == "lamp"
    assert [row[1::2] for row in shop.rows("item")] == [("theirs", 2)]
