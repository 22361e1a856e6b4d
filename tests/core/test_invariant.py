"""Every unfinished transaction has a living program, a lease, a deadline or a person; what has none is told."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from settlemark import Refused, Settlement, effect
from settlemark._doctor import examine
from settlemark._states import Reason, State
from settlemark._waiting import standing
from settlemark.ledger import open_ledger

PATIENCE = 60


@effect("reversible", scope="room:/{hotel}", undo=lambda hotel: None)
def reserve(hotel):
    return hotel


@effect("irreversible", scope="mail:/{to}")
def send(to):
    return to


@effect("irreversible", scope="contract:/{what}", approve=True)
def sign(what): ...


def waits_until(condition):
    """Wait for what another thread does, without a time of its own."""
    for _ in range(PATIENCE * 20):
        if condition():
            return True
        gc.collect()
        threading.Event().wait(0.05)
    return False


# ---- a program that goes away in this process: its transaction ends all the same


async def opened(settlement, there):
    async with settlement.transaction("trip") as tx:
        await tx.call(reserve, hotel="Bee")
        there.set()
        await asyncio.Event().wait()


async def asking(settlement, _there):
    async with settlement.transaction("trip") as tx:
        await tx.call(reserve, hotel="held")


async def reading(settlement, _there):
    async with settlement.transaction("trip") as tx:
        await tx.read("room:/held")


async def sealed(settlement, _there):
    async with settlement.transaction("trip") as tx:
        await tx.call(reserve, hotel="Bee")
        await tx.call(send, to="held")


async def hooked(settlement, there):
    async def ask(footprint):
        there.set()
        await asyncio.Event().wait()

    async with settlement.transaction("trip", before_commit=[ask]) as tx:
        await tx.call(send, to="bee")


async def releasing(settlement, there):
    @effect("irreversible", scope="slow:/{to}")
    async def post(to):
        there.set()
        await asyncio.Event().wait()

    async with settlement.transaction("trip") as tx:
        await tx.call(post, to="bee")


async def undoing(settlement, there):
    async def slowly(hotel):
        if not there.is_set():
            there.set()
            await asyncio.Event().wait()

    @effect("reversible", scope="suite:/{hotel}", undo=slowly)
    def suite(hotel): ...

    async with settlement.transaction("trip") as tx:
        await tx.call(suite, hotel="Ada")
        raise ZeroDivisionError


WHERE = [opened, asking, reading, sealed, hooked, releasing, undoing]


def closes_the_loop(loop, task):
    del task
    loop.close()


def cancels_the_task(loop, task):
    task.cancel()
    loop.run_until_complete(asyncio.wait([task], timeout=0.2))
    loop.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("goes", [closes_the_loop, cancels_the_task])
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.every_store
def test_whatever_a_lost_task_had_begun_comes_to_its_end(settlement, someone_waits, where, goes):
    opening = settlement.transaction("holder")
    holder = opening.__enter__()
    holder.call(reserve, hotel="held")
    holder.call(send, to="held")

    there = someone_waits(settlement)

    def lose():
        loop = asyncio.new_event_loop()
        task = loop.create_task(where(settlement, there))
        loop.run_until_complete(asyncio.to_thread(there.wait, PATIENCE))
        goes(loop, task)

    thread = threading.Thread(target=lose)
    thread.start()
    thread.join(PATIENCE)
    assert there.is_set()
    del thread
    opening.__exit__(None, None, None)

    assert waits_until(lambda: not settlement.protocol.live), next(iter(settlement.protocol.live.values())).state
    assert settlement.driver.stranded() == []


# ---- what has no program is seen, in this process and by any other


def without_tender(url):
    settlement = Settlement(url)
    if settlement._tender is not None:
        settlement._tender.stop()
    return settlement


def moved_to(settlement, state):
    """A transaction in a state, at which no program is."""
    tx = settlement.transaction("trip/book").__enter__()
    tx.call(reserve, hotel="Ada")
    tx.call(send, to="bee")
    txn = tx._attempt.live

    def move(protocol, _book):
        if state in (State.SEALED, State.RELEASING):
            protocol.seal(txn)
        if state is State.RELEASING:
            protocol.decide(txn, lasting=True)
        if state is State.ABORTING:
            protocol.abort(txn, Reason.FAILED)
            protocol.take_aborted()

    settlement.ledger.now(move)
    assert txn.state is state
    return txn


def found_by_doctor(url):
    """What doctor says of transactions that no living process ends: (severity, what, what to do)."""
    return [(one.severity.value, one.found, one.advice) for one in examine(url) if one.check == "ends"]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.mark.parametrize("state", [State.SEALED, State.RELEASING, State.ABORTING])
def test_a_transaction_at_which_no_program_is_is_stranded_and_no_longer_when_somebody_tends_it(any_url, state):
    settlement = without_tender(any_url)
    txn = moved_to(settlement, state)

    assert settlement.driver.stranded() == [f"trip/book is {state}"]

    settlement.driver._attempts[txn].adrift = True  # as its own end would have it
    tended = settlement.driver.wake_tender is not None  # in memory nobody does, but who asks to recover
    assert settlement.driver.stranded() == ([] if tended else [f"trip/book is {state}"])
    settlement.recover()
    assert settlement.protocol.live == {}
    settlement.close()


@pytest.mark.parametrize("state", [State.OPEN, State.SEALED, State.RELEASING, State.ABORTING])
def test_doctor_names_what_a_process_that_is_gone_has_left_with_its_scope_and_what_to_do(shared_url, state):
    settlement = without_tender(shared_url)
    moved_to(settlement, state)
    assert found_by_doctor(shared_url) == []  # its process is alive
    settlement.ledger.now(lambda protocol, _book: protocol.bury(settlement.ledger.worker))

    ((severity, found, advice),) = found_by_doctor(shared_url)
    assert severity == "attention"
    assert found.startswith(f"trip/book is {state} for ")
    assert "holds room:/Ada, mail:/bee" in found
    assert "settlemark recover --module" in advice
    settlement.close()


def test_doctor_says_who_is_asked_about_what_was_put_aside_and_how_to_answer(shared_url):
    settlement = without_tender(shared_url)
    with settlement.transaction("trip/sign", park="keep") as tx:
        tx.call(sign, what="lease")
    (asked,) = settlement.approvals()

    ((severity, found, advice),) = found_by_doctor(shared_url)
    assert severity == "note"
    assert found.startswith("trip/sign is put aside")
    assert advice.startswith(f"settlemark approve {asked.key} --by NAME")
    settlement.close()
    assert [(severity, advice)] == [(one[0], one[2]) for one in found_by_doctor(shared_url)]  # as well without it


def test_doctor_says_that_a_framework_is_to_come_back_to_what_was_put_aside(shared_url):
    settlement = without_tender(shared_url)
    tx = settlement.transaction("trip/book").__enter__()
    tx.call(reserve, hotel="Ada")
    settlement.ledger.now(lambda protocol, _book: protocol.park(tx._attempt.live, parked=True))

    ((severity, found, advice),) = found_by_doctor(shared_url)
    assert severity == "note"
    assert found.startswith("trip/book is put aside, nobody has it")
    assert "resume the run trip in its framework" in advice
    settlement.close()


def test_doctor_says_how_many_wait_for_what_nobody_ends(shared_url):
    settlement = without_tender(shared_url)
    first = settlement.transaction("first").__enter__()
    first.call(send, to="bee")
    second = settlement.transaction("second", wait=0).__enter__()
    second.call(send, to="bee")
    settlement.ledger.now(lambda protocol, _book: protocol.seal(second._attempt.live))
    settlement.ledger.now(lambda protocol, _book: protocol.bury(settlement.ledger.worker))

    found = [one[1] for one in found_by_doctor(shared_url)]
    assert [text.partition(" is ")[0] for text in found] == ["first", "second"]
    assert "; 1 waits for it" in found[0]
    assert "wait" not in found[1]
    settlement.close()


def test_who_ends_each_is_a_value_that_programs_can_read(shared_url):
    settlement = without_tender(shared_url)
    settlement.transaction("alive").__enter__().call(reserve, hotel="a")
    parked = settlement.transaction("parked").__enter__()
    parked.call(reserve, hotel="b")
    settlement.ledger.now(lambda protocol, _book: protocol.park(parked._attempt.live, parked=True))
    ledger = open_ledger(shared_url, readonly=True)
    stand, _ = standing(ledger)
    ledger.close()

    assert {one.transaction: one.values()["ends_it"] for one in stand} == {"alive": "process", "parked": "framework"}
    settlement.close()


def test_a_refusal_does_not_leave_a_commit_without_its_program(quick):
    def no(footprint):
        return False

    with pytest.raises(Refused), quick.transaction("trip", before_commit=[no]) as tx:
        tx.call(send, to="bee")
    assert quick.driver.stranded() == []
