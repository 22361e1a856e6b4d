"""A call that needs a person's yes acts only with it, and with the arguments shown or those given in their place."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.acts import Approval, would

from settlemark import (
    DeclarationError,
    EffectClass,
    Entangled,
    Rejected,
    Scope,
    Settlement,
    Stale,
    State,
    UsageError,
    effect,
)
from settlemark.hosting import Turn, approval_of, approve, declaration_of, declare, edit, host_of, reject


class Person:
    """Answers what it is told to, and remembers what it was asked; an answer may be a function of the gate."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, gate):
        self.asked.append((gate.tool, dict(gate.arguments)))
        answer = self.answers.pop(0)
        return answer(gate) if callable(answer) else answer

    async def awaited(self, gate):
        return self(gate)


@pytest.fixture
def gated(world):
    """The world's tools, which now need a yes: a room always, a mail always, a charge from 100 on."""

    @effect("reversible", scope="room:/{room}", undo=world.tools.cancel, approve=True)
    def book(room):
        world.act("book", room)
        return {"confirmation": f"R-{room}"}

    @effect("irreversible", scope="mail:/{to}", approve=True)
    def send(to, text="hello"):
        world.act("send", to, text)
        return f"sent to {to}"

    @effect("idempotent", scope="account:/{account}", approve=lambda amount: amount >= 100)
    def charge(account, amount):
        world.act("charge", account, amount)
        return amount

    return SimpleNamespace(book=book, send=send, charge=charge, look=world.tools.look, put=world.tools.put)


def outcomes(recorded, settlement, name="trip"):
    """What is on record of a transaction's last attempt."""
    return recorded(settlement, name)[-1]


# ---- answers


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_whatever_is_answered_is_a_decision_or_an_error_that_says_how_to_answer(answer):
    try:
        found = approval_of(answer)
    except UsageError as caught:
        found = str(caught)
    if isinstance(found, str):
        assert found.endswith("nothing was run")
    else:
        assert found.decision in ("approve", "reject", "edit")
        assert (found.arguments is not None) is (found.decision == "edit")


@given(st.dictionaries(st.text(), st.integers()), st.none() | st.text())
def test_what_the_helpers_make_means_what_they_say(arguments, because):
    assert approval_of(approve()) == Approval("approve")
    assert approval_of(reject(because)) == Approval("reject", because=because)
    assert approval_of(edit(arguments)) == Approval("edit", arguments)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("maybe", "'maybe' is not a decision"),
        (None, "None is not an answer"),
        (1, "1 is not an answer"),
        ({"decision": "approve", "arguments": {}}, '"arguments" belong to "edit", not to \'approve\''),
        ({"decision": "edit"}, '"edit" needs all "arguments" of the call, not None'),
        ({"decision": "reject", "why": "no"}, "an answer has no field 'why'"),
        ({"decision": "reject", "because": 1}, '"because" is a text, not 1'),
    ],
)
def test_what_is_no_answer_is_refused_and_nothing_acted(settlement, gated, world, recorded, answer, told):
    person = Person(answer, answer)
    with (
        pytest.raises(UsageError) as caught,
        settlement.transaction("trip", approver=person) as tx,
    ):
        tx.call(gated.book, room="a")
    assert told in str(caught.value)
    assert world.log == []
    assert outcomes(recorded, settlement) == ("aborted", [("book", "dropped", "clean")])
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("wrong", ["maybe", {"decision": "edit", "arguments": {"house": "b"}}])
def test_an_approver_whose_answer_is_none_is_asked_once_more_with_what_was_wrong_and_the_right_one_is_taken(
    settlement, gated, world, wrong
):
    errors = []

    def answer(gate):
        errors.append(gate.error)
        return wrong if len(errors) == 1 else True

    with settlement.transaction("trip", approver=answer) as tx:
        tx.call(gated.book, room="a")
    assert len(world.log) == 1
    assert errors[0] is None
    assert "maybe" in errors[1] or "house" in errors[1]


# ---- declarations


@pytest.mark.parametrize(
    ("kind", "approve", "told"),
    [
        ("read", True, "x is read, so there is nothing to approve: drop approve="),
        ("staged", True, "x is staged, so it is its step's own until that settles: drop approve=, or declare it irrev"),
        ("irreversible", 5, "approve= of x is 5: pass True, a function, or an Approval"),
        ("irreversible", lambda price: price > 1, "asks for 'price', which x does not take"),
        ("irreversible", lambda result: result, "runs before the call, and cannot ask for 'result'"),
    ],
)
def test_a_gate_that_cannot_be_is_refused_when_it_is_declared(kind, approve, told):
    with pytest.raises(DeclarationError) as caught:
        declare("x", kind, scope="mail:/{to}", approve=approve, function=lambda to: to)
    assert told in str(caught.value)


def test_no_gate_is_declared_unless_it_is_asked_for():
    assert declare("x", "opaque").approve is None
    assert declare("x", "opaque", approve=False).approve is None


# ---- yes


def test_a_person_sees_what_a_cost_leaves_where_the_call_can_be_undone_and_that_another_cannot():
    said = []
    for parts in ({"undo": lambda room: None, "cost": "a fee of 20"}, {"undo": lambda room: None}, {}):

        @effect("reversible" if parts else "opaque", scope="room:/{room}" if parts else None, **parts)
        def rent(room):
            return room

        said.append(would(declaration_of(rent), {"room": "a"}, "room:/a", held=False).partition("; ")[2])
    assert said == [
        "until its step settles it can be undone, but a cost stays: a fee of 20",
        "until its step settles it can be undone",
        "that cannot be undone",
    ]


@pytest.mark.every_store
def test_a_person_sees_the_call_and_what_it_would_do_and_a_yes_lets_it_run_so(settlement, gated, world):
    shown = []
    with settlement.transaction("trip", approver=lambda gate: shown.append(gate) or True) as tx:
        assert tx.call(gated.book, room="a") == {"confirmation": "R-a"}
        sent = tx.call(gated.send, to="x")
        assert world.log == [("book", "a")]
    book, send = shown
    assert (book.transaction, book.run, book.tool, book.kind) == ("trip", "trip", "book", EffectClass.REVERSIBLE)
    assert (book.scope, book.arguments, book.key, book.error) == ("room:/a", {"room": "a"}, "trip#1/0", None)
    assert book.would == 'book would act on room:/a with room="a" at once; until its step settles it can be undone'
    assert send.would == (
        'send would act on mail:/x with text="hello", to="x" when its step settles; that cannot be undone'
    )
    assert (sent.result(), world.log) == ("sent to x", [("book", "a"), ("send", "x", "hello")])
    assert host_of(settlement).protocol.live == {}


def test_a_predicate_is_given_the_arguments_it_names_and_says_who_is_asked(settlement, gated, world):
    person = Person(True)
    with settlement.transaction("trip", approver=person) as tx:
        tx.call(gated.charge, account="a", amount=99)
        tx.call(gated.charge, account="a", amount=100)
    assert person.asked == [("charge", {"account": "a", "amount": 100})]
    assert world.log == [("charge", "a", 99), ("charge", "a", 100)]


@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        (lambda: 1 / 0, "so nobody knows whether it needs a yes: pay was not run; correct approve=: ZeroDivisionError"),
        (lambda: None, "returned None: pay was not run; return True or False"),
    ],
)
def test_a_predicate_that_does_not_say_keeps_its_call_from_running(settlement, world, predicate, told):
    @effect("opaque", approve=predicate)
    def pay():
        world.act("pay")

    with pytest.raises(UsageError) as caught, settlement.transaction("trip", approver=Person()) as tx:
        tx.call(pay)
    assert told in str(caught.value)
    assert world.log == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
def test_that_it_is_asked_is_on_record_before_it_is_asked_and_says_that_nothing_has_happened(
    settlement, gated, recorded
):
    seen = []

    def look(_gate):
        seen.append(recorded(settlement, "trip"))
        return True

    with settlement.transaction("trip", approver=look) as tx:
        tx.call(gated.book, room="a")
        tx.call(gated.send, to="x")
    assert seen == [
        [("open", [("book", "suspended", None)])],
        [("open", [("book", "confirmed", None), ("send", "suspended", None)])],
    ]


def test_what_it_is_asked_about_is_held_meanwhile(settlement, gated, tools, world):
    def another(_gate):
        with (
            settlement.transaction("other", wait=0) as other,
            pytest.raises(Entangled, match="trip, which holds room:/a"),
        ):
            other.call(tools.book, room="a")
        return True

    with settlement.transaction("trip", approver=another) as tx:
        tx.call(gated.book, room="a")
    assert world.log == [("book", "a")]


def test_a_replay_asks_nobody(settlement, gated, world):
    def body(tx):
        return tx.call(gated.book, room="a"), tx.call(gated.send, to="x")

    with settlement.transaction("trip", approver=Person(True, True)) as tx:
        body(tx)
    with settlement.transaction("trip", approver=Person()) as tx:
        booked, sent = body(tx)
    assert (booked, sent.result()) == ({"confirmation": "R-a"}, "sent to x")
    assert world.log == [("book", "a"), ("send", "x", "hello")]


def test_a_call_that_fails_with_its_yes_is_tried_again_without_another_question(url, open_settlement, gated, world):
    settlement = open_settlement(url, on_failure="retry", approver=Person(True))
    world.fail("book", ValueError("busy"))
    with settlement.transaction("trip") as tx:
        tx.call(gated.book, room="a")
    assert world.log == [("book", "a")]


# ---- no


@pytest.mark.every_store
def test_a_no_is_an_error_that_says_why_and_undoes_the_step_it_leaves(settlement, gated, world, recorded):
    with (
        pytest.raises(Rejected, match="send was rejected by a human: too soon; nothing of it happened") as caught,
        settlement.transaction("trip", approver=Person(True, reject("too soon"))) as tx,
    ):
        tx.call(gated.book, room="a")
        tx.call(gated.send, to="x")
    assert (caught.value.tool, caught.value.because) == ("send", "too soon")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert outcomes(recorded, settlement) == ("aborted", [("book", "undone", "clean"), ("send", "dropped", "clean")])
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


def test_a_step_that_takes_the_no_goes_on_without_the_call_and_so_does_its_replay(settlement, gated, world):
    def body(tx):
        for call in (lambda: tx.call(gated.book, room="a"), lambda: tx.call(gated.send, to="x")):
            with pytest.raises(Rejected, match=r"rejected by a human; nothing of it happened"):
                call()
        tx.call(gated.put, cell="1", value=1)

    with settlement.transaction("trip", approver=Person(False, "reject")) as tx:
        body(tx)
    with settlement.transaction("trip", approver=Person()) as tx:
        body(tx)
    assert world.log == [("put", "1", 1)]


def test_another_may_act_at_once_on_what_a_rejected_call_was_about(settlement, gated, tools):
    other = settlement.transaction("other", wait=0)
    with settlement.transaction("trip", approver=Person(False)) as tx:
        with pytest.raises(Rejected):
            tx.call(gated.book, room="a")
        other.__enter__().call(tools.book, room="a")
    other.__exit__(None, None, None)


# ---- yes, with other arguments


@pytest.mark.every_store
def test_other_arguments_run_in_place_of_those_asked_about_on_their_own_scope(
    settlement, gated, tools, world, recorded
):
    def body(tx):
        return tx.call(gated.book, room="a"), tx.call(gated.send, to="x")

    person = Person(edit({"room": "b"}), edit({"to": "boss", "text": "dear boss"}))
    with settlement.transaction("trip", approver=person) as tx:
        booked, sent = body(tx)
        other = settlement.transaction("other", wait=0)
        other.__enter__().call(tools.book, room="a")
    other.__exit__(None, None, None)
    assert (booked, sent.result()) == ({"confirmation": "R-b"}, "sent to boss")
    assert world.log == [("book", "b"), ("book", "a"), ("send", "boss", "dear boss")]
    assert outcomes(recorded, settlement) == (
        "committed",
        [
            ("book", "dropped", "clean"),
            ("book", "confirmed", None),
            ("send", "dropped", "clean"),
            ("send", "confirmed", None),
        ],
    )
    with settlement.transaction("trip", approver=Person()) as tx:
        booked, sent = body(tx)
    assert (booked, sent.result()) == ({"confirmation": "R-b"}, "sent to boss")
    assert len(world.log) == 3


def test_the_record_names_both_decisions(settlement, gated):
    with settlement.transaction("trip", approver=Person(edit({"room": "b"}))) as tx:
        tx.call(gated.book, room="a")
    (trip,) = settlement.transactions()
    assert [(e.row.key, e.row.arguments, e.disposed.told) for e in trip.effects] == [
        ("trip#1/0", '{"room":"a"}', "approved with other arguments as trip#1/0.0"),
        ("trip#1/0.0", '{"room":"b"}', "approved by a person, in place of trip#1/0"),
    ]


def test_the_same_arguments_given_again_are_a_yes(settlement, gated, recorded):
    with settlement.transaction("trip", approver=Person(edit({"room": "a"}))) as tx:
        tx.call(gated.book, room="a")
    assert outcomes(recorded, settlement) == ("committed", [("book", "confirmed", None)])


@pytest.mark.parametrize("arguments", [{}, {"room": "a", "floor": 2}, {"room": ""}, {"room": object()}])
def test_arguments_that_the_tool_does_not_take_are_refused_and_nothing_acted(settlement, gated, world, arguments):
    with (
        pytest.raises(UsageError),
        settlement.transaction("trip", approver=Person(*[{"decision": "edit", "arguments": arguments}] * 2)) as tx,
    ):
        tx.call(gated.book, room="a")
    assert world.log == []
    assert host_of(settlement).protocol.live == {}


def test_other_arguments_are_checked_as_those_of_the_call_were_and_nothing_acted(settlement, world):
    def check(to):
        if to == "boss":
            raise ValueError("not to the boss")

    @effect("irreversible", scope="mail:/{to}", approve=True, check=check)
    def send(to):
        world.act("send", to)

    with (
        pytest.raises(
            UsageError, match="send refuses the arguments that were given in place of its own: ValueError: not"
        ),
        settlement.transaction("trip", approver=Person(*[edit({"to": "boss"})] * 2)) as tx,
    ):
        tx.call(send, to="x")
    assert (world.log, host_of(settlement).protocol.live, settlement.residue()) == ([], {}, [])


def test_what_ran_with_other_arguments_is_undone_with_them(settlement, gated, world):
    with (
        pytest.raises(Rejected),
        settlement.transaction("trip", approver=Person(edit({"room": "b"}), False)) as tx,
    ):
        tx.call(gated.book, room="a")
        tx.call(gated.send, to="x")
    assert world.log == [("book", "b"), ("cancel", "b")]


# ---- the world is looked at again


@pytest.mark.every_store
@pytest.mark.parametrize("call", ["book", "send"])
def test_what_was_read_and_changed_while_a_person_thought_refuses_the_call_and_nothing_acted(
    settlement, gated, tools, world, call
):
    def think(_gate):
        older.call(tools.put, cell="1", value=5)
        older.commit()
        return True

    calls = {"book": lambda tx: tx.call(gated.book, room="a"), "send": lambda tx: tx.call(gated.send, to="x")}
    with settlement.transaction("older") as older:
        with pytest.raises(Stale, match="cell:/1 changed"), settlement.transaction("trip", approver=think) as tx:
            tx.read("cell:/1")
            calls[call](tx)
    assert world.log == [("put", "1", 5)]
    assert host_of(settlement).protocol.live == {}


def test_a_live_read_that_changed_behind_its_back_refuses_the_call_too(settlement, gated, world):
    tags = [1]
    with (
        pytest.raises(Stale, match="price:/a changed, from outside"),
        settlement.transaction("trip", approver=lambda _gate: tags.append(2) or True) as tx,
    ):
        tx.read("price:/a", live=lambda: tags[-1])
        tx.call(gated.book, room="a")
    assert world.log == []


def test_an_error_of_whoever_asks_is_the_calls_and_nothing_acted(settlement, gated, world):
    def hang_up(_gate):
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"), settlement.transaction("trip", approver=hang_up) as tx:
        tx.call(gated.book, room="a")
    assert world.log == []
    assert host_of(settlement).protocol.live == {}


# ---- order


def test_calls_of_a_turn_are_asked_about_one_at_a_time_in_the_order_they_were_issued(settlement, gated, world):
    person = Person(*[True] * 4)
    with settlement.transaction("trip", approver=person) as tx, tx.turn() as turn:
        planned = [
            turn.plan(gated.send, to="x"),
            turn.plan(gated.book, room="a"),
            turn.plan(gated.send, to="y"),
            turn.plan(gated.charge, account="1", amount=100),
        ]
        threads = [threading.Thread(target=call.run) for call in reversed(planned)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [tool for tool, _ in person.asked] == ["send", "book", "send", "charge"]
    assert [entry[0] for entry in world.log] == ["book", "charge", "send", "send"]


def test_who_is_asked_about_waits_for_all_before_it_and_only_for_the_asked_ones_where_scopes_do_not_overlap():
    look = declare("look", "read", scope="room:/{room}")
    book = declare("book", "opaque")
    mail = declare("mail", "irreversible", scope="mail:/{to}", approve=True)
    for order, waits in (("turn", [0, 1, 2]), ("scopes", [2])):
        turn = Turn(order=order)
        seats = [
            turn.take(look, Scope.parse("room:/a")),
            turn.take(book, Scope.parse("run:/x")),
            turn.take(mail, Scope.parse("mail:/a")),
            turn.take(mail, Scope.parse("mail:/b")),
        ]
        found = []
        while (earlier := turn.before(seats[3])) is not None:
            found.append(earlier.number)
            turn.passed(earlier) if earlier.gated else turn.leave(earlier)
        assert sorted(found) == waits


# ---- nobody to ask


@pytest.mark.every_store
def test_what_is_irreversible_waits_for_an_answer_at_the_end_of_its_step(settlement, gated, tools, world):
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(gated.send, to="x")
    assert world.log == [("book", "a")]
    assert [(p.transaction, p.gates[0]["tool"]) for p in settlement.parked()] == [("trip", "send")]
    assert settlement.answer("trip", approve=True) == ["sent to x"]
    assert world.log == [("book", "a"), ("send", "x", "hello")]


def test_split_only_that_waits(settlement, gated, tools, world):
    with settlement.transaction("trip", park="split") as tx:
        tx.call(tools.book, room="a")
        tx.call(gated.send, to="x")
    assert [p.transaction for p in settlement.parked()] == ["trip!1"]
    assert settlement.transactions()[0].state is State.COMMITTED
    assert settlement.answer("trip!1", approve=False) == []
    assert world.log == [("book", "a")]


def test_entering_its_name_again_does_not_let_it_leave(settlement, gated, world):
    for _ in range(2):
        with settlement.transaction("trip") as tx:
            tx.call(gated.send, to="x")
    assert world.log == []
    settlement.answer("trip", approve=True)
    assert world.log == [("send", "x", "hello")]


def test_a_step_that_is_run_waits_too(settlement, gated, world):
    settlement.run("trip", lambda tx: tx.call(gated.send, to="x"))
    assert world.log == []
    settlement.answer("trip", approve=True)
    assert world.log == [("send", "x", "hello")]


def test_what_would_act_at_once_is_refused_and_the_error_names_whom_to_give(settlement, gated, world):
    with settlement.transaction("trip") as tx, pytest.raises(UsageError) as caught:
        tx.call(gated.book, room="a")
    assert str(caught.value) == (
        "book needs a person's yes, and there is nobody to ask: nothing was run; give settlement.transaction(…,"
        " approver=function), or declare it irreversible so that it waits for settlement.answer(…)"
    )
    assert world.log == []
    assert settlement.parked() == []


def test_a_branch_that_may_lose_is_nothing_to_wait_with(settlement, gated, world):
    with pytest.raises(ExceptionGroup) as caught:
        settlement.speculate([lambda tx: tx.call(gated.send, to="x")], lambda _values: 0, name="trip")
    assert "there is nobody to ask" in str(caught.value.exceptions[0])
    assert world.log == []
    assert host_of(settlement).protocol.live == {}


def test_an_answer_with_arguments_that_the_tool_does_not_take_leaves_the_question_open(settlement, gated, world):
    with settlement.transaction("trip") as tx:
        tx.call(gated.send, to="x")
    with pytest.raises(UsageError, match="send does not take"):
        settlement.answer("trip", approve=True, arguments={"too": "y"})
    assert world.log == []
    assert settlement.answer("trip", approve=True, arguments={"to": "y"}) == ["sent to y"]


# ---- around


async def test_whoever_is_asked_may_be_awaited(open_settlement, gated, world):
    person = Person(True, edit({"to": "y"}))
    settlement = open_settlement(approver=person.awaited)
    async with settlement.transaction("trip") as tx:
        await tx.call(gated.book, room="a")
        await tx.call(gated.send, to="x")
    assert world.log == [("book", "a"), ("send", "y", "hello")]


def test_a_transaction_has_an_approver_of_its_own(open_settlement, gated, world):
    everyone, own = Person(), Person(True)
    settlement = open_settlement(approver=everyone)
    with settlement.transaction("trip", approver=own) as tx:
        tx.call(gated.book, room="a")
    assert (everyone.asked, own.asked) == ([], [("book", {"room": "a"})])
    assert world.log == [("book", "a")]


DIES_WHILE_IT_ASKS = """
import os, sys
from settlemark import Settlement, effect
@effect("opaque", approve=True)
def pay(): raise AssertionError
with Settlement(sys.argv[1], approver=lambda gate: os._exit(7)).transaction("trip") as tx:
    tx.call(pay)
"""


def test_what_was_asked_when_its_process_died_never_ran_and_nobody_is_in_doubt(tmp_path, recorded):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    died = subprocess.run([sys.executable, "-c", DIES_WHILE_IT_ASKS, url], check=False)
    assert died.returncode == 7
    with Settlement(url) as later:
        assert later.recover(keep_open=0).undone in ([], ["trip"])  # or the maintenance was faster
        assert recorded(later, "trip") == [("aborted", [("pay", "dropped", "clean")])]
        assert later.residue() == later.in_doubt() == []
