"""Rows by primary key: changed at once, and put back from a snapshot when the step fails, if they are still ours."""

from __future__ import annotations

import pickle
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.sql.shop import on_file
from tests.extent import examples

from settlemark import KeyConflict, Settlement, Stale, Tag
from settlemark.testing import in_child
from settlemark_adapters.sql import DatabaseRefused, KeyReused, RowChanged


class Boom(Exception):
    """The step fails."""


def kept(settlement, name, *calls):
    with settlement.transaction(name) as tx:
        return [tx.call(tool, **arguments) for tool, arguments in calls]


def failed(settlement, name, *calls):
    with pytest.raises(Boom), settlement.transaction(name) as tx:
        for tool, arguments in calls:
            tx.call(tool, **arguments)
        raise Boom


def test_rows_are_inserted_updated_upserted_and_deleted_by_primary_key(shop, settlement, sql):
    lamp = {"table": "item", "key": 1}
    answers = kept(
        settlement,
        "monday",
        (sql.insert, {**lamp, "values": {"name": "lamp", "stock": 3}}),
        (sql.update, {**lamp, "values": {"stock": 2}}),
        (sql.upsert, {**lamp, "values": {"stock": 5}}),
        (sql.upsert, {"table": "item", "key": 2, "values": {"name": "rug"}}),
        (sql.read, lamp),
        (sql.delete, lamp),
        (sql.read, lamp),
    )
    assert answers == [
        {"id": 1, "name": "lamp", "price": None, "stock": 3},
        {"id": 1, "name": "lamp", "price": None, "stock": 2},
        {"id": 1, "name": "lamp", "price": None, "stock": 5},
        {"id": 2, "name": "rug", "price": None, "stock": 1},
        {"id": 1, "name": "lamp", "price": None, "stock": 5},
        {"id": 1, "name": "lamp", "price": None, "stock": 5},
        None,
    ]
    assert shop.rows("item") == [(2, "rug", None, 1)]
    assert settlement.residue() == []


def test_a_failed_step_leaves_every_row_as_it_was(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3), (2, 'rug', 80, 1)")
    before = shop.everything()
    failed(
        settlement,
        "monday",
        (sql.update, {"table": "item", "key": 1, "values": {"stock": 2}}),
        (sql.update, {"table": "item", "key": 1, "values": {"name": "lantern", "price": "10.25"}}),
        (sql.delete, {"table": "item", "key": 2}),
        (sql.insert, {"table": "item", "key": 3, "values": {"name": "pot"}}),
        (sql.upsert, {"table": "seat", "key": {"room": "hall", "number": 1}, "values": {"guest": "Ada"}}),
        (sql.upsert, {"table": "seat", "key": {"room": "hall", "number": 1}, "values": {"guest": "Bob"}}),
    )
    assert shop.everything() == before
    assert settlement.residue() == []
    assert {undone for _, undone in shop.effects()} == {True}


@pytest.mark.parametrize("meddle", ["changed", "deleted"])
def test_a_row_that_another_has_changed_since_is_not_touched_but_named(shop, settlement, sql, meddle):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    theirs = "UPDATE item SET stock = 40" if meddle == "changed" else "DELETE FROM item"
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.update, table="item", key=1, values={"stock": 2})
        shop.run(theirs)
        raise Boom
    assert [row[3] for row in shop.rows("item")] == ([40] if meddle == "changed" else [])
    (left,) = settlement.residue()
    what = "was changed by another" if meddle == "changed" else "is gone"
    assert left.tag is Tag.UNRESOLVED
    assert f"RowChanged: row 1 of item {what} since, so it was not put back as it was: mend row:/" in left.note


def test_a_deleted_row_that_somebody_has_put_there_again_stays_theirs(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.delete, table="item", key=1)
        shop.run("INSERT INTO item VALUES (1, 'theirs', NULL, 7)")
        raise Boom
    assert [row[1] for row in shop.rows("item")] == ["theirs"]
    assert "row 1 of item is there again since" in settlement.residue()[0].note


def test_a_row_that_others_refer_to_by_now_is_not_taken_away_with_them(shop, settlement, sql):
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.insert, table="parent", key=1, values={})
        shop.run("INSERT INTO child (id, parent) VALUES (5, 1)")
        raise Boom
    assert (shop.rows("parent"), shop.rows("child")) == ([(1, None)], [(5, 1, None)])
    assert "rows of child refer to row 1 of parent" in settlement.residue()[0].note


@on_file
def test_what_changed_columns_that_we_left_alone_is_another_change_too(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.update, table="item", key=1, values={"stock": 2})
        shop.run("UPDATE item SET name = 'theirs'")
        raise Boom
    assert [row[1::2] for row in shop.rows("item")] == [("theirs", 2)]


def test_an_undo_that_is_repeated_changes_nothing_more(shop, open_sql, monkeypatch):
    sql = open_sql(shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    sql.insert("item", 1, {"name": "lamp"})
    sql.undo_change()
    shop.run("INSERT INTO item VALUES (1, 'theirs', NULL, 7)")
    sql.undo_change()
    assert [row[1] for row in shop.rows("item")] == ["theirs"]


def test_a_call_that_is_sent_again_under_its_key_answers_with_the_first_result_and_does_nothing(
    shop, open_sql, monkeypatch
):
    sql = open_sql(shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    first = sql.insert("item", 1, {"name": "lamp"})
    shop.run("UPDATE item SET stock = 40")
    assert sql.insert("item", 1, {"name": "lamp"}) == first
    assert sql.probe_change() == first
    assert [row[3] for row in shop.rows("item")] == [40]


@on_file
def test_a_key_that_was_used_for_something_else_is_refused_and_nothing_changed(shop, open_sql, monkeypatch):
    sql = open_sql(shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    sql.insert("item", 1, {"name": "lamp"})
    with pytest.raises(KeyReused, match="was used before for insert_row"):
        sql.insert("item", 2, {"name": "rug"})
    assert [row[0] for row in shop.rows("item")] == [1]


def test_what_was_done_under_a_key_that_the_ledger_does_not_know_is_not_taken_for_its_own(shop, tmp_path, open_sql):
    def insert(url, key):
        with Settlement(url) as settlement, settlement.transaction("t") as tx:
            tx.call(open_sql(shop, settlement).insert, table="item", key=key, values={"name": "lamp"})

    insert(f"sqlite:///{tmp_path}/one.db", 1)
    for key in (1, 2):
        with pytest.raises(KeyConflict, match="another ledger"):
            insert(f"sqlite:///{tmp_path}/two.db", key)
    assert [row[0] for row in shop.rows("item")] == [1]


@on_file
@pytest.mark.usefixtures("whole_keys")
def test_a_ledger_in_memory_begins_anew_in_each_process(shop, open_sql):
    def insert(key):
        with Settlement("memory:") as settlement, settlement.transaction("t") as tx:
            tx.call(open_sql(shop, settlement).insert, table="item", key=key, values={"name": "lamp"})

    assert [in_child(lambda tell, key=key: insert(key)).error for key in (1, 2)] == [None, None]
    assert [row[0] for row in shop.rows("item")] == [1, 2]


@on_file
def test_an_act_that_comes_after_its_undo_is_refused_and_nothing_changed(shop, open_sql, monkeypatch):
    sql = open_sql(shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    assert sql.probe_change() is None
    sql.undo_change()
    with pytest.raises(KeyReused, match="was undone"):
        sql.insert("item", 1, {"name": "lamp"})
    assert (shop.rows("item"), sql.probe_change()) == ([], None)


@on_file
def test_a_probe_leaves_nothing_so_that_what_it_asked_about_may_still_be_done(shop, open_sql, monkeypatch):
    sql = open_sql(shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    assert sql.probe_change() is None
    first = sql.insert("item", 1, {"name": "lamp"})
    assert (first["name"], sql.probe_change()) == ("lamp", first)


def test_a_probe_waits_for_whoever_is_still_acting_under_the_key(shop, open_sql, monkeypatch):
    sql = open_sql(shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    sql.read("item", 1)
    apply, acting, told = sql.rows.apply, threading.Event(), []

    def slowly(connection, change):
        acting.set()
        asking.join(0.2)  # it cannot answer before this transaction has ended
        told.append(asking.is_alive())
        return apply(connection, change)

    monkeypatch.setattr(sql.rows, "apply", slowly)
    asking = threading.Thread(target=lambda: (acting.wait(), told.append(sql.probe_change())))
    asking.start()
    done = sql.insert("item", 1, {"name": "lamp"})
    asking.join()
    assert told == [True, done]


def test_a_row_changed_behind_its_back_makes_a_plan_stale(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    with pytest.raises(Stale), settlement.transaction("monday") as tx:
        tx.call(sql.read, table="item", key=1)
        shop.run("UPDATE item SET stock = 0")
        tx.call(sql.insert, table="item", key=2, values={"name": "rug"})
    assert [row[::3] for row in shop.rows("item")] == [(1, 0)]


def test_ten_steps_that_add_one_to_one_row_add_ten(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 0)")

    def add(tx):
        stock = tx.call(sql.read, table="item", key=1)["stock"]
        tx.call(sql.update, table="item", key=1, values={"stock": stock + 1})

    threads = [threading.Thread(target=settlement.run, args=(f"add-{n}", add)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shop.rows("item")[0][3] == 10


@on_file
def test_one_row_has_one_scope_however_its_key_is_written(shop, sql):
    database = sql.database.name
    scopes = {sql.rows.scope("item", key) for key in (7, {"id": 7})}
    assert scopes == {f"row:/{database}/item/7"}
    assert sql.rows.scope("seat", {"number": 3, "room": "a/b"}) == f"row:/{database}/seat/a%2Fb/3"


def test_a_change_that_would_spread_to_other_rows_is_refused_and_nothing_changed(shop, settlement, sql):
    shop.run("INSERT INTO parent VALUES (1, 10), (2, 20)", "INSERT INTO child VALUES (5, 1, 20)")
    before = shop.everything()
    for call in (
        (sql.delete, {"table": "parent", "key": 1}),
        (sql.update, {"table": "parent", "key": 2, "values": {"code": 21}}),
    ):
        with pytest.raises(DatabaseRefused, match="rows of child refer to row . of parent and would change with it"):
            kept(settlement, "t", call)
    assert shop.everything() == before
    kept(settlement, "t2", (sql.update, {"table": "parent", "key": 1, "values": {"code": 11}}))
    assert shop.rows("parent") == [(1, 11), (2, 20)]


@pytest.fixture
def note(shop):
    """A table whose rows go along with those of `parent`, as a rule says."""
    made = []

    def make(rule):
        made.append(rule)
        shop.run(
            "INSERT INTO parent VALUES (0, 0)",
            "INSERT INTO parent VALUES (1, 10)",
            "CREATE TABLE note (id INTEGER PRIMARY KEY,"
            f" parent INTEGER DEFAULT 0 REFERENCES parent (id) ON DELETE {rule},"
            f" code INTEGER DEFAULT 0 REFERENCES parent (code) ON UPDATE {rule})",
            "INSERT INTO note VALUES (1, 1, 10)",
        )

    yield make
    if made:
        shop.run("DROP TABLE note")


@pytest.mark.parametrize("rule", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_whatever_rule_makes_a_change_spread_it_is_refused_and_nothing_changed(shop, settlement, sql, note, rule):
    note(rule)
    for tool, more in ((sql.delete, {}), (sql.update, {"values": {"code": 11}})):
        with pytest.raises(DatabaseRefused, match=rf"rows of note refer to row 1 of parent .* \({rule}\)"):
            kept(settlement, "t", (tool, {"table": "parent", "key": 1, **more}))
    assert (shop.rows("parent"), shop.rows("note")) == ([(0, 0), (1, 10)], [(1, 1, 10)])


@on_file
@pytest.mark.parametrize("columns", [("id", "code"), ("code", "id")])
def test_each_foreign_key_of_a_table_is_looked_at_not_only_those_before_one_of_another_column(
    shop, settlement, sql, columns
):
    keys = ", ".join(f"its_{name} INTEGER REFERENCES parent ({name}) ON UPDATE CASCADE" for name in columns)
    shop.run(
        "INSERT INTO parent VALUES (1, 10)",
        f"CREATE TABLE note (key INTEGER PRIMARY KEY, {keys})",
        "INSERT INTO note (key, its_code) VALUES (1, 10)",
    )
    with pytest.raises(DatabaseRefused, match="rows of note refer to row 1 of parent"):
        kept(settlement, "t", (sql.update, {"table": "parent", "key": 1, "values": {"code": 11}}))
    assert shop.rows("parent") == [(1, 10)]


def test_an_update_that_others_refer_to_by_now_is_not_put_back_through_them(shop, settlement, sql):
    shop.run("INSERT INTO parent VALUES (1, 10)")
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.update, table="parent", key=1, values={"code": 11})
        shop.run("INSERT INTO child VALUES (5, NULL, 11)")
        raise Boom
    assert (shop.rows("parent"), shop.rows("child")) == ([(1, 11)], [(5, None, 11)])
    (left,) = settlement.residue()
    assert (left.tag, "rows of child refer to row 1 of parent" in left.note) == (Tag.UNRESOLVED, True)


def until_somebody_waits_for_a_row(shop):
    """Return when somebody waits for what another has not committed yet."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while True:
        with shop.connection() as looking:
            if looking.execute(waits).fetchone() == (1,):
                break


def test_what_another_was_just_writing_is_what_an_undo_puts_back(postgres_shop, settlement, open_sql):
    postgres_shop.empty()
    postgres_shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    sql = open_sql(postgres_shop, settlement)

    def step():
        failed(settlement, "monday", (sql.update, {"table": "item", "key": 1, "values": {"stock": 2}}))

    acting = threading.Thread(target=step)
    with postgres_shop.connection() as theirs:
        theirs.execute("UPDATE item SET stock = 9")
        acting.start()
        until_somebody_waits_for_a_row(postgres_shop)
    acting.join(30)
    assert ([row[3] for row in postgres_shop.rows("item")], settlement.residue()) == ([9], [])


def test_what_another_is_just_writing_is_not_overwritten_by_an_undo(postgres_shop, settlement, open_sql):
    postgres_shop.empty()
    postgres_shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    sql = open_sql(postgres_shop, settlement)
    ours, theirs_is_open = threading.Event(), threading.Event()

    def step():
        with pytest.raises(Boom), settlement.transaction("monday") as tx:
            tx.call(sql.update, table="item", key=1, values={"stock": 2})
            ours.set()
            assert theirs_is_open.wait(30)
            raise Boom

    acting = threading.Thread(target=step)
    acting.start()
    assert ours.wait(30)
    with postgres_shop.connection() as theirs:
        theirs.execute("UPDATE item SET stock = 9")
        theirs_is_open.set()
        until_somebody_waits_for_a_row(postgres_shop)
    acting.join(30)
    (left,) = settlement.residue()
    assert ([row[3] for row in postgres_shop.rows("item")], left.tag) == ([9], Tag.UNRESOLVED)


def test_so_is_one_by_a_foreign_key_that_was_made_meanwhile(shop, settlement, open_sql, sql):
    shop.run("INSERT INTO entry VALUES (1, 'one', 1)", "INSERT INTO entry VALUES (2, 'two', 1)")
    sql.delete("entry", 1)
    shop.run("CREATE TABLE note (id INTEGER PRIMARY KEY, entry INTEGER REFERENCES entry (id) ON DELETE CASCADE)")
    try:
        shop.run("INSERT INTO note VALUES (1, 2)")
        with pytest.raises(DatabaseRefused, match="rows of note refer to"), settlement.transaction("t") as tx:
            tx.call(sql.delete, table="entry", key=2)
        assert (shop.rows("note", "1"), [row[0] for row in shop.rows("entry")]) == ([(1, 2)], [2])
    finally:
        shop.run("DROP TABLE note")


def test_an_undo_refuses_by_an_error_of_its_own(file_shop, open_sql, monkeypatch):
    sql = open_sql(file_shop)
    monkeypatch.setattr(type(sql), "key", "k1")
    sql.insert("item", 1, {"name": "lamp"})
    file_shop.run("UPDATE item SET stock = 40")
    with pytest.raises(RowChanged) as refused:
        sql.undo_change()
    assert (refused.value.scope, refused.value.found["stock"], refused.value.left["stock"]) == (
        "row:/shop/item/1",
        40,
        1,
    )


def test_what_was_done_long_ago_may_be_forgotten(shop, settlement, sql):
    kept(settlement, "monday", (sql.insert, {"table": "item", "key": 1, "values": {"name": "lamp"}}))
    assert (sql.prune(days=30), shop.effects()) == (0, [("insert_row", False)])
    shop.run("UPDATE settlemark_effects SET at = '2020-01-01 00:00:00'")
    assert (sql.prune(days=30), shop.effects()) == (1, [])


def test_its_errors_survive_pickle():
    error = pickle.loads(pickle.dumps(RowChanged("changed", scope="row:/shop/item/1", found={"stock": 1})))
    assert (str(error), error.scope, error.left, error.found) == ("changed", "row:/shop/item/1", None, {"stock": 1})


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "delete", "upsert"]),
        st.integers(1, 3),
        st.dictionaries(
            st.sampled_from(["name", "price", "stock"]),
            st.none() | st.integers(-5, 5),
            min_size=1,
        ),
    ),
    max_size=6,
)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=CALLS, fails=st.booleans())
def test_whatever_is_called_it_is_all_or_nothing(file_shop, settlement, open_sql, calls, fails):
    sql = open_sql(file_shop, settlement)
    file_shop.run("DELETE FROM item", "INSERT INTO item VALUES (1, 'lamp', 9.5, 3), (2, 'rug', 80, 1)")
    before = model = {
        row[0]: dict(zip(("id", "name", "price", "stock"), row, strict=True)) for row in file_shop.rows("item")
    }
    model = {key: dict(row) for key, row in before.items()}
    name = f"t-{id(calls)}-{len(settlement.transactions())}"
    try:
        with settlement.transaction(name) as tx:
            for verb, key, values in calls:
                written = {n: str(v) if n == "name" and v is not None else v for n, v in values.items()}
                arguments = {"table": "item", "key": key} | ({} if verb == "delete" else {"values": written})
                refused = (
                    (verb == "insert" and key in model)
                    or (verb in ("update", "delete") and key not in model)
                    or (verb != "delete" and {"id": key, "name": None, **model.get(key, {}), **written}["name"] is None)
                )
                if refused:
                    with pytest.raises((LookupError, ValueError)):
                        tx.call(getattr(sql, verb), **arguments)
                elif verb == "delete":
                    assert tx.call(sql.delete, **arguments) == model.pop(key)
                else:
                    blank = {"id": key, "name": None, "price": None, "stock": 1}
                    model[key] = {**model.get(key, blank), **written}
                    assert tx.call(getattr(sql, verb), **arguments) == model[key]
            if fails:
                raise Boom
    except Boom:
        model = before
    found = {row[0]: dict(zip(("id", "name", "price", "stock"), row, strict=True)) for row in file_shop.rows("item")}
    assert (found, settlement.residue()) == (model, [])


def test_two_steps_on_one_row_settle_in_one_order_and_on_two_rows_do_not_wait(shop, settlement, sql):
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3), (2, 'rug', 80, 1)")
    with settlement.transaction("older") as older, settlement.transaction("other") as other:
        older.call(sql.update, table="item", key=1, values={"stock": 2})
        other.call(sql.update, table="item", key=2, values={"stock": 9})
    assert [row[3] for row in shop.rows("item")] == [2, 9]
