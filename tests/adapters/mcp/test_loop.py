"""A loop in a thread of its own answers whoever asks, and leaves nobody waiting when it is closed."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from settlemark import UsageError
from settlemark_adapters._loop import LoopThread


async def forever():
    await asyncio.Event().wait()


def test_who_comes_while_it_closes_is_told_and_does_not_wait():
    loop = LoopThread("test")
    begun, told = threading.Event(), []

    def late():
        coroutine = forever()
        with pytest.raises(UsageError, match="this adapter is closed: make another one") as refused:
            loop.run(coroutine)
        told.append(str(refused.value))

    async def first():
        begun.set()
        try:
            await forever()
        finally:  # it is closing
            other = threading.Thread(target=late, daemon=True)
            other.start()
            await asyncio.to_thread(other.join, 10)

    def ask():
        with pytest.raises(CancelledError):
            loop.run(first())

    asking = threading.Thread(target=ask)
    asking.start()
    begun.wait(10)
    loop.close()
    asking.join(10)
    assert len(told) == 1


def test_what_takes_too_long_is_cancelled_and_it_goes_on():
    with LoopThread("test") as loop:
        with pytest.raises(TimeoutError):
            loop.run(forever(), 0.01)
        assert loop.run(asyncio.sleep(0, "on")) == "on"
        loop.close()
        loop.close()
