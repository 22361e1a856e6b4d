"""An answer that one thread is carrying out is not over for another thread until it has been carried out."""

from __future__ import annotations

import threading

import pytest

from settlemark import Vetoed, effect
from settlemark.hosting import host_of, run_sync

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

PATIENCE = 30.0


class SlowJudge:
    """A hook that thinks until it is told to say its verdict."""

    def __init__(self):
        self.thinks, self.says, self.verdict = threading.Event(), threading.Event(), True

    def __call__(self, footprint):
        self.thinks.set()
        assert self.says.wait(PATIENCE)
        return self.verdict


@pytest.fixture
def judge():
    return SlowJudge()


@pytest.fixture
def sent():
    return []


@pytest.fixture
def mail(sent):
    @effect("irreversible", scope="mail:/{to}", approve=True)
    def mail(to):
        sent.append(to)

    return mail


@pytest.fixture
def carried_out_by_another(settlement, judge, mail):
    """What a thread of its own carries out, as the settlement's own thread does: the call begins it, in its hook."""
    threads = []

    def begin():
        threads.append(threading.Thread(target=lambda: run_sync(host_of(settlement).driver.answers.settle_answered())))
        threads[-1].start()
        assert judge.thinks.wait(PATIENCE)

    yield begin
    judge.says.set()
    for thread in threads:
        thread.join(PATIENCE)


def say_yes(settlement):
    """Answer as another process does, which leaves it to this one to carry it out."""
    driver = host_of(settlement).driver
    take_said, driver.answers._take_said = driver.answers._take_said, lambda name: nothing()
    settlement.approve("trip", by="ada")
    driver.answers._take_said = take_said


def nothing():
    return False, ""
    yield


def judged_once_it_is_waited_for(settlement, judge, monkeypatch):
    """Let the hook say its verdict when somebody waits; return an event that tells whether somebody has."""
    waits, waited = host_of(settlement).driver.kernel.waits, threading.Event()
    listen = waits.listen

    def notice(wait):
        waited.set()
        judge.says.set()
        return (yield from listen(wait))

    monkeypatch.setattr(waits, "listen", notice)
    return waited


@pytest.fixture
def taken_once_it_is_put_aside(settlement, mail, judge, carried_out_by_another, monkeypatch):
    """The transaction is entered again, and another thread is first to hear its answer when it is put aside again."""
    judge.says.set()
    with settlement.transaction("trip", before_commit=judge) as tx:
        tx.call(mail, to="ada")
        tx.park()
    say_yes(settlement)
    judge.says.clear()
    parking = host_of(settlement).driver.parking
    keep = parking.keep

    def keep_and_be_second(attempt):
        yield from keep(attempt)
        carried_out_by_another()

    monkeypatch.setattr(parking, "keep", keep_and_be_second)
    return tx


def test_who_puts_a_transaction_aside_again_returns_when_another_thread_has_carried_its_answer_out(
    settlement, mail, judge, sent, taken_once_it_is_put_aside, monkeypatch
):
    waited = judged_once_it_is_waited_for(settlement, judge, monkeypatch)
    with settlement.transaction("trip", before_commit=judge) as tx:
        tx.call(mail, to="ada")
        tx.park()
    assert (waited.is_set(), sent, settlement.approvals()) == (True, ["ada"], [])


def test_who_puts_a_transaction_aside_again_hears_that_its_hook_has_refused_it_meanwhile(
    settlement, mail, judge, sent, taken_once_it_is_put_aside, monkeypatch
):
    judged_once_it_is_waited_for(settlement, judge, monkeypatch)
    judge.verdict = "too expensive"
    with pytest.raises(Vetoed, match="too expensive"), settlement.transaction("trip", before_commit=judge) as tx:
        tx.call(mail, to="ada")
        tx.park()
    assert (sent, settlement.residue(), settlement.approvals()) == ([], [], [])
