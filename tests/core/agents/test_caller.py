"""A tool runs in the context of whoever called it, wherever it is run, and knows for which call."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar, copy_context

import pytest

from settlemark import current_call, effect
from settlemark.agents import Caller

user = ContextVar("user", default="nobody")


def called_by(name):
    """Return the caller that somebody of this name is."""
    context = copy_context()
    context.run(user.set, name)
    return Caller(context)


async def whose():
    await asyncio.sleep(0)
    return user.get()


def test_what_is_run_in_another_thread_sees_its_callers_context():
    caller, seen = called_by("ada"), []
    thread = threading.Thread(target=lambda: seen.append((user.get(), caller.run(user.get))))
    thread.start()
    thread.join()
    assert seen == [("nobody", "ada")]


async def test_what_is_awaited_in_another_task_sees_its_callers_context():
    assert (await called_by("ada").awaited(whose()), user.get()) == ("ada", "nobody")


def test_what_one_run_sets_neither_its_caller_nor_the_next_run_sees():
    caller = called_by("ada")
    caller.run(lambda: user.set("eve"))
    assert (caller.run(user.get), user.get()) == ("ada", "nobody")


def test_the_context_is_that_of_the_code_that_makes_it_by_default():
    token = user.set("ada")
    caller = Caller()
    user.reset(token)
    assert (caller.run(user.get), user.get()) == ("ada", "nobody")


@pytest.mark.parametrize("way", ["run", "awaited"])
def test_a_tool_knows_for_which_call_it_acts_although_its_caller_was_none(settlement, way):
    caller, keys = Caller(), []

    async def key():
        return current_call().key

    @effect("opaque")
    def act():
        found = caller.run(lambda: current_call().key) if way == "run" else asyncio.run(caller.awaited(key()))
        keys.append((found, current_call().key))

    with settlement.transaction("trip") as tx:
        tx.call(act)
    assert keys == [(keys[0][1], keys[0][1])]
    assert current_call() is None
