"""Every unfinished transaction has a living program, a lease, a deadline or a person; what has none is told."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import signal
import threading
from contextlib import AsyncExitStack, ExitStack, suppress

import pytest
from tests.core.hanging import LockedFile
from tests.core.places import PLACES, Scene, Watching, World, run, tools_of
from tests.rooms.api import standing
from tests.rooms.doctor import examine
from tests.rooms.lifecycle import DROPPED

from settlemark import LedgerError, Refused, Settlement, State, effect
from settlemark.hosting import Reason, host_of
from settlemark.ledger import open_ledger
from settlemark.testing import in_child

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

    assert waits_until(lambda: not host_of(settlement).protocol.live), next(
        iter(host_of(settlement).protocol.live.values())
    ).state
    assert host_of(settlement).driver.ages.stranded() == []


# ---- a caller that is gone from a process that lives: what it dropped without leaving its block


def entered(settlement, world):
    """Enter a transaction by hand, and book a room."""
    tx = settlement.transaction("trip").__enter__()
    tx.call(world.tools.book, room="a")
    return tx


def by_hand(settlement, world):
    entered(settlement, world)


def a_stack(settlement, world):
    stack = ExitStack()
    stack.enter_context(settlement.transaction("trip")).call(world.tools.book, room="a")


def a_ring(settlement, world):
    tx = entered(settlement, world)
    tx.me = tx


def a_generator(settlement, world):
    def steps():
        with settlement.transaction("trip") as tx:
            yield tx.call(world.tools.book, room="a")
            raise AssertionError("nobody goes on")

    next(steps())


def a_generator_without_a_block(settlement, world):
    def steps():
        tx = entered(settlement, world)
        yield tx
        raise AssertionError("nobody goes on")

    next(steps())


def a_thread(settlement, world):
    thread = threading.Thread(target=a_stack, args=(settlement, world))
    thread.start()
    thread.join(PATIENCE)


def a_turn(settlement, world):
    turn = entered(settlement, world).turn()
    turn.plan(world.tools.book, room="b")


def a_task(settlement, world):
    async def works():
        tx = await settlement.transaction("trip").__aenter__()
        await tx.call(world.tools.book, room="a")

    asyncio.run(works())


def an_async_stack(settlement, world):
    async def works():
        stack = AsyncExitStack()
        tx = await stack.enter_async_context(settlement.transaction("trip"))
        await tx.call(world.tools.book, room="a")

    asyncio.run(works())


def a_loop_that_is_closed(settlement, world):
    async def works():
        tx = await settlement.transaction("trip").__aenter__()
        await tx.call(world.tools.book, room="a")
        await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(works())
    while not world.log:
        loop.run_until_complete(asyncio.wait([task], timeout=0.01))
    loop.run_until_complete(asyncio.sleep(0))
    del task
    loop.close()


DROPPING = [
    by_hand, a_stack, a_ring, a_generator, a_generator_without_a_block, a_thread, a_turn, a_task,
    an_async_stack, a_loop_that_is_closed,
]  # fmt: skip # a list of names and values


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("drop", DROPPING)
@pytest.mark.every_store
def test_what_its_caller_dropped_is_undone_and_its_scope_is_free_while_the_process_lives(
    settlement, world, recorded, drop
):
    drop(settlement, world)
    assert waits_until(lambda: not host_of(settlement).protocol.live)
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(settlement, "trip") == [("aborted", [("book", "undone", "clean")])]
    assert (settlement.residue(), host_of(settlement).driver.ages.stranded()) == ([], [])
    with settlement.transaction("trip", wait=0) as again:
        again.call(world.tools.book, room="a")
    assert (again.attempt, again.state) == (2, State.COMMITTED)


def test_that_it_was_dropped_is_told_with_what_to_do(quick, world, caplog):
    by_hand(quick, world)
    assert waits_until(lambda: not host_of(quick).protocol.live)
    (told,) = [r.getMessage() for r in caplog.records if "dropped" in r.getMessage()]
    assert told == (
        "trip was dropped by its caller, who did not leave its block: nobody can resume it, and it is undone;"
        " enter a transaction by `with` or `async with`"
    )
    (recorded,) = quick.transactions()
    assert recorded.cause.endswith(DROPPED)


def the_block(settlement, world):
    opening = settlement.transaction("trip")
    opening.__enter__().call(world.tools.book, room="a")
    return opening, lambda: opening.__exit__(None, None, None)


def what_it_returned(settlement, world):
    tx = entered(settlement, world)
    return tx, tx.commit


def a_call_of_a_turn(settlement, world):
    planned = entered(settlement, world).turn().plan(world.tools.book, room="b")
    return planned, lambda: (planned.run(), planned._of._of.commit())


@pytest.mark.parametrize("keep", [the_block, what_it_returned, a_call_of_a_turn])
def test_it_is_not_as_long_as_anything_is_kept_by_which_somebody_may_come_back(quick, world, monkeypatch, keep):
    ended = []
    monkeypatch.setattr(host_of(quick).driver.ages, "end_dropped", ended.append)
    kept, settle = keep(quick, world)
    gc.collect()
    assert ended == []
    settle()
    assert [found.state for found in quick.transactions()] == [State.COMMITTED]
    del kept, settle
    gc.collect()
    assert [found.state for found in quick.transactions()] == [State.COMMITTED]
    assert ("cancel", "a") not in world.log


def test_a_part_that_is_dropped_within_a_call_of_another_leaves_that_as_it_is(quick, world):
    @effect("reversible", scope="plan:/{of}", undo=lambda of: None)
    def plan(of):
        quick.transaction("part").__enter__().call(world.tools.book, room="a")
        gc.collect()

    with quick.transaction("trip") as tx:
        tx.call(plan, of="it")
    assert (tx.state, world.log) == (State.COMMITTED, [("book", "a")])


def test_what_is_put_aside_stays_so_when_its_caller_is_gone(quick, world):
    def puts_aside():
        with quick.transaction("trip", park="keep") as tx:
            tx.call(world.tools.book, room="a")
            tx.park()

    puts_aside()
    gc.collect()
    with quick.transaction("trip") as tx:
        tx.call(world.tools.book, room="a")
    assert (tx.attempt, tx.state, world.log) == (1, State.COMMITTED, [("book", "a")])


def test_it_may_be_dropped_in_the_midst_of_a_step_by_whoever_holds_the_lock(quick, world):
    """As by the collector, which runs between any two instructions."""
    held = [entered(quick, world)]
    host_of(quick).ledger.now(lambda _protocol, _book: held.clear())
    assert waits_until(lambda: not host_of(quick).protocol.live)
    assert world.log == [("book", "a"), ("cancel", "a")]


def test_a_copy_of_the_process_that_drops_it_does_not_end_its_parents(open_settlement, tmp_path, world):
    settlement = open_settlement(f"sqlite:///{tmp_path / 'ledger.db'}")
    opening, settle = the_block(settlement, world)

    def drops(tell):
        nonlocal opening, settle
        del opening, settle
        gc.collect()
        tell([txn.state.value for txn in host_of(settlement).protocol.live.values()])

    assert in_child(drops, timeout=PATIENCE).told == [["open"]]
    settle()
    assert [found.state for found in settlement.transactions()] == [State.COMMITTED]


# ---- a process that is killed, wherever it is, with another one looking on


def standing_in(url):
    """What another process sees of what is unfinished: who ends each, and whether that one has a lease."""
    ledger = open_ledger(url, readonly=True)
    try:
        stand, _ = standing(ledger)
    finally:
        ledger.close()
    return [(one.ends_it, one.lease_left is not None) for one in stand]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("redact", "encrypt", "history")])
def test_what_a_killed_process_was_at_has_its_lease_and_then_whoever_takes_it_up(
    shared_url, place, open_settlement, tmp_path
):
    told, tell = os.pipe()

    def plays(_tell):
        def stops():
            os.write(tell, f"{os.getpid()}\n".encode())
            signal.pause()

        world = World(is_async=False)
        settlement = Settlement(shared_url, observe=Watching(world), on_residue=lambda _: world.here("on_residue"))
        world.arm(place, stops)
        run(Scene(world, settlement, tools_of(world)).play(place, "x"), is_async=False)

    ended = []
    child = threading.Thread(target=lambda: ended.append(in_child(plays, timeout=PATIENCE)))
    child.start()
    assert select.select([told], [], [], PATIENCE)[0], "it never came to the place"
    pid = int(os.read(told, 20))
    assert set(standing_in(shared_url)) <= {("process", True)}
    os.kill(pid, signal.SIGKILL)
    child.join(PATIENCE)
    assert ended[0].killed, ended[0].error
    assert set(standing_in(shared_url)) <= {("process", True), ("nobody", True), ("sender", True)}

    tools_of(World(is_async=False))
    settlement = open_settlement(shared_url, keep_open=0, lease=0.5)
    assert waits_until(lambda: not host_of(settlement).protocol.live), standing_in(shared_url)
    assert standing_in(shared_url) == []
    assert host_of(settlement).driver.ages.stranded() == []
    os.close(told)
    os.close(tell)


# ---- what has no program is seen, in this process and by any other


def without_maintenance(url):
    settlement = Settlement(url)
    if host_of(settlement)._maintenance is not None:
        host_of(settlement)._maintenance.stop()
    return settlement


def moved_to(settlement, state):
    """A transaction in a state, at which no program is."""
    tx = settlement.transaction("trip/book").__enter__()
    tx.call(reserve, hotel="Ada")
    tx.call(send, to="bee")
    settlement.kept = tx  # who drops it has it ended
    txn = tx._attempt.live

    def move(protocol, _book):
        if state in (State.SEALED, State.RELEASING):
            protocol.seal(txn)
        if state is State.RELEASING:
            protocol.decide(txn, releasing=True)
        if state is State.ABORTING:
            protocol.abort(txn, Reason.FAILED)
            protocol.take_aborted()

    host_of(settlement).ledger.now(move)
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
    settlement = without_maintenance(any_url)
    txn = moved_to(settlement, state)

    assert host_of(settlement).driver.ages.stranded() == [f"trip/book is {state}"]

    host_of(settlement).driver.kernel.attempts[txn].handed_over = True  # as its own end would have it
    # In memory no thread goes on with it, but who asks to recover does.
    tended = host_of(settlement).driver.kernel.wake_maintenance is not None
    assert host_of(settlement).driver.ages.stranded() == ([] if tended else [f"trip/book is {state}"])
    settlement.recover()
    assert host_of(settlement).protocol.live == {}
    settlement.close()


@pytest.mark.parametrize("state", [State.OPEN, State.SEALED, State.RELEASING, State.ABORTING])
def test_doctor_names_what_a_process_that_is_gone_has_left_with_its_scope_and_what_to_do(shared_url, state):
    settlement = without_maintenance(shared_url)
    moved_to(settlement, state)
    assert found_by_doctor(shared_url) == []  # its process is alive
    host_of(settlement).ledger.now(lambda protocol, _book: protocol.bury(host_of(settlement).ledger.worker))

    ((severity, found, advice),) = found_by_doctor(shared_url)
    assert severity == "attention"
    assert found.startswith(f"trip/book is {state} for ")
    assert "holds room:/Ada, mail:/bee" in found
    assert "settlemark recover --module" in advice
    settlement.close()


def test_doctor_says_who_is_asked_about_what_was_put_aside_and_how_to_answer(shared_url):
    settlement = without_maintenance(shared_url)
    with settlement.transaction("trip/sign", park="keep") as tx:
        tx.call(sign, what="lease")
    (asked,) = settlement.approvals()

    ((severity, found, advice),) = found_by_doctor(shared_url)
    assert severity == "note"
    assert found.startswith("trip/sign is put aside")
    assert advice.startswith("settlemark approve KEY --by NAME")
    assert advice.endswith(f"its KEY is {asked.key}")
    settlement.close()
    assert [(severity, advice)] == [(one[0], one[2]) for one in found_by_doctor(shared_url)]  # as well without it


def test_doctor_says_that_a_framework_is_to_come_back_to_what_was_put_aside(shared_url):
    settlement = without_maintenance(shared_url)
    tx = settlement.transaction("trip/book").__enter__()
    tx.call(reserve, hotel="Ada")
    host_of(settlement).ledger.now(lambda protocol, _book: protocol.park(tx._attempt.live, parked=True))

    ((severity, found, advice),) = found_by_doctor(shared_url)
    assert severity == "note"
    assert found.startswith("trip/book is put aside, nobody has it")
    assert "resume the run trip in its framework" in advice
    settlement.close()


def test_doctor_says_how_many_wait_for_what_nobody_ends(shared_url):
    settlement = without_maintenance(shared_url)
    first = settlement.transaction("first").__enter__()
    first.call(send, to="bee")
    second = settlement.transaction("second", wait=0).__enter__()
    second.call(send, to="bee")
    host_of(settlement).ledger.now(lambda protocol, _book: protocol.seal(second._attempt.live))
    host_of(settlement).ledger.now(lambda protocol, _book: protocol.bury(host_of(settlement).ledger.worker))

    found = [one[1] for one in found_by_doctor(shared_url)]
    assert [text.partition(" is ")[0] for text in found] == ["first", "second"]
    assert "; 1 waits for it" in found[0]
    assert "wait" not in found[1]
    settlement.close()


def test_who_ends_each_is_a_value_that_programs_can_read(shared_url):
    settlement = without_maintenance(shared_url)
    alive = settlement.transaction("alive").__enter__()
    alive.call(reserve, hotel="a")
    parked = settlement.transaction("parked").__enter__()
    parked.call(reserve, hotel="b")
    host_of(settlement).ledger.now(lambda protocol, _book: protocol.park(parked._attempt.live, parked=True))
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
    assert host_of(quick).driver.ages.stranded() == []


@pytest.mark.parametrize("hangs_at", ["begin", "undo", "end"])
def test_an_abort_whose_end_the_store_has_yet_to_take_is_not_stranded(tmp_path, open_settlement, monkeypatch, hangs_at):
    file = LockedFile(tmp_path)
    hang = file.hanging()

    @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: hangs_at == "undo" and hang.__enter__())
    def book(hotel):
        return hotel

    settlement = open_settlement(file.url, wait=0.3)
    host_of(settlement)._maintenance.stop()  # nobody else goes on with the abort meanwhile
    undoing = host_of(settlement).driver.undoing
    undo_effects = undoing._conclude_effects

    def undo_effects_and_hang(*of):
        left = yield from undo_effects(*of)
        hang.__enter__()
        return left

    def another_program_looks(*_of):
        """Take the transaction to be concluded, and leave it: a program is at that."""
        with host_of(settlement).driver.kernel.local as protocol:
            protocol.take_aborted(1)

    tx = settlement.transaction("trip").__enter__()
    tx.call(book, hotel="Bee")
    if hangs_at == "begin":
        hang.__enter__()
    elif hangs_at == "end":
        monkeypatch.setattr(undoing, "_conclude_effects", undo_effects_and_hang)
        monkeypatch.setattr(undoing._freshness, "keep_plan", another_program_looks)
    try:
        with suppress(LedgerError):
            tx.abort("over")
        while_it_hangs = host_of(settlement).driver.ages.stranded()
    finally:
        hang.__exit__(None, None, None)
    assert while_it_hangs == []
    settlement.recover()
    assert host_of(settlement).protocol.live == {}
