"""The parts by which a process shares a store, each alone: with others in the place of those that it stands on."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from tests.core.ledgers.twins import Twins
from tests.rooms.ledger import Acts, LateError, Lease, Limit, Watch, _limits, is_gone
from tests.rooms.record import SqlBook
from tests.rooms.replica import (
    LOOK_OFTEN_SECONDS,
    LOOK_SECONDS,
    NEVER,
    UNREADABLE,
    Batches,
    Connection,
    Enrolment,
    GroupCommit,
    Others,
    QueuedStep,
    Replica,
    SharedLog,
    SpoiltError,
    StepQueue,
    StoreTransaction,
    Taken,
    image,
    replica,
    written,
)

from settlemark import LedgerError, State
from settlemark.hosting import Protocol, Reason
from settlemark.ledger import Packer
from settlemark.testing import VirtualClock

FOREVER = 1e9
PATIENCE = 30


@pytest.fixture
def wire(store):
    """A connection in a transaction of an empty store, which is taken back at the end."""
    twins = Twins(store)
    store.wire.begin(durable=False)
    yield store.wire
    store.wire.rollback()
    twins.close()


def nothing(_protocol, _book):
    return None


def queued(step=nothing, *, waits=True, looks=False):
    answer = SimpleNamespace(done=False, value=None, error=None)

    def give(value, error=None):
        answer.done, answer.value, answer.error = True, value, error

    answer.answer = give
    return QueuedStep(step, answer if waits else None, durable=False, looks=looks)


# ---- the shared log


def test_an_entry_of_the_log_is_there_for_those_that_are_behind_it_with_its_writer(wire):
    log, other = SharedLog("ours"), SharedLog("other")
    assert (log.head(wire), log.behind(wire, 0), log.writer(wire, 1), log.image(wire)) == (0, [], None, (0, ""))
    for number in (1, 2):
        taken, at = log.lock_head(wire)
        assert (taken, at > 0) == (number, True)
        log.append(wire, taken, f"worker {number}", f"[{number}]")
    assert (log.head(wire), other.head(wire)) == (2, 0)
    assert [tuple(row) for row in log.behind(wire, 0)] == [(1, "[1]"), (2, "[2]")]
    assert [tuple(row) for row in log.behind(wire, 1)] == [(2, "[2]")]
    assert (log.writer(wire, 2), other.behind(wire, 0), other.writer(wire, 2)) == ("worker 2", [], None)


def test_an_image_stands_in_the_place_of_the_one_before_and_what_is_dropped_is_behind_nobody(wire):
    log = SharedLog("ours")
    for number in (1, 2, 3):
        log.append(wire, log.lock_head(wire)[0], "worker", f"[{number}]")
    log.write_image(wire, 1, "first")
    log.write_image(wire, 2, "second")
    log.drop(wire, 2)
    assert (log.image(wire), SharedLog("other").image(wire)) == ((2, "second"), (0, ""))
    assert ([tuple(row) for row in log.behind(wire, 0)], log.head(wire)) == ([(3, "[3]")], 3)


# ---- the connection


def test_a_connection_is_opened_once_and_anew_after_it_was_let_go(store):
    connection = Connection(store.connected(), store.url)
    assert connection.wire is None
    first = connection.opened()
    assert connection.opened() is first
    connection.let_go()
    assert connection.wire is None
    second = connection.opened()
    assert second is not first
    connection.let_go()
    connection.engine.dispose()


# ---- the queue


def test_what_is_put_back_is_taken_next_in_its_order_without_what_is_over():
    queue, steps = StepQueue(), [queued() for _ in range(4)]
    queue.steps.append(steps[3])
    steps[1].over = True
    queue.put_back(steps[:3])
    assert list(queue.steps) == [steps[0], steps[2], steps[3]]


@pytest.mark.parametrize("idle", [False, True])
def test_a_step_for_later_wakes_the_thread_that_takes_it_where_that_sleeps(idle):
    queue = StepQueue()
    queue.idle = idle
    queue.later(nothing)
    assert (len(queue.steps), queue.steps[0].answer, queue.idle, queue.wake.is_set()) == (1, None, False, idle)


def test_the_next_thread_that_still_waits_is_woken_and_no_other():
    queue, woken = StepQueue(), []
    for name, done in (("told", True), ("first", False), ("second", False)):
        queue.waiting.append(SimpleNamespace(done=done, wake=lambda name=name: woken.append(name)))
    queue.pass_on()
    assert (woken, len(queue.waiting)) == (["first"], 1)


def test_a_forked_childs_queue_is_empty_and_its_parents_locks_are_not_its_own():
    queue = StepQueue()
    queue.later(nothing)
    queue.marking.acquire()
    queue.in_child()
    assert (list(queue.steps), queue.marking.acquire(blocking=False)) == ([], True)


def test_what_a_step_did_here_is_taken_back_last_first_and_once():
    step, undone = queued(), []
    step.rollbacks = [lambda: undone.append(1), lambda: undone.append(2)]
    step.roll_back()
    step.roll_back()
    assert undone == [2, 1]


# ---- the others


def test_others_are_looked_for_often_while_somebody_waits_for_them():
    wake = threading.Event()
    others = Others(sa.create_engine("sqlite://"), "ours", wake, alone=0.7)
    assert others.pace == 0.7
    others.listen(1)
    assert (others.pace, wake.is_set()) == (0.7, False)
    others.count = 1
    assert others.pace == LOOK_OFTEN_SECONDS
    others.listen(1)
    assert wake.is_set()
    others.listen(-1)
    others.listen(-1)
    assert (others.listeners, others.pace) == (0, LOOK_SECONDS)


# ---- the list of workers, and the lease


class World:
    """The parts under a replica."""

    def __init__(self, *, lease=30.0):
        self.clock = VirtualClock()
        self.lease = Lease(lease, self.clock.monotonic, namespace="ours")
        self.watch = Watch(self.clock.monotonic)
        self.acts, self.queue = Acts(), StepQueue()
        self.others = Others(sa.create_engine("sqlite://"), "ours", self.queue.wake, alone=1.0)
        self.enrolment = Enrolment("ours", self.lease, self.acts, self.others, self.queue)
        self.log = SharedLog("ours")
        self.replica = Replica(self.log, self.lease, self.enrolment, self.others, "sqlite://")

    def book(self, wire, worker=None):
        return SqlBook(wire, "ours", worker or self.lease.worker, Packer(), self.watch)

    def renews(self, wire):
        self.enrolment.renew(wire, self.book(wire), self.replica.applied)


def test_a_worker_is_on_the_list_once_it_renews_and_then_counts_the_others(wire):
    one, two = World(), World()
    assert not one.enrolment.is_entered(wire)
    one.replica.applied = 7
    one.renews(wire)
    assert (one.enrolment.is_entered(wire), one.others.count, one.enrolment.least_applied(wire)) == (True, 0, None)
    two.renews(wire)
    assert (two.others.count, two.enrolment.least_applied(wire), one.enrolment.least_applied(wire)) == (1, 7, 0)


def test_a_worker_that_others_have_buried_is_on_the_list_no_more(wire):
    one, two = World(), World()
    one.renews(wire)
    two.renews(wire)
    book = two.book(wire)
    book.mark_zombie(one.lease.worker)
    book.flush()
    assert (one.enrolment.is_entered(wire), two.enrolment.is_entered(wire)) == (False, True)


def test_for_how_long_a_ghost_was_watched_is_noted_when_it_is_a_second_longer_and_not_each_time(wire):
    one, two, now = World(), World(), [0.0]
    one.renews(wire)
    two.renews(wire)
    book = two.book(wire)
    book.mark_zombie(one.lease.worker)
    two.watch.is_to_bury = two.watch.cannot_send = lambda _row: False
    two.watch.watched = lambda _row: now[0]
    noted = []
    for seconds in (0.5, 1.0, 1.5, 3.0):
        now[0] = seconds
        assert book.gone() == []
        book.flush()
        noted += [row.watched for row in book.workers()]
    assert noted == [0.0, 1.0, 1.0, 3.0]


def test_a_lost_name_is_told_and_leaves_the_list_once_nothing_that_it_began_is_out():
    world, told = World(), []
    former = world.lease.worker
    world.enrolment.on_lost = lambda worker, count: told.append((worker, count))
    with world.acts.out(former):
        world.lease.lose(Protocol())
        world.enrolment.tell_lost()
        assert (told, list(world.queue.steps)) == ([(former, 0)], [])
    world.enrolment.tell_lost()
    assert told == [(former, 0)]
    world.enrolment.remove_former(world.lease.worker)
    assert list(world.queue.steps) == []
    world.enrolment.remove_former(former)
    struck = []
    world.queue.steps.popleft().step(None, SimpleNamespace(remove_workers=struck.extend))
    assert struck == [former]


def test_whoever_waits_for_acts_does_not_wait_for_one_in_an_event_loop_that_was_stopped():
    acts, begun = Acts(), []

    async def act():
        with acts.out("ours"):
            begun.append(True)
            await asyncio.Event().wait()

    loop = asyncio.new_event_loop()
    task = loop.create_task(act())
    while not begun:
        loop.run_until_complete(asyncio.sleep(0))
    waiting = threading.Thread(target=acts.wait, args=(FOREVER,), daemon=True)
    waiting.start()
    waiting.join(PATIENCE)
    waits = waiting.is_alive()
    assert acts.of("ours")
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()
    assert (waits, acts.of("ours")) == (False, False)


def test_a_worker_whose_store_fails_as_it_leaves_is_seen_by_its_neighbours_to_do_nothing_more():
    world = World()
    former = world.lease.worker
    world.lease.lose(Protocol())
    worker = world.lease.worker
    world.lease.renewed(world.lease.now())
    with world.acts.out(former):
        world.enrolment.retire_names(worker)
        assert (is_gone(worker), is_gone(former), world.lease.is_held) == (True, False, False)


def test_a_lost_lease_leaves_a_transaction_that_can_move_nothing_and_a_worker_of_another_name(caplog):
    world, protocol = World(), Protocol()
    lease, former = world.lease, world.lease.worker
    mine, theirs = protocol.begin("mine", owner=former), protocol.begin("theirs", owner="other")
    lease.renewed(lease.now())
    lease.lose(protocol)
    assert (mine.state, mine.reason, theirs.state) == (State.ABORTED, Reason.LEASE, State.OPEN)
    assert [(txn.name, txn.owner, txn.state) for txn in protocol.live.values()] == [
        ("mine", former, State.OPEN),
        ("theirs", "other", State.OPEN),
    ]
    assert protocol.named["mine"] is not mine
    assert (lease.former, lease.lost, lease.is_held) == ((former,), [(former, 1)], False)
    assert lease.worker != former
    (told,) = caplog.records
    assert (told.levelname, told.getMessage()) == (
        "ERROR",
        f"{former} lost its lease: it did not move for 30 s; 1 unfinished transaction(s) are others' now",
    )
    assert told.settlemark == {"ledger": "", "namespace": "ours", "worker": former, "transactions": ["mine"]}


# ---- the replica


def entry(world, wire, *steps, worker="other"):
    """Write what another replica did as the log's next entry, and return the state that it is in then."""
    for step in steps:
        journal = []
        world.protocol.journal = journal
        step(world.protocol)
        world.protocol.journal = None
        world.log.append(wire, world.log.lock_head(wire)[0], worker, f"[{written(journal)}]")
    return image(world.protocol)


@pytest.fixture
def elsewhere():
    return SimpleNamespace(protocol=Protocol(), log=SharedLog("ours"))


def begins(name, owner="other"):
    return lambda protocol: protocol.begin(name, owner=owner)


def test_a_replica_takes_what_others_wrote_to_the_log_and_is_in_their_state(wire, elsewhere):
    world = World()
    assert world.replica.applied == NEVER
    first = entry(elsewhere, wire, begins("a"))
    world.replica.catch_up(wire, 1)
    assert (image(world.replica.protocol), world.replica.applied, world.others.count) == (first, 1, 0)
    second = entry(elsewhere, wire, begins("b"), begins("c"))
    world.replica.catch_up(wire, 3)
    assert (image(world.replica.protocol), world.replica.applied, world.others.count) == (second, 3, 1)


def test_a_replica_whose_log_is_cut_begins_anew_at_the_image(wire, elsewhere, monkeypatch):
    world, behind = World(), World()
    entry(elsewhere, wire, begins("a"))
    behind.replica.catch_up(wire, 1)
    entry(elsewhere, wire, begins("b"))
    world.replica.catch_up(wire, 2)
    world.replica.write_image(wire, 2)
    assert world.log.image(wire) == (0, "")
    monkeypatch.setattr(replica, "IMAGE_EVERY", -10)
    world.replica.write_image(wire, 2)
    assert (world.log.image(wire)[0], [number for number, _ in world.log.behind(wire, 0)]) == (2, [2])
    third = entry(elsewhere, wire, begins("c"))
    behind.replica.catch_up(wire, 3)
    assert (image(behind.replica.protocol), behind.replica.applied, behind.replica.repairs) == (third, 3, [])


def test_a_replica_that_reads_in_the_log_that_it_was_buried_lets_go(wire, elsewhere):
    world = World()
    worker = world.lease.worker
    entry(elsewhere, wire, begins("a", owner=worker))
    world.replica.catch_up(wire, 1)
    (mine,) = world.replica.protocol.live.values()
    entry(elsewhere, wire, lambda protocol: protocol.bury(worker))
    world.replica.catch_up(wire, 2)
    assert (mine.reason, world.lease.lost, world.replica.applied) == (Reason.LEASE, [(worker, 1)], 2)
    assert image(world.replica.protocol) == image(elsewhere.protocol)


def test_a_replica_believes_nothing_of_itself_while_it_cannot_read_the_log(wire, elsewhere):
    world = World()
    entry(elsewhere, wire, begins("a"))
    world.replica.catch_up(wire, 1)
    world.log.append(wire, world.log.lock_head(wire)[0], "other", '["no command"]')
    with pytest.raises(Exception, match="entry 2 of the log cannot be read"):
        world.replica.catch_up(wire, 2)
    assert world.replica.applied == UNREADABLE


# ---- a transaction of the store


@pytest.fixture
def transaction(store):
    world = World()
    twins = Twins(store)
    connection = Connection(store.connected(), store.url)
    world.transaction = StoreTransaction(
        connection,
        world.replica,
        world.log,
        world.lease,
        enrolment=world.enrolment,
        others=world.others,
        watch=world.watch,
        queue=world.queue,
    )
    world.stored = lambda: twins.ours.rows("log")
    world.connection = connection
    yield world
    connection.let_go()
    connection.engine.dispose()
    twins.close()


def test_steps_of_one_transaction_are_one_entry_and_each_has_its_answer(transaction):
    world = transaction

    def refused(protocol, _book):
        protocol.begin("b", owner=world.lease.worker)
        raise LedgerError("no")

    steps = [queued(lambda p, _: p.begin("a", owner=world.lease.worker).name), queued(nothing)]
    world.transaction.take(steps)
    taken = world.transaction.taken
    assert (taken.number, taken.outcomes) == (1, [(None, "a"), (None, None)])
    assert (len(world.stored()), world.replica.applied, world.lease.is_held) == (1, 1, True)
    with pytest.raises(SpoiltError) as spoilt:
        world.transaction.take([queued(), at_fault := queued(refused)])
    assert spoilt.value.item is at_fault
    assert world.transaction.find_out(transient=True) is False
    world.transaction.undo([at_fault])
    assert (len(world.stored()), world.replica.applied) == (1, 1)
    assert [txn.name for txn in world.replica.protocol.live.values()] == ["a"]


def test_steps_that_only_look_write_nothing(transaction):
    world = transaction
    world.transaction.take([queued()])
    before = world.stored()
    world.transaction.take([queued(lambda protocol, _book: protocol.next_epoch, looks=True)])
    assert (world.transaction.taken.number, world.stored()) == (1, before)


def test_a_transaction_whose_answer_was_lost_is_found_in_the_log(transaction):
    world = transaction
    world.transaction.take([queued(lambda p, _: p.begin("a", owner=world.lease.worker).name)])
    world.replica.applied = 0  # as if nobody knew
    assert world.transaction.find_out(transient=False) is True
    assert (world.replica.applied, [txn.name for txn in world.replica.protocol.live.values()]) == (1, ["a"])


def test_a_step_that_a_rolled_back_transaction_had_taken_is_in_doubt_no_more(transaction):
    world = transaction
    step = queued(lambda p, _: p.begin("a", owner=world.lease.worker).name)
    world.transaction.take([step])
    assert step.taking
    world.transaction.undo([step])
    assert not step.taking  # whoever gives up on it now is told that it was not recorded


@pytest.mark.parametrize("transient", [False, True])
def test_what_a_store_that_went_back_needs_is_written_though_nobody_has_a_step_for_it(
    transaction, monkeypatch, transient
):
    world, begin_anew = transaction, transaction.replica.begin_anew
    world.transaction.take([queued(lambda p, _: p.begin("a", owner=world.lease.worker).name)])

    def gone_back(wire):
        begin_anew(wire)
        return [begins("b", owner=world.lease.worker)]

    monkeypatch.setattr(world.replica, "begin_anew", gone_back)
    world.transaction.find_out(transient=transient)
    waiting = list(world.queue.steps)
    assert (len(world.replica.repairs), len(waiting)) == ((0, 0) if transient else (1, 1))


# ---- a batch


class Takes:
    """What stands in for a transaction: it fails for what its `at_fault` says, and takes the rest."""

    def __init__(self, at_fault=(), error=None, committed=False):
        self.at_fault, self.error, self.committed = at_fault, error, committed
        self.taken = self.silence = None
        self.tried, self.undone, self.refused = [], [], []

    def take(self, items):
        self.tried.append(list(items))
        if any(item in self.at_fault for item in items):
            raise self.error
        self.taken = Taken(1, [(None, "done") for _ in items], [])

    def find_out(self, *, transient):
        del transient
        return self.committed

    def undo(self, items):
        self.undone.append(list(items))

    def refuse(self, item, error):
        self.refused.append((item, error))
        item.over = True

    def delivered(self):
        pass


def batches(queue, takes):
    world = World()
    connection = Connection(sa.create_engine("sqlite://"), "sqlite://")
    return Batches(
        queue, takes, world.replica, world.log, connection=connection, lease=world.lease, enrolment=world.enrolment
    )


def test_a_batch_is_taken_together_and_each_caller_answered():
    queue, takes, steps = StepQueue(), Takes(), [queued() for _ in range(3)]
    queue.steps.extend(steps)
    batch = batches(queue, takes)
    batch.take_queued()
    assert takes.tried == [steps]
    assert [(step.over, step.answer.value) for step in steps] == [(True, "done")] * 3
    assert (batch.count, batch.was_shared, batch.left()) == (1, True, [])


def test_a_step_at_fault_is_found_by_halves_and_the_rest_is_taken_in_its_order():
    queue, steps = StepQueue(), [queued() for _ in range(4)]
    queue.steps.extend(steps)
    takes = Takes({steps[1]}, ValueError("cannot be stored"))
    batches(queue, takes).take_queued()
    assert [item for item, _ in takes.refused] == [steps[1]]
    assert takes.tried == [steps, steps[:2], steps[:1], steps[1:2], steps[2:]]
    assert [step.answer.value for step in steps] == ["done", None, "done", "done"]


def test_where_the_store_fails_callers_are_told_and_what_nobody_waits_for_stays_queued():
    queue, waits, later = StepQueue(), queued(), queued(waits=False)
    queue.steps.extend([waits, later])
    driver = sa.create_engine("sqlite://").dialect.loaded_dbapi
    batch = batches(queue, Takes({later}, driver.OperationalError("disk I/O error")))
    batch.take_queued()
    assert (type(waits.answer.error), list(queue.steps), batch.failing) == (LedgerError, [later], True)


def test_a_store_that_is_silent_leaves_a_batch_in_doubt_until_it_says_what_became_of_it():
    queue, step = StepQueue(), queued()
    queue.steps.append(step)
    takes = Takes({step}, sa.exc.OperationalError("COMMIT", {}, LateError()), committed=None)
    batch = batches(queue, takes)
    batch.take_queued()
    assert (batch.in_doubt, step.over, step.answer.done, batch.left()) == ([step], False, False, [step])
    takes.committed, takes.taken = True, Taken(1, [(None, "it was taken")], [])
    batch.take_queued()
    assert (batch.in_doubt, step.answer.value, len(takes.tried)) == (None, "it was taken", 1)


def test_an_interrupted_leader_leaves_the_others_steps_to_the_next():
    queue, steps = StepQueue(), [queued() for _ in range(3)]
    queue.steps.extend(steps)
    batch = batches(queue, Takes({steps[0]}, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        batch.take_queued(steps[1].answer)
    assert (list(queue.steps), queue.woken) == ([steps[0], steps[2]], True)


# ---- group commit


class Led:
    """What stands in for batches: it answers all that is queued when it is led."""

    def __init__(self, queue):
        self.queue, self.limit, self.stalled, self.leaders = queue, Limit(), False, []

    def gather(self):
        pass

    def take_queued(self, leader=None):
        self.leaders.append(leader)
        while self.queue.steps:
            step = self.queue.steps.popleft()
            if not step.over:
                step.answer.answer("done")


@pytest.fixture
def commits():
    queue = StepQueue()
    connection = Connection(sa.create_engine("sqlite://"), "sqlite:///trip.db")
    return GroupCommit(queue, Led(queue), World().replica, connection, wait=PATIENCE)


def test_a_caller_takes_in_its_own_thread_what_others_have_queued_before_it(commits):
    first, second = (commits.submit(nothing, durable=False) for _ in range(2))
    second.lead()
    assert (first.result(0), second.result(0), commits.is_led) == ("done", "done", False)
    assert commits._batches.leaders == [second]
    first.lead()
    assert commits._batches.leaders == [second]


def test_a_caller_that_is_interrupted_when_it_was_to_lead_leaves_the_others_steps_to_the_thread(commits, monkeypatch):
    def interrupted(_answer):
        raise KeyboardInterrupt

    mine, theirs = (commits.submit(nothing, durable=False) for _ in range(2))
    commits.queue.woken = False
    monkeypatch.setattr(commits, "lead", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mine.lead()
    assert (commits.queue.woken, mine.done, theirs.done) == (True, True, False)


def test_a_step_that_is_given_up_before_it_is_begun_is_withdrawn(commits):
    answer = commits.submit(nothing, durable=False)
    answer.give_up()
    commits.lead()
    with pytest.raises(LedgerError, match="the step was withdrawn, so nothing was run"):
        answer.result(0)
    assert not commits._batches.stalled


def test_a_step_that_is_given_up_while_it_is_taken_is_in_doubt_and_what_it_did_here_taken_back(commits):
    undone = []
    answer = commits.submit(nothing, durable=False)
    step = answer.item
    step.taking, step.rollbacks = True, [lambda: undone.append("seat")]
    answer.limit.since = time.monotonic() - PATIENCE
    answer.give_up()
    with pytest.raises(LedgerError, match="not known yet") as raised:
        answer.result(0)
    assert (raised.value.data["in_doubt"], undone, commits._batches.stalled) == (True, ["seat"], True)


def test_waits_end_soon_once_the_ledger_is_to_be_closed(commits, monkeypatch):
    monkeypatch.setattr(_limits, "LEAST_SECONDS", 0.5)
    monkeypatch.setattr(_limits, "CLOSE_SECONDS", 5.0)
    answer = commits.submit(nothing, durable=False)
    commits.queue.waiting.append(answer)
    assert answer.remaining > PATIENCE / 2
    commits.expect_end()
    assert answer.remaining < PATIENCE / 2
    commits._batches.stalled = True
    assert commits.submit(nothing, durable=False, wait=PATIENCE).limit.at - time.monotonic() < 1


def test_in_a_forked_child_nobody_leads(commits):
    commits.leading.acquire()
    commits.in_child()
    assert not commits.is_led
