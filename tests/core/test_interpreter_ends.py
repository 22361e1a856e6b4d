"""An interpreter that ends throws away what is in its blocks: it ends all the same, and the next process takes that up.

Whoever is thrown away last can start no thread any more, and has nobody to wait for.
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


@pytest.mark.parametrize("opening", OPENINGS)
def test_an_interpreter_ends_whatever_is_left_in_a_block_and_the_next_takes_it_up(opening, url, tmp_path):
    @effect("reversible", scope="room:/{room}", undo=lambda room: undone.append(room))
    def book(room):
        pass

    with ExitStack() as stack:
        begun = {}
        for number, (way, code) in enumerate(WAYS.items()):
            at = url if url == "memory:" else f"sqlite:///{tmp_path}/{number}.db"
            script = tmp_path / f"{number}.py"
            script.write_text(BEGINS.replace("OPENING", OPENINGS[opening]) + textwrap.dedent(code))
            process = subprocess.Popen([sys.executable, script, at], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.kill)
            begun[way] = process, at
        ended = {way: process.communicate(timeout=PATIENCE) for way, (process, _) in begun.items()}
        assert {way: process.returncode for way, (process, _) in begun.items()} == dict.fromkeys(WAYS, 0), ended
    if url == "memory:":
        return
    for way, (_, at) in begun.items():
        undone = []
        with Settlement(at, keep_open=0) as following:
            following.recover(keep_open=0)
            assert (way, following.waiting()) == (way, [])
        booked, here = (ended[way][0].count(word) for word in (b"booked", b"undone"))
        assert booked == (opening == "a transaction"), way
        # One undo at most is repeated: the process may have ended between the undo and its record.
        assert booked <= here + len(undone) <= 2 * booked, way
