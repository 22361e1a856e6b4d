"""What is lost is asked about: a COMMIT without an answer is unknown, all else surely did nothing."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine
from tests.adapters.sql.conftest import QUICK
from tests.adapters.sql.shop import NAMES, Shop
from tests.adapters.sql.wire import Wire

from settlemark import Settlement
from settlemark.testing import die, in_child
from settlemark_adapters.sql import DatabaseUnavailable, OutcomeLost, Sql


class Boom(Exception):
    """The step fails."""


@pytest.fixture
def wired(postgres_shop, open_sql, settlement):
    """An adapter behind a wire, and the wire."""
    postgres_shop.empty()
    wire = Wire(postgres_shop.url)
    sql = open_sql(Shop(wire.url), settlement)
    sql.read("item", 1)
    sql.probe_change()  # the side table is there
    yield sql, wire
    sql.database.close()
    wire.close()


def test_a_commit_whose_answer_is_lost_is_asked_about_and_done_once(wired, postgres_shop, settlement):
    sql, wire = wired
    with settlement.transaction("monday") as tx:
        wire.lose()
        assert tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})["name"] == "lamp"
    assert [row[0] for row in postgres_shop.rows("item")] == [1]
    assert (settlement.residue(), settlement.in_doubt()) == ([], [])


def test_a_commit_that_did_not_arrive_is_asked_about_and_sent_again(wired, postgres_shop, settlement):
    sql, wire = wired
    with settlement.transaction("monday") as tx:
        wire.cut()
        assert tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})["name"] == "lamp"
    assert [row[0] for row in postgres_shop.rows("item")] == [1]


def test_an_undo_whose_answer_is_lost_is_repeated_and_changes_nothing_more(wired, postgres_shop, settlement):
    sql, wire = wired
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})
        wire.lose()
        raise Boom
    assert (postgres_shop.rows("item"), settlement.residue()) == ([], [])


def test_bare_it_says_that_the_outcome_is_unknown(wired, postgres_shop):
    sql, wire = wired
    wire.lose()
    with pytest.raises(OutcomeLost, match="whether it happened is unknown"):
        sql.insert("item", 1, {"name": "lamp"})
    assert len(postgres_shop.rows("item")) == 1


def test_a_connection_lost_before_the_commit_did_nothing_and_says_so(postgres_shop, open_sql):
    postgres_shop.empty()
    sql = open_sql(postgres_shop)
    apply = sql.rows.apply

    def cut_off(connection, change):
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        postgres_shop.run(f"SELECT pg_terminate_backend({pid})")
        return apply(connection, change)

    sql.rows.apply = cut_off
    with pytest.raises(DatabaseUnavailable, match="insert_row on .* did nothing"):
        sql.insert("item", 1, {"name": "lamp"})
    assert postgres_shop.rows("item") == []


def test_a_server_that_is_gone_did_nothing_and_the_failure_is_no_doubt(settlement, open_sql):
    sql = open_sql(Shop("postgresql+psycopg://ada:geheim@127.0.0.1:9/shop"), settlement)
    with pytest.raises(Exception, match="did nothing: .*refused") as refused, settlement.transaction("monday") as tx:
        tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})
    assert not isinstance(refused.value, ConnectionError)
    assert "geheim" not in str(refused.value) + repr(sql) + repr(sql.database)
    assert settlement.in_doubt() == []


def test_a_file_that_is_gone_did_nothing_and_is_not_made(tmp_path, settlement, open_sql):
    sql = open_sql(Shop(f"sqlite:///{tmp_path / 'none.db'}"), settlement)
    with pytest.raises(ValueError, match="there is no database at .*none.db"), settlement.transaction("monday") as tx:
        tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})
    with pytest.raises(DatabaseUnavailable):
        sql.read("item", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_file_did_nothing(file_shop, settlement):
    engine = create_engine(file_shop.url, connect_args={"timeout": 0})
    sql = Sql(engine, settlement, tables=NAMES)
    sql.read("item", 1)
    with file_shop.connection() as other:
        other.execute("UPDATE item SET stock = 0")
        with pytest.raises(DatabaseUnavailable, match="locked"), settlement.transaction("monday") as tx:
            tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})
    assert (file_shop.rows("item"), settlement.residue()) == ([], [])
    engine.dispose()


@pytest.mark.parametrize("isolation", ["AUTOCOMMIT", "SERIALIZABLE"])
def test_an_engine_of_the_users_own_is_used_as_it_is_and_writes_at_once_or_not_at_all(shop, settlement, isolation):
    engine = create_engine(shop.url, isolation_level=isolation)
    sql = Sql(engine, settlement, tables=NAMES)
    with pytest.raises(Boom), settlement.transaction("monday") as tx:
        tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})
        raise Boom
    with pytest.raises(ValueError, match="refused, and nothing was changed"):
        sql.insert("item", 1, {"name": None})
    assert (shop.rows("item"), shop.effects()) == ([], [("insert_row", True)])
    engine.dispose()


# ---- a process that dies


def calls(sql, tx):
    tx.call(sql.update, table="item", key=1, values={"stock": 2})
    tx.call(sql.insert, table="item", key=2, values={"name": "rug"})


@pytest.mark.parametrize("when", ["before COMMIT", "after COMMIT", "at the end"])
def test_a_process_killed_within_a_step_leaves_what_another_undoes(shop, tmp_path, when):
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    before = shop.everything()

    def play(_tell):
        settlement = Settlement(ledger, keep_open=0.0)
        sql = Sql(shop.url, settlement, tables=NAMES)
        commit, seen = sql.database._commit, []

        def deadly(connection, doing):
            seen.append(doing)
            if (when, seen) == ("before COMMIT", ["update_row", "insert_row"]):
                die()
            commit(connection, doing)
            if (when, seen) == ("after COMMIT", ["update_row", "insert_row"]):
                die()

        sql.database._commit = deadly
        with settlement.transaction("monday") as tx:
            calls(sql, tx)
            die()

    assert in_child(play).killed
    with Settlement(ledger, keep_open=0.0, retries=QUICK) as settlement:
        sql = Sql(shop.url, settlement, tables=NAMES)
        settlement.recover()
        assert shop.everything() == before
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])
        with settlement.transaction("monday") as tx:
            calls(sql, tx)
        assert [row[0::3] for row in shop.rows("item")] == [(1, 2), (2, 1)]
        sql.database.close()


def test_a_process_killed_while_it_undoes_is_finished_by_another(shop, tmp_path):
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    shop.run("INSERT INTO item VALUES (1, 'lamp', 9.50, 3)")
    before = shop.everything()

    def play(_tell):
        settlement = Settlement(ledger, keep_open=0.0)
        sql = Sql(shop.url, settlement, tables=NAMES)
        commit = sql.database._commit

        def deadly(connection, doing):
            commit(connection, doing)
            if doing == "undo":
                die()

        sql.database._commit = deadly
        with settlement.transaction("monday") as tx:
            calls(sql, tx)
            raise Boom

    assert in_child(play).killed
    with Settlement(ledger, keep_open=0.0, retries=QUICK) as settlement:
        sql = Sql(shop.url, settlement, tables=NAMES)
        settlement.recover()
        assert (shop.everything(), settlement.residue()) == (before, [])
        sql.database.close()


def test_a_process_killed_behind_its_commit_has_its_staged_rows_written_once_by_another(shop, tmp_path):
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"

    def play(_tell):
        settlement = Settlement(ledger, keep_open=0.0)
        sql = Sql(shop.url, settlement, tables=NAMES, staged=True)
        commit = sql.database._commit

        def deadly(connection, doing):
            commit(connection, doing)
            die()

        sql.database._commit = deadly
        with settlement.transaction("monday") as tx:
            tx.call(sql.insert, table="item", key=1, values={"name": "lamp"})
            tx.call(sql.insert, table="item", key=2, values={"name": "rug"})

    assert in_child(play).killed
    assert [row[0] for row in shop.rows("item")] == [1]
    with Settlement(ledger, keep_open=0.0, retries=QUICK) as settlement:
        sql = Sql(shop.url, settlement, tables=NAMES, staged=True)
        settlement.recover()
        assert [row[0] for row in shop.rows("item")] == [1, 2]
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])
        sql.database.close()
