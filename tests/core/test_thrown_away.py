"""Who is gone decides nothing: a program that is thrown away where it stands asks for nothing more, and moves nothing.

An event loop that is closed, or an interpreter that ends, throws away what had not come to its end. What that has begun
is the next one's to take up, as it stands on record: nothing may be aborted, undone or told of by it on its way out.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress

import pytest
from tests.rooms.runtime import sync

from settlemark import Retries, SettlemarkError, Settlement, effect
from settlemark.agents import open_turn
from settlemark.hosting import edit, host_of


class Gone(BaseException):
    """Who ran the program is gone."""


class Ends:
    """A runner that is gone when it has been asked for so many things, and sees what its program does on its way out.

    Args:
        after: that many.
        look: returns what there is to be seen.
    """

    def __init__(self, after, look):
        self.left, self.look = after, look
        self.thread = threading.current_thread()
        self.go_on = sync.go_on
        self.gone = False

    def __call__(self, program, request, do):
        if self.gone or threading.current_thread() is not self.thread:
            self.go_on(program, request, do)
        while self.left:
            self.left -= 1
            try:
                answer = do(request)
            except BaseException as error:
                request = program.throw(error)
            else:
                request = program.send(answer)
            do = sync.carry_out
        self.gone = True
        self.look()  # what it has given to the ledger is taken by then
        before = self.look()
        program.close()
        assert self.look() == before
        raise Gone


def enter(settlement, name="trip", **options):
    return kept(settlement, settlement.transaction(name, **options)).__enter__()


def kept(settlement, opening):
    """Keep what was entered for as long as its settlement: who drops it has it ended."""
    settlement.__dict__.setdefault("kept", []).append(opening)
    return opening


def play_to_its_end(settlement, name, plan):
    """Play a plan as a `with` block does whose body raises nothing."""
    opening = kept(settlement, settlement.transaction(name))
    plan(opening.__enter__())
    opening.__exit__(None, None, None)


# ---- what is thrown away


def commits(settlement, tools, world):
    tx = enter(settlement, before_commit=lambda _: True)
    tx.read("price:/a", live=lambda: 1, valid_for=60)
    tx.call(tools.book, room="a")
    tx.call(tools.charge, account="a", amount=1)
    tx.call(tools.shout, word="a")
    tx.call(tools.look, room="b")
    tx.call(tools.send, to="x")
    tx.call(tools.put, cell="a", value=1)
    tx.commit()


def takes_turns(settlement, tools, world):
    tx = enter(settlement, on_failure="ask", ask=lambda failure: "skip")
    world.fail("book", ValueError("no room"))
    with tx.turn(order="issued") as turn:
        turn.call(tools.send, to="x")
        turn.call(tools.book, room="a")
    with tx.turn() as turn:
        turn.call(tools.book, room="b")
        turn.call(tools.send, to="b")
    tx.commit()


def fails_and_is_undone(settlement, tools, world):
    tx = enter(settlement, on_failure="retry")
    world.fail("book", ValueError("busy"))
    tx.call(tools.book, room="a")
    tx.call(tools.book_with_fee, room="b")
    tx.call(tools.charge, account="a", amount=1)
    world.fail("charge", *[TimeoutError()] * 9)
    with suppress(SettlemarkError):
        tx.call(tools.charge, account="b", amount=1)
    world.fail("cancel", *[OSError("no undo today")] * 3)
    tx.abort()


def is_vetoed(settlement, tools, world):
    tx = enter(settlement, before_commit=lambda _: "too dear")
    tx.call(tools.book, room="a")
    tx.commit()


def is_stale(settlement, tools, world):
    versions = iter([1, 2])
    tx = enter(settlement)
    tx.read("price:/a", live=lambda: next(versions))
    tx.call(tools.book, room="a")
    tx.commit()


def waits_in_vain(settlement, tools, world):
    enter(settlement, "other").call(tools.book, room="a")
    tx = enter(settlement, wait=0)
    with suppress(SettlemarkError):
        tx.call(tools.book, room="a")
    tx.call(tools.put, cell="a", value=1)
    enter(settlement, "younger").call(tools.put, cell="a", value=2)
    settlement.transaction("younger", wait=0).__enter__()


def waits_in_vain_to_commit(settlement, tools, world):
    enter(settlement, "other").call(tools.put, cell="a", value=1)
    tx = enter(settlement, wait=0)
    tx.call(tools.put, cell="a", value=2)
    tx.commit()


def is_refused_by_the_first_that_leaves(settlement, tools, world):
    tx = enter(settlement)
    tx.call(tools.book, room="a")
    tx.call(tools.send, to="x")
    world.fail("send", ValueError("no such address"))
    tx.commit()


def is_committed_in_part(settlement, tools, world):
    tx = enter(settlement)
    for to in "xyz":
        tx.call(tools.send, to=to)
    world.fail("send", None, TimeoutError())
    tx.commit()


def asks_a_person(settlement, tools, world):
    answers = iter([True, edit({"room": "c"}), False])

    @effect("reversible", scope="room:/{room}", undo=tools.cancel, approve=lambda room: True)
    def book_if_allowed(room):
        world.act("book", room)

    tx = enter(settlement, approver=lambda gate: next(answers))
    tx.call(book_if_allowed, room="a")
    tx.call(book_if_allowed, room="b")
    tx.call(book_if_allowed, room="d")


def is_put_aside_and_answered(settlement, tools, world):
    def plan(tx):
        tx.call(tools.book, room=tx.name)
        tx.call(tools.send, to=tx.name)
        tx.park(tx.name)

    for park in ("keep", "split"):
        play_to_its_end(settlement, park, plan)
    settlement.answer("keep", approve=True, arguments={"to": "y"})


def decides_otherwise_than_before(settlement, tools, world):
    def before(tx):
        tx.call(tools.book, room="a")
        tx.call(tools.book, room="b")
        tx.call(tools.send, to="x")
        tx.park("keep")

    play_to_its_end(settlement, "trip", before)
    play_to_its_end(settlement, "trip", lambda tx: tx.call(tools.book, room="a"))


def is_begun_again(settlement, tools, world):
    tries = []

    def body(tx):
        tries.append(tx)
        tx.read("room:/b")
        tx.call(tools.book, room="a")
        if len(tries) == 1:
            other.call(tools.book, room="b")
            other.commit()

    other = enter(settlement, "other")
    settlement.run("trip", body)


def goes_back(settlement, tools, world):
    for name, room in (("one", "a"), ("two", "b")):
        play_to_its_end(settlement, name, lambda tx, room=room: tx.call(tools.book, room=room))
    enter(settlement, "three").call(tools.book, room="c")
    settlement.rewind(["one", "two", "three"], by="ada", dry_run=False)


def learns_late(settlement, tools, world):
    @effect("reversible", scope="room:/{room}", undo=tools.cancel, probe=lambda room: 1 / 0)
    def book_in_doubt(room):
        world.act("book", room)
        raise TimeoutError

    tx = enter(settlement)
    with suppress(SettlemarkError):
        tx.call(book_in_doubt, room="a")
    tx.abort()
    (doubt,) = settlement.in_doubt()
    settlement.confirm(doubt.key, True)


def plays_a_frameworks_turn(settlement, tools, world):
    def run(program):
        return sync.run_sync(program)

    for _ in range(2):
        batch = run(open_turn(settlement, "trip/1", run="trip", resumable=True, let_through=(LookupError,)))
        calls = [
            (batch.place(host_of(settlement).tools.of(tools.book), {"room": "a"}), {"room": "a"}),
            (batch.place(host_of(settlement).tools.of(tools.send), {"to": "x"}), {"to": "x", "text": "dear x"}),
            (batch.place(host_of(settlement).tools.of(tools.book), {"room": "b"}), {"room": "b"}),
        ]
        for call, given in calls:
            error = None
            try:
                run(batch.perform(call, lambda given=given: asks(given), given, may_wait=False))
            except LookupError as control:
                error = control
            run(batch.leave(call, error=error))
        if batch.unattended:
            run(batch.finish(calls[0][0]))


def asks(given):
    if given == {"room": "b"} and not asks.before:
        asks.before.append(given)
        raise LookupError


PLAYS = [
    commits, takes_turns, fails_and_is_undone, is_vetoed, is_stale, waits_in_vain, waits_in_vain_to_commit,
    is_refused_by_the_first_that_leaves, is_committed_in_part, asks_a_person, is_put_aside_and_answered,
    decides_otherwise_than_before, is_begun_again, goes_back, learns_late, plays_a_frameworks_turn,
]  # fmt: skip # a list of names and values


@pytest.fixture
def throw_away(url, tmp_path, monkeypatch, world):
    """Play in a store of its own, with a runner that is gone after so many requests; return whether it is."""

    played = []

    def throw(play, after):
        here = url if url == "memory:" else f"sqlite:///{tmp_path}/{after}.db"
        settlement = Settlement(here, retries=Retries(first=0, most=0), wait=0.2)
        host_of(settlement).driver.probing.on_doubt = None
        if (maintenance := host_of(settlement)._maintenance) is not None:
            maintenance.stop()  # it would go on with an abort beside who is thrown away, and between two looks
        asks.before = []
        played.append(settlement)  # what it keeps is not dropped, and undone in the same world, while another is played

        def look():
            states = sorted((txn.name, txn.state, txn.parked) for txn in host_of(settlement).protocol.live.values())
            effects = [
                (one.row.name, one.state, one.reason, [(e.row.key, e.outcome, e.tag, e.note) for e in one.effects])
                for one in settlement.transactions()
            ]
            return [*world.log], states, effects

        ends = Ends(after, look)
        try:
            with monkeypatch.context() as patched, suppress(Gone, SettlemarkError):
                patched.setattr(sync, "go_on", ends)
                play(settlement, world.tools, world)
        finally:
            settlement.close()
            world.log.clear()
            world.faults.clear()
        return ends.gone

    return throw


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_what_is_thrown_away_wherever_it_stands_asks_for_nothing_more_and_nothing_changed(throw_away, play):
    thrown = next(after for after in itertools.count() if not throw_away(play, after))
    assert thrown, "nothing was asked for"
