"""Who is thought dead, by whose clock; who may still be sending; and that silence is judged in one place alone."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
from tests.core.ledgers.twins import intent, opened
from tests.rooms.ledger import _workers
from tests.rooms.protocol import Mode
from tests.rooms.replica import Worker

import settlemark
from settlemark import Outcome, Scope, State, Tag
from settlemark.ledger import RecordedEffect, RecordedTransaction
from settlemark.ledger._lease import Lease, Row, StoreTime, Watch, at_work_on, bury, held_by_zombies
from settlemark.testing import VirtualClock

LEASE = 30.0
ELSEWHERE = "web-2/1/2/3.4:812:1734373:token"


@pytest.fixture
def clock():
    """A clock that has gone on for a while: what is told of two moments hangs on what lies between them alone."""
    clock = VirtualClock()
    clock.advance(1_000)
    return clock


@pytest.fixture
def watch(clock):
    return Watch(clock.monotonic, quarantine=300.0)


def row(beat=1, *, worker=ELSEWHERE, buried=False, watched=0.0):
    return Row(worker, beat, LEASE, buried, watched)


def look(watch, clock, seconds, *rows, every=10.0):
    """Let so much time pass, and have it look all the time."""
    for _ in range(int(seconds / every)):
        clock.advance(every)
        watch.look(rows)


# ---- who is shown as alive


@pytest.mark.parametrize(("left", "alive"), [(0.5, True), (0.0, False), (-0.5, False)])
def test_a_worker_is_shown_as_alive_until_its_lease_is_over_to_the_second_and_no_longer(left, alive):
    assert Worker(ELSEWHERE, left, since=0.0, ended=False).alive is alive


@pytest.mark.parametrize("told", [{"ended": True}, {"ended": False, "buried": True}])
def test_a_worker_that_has_ended_or_is_buried_is_not_shown_as_alive_whatever_is_left_of_its_lease(told):
    assert not Worker(ELSEWHERE, 20.0, since=0.0, **told).alive


# ---- who is thought dead


def test_at_a_first_look_nobody_is_dead_however_long_it_has_been_silent(watch):
    watch.look([row()])
    assert not watch.is_to_bury(row())


def test_whose_beat_stands_still_for_its_whole_period_is_dead(watch, clock):
    watch.look([row()])
    look(watch, clock, LEASE - 10, row())
    assert not watch.is_to_bury(row())
    look(watch, clock, 10, row())
    assert watch.is_to_bury(row())


def test_whose_beat_moves_is_alive_and_its_period_begins_anew(watch, clock):
    watch.look([row(1)])
    look(watch, clock, LEASE - 10, row(1))
    look(watch, clock, LEASE - 10, row(2))
    assert not watch.is_to_bury(row(2))
    assert not watch.is_to_bury(row(3))


def test_a_quarantine_is_added_up_from_what_each_has_watched_and_no_second_counts_twice(watch, clock):
    other = Watch(clock.monotonic, quarantine=300.0)
    noted = row(buried=True, watched=100.0)
    for each in (watch, other):
        each.look([noted])
    for _ in range(10):
        clock.advance(10)
        for each in (watch, other):
            each.look([noted])
    assert (watch.watched(noted), other.watched(noted)) == (200.0, 200.0)
    noted = row(buried=True, watched=200.0)  # as one of them has told
    assert (watch.watched(noted), other.watched(noted)) == (200.0, 200.0)
    assert not watch.cannot_send(noted)
    look(watch, clock, 90, noted)
    assert (watch.watched(noted), watch.cannot_send(noted)) == (290.0, False)
    look(watch, clock, 10, noted)
    assert watch.cannot_send(noted)


def test_how_long_one_stood_still_before_it_was_buried_counts_for_no_quarantine(watch, clock):
    alive = row(watched=70.0)
    watch.look([alive])
    look(watch, clock, LEASE, alive)
    assert (watch.is_to_bury(alive), watch.watched(alive)) == (True, 70.0)


def test_what_nobody_watched_counts_for_no_quarantine(watch, clock):
    watch.look([row(buried=True)])
    look(watch, clock, 100, row(buried=True))
    clock.advance(1000)
    assert watch.watched(row(buried=True, watched=70.0)) == 70.0
    watch.look([row(buried=True, watched=70.0)])
    look(watch, clock, 20, row(buried=True, watched=70.0))
    assert watch.watched(row(buried=True, watched=70.0)) == 90.0
    assert watch.watched(row(2, buried=True, watched=70.0)) == 70.0  # it moved
    assert watch.watched(row(watched=70.0)) == 70.0


@pytest.mark.parametrize("away", [LEASE / 2 + 1, LEASE, 100 * LEASE])
def test_a_time_in_which_nobody_looked_proves_nothing(watch, clock, away):
    watch.look([row()])
    look(watch, clock, LEASE - 10, row())
    clock.advance(away)  # the store was away, or who looks was stopped
    assert not watch.is_to_bury(row())
    watch.look([row()])
    assert not watch.is_to_bury(row())
    look(watch, clock, LEASE - 10, row())
    assert not watch.is_to_bury(row())
    look(watch, clock, 10, row())
    assert watch.is_to_bury(row())


def test_whose_process_has_ended_here_is_dead_at_once(watch):
    says = "from settlemark.ledger._workers import worker_name; print(worker_name())"
    ended = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True).stdout.strip()
    assert _workers.is_here(ended)
    assert watch.is_to_bury(row(worker=ended))


@pytest.mark.parametrize("hidden", [["stat"], ["read_text"], ["stat", "read_text"]])
def test_a_worker_has_a_name_of_its_own_however_little_its_system_tells(monkeypatch, hidden):
    def refuse(*_, **__):
        raise PermissionError

    with monkeypatch.context() as system:
        system.setattr(_workers, "_host", cache(_workers._host.__wrapped__))
        for look in hidden:
            system.setattr(Path, look, refuse)
        names = [_workers.worker_name() for _ in range(2)]
        known = [(_workers.is_here(name), _workers.is_gone(name)) for name in names]
    assert (len(set(names)), known) == (2, [(True, False)] * 2)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system shows no threads of others")
def test_whose_process_has_ended_is_dead_though_nobody_has_waited_for_it(watch):
    ended, process = of_another("")
    with process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert watch.is_to_bury(row(worker=ended))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system shows no threads of others")
def test_whose_first_thread_has_ended_while_another_goes_on_is_not_dead(watch):
    goes_on = "import ctypes, threading; t = threading.Thread(target=sys.stdin.read); t.start(); sys.stdout.flush()"
    alive, process = of_another(f"{goes_on}; ctypes.CDLL(None).pthread_exit(None)")
    stat = Path(f"/proc/{process.pid}/stat")
    with process:
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            os.sched_yield()
        try:
            assert not watch.is_to_bury(row(worker=alive))
        finally:
            process.kill()


def of_another(then):
    """Return the name of a worker in a process of its own, and that; it does something then, and ends."""
    says = "import sys; from settlemark.ledger._workers import worker_name; print(worker_name(), flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{says}; {then}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process.stdout.readline().strip(), process


def test_it_looks_as_often_as_the_shortest_lease_that_it_watches_asks_for(watch, clock):
    assert not watch.is_due()
    watch.look([row(), Row("web-3/1/2/3.4:1:1:t", 1, 3.0, buried=False, watched=0.0)])
    assert watch.pace == 1.0
    clock.advance(0.9)
    assert not watch.is_due()
    clock.advance(0.2)
    assert watch.is_due()


class GoesByTheWallClock(Watch):
    """Thinks a worker dead when its period is over since it was first seen, whatever was seen in between."""

    def _stood_still(self, row, seconds):
        seen = self._seen.get(row.worker)
        return seen is not None and self._monotonic() - seen.since >= seconds


def test_a_watch_that_goes_by_what_time_it_is_buries_who_is_healthy_after_an_outage(clock):
    for kind, buries in ((Watch, False), (GoesByTheWallClock, True)):
        watch = kind(clock.monotonic)
        watch.look([row()])
        clock.advance(2 * LEASE)
        assert watch.is_to_bury(row()) == buries


# ---- who may still be sending


def test_one_elsewhere_may_be_sending_until_its_quarantine_has_been_watched(watch, clock):
    watch.look([row(buried=True)])
    look(watch, clock, 290, row(buried=True))
    assert not watch.cannot_send(row(buried=True))
    look(watch, clock, 10, row(buried=True))
    assert watch.cannot_send(row(buried=True))
    assert not watch.is_to_bury(row(buried=True))


def test_its_quarantine_begins_when_it_is_buried_and_anew_after_a_gap(watch, clock):
    watch.look([row()])
    look(watch, clock, 290, row())
    look(watch, clock, 20, row(buried=True))
    assert not watch.cannot_send(row(buried=True))
    clock.advance(1_000)
    watch.look([row(buried=True)])
    assert not watch.cannot_send(row(buried=True))


def test_one_of_this_host_may_be_sending_for_as_long_as_its_process_is_there(watch, clock):
    mine = row(worker=_workers.worker_name(), buried=True)
    watch.look([mine])
    look(watch, clock, 10_000, mine)
    assert not watch.cannot_send(mine)


def test_looks_that_lie_half_a_period_apart_still_prove_it(watch, clock):
    watch.look([row()])
    for _ in range(2):
        clock.advance(LEASE / 2)
        assert watch.is_to_bury(row()) == (clock.monotonic() >= 1_000 + LEASE)
        watch.look([row()])


def test_what_was_watched_counts_from_its_first_moment_on(watch, clock):
    watch.look([row(buried=True, watched=3.0)])
    clock.advance(0.25)
    assert watch.watched(row(buried=True, watched=3.0)) == 3.25


def test_of_whom_nothing_was_seen_yet_nothing_is_known(watch):
    assert (watch.undecided(ELSEWHERE), watch.pace, watch.is_due()) == (0.0, float("inf"), False)
    assert (watch.is_to_bury(row()), watch.watched(row(buried=True, watched=3.0))) == (False, 3.0)


def test_one_elsewhere_is_undecided_for_as_long_as_it_has_not_moved_nor_stood_still_for_its_period(watch, clock):
    watch.look([row(), row(worker="web-3/1/2/3.4:1:1:t", buried=True), row(worker=_workers.worker_name())])
    assert [watch.undecided(name) for name in (ELSEWHERE, "web-3/1/2/3.4:1:1:t", _workers.worker_name())] == [
        LEASE,
        0.0,
        0.0,
    ]
    clock.advance(LEASE - 1)
    assert watch.undecided(ELSEWHERE) == 1.0
    clock.advance(2)
    assert watch.undecided(ELSEWHERE) == 0.0
    watch.look([row()])
    watch.look([row(2)])
    assert watch.undecided(ELSEWHERE) == 0.0


def test_where_there_is_no_quarantine_one_elsewhere_sends_no_more_and_one_of_this_host_may(clock):
    for quarantine, elsewhere in ((0.0, False), (0.5, True)):
        watch = Watch(clock.monotonic, quarantine=quarantine)
        assert (watch.may_send(ELSEWHERE), watch.may_send(_workers.worker_name())) == (elsewhere, True)


def test_one_that_is_not_buried_is_not_laid_though_its_process_has_ended_or_it_was_watched_for_long(watch, clock):
    gone = f"{_workers._host()}:999999999:1:t"
    watch.look([row(worker=gone), row()])
    look(watch, clock, 1_000, row(worker=gone), row())
    assert (watch.cannot_send(row(worker=gone)), watch.cannot_send(row())) == (False, False)
    assert watch.cannot_send(row(worker=gone, buried=True))
    assert not watch.is_to_bury(row(worker=gone, buried=True))


# ---- what may be on its way when its worker falls silent


def of_every_kind(sender=None):
    """Effects of every outcome: some that run at once, then some that are held."""
    eager = [Outcome.CONFIRMED, Outcome.INTENDED, Outcome.UNKNOWN, Outcome.FAILED, Outcome.CONFIRMED, Outcome.CONFIRMED]
    held = [Outcome.QUEUED, Outcome.UNKNOWN, Outcome.CONFIRMED, Outcome.DROPPED]
    found = [
        RecordedEffect(intent(position=n, held=n >= len(eager)), what, sender=sender)
        for n, what in enumerate((*eager, *held))
    ]
    found[5].tag = Tag.CLEAN  # it was taken back
    return RecordedTransaction(opened(), State.OPEN, 1, effects=found)


def positions(found):
    return [effect.row.position for effect in found]


@pytest.mark.parametrize(
    ("state", "running", "out"),
    [
        (State.OPEN, (), [1, 2]),
        (State.OPEN, (0, 3), [1, 2, 0]),  # what failed is over, whatever runs
        (State.SEALED, (), [1, 2]),
        (State.RELEASING, (), [1, 2, 6, 7]),
        (State.ABORTING, (), [1, 2, 4]),  # the last is the first to be taken back
        (State.ABORTING, (0,), [1, 2, 0, 4]),
        (State.ABORTING, (4,), [1, 2, 4]),
    ],
)
def test_what_its_worker_may_be_at_is_what_the_record_has_no_end_of_and_what_comes_next(state, running, out):
    assert positions(at_work_on(of_every_kind(), state, running)) == out


@pytest.mark.parametrize(
    ("state", "out"),
    [
        (State.OPEN, [1, 2, 7]),
        (State.SEALED, [1, 2, 7]),
        (State.RELEASING, [1, 2, 6, 7]),
        (State.ABORTING, [0, 1, 2, 4, 7, 8]),
    ],
)
def test_what_a_ghost_may_be_at_keeps_its_scopes_and_what_others_sent_does_not(state, out):
    assert positions(held_by_zombies(of_every_kind("zombie"), state, {"zombie"})) == out
    assert held_by_zombies(of_every_kind("other"), state, {"zombie"}) == []
    assert held_by_zombies(of_every_kind(), state, {"zombie"}) == []


class Record:
    """What a burial asks of the record, and tells it."""

    def __init__(self, *effects, zombies=("zombie",), attempt=1):
        self.told = []
        self._zombies = frozenset(zombies)
        self._recorded = RecordedTransaction(opened(attempt=attempt), State.OPEN, 1, effects=list(effects))

    def zombies(self):
        return self._zombies

    def load(self, name):
        return self._recorded if name == "trip" else None

    def set_sender(self, keys, sender):
        self.told.append((list(keys), sender))


def test_of_a_ghost_it_is_told_what_it_may_be_sending_and_what_it_sends_no_more(stage):
    txn, unrecorded = stage.begin("trip", owner="zombie"), stage.begin("tour", owner="zombie")
    other = stage.begin("other", owner="alive")
    for place, scope in enumerate(("room:/a", "room:/b")):
        call = stage.protocol.request(txn, Scope.parse(scope), Mode.EAGER, place)
        assert stage.protocol.admit(call) is None
    stage.protocol.acted(call, happened=True)
    book = Record(
        RecordedEffect(intent(position=0), Outcome.CONFIRMED),  # it is being taken back
        RecordedEffect(intent(position=1), Outcome.CONFIRMED, sender="zombie"),
        RecordedEffect(intent(position=3), Outcome.INTENDED),
        RecordedEffect(intent(position=2), Outcome.INTENDED, sender="elder"),
        RecordedEffect(intent(position=4), Outcome.UNKNOWN, sender="zombie"),  # it was sending it before, and still is
        zombies=("zombie", "elder"),
    )
    bury(stage.protocol, book, "zombie")
    assert book.told == [(["trip#1/0", "trip#1/3", "trip#1/4"], "zombie"), (["trip#1/1"], None)]
    assert (txn.owner, unrecorded.owner, other.owner) == ("", "", "alive")


@pytest.mark.parametrize("record", [{"zombies": ()}, {"attempt": 2}], ids=["one that has ended", "another attempt"])
def test_of_one_that_sends_nothing_of_it_any_more_nothing_is_told(stage, record):
    txn = stage.begin("trip", owner="zombie")
    book = Record(RecordedEffect(intent(), Outcome.INTENDED), **record)
    bury(stage.protocol, book, "zombie")
    assert (book.told, txn.owner) == ([], "")


# ---- one's own lease, and the store's time


@pytest.mark.parametrize("told", [False, True], ids=["no such clock", "one that cannot be read"])
def test_where_no_clock_goes_on_while_the_machine_sleeps_ones_own_lease_goes_by_the_other(monkeypatch, told):
    def none(_which):
        raise OSError

    if told:
        monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
        monkeypatch.setattr(time, "clock_gettime", none)
    else:
        monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    lease = Lease(LEASE, time.monotonic)
    lease.renewed(lease.now())
    assert (len(lease.now()), lease.is_fresh()) == (1, True)


def test_ones_own_lease_is_as_old_as_it_was_not_renewed_and_is_lost_when_that_is_known(clock):
    lease = Lease(LEASE, clock.monotonic)
    assert lease.is_older(1_000)  # there is none
    lease.renewed(lease.now())
    clock.advance(LEASE / 2)
    assert [lease.is_older(share) for share in (1 / 3, 1 / 2, 2 / 3)] == [True, False, False]
    lease.lapse()
    assert (lease.is_held, lease.is_fresh(), lease.is_older(1_000)) == (False, False, True)


def test_the_stores_time_is_this_hosts_until_the_store_has_told_it(clock, monkeypatch):
    told = StoreTime(Lease(LEASE, clock.monotonic))
    monkeypatch.setattr(time, "time", lambda: 77.0)
    assert told() == 77.0
    told.told(5.0)
    assert told() == 5.0


def test_ones_own_lease_is_fresh_for_two_thirds_of_it_from_before_it_was_asked_for(clock):
    lease = Lease(LEASE, clock.monotonic)
    assert (lease.is_held, lease.is_fresh()) == (False, False)
    began = lease.now()
    clock.advance(5)
    lease.renewed(began)
    assert (lease.is_held, lease.is_fresh()) == (True, True)
    clock.advance(14.9)
    assert lease.is_fresh()
    clock.advance(0.2)
    assert not lease.is_fresh()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that goes on while it sleeps")
def test_ones_own_lease_goes_on_while_the_machine_sleeps(monkeypatch):
    slept = [0.0]
    told = time.clock_gettime
    monkeypatch.setattr(
        time, "clock_gettime", lambda which: told(which) + (slept[0] if which == time.CLOCK_BOOTTIME else 0)
    )
    lease = Lease(LEASE, time.monotonic)
    lease.renewed(lease.now())
    assert lease.is_fresh()
    slept[0] = 3_600.0
    assert not lease.is_fresh()


def test_the_stores_time_goes_on_between_its_answers_and_never_back(clock):
    told = StoreTime(Lease(LEASE, clock.monotonic))
    told.told(1_000.0)
    clock.advance(5)
    assert told() == 1_005.0
    told.told(900.0)  # somebody has set the store's clock
    assert told() == 1_005.0
    told.told(2_000.0)
    assert told() == 2_000.0


# ---- who is who


def named(monkeypatch, **parts):
    """Return the host that a worker is on, where the system tells these things."""
    monkeypatch.setattr(_workers.socket, "gethostname", lambda: parts.get("name", "localhost"))
    monkeypatch.setattr(_workers, "_machine_id", lambda: parts.get("machine", "m1"))
    monkeypatch.setattr(_workers, "_boot_id", lambda: parts.get("boot", "b1"))
    monkeypatch.setattr(_workers, "_namespace", lambda kind: parts.get(kind, 4026531836))
    return _workers._host.__wrapped__()


@pytest.mark.parametrize(
    "other", [{"machine": "m2"}, {"boot": "b2"}, {"pid": 7}, {"time": 7}], ids=lambda o: next(iter(o))
)
def test_a_worker_of_another_machine_boot_or_namespace_is_not_here_though_all_else_is_the_same(monkeypatch, other):
    theirs = named(monkeypatch, **other)
    ours = named(monkeypatch)
    monkeypatch.setattr(_workers, "_host", lambda: ours)
    assert _workers.is_here(f"{ours}:999999:1:t")
    assert not _workers.is_here(f"{theirs}:999999:1:t")
    assert not _workers.is_gone(f"{theirs}:999999:1:t")


def test_a_name_that_the_host_is_given_anew_changes_nothing(monkeypatch):
    before, ours = named(monkeypatch, name="a"), named(monkeypatch, name="b")
    assert before != ours
    monkeypatch.setattr(_workers, "_host", lambda: ours)
    assert _workers.is_gone(f"{before}:999999999:1:t")


def test_where_the_system_tells_no_boot_nobody_is_anybodys_neighbour(monkeypatch):
    ours, theirs = named(monkeypatch, boot=""), named(monkeypatch, boot="")
    monkeypatch.setattr(_workers, "_host", lambda: ours)
    assert not _workers.is_here(f"{theirs}:1:1:t")
    assert _workers.is_here(f"{ours}:{os.getpid()}::t")


@pytest.mark.parametrize("name", ["", "web-3", "memory", "web-3/4026531836:812:1734373:13186bcd", "a/b:x:1:t", "::::"])
def test_a_name_of_another_form_is_of_nobody_here(name):
    assert (_workers.is_here(name), _workers.is_gone(name)) == (False, False)


def test_a_process_that_is_hidden_from_us_is_not_gone(monkeypatch):
    monkeypatch.setattr(_workers, "_started", lambda _process: None)
    assert not _workers.is_gone(f"{_workers._host()}:1:12345:t")


def test_a_name_fits_its_column(monkeypatch):
    host = named(monkeypatch, name="n" * 300, machine="m" * 64, boot="b" * 36)
    assert len(f"{host}:4194304:18446744073709551615:12345678") <= 255


def test_a_lease_that_another_thread_loses_while_its_age_is_asked_for_is_old_or_as_old_as_it_was():
    def losing():
        lease.lapse()  # what the thread that takes steps does when it learns that it was buried
        return 7.0

    lease = Lease(3.0, losing)
    lease.renewed((7.0,))
    assert (lease.is_fresh(), lease.is_held) == (True, False)
    assert (lease.is_fresh(), lease.is_older(0.1)) == (False, True)


# ---- where clocks and silence come in: each place is listed with why it is none of the faults

SOURCES = Path(settlemark.__file__).parent
CLOCKS = re.compile(r"time\.(?:time|monotonic|clock_gettime|time_ns|monotonic_ns|perf_counter)\b|datetime\.now")
DEATHS = re.compile(
    r"settlemark\.ledger\._workers import|\.bury\(|\.mark_zombie\(|lease_until_seconds|buried_at_seconds|\blease_left\b"
)

READ_BY = {
    "ledger/_lease.py": "the door: a beat is watched on one's own monotonic clock",
    "ledger/_acts.py": "how long `close` waits: one's own clock",
    "ledger/__init__.py": "a default to be injected",
    "ledger/_record/book.py": "the clock of a watch that nobody gave: of a store that is only looked at",
    "ledger/_memory/ledger.py": "a default to be injected: the store is this process",
    "ledger/_replica/store.py": "a default to be injected",
    "ledger/_sql/patience.py": "how long a busy file is waited for: one's own clock",
    "ledger/_limits.py": "how long a store is waited for: one's own clock",
    "ledger/_replica/batch.py": "how long a store is waited for: one's own clock",
    "ledger/_replica/group_commit.py": "how long a store is waited for: one's own clock",
    "_runtime/apart.py": "how long the end of a process waits for programs: one's own clock",
    "_api/checked.py": "tells a person what to give",
    "_api/settings.py": "defaults to be injected",
    "_edges/shield.py": "deadlines: one's own clock",
    "_observe/clock.py": "the system's, where the one that was injected fails",
    "_cli/doctor/__init__.py": "a default to be injected: it tells people how far two clocks are apart",
    "_cli/commands/prune.py": "days of retention, by the host of who prunes",
    "_cli/commands/doubts.py": "only looks",
    "_cli/commands/options.py": "`--since`, as people say it",
    "_cli/commands/recover.py": "how long the command waits: one's own clock",
    "lint/_source/calls.py": "names of functions, as text",
}
"""Every file that reads a clock of its own accord; a new one has to say here why that decides about nobody else."""

JUDGED_BY = {
    "ledger/_lease.py": "the door",
    "ledger/_record/book.py": "asks the door, and writes what it says",
    "ledger/_record/statements.py": "the words in which that is written",
    "ledger/_replica/enrolment.py": "renews its own; leaves",
    "ledger/_record/tables.py": "the columns",
    "ledger/_replica/looking.py": "shows to people, decides nothing",
    "ledger/migrations/versions/v0001_baseline.py": "the columns",
    "_engine/undo/abort.py": "says a worker's name, decides nothing",
    "_engine/wait.py": "says a worker's name, decides nothing",
    "_report/sentences.py": "says a worker's name, decides nothing",
    "_lifecycle/fences.py": "says a worker's name, decides nothing",
    "_api/who_waits.py": "shows to people, decides nothing",
    "_cli/commands/waiting.py": "shows to people, decides nothing",
    "_cli/commands/doubts.py": "shows to people, decides nothing",
    "_cli/doctor/work.py": "shows to people, decides nothing",
}
"""Every file in which somebody's silence, or death, is spoken of."""


@cache
def statements():
    """Return the files of the core without their comments and docstrings."""
    texts = {}
    for path in SOURCES.rglob("*.py"):
        where = path.relative_to(SOURCES).as_posix()
        if where.startswith("testing/"):
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(
                node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            ) and ast.get_docstring(node):
                node.body[0] = ast.Pass()
        texts[where] = ast.unparse(tree)
    return texts


def found(pattern):
    """Return the files of the core in which something stands outside of comments and docstrings."""
    return {where for where, text in statements().items() if pattern.search(text)}


def test_every_place_that_reads_a_clock_is_listed_with_why_it_decides_about_nobody_else():
    assert found(CLOCKS) == READ_BY.keys()


def test_every_place_that_takes_silence_for_death_goes_through_one_door():
    assert found(DEATHS) == JUDGED_BY.keys()


def test_no_statement_compares_a_time_on_record_with_now():
    comparing = re.compile(r"_seconds\s*[<>]=?\s*\{clock\}|\{clock\}\s*[<>]=?\s*\w+_seconds")
    assert found(comparing) == set()
