"""Fields that a tool's own declaration takes out: of its ledger rows, errors and logs, and of no other tool's."""

from __future__ import annotations

import json
import logging

import pytest
import sqlalchemy as sa
from tests.rooms.model import decode

from settlemark import KeyConflict, Settlement, UsageError, effect

SECRET = "4242-4242-4242-4242"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'pay.db'}"


def everything(url):
    """All that the store holds, as one text."""
    engine = sa.create_engine(url)
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        rows = [tuple(row) for table in tables.tables.values() for row in connection.execute(sa.select(table))]
    engine.dispose()
    return json.dumps(rows, default=repr)


def payer(log, fails=False):
    @effect(
        "reversible", scope="shop:/{shop}", undo=lambda shop: log.append(("undo", shop)), redact=("card.number", "pin")
    )
    def pay(shop, card, pin="123456"):
        log.append(("pay", shop, card["number"]))
        if fails:
            raise ValueError(f"card {card['number']} is not accepted")
        return {"receipt": 1, "pin": pin}

    return pay


def test_what_a_declaration_names_is_nowhere_in_the_record_and_the_counterparty_gets_it(url):
    log = []
    with Settlement(url) as settlement:
        with settlement.transaction("t") as tx:
            result = tx.call(payer(log), shop="ada", card={"number": SECRET, "year": 30})
        (row,) = settlement.transactions()[0].effects
        assert decode(row.row.arguments) == {
            "shop": "ada",
            "card": {"number": {"$redacted": None}, "year": 30},
            "pin": {"$redacted": None},
        }
        assert decode(row.result) == {"receipt": 1, "pin": {"$redacted": None}}
    assert (result, log) == ({"receipt": 1, "pin": "123456"}, [("pay", "ada", SECRET)])
    assert SECRET not in everything(url)


def test_nor_in_the_error_of_a_call_that_failed(url, caplog):
    caplog.set_level(logging.DEBUG)
    with Settlement(url) as settlement:
        with pytest.raises(ValueError, match=SECRET), settlement.transaction("t") as tx:
            tx.call(payer([], fails=True), shop="ada", card={"number": SECRET})
        assert "[redacted]" in settlement.show()
    assert SECRET not in everything(url) + caplog.text


def test_another_tool_keeps_a_field_of_that_name(url):
    @effect("opaque")
    def note(pin):
        return None

    with Settlement(url) as settlement, settlement.transaction("t") as tx:
        tx.call(payer([]), shop="ada", card={"number": SECRET})
        tx.call(note, pin="kept")
    assert "kept" in everything(url)


def test_a_replay_knows_the_decision_again_and_shows_no_secret_when_it_is_another(url):
    log = []
    for _ in range(2):
        with Settlement(url) as settlement, settlement.transaction("t") as tx:
            tx.call(payer(log), shop="ada", card={"number": SECRET})
    assert len(log) == 1
    with Settlement(url) as settlement, pytest.raises(KeyConflict) as conflict, settlement.transaction("t") as tx:
        tx.call(payer(log), shop="ada", card={"number": "another card"})
    assert (SECRET in str(conflict.value), "another card" in str(conflict.value), len(log)) == (False, False, 1)


def test_a_ledger_in_memory_takes_them_out_too():
    with Settlement("memory:") as settlement:
        with settlement.transaction("t") as tx:
            tx.call(payer([]), shop="ada", card={"number": SECRET})
        assert SECRET not in repr(settlement.transactions())


def test_a_handler_that_would_need_it_after_a_crash_is_told_of_once(url, caplog):
    @effect("irreversible", scope="shop:/{shop}", redact="pin")
    def pay(shop, pin):
        return None

    with Settlement(url) as settlement, settlement.transaction("t") as tx:
        tx.call(pay, shop="ada", pin=SECRET)
    assert "needs `pin`, which redact= removes: it could not run after a crash" in caplog.text


def test_a_malformed_path_is_refused_where_it_is_declared():
    with pytest.raises(UsageError, match=r"redact= has 'a\.\.b'"):
        effect("opaque", redact="a..b")(lambda a: None)
