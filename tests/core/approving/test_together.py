"""An answer to all that a transaction has waiting counts for each of its questions, or for none."""

from __future__ import annotations

import pytest

from settlemark import Approval, UsageError, effect

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR = 3_600.0


@pytest.fixture
def done():
    return []


@pytest.fixture
def asked(settlement, done):
    """A payment that ada may answer within an hour, and a letter that is bo's, in one transaction."""

    def ask(mail_to="bo"):
        @effect("irreversible", scope="account:/{to}", approve=Approval(by="ada", within=HOUR))
        def pay(to):
            done.append(("pay", to))

        @effect("irreversible", scope="mail:/{to}", approve=Approval(by=mail_to))
        def mail(to):
            done.append(("mail", to))

        settlement.run("case-7", lambda tx: (tx.call(pay, to="x"), tx.call(mail, to="y")))
        return settlement

    return ask


def standing(settlement):
    """What is on record of each question: its state, its answers, who was refused, and what waits to be acted on."""
    return [
        (
            one.tool,
            str(one.approval.state),
            [(vote.by, vote.decision) for vote in one.approval.votes],
            [refused.by for refused in one.approval.refused],
            one.answer,
        )
        for one in settlement.approvals()
    ]


@pytest.mark.parametrize(("who", "refused"), [("ada", "mail"), ("bo", "pay")])
def test_an_answer_that_does_not_count_for_one_question_counts_for_none(asked, done, who, refused):
    settlement = asked()
    with pytest.raises(UsageError, match=f"{who} is none of those who may answer.*; nothing but that was recorded"):
        settlement.approve("case-7", by=who)
    assert standing(settlement) == [
        (tool, "waiting", [], [who] if tool == refused else [], None) for tool in ("pay", "mail")
    ]
    assert done == []


def test_the_deadline_of_a_question_that_was_not_answered_comes(asked, done, clock):
    settlement = asked()
    with pytest.raises(UsageError):
        settlement.approve("case-7", by="ada")
    clock.advance(HOUR)
    settlement.recover()
    assert (settlement.approvals(), done) == ([], [])


def test_an_answer_that_counts_for_all_is_carried_out(asked, done):
    settlement = asked(mail_to="ada")
    assert settlement.approve("case-7", by="ada").settled
    assert (settlement.approvals(), done) == ([], [("pay", "x"), ("mail", "y")])


def test_an_answer_that_is_too_late_for_one_of_them_is_a_no_to_the_whole(asked, done, clock):
    settlement = asked(mail_to="ada")
    clock.advance(HOUR)
    with pytest.raises(UsageError, match="was not answered in time, which is a no"):
        settlement.approve("case-7", by="ada")
    assert (settlement.approvals(), done) == ([], [])
