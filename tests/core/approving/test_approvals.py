"""A gate is a row: who may answer and by when is recorded with the call, and an answer counts once, or is refused."""

from __future__ import annotations

import re
import sqlite3
from contextlib import suppress

import pytest
from tests.core.crashes.conftest import Still
from tests.rooms.api import host

from settlemark import (
    Approval,
    ApprovalState,
    Escalation,
    Outcome,
    Policy,
    Rejected,
    Stale,
    State,
    Tag,
    UsageError,
    effect,
)
from settlemark.hosting import Reason, host_of

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR = 3_600.0


class Desk:
    """Tools whose payments need a yes, and a log of what was paid."""

    def __init__(self):
        self.paid = []

    def payment(self, **terms):
        @effect("irreversible", scope="account:/{account}", spends={"eur": "{amount}"}, approve=Approval(**terms))
        def pay(account, amount):
            self.paid.append((account, amount))
            return amount

        return pay


@pytest.fixture
def desk():
    return Desk()


def put_aside(settlement, tool, name="case-7", amount=5):
    """Issue a payment that waits for a person, and return its question."""
    settlement.run(name, lambda tx: tx.call(tool, account="ada", amount=amount))
    return next(one for one in settlement.approvals() if one.transaction == name)


def standing(settlement):
    """The question's state, who has said what, and who was refused."""
    found = [one.approval for one in settlement.approvals()]
    return [
        (str(one.state), [(vote.by, vote.decision) for vote in one.votes], [refused.by for refused in one.refused])
        for one in found
    ]


def ended(settlement, name="case-7"):
    """How a transaction has ended, and why."""
    recorded = next(each for each in settlement.transactions() if each.row.name == name)
    return str(recorded.state), recorded.cause


# ---- who may answer


def test_a_question_is_a_row_with_the_arguments_what_is_spent_who_may_answer_and_by_when(settlement, desk, clock):
    asked = put_aside(settlement, desk.payment(by=("ada", "role:board"), quorum=2, within=HOUR))
    row = asked.approval
    assert (asked.arguments, dict(row.spends), row.by, row.quorum) == (
        {"account": "ada", "amount": 5},
        {"eur": "5"},
        ("ada", "role:board"),
        2,
    )
    assert (row.state, row.deadline - row.at, row.votes) == (ApprovalState.WAITING, HOUR, ())
    assert settlement.audit("case-7").intact


def test_somebody_who_may_not_answer_is_refused_which_is_all_that_is_recorded(settlement, desk):
    asked = put_aside(settlement, desk.payment(by="ada"))
    for answer in (settlement.approve, lambda *given, **more: settlement.reject(*given, because="no", **more)):
        with pytest.raises(UsageError, match="eve is none of those who may answer: ada; nothing but that was recorded"):
            answer(asked, by="eve")
    assert standing(settlement) == [("waiting", [], ["eve", "eve"])]
    assert desk.paid == []
    assert settlement.approve(asked, by="ada").settled
    assert desk.paid == [("ada", 5)]


def test_a_role_answers_for_whoever_has_it(settlement, desk):
    asked = put_aside(settlement, desk.payment(by="role:board"))
    with pytest.raises(UsageError, match="none of those who may answer"):
        settlement.approve(asked, by="ada", roles="finance")
    assert settlement.approve(asked, by="ada", roles=["finance", "board"]).settled
    assert desk.paid == [("ada", 5)]


def test_a_role_is_held_and_not_borne_as_a_name(settlement, desk):
    asked = put_aside(settlement, desk.payment(by="role:board"))
    with pytest.raises(UsageError, match="role:board is none of those who may answer"):
        settlement.approve(asked, by="role:board")
    assert standing(settlement) == [("waiting", [], ["role:board"])]
    assert desk.paid == []


def test_n_of_m_is_n_different_people_and_the_same_one_counts_once(settlement, desk):
    asked = put_aside(settlement, desk.payment(by=("ada", "bo", "cy"), quorum=2))
    first, again = settlement.approve(asked, by="ada"), settlement.approve(asked, by="ada")
    assert [(done.news, done.settled, done.more) for done in (first, again)] == [(True, False, 1), (False, False, 1)]
    assert (standing(settlement), desk.paid) == ([("waiting", [("ada", "approve")], [])], [])
    with pytest.raises(UsageError, match="ada has answered already: approve"):
        settlement.reject(asked, by="ada", because="on second thoughts")
    assert settlement.approve(asked, by="cy").settled
    assert desk.paid == [("ada", 5)]


@pytest.mark.parametrize("other", ["cy ", "cy\n", "Cy", "cy\u200b", "\uff43\uff59"])
def test_names_that_read_alike_are_one_person_who_counts_once(settlement, desk, other):
    asked = put_aside(settlement, desk.payment(by="role:board", quorum=2))
    settlement.approve(asked, by="cy", roles="board")
    again = settlement.approve(asked, by=other, roles="board")
    assert (again.news, again.settled, again.more) == (False, False, 1)
    with pytest.raises(UsageError, match="has answered already: approve"):
        settlement.reject(asked, by=other, roles="board", because="on second thoughts")
    assert (standing(settlement), desk.paid) == ([("waiting", [("cy", "approve")], [other])], [])


def test_one_no_of_several_people_is_a_no(settlement, desk):
    asked = put_aside(settlement, desk.payment(by=("ada", "bo", "cy"), quorum=2))
    settlement.approve(asked, by="ada")
    assert settlement.reject(asked, by="bo", because="too dear").settled
    assert (ended(settlement), desk.paid, settlement.approvals()) == (("aborted", "too dear"), [], [])


def test_yeses_to_different_arguments_are_not_added_up(settlement, desk):
    asked = put_aside(settlement, desk.payment(quorum=2))
    settlement.approve(asked, by="ada")
    assert settlement.approve(asked, by="bo", arguments={"account": "ada", "amount": 4}).more == 1
    assert settlement.approve(asked, by="cy", arguments={"account": "ada", "amount": 4}).settled
    assert desk.paid == [("ada", 4)]


def test_arguments_that_the_tools_check_refuses_do_not_count_and_their_author_may_answer_again(settlement, desk):
    def at_most_5(account, amount):
        if amount > 5:
            raise ValueError("too much")

    @effect("irreversible", scope="account:/{account}", approve=Approval(by=("ada", "bo"), quorum=2), check=at_most_5)
    def pay(account, amount):
        desk.paid.append((account, amount))

    asked = put_aside(settlement, pay)
    with pytest.raises(UsageError, match="was not answered: pay refuses these arguments: .*too much; nothing was"):
        settlement.approve(asked, by="ada", arguments={"account": "ada", "amount": 6})
    assert standing(settlement) == [("waiting", [], [])]
    right = {"account": "ada", "amount": 4}
    assert settlement.approve(asked, by="ada", arguments=right).more == 1
    assert settlement.approve(asked, by="bo", arguments=right).settled
    assert desk.paid == [("ada", 4)]


def test_a_question_as_json_tells_its_round(settlement, desk):
    assert put_aside(settlement, desk.payment(by="ada")).approval.to_json()["round"] == 0


def test_arguments_that_the_tool_does_not_take_are_refused_and_their_author_may_answer_again(settlement, desk):
    asked = put_aside(settlement, desk.payment(by=("ada", "bo"), quorum=2))
    for wrong in ({"bad": 1}, {"account": "ada"}):
        with pytest.raises(UsageError, match="was not answered: pay does not take .*; nothing was recorded"):
            settlement.approve(asked, by="ada", arguments=wrong)
    assert standing(settlement) == [("waiting", [], [])]
    right = {"account": "ada", "amount": 4}
    assert settlement.approve(asked, by="ada", arguments=right).more == 1
    assert settlement.approve(asked, by="bo", arguments=right).settled
    assert desk.paid == [("ada", 4)]


def test_an_answer_without_a_name_is_refused_where_somebody_has_to_answer_and_nothing_moved(settlement, desk):
    put_aside(settlement, desk.payment(by="ada"))
    with pytest.raises(UsageError, match="case-7 is to be answered by ada: say who answers"):
        settlement.answer("case-7", approve=True)
    assert (standing(settlement), desk.paid) == ([("waiting", [], [])], [])


def test_whoever_the_process_asks_says_who_he_is_where_somebody_has_to_answer(settlement, desk):
    gates = []

    def asked(gate):
        gates.append(gate.error)
        return "approve" if len(gates) == 1 else {"decision": "approve", "by": "ada"}

    settlement.run("case-7", lambda tx: tx.call(desk.payment(by="ada"), account="ada", amount=5), approver=asked)
    assert (desk.paid, gates[0]) == ([("ada", 5)], None)
    assert "nobody says who answers: it has to be one of ada" in gates[1]


def test_a_process_asks_until_several_have_said_yes(settlement, desk):
    people, told = iter(["ada", "bo"]), []

    def asked(gate):
        told.append(gate.error)
        return {"decision": "approve", "by": next(people)}

    settlement.run("case-7", lambda tx: tx.call(desk.payment(quorum=2), account="ada", amount=5), approver=asked)
    assert desk.paid == [("ada", 5)]
    assert (told[0], "needs 1 more to say the same" in told[1]) == (None, True)


# ---- by when


def test_an_unanswered_question_is_a_no_when_its_time_has_come(settlement, desk, clock):
    put_aside(settlement, desk.payment(within=HOUR))
    clock.advance(HOUR - 1)
    settlement.recover()
    assert standing(settlement) == [("waiting", [], [])]
    clock.advance(1)
    settlement.recover()
    assert (settlement.approvals(), ended(settlement), desk.paid) == ([], ("aborted", "nobody answered in time"), [])


def test_an_answer_that_comes_too_late_is_refused_and_the_no_is_carried_out(settlement, desk, clock):
    asked = put_aside(settlement, desk.payment(within=HOUR))
    clock.advance(HOUR)
    with pytest.raises(UsageError, match="was not answered in time, which is a no: this answer changes nothing"):
        settlement.approve(asked, by="ada")
    assert (settlement.approvals(), ended(settlement), desk.paid) == ([], ("aborted", "nobody answered in time"), [])


def test_a_process_whose_approver_answers_too_late_is_told_no(settlement, desk, clock):
    def late(gate):
        clock.advance(HOUR)
        return "approve"

    with pytest.raises(Rejected, match="nobody answered in time"):
        settlement.run("case-7", lambda tx: tx.call(desk.payment(within=HOUR), account="ada", amount=5), approver=late)
    assert desk.paid == []


def test_what_waits_is_answered_by_another_process_days_later(url, open_here, desk, clock):
    if url == "memory:":
        pytest.skip("memory is one process's")
    pay = desk.payment(by="role:board", within=96 * HOUR)
    first = open_here(url)
    put_aside(first, pay)
    first.close()
    clock.advance(72 * HOUR)
    later = open_here(url)
    assert later.approve("case-7", by="ada", roles="board").settled
    assert desk.paid == [("ada", 5)]


def test_who_it_is_escalated_to_may_answer_from_then_on(settlement, desk, clock):
    asked = put_aside(settlement, desk.payment(by="ada", escalate=Escalation("cfo", after=HOUR), within=3 * HOUR))
    with pytest.raises(UsageError, match="cfo is none of those who may answer: ada"):
        settlement.approve(asked, by="cfo")
    clock.advance(HOUR)
    assert settlement.approve(asked, by="cfo").settled
    assert desk.paid == [("ada", 5)]


# ---- about what is still as it was


def test_an_answer_about_other_arguments_than_were_seen_is_refused(settlement, desk):
    asked = put_aside(settlement, desk.payment())
    with pytest.raises(UsageError, match="its arguments are not those that the answer is about"):
        settlement.approve(asked, by="ada", seen="another digest")
    assert (standing(settlement), desk.paid) == ([("waiting", [], ["ada"])], [])
    assert settlement.approve(asked, by="ada", seen=asked.approval.digest).settled


def test_an_answer_is_refused_when_somebody_has_changed_the_arguments_in_the_database(url, open_here, desk):
    if not url.startswith("sqlite"):
        pytest.skip("a file is edited by hand")
    settlement = open_here(url)
    asked = put_aside(settlement, desk.payment())
    settlement.close()
    with sqlite3.connect(re.sub("^sqlite:///", "", url)) as file:
        file.execute("UPDATE settlemark_effect SET arguments = replace(arguments, '5', '5000')")
    settlement = open_here(url)
    with pytest.raises(UsageError, match="its arguments are not those that the answer is about"):
        settlement.approve(asked, by="ada")
    assert desk.paid == []


def test_an_answer_is_refused_when_what_the_call_stands_on_has_changed_and_it_is_undone(settlement, desk):
    @effect("staged", scope="price:/{item}")
    def set_price(item):
        return None

    pay = desk.payment()

    with settlement.transaction("case-7", park="split") as tx:
        tx.read("price:/ticket")
        tx.call(pay, account="ada", amount=5)
    (asked,) = settlement.approvals()
    settlement.run("market", lambda tx: tx.call(set_price, item="ticket"))
    with pytest.raises(Stale, match="price:/ticket"):
        settlement.approve(asked, by="ada")
    assert (settlement.approvals(), desk.paid) == ([], [])
    assert ended(settlement, asked.transaction)[0] == "aborted"


def test_where_another_policy_holds_than_the_one_that_had_it_asked_it_is_asked_again(url, open_here, desk, monkeypatch):
    if url == "memory:":
        pytest.skip("memory is one process's")
    # Else any of the three, each under its own policy, settles in the background what is answered.
    monkeypatch.setattr(host, "Maintenance", Still)
    pay = desk.payment()
    first, same, other = (open_here(url, policy=Policy(version, default="ask")) for version in ("v7", "v7", "v8"))
    kept, again = put_aside(first, pay), put_aside(first, pay, "case-8")
    assert kept.approval.policy[0] == "v7"
    assert same.approve(kept, by="ada").settled
    with pytest.raises(UsageError, match="the policy v8 asks a person"):
        other.approve(again, by="ada")
    (asked,) = other.approvals()
    assert (desk.paid, asked.approval.policy[0], asked.approval.votes, asked.answer) == ([("ada", 5)], "v8", (), None)
    assert other.approve(asked, by="ada").settled
    assert desk.paid == [("ada", 5), ("ada", 5)]


def test_what_an_answer_finds_stale_is_on_record_as_stale_at_once_also_where_its_process_has_ended(
    url, open_here, desk
):
    if url == "memory:":
        pytest.skip("memory is one process's")

    @effect("staged", scope="price:/{item}")
    def set_price(item):
        return None

    pay = desk.payment()
    with open_here(url) as first:
        with first.transaction("case-7", park="split") as tx:
            tx.read("price:/ticket")
            tx.call(pay, account="ada", amount=5)
    other = open_here(url)
    (asked,) = other.approvals()
    other.run("market", lambda tx: tx.call(set_price, item="ticket"))
    with pytest.raises(Stale):
        other.approve(asked, by="ada")
    (recorded,) = [each for each in other.transactions() if each.row.name == asked.transaction]
    assert (recorded.state, recorded.reason) == (State.ABORTED, Reason.STALE)
    assert [(each.outcome, each.tag) for each in recorded.effects] == [(Outcome.DROPPED, Tag.CLEAN)]
    assert (desk.paid, other.approvals(), other.residue()) == ([], [], [])


def test_a_no_counts_also_when_something_has_changed(settlement, desk):
    asked = put_aside(settlement, desk.payment(by="ada"))
    assert settlement.reject(asked, by="ada", because="too dear").settled
    with pytest.raises(UsageError, match="answered already by ada: reject"):
        settlement.approve(asked, by="ada")
    assert settlement.reject(asked, by="ada", because="too dear").news is False


def test_a_question_is_over_when_its_transaction_is_cancelled(settlement, desk, clock):
    asked = put_aside(settlement, desk.payment(within=HOUR))
    settlement.cancel("case-7")
    settlement.recover()
    with suppress(UsageError):
        settlement.approve(asked, by="ada")
    entry = host_of(settlement).ledger.read(lambda book: book.entries.versions("approval", asked.key)[-1])
    assert (entry.state, entry.open, entry.due, settlement.approvals()) == ("void", False, None, [])


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"by": "ada", "quorum": 2}, "ada alone may answer"),
        ({"by": ("Zo\u00eb", "Zoe\u0308"), "quorum": 2}, "alone may answer"),
        ({"by": (), "quorum": 0}, "quorum=0"),
        ({"by": 5}, "by= of an Approval is 5"),
        ({"by": "role:"}, "a role without a name"),
        ({"within": 0}, "within=0"),
        ({"within": "soon"}, "within='soon'"),
        ({"escalate": Escalation("cfo", after=9), "within": 9}, "escalate it earlier"),
        ({"escalate": "cfo"}, "give Escalation"),
        ({"escalate": Escalation((), after=9)}, "names nobody"),
        ({"when": "amount"}, "give a function"),
    ],
)
def test_terms_that_nobody_can_keep_are_refused_when_they_are_made(terms, told):
    with pytest.raises(UsageError, match=re.escape(told)):
        Approval(**terms)


def test_only_what_needs_a_yes_is_asked_about(settlement, desk):
    pay = desk.payment(by="ada", when=lambda amount: amount > 100)
    settlement.run("small", lambda tx: tx.call(pay, account="ada", amount=5))
    assert (desk.paid, settlement.approvals()) == ([("ada", 5)], [])
    assert put_aside(settlement, pay, "large", 500).approval.by == ("ada",)
