"""A turn whose calls come one by one: the first opens it for all, and none waits for one that is given up."""

from __future__ import annotations

import pytest

from settlemark import Cancelled, Refused
from settlemark.agents import Gathering, Opened, open_turn, run_sync, still_open

BOOK, MAIL, LOOK = ("book", {"room": "1"}), ("mail", {"to": "ada"}), ("look", {"room": "2"})


def states(settlement):
    return [(recorded.row.name, recorded.state.value) for recorded in settlement.transactions()]


@pytest.fixture
def begin(office, settlement):
    """Return what opens a turn for each group of calls, after whatever happens meanwhile; and what it has begun."""

    def begin(*groups, meanwhile=lambda: None):
        begun = []

        def opening():
            turns = []
            for number, group in enumerate(groups):
                turn = yield from open_turn(settlement, f"trip/step-{number}", run="trip")
                yield from turn.place_all(office.calls(settlement, *group))
                turns.append(turn)
            begun.append(len(begun))
            meanwhile()
            return Opened.of(*turns)

        return opening, begun

    return begin


def play(office, gathering, opening, place):
    """Have one call come and run, and leave its turn."""
    turn, call = run_sync(gathering.open(opening)).calls[place]
    gathering.roll.arrive(place)
    run = getattr(office, call.tool)
    found = run_sync(turn.perform(call, lambda: run(**call.arguments), call.arguments, may_wait=False))
    run_sync(turn.leave(call))
    return found


def test_the_first_call_that_comes_opens_the_turn_for_all_and_the_last_settles_it(office, settlement, begin):
    opening, begun = begin([BOOK, LOOK, BOOK])
    gathering = Gathering("trip", 3, lambda: None)
    before = (gathering.opened, gathering.failed, gathering.is_over)
    over = []
    for place in (1, 0, 2):
        play(office, gathering, opening, place)
        over.append(gathering.is_over)
    assert (before, begun, over) == ((None, None, False), [0], [False, False, True])
    assert (gathering.abandoned, states(settlement)) == (False, [("trip/step-0", "committed")])


def test_calls_that_settle_each_by_itself_are_numbered_through(office, settlement, begin):
    opening, begun = begin([BOOK], [LOOK, BOOK])
    gathering = Gathering("trip", 3, lambda: None)
    opened = run_sync(gathering.open(opening))
    named = [(place, turn.name, call.tool) for place, (turn, call) in opened.calls.items()]
    for place in range(3):
        play(office, gathering, opening, place)
    assert named == [(0, "trip/step-0", "book"), (1, "trip/step-1", "look"), (2, "trip/step-1", "book")]
    assert (begun, gathering.is_over) == ([0], True)
    assert states(settlement) == [("trip/step-0", "committed"), ("trip/step-1", "committed")]


@pytest.mark.parametrize("when", ["before it begins", "while it is being opened", "when it is open"])
def test_a_call_that_is_given_up_is_waited_for_by_nobody(office, settlement, begin, when):
    gathering = Gathering("trip", 2, lambda: None)
    meanwhile = gathering.give_up if when == "while it is being opened" else lambda _place: None
    opening, _ = begin([BOOK, MAIL], meanwhile=lambda: meanwhile(1))
    if when == "before it begins":
        gathering.give_up(1)
    found = [] if when != "when it is open" else [run_sync(gathering.open(opening)), gathering.give_up(1)]
    play(office, gathering, opening, 0)
    assert (found[1:], gathering.give_up(1), gathering.roll.arrive(1)) == ([True] * len(found[1:]), False, False)
    assert (gathering.is_over, office.log) == (True, [("book", "1")])
    assert states(settlement) == [("trip/step-0", "committed")]


def test_a_turn_whose_calls_are_all_given_up_while_it_is_opened_settles_at_once(office, settlement, begin):
    gathering = Gathering("trip", 2, lambda: None)
    opening, _ = begin([BOOK, BOOK], meanwhile=lambda: [gathering.give_up(place) for place in (0, 1)])
    run_sync(gathering.open(opening))
    assert (gathering.is_over, gathering.roll.is_void) == (True, True)
    assert (office.log, states(settlement), still_open(settlement, "trip")) == ([], [], [])


@pytest.mark.parametrize("when", ["before", "meanwhile", "afterwards"])
def test_a_turn_that_is_cut_short_is_undone_and_runs_nothing_more(office, settlement, begin, when):
    cut = KeyboardInterrupt()
    gathering = Gathering("trip", 2, lambda: None, cut=cut if when == "before" else None)
    meanwhile = (lambda: run_sync(gathering.abandon(cut))) if when == "meanwhile" else (lambda: None)
    opening, _ = begin([BOOK, BOOK], meanwhile=meanwhile)
    if when == "afterwards":
        play(office, gathering, opening, 0)
        run_sync(gathering.abandon(cut))
    with pytest.raises(Refused, match="book was called after its turn had been stopped by KeyboardInterrupt"):
        play(office, gathering, opening, 1)
    assert (gathering.abandoned, gathering.is_over, gathering.cut) == (True, True, cut)
    acted = when == "afterwards"
    assert office.log == ([("book", "1"), ("unbook", "1")] if acted else [])
    assert (states(settlement), still_open(settlement, "trip")) == ([("trip/step-0", "aborted")] if acted else [], [])


def test_a_turn_that_is_reopened_is_begun_once_more_and_one_that_was_reopened_before_is_not(office, begin):
    opening, begun = begin([LOOK])
    gathering = Gathering("trip", 1, lambda: None)
    first = run_sync(gathering.open(opening))
    play(office, gathering, opening, 0)
    gathering.reopen(first)
    second = run_sync(gathering.open(opening))
    gathering.reopen(first)
    assert (begun, gathering.opened is second, first is second) == ([0, 1], True, False)
    play(office, gathering, opening, 0)
    assert gathering.is_over


def test_why_a_turn_could_not_be_opened_is_told_to_all_its_calls(settlement, begin):
    opening, begun = begin([BOOK, MAIL])
    gathering = Gathering("trip", 2, lambda: None)
    settlement.cancel("trip")
    for _ in range(2):
        with pytest.raises(Cancelled):
            run_sync(gathering.open(opening))
    assert (begun, gathering.opened, type(gathering.failed), gathering.is_over) == ([], None, Cancelled, True)
    run_sync(gathering.finish())
    assert states(settlement) == []
