"""The calls of one turn act in the order in which the model issued them, whatever finishes first."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlemark import Queued, Refused, Scope, current_call, effect
from settlemark.agents import open_turn
from settlemark.hosting import Ticket, Turn, declare, host_of, run_sync
from settlemark.ledger import EffectRow

PATIENCE = 60

READ = declare("look", "read")
EAGER = declare("act", "opaque", scope="room:/a")
HELD = declare("send", "irreversible", scope="mail:/a")
DECLARATIONS = {"read": READ, "eager": EAGER, "held": HELD}
PATHS = ["a", "a/1", "b", "*"]
ORDERS = ["turn", "scopes", "issued"]

calls = st.lists(st.tuples(st.sampled_from(sorted(DECLARATIONS)), st.sampled_from(PATHS)), max_size=8)


class Boom(Exception):
    """A tool's failure."""


def seats(turn, issued):
    return [turn.take(DECLARATIONS[kind], Scope.parse(f"room:/{path}")) for kind, path in issued]


def overlap(one, other):
    return one.scope.overlaps(other.scope)


def must_wait(seat, earlier, order):
    """Whom a seat must wait for, by the rules, comparing it with each seat before it."""
    if seat.held or earlier.held:
        return False
    if seat.reads and earlier.reads:
        return False
    if seat.reads or earlier.reads:
        return overlap(seat, earlier)
    return order != "scopes" or overlap(seat, earlier)


# ---- the order, by properties


@given(calls, st.sampled_from(ORDERS))
def test_a_call_is_held_exactly_when_it_is_declared_so_or_overlaps_a_held_one_before_it(issued, order):
    taken = seats(Turn(order=order), issued)
    for number, seat in enumerate(taken):
        before = [s for s in taken[:number] if s.held and (order == "issued" or overlap(s, seat))]
        assert seat.held == (seat.declaration is HELD or (seat.declaration is EAGER and bool(before)))


@given(calls, st.sampled_from(ORDERS), st.randoms(use_true_random=False))
def test_any_order_of_completion_externalises_in_issuance_order(issued, order, random):
    turn = Turn(order=order)
    taken = seats(turn, issued)
    begun, over = [], []
    while len(over) < len(taken):
        for seat in taken:
            waits = [e for e in taken[: seat.number] if e not in over and must_wait(seat, e, order)]
            if seat not in begun:
                assert (turn.before(seat) is None) == (not waits)
                if not waits:
                    begun.append(seat)
        seat = random.choice([s for s in begun if s not in over])
        turn.leave(seat)
        over.append(seat)
    effects = [s for s in begun if not s.held and not s.reads]
    for late, seat in enumerate(effects):
        for earlier in effects[:late]:
            assert earlier.number < seat.number or not must_wait(earlier, seat, order)
    assert turn._index.root.children == {}


@given(calls, st.data())
def test_the_first_failure_stops_exactly_the_later_calls(issued, data):
    turn = Turn()
    taken = seats(turn, issued)
    failing = data.draw(st.permutations(taken)) if taken else []
    for seat in failing[:3]:
        turn.leave(seat, failed=True)
    first = min((s.number for s in failing[:3]), default=len(taken))
    assert [turn.stopped(s) for s in taken] == [s.number > first for s in taken]
    patient = Turn(stop_on_failure=False)
    taken = seats(patient, issued)
    for seat in taken[:1]:
        patient.leave(seat, failed=True)
    assert not any(patient.stopped(s) for s in taken)


def test_leaving_twice_changes_nothing():
    turn = Turn()
    first, second = seats(turn, [("eager", "a"), ("eager", "a")])
    turn.leave(first)
    assert turn.leave(first, failed=True) == []
    assert (turn.failed, turn.before(second)) == (None, None)


# ---- the order, through the public face


class Desk:
    """Slow tools that say when they began and wait until they are let go."""

    def __init__(self, world):
        self.world = world
        self.begun = {name: threading.Event() for name in "abcd"}
        self.go = {name: threading.Event() for name in "abcd"}
        desk = self

        @effect("reversible", scope="desk:/{name}", undo=lambda name: world.act("undo", name))
        def slow(name):
            desk.begun[name].set()
            assert desk.go[name].wait(PATIENCE)
            world.act("slow", name)
            return name

        @effect("read", scope="desk:/{name}")
        def look(name):
            desk.begun[name].set()
            assert desk.go[name].wait(PATIENCE)
            world.act("look", name)

        self.slow, self.look = slow, look


@pytest.fixture
def desk(world):
    return Desk(world)


def start(function, told):
    def target():
        try:
            told.append(function())
        except Exception as error:
            told.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    return thread


def join(*threads):
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_effects_act_in_issuance_order_though_the_later_is_run_first(settlement, world, desk, someone_waits):
    told = []
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        first, second = turn.plan(desk.slow, name="a"), turn.plan(desk.slow, name="b")
        waits = someone_waits(settlement)
        later = start(second.run, told)
        assert waits.wait(PATIENCE)
        assert settlement.waiting() == [("trip", "slow, issued before it,", "desk:/a")]
        sooner = start(first.run, told)
        for name in "ab":
            assert desk.begun[name].wait(PATIENCE)
            desk.go[name].set()
        join(sooner, later)
    assert (told, world.log) == (["a", "b"], [("slow", "a"), ("slow", "b")])


def test_reads_run_beside_each_other_and_beside_effects_elsewhere(settlement, desk):
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        planned = [turn.plan(desk.slow, name="a"), turn.plan(desk.look, name="b"), turn.plan(desk.look, name="c")]
        threads = [start(call.run, []) for call in planned]
        for name in "abc":  # all three are inside at once
            assert desk.begun[name].wait(PATIENCE)
        for name in "abc":
            desk.go[name].set()
        join(*threads)


def test_a_read_waits_for_an_earlier_effect_it_overlaps(settlement, world, tools, someone_waits):
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        book, look = turn.plan(tools.book, room="a"), turn.plan(tools.look, room="a")
        told, waits = [], someone_waits(settlement)
        thread = start(look.run, told)
        assert waits.wait(PATIENCE)
        book.run()
        join(thread)
    assert told == [True]


def test_what_is_issued_behind_a_held_effect_runs_in_its_place_and_what_is_held_leaves_last(settlement, world, tools):
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        assert isinstance(turn.call(tools.send, to="ada"), Queued)
        answers = [turn.call(tools.book, room="b"), turn.call(tools.shout, word="x")]
        assert isinstance(turn.call(tools.send, to="bob"), Queued)
        assert answers == [{"confirmation": "R-b"}, "X"]
        assert world.log == [("book", "b"), ("shout", "x")]
    assert world.log[2:] == [("send", "ada", "hello"), ("send", "bob", "hello")]


def test_with_order_issued_what_is_issued_behind_a_held_effect_is_held_and_leaves_in_order(settlement, world, tools):
    with settlement.transaction("trip") as tx, tx.turn(order="issued") as turn:
        turn.call(tools.book, room="a")
        answers = [turn.call(tools.send, to="ada"), turn.call(tools.book, room="b"), turn.call(tools.shout, word="x")]
        assert all(isinstance(answer, Queued) for answer in answers)
        assert world.log == [("book", "a")]
    assert world.log == [("book", "a"), ("send", "ada", "hello"), ("book", "b"), ("shout", "x")]
    assert [answer.result() for answer in answers] == ["sent to ada", {"confirmation": "R-b"}, "X"]


@pytest.mark.parametrize("order", ["turn", "scopes"])
def test_what_overlaps_a_held_effect_of_its_turn_is_held_and_so_is_what_overlaps_that(settlement, world, tools, order):
    @effect("reversible", scope="cell:/{cell}", may_touch="room:/{room}", undo=lambda: None)
    def move(cell, room):
        world.act("move", cell, room)

    with settlement.transaction("trip") as tx, tx.turn(order=order) as turn:
        answers = [turn.call(tools.put, cell="c", value=1), turn.call(move, cell="c", room="a")]
        answers.append(turn.call(tools.book, room="a"))
        assert [type(answer) for answer in answers] == [Queued] * 3
        assert turn.call(tools.book, room="b") == {"confirmation": "R-b"}
    assert world.log == [("book", "b"), ("put", "c", 1), ("move", "c", "a"), ("book", "a")]


def test_an_effect_before_one_that_is_held_runs_at_once_though_it_is_called_when_that_is_queued(
    settlement, world, tools
):
    @effect("reversible", scope="cell:/{cell}", undo=lambda: None)
    def bump(cell):
        world.act("bump", cell)
        return "bumped"

    with settlement.transaction("trip") as tx, tx.turn() as turn:
        first, second = turn.plan(bump, cell="c"), turn.plan(tools.put, cell="c", value=1)
        assert isinstance(second.run(), Queued)
        assert first.run() == "bumped"
    assert world.log == [("bump", "c"), ("put", "c", 1)]


def test_with_order_scopes_only_what_overlaps_a_held_effect_is_held(settlement, world, tools):
    with settlement.transaction("trip") as tx, tx.turn(order="scopes") as turn:
        assert isinstance(turn.call(tools.send, to="ada"), Queued)
        assert turn.call(tools.book, room="a") == {"confirmation": "R-a"}
    assert [entry[0] for entry in world.log] == ["book", "send"]


def test_across_turns_an_effect_goes_on_past_the_gate(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.send, to="ada")
        assert tx.call(tools.book, room="a") == {"confirmation": "R-a"}
    assert [entry[0] for entry in world.log] == ["book", "send"]


def test_the_first_failure_of_a_turn_stops_the_later_calls_and_says_which(settlement, world, tools):
    world.fail("book", Boom("full"))
    with pytest.raises(Boom), settlement.transaction("trip") as tx, tx.turn() as turn:
        planned = [turn.plan(tools.book, room=room) for room in "ab"]
        told = []
        for call in planned:
            try:
                call.run()
            except (Boom, Refused) as error:
                told.append(error)
        assert str(told[1]) == "book was not run: book, issued before it, failed; decide again from that failure"
        raise told[0]
    assert world.log == []


def test_a_failure_drops_what_was_already_queued_behind_it(settlement, world, tools):
    world.fail("book", Boom("full"))
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        book, send = turn.plan(tools.book, room="a"), turn.plan(tools.send, to="ada")
        queued = send.run()
        with pytest.raises(Boom):
            book.run()
        assert [e.outcome.value for r in settlement.transactions() for e in r.effects] == ["failed", "dropped"]
        assert (queued.outcome, str(queued)) == ("dropped", "send: dropped")
    assert world.log == []
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
def test_what_a_failure_drops_is_in_nobodys_way_any_more(settlement, world, tools, recorded):
    @effect("reversible", scope="mail:/{to}", undo=lambda to: world.act("discard", to))
    def draft(to):
        world.act("draft", to)

    world.fail("book", Boom("full"))
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        book, send = turn.plan(tools.book, room="a"), turn.plan(tools.send, to="ada")
        send.run()
        with pytest.raises(Boom):
            book.run()
        assert recorded(settlement, "trip") == [("open", [("book", "failed", None), ("send", "dropped", "clean")])]
        with pytest.raises(Boom), settlement.transaction("other", wait=0) as other:
            other.call(draft, to="ada")
            raise Boom
    assert (world.log, host_of(settlement).protocol.live) == ([("draft", "ada"), ("discard", "ada")], {})


@pytest.mark.every_store
def test_what_is_queued_while_a_call_before_it_fails_is_told_so_and_never_leaves(
    settlement, world, tools, recorded, when_taken
):
    world.fail("book", Boom("full"))
    with settlement.transaction("trip") as tx, tx.turn() as turn:
        book, send = turn.plan(tools.book, room="a"), turn.plan(tools.send, to="ada")

        def fail():
            with pytest.raises(Boom):
                book.run()

        when_taken(settlement, lambda change: isinstance(change, EffectRow) and change.tool == "send", fail)
        with pytest.raises(Refused, match="send was not run: book, issued before it, failed"):
            send.run()
        assert recorded(settlement, "trip") == [("open", [("book", "failed", None), ("send", "dropped", "clean")])]
    assert (world.log, settlement.residue(), host_of(settlement).protocol.live) == ([], [], {})


def test_with_on_failure_continue_the_turn_goes_on(settlement, world, tools):
    world.fail("book", Boom("full"))
    with settlement.transaction("trip", on_failure="continue") as tx, tx.turn() as turn:
        planned = [turn.plan(tools.book, room="a"), turn.plan(tools.send, to="ada")]
        with pytest.raises(Boom):
            planned[0].run()
        planned[1].run()
    assert world.log == [("send", "ada", "hello")]


def test_with_on_failure_retry_the_call_is_tried_three_times_before_it_fails_the_turn(settlement, world, tools):
    world.fail("book", Boom(), Boom())
    with settlement.transaction("trip", on_failure="retry") as tx:
        assert tx.call(tools.book, room="a") == {"confirmation": "R-a"}
    world.fail("book", Boom(), Boom(), Boom())
    with pytest.raises(Boom), settlement.transaction("trip/2", on_failure="retry") as tx:
        tx.call(tools.book, room="b")
    assert world.log == [("book", "a")]


def test_an_effect_of_several_scopes_is_ordered_by_each_of_them(settlement, world, tools, someone_waits):
    @effect("reversible", scope="trip:/{room}", may_touch="room:/{room}", undo=lambda room: None)
    def swap(room):
        world.act("swap", room)

    with settlement.transaction("trip") as tx, tx.turn(order="scopes") as turn:
        first, second = turn.plan(swap, room="a"), turn.plan(tools.look, room="a")
        told, waits = [], someone_waits(settlement)
        thread = start(second.run, told)
        assert waits.wait(PATIENCE)
        first.run()
        join(thread)
    assert told == [False]


def test_the_rationale_of_a_turn_is_recorded_with_its_effects(settlement, tools):
    with settlement.transaction("trip") as tx, tx.turn(because="Ada asked for a room") as turn:
        turn.call(tools.book, room="a")
    ((recorded,),) = [t.effects for t in settlement.transactions()]
    assert recorded.row.rationale == "Ada asked for a room"


# ---- what is staged, as reads of its turn see it

STAGED = declare("put", "staged", scope="room:/a")


def staged_turn(*kinds, order="turn"):
    turn = Turn(order=order)
    known = {"put": STAGED, "look": READ, "send": HELD}
    return turn, [turn.take(known[kind], Scope.parse("room:/a")) for kind in kinds]


@pytest.mark.parametrize("order", ["turn", "scopes"])
def test_a_read_waits_until_what_was_staged_before_it_is_in_the_queue(order):
    turn, (put, look) = staged_turn("put", "look", order=order)
    assert turn.before(look) is put
    turn.queued(put)
    assert (turn.before(look), turn.queued(put)) == (None, [])


def test_what_is_staged_behind_a_read_waits_for_the_read(settlement):
    turn, (look, put) = staged_turn("look", "put")
    assert turn.before(put) is look
    turn.leave(look)
    assert turn.before(put) is None


def test_a_read_sees_nothing_of_what_is_gated_and_waits_for_none():
    turn, (send, look) = staged_turn("send", "look")
    assert (turn.before(look), turn.before(send)) == (None, None)


def test_with_no_order_people_are_still_asked_about_one_call_at_a_time():
    gated = declare("pay", "irreversible", scope="bill:/{what}", approve=True)
    turn = Turn(order="none")
    first, second = (turn.take(gated, Scope.parse(f"bill:/{what}")) for what in "ab")
    assert (turn.before(first), turn.before(second)) == (None, first)
    turn.passed(first)
    assert turn.before(second) is None


def acting_on(turn, kind, *paths):
    return turn.take(DECLARATIONS[kind], *(Scope.parse(f"room:/{path}") for path in paths))


@pytest.mark.parametrize("order", ["turn", "scopes"])
def test_a_call_that_turns_out_to_act_on_what_an_earlier_one_holds_is_held_and_keeps_nobody_waiting(order):
    turn = Turn(order=order)
    acting_on(turn, "held", "a")
    moved, behind = acting_on(turn, "eager", "b"), acting_on(turn, "eager", "b")
    ticket = Ticket()
    moved.tickets.append(ticket)
    assert (moved.held, turn.before(behind)) == (False, moved)
    assert turn.comes(moved, (Scope.parse("room:/a/1"), Scope.parse("room:/b"))) == [ticket]
    assert (moved.held, turn.before(behind), turn.comes(behind, behind.scopes)) == (True, None, [])
    assert behind.held
    assert turn.leave(moved) == turn.leave(behind) == []
    assert turn._index.root.children == {}


def test_a_call_of_which_nobody_knows_what_it_acts_on_is_held_behind_a_held_one_and_holds_what_is_behind_it():
    turn = Turn()
    free, unknown, behind = acting_on(turn, "eager"), acting_on(turn, "held"), acting_on(turn, "eager", "b")
    assert (free.held, unknown.held, behind.held) == (False, True, True)
    assert acting_on(turn, "eager").held


def test_a_staged_call_that_failed_is_waited_for_no_longer():
    turn, (put, look) = staged_turn("put", "look")
    turn.leave(put, failed=True)
    assert turn.before(look) is None


def test_reads_of_a_turn_see_what_was_staged_before_them_and_not_what_comes_behind(settlement, world, tools):
    @effect("read", scope="cell:/{cell}")
    def get(cell):
        return [staged["value"] for staged in current_call().staged(f"cell:/{cell}")]

    with settlement.transaction("trip") as tx, tx.turn() as turn:
        planned = [turn.plan(tools.put, cell="c", value=1), turn.plan(get, cell="c")]
        planned.append(turn.plan(tools.put, cell="c", value=2))
        told = []
        threads = [start(call.run, told) for call in reversed(planned)]
        for thread in threads:
            join(thread)
    assert [1] in told
    assert world.cells["c"] == 2


# ---- who is held behind whom, seat by seat


ADA, BEE = Scope.parse("box:/ada"), Scope.parse("box:/bee")
MAILS, BOOKS = declare("mails", "irreversible", scope="box:/{to}"), declare("books", "opaque", scope="box:/{to}")


def test_with_no_order_nothing_is_held_for_what_is_held_before_it():
    turn = Turn(order="none")
    assert [turn.take(MAILS, ADA).held, turn.take(BOOKS, ADA).held] == [True, False]


def test_where_each_call_settles_by_itself_nothing_is_held_for_what_is_before_it():
    turn = Turn(holds=False)
    turn.take(MAILS, ADA)
    books = turn.take(BOOKS, BEE)
    assert (turn.comes(books, (ADA,), held=True), books.held) == ([], False)


@pytest.mark.parametrize("order", ["turn", "issued"])
def test_what_comes_late_is_not_held_for_what_was_issued_behind_it(order):
    turn = Turn(order=order)
    books = turn.take(BOOKS, ADA)
    turn.take(MAILS, ADA)
    assert (turn.comes(books, (ADA,)), books.held) == ([], False)


def test_what_acts_on_nobody_knows_what_is_held_behind_what_is_held():
    turn = Turn()
    turn.take(MAILS, ADA)
    assert [turn.take(BOOKS, BEE).held, turn.take(BOOKS).held] == [False, True]


def test_a_held_call_that_comes_on_another_scope_holds_back_what_overlaps_that():
    turn = Turn()
    turn.comes(turn.take(MAILS, ADA), (BEE,))
    assert turn.take(BOOKS, BEE).held


@pytest.mark.parametrize("order", ["turn", "scopes"])
def test_a_held_call_that_is_dropped_is_not_said_to_have_failed_in_place_of_the_one_that_did(
    open_settlement, order, monkeypatch
):
    """The first held call has heard of it, and is over, before the last asks why it did not leave."""
    settlement = open_settlement()

    @effect("irreversible", scope="mail:/{to}", name="mail")
    def mail(to): ...

    @effect("irreversible", scope="page:/{to}", name="post")
    def post(to): ...

    @effect("opaque", name="book")
    def book(to):
        held.wait(30)
        raise LookupError("no room")

    batch = run_sync(open_turn(settlement, "trip", run="trip", order=order))
    seats = {tool: batch.place(host_of(settlement).tools.of(tool), {"to": "a"}) for tool in (mail, book, post)}
    told, gone, held = {}, threading.Event(), threading.Event()
    result, until_settled = batch._answers.result, batch._end.until_settled

    def last(effect):
        if effect.declaration.tool == "post":
            gone.wait(30)
        return result(effect)

    def waits(call, *, cut):
        if call.tool == "post":
            held.set()
        return until_settled(call, cut=cut)

    monkeypatch.setattr(batch._answers, "result", last)
    monkeypatch.setattr(batch._end, "until_settled", waits)

    def play(tool):
        call, error = seats[tool], None
        try:
            run_sync(batch.perform(call, lambda: tool("a"), {"to": "a"}))
        except Exception as raised:
            error = raised
        told[call.tool] = str(error)
        run_sync(batch.leave(call, failed=told[call.tool]))
        if tool is mail:
            gone.set()
        run_sync(batch.finish(call))

    threads = [threading.Thread(target=play, args=(tool,)) for tool in seats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert told["book"] == "no room"
    assert "book" in told["mail"]
    assert "mail" not in told["post"]
    assert "book" in told["post"]
    assert "mail failed" not in batch.because
