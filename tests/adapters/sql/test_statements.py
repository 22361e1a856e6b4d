"""Statements with a declared scope, and invariants that are checked before a step commits."""

from __future__ import annotations

import inspect

import pytest
from tests.adapters.sql.shop import on_file

from settlemark import DeclarationError, ScopeError, Vetoed
from settlemark_adapters.sql import DatabaseRefused, Invariant, RowChanged, Sql, Statement


class Boom(Exception):
    """The step fails."""


CLOSE = Statement(
    "close_books",
    "UPDATE period SET closed = 1 WHERE id = :period AND closed = 0",
    scope="period:/{period}",
    undo="UPDATE period SET closed = 0 WHERE id = :period AND closed = 1",
    description="Close the books of a period.",
    parameters={"period": int},
)
CHEAP = Statement(
    "cheap_items",
    "SELECT id, price FROM item WHERE price < :most AND stock > 0 ORDER BY id",
    scope="row:/shop/item",
    kind="read",
)
RESTOCK = Statement(
    "restock", "UPDATE item SET stock = stock + :more", scope="row:/shop/item", parameters={"more": int}
)
BALANCED = Invariant(
    "SELECT entry, SUM(debit) AS debits, SUM(credit) AS credits FROM line WHERE entry = :entry"
    " GROUP BY entry HAVING SUM(debit) <> SUM(credit)",
    table="line",
)


@pytest.fixture
def sql(shop, settlement, open_sql):
    shop.run("INSERT INTO period VALUES (7, 0), (8, 1)", "INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    invariants = {"debits = credits": BALANCED}
    return open_sql(shop, settlement, statements=[CLOSE, CHEAP, RESTOCK], invariants=invariants)


# ---- statements


@on_file
def test_a_statement_is_a_tool_with_its_parameters_as_arguments(sql):
    close = sql.tool("close_books")
    assert str(inspect.signature(close)) == "(period: int) -> dict[str, typing.Any]"
    assert inspect.getdoc(close).startswith("Close the books of a period.\n\nArgs:\n    period: ")
    kinds = {d.tool: d.kind.value for d in sql.declarations()}
    assert kinds["close_books"] == "reversible"
    assert kinds["restock"] == "irreversible"
    assert "cheap_items" not in kinds


def test_it_touches_the_scope_that_it_declares_and_answers_with_how_many_rows_it_changed(shop, settlement, sql):
    with settlement.transaction("t") as tx:
        assert tx.call(sql.tool("close_books"), period=7) == {"rows": 1}
    assert settlement.transactions()[0].effects[0].row.scope == "period:/7"
    assert shop.rows("period") == [(7, 1), (8, 1)]


def test_it_is_undone_by_its_undo(shop, settlement, sql):
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        tx.call(sql.tool("close_books"), period=7)
        raise Boom
    assert (shop.rows("period"), settlement.residue()) == ([(7, 0), (8, 1)], [])


@on_file
def test_its_undo_changes_as_many_rows_as_it_did_or_none(shop, settlement, sql):
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        assert tx.call(sql.tool("close_books"), period=8) == {"rows": 0}
        raise Boom
    assert shop.rows("period") == [(7, 0), (8, 1)]
    assert "the undo of close_books would change 1 rows, and close_books changed 0" in settlement.residue()[0].note


@on_file
def test_one_without_an_undo_is_held_until_its_step_settles(shop, settlement, sql):
    with settlement.transaction("t") as tx:
        queued = tx.call(sql.tool("restock"), more=5)
        assert shop.rows("item")[0][3] == 3
    assert (queued.result(), shop.rows("item")[0][3]) == ({"rows": 1}, 8)


def test_one_that_reads_is_called_through_query_with_bound_parameters(shop, settlement, sql):
    with settlement.transaction("t") as tx:
        found = tx.call(sql.query, statement="cheap_items", parameters={"most": 10})
    assert [row["id"] for row in found] == [1]
    assert [float(row["price"]) for row in found] == [9.5]


@on_file
@pytest.mark.parametrize(
    ("statement", "parameters", "said"),
    [
        ("close_books", {"period": 7}, None),
        ("nothing", {}, "there is no statement 'nothing': those that read are cheap_items"),
        ("cheap_items", {}, "cheap_items takes most, and not none"),
        ("cheap_items", {"most": 1, "x": 2}, "cheap_items takes most, and not most, x"),
        ("cheap_items", {"most": [1]}, "most of cheap_items is a text, number or truth value, and not [1]"),
    ],
)
def test_a_query_of_anything_else_is_refused_and_nothing_changed(shop, settlement, sql, statement, parameters, said):
    before = shop.everything()
    kind = (DatabaseRefused, ScopeError) if said else Exception
    with pytest.raises(kind) as refused, settlement.transaction("t") as tx:
        tx.call(sql.query, statement=statement, parameters=parameters)
    assert (said or "") in str(refused.value)
    assert shop.everything() == before


def test_a_statement_that_reads_cannot_write(shop, settlement, open_sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    sly = Statement("sly", "UPDATE item SET stock = 0 RETURNING id", scope="row:/shop/item", kind="read")
    sql = open_sql(shop, settlement, statements=[sly], effects={"query": {"live": None}})
    with pytest.raises(DatabaseRefused, match="nothing was changed: .*(read-only|readonly)"):
        sql.query("sly")
    assert shop.rows("item")[0][3] == 3
    sql.insert("item", 2, {"name": "rug"})


def test_a_statement_that_names_no_column_is_refused_and_not_taken_for_a_database_that_is_away(shop, open_sql):
    typo = Statement("typo", "SELECT prize FROM item", scope="row:/shop/item", kind="read")
    with pytest.raises(DatabaseRefused, match="prize"):
        open_sql(shop, statements=[typo]).query("typo")


@pytest.mark.parametrize("value", ["7; DROP TABLE period", "x' OR '1'='1"])
def test_what_looks_like_sql_is_a_value(file_shop, open_sql, value):
    statement = Statement("named", "SELECT id FROM item WHERE name = :name", scope="row:/shop/item", kind="read")
    sql = open_sql(file_shop, statements=[statement])
    sql.insert("item", 1, {"name": value})
    assert sql.query("named", {"name": value}) == [{"id": 1}]
    with pytest.raises(ValueError, match="period of close_books is int"):
        open_sql(file_shop, statements=[CLOSE]).tool("close_books")(period=value)
    assert file_shop.rows("period") == []


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            {"scope": "period:/{month}"},
            "scope= of close uses 'month', which its statement does not take: it takes period",
        ),
        ({"undo": "UPDATE period SET closed = :was"}, "undo= of close uses 'was'"),
        (
            {"undo": "UPDATE period SET closed = 0", "kind": "irreversible"},
            "close is irreversible, which is never undone",
        ),
        ({"name": "close books"}, "'close books' is no name of a tool"),
        ({"parameters": {"day": int}}, "parameters= of close uses 'day'"),
    ],
)
def test_a_statement_that_contradicts_itself_is_refused(parts, said):
    given = {"name": "close", "sql": "UPDATE period SET closed = 1 WHERE id = :period", "scope": "period:/{period}"}
    with pytest.raises(DeclarationError) as refused:
        Statement(**{**given, **parts})
    assert said in str(refused.value)


def test_a_statement_called_as_a_tool_for_rows_is_refused(file_shop):
    with pytest.raises(DeclarationError, match="a statement is called insert_row"):
        Sql(file_shop.url, statements=[Statement("insert_row", "UPDATE period SET closed = 1", scope="period:/all")])


# ---- invariants: a journal entry's debits are its credits


def post(sql, tx, entry, *lines):
    tx.call(sql.insert, table="entry", key=entry, values={"memo": f"entry {entry}", "period": 7})
    for number, (account, debit, credit) in enumerate(lines, 1):
        key = {"entry": entry, "number": number}
        tx.call(sql.insert, table="line", key=key, values={"account": account, "debit": debit, "credit": credit})


SALE = (("cash", 119, 0), ("sales", 0, 100), ("tax", 0, 19))


def balances(shop):
    with shop.connection() as connection:
        return connection.execute("SELECT SUM(debit) - SUM(credit) FROM line").fetchone()[0]


@pytest.mark.parametrize("staged", [False, True])
def test_a_journal_entry_whose_debits_are_its_credits_is_kept(shop, settlement, open_sql, sql, staged):
    if staged:
        sql = open_sql(shop, settlement, name="later", staged=True, invariants={"debits = credits": BALANCED})
    with settlement.transaction("sale", before_commit=[sql.invariants]) as tx:
        post(sql, tx, 1, *SALE)
    assert (len(shop.rows("line")), balances(shop)) == (3, 0)


@pytest.mark.parametrize("staged", [False, True])
def test_one_whose_debits_are_not_its_credits_is_vetoed_and_undone_and_the_books_stay_balanced(
    shop, settlement, open_sql, sql, staged
):
    if staged:
        sql = open_sql(shop, settlement, name="later", staged=True, invariants={"debits = credits": BALANCED})
    with settlement.transaction("sale", before_commit=[sql.invariants]) as tx:
        post(sql, tx, 1, *SALE)
    before = shop.everything()
    with pytest.raises(Vetoed) as vetoed, settlement.transaction("slip", before_commit=[sql.invariants]) as tx:
        post(sql, tx, 2, ("cash", 119, 0), ("sales", 0, 100))
    assert "debits = credits does not hold: entry 2, debits 119, credits 100" in str(vetoed.value)
    assert (shop.everything(), balances(shop), settlement.residue()) == (before, 0, [])


def test_a_line_taken_out_of_a_kept_entry_is_vetoed_too(shop, settlement, sql):
    with settlement.transaction("sale", before_commit=[sql.invariants]) as tx:
        post(sql, tx, 1, *SALE)
    with pytest.raises(Vetoed, match="entry 1, debits 119, credits 100"):
        with settlement.transaction("slip", before_commit=[sql.invariants]) as tx:
            tx.call(sql.delete, table="line", key={"entry": 1, "number": 3})
    assert balances(shop) == 0


def test_what_others_have_half_done_is_no_reason_for_a_veto(shop, settlement, sql):
    with pytest.raises(Boom), settlement.transaction("slow") as slow:
        post(sql, slow, 1, ("cash", 119, 0))
        with settlement.transaction("quick", before_commit=[sql.invariants]) as quick:
            post(sql, quick, 2, *SALE)
        raise Boom
    assert (balances(shop), [row[0] for row in shop.rows("entry")]) == (0, [2])


def test_an_invariant_may_be_a_function_or_a_select_of_what_breaks_it(shop, settlement, open_sql):
    seen = []

    def enough(connection):
        seen.append(connection.exec_driver_sql("SELECT SUM(stock) FROM item").scalar())
        return seen[-1] >= 0 or f"{-seen[-1]} too few"

    invariants = {"stock is enough": enough, "no free item": "SELECT id FROM item WHERE price = 0"}
    sql = open_sql(shop, settlement, invariants=invariants)

    def step(name, **values):
        with settlement.transaction(name, before_commit=[sql.invariants]) as tx:
            tx.call(sql.upsert, table="item", key=1, values={"name": "lamp", **values})

    step("a", stock=2)
    with pytest.raises(Vetoed, match="stock is enough does not hold: 3 too few"):
        step("b", stock=-3)
    with pytest.raises(Vetoed, match="no free item does not hold: id 1"):
        step("c", price=0)
    assert (seen, shop.rows("item")[0][3]) == ([2, -3, 2], 2)


def test_a_statements_undo_has_an_error_of_its_own(file_shop, open_sql, monkeypatch):
    file_shop.run("INSERT INTO period VALUES (7, 0)")
    sql = open_sql(file_shop, statements=[CLOSE])
    monkeypatch.setattr(type(sql), "key", "k1")
    sql.tool("close_books")(7)
    file_shop.run("UPDATE period SET closed = 2")
    with pytest.raises(RowChanged, match="mend period:/7 by hand"):
        sql.undo_change()
    assert file_shop.rows("period") == [(7, 2)]
