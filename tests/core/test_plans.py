"""What a run read in one turn binds the next turn in which it writes; and what may be forgotten."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rooms.protocol import FLOORS, Mode, outdated, then

from settlemark import Scope, Stale


def turn(stage, name, *, reads=(), writes=(), **options):
    """One whole turn of a run."""
    txn = stage.begin(name, **options)
    for scope in reads:
        stage.read(txn, scope)
    for scope in writes:
        stage.write(txn, scope)
    stage.commit(txn)
    return txn


def footprint(protocol):
    """What a protocol still keeps of the past."""
    return (
        protocol.board.index.root.children,
        protocol.live,
        protocol.board.versions.logged,
        protocol.board.versions._plans,
        len(protocol.board.order.items),
    )


# ---- a plan across turns


@pytest.mark.parametrize("mode", [Mode.EAGER, Mode.FINAL])
def test_acting_on_what_an_earlier_turn_read_and_has_changed_is_stale(stage, mode):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada/today"])
    second = stage.begin("trip/2")
    with pytest.raises(Stale, match="trip/2 was undone: price:/Ada changed after it was read") as stale:
        stage.ask(second, "room:/Ada", mode)
    assert stale.value.scope == Scope.parse("price:/Ada")
    assert stage.protocol.live == {}


def test_a_held_effect_on_a_stale_plan_does_not_commit(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    second = stage.begin("trip/2")
    stage.hold(second, "mail:/Ada")
    stage.protocol.seal(second)
    with pytest.raises(Stale):
        stage.protocol.decide(second)


def test_a_change_after_the_next_turn_began_counts_too(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    second = stage.begin("trip/2")
    turn(stage, "other", writes=["price:/Ada"])
    with pytest.raises(Stale):
        stage.ask(second, "room:/Ada", Mode.EAGER)


def test_an_unchanged_plan_commits_and_is_used_up_by_the_turn_that_writes(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "trip/2", writes=["room:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    assert turn(stage, "trip/3", writes=["room:/Bee"]).finished


def test_a_turn_that_only_reads_keeps_the_plan_and_is_itself_not_stale(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    turn(stage, "trip/2", reads=["room:/Ada"])
    third = stage.begin("trip/3")
    with pytest.raises(Stale):
        stage.ask(third, "room:/Ada", Mode.EAGER)


def test_reading_again_refreshes_the_plan(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    turn(stage, "trip/2", reads=["price:/Ada"])
    assert turn(stage, "trip/3", writes=["room:/Ada"]).finished


def test_once_told_stale_a_run_starts_from_nothing(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    with pytest.raises(Stale):
        stage.ask(stage.begin("trip/2"), "room:/Ada", Mode.EAGER)
    assert turn(stage, "trip/3", writes=["room:/Ada"]).finished


def test_another_runs_plan_binds_only_that_run(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    assert turn(stage, "third", writes=["room:/Ada"]).finished


def test_a_wounded_turns_retry_is_still_bound_by_the_plan(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    older = stage.begin("older", "room:/Ada")
    second = stage.begin("trip/2", retry=True)
    undone = stage.write(second, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.EAGER)
    stage.undo(second, undone)
    turn(stage, "other", writes=["price:/Ada"])
    stage.abort(older)
    with pytest.raises(Stale):
        stage.ask(second.successor, "room:/Bee", Mode.EAGER)


def test_a_cancelled_or_failed_turns_reads_bind_the_next_one(stage):
    failed = stage.begin("trip/1")
    stage.read(failed, "price:/Ada")
    stage.abort(failed)
    turn(stage, "other", writes=["price:/Ada"])
    with pytest.raises(Stale):
        stage.ask(stage.begin("trip/2"), "room:/Ada", Mode.EAGER)


# ---- bounded memory


# one transaction: which of three runs it belongs to, what it does, and how it ends
works = st.tuples(
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from(Mode), st.sampled_from(["a", "a/b", "c", "*"])), max_size=3),
    st.sampled_from(["commit", "abort", "leave a residue"]),
)


@given(st.lists(works, max_size=25))
def test_when_every_run_is_over_nothing_is_kept(make_stage, history):
    stage = make_stage()
    for number, (run, touches, end) in enumerate(history):
        txn, happened = stage.begin(f"{run}/{number}"), []
        try:
            for mode, scope in touches:
                call = stage.touch(txn, f"room:/{scope}", mode)
                happened += [call] if mode in (Mode.EAGER, Mode.FINAL) else []
            stage.commit(txn) if end == "commit" else stage.abort(txn, *happened, clean=end == "abort")
        except Stale:
            if not txn.finished:
                stage.undo(txn, *happened)
    for run in range(3):  # the runs' last turns: what they write uses their plans up, or they are told
        for _ in range(2):
            txn = stage.begin(f"{run}/last")
            with contextlib.suppress(Stale):
                stage.hold(txn, "mail:/end")
                stage.commit(txn)
    assert footprint(stage.protocol) == ({}, {}, 0, {}, 0)


def test_many_transactions_on_one_scope_leave_no_log(stage):
    for number in range(3000):
        turn(stage, f"trip {number}/1", reads=["price:/Ada"], writes=["room:/Ada"])
    assert footprint(stage.protocol) == ({}, {}, 0, {}, 0)


@pytest.mark.parametrize("written", [None, "price:/Ada/today", "price:/**"])
def test_a_plan_however_old_is_checked_exactly_and_keeps_no_log(stage, written):
    turn(stage, "trip/1", reads=["price:/Ada", "price:/Bee"])
    for number in range(200):
        turn(stage, f"other {number}", writes=["room:/Bee"])
        if number == 3 and written is not None:
            turn(stage, "changer", writes=[written])
    assert stage.protocol.board.versions.logged <= FLOORS
    if written is None:
        assert turn(stage, "trip/2", writes=["room:/Ada"]).finished
    else:
        with pytest.raises(Stale, match="price:/Ada"):
            stage.ask(stage.begin("trip/2"), "room:/Ada", Mode.EAGER)
    assert footprint(stage.protocol) == ({}, {}, 0, {}, 0)


def test_for_each_who_stays_behind_so_many_commits_more_are_remembered(make_stage):
    stage = make_stage(floors=2)
    for number in range(3):
        stage.begin(f"open {number}")
    for number in range(20):
        turn(stage, f"other {number}", writes=["room:/Bee"])
    assert stage.protocol.board.versions.logged == 2 * (1 + 3)


def test_an_unfinished_reader_keeps_what_it_may_need_and_no_more(stage):
    reader = stage.begin("reader")
    stage.read(reader, "price:/Ada")
    for number in range(20):
        turn(stage, f"other {number}", writes=["room:/Bee"])
    assert stage.version("room:/Bee") == 20
    stage.write(reader, "lamp:/1")
    stage.commit(reader)
    assert footprint(stage.protocol) == ({}, {}, 0, {}, 0)


def test_what_the_writing_turn_itself_read_again_binds_only_that_turn(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    turn(stage, "trip/2", reads=["price:/Ada"], writes=["room:/Ada"])
    turn(stage, "other", writes=["price:/Ada"])
    assert turn(stage, "trip/3", writes=["room:/Bee"]).finished
    assert footprint(stage.protocol) == ({}, {}, 0, {}, 0)


def test_a_read_taken_beside_the_writing_turn_stays_in_the_plan(stage):
    turn(stage, "trip/1", reads=["price:/Ada"])
    writing = stage.begin("trip/2")
    stage.read(writing, "price:/Ada")
    turn(stage, "other", writes=["lamp:/1"])
    turn(stage, "trip/3", reads=["price:/Ada"])
    stage.write(writing, "room:/Ada")
    stage.commit(writing)
    turn(stage, "other", writes=["price:/Ada"])
    with pytest.raises(Stale):
        stage.ask(stage.begin("trip/4"), "room:/Ada", Mode.EAGER)


@pytest.mark.parametrize("number", [0, 1, 7])
def test_when_a_read_was_made_is_known_though_it_is_out_of_date(number):
    assert [then(seen) for seen in (number, outdated(number))] == [number, number]
    assert outdated(number) < 0 <= number
