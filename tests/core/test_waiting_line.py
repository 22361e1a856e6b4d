"""One cell that everybody wants: who lost a race stands in line, and begins again when it will not lose it again."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.core.explorer.explorer import explore
from tests.rooms.api import in_the_way
from tests.rooms.model import Guards
from tests.rooms.protocol import Mode
from tests.rooms.replica import image, load
from tests.rooms.runtime import carry_out

from settlemark import Scope, State, Transaction, UsageError, WaitTimeout, effect
from settlemark.hosting import Reason, Wait, host_of, run_sync

AGENTS, TIMES = 16, 10
PATIENCE = 60


class Cell:
    """A number, and tools that overwrite it with what they are told."""

    def __init__(self):
        self.value = 0
        self.bodies = 0
        self.lock = threading.Lock()

        def back(result):
            self.value = result["before"]

        @effect("reversible", scope="cell:/1", undo=back)
        def overwrite(value):
            before, self.value = self.value, value
            return {"before": before}

        @effect("staged", scope="cell:/1")
        def overwrite_later(value):
            self.value = value

        self.eager, self.staged = overwrite, overwrite_later

    def look(self):
        return self.value

    def count(self):
        with self.lock:
            self.bodies += 1


@pytest.fixture
def cell():
    return Cell()


# ---- how often the body runs


def agents_in_threads(settlement, cell, write, **options):
    """Let agents add one, over and over; all have read before the first of them writes."""
    together = threading.Barrier(AGENTS)
    failed = []

    def agent(number):
        for time in range(TIMES):

            def body(tx, time=time):
                cell.count()
                seen = tx.read("cell:/1", cell.look)
                if time == 0 and tx.attempt == 1:
                    together.wait(PATIENCE)
                tx.call(write, value=seen + 1)

            try:
                settlement.run(f"agent-{number}/{time}", body, **options)
            except Exception as error:
                failed.append(error)
                raise

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failed == []


def agents_in_tasks(settlement, cell, write, **options):
    """Do the same in one event loop."""

    async def agents():
        together = asyncio.Barrier(AGENTS)

        async def agent(number):
            for time in range(TIMES):

                async def body(tx, time=time):
                    cell.count()
                    seen = await tx.read("cell:/1", cell.look)
                    if time == 0 and tx.attempt == 1:
                        await together.wait()
                    await tx.call(write, value=seen + 1)

                await settlement.run(f"agent-{number}/{time}", body, **options)

        await asyncio.gather(*(agent(number) for number in range(AGENTS)))

    asyncio.run(asyncio.wait_for(agents(), PATIENCE))


@pytest.mark.deep
@pytest.mark.every_store
@pytest.mark.parametrize(
    ("act", "kind"), [(agents_in_threads, "eager"), (agents_in_tasks, "staged")], ids=["threads", "tasks"]
)
def test_of_agents_on_one_cell_each_loses_a_race_once_at_most(url, open_settlement, cell, act, kind):
    settlement = open_settlement(url)
    act(settlement, cell, getattr(cell, kind))
    commits = AGENTS * TIMES
    assert cell.value == commits
    assert commits + AGENTS - 1 <= cell.bodies <= 1.3 * commits
    assert host_of(settlement).protocol.live == {}
    assert settlement.residue() == []


@pytest.mark.parametrize("reads", ["settled", "early"])
def test_with_early_reads_too_who_lost_a_race_stands_in_line(open_settlement, cell, reads):
    settlement = open_settlement(reads=reads)
    agents_in_threads(settlement, cell, cell.eager)
    assert cell.value == AGENTS * TIMES
    assert cell.bodies <= 1.3 * AGENTS * TIMES


# ---- who waits for whom


def lost(stage, name="again", *, scope="cell:/1", writes=True, **options):
    """One that has read a scope, and perhaps asked to write, and begins again because another has written."""
    txn = stage.begin(name, retry=True, **{"queues": True, **options})
    stage.read(txn, scope)
    if writes:
        stage.hold(txn, f"door:/{name}")
    stage.protocol.abort(txn, Reason.STALE, scope=Scope.parse(scope))
    assert stage.protocol.take_aborted() == [txn]
    return txn.successor


def ahead(stage, txn):
    blocked = stage.protocol.ahead(txn)
    return None if blocked is None else blocked.holder


def test_one_that_begins_again_waits_for_every_older_holder_of_what_it_had_read_and_no_other(stage):
    oldest, older = stage.begin("oldest", "cell:/1/a"), stage.begin("older", "cell:/*")
    stage.begin("elsewhere", "wall:/1"), stage.begin("on what it wrote", "door:/again")
    again = lost(stage)
    stage.begin("younger", "cell:/1")
    assert ahead(stage, again) is older
    stage.commit(older)
    assert ahead(stage, again) is oldest
    stage.commit(oldest)
    assert ahead(stage, again) is None


@pytest.mark.parametrize(
    "options",
    [
        {"writes": False},
        {"queues": False},
        {"guards": Guards(current=False)},
    ],
    ids=["it only looked", "it stands in no line", "with that guard off"],
)
def test_others_begin_again_at_once(stage, options):
    stage.begin("older", "cell:/1")
    again = lost(stage, **options)
    assert (ahead(stage, again), again.begins_again, stage.protocol.board.index.lined) == (None, False, 0)


def test_who_was_put_aside_is_not_waited_for_until_somebody_comes_back_to_it(stage):
    parked = stage.begin("parked", "cell:/1")
    again = lost(stage)
    ticket = stage.protocol.watch(parked)
    stage.protocol.park(parked, parked=True)
    assert ticket.fired
    assert ahead(stage, again) is None
    stage.protocol.park(parked, parked=False)
    assert ahead(stage, again) is parked


def test_one_that_is_tied_stands_in_no_line(stage):
    stage.begin("older", "cell:/1")
    caller = stage.begin("caller")
    inner = lost(stage, parent=caller.id)
    hold = stage.begin("hold", role="hold")
    under = lost(stage, "under", group=hold.id)
    assert [ahead(stage, txn) for txn in (inner, under)] == [None, None]


def test_what_was_read_once_is_read_again_at_once_though_somebody_stands_in_line_there(stage):
    loser, reader = stage.begin("loser", queues=True, retry=True), stage.begin("reader", queues=True)
    for txn in (loser, reader):
        stage.read(txn, "cell:/1")
    stage.hold(loser, "door:/1")
    stage.protocol.abort(loser, Reason.STALE, scope=Scope.parse("cell:/1"))
    assert loser.successor.begins_again
    assert stage.ask(reader, "cell:/1", Mode.READ)[1] is None


def test_one_that_had_asked_to_write_stands_in_line_also_when_it_read_something_behind_that(stage):
    loser = stage.begin("loser", queues=True, retry=True)
    stage.read(loser, "cell:/1")
    stage.hold(loser, "door:/1")
    stage.read(loser, "cell:/2")
    stage.protocol.abort(loser, Reason.STALE, scope=Scope.parse("cell:/1"))
    assert loser.successor.begins_again


def test_one_that_loses_again_stands_in_line_again(stage):
    older, again = stage.begin("older", "cell:/1"), lost(stage)
    stage.read(again, "cell:/1")
    stage.hold(again, "door:/again")
    stage.protocol.abort(again, Reason.STALE, scope=Scope.parse("cell:/1"))
    assert ahead(stage, again.successor) is older


def test_what_runs_inside_a_call_may_wait_for_one_in_line_that_waits_elsewhere_for_nobody(stage):
    caller = stage.begin("caller")
    stage.hold(caller, "door:/again")
    again = lost(stage)
    inner = stage.begin("inner", parent=caller.id)
    stage.hold(inner, "cell:/1")
    stage.protocol.seal(inner)
    assert stage.protocol.decide(inner).holder is again


def test_one_that_is_restamped_keeps_its_stand_in_line(stage):
    again, writer = lost(stage), stage.begin("writer")
    stage.write(writer, "lamp:/1")
    stage.commit(writer)
    stage.read(again, "lamp:/1")
    assert again.position > writer.position
    assert stage.ask(stage.begin("second", queues=True), "cell:/1", Mode.READ)[1] is again


def test_its_first_request_ends_its_standing_in_line(stage):
    stage.begin("older", "cell:/1")
    again = lost(stage)
    stage.hold(again, "door:/1")
    assert (again.begins_again, ahead(stage, again)) == (False, None)


def test_one_that_is_sealed_without_a_request_stands_in_line_no_more(stage):
    stage.begin("older", "cell:/1")
    again = lost(stage)
    stage.protocol.seal(again)
    assert (again.begins_again, ahead(stage, again)) == (False, None)


def test_a_first_read_stands_in_the_line_of_who_lost_a_race_there_and_others_behind_it(stage):
    again = lost(stage)
    second = stage.begin("second", queues=True)
    call, holder = stage.ask(second, "cell:/1", Mode.READ)
    assert holder is again
    third = stage.begin("third", queues=True)
    assert stage.ask(third, "cell:/**", Mode.READ)[1] is second
    stage.commit(again)
    assert stage.protocol.admit(call) is None
    stage.protocol.acted(call, happened=True)
    assert stage.ask(stage.begin("fourth", queues=True), "cell:/1", Mode.READ)[1] is third


@pytest.mark.parametrize("queues", [True, False], ids=["it queues", "it stands in no line"])
def test_a_claim_waits_for_who_stands_in_line_there_until_that_one_has_begun(stage, queues):
    older = stage.begin("older", "cell:/1")
    again = lost(stage)
    younger = stage.begin("younger", queues=queues)
    call, holder = stage.ask(younger, "cell:/1", Mode.EAGER)
    assert holder is again
    ticket = stage.protocol.watch(again)
    stage.commit(older)
    assert stage.protocol.admit(call).holder is again  # nobody is before it, and it has yet to begin
    stage.read(again, "cell:/1")
    assert ticket.fired
    assert stage.protocol.admit(call) is None
    assert younger.state is State.OPEN


@pytest.mark.parametrize("end", ["seals", "aborts", "is put aside", "loses its worker"])
def test_a_claim_waits_no_more_for_one_that_does_not_begin_again(stage, end):
    stage.begin("older", "cell:/1")
    again = lost(stage, owner="it")
    call, holder = stage.ask(stage.begin("younger"), "cell:/1", Mode.EAGER)
    assert holder is again
    ticket = stage.protocol.watch(again)
    match end:
        case "seals":
            stage.protocol.seal(again)
        case "aborts":
            stage.protocol.abort(again, Reason.FAILED)
        case "is put aside":
            stage.protocol.park(again, parked=True)
        case _:
            stage.protocol.bury("it")
    assert ticket.fired
    assert stage.protocol.admit(call) is None


@pytest.mark.parametrize("who", ["is older", "is tied", "reads", "is hasty", "is elsewhere"])
def test_a_claim_does_not_wait_for_the_line_when_its_transaction(stage, who):
    first, caller = stage.begin("first"), stage.begin("caller")
    again = lost(stage)
    txn = first if who == "is older" else stage.begin("txn", parent=caller.id if who == "is tied" else 0)
    if who == "reads":  # those ahead may wait for that
        assert stage.ask(txn, "wall:/1", Mode.READ)[1] is None
    call = stage.protocol.request(txn, Scope.parse("cell:/2" if who == "is elsewhere" else "cell:/1"), Mode.EAGER)
    assert stage.protocol.admit(call, None, who != "is hasty") is None
    assert again.begins_again


def test_who_stands_in_no_line_reads_beside_it_at_once(stage):
    again = lost(stage)
    for options in ({}, {"queues": True, "parent": again.id}):
        stage.read(stage.begin(f"reader {len(options)}", **options), "cell:/2" if options else "cell:/1")
    call = stage.protocol.request(stage.begin("hasty", queues=True), Scope.parse("cell:/1"), Mode.READ)
    assert stage.protocol.admit(call, None, False) is None


def test_elsewhere_nobody_stands_in_line_and_at_the_end_there_is_none(stage):
    again = lost(stage)
    other = stage.begin("other", queues=True)
    stage.read(other, "cell:/2")
    assert stage.protocol.board.index.lined == 1
    stage.commit(other)
    stage.commit(again)
    assert (stage.protocol.board.index.lined, stage.protocol.board.index.root.children) == (0, {})


def test_a_line_is_in_the_image_of_its_protocol(stage):
    older = stage.begin("older", "cell:/1")
    again = lost(stage)
    second = stage.begin("second", queues=True)
    assert stage.ask(second, "cell:/1", Mode.READ)[1] is again
    before = stage.protocol.freeze()
    load(stage.protocol, image(stage.protocol))
    assert stage.protocol.freeze() == before
    assert ahead(stage, again) is older
    assert stage.ask(stage.begin("third", queues=True), "cell:/1", Mode.READ)[1] is second


# ---- who is in the way


def waits_of(stage, txn):
    """Whom a transaction waits for, as every process tells it; looking at it moves nothing."""
    before = stage.protocol.freeze()
    told = [(blocked.holder.name, blocked.scope.text) for blocked, _ in in_the_way(stage.protocol, txn)]
    assert stage.protocol.freeze() == before
    return told


def test_who_lost_a_race_is_told_to_wait_for_those_before_it_until_it_has_begun(stage):
    older = stage.begin("older", "cell:/1")
    again = lost(stage)
    assert waits_of(stage, again) == [("older", "cell:/1")]
    stage.commit(older)
    assert waits_of(stage, again) == []


@pytest.mark.parametrize("mode", [Mode.READ, Mode.EAGER, Mode.FINAL])
def test_who_stands_in_a_line_is_told_to_wait_for_the_one_before_it(stage, mode):
    again = lost(stage)
    younger = stage.begin("younger", queues=True)
    _, holder = stage.ask(younger, "cell:/1", mode)
    assert holder is again
    assert waits_of(stage, younger) == [(again.name, "cell:/1")]
    load(stage.protocol, image(stage.protocol))
    assert waits_of(stage, stage.protocol.named["younger"]) == [(again.name, "cell:/1")]


# ---- how long


def in_time(clock, program):
    """Run a program by itself: where it waits, the clock goes on, second by second."""
    answer = failure = None
    while True:
        try:
            request = program.send(answer) if failure is None else program.throw(failure)
        except StopIteration as stop:
            return stop.value
        answer = failure = None
        if type(request) is Wait:
            until = clock.monotonic() + request.seconds
            while not request.ticket.fired and clock.monotonic() < until:
                clock.advance(min(1, until - clock.monotonic()))
            answer = request.ticket.fired
            continue
        try:
            answer = carry_out(request)
        except Exception as error:
            failure = error


@pytest.fixture
def behind(url, open_here, cell):
    """A settlement that waits for 30 seconds, and the oldest two of those who write a cell."""
    settlement = open_here(url, wait=30, lease=10_000)
    first, second = (settlement.transaction(name).__enter__() for name in ("first", "second"))
    for tx in (first, second):
        tx.call(cell.staged, value=1)
    yield settlement, first, second
    for tx in (first, second):
        if tx.state is State.OPEN:
            tx.abort()


def third_of(settlement, cell):
    third = settlement.transaction("third").__enter__()
    third.call(cell.staged, value=3)
    return third


@pytest.mark.parametrize("moves", [None, 1, 20, 29])
def test_a_wait_is_given_up_when_nobody_before_it_has_moved_for_so_long(clock, behind, cell, moves):
    settlement, first, _ = behind
    third = third_of(settlement, cell)
    if moves is not None:
        clock.at(moves, first.commit)
    with pytest.raises(WaitTimeout, match="third was undone: it waited 30 s for second, which holds cell:/1") as late:
        in_time(clock, host_of(settlement).driver.settling.commit(third._attempt))
    assert clock.monotonic() == 30 + (moves or 0)
    assert late.value.holder == "second"
    assert cell.value == (0 if moves is None else 1)
    assert third.state is State.ABORTED


def test_whom_a_call_waited_for_in_vain_is_told_with_who_is_first_in_its_way(clock, behind, cell):
    settlement, _first, _ = behind
    third = settlement.transaction("third").__enter__()
    call = third._effect(cell.eager, (), {"value": 3})
    with pytest.raises(WaitTimeout) as late:
        in_time(clock, host_of(settlement).driver.calls.call(third._attempt, call))
    assert str(late.value) == (
        "third gave up after 30 s waiting for second, which holds cell:/1, behind first: nothing was run;"
        " try again later, or raise wait="
    )
    third.abort()


def test_who_stands_in_line_in_vain_goes_ahead_and_may_still_find_that_it_need_not_write(clock, behind, cell):
    settlement, _, _ = behind
    seen = []

    def body(attempt, tx):
        seen.append((clock.monotonic(), tx.read("cell:/1", cell.look)))
        if len(seen) == 1:
            tx.call(cell.staged, value=3)
            run_sync(
                host_of(settlement).driver.undoing.abort_within_call(
                    attempt, Reason.STALE, scope=Scope.parse("cell:/1")
                )
            )
            tx.read("cell:/1")
        return "it need not"

    options = host_of(settlement).options("third", None, retry=True, wait_for="scopes")

    def run(part):
        return lambda: body(part.attempt, Transaction(host_of(settlement), part))

    program = host_of(settlement).driver.runs.run(
        host_of(settlement).driver.entrance.enter(**options, independent=False), run, tries=5
    )
    assert in_time(clock, program) == "it need not"
    assert seen == [(0, 0), (30, 0)]


def test_a_claim_that_stood_in_line_in_vain_goes_ahead(clock, open_here, stage, cell):
    settlement = open_here(wait=30, lease=10_000)
    stage.protocol = host_of(settlement).protocol
    stage.begin("older", "cell:/1")
    again = lost(stage)
    late = settlement.transaction("late").__enter__()
    in_time(clock, host_of(settlement).driver.calls.call(late._attempt, late._effect(cell.eager, (), {"value": 3})))
    assert (clock.monotonic(), cell.value, again.begins_again) == (30, 3, True)
    late.abort()


# ---- the choice


def test_a_wrong_choice_is_refused_before_anything_runs(open_settlement, cell):
    settlement = open_settlement()
    with pytest.raises(UsageError, match="wait_for='all': choose 'scopes' or 'nobody'"):
        settlement.run("trip", lambda tx: cell.count(), wait_for="all")
    assert (cell.bodies, host_of(settlement).protocol.live) == (0, {})


def test_in_an_event_loop_a_synchronous_one_goes_ahead_where_it_could_not_wait(open_settlement, cell):
    settlement = open_settlement()
    older = settlement.transaction("older").__enter__()
    older.read("cell:/1")
    reads = []

    def body(tx):
        reads.append(tx.read("cell:/1", cell.look))
        if len(reads) == 1:
            tx.call(cell.staged, value=2)
            older.call(cell.eager, value=1)
            older.commit()
            blocker.append(settlement.transaction("blocker").__enter__())

    blocker = []

    async def run():
        settlement.run("late", body)

    asyncio.run(run())
    assert reads == [0, 1]
    blocker[0].commit()


# ---- in every interleaving


@pytest.mark.parametrize("programs", [("rx sx", "rx sx"), ("rx ex", "rp ex"), ("rx ey", "ry ex"), ("rx ex", "ex")])
@pytest.mark.parametrize("durable", [False, True])
def test_a_line_is_no_deadlock(programs, durable):
    found = explore(*programs, tries=3, durable=durable)
    assert (found.violations, found.gave_up) == ({}, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("programs", "options"),
    [
        (("rx ex", "rx ex", "rx ex"), {}),
        (("rx sx", "rx ex", "rp ep"), {}),
        (("rx ex", "ex", "ep ex"), {}),
        (("rx sx", "rx ex", "rp ep"), {"guards": Guards(reads="early")}),
        (("rx sy", "ry sx", "rp ep f"), {}),
        (("rx ex", "rx sx"), {"loops": {0: 2}}),
        (("rx ex", "rx ex", "sx"), {"holds": {"x": (1,)}}),
        (("nx ey", "ry ex", "rx sy"), {"inside": {0: "ry sz"}}),
        (("rx ex k", "rx ex", "rx ex"), {}),
        (("rx ex", "rx ex", "rx sx"), {"cancelled": (1,)}),
    ],
)
def test_a_longer_line_is_no_deadlock(programs, options):
    found = explore(*programs, **{"tries": 4, **options})
    assert found.violations == {}


@pytest.mark.long
def test_in_line_nobody_loses_as_often_as_beside_each_other():
    programs = ("rx sx", "rx sx", "rx sx")
    assert explore(*programs, tries=2).gave_up < explore(*programs, tries=2, queues=False).gave_up
