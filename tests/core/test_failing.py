"""Somebody is asked what a failed call is to mean: try it again, go on without it, or undo the step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from settlemark import Failure, InDoubt, PartialCommit, Queued, Refused, State, UsageError, effect
from settlemark.agents import open_turn
from settlemark.hosting import Reason, host_of, run_sync


class Boom(Exception):
    """What a tool fails with."""


class Person:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __call__(self, failure):
        self.asked.append(failure)
        return self.answers.pop(0)

    async def awaited(self, failure):
        return self(failure)


def about(person):
    return [(f.transaction, f.tool, dict(f.arguments), f.scope, type(f.error), f.tries, f.held) for f in person.asked]


@pytest.fixture
def asking(url, open_settlement):
    def build(*answers):
        person = Person(*answers)
        return open_settlement(url, on_failure="ask", ask=person), person

    return build


# ---- a call


def test_a_call_is_tried_again_for_as_long_as_that_is_said(asking, tools, world):
    settlement, person = asking("retry", "retry")
    world.fail("book", Boom(), Boom())
    with settlement.transaction("trip") as tx:
        assert tx.call(tools.book, room="a") == {"confirmation": "R-a"}
    assert about(person) == [
        ("trip", "book", {"room": "a"}, "room:/a", Boom, 1, False),
        ("trip", "book", {"room": "a"}, "room:/a", Boom, 2, False),
    ]
    assert world.log == [("book", "a")]


@pytest.mark.every_store
def test_a_step_goes_on_without_a_call_that_is_skipped(asking, tools, world, recorded):
    settlement, _ = asking("skip")
    world.fail("book", Boom("no rooms"))
    with settlement.transaction("trip") as tx:
        assert tx.call(tools.book, room="a") is None
        tx.call(tools.book, room="b")
    assert world.log == [("book", "b")]
    assert recorded(settlement, "trip") == [("committed", [("book", "failed", None), ("book", "confirmed", None)])]
    assert settlement.residue() == []


def test_later_calls_of_the_turn_are_not_stopped_by_one_that_is_skipped(asking, tools, world):
    settlement, _ = asking("skip")
    world.fail("book", Boom())
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        calls = [turn.plan(tools.book, room=room) for room in "abc"]
        assert [call.run() for call in calls] == [None, {"confirmation": "R-b"}, {"confirmation": "R-c"}]
    assert world.rooms == {"b", "c"}


def test_abort_is_what_an_error_means_without_anybody_to_ask(asking, tools, world):
    settlement, person = asking("abort")
    world.fail("charge", Boom())
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.charge, account="1", amount=5)
    assert len(person.asked) == 1
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_a_read_is_asked_about_too(asking):
    settlement, _ = asking("retry", "skip")
    faults = [Boom(), Boom()]

    def fetch():
        raise faults.pop()

    with settlement.transaction("trip") as tx:
        assert tx.read("price:/a", fetch) is None
    assert faults == []


def test_what_may_have_happened_is_not_asked_about(asking, tools, world):
    settlement, person = asking()
    world.fail("book", (None, TimeoutError()))
    with pytest.raises(InDoubt), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert person.asked == []


@pytest.mark.parametrize("answer", [None, "again", True, 3])
def test_what_is_no_answer_fails_the_call(asking, tools, world, answer):
    settlement, _ = asking(answer)
    world.fail("book", Boom())
    with pytest.raises(UsageError, match=f"ask= answered {answer!r} about book") as refused:
        with settlement.transaction("trip") as tx:
            tx.call(tools.book, room="a")
    assert isinstance(refused.value.__cause__, Boom)
    assert world.log == []
    assert host_of(settlement).protocol.live == {}


def test_an_error_of_whoever_is_asked_fails_the_call(open_settlement, tools, world):
    settlement = open_settlement(on_failure="ask", ask=lambda failure: 1 / 0)
    world.fail("book", Boom())
    with pytest.raises(ZeroDivisionError), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert host_of(settlement).protocol.live == {}


def test_a_step_that_was_undone_while_the_answer_was_thought_about_is_not_tried_again(quick, tools, world):
    def think(_failure):
        host_of(quick).ledger.now(lambda protocol, _book: protocol.abort(protocol.named["trip"], Reason.FAILED))
        return "retry"

    world.fail("book", Boom())
    with pytest.raises(Boom), quick.transaction("trip", on_failure="ask", ask=think) as tx:
        tx.call(tools.book, room="a")
    assert world.log == []
    assert host_of(quick).protocol.live == {}


async def test_whoever_is_asked_may_be_awaited(url, open_settlement, tools, world):
    person = Person("retry", "skip")
    settlement = open_settlement(url, on_failure="ask", ask=person.awaited)
    world.fail("book", Boom(), Boom())
    async with settlement.transaction("trip") as tx:
        assert await tx.call(tools.book, room="a") is None
    with settlement.transaction("again") as tx:
        assert tx.call(tools.book, room="a") == {"confirmation": "R-a"}
    assert [failure.tries for failure in person.asked] == [1, 2]


def test_a_transaction_may_have_somebody_of_its_own(quick, tools, world):
    person = Person("skip", "retry")
    world.fail("book", Boom(), Boom())
    with quick.transaction("trip", on_failure="ask", ask=person) as tx:
        assert tx.call(tools.book, room="a") is None
    quick.run("again", lambda tx: tx.call(tools.book, room="b"), on_failure="ask", ask=person)
    assert [failure.transaction for failure in person.asked] == ["trip", "again"]
    assert world.rooms == {"b"}


def test_asking_nobody_is_refused(open_settlement, quick):
    with pytest.raises(UsageError, match=r"on_failure='ask' and ask=None: give ask=function"):
        open_settlement(on_failure="ask")
    with pytest.raises(UsageError, match="give ask=function"):
        quick.transaction("trip", on_failure="ask")
    with pytest.raises(UsageError, match="ask=7"):
        quick.transaction("trip", on_failure="ask", ask=7)
    assert host_of(quick).protocol.live == {}


# ---- replays


@pytest.mark.every_store
def test_a_replay_skips_what_was_skipped_and_asks_nobody(asking, tools, world):
    settlement, person = asking("skip")
    world.fail("book", Boom("no rooms"))

    def work():
        with settlement.transaction("trip") as tx:
            return tx.call(tools.book, room="a"), tx.call(tools.book, room="b")

    assert work() == work() == (None, {"confirmation": "R-b"})
    assert len(person.asked) == 1
    assert world.log == [("book", "b")]


@pytest.mark.every_store
def test_a_call_that_was_skipped_is_not_run_when_it_is_made_again_and_nobody_is_asked(asking, tools, world, recorded):
    settlement, person = asking("skip")
    world.fail("book", Boom("no rooms"))
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        call = turn.plan(tools.book, room="a")
        assert (call.run(), call.run()) == (None, None)
    assert (len(person.asked), world.log) == (1, [])
    assert recorded(settlement, "trip") == [("committed", [("book", "failed", None)])]


# ---- a release


def held(settlement, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        return [tx.call(tools.send, to=to) for to in "xyz"]


def test_a_held_effect_that_fails_when_it_leaves_is_tried_again(asking, tools, world):
    settlement, person = asking("retry")
    world.fail("send", Boom())
    assert [mail.result() for mail in held(settlement, tools)] == ["sent to x", "sent to y", "sent to z"]
    assert about(person) == [("trip", "send", {"to": "x", "text": "hello"}, "mail:/x", Boom, 1, True)]


@pytest.mark.every_store
def test_the_others_leave_without_one_that_is_skipped(asking, tools, world, recorded):
    settlement, _ = asking("skip")
    world.fail("send", None, Boom())
    first, second, third = held(settlement, tools)
    assert (first.outcome, second.outcome, third.outcome) == ("confirmed", "dropped", "confirmed")
    assert world.log == [("book", "a"), ("send", "x", "hello"), ("send", "z", "hello")]
    assert recorded(settlement, "trip") == [
        (
            "committed",
            [
                ("book", "confirmed", None),
                ("send", "confirmed", None),
                ("send", "dropped", "clean"),
                ("send", "confirmed", None),
            ],
        )
    ]
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
def test_what_is_skipped_when_it_was_to_leave_is_in_nobodys_way_while_the_rest_leaves(asking, tools, world, recorded):
    @effect("reversible", scope="mail:/{to}", undo=lambda to: None)
    def draft(to):
        world.act("draft", to)

    @effect("irreversible", scope="wire:/{to}")
    def wire(to):
        seen.extend(recorded(settlement, "trip"))
        with ThreadPoolExecutor() as others:
            others.submit(act_on_it).result()

    def act_on_it():
        with pytest.raises(Boom), settlement.transaction("other", wait=0) as other:
            other.call(draft, to="x")
            raise Boom  # its commit would wait for the older one

    seen = []
    settlement, _ = asking("skip")
    world.fail("send", Boom())
    with settlement.transaction("trip") as tx:
        tx.call(tools.send, to="x")
        tx.call(wire, to="y")
    assert seen == [("releasing", [("send", "dropped", "clean"), ("wire", "queued", None)])]
    assert (world.log, settlement.residue(), host_of(settlement).protocol.live) == ([("draft", "x")], [], {})


@pytest.mark.every_store
@pytest.mark.parametrize("left", [0, 1])
def test_abort_behind_a_gate_is_what_a_refused_release_means(asking, tools, world, left):
    settlement, _ = asking("abort")
    world.fail("send", *[None] * left, Boom(), Boom(), Boom())
    with pytest.raises(PartialCommit if left else Refused):
        held(settlement, tools)
    assert world.log == ([("book", "a"), ("send", "x", "hello")] if left else [("book", "a"), ("cancel", "a")])


# ---- frameworks


def batch_of(settlement, world, tools, *rooms):
    batch = run_sync(open_turn(settlement, "step", run="r"))
    calls = [batch.place(host_of(settlement).tools.of(tools.book), {"room": room}) for room in rooms]
    answers = []
    for call, room in zip(calls, rooms, strict=True):
        try:
            answers.append(run_sync(batch.perform(call, lambda room=room: tools.book(room=room), {"room": room})))
        except Boom as error:
            answers.append(str(error))
            run_sync(batch.leave(call, failed=f"Boom: {error}"))
        else:
            run_sync(batch.leave(call))
    return batch, answers


def test_a_frameworks_turn_goes_on_without_a_call_that_is_skipped_and_its_model_is_told(asking, tools, world):
    settlement, person = asking("skip")
    world.fail("book", None, Boom("no rooms"))
    batch, answers = batch_of(settlement, world, tools, "a", "b", "c")
    assert answers == [{"confirmation": "R-a"}, "no rooms", {"confirmation": "R-c"}]
    assert (batch.refusal, batch.settled, [call.skipped for call in batch.calls]) == (None, True, [False, True, False])
    assert world.rooms == {"a", "c"}
    assert len(person.asked) == 1


def test_a_frameworks_turn_is_undone_when_that_is_said(asking, tools, world):
    settlement, _ = asking("abort")
    world.fail("book", None, Boom("no rooms"))
    batch, answers = batch_of(settlement, world, tools, "a", "b")
    assert answers == [{"confirmation": "R-a"}, "no rooms"]
    assert batch.attempt.live.state is State.ABORTED
    assert world.log == [("book", "a"), ("cancel", "a")]


async def test_a_failure_says_what_it_is_about(asking, tools, world):
    settlement, person = asking("skip")
    world.fail("book", Boom("no rooms"))

    @effect("opaque")
    def delegate():
        with settlement.transaction() as inner:
            inner.call(tools.book, room="a")

    async with settlement.transaction("trip") as tx:
        await tx.call(delegate)
        assert isinstance(await tx.call(tools.send, to="x"), Queued)
    (failure,) = person.asked
    assert isinstance(failure, Failure)
    assert (failure.transaction, failure.tool, str(failure.error)) == ("trip", "book", "no rooms")
