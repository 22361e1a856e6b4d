"""An orchestrator keeps a place in the order for work to come, and says what is over."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.protocol import Mode

from settlemark import (
    ContractViolation,
    Refused,
    Scope,
    Settlement,
    State,
    StateError,
    UsageError,
    WaitTimeout,
    Wounded,
    effect,
)
from settlemark.hosting import Reason, host_of, run_sync


def place(stage, *scopes, name="night", **options):
    return stage.begin(name, *scopes, role="hold", **options)


def work(stage, hold, name, **options):
    return stage.begin(name, group=hold.id, **options)


def drop(stage, hold):
    stage.protocol.seal(hold)
    assert stage.protocol.decide(hold) is None
    assert hold.state is State.COMMITTED


# ---- holds, the rule


def test_a_hold_is_the_frontier_of_its_scopes_until_it_is_dropped(stage):
    hold = place(stage, "room:/a")
    stage.begin("later", "room:/a", "room:/b")
    assert (stage.frontier("room:/a"), stage.frontier("room:/b")) == (1, 2)
    drop(stage, hold)
    assert stage.frontier("room:/a") == 2


def test_work_under_a_hold_is_older_than_it_in_the_order_in_which_it_begins(stage):
    hold = place(stage, "room:/a")
    later = stage.begin("later")
    first, second = work(stage, hold, "first"), work(stage, hold, "second")
    assert first.position < second.position < hold.position < later.position
    assert first.epoch == second.epoch == hold.epoch


def test_work_under_a_hold_wounds_a_younger_claimant_since_a_restamp_would_move_the_hold(stage):
    hold, younger = place(stage, "room:/a"), stage.begin("younger")
    stage.write(younger, "lamp:/1")
    member = work(stage, hold, "member")
    stage.ask(member, "lamp:/1", Mode.EAGER)
    assert (younger.reason, member.epoch, hold.epoch) == (Reason.WOUNDED, 1, 1)


def test_a_hold_that_comes_to_what_was_advanced_past_it_is_placed_behind_that(stage):
    hold = place(stage)
    stage.protocol.advance(Scope.parse("room:/a"), hold.epoch)
    stage.protocol.declare(hold, [Scope.parse("room:/a")])
    assert (hold.epoch, stage.frontier("room:/a")) == (2, 2)


def test_nothing_is_advanced_to_the_epoch_of_a_holder_or_to_one_that_nobody_was_given(stage):
    scope, holder = Scope.parse("room:/a"), stage.begin("holder", "room:/a")
    before = stage.protocol.freeze()
    for epoch in (holder.epoch, stage.protocol.next_epoch):
        with pytest.raises(ContractViolation, match="nothing moved"):
            stage.protocol.advance(scope, epoch)
        with pytest.raises(ContractViolation, match="nothing moved"):
            stage.protocol.advance(Scope.parse("room:/b"), stage.protocol.next_epoch)
    assert stage.protocol.freeze() == before
    stage.protocol.advance(Scope.parse("room:/b"), stage.protocol.next_epoch - 1)
    assert (stage.floor("room:/a"), stage.floor("room:/b")) == (0, holder.epoch)


def test_a_hold_under_a_hold_keeps_the_order_of_both(stage):
    outer = place(stage, "room:/a")
    inner = work(stage, outer, "inner hold", role="hold")
    early, late = work(stage, inner, "early"), work(stage, outer, "late")
    assert early.position < inner.position < late.position < outer.position


def test_a_younger_writer_waits_for_a_hold_and_not_on_other_scopes(stage):
    hold = place(stage, "room:/a")
    younger, away = stage.begin("younger"), stage.begin("away")
    stage.write(younger, "room:/a")
    stage.write(away, "room:/b")
    stage.commit(away)
    stage.protocol.seal(younger)
    assert stage.protocol.decide(younger).holder is hold
    drop(stage, hold)
    assert stage.protocol.decide(younger) is None


def test_work_under_a_hold_commits_before_the_hold_is_dropped(stage):
    hold = place(stage, "room:/a")
    first, second = work(stage, hold, "first"), work(stage, hold, "second")
    stage.write(second, "room:/a/x")
    stage.write(first, "room:/a/y")
    stage.commit(second)
    stage.commit(first)
    assert stage.frontier("room:/a") == hold.epoch


def test_work_under_a_hold_wounds_what_came_later_and_claimed_first(stage):
    hold = place(stage, "room:/a")
    later = stage.begin("later")
    claim = stage.write(later, "room:/a")
    mine = work(stage, hold, "mine")
    _, holder = stage.ask(mine, "room:/a", Mode.EAGER)
    assert holder is later
    assert (later.state, later.reason, later.detail["holder"]) == (State.ABORTING, Reason.WOUNDED, "mine")
    stage.undo(later, claim)
    assert mine.position < hold.position


def test_work_that_is_restamped_takes_its_hold_and_all_that_waits_for_that_along(stage):
    hold = place(stage, "room:/a")
    waiting = stage.begin("waiting", "room:/a")
    first, second = work(stage, hold, "first"), work(stage, hold, "second")
    stage.write(second, "room:/a")
    stage.commit(second)
    was = hold.position
    stage.write(first, "room:/a")
    assert was < first.position < hold.position < waiting.position
    stage.commit(first)
    assert stage.floor("room:/a") == first.epoch


def test_whoever_moves_work_moves_its_hold_behind_it(stage):
    mover = stage.begin("mover")
    stage.write(mover, "cell:/x")
    hold = place(stage, "room:/a")
    mine = work(stage, hold, "mine")
    stage.hold(mine, "cell:/x")
    younger = stage.begin("younger")
    stage.write(younger, "cell:/y")
    stage.commit(younger)
    stage.read(mover, "cell:/y")
    assert younger.position < mover.position < mine.position < hold.position


@pytest.mark.parametrize("end", [lambda stage, hold: stage.protocol.seal(hold), drop], ids=["sealed", "dropped"])
def test_nothing_begins_under_a_hold_that_was_sealed_or_dropped_and_nothing_changed(stage, end):
    hold = place(stage, "room:/a")
    end(stage, hold)
    before = stage.protocol.freeze()
    with pytest.raises(StateError, match="late was to work under a hold that has been dropped: nothing was run"):
        work(stage, hold, "late")
    assert stage.protocol.freeze() == before


# ---- advance, the rule


def test_an_advance_raises_the_floor_of_what_overlaps_and_never_lowers_it(stage):
    for number in range(5):
        stage.protocol.abort(stage.begin(f"t{number}"), Reason.FAILED)
    stage.protocol.advance(Scope.parse("room:/a"), 4)
    stage.protocol.advance(Scope.parse("room:/a"), 2)
    assert [stage.floor(s) for s in ("room:/a", "room:/a/x", "room:/*", "room:/b")] == [4, 4, 4, 0]
    assert stage.version("room:/a") == 0


def test_whoever_is_below_an_advance_is_restamped_when_it_touches_the_scope(stage):
    old, young = stage.begin("old"), stage.begin("young")
    stage.write(old, "room:/b")
    stage.protocol.advance(Scope.parse("room:/a"), 2)
    stage.write(old, "room:/a")
    assert (old.epoch, young.epoch) == (3, 2)
    stage.commit(old)
    assert stage.floor("room:/a") == 3


@pytest.mark.parametrize("scope", ["room:/a", "room:/a/x", "room:/*", "room:/**"])
def test_an_advance_past_a_live_hold_is_a_violation_and_nothing_moved(stage, scope):
    stage.begin("old", "room:/b")
    place(stage, "room:/a/x", name="night")
    stage.begin("young", "room:/a")
    before = stage.protocol.freeze()
    with pytest.raises(ContractViolation) as refused:
        stage.protocol.advance(Scope.parse(scope), 3)
    least, holder = (1, "old") if "*" in scope else (2, "night")
    assert (refused.value.holder, refused.value.frontier, refused.value.epoch) == (holder, least, 3)
    assert f"{holder}, at {least}, may still touch it" in str(refused.value)
    assert str(refused.value).endswith(f"or advance to {least - 1}")
    assert stage.protocol.freeze() == before
    stage.protocol.advance(Scope.parse(scope), least - 1)


def test_an_advance_is_one_of_the_whole_scope_though_a_part_of_it_was_advanced_before(stage):
    late = stage.begin("late")
    stage.protocol.advance(Scope.parse("room:/a/1"), 1)
    assert (stage.floor("room:/a/1"), stage.floor("room:/a/2")) == (1, 0)
    stage.protocol.advance(Scope.parse("room:/a"), 1)
    assert (stage.floor("room:/a/1"), stage.floor("room:/a/2"), stage.floor("room:/b")) == (1, 1, 0)
    before = stage.protocol.freeze()
    stage.protocol.advance(Scope.parse("room:/a"), 1)
    assert stage.protocol.freeze() == before
    stage.write(late, "room:/a/2")
    assert late.position > (1, "")


def test_an_advance_into_the_future_is_a_violation(stage):
    stage.begin("only")
    with pytest.raises(ContractViolation, match="this epoch has not been given yet") as refused:
        stage.protocol.advance(Scope.parse("room:/a"), 2)
    assert (refused.value.holder, refused.value.frontier) == (None, 2)
    assert stage.floor("room:/a") == 0
    assert str(refused.value).endswith("nothing moved; advance to 1")
    stage.commit(stage.protocol.live[1, ""])
    stage.protocol.advance(Scope.parse("room:/a"), 1)
    assert stage.floor("room:/a") == 1


def test_advances_are_forgotten_like_commits_once_everybody_is_above_them(stage):
    stage.protocol.abort(stage.begin("gone"), Reason.FAILED)
    stage.protocol.advance(Scope.parse("room:/a"), 1)
    again = stage.begin("again")
    stage.write(again, "room:/b")
    stage.commit(again)
    assert (stage.protocol.board.versions.logged, stage.protocol.board.index.root.children) == (0, {})
    assert stage.floor("room:/a") == 2


@given(steps=st.lists(st.tuples(st.sampled_from(["room:/a", "room:/b", "room:/*"]), st.integers(1, 12)), max_size=12))
def test_floors_only_rise_and_stay_below_every_frontier(make_stage, steps):
    stage = make_stage()
    held = [stage.begin(f"t{n}", f"room:/{'ab'[n % 2]}") for n in range(6)]
    for scope, epoch in steps:
        if held and epoch % 3 == 0:
            stage.commit(held.pop(0))
        before = {s: stage.floor(s) for s in ("room:/a", "room:/b")}
        try:
            stage.protocol.advance(Scope.parse(scope), epoch)
        except ContractViolation:
            assert {s: stage.floor(s) for s in before} == before
        for s, floor in before.items():
            assert floor <= stage.floor(s) < stage.frontier(s)


# ---- as users see it


@pytest.mark.every_store
def test_what_begins_later_waits_for_the_work_under_a_hold(settlement, tools, world, someone_waits):
    waits = someone_waits(settlement)

    def day():
        with settlement.transaction("day") as tx:
            tx.call(tools.put, cell="1", value="day")

    with settlement.hold("cell:/1", name="night") as hold:
        later = threading.Thread(target=day)
        later.start()
        assert waits.wait(20)
        assert settlement.waiting() == [("day", "night", "cell:/1")]
        with hold.transaction("night/1") as tx:
            tx.call(tools.put, cell="1", value="night")
        assert world.cells == {"1": "night"}
    later.join(20)
    assert world.log == [("put", "1", "night"), ("put", "1", "day")]
    assert host_of(settlement).protocol.live == {}


@pytest.mark.every_store
async def test_a_hold_is_placed_and_dropped_in_an_event_loop_too(settlement, tools, world):
    async with settlement.hold("cell:/1") as hold:
        async with hold.transaction("night") as tx:
            await tx.call(tools.put, cell="1", value=1)
            assert tx.epoch == hold.epoch
        with pytest.raises(WaitTimeout, match=f"waited 0 s for {hold.name}, which holds cell:/1"):
            async with settlement.transaction("day", wait=0) as tx:
                await tx.call(tools.put, cell="1", value=2)
    assert world.cells == {"1": 1}
    assert host_of(settlement).protocol.live == {}


def test_a_hold_is_dropped_once_also_when_its_block_fails(settlement):
    with pytest.raises(ZeroDivisionError), settlement.hold("room:/a") as hold:
        hold.drop()
        hold.drop()
        raise ZeroDivisionError
    assert host_of(settlement).protocol.live == {}
    with pytest.raises(StateError, match="a hold that has been dropped"), hold.transaction("late"):
        pass


def test_a_hold_that_was_not_entered_says_so(quick):
    hold = quick.hold("room:/a", name="night")
    for use in (lambda: hold.epoch, lambda: hold.transaction("x"), hold.drop):
        with pytest.raises(StateError, match="night is not placed yet: enter it"):
            use()


def test_cancelling_its_run_ends_a_hold(settlement):
    with settlement.hold("room:/a", name="night/hold") as hold:
        settlement.cancel("night")
        assert host_of(settlement).protocol.live == {}
        with pytest.raises(Refused), hold.transaction("night/1"):
            pass


@pytest.mark.every_store
def test_work_that_wounds_a_later_claim_makes_that_begin_again(settlement, tools, world):
    with settlement.hold("room:/a") as hold:
        with pytest.raises(Wounded), settlement.transaction("day") as day:
            day.call(tools.book, room="a")
            with hold.transaction("night") as night:
                night.call(tools.book, room="a")
    assert world.log == [("book", "a"), ("cancel", "a"), ("book", "a")]


def test_a_hold_whose_process_ends_is_dropped_by_whoever_recovers(tmp_path, open_settlement):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_settlement(url)
    run_sync(first.hold("room:/a", name="night")._beginning())
    second = open_settlement(url)
    assert host_of(second).protocol.frontier(Scope.parse("room:/a")) == 1 or second.recover()
    first.close()
    assert second.recover(keep_open=0).undone == ["night"]
    assert host_of(second).protocol.live == {}


def test_an_advance_is_durable_and_seen_by_other_processes(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    scope = Scope.parse("room:/a")
    with Settlement(url) as settlement, settlement.transaction("t") as tx:
        epoch = tx.epoch
    with Settlement(url) as settlement:
        settlement.advance("room:/a", epoch)
        with Settlement(url) as other:
            assert host_of(other).protocol.floor(scope) == epoch
    with Settlement(url) as settlement:
        assert host_of(settlement).protocol.floor(scope) == epoch


@pytest.mark.every_store
def test_an_advance_past_what_is_open_is_told_to_whoever_asks_for_it(settlement, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        with pytest.raises(ContractViolation, match="trip, at"):
            settlement.advance("room:/a", tx.epoch)
    settlement.advance("room:/a", tx._attempt.txn.epoch)


@pytest.mark.parametrize("epoch", [0, -1, True, "1", 1.0, None])
def test_what_is_no_epoch_is_refused(quick, epoch):
    with pytest.raises(UsageError, match="give a positive integer"):
        quick.advance("room:/a", epoch)


def test_an_undeclared_scope_of_work_is_as_good_as_any(settlement, world):
    @effect("staged", scope="cell:/{cell}")
    def put(cell):
        world.act("put", cell)

    with settlement.hold("room:/a") as hold, hold.transaction("night") as tx:
        tx.call(put, cell="elsewhere")
    assert world.log == [("put", "elsewhere")]
