"""Answers that a store still owes: whoever waits is told once they are there, and those who wait share a commit."""

from __future__ import annotations

import threading

import pytest
from tests.rooms.acts import Pending

from settlemark import LedgerError, Settlement
from settlemark.hosting import host_of

PATIENCE = 30


def test_an_answer_that_is_there_is_returned_again_and_again():
    pending = Pending()
    pending.answer(7)
    assert (pending.done, pending.result(), pending.result(0), pending.exception(0)) == (True, 7, 7, None)


def test_an_answer_that_is_an_error_is_raised_again_and_again():
    pending, error = Pending(), ValueError("no")
    pending.answer(None, error)
    for _ in range(2):
        with pytest.raises(ValueError, match="no") as raised:
            pending.result()
        assert raised.value is error
    assert pending.exception() is error


def test_an_answer_that_does_not_come_in_time_is_still_owed():
    pending = Pending()
    for wait in (pending.result, pending.exception):
        with pytest.raises(TimeoutError):
            wait(0.001)
    assert not pending.done
    pending.answer(7)
    assert pending.result(0) == 7


@pytest.mark.parametrize("when", ["before", "after"])
def test_who_watches_an_answer_is_told_whether_it_came_before_or_after(when):
    pending, told = Pending(), []
    if when == "before":
        pending.answer(7)
    pending.watch(lambda: told.append(pending.done))
    if when == "after":
        assert told == []
        pending.answer(7)
    assert told == [True]


def test_who_is_woken_without_an_answer_goes_on_waiting():
    pending, found = Pending(), []
    thread = threading.Thread(target=lambda: found.append(pending.result(PATIENCE)))
    thread.start()
    pending.wake()
    pending.answer(7)
    thread.join(PATIENCE)
    assert found == [7]


@pytest.fixture
def held_up(tmp_path):
    """A ledger whose one who leads is in the middle of a step until `go` is set, and the thread that leads."""
    settlement, reached, go = Settlement(f"sqlite:///{tmp_path / 'ledger.db'}"), threading.Event(), threading.Event()

    def slow(_protocol, _book):
        reached.set()
        assert go.wait(PATIENCE)

    thread = threading.Thread(target=lambda: host_of(settlement).ledger.now(slow))
    thread.start()
    assert reached.wait(PATIENCE)
    yield host_of(settlement).ledger, go
    go.set()
    thread.join(PATIENCE)
    settlement.close()
    assert not thread.is_alive()


def waiting(ledger, callers, step):
    """Threads that wait, all of them, for a step that another thread must take first."""
    answers, before = [], len(ledger._member.queue.waiting)
    threads = [threading.Thread(target=lambda: answers.append(ledger.now(step))) for _ in range(callers)]
    for thread in threads:
        thread.start()
    while len(ledger._member.queue.waiting) < before + callers:
        threads[0].join(0.001)
    return threads, answers


def test_those_who_wait_while_another_leads_share_the_next_commit(held_up):
    ledger, go = held_up
    commits = []
    threads, answers = waiting(ledger, 8, lambda _protocol, _book: commits.append(ledger._member.batches.count))
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert (len(answers), len(commits), len(set(commits))) == (8, 8, 1)


class Interrupted:
    """What a thread waits at when somebody presses a key."""

    def get(self, timeout=None):
        raise KeyboardInterrupt


def test_those_who_wait_are_answered_though_the_one_whose_turn_it_was_is_interrupted(held_up, monkeypatch):
    ledger, go = held_up
    first = ledger.submit(lambda _protocol, _book: "first", durable=False)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(first), "woken", lambda _answer: Interrupted())
        first.lead()
    threads, answers = waiting(ledger, 2, lambda _protocol, _book: "next")
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert answers == ["next", "next"]
    with pytest.raises(LedgerError, match="the step was withdrawn, so nothing was run"):
        first.result(PATIENCE)
