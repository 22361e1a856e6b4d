"""A payload too long for a row is kept once for each content, as long as a transaction names it."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from tests.rooms.payloads import LIMIT

from settlemark import Injected, LedgerError, Outcome, effect
from settlemark.hosting import host_of
from settlemark.ledger import OutcomeChange, open_ledger

LONG = "x" * (LIMIT + 1)
FIELDS = ("arguments", "result", "rationale", "error", "note")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return (
        request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path / 'trip.db'}"
    )


@effect("reversible", scope="note:/{number}", undo=lambda number: None)
def write(number, text):
    return {"text": text}


@effect("reversible", scope="page:/{number}", undo=lambda number: None)
def print_page(number):
    return LONG


def rows(url, statement):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(statement))]


def blobs(url):
    return rows(url, "SELECT namespace, content FROM settlemark_blob ORDER BY namespace, content")


def test_a_long_payload_is_put_aside_and_read_back_as_it_was(url, open_settlement):
    first = open_settlement(url)
    with first.transaction("trip") as tx:
        tx.call(write, number=1, text=LONG)
    first.close()

    assert [content for _, content in blobs(url)] == sorted(
        [json.dumps({"text": LONG}, separators=(",", ":")), f'{{"number":1,"text":"{LONG}"}}']
    )
    ((arguments, result),) = rows(url, "SELECT arguments, result FROM settlemark_effect")
    assert (arguments[:16], result[:16], len(arguments) < 120) == ('{"$ref":"sha256:', '{"$ref":"sha256:', True)
    again = open_settlement(url)
    with again.transaction("trip") as tx:
        assert tx.call(write, number=1, text=LONG) == {"text": LONG}
    [recorded] = again.transactions()
    assert json.loads(recorded.effects[0].row.arguments) == {"number": 1, "text": LONG}


@pytest.mark.parametrize("field", FIELDS)
def test_any_payload_of_an_effect_may_be_long(url, open_settlement, field):
    settlement = open_settlement(url)
    with settlement.transaction("trip") as tx:
        turn = tx.turn(because=LONG if field == "rationale" else None)
        turn.call(write, number=1, text=LONG if field == "arguments" else "x")
    told = {name: LONG if name == field else None for name in ("result", "error", "note")}
    if told["result"] is not None:
        told["result"] = json.dumps(LONG)
    if field not in ("arguments", "rationale"):
        change = OutcomeChange("trip#1/0", Outcome.CONFIRMED, told["result"], told["error"], None, told["note"], 2.0)
        host_of(settlement).ledger.now(lambda _protocol, book: book.write([change]))

    [recorded] = settlement.transactions()
    found = recorded.effects[0]
    text = getattr(found.row if field in ("arguments", "rationale") else found, field)
    assert LONG in text
    assert len(blobs(url)) == (2 if field == "arguments" else 1)  # the tool returns what it was given


def test_a_content_is_stored_once_and_stays_until_the_last_transaction_that_names_it_is_pruned(url, open_settlement):
    now = [1.0]
    settlement = open_settlement(url, injected=Injected(clock=lambda: now[0]))
    for name in ("one", "two"):
        with settlement.transaction(name) as tx:
            tx.call(print_page, number=1)
        now[0] += 86_400
    assert blobs(url) == [("default", json.dumps(LONG))]

    assert settlement.prune(1.5).payloads == 1
    assert blobs(url) == [("default", json.dumps(LONG))]

    assert settlement.prune(0.5).payloads == 1
    assert blobs(url) == []
    assert rows(url, "SELECT * FROM settlemark_blob_use") == []


def test_a_namespace_has_its_own(url, open_settlement):
    now = [1.0]
    acme, bolt = (
        open_settlement(url, namespace=name, injected=Injected(clock=lambda: now[0])) for name in ("acme", "bolt")
    )
    for settlement in (acme, bolt):
        with settlement.transaction("trip") as tx:
            tx.call(print_page, number=1)
    now[0] += 86_400

    assert acme.prune(0.5).payloads == 1
    assert blobs(url) == [("bolt", json.dumps(LONG))]
    with bolt.transaction("trip") as tx:
        assert tx.call(print_page, number=1) == LONG


def test_a_content_that_is_gone_hides_no_other_effect_and_is_named_when_it_is_asked_for(url, open_settlement):
    first = open_settlement(url)
    with first.transaction("trip") as tx:
        tx.call(write, number=1, text="short")
        tx.call(print_page, number=1)
    first.close()
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM settlemark_blob"))

    settlement = open_settlement(url)
    [recorded] = settlement.transactions()
    assert json.loads(recorded.effects[0].result) == {"text": "short"}
    assert list(json.loads(recorded.effects[1].result)) == ["$damaged"]
    with settlement.transaction("trip") as tx:
        tx.call(write, number=1, text="short")
        with pytest.raises(
            LedgerError, match=r"the result of trip#1/1 .*its content is missing from the ledger; restore"
        ):
            tx.call(print_page, number=1)


def test_a_content_goes_with_the_step_that_is_taken_back(url):
    ledger = open_ledger(url)
    late = OutcomeChange("none", Outcome.CONFIRMED, json.dumps(LONG), None, None, None, 2.0)

    def step(_protocol, book):
        book.write([late])
        raise LedgerError("no")

    with pytest.raises(LedgerError, match="no"):
        ledger.now(step)
    ledger.close()
    assert blobs(url) == []
