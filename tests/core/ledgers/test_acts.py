"""Acts in flight: who waits for a worker's acts is told when the last of them has returned, and not before."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest
from tests.rooms.ledger import Acts


def test_the_last_act_of_a_worker_that_returns_is_told_of_and_no_earlier_one():
    acts, told = Acts(), []
    acts.on_back = told.append
    with acts.out("ada"):
        with acts.out("ada"), acts.out("bob"):
            assert (told, acts.of("ada"), acts.of("bob"), len(acts.now)) == ([], True, True, 3)
        assert (told, acts.of("ada"), acts.of("bob")) == (["bob"], True, False)
    assert (told, acts.now) == (["bob", "ada"], {})


def test_of_what_no_worker_does_and_where_nobody_asked_nothing_is_told():
    acts, told = Acts(), []
    with acts.out("ada"):
        pass
    acts.on_back = told.append
    with acts.out(""):
        pass
    assert (told, acts.now) == ([], {})


def test_an_act_whose_program_was_collected_is_never_known_to_have_returned():
    acts = Acts()
    for error in (ValueError, KeyboardInterrupt):
        with suppress(error), acts.out("ada"):
            raise error
    assert acts.lost == set()
    for worker in ("", "ada"):
        with suppress(GeneratorExit), acts.out(worker):
            raise GeneratorExit
    assert acts.lost == {"ada"}


@pytest.fixture
def busy():
    """Return acts of which one is under way in another thread, until that is let go."""
    acts, began, goes, waited = Acts(), threading.Event(), threading.Event(), []

    def act():
        with acts.out("ada"):
            began.set()
            goes.wait(60)

    def wait(seconds, wait=acts.changed.wait):
        goes.set()
        waited.append((seconds <= 60, wait(seconds)))  # False of one that nobody woke

    acts.changed.wait = wait
    thread = threading.Thread(target=act)
    thread.start()
    began.wait(60)
    yield acts, waited
    goes.set()
    thread.join()


def test_who_waits_for_the_acts_of_other_threads_is_woken_by_the_last_of_them(busy):
    acts, waited = busy
    acts.wait(1000)
    assert (acts.now, waited) == ({}, [(True, True)])


def test_nobody_waits_longer_than_was_asked_for(busy):
    acts, waited = busy
    acts.wait(0)
    assert (len(acts.now), waited) == (1, [])


def test_a_program_that_is_under_way_is_waited_for_as_an_act_is_and_is_nobodys():
    acts, told = Acts(), []
    acts.on_back = told.append
    with acts.under_way():
        seen = (len(acts.now), acts.of("ada"))
    assert (seen, acts.now, told) == ((1, False), {}, [])


def test_who_waits_in_an_act_of_its_own_or_for_one_whose_loop_has_stopped_does_not_wait(monkeypatch):
    async def act():
        acts.out("ada").__enter__()

    acts = Acts()
    monkeypatch.setattr(acts.changed, "wait", lambda _seconds: pytest.fail("nothing could wake it"))
    asyncio.run(act())
    with acts.out("bob"):
        acts.wait(60)
    assert len(acts.now) == 1
