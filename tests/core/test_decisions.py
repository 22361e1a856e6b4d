"""Decisions: an effect says for the sake of which one it was called, and why."""

from __future__ import annotations

import pytest
from tests.core.test_ledger_contract import url_of

from settlemark import Scope, Settlement, UsageError, effect
from settlemark.hosting import host_of

RATE = Scope.parse("rate:/A")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def settlement(request):
    with Settlement(url_of(request.param, request)) as settlement:
        yield settlement


@effect("opaque")
def sweep(fund):
    return fund


@effect("reversible", scope="rate:/{fund}", undo=lambda fund: None)
def set_rate(fund):
    return fund


@effect("irreversible", scope="mail:/{to}")
def mail(to):
    return to


def entries(settlement, run="treasury"):
    found = host_of(settlement).ledger.read(lambda book: book.entries.chain(run)).entries
    return [entry for entry in found if entry.kind == "decision"]


def keys(settlement):
    return [effect.row.key for recorded in settlement.transactions() for effect in recorded.effects]


def test_an_effect_is_called_under_a_decision_and_says_why(settlement):
    with settlement.transaction("treasury") as tx:
        tx.read(RATE, lambda: 3)
        decision = tx.decide(
            "sweep to A",
            because="it yields more",
            alternatives=["hold"],
            policy="treasury-v7",
            grounds=[RATE, {"memo": 7}],
        )
        with decision:
            tx.call(sweep, fund="A")
            tx.call(mail, to="ada")
        tx.call(sweep, fund="B")
    first, second, third = map(settlement.why, keys(settlement))
    assert (first.decision, second.decision, third.decision) == (decision.id, decision.id, None)
    assert (first.title, first.because, first.alternatives, first.policy) == (
        "sweep to A",
        "it yields more",
        ("hold",),
        "treasury-v7",
    )
    assert first.grounds == (
        {"scope": "rate:/A", "version": 0, "changed": []},
        {"document": {"memo": 7}},
    )
    assert (third.title, third.because, third.grounds) == (None, None, ())
    (entry,) = entries(settlement)
    assert (entry.id, entry.key, entry.name, entry.attempt, entry.state) == (
        decision.id,
        keys(settlement)[0],
        "treasury",
        1,
        "made",
    )


def test_a_decision_without_effects_leaves_nothing_on_record(settlement):
    with settlement.transaction("treasury") as tx, tx.decide("do nothing"):
        tx.read(RATE, lambda: 3)
    assert entries(settlement) == []


def test_what_others_have_changed_since_is_named(settlement):
    with settlement.transaction("before") as tx:
        tx.call(set_rate, fund="A")
    with settlement.transaction("treasury") as tx, tx.decide("sweep", grounds=[RATE]):
        tx.call(sweep, fund="A")
    for name, fund in (("rates", "A"), ("elsewhere", "B")):
        with settlement.transaction(name) as tx:
            tx.call(set_rate, fund=fund)
    _, swept, rates, _ = keys(settlement)
    (ground,) = settlement.why(swept).grounds
    assert (ground["scope"], ground["changed"]) == ("rate:/A", [rates])


def test_what_cannot_be_a_decision_is_refused_and_nothing_is_recorded(settlement):
    with settlement.transaction("treasury") as tx:
        for title, more in (
            ("", {}),
            (" ", {}),
            ("sweep", {"alternatives": [object()]}),
            ("sweep", {"alternatives": "hold"}),
            ("sweep", {"alternatives": {"hold": 1}}),
            ("sweep", {"alternatives": 7}),
            ("sweep", {"grounds": "rate:/A"}),
            ("sweep", {"grounds": Scope.parse("rate:/A")}),
            ("sweep", {"because": 7}),
            ("sweep", {"policy": 7}),
        ):
            with pytest.raises(UsageError):
                tx.decide(title, **more)
        with pytest.raises(UsageError, match="no effect"):
            settlement.why("nobody#1/0")
    assert entries(settlement) == []


def test_a_decision_is_not_recorded_where_its_effect_is_not(settlement, monkeypatch):
    def fail(*_args, **_options):
        raise UsageError("no")

    with settlement.transaction("treasury") as tx:
        decision = tx.decide("sweep")
        monkeypatch.setattr(type(tx._attempt), "intent", fail)
        with pytest.raises(UsageError), decision:
            tx.call(sweep, fund="A")
        monkeypatch.undo()
    assert (entries(settlement), keys(settlement)) == ([], [])


def test_what_is_called_in_another_transactions_block_is_not_under_its_decision(settlement):
    with settlement.transaction("treasury") as tx, settlement.transaction("other") as other:
        with tx.decide("sweep"):
            other.call(sweep, fund="A")
    assert [settlement.why(key).decision for key in keys(settlement)] == [None]


@pytest.mark.parametrize("text", ["half \ud83d", "a NUL \0 within"])
def test_what_people_read_of_a_decision_is_never_refused_and_is_legible(settlement, text):
    with settlement.transaction("treasury") as tx, tx.decide(text, because=text, policy=text):
        tx.call(sweep, fund="A")
    why = settlement.why(keys(settlement)[0])
    assert {why.title[:4], why.because[:4], why.policy[:4]} == {text[:4]}


# ---- one call


@effect("opaque")
def rule(decision):
    return decision


def test_a_call_that_is_given_a_decision_is_called_for_its_sake_and_the_tool_is_not_given_it(settlement):
    with settlement.transaction("treasury") as tx:
        decision, other = tx.decide("sweep"), tx.decide("mail")
        assert tx.call(sweep, fund="A", decision=decision) == "A"
        with decision:
            tx.call(mail, to="ada", decision=other)
        planned = tx.turn().plan(sweep, fund="B", decision=other)
        planned.run()
    assert [settlement.why(key).title for key in keys(settlement)] == ["sweep", "mail", "mail"]


def test_a_tool_may_have_an_argument_of_that_name(settlement):
    with settlement.transaction("treasury") as tx:
        assert tx.call(rule, decision="guilty") == "guilty"
    assert settlement.why(keys(settlement)[0]).decision is None


def test_a_decision_of_another_transaction_is_refused_and_nothing_is_run(settlement):
    with settlement.transaction("treasury") as tx, settlement.transaction("other") as other:
        with pytest.raises(UsageError, match="decide in the transaction that calls"):
            other.call(sweep, fund="A", decision=tx.decide("sweep"))
    assert (entries(settlement), keys(settlement)) == ([], [])


async def test_an_async_call_may_be_given_one_too(settlement):
    async with settlement.transaction("treasury") as tx:
        await tx.call(sweep, fund="A", decision=tx.decide("sweep"))
    assert settlement.why(keys(settlement)[0]).title == "sweep"


# ---- what takes an effect's place


@effect("irreversible", scope="account:/{to}", approve=True)
def pay(to, amount):
    return amount


def pays(settlement):
    """Each payment's arguments, outcome, and the title of its decision."""
    found = [each for recorded in settlement.transactions() for each in recorded.effects if each.row.tool == "pay"]
    return [(each.row.arguments, each.outcome.value, settlement.why(each.row.key).title) for each in found]


def test_what_a_person_has_given_other_arguments_is_still_called_for_the_decisions_sake(settlement):
    edit = {"decision": "edit", "arguments": {"to": "ada", "amount": 5}}
    with settlement.transaction("treasury", approver=lambda gate: edit) as tx, tx.decide("pay ada"):
        tx.call(pay, to="ada", amount=7)
    assert pays(settlement)[-1] == ('{"amount":5,"to":"ada"}', "confirmed", "pay ada")
    assert {title for _, _, title in pays(settlement)} == {"pay ada"}
    assert (len(entries(settlement)), settlement.audit("treasury").faults) == (1, ())


@pytest.mark.parametrize("how", ["keep", "split"])
def test_so_is_what_was_parked_and_is_answered_later(settlement, how):
    with settlement.transaction("treasury", approver=lambda gate: True) as tx:
        with tx.decide("pay ada"):
            tx.call(mail, to="ada")
        tx.park(how)
    (waiting,) = settlement.parked()
    settlement.answer(waiting.transaction, approve=True, arguments={"to": "bee"})
    told = [(settlement.why(key).outcome, settlement.why(key).title) for key in keys(settlement)]
    assert ("confirmed", "pay ada") in told
    assert {title for _, title in told} == {"pay ada"}
    assert (len(entries(settlement)), settlement.audit("treasury").faults) == (1, ())


def test_what_another_process_lets_leave_in_an_effects_place_is_called_for_the_decisions_sake(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url) as first:
        with first.transaction("treasury") as tx:
            with tx.decide("tell ada"):
                tx.call(mail, to="ada")
            tx.park("split")
    with Settlement(url) as second:
        second.declare("mail", "irreversible", scope="mail:/{to}", function=lambda to: to)
        (waiting,) = second.parked()
        second.answer(waiting.transaction, approve=True, arguments={"to": "bee"})
        assert {second.why(key).title for key in keys(second)} == {"tell ada"}
        assert (len(entries(second)), second.audit("treasury").faults) == (1, ())
