"""Arguments that a person gives in place of a call's own: what they meet, the call's own have not met."""

from __future__ import annotations

import pytest

from settlemark import Budget, UsageError, effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


@pytest.fixture
def paid():
    return []


@pytest.fixture
def desk(url, open_here, paid):
    """A settlement that has asked about a payment of 60, and has 100 to spend."""

    @effect("irreversible", scope="account:/{account}", spends={"eur": "{amount}"}, approve=True)
    def pay(account, amount):
        paid.append((account, amount))

    settlement = open_here(url, budgets=[Budget("eur", 100)])
    settlement.run("case-7", lambda tx: tx.call(pay, account="ada", amount=60))
    return settlement


def purse(desk):
    (bucket,) = desk.budgets()
    return int(bucket.charged), int(bucket.reserved)


def asked(desk):
    (question,) = desk.approvals()
    return question.answer, question.approval.votes, purse(desk)


def test_what_spends_more_than_is_left_is_taken_back_and_its_author_may_answer_again(desk, paid):
    with pytest.raises(UsageError, match="given spend too much: the budget eur of run:case-7 has 100 left and 101 is"):
        desk.approve("case-7", by="ada", arguments={"account": "ada", "amount": 101})
    assert (asked(desk), paid) == ((None, (), (0, 60)), [])
    assert desk.approve("case-7", by="ada", arguments={"account": "ada", "amount": 100}).settled
    assert (paid, purse(desk), desk.approvals()) == ([("ada", 100)], (100, 0), [])
    assert desk.audit("case-7").intact


def test_who_gave_too_much_may_say_no(desk, paid):
    with pytest.raises(UsageError, match="spend too much"):
        desk.approve("case-7", by="ada", arguments={"account": "ada", "amount": 101})
    assert desk.reject("case-7", by="ada", because="too dear").settled
    assert (paid, purse(desk), desk.approvals()) == ([], (0, 0), [])


def test_what_would_act_where_a_halt_is_waits_for_its_end_as_any_answer_and_acts_once(desk, paid):
    halted = desk.halt("account:/bee", by="eve", because="odd payments")
    said = desk.approve("case-7", by="ada", arguments={"account": "bee", "amount": 5})
    waits = "account:/bee is halted by eve: it settles once that is lifted"
    assert (said.news, said.settled, said.waits, paid, purse(desk)) == (True, False, waits, [], (0, 60))
    desk.resume(halted, by="eve")
    desk.recover()
    desk.recover()
    assert (paid, purse(desk), desk.approvals()) == ([("bee", 5)], (5, 0), [])
