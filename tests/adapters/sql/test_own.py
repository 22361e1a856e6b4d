"""The three ways of use: as tools, as declarations of functions of the user's own, and bare."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from tests.adapters.sql.shop import on_file

from settlemark import DeclarationError, Retries, Settlement, UsageError
from settlemark.hosting import declaration_of
from settlemark_adapters.sql import Statement


class Boom(Exception):
    """The step fails."""


CLOSE = Statement(
    "close_books",
    "UPDATE period SET closed = 1 WHERE id = :period",
    scope="period:/{period}",
    undo="UPDATE period SET closed = 0 WHERE id = :period",
)


@pytest.fixture
def sql(shop, settlement, open_sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)", "INSERT INTO period VALUES (7, 0)")
    return open_sql(shop, settlement, tables=["item"], statements=[CLOSE])


def rename(sql, result="renamed"):
    def rename_item(item: int, name: str) -> str:
        """Give an item another name."""
        sql.connection.exec_driver_sql(f"UPDATE item SET name = '{name}', stock = 9 WHERE id = {item}")
        return result

    return rename_item


@on_file
def test_as_tools_they_have_names_signatures_and_docstrings_for_a_model(sql):
    tools = {tool.__name__: tool for tool in sql.tools()}
    assert list(tools) == ["read_row", "insert_row", "update_row", "delete_row", "upsert_row", "query", "close_books"]
    assert list(inspect.signature(tools["update_row"]).parameters) == ["table", "key", "values"]
    assert all("\n\nArgs:\n    " in inspect.getdoc(tool) for tool in tools.values())


@on_file
def test_bare_it_acts_at_once(shop, sql):
    assert sql.update("item", 1, {"stock": 2})["stock"] == 2
    assert shop.rows("item")[0][3] == 2


@on_file
def test_two_of_a_kind_have_names_of_their_own(shop, settlement, open_sql, sql):
    other = open_sql(shop, settlement, name="crm")
    assert [declaration_of(tool).tool for tool in other.tools("read_row", "query")] == ["crm_read_row", "crm_query"]
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        tx.call(other.update, table="item", key=1, values={"stock": 2})
        raise Boom
    assert shop.rows("item")[0][3] == 3


def test_a_function_of_the_users_own_is_undone_as_the_tool_is(shop, settlement, sql):
    mine = sql.declare("update_row", rename(sql), key="item")
    assert (mine.__name__, str(inspect.signature(mine))) == ("rename_item", "(item: int, name: str) -> str")
    before = shop.everything()
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        assert tx.call(mine, item=1, name="lantern") == "renamed"
        assert [row[1::2] for row in shop.rows("item")] == [("lantern", 9)]
        raise Boom
    assert (shop.everything(), settlement.residue()) == (before, [])
    assert settlement.transactions()[0].effects[0].row.scope == f"row:/{sql.database.name}/item/1"


@on_file
async def test_an_async_one_too(shop, settlement, sql):
    act = rename(sql)

    async def rename_later(item: int, name: str) -> str:
        return act(item, name)

    mine = sql.declare("update_row", rename_later, key="item")
    before = shop.everything()
    with pytest.raises(Boom):
        async with settlement.transaction("t") as tx:
            assert await tx.call(mine, item=1, name="lantern") == "renamed"
            raise Boom
    assert shop.everything() == before


@on_file
async def test_async_ones_that_pause_take_turns_at_a_file_and_hold_up_no_event_loop(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (2, 'rug', 20, 3)")
    order = []

    async def pause_and_rename(item: int) -> None:
        sql.connection.exec_driver_sql(f"UPDATE item SET name = 'new' WHERE id = {item}")
        order.append("begins")
        for _ in range(9):
            await asyncio.sleep(0)
        order.append("ends")

    mine = sql.declare("update_row", pause_and_rename, key="item")

    async def step(item):
        async with settlement.transaction(f"t{item}") as tx:
            await tx.call(mine, item=item)

    await asyncio.gather(step(1), step(2))
    assert order == ["begins", "ends"] * 2
    assert [row[1] for row in shop.rows("item")] == ["new", "new"]


@pytest.mark.parametrize("answer", ["renamed", None, 0])
def test_when_its_answer_is_lost_it_is_asked_about_and_not_repeated(shop, settlement, sql, answer):
    mine = sql.declare("update_row", rename(sql, answer), key="item")
    commit, sent = sql.database._commit, []

    def lost(connection, doing):
        commit(connection, doing)
        if not sent:
            sent.append(doing)
            shop.run("UPDATE item SET price = 5")
            raise ConnectionError("the answer is lost")

    sql.database._commit = lost
    with settlement.transaction("t") as tx:
        tx.call(mine, item=1, name="lantern")
    assert [row[1] for row in shop.rows("item")] == ["lantern"]
    assert shop.effects() == [("update_row", False)]


@on_file
def test_one_for_a_statement_is_undone_by_the_statements_undo(shop, settlement, sql):
    def close(month: int) -> int:
        return sql.connection.exec_driver_sql(f"UPDATE period SET closed = 1 WHERE id = {month}").rowcount

    mine = sql.declare("close_books", close, period="month")
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        tx.call(mine, month=7)
        assert shop.rows("period") == [(7, 1)]
        raise Boom
    assert (shop.rows("period"), settlement.residue()) == ([(7, 0)], [])


@on_file
def test_one_that_fails_leaves_nothing(shop, settlement, sql):
    def fail(item: int) -> None:
        rename(sql)(item, "half")
        raise Boom

    mine = sql.declare("update_row", fail, key="item")
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        tx.call(mine, item=1)
    assert (shop.rows("item")[0][1], shop.effects()) == ("lamp", [])


@on_file
def test_one_that_acts_elsewhere_is_told_so(settlement, sql):
    mine = sql.declare("update_row", lambda key: None)
    with pytest.raises(UsageError, match="did nothing on sql.connection"), settlement.transaction("t") as tx:
        tx.call(mine, key=1)


@on_file
def test_outside_of_such_a_function_there_is_no_connection(sql):
    with pytest.raises(UsageError, match="there is no connection outside of a function declared with"):
        _ = sql.connection


@on_file
def test_one_without_the_arguments_that_the_declaration_needs_is_refused(sql):
    with pytest.raises(DeclarationError, match="key"):
        sql.declare("update_row", lambda item: None)


@on_file
def test_a_class_may_be_told_it_and_a_secret_is_not_recorded(shop, tmp_path, open_sql):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url, retries=Retries(first=0, most=0)) as settlement:
        told = {"insert_row": "irreversible", "update_row": {"redact": ("values.name", "name")}}
        sql = open_sql(shop, settlement, effects=told)
        with settlement.transaction("t") as tx:
            assert tx.call(sql.insert, table="item", key=1, values={"name": "lamp"}).outcome == "queued"
            assert shop.rows("item") == []
        with pytest.raises(Boom), settlement.transaction("u") as tx:
            tx.call(sql.update, table="item", key=1, values={"name": "geheim"})
            raise Boom
        assert "geheim" not in str(settlement.transactions())
    assert [row[1] for row in shop.rows("item")] == ["lamp"]
