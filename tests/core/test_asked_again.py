"""A person is asked once: whoever comes back to a question, in whatever process, goes by the answer there is."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace

import pytest
from tests.rooms.lifecycle import TRIES

from settlemark import Cancelled, Rejected, Retries, UsageError, effect
from settlemark.agents import open_turn
from settlemark.hosting import edit, host_of, reject, run_sync
from settlemark.testing import die, in_child


class Suspended(Exception):
    """A framework's control flow."""


class Person:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def __call__(self, gate):
        self.asked.append(gate)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class Office:
    """A counterparty whose log is a file, so that it outlives its callers."""

    def __init__(self, folder):
        self.path = folder / "log"
        self.path.touch()

        @effect("reversible", scope="room:/{room}", undo=lambda room: self.act(f"cancel {room}"), approve=True)
        def book(room):
            self.act(f"book {room}")
            return {"room": room}

        @effect("irreversible", scope="mail:/{to}", approve=True)
        def send(to):
            self.act(f"send {to}")
            return f"sent to {to}"

        self.tools = SimpleNamespace(book=book, send=send)

    def act(self, line):
        with self.path.open("a") as log:
            log.write(line + "\n")

    @property
    def log(self):
        return self.path.read_text().splitlines()


@pytest.fixture
def office(tmp_path):
    return Office(tmp_path)


@pytest.fixture(params=["put aside", "of another process"])
def again(request, url, open_settlement):
    """Play a plan under a name that is left open; return the settlement of who comes back."""
    if request.param == "of another process" and url == "memory:":
        pytest.skip("what is in memory ends with its process")

    def play(plan, person):
        settlement = open_settlement(url)
        if request.param == "put aside":
            with settlement.transaction("trip", approver=person) as tx:
                plan(tx)
                tx.park("keep")
            return settlement
        tx = settlement.transaction("trip", approver=person).__enter__()
        plan(tx)
        settlement.close()
        return open_settlement(url)

    return play


@pytest.mark.every_store
def test_who_comes_back_to_a_no_is_told_it_again_and_nobody_is_asked_twice(again, office):
    def plan(tx):
        for tool, given in ((office.tools.book, {"room": "a"}), (office.tools.send, {"to": "x"})):
            with pytest.raises(Rejected, match=r"was rejected by a human: too soon; nothing of it happened"):
                tx.call(tool, **given)

    settlement = again(plan, Person(reject("too soon"), reject("too soon")))
    with settlement.transaction("trip", approver=Person()) as tx:
        plan(tx)
    assert (office.log, settlement.residue(), host_of(settlement).protocol.live) == ([], [], {})


@pytest.mark.every_store
def test_who_comes_back_to_a_yes_has_the_call_done_once_and_nobody_is_asked_twice(again, office):
    def plan(tx):
        return tx.call(office.tools.book, room="a"), tx.call(office.tools.send, to="x")

    settlement = again(plan, Person(True, True))
    assert office.log == ["book a"]
    with settlement.transaction("trip", approver=Person()) as tx:
        booked, sent = plan(tx)
    assert (booked, sent.result(), office.log) == ({"room": "a"}, "sent to x", ["book a", "send x"])
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})
    dispositions = [found.disposition for one in settlement.transactions() for found in one.effects]
    assert dispositions == ["approved", "approved"]


@pytest.mark.every_store
def test_who_comes_back_to_a_yes_with_other_arguments_has_those_done_once(again, office):
    def plan(tx):
        return tx.call(office.tools.book, room="a"), tx.call(office.tools.send, to="x")

    settlement = again(plan, Person(edit({"room": "b"}), edit({"to": "boss"})))
    assert office.log == ["book b"]
    with settlement.transaction("trip", approver=Person()) as tx:
        booked, sent = plan(tx)
    assert (booked, sent.result(), office.log) == ({"room": "b"}, "sent to boss", ["book b", "send boss"])
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_call_with_the_arguments_that_were_given_is_recorded_as_the_models_own(quick, office):
    with quick.transaction("trip", approver=Person(edit({"room": "b"}))) as tx:
        with tx.turn(because="they want a room") as turn:
            turn.call(office.tools.book, room="a")
    (trip,) = quick.transactions()
    assert [(found.row.arguments, found.row.rationale, found.row.position) for found in trip.effects] == [
        ('{"room":"a"}', "they want a room", 0),
        ('{"room":"b"}', "they want a room", 1),
    ]


# ---- the process that asked has died


def left_by_who_died(url, open_settlement, play):
    """Play in a process that dies, and return the settlement of the one that comes next."""

    def child(_tell):
        play(open_settlement(url, retries=Retries(first=0, most=0)))

    ended = in_child(child, timeout=20)
    assert ended.killed, ended.error or ended.stack
    settlement = open_settlement(url, keep_open=1000)
    settlement.recover()
    return settlement


@pytest.fixture
def died(tmp_path, open_settlement):
    return lambda play: left_by_who_died(f"sqlite:///{tmp_path / 'ledger.db'}", open_settlement, play)


def test_a_yes_that_was_given_before_its_process_died_counts_and_nobody_is_asked_again(died, office):
    looked = []

    def play(settlement):
        tx = settlement.transaction("trip", approver=Person(True)).__enter__()
        # It is looked at again when the answer has come.
        tx.read("price:/a", live=lambda: looked.append(1) or (die() if len(looked) > 1 else 1))
        tx.call(office.tools.book, room="a")

    settlement = died(play)
    assert (office.log, settlement.approvals()) == ([], [])
    with settlement.transaction("trip", approver=Person()) as tx:
        assert tx.call(office.tools.book, room="a") == {"room": "a"}
    assert (office.log, tx.attempt, settlement.residue()) == (["book a"], 1, [])


@pytest.mark.parametrize("answer", ["yes", "no", "other arguments"])
def test_what_somebody_answers_while_nobody_is_there_to_hear_it_is_heard_by_who_comes_back(died, office, answer):
    def play(settlement):
        tx = settlement.transaction("trip", approver=lambda gate: die()).__enter__()
        tx.call(office.tools.book, room="a")

    settlement = died(play)
    (asked,) = settlement.approvals()
    if answer == "no":
        settlement.reject(asked.key, because="too dear", by="ada")
    else:
        settlement.approve(asked.key, by="ada", arguments={"room": "b"} if answer != "yes" else None)
    with settlement.transaction("trip", approver=Person()) as tx:
        if answer == "no":
            with pytest.raises(Rejected, match="too dear"):
                tx.call(office.tools.book, room="a")
        else:
            tx.call(office.tools.book, room="a")
    assert office.log == {"yes": ["book a"], "no": [], "other arguments": ["book b"]}[answer]
    assert (tx.attempt, settlement.residue(), host_of(settlement).protocol.live) == (1, [], {})


@pytest.mark.parametrize("tool", ["book", "send"])
def test_a_question_whose_process_died_is_asked_again_in_the_next(died, office, tool):
    given = {"book": {"room": "a"}, "send": {"to": "x"}}[tool]

    def play(settlement):
        settlement.transaction("trip", approver=lambda gate: die()).__enter__().call(
            getattr(office.tools, tool), **given
        )

    settlement, person = died(play), Person(True)
    with settlement.transaction("trip", approver=person) as tx:
        tx.call(getattr(office.tools, tool), **given)
    assert ([gate.tool for gate in person.asked], office.log) == ([tool], [f"{tool} {'x' if tool == 'send' else 'a'}"])
    assert (tx.attempt, settlement.residue(), host_of(settlement).protocol.live) == (1, [], {})


def test_a_question_whose_process_died_waits_at_the_end_of_a_step_that_has_nobody_to_ask(died, office):
    def play(settlement):
        settlement.transaction("trip", approver=lambda gate: die()).__enter__().call(office.tools.send, to="x")

    settlement = died(play)
    with settlement.transaction("trip") as tx:
        tx.call(office.tools.send, to="x")
    assert ([parked.transaction for parked in settlement.parked()], office.log) == (["trip"], [])
    assert settlement.answer("trip", approve=True) == ["sent to x"]
    assert (office.log, host_of(settlement).protocol.live) == (["send x"], {})


# ---- while a person thinks


def test_a_cancel_waits_for_nobody_who_thinks_and_a_yes_comes_too_late(quick, office):
    found = []

    def think(gate):
        quick.cancel("trip")
        found.append([(one.state.value, [e.outcome.value for e in one.effects]) for one in quick.transactions()])
        return True

    with pytest.raises(Cancelled), quick.transaction("trip", approver=think, wait=0) as tx:
        tx.call(office.tools.book, room="a")
    assert (found, office.log) == ([[("aborted", ["dropped"])]], [])
    assert (quick.residue(), host_of(quick).protocol.live) == ([], {})


# ---- an answer that is none


def batch_of(settlement, tool, given, ask):
    """Play one call as a framework does that asks by itself."""
    batch = run_sync(open_turn(settlement, "trip", run="trip", resumable=True, let_through=(Suspended,)))
    call = batch.place(host_of(settlement).tools.of(tool), given)
    error = None
    try:
        return run_sync(
            batch.perform(
                call,
                lambda: tool(**given),
                given,
                ask=ask,
                remake=lambda new: (lambda: tool(**new), None),
                may_wait=False,
            )
        )
    except (Suspended, UsageError) as raised:
        error = raised
        raise
    finally:
        run_sync(batch.leave(call, error=error))
        if batch.unattended:
            run_sync(batch.finish(call))


def test_a_frameworks_question_that_was_not_answered_is_put_again_and_says_what_was_wrong(quick, office):
    told = []
    answers = iter(["maybe", edit({"too": "much"}), True])
    batch_of(quick, office.tools.book, {"room": "a"}, lambda gate: told.append(gate.error) or next(answers))
    assert told[0] is None
    assert told[1].startswith("'maybe' is not a decision")
    assert told[2].startswith("the scope template 'room:/{room}' cannot be filled")
    assert (office.log, TRIES) == (["book a"], 3)


def test_a_frameworks_call_runs_with_the_arguments_that_were_given_for_it(quick, office):
    assert batch_of(quick, office.tools.book, {"room": "a"}, lambda gate: edit({"room": "b"})) == {"room": "b"}
    assert (office.log, host_of(quick).protocol.live) == (["book b"], {})


def test_a_framework_is_asked_where_it_runs_the_call_and_in_no_other_thread(shared_url, open_settlement, office):
    """What it knows of the call may be there alone, and its question may be its way of stopping."""
    settlement, asked = open_settlement(shared_url), []
    batch_of(settlement, office.tools.book, {"room": "a"}, lambda _gate: not asked.append(threading.current_thread()))
    assert (asked, office.log) == ([threading.current_thread()], ["book a"])


def test_nobody_is_asked_for_ever_and_what_was_asked_about_never_runs(quick, office):
    asked = []
    with pytest.raises(UsageError, match="'maybe' is not a decision"):
        batch_of(quick, office.tools.book, {"room": "a"}, lambda gate: asked.append(gate) or "maybe")
    assert (len(asked), office.log, host_of(quick).protocol.live) == (3, [], {})


@pytest.mark.every_store
def test_a_framework_that_comes_back_finds_its_question_under_the_number_it_had_there(url, open_settlement, office):
    numbers = []

    def ask(gate):
        numbers.append(gate.question)
        if len(numbers) < 3:
            gate.question = 7
            raise Suspended
        return True

    settlement = open_settlement(url)
    for _ in range(2):
        with pytest.raises(Suspended):
            batch_of(settlement, office.tools.book, {"room": "a"}, ask)
        if url != "memory:":
            settlement.close()
            settlement = open_settlement(url)
    batch_of(settlement, office.tools.book, {"room": "a"}, ask)
    assert (numbers, office.log) == ([None, 7, 7], ["book a"])


# ---- nobody to ask


def test_that_nobody_is_asked_is_said_once_and_not_again_when_its_name_is_entered_again(quick, office, caplog):
    caplog.set_level(logging.WARNING, logger="settlemark")
    for _ in range(2):
        with quick.transaction("trip") as tx:
            tx.call(office.tools.send, to="x")
            tx.call(office.tools.send, to="y")
    (said,) = caplog.records
    assert said.message == (
        "send needs a person's yes, and nobody is asked here: trip is put aside at its end, and nothing held of it"
        " leaves before settlement.approve(), or settlemark approve, is called"
    )
    assert said.settlemark == {"transaction": "trip", "tool": "send"}
    quick.answer("trip", approve=True)
    assert office.log == ["send x", "send y"]


def test_how_a_caller_puts_its_step_aside_goes_before_how_it_is_put_aside_for_a_question(quick, office):
    with quick.transaction("trip", park="split") as tx:
        tx.park("keep")
        tx.call(office.tools.send, to="x")
    assert [parked.transaction for parked in quick.parked()] == ["trip"]


def test_where_nothing_can_be_put_aside_nobody_is_advised_to_wait_for_an_answer(quick, office):
    with pytest.raises(ExceptionGroup) as caught:
        quick.speculate([lambda tx: tx.call(office.tools.send, to="x")], lambda _values: 0, name="trip")
    assert str(caught.value.exceptions[0]) == (
        "send needs a person's yes, and there is nobody to ask: nothing was run; give settlement.transaction(…,"
        " approver=function)"
    )
    assert (office.log, host_of(quick).protocol.live) == ([], {})
