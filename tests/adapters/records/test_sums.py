"""Sums are worked out by the tools, to the cent, and books that do not add up are written by nobody."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adapters.records.places import LINES, POSTING, Books
from tests.extent import examples

from settlemark import Settlement
from settlemark_adapters.records import BadRecord, SqlBackend

MONEY = st.decimals("-99999.999", "99999.999", places=3).map(float)
QTY = st.one_of(st.integers(1, 1_000), st.decimals("0.001", "99.999", places=3).map(float))
AMOUNTS = st.integers(1, 10**9).map(lambda cents: cents / 100)


def books(settlement=None):
    return Books(SqlBackend("sqlite://"), settlement, author="Ada", clock=lambda: 0.0)


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(QTY, MONEY), min_size=1, max_size=6))
def test_an_invoice_comes_to_the_sum_of_its_lines_each_rounded_to_cents(lines):
    made = books().create_invoice_with_lines(
        "cus_001", [{"description": "x", "qty": qty, "unit_price": price} for qty, price in lines]
    )
    exact = [(Decimal(str(qty)) * Decimal(str(price))).quantize(Decimal("0.01"), ROUND_HALF_UP) for qty, price in lines]
    assert [Decimal(str(line["line_total"])) for line in made["lines"]] == exact
    assert Decimal(str(made["invoice"]["total"])) == sum(exact)


@settings(max_examples=examples(30))
@given(st.lists(AMOUNTS, min_size=1, max_size=5), st.lists(AMOUNTS, min_size=1, max_size=5))
def test_an_entry_is_posted_exactly_when_debits_are_credits(debits, credits_):
    journal = books()
    lines = [{"account": "a", "debit": each} for each in debits] + [
        {"account": "b", "credit": each} for each in credits_
    ]
    owed, owned = (sum(Decimal(str(each)) for each in side) for side in (debits, credits_))
    if owed == owned:
        assert Decimal(str(journal.post_journal_entry(lines)["entry"]["total"])) == owed
        return
    with pytest.raises(BadRecord, match="they must be equal; nothing was written"):
        journal.post_journal_entry(lines)
    assert journal.list_commits() == []
    lines.append({"account": "c", "debit" if owed < owned else "credit": float(abs(owed - owned))})
    journal.post_journal_entry(lines)
    assert (
        sum(Decimal(str(each["debit"])) - Decimal(str(each["credit"])) for each in journal.query_records("JournalLine"))
        == 0
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "lines: give a list with at least one line"),
        ("10 hours", "lines: give a list"),
        (["10 hours"], "lines[0] is '10 hours': give an object with description and unit_price"),
        ([{"unit_price": 1}], "lines[0].description is None: say what is charged"),
        ([LINES[0], {"description": " ", "unit_price": 1}], "lines[1].description is ' '"),
        ([{"description": "x"}], "lines[0].unit_price is None: give a number, as 19.99"),
        ([{"description": "x", "unit_price": "12"}], "lines[0].unit_price is '12': give a number"),
        ([{"description": "x", "unit_price": True}], "lines[0].unit_price is True"),
        ([{"description": "x", "unit_price": 1e12}], "give a number below 1E+12"),
        ([{"description": "x", "unit_price": 1e11, "qty": 100}], "lines[0]'s total is"),
        ([{"description": "x", "unit_price": 1, "qty": 0}], "lines[0].qty is 0: give a number above zero"),
        ([{"description": "x", "unit_price": 1, "qty": -2}], "a discount as a price below it"),
        ([{"description": "x", "unit_price": 1, "line_total": 1}], "has 'line_total' (totals are computed here)"),
        ([{"description": "x", "unit_price": 1, "total": 1}], "has 'total' (totals are computed here)"),
        ([{"description": "x", "unit_price": 1, "price": 1}], "lines[0] has 'price': leave it out"),
    ],
)
def test_lines_that_are_not_fit_are_refused_before_anything_is_recorded(lines, said):
    with Settlement("memory:") as settlement:
        invoices = books(settlement)
        for call in (
            lambda: invoices.create_invoice_with_lines("cus_001", lines),
            lambda: settlement.run(
                "t", lambda tx: tx.call(invoices.create_invoice_with_lines, customer_id="cus_001", lines=lines)
            ),
        ):
            with pytest.raises(BadRecord) as refused:
                call()
            assert said in str(refused.value)
            assert str(refused.value).endswith("nothing was written")
        assert (invoices.list_commits(), settlement.transactions()) == ([], [])


def test_no_total_can_be_passed():
    invoices = books()
    with pytest.raises(TypeError, match="total"):
        invoices.create_invoice_with_lines("cus_001", LINES, total=1)
    assert invoices.list_commits() == []


@pytest.mark.parametrize("customer", ["", " ", 7, None])
def test_an_invoice_is_for_somebody(customer):
    invoices = books()
    with pytest.raises(BadRecord, match="customer_id"):
        invoices.create_invoice_with_lines(customer, LINES)
    assert invoices.list_commits() == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "at least two lines, a debit and a credit"),
        (POSTING[:1], "at least two lines"),
        ([*POSTING, "cash"], "lines[3] is 'cash': give an object with account, and debit or credit"),
        ([*POSTING, {"account": "x", "debit": 1, "credit": 1}], "lines[3] has debit and credit: give one"),
        ([*POSTING, {"account": "x"}], "lines[3] has neither debit nor credit: give one"),
        ([*POSTING, {"debit": 1}], "lines[3].account is None: name an account"),
        ([*POSTING, {"account": " ", "debit": 1}], "lines[3].account is ' ': name an account"),
        ([*POSTING, {"account": "x", "debit": -1}], "lines[3].debit is -1: give an amount above zero"),
        ([*POSTING, {"account": "x", "debit": 0.001}], "in whole cents: books do not round"),
        ([*POSTING, {"account": "x", "debit": "1"}], "lines[3].debit is '1': give a number"),
        ([*POSTING, {"account": "x", "debit": 1, "date": "x"}], "lines[3] has 'date': it may have"),
        ([*POSTING, {"account": "x", "debit": 0.01}], "debits are 120.51 and credits 120.50: they must be equal"),
    ],
)
def test_books_that_do_not_balance_are_refused_before_anything_is_recorded(lines, said):
    with Settlement("memory:") as settlement:
        journal = books(settlement)
        with pytest.raises(BadRecord) as refused, settlement.transaction("t") as tx:
            tx.call(journal.post_journal_entry, lines=lines)
        assert said in str(refused.value)
        assert (journal.list_commits(), settlement.transactions()) == ([], [])


# ---- whichever way they are written


def refused(write, said):
    """Try to write into books that have an invoice and an entry, and expect that it is refused."""
    made = books()
    invoice = made.create_invoice_with_lines("cus_001", LINES)
    entry = made.post_journal_entry(POSTING)
    before = made.list_commits()
    with pytest.raises(BadRecord) as error:
        made.transaction("meddle", lambda tx: write(tx, invoice, entry))
    assert said in str(error.value)
    assert made.list_commits() == before


def test_no_commit_makes_an_invoice_say_another_total():
    refused(lambda tx, made, _: tx.update("Invoice", made["invoice"]["id"], {"total": 1}), "its lines come to 1750")


def test_no_commit_makes_a_line_say_another_total():
    refused(
        lambda tx, made, _: tx.update("InvoiceLine", made["lines"][0]["id"], {"line_total": 1}), "10 at 150 and says 1"
    )


def test_no_commit_takes_a_line_from_an_invoice_that_counts_it():
    refused(
        lambda tx, made, _: tx.delete("InvoiceLine", made["lines"][0]["id"]), "says 1750, and its lines come to 250"
    )


def test_no_commit_leaves_lines_without_their_invoice():
    refused(lambda tx, made, _: tx.delete("Invoice", made["invoice"]["id"]), "belongs to no invoice: there is no")


def test_no_commit_moves_a_line_to_another_invoice_alone():
    def move(tx, made, _):
        other = tx.create("Invoice", {"customer_id": "cus_002", "total": 0, "notes": ""})
        tx.update("InvoiceLine", made["lines"][1]["id"], {"invoice_id": other["id"]})

    refused(move, "and its lines come to")


def test_no_commit_unbalances_an_entry():
    refused(lambda tx, _, made: tx.update("JournalLine", made["lines"][0]["id"], {"debit": 1}), "they must be equal")
    refused(lambda tx, _, made: tx.delete("JournalLine", made["lines"][0]["id"]), "they must be equal")
    refused(lambda tx, _, made: tx.update("JournalEntry", made["entry"]["id"], {"total": 1}), "its lines come to 120.5")
    refused(lambda tx, _, made: tx.delete("JournalEntry", made["entry"]["id"]), "belongs to no entry")
    refused(
        lambda tx, _, made: tx.update("JournalLine", made["lines"][0]["id"], {"credit": 1}), "is not one of debit and"
    )


def test_what_adds_up_may_be_changed_by_anybody():
    made = books()
    invoice = made.create_invoice_with_lines("cus_001", LINES)

    def change(tx):
        tx.update("InvoiceLine", invoice["lines"][1]["id"], {"unit_price": 400, "line_total": 400})
        tx.update("Invoice", invoice["invoice"]["id"], {"total": 1800})

    made.transaction("travel was dearer", change)
    assert made.get_record("Invoice", invoice["invoice"]["id"])["total"] == 1800
