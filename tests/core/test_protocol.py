"""How a transaction settles: who commits when, what a refusal says, and what stays as it was."""

from __future__ import annotations

import pytest
from tests.rooms.model import ALL_ON
from tests.rooms.protocol import Mode

from settlemark import Cancelled, InternalError, LateAppend, OutsideDeclared, Scope, Stale, State, StateError
from settlemark.hosting import Reason

# ---- the commit rule


def test_a_sealed_writer_waits_for_an_older_holder_of_a_scope_it_touched(stage):
    older = stage.begin("older", "room:/Ada")
    younger = stage.begin("younger")
    stage.write(younger, "room:/Ada/1")
    stage.protocol.seal(younger)
    blocked = stage.protocol.decide(younger)
    assert (blocked.holder, younger.state) == (older, State.SEALED)
    stage.commit(older)
    assert stage.protocol.decide(younger) is None
    assert younger.state is State.COMMITTED


def test_who_begins_who_comes_again_and_what_is_split_off_are_there_since_that_moment(stage):
    stage.protocol.tell_time(5)
    first = stage.begin("trip", retry=True)
    stage.protocol.tell_time(7)
    stage.protocol.abort(first, Reason.WOUNDED, scope=None, holder="another")
    stage.protocol.tell_time(9)
    part = stage.protocol.split("trip!0", "trip", [])
    assert (first.since, first.successor.since, part.since) == (5, 7, 9)


def test_what_was_declared_and_then_touched_is_held_until_it_has_settled(stage):
    writer = stage.begin("writer", "room:/Ada", "price:/Ada", "lamp:/1")
    reader = stage.begin("reader")
    stage.read(writer, "price:/Ada")
    stage.write(writer, "room:/Ada")
    stage.protocol.seal(writer)
    assert {hold.scope.text for hold in writer.holds.values()} == {"room:/Ada", "price:/Ada"}
    asked, holder = stage.ask(reader, "room:/Ada", Mode.READ)
    assert holder is writer
    assert stage.protocol.decide(writer) is None
    assert (stage.version("room:/Ada"), stage.floor("room:/Ada"), stage.floor("price:/Ada")) == (1, 1, 1)
    assert stage.protocol.admit(asked) is None


def test_an_older_holder_elsewhere_delays_nobody(stage):
    stage.begin("older", "room:/Bee")
    younger = stage.begin("younger")
    stage.write(younger, "room:/Ada")
    stage.commit(younger)
    assert younger.state is State.COMMITTED


def test_a_writer_waits_for_an_older_holder_of_what_it_only_read(stage):
    older = stage.begin("older", "price:/Ada")
    younger = stage.begin("younger")
    stage.read(younger, "price:/Ada")
    stage.write(younger, "room:/Ada")
    stage.protocol.seal(younger)
    assert stage.protocol.decide(younger).holder is older


def test_one_that_wrote_nothing_waits_for_nobody_and_raises_no_floor(stage):
    stage.begin("older", "price:/Ada")
    reader = stage.begin("reader")
    stage.read(reader, "price:/Ada")
    stage.commit(reader)
    assert (reader.state, stage.floor("price:/Ada"), stage.version("price:/Ada")) == (State.COMMITTED, 0, 0)


def test_a_held_effect_waits_for_an_undo_that_runs_on_its_scope(stage):
    first, second = stage.begin("first"), stage.begin("second")
    stage.hold(first, "room:/Ada")
    call = stage.write(second, "room:/Bee")
    third = stage.begin("third")
    stage.hold(third, "room:/*")
    stage.protocol.abort(first, Reason.FAILED)
    stage.protocol.abort(second, Reason.FAILED)
    stage.protocol.seal(third)
    assert stage.protocol.decide(third).holder is second
    stage.undo(second, call)
    assert stage.protocol.decide(third) is None


def test_a_younger_write_of_what_an_older_one_read_waits_for_it(stage):
    reader, writer = stage.begin("reader"), stage.begin("writer")
    stage.read(reader, "price:/Ada/1")
    stage.write(reader, "room:/Ada")
    stage.hold(writer, "price:/Ada")
    stage.protocol.seal(writer)
    assert stage.protocol.decide(writer).holder is reader
    stage.commit(reader)
    assert stage.protocol.decide(writer) is None


@pytest.mark.parametrize(
    ("read", "written"), [("price:/A", "price:/A/1"), ("price:/A/1", "price:/A"), ("price:/a", "price:/*")]
)
@pytest.mark.parametrize("writes", [False, True])
def test_a_read_overwritten_by_another_commit_is_stale(stage, read, written, writes):
    writer = stage.begin("writer")
    reader = stage.begin("reader")
    stage.read(reader, read)
    if writes:
        stage.hold(reader, "room:/Ada")
    stage.write(writer, written)
    stage.commit(writer)
    stage.protocol.seal(reader)
    with pytest.raises(Stale, match="changed after it was read; read it again") as stale:
        stage.protocol.decide(reader)
    assert stale.value.scope == Scope.parse(read)
    assert (reader.state, reader.reason, stage.protocol.live) == (State.ABORTED, Reason.STALE, {})


def test_what_was_read_before_and_after_it_was_changed_is_stale(stage):
    writer, reader = stage.begin("writer"), stage.begin("reader")
    stage.read(reader, "room:/Ada")
    stage.write(writer, "room:/Ada")
    stage.commit(writer)
    stage.read(reader, "room:/Ada")
    stage.protocol.seal(reader)
    with pytest.raises(Stale):
        stage.protocol.decide(reader)


def test_its_own_write_does_not_make_a_reader_stale(stage):
    txn = stage.begin("both")
    stage.read(txn, "room:/Ada")
    stage.write(txn, "room:/Ada")
    stage.commit(txn)
    assert txn.state is State.COMMITTED


def test_versions_are_compared_and_not_values(stage):
    reader = stage.begin("reader", position=(9, ""))
    stage.read(reader, "room:/Ada")
    for number in (1, 2):  # changed, and changed back
        writer = stage.begin(f"writer {number}", position=(number, ""))
        stage.write(writer, "room:/Ada")
        stage.commit(writer)
    stage.protocol.seal(reader)
    with pytest.raises(Stale):
        stage.protocol.decide(reader)


def test_a_held_effect_makes_the_decision_releasing_and_the_last_release_finishes(stage):
    txn = stage.begin("mail")
    call = stage.hold(txn, "mail:/Ada")
    stage.protocol.seal(txn)
    assert stage.protocol.decide(txn) is None
    assert txn.state is State.RELEASING
    stage.protocol.released(call)
    stage.protocol.finish(txn)
    assert (txn.state, stage.protocol.live) == (State.COMMITTED, {})


def test_a_release_in_progress_keeps_readers_out_until_it_is_done(stage):
    txn, reader = stage.begin("mail"), stage.begin("reader")
    call = stage.hold(txn, "mail:/Ada")
    stage.protocol.seal(txn)
    stage.protocol.decide(txn)
    asked, holder = stage.ask(reader, "mail:/Ada", Mode.READ)
    assert holder is txn
    stage.protocol.released(call)
    assert stage.protocol.admit(asked) is None


def test_a_place_that_somebody_has_is_given_to_nobody_else(stage):
    first = stage.begin("first")
    second = stage.begin("second", position=first.position)
    assert (first.position, second.position) == ((1, ""), (2, ""))
    assert list(stage.protocol.live.values()) == [first, second]


def test_whom_the_oldest_waits_for_is_named_and_not_itself(stage):
    oldest, younger = stage.begin("oldest", "room:/Ada"), stage.begin("younger")
    call = stage.write(younger, "room:/Ada")
    asked = stage.protocol.request(oldest, Scope.parse("room:/Ada"), Mode.READ)
    blocked = stage.protocol.admit(asked)
    assert (younger.reason, stage.protocol.first(oldest, blocked)[0]) == (Reason.WOUNDED, "younger")
    stage.undo(younger, call)


def test_with_the_guard_of_order_off_a_held_effect_waits_for_anothers_claim_all_the_same(stage):
    other, txn = stage.begin("other"), stage.begin("txn", guards=ALL_ON._replace(current=False))
    call = stage.write(other, "room:/Ada")
    stage.hold(txn, "room:/Ada")
    stage.protocol.seal(txn)
    assert stage.protocol.decide(txn).holder is other
    stage.abort(other, call)
    assert stage.protocol.decide(txn) is None


def test_with_the_guard_of_order_off_a_held_effect_does_not_wait_for_its_own_claim(stage):
    txn = stage.begin("txn", guards=ALL_ON._replace(current=False))
    stage.write(txn, "room:/Ada")
    stage.hold(txn, "room:/Ada")
    stage.protocol.seal(txn)
    assert stage.protocol.decide(txn) is None


def test_a_held_effect_that_will_never_leave_keeps_nobody_waiting(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    held = stage.hold(older, "room:/Ada")
    asked, holder = stage.ask(younger, "room:/Ada", Mode.EAGER)
    assert holder is older
    stage.protocol.drop_call(held)
    assert stage.protocol.admit(asked) is None


def test_a_chosen_branch_waits_for_a_sibling_that_has_touched_nothing_yet(stage):
    choice = stage.begin("choice", role="choice")
    chosen, other = stage.begin("chosen", group=choice.id), stage.begin("other", group=choice.id)
    stage.write(chosen, "room:/Ada")
    stage.protocol.seal(chosen)
    assert stage.protocol.waits_for(chosen).holder is other
    stage.abort(other)
    assert stage.protocol.waits_for(chosen) is None


# ---- floors


def test_the_decision_raises_floors_over_the_whole_footprint_reads_included(stage):
    txn = stage.begin("both")
    stage.read(txn, "price:/Ada")
    stage.hold(txn, "mail:/Ada")
    stage.protocol.seal(txn)
    assert (stage.floor("price:/Ada"), stage.floor("mail:/Ada")) == (0, 0)
    stage.protocol.decide(txn)
    assert (stage.floor("price:/Ada"), stage.floor("mail:/Ada")) == (1, 1)
    assert (stage.version("price:/Ada"), stage.version("mail:/Ada")) == (0, 1)


@pytest.mark.parametrize(("touched", "asked"), [("room:/Ada", "room:/Ada/1"), ("room:/Ada/1", "room:/Ada")])
def test_a_floor_holds_for_parents_and_children(make_stage, touched, asked):
    stage = make_stage()
    stage.begin("older", "lamp:/1")
    txn = stage.begin("writer")
    stage.write(txn, touched)
    stage.commit(txn)
    assert stage.floor(asked) == 2
    assert stage.floor("room:/Bee") == 0


def test_an_abort_raises_no_floor(stage):
    txn = stage.begin("failed")
    call = stage.write(txn, "room:/Ada")
    stage.abort(txn, call)
    assert (stage.floor("room:/Ada"), stage.version("room:/Ada")) == (0, 0)


def test_what_could_not_be_undone_is_a_write(stage):
    reader = stage.begin("reader", position=(9, ""))
    stage.read(reader, "room:/Ada")
    txn = stage.begin("failed")
    call = stage.write(txn, "room:/Ada")
    stage.abort(txn, call, clean=False)
    assert stage.version("room:/Ada") == 1
    stage.protocol.seal(reader)
    with pytest.raises(Stale):
        stage.protocol.decide(reader)


def test_the_frontier_is_the_oldest_hold_or_the_next_epoch(stage):
    assert stage.frontier("room:/Ada") == 1
    one = stage.begin("one", "room:/Ada")
    stage.begin("two", "room:/Ada/1")
    assert (stage.frontier("room:/Ada"), stage.frontier("room:/Ada/1"), stage.frontier("room:/Bee")) == (1, 1, 3)
    stage.abort(one)
    assert stage.frontier("room:/Ada") == 2


def test_epochs_that_were_left_out_are_given_to_nobody(stage):
    assert (stage.begin("one").epoch, stage.protocol.skip_epochs(5), stage.begin("two").epoch) == (1, 2, 7)


# ---- seal


def test_a_seal_drops_what_was_declared_and_not_touched(stage):
    first = stage.begin("first", "room:/Ada", "room:/Bee")
    second = stage.begin("second")
    stage.write(first, "room:/Ada")
    stage.write(second, "room:/Bee")
    stage.protocol.seal(second)
    assert stage.protocol.decide(second).holder is first
    stage.protocol.seal(first)
    assert stage.protocol.decide(second) is None


def test_a_late_append_is_refused_and_aborts_its_transaction(stage):
    txn = stage.begin("late")
    written = stage.write(txn, "room:/Ada")
    stage.protocol.seal(txn)
    with pytest.raises(LateAppend, match="came after late was sealed: it was refused and late was aborted") as late:
        stage.ask(txn, "room:/Bee", Mode.EAGER)
    assert (late.value.transaction, late.value.scope) == ("late", Scope.parse("room:/Bee"))
    assert (txn.state, txn.reason) == (State.ABORTING, Reason.VIOLATION)
    stage.undo(txn, written)
    assert txn.state is State.ABORTED


def test_a_call_after_the_settlement_is_refused_and_nothing_changed(stage):
    txn = stage.begin("done")
    stage.write(txn, "room:/Ada")
    stage.commit(txn)
    before = stage.protocol.freeze()
    with pytest.raises(LateAppend, match="had settled: it was refused; use a new transaction"):
        stage.ask(txn, "room:/Ada", Mode.READ)
    assert (txn.state, stage.protocol.freeze()) == (State.COMMITTED, before)


@pytest.mark.parametrize("state", ["sealed", "committed"])
def test_a_second_seal_is_refused_and_nothing_changed(stage, state):
    txn = stage.begin("twice")
    stage.write(txn, "room:/Ada")
    stage.protocol.seal(txn)
    if state == "committed":
        stage.protocol.decide(txn)
    before = stage.protocol.freeze()
    with pytest.raises(StateError, match=f"twice is {state}: it cannot seal"):
        stage.protocol.seal(txn)
    assert (txn.state.value, stage.protocol.freeze()) == (state, before)


def test_an_unsealed_transaction_does_not_commit_and_nothing_changed(stage):
    txn = stage.begin("open")
    stage.write(txn, "room:/Ada")
    before = stage.protocol.freeze()
    with pytest.raises(StateError, match="open is open: only a sealed transaction can commit") as refused:
        stage.protocol.decide(txn)
    assert (refused.value.transaction, refused.value.state) == ("open", State.OPEN)
    assert stage.protocol.freeze() == before


def test_a_call_that_was_never_admitted_cannot_return_and_nothing_changed(stage):
    txn = stage.begin("odd")
    call = stage.protocol.request(txn, Scope.parse("room:/Ada"), Mode.EAGER)
    before = stage.protocol.freeze()
    with pytest.raises(InternalError, match="without having been admitted"):
        stage.protocol.acted(call, happened=True)
    assert stage.protocol.freeze() == before


def test_an_abort_with_claims_left_cannot_finish_and_nothing_changed(stage):
    txn = stage.begin("claims")
    stage.write(txn, "room:/Ada")
    stage.protocol.abort(txn, Reason.FAILED)
    before = stage.protocol.freeze()
    with pytest.raises(InternalError, match="claims cannot finish: 1 claims, 0 calls"):
        stage.protocol.finish_abort(txn)
    assert stage.protocol.freeze() == before


# ---- release refused


def test_a_releasing_transaction_aborts_while_nothing_has_left(stage):
    txn = stage.begin("mail")
    booked = stage.write(txn, "room:/Ada")
    stage.hold(txn, "mail:/Ada")
    stage.protocol.seal(txn)
    stage.protocol.decide(txn)
    stage.protocol.revert(txn, Reason.REFUSED)
    assert txn.state is State.ABORTING
    stage.undo(txn, booked)
    assert (txn.state, stage.protocol.live) == (State.ABORTED, {})


def test_a_releasing_transaction_with_something_gone_is_not_aborted(stage):
    txn = stage.begin("mail")
    first, _ = stage.hold(txn, "mail:/Ada"), stage.hold(txn, "mail:/Bee")
    stage.protocol.seal(txn)
    stage.protocol.decide(txn)
    stage.protocol.released(first)
    before = stage.protocol.freeze()
    with pytest.raises(StateError, match="what has left cannot be undone"):
        stage.protocol.revert(txn, Reason.REFUSED)
    assert (txn.state, stage.protocol.freeze()) == (State.RELEASING, before)


def test_only_who_releases_it_may_take_a_decision_back(stage):
    txn = stage.begin("mail")
    stage.hold(txn, "mail:/Ada")
    stage.protocol.seal(txn)
    stage.protocol.decide(txn)
    before = stage.protocol.freeze()
    stage.protocol.abort(txn, Reason.FAILED)
    assert (txn.state, stage.protocol.freeze()) == (State.RELEASING, before)


def test_a_decision_whose_record_is_still_to_be_made_is_not_finished_with_nothing_to_release(stage):
    txn = stage.begin("trip")
    booked = stage.write(txn, "room:/Ada")
    stage.protocol.seal(txn)
    assert stage.protocol.decide(txn, releasing=True) is None
    assert txn.state is State.RELEASING
    stage.protocol.revert(txn, Reason.REFUSED)
    stage.undo(txn, booked)
    assert (txn.state, stage.protocol.live) == (State.ABORTED, {})


# ---- refine


def test_refining_narrows_a_claim_and_lets_others_in(stage):
    txn, other = stage.begin("broad"), stage.begin("other")
    call = stage.write(txn, "city:/Rome/**")
    waiting, holder = stage.ask(other, "city:/Rome/1", Mode.READ)
    assert holder is txn
    (narrow,) = stage.protocol.refine(call, [Scope.parse("city:/Rome/2")])
    assert stage.protocol.admit(waiting) is None
    assert narrow.scope == Scope.parse("city:/Rome/2")
    assert stage.ask(other, "city:/Rome/2", Mode.READ)[1] is txn
    stage.abort(txn, narrow)
    assert {txn.name for txn in stage.protocol.live.values()} == {"other"}


def test_who_came_while_the_broad_claim_was_held_does_not_wound_the_narrow_one(stage):
    other, txn = stage.begin("other"), stage.begin("broad")
    call = stage.write(txn, "city:/Rome")
    stage.protocol.declare(other, [Scope.parse("city:/Rome/1")])
    stage.protocol.refine(call, [Scope.parse("city:/Rome/1")])
    assert stage.ask(other, "city:/Rome/1", Mode.READ)[1] is txn
    assert (txn.state, other.position > txn.position) == (State.OPEN, True)


def test_who_came_behind_the_first_claim_of_a_place_does_not_wound_what_is_refined_to_it(stage):
    other, txn = stage.begin("other"), stage.begin("broad")
    stage.write(txn, "city:/Rome/1")
    stage.protocol.declare(other, [Scope.parse("city:/Rome/1/a")])
    stage.protocol.refine(stage.write(txn, "city:/Rome"), [Scope.parse("city:/Rome/1")])
    stage.ask(other, "city:/Rome/1/a", Mode.READ)
    assert (txn.state, other.position > txn.position) == (State.OPEN, True)


def test_what_was_declared_and_then_refined_to_is_held_until_it_has_settled(stage):
    txn = stage.begin("broad", "city:/Rome/1")
    stage.read(stage.begin("reader"), "lamp:/1")  # versions are kept for it
    stage.protocol.refine(stage.write(txn, "city:/Rome"), [Scope.parse("city:/Rome/1")])
    stage.commit(txn)
    assert (stage.version("city:/Rome/1"), stage.version("city:/Rome/2")) == (1, 0)


def test_refining_keeps_the_broad_hold_of_what_was_read_there(stage):
    txn = stage.begin("broad")
    stage.read(txn, "city:/Rome")
    stage.protocol.refine(stage.write(txn, "city:/Rome"), [Scope.parse("city:/Rome/1")])
    younger = stage.begin("younger")
    stage.hold(younger, "city:/Rome/2")
    stage.protocol.seal(younger)
    assert stage.protocol.decide(younger).holder is txn


def test_refining_what_was_aborted_meanwhile_moves_nothing(stage):
    txn = stage.begin("broad")
    call = stage.write(txn, "city:/Rome")
    stage.protocol.abort(txn, Reason.FAILED)
    before = stage.protocol.freeze()
    assert stage.protocol.refine(call, [Scope.parse("city:/Rome/1")]) == [call]
    assert stage.protocol.freeze() == before
    stage.undo(txn, call)


def test_refining_to_more_than_was_declared_is_refused_and_nothing_changed(stage):
    txn = stage.begin("narrow")
    call = stage.write(txn, "city:/Rome/1")
    before = stage.protocol.freeze()
    with pytest.raises(OutsideDeclared, match="refined city:/Rome/1 to city:/Rome, which lies outside it"):
        stage.protocol.refine(call, [Scope.parse("city:/Rome")])
    assert stage.protocol.freeze() == before


def test_refining_outside_what_was_declared_is_refused_and_nothing_changed(stage):
    txn = stage.begin("broad")
    call = stage.write(txn, "city:/Rome")
    before = stage.protocol.freeze()
    with pytest.raises(OutsideDeclared, match="refined city:/Rome to city:/Oslo, which lies outside it") as outside:
        stage.protocol.refine(call, [Scope.parse("city:/Rome/1"), Scope.parse("city:/Oslo")])
    assert (outside.value.scope, outside.value.declared) == (Scope.parse("city:/Oslo"), call.scope)
    assert stage.protocol.freeze() == before


# ---- whose worker has ended


def test_what_an_ended_worker_waited_for_is_asked_for_no_more_and_what_it_held_back_stays(stage):
    first, dead, third = stage.begin("first"), stage.begin("dead", owner="w"), stage.begin("third")
    stage.hold(dead, "mail:/Ada")
    stage.write(first, "room:/Ada")
    stage.ask(dead, "room:/Ada", Mode.EAGER)
    stage.commit(first)
    assert stage.protocol.bury("w") == [dead]
    assert stage.ask(third, "room:/Ada", Mode.EAGER)[1] is None
    assert (dead.running, {hold.scope.text: hold.held for hold in dead.holds.values()}) == (0, {"mail:/Ada": 1})


# ---- cancel


def test_a_fence_aborts_what_has_not_settled_and_refuses_all_that_comes(stage):
    one, two = stage.begin("trip/1"), stage.begin("trip/2")
    other = stage.begin("other/1")
    booked = stage.write(one, "room:/Ada")
    assert set(stage.protocol.cancel("trip")) == {one, two}
    stage.protocol.undone(booked, clean=True)
    stage.protocol.finish_abort(one)
    with pytest.raises(Cancelled, match="trip/2 was cancelled"):
        stage.ask(two, "room:/Bee", Mode.READ)
    before = stage.protocol.freeze()
    with pytest.raises(Cancelled, match="trip was cancelled: nothing of it acts any more"):
        stage.begin("trip/3")
    assert stage.protocol.freeze() == before
    assert list(stage.protocol.live.values()) == [other]


def test_a_fence_leaves_a_releasing_transaction_to_finish(stage):
    txn = stage.begin("trip/1")
    call = stage.hold(txn, "mail:/Ada")
    stage.protocol.seal(txn)
    stage.protocol.decide(txn)
    assert stage.protocol.cancel("trip") == [txn]
    stage.protocol.released(call)
    stage.protocol.finish(txn)
    assert txn.state is State.COMMITTED


def test_a_fence_ends_a_retry_that_was_to_come(stage):
    older = stage.begin("older")
    younger = stage.begin("younger", retry=True)
    stage.read(older, "room:/Ada")
    undone = stage.write(younger, "room:/Ada")
    stage.ask(older, "room:/Ada", Mode.EAGER)
    assert younger.reason is Reason.WOUNDED
    stage.protocol.cancel("younger")
    stage.undo(younger, undone)
    assert (younger.successor, list(stage.protocol.live.values())) == (None, [older])


def test_what_a_dead_worker_left_is_taken_up_by_one_and_by_nobody_else_until_that_is_dead_too(stage):
    left, others = stage.begin("left", owner="dead"), stage.begin("others", owner="alive")
    with pytest.raises(StateError, match="left is being ended by the worker dead: wait for it"):
        stage.protocol.own(left, "heir")
    assert stage.protocol.bury("dead") == [left]
    stage.protocol.own(left, "heir")
    with pytest.raises(StateError, match="left is being ended by the worker heir: wait for it"):
        stage.protocol.own(left, "late")
    assert (left.owner, others.owner) == ("heir", "alive")
    assert (stage.protocol.bury("heir"), left.owner) == ([left], "")


def test_the_picture_of_a_state_is_another_as_soon_as_something_would_behave_otherwise(stage):
    pictures = [stage.protocol.freeze()]
    trip = stage.begin("trip")
    pictures.append(stage.protocol.freeze())
    stage.write(trip, "room:/Ada")
    pictures.append(stage.protocol.freeze())
    stage.protocol.seal(trip)
    pictures.append(stage.protocol.freeze())
    assert len(set(pictures)) == len(pictures)
    assert stage.protocol.freeze() == pictures[-1]


def differs(stage, change):
    """Whether something has made another picture of a state."""
    before = stage.protocol.freeze()
    change()
    return stage.protocol.freeze() != before


def test_the_picture_of_a_state_has_the_floors_that_somebody_is_below_of_whatever_scope(stage):
    stage.begin("low")
    for scope in ("room:/Ada/1", "room:/Ada", "room:/Bob/1/2", "room:/*/3"):
        assert differs(stage, lambda scope=scope: stage.protocol.advance(Scope.parse(scope), 1)), scope
    stage.protocol.seal(stage.protocol.live[1, ""])
    assert stage.protocol.decide(stage.protocol.live[1, ""]) is None
    stage.begin("high")
    assert not differs(stage, lambda: stage.protocol.advance(Scope.parse("lamp:/1"), 1))  # nobody is below


def test_the_picture_of_a_state_has_each_thing_that_a_transaction_holds_has_read_and_waits_for(stage):
    one, two = stage.begin("one", retry=True), stage.begin("two")
    assert differs(stage, lambda: stage.protocol.declare(one, [Scope.parse("room:/a")]))
    assert differs(stage, lambda: stage.read(one, "room:/b"))
    assert differs(stage, lambda: stage.write(two, "room:/c"))
    assert differs(stage, lambda: stage.write(two, "room:/c"))
    assert differs(stage, lambda: stage.hold(two, "room:/d"))
    three = stage.begin("three")
    assert differs(stage, lambda: stage.ask(three, "room:/c", Mode.READ))
    assert differs(stage, lambda: stage.protocol.drop_retry(one))
    assert differs(stage, lambda: stage.protocol.seal(one))
