"""What a process left behind and the next takes up: its claims still stand, and what was decided is carried out.

This file is its own child program: `python test_taking_up.py FOLDER SCENE LINE` plays a scene in which
the counterparty kills its caller before or after it logs a line.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from tests.rooms.lifecycle import recovery

from settlemark import DeclarationError, InDoubt, LedgerError, Retries, Settlement, State, Tag, WaitTimeout, effect
from settlemark.agents import open_turn
from settlemark.hosting import host_of, run_sync
from settlemark.observe import Recovered

PATIENCE = 60


class Boom(Exception):
    """A failure of the caller's own."""


class Office:
    """A counterparty whose log is a file, so that it outlives its callers; one of them it may kill."""

    def __init__(self, folder, die_at=None):
        self.folder = Path(folder)
        self.url = f"sqlite:///{self.folder / 'ledger.db'}"
        self.die_at = die_at
        self.flush = None

    @property
    def log(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def act(self, line):
        self.die(f"before {line}")
        with (self.folder / "log").open("a") as log:
            log.write(line + "\n")
        self.die(f"after {line}")

    def die(self, here):
        if here == self.die_at:
            if self.flush is not None:
                self.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def asked(self, to):
        known = f"mail {to}" in self.log
        self.act(f"asked {to}")
        return True if known else None

    def tools(self):
        @effect("reversible", scope="room:/{room}", undo=lambda room: self.act(f"cancel {room}"))
        def book(room):
            self.act(f"book {room}")

        @effect("reversible", scope="flight:/{to}", undo=lambda to: self.act(f"return {to}"), cost="a fee of 50")
        def fly(to):
            self.act(f"fly {to}")

        @effect("irreversible", scope="mail:/{to}", probe=self.asked)
        def mail(to):
            self.act(f"mail {to}")
            return to

        @effect("irreversible", scope="post:/{to}")
        def post(to):
            self.act(f"post {to}")

        @effect("opaque", scope="desk:/{desk}")
        def hire(desk):
            self.act(f"hire {desk}")

        return SimpleNamespace(book=book, fly=fly, mail=mail, post=post, hire=hire)


# ---- the scenes a child plays


def mails(office, settlement):
    tools = office.tools()
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        for to in ("x", "y", "z"):
            tx.call(tools.mail, to=to)


def posts(office, settlement):
    tools = office.tools()
    with settlement.transaction("trip") as tx:
        for to in ("x", "y", "z"):
            tx.call(tools.post, to=to)


def wires(office, settlement):
    @effect("irreversible", scope="wire:/{to}")
    def wire_known_to_the_child(to):
        office.act(f"wire {to}")

    with settlement.transaction("trip") as tx:
        tx.call(office.tools().mail, to="x")
        tx.call(wire_known_to_the_child, to="y")
        tx.call(wire_known_to_the_child, to="z")


def losing_a_race(office, settlement):
    """What a run has read changes before it commits: it is undone, to be run again."""
    tools = office.tools()
    opening = settlement.transaction("older")
    older = opening.__enter__()

    def body(tx):
        tx.read("room:/b")
        tx.call(tools.book, room="a")
        older.call(tools.book, room="b")
        opening.__exit__(None, None, None)

    settlement.run("trip", body)


def failing(office, settlement):
    tools = office.tools()
    office.flush = settlement.transactions  # what was undone so far is on record when it dies
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.fly, to="rome")
        raise Boom


def hiring(office, settlement):
    with settlement.transaction("trip") as tx:
        tx.call(office.tools().hire, desk="d")


def second_try(office, settlement):
    batch, call, hire = hiring_batch(office, settlement)
    with pytest.raises(Boom):
        run_sync(batch.perform(call, boom, {"desk": "d"}))
    run_sync(batch.perform(call, lambda: hire("d"), {"desk": "d"}))


def hiring_batch(office, settlement):
    hire = office.tools().hire
    batch = run_sync(open_turn(settlement, "trip", run="trip", resumable=True))
    return batch, batch.place(host_of(settlement).tools.of(hire), {"desk": "d"}, call_id="1"), hire


def boom():
    raise Boom


@pytest.fixture
def office(tmp_path):
    return Office(tmp_path)


@pytest.fixture
def killed(office):
    """Play a scene in a process that is killed there."""

    def play(scene, die_at):
        child = subprocess.run(
            [sys.executable, __file__, str(office.folder), scene.__name__, die_at],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert child.returncode == -signal.SIGKILL, child.stderr

    return play


@pytest.fixture
def after(office, open_settlement):
    """Open the settlement of the process that comes next."""
    return lambda **options: open_settlement(office.url, **options)


def stand(settlement, name="trip"):
    """What is on record of a name: (state, reason, [(tool, outcome, tag)])."""
    return [
        (r.state.value, r.because, [(e.row.tool, e.outcome.value, e.tag and e.tag.value) for e in r.effects])
        for r in settlement.transactions()
        if r.row.name == name
    ]


# ---- a decision is carried out


ALL_LEFT = ("committed", None, [("book", "confirmed", None), *[("mail", "confirmed", None)] * 3])


@pytest.mark.parametrize("body", ["makes its calls again", "raises", "does nothing"])
@pytest.mark.parametrize("die_at", ["before mail y", "after mail y"])
def test_a_decision_on_record_is_carried_out_and_only_the_first_of_the_rest_is_asked_about(
    office, killed, after, die_at, body
):
    killed(mails, die_at)
    office.tools()
    settlement = after()
    if body == "makes its calls again":
        mails(office, settlement)
    else:
        try:
            with settlement.transaction("trip") as tx:
                if body == "raises":
                    raise Boom
        except Boom:
            assert body == "raises"
        assert tx.state is State.COMMITTED
    rest = ["asked y", "mail y"] if die_at == "before mail y" else ["mail y", "asked y"]
    assert office.log == ["book a", "mail x", *rest, "mail z"]
    assert stand(settlement) == [ALL_LEFT]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_release_nobody_can_ask_about_is_in_doubt_and_what_was_behind_it_is_named(office, killed, after):
    killed(posts, "before post y")
    told = Queue()
    tools = office.tools()
    settlement = after(on_residue=told.put)
    with pytest.raises(InDoubt, match="the outcome of post on post:/y"), settlement.transaction("trip") as tx:
        answers = [tx.call(tools.post, to=to).outcome for to in ("x", "y", "z")]
    assert (answers, tx.state) == (["confirmed", "unknown", "dropped"], State.COMMITTED)
    assert (told.get(timeout=PATIENCE), told.empty()) == ("trip", True)
    assert office.log == ["post x"]
    tags = [("post", "confirmed", None), ("post", "unknown", "unresolved"), ("post", "dropped", "partial_commit")]
    assert stand(settlement) == [("committed", None, tags)]
    assert [(r.key.partition(".")[2], r.tag) for r in settlement.residue()] == [
        ("trip#1/1", Tag.UNRESOLVED),
        ("trip#1/2", Tag.PARTIAL_COMMIT),
    ]
    assert host_of(settlement).protocol.live == {}


WIRE = "wire_known_to_the_child"


def test_what_still_has_to_leave_and_is_not_declared_is_named_and_nothing_changed(office, killed, after):
    killed(wires, "before wire y")
    office.tools()
    settlement = after()
    before, log = stand(settlement), office.log
    assert settlement.recover().stuck == {"trip": [WIRE]}
    with pytest.raises(DeclarationError, match=f"nothing called {WIRE} is declared") as missing:
        with settlement.transaction("trip", wait=0):
            raise AssertionError("not reached")
    assert missing.value.tool == WIRE
    assert (stand(settlement), office.log, settlement.residue()) == (before, log, [])
    assert host_of(settlement).driver.kernel.attempts == {}


def test_what_still_has_to_leave_leaves_when_it_is_declared(office, killed, after):
    killed(wires, "before wire y")
    office.tools()
    settlement = after()
    settlement.recover()
    settlement.declare(
        WIRE, "irreversible", scope="wire:/{to}", function=lambda to: office.act(f"wired {to}"), probe=lambda to: None
    )
    with settlement.transaction("trip") as tx:
        pass
    assert (office.log, tx.state) == (["mail x", "wired y", "wired z"], State.COMMITTED)
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_what_was_decided_keeps_its_place_until_it_is_carried_out(office, killed, after):
    killed(wires, "before wire y")
    tools = office.tools()
    settlement = after()

    @effect("reversible", scope="wire:/{to}", undo=lambda to: None)
    def hold_line(to):
        office.act(f"held the line to {to}")

    before = stand(settlement)
    with settlement.transaction("other", wait=0) as other:
        other.call(tools.book, room="a")
        with pytest.raises(WaitTimeout, match="waiting for trip, which holds wire:/z"):
            other.call(hold_line, to="z")
    assert (stand(settlement), other.state) == (before, State.COMMITTED)
    assert office.log == ["mail x", "book a"]


# ---- what was open, or being undone


def test_taking_up_that_the_store_fails_in_the_middle_of_is_made_good_at_the_next_look(office, after, disk_full):
    tools = office.tools()
    first = after()
    left = {room: first.transaction(name).__enter__() for name, room in (("trip", "a"), ("tour", "b"))}
    for room, tx in left.items():
        tx.call(tools.book, room=room)
    first.close()
    settlement = after()
    before = [stand(settlement, name) for name in ("trip", "tour")]
    drop_retry, failures = host_of(settlement).protocol.drop_retry, [disk_full(host_of(settlement).ledger)]

    def failing_once(txn):
        if failures:
            raise failures.pop()
        drop_retry(txn)

    host_of(settlement).protocol.drop_retry = failing_once
    with pytest.raises(LedgerError, match="disk is full"):
        settlement.recover(keep_open=0)
    assert ([stand(settlement, name) for name in ("trip", "tour")], settlement.residue()) == (before, [])
    assert office.log == ["book a", "book b"]
    assert sorted(settlement.recover(keep_open=0).undone) == ["tour", "trip"]
    assert sorted(office.log[2:]) == ["cancel a", "cancel b"]
    for name in ("trip", "tour"):
        assert stand(settlement, name) == [("aborted", "left behind: its process ended", [("book", "undone", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == (
        [],
        {},
        {},
    )


def test_what_a_failing_store_had_stopped_here_is_made_good_though_the_store_fails_as_it_is_taken_up_again(
    office, after, disk_full, monkeypatch
):
    tools = office.tools()
    first = after()
    left = first.transaction("left").__enter__()
    left.call(tools.book, room="b")
    first.close()
    settlement = after(retries=Retries(first=0, most=0))
    host_of(settlement)._maintenance.stop()
    connection, error = host_of(settlement).ledger._member.connection, disk_full(host_of(settlement).ledger)
    with monkeypatch.context() as away:

        @effect("irreversible", scope="mail:/{to}")
        def mail(to):
            office.act(f"mail {to}")
            if to == "x":
                away.setattr(connection, "opened", Mock(side_effect=error))
                connection.let_go()

        with pytest.raises(LedgerError, match="follows by itself"), settlement.transaction("stopped") as tx:
            for to in "xy":
                tx.call(mail, to=to)
    with monkeypatch.context() as failing:
        failing.setattr(host_of(settlement).protocol, "own", Mock(side_effect=error))
        with pytest.raises(LedgerError, match="disk is full"):
            settlement.recover(keep_open=0)
    settlement.recover(keep_open=0)
    assert office.log == ["book b", "mail x", "mail y", "cancel b"]
    assert stand(settlement, "stopped") == [("committed", None, [("mail", "confirmed", None)] * 2)]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.parametrize("lanes", [1, 2, 32])
def test_what_many_ended_processes_left_is_all_ended_and_told_of_oldest_first(office, after, monkeypatch, lanes):
    monkeypatch.setattr(recovery, "_MANY", 5)
    monkeypatch.setattr(recovery, "_LANES", lanes)
    tools, first = office.tools(), after()
    names = [f"trip-{n}" for n in range(5)]
    left = {name: first.transaction(name).__enter__() for name in names}
    for name, tx in left.items():
        tx.call(tools.fly, to=name)
    first.close()
    settlement = after()
    report = settlement.recover(keep_open=0)
    assert (report.undone, report.left, report.committed, report.waiting) == (names, names, [], [])
    assert sorted(office.log) == sorted([*(f"fly {name}" for name in names), *(f"return {name}" for name in names)])
    assert (
        host_of(settlement).protocol.live,
        host_of(settlement).driver.kernel.attempts,
        host_of(settlement).driver.recovery.ending,
    ) == (
        {},
        {},
        {},
    )


def after_two_were_left(office, after):
    """Return the settlement of a process that finds a trip and a tour of an ended one, each with a room."""
    tools, first = office.tools(), after()
    left = {room: first.transaction(name).__enter__() for name, room in (("trip", "a"), ("tour", "b"))}
    for room, tx in left.items():
        tx.call(tools.book, room=room)
    first.close()
    return after()


def test_a_store_that_fails_under_one_of_many_keeps_no_other_from_its_end_and_the_one_is_made_good(
    office, after, disk_full, monkeypatch
):
    monkeypatch.setattr(recovery, "_MANY", 2)
    settlement = after_two_were_left(office, after)
    drop_retry = host_of(settlement).protocol.drop_retry

    def failing_for_the_trip(txn):
        if txn.name == "trip":
            raise disk_full(host_of(settlement).ledger)
        drop_retry(txn)

    host_of(settlement).protocol.drop_retry = failing_for_the_trip
    with pytest.raises(LedgerError, match="disk is full"):
        settlement.recover(keep_open=0)
    behind = [] if office.log[2:] == ["cancel b"] else ["tour"]  # both were in the transaction that the store refused
    assert office.log[2:] == ([] if behind else ["cancel b"])
    host_of(settlement).protocol.drop_retry = drop_retry
    assert settlement.recover(keep_open=0).undone == ["trip", *behind]
    assert sorted(office.log) == ["book a", "book b", "cancel a", "cancel b"]
    assert (host_of(settlement).protocol.live, host_of(settlement).driver.kernel.attempts) == ({}, {})


def test_one_that_is_taken_up_leaves_the_others_to_who_asks_for_them(office, after):
    settlement = after_two_were_left(office, after)
    report = run_sync(host_of(settlement).driver.recovery.take_up("tour", keep_open=0))
    assert (report.undone, office.log) == (["tour"], ["book a", "book b", "cancel b"])
    assert settlement.recover(keep_open=0).undone == ["trip"]
    assert (office.log[3:], host_of(settlement).protocol.live) == (["cancel a"], {})


def dying_when_all_is_undone(office, settlement):
    """Nothing has acted, so its abort is over at once; its process ends before it can put that on record."""

    def die(_txn):
        settlement.transactions()  # what was queued is on record
        os.kill(os.getpid(), signal.SIGKILL)

    host_of(settlement).driver.undoing.conclude = die
    with settlement.transaction("trip") as tx:
        tx.call(office.tools().mail, to="x")
        raise Boom


@pytest.mark.parametrize("who", ["recovers", "enters it again"])
def test_an_abort_whose_process_ended_before_it_could_say_so_is_on_record_as_one(office, killed, after, who):
    killed(dying_when_all_is_undone, "not by the counterparty")
    tools = office.tools()
    settlement = after()
    if who == "recovers":
        settlement.recover()
    else:
        with settlement.transaction("trip") as tx:
            tx.call(tools.mail, to="y")
        assert tx.attempt == 2
    assert stand(settlement)[0] == ("aborted", "left behind: its process ended", [("mail", "dropped", "clean")])
    assert office.log == ([] if who == "recovers" else ["mail y"])
    assert (settlement.residue(), settlement.in_doubt(), host_of(settlement).protocol.live) == ([], [], {})


def test_who_takes_up_an_abort_that_lost_a_race_makes_no_retry_that_nobody_runs(office, killed, after):
    killed(losing_a_race, "before cancel a")
    tools = office.tools()
    settlement = after()
    settlement.recover(keep_open=0)
    assert office.log == ["book a", "book b", "cancel a"]
    assert (host_of(settlement).protocol.live, host_of(settlement).driver.ages.stranded()) == ({}, [])
    settlement.run("other", lambda tx: tx.call(tools.book, room="a"), wait=PATIENCE)
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="c")
    assert (tx.attempt, settlement.residue()) == (2, [])


def test_an_undo_that_was_cut_off_goes_on_and_what_it_had_left_stays_on_record(office, killed, after):
    killed(failing, "before cancel a")
    office.tools()
    settlement = after()
    before = settlement.residue()
    assert [(r.tool, r.tag, r.note) for r in before] == [
        ("fly", Tag.UNRESOLVED, "undone, but a cost stays: a fee of 50")
    ]
    with settlement.transaction("trip") as tx:
        pass
    assert (tx.attempt, tx.state, settlement.residue()) == (2, State.COMMITTED, before)
    assert office.log == ["book a", "fly rome", "return rome", "cancel a"]
    undone = [("book", "undone", "clean"), ("fly", "undone", "unresolved")]
    assert stand(settlement) == [("aborted", "failed: Boom", undone)]
    assert host_of(settlement).protocol.live == {}


def test_an_outcome_nobody_knows_is_named_also_when_its_call_does_not_come_again(office, killed, after):
    told = []
    killed(hiring, "after hire d")
    office.tools()
    settlement = after(on_residue=told.append)
    with settlement.transaction("trip") as tx:
        pass
    assert (office.log, tx.state, told) == (["hire d"], State.COMMITTED, ["trip"])
    assert stand(settlement) == [("committed", None, [("hire", "unknown", "unresolved")])]
    assert [(r.key.partition(".")[2], r.tag) for r in settlement.residue()] == [("trip#1/0", Tag.UNRESOLVED)]


def test_a_second_try_is_intended_on_record_before_it_acts(office, killed, after):
    killed(second_try, "after hire d")
    settlement = after()
    assert stand(settlement) == [("open", None, [("hire", "intended", None)])]
    batch, call, hire = hiring_batch(office, settlement)
    with pytest.raises(InDoubt, match="the outcome of hire on desk:/d is unknown") as doubt:
        run_sync(batch.perform(call, lambda: hire("d"), {"desk": "d"}))
    run_sync(batch.leave(call, error=doubt.value))
    assert office.log == ["hire d"]


def test_a_settlement_that_was_dropped_unclosed_leaves_what_it_had_open_to_the_next_at_once(office, after):
    tools = office.tools()
    dropped = Settlement(office.url)
    held = host_of(dropped)
    held.kept = dropped.transaction("trip").__enter__()  # it goes with it, and not before it
    held.kept.call(tools.book, room="a")
    settlement = after(wait=0)
    with pytest.raises(WaitTimeout, match="trip is in use by another caller"), settlement.transaction("trip"):
        raise AssertionError("not reached")
    known = weakref.ref(held)
    del dropped, held
    while known() is not None:  # its thread may be about to take what was queued, and knows it until then
        gc.collect()
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert (office.log, tx.attempt, tx.state) == (["book a"], 1, State.COMMITTED)


def test_what_one_program_is_undoing_no_other_takes_up_or_undoes_beside_it(after):
    settlement, log = after(), []

    def cancel(room):
        log.append(f"cancel {room}")
        # As a look does that came first, and begins when another program is at it.
        (attempt,) = host_of(settlement).driver.kernel.attempts.values()
        run_sync(host_of(settlement).driver.recovery.end_all([attempt], Recovered(), None))
        run_sync(host_of(settlement).driver.recovery.take_up())

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book_once(room):
        log.append(f"book {room}")

    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(book_once, "a")
        raise Boom
    assert log == ["book a", "cancel a"]
    assert stand(settlement) == [("aborted", "failed: Boom", [("book_once", "undone", "clean")])]


if __name__ == "__main__":
    here = Office(sys.argv[1], sys.argv[3])
    globals()[sys.argv[2]](here, Settlement(here.url, retries=Retries(first=0, most=0)))
