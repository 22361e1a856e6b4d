"""An answer without a name is about a whole transaction, and takes nothing back that somebody has said by name."""

from __future__ import annotations

import threading

import pytest

from settlemark import Approval, DeclarationError, UsageError
from settlemark.hosting import host_of

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR, PATIENCE = 3_600.0, 30.0


class Paid(list):
    """What was paid, and whether anything was, in whichever thread."""

    def __init__(self):
        super().__init__()
        self.happened = threading.Event()

    def append(self, payment):
        super().append(payment)
        self.happened.set()


@pytest.fixture
def paid():
    return Paid()


def declared(settlement, paid, **terms):
    """A tool that is known in this settlement alone."""

    def pay_here(account, amount=5):
        paid.append((account, amount))

    settlement.declare(
        "pay_here", "irreversible", scope="account:/{account}", approve=Approval(**terms), function=pay_here
    )
    return pay_here


def put_aside(settlement, tool):
    settlement.run("case-7", lambda tx: tx.call(tool, account="ada"))
    (asked,) = settlement.approvals()
    return asked


def standing(settlement):
    """What is on record of each question, and the answer that nobody has acted on yet."""
    return [
        (
            str(one.approval.state),
            [(vote.by, vote.decision) for vote in one.approval.votes],
            None if one.answer is None else (one.answer["decision"], one.answered_by),
        )
        for one in settlement.approvals()
    ]


@pytest.fixture
def elsewhere(url, open_here, paid):
    """Put a payment aside, and return it with a settlement that does not know its tool, and so cannot settle it."""
    if url == "memory:":
        pytest.skip("memory is one process's")

    def put(**terms):
        first = open_here(url)
        asked = put_aside(first, declared(first, paid, **terms))
        first.close()
        return open_here(url), asked

    return put


@pytest.fixture
def carried_out(url, open_here, paid):
    """Carry out the answer on record where the tool is known, and return what was paid."""

    def carry_out(answer, **terms):
        later = open_here(url)
        declared(later, paid, **terms)
        later.recover()
        if answer == "yes":
            assert paid.happened.wait(PATIENCE)  # this process's own thread may be the one that carries it out
        assert later.approvals() == []
        return paid

    return carry_out


def test_a_no_on_record_is_not_overruled_by_a_yes_without_a_name_and_nothing_moved(elsewhere, carried_out, paid):
    terms = {"by": ("ada", "bo")}
    desk, asked = elsewhere(**terms)
    assert not desk.reject(asked, by="ada", because="too dear").settled
    with pytest.raises(UsageError, match="was answered already by ada: reject; nothing moved"):
        desk.answer("case-7", approve=True)
    assert (standing(desk), paid) == ([("rejected", [("ada", "reject")], ("reject", "ada"))], [])
    assert carried_out("no", **terms) == []


def test_a_no_on_record_stands_also_where_anyone_may_answer(elsewhere, carried_out, paid):
    desk, asked = elsewhere()
    assert not desk.reject(asked, by="ada", because="too dear").settled
    with pytest.raises(UsageError, match="was answered already by ada: reject; nothing moved"):
        desk.answer("case-7", approve=True)
    assert (standing(desk), paid) == ([("rejected", [("ada", "reject")], ("reject", "ada"))], [])
    assert carried_out("no") == []


def test_a_no_since_nobody_answered_in_time_is_not_overruled_either(elsewhere, carried_out, paid, clock):
    desk, _ = elsewhere(within=HOUR)
    clock.advance(HOUR)
    desk.recover()
    with pytest.raises(UsageError, match="was answered already by the deadline: reject; nothing moved"):
        desk.answer("case-7", approve=True)
    assert (standing(desk), paid) == ([("overdue", [], ("reject", "the deadline"))], [])
    assert carried_out("no", within=HOUR) == []


def test_a_yes_to_other_arguments_is_not_made_one_to_the_call_as_it_was(elsewhere, carried_out, paid):
    desk, asked = elsewhere(by="ada")
    assert not desk.approve(asked, by="ada", arguments={"account": "ada", "amount": 4}).settled
    with pytest.raises(UsageError, match="was answered already by ada: edit; nothing moved"):
        desk.answer("case-7", approve=True)
    assert (standing(desk), paid) == ([("edited", [("ada", "edit")], ("edit", "ada"))], [])
    assert carried_out("yes", by="ada") == [("ada", 4)]


def test_a_yes_by_name_is_not_made_one_to_other_arguments(elsewhere, carried_out, paid):
    desk, asked = elsewhere(by="ada")
    assert not desk.approve(asked, by="ada").settled
    with pytest.raises(UsageError, match="was answered already by ada: approve; nothing moved"):
        desk.answer("case-7", approve=True, arguments={"account": "ada", "amount": 5_000})
    assert (standing(desk), paid) == ([("approved", [("ada", "approve")], ("approve", "ada"))], [])
    assert carried_out("yes", by="ada") == [("ada", 5)]


def test_a_question_whose_answer_could_not_be_carried_out_waits_as_before_and_is_a_no_in_its_time(
    settlement, paid, clock
):
    put_aside(settlement, declared(settlement, paid, within=HOUR))
    with pytest.raises(UsageError, match="does not take"):
        settlement.answer("case-7", approve=True, arguments={"bad": 1})
    assert (standing(settlement), paid) == ([("waiting", [], None)], [])
    clock.advance(HOUR)
    settlement.recover()
    assert (settlement.approvals(), paid) == ([], [])


def test_an_answer_where_the_tool_is_unknown_leaves_the_question_as_it_was(elsewhere, paid):
    desk, _ = elsewhere(within=HOUR)
    with pytest.raises(DeclarationError, match="declare it, then answer again; nothing moved"):
        desk.answer("case-7", approve=True)
    assert (standing(desk), paid) == ([("waiting", [], None)], [])


def test_an_answer_without_a_name_ends_the_questions_that_it_answers(settlement, paid):
    asked = put_aside(settlement, declared(settlement, paid))
    settlement.answer("case-7", approve=True)
    last = host_of(settlement).ledger.read(lambda book: book.entries.versions("approval", asked.key)[-1])
    assert (last.state, paid, settlement.approvals()) == ("approved", [("ada", 5)], [])
