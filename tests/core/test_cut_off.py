"""A process that is killed at its worst moment, and the next one that enters the same name.

The world is a file of lines, written by the tools themselves; a booking desk that honours keys
is a second file with one line a key.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from settlemark import InDoubt, Settlement, State, Tag, WaitTimeout, effect
from settlemark.hosting import host_of

PATIENCE = 60

PROGRAM = '''
import json, os, signal, sys
from pathlib import Path
from settlemark import Settlement, current_call, effect

folder, die_at, probe_answers = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "probe"

def log(line):
    with (folder / "world").open("a") as world:
        world.write(line + "\\n")

def die(here):
    if here == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

def book_once(room):
    """The desk honours keys: a second booking under one key is the first."""
    key = current_call().key
    desk = folder / "desk"
    known = json.loads(desk.read_text()) if desk.exists() else {}
    if key not in known:
        known[key] = room
        desk.write_text(json.dumps(known))
        log(f"booked {room}")

@effect("reversible", scope="room:/{room}", undo=lambda room: log(f"cancelled {room}"), keyed=True)
def book(room):
    die("before booking")
    book_once(room)
    die("after booking")
    return {"room": room}

def sent(to):
    return True if f"mail {to}" in (folder / "world").read_text().splitlines() else None

@effect("irreversible", scope="mail:/{to}", probe=sent if probe_answers else None)
def send(to):
    die("before mail")
    log(f"mail {to}")
    die("after mail")

settlement = Settlement(f"sqlite:///{folder / 'ledger.db'}")
with settlement.transaction("trip-42") as tx:
    tx.call(book, room="Ada")
    die("between")
    mail = tx.call(send, to="a@example.com")
    die("before commit")
settlement.close()
log(f"done: the mail is {mail.outcome}")
'''


DONE = "done: the mail is confirmed"


def run(folder, die_at="never", *, probe=False):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), die_at, "probe" if probe else "-"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def world(folder):
    path = folder / "world"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    "die_at", ["before booking", "after booking", "between", "before commit", "before mail", "after mail"]
)
def test_entering_the_name_again_after_a_kill_does_each_effect_once(tmp_path, die_at):
    killed = run(tmp_path, die_at, probe=True)
    assert killed.returncode == -signal.SIGKILL
    again = run(tmp_path, probe=True)
    assert again.returncode == 0, again.stderr
    assert world(tmp_path) == ["booked Ada", "mail a@example.com", DONE]
    (key,) = json.loads((tmp_path / "desk").read_text())
    assert re.fullmatch(r"[0-9a-f]{16}\.trip-42#1/0", key)


def test_a_mail_that_may_have_left_and_cannot_be_asked_about_is_in_doubt_and_named(tmp_path):
    run(tmp_path, "after mail")
    again = run(tmp_path)
    assert "trip-42 left send on mail:/a@example.com: nobody can tell whether it left" in again.stderr
    told = r"InDoubt: the outcome of send on mail:/a@example.com \([0-9a-f]{16}\.trip-42#1/1\) is unknown"
    assert re.search(told, again.stderr)
    assert world(tmp_path) == ["booked Ada", "mail a@example.com"]
    with Settlement(f"sqlite:///{tmp_path / 'ledger.db'}") as settlement:
        assert [(r.tool, r.tag) for r in settlement.residue()] == [("send", Tag.UNRESOLVED)]
        assert host_of(settlement).protocol.live == {}


def test_a_third_process_replays_what_the_first_committed(tmp_path):
    assert run(tmp_path).returncode == 0
    assert run(tmp_path, "after booking").returncode == 0
    assert world(tmp_path) == ["booked Ada", "mail a@example.com", DONE, DONE]


# ---- the name is not left, but in use by another live settlement on the same store


@pytest.fixture
def rooms():
    return []


@pytest.fixture
def book(rooms):
    @effect("reversible", scope="room:/{room}", undo=lambda room: rooms.remove(room))
    def book(room):
        rooms.append(room)

    return book


@pytest.fixture
def first_and_second(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Settlement(url) as first, Settlement(url) as second:
        yield first, second


@pytest.fixture
def entering():
    """Enter a name in a thread and make a call in it; returns when it waits for whoever uses the name."""
    threads = []

    def enter(settlement, function, **arguments):
        waits, listen, told = threading.Event(), host_of(settlement).ledger.listen, []

        def listening(change):
            listen(change)
            waits.set()

        def target():
            with settlement.transaction("trip-42") as tx:
                tx.call(function, **arguments)
            told.append((tx.attempt, tx.state))

        host_of(settlement).ledger.listen = listening
        threads.append(threading.Thread(target=target))
        threads[-1].start()
        assert waits.wait(PATIENCE)
        assert told == []
        return threads[-1], told

    yield enter
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_name_that_another_live_settlement_is_running_is_not_taken_from_it(first_and_second, book, rooms):
    first, second = first_and_second
    with first.transaction("trip-42") as tx:
        tx.call(book, room="Ada")
        with pytest.raises(WaitTimeout, match="trip-42 is in use by another caller"):
            with second.transaction("trip-42", wait=0):
                raise AssertionError("not reached")
        assert second.recover(keep_open=0).undone == []
        assert (rooms, tx.state) == (["Ada"], State.OPEN)
    assert (rooms, tx.state) == (["Ada"], State.COMMITTED)


def test_whoever_waits_for_a_name_that_then_commits_replays_it(first_and_second, entering, book, rooms):
    first, second = first_and_second
    with first.transaction("trip-42") as tx:
        tx.call(book, room="Ada")
        thread, told = entering(second, book, room="Ada")
    thread.join(PATIENCE)
    assert (told, rooms) == ([(1, State.COMMITTED)], ["Ada"])


def test_whoever_waits_for_a_name_that_is_then_undone_makes_the_next_attempt(first_and_second, entering, book, rooms):
    first, second = first_and_second
    with pytest.raises(ZeroDivisionError), first.transaction("trip-42") as tx:
        tx.call(book, room="Ada")
        thread, told = entering(second, book, room="Bee")
        raise ZeroDivisionError
    thread.join(PATIENCE)
    assert (told, rooms) == ([(2, State.COMMITTED)], ["Bee"])


def test_in_doubt_is_an_error_that_names_the_key():
    @effect("opaque", scope="desk:/{n}")
    def lose(n):
        raise TimeoutError

    settlement = Settlement("memory:")
    with pytest.raises(InDoubt) as caught, settlement.transaction("trip") as tx:
        tx.call(lose, n=1)
    assert (caught.value.key, caught.value.tool) == ("trip#1/0", "lose")
