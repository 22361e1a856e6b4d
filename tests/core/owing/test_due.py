"""What is due and not fulfilled: its handler runs once, in a transaction of its own; else it is reported, once."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from settlemark import UsageError, effect
from settlemark.observe import Overlooked

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

DAY = 86_400


class Log:
    def __init__(self):
        self.paid = []

        @effect("irreversible", scope="customer:/{customer}")
        def refund(customer):
            self.paid.append(customer)

        self.refund = refund


@pytest.fixture
def till():
    return Log()


def promise(settlement, tool="refund"):
    with settlement.transaction("case-7/1") as tx:
        return tx.owe("refund", to="customer:/7", by=timedelta(days=1), fulfilled_by=tool)


def told(settlement):
    return [(str(owed.state), owed.told) for owed in settlement.obligations()]


def test_before_its_time_no_handler_runs_and_then_it_runs_once_in_a_transaction_named_for_it(settlement, till, clock):
    owed, calls = promise(settlement), []
    settlement.on_due(lambda tx, due: calls.append((tx.name, due.id)))
    settlement.recover()
    assert (calls, told(settlement)) == ([], [("open", None)])
    clock.advance(DAY)
    settlement.recover()
    settlement.recover()
    assert (calls, told(settlement)) == ([(f"due/{owed.id}", owed.id)], [("open", "handled")])


def test_a_handler_that_does_what_was_owed_fulfils_it(settlement, till, clock):
    promise(settlement)
    settlement.on_due(lambda tx, due: tx.call(till.refund, customer="7"), tool="refund")
    clock.advance(DAY)
    settlement.recover()
    settlement.recover()
    assert (till.paid, told(settlement)) == (["7"], [("fulfilled", "handled")])


def test_an_async_handler_runs_too(settlement, till, clock):
    promise(settlement)

    async def pay(tx, due):
        await tx.call(till.refund, customer="7")

    settlement.on_due(pay)
    clock.advance(DAY)
    settlement.recover()
    assert (till.paid, told(settlement)) == (["7"], [("fulfilled", "handled")])


def test_what_is_fulfilled_or_waived_before_its_time_is_not_handled(settlement, till, clock):
    calls = []
    settlement.on_due(lambda tx, due: calls.append(due.id))
    promise(settlement)
    with settlement.transaction("case-7/2") as tx:
        tx.call(till.refund, customer="7")
    clock.advance(DAY)
    settlement.recover()
    assert (calls, told(settlement)) == ([], [("fulfilled", None)])


def test_a_handler_is_undone_where_the_obligation_is_waived_while_it_runs(settlement, till, clock):
    owed = promise(settlement)

    def pay(tx, due):
        tx.call(till.refund, customer="7")
        if due.state == "open" and not till.paid and settlement.obligations(state="open"):
            settlement.waive(owed, by="ada")

    settlement.on_due(pay)
    clock.advance(DAY)
    settlement.recover()
    assert (till.paid, told(settlement)) == ([], [("waived", None)])


class Heard:
    def __init__(self):
        self.events = []

    def tell(self, event):
        if isinstance(event, Overlooked):
            self.events.append((event.obligation, event.transaction, event.to, event.fulfilled_by))

    def around(self, acting):
        from contextlib import nullcontext

        return nullcontext()


def test_a_handler_that_fails_is_undone_and_reported_once(url, open_here, till, clock, caplog):
    heard = Heard()
    settlement = open_here(url, observe=heard)
    owed = promise(settlement)

    def fail(tx, due):
        tx.call(till.refund, customer="7")
        raise RuntimeError("no money")

    settlement.on_due(fail)
    clock.advance(DAY)
    with caplog.at_level(logging.ERROR, logger="settlemark"):
        settlement.recover()
        settlement.recover()
    assert (till.paid, told(settlement)) == ([], [("open", "alerted")])
    assert heard.events == [(owed.id, "case-7/1", "customer:/7", "refund")]
    assert [record.levelname for record in caplog.records if "its handler failed" in record.message] == ["ERROR"]


def test_where_a_person_says_no_to_what_a_handler_would_do_it_is_reported_once_and_not_asked_again(
    settlement, clock, caplog
):
    paid = []

    @effect("irreversible", scope="customer:/{customer}", approve=True)
    def refund_asked(customer):
        paid.append(customer)

    owed = promise(settlement, "refund_asked")
    settlement.on_due(lambda tx, due: tx.call(refund_asked, customer="7"), tool="refund_asked")
    clock.advance(DAY)
    settlement.recover()
    assert settlement.reject(f"due/{owed.id}", by="ada", because="too much").settled
    settlement.recover()
    settlement.recover()
    assert (settlement.approvals(), paid, told(settlement)) == ([], [], [("open", "alerted")])
    assert caplog.text.count("is not fulfilled: ada said no to refund_asked; fulfil it") == 1


def test_without_a_handler_in_any_process_it_is_reported_once_after_a_while(url, open_here, till, clock):
    heard = Heard()
    settlement = open_here(url, observe=heard)
    owed = promise(settlement)
    clock.advance(DAY + 31)
    settlement.recover()
    settlement.recover()
    assert heard.events == [(owed.id, "case-7/1", "customer:/7", "refund")]
    assert told(settlement) == [("open", "alerted")]


def test_one_process_handles_what_is_due(shared_url, open_here, till, clock):
    ours, theirs = open_here(shared_url), open_here(shared_url)
    promise(ours)
    for each in (ours, theirs):
        each.on_due(lambda tx, due: tx.call(till.refund, customer="7"))
    clock.advance(DAY)
    ours.recover()
    theirs.recover()
    assert (till.paid, told(ours), told(theirs)) == (["7"], [("fulfilled", "handled")], [("fulfilled", "handled")])


def test_what_cannot_be_called_is_no_handler(quick):
    with pytest.raises(UsageError, match="on_due"):
        quick.on_due("pay")


@pytest.mark.parametrize("halt", [{"scope": "customer:/**"}, {"everything": True}], ids=str)
def test_what_is_due_while_it_is_halted_is_handled_once_it_is_resumed_and_not_reported(settlement, till, clock, halt):
    promise(settlement)
    settlement.on_due(lambda tx, due: tx.call(till.refund, customer="7"), tool="refund")
    halted = settlement.halt(**halt, by="eve", because="odd refunds")
    clock.advance(DAY)
    settlement.recover()
    assert (till.paid, told(settlement)) == ([], [("open", None)])
    settlement.resume(halted, by="eve")
    clock.advance(1)
    settlement.recover()
    assert (till.paid, told(settlement)) == (["7"], [("fulfilled", "handled")])
