"""Several branches act at once, one is chosen, and the others have left nothing."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.rooms.protocol import Mode

from settlemark import (
    Cancelled,
    Entangled,
    LedgerError,
    Queued,
    Scope,
    Settlement,
    Stale,
    State,
    UsageError,
    Vetoed,
    current_call,
    effect,
)
from settlemark.hosting import Reason, host_of
from settlemark.testing import InjectedFault


class Boom(Exception):
    """A failure of a branch's own."""


def first(_results):
    return 0


def last(results):
    return len(results) - 1


def booking(tools, room):
    return lambda tx: tx.call(tools.book, room=room)["confirmation"]


# ---- choosing


@pytest.mark.every_store
def test_the_chosen_branch_commits_and_the_others_are_undone_before_it(settlement, tools, world):
    def branch(room):
        def work(tx):
            tx.call(tools.book, room=room)
            tx.call(tools.put, cell="1", value=room)
            tx.call(tools.send, to=room)
            return room

        return work

    def choose(rooms):
        assert rooms == ["a", "b", "c"]
        assert world.rooms == {"a", "b", "c"}
        return 1

    assert settlement.speculate([branch(room) for room in "abc"], choose, name="trip") == "b"
    assert sorted(world.log[:3]) == [("book", "a"), ("book", "b"), ("book", "c")]
    assert sorted(world.log[3:5]) == [("cancel", "a"), ("cancel", "c")]
    assert world.log[5:] == [("put", "1", "b"), ("send", "b", "hello")]
    assert settlement.residue() == []
    assert host_of(settlement).protocol.live == {}


def test_a_lone_branch_acts_and_is_undone_in_the_thread_of_its_caller(settlement):
    seen = []  # what a tool of that thread alone (a connection) must be used in

    @effect("reversible", scope="room:/{room}", undo=lambda room: seen.append(("undone", room, threading.get_ident())))
    def book(room):
        seen.append(("booked", room, threading.get_ident()))

    settlement.speculate([lambda tx: tx.call(book, room="a")], lambda _results: None, name="trip")
    here = threading.get_ident()
    assert seen == [("booked", "a", here), ("undone", "a", here)]


def test_branches_run_beside_each_other(settlement):
    together = threading.Barrier(4, timeout=20)

    def branch(tx):
        tx.read("price:/a", together.wait)
        return tx.name

    assert settlement.speculate([branch] * 4, last, name="trip") == "trip~3"


async def test_async_branches_run_as_tasks_and_choose_may_be_awaited(settlement, tools, world):
    going = asyncio.Event()

    async def waits(tx):
        await going.wait()
        return await tx.call(tools.book, room="a")

    async def goes(tx):
        going.set()
        return await tx.call(tools.book, room="b")

    def in_a_thread(tx):
        return tx.call(tools.book, room="c")

    async def choose(results):
        await asyncio.sleep(0)
        return results.index({"confirmation": "R-b"})

    found = await settlement.speculate([waits, goes, in_a_thread], choose, name="trip")
    assert found == {"confirmation": "R-b"}
    assert world.rooms == {"b"}
    assert host_of(settlement).protocol.live == {}


def test_a_branch_that_fails_is_out_and_what_it_raised_is_told(settlement, tools, world):
    def fails(tx):
        tx.call(tools.book, room="a")
        raise Boom

    def choose(results):
        assert isinstance(results[0], Boom)
        assert world.rooms == {"b"}
        return 1

    assert settlement.speculate([fails, booking(tools, "b")], choose, name="trip") == "R-b"
    assert settlement.residue() == []


def test_when_every_branch_fails_nobody_is_asked(settlement, tools, world):
    def fails(tx):
        tx.call(tools.book, room=tx.name)
        raise Boom(tx.name)

    with pytest.raises(ExceptionGroup, match="every branch of trip failed: nothing was chosen") as failed:
        settlement.speculate([fails, fails], pytest.fail, name="trip")
    assert [str(error) for error in failed.value.exceptions] == ["trip~0", "trip~1"]
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_choosing_none_undoes_all(settlement, tools, world):
    assert settlement.speculate([booking(tools, room) for room in "ab"], lambda _: None, name="trip") is None
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("answer", [2, -1, True, "0", 1.0])
def test_what_is_no_branch_is_refused_and_all_are_undone(settlement, tools, world, answer):
    with pytest.raises(UsageError, match=f"choose= answered {answer!r} about trip"):
        settlement.speculate([booking(tools, room) for room in "ab"], lambda _: answer, name="trip")
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_choosing_a_branch_that_failed_is_refused_and_all_are_undone(settlement, tools, world):
    def fails(tx):
        raise Boom

    with pytest.raises(UsageError, match="that branch failed") as refused:
        settlement.speculate([fails, booking(tools, "b")], first, name="trip")
    assert isinstance(refused.value.__cause__, Boom)
    assert world.rooms == set()


def test_an_error_of_whoever_chooses_undoes_all(settlement, tools, world):
    with pytest.raises(ZeroDivisionError):
        settlement.speculate([booking(tools, room) for room in "ab"], lambda _: 1 / 0, name="trip")
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_no_branches_are_refused(quick):
    with pytest.raises(UsageError, match="give at least one"):
        quick.speculate([], first)


# ---- siblings


@pytest.mark.every_store
def test_what_a_branch_has_done_at_once_is_refused_to_the_others_with_advice(settlement, tools, world):
    done = threading.Event()

    def does(tx):
        tx.call(tools.book, room="a")
        done.set()
        return "done"

    def comes_second(tx):
        done.wait(20)
        with pytest.raises(Entangled) as refused:
            tx.call(tools.book, room="a")
        with pytest.raises(Entangled):
            tx.call(tools.look, room="a")
        tx.call(tools.book, room="b")
        return refused.value

    error = settlement.speculate([does, comes_second], last, name="trip")
    assert (error.transaction, error.holder, error.scope.text) == ("trip~1", "trip~0", "room:/a")
    assert "stage it per branch" in str(error)
    assert world.rooms == {"b"}


def test_branches_may_stage_the_same_and_it_happens_in_the_chosen_one(settlement, tools, world):
    def branch(value):
        def work(tx):
            tx.read("cell:/1")
            tx.call(tools.put, cell="1", value=value)
            assert isinstance(tx.call(tools.send, to="x", text=str(value)), Queued)
            return tx.staged("cell:/1")

        return work

    chosen = settlement.speculate([branch(1), branch(2), branch(3)], last, name="trip")
    assert chosen == [{"cell": "1", "value": 3}]
    assert world.log == [("put", "1", 3), ("send", "x", "3")]


def test_a_sub_agent_inside_a_branch_joins_the_branch(settlement, tools, world):
    @effect("opaque", scope="desk:/{desk}")
    def delegate(desk):
        with settlement.transaction() as inner:
            inner.call(tools.book, room=desk)
            return inner.name

    names = settlement.speculate([lambda tx, d=d: tx.call(delegate, desk=d) for d in "ab"], first, name="trip")
    assert names == "trip~0"
    assert world.rooms == {"a"}


# ---- the world around


@pytest.mark.every_store
def test_nobody_else_settles_on_what_a_branch_holds_before_the_choice(settlement, tools, world, someone_waits):
    waits = someone_waits(settlement)
    later = threading.Thread(target=lambda: settlement.run("later", lambda tx: tx.call(tools.book, room="a")))

    def choose(_results):
        later.start()
        assert waits.wait(20)
        assert world.log == [("book", "a"), ("book", "b")]
        return 1

    def slower(tx):
        while ("book", "a") not in world.log:
            threading.Event().wait(0.001)
        return tx.call(tools.book, room="b")

    settlement.speculate([booking(tools, "a"), slower], choose, name="trip")
    later.join(20)
    assert world.log == [("book", "a"), ("book", "b"), ("cancel", "a"), ("book", "a")]


def test_a_branch_that_lost_a_race_runs_again(settlement, tools, world):
    older = settlement.transaction("older")
    runs = []
    with older as tx:

        def branch(mine):
            runs.append(mine.attempt)
            mine.read("cell:/1")
            if len(runs) == 1:
                tx.call(tools.put, cell="1", value="older")
                tx.commit()
            return mine.call(tools.book, room="a")["confirmation"]

        assert settlement.speculate([branch], first, name="trip") == "R-a"
    assert runs == [1, 2]
    assert world.log == [("put", "1", "older"), ("book", "a")]


@pytest.mark.every_store
def test_a_winner_that_turns_out_stale_is_undone_like_the_others(settlement, tools, world):
    with settlement.transaction("older") as older:

        def branch(room):
            def work(tx):
                tx.read("cell:/1")
                tx.call(tools.book, room=room)

            return work

        def choose(_results):
            older.call(tools.put, cell="1", value=1)
            older.commit()
            return 0

        with pytest.raises(Stale):
            settlement.speculate([branch("a"), branch("b")], choose, name="trip")
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_a_veto_of_the_winner_undoes_it_and_asks_about_it_alone(settlement, tools, world):
    asked = []

    def no(footprint):
        asked.append(footprint.transaction)
        return False

    with pytest.raises(Vetoed):
        settlement.speculate([booking(tools, room) for room in "ab"], last, name="trip", before_commit=no)
    assert asked == ["trip~1"]
    assert world.rooms == set()


def test_a_cancelled_run_ends_every_branch_and_the_choice(settlement, tools, world):
    def choose(_results):
        settlement.cancel("trip")
        return 0

    with pytest.raises(Cancelled):
        settlement.speculate([booking(tools, room) for room in "ab"], choose, name="trip")
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_a_loser_that_cannot_be_undone_is_named_and_the_winner_that_did_not_read_it_commits(settlement, tools, world):
    world.fail("cancel", *[InjectedFault()] * 3)
    settlement.speculate([booking(tools, room) for room in "ab"], last, name="trip")
    assert world.rooms == {"a", "b"}
    assert [(left.transaction, left.tool) for left in settlement.residue()] == [("trip~0", "book")]


def test_a_choice_inside_a_call_may_not_touch_what_its_caller_holds(settlement, tools, world):
    @effect("opaque")
    def delegate():
        return settlement.speculate([booking(tools, "a"), booking(tools, "b")], last, name="inner")

    with settlement.transaction("outer") as outer:
        outer.call(tools.book, room="a")
        assert outer.call(delegate) == "R-b"
    assert world.rooms == {"a", "b"}
    assert world.log == [("book", "a"), ("book", "b")]


def test_a_branch_is_inside_of_no_call(settlement, tools):
    @effect("opaque")
    def delegate():
        assert current_call() is not None
        return settlement.speculate([lambda tx: current_call() is None] * 2, first, name="inner")

    with settlement.transaction("outer") as outer:
        assert outer.call(delegate) is True


async def test_a_cancelled_task_undoes_every_branch(settlement, tools, world):
    held = asyncio.Event()

    async def branch(tx):
        await tx.call(tools.book, room=tx.name[-1])
        held.set()
        await asyncio.Event().wait()

    async def speculate():
        await settlement.speculate([branch, branch], first, name="trip")

    task = asyncio.create_task(speculate())
    await held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


def test_ctrl_c_in_a_branch_undoes_every_branch(settlement, tools, world):
    def interrupted(tx):
        tx.call(tools.book, room="a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        settlement.speculate([interrupted, booking(tools, "b")], pytest.fail, name="trip")
    assert world.rooms == set()
    assert host_of(settlement).protocol.live == {}


# ---- replays


def test_what_was_chosen_before_is_replayed_and_nothing_is_chosen_again(settlement, tools, world):
    branches = [booking(tools, room) for room in "abc"]
    assert settlement.speculate(branches, lambda _: 1, name="trip") == "R-b"
    log = list(world.log)
    assert settlement.speculate(branches, pytest.fail, name="trip") == "R-b"
    assert world.log == log
    assert host_of(settlement).protocol.live == {}


def test_in_a_new_process_it_is_replayed_too(tmp_path, tools, world):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    branches = [booking(tools, room) for room in "ab"]
    for choose in (last, pytest.fail):
        with Settlement(url) as settlement:
            assert settlement.speculate(branches, choose, name="trip") == "R-b"
    assert world.rooms == {"b"}


def test_a_winner_that_was_undone_is_chosen_anew(settlement, tools, world):
    branches = [booking(tools, room) for room in "ab"]
    with pytest.raises(Vetoed):
        settlement.speculate(branches, first, name="trip", before_commit=lambda _: False)
    assert settlement.speculate(branches, last, name="trip") == "R-b"
    assert world.rooms == {"b"}


# ---- the rule


@pytest.fixture
def choice(stage):
    hold = stage.begin("choice", role="choice")
    return hold, [stage.begin(f"choice~{n}", group=hold.id) for n in range(3)]


@pytest.mark.parametrize("mode", [Mode.READ, Mode.EAGER, Mode.FINAL])
@pytest.mark.parametrize("older", [True, False])
def test_a_claim_of_one_branch_is_refused_to_another_and_nothing_moves(stage, choice, mode, older):
    _, (one, _, three) = choice
    claimant, other = (one, three) if older else (three, one)
    stage.write(claimant, "room:/a")
    before = stage.protocol.freeze()
    with pytest.raises(Entangled):
        stage.ask(other, "room:/a/x", mode)
    assert stage.protocol.freeze() == before
    assert (one.state, three.state) == (State.OPEN, State.OPEN)


@pytest.mark.parametrize("first_mode", list(Mode))
def test_what_is_held_back_never_stands_in_a_branchs_way(stage, choice, first_mode):
    _, (one, two, _) = choice
    stage.touch(one, "room:/a", first_mode)
    stage.hold(two, "room:/a")
    if first_mode in (Mode.READ, Mode.HELD):
        stage.write(two, "room:/a")
    assert one.position < two.position


def test_no_branch_commits_before_every_other_one_is_finished(stage, choice):
    hold, (one, two, three) = choice
    call = stage.write(one, "room:/a")
    stage.write(three, "room:/c")
    stage.protocol.seal(three)
    assert stage.protocol.decide(three).holder is one
    stage.protocol.abort(one, Reason.ABANDONED)
    assert stage.protocol.decide(three).holder is one
    assert stage.floor("room:/c") == 0
    stage.undo(one, call)
    stage.protocol.abort(two, Reason.ABANDONED)
    assert stage.protocol.decide(three) is None
    assert stage.floor("room:/c") == three.epoch == hold.epoch


def test_a_branch_may_not_wait_for_who_waits_for_its_sibling(stage):
    hold = stage.begin("choice", role="choice")
    early = stage.begin("early", group=hold.id)
    stage.hold(early, "room:/a")
    between = stage.begin("between")
    stage.hold(between, "room:/a")
    stage.write(between, "room:/b")
    late = stage.begin("late", group=hold.id)
    stage.write(late, "room:/c")
    late_at = late.position
    stage.protocol.board.place(late, stage.protocol.board.fresh())  # as a restamp does
    assert late_at < between.position < late.position
    with pytest.raises(Entangled, match="late would wait for between, which holds room:/b and waits for early"):
        stage.ask(late, "room:/b", Mode.EAGER)
    assert [hold.scope.text for hold in late.holds.values()] == ["room:/c"]


def test_branches_of_two_choices_do_not_wait_crosswise(stage):
    choices = [stage.begin(name, role="choice") for name in ("left", "right")]
    (one, two), (three, four) = [[stage.begin(f"{hold.name}~{n}", group=hold.id) for n in range(2)] for hold in choices]
    stage.write(one, "room:/a")
    stage.write(three, "room:/b")
    assert stage.ask(four, "room:/a", Mode.EAGER)[1] is one
    with pytest.raises(Entangled, match="left~1 would wait for right~0, which holds room:/b and waits for left~0"):
        stage.ask(two, "room:/b", Mode.EAGER)
    assert two.holds == {}


def test_a_branch_may_wait_for_a_branch_of_another_choice(stage):
    choices = [stage.begin(name, role="choice") for name in ("left", "right")]
    (one, two), (three, four) = [[stage.begin(f"{hold.name}~{n}", group=hold.id) for n in range(2)] for hold in choices]
    stage.write(one, "room:/a")
    stage.write(two, "room:/b")
    stage.write(three, "room:/c")
    assert stage.ask(four, "room:/a", Mode.EAGER)[1] is one


def test_replicas_agree_who_is_a_sibling(tmp_path, tools, world):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    seen = []
    with Settlement(url) as one, Settlement(url) as two:

        def choose(_results):
            host_of(two).ledger.now(lambda protocol, _book: seen.extend(protocol.named["trip"].members.values()))
            return 0

        one.speculate([booking(tools, room) for room in "ab"], choose, name="trip")
        assert [txn.name for txn in seen] == ["trip~0", "trip~1"]
        assert two.recover().undone == []
        assert host_of(two).protocol.frontier(Scope.parse("room:/a")) == host_of(two).protocol.next_epoch
    assert world.rooms == {"a"}


def test_what_a_dead_process_left_of_a_choice_is_undone(tmp_path, open_settlement, tools, world):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    dying = open_settlement(url)

    def choose(_results):
        dying.close()  # its transactions are nobody's from here on
        return 0

    with pytest.raises(LedgerError):
        dying.speculate([booking(tools, room) for room in "ab"], choose, name="trip")
    with Settlement(url) as settlement:
        settlement.recover(keep_open=0)
        assert world.rooms == set()
        assert settlement.speculate([booking(tools, room) for room in "ab"], last, name="trip") == "R-b"
    assert world.rooms == {"b"}
