"""A job that is begun again does nothing twice; what is new to it is done."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import pytest
from pydantic_ai import DeferredToolResults
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest
from tests.integrations.contract.driver import ScriptedCall
from tests.integrations.contract.world import desk, turns, unaccounted, unfinished
from tests.integrations.pydantic_ai.world import agent, answers, texts

from settlemark import Settlement
from settlemark.testing import can_fork
from settlemark_pydantic_ai import Settled, SettledToolset

SCRIPT = turns([("book", "Ada"), ("mail", "ada")], [("book", "Bo")])
TOLD = ["book Ada: number 1", "mail ada: number 2", "book Bo: number 3"]
DONE = ["book Ada", "mail ada", "book Bo"]


def clerk(world, settlement, script=SCRIPT, **options):
    return agent(script, desk(world), capabilities=[Settled(settlement, **options)])


async def test_a_job_that_is_begun_again_is_answered_from_the_record_although_its_model_gives_other_ids(
    world, settlement
):
    other_ids = [[ScriptedCall(call.tool, call.arguments, f"other-{call.id}") for call in turn] for turn in SCRIPT]

    first = await clerk(world, settlement, run="trip").run("go")
    again = await clerk(world, settlement, other_ids, run="trip").run("go")

    assert texts(first) == texts(again) == TOLD
    assert world.log == DONE


async def test_a_job_that_is_held_open_is_begun_again_by_each_run_of_its_agent(world, settlement):
    async with Settled(settlement, run="trip") as settled:
        for _ in range(2):
            assert texts(await agent(SCRIPT, desk(world), capabilities=[settled]).run("go")) == TOLD

    assert world.log == DONE


async def test_a_job_may_be_named_by_what_its_run_is_given(world, settlement):
    named = {"run": lambda ctx: ctx.deps["trip"]}

    for trip in ("a", "b", "a"):
        await clerk(world, settlement, turns([("book", "Ada")]), **named).run("go", deps={"trip": trip})

    assert world.log == ["book Ada", "book Ada"]
    assert {found.row.run for found in settlement.transactions()} == {"a", "b"}


async def test_with_stock_and_with_no_name_a_job_that_is_begun_again_does_it_all_again(world, settlement):
    for _ in range(2):
        await agent(SCRIPT, desk(world)).run("go")
        await clerk(world, settlement).run("go")

    assert world.standing() == dict.fromkeys(DONE, 4)


async def test_a_conversation_that_goes_on_in_one_job_may_ask_for_the_same_once_more(world, settlement):
    """The model knows of the first by its history: that it says it again is no mistake."""
    script = turns([("book", "Ada")], [], [("book", "Ada")])

    first = await clerk(world, settlement, script[:1], run="chat").run("book it")
    last = await clerk(world, settlement, script, run="chat").run("once more", message_history=first.all_messages())

    assert texts(last) == ["book Ada: number 1", "book Ada: number 2"]
    assert world.log == ["book Ada", "book Ada"]


async def test_each_wrapped_toolset_knows_its_job_again(world, settlement):
    from pydantic_ai import FunctionToolset

    for _ in range(2):
        toolset = SettledToolset(FunctionToolset(desk(world)), settlement, run="trip")
        assert texts(await agent(SCRIPT, toolsets=[toolset]).run("go")) == TOLD

    assert world.log == DONE


async def test_a_run_that_failed_in_the_midst_is_gone_on_with_by_its_history_and_its_answers_are_not_asked_for_again(
    world, settlement
):
    down = [True]

    def fly(what: str) -> str:
        if down.pop() if down else False:
            raise ZeroDivisionError("down")
        return f"fly {what}: number {world.act(f'fly {what}')}"

    script = turns([("book", "Ada")], [("fly", "X")])
    effects = {
        "fly": {"kind": "reversible", "scope": "flight:/{what}", "undo": lambda what: world.act(f"cancel {what}")}
    }

    def made():
        return agent(script, [*desk(world), fly], capabilities=[Settled(settlement, run="trip", effects=effects)])

    with pytest.raises(ZeroDivisionError):
        await made().run("go")
    last = await made().run("go")

    assert texts(last) == ["book Ada: number 1", "fly X: number 2"]
    assert world.log == ["book Ada", "fly X"]


# ---- in processes that are killed


WORKER = """
import asyncio, json, os, signal, sys
from pathlib import Path
from pydantic_ai import Agent, DeferredToolRequests
from settlemark import Settlement, effect
from settlemark_pydantic_ai import Settled
from tests.integrations.contract.driver import ScriptedCall
from tests.integrations.pydantic_ai.driver import scripted, told

home, at, settled = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "settled"

def act(what):
    with (home / "world.log").open("a") as log:
        log.write(what + "\\n")
    if at == what:
        os.kill(os.getpid(), signal.SIGKILL)
    return "did " + what

def knows(what):
    done = what in (home / "world.log").read_text().split("\\n")
    return "did " + what if done else None

def cancel(what):
    act("cancel " + what)

@effect("reversible", scope="room:/{what}", undo=cancel, probe=knows)
def book(what: str) -> str:
    return act(what)

@effect("irreversible", scope="mail:/{what}", probe=knows)
def mail(what: str) -> str:
    return act(what)

SCRIPT = [[ScriptedCall("book", {"what": "room"}, "1"), ScriptedCall("mail", {"what": "letter"}, "2")]]

async def main(settlement):
    ours = [] if settlement is None else [Settled(settlement, run="trip")]
    clerk = Agent(scripted(SCRIPT), name="clerk", tools=[book, mail], capabilities=ours)
    print(json.dumps([text for _, text in told(await clerk.run("go"))]))

if settled:
    with Settlement(f"sqlite:///{home / 'ledger.db'}", wait=30, lease=1) as settlement:
        asyncio.run(main(settlement))
else:
    asyncio.run(main(None))
"""


def worked(home, at, side):
    """Run the job in a process that dies where it is told to; what it printed, or None."""
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(home), at, side],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if at == "-":
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return None


@pytest.mark.skipif(not can_fork(), reason="a process is killed with SIGKILL")
@pytest.mark.parametrize("at", ["room", "letter"])
def test_a_job_whose_process_was_killed_behind_an_effect_does_it_once(tmp_path, at):
    """The counterparty's own log says so, and that stock does it twice."""
    logs = {}
    for side in ("settled", "stock"):
        home = tmp_path / side
        home.mkdir()
        (home / "world.log").touch()
        worked(home, at, side)
        told = worked(home, "-", side)
        logs[side] = (home / "world.log").read_text().split()
        assert told == ["did room", "did letter"]

    assert sorted(entry for entry in logs["settled"] if entry != "cancel") == ["letter", "room"]
    assert logs["stock"].count(at) == 2


# ---- the history, in a file


async def test_a_history_that_was_written_down_and_read_again_asks_for_nothing_that_it_has(world, settlement):
    first = await clerk(world, settlement).run("go")
    history = ModelMessagesTypeAdapter.validate_json(first.all_messages_json())

    last = await clerk(world, settlement).run("and now?", message_history=history)

    assert last.output == "done"
    assert world.log == DONE
    assert isinstance(history[0], ModelRequest)
    assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])


async def test_jobs_at_the_same_time_keep_apart(world, settlement):
    script = turns([("book", "Ada"), ("mail", "ada")])

    results = await asyncio.gather(*(clerk(world, settlement, script, run=f"trip-{n}").run("go") for n in range(5)))

    assert world.standing() == {"book Ada": 5, "mail ada": 5}
    assert all(outcome == "success" for result in results for outcome, _ in answers(result))
    assert (unaccounted(world, settlement), unfinished(settlement)) == ([], [])


@pytest.mark.parametrize("later", [False, True], ids=["no again", "yes"])
@pytest.mark.parametrize("where", ["here", "in a new process"])
async def test_who_brings_an_answer_when_a_no_has_undone_the_turn_is_told_so_of_each_call_and_nothing_acts(
    world, tmp_path, later, where
):
    """The messages of the question still say that its turn had succeeded so far."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    script = turns([("book", "Ada"), ("pay", "hotel"), ("mail", "ada")])
    with Settlement(url, wait=600) as here, Settlement(url, wait=600) as there:

        async def answer(settlement, question, yes):
            clerk = agent(script, desk(world), capabilities=[Settled(settlement, run="trip")])
            given = DeferredToolResults(approvals={"call-0-1": yes})
            return await clerk.run(message_history=question.all_messages(), deferred_tool_results=given)

        question = await agent(script, desk(world), capabilities=[Settled(here, run="trip")]).run("go")
        no = answers(await answer(here, question, False))
        before = list(world.log)
        again = answers(await answer(here if where == "here" else there, question, later))

        assert before == world.log == ["book Ada", "cancel Ada"]
        assert [outcome for outcome, _ in no] == ["failed", "denied", "failed"]
        assert [outcome for outcome, _ in again] == ["failed", "failed" if later else "denied", "failed"]
        assert again[0][1].startswith("undone: book had succeeded, and was undone because pay failed")
        assert unaccounted(world, here) == []
        assert unfinished(here) == []
