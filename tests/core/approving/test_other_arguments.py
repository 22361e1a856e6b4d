"""Arguments that a person gives in place of a call's own: what they meet, the call's own have not met."""

from __future__ import annotations

import pytest

from settlemark import Approval, Budget, Policy, PolicyRule, UsageError, effect

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


@pytest.mark.parametrize("given", [["account"], "bee", 7])
def test_what_is_no_mapping_of_arguments_is_refused_and_nothing_is_recorded(desk, paid, given):
    with pytest.raises(UsageError, match="arguments= is .*: give a mapping of names to values; nothing was recorded"):
        desk.approve("case-7", by="ada", arguments=given)
    with pytest.raises(UsageError, match="a call is named by its key, a text, not None"):
        desk.approve(None, by="ada")
    assert (asked(desk), paid) == ((None, (), (0, 60)), [])


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


def test_who_gives_others_when_it_is_over_is_told_so_and_who_gives_the_same_is_not(desk, paid):
    given = {"account": "ada", "amount": 70}
    assert desk.approve("case-7", by="ada", arguments=given).settled
    again = desk.approve("case-7", by="ada", arguments=given)
    assert (again.news, again.settled) == (False, True)
    with pytest.raises(UsageError, match="was answered already by ada: edit, with other arguments; nothing was"):
        desk.approve("case-7", by="ada", arguments={"account": "ada", "amount": 71})
    assert (paid, purse(desk)) == ([("ada", 70)], (70, 0))


def test_of_two_who_both_have_to_answer_the_second_cannot_leave_the_question_without_an_end(url, open_here, paid):
    @effect("irreversible", scope="account:/{account}", approve=Approval(by=("ada", "bo"), quorum=2))
    def pay(account):
        paid.append(account)

    desk = open_here(url)
    desk.run("case-7", lambda tx: tx.call(pay, account="ada"))
    desk.approve("case-7", by="ada", arguments={"account": "bee"})
    with pytest.raises(UsageError, match="nobody would be left to make 2 who say the same"):
        desk.approve("case-7", by="bo")
    (question,) = desk.approvals()
    assert ([vote.by for vote in question.approval.votes], paid) == (["ada"], [])
    assert desk.approve("case-7", by="bo", arguments={"account": "bee"}).settled
    assert (paid, desk.approvals()) == (["bee"], [])


# ---- where nothing judges or counts them


@pytest.fixture
def governed(shared_url, open_here, paid):
    """A settlement that has asked about a payment, which its policy has allowed and its budget counts; and its tool."""

    @effect("irreversible", scope="account:/{account}", spends={"eur": "{amount}"}, approve=True)
    def pay(account, amount):
        paid.append((account, amount))

    rules = [PolicyRule("vault", "deny", tool="pay", scope="account:/vault")]
    settlement = open_here(
        shared_url, budgets=[Budget("eur", 100)], policy=Policy("treasury-v7", rules, default="allow")
    )
    settlement.run("case-7", lambda tx: tx.call(pay, account="ada", amount=60))
    return settlement


LIMITS = [
    ({}, "the policy treasury-v7 has judged it, and none is in force in this process"),
    ({"policy": Policy("v8", default="allow")}, "it spends eur, and this process has no such budget"),
]


@pytest.mark.parametrize(("parts", "lacking"), LIMITS, ids=["policy", "budget"])
def test_they_are_carried_out_in_a_process_that_has_what_judges_and_counts_the_call(
    governed, shared_url, open_here, paid, parts, lacking
):
    elsewhere = open_here(shared_url, **parts)
    said = elsewhere.approve("case-7", by="ada", arguments={"account": "bee", "amount": 70})
    elsewhere.recover()
    assert (said.news, said.settled, said.waits, paid, purse(governed)) == (True, False, lacking, [], (0, 60))
    governed.recover()
    assert (paid, purse(governed), governed.approvals()) == ([("bee", 70)], (70, 0), [])


@pytest.mark.parametrize(("parts", "lacking"), LIMITS, ids=["policy", "budget"])
def test_without_a_name_they_are_refused_where_nothing_judges_or_counts_them_and_nothing_moved(
    governed, shared_url, open_here, paid, parts, lacking
):
    elsewhere = open_here(shared_url, **parts)
    with pytest.raises(UsageError, match=f"case-7 cannot be answered with other arguments here: {lacking}; nothing"):
        elsewhere.answer("case-7", approve=True, arguments={"account": "vault", "amount": 1_000})
    assert (asked(governed), paid) == ((None, (), (0, 60)), [])


def test_where_they_are_denied_they_are_taken_back_by_the_process_that_has_the_policy(
    governed, shared_url, open_here, paid
):
    open_here(shared_url).approve("case-7", by="ada", arguments={"account": "vault", "amount": 1})
    governed.recover()
    assert (asked(governed), paid) == ((None, (), (0, 60)), [])


def test_its_own_arguments_leave_from_anywhere_as_they_were_judged_and_counted(governed, shared_url, open_here, paid):
    assert open_here(shared_url).approve("case-7", by="ada").settled
    assert (paid, purse(governed)) == ([("ada", 60)], (60, 0))
