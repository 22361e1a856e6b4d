"""Closing a settlement while it is at work: it waits, or hands over what is out as in doubt; nothing is forgotten."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from textwrap import dedent
from unittest.mock import Mock

import pytest
from tests.rooms.replica import store

from settlemark import LedgerError, Retries, Settlement, current_call, effect
from settlemark.hosting import host_of

PATIENCE = 30


class Office:
    """A counterparty with a log; a call of it may be made to wait."""

    def __init__(self):
        self.log = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def knows(self, verb, key):
        return "done" if (verb, key) in self.log and ("cancel", key) not in self.log else None

    def tools(self):
        @effect(
            "reversible",
            scope="room:/{room}",
            undo=lambda key: self.log.append(("cancel", key)),
            probe=lambda key: self.knows("book", key),
            name="book",
        )
        def book(room):
            self.begun.set()
            assert self.go_on.wait(PATIENCE)
            self.log.append(("book", current_call().key))

        @effect("irreversible", scope="mail:/{to}", probe=lambda key: self.knows("mail", key), name="mail")
        def mail(to):
            self.begun.set()
            assert self.go_on.wait(PATIENCE)
            self.log.append(("mail", current_call().key))

        return {"book": (book, {"room": "a"}), "mail": (mail, {"to": "x"})}


@pytest.fixture
def office():
    made = Office()
    yield made
    made.go_on.set()


def at_work(settlement, office, name):
    """Begin a job in a thread, and return when its call is out."""
    told = []
    tool, arguments = office.tools()[name]

    def work():
        try:
            settlement.run("job", lambda tx: tx.call(tool, **arguments) and None)
            told.append("ok")
        except Exception as error:
            told.append(type(error).__name__)

    thread = threading.Thread(target=work)
    thread.start()
    assert office.begun.wait(PATIENCE)
    return thread, told


def stand(settlement):
    return [(r.row.name, r.state.value, [e.outcome.value for e in r.effects]) for r in settlement.transactions()]


@pytest.mark.parametrize("name", ["book", "mail"])
def test_closing_waits_for_a_call_that_is_out_and_for_its_settlement(shared_url, office, name, open_settlement):
    settlement = Settlement(shared_url, wait=PATIENCE)
    thread, told = at_work(settlement, office, name)
    closing = threading.Thread(target=settlement.close)
    closing.start()
    office.go_on.set()
    closing.join(PATIENCE)
    thread.join(PATIENCE)
    assert told == ["ok"]
    after = open_settlement(shared_url)
    assert stand(after) == [("job", "committed", ["confirmed"])]
    assert (len(office.log), after.residue(), after.in_doubt()) == (1, [], [])


@pytest.mark.parametrize("name", ["book", "mail"])
def test_a_call_that_takes_longer_is_handed_over_in_doubt_and_what_came_of_it_is_told_when_it_is_back(
    shared_url, office, name, open_settlement
):
    settlement = Settlement(shared_url, wait=0, retries=Retries(first=0, most=0))
    thread, told = at_work(settlement, office, name)
    settlement.close()
    after = open_settlement(shared_url, keep_open=0)
    after.recover(keep_open=0)
    assert office.log == [], "what is absent may still come: it is not sent again"
    doubted = [doubt.tool for doubt in after.in_doubt()]
    assert doubted == ([name] if name == "book" else [])
    assert stand(after) == [("job", *(("aborting", ["unknown"]) if name == "book" else ("releasing", ["queued"])))]
    office.go_on.set()
    thread.join(PATIENCE)
    assert told in (["LedgerError"], ["LeaseLost"])
    for _ in range(2):
        host_of(after).driver.resolution.asked.clear()
        after.recover(keep_open=0)
    key = office.log[0][1]
    assert office.log == [(name, key), *([("cancel", key)] if name == "book" else [])]
    found = {row: (state, outcomes) for row, state, outcomes in stand(after)}
    assert found["job"] == (("aborted", ["undone"]) if name == "book" else ("committed", ["confirmed"]))
    assert (after.residue(), after.in_doubt()) == ([], [])
    assert host_of(after).ledger.read(lambda book: book.zombies()) == frozenset()


def test_closing_in_an_event_loop_does_not_wait_for_what_runs_in_it(shared_url, open_settlement):
    world = []

    async def play():
        begun, go_on = asyncio.Event(), asyncio.Event()

        @effect("reversible", scope="room:/{room}", undo=lambda key: world.append("cancel"), name="book")
        async def book(room):
            begun.set()
            await go_on.wait()
            world.append("book")

        settlement = Settlement(shared_url, wait=PATIENCE)

        async def body(tx):
            await tx.call(book, room="a")

        job = asyncio.create_task(settlement.run("job", body))
        await begun.wait()
        settlement.close()
        go_on.set()
        with pytest.raises(LedgerError):
            await job

    asyncio.run(asyncio.wait_for(play(), PATIENCE))
    after = open_settlement(shared_url, keep_open=0)
    after.recover(keep_open=0)
    after.recover(keep_open=0)
    assert world == ["book", "cancel"]
    assert (after.residue(), after.in_doubt()) == ([], [])


def test_a_tool_may_close_its_own_settlement_and_is_then_in_doubt_no_longer_than_it_runs(shared_url, open_settlement):
    world = []
    settlement = Settlement(shared_url, wait=PATIENCE)

    @effect("reversible", scope="room:/{room}", undo=lambda key: world.append("cancel"), name="book")
    def book(room):
        settlement.close()
        world.append("book")

    with pytest.raises(LedgerError, match="closed"), settlement.transaction("job") as tx:
        tx.call(book, room="a")
    after = open_settlement(shared_url, keep_open=0)
    after.recover(keep_open=0)
    after.recover(keep_open=0)
    assert world == ["book", "cancel"]
    assert (after.residue(), after.in_doubt()) == ([], [])


def test_what_is_in_flight_is_handed_over_once_however_often_it_is_closed(tmp_path, monkeypatch):
    settlement, given = Settlement(f"sqlite:///{tmp_path / 'ledger.db'}", wait=PATIENCE), []
    member = host_of(settlement).ledger._member
    give_away = member.give_away
    monkeypatch.setattr(member, "give_away", lambda: (given.append(1), give_away())[1])

    @effect("reversible", scope="room:/{room}", undo=lambda key: None, name="book")
    def book(room):
        for _ in range(3):
            host_of(settlement).ledger.close()

    with pytest.raises(LedgerError, match="closed"), settlement.transaction("job") as tx:
        tx.call(book, room="a")
    settlement.close()
    assert given == [1]


def test_a_process_that_ends_while_a_daemon_thread_is_sending_leaves_it_in_doubt_until_it_has_ended(
    tmp_path, open_settlement
):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    code = dedent(f"""
        import threading, time
        from settlemark import Settlement, effect
        begun = threading.Event()
        @effect("reversible", scope="room:/a", undo=lambda: None, probe=lambda: None, name="book")
        def book():
            begun.set()
            time.sleep({PATIENCE})
        settlement = Settlement({url!r})
        threading.Thread(target=lambda: settlement.run("job", lambda tx: tx.call(book)), daemon=True).start()
        begun.wait()
    """)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)

    @effect("reversible", scope="room:/a", undo=lambda: None, probe=lambda: None, name="book")
    def book(): ...

    after = open_settlement(url, keep_open=0)
    after.recover(keep_open=0)
    assert stand(after) == [("job", "aborted", ["failed"])]
    assert (after.residue(), after.in_doubt()) == ([], [])


@pytest.mark.parametrize("handed_over", [False, True])
@pytest.mark.parametrize("name", ["book", "mail"])
def test_what_was_closed_while_its_store_was_away_keeps_nothing_for_as_long_as_its_process_lives(
    shared_url, office, name, handed_over, open_settlement, disk_full, monkeypatch
):
    settlement = Settlement(shared_url, wait=0 if handed_over else PATIENCE, retries=Retries(first=0, most=0))
    thread, told = at_work(settlement, office, name)
    if handed_over:
        settlement.close()
    connection = host_of(settlement).ledger._member.connection
    failing = Mock(side_effect=disk_full(host_of(settlement).ledger))
    monkeypatch.setattr(connection, "opened", failing)
    connection.let_go()
    office.go_on.set()
    thread.join(PATIENCE)
    settlement.close()
    left = name == "mail" and not handed_over  # it was decided, and what came of it is queued
    assert told in ([["ok"]] if left else [["LedgerError"], ["LeaseLost"]])
    after = open_settlement(shared_url, keep_open=0)
    for _ in range(3):
        host_of(after).driver.resolution.asked.clear()
        after.recover(keep_open=0)
    key = office.log[0][1]
    assert office.log == [(name, key), *([("cancel", key)] if name == "book" else [])]
    assert stand(after) == [("job", *(("aborted", ["undone"]) if name == "book" else ("committed", ["confirmed"])))]
    assert (after.residue(), after.in_doubt(), host_of(after).protocol.live) == ([], [], {})
    assert host_of(after).ledger.read(lambda book: [worker.worker for worker in book.workers()]) == []


def test_a_caller_that_comes_to_the_store_just_as_it_is_closed_is_not_left_waiting(shared_url):
    settlement = Settlement(shared_url)
    member = host_of(settlement).ledger._member
    settlement.close()
    answer = member.submit(lambda _protocol, _book: "taken", durable=False)
    caller = threading.Thread(target=answer.lead, daemon=True)
    caller.start()
    caller.join(PATIENCE)
    assert (caller.is_alive(), answer.done) == (False, True)
    member.close()


def test_a_ledger_that_is_closed_leaves_no_thread_behind_however_seldom_that_would_look(shared_url, monkeypatch):
    monkeypatch.setattr(store, "LOOK_SECONDS", 10 * PATIENCE)
    before = set(threading.enumerate())
    settlement = Settlement(shared_url, lease=100 * PATIENCE)
    (thread,) = {each for each in threading.enumerate() if each.name == "settlemark-ledger"} - before
    settlement.close()
    assert not thread.is_alive()


def test_closing_twice_and_closing_what_is_idle_is_nothing(shared_url):
    settlement = Settlement(shared_url)
    settlement.close()
    settlement.close()
    with pytest.raises(LedgerError, match="closed"):
        settlement.run("job", lambda tx: None)
