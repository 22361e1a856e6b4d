"""Promises in prose: a message is held until each promise in it is owed, or struck out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from settlemark import Promise, PromiseCheck, ScopeError, Unowed, UsageError, effect

pytestmark = pytest.mark.own_time

RUN = "case-7"
BACK = "We will call you back within 2 days."
MONEY = "You will get 20 EUR back within 3 days."


@pytest.fixture(autouse=True)
def refund():
    """The tool that keeps a promise of money."""

    @effect("irreversible", scope="customer:/{customer}")
    def refund(customer, amount, currency):
        pass

    return refund


def held(promises, text=BACK):
    with pytest.raises(Unowed) as error:
        promises.hold(text, run=RUN)
    return [promise.text for promise in error.value.promises]


def owe(settlement, name="case-7/1", days=2, **options):
    with settlement.transaction(name) as tx:
        return tx.owe("something", to="customer:/7", by=timedelta(days=days), **options)


@pytest.fixture
def promises(settlement):
    return PromiseCheck(settlement, PromiseCheck.commitments)


def test_a_message_without_a_promise_goes(promises, settlement):
    assert promises.hold("Thank you. The room is quiet.", run=RUN) == []


@pytest.mark.every_store
def test_a_promise_is_held_until_its_obligation_is_named(promises, settlement):
    assert held(promises) == [BACK]
    owed = owe(settlement)
    assert held(promises) == [BACK]  # nothing says that it is this one
    promises.owed_as(BACK, owed)
    assert [promise.text for promise in promises.hold(f"Dear Ada. {BACK}", run=RUN)] == [BACK]


def test_it_is_held_again_when_its_obligation_is_waived(promises, settlement):
    owed = owe(settlement)
    promises.owed_as(BACK, owed)
    settlement.waive(owed, by="ada")
    assert held(promises) == [BACK]


@pytest.mark.every_store
def test_one_that_is_struck_out_is_no_longer_held_in_its_run_alone(promises, settlement):
    promises.strike(BACK, run="case-8", by="ada")
    assert held(promises) == [BACK]
    promises.strike(Promise(BACK.upper()), run=RUN, by="ada", note="a courtesy")
    promises.strike(BACK, run=RUN, by="bob")
    assert [promise.text for promise in promises.hold(BACK, run=RUN)] == [BACK]


def test_what_a_promise_names_is_looked_for_among_the_obligations_of_its_run(settlement):
    promises = PromiseCheck(settlement, PromiseCheck.refunds)
    assert held(promises, MONEY) == [MONEY]
    wanted = {"fulfilled_by": "refund", "matching": {"amount": "20", "currency": "EUR"}}
    owe(settlement, "case-8/1", **wanted)
    owe(settlement, "case-7/1", fulfilled_by="refund", matching={"amount": "19", "currency": "EUR"})
    owe(settlement, "case-7/2", days=4, **wanted)
    assert held(promises, MONEY) == [MONEY]  # another run's, another amount, too late
    owe(settlement, "case-7/3", **wanted)
    assert len(promises.hold(MONEY, run=RUN)) == 1
    assert held(promises, f"{MONEY} And again: you will get 20 EUR back within 3 days.") == [
        "And again: you will get 20 EUR back within 3 days."
    ]


def test_an_obligation_to_another_or_due_too_late_answers_nothing(settlement, clock):
    until = datetime.fromtimestamp(clock() + 86_400, UTC)
    promises = PromiseCheck(settlement, lambda text: [Promise(text, to="customer:/7", by=until)])
    owe(settlement, days=2)
    assert held(promises) == [BACK]
    owe(settlement, "case-7/2", days=1)
    assert len(promises.hold(BACK, run=RUN)) == 1


def mailing(settlement, sent, extract=PromiseCheck.refunds):
    check = PromiseCheck(settlement, extract).guard("body")

    @effect("irreversible", scope="mail:/{to}", check=check)
    def send(to, body):
        sent.append(body)

    return send


@pytest.mark.every_store
def test_a_tool_that_sends_is_refused_until_its_own_transaction_owes_it_and_nothing_is_on_record(settlement):
    sent = []
    send = mailing(settlement, sent)
    with settlement.transaction("case-7/1") as tx:
        with pytest.raises(Unowed):
            tx.call(send, to="ada", body=MONEY)
        told = {"amount": "20", "currency": "EUR"}
        tx.owe("money", to="customer:/7", by=timedelta(days=3), fulfilled_by="refund", matching=told)
        tx.call(send, to="ada", body=MONEY)
    assert sent == [MONEY]
    (recorded,) = settlement.transactions()
    assert [effect_.row.tool for effect_ in recorded.effects] == ["send"]


def test_what_is_undone_with_its_message_owes_nothing_and_sends_nothing(settlement):
    sent = []
    send = mailing(settlement, sent)
    with pytest.raises(ValueError, match="no"), settlement.transaction("case-7/1") as tx:
        told = {"amount": "20", "currency": "EUR"}
        tx.owe("money", to="customer:/7", by=timedelta(days=3), fulfilled_by="refund", matching=told)
        tx.call(send, to="ada", body=MONEY)
        raise ValueError("no")
    assert (sent, held(PromiseCheck(settlement, PromiseCheck.refunds), MONEY)) == ([], [MONEY])


def test_a_model_that_extracts_is_awaited(settlement):
    sent = []

    async def model(text):
        await asyncio.sleep(0)
        return PromiseCheck.commitments(text)

    promises, send = PromiseCheck(settlement, model), mailing(settlement, sent, model)

    async def work():
        with pytest.raises(Unowed):
            await promises.ahold(BACK, run=RUN)
        async with settlement.transaction("case-7/1") as tx:
            with pytest.raises(Unowed):
                await tx.call(send, to="ada", body=BACK)
            owed = await tx.owe("call", to="customer:/7", by=timedelta(days=2))
            await promises.aowed_as(BACK, owed)
            await tx.call(send, to="ada", body=BACK)
        await promises.astrike("I promise.", run=RUN, by="ada")
        return await promises.ahold(f"{BACK} I promise.", run=RUN)

    assert (len(asyncio.run(work())), sent) == (2, [BACK])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I'll be there in an hour.", [("I'll be there in an hour.", timedelta(hours=1))]),
        ("We're going to fix it tomorrow! OK?", [("We're going to fix it tomorrow!", timedelta(days=2))]),
        ("We will pay 2.50 today. Bye.", [("We will pay 2.50 today.", timedelta(days=1))]),
        ("I guarantee it", [("I guarantee it", None)]),
        ("We\u2019ll see\nWe are here", [("We\u2019ll see", None)]),
        ("You will see. It will rain. He promised.", []),
        ("", []),
    ],
)
def test_commitments_are_sentences_in_the_first_person_about_what_is_to_come(text, found):
    assert [(promise.text, promise.by) for promise in PromiseCheck.commitments(text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("We will refund you $1,250.00.", [{"amount": "1250.00", "currency": "USD"}]),
        ("Your €5 will be credited.", [{"amount": "5", "currency": "EUR"}]),
        ("You'll be reimbursed 7 gbp within a week.", [{"amount": "7", "currency": "GBP"}]),
        ("We refunded 20 EUR. We will call back. It will cost 20 EUR.", []),
    ],
)
def test_refunds_are_sentences_that_promise_an_amount_back(text, found):
    assert [promise.matching for promise in PromiseCheck.refunds(text)] == found


def test_what_is_no_promise_or_no_extractor_is_refused_and_nothing_is_recorded(quick):
    with pytest.raises(UsageError, match="extract="):
        PromiseCheck(quick, "rules")
    for extract, match in [
        (lambda text: [7], "is no promise"),
        (lambda text: [" "], "is no promise"),
        (lambda text: None, "what the extractor returned is None: give a list of them"),
        (lambda text: text, "what the extractor returned is 'x': give a list of them"),
        (lambda text: [Promise(text, matching=["amount"])], "matching= of the promise 'x' is"),
        (lambda text: [Promise(text, by=datetime(2026, 1, 1))], "no time zone"),  # noqa: DTZ001
    ]:
        with pytest.raises(UsageError, match=match):
            PromiseCheck(quick, extract).hold("x", run=RUN)
    with pytest.raises(ScopeError):
        PromiseCheck(quick, lambda text: [Promise(text, to="nobody")]).hold("x", run=RUN)
    promises = PromiseCheck(quick, PromiseCheck.commitments)
    for act in (lambda: promises.strike(BACK, run=RUN, by=""), lambda: promises.strike("", run=RUN, by="ada")):
        with pytest.raises(UsageError):
            act()
    with pytest.raises(UsageError, match="there is none here"):
        promises.guard("body")(body=BACK)
    assert held(promises) == [BACK]


def test_an_extractor_that_fails_is_told_and_the_message_is_held(quick):
    with pytest.raises(ZeroDivisionError):
        PromiseCheck(quick, lambda text: 1 / 0).hold(BACK, run=RUN)
