"""A job that is begun again, in this process or after a death, does nothing twice and loses nothing."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.core.agents.conftest import Office

from settlemark import InDoubt, Payloads, Settlement
from settlemark.agents import MISSING, AgentRun, DoneBefore
from settlemark.hosting import host_of, run_async, run_sync

BOOK, MAIL = ("book", {"room": "1"}), ("mail", {"to": "ada"})
POST, REPHRASED = ("post", {"to": "bank", "text": "hello"}), ("post", {"to": "bank", "text": "good day"})


@pytest.fixture(params=["memory", "file"])
def again(request, office, tmp_path):
    """Return a function that begins the job anew: on the same settlement, or as a new process would."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    opened = []

    def begin(name="clerk", **options):
        if request.param == "file":
            if opened:
                opened.pop().close()
            opened.append(office.settlement(url))
        elif not opened:
            opened.append(office.settlement())
        work = AgentRun(opened[-1], "trip-42", **options).work(name)
        return opened[-1], work

    yield begin
    opened.pop().close()


async def test_the_same_calls_are_answered_from_the_record_whatever_their_ids_and_order(office, again):
    settlement, work = again()
    assert await office.play(work.turn(office.calls(settlement, BOOK, MAIL, POST, ids=["a", "b", "c"]))) == [
        "book 1",
        "mail ada",
        "post bank hello",
    ]
    done = list(office.log)
    settlement, work = again()
    assert await office.play(work.turn(office.calls(settlement, POST, ids=["x"]))) == ["post bank hello"]
    assert await office.play(work.turn(office.calls(settlement, MAIL, BOOK, ids=["y", "z"]))) == ["mail ada", "book 1"]
    assert office.log == done


async def test_each_decision_answers_one_call_and_the_next_like_it_is_new(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, MAIL)))
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, MAIL)))
    assert office.log == [("mail", "ada")]
    await office.play(work.turn(office.calls(settlement, MAIL)))
    assert office.log == [("mail", "ada"), ("mail", "ada")]


async def test_the_same_act_in_other_words_is_refused_once_with_what_was_done(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, POST)))
    settlement, work = again()
    [told] = await office.play(work.turn(office.calls(settlement, REPHRASED)))
    assert told.startswith(
        'post was done before in this job, with {"text":"hello","to":"bank"} (confirmed), and was not done again:'
        " nothing was run."
    )
    assert office.log == [("post", "bank", "hello")]
    # Who asks again means it; and the first is still known as what it was.
    assert await office.play(work.turn(office.calls(settlement, REPHRASED))) == ["post bank good day"]
    assert await office.play(work.turn(office.calls(settlement, POST))) == ["post bank hello"]
    assert office.log == [("post", "bank", "hello"), ("post", "bank", "good day")]


async def test_the_refusal_stops_what_was_issued_behind_it(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, POST)))
    settlement, work = again()
    answers = await office.play(work.turn(office.calls(settlement, BOOK, REPHRASED, MAIL)))
    assert answers[0].startswith("undone: book had succeeded")
    assert answers[2].startswith("Refused")
    assert office.log == [("post", "bank", "hello"), ("book", "1"), ("unbook", "1")]


async def test_a_call_on_another_scope_is_another_act(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, MAIL)))
    settlement, work = again()
    assert await office.play(work.turn(office.calls(settlement, ("mail", {"to": "bob"})))) == ["mail bob"]


async def test_a_call_of_another_tool_with_the_same_arguments_is_another_act(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, MAIL)))
    settlement, work = again()
    assert await office.play(work.turn(office.calls(settlement, ("post", {"to": "ada"})))) == ["post ada"]
    assert office.log == [("mail", "ada"), ("post", "ada")]


async def test_what_was_undone_is_done_anew(office, again):
    settlement, work = again()
    office.fails.add(("mail", "ada"))
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    assert office.log == [("book", "1"), ("unbook", "1")]
    office.fails.clear()
    settlement, work = again()
    assert await office.play(work.turn(office.calls(settlement, BOOK, MAIL))) == ["book 1", "mail ada"]
    assert office.log[2:] == [("book", "1"), ("mail", "ada")]


async def test_another_agent_of_the_run_is_not_taken_for_this_one(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, MAIL)))
    settlement, other = again("boss")
    await office.play(other.turn(office.calls(settlement, MAIL)))
    assert office.log == [("mail", "ada"), ("mail", "ada")]


async def test_what_the_model_was_told_before_is_nobodys_to_repeat(office, again):
    settlement, work = again()
    await office.play(work.turn(office.calls(settlement, MAIL, ids=["a"])))
    settlement, work = again()  # its history was kept: it knows of call a, and mails once more
    await office.play(work.turn(office.calls(settlement, MAIL, ids=["b"]), answered={"a"}))
    assert office.log == [("mail", "ada"), ("mail", "ada")]


async def test_nobody_repeats_what_may_have_happened(office, again):
    class Lost(Exception):
        pass

    async def post():
        office.post("bank", "hello")
        begun.set()
        await asyncio.Event().wait()

    begun = asyncio.Event()
    settlement, work = again()
    turn = work.turn(office.calls(settlement, POST))
    task = asyncio.create_task(run_async(turn.perform(0, post)))
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    settlement, work = again()
    posted, mailed = await office.play(work.turn(office.calls(settlement, POST, MAIL)))
    assert posted.startswith("InDoubt: the outcome of post on post:/bank is unknown: do not repeat it")
    assert mailed.startswith("Refused: mail was not run")  # nothing issued behind it leaves before somebody knows
    assert office.log == [("post", "bank", "hello")]


@pytest.mark.parametrize("then", [("clerk", "clerk"), ("guide", "clerk"), ("guide", "guide")])
async def test_what_is_in_doubt_is_repeated_by_no_later_turn_of_its_job(office, settlement, job, then):
    def lose():
        office.post("bank")
        raise TimeoutError

    issued = ("post", {"to": "bank"})
    with pytest.raises(InDoubt):
        await run_async(job.work("clerk").turn(office.calls(settlement, issued)).perform(0, lose))
    for agent in then:
        (told,) = await office.play(job.work(agent).turn(office.calls(settlement, issued)))
        assert told.startswith("InDoubt: the outcome of post on post:/bank is unknown")
    assert office.log == [("post", "bank")]


async def test_a_work_that_begins_again_in_the_same_job_repeats_nothing(office, settlement):
    work = AgentRun(settlement, None).work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    work.begin()  # a guardrail has refused what it came to
    assert await office.play(work.turn(office.calls(settlement, BOOK, MAIL))) == ["book 1", "mail ada"]
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_with_one_transaction_for_all_its_turns_too(office, settlement):
    work = AgentRun(settlement, "trip", settle="part").work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    work.begin()
    answers = await office.play(work.turn(office.calls(settlement, BOOK, MAIL)))
    assert answers[0] == "book 1"
    assert office.log == [("book", "1")]
    await run_async(work.end())
    assert office.log == [("book", "1"), ("mail", "ada")]


async def test_a_turn_that_a_death_cut_off_goes_on_under_its_keys_when_the_model_issues_it_again(office, tmp_path):
    log = await _killed_in_the_middle(tmp_path)
    assert log == [["book", "1"]]
    office.log = [tuple(entry) for entry in log]
    with office.settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        work = AgentRun(settlement, "trip-42").work("clerk")
        assert await office.play(work.turn(office.calls(settlement, BOOK, MAIL))) == ["book 1", "mail ada"]
        assert office.log == [("book", "1"), ("mail", "ada")]
        assert [(t.row.name, t.row.attempt) for t in settlement.transactions()] == [("trip-42/clerk/0", 1)]


async def test_what_is_answered_before_its_siblings_come_waits_for_none_of_them_behind_a_death(office, tmp_path):
    office.log = [tuple(entry) for entry in await _killed_in_the_middle(tmp_path)]
    with office.settlement(f"sqlite:///{tmp_path / 'ledger.db'}", wait=2) as settlement:
        turn = AgentRun(settlement, "trip-42").work("clerk").turn(office.calls(settlement, BOOK, MAIL))
        assert await run_async(turn.perform(0, lambda: office.book("1"), waits=False)) == "book 1"
        await run_async(turn.perform(1, lambda: office.mail("ada"), waits=False))
        assert office.log == [("book", "1"), ("mail", "ada")]


async def test_a_turn_that_a_death_cut_off_is_undone_when_the_model_decides_otherwise(office, tmp_path):
    office.log = [tuple(entry) for entry in await _killed_in_the_middle(tmp_path)]
    with office.settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        work = AgentRun(settlement, "trip-42").work("clerk")
        assert await office.play(work.turn(office.calls(settlement, ("book", {"room": "2"})))) == ["book 2"]
        assert office.log == [("book", "1"), ("unbook", "1"), ("book", "2")]


CHILD = """
import asyncio, json, os, sys
from tests.core.agents.conftest import Office
from settlemark._runtime.aio import run_async
from settlemark.agents import AgentRun
from settlemark.hosting import host_of

async def main(url):
    office = Office()
    with office.settlement(url) as settlement:
        work = AgentRun(settlement, "trip-42").work("clerk")
        turn = work.turn(office.calls(settlement, ("book", {"room": "1"}), ("mail", {"to": "ada"})))
        await run_async(turn.perform(0, lambda: office.book("1"), waits=False))
        await run_async(host_of(settlement).driver.kernel.flush())
        print(json.dumps(office.log), flush=True)
        os.kill(os.getpid(), 9)

asyncio.run(main(sys.argv[1]))
"""


async def _killed_in_the_middle(directory):
    import sys
    from pathlib import Path

    root = Path(__file__).parents[3]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CHILD,
        f"sqlite:///{directory / 'ledger.db'}",
        stdout=asyncio.subprocess.PIPE,
        cwd=root,
    )
    out, _ = await child.communicate()
    assert child.returncode == -9
    return json.loads(out)


def test_what_a_part_came_to_is_found_by_who_begins_the_job_again(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url) as settlement:
        job = AgentRun(settlement, "trip-42")
        assert run_sync(job.recorded("task 1")) is MISSING
        run_sync(job.keep("task 1", {"raw": "done", "n": [1, None]}))
    with Settlement(url) as settlement:
        job = AgentRun(settlement, "trip-42")
        assert run_sync(job.recorded("task 1")) == {"raw": "done", "n": [1, None]}
        assert run_sync(job.recorded("task 2")) is MISSING
        assert run_sync(AgentRun(settlement, "trip-43").recorded("task 1")) is MISSING


def test_with_one_transaction_for_the_run_it_is_found_when_that_has_settled(office, settlement):
    job = AgentRun(settlement, "trip", settle="run")
    turn = job.work("clerk").turn(office.calls(settlement, MAIL))
    run_sync(turn.perform(0, lambda: office.mail("ada"), waits=False))
    run_sync(job.keep("task 1", "done"))
    assert (run_sync(job.recorded("task 1")), office.log) == (MISSING, [])
    run_sync(job.end())
    assert (run_sync(job.recorded("task 1")), office.log) == ("done", [("mail", "ada")])


def test_what_the_whole_job_came_to_is_kept_beside_what_its_parts_did(settlement, job):
    run_sync(job.keep("", 7))
    run_sync(job.keep("clerk", 8))
    assert [run_sync(job.recorded(name)) for name in ("", "clerk")] == [7, 8]
    scopes = [effect.row.scope for recorded in settlement.transactions() for effect in recorded.effects]
    assert scopes == ["result:/trip-42/run", "result:/trip-42/clerk"]


def test_what_failed_is_not_kept(office, settlement):
    job = AgentRun(settlement, "trip", settle="run")
    run_sync(job.keep("task 1", "done"))
    run_sync(job.end(OSError("cut")))
    assert run_sync(job.recorded("task 1")) is MISSING


__all__ = ["Office"]


class Pause(Exception):
    """A framework's way to put a turn aside."""


async def paused(office, settlement, *issued):
    """Play a turn of which the last call puts it aside."""

    async def pause():
        raise Pause

    work = AgentRun(settlement, "trip", let_through=(Pause,)).work("clerk")
    turn = work.turn(office.calls(settlement, *issued))
    last = len(issued) - 1
    await asyncio.gather(
        *(office.answer(turn, place) for place in range(last)),
        run_async(turn.perform(last, pause)),
        return_exceptions=True,
    )


async def test_a_turn_put_aside_is_not_gone_on_with_by_calls_that_another_turn_had_made(office, settlement):
    work = AgentRun(settlement, "trip", let_through=(Pause,)).work("clerk")
    await office.play(work.turn(office.calls(settlement, MAIL)))
    await paused(office, settlement, BOOK, POST)
    work = AgentRun(settlement, "trip", let_through=(Pause,)).work("clerk")
    assert await office.play(work.turn(office.calls(settlement, BOOK, MAIL))) == ["book 1", "mail ada"]
    assert office.log == [("mail", "ada"), ("book", "1"), ("unbook", "1"), ("book", "1")]
    assert host_of(settlement).protocol.live == {}


@pytest.mark.parametrize("settle", ["turn", "part", "run"])
async def test_what_the_model_was_told_is_done_once_more_when_it_asks_for_it_however_turns_settle(
    office, settlement, settle
):
    work = AgentRun(settlement, "trip", settle=settle).work("clerk")
    await office.play(work.turn(office.calls(settlement, BOOK, ids=["a"])))
    work.begin()  # with its history, in which call a is answered
    await office.play(work.turn(office.calls(settlement, BOOK, ids=["b"]), answered={"a"}))
    assert office.log == [("book", "1"), ("book", "1")]


async def test_jobs_whose_names_join_to_the_same_text_keep_apart(office, settlement):
    first = AgentRun(settlement, "trip").work("hotel")
    second = AgentRun(settlement, "trip/hotel").work()
    for work in (first, second):
        await office.play(work.turn(office.calls(settlement, MAIL)))
    assert office.log == [("mail", "ada"), ("mail", "ada")]
    assert len({recorded.row.name for recorded in settlement.transactions()}) == 2


async def test_a_run_of_which_the_first_transaction_left_no_trace_goes_on_numbering_behind_the_last(office, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        await run_async(job.earlier())
        job._begun = 1  # as if one had been given up before it recorded anything
        await office.play(job.work().turn(office.calls(settlement, BOOK)))
        await run_async(job.end())
    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        assert await office.play(job.work().turn(office.calls(settlement, ("book", {"room": "2"})))) == ["book 2"]
        await run_async(job.end())
    assert office.log == [("book", "1"), ("book", "2")]


async def test_what_an_operator_found_to_have_happened_and_is_undone_now_is_nobodys_answer(office, tmp_path):
    """The job acts anew: else it would go on with what is taken back behind it."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        settlement.declare(
            "post", "reversible", scope="post:/{to}", undo=lambda to, text: office.log.append(("unpost", to))
        )
        turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, POST))
        with pytest.raises(InDoubt):
            await run_async(turn.perform(0, timing_out))
        [doubt] = settlement.in_doubt()
        # Both wait where another thread of this process is at it already.
        await settlement.aresolve(doubt.key, "confirmed", by="ada", note="their log has it")
        await settlement.arecover()
        again = AgentRun(settlement, "trip").work().turn(office.calls(settlement, POST))
        assert await office.play(again) == ["post bank hello"]
        assert office.log == [("unpost", "bank"), ("post", "bank", "hello")]


def timing_out():
    raise TimeoutError("no answer")


async def test_who_asks_in_other_words_gets_both_as_data(office, settlement):
    await office.play(AgentRun(settlement, "trip").work().turn(office.calls(settlement, POST)))
    turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, REPHRASED))
    with pytest.raises(DoneBefore) as refused:
        await run_async(turn.perform(0, lambda: office.post("bank", "good day")))
    assert (refused.value.data["key"], refused.value.data["recorded"], refused.value.data["given"]) == (
        "trip/0#1/0",
        {"tool": "post", "arguments": '{"text":"hello","to":"bank"}'},
        {"tool": "post", "arguments": {"to": "bank", "text": "good day"}},
    )


async def test_turns_are_numbered_on_from_those_of_an_earlier_beginning(office, settlement):
    for room in "123":
        turn = AgentRun(settlement, "trip").work("clerk").turn(office.calls(settlement, ("book", {"room": room})))
        await office.play(turn)
    assert [recorded.row.name for recorded in settlement.transactions()] == [f"trip/clerk/{n}" for n in range(3)]


async def test_what_stays_of_a_run_that_was_left_open_and_undone_is_not_done_again(office, tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with office.settlement(url) as settlement:
        turn = AgentRun(settlement, "trip", settle="run").work().turn(office.calls(settlement, BOOK, POST))
        await office.play(turn)
    with office.settlement(url) as settlement:
        job = AgentRun(settlement, "trip", settle="run")
        assert await office.play(job.work().turn(office.calls(settlement, POST))) == ["post bank hello"]
        await run_async(job.end())
    assert office.log == [("book", "1"), ("post", "bank", "hello"), ("unbook", "1")]


async def test_a_framework_that_plays_its_journal_again_comes_to_what_was_put_aside_and_goes_on_with_it(
    office, settlement
):
    work = AgentRun(settlement, "trip", let_through=(Pause,)).work("clerk")
    await office.play(work.turn(office.calls(settlement, MAIL)))
    await paused(office, settlement, BOOK, POST)
    work = AgentRun(settlement, "trip", let_through=(Pause,)).work("clerk")
    assert await office.play(work.turn(office.calls(settlement, MAIL))) == ["mail ada"]
    assert await office.play(work.turn(office.calls(settlement, BOOK, POST))) == ["book 1", "post bank hello"]
    assert office.log == [("mail", "ada"), ("book", "1"), ("post", "bank", "hello")]


async def test_what_waits_for_an_answer_since_its_turn_was_split_is_gone_on_with_by_who_begins_again(
    office, settlement
):
    settlement.declare("mail", "irreversible", scope="mail:/{to}", function=office.mail, approve=True)
    asked, told = [], []

    def ask(gate):
        asked.append(gate.key)
        if len(asked) == 1:
            raise Pause
        return True

    for _ in range(2):
        work = AgentRun(settlement, "trip", let_through=(Pause,), asks=True, park="split").work("clerk")
        told.append(await office.play(work.turn(office.calls(settlement, BOOK, MAIL)), ask=ask))
    assert (told[1], office.log) == (["book 1", "mail ada"], [("book", "1"), ("mail", "ada")])
    assert asked == ["trip/clerk/0#1/1", "trip/clerk/0!1#1/1"]
    assert (settlement.approvals(), host_of(settlement).protocol.live) == ([], {})


async def test_what_was_recorded_without_its_secrets_is_known_again_by_them(office):
    with office.settlement(payloads=Payloads(redact=["text"])) as settlement:
        for issued, told in ((POST, "post bank hello"), (POST, "post bank hello"), (REPHRASED, "post was done before")):
            turn = AgentRun(settlement, "trip").work().turn(office.calls(settlement, issued))
            assert (await office.play(turn))[0].startswith(told)
    assert office.log == [("post", "bank", "hello")]


async def test_a_single_call_repeats_nothing_that_the_model_was_told_of(office, settlement):
    await office.play(AgentRun(settlement, "trip").work().turn(office.calls(settlement, MAIL, ids=["a"])))
    work = AgentRun(settlement, "trip").work()
    assert await office.answer(work.single(*office.calls(settlement, MAIL, ids=["b"]), answered={"a"}), 0) == "mail ada"
    assert office.log == [("mail", "ada"), ("mail", "ada")]


@pytest.mark.parametrize("kind", ["irreversible", "reversible"])
async def test_what_a_person_said_no_to_is_told_so_again_and_is_neither_asked_about_nor_done(office, tmp_path, kind):
    asked = []

    def approver(gate):
        asked.append(gate.tool)
        return {"decision": "reject", "because": "too dear"} if len(asked) == 1 else {"decision": "approve"}

    def begin():
        settlement = office.settlement(f"sqlite:///{tmp_path / 'ledger.db'}", approver=approver)
        settlement.declare(
            "sign",
            kind,
            scope="contract:/{what}",
            function=sign,
            approve=True,
            **({"undo": unsign} if kind == "reversible" else {}),
        )
        return settlement

    def sign(what):
        return office.act("sign", what)

    def unsign(what):
        office.act("unsign", what)

    for _ in range(2):
        with begin() as settlement:
            [told] = await office.play(
                AgentRun(settlement, "trip-42").work("clerk").turn(office.calls(settlement, ("sign", {"what": "a"})))
            )
            assert told.startswith("Rejected")
            assert "too dear" in told
    assert (asked, office.log) == (["sign"], [])
