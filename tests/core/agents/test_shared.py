"""Turns that share a transaction: of one agent's work, or of a whole run."""

from __future__ import annotations

import asyncio

import pytest

from settlemark import Cancelled, Refused, effect
from settlemark.agents import MISSING, AgentRun, Shared, StillOpen, open_turn, still_open
from settlemark.hosting import host_of, run_async, run_sync

BOOK, MAIL = ("book", {"room": "1"}), ("mail", {"to": "ada"})


def states(settlement):
    return [(recorded.row.name, recorded.state.value) for recorded in settlement.transactions()]


@pytest.mark.parametrize(("settle", "name"), [("part", "trip/clerk/0"), ("run", "trip/*/1")])
async def test_what_is_irreversible_waits_for_the_end_and_reversible_acts_go_on(office, settlement, settle, name):
    job = AgentRun(settlement, "trip", settle=settle)
    work = job.work("clerk")
    [mailed] = await office.play(work.turn(office.calls(settlement, MAIL)))
    assert await office.play(work.turn(office.calls(settlement, BOOK))) == ["book 1"]
    assert (mailed.startswith("queued"), office.log, states(settlement)) == (True, [("book", "1")], [(name, "open")])
    await run_async(job.end())
    assert (office.log, states(settlement)) == ([("book", "1"), ("mail", "ada")], [(name, "committed")])


async def test_a_failed_turn_undoes_the_earlier_ones_and_all_of_them_are_told(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    work = job.work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    office.fails.add(("post", "bank"))
    assert await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"})))) == [
        "OSError: post bank is out of order"
    ]
    assert office.log == [("book", "1"), ("unbook", "1")]
    told = {call.tool: text.split(":")[0] for call, text in work.corrections()}
    assert told == {"book": "undone", "mail": "never left"}
    # What the model decides now is a new try.
    await office.play(work.turn(office.calls(settlement, MAIL)))
    await run_async(work.end())
    assert office.log[2:] == [("mail", "ada")]
    assert states(settlement) == [("trip/clerk/0", "aborted"), ("trip/clerk/1", "committed")]


@pytest.mark.parametrize("goes_on", [False, True], ids=["stops there", "goes on"])
@pytest.mark.parametrize("settle", ["part", "run"])
async def test_who_takes_for_settled_what_was_undone_gets_an_error_and_a_new_beginning_does_all_of_it(
    office, settlement, settle, goes_on
):
    """An agent that has ended is told nothing any more: what the others do does not settle without its part."""
    job = AgentRun(settlement, "trip", settle=settle)
    clerk, boss = job.work("clerk"), job.work("clerk" if settle == "part" else "boss")
    await office.play(clerk.turn(office.calls(settlement, BOOK, MAIL)))
    office.fails.add(("post", "bank"))
    await office.play(boss.turn(office.calls(settlement, ("post", {"to": "bank"}))))
    if goes_on:
        await office.play(boss.turn(office.calls(settlement, ("book", {"room": "2"}))))
    settles = settle == "part" and goes_on  # it was told, and decided anew
    if settle == "run":
        await run_async(job.keep("result", "done"))

    if settles:
        await run_async(job.end())
    else:
        with pytest.raises(
            Refused, match=r"post failed: .*: book on room:/1, mail on mail:/ada is undone or never left"
        ):
            await run_async(job.end())
        assert await run_async(job.recorded("result")) is MISSING

    undone = [("book", "2")] if settles else [("book", "2"), ("unbook", "2")] if goes_on else []
    assert office.log == [("book", "1"), ("unbook", "1"), *undone]
    assert [state for _, state in states(settlement) if state == "open"] == []
    office.fails.clear()
    again = AgentRun(settlement, "trip", settle=settle)
    assert await office.play(again.work("clerk").turn(office.calls(settlement, BOOK))) == ["book 1"]
    await run_async(again.end())
    assert office.log[-1] == ("book", "1")


async def test_the_end_of_one_agents_work_leaves_that_of_the_other_open(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    clerk, boss = job.work("clerk"), job.work("boss")
    await office.play(clerk.turn(office.calls(settlement, MAIL)))
    await office.play(boss.turn(office.calls(settlement, ("mail", {"to": "bob"}))))
    await run_async(clerk.end())
    assert office.log == [("mail", "ada")]
    await run_async(boss.end(OSError("cut")))
    assert office.log == [("mail", "ada")]
    assert states(settlement) == [("trip/clerk/0", "committed"), ("trip/boss/0", "aborted")]


async def test_works_of_a_run_share_one_transaction(office, settlement):
    job = AgentRun(settlement, "trip", settle="run")
    await office.play(job.work("clerk").turn(office.calls(settlement, BOOK)))
    await office.play(job.work("boss").turn(office.calls(settlement, MAIL)))
    await run_async(job.work("clerk").end())
    assert (office.log, states(settlement)) == ([("book", "1")], [("trip/*/1", "open")])
    await run_async(job.end(OSError("cut")))
    assert (office.log, states(settlement)) == ([("book", "1"), ("unbook", "1")], [("trip/*/1", "aborted")])


def test_a_refusal_at_the_end_is_raised_for_no_turn_follows_that_is_told(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    work = job.work("clerk")
    office.fails.add(("mail", "ada"))
    run_sync(work.turn(office.calls(settlement, MAIL)).perform(0, lambda: office.mail("ada"), waits=False))
    with pytest.raises(Refused, match="mail"):
        run_sync(work.end())
    assert (office.log, states(settlement)) == ([], [("trip/clerk/0", "aborted")])


def test_each_work_ends_though_one_before_it_is_refused_and_the_first_refusal_is_raised(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    office.fails.update([("mail", "ada"), ("mail", "bob")])
    for name, to in (("clerk", "ada"), ("boss", "bob")):
        turn = job.work(name).turn(office.calls(settlement, ("mail", {"to": to})))
        run_sync(turn.perform(0, lambda to=to: office.mail(to), waits=False))
    with pytest.raises(Refused, match="mail ada is out of order"):
        run_sync(job.end())
    assert (office.log, states(settlement)) == ([], [("trip/clerk/0", "aborted"), ("trip/boss/0", "aborted")])


@pytest.mark.parametrize(
    ("settle", "may_touch"), [("turn", ["room:/9", "room:/8"]), ("part", "room:/9"), ("run", ["room:/9"])]
)
async def test_a_transaction_holds_from_its_beginning_what_its_job_may_touch(office, settlement, settle, may_touch):
    job = AgentRun(settlement, "trip", settle=settle, may_touch=may_touch)
    turn = job.work("clerk").turn(office.calls(settlement, BOOK, ("post", {"to": "bank"})))
    await office.answer(turn, 0, waits=False)
    assert settlement.frontier("room:/9") == settlement.frontier("room:/1") < settlement.frontier("room:/7")
    turn.absent(1)
    await run_async(job.end())
    assert settlement.frontier("room:/9") == settlement.frontier("room:/7")


async def test_a_run_of_which_a_death_left_something_open_begins_anew_when_that_is_undone(office, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip", settle="run").work("clerk")
        await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        await office.play(job.work("clerk").turn(office.calls(settlement, BOOK, MAIL)))
        assert office.log == [("book", "1"), ("unbook", "1"), ("book", "1")]
        await run_async(job.end())
        assert office.log[3:] == [("mail", "ada")]
        assert states(settlement) == [("trip/*/1", "aborted"), ("trip/*/2", "committed")]


async def test_what_a_death_left_of_an_agents_work_is_undone_before_anything_new_and_not_by_what_is_played_again(
    office, tmp_path
):
    url, room = f"sqlite:///{tmp_path / 'ledger.db'}", [("book", {"room": str(number)}) for number in range(4)]

    async def play(work, number):
        return await office.play(work.turn(office.calls(settlement, room[number])))

    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="part")
        await play(job.work("clerk"), 1)
        await run_async(job.end())
        await play(job.work("clerk"), 2)
    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="part")
        assert await play(job.work("clerk"), 1) == ["book 1"]
        assert office.log == [("book", "1"), ("book", "2")]
        assert await play(job.work("clerk"), 3) == ["book 3"]
        assert office.log[2:] == [("unbook", "2"), ("book", "3")]
        await run_async(job.end())
        assert states(settlement)[1:] == [("trip/clerk/1", "aborted"), ("trip/clerk/2", "committed")]


async def test_a_run_that_had_committed_repeats_nothing(office, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    for _ in range(2):
        with office.settlement(url) as settlement:
            job = AgentRun(settlement, "trip", settle="run")
            await office.play(job.work("clerk").turn(office.calls(settlement, BOOK, MAIL)))
            await run_async(job.end())
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_the_frontier_passes_when_an_agents_work_has_settled(office, settlement):
    job = AgentRun(settlement, "trip", settle="part")
    work = job.work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK)))
    open_at = settlement.frontier("room:/1")
    await run_async(work.end())
    assert settlement.frontier("room:/1") > open_at


async def test_what_was_asked_for_while_all_stood_is_told_when_it_is_undone_later(office, settlement):
    work = AgentRun(settlement, "trip", settle="part").work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK)))
    assert work.corrections() == []
    office.fails.add(("post", "bank"))
    await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"}))))
    assert [call.tool for call, _ in work.corrections()] == ["book"]
    assert work.corrections() == []


async def test_works_that_begin_beside_each_other_share_one_transaction(office, tmp_path):
    with office.settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        await asyncio.gather(
            office.play(job.work("clerk").turn(office.calls(settlement, BOOK))),
            office.play(job.work("boss").turn(office.calls(settlement, MAIL))),
        )
        await run_async(job.end())
        assert states(settlement) == [("trip/*/1", "committed")]
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_of_what_was_undone_and_told_nothing_is_kept(office, settlement):
    work = AgentRun(settlement, "trip", settle="part").work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK)))
    office.fails.add(("post", "bank"))
    await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"}))))
    assert [call.tool for call, _ in work.corrections()] == ["book"]
    assert work._turns == []


# ---- one transaction, as a shim has it under a name of its own


def begin(settlement, name="trip/step-1"):
    return lambda: host_of(settlement).begin(name, run="trip")


def booked(office, settlement, shared, place):
    """Have one turn book a room as its part of what is shared, and return the turn."""
    part = run_sync(shared.enter(begin(settlement), place))
    turn = run_sync(open_turn(settlement, None, run="trip", within=part))
    [call] = run_sync(turn.place_all(office.calls(settlement, ("book", {"room": str(place)}))))
    run_sync(turn.perform(call, lambda: office.book(str(place)), {"room": str(place)}))
    run_sync(turn.leave(call))
    return turn


def test_turns_with_places_of_their_own_are_parts_of_one_transaction_until_that_commits(office, settlement):
    shared = Shared(settlement, "trip")
    before = (shared.part, shared.is_open, shared.is_over)
    for place in (1, 2):
        booked(office, settlement, shared, place)
    assert (before, shared.is_open, states(settlement)) == ((None, False, False), True, [("trip/step-1", "open")])
    run_sync(shared.commit())
    assert (shared.is_open, shared.is_undone, shared.is_over) == (False, False, True)
    assert [
        (recorded.row.name, recorded.state.value, [effect.row.decision for effect in recorded.effects])
        for recorded in settlement.transactions()
    ] == [("trip/step-1", "committed", [(1, 0), (2, 0)])]


@pytest.mark.parametrize(
    ("resumable", "log", "state"), [(True, ["book"], "open"), (False, ["book", "unbook"], "aborted")]
)
def test_what_is_stopped_is_put_aside_if_it_can_be_gone_on_with_and_else_undone(
    office, settlement, resumable, log, state
):
    shared = Shared(settlement, "trip")
    booked(office, settlement, shared, 1)
    run_sync(shared.stop("its run was stopped", resumable=resumable))
    assert ([act for act, _ in office.log], states(settlement)) == (log, [("trip/step-1", state)])
    assert (shared.is_undone, shared.is_over) == (not resumable, True)


def test_what_was_put_aside_is_gone_on_with_under_its_name(office, settlement):
    first, second = Shared(settlement, "trip"), Shared(settlement, "trip")
    booked(office, settlement, first, 1)
    run_sync(first.stop("its run was interrupted", resumable=True))
    for place in (1, 2):
        booked(office, settlement, second, place)
    run_sync(second.commit())
    assert (office.log, states(settlement)) == ([("book", "1"), ("book", "2")], [("trip/step-1", "committed")])


def test_what_was_put_aside_is_found_by_its_name_and_ended(office, settlement):
    first = Shared(settlement, "trip")
    booked(office, settlement, first, 1)
    run_sync(first.stop("its run was interrupted", resumable=True))
    waiting = still_open(settlement, "trip")
    left = run_sync(Shared.left(settlement, "trip/step-1"))
    assert left is not None
    run_sync(left.commit())
    assert waiting == [StillOpen("trip/step-1", is_here=True, waits=True, is_cut_off=False)]
    assert (office.log, states(settlement)) == ([("book", "1")], [("trip/step-1", "committed")])
    assert (run_sync(Shared.left(settlement, "trip/step-1")), still_open(settlement, "trip")) == (None, [])


def places_behind(place, asked):
    """Return what tells that no turn comes back to the places behind one."""

    def gone(places):
        asked.append(set(places))
        yield from ()
        return {other for other in places if other > place}

    return gone


@pytest.mark.parametrize("when", ["at its beginning", "later"])
def test_effects_of_places_to_which_no_turn_comes_back_are_taken_back_the_last_first(office, settlement, when):
    first, second, asked = Shared(settlement, "trip"), Shared(settlement, "trip"), []
    for place in (1, 2, 3):
        booked(office, settlement, first, place)
    run_sync(first.stop("its run was interrupted", resumable=True))
    gone = places_behind(1, asked)
    run_sync(second.enter(begin(settlement), 1, gone=gone if when == "at its beginning" else None))
    if when == "later":
        run_sync(second.take_back(gone))
    run_sync(second.commit())
    assert asked == [{1, 2, 3}]
    assert office.log[3:] == [("unbook", "3"), ("unbook", "2")]
    assert states(settlement) == [("trip/step-1", "committed")]


def test_nothing_is_taken_back_of_what_has_committed_or_not_begun(office, settlement):
    first, second, never, asked = *(Shared(settlement, "trip") for _ in range(3)), []
    booked(office, settlement, first, 1)
    run_sync(first.commit())
    run_sync(second.enter(begin(settlement), 1, gone=places_behind(0, asked)))
    run_sync(never.take_back(places_behind(0, asked)))
    assert (asked, office.log, states(settlement)) == ([], [("book", "1")], [("trip/step-1", "committed")])
    assert (second.is_open, second.is_undone, never.is_undone) == (False, False, False)


def test_what_has_not_begun_has_no_end_and_begins_afterwards(office, settlement):
    shared = Shared(settlement, "trip")
    run_sync(shared.commit())
    run_sync(shared.stop("nothing had begun"))
    assert (shared.is_over, states(settlement)) == (False, [])
    booked(office, settlement, shared, 1)
    run_sync(shared.commit())
    assert (shared.is_over, states(settlement)) == (True, [("trip/step-1", "committed")])


def test_while_one_ends_it_who_else_wants_to_has_nothing_to_do(office, settlement):
    shared, seen = Shared(settlement, "trip"), []

    def mail(to):
        run_sync(shared.stop("it came second"))
        seen.append((shared.is_over, shared.is_undone))
        return office.mail(to)

    part = run_sync(shared.enter(begin(settlement), 1))
    turn = run_sync(open_turn(settlement, None, run="trip", within=part))
    [call] = run_sync(turn.place_all(office.calls(settlement, MAIL)))
    run_sync(turn.perform(call, lambda: mail("ada"), {"to": "ada"}))
    run_sync(turn.leave(call))
    run_sync(shared.commit())
    assert (seen, office.log, states(settlement)) == (
        [(False, False)],
        [("mail", "ada")],
        [("trip/step-1", "committed")],
    )


def test_what_could_not_be_begun_is_refused_to_all_that_come(settlement):
    shared = Shared(settlement, "trip")
    settlement.cancel("trip")
    for _ in range(2):
        with pytest.raises(Cancelled):
            run_sync(shared.enter(begin(settlement)))
    assert (shared.has_failed, shared.part) == (True, None)


@pytest.mark.parametrize("when", ["at its beginning", "later"])
def test_what_joined_a_call_takes_back_nothing_of_the_transaction_around_it(office, settlement, when):
    asked, shared = [], Shared(settlement, "trip")
    gone = places_behind(-1, asked)

    @effect("reversible", scope="desk:/{desk}", undo=lambda desk: office.unbook(desk))
    def plan(desk):
        run_sync(shared.enter(begin(settlement), 1, gone=gone if when == "at its beginning" else None))
        if when == "later":
            run_sync(shared.take_back(gone))
        return shared.part.joined

    @effect("reversible", scope="room:/{room}", undo=lambda room: office.unbook(room))
    def reserve(room):
        office.book(room)

    with settlement.transaction("trip/desk") as tx:
        tx.call(reserve, room="1")
        joined = tx.call(plan, desk="1")
    assert (joined, asked, office.log) == (True, [], [("book", "1")])


async def test_where_the_others_go_on_after_a_failure_what_turns_share_stays_open_until_its_own_end(office):
    office.fails.add(("book", "1"))
    with office.settlement(on_failure="continue") as settlement:
        job = AgentRun(settlement, "trip", settle="part")
        work = job.work("clerk")
        await office.play(work.turn(office.calls(settlement, ("book", {"room": "2"}), BOOK)))
        assert states(settlement) == [("trip/clerk/0", "open")]
        await office.play(work.turn(office.calls(settlement, MAIL)))
        await run_async(job.end())
        assert office.log == [("book", "2"), ("mail", "ada")]
        assert states(settlement) == [("trip/clerk/0", "committed")]
