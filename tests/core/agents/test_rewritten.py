"""A call that something of the framework's has rewritten before it runs: it acts, and is known again, as rewritten."""

from __future__ import annotations

import asyncio
import json

import pytest

from settlemark import ScopeError
from settlemark.agents import AgentRun, Call, words
from settlemark.hosting import run_async, run_sync

LOOK, BANK, GOOD_DAY = ("look", {"room": "2"}), ("post", {"to": "bank"}), {"to": "bank", "text": "good day"}
ADA, BOB = ("mail", {"to": "ada"}), ("mail", {"to": "bob"})


@pytest.fixture
def begin(office, settlement):
    """Begin the job anew, and return its next turns."""

    def begin_(**options):
        work = AgentRun(settlement, "trip", **options).work()
        return lambda *issued: work.turn(office.calls(settlement, *issued))

    return begin_


def as_rewritten(turn, place, **arguments):
    call = turn.calls[place]
    return Call(call.tool, arguments, call.declaration, call.call_id)


def act(office, turn, place, **arguments):
    """Run a call, rewritten if there are arguments, and return what its model is told before its turn has settled."""
    call = as_rewritten(turn, place, **arguments) if arguments else turn.calls[place]
    run = lambda: getattr(office, call.tool)(**call.arguments)  # noqa: E731 - called below
    try:
        return str(run_sync(turn.perform(place, run, waits=False, rewritten=call if arguments else None)))
    except Exception as error:
        return words(error)


def test_it_acts_and_is_recorded_and_known_again_by_what_it_was_rewritten_to(office, settlement, begin):
    assert act(office, begin()(BANK), 0, to="mint") == "post mint"
    ((effect,),) = [recorded.effects for recorded in settlement.transactions()]
    assert (json.loads(effect.row.arguments), effect.row.scope) == ({"to": "mint"}, "post:/mint")
    assert act(office, begin()(BANK), 0, to="mint") == "post mint"
    assert act(office, begin()(("post", {"to": "mint"})), 0) == "post mint"
    assert office.log == [("post", "mint")]


async def acting_beside(office, turn, to):
    """Run the first call of a turn for as long as the second, rewritten, may need; return what that acted on."""
    begun, go, acted = asyncio.Event(), asyncio.Event(), []

    async def slowly():
        begun.set()
        await go.wait()
        return office.book("1")

    async def book():
        acted.append(to)
        return office.book(to)

    first = asyncio.create_task(run_async(turn.perform(0, slowly)))
    await begun.wait()
    second = asyncio.create_task(run_async(turn.perform(1, book, rewritten=as_rewritten(turn, 1, room=to))))
    for _ in range(300):  # as long as it may take to act
        await asyncio.sleep(0)
    beside = list(acted)
    go.set()
    assert await asyncio.gather(first, second) == ["book 1", f"book {to}"]
    return beside


async def test_it_waits_for_those_before_it_on_whose_scopes_it_will_act(office, begin):
    turn = begin(order="scopes")(("book", {"room": "1"}), ("book", {"room": "2"}))
    assert await acting_beside(office, turn, "1") == []


async def test_it_waits_for_nobody_on_whose_scopes_it_will_act_no_more(office, begin):
    turn = begin(order="scopes")(("book", {"room": "1"}), ("book", {"room": "1"}))
    assert await acting_beside(office, turn, "2") == ["2"]


def test_what_it_has_become_may_have_been_decided_before_and_is_answered_from_the_record(office, begin):
    assert act(office, begin()(ADA), 0) == "mail ada"
    turn = begin()(LOOK, BOB)
    assert act(office, turn, 0) == "look 2"
    assert act(office, turn, 1, to="ada") == "mail ada"
    assert (turn.settled, office.log) == (True, [("mail", "ada"), ("look", "2")])


def test_what_was_decided_before_answers_the_next_call_like_it_when_this_one_has_become_another(office, begin):
    assert act(office, begin()(BANK), 0) == "post bank"
    issue = begin()
    turn = issue(LOOK, BANK)
    assert act(office, turn, 0) == "look 2"
    assert act(office, turn, 1, to="mint") == "post mint"
    assert act(office, issue(BANK), 0) == "post bank"
    assert office.log == [("post", "bank"), ("look", "2"), ("post", "mint")]


def test_what_it_has_become_may_be_the_same_act_in_other_words_and_is_refused_once(office, begin):
    assert act(office, begin()(BANK), 0) == "post bank"
    issue = begin()
    turn = issue(LOOK, ("post", {"to": "mint"}))
    act(office, turn, 0)
    assert act(office, turn, 1, **GOOD_DAY).startswith("post was done before in this job")
    assert act(office, issue(("post", GOOD_DAY)), 0) == "post bank good day"


def test_whoever_was_refused_as_the_same_in_other_words_and_became_another_has_used_up_no_refusal(office, begin):
    assert act(office, begin()(BANK), 0) == "post bank"
    issue = begin()
    turn = issue(LOOK, ("post", GOOD_DAY))
    act(office, turn, 0)
    assert act(office, turn, 1, to="mint") == "post mint"
    assert act(office, issue(("post", GOOD_DAY)), 0).startswith("post was done before in this job")
    assert office.log == [("post", "bank"), ("look", "2"), ("post", "mint")]


def test_it_is_told_when_it_runs_that_nobody_can_tell_on_what_it_acts(office, begin):
    turn = begin()(LOOK, ("book", {"room": "1"}))
    act(office, turn, 0)
    with pytest.raises(ScopeError):
        run_sync(turn.perform(1, lambda: office.book(""), waits=False, rewritten=as_rewritten(turn, 1, room="")))
    assert (turn.settled, office.log) == (True, [("look", "2")])
