"""A transaction owes what it promised from its commit on; a later effect fulfils it, or a person strikes it out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from tests.rooms.lifecycle import id_of_owed

from settlemark import (
    DeclarationError,
    KeyConflict,
    Refused,
    Settlement,
    StateError,
    UsageError,
    aowe,
    effect,
    owe,
)
from settlemark.hosting import host_of

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

DAYS = timedelta(days=2)


class Till:
    """Pays customers back, and keeps its own log."""

    def __init__(self):
        self.paid = []
        self.broken = False

        @effect("irreversible", scope="customer:/{customer}")
        def refund(customer, amount):
            if self.broken:
                raise ValueError("the bank is closed")
            self.paid.append((customer, amount))

        @effect("reversible", scope="customer:/{customer}", undo=lambda customer, amount: self.paid.pop())
        def credit(customer, amount):
            self.paid.append((customer, amount))

        self.refund, self.credit = refund, credit


@pytest.fixture
def till():
    return Till()


def promise(tx, **more):
    return tx.owe("refund 20 EUR", **{"to": "customer:/7", "by": DAYS, "fulfilled_by": "refund", **more})


def states(settlement):
    return [str(owed.state) for owed in settlement.obligations()]


def test_what_is_owed_is_pending_until_its_transaction_commits_and_open_from_then_on(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        assert promise(tx, matching={"amount": 20}).state == "pending"
        assert states(settlement) == ["pending"]
    (owed,) = settlement.obligations()
    assert (owed.transaction, owed.attempt, owed.run) == ("case-7/1", 1, "case-7")
    assert (owed.text, owed.to, owed.scope) == ("refund 20 EUR", "customer:/7", "customer:/7")
    assert (owed.fulfilled_by, owed.matching, owed.due - owed.opened) == ("refund", {"amount": 20}, 2 * 86_400)
    assert (owed.state, owed.effect, owed.waived_by, owed.told) == ("open", None, None, None)


def test_a_transaction_that_is_undone_owes_nothing(settlement, till):
    with pytest.raises(RuntimeError), settlement.transaction("case-7/1") as tx:
        promise(tx)
        raise RuntimeError
    assert states(settlement) == ["void"]
    with settlement.transaction("case-7/1") as tx:
        promise(tx)
    assert sorted(states(settlement)) == ["open", "void"]


def test_a_replay_owes_once_and_is_told_of_the_same_obligation(settlement, till):
    found = []
    for _ in range(2):
        with settlement.transaction("case-7/1") as tx:
            found.append(promise(tx).id)
    assert found[0] == found[1]
    assert states(settlement) == ["open"]


def test_what_is_owed_has_the_id_of_its_place_counted_from_0_so_that_the_next_version_knows_it_in_a_replay(
    settlement, till
):
    with settlement.transaction("case-7/1") as tx:
        ids = [promise(tx).id, promise(tx, to="customer:/8").id]
    prefix = host_of(settlement).driver.kernel.prefix
    assert ids == [id_of_owed(prefix, "case-7/1", 1, (place,)) for place in (0, 1)]


def test_a_replay_that_owes_something_else_is_refused_and_nothing_changed(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        promise(tx)
    with pytest.raises(KeyConflict, match="customer:/7"), settlement.transaction("case-7/1") as tx:
        promise(tx, to="customer:/8")
    assert states(settlement) == ["open"]


def test_an_effect_that_matches_fulfils_in_its_commit_and_names_itself(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        promise(tx, matching={"amount": 20})
    with settlement.transaction("case-7/2") as tx:
        queued = tx.call(till.refund, customer="7", amount=20)
        assert states(settlement) == ["open"]
    (owed,) = settlement.obligations()
    assert (owed.state, owed.effect) == ("fulfilled", queued.key)


@pytest.mark.parametrize(
    ("customer", "amount", "tool"), [("8", 20, "refund"), ("7", 10, "refund"), ("7", 20, "credit")]
)
def test_an_effect_elsewhere_with_other_arguments_or_of_another_tool_fulfils_nothing(
    settlement, till, customer, amount, tool
):
    with settlement.transaction("case-7/1") as tx:
        promise(tx, matching={"amount": 20})
    with settlement.transaction("case-7/2") as tx:
        tx.call(getattr(till, tool), customer=customer, amount=amount)
    assert states(settlement) == ["open"]


def test_one_effect_fulfils_one_obligation_the_one_that_is_due_first(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        later, sooner = promise(tx), promise(tx, by=timedelta(days=1))
    with settlement.transaction("case-7/2") as tx:
        tx.call(till.refund, customer="7", amount=20)
    assert {owed.id: str(owed.state) for owed in settlement.obligations()} == {later.id: "open", sooner.id: "fulfilled"}


def test_of_its_own_transaction_a_later_effect_fulfils_and_an_earlier_one_does_not(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        tx.call(till.refund, customer="7", amount=20)
        promise(tx)
    with settlement.transaction("case-8/1") as tx:
        promise(tx, to="customer:/8")
        tx.call(till.refund, customer="8", amount=20)
    assert sorted(states(settlement)) == ["fulfilled", "open"]


def test_what_an_effect_fulfilled_that_failed_to_leave_is_open_again(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        promise(tx)
    till.broken = True
    with pytest.raises(Refused, match="closed"), settlement.transaction("case-7/2") as tx:
        tx.call(till.refund, customer="7", amount=20)
    assert (states(settlement), till.paid) == (["open"], [])
    till.broken = False
    with settlement.transaction("case-7/3") as tx:
        tx.call(till.refund, customer="7", amount=20)
    assert (states(settlement), till.paid) == (["fulfilled"], [("7", 20)])


def test_rewinding_what_owes_withdraws_it_and_rewinding_what_fulfils_opens_it_again(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        promise(tx, fulfilled_by="credit")
    with settlement.transaction("case-7/2") as tx:
        tx.call(till.credit, customer="7", amount=20)
    assert states(settlement) == ["fulfilled"]
    settlement.rewind("case-7/2", by="ada", dry_run=False)
    assert (states(settlement), till.paid) == (["open"], [])
    settlement.rewind("case-7/1", by="ada", dry_run=False)
    assert states(settlement) == ["withdrawn"]


def test_a_person_strikes_it_out_once_and_no_effect_fulfils_it_then(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        owed = promise(tx)
    struck = settlement.waive(owed, by="ada", note="the customer has called")
    assert (struck.state, struck.waived_by, struck.note) == ("waived", "ada", "the customer has called")
    assert settlement.obligations() == [struck]
    with pytest.raises(UsageError, match="is waived, not open"):
        asyncio.run(settlement.awaive(owed.id, by="bob"))
    with settlement.transaction("case-7/2") as tx:
        tx.call(till.refund, customer="7", amount=20)
    assert settlement.obligations() == [struck]


def test_what_is_not_owed_cannot_be_waived_and_nothing_changed(settlement, till):
    with pytest.raises(UsageError, match="nothing is owed under 17"):
        settlement.waive("17", by="ada")
    with settlement.transaction("case-7/1") as tx:
        owed = promise(tx)
        with pytest.raises(UsageError, match="is pending, not open"):
            settlement.waive(owed, by="ada")
    assert states(settlement) == ["open"]


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"by": timedelta(0)}, UsageError, "in the past"),
        ({"by": datetime(2001, 1, 1, tzinfo=UTC)}, UsageError, "in the past"),
        ({"by": datetime(2999, 1, 1)}, UsageError, "time zone"),  # noqa: DTZ001 - that is what is wrong
        ({"by": 7}, UsageError, "timedelta"),
        ({"to": "customer"}, UsageError, "customer"),
        ({"scope": "no scope"}, UsageError, "no scope"),
        ({"fulfilled_by": "no_such_tool"}, DeclarationError, "no_such_tool"),
        ({"matching": {"amount": object()}}, UsageError, "JSON"),
        ({"matching": ["amount"]}, UsageError, "mapping of names to values"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_owed(settlement, till, wrong, error, said):
    with settlement.transaction("case-7/1") as tx, pytest.raises(error, match=said):
        promise(tx, **wrong)
    assert settlement.obligations() == []


@pytest.mark.parametrize("never", [datetime.max.replace(tzinfo=UTC), timedelta.max], ids=["datetime", "timedelta"])
def test_what_is_due_later_than_a_calendar_goes_is_due_at_its_end_wherever_it_is_told(settlement, till, never):
    with settlement.transaction("case-7/1") as tx:
        promise(tx, by=never)
    (owed,) = settlement.obligations()
    assert (owed.state, owed.due_at) == ("open", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
    assert settlement.primer("case-7").text.splitlines()[-1] == (
        '- "refund 20 EUR" to customer:/7, by calling refund, due 9999-12-31 23:59:59 UTC'
    )
    with settlement.transaction("case-7/2") as tx:
        tx.call(till.refund, customer="7", amount=20)
    assert states(settlement) == ["fulfilled"]


def test_a_transaction_that_is_over_owes_nothing_more(settlement, till):
    with settlement.transaction("case-7/1") as tx:
        tx.call(till.refund, customer="8", amount=1)
    with pytest.raises(StateError):
        promise(tx)
    assert settlement.obligations() == []


def test_a_tool_owes_with_the_transaction_of_its_call_and_once_in_a_replay(settlement, till):
    @effect("reversible", scope="case:/{case}", undo=lambda case: None)
    def answer(case):
        owe("call back", to=f"case:/{case}", by=DAYS)

    for _ in range(2):
        with settlement.transaction("case-7/1") as tx:
            tx.call(answer, case="7")
            promise(tx)
    assert sorted((owed.text, str(owed.state)) for owed in settlement.obligations()) == [
        ("call back", "open"),
        ("refund 20 EUR", "open"),
    ]


def test_an_async_tool_and_an_async_transaction_owe_alike(settlement, till):
    @effect("reversible", scope="case:/{case}", undo=lambda case: None)
    async def answer(case):
        await aowe("call back", to=f"case:/{case}", by=DAYS)

    async def work():
        async with settlement.transaction("case-7/1") as tx:
            await tx.call(answer, case="7")
            await tx.owe("refund", to="customer:/7", by=timedelta(days=1))

    asyncio.run(work())
    assert [(owed.text, str(owed.state)) for owed in settlement.obligations()] == [
        ("refund", "open"),
        ("call back", "open"),
    ]


def test_outside_of_a_call_and_in_a_read_nothing_is_owed(settlement, till):
    @effect("read", scope="case:/{case}")
    def look(case):
        owe("call back", to=f"case:/{case}", by=DAYS)

    with pytest.raises(UsageError, match="outside of a settled call"):
        owe("call back", to="case:/7", by=DAYS)
    with pytest.raises(DeclarationError, match="declared a read"), settlement.transaction("case-7/1") as tx:
        tx.call(look, case="7")
    assert settlement.obligations() == []


def test_obligations_are_listed_by_state_run_creditor_and_time(settlement, till, clock):
    with settlement.transaction("case-7/1") as tx:
        seven = promise(tx)
    with settlement.transaction("case-8/1") as tx:
        eight = promise(tx, to="customer:/8", by=timedelta(days=1))
    settlement.waive(eight, by="ada")
    middle = datetime.fromtimestamp((seven.due + eight.due) / 2, UTC)
    asked = [{"state": "open"}, {"run": "case-8"}, {"to": "customer:/7"}, {"due_before": middle}, {}]
    found = [[owed.id for owed in settlement.obligations(**each)] for each in asked]
    assert found == [[seven.id], [eight.id], [seven.id], [eight.id], [eight.id, seven.id]]
    with pytest.raises(UsageError, match="choose one of"):
        settlement.obligations(state="late")


def test_what_is_still_owed_is_not_pruned_and_what_has_ended_is(url, till, open_here, clock):
    settlement = open_here(url)
    with settlement.transaction("case-7/1") as tx:
        owed = promise(tx)
    clock.advance(400 * 86_400)
    settlement.prune(1, keys=2)
    assert [each.text for each in settlement.obligations()] == ["refund 20 EUR"]
    settlement.waive(owed, by="ada")
    settlement.prune(1, keys=2)
    settlement.prune(1, keys=2)
    assert settlement.obligations() == []


def test_its_text_is_redacted_as_arguments_are(url, till, open_here):
    from settlemark import Payloads

    settlement = open_here(url, payloads=Payloads(redact=["text", "matching.amount"]))
    with settlement.transaction("case-7/1") as tx:
        promise(tx, matching={"amount": 20})
    (owed,) = settlement.obligations()
    assert ("20" in owed.text, owed.matching == {"amount": 20}, owed.state) == (False, False, "open")


def test_another_process_sees_it_and_fulfils_it(shared_url, till, open_here):
    ours, theirs = open_here(shared_url), open_here(shared_url)
    with ours.transaction("case-7/1") as tx:
        promise(tx)
    with theirs.transaction("case-7/2") as tx:
        tx.call(till.refund, customer="7", amount=20)
    assert (states(ours), states(theirs)) == (["fulfilled"], ["fulfilled"])


def test_two_ledgers_do_not_know_of_each_other(till):
    with Settlement("memory:") as here, Settlement("memory:") as there:
        with here.transaction("case-7/1") as tx:
            promise(tx)
        assert (states(here), states(there)) == (["open"], [])
