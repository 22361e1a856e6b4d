"""`settlemark claims`: whether the record bears out what somebody says has come about."""

from __future__ import annotations

import pytest

from settlemark import Settlement, effect


@effect("irreversible", scope="customer:/{customer}")
def refund(customer, amount):
    return "done"


@pytest.fixture
def ledger(store):
    with Settlement(store) as settlement, settlement.transaction("case-7/1") as tx:
        tx.call(refund, customer="7", amount=20)
    return store


def key_in(ledger):
    with Settlement(ledger) as settlement:
        return settlement.transactions()[0].effects[0].row.key


def test_what_the_record_bears_out_is_told_with_the_effects_that_do(ledger, run):
    told = run("claims", "I have refunded 20 EUR.", ledger, "--run", "case-7")
    assert (told.exit_code, told.stdout.splitlines()) == (
        0,
        ["supported: I have refunded 20 EUR. (the record has it)", f"  key: {key_in(ledger)}"],
    )


def test_what_it_does_not_bear_out_is_named_and_exits_with_1(ledger, run, run_json):
    said = "I refunded 50 EUR. I have cancelled the room."
    told = run("claims", said, ledger)
    assert (told.exit_code, told.stdout.splitlines()) == (
        1,
        [
            "unsupported: I refunded 50 EUR. (the record has it with other arguments alone)",
            f"  key: {key_in(ledger)}",
            "unsupported: I have cancelled the room. (no such effect is on record)",
        ],
    )
    found = run_json("claims", said, ledger)
    assert [(each["verdict"], each["ground"], each["verb"], each["mentions"]) for each in found] == [
        ("unsupported", "other_arguments", "refund", ["50", "EUR"]),
        ("unsupported", "not_on_record", "cancel", []),
    ]


def test_a_text_that_states_no_outcome_is_borne_out(ledger, run):
    told = run("claims", "We will see.", ledger)
    assert (told.exit_code, told.stdout) == (0, "Nothing is said to have come about.\n")
