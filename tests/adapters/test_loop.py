"""An event loop in a thread of its own: what is run there answers, ends in time, and is over when it is closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from settlemark import UsageError
from settlemark_adapters._loop import LoopThread


def test_what_is_run_answers_or_raises_in_whatever_thread_it_is_called():
    async def where():
        return threading.current_thread().name

    async def broken():
        raise LookupError("not there")

    with LoopThread("doc") as loop:
        assert loop.run(where()) == "settlemark-doc"
        with pytest.raises(LookupError, match="not there"):
            loop.run(broken())


def test_what_is_not_done_in_time_is_cancelled():
    ended = []

    async def waiting():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with LoopThread("doc") as loop, pytest.raises(TimeoutError):
        loop.run(waiting(), 0)
    with LoopThread("doc") as loop, pytest.raises(TimeoutError):
        loop.run(waiting(), 0.01)
    assert ended == ["cancelled"]  # of the other nothing had begun


def test_closing_ends_what_still_runs_and_waits_for_its_last_words_and_for_the_thread():
    began, said = threading.Event(), []

    async def tending():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):  # steps of its own, on the loop that is being closed
                await asyncio.sleep(0)
            said.append("closed")

    async def begin():
        tasks.append(asyncio.get_running_loop().create_task(tending()))

    tasks: list[asyncio.Task[None]] = []
    before = set(threading.enumerate())
    loop = LoopThread("doc")
    loop.run(begin())
    began.wait(60)
    loop.close()
    assert (said, tasks[0].cancelled(), set(threading.enumerate()) - before) == (["closed"], True, set())


def test_a_loop_that_is_closed_runs_nothing_and_is_closed_once_more_without_harm():
    loop = LoopThread("doc")
    loop.close()
    loop.close()
    run = []

    async def late():
        run.append("late")

    with pytest.raises(UsageError, match="this adapter is closed: make another one"):
        loop.run(late())
    assert run == []
