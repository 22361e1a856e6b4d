"""A question whose answers were taken back is put in another round: a link of the one before answers nothing."""

from __future__ import annotations

import pytest

from settlemark import Approval, Policy, PolicyRule, UsageError, effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR = 3_600.0
V1, V2 = (Policy(version, [PolicyRule("payments", "ask", tool="pay")]) for version in ("v1", "v2"))


class Mail:
    """A channel whose notices have a link for ada."""

    name = "mail"

    def __init__(self):
        self.told = []

    def recipients(self, notice):
        return [("ada", ())]

    def tell(self, notice):
        self.told.append(notice)

    @property
    def links(self):
        return [notice.tokens["ada"] for notice in self.told]


@pytest.fixture
def mail():
    return Mail()


@pytest.fixture
def paid():
    return []


@pytest.fixture
def desk(url, open_here, mail, paid):
    """A settlement that has asked ada about a payment, by a mail with a link; its thread looks at nothing unasked."""

    @effect("irreversible", scope="account:/{account}", approve=Approval(by="ada", remind=HOUR))
    def pay(account):
        paid.append(account)

    settlement = open_here(url, policy=V1, channels=[mail])
    settlement.run("case-7", lambda tx: tx.call(pay, account="ada"))
    settlement.recover()
    return settlement


def taken_back(desk, link):
    """Have an answer taken back, since another policy asks by then."""
    desk.enforce(V2)
    with pytest.raises(UsageError, match="asked about again"):
        desk.redeem(link, "approve")


def asked(desk):
    (question,) = desk.approvals()
    return question


def test_a_link_of_the_round_before_answers_nothing_however_often_it_is_used(desk, mail, paid):
    (link,) = mail.links
    taken_back(desk, link)
    before = asked(desk)
    for _ in range(2):
        with pytest.raises(UsageError, match="this link answers what was asked before: .*nothing was recorded"):
            desk.redeem(link, "approve")
    assert (asked(desk), paid, before.answer, before.approval.votes) == (before, [], None, ())
    assert desk.audit("case-7").faults == ()


def test_a_link_that_was_not_used_in_its_round_answers_nothing_in_the_next(desk, mail, paid):
    desk.enforce(V2)
    with pytest.raises(UsageError, match="asked about again"):
        desk.approve(asked(desk), by="ada")
    with pytest.raises(UsageError, match="this link answers what was asked before"):
        desk.redeem(mail.links[0], "approve")
    assert (paid, asked(desk).approval.votes) == ([], ())


def test_who_may_answer_is_told_once_that_it_is_asked_about_again(desk, mail):
    taken_back(desk, mail.links[0])
    for _ in range(3):
        desk.recover()
    assert [(notice.occasion, notice.to) for notice in mail.told] == [("asked", ("ada",))] * 2
    assert len({notice.id for notice in mail.told}) == 2
    assert asked(desk).approval.round == 1
    assert desk.audit("case-7").faults == ()


def test_a_link_is_not_used_by_arguments_that_its_tool_does_not_take(desk, mail, paid):
    with pytest.raises(UsageError, match="was not answered: .* does not take .*nothing was recorded"):
        desk.redeem(mail.links[0], "edit", arguments={"bad": 1})
    assert desk.redeem(mail.links[0], "approve").settled
    assert paid == ["ada"]


def test_a_link_of_the_new_round_answers_once(desk, mail, paid):
    taken_back(desk, mail.links[0])
    desk.recover()
    assert desk.redeem(mail.links[-1], "approve").settled
    assert not desk.redeem(mail.links[-1], "approve").news
    assert (len(mail.links), paid, desk.approvals()) == (2, ["ada"], [])


def test_the_same_answer_given_again_by_name_is_a_new_one(desk, mail, paid):
    taken_back(desk, mail.links[0])
    assert desk.approve(asked(desk), by="ada").settled
    assert paid == ["ada"]
