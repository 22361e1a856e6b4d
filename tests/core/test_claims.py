"""Claims: an effect that runs before commit has its scope for itself, and who must give way when two meet."""

from __future__ import annotations

import pytest
from tests.rooms.model import ALL_ON
from tests.rooms.protocol import Mode

from settlemark import Scope, State, Wounded
from settlemark.hosting import Reason

AT_ONCE = [Mode.EAGER, Mode.FINAL]

# ---- waiting


@pytest.mark.parametrize("mode", [Mode.READ, *AT_ONCE])
def test_a_younger_touch_waits_for_an_older_claim(stage, mode):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(older, "room:/Ada")
    call, holder = stage.ask(younger, "room:/Ada/1", mode)
    assert holder is older
    assert not call.admitted
    stage.commit(older)
    assert stage.protocol.admit(call) is None


def test_a_held_effect_waits_for_nobody_until_commit(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(older, "mail:/Ada")
    stage.hold(younger, "mail:/Ada")
    stage.protocol.seal(younger)
    assert stage.protocol.decide(younger).holder is older


@pytest.mark.parametrize("mode", AT_ONCE)
def test_a_claim_waits_for_an_older_ones_held_effect(stage, mode):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.hold(older, "mail:/Ada")
    assert stage.ask(younger, "mail:/Ada", mode)[1] is older


def test_a_claim_waits_for_an_older_ones_waiting_request(stage):
    first, second, third = stage.begin("first"), stage.begin("second"), stage.begin("third")
    stage.write(first, "room:/Ada")
    waiting, _ = stage.ask(second, "room:/Ada/1", Mode.EAGER)
    stage.ask(third, "room:/Ada/1", Mode.EAGER)
    stage.commit(first)
    assert stage.ask(third, "room:/Ada/1", Mode.EAGER)[1] is second
    assert stage.protocol.admit(waiting) is None


@pytest.mark.parametrize("mode", AT_ONCE)
def test_a_claim_waits_for_a_read_in_flight_older_or_younger(stage, mode):
    older, younger = stage.begin("older"), stage.begin("younger")
    reading, _ = stage.ask(younger, "room:/Ada", Mode.READ)
    call, holder = stage.ask(older, "room:/Ada", mode)
    assert holder is younger
    stage.protocol.acted(reading, happened=True)
    assert stage.protocol.admit(call) is None


def test_only_what_cannot_be_undone_cleanly_waits_for_every_older_holder(stage):
    older = stage.begin("older", "room:/Ada")
    eager, final = stage.begin("eager"), stage.begin("final")
    call = stage.write(eager, "room:/Ada/1")
    assert stage.ask(final, "room:/Ada/2", Mode.FINAL)[1] is older
    stage.abort(eager, call)


@pytest.mark.parametrize("mode", [Mode.READ, *AT_ONCE])
def test_who_meets_an_older_and_a_younger_claim_stands_behind_both(stage, mode):
    older, middle, younger = stage.begin("older"), stage.begin("middle"), stage.begin("younger")
    stage.write(older, "room:/Ada/1")
    stage.write(younger, "room:/Ada/2")
    call, _ = stage.ask(middle, "room:/Ada", mode)
    assert older.position < younger.position < middle.position
    stage.commit(older)
    assert stage.protocol.admit(call).holder is younger
    stage.commit(younger)
    assert stage.protocol.admit(call) is None


@pytest.mark.parametrize("current", [True, False], ids=["current", "not current"])
def test_what_is_held_leaves_only_once_the_undo_of_a_younger_one_is_over(stage, current):
    older, younger = stage.begin("older", guards=ALL_ON._replace(current=current)), stage.begin("younger")
    undone = stage.write(younger, "room:/Ada/1")
    stage.protocol.abort(younger, Reason.FAILED)
    stage.hold(older, "room:/Ada")
    stage.protocol.seal(older)
    assert older.position < younger.position
    assert stage.protocol.decide(older).holder is younger
    stage.undo(younger, undone)
    assert stage.protocol.decide(older) is None


def test_an_undo_in_progress_keeps_every_touch_out(stage):
    failed, other = stage.begin("failed"), stage.begin("other")
    call = stage.write(failed, "room:/Ada")
    stage.protocol.abort(failed, Reason.FAILED)
    for mode in (Mode.READ, *AT_ONCE):
        assert stage.ask(other, "room:/Ada", mode)[1] is failed
    assert other.position == (2, "")
    stage.undo(failed, call)
    assert stage.ask(other, "room:/Ada", Mode.READ)[1] is None


def test_an_effect_that_did_not_happen_frees_its_claim(stage):
    first, second = stage.begin("first"), stage.begin("second")
    stage.touch(first, "room:/Ada", Mode.EAGER, happened=False)
    assert stage.ask(second, "room:/Ada", Mode.READ)[1] is None


def test_who_had_to_wait_for_a_claim_that_it_then_gave_back_is_waited_for_no_longer(stage):
    first, second, third = stage.begin("first"), stage.begin("second"), stage.begin("third")
    stage.write(first, "room:/Ada")
    waiting, _ = stage.ask(second, "room:/Ada", Mode.EAGER)
    stage.commit(first)
    assert stage.protocol.admit(waiting) is None
    stage.protocol.acted(waiting, happened=False)
    assert stage.ask(third, "room:/Ada", Mode.EAGER)[1] is None


@pytest.mark.parametrize("held", ["declared", "read"])
def test_a_withdrawn_request_leaves_what_was_held_there_before(stage, held):
    first = stage.begin("first")
    second = stage.begin("second", *(["room:/Ada/1"] if held == "declared" else []))
    if held == "read":
        stage.read(second, "room:/Ada/1")
    stage.write(first, "room:/Ada/2")
    waiting, holder = stage.ask(stage.begin("third"), "room:/Ada", Mode.EAGER)
    stage.protocol.withdraw(waiting)
    call = stage.protocol.request(second, Scope.parse("room:/Ada/1"), Mode.EAGER)
    stage.hold(first, "room:/Ada/1")
    assert (holder, stage.protocol.admit(call).holder) == (first, first)
    stage.protocol.withdraw(call)
    stage.commit(first)
    assert stage.frontier("room:/Ada/1") == 2


def test_a_suspended_call_that_runs_again_is_waited_for_by_an_abort(stage):
    txn = stage.begin("suspended")
    call = stage.write(txn, "room:/Ada")
    stage.protocol.resumed([call])
    stage.protocol.abort(txn, Reason.FAILED)
    assert stage.protocol.take_aborted() == []
    stage.protocol.acted(call, happened=True)
    stage.undo(txn, call)
    assert stage.protocol.live == {}


def test_a_withdrawn_request_is_waited_for_no_longer(stage):
    first, second, third = stage.begin("first"), stage.begin("second"), stage.begin("third")
    stage.write(first, "room:/Ada")
    waiting, _ = stage.ask(second, "room:/Ada", Mode.EAGER)
    stage.protocol.withdraw(waiting)
    stage.commit(first)
    assert stage.ask(third, "room:/Ada", Mode.EAGER)[1] is None


def test_who_gives_up_waiting_where_it_had_read_is_in_the_line_of_commits_there_all_the_same(stage):
    older, reader = stage.begin("older"), stage.begin("reader")
    stage.hold(older, "room:/Ada")
    stage.read(reader, "room:/Ada")
    waiting, holder = stage.ask(reader, "room:/Ada", Mode.EAGER)
    assert holder is older
    stage.protocol.withdraw(waiting)
    stage.commit(older)
    assert stage.frontier("room:/Ada") == reader.epoch


def test_a_departure_wakes_who_watches_and_nobody_else(stage):
    first, second = stage.begin("first"), stage.begin("second")
    stage.write(first, "room:/Ada")
    stage.write(second, "room:/Bee")
    one, two = stage.protocol.watch(first), stage.protocol.watch(second)
    stage.commit(first)
    assert stage.protocol.take_woken() == [one]
    assert (one.fired, two.fired) == (True, False)


def test_what_a_turn_tells_its_own_calls_wakes_whoever_else_watches_alone(stage):
    txn = stage.begin("turn")
    sibling, other = stage.protocol.watch(txn, sibling=True), stage.protocol.watch(txn)
    stage.protocol.wake_watchers(txn, siblings=False)
    assert (sibling.fired, other.fired) == (False, True)
    stage.protocol.wake_watchers(txn)
    assert sibling.fired


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transactions_end_wakes_its_own_calls_too_which_would_wait_for_their_deadline(stage, end):
    txn = stage.begin("turn")
    call = stage.write(txn, "room:/Ada")
    sibling = stage.protocol.watch(txn, sibling=True)
    stage.commit(txn) if end == "commit" else stage.abort(txn, call)
    assert sibling.fired


def test_a_seal_wakes_who_waits_for_what_it_drops(stage):
    txn = stage.begin("first", "room:/Ada")
    ticket = stage.protocol.watch(txn)
    stage.protocol.seal(txn)
    assert (ticket.fired, txn.holds) == (True, {})


def test_watching_the_finished_fires_at_once(stage):
    txn = stage.begin("done")
    stage.commit(txn)
    assert stage.protocol.watch(txn).fired


# ---- reads are of settled state


def test_a_read_sees_no_open_claim_and_admits_beside_other_reads(stage):
    one, two = stage.begin("one"), stage.begin("two")
    stage.ask(one, "price:/Ada", Mode.READ)
    assert stage.ask(two, "price:/Ada", Mode.READ)[1] is None


def test_a_read_passes_a_held_effect_that_is_not_releasing(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.hold(older, "mail:/Ada")
    assert stage.ask(younger, "mail:/Ada", Mode.READ)[1] is None


# ---- a touch that meets a younger's claim


@pytest.mark.parametrize("mode", [Mode.READ, Mode.HELD, *AT_ONCE])
def test_a_toucher_that_held_part_of_the_scope_first_wounds_the_younger(stage, mode):
    older = stage.begin("older", "room:/Ada/1")
    younger = stage.begin("younger")
    undone = stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada/1", mode)
    assert (younger.state, younger.reason) == (State.ABORTING, Reason.WOUNDED)
    assert younger.detail == {"scope": Scope.parse("room:/Ada"), "holder": "older"}
    with pytest.raises(Wounded, match="younger was undone: older came first and needed room:/Ada; run it again"):
        stage.ask(younger, "lamp:/1", Mode.READ)
    stage.undo(younger, undone)
    assert older.position == (1, "")


def test_a_toucher_with_a_claim_of_its_own_wounds_the_younger(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(older, "lamp:/1")
    stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.READ)
    assert (younger.state, older.position) == (State.ABORTING, (1, ""))


@pytest.mark.parametrize("mode", [Mode.READ, Mode.HELD, *AT_ONCE])
def test_a_toucher_that_held_nothing_of_it_is_restamped_above(stage, mode):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", mode)
    assert (older.position, younger.position, younger.state) == ((3, ""), (2, ""), State.OPEN)


def test_a_touch_from_below_waits_for_an_undo_and_keeps_its_place(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    call = stage.write(younger, "room:/Ada")
    stage.protocol.abort(younger, Reason.FAILED)
    assert stage.ask(older, "room:/Ada", Mode.READ)[1] is younger
    assert older.position == (1, "")
    stage.undo(younger, call)


def test_a_toucher_that_held_something_else_before_the_claim_is_restamped_above(stage):
    older, younger = stage.begin("older", "room:/Bee"), stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.READ)
    assert (older.position, younger.state) == ((3, ""), State.OPEN)


def test_a_hold_taken_after_the_claim_does_not_wound(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.READ)
    stage.ask(older, "room:/Ada", Mode.EAGER)
    assert younger.state is State.OPEN
    assert older.position > younger.position


def test_what_a_claimant_does_again_where_it_was_before_wounds_it_by_nobody_who_came_between(stage):
    toucher, claimant = stage.begin("toucher"), stage.begin("claimant")
    stage.write(claimant, "room:/Ada")
    stage.protocol.declare(toucher, [Scope.parse("room:/Ada/1")])
    stage.write(claimant, "room:/Ada")
    _, holder = stage.ask(toucher, "room:/Ada/1", Mode.EAGER)
    assert (holder, claimant.state) == (claimant, State.OPEN)
    assert toucher.position > claimant.position


def test_who_came_between_two_claims_of_which_the_first_was_given_back_was_there_before(stage):
    toucher, claimant = stage.begin("toucher"), stage.begin("claimant")
    stage.touch(claimant, "room:/Ada", Mode.EAGER, happened=False)
    stage.protocol.declare(toucher, [Scope.parse("room:/Ada")])
    stage.write(claimant, "room:/Ada")
    stage.ask(toucher, "room:/Ada", Mode.READ)
    assert (claimant.reason, toucher.position) == (Reason.WOUNDED, (1, ""))


def test_a_sealed_younger_is_wounded_too(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.protocol.seal(younger)
    stage.ask(older, "room:/Ada", Mode.EAGER)
    assert younger.reason is Reason.WOUNDED


# ---- restamps


def test_a_touch_below_the_floor_is_restamped(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.commit(younger)
    stage.read(older, "room:/Ada/1")
    assert older.position == (3, "")


def test_a_touch_elsewhere_keeps_the_position(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.commit(younger)
    stage.read(older, "room:/Bee")
    assert older.position == (1, "")


def test_a_scope_already_covered_by_a_hold_is_not_restamped(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger")
    stage.read(younger, "room:/Ada")
    stage.commit(younger)
    stage.write(older, "room:/Ada/1")
    assert older.position == (1, "")


@pytest.mark.parametrize(("held", "touched"), [("room:/*", "room:/Ada"), ("room:/Ada", "room:/Ada/1")])
def test_a_scope_that_a_hold_covers_is_not_restamped_when_others_have_settled_on_a_part_of_it(stage, held, touched):
    older, younger = stage.begin("older", held), stage.begin("younger", guards=ALL_ON._replace(current=False))
    stage.write(younger, touched)
    stage.commit(younger)  # in no order
    stage.read(older, touched)
    assert older.position == (1, "")


def test_a_hold_that_only_overlaps_a_wildcard_does_not_cover_it(stage):
    older, younger = stage.begin("older", "room:/Ada"), stage.begin("younger")
    stage.write(younger, "room:/Bee/1")
    stage.commit(younger)
    stage.write(older, "room:/*/1")
    assert older.position > younger.position


def restamp(stage, txn):
    """Have a transaction read what one younger than all others has written."""
    writer = stage.begin("writer")
    stage.write(writer, "lamp:/1")
    stage.commit(writer)
    stage.read(txn, "lamp:/1")


def test_a_restamp_takes_along_in_order_the_younger_holders_of_what_it_claims(stage):
    claimant = stage.begin("claimant")
    near, far, away = stage.begin("near"), stage.begin("far"), stage.begin("away")
    stage.write(claimant, "room:/Ada")
    stage.ask(near, "room:/Ada", Mode.EAGER)
    stage.hold(far, "room:/Ada/1")
    stage.hold(away, "room:/Bee")
    restamp(stage, claimant)
    assert claimant.position < near.position < far.position
    assert claimant.position[0] == 6
    assert away.position == (4, "")


def test_a_restamp_moves_a_sealed_follower(stage):
    claimant, follower = stage.begin("claimant"), stage.begin("follower")
    stage.write(claimant, "room:/Ada")
    stage.hold(follower, "room:/Ada")
    stage.protocol.seal(follower)
    restamp(stage, claimant)
    assert claimant.position < follower.position
    assert stage.protocol.decide(follower).holder is claimant


def test_a_restamp_takes_along_what_is_being_undone_and_comes_back_so_that_its_retry_stands_behind(stage):
    claimant, aborting = stage.begin("claimant"), stage.begin("aborting", retry=True)
    stage.write(claimant, "room:/Ada")
    stage.hold(aborting, "room:/Ada")
    undone = stage.write(aborting, "lamp:/2")
    stage.protocol.abort(aborting, Reason.STALE)
    restamp(stage, claimant)
    stage.undo(aborting, undone)
    again = aborting.successor
    assert claimant.position < again.position
    stage.commit(claimant)  # it waits for nobody
    assert stage.ask(again, "room:/Ada", Mode.EAGER)[1] is None


def test_what_is_being_undone_for_good_stays_where_it_is(stage):
    claimant, aborting = stage.begin("claimant"), stage.begin("aborting")
    stage.write(claimant, "room:/Ada")
    stage.hold(aborting, "room:/Ada")
    undone = stage.write(aborting, "lamp:/2")
    stage.protocol.abort(aborting, Reason.FAILED)
    restamp(stage, claimant)
    assert aborting.position == (2, "")
    stage.undo(aborting, undone)


# ---- retries


def wounded(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger", retry=True)
    stage.read(younger, "price:/Ada")
    undone = stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.EAGER)
    return older, younger, undone


def test_a_retry_keeps_position_and_footprint_in_the_step_in_which_the_old_attempt_finishes(stage):
    older, younger, undone = wounded(stage)
    stage.undo(younger, undone)
    again = younger.successor
    assert (younger.state, again.state, again.attempt) == (State.ABORTED, State.OPEN, 2)
    assert stage.protocol.live == {(1, ""): older, (2, ""): again}
    assert {hold.scope.text for hold in again.holds.values()} == {"price:/Ada", "room:/Ada"}
    assert all(hold.declared for hold in again.holds.values())
    late = stage.begin("late")
    assert stage.ask(late, "price:/Ada", Mode.FINAL)[1] is again


def test_what_a_retry_does_not_touch_again_it_lets_go_at_its_seal(stage):
    _, younger, undone = wounded(stage)
    stage.undo(younger, undone)
    stage.protocol.seal(younger.successor)
    assert younger.successor.holds == {}


def test_a_late_word_from_the_old_attempt_does_not_touch_what_the_retry_holds(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger", retry=True)
    late = stage.hold(younger, "mail:/Ada")
    undone = stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.EAGER)
    stage.undo(younger, undone)
    again = younger.successor
    stage.hold(again, "mail:/Ada")
    before = stage.protocol.freeze()
    stage.protocol.drop_call(late)
    stage.protocol.withdraw(late)
    assert stage.protocol.freeze() == before


def test_a_transaction_nobody_retries_frees_its_place(stage):
    older, younger, undone = wounded(stage)
    stage.protocol.drop_retry(younger)
    stage.undo(younger, undone)
    assert (younger.successor, stage.protocol.live) == (None, {(1, ""): older})


def test_an_abort_waits_for_the_calls_that_still_run(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger")
    running, _ = stage.ask(younger, "room:/Ada", Mode.EAGER)
    stage.ask(older, "room:/Ada", Mode.EAGER)
    assert (younger.state, stage.protocol.take_aborted()) == (State.ABORTING, [])
    stage.protocol.acted(running, happened=True)
    stage.undo(younger, running)
    assert younger.state is State.ABORTED


def test_an_undo_that_is_told_twice_gives_its_claim_back_once(stage):
    txn = stage.begin("failed")
    first, second = stage.write(txn, "room:/Ada"), stage.write(txn, "room:/Ada")
    stage.protocol.abort(txn, Reason.FAILED)
    stage.protocol.undone(first, clean=True)
    before = stage.protocol.freeze()
    stage.protocol.undone(first, clean=True)
    assert stage.protocol.freeze() == before
    assert list(txn.calls.values()) == [second]
    stage.undo(txn, second)
    assert stage.protocol.live == {}


def test_a_running_call_that_did_not_happen_ends_the_abort_at_once(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger")
    running, _ = stage.ask(younger, "room:/Ada", Mode.EAGER)
    stage.ask(older, "room:/Ada", Mode.EAGER)
    stage.protocol.acted(running, happened=False)
    assert younger.state is State.ABORTED


def test_an_early_reader_waits_for_what_is_on_its_way_where_it_reads_and_nowhere_else(stage):
    writer, reader = stage.begin("writer"), stage.begin("reader", guards=ALL_ON._replace(reads="early"))
    stage.write(writer, "room:/Ada")
    stage.ask(writer, "room:/Bee", Mode.EAGER)
    assert stage.ask(reader, "room:/Ada", Mode.READ)[1] is None
    assert stage.ask(reader, "room:/Bee", Mode.READ)[1] is writer


def test_one_that_reads_early_does_not_write_over_what_is_being_released(stage):
    older = stage.begin("older", "room:/Ada", guards=ALL_ON._replace(reads="early"))
    writer = stage.begin("writer", guards=ALL_ON._replace(current=False))
    stage.write(writer, "room:/Ada")
    stage.hold(writer, "mail:/Ada")
    stage.protocol.seal(writer)
    assert stage.protocol.decide(writer) is None
    assert writer.state is State.RELEASING
    assert stage.ask(older, "room:/Ada", Mode.EAGER)[1] is writer
