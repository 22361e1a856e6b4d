"""What is begun inside a tool call is a part of the call's transaction, unless it is to be independent."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context

import pytest
from tests.rooms.protocol import Mode

from settlemark import (
    DeclarationError,
    Entangled,
    KeyConflict,
    Queued,
    Refused,
    Scope,
    Stale,
    State,
    Vetoed,
    effect,
)
from settlemark.agents import open_turn
from settlemark.hosting import Reason, host_of, run_sync


def told_by(refusal):
    """Return what a refusal says to a program: who would wait, for whom, and on what."""
    return refusal.data["transaction"], refusal.data["holder"], str(refusal.data["scope"])


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture
def delegated(settlement):
    """Build a tool that hands what it does to a transaction of its own."""

    def build(act, kind="opaque", **options):
        @effect(kind, **({"scope": "desk:/{desk}"} if kind == "read" else {}))
        def delegate(desk="d"):
            with settlement.transaction("inner", **options) as inner:
                return act(inner)

        return delegate

    return build


def keys(settlement, name):
    return [e.row.key for recorded in settlement.transactions() for e in recorded.effects if recorded.row.name == name]


# ---- joining


@pytest.mark.every_store
def test_calls_inside_a_call_are_the_outer_transactions_and_settle_with_it(
    settlement, tools, world, delegated, recorded
):
    def act(inner):
        assert (inner.name, inner.joined) == ("outer", True)
        inner.call(tools.book, room="a")
        return inner.call(tools.send, to="x")

    with settlement.transaction("outer") as outer:
        mail = outer.call(delegated(act))
        assert isinstance(mail, Queued)
        assert not outer.joined
        assert world.log == [("book", "a")]
        assert recorded(settlement, "outer") == [
            ("open", [("delegate", "confirmed", None), ("book", "confirmed", None), ("send", "queued", None)])
        ]
    assert world.log == [("book", "a"), ("send", "x", "hello")]
    assert mail.result() == "sent to x"
    assert recorded(settlement, "inner") == []
    assert keys(settlement, "outer") == ["outer#1/0", "outer#1/0.0.0", "outer#1/0.0.1"]


@pytest.mark.every_store
def test_an_outer_failure_undoes_what_had_joined_in_reverse_order(settlement, tools, world, delegated):
    def act(inner):
        inner.call(tools.book, room="a")
        inner.call(tools.book, room="b")
        inner.call(tools.send, to="x")

    with pytest.raises(Boom), settlement.transaction("outer") as outer:
        outer.call(delegated(act))
        outer.call(tools.book, room="c")
        raise Boom
    assert world.log == [("book", "a"), ("book", "b"), ("book", "c"), ("cancel", "c"), ("cancel", "b"), ("cancel", "a")]
    assert settlement.residue()[0].tool == "delegate"
    assert len(settlement.residue()) == 1


def test_what_joined_touches_what_its_caller_holds_and_sees_what_it_staged(settlement, tools, world, delegated):
    def act(inner):
        inner.call(tools.book, room="a")
        return inner.staged("cell:/1")

    with settlement.transaction("outer", wait=0) as outer:
        outer.read("room:/a")
        outer.call(tools.put, cell="1", value=7)
        assert outer.call(delegated(act)) == [{"cell": "1", "value": 7}]
    assert world.log == [("book", "a"), ("put", "1", 7)]


def test_held_effects_leave_in_issuance_order_whoever_issued_them(settlement, tools, world, delegated):
    with settlement.transaction("outer") as outer, outer.turn() as turn:
        first = turn.plan(delegated(lambda inner: [inner.call(tools.send, to=to) for to in "ab"]))
        second = turn.plan(tools.send, to="c")
        second.run()
        first.run()
    assert [entry[1] for entry in world.log] == ["a", "b", "c"]


def test_a_replay_that_runs_no_inner_call_still_knows_the_calls_behind_it(settlement, tools, world, delegated):
    def work():
        delegate = delegated(lambda inner: inner.call(tools.book, room="a")["confirmation"])
        with settlement.transaction("outer") as outer:
            return outer.call(delegate), outer.call(tools.book, room="b"), outer.call(delegate)

    first = work()
    assert work() == first == ("R-a", {"confirmation": "R-b"}, "R-a")
    assert world.log == [("book", "a"), ("book", "b"), ("book", "a")]
    assert keys(settlement, "outer") == ["outer#1/0", "outer#1/0.0.0", "outer#1/1", "outer#1/2", "outer#1/2.0.0"]


def test_a_tool_that_is_tried_again_finds_what_its_first_try_did(settlement, tools, world, recorded):
    tries = []

    @effect("opaque")
    def delegate():
        tries.append(len(tries))
        with settlement.transaction() as one:
            one.call(tools.book, room="a")
        with settlement.transaction() as two:
            two.call(tools.book, room="b")
            if len(tries) == 1:
                raise Boom
            two.call(tools.book, room="c")

    with settlement.transaction("outer", on_failure="retry") as outer:
        outer.call(delegate)
    assert tries == [0, 1]
    assert world.log == [("book", "a"), ("book", "b"), ("book", "c")]
    assert keys(settlement, "outer") == ["outer#1/0", "outer#1/0.0.0", "outer#1/0.1.0", "outer#1/0.1.1"]


def test_a_tool_that_asks_for_something_else_when_it_is_tried_again_is_told_so(settlement, tools, world):
    rooms = ["a", "b", "b"]

    @effect("opaque")
    def delegate():
        with settlement.transaction() as inner:
            inner.call(tools.book, room=rooms.pop(0))
            raise Boom

    wanted = pytest.raises(KeyConflict, match=r"call 1\.1\.1 of outer was book")
    with wanted, settlement.transaction("outer", on_failure="retry") as outer:
        outer.call(delegate)
    assert rooms == []
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_a_joined_one_that_commits_settles_nothing(settlement, tools, world, delegated):
    def act(inner):
        inner.call(tools.send, to="x")
        inner.commit()
        assert inner.state is State.OPEN
        inner.call(tools.send, to="y")

    with settlement.transaction("outer") as outer:
        outer.call(delegated(act))
        assert world.log == []
    assert world.log == [("send", "x", "hello"), ("send", "y", "hello")]


def test_a_joined_one_that_aborts_undoes_all_of_its_caller_when_the_call_returns(settlement, tools, world, delegated):
    def act(inner):
        inner.call(tools.book, room="b")
        inner.abort("not this way")
        assert world.log == [("book", "a"), ("book", "b")]
        with pytest.raises(Refused, match="not this way"):
            inner.call(tools.book, room="c")

    with pytest.raises(Refused, match="not this way"), settlement.transaction("outer") as outer:
        outer.call(tools.book, room="a")
        outer.call(delegated(act))
    assert world.log == [("book", "a"), ("book", "b"), ("cancel", "b"), ("cancel", "a")]
    assert outer.state is State.ABORTED


def test_an_error_that_the_tool_catches_is_the_tools_affair(settlement, tools, world):
    @effect("opaque")
    def delegate():
        with pytest.raises(Boom), settlement.transaction() as inner:
            inner.call(tools.book, room="a")
            raise Boom
        return "made do"

    with settlement.transaction("outer") as outer:
        assert outer.call(delegate) == "made do"
    assert world.log == [("book", "a")]
    assert outer.state is State.COMMITTED


def test_an_error_that_the_tool_lets_out_fails_its_call(settlement, tools, world, delegated):
    def act(inner):
        inner.call(tools.book, room="a")
        raise Boom

    with pytest.raises(Boom), settlement.transaction("outer") as outer:
        outer.call(delegated(act))
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_the_hooks_of_what_joined_are_asked_once_when_its_caller_settles(settlement, tools, world, delegated):
    asked = []

    def no(footprint):
        asked.append((footprint.transaction, [e["tool"] for e in footprint.effects]))
        return "never on a Sunday"

    delegate = delegated(lambda inner: inner.call(tools.send, to="x"), before_commit=no)
    with pytest.raises(Vetoed, match="never on a Sunday"), settlement.transaction("outer") as outer:
        outer.call(delegate)
        outer.call(delegate)
        assert asked == []
    assert asked == [("outer", ["delegate", "send", "delegate", "send"])]
    assert world.log == []


def test_what_joined_and_may_touch_is_held_by_its_caller_from_then_on(settlement, delegated):
    with settlement.transaction("outer") as outer:
        settlement.transactions()  # a step: now it has its place
        assert host_of(settlement).protocol.frontier(Scope.parse("room:/a")) > outer.epoch
        outer.call(delegated(lambda inner: None, may_touch="room:/a"))
        assert host_of(settlement).protocol.frontier(Scope.parse("room:/a")) == outer.epoch


def test_an_effect_inside_a_read_is_refused_and_a_read_is_not(settlement, tools, world, delegated, recorded):
    with settlement.transaction("outer") as outer:
        assert outer.call(delegated(lambda inner: inner.call(tools.look, room="a"), "read")) is False
        with pytest.raises(DeclarationError, match="book has an effect and was called inside delegate, which is") as no:
            outer.call(delegated(lambda inner: inner.call(tools.book, room="a"), "read"))
    assert no.value.tool == "delegate"
    assert world.log == []
    assert recorded(settlement, "outer") == []


def test_a_function_run_inside_a_call_joins_and_its_caller_begins_again_for_it(settlement, tools, world):
    calls = []

    def inner(tx):
        calls.append(tx.attempt)
        tx.read("price:/a")
        if len(calls) == 1:
            with settlement.transaction("rival", independent=True) as rival:
                rival.call(effect("opaque", scope="price:/{item}")(reprice), item="b")
        return tx.call(tools.book, room="a")["confirmation"]

    def reprice(item):
        world.act("reprice", item)

    delegate = effect("opaque")(lambda: settlement.run("inner", inner))
    assert settlement.run("outer", lambda tx: tx.call(delegate)) == "R-a"
    assert calls == [1]
    assert world.log == [("reprice", "b"), ("book", "a")]


def test_a_stale_read_of_what_joined_is_its_callers(settlement, tools, world):
    @effect("opaque", scope="price:/{item}")
    def reprice(item):
        world.act("reprice", item)

    delegate = effect("read", scope="desk:/d")(lambda: settlement.run("inner", lambda tx: tx.read("price:/a")))
    with settlement.transaction("rival") as rival, pytest.raises(Stale), settlement.transaction("outer") as outer:
        outer.call(delegate)
        rival.call(reprice, item="a")
        rival.commit()
        outer.call(tools.book, room="a")
    assert world.log == [("reprice", "a")]


async def test_it_is_the_same_awaited_and_in_tasks_of_the_tool(settlement, tools, world):
    async def sub_agent(room):
        async with settlement.transaction() as inner:
            await inner.call(tools.book, room=room)
            return inner.name

    @effect("opaque")
    async def delegate():
        return await asyncio.gather(sub_agent("a"), sub_agent("b"))

    @effect("opaque")
    def in_a_thread():
        async def inner(tx):
            await tx.call(tools.book, room="c")
            return tx.name

        return asyncio.run(settlement.run("inner", inner))

    with pytest.raises(Boom):
        async with settlement.transaction("outer") as outer:
            assert await outer.call(delegate) == ["outer", "outer"]
            assert await outer.call(in_a_thread) == "outer"
            raise Boom
    assert sorted(entry for entry in world.log if entry[0] == "book") == [("book", "a"), ("book", "b"), ("book", "c")]
    assert world.rooms == set()
    assert keys(settlement, "outer")[:1] == ["outer#1/0"]
    assert sorted(keys(settlement, "outer")[1:3]) == ["outer#1/0.0.0", "outer#1/0.1.0"]


def test_one_of_another_settlement_is_a_transaction_of_its_own(settlement, open_settlement, tools, world):
    other = open_settlement()

    @effect("opaque")
    def delegate():
        with other.transaction("inner") as inner:
            inner.call(tools.book, room="a")
            assert not inner.joined

    with pytest.raises(Boom), settlement.transaction("outer") as outer:
        outer.call(delegate)
        raise Boom
    assert world.log == [("book", "a")]


def test_a_thread_that_a_call_left_behind_begins_a_transaction_of_its_own(settlement, tools, world):
    returned, done = threading.Event(), threading.Event()
    found = []

    def late():
        returned.wait(10)
        with settlement.transaction("late") as tx:
            found.append((tx.name, tx.joined))
        done.set()

    @effect("opaque")
    def delegate():
        threading.Thread(target=copy_context().run, args=(late,)).start()

    with settlement.transaction("outer") as outer:
        outer.call(delegate)
        returned.set()
        assert done.wait(10)
    assert found == [("late", False)]


# ---- frameworks


def test_a_batch_inside_a_plain_call_joins_it(settlement, tools, world, delegated):
    def act(_inner):
        batch = run_sync(open_turn(settlement, "step", run="r"))
        call = batch.place(host_of(settlement).tools.of(tools.send), {"to": "x"})
        queued = run_sync(batch.perform(call, lambda: tools.send(to="x"), {"to": "x"}))
        run_sync(batch.leave(call))
        assert batch.joined
        assert isinstance(queued, Queued)

    with settlement.transaction("outer") as outer:
        outer.call(delegated(act))
        assert world.log == []
    assert world.log == [("send", "x", "hello")]
    assert keys(settlement, "outer") == ["outer#1/0", "outer#1/0.1.0"]


def test_a_suspended_call_that_comes_back_repeats_nothing_of_what_had_joined_it(settlement, tools, world):
    class Ask(Exception):
        pass

    answers = []

    @effect("opaque")
    def delegate():
        with settlement.transaction() as inner:
            inner.call(tools.book, room="a")
            if not answers:
                raise Ask
            inner.call(tools.book, room="b")

    def step():
        batch = run_sync(open_turn(settlement, "outer", run="outer", resumable=True, let_through=(Ask,)))
        calls = [
            batch.place(host_of(settlement).tools.of(f), a) for f, a in ((delegate, {}), (tools.book, {"room": "c"}))
        ]
        for call, act in zip(calls, (delegate, lambda: tools.book(room="c")), strict=True):
            try:
                run_sync(batch.perform(call, act, call.arguments))
            except Ask as ask:
                run_sync(batch.leave(call, error=ask))
            else:
                run_sync(batch.leave(call))
        return batch

    assert step().suspended
    answers.append("yes")
    assert not step().suspended
    assert world.log == [("book", "a"), ("book", "b"), ("book", "c")]
    assert sorted(keys(settlement, "outer")) == ["outer#1/0", "outer#1/0.0.0", "outer#1/0.0.1", "outer#1/1"]


# ---- independent


@pytest.mark.every_store
def test_an_independent_one_settles_at_its_own_end_whatever_becomes_of_its_caller(settlement, tools, world, delegated):
    def act(inner):
        assert (inner.name, inner.joined) == ("inner", False)
        inner.call(tools.send, to="audit")

    with pytest.raises(Boom), settlement.transaction("outer") as outer:
        outer.call(tools.book, room="a")
        outer.call(delegated(act, independent=True))
        assert world.log == [("book", "a"), ("send", "audit", "hello")]
        raise Boom
    assert world.log == [("book", "a"), ("send", "audit", "hello"), ("cancel", "a")]


@pytest.mark.every_store
@pytest.mark.parametrize(
    "touch",
    [
        lambda inner, tools: inner.call(tools.book, room="a"),
        lambda inner, tools: inner.call(tools.look, room="a"),
        lambda inner, tools: inner.read("room:/*"),
        lambda inner, tools: inner.call(effect("staged", scope="room:/{room}")(lambda room: None), room="a"),
    ],
    ids=["eager", "read", "wider", "held"],
)
def test_an_independent_one_that_touches_what_its_caller_holds_is_refused_at_once(
    settlement, tools, world, delegated, touch, recorded
):
    with pytest.raises(Entangled) as refused, settlement.transaction("outer") as outer:
        outer.call(tools.book, room="a")
        outer.call(delegated(lambda inner: touch(inner, tools), independent=True))
    assert (refused.value.transaction, refused.value.holder) == ("inner", "outer")
    assert "inner was begun inside a call of outer, which holds room:/" in str(refused.value)
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(settlement, "inner") == []
    assert host_of(settlement).protocol.live == {}


def test_an_independent_one_that_declares_what_its_caller_holds_does_not_begin(settlement, tools, world, delegated):
    with settlement.transaction("outer") as outer:
        outer.call(tools.book, room="a")
        with pytest.raises(Entangled, match="which holds room:/a"):
            outer.call(delegated(lambda inner: None, independent=True, may_touch="room:/a"))
        assert "inner" not in host_of(settlement).protocol.named
    assert world.log == [("book", "a")]


def test_an_independent_one_of_its_callers_own_name_is_refused_at_once(settlement, delegated):
    @effect("opaque")
    def again():
        with settlement.transaction("outer", independent=True):
            pass

    with settlement.transaction("outer") as outer, pytest.raises(Entangled, match="inside one of its own calls"):
        outer.call(again)


def test_one_inside_an_independent_one_may_not_touch_what_the_outermost_holds(settlement, tools, world, delegated):
    deepest = delegated(lambda inner: inner.call(tools.book, room="a"), independent=True)

    @effect("opaque")
    def middle():
        with settlement.transaction("other/middle", independent=True) as tx:
            tx.call(deepest)

    with settlement.transaction("outer") as outer:
        outer.call(tools.book, room="a")
        with pytest.raises(Entangled, match="inner was begun inside a call of outer"):
            outer.call(middle)
    assert world.log == [("book", "a")]


def test_a_held_effect_that_leaves_begins_transactions_of_its_own_beside_its_caller(settlement, tools, world):
    found = []

    @effect("irreversible", scope="desk:/{desk}")
    def leave(desk):
        with settlement.transaction(f"inner/{desk}") as inner:
            found.append(inner.joined)
            inner.call(tools.book, room=desk)

    with settlement.transaction("outer") as outer:
        outer.call(leave, desk="b")
    assert (found, world.log) == ([False], [("book", "b")])
    with pytest.raises(Refused, match="inner/a was begun inside a call of again"):
        with settlement.transaction("again") as outer:
            outer.call(tools.book, room="a")
            outer.call(leave, desk="a")
    assert world.log == [("book", "b"), ("book", "a"), ("cancel", "a")]


# ---- the rule itself


@pytest.mark.parametrize("mode", list(Mode))
def test_no_touch_of_a_callers_scope_moves_anything(stage, mode):
    caller = stage.begin("caller")
    stage.write(caller, "room:/a")
    inner = stage.begin("inner", parent=caller.id)
    before = stage.protocol.freeze()
    with pytest.raises(Entangled):
        stage.ask(inner, "room:/a", mode)
    assert stage.protocol.freeze() == before
    stage.touch(inner, "room:/b", mode)
    assert inner.position > caller.position


def test_what_its_caller_touched_behind_it_is_found_when_it_would_commit(stage):
    caller = stage.begin("caller")
    inner = stage.begin("inner", parent=caller.id)
    stage.hold(inner, "room:/a")
    stage.read(caller, "room:/a")
    stage.protocol.seal(inner)
    with pytest.raises(Entangled):
        stage.protocol.decide(inner)
    assert inner.state is State.SEALED
    stage.protocol.abort(inner, Reason.FAILED)
    stage.commit(caller)
    assert stage.protocol.live == {}


def test_two_callers_whose_inner_ones_would_wait_for_each_others_callers_are_a_circle(stage):
    one, two = stage.begin("one"), stage.begin("two")
    stage.write(one, "room:/a")
    stage.write(two, "room:/b")
    first, second = stage.begin("first", parent=one.id), stage.begin("second", parent=two.id)
    stage.hold(first, "room:/b")
    stage.protocol.seal(first)
    assert stage.protocol.decide(first).holder is two
    stage.hold(second, "room:/a")
    stage.protocol.seal(second)
    with pytest.raises(Entangled, match="second would wait for one, which holds room:/a and waits for two") as refused:
        stage.protocol.decide(second)
    assert told_by(refused.value) == ("second", "one", "room:/a")
    stage.protocol.abort(second, Reason.FAILED)
    assert second.finished
    stage.commit(two)
    assert stage.protocol.decide(first) is None


def test_whoever_is_waited_for_inside_a_call_may_not_wait_for_its_caller(stage):
    one, two = stage.begin("one"), stage.begin("two")
    first, second = stage.begin("first", parent=one.id), stage.begin("second", parent=two.id)
    stage.write(first, "room:/a")
    stage.write(two, "room:/b")
    assert stage.ask(second, "room:/a", Mode.EAGER)[1] is first
    with pytest.raises(
        Entangled, match="first would wait for two, which holds room:/b and cannot end before first"
    ) as refused:
        stage.ask(first, "room:/b", Mode.EAGER)
    assert told_by(refused.value) == ("first", "two", "room:/b")
    assert [hold.scope.text for hold in first.holds.values()] == ["room:/a"]


def test_a_circle_that_somebody_far_away_closes_is_looked_at_again(stage):
    caller, far, near = stage.begin("caller"), stage.begin("far"), stage.begin("near")
    inner = stage.begin("inner", parent=caller.id)
    stage.write(caller, "room:/a")
    stage.write(far, "room:/b")
    stage.write(near, "room:/c")
    assert stage.ask(near, "room:/b", Mode.EAGER)[1] is far
    call, holder = stage.ask(inner, "room:/c", Mode.EAGER)
    assert holder is near
    ticket = stage.protocol.watch(near, inner)
    assert stage.ask(far, "room:/a", Mode.EAGER)[1] is caller
    assert ticket.fired
    with pytest.raises(
        Entangled, match="inner would wait for near, which holds room:/c and waits for caller"
    ) as refused:
        stage.protocol.admit(call)
    assert told_by(refused.value) == ("inner", "near", "room:/c")
    assert inner.holds == {}


def test_a_caller_that_has_ended_is_no_hindrance(stage):
    caller = stage.begin("caller")
    stage.write(caller, "room:/a")
    inner = stage.begin("inner", parent=caller.id)
    stage.commit(caller)
    stage.write(inner, "room:/a")
    stage.commit(inner)
    assert stage.floor("room:/a") == inner.epoch > caller.epoch


def test_what_is_declared_later_is_held_from_then_on_and_below_the_floor_restamps(stage):
    late, writer = stage.begin("late"), stage.begin("writer")
    stage.write(writer, "room:/a")
    stage.commit(writer)
    stage.protocol.declare(late, [Scope.parse("room:/a")])
    assert late.epoch > writer.epoch
    assert stage.frontier("room:/a") == late.epoch
    stage.protocol.seal(late)
    stage.protocol.declare(late, [Scope.parse("room:/b")])
    assert late.holds == {}
