"""What a settlement is told to keep secret is in nothing that it records, and nothing is done on half of it."""

from __future__ import annotations

import json
import logging
from contextlib import suppress

import pytest
import sqlalchemy as sa
from tests.rooms.model import decode

from settlemark import (
    Encryption,
    Erased,
    Forgotten,
    KeyConflict,
    LedgerError,
    Outcome,
    Payloads,
    State,
    Tag,
    UsageError,
    effect,
    new_key,
)
from settlemark.hosting import host_of

SECRET = "4242-4242-4242-4242"
GONE = {"$redacted": None}


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    return (
        request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path / 'trip.db'}"
    )


@pytest.fixture
def file(tmp_path):
    return f"sqlite:///{tmp_path / 'trip.db'}"


@pytest.fixture
def shop():
    return Shop()


class Shop:
    """A counterparty that sees what it is sent."""

    def __init__(self):
        self.log = []
        self.fails = []

        def refund(to):
            self.act("refund", to)

        def refund_card(card):
            self.act("refund card", card["number"])

        @effect("reversible", scope="shop:/{to}", undo=refund)
        def pay(to, card):
            self.act("pay", to, card["number"])
            return {"to": to, "card": card}

        @effect("reversible", scope="shop:/{to}", undo=refund_card)
        def pay_by_card(to, card):
            self.act("pay", to, card["number"])
            return "paid"

        @effect("irreversible", scope="mail:/{to}")
        def send(to, token):
            self.act("send", to, token)
            return "sent"

        self.pay, self.pay_by_card, self.send = pay, pay_by_card, send

    def act(self, *entry):
        self.log.append(entry)
        if self.fails:
            raise self.fails.pop(0)


def card(number=SECRET):
    return {"number": number, "year": 30}


def written(url):
    """Everything a store holds, as one text."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    tables = sa.MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        return "\n".join(str(row) for table in tables.sorted_tables for row in connection.execute(sa.select(table)))


def left_open(settlement, name, call):
    """Make a call in a transaction that its process does not live to end."""
    tx = settlement.transaction(name).__enter__()
    call(tx)
    settlement.close()


def recovered(settlement):
    """End what was left, in this thread alone, and return what was done."""
    host_of(settlement)._maintenance.stop()
    return settlement.recover(keep_open=0)


# ---- redaction


def test_a_redacted_field_is_nowhere_in_the_store_whatever_was_told_of_it(store, open_settlement, shop):
    settlement = open_settlement(store, payloads=Payloads(redact=["card.number"]))
    with settlement.transaction("trip/1") as tx:
        tx.turn(because=f"she gave me {SECRET}").call(shop.pay, "ada", card())
    shop.fails = [Boom(f"{SECRET} is blocked")]
    with pytest.raises(Boom, match=SECRET), settlement.transaction("trip/2") as tx:
        tx.call(shop.pay, "ada", card())
    shop.fails = [None, *(LookupError(f"no {SECRET}") for _ in range(3))]
    shop.fails.pop(0)
    with suppress(ValueError), settlement.transaction("trip/3") as tx:
        shop.fails, fails = [], shop.fails
        tx.call(shop.pay, "ada", card())
        shop.fails = fails
        raise ValueError(SECRET)
    host_of(settlement).ledger.now(lambda _protocol, _book: None)

    assert SECRET not in written(store)
    [first, second, third] = settlement.transactions()
    assert decode(first.effects[0].row.arguments) == {"to": "ada", "card": {"number": GONE, "year": 30}}
    assert decode(first.effects[0].result) == {"to": "ada", "card": {"number": GONE, "year": 30}}
    assert first.effects[0].row.rationale == "she gave me [redacted]"
    assert (second.effects[0].error, second.because) == (
        "Boom: [redacted] is blocked",
        "failed: Boom: [redacted] is blocked",
    )
    assert (third.effects[0].note, third.because) == (
        "its undo failed 3 times: LookupError: no [redacted]",
        "failed: ValueError: [redacted]",
    )
    assert shop.log[0] == ("pay", "ada", SECRET)
    assert host_of(settlement).ledger.payloads._secrets == {}


def test_a_memory_ledger_shows_no_redacted_field_either(open_settlement, shop):
    settlement = open_settlement(payloads=Payloads(redact="card.number"))
    with settlement.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
    with settlement.transaction("trip") as tx:
        assert tx.call(shop.pay, "ada", card()) == {"to": "ada", "card": {"number": GONE, "year": 30}}
    assert decode(settlement.transactions()[0].effects[0].row.arguments)["card"] == {"number": GONE, "year": 30}
    assert SECRET not in str(settlement.transactions())
    assert len(shop.log) == 1


def test_a_replay_knows_the_decision_by_its_whole_arguments_and_tells_no_secret(store, open_settlement, shop):
    first = open_settlement(store, payloads=Payloads(redact=["card.number"]))
    with first.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
    first.close()

    settlement = open_settlement(store, payloads=Payloads(redact=["card.number"]))
    with settlement.transaction("trip") as tx:
        assert tx.call(shop.pay, "ada", card())["card"] == {"number": GONE, "year": 30}
    with pytest.raises(KeyConflict) as conflict, settlement.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card("5555-5555-5555-5555"))
    assert "4242" not in str(conflict.value)
    assert "5555" not in f"{conflict.value}{conflict.value.given}"
    assert conflict.value.given["arguments"]["card"] == {"number": GONE, "year": 30}
    assert len(shop.log) == 1


def test_after_a_crash_an_undo_that_has_what_it_needs_runs(file, open_settlement, shop):
    left_open(
        open_settlement(file, payloads=Payloads(redact=["card.number"])),
        "trip",
        lambda tx: tx.call(shop.pay, "ada", card()),
    )
    settlement = open_settlement(file, payloads=Payloads(redact=["card.number"]))
    recovered(settlement)
    assert shop.log == [("pay", "ada", SECRET), ("refund", "ada")]
    assert settlement.residue() == []


def test_after_a_crash_an_undo_that_needs_a_redacted_field_does_not_run_and_is_named(file, open_settlement, shop):
    left_open(
        open_settlement(file, payloads=Payloads(redact=["card.number"])),
        "trip",
        lambda tx: tx.call(shop.pay_by_card, "ada", card()),
    )
    settlement = open_settlement(file, payloads=Payloads(redact=["card.number"]))
    recovered(settlement)
    assert shop.log == [("pay", "ada", SECRET)]
    [left] = settlement.residue()
    assert left.tag is Tag.UNRESOLVED
    assert left.note.startswith("it happened: undo of pay_by_card needs `card.number`, which redact= removes")


def test_a_framework_that_comes_back_with_the_same_call_brings_the_secret_back(file, open_settlement, shop):
    left_open(
        open_settlement(file, payloads=Payloads(redact=["card.number"])),
        "trip",
        lambda tx: tx.call(shop.pay_by_card, "ada", card()),
    )
    settlement = open_settlement(file, payloads=Payloads(redact=["card.number"]))
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        assert tx.call(shop.pay_by_card, "ada", card()) == "paid"
        raise Boom(SECRET)
    assert shop.log == [("pay", "ada", SECRET), ("refund card", SECRET)]
    assert settlement.residue() == []
    assert SECRET not in written(file)


def test_after_a_crash_a_held_call_that_lacks_its_secret_does_not_leave(file, open_settlement, shop):
    first = open_settlement(file, payloads=Payloads(redact=["token"]))
    tx = first.transaction("trip").__enter__()
    tx.call(shop.send, "ada", SECRET)
    ours, settled = tx._attempt.live, host_of(first).driver.kernel.ledger
    settled.now(lambda protocol, _book: protocol.seal(ours))
    first.close()

    settlement = open_settlement(file, payloads=Payloads(redact=["token"]))
    recovered(settlement)
    [recorded] = settlement.transactions()
    assert shop.log == []
    assert recorded.state is State.ABORTED
    assert "send itself, which is held, needs `token`, which redact= removes" in recorded.because


def test_what_redaction_costs_a_recovery_is_said_once_when_a_tool_is_first_called(open_settlement, shop, caplog):
    settlement = open_settlement(payloads=Payloads(redact=["card.number"]))
    with caplog.at_level(logging.WARNING, "settlemark"):
        for number in range(3):
            with settlement.transaction(f"trip/{number}") as tx:
                tx.call(shop.pay_by_card, "ada", card())
                tx.call(shop.pay, "bob", card())
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "undo of pay_by_card needs `card.number`, which redact= removes: it could not run after a crash"
    ]


def test_a_function_is_asked_before_the_ledger_is_locked(file, open_settlement, shop):
    asked = []

    def rule(tool, path, value):
        asked.append((tool, path, host_of(settlement).ledger.lock.locked()))
        return None if path == "card.number" else value

    settlement = open_settlement(file, payloads=Payloads(redact=rule))
    with settlement.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
    assert {tool for tool, *_ in asked} == {"pay"}
    assert not any(locked for *_, locked in asked)
    assert SECRET not in written(file)


# ---- encryption


def test_an_encrypted_payload_is_nowhere_in_the_store_and_reads_as_it_was(store, open_settlement, shop):
    key = new_key()
    settlement = open_settlement(store, payloads=Payloads(encrypt=key))
    with settlement.transaction("trip/1") as tx:
        tx.turn(because=f"she gave me {SECRET}").call(shop.pay, "ada", card())
    shop.fails = [Boom(f"{SECRET} is blocked")]
    with pytest.raises(Boom, match=SECRET), settlement.transaction("trip/2") as tx:
        tx.call(shop.pay, "ada", card())
    settlement.close()

    assert SECRET not in written(store)
    again = open_settlement(store, payloads=Payloads(encrypt=key))
    with again.transaction("trip/1") as tx:
        assert tx.call(shop.pay, "ada", card()) == {"to": "ada", "card": card()}
    [first, second] = again.transactions()
    assert first.effects[0].row.rationale == f"she gave me {SECRET}"
    assert (second.effects[0].error, second.because) == (f"Boom: {SECRET} is blocked", "failed: Boom")


def test_a_dropped_key_erases_one_tenant_and_no_other(store, open_settlement, shop):
    keys = {"acme": new_key(), "bolt": new_key()}
    for tenant in keys:
        first = open_settlement(store, namespace=tenant, payloads=Payloads(encrypt=keys.get))
        with first.transaction("trip") as tx:
            tx.call(shop.pay, "ada", card())
        first.close()
    del keys["acme"]

    acme, bolt = (
        open_settlement(store, namespace=tenant, payloads=Payloads(encrypt=keys.get)) for tenant in ("acme", "bolt")
    )
    [recorded] = acme.transactions()
    assert isinstance(recorded.effects[0].result, Erased)
    assert (recorded.state, recorded.effects[0].outcome) == (State.COMMITTED, Outcome.CONFIRMED)
    with pytest.raises(Forgotten, match="its arguments were erased") as forgotten, acme.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
    assert (forgotten.value.key, forgotten.value.tool) == ("acme:trip#1/0", "pay")
    with bolt.transaction("trip") as tx:
        assert tx.call(shop.pay, "ada", card()) == {"to": "ada", "card": card()}
    assert len(shop.log) == 2


def test_without_a_key_nothing_runs_and_nothing_is_recorded(store, open_settlement, shop):
    settlement = open_settlement(store, payloads=Payloads(encrypt=lambda tenant: None, tenant="acme"))
    with pytest.raises(LedgerError, match="encrypt= gives no key for 'acme'") as refused:
        with settlement.transaction("trip") as tx:
            tx.call(shop.pay, "ada", card())
    assert refused.value.url is not None
    assert (shop.log, settlement.transactions()) == ([], [])
    assert host_of(settlement).protocol.live == {}


def test_a_key_that_is_dropped_while_a_call_runs_takes_the_result_and_leaves_the_outcome(file, open_settlement, shop):
    keys = {"default": new_key()}
    settlement = open_settlement(file, payloads=Payloads(encrypt=keys.get))

    @effect("reversible", scope="shop:/{to}", undo=lambda to: None)
    def pay_last(to):
        keys.clear()
        return SECRET

    with settlement.transaction("trip") as tx:
        assert tx.call(pay_last, "ada") == SECRET
    [recorded] = settlement.transactions()
    assert recorded.effects[0].outcome is Outcome.CONFIRMED
    assert isinstance(recorded.effects[0].result, Erased)
    assert SECRET not in written(file)


def test_a_key_store_that_fails_while_a_call_runs_costs_nothing(file, open_settlement, shop):
    key, broken = new_key(), []

    def keys(tenant):
        if broken:
            raise ConnectionError
        return key

    settlement = open_settlement(file, payloads=Payloads(encrypt=keys))

    @effect("reversible", scope="shop:/{to}", undo=lambda to: None)
    def pay_last(to):
        broken.append(True)
        return SECRET

    with settlement.transaction("trip") as tx:
        assert tx.call(pay_last, "ada") == SECRET
    with pytest.raises(LedgerError, match="encrypt= raised ConnectionError"), settlement.transaction("next") as tx:
        tx.call(pay_last, "bob")
    broken.clear()
    assert [decode(e.result) for r in settlement.transactions() for e in r.effects] == [SECRET]


def test_after_a_crash_what_was_erased_is_not_undone_and_is_named(file, open_settlement, shop):
    keys = {"default": new_key()}
    left_open(
        open_settlement(file, payloads=Payloads(encrypt=keys.get)), "trip", lambda tx: tx.call(shop.pay, "ada", card())
    )
    keys.clear()
    settlement = open_settlement(file, payloads=Payloads(encrypt=keys.get))
    recovered(settlement)
    [recorded] = settlement.transactions()
    assert shop.log == [("pay", "ada", SECRET)]
    assert (recorded.state, recorded.effects[0].tag) == (State.ABORTED, Tag.UNRESOLVED)


def test_after_a_crash_a_process_without_the_key_leaves_it_to_one_that_has_it(file, open_settlement, shop):
    key = new_key()
    left_open(
        open_settlement(file, payloads=Payloads(encrypt=key)), "trip", lambda tx: tx.call(shop.pay, "ada", card())
    )
    without = open_settlement(file)
    assert recovered(without).stuck == {"trip": ["pay"]}
    assert [e.row.arguments[:11] for r in without.transactions() for e in r.effects] == ['{"$sealed":']
    assert shop.log == [("pay", "ada", SECRET)]
    without.close()

    with_it = open_settlement(file, payloads=Payloads(encrypt=key))
    recovered(with_it)
    assert shop.log == [("pay", "ada", SECRET), ("refund", "ada")]
    assert with_it.residue() == []


def test_who_resolves_residue_without_the_key_erases_nothing(file, open_settlement, shop):
    key = new_key()
    first = open_settlement(file, payloads=Payloads(encrypt=key))
    with suppress(Boom), first.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
        shop.fails = [LookupError("no")] * 3
        raise Boom
    first.close()
    without = open_settlement(file)
    [left] = without.residue()
    without.resolve(left.key, "absent", by="ada", note="paid back by hand")
    without.close()

    again = open_settlement(file, payloads=Payloads(encrypt=key))
    [recorded] = again.transactions()
    assert decode(recorded.effects[0].result) == {"to": "ada", "card": card()}
    assert recorded.effects[0].tag is Tag.CLEAN


def test_encryption_and_redaction_go_together(store, open_settlement, shop):
    settlement = open_settlement(store, payloads=Payloads(encrypt=new_key(), redact=["card.number"]))
    with settlement.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
    assert decode(settlement.transactions()[0].effects[0].row.arguments)["card"]["number"] == GONE
    assert '"year"' not in written(store)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tenant": "acme"}, "pass encrypt= as well"),
        ({"encrypt": Encryption(new_key(), namespace="other")}, "make it with namespace='default'"),
        ({"encrypt": Encryption(new_key()), "tenant": "acme"}, "tenant='acme'"),
        ({"encrypt": "a passphrase"}, "make one with new_key"),
        ({"redact": ["card..number"]}, "name a field by its dotted path"),
        ({"retention": -1}, "give days, 0 or more"),
        ({"retain": "many"}, "give how many finished transactions"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_before_anything_is_opened(tmp_path, open_settlement, options, told):
    with pytest.raises(UsageError, match=told):
        open_settlement(f"sqlite:///{tmp_path / 'none.db'}", payloads=Payloads(**options))
    assert list(tmp_path.iterdir()) == []


def test_an_encryption_that_was_made_by_hand_is_taken_as_it_is(file, open_settlement, shop):
    old, new = new_key(), new_key()
    first = open_settlement(file, payloads=Payloads(encrypt=old))
    with first.transaction("trip") as tx:
        tx.call(shop.pay, "ada", card())
    old_id = json.loads(host_of(first).ledger.read(lambda book: book.load("trip")).effects[0].row.arguments) and next(
        iter(host_of(first).ledger.payloads._encryption._ring.ciphers)
    )
    first.close()
    settlement = open_settlement(file, payloads=Payloads(encrypt=Encryption(new, dropped=[old_id])))
    assert isinstance(settlement.transactions()[0].effects[0].result, Erased)
