"""Another policy comes into force while a call waits, for a person or for its scope: it is judged again before it acts.

What is held for the commit is judged again there: see `test_in_force`.
"""

from __future__ import annotations

import threading

import pytest
from tests.core.test_ledger_contract import url_of

from settlemark import Denied, Policy, PolicyRule, Rejected, Settlement, UsageError, effect

V1_ALLOWS, V1_ASKS = (Policy("v1", [PolicyRule("all", said)]) for said in ("allow", "ask"))
V2_ALLOWS, V2_ASKS, V2_DENIES = (Policy("v2", [PolicyRule("all", said)]) for said in ("allow", "ask", "deny"))
PATIENCE = 60
EDIT = {"decision": "edit", "arguments": {"room": "8"}}


@pytest.fixture
def booked():
    return []


@pytest.fixture(params=["reversible", "opaque"])
def book(request, booked):
    """A tool that acts when it is called."""
    undo = {"undo": lambda room: booked.append(f"undone {room}")} if request.param == "reversible" else {}

    @effect(request.param, scope="room:/{room}", **undo)
    def book(room):
        booked.append(room)
        return room

    return book


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def settlement(request):
    with Settlement(url_of(request.param, request), policy=V1_ASKS) as settlement:
        yield settlement


class Person:
    """Says what it is to say, in this order; while it is asked first, another policy comes into force."""

    def __init__(self, settlement, policy, *answers):
        self.settlement, self.policy, self.answers, self.errors = settlement, policy, list(answers), []

    def __call__(self, gate):
        self.errors.append(gate.error)
        if len(self.errors) == 1:
            self.settlement.enforce(self.policy)
        return self.answers.pop(0)


def verdicts(settlement):
    return [(said.verdict, said.policy) for said in settlement.verdicts()]


def trip(settlement, person, book):
    with settlement.transaction("trip-1", approver=person) as tx:
        tx.call(book, room="7")


# ---- it waits for a person


@pytest.mark.parametrize("answer", [True, EDIT], ids=["yes", "edit"])
def test_what_is_denied_by_the_time_of_the_yes_does_not_act(settlement, book, booked, answer):
    person = Person(settlement, V2_DENIES, answer, True)
    with pytest.raises(Denied, match="the rule 'all' of the policy v2"):
        trip(settlement, person, book)
    assert (booked, verdicts(settlement)[0]) == ([], ("deny", "v2"))
    assert (settlement.approvals(), settlement.residue()) == ([], [])
    assert settlement.audit("trip-1").faults == ()


def test_what_another_policy_allows_by_the_time_of_the_yes_acts(settlement, book, booked):
    trip(settlement, person := Person(settlement, V2_ALLOWS, True), book)
    assert (booked, len(person.errors), verdicts(settlement)) == (["7"], 1, [("allow", "v2")])


@pytest.mark.parametrize(("answer", "room"), [(True, "7"), (EDIT, "8")], ids=["yes", "edit"])
def test_what_another_policy_asks_about_by_the_time_of_the_yes_is_asked_about_again(
    settlement, book, booked, answer, room
):
    trip(settlement, person := Person(settlement, V2_ASKS, answer, answer), book)
    assert (booked, len(person.errors)) == ([room], 2)
    assert set(verdicts(settlement)) == {("ask", "v2")}
    assert settlement.audit("trip-1").faults == ()


def test_a_no_to_the_second_question_is_a_no(settlement, book, booked):
    with pytest.raises(Rejected):
        trip(settlement, Person(settlement, V2_ASKS, True, False), book)
    assert (booked, settlement.approvals()) == ([], [])


# ---- it waits for its scope


def call_behind_another(settlement, book, someone_waits, policy, approver=None):
    """Have a call wait for a scope that another transaction has, until this policy is in force; return its error."""
    settlement.enforce(V1_ALLOWS)
    errors = []

    def call():
        try:
            with settlement.transaction("trip-2", approver=approver) as tx:
                tx.call(book, room="7")
        except (Denied, UsageError) as error:
            errors.append(error)

    thread, waits = threading.Thread(target=call), someone_waits(settlement)
    with settlement.transaction("trip-1") as tx:
        tx.call(book, room="7")
        thread.start()
        assert waits.wait(PATIENCE)
        settlement.enforce(policy)
    thread.join()
    return errors


def test_what_is_denied_by_the_time_its_scope_is_free_does_not_act(settlement, book, booked, someone_waits):
    (error,) = call_behind_another(settlement, book, someone_waits, V2_DENIES)
    assert (type(error), error.policy, error.rule, booked) == (Denied, "v2", "all", ["7"])
    assert (verdicts(settlement), settlement.residue()) == ([("allow", "v1"), ("deny", "v2")], [])


def test_what_is_allowed_by_the_time_its_scope_is_free_acts(settlement, book, booked, someone_waits):
    assert call_behind_another(settlement, book, someone_waits, V2_ALLOWS) == []
    assert (booked, verdicts(settlement)) == (["7", "7"], [("allow", "v1"), ("allow", "v2")])


@pytest.mark.parametrize("answer", [True, EDIT], ids=["yes", "edit"])
def test_what_is_to_be_asked_about_by_the_time_its_scope_is_free_is_asked_about_first(
    settlement, book, booked, someone_waits, answer
):
    asked = []
    errors = call_behind_another(
        settlement,
        book,
        someone_waits,
        V2_ASKS,
        lambda gate: asked.append((gate.arguments["room"], [*booked])) or answer,
    )
    assert (errors, asked, booked[1:]) == ([], [("7", ["7"])], ["7" if answer is True else "8"])
    assert settlement.audit("trip-2").faults == ()


def test_where_nobody_can_be_asked_by_then_it_does_not_act(settlement, book, booked, someone_waits):
    (error,) = call_behind_another(settlement, book, someone_waits, V2_ASKS)
    assert (type(error), "there is nobody to ask" in str(error), booked) == (UsageError, True, ["7"])
