"""A plan acts no more once a person has ended what was stuck, whatever the plan was at; and it acts as it was shown."""

from __future__ import annotations

import pytest
from tests.rooms.api import checked
from tests.rooms.lifecycle import id_of, transaction_of

from settlemark import UsageError, Vetoed, effect
from settlemark.hosting import host_of

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture
def desk(settlement, hotel):
    """A settlement with a refund that needs a yes of its own, and `tidy`, during which `hotel.meanwhile` is called."""

    @effect("irreversible", scope="room:/{room}", approve=True, name="refund")
    def refund(room):
        hotel.log.append(("refund", room))
        hotel.taken.discard(room)

    @effect("reversible", scope="room:/{room}", undo=lambda room: hotel.log.append(("untidy", room)), name="tidy")
    def tidy(room):
        hotel.log.append(("tidy", room))
        hotel.meanwhile()

    yield settlement
    del refund, tidy


def call(tool, **arguments):
    return {"tool": tool, "arguments": arguments}


def get_stuck(desk, hotel):
    with pytest.raises(Boom), desk.transaction("trip") as tx:
        tx.call(hotel.book, room="7")
        raise Boom
    desk.recover()


def approve(desk):
    (asked,) = desk.approvals()
    desk.approve(asked, by="eve")
    desk.recover()


def asked(desk):
    return [each.tool for each in desk.approvals()]


def settled(desk, hotel):
    desk.settle_by_hand("trip", by="ada")
    return []


def undone_again(desk, hotel):
    hotel.open = True
    desk.undo_again("trip", by="ada")
    return [("cancel", "7")]


ENDED = pytest.mark.parametrize("end", [settled, undone_again])


def state(desk):
    """What is still asked, stuck and residue, and the states of what had the plan."""
    ended = [each.state for each in desk.transactions() if each.row.name.startswith("mends/")]
    return asked(desk), desk.stuck(), desk.residue(), ended


@ENDED
def test_a_plan_that_waits_for_a_yes_is_asked_about_no_more_and_does_not_run(desk, hotel, proposed, pager, end):
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    assert asked(desk) == ["settlemark.mend"]
    did = end(desk, hotel)
    desk.recover()
    assert (hotel.log, state(desk), pager.notices) == ([("book", "7"), *did], ([], [], [], ["aborted"]), [])


@ENDED
def test_a_tool_of_the_plan_that_waits_for_a_yes_of_its_own_does_not_act(desk, hotel, proposed, pager, end):
    proposed.plan = [call("refund", room="7")]
    get_stuck(desk, hotel)
    approve(desk)
    assert asked(desk) == ["refund"]
    did = end(desk, hotel)
    desk.recover()
    assert (hotel.log, state(desk)) == ([("book", "7"), *did], ([], [], [], ["committed", "aborted"]))
    assert pager.notices == []


def test_what_the_plan_has_done_by_then_is_undone_before_the_stuck_effect_is(desk, hotel, proposed):
    proposed.plan = [call("void", room="7"), call("refund", room="7")]
    get_stuck(desk, hotel)
    approve(desk)
    undone_again(desk, hotel)
    assert hotel.log[1:] == [("void", "7"), ("take again", "7"), ("cancel", "7")]
    assert (hotel.taken, state(desk)) == (set(), ([], [], [], ["committed", "aborted"]))


def test_while_a_tool_of_the_plan_runs_the_tool_is_undone_and_nothing_leaves(desk, hotel, proposed, pager):
    proposed.plan = [call("tidy", room="7"), call("evict", room="7")]
    hotel.meanwhile = lambda: desk.settle_by_hand("trip", by="ada")
    get_stuck(desk, hotel)
    approve(desk)
    assert hotel.log[1:] == [("tidy", "7"), ("untidy", "7")]
    assert (hotel.taken, state(desk), pager.notices) == ({"7"}, ([], [], [], ["committed", "aborted"]), [])


def test_an_effect_that_is_resolved_by_its_key_is_for_no_plan_either(desk, hotel, proposed, pager):
    proposed.plan = [call("tidy", room="7"), call("evict", room="7")]
    hotel.meanwhile = lambda: desk.resolve(desk.stuck()[0].effects[0].key, "dealt_with", by="ada")
    get_stuck(desk, hotel)
    approve(desk)
    assert hotel.log[1:] == [("tidy", "7"), ("untidy", "7")]
    assert (hotel.taken, state(desk), pager.notices) == ({"7"}, ([], [], [], ["committed", "aborted"]), [])


def test_a_yes_to_a_plan_for_an_effect_that_is_resolved_by_its_key_is_refused(desk, hotel, proposed):
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    desk.resolve(desk.stuck()[0].effects[0].key, "dealt_with", by="ada")
    with pytest.raises(Vetoed, match="trip is not for this plan to mend any more"):
        desk.approve(desk.approvals()[0], by="eve")
    desk.recover()
    assert (hotel.log, state(desk)) == ([("book", "7")], ([], [], [], ["aborted"]))


def test_an_undo_that_fails_again_leaves_it_to_the_person_and_to_no_plan(desk, hotel, proposed, pager):
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    desk.undo_again("trip", by="ada")
    desk.recover()
    (stuck,) = desk.stuck()
    assert (hotel.log, asked(desk), stuck.remedy.state, len(proposed)) == ([("book", "7")], [], "over", 1)
    assert pager.notices == []


def test_while_a_decided_plan_acts_its_undo_is_refused_and_nothing_is_recorded(desk, hotel, proposed):
    tried = []

    @effect("irreversible", scope="room:/{room}", name="turn_out")
    def turn_out(room):
        before = desk.stuck()
        with pytest.raises(UsageError, match="is decided and acts now"):
            desk.undo_again("trip", by="ada")
        tried.append((before, desk.stuck()))
        hotel.taken.discard(room)

    proposed.plan = [call("turn_out", room="7")]
    get_stuck(desk, hotel)
    approve(desk)
    ((before, after),) = tried
    assert (before, before[0].remedy.state) == (after, "proposed")
    assert (hotel.log, state(desk)) == ([("book", "7")], ([], [], [], ["committed", "committed"]))


def test_a_plan_that_has_run_is_proven_before_an_undo_is_tried_again(desk, hotel, proposed):
    tried = []

    def find(room):
        if room in hotel.taken:
            return {"room": room}
        before = desk.stuck()
        with pytest.raises(UsageError, match="has run, and is not proven yet"):
            desk.undo_again("trip", by="ada")
        tried.append((before, desk.stuck()))
        return None

    def closed(room):
        raise LookupError("the desk is closed")

    hotel.book = effect("reversible", scope="room:/{room}", undo=closed, probe=find, name="book a late room")(
        lambda room: hotel.taken.add(room)
    )
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    approve(desk)
    ((before, after),) = tried
    assert (before, before[0].remedy.state) == (after, "proposed")
    assert (hotel.log, state(desk)) == ([("evict", "7")], ([], [], [], ["committed", "committed"]))


def test_what_a_person_has_tried_first_is_for_no_plan(desk, hotel, proposed, pager):
    proposed.plan = [call("void", room="7")]
    with pytest.raises(Boom), desk.transaction("trip") as tx:
        tx.call(hotel.book, room="7")
        raise Boom
    desk.undo_again("trip", by="ada")
    desk.recover()
    (stuck,) = desk.stuck()
    assert (hotel.log, list(proposed), stuck.remedy.state) == ([("book", "7")], [], "over")
    assert pager.notices == []


# ---- a plan acts as it was shown


def test_what_a_proposer_does_with_its_plan_later_does_not_change_what_runs(desk, hotel, proposed):
    how = {"price": ["cheap"]}

    @effect("irreversible", scope="room:/{room}", name="burn")
    def burn(room, how):
        hotel.log.append(("burn", how))
        hotel.taken.discard(room)

    proposed.plan = [call("burn", room="7", how=how)]
    get_stuck(desk, hotel)
    (question,) = desk.approvals()
    how["price"][0] = how["by"] = "dear"
    proposed.plan.append(call("evict", room="7"))
    approve(desk)
    assert question.arguments["plan"] == [call("burn", room="7", how={"price": ["cheap"]})]
    assert (hotel.log[1:], state(desk)) == ([("burn", {"price": ["cheap"]})], ([], [], [], ["committed", "committed"]))


def edited(desk, *plan):
    (question,) = desk.approvals()
    desk.approve(question, arguments={**question.arguments, "plan": list(plan)}, by="eve")
    desk.recover()


def test_a_plan_that_a_person_edits_runs_as_edited_and_is_on_record_so(desk, hotel, proposed, pager):
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    edited(desk, call("void", room="7"))
    assert (hotel.log[1:], state(desk)) == ([("void", "7")], ([], [], [], ["committed", "committed"]))
    assert (hotel.taken, pager.notices) == (set(), [])


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ([call("void", room="8")], "which trip did not touch"),
        ([call("nothing_of_that_name")], "is not declared in this process"),
        (["void 7"], "a plan is a list of calls"),
    ],
)
def test_an_edited_plan_is_checked_anew_and_neither_it_nor_the_first_one_runs(desk, hotel, proposed, pager, plan, why):
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    edited(desk, *plan)
    (stuck,) = desk.stuck()
    assert (hotel.log, asked(desk), pager.told()) == ([("book", "7")], [], [("trip", "refused")])
    assert why in stuck.remedy.why


def test_a_yes_that_changes_which_remedy_it_is_about_is_a_yes_to_nothing(desk, hotel, proposed, pager):
    proposed.plan = [call("evict", room="7")]
    get_stuck(desk, hotel)
    (question,) = desk.approvals()
    desk.approve(question, arguments={**question.arguments, "mend": "another"}, by="eve")
    desk.recover()
    assert (hotel.log, asked(desk), pager.told()) == ([("book", "7")], [], [("trip", "refused")])


# ---- its names are no answer


@pytest.fixture
def names(desk, hotel, monkeypatch):
    """What is stuck, the name in which its plan will run, and a tool of somebody who takes such names."""
    monkeypatch.setattr(checked, "A_NAME", "")  # as a process does that does not refuse them
    with pytest.raises(Boom), desk.transaction("trip") as tx:
        tx.call(hotel.book, room="7")
        raise Boom
    note = effect("reversible", scope="note:/{of}", undo=lambda of: None, name="note")(lambda of: None)
    name = transaction_of(id_of(host_of(desk).driver.kernel.prefix, desk.stuck()[0]))

    def take(part):
        desk.run(f"{name}{part}", lambda tx: tx.call(note, of="7"))

    return take


def test_a_transaction_that_has_taken_the_name_of_the_question_is_no_yes(desk, hotel, proposed, pager, names):
    proposed.plan = [call("evict", room="7")]
    names("/gate")
    desk.recover()
    (stuck,) = desk.stuck()
    assert (hotel.log, asked(desk), pager.told()) == ([("book", "7")], [], [("trip", "refused")])
    assert "is on record without a yes to this plan; nothing was run" in stuck.remedy.why


def test_a_transaction_that_has_taken_the_name_of_the_plan_has_mended_nothing(desk, hotel, proposed, pager, names):
    proposed.plan = [call("void", room="7")]
    names("")
    desk.recover()
    assert (hotel.log, asked(desk), pager.told()) == ([("book", "7")], [], [("trip", "unproven")])
