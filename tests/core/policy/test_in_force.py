"""Another policy comes into force between plan and commit: what is to leave is judged again, and asked about again."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.core.crashes.conftest import Still
from tests.core.test_ledger_contract import url_of
from tests.rooms.api import host

from settlemark import (
    Denied,
    InDoubt,
    LedgerError,
    Outcome,
    PartialCommit,
    Payloads,
    Policy,
    PolicyRule,
    Refused,
    Settlement,
    State,
    UsageError,
    Vetoed,
    effect,
    new_key,
)

V7 = Policy("treasury-v7", [PolicyRule("mails", "allow", tool="letter"), PolicyRule("rest", "allow")])
V7_ASKS = Policy("treasury-v7", [PolicyRule("mails", "ask", tool="letter"), PolicyRule("rest", "allow")])
V8_ALLOWS = Policy("treasury-v8", [PolicyRule("mails", "allow", tool="letter"), PolicyRule("rest", "allow")])
V8_ASKS = Policy("treasury-v8", [PolicyRule("mails", "ask", tool="letter"), PolicyRule("rest", "allow")])
V8_DENIES = Policy("treasury-v8", [PolicyRule("no mails", "deny", tool="letter"), PolicyRule("rest", "allow")])

V8_ASKS_NOTES = Policy("treasury-v8", [PolicyRule("notes", "ask", tool="note"), PolicyRule("rest", "allow")])


class Desk:
    """What left, in its order."""

    def __init__(self):
        self.sent = []

        @effect("irreversible", scope="mail:/{to}")
        def letter(to):
            self.sent.append(to)
            return to

        @effect("reversible", scope="room:/{room}", undo=lambda room: self.sent.append(f"undone {room}"))
        def book(room):
            self.sent.append(room)

        @effect("staged", scope="note:/{text}")
        def note(text):
            self.sent.append(text)

        self.letter, self.book, self.note = letter, book, note


@pytest.fixture(autouse=True)
def desk():
    return Desk()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def settlement(request):
    with Settlement(url_of(request.param, request), policy=V7) as settlement:
        yield settlement


@pytest.fixture(params=["sqlite", "postgres"])
def later(request, monkeypatch):
    """Open one settlement after the other on one store, each under its policy; none does anything unasked."""
    monkeypatch.setattr(host, "Maintenance", Still)
    url = url_of(request.param, request)

    def open_(policy, **options):
        return Settlement(url, policy=policy, **options)

    return open_


def verdicts(settlement):
    return [(said.verdict, said.rule, said.policy, said.version) for said in settlement.verdicts()]


# ---- in the same process


def test_what_another_policy_allows_leaves_with_that_on_record(settlement, desk):
    with settlement.transaction("eod/1") as tx:
        tx.call(desk.letter, to="ada")
        settlement.enforce(V8_ALLOWS)
    assert (desk.sent, verdicts(settlement)) == (["ada"], [("allow", "mails", "treasury-v8", 2)])
    assert settlement.audit("eod").faults == ()


def test_what_another_policy_denies_does_not_leave_and_all_is_undone(settlement, desk):
    with pytest.raises(Denied, match="'no mails' of the policy treasury-v8"), settlement.transaction("eod/1") as tx:
        tx.call(desk.book, room="7")
        tx.call(desk.letter, to="ada")
        settlement.enforce(V8_DENIES)
    assert (desk.sent, settlement.residue()) == (["7", "undone 7"], [])
    assert [said.verdict for said in settlement.verdicts()] == ["allow", "deny"]


@pytest.mark.parametrize(
    ("answer", "left"), [(True, ["ada"]), ({"decision": "edit", "arguments": {"to": "bo"}}, ["bo"])]
)
def test_what_another_policy_asks_about_is_asked_before_it_leaves(settlement, desk, answer, left):
    asked = []
    with settlement.transaction("eod/1", approver=lambda gate: asked.append(gate.arguments["to"]) or answer) as tx:
        tx.call(desk.letter, to="ada")
        assert asked == []
        settlement.enforce(V8_ASKS)
    assert (asked, desk.sent) == (["ada"], left)


def test_a_no_to_what_another_policy_asks_undoes_all(settlement, desk):
    from settlemark import Rejected

    with pytest.raises(Rejected), settlement.transaction("eod/1", approver=lambda gate: False) as tx:
        tx.call(desk.book, room="7")
        tx.call(desk.letter, to="ada")
        settlement.enforce(V8_ASKS)
    assert desk.sent == ["7", "undone 7"]


def test_what_was_approved_under_one_policy_is_asked_about_again_under_another(settlement, desk):
    asked = []
    settlement.enforce(V7_ASKS)
    with settlement.transaction("eod/1", approver=lambda gate: asked.append(len(asked)) or True) as tx:
        tx.call(desk.letter, to="ada")
        assert asked == [0]
        settlement.enforce(V8_ASKS)
    assert (asked, desk.sent) == ([0, 1], ["ada"])


def test_what_was_approved_under_the_policy_in_force_is_not_asked_about_again(settlement, desk):
    asked = []
    settlement.enforce(V7_ASKS)
    with settlement.transaction("eod/1", approver=lambda gate: asked.append(len(asked)) or True) as tx:
        tx.call(desk.letter, to="ada")
        settlement.enforce(Policy("treasury-v7", V7_ASKS.rules))
    assert (asked, desk.sent) == ([0], ["ada"])


def test_one_version_with_another_table_is_another_policy(settlement, desk):
    asked = []
    with settlement.transaction("eod/1", approver=lambda gate: asked.append(gate.tool) or True) as tx:
        tx.call(desk.letter, to="ada")
        settlement.enforce(V7_ASKS)
    assert (asked, desk.sent) == (["letter"], ["ada"])


def test_with_nobody_to_ask_it_is_put_aside_and_waits_for_an_answer(settlement, desk):
    with settlement.transaction("eod/1") as tx:
        tx.call(desk.letter, to="ada")
        settlement.enforce(V8_ASKS)
    (question,) = settlement.approvals()
    assert (question.tool, desk.sent) == ("letter", [])
    assert settlement.approve(question.key, by="ada").settled
    assert desk.sent == ["ada"]


def test_where_nothing_of_it_can_wait_for_an_answer_it_is_undone(settlement, desk):
    told = "the policy treasury-v8, in force since, said no: note needs a person's yes by its rule 'notes'"
    with pytest.raises(Vetoed, match=told), settlement.transaction("eod/1") as tx:
        tx.call(desk.book, room="7")
        tx.call(desk.note, text="n")
        settlement.enforce(V8_ASKS_NOTES)
    assert desk.sent == ["7", "undone 7"]


def test_what_cannot_be_asked_about_when_its_name_is_entered_again_does_not_leave(settlement, desk):
    settlement.enforce(V7_ASKS)
    with settlement.transaction("eod/1") as tx:
        tx.call(desk.note, text="n")
        tx.call(desk.letter, to="ada")
    settlement.enforce(V8_ASKS_NOTES)
    with settlement.transaction("eod/1") as tx:
        with pytest.raises(UsageError, match="there is nobody to ask"):
            tx.call(desk.note, text="n")
        tx.call(desk.letter, to="ada")
    assert (desk.sent, settlement.approvals()) == (["ada"], [])


def test_a_policy_that_fails_at_the_commit_undoes_all(settlement, desk):
    def fail(call):
        raise ValueError("the table is away")

    with pytest.raises(UsageError, match="the table is away"), settlement.transaction("eod/1") as tx:
        tx.call(desk.book, room="7")
        tx.call(desk.letter, to="ada")
        settlement.enforce(Policy("treasury-v8", judge=fail))
    assert desk.sent == ["7", "undone 7"]


def test_without_a_policy_what_was_said_before_stands(settlement, desk):
    with settlement.transaction("eod/1") as tx:
        tx.call(desk.letter, to="ada")
        settlement.enforce(None)
    assert (desk.sent, verdicts(settlement)) == (["ada"], [("allow", "mails", "treasury-v7", 1)])


def test_what_is_no_policy_is_not_put_in_force(settlement, desk):
    with pytest.raises(UsageError, match=r"give a settlemark\.Policy"):
        settlement.enforce("treasury-v8")
    with settlement.transaction("eod/1") as tx:
        tx.call(desk.letter, to="ada")
    assert verdicts(settlement) == [("allow", "mails", "treasury-v7", 1)]


# ---- arguments that a person gives


LIMITS = Policy(
    "limits-v1",
    [
        PolicyRule("no strangers", "deny", tool="letter", scope="mail:/stranger"),
        PolicyRule("mails", "ask", tool="letter"),
    ],
)


def test_arguments_that_the_policy_denies_are_no_answer_and_the_question_is_put_again(settlement, desk):
    errors, answers = [], [{"decision": "edit", "arguments": {"to": "stranger"}}, True]
    settlement.enforce(LIMITS)

    def person(gate):
        errors.append(gate.error)
        return answers.pop(0)

    with settlement.transaction("eod/1", approver=person) as tx:
        tx.call(desk.letter, to="ada")
    assert desk.sent == ["ada"]
    assert (errors[0], "the rule 'no strangers'" in errors[1]) == (None, True)


def test_arguments_that_the_policy_denies_do_not_settle_what_was_put_aside(settlement, desk):
    settlement.enforce(LIMITS)
    with settlement.transaction("eod/1") as tx:
        tx.call(desk.letter, to="ada")
    with pytest.raises(UsageError, match="the rule 'no strangers'"):
        settlement.answer("eod/1", approve=True, arguments={"to": "stranger"})
    assert (desk.sent, len(settlement.approvals())) == ([], 1)
    settlement.answer("eod/1", approve=True, arguments={"to": "bo"})
    assert desk.sent == ["bo"]


# ---- in another process


def put_aside(later, desk, policy=V7_ASKS):
    with later(policy) as first:
        with first.transaction("eod/1") as tx:
            tx.call(desk.letter, to="ada")
        (question,) = first.approvals()
    return question.key


def test_what_was_put_aside_is_asked_about_again_where_another_policy_is_in_force(later, desk):
    key = put_aside(later, desk)
    with later(V8_ASKS) as second:
        with pytest.raises(UsageError, match="asked about again"):
            second.approve(key, by="ada")
        (question,) = second.approvals()
        assert (question.key, question.answer, desk.sent) == (key, None, [])
        assert second.approve(key, by="ada").settled
        assert (desk.sent, verdicts(second)) == (["ada"], [("ask", "mails", "treasury-v8", 2)])


def test_what_was_put_aside_leaves_on_a_yes_where_the_same_policy_is_in_force(later, desk):
    key = put_aside(later, desk)
    with later(Policy("treasury-v7", V7_ASKS.rules)) as second:
        assert second.approve(key, by="ada").settled
    assert desk.sent == ["ada"]


def test_what_was_put_aside_is_undone_where_another_policy_denies_it(later, desk):
    key = put_aside(later, desk)
    with later(V8_DENIES) as second:
        with pytest.raises(Denied):
            second.approve(key, by="ada")
        assert (desk.sent, second.approvals(), verdicts(second)) == ([], [], [("deny", "no mails", "treasury-v8", 2)])


def test_an_answer_from_elsewhere_is_taken_back_where_another_policy_is_in_force(later, desk):
    key = put_aside(later, desk)
    with later(V8_ASKS) as second:
        with pytest.raises(UsageError):
            second.answer("eod/1", approve=True)
        assert (desk.sent, [one.key for one in second.approvals()]) == ([], [key])
        second.answer("eod/1", approve=True)
    assert desk.sent == ["ada"]


@pytest.mark.parametrize(
    "say", [lambda it, key: it.approve(key, by="ada"), lambda it, _: it.answer("eod/1", approve=True)]
)
def test_where_another_policy_asks_about_what_cannot_wait_for_an_answer_all_is_undone(later, desk, say):
    with later(V7_ASKS) as first, first.transaction("eod/1") as tx:
        tx.call(desk.note, text="paid")
        tx.call(desk.letter, to="ada")
    with later(V8_ASKS_NOTES) as second:
        (letter,) = (question.key for question in second.approvals())
        with pytest.raises(Vetoed, match="note needs a person's yes by its rule 'notes', and nobody can be asked"):
            say(second, letter)
        (recorded,) = second.transactions()
        assert (desk.sent, second.approvals(), recorded.state) == ([], [], State.ABORTED)
        assert [(effect.row.tool, effect.outcome) for effect in recorded.effects] == [
            ("note", Outcome.DROPPED),
            ("letter", Outcome.DROPPED),
        ]
        # A death before it is undone leaves no verdict that would be taken for an answered one.
        assert [said for said in second.verdicts() if (said.policy, said.tool) == ("treasury-v8", "note")] == []


def test_what_was_split_off_is_judged_as_it_was_under_its_new_key(later, desk):
    with later(V7_ASKS) as first:
        with first.transaction("eod/1", park="split") as tx:
            tx.call(desk.book, room="7")
            tx.call(desk.letter, to="ada")
        (question,) = first.approvals()
    with later(V7_ASKS) as second:
        assert second.approve(question.key, by="ada").settled
        assert second.why(question.key).verdict == "ask"
    assert desk.sent == ["7", "ada"]


# ---- what is recorded of a verdict


@pytest.mark.parametrize(
    "payloads",
    [
        Payloads(redact=["policy", "rule", "tool", "scope", "to"]),
        Payloads(encrypt=new_key()),
    ],
    ids=["fields", "encrypted"],
)
def test_what_is_redacted_or_encrypted_is_still_known_to_be_judged(later, desk, payloads):
    to = "treasury-v7"  # a secret that is a part of the policy's name
    with later(V7_ASKS, payloads=payloads) as first, first.transaction("eod/1") as tx:
        tx.call(desk.letter, to=to)
    with later(V7_ASKS, payloads=payloads) as second:
        assert verdicts(second) == [("ask", "mails", "treasury-v7", 1)]
        (question,) = second.approvals()
        with suppress(LedgerError, InDoubt, PartialCommit, Refused):  # a redacted argument cannot be sent
            second.approve(question.key, by="ada")
        assert verdicts(second) == [("ask", "mails", "treasury-v7", 1)]
        assert second.approvals() == []
