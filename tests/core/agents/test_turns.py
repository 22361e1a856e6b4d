"""The turns of an agent, whose calls a framework runs beside each other, one after the other, or not at all."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from functools import partial

import pytest

from settlemark import Entangled, Injected, Outcome, Refused, SettlemarkError, UsageError
from settlemark.agents import TRIES, AgentRun, Call
from settlemark.hosting import Reason, host_of, run_async, run_sync
from settlemark.testing import VirtualClock

GENEROUS = 60

BOOK, MAIL, LOOK = ("book", {"room": "1"}), ("mail", {"to": "ada"}), ("look", {"room": "2"})


def outcomes(settlement):
    return [
        (recorded.row.name, recorded.state.value, [(e.row.tool, e.outcome.value) for e in recorded.effects])
        for recorded in settlement.transactions()
    ]


async def until_it_waits(turn):
    """Return when a call of this turn waits for another one of it."""
    async with asyncio.timeout(20):
        while not turn._attendance._waiting:  # noqa: ASYNC110 - nobody tells of that
            await asyncio.sleep(0)


async def test_effects_act_in_issuance_order_whatever_order_the_framework_begins_them_in(office, settlement, job):
    turn = job.work().turn(office.calls(settlement, *(("book", {"room": str(n)}) for n in range(5))))
    answers = await office.play(turn, order=[4, 3, 2, 1, 0])
    assert office.log == [("book", str(n)) for n in range(5)]
    assert answers == [f"book {n}" for n in range(5)]


async def test_what_is_irreversible_leaves_last_and_its_caller_gets_the_real_result(office, settlement, job):
    turn = job.work().turn(office.calls(settlement, MAIL, BOOK))
    assert await office.play(turn) == ["mail ada", "book 1"]
    assert office.log == [("book", "1"), ("mail", "ada")]
    assert outcomes(settlement) == [("trip-42/0", "committed", [("mail", "confirmed"), ("book", "confirmed")])]


async def test_the_first_failure_stops_the_later_calls_undoes_the_earlier_ones_and_all_are_told(
    office, settlement, job
):
    office.fails.add(("post", "bank"))
    turn = job.work().turn(office.calls(settlement, BOOK, ("post", {"to": "bank"}), MAIL))
    booked, posted, mailed = await office.play(turn)
    assert booked.startswith("undone: book had succeeded, and was undone because post failed: OSError")
    assert posted == "OSError: post bank is out of order"
    assert mailed.startswith("Refused: ")
    assert office.log == [("book", "1"), ("unbook", "1")]


async def test_reads_run_beside_each_other(office, settlement, job):
    both, came = asyncio.Event(), []

    async def look():
        came.append(1)
        if len(came) == 2:
            both.set()
        await both.wait()  # for ever, when one waits for the other
        return "seen"

    turn = job.work().turn(office.calls(settlement, LOOK, LOOK))
    ended = await asyncio.wait_for(asyncio.gather(*(run_async(turn.perform(n, look)) for n in (0, 1))), 20)
    assert ended == ["seen", "seen"]
    assert settlement.transactions() == []  # and nothing is recorded


def test_answered_one_after_the_other_a_held_call_is_acknowledged_and_leaves_behind_the_last(office, settlement, job):
    work = job.work()
    turn = work.turn(office.calls(settlement, MAIL, LOOK))
    first = run_sync(turn.perform(0, lambda: office.mail("ada"), waits=False))
    assert (str(first).startswith("queued"), office.log) == (True, [])
    assert run_sync(turn.perform(1, lambda: office.look("2"), waits=False)) == "look 2"
    assert office.log == [("look", "2"), ("mail", "ada")]
    assert (first.outcome, work.corrections(), turn.settled) == ("confirmed", [], True)


def test_answered_one_after_the_other_what_was_undone_since_is_told_before_the_model_is_asked_again(
    office, settlement, job
):
    office.fails.add(("look", "2"))
    work = job.work()
    turn = work.turn(office.calls(settlement, BOOK, MAIL, LOOK))
    assert run_sync(turn.perform(0, lambda: office.book("1"), waits=False)) == "book 1"
    run_sync(turn.perform(1, lambda: office.mail("ada"), waits=False))
    with pytest.raises(OSError, match="out of order"):
        run_sync(turn.perform(2, lambda: office.look("2"), waits=False))
    told = {call.tool: text for call, text in work.corrections()}
    assert list(told) == ["book", "mail"]
    assert told["book"].startswith("undone: book had succeeded")
    assert told["mail"].startswith("never left: mail was held")
    assert work.corrections() == []  # each once
    assert office.log == [("book", "1"), ("unbook", "1")]


def test_who_is_answered_last_is_told_of_its_own_release_once(office, settlement, job):
    office.fails.add(("mail", "ada"))
    work = job.work()
    turn = work.turn(office.calls(settlement, LOOK, MAIL))
    run_sync(turn.perform(0, lambda: office.look("2"), waits=False))
    with pytest.raises(OSError, match="mail ada is out of order"):
        run_sync(turn.perform(1, lambda: office.mail("ada"), waits=False))
    assert (work.corrections(), office.log) == ([], [("look", "2")])


async def test_a_call_that_the_framework_answers_itself_is_waited_for_by_nobody(office, settlement, job):
    turn = job.work().turn(office.calls(settlement, BOOK, MAIL, BOOK))
    played = asyncio.create_task(office.play(turn, order=[1]))
    turn.absent(0)
    turn.absent(2)
    assert await asyncio.wait_for(played, 20) == ["mail ada"]
    assert office.log == [("mail", "ada")]


async def test_a_call_that_never_comes_is_given_up_when_nobody_has_moved_for_as_long_as_any_wait(office):
    with office.settlement(wait=0.05) as settlement:
        turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, BOOK, MAIL, LOOK))
        assert await asyncio.wait_for(office.play(turn, order=[1]), 20) == ["mail ada"]
        with pytest.raises(Refused, match="book was called after its turn had gone on without it: nothing was run"):
            await run_async(turn.perform(0, lambda: office.book("1")))
    assert office.log == [("mail", "ada")]


async def test_a_call_that_has_not_come_is_not_given_up_while_another_acts(office):
    clock = VirtualClock()
    with office.settlement(injected=Injected(monotonic=clock.monotonic)) as settlement:
        turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, LOOK, BOOK, MAIL))
        looked, go = asyncio.Event(), asyncio.Event()

        async def look():
            looked.set()
            await go.wait()
            return "seen"

        reading = asyncio.create_task(run_async(turn.perform(0, look, waits=False)))
        await looked.wait()
        clock.advance(2 * host_of(settlement).patience)
        turn._look()  # as a waiting call does
        assert turn._attendance.absent == []
        go.set()
        assert await asyncio.wait_for(reading, 20) == "seen"
        assert await run_async(turn.perform(1, lambda: office.book("1"), waits=False)) == "book 1"
        clock.advance(host_of(settlement).patience)
        turn._look()
        assert turn._attendance.absent == [2]


async def test_a_turn_that_lost_a_race_is_run_again_and_each_call_is_answered_by_what_it_did_then(office, settlement):
    tries = []

    async def book():
        tries.append(len(tries))
        if len(tries) == 1:
            with host_of(settlement).driver.kernel.local as protocol:  # as an older one does that needs the room
                protocol.abort(protocol.named["trip/0"], Reason.WOUNDED)
        return office.book("1")

    turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, BOOK, MAIL))
    answers = await asyncio.wait_for(
        asyncio.gather(run_async(turn.perform(0, book)), run_async(turn.perform(1, lambda: office.mail("ada")))),
        20,
    )
    assert (answers, len(tries)) == (["book 1", "mail ada"], 2)
    assert office.log == [("book", "1"), ("unbook", "1"), ("book", "1"), ("mail", "ada")]


async def test_a_turn_that_was_wounded_is_run_again_when_whoever_did_that_is_done(office, settlement):
    older = settlement.transaction("older").__enter__()
    older.read("room:/1")
    tries = []

    async def book():
        tries.append(older.state.value)
        if len(tries) == 1:
            with pytest.raises(Entangled):
                older.read("room:/1")  # it has held the room first, and looks again: it would wait for the undo
        return office.book("1")

    turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, BOOK))
    performing = asyncio.create_task(run_async(turn.perform(0, book)))
    async with asyncio.timeout(20):
        waits = host_of(settlement).driver.kernel.waits.waiting
        while ("trip/0", "older") not in [waiting[:2] for waiting in waits.values()]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert tries == ["open"]
        older.commit()
        assert await performing == "book 1"
    assert tries == ["open", "committed"]
    assert office.log == [("book", "1"), ("unbook", "1"), ("book", "1")]


async def test_a_cancelled_call_leaves_nothing_of_its_turn_half_done(office, settlement, job):
    begun = asyncio.Event()

    async def post():
        begun.set()
        await asyncio.Event().wait()

    turn = job.work().turn(office.calls(settlement, BOOK, ("post", {"to": "bank"}), MAIL))
    tasks = [
        asyncio.create_task(run_async(turn.perform(0, lambda: office.book("1")))),
        asyncio.create_task(run_async(turn.perform(1, post))),
        asyncio.create_task(run_async(turn.perform(2, lambda: office.mail("ada")))),
    ]
    await begun.wait()
    tasks[1].cancel()
    ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    assert [type(one) is str for one in ended] == [False, False, False]
    assert office.log == [("book", "1"), ("unbook", "1")]
    [(name, state, effects)] = outcomes(settlement)
    assert (name, state, effects[0]) == ("trip-42/0", "aborted", ("book", "undone"))
    assert effects[1] == ("post", Outcome.UNKNOWN.value)  # it was sent, and nobody knows what came of it


async def test_control_flow_of_the_framework_puts_the_turn_aside_and_it_is_gone_on_with(office, settlement):
    async def pause():
        raise Pause

    def begin():
        job = AgentRun(settlement, "trip", let_through=(Pause,))
        return job.work().turn(office.calls(settlement, BOOK, ("post", {"to": "bank"})))

    turn = begin()
    booked, posted = await asyncio.gather(
        run_async(turn.perform(0, lambda: office.book("1"))), run_async(turn.perform(1, pause)), return_exceptions=True
    )
    assert (booked, type(posted)) == ("book 1", Pause)
    assert outcomes(settlement)[0][1] == "open"
    assert await office.play(begin()) == ["book 1", "post bank"]
    assert office.log == [("book", "1"), ("post", "bank")]  # booked once
    assert outcomes(settlement) == [("trip/0", "committed", [("book", "confirmed"), ("post", "confirmed")])]


class Pause(Exception):
    """A framework's control flow."""


@pytest.mark.parametrize("where", ["here", "in a new process"])
@pytest.mark.parametrize("asking", [0, 1, 2])
async def test_what_asks_as_it_is_to_leave_waits_with_what_is_behind_it_and_undoes_nothing(
    office, tmp_path, asking, where
):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    answered = []

    async def post(to):
        if to == str(asking) and not answered:
            raise Pause
        return office.mail(to)

    async def play(settlement):
        job = AgentRun(settlement, "trip", let_through=(Pause,))
        turn = job.work().turn(office.calls(settlement, BOOK, *(("mail", {"to": str(n)}) for n in range(3))))
        mails = [turn.perform(n + 1, partial(post, str(n))) for n in range(3)]
        running = [turn.perform(0, lambda: office.book("1")), *mails]
        return await asyncio.gather(*map(run_async, running), return_exceptions=True)

    with office.settlement(url) as settlement:
        booked, *mailed = await play(settlement)
        left = [("mail", str(n)) for n in range(asking)]
        assert booked == "book 1"
        assert mailed[:asking] == [f"mail {n}" for n in range(asking)]
        assert [type(answer) for answer in mailed[asking:]] == [Pause] * (3 - asking)
        assert office.log == [("book", "1"), *left]
        assert [state for _, state, _ in outcomes(settlement)] == ["committed", "open"]
        assert settlement.residue() == []
        # Nobody needs to wait for the answer: what it asks about holds nothing.
        settlement.run("other", lambda tx: tx.call(office.mail, to=str(asking)), wait=1)
        assert office.log.pop() == ("mail", str(asking))
        answered.append("yes")
        if where == "here":
            assert await play(settlement) == ["book 1", "mail 0", "mail 1", "mail 2"]
    if where != "here":
        with office.settlement(url) as settlement:
            assert await play(settlement) == ["book 1", "mail 0", "mail 1", "mail 2"]
    assert [entry for entry in office.log if entry[0] == "mail"] == [("mail", str(n)) for n in range(3)]


async def test_what_asks_as_it_is_to_leave_with_the_turns_of_others_undoes_them_all(office, settlement):
    """Nobody is there to be asked when what several turns share is to leave."""

    async def pause():
        raise Pause

    job = AgentRun(settlement, "trip", settle="run", let_through=(Pause,))
    turn = job.work().turn(office.calls(settlement, BOOK, MAIL))
    await asyncio.gather(run_async(turn.perform(0, lambda: office.book("1"))), run_async(turn.perform(1, pause)))
    with pytest.raises(Refused, match=r"mail: Pause"):
        await run_async(job.end())
    assert office.log == [("book", "1"), ("unbook", "1")]


@pytest.mark.parametrize("waits", [True, False])
def test_a_call_acts_on_what_its_framework_makes_of_the_models_arguments(office, settlement, job, waits):
    call = Call("book", {"room": "the best"}, settlement.declared("book"), given={"room": "7"})
    turn = job.work().turn([call])
    run_sync(turn.perform(0, lambda: office.book("7"), waits=waits))
    [recorded] = settlement.transactions()
    [effect] = recorded.effects
    assert (json.loads(effect.row.scopes), json.loads(effect.row.arguments)) == (["room:/7"], {"room": "the best"})


async def test_single_calls_whose_lives_overlap_act_in_the_order_in_which_they_were_entered(office, settlement, job):
    work = job.work()
    turns = [work.single(call) for call in office.calls(settlement, *(("book", {"room": str(n)}) for n in range(4)))]
    answers = await asyncio.wait_for(asyncio.gather(*(office.answer(turn, 0) for turn in reversed(turns))), 20)
    assert answers == ["book 3", "book 2", "book 1", "book 0"]
    assert office.log == [("book", str(n)) for n in range(4)]
    assert [name for name, _, _ in outcomes(settlement)] == [f"trip-42/{n}" for n in range(4)]


async def test_single_calls_that_cannot_be_taken_back_leave_in_the_order_in_which_they_were_entered(
    office, settlement, job
):
    work = job.work()
    turns = [work.single(call) for call in office.calls(settlement, *(("mail", {"to": str(n)}) for n in range(4)))]
    await asyncio.wait_for(asyncio.gather(*(office.answer(turn, 0) for turn in reversed(turns))), 20)
    assert office.log == [("mail", str(n)) for n in range(4)]


async def test_a_single_call_that_fails_undoes_no_other(office, settlement, job):
    office.fails.add(("post", "bank"))
    work = job.work()
    turns = [work.single(call) for call in office.calls(settlement, BOOK, ("post", {"to": "bank"}), MAIL)]
    answers = await asyncio.wait_for(asyncio.gather(*(office.answer(turn, 0) for turn in turns)), 20)
    assert answers == ["book 1", "OSError: post bank is out of order", "mail ada"]
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_a_turn_left_behind_is_settled_before_the_next_begins(office, settlement, job):
    work = job.work()
    first, begun = work.turn(office.calls(settlement, BOOK, MAIL)), asyncio.Event()

    async def book():
        begun.set()
        return office.book("1")

    playing = asyncio.create_task(run_async(first.perform(0, book)))
    await begun.wait()
    second = work.turn(office.calls(settlement, ("mail", {"to": "bob"})))
    assert (await office.play(second), await playing) == (["mail bob"], "book 1")
    assert work.unfinished is None
    assert outcomes(settlement) == [
        ("trip-42/0", "committed", [("book", "confirmed")]),
        ("trip-42/1", "committed", [("mail", "confirmed")]),
    ]


async def test_the_effect_says_what_the_model_said(office, settlement, job):
    turn = job.work().turn(office.calls(settlement, BOOK), because="Ada wants to sleep")
    await office.play(turn)
    assert [e.row.rationale for t in settlement.transactions() for e in t.effects] == ["Ada wants to sleep"]


def test_bad_options_are_refused_before_anything_begins(settlement):
    for options, said in (
        ({"settle": "node"}, "settle='node': choose one of 'turn', 'part', 'run'"),
        ({"order": "any"}, "order='any': choose"),
        ({"park": "street"}, "park='street'"),
        ({"park": "split", "settle": "run"}, "park=\"split\" with settle='run'"),
        ({"park": "split", "settle": "part"}, "park=\"split\" with settle='part'"),
    ):
        with pytest.raises(UsageError) as refused:
            AgentRun(settlement, "trip", **options)
        assert str(refused.value).startswith(said)
    assert AgentRun(settlement, "trip", park="split", order="issued").park == "split"
    assert settlement.transactions() == []


def test_a_run_without_an_id_says_once_that_nothing_can_know_it_again(settlement, caplog):
    assert AgentRun(settlement, None).name != AgentRun(settlement, None).name
    assert [record.message for record in caplog.records] == [
        "this job has no id of yours, so nothing can know it again after a crash: give it one, run=…"
    ]


def test_a_call_of_a_read_does_not_act(settlement):
    assert not Call("look", {"room": "1"}, settlement.declared("look")).acts
    assert Call("book", {"room": "1"}, settlement.declared("book")).acts


async def test_a_turn_of_which_no_call_came_does_not_hide_the_one_before_it(office, settlement, job):
    work = job.work()
    first = work.turn(office.calls(settlement, MAIL, ("mail", {"to": "bob"})))
    assert (await office.play(first, order=[0], waits=False))[0].startswith("queued")
    second = work.turn(office.calls(settlement, BOOK))
    second.absent(0)
    await office.play(work.turn(office.calls(settlement, ("mail", {"to": "eve"}))))
    assert (office.log, first.settled) == ([("mail", "ada"), ("mail", "eve")], True)


async def test_the_end_settles_what_a_turn_of_which_no_call_came_has_left_behind(office, settlement, job):
    work = job.work()
    await office.play(work.turn(office.calls(settlement, MAIL, BOOK)), order=[0], waits=False)
    work.turn(office.calls(settlement, BOOK)).absent(0)
    await run_async(job.end())
    assert (office.log, host_of(settlement).protocol.live) == ([("mail", "ada")], {})


async def test_a_call_that_is_cancelled_before_its_place_has_come_holds_nobody_up(office, settlement, job):
    turn = job.work().turn(office.calls(settlement, BOOK, MAIL))
    early = asyncio.create_task(run_async(turn.perform(1, lambda: office.mail("ada"))))
    await until_it_waits(turn)
    early.cancel()
    await asyncio.wait([early])
    told = await asyncio.wait_for(office.answer(turn, 0), 20)
    assert told.startswith("Refused: book was called after its turn had gone on without it: nothing was run")
    assert (early.cancelled(), office.log, host_of(settlement).protocol.live) == (True, [], {})


async def test_a_single_call_that_never_began_holds_nothing(office, settlement):
    work = AgentRun(settlement, "trip", may_touch="room:/**").work()
    first, second = (work.single(call) for call in office.calls(settlement, BOOK, BOOK))
    first.absent(0)
    assert await asyncio.wait_for(office.answer(second, 0), 20) == "book 1"
    assert (first.settled, host_of(settlement).protocol.live) == (True, {})


def wounded(settlement, name="trip/0"):
    """Have a transaction give way, as an older one does that needs what it has."""
    with host_of(settlement).driver.kernel.local as protocol:
        protocol.abort(protocol.named[name], Reason.WOUNDED)


async def test_a_turn_that_loses_twenty_races_is_given_up_and_told_and_leaves_nothing(office, settlement):
    tries = []

    async def book():
        tries.append(len(tries))
        wounded(settlement)
        return office.book("1")

    turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, BOOK))
    with pytest.raises(Refused):
        await asyncio.wait_for(run_async(turn.perform(0, book)), 20)
    assert len(tries) == TRIES == 20
    assert (office.log, host_of(settlement).protocol.live) == ([("book", "1"), ("unbook", "1")] * TRIES, {})


async def test_a_turn_whose_earlier_answers_are_out_is_not_run_again_behind_them(office, settlement):
    work, tries = AgentRun(settlement, "trip").work(), []
    turn = work.turn(office.calls(settlement, BOOK, ("book", {"room": "2"})))

    async def lose():
        tries.append(len(tries))
        wounded(settlement)
        return office.book("2")

    assert await run_async(turn.perform(0, lambda: office.book("1"), waits=False)) == "book 1"
    with pytest.raises(Refused):
        await run_async(turn.perform(1, lose, waits=False))
    assert (tries, [call.arguments["room"] for call, _ in work.corrections()]) == ([0], ["1"])
    assert office.log == [("book", "1"), ("book", "2"), ("unbook", "2"), ("unbook", "1")]


def undone_behind_its_answers(office, settlement, work):
    """Play a turn whose first answer is not true any more."""
    office.fails.add(("look", "2"))
    turn = work.turn(office.calls(settlement, BOOK, LOOK))
    run_sync(turn.perform(0, lambda: office.book("1"), waits=False))
    with pytest.raises(OSError, match="out of order"):
        run_sync(turn.perform(1, lambda: office.look("2"), waits=False))


def test_what_was_undone_is_told_though_the_model_has_issued_its_next_turn(office, settlement, job):
    work = job.work()
    undone_behind_its_answers(office, settlement, work)
    work.turn(office.calls(settlement, BOOK))
    assert [call.tool for call, _ in work.corrections()] == ["book"]


def kept(turns):
    """Return which turns are there yet, once no more than the last is, or it is too late."""
    deadline = time.monotonic() + GENEROUS
    while sum(turn() is not None for turn in turns) > 1 and time.monotonic() < deadline:
        gc.collect()  # again: a thread that has told of its end may yet have to let go of what it ran
    return [turn() is not None for turn in turns]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_long_work_keeps_no_turn_of_which_nothing_is_to_be_told(office, settlement, job, waits):
    work, turns = job.work(), []
    for number in range(5):
        turn = work.turn(office.calls(settlement, ("book", {"room": str(number)})))
        turns.append(weakref.ref(turn))
        await office.play(turn, waits=waits)
        del turn
    assert kept(turns) == [False] * 4 + [True]


async def test_a_long_work_of_single_calls_keeps_none_that_is_over(office, settlement, job):
    work, turns = job.work(), []
    for number in range(5):
        turn = work.single(*office.calls(settlement, ("book", {"room": str(number)})))
        turns.append(weakref.ref(turn))
        await office.answer(turn, 0)
        del turn
    assert kept(turns) == [False] * 4 + [True]


def test_a_work_says_whether_what_it_did_last_was_undone(office, settlement, job):
    work = job.work()
    assert not work.is_undone
    turn = work.turn(office.calls(settlement, BOOK))
    assert not work.is_undone
    run_sync(turn.perform(0, lambda: office.book("1"), waits=False))
    assert not work.is_undone
    undone_behind_its_answers(office, settlement, work)
    assert work.is_undone
    run_sync(work.turn(office.calls(settlement, ("look", {"room": "1"}))).perform(0, lambda: office.look("1")))
    assert work.is_undone  # a look has changed nothing of that
    run_sync(work.turn(office.calls(settlement, BOOK)).perform(0, lambda: office.book("1")))
    assert not work.is_undone


def test_a_turn_that_could_not_begin_is_told_as_undone_unless_its_run_was_cancelled(office, settlement):
    for cancelled in (False, True):
        run = f"trip-{cancelled}"
        work = AgentRun(settlement, run).work()
        if cancelled:
            settlement.cancel(run)
            given = {"room": "1"}
        else:
            given = {"room": ""}  # a scope has no empty part
        turn = work.turn(office.calls(settlement, ("book", given)))
        with pytest.raises(SettlemarkError):
            run_sync(turn.perform(0, lambda: office.book("1")))
        assert (work.is_undone, turn.settled, work.unfinished) == (not cancelled, True, None)
    assert office.log == []


async def test_a_call_that_is_said_not_to_come_just_as_its_turn_has_begun_is_waited_for_by_nobody(office):
    with office.settlement(wait=0.05) as settlement:
        turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, BOOK, MAIL))
        told = turn._gathering._leave_out

        def tell(opened):
            told(opened)
            turn.absent(1)  # nobody knows yet that it has begun

        turn._gathering._leave_out = tell
        assert await asyncio.wait_for(office.answer(turn, 0), 20) == "book 1"
    assert office.log == [("book", "1")]


async def test_a_turn_of_which_no_call_comes_is_over_when_all_before_it_is(office, settlement, job):
    work = job.work()
    first = work.turn(office.calls(settlement, MAIL, ("mail", {"to": "bob"})))
    await office.play(first, order=[0], waits=False)
    void = work.turn(office.calls(settlement, BOOK, LOOK))
    void.absent(0)
    assert (void.settled, work.unfinished) == (False, void)  # one of its calls may come yet
    void.absent(1)
    assert (void.settled, work.unfinished) == (False, void)  # and what it came behind is open
    await run_async(first.finish())
    assert (void.settled, work.unfinished, office.log) == (True, None, [("mail", "ada")])


async def test_a_turn_that_is_abandoned_before_it_began_is_over_though_the_one_before_it_is_open(
    office, settlement, job
):
    work = job.work()
    first = work.turn(office.calls(settlement, BOOK, MAIL))
    await office.play(first, order=[0], waits=False)
    second = work.turn(office.calls(settlement, BOOK))
    assert (first.settled, second.settled) == (False, False)
    await run_async(second.abandon(asyncio.CancelledError()))
    assert (first.settled, second.settled, second.is_undone) == (False, True, False)
    await run_async(work.end())  # what it came behind ends with its work
    assert (first.settled, office.log, host_of(settlement).protocol.live) == (True, [("book", "1")], {})


async def test_a_single_call_that_does_not_come_is_over_whatever_the_one_before_it_does(office, settlement, job):
    work, begun, go = job.work(), asyncio.Event(), asyncio.Event()

    async def book():
        begun.set()
        await go.wait()
        return office.book("1")

    first, second = (work.single(call) for call in office.calls(settlement, BOOK, MAIL))
    booking = asyncio.create_task(run_async(first.perform(0, book)))
    await begun.wait()
    second.absent(0)
    assert (first.settled, second.settled) == (False, True)
    go.set()
    assert await booking == "book 1"


async def test_what_a_tool_did_under_its_earlier_name_answers_a_call_of_its_new_one(office, settlement):
    settlement.declare("publish", "opaque", scope="post:/{to}", aliases=["post"])
    office.publish = office.post
    work = AgentRun(settlement, "trip").work()
    await office.play(work.turn(office.calls(settlement, ("post", {"to": "bank"}))))
    work = AgentRun(settlement, "trip").work()
    same, other = ("publish", {"to": "bank"}), ("publish", {"to": "bank", "text": "hello"})
    assert await office.play(work.turn(office.calls(settlement, same))) == ["post bank"]
    work = AgentRun(settlement, "trip").work()
    [told] = await office.play(work.turn(office.calls(settlement, other)))
    assert told.startswith('publish was done before in this job, with {"to":"bank"} (confirmed)')
    assert office.log == [("post", "bank")]


async def test_a_call_that_the_record_has_answered_stays_answered_when_its_turn_is_run_again(office):
    with office.settlement(wait=1) as settlement:
        await office.play(AgentRun(settlement, "trip").work().turn(office.calls(settlement, MAIL)))
        tries = []

        async def book():
            tries.append(len(tries))
            if len(tries) == 1:
                wounded(settlement, "trip/1")
            return office.book("1")

        turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, MAIL, BOOK))
        both = (run_async(turn.perform(0, lambda: office.mail("ada"))), run_async(turn.perform(1, book)))
        assert await asyncio.wait_for(asyncio.gather(*both), 20) == ["mail ada", "book 1"]
        assert host_of(settlement).protocol.live == {}
    assert office.log == [("mail", "ada"), ("book", "1"), ("unbook", "1"), ("book", "1")]


async def test_a_single_call_that_is_entered_while_another_acts_acts_behind_it(office, settlement, job):
    work, begun, go = job.work(), asyncio.Event(), asyncio.Event()

    async def book():
        begun.set()
        await go.wait()
        return office.book("1")

    booking = asyncio.create_task(run_async(work.single(*office.calls(settlement, BOOK)).perform(0, book)))
    await begun.wait()
    mailing = asyncio.create_task(office.answer(work.single(*office.calls(settlement, MAIL)), 0))
    for _ in range(100):  # as long as it may take to act
        await asyncio.sleep(0)
    go.set()
    assert (await booking, await mailing) == ("book 1", "mail ada")
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_a_call_of_which_nobody_can_tell_what_it_acts_on_leaves_nothing_of_its_turn(office, settlement):
    work = AgentRun(settlement, "trip", may_touch="room:/**").work()
    turn = work.turn(office.calls(settlement, BOOK, ("book", {"room": ""})))
    assert [told.partition(":")[0] for told in await office.play(turn)] == ["undone", "ScopeError"]
    assert (office.log, host_of(settlement).protocol.live) == ([("book", "1"), ("unbook", "1")], {})


async def test_a_call_that_comes_late_gives_those_before_it_their_time(office):
    clock = VirtualClock()
    with office.settlement(injected=Injected(monotonic=clock.monotonic)) as settlement:
        turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, BOOK, MAIL))
        clock.advance(2 * host_of(settlement).patience)
        mailing = asyncio.create_task(office.answer(turn, 1))
        await until_it_waits(turn)
        turn._look()  # as a waiting call does
        assert turn._attendance.absent == []
        assert await asyncio.wait_for(asyncio.gather(office.answer(turn, 0), mailing), 20) == ["book 1", "mail ada"]


@pytest.mark.parametrize("times", [1, 2])  # said twice it is no other thing
async def test_who_waits_for_a_call_goes_on_as_soon_as_it_is_said_not_to_come(office, settlement, job, times):
    turn = job.work().turn(office.calls(settlement, BOOK, MAIL))
    mailing = asyncio.create_task(office.answer(turn, 1))
    await until_it_waits(turn)
    for _ in range(times):
        turn.absent(0)
    assert await asyncio.wait_for(mailing, host_of(settlement).patience / 2) == "mail ada"


def test_what_a_cancelled_run_had_done_is_undone_and_its_work_says_so(office, settlement):
    work = AgentRun(settlement, "trip").work()
    turn = work.turn(office.calls(settlement, BOOK, MAIL))
    run_sync(turn.perform(0, lambda: office.book("1"), waits=False))
    settlement.cancel("trip")
    assert (work.is_undone, office.log) == (True, [("book", "1"), ("unbook", "1")])


def test_who_was_told_queued_is_told_when_nobody_knows_whether_it_has_left(office, settlement):
    def mail(to):
        raise TimeoutError("no answer")

    settlement.declare("wire", "irreversible", scope="wire:/{to}", function=mail)
    work = AgentRun(settlement, "trip").work()
    turn = work.turn(office.calls(settlement, ("wire", {"to": "ada"}), LOOK))
    assert str(run_sync(turn.perform(0, lambda: mail("ada"), waits=False))).startswith("queued")
    assert work.corrections() == []  # it waits for its turn
    run_sync(turn.perform(1, lambda: office.look("2"), waits=False))
    [(call, told)] = work.corrections()
    assert (call.tool, told.partition(":")[0]) == ("wire", "InDoubt")
    assert work.corrections() == []


async def test_a_job_begun_again_waits_for_its_own_turn_that_is_on_its_end(office, settlement):
    older = settlement.transaction("older").__enter__()
    older.read("mail:/ada")
    first = AgentRun(settlement, "trip").work().turn(office.calls(settlement, MAIL))
    mailing = asyncio.create_task(office.answer(first, 0))
    async with asyncio.timeout(20):
        waits = host_of(settlement).driver.kernel.waits.waiting
        while ("trip/0", "older") not in [waiting[:2] for waiting in waits.values()]:  # noqa: ASYNC110
            await asyncio.sleep(0)
        again = AgentRun(settlement, "trip").work().turn(office.calls(settlement, MAIL))
        answering = asyncio.create_task(office.answer(again, 0))
        for _ in range(100):  # as long as it may take to be answered
            await asyncio.sleep(0)
        assert not answering.done()
        older.commit()
        assert (await mailing, await answering) == ("mail ada", "mail ada")
    assert office.log == [("mail", "ada")]


def test_what_settles_nothing_is_refused_as_a_settlement():
    with pytest.raises(UsageError, match="settlement=None is no Settlement: pass Settlement"):
        AgentRun(None, "trip")


@pytest.mark.parametrize("run", ["", " ", 7])
def test_an_id_that_names_no_job_is_refused(settlement, run):
    with pytest.raises(UsageError, match=r"run=.*: give your id for the job, a text, or leave it out"):
        AgentRun(settlement, run)


async def test_a_single_call_that_is_said_not_to_come_while_it_is_given_its_place_holds_nothing(office):
    with office.settlement(wait=0.5) as settlement:
        work = AgentRun(settlement, "trip", may_touch="room:/**").work()
        first, second = (work.single(call) for call in office.calls(settlement, BOOK, BOOK))
        begin = work.open

        def open_(plan):
            first.absent(0)
            return (yield from begin(plan))

        work.open = open_
        assert await asyncio.wait_for(office.answer(second, 0), 20) == "book 1"
        assert (first.settled, host_of(settlement).protocol.live, office.log) == (True, {}, [("book", "1")])


def test_a_first_turn_that_the_framework_leaves_behind_at_once_is_over(office, settlement, job):
    work = job.work()
    run_sync(work.turn(office.calls(settlement, BOOK)).finish())
    assert (work.unfinished, settlement.transactions()) == (None, [])


@pytest.mark.parametrize("place", [0, 1], ids=["who opens it", "who comes beside him"])
async def test_a_turn_that_is_abandoned_while_it_waits_for_the_one_before_it_acts_no_more(
    office, settlement, job, place
):
    work, held, begun = job.work(), asyncio.Event(), asyncio.Event()

    async def hold():
        begun.set()
        await held.wait()

    before = work.turn(office.calls(settlement, ("post", {"to": "bank"})))
    posting = asyncio.create_task(run_async(before.perform(0, hold)))
    await begun.wait()
    turn = work.turn(office.calls(settlement, BOOK, MAIL))
    calls = [asyncio.create_task(office.answer(turn, place)) for place in (0, 1)]
    await asyncio.sleep(0)

    calls[place].cancel()
    await asyncio.wait([calls[place]])
    held.set()
    await posting
    told = await asyncio.wait_for(calls[1 - place], 20)

    assert "nothing was run" in told
    assert (office.log, turn.settled, host_of(settlement).protocol.live) == ([], True, {})


async def test_a_call_that_comes_when_its_turn_was_abandoned_is_told_that_it_is_over(office, settlement, job):
    turn = job.work().turn(office.calls(settlement, BOOK, MAIL))
    await run_async(turn.abandon(asyncio.CancelledError()))
    assert [await office.answer(turn, place) for place in (0, 1)] == [
        f"Refused: {tool} was called after its turn had gone on without it: nothing was run; issue it again"
        for tool in ("book", "mail")
    ]
    assert (office.log, turn.settled) == ([], True)


@pytest.mark.parametrize("enter", ["turn", "single"])
def test_what_comes_when_its_work_was_stopped_is_refused_until_that_is_begun_again(office, settlement, job, enter):
    work = job.work()
    (call,) = office.calls(settlement, MAIL)
    given = [call] if enter == "turn" else call

    def issue():
        return run_sync(getattr(work, enter)(given).perform(0, lambda: office.mail("ada")))

    run_sync(job.end(KeyboardInterrupt()))
    with pytest.raises(Refused, match="mail was called after its turn had been stopped by KeyboardInterrupt"):
        issue()
    assert office.log == []

    work.begin()
    assert issue() == "mail ada"


async def test_of_two_equal_acts_of_a_program_the_second_waits_for_the_first_and_has_its_answer(
    office, settlement, job
):
    work, begun, go = job.work(), asyncio.Event(), asyncio.Event()

    async def post():
        begun.set()
        await go.wait()
        return office.post("bank")

    issued = [("post", {"to": "bank"})] * 2 + [("post", {"to": "mint"}), ("book", {"room": "1"})]
    first, *others = (work.single(call, once=True) for call in office.calls(settlement, *issued))
    posting = asyncio.create_task(run_async(first.perform(0, post)))
    await begun.wait()
    answering = [asyncio.create_task(office.answer(turn, 0)) for turn in others]
    for _ in range(100):  # as long as it may take to act
        await asyncio.sleep(0)
    assert ("post", "bank") not in office.log
    go.set()
    assert [await posting, *await asyncio.gather(*answering)] == ["post bank", "post bank", "post mint", "book 1"]
    assert sorted(office.log) == [("book", "1"), ("post", "bank"), ("post", "mint")]
