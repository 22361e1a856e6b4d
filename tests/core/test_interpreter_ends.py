"""An interpreter that ends throws away what is in its blocks: it ends all the same, and the next process takes that up.

Whoever is thrown away last can start no thread any more, and has nobody to wait for. An undo that has begun by then is
waited for, so that it is on record when the next process looks.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import ExitStack

import pytest

from settlemark import Settlement, effect

PATIENCE = 30
BEGINS = """
import asyncio, sys, threading
from settlemark import Settlement, effect

@effect("reversible", scope="room:/{room}", undo=lambda room: print("undone", flush=True))
def book(room):
    print("booked", flush=True)

settlement = Settlement(sys.argv[1], keep_open=0)
acted = []

def block():
    return OPENING

async def in_a_task():
    async with block() as face:
        await act(face)
        acted.append(face.name)
        await asyncio.Event().wait()

async def act(face):
    if hasattr(face, "call"):
        await face.call(book, "a")

async def gives_out():
    async with block() as face:
        await act(face)
        yield face

def act_at_once(face):
    if hasattr(face, "call"):
        face.call(book, "a")

def gives_out_at_once():
    with block() as face:
        act_at_once(face)
        yield face

def begin_a_task(loop):
    task = loop.create_task(in_a_task())
    while not acted:
        loop.run_until_complete(asyncio.sleep(0.01))
    return task
"""
OPENINGS = {
    "a transaction": 'settlement.transaction("trip")',
    "a hold": 'settlement.hold("room:/a", name="trip")',
}
WAYS = {
    "a task of an open loop": "loop = asyncio.new_event_loop(); task = begin_a_task(loop)",
    "a task of a closed loop": "loop = asyncio.new_event_loop(); task = begin_a_task(loop); loop.close()",
    "a task of a thread's loop": """
        def run():
            global loop, task
            loop = asyncio.new_event_loop()
            task = begin_a_task(loop)
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        """,
    "an async generator": "loop = asyncio.new_event_loop(); g = gives_out(); face = loop.run_until_complete(anext(g))",
    "a generator": "g = gives_out_at_once(); face = next(g)",
    "entered by hand": "opening = block(); face = opening.__enter__(); act_at_once(face)",
    "entered by hand in a loop": """
        loop = asyncio.new_event_loop()
        opening = block()
        face = loop.run_until_complete(opening.__aenter__())
        loop.run_until_complete(act(face))
        """,
}


def run(ways, begins, url, tmp_path):
    """Run a program for each way, all at once; return each one's store, and what it printed. All of them end well."""
    with ExitStack() as stack:
        begun, stores = {}, {}
        for number, (way, code) in enumerate(ways.items()):
            stores[way] = url if url == "memory:" else f"sqlite:///{tmp_path}/{number}.db"
            script = tmp_path / f"{number}.py"
            script.write_text(begins + textwrap.dedent(code))
            command = [sys.executable, script, stores[way]]
            process = begun[way] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.kill)
        ended = {way: process.communicate(timeout=PATIENCE) for way, process in begun.items()}
    assert {way: process.returncode for way, process in begun.items()} == dict.fromkeys(ways, 0), ended
    return stores, {way: printed for way, (printed, _) in ended.items()}


@pytest.mark.parametrize("opening", OPENINGS)
def test_an_interpreter_ends_whatever_is_left_in_a_block_and_the_next_takes_it_up(opening, url, tmp_path):
    @effect("reversible", scope="room:/{room}", undo=lambda room: undone.append(room))
    def book(room):
        pass

    begun, ended = run(WAYS, BEGINS.replace("OPENING", OPENINGS[opening]), url, tmp_path)
    if url == "memory:":
        return
    for way, at in begun.items():
        undone = []
        with Settlement(at, keep_open=0) as following:
            following.recover(keep_open=0)
            assert (way, following.waiting()) == (way, [])
        booked, here = (ended[way].count(word) for word in (b"booked", b"undone"))
        assert booked == (opening == "a transaction"), way
        # One undo at most is repeated: the process may have ended between the undo and its record.
        assert booked <= here + len(undone) <= 2 * booked, way


UNDOES = f"""
import asyncio, atexit, gc, sys, threading, time
PATIENCE = {PATIENCE}
from settlemark import Settlement, effect

ending, undoing = threading.Event(), threading.Event()

def unbook(room):
    print("undoing", flush=True)
    undoing.set()
    ending.wait(PATIENCE)
    time.sleep(0.3)  # the interpreter, or the close, goes on meanwhile
    print("undone", flush=True)

@effect("reversible", scope="room:/{{room}}", undo=unbook)
def book(room):
    print("booked", flush=True)

settlement = Settlement(sys.argv[1], keep_open=0)
atexit.register(ending.set)

async def in_a_task():
    async with settlement.transaction("trip") as tx:
        await tx.call(book, "a")
        acted.set()
        await asyncio.Event().wait()

async def gives_out():
    async with settlement.transaction("trip") as tx:
        await tx.call(book, "a")
        yield tx

def in_a_thread():
    with settlement.transaction("trip") as tx:
        tx.call(book, "a")
        raise LookupError

acted = threading.Event()

def begin_a_task(loop):
    task = loop.create_task(in_a_task())
    while not acted.is_set():
        loop.run_until_complete(asyncio.sleep(0.01))
    return task

def close_it():
    ending.set()
    settlement.close()
"""
BY_HAND = """
opening = settlement.transaction("trip")
tx = opening.__enter__()
tx.call(book, "a")
del opening, tx
"""
TASK = """
loop = asyncio.new_event_loop()
task = begin_a_task(loop)
loop.close()
del task, loop
gc.collect()
"""
GENERATOR = """
loop = asyncio.new_event_loop()
g = gives_out()
loop.run_until_complete(anext(g))
loop.close()
del g, loop
"""
THREAD = "threading.Thread(target=in_a_thread, daemon=True).start()\nundoing.wait(PATIENCE)\n"
BEGUN = "undoing.wait(PATIENCE)\n"
CLOSINGS = {
    "entered by hand, dropped": BY_HAND,
    "entered by hand, dropped, and its undo begun": BY_HAND + BEGUN,
    "entered by hand, dropped and closed": BY_HAND + "close_it()",
    "a task of a loop that was closed": TASK,
    "a task of a loop that was closed, and its undo begun": TASK + BEGUN,
    "a task of a loop that was closed, and the settlement closed": TASK + "close_it()",
    "an async generator, dropped": GENERATOR,
    "an async generator, dropped, and the settlement closed": GENERATOR + "close_it()",
    "a daemon thread": THREAD,
    "a daemon thread, and the settlement closed": THREAD + "close_it()",
}


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
def test_an_undo_that_goes_on_as_the_interpreter_ends_is_recorded_and_runs_once(url, tmp_path):
    @effect("reversible", scope="room:/{room}", undo=lambda room: undone.append(room))
    def book(room):
        pass

    begun, ended = run(CLOSINGS, UNDOES, url, tmp_path)
    for way, at in begun.items():
        printed = ended[way].decode().split()
        undone = []
        if url != "memory:":
            with Settlement(at, keep_open=0) as following:
                following.recover(keep_open=0)
                assert (way, following.waiting(), following.residue()) == (way, [], [])
        assert (way, printed, undone) in [
            (way, ["booked", "undoing", "undone"], []),
            (way, ["booked"], ["a"] if url != "memory:" else []),  # it ended before the undo began
        ], ended[way]


def test_an_interpreter_that_ends_while_it_takes_up_what_another_has_left_undoes_that_once(tmp_path):
    at = f"sqlite:///{tmp_path}/left.db"
    leaves = """
        import os
        opening = settlement.transaction("trip")
        opening.__enter__().call(book, "a")
        settlement.transactions()  # the outcome is on record
        os._exit(0)
        """
    takes_up = BEGUN
    undone = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: undone.append(room))
    def book(room):
        pass

    printed = []
    for code in (leaves, takes_up):
        script = tmp_path / "script.py"
        script.write_text(UNDOES + textwrap.dedent(code))
        process = subprocess.run([sys.executable, script, at], capture_output=True, timeout=2 * PATIENCE, check=True)
        printed.append(process.stdout.decode().split())
    with Settlement(at, keep_open=0) as following:
        following.recover(keep_open=0)
        assert (following.waiting(), following.residue()) == ([], [])
    assert (printed, undone) == ([["booked"], ["undoing", "undone"]], [])
