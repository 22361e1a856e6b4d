"""A bank: money is moved and never made, a key is honoured when it is said to be, and the log has it all."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.extent import examples

from settlemark import Tag, current_call, effect
from settlemark.testing import Bank, Provider, ProviderRefused

OPENING = {"ops": 100, "fund": 0, "tax": 50}


@pytest.fixture(scope="module")
def banks():
    with Bank(OPENING) as keyed, Bank(OPENING, keyed=False) as unkeyed:
        yield {True: keyed, False: unkeyed}


@pytest.fixture
def bank(banks):
    banks[True].reset()
    return banks[True]


@pytest.fixture
def careless(banks):
    banks[False].reset()
    return banks[False]


def events(bank):
    return [(entry["event"], entry["key"], entry["request"]) for entry in bank.wires()]


def sent(amount, source="ops", target="fund"):
    return {"from": source, "to": target, "amount": amount}


def test_a_wire_moves_its_amount_and_is_answered_and_logged(bank):
    wire = bank.wire("k1", "ops", "fund", 60)
    assert bank.balances() == {"fund": 60, "ops": 40, "tax": 50}
    assert bank.status("k1") == {"id": wire, "kind": "wire", "request": sent(60), "status": "confirmed"}
    assert events(bank) == [("booked", "k1", sent(60))]


def test_what_was_never_sent_is_not_known(bank):
    assert bank.status("k1") is None


def test_a_repeat_under_its_key_moves_nothing_and_is_logged_as_received(bank):
    first = bank.wire("k1", "ops", "fund", 60)
    assert bank.wire("k1", "ops", "fund", 60) == first
    assert bank.balances()["ops"] == 40
    assert events(bank) == [("booked", "k1", sent(60)), ("replayed", "k1", sent(60))]


def test_a_bank_that_does_not_honour_keys_moves_the_money_again_and_knows_the_last(careless):
    careless.wire("k1", "ops", "fund", 30)
    second = careless.wire("k1", "ops", "fund", 30)
    assert careless.balances() == {"fund": 60, "ops": 40, "tax": 50}
    assert careless.status("k1")["id"] == second
    assert events(careless) == [("booked", "k1", sent(30))] * 2


def test_a_lost_answer_leaves_the_money_moved_and_the_status_tells(bank):
    bank.lose_answer()
    with pytest.raises(ConnectionError, match="the outcome is unknown"):
        bank.wire("k1", "ops", "fund", 60)
    assert bank.balances()["ops"] == 40
    assert bank.status("k1")["status"] == "confirmed"
    bank.wire("k2", "tax", "fund", 1)
    assert [event for event, *_ in events(bank)] == ["booked", "booked"]


@pytest.mark.parametrize(
    ("wire", "status", "said"),
    [
        (("ops", "fund", 101), 409, "ops has 100, too little for 101"),
        (("ops", "fund", 0), 422, "a whole number"),
        (("ops", "fund", 1.5), 422, "a whole number"),
        (("ops", "fund", True), 422, "a whole number"),
        (("ops", "mars", 1), 404, "there is no account 'mars'"),
        (("mars", "ops", 1), 404, "there is no account 'mars'"),
    ],
)
def test_a_wire_that_cannot_be_is_refused_and_logged_and_nothing_is_moved(bank, wire, status, said):
    with pytest.raises(ProviderRefused, match=said) as refused:
        bank.wire("k1", *wire)
    assert refused.value.status == status
    assert bank.balances() == OPENING
    assert bank.status("k1") is None
    assert [event for event, *_ in events(bank)] == ["refused"]


def test_a_reversal_moves_the_money_back_once(bank):
    wire = bank.wire("k1", "ops", "fund", 60)
    bank.reverse(wire)
    bank.reverse(wire)
    assert bank.balances() == OPENING
    assert bank.status("k1")["status"] == "cancelled"
    assert [event for event, *_ in events(bank)] == ["booked", "cancelled", "cancel-replayed"]


def test_a_reversal_of_money_that_is_gone_is_refused_and_nothing_is_moved(bank):
    wire = bank.wire("k1", "ops", "fund", 60)
    bank.wire("k2", "fund", "tax", 60)
    with pytest.raises(ProviderRefused, match="fund has 0, too little for 60"):
        bank.reverse(wire)
    assert bank.balances() == {"fund": 0, "ops": 40, "tax": 110}
    assert bank.status("k1")["status"] == "confirmed"


def test_it_sells_nothing_but_wires(bank):
    with pytest.raises(ProviderRefused, match="the kinds are wire"):
        bank.book("hotel", trip="t1")


def test_a_reset_brings_back_the_opening_balances(bank):
    bank.wire("k1", "ops", "fund", 60)
    bank.reset()
    assert (bank.balances(), bank.wires(), bank.status("k1")) == (OPENING, [], None)


@pytest.mark.parametrize("balance", [-1, 1.5, "many", True])
def test_a_balance_that_cannot_be_is_refused(balance):
    with pytest.raises(ProviderRefused, match="a balance is a whole number"):
        Bank({"ops": balance})


def test_another_process_reaches_the_same_bank(bank):
    with Bank.connect(**bank.address) as other:
        other.wire("k1", "ops", "fund", 60)
    assert bank.balances()["fund"] == 60


WIRE = st.tuples(
    st.sampled_from(["k1", "k2", "k3", None]),
    st.sampled_from([*OPENING, "mars"]),
    st.sampled_from([*OPENING, "mars"]),
    st.integers(-5, 120),
)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(WIRE, st.integers(0, 5)), max_size=12))
def test_money_is_moved_and_never_made_and_the_log_tells_every_balance(bank, acts):
    bank.reset()
    wires = []
    for act in acts:
        try:
            if isinstance(act, tuple):
                wires.append(bank.wire(*act))
            elif act < len(wires):
                bank.reverse(wires[act])
        except ProviderRefused:
            pass
    told = dict(OPENING)
    for entry in bank.wires():
        if entry["event"] in ("booked", "cancelled"):
            sign = 1 if entry["event"] == "booked" else -1
            told[entry["request"]["from"]] -= sign * entry["request"]["amount"]
            told[entry["request"]["to"]] += sign * entry["request"]["amount"]
    assert bank.balances() == told
    assert sum(told.values()) == sum(OPENING.values())
    assert min(told.values()) >= 0


# ---- the treasury's wire: its answer is lost


def sweep(bank, settlement, **parts):
    @effect("irreversible", scope="account:/{source}", **parts)
    def wire(source, target, amount):
        return bank.wire(current_call().key, source, target, amount)

    with settlement.transaction("sweep-2026-11-20") as tx:
        tx.call(wire, source="ops", target="fund", amount=60)


def test_a_sweep_whose_answer_is_lost_is_asked_about_and_not_sent_again(bank, open_settlement):
    bank.lose_answer()
    settlement = open_settlement()
    sweep(bank, settlement, probe=lambda key: bank.status(key))
    assert bank.balances()["ops"] == 40
    assert [event for event, *_ in events(bank)] == ["booked"]
    assert settlement.residue() == []


def test_at_a_bank_that_honours_keys_it_is_sent_again_under_its_key(bank, open_settlement):
    bank.lose_answer()
    sweep(bank, open_settlement(), keyed=True)
    assert bank.balances()["ops"] == 40
    assert events(bank) == [
        ("booked", "sweep-2026-11-20#1/0", sent(60)),
        ("replayed", "sweep-2026-11-20#1/0", sent(60)),
    ]


def test_with_neither_it_is_in_doubt_and_named_and_not_sent_again(careless, open_settlement):
    careless.lose_answer()
    settlement = open_settlement()
    with pytest.raises(Exception, match="the outcome of wire on account:/ops is unknown"):
        sweep(careless, settlement)
    assert careless.balances()["ops"] == 40
    assert [event for event, *_ in events(careless)] == ["booked"]
    assert [(left.tool, left.tag) for left in settlement.residue()] == [("wire", Tag.UNRESOLVED)]


# ---- what a provider looks like to a proof


def test_a_picture_is_the_same_for_runs_that_did_the_same_in_another_order():
    with Provider() as provider:
        provider.book("hotel", trip="t1")
        gone = provider.book("car", trip="t1")
        provider.book("flight", trip="t1")
        provider.cancel("car", gone["id"])
        first = provider.picture()
        provider.reset()
        provider.book("flight", trip="t1")
        provider.book("hotel", trip="t1")
        assert provider.picture() == first == [{"kind": "flight", "trip": "t1"}, {"kind": "hotel", "trip": "t1"}]
