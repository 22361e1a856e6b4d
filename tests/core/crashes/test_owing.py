"""SIGKILL before and after every statement of an obligation's life: none is lost or doubled, and its handler acts once.

A program owes something, holds a room until a time, keeps one promise, and is killed at a statement. The next process
enters its names again, waits until everything is due, and judges from the desk's own file.

`SETTLEMARK_CRASHES=full` kills at every point; else at each third.
"""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from tests.core.crashes.conftest import FULL
from tests.core.crashes.sweep import kill_at_each
from tests.unattended import unattended

from settlemark import UNKNOWN, Retries, Settlement, current_call, effect
from settlemark.testing import VirtualClock

DAY = 86_400.0

pytestmark = [pytest.mark.usefixtures("still"), pytest.mark.long]


class Desk:
    """Keeps each act in a file, under its key: so a probe can be told whether it happened."""

    def __init__(self, file, clock):
        self.file = file

        def happened(key):
            return next(({"done": True} for entry in self.log() if entry["key"] == key), None)

        @effect("irreversible", scope="customer:/{customer}", keyed=True, probe=happened)
        def refund(customer):
            return self.act("refund", customer)

        @effect("irreversible", scope="room:/{room}", keyed=True, probe=happened)
        def release_room(hold, room):
            return self.act("release", hold)

        def take_back(room, key):
            self.act("undo", room)

        @effect(
            "reversible",
            scope="room:/{room}",
            undo=take_back,
            probe=happened,
            keyed=True,
            expires="{result.until}",
            then=release_room,
        )
        def hold_room(room):
            return {**self.act("hold", room), "hold": f"h-{room}", "until": self.until}

        self.until = clock() + DAY
        self.refund, self.hold_room = refund, hold_room

    def log(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def act(self, what, whom):
        call = current_call()
        key = UNKNOWN if call is None else call.key
        if what != "undo" and any(entry["key"] == key for entry in self.log()):
            return {"done": True}
        with self.file.open("a") as file:
            file.write(json.dumps({"key": key, "what": what, "whom": whom}) + "\n")
        return {"done": True}


class Case:
    """One store, and the desk beside it."""

    def __init__(self, case):
        self.case, self.clock = case, VirtualClock()
        self.desk = Desk(case.desk.with_suffix(".acts"), self.clock)

    def open(self):
        options = {**self.clock.options(), "retries": Retries(first=0, most=0), "namespace": self.case.namespace}
        settlement = unattended(Settlement(self.case.url, **options))
        settlement.on_due(lambda tx, owed: tx.call(self.desk.refund, customer=owed.to[-1]), tool="refund")
        return settlement

    def work(self, settlement):
        """Owe two refunds, hold a room, and keep one promise."""
        with settlement.transaction("case/1") as tx:
            tx.call(self.desk.hold_room, room="7")
            for customer in "12":
                to, by = f"customer:/{customer}", timedelta(days=1)
                tx.owe(f"refund {customer}", to=to, by=by, fulfilled_by="refund")
        with settlement.transaction("case/2") as tx:
            tx.call(self.desk.refund, customer="1")

    def live(self):
        """Work, wait until what is left is due, and have it done."""
        with self.open() as settlement:
            self.work(settlement)
            self.clock.advance(DAY + 1)
            settlement.recover()

    def judged(self):
        """Return what is wrong once the next process has gone on, and everything was due."""
        self.clock.advance(3_600)
        with self.open() as settlement:
            settlement.recover(keep_open=0)
            self.work(settlement)
            for _ in range(2):
                self.clock.advance(DAY + 61)
                settlement.recover()
            done = [(entry["what"], entry["whom"]) for entry in self.desk.log()]
            owed = sorted((each.text, str(each.state)) for each in settlement.obligations() if each.state != "void")
            left = [settlement.residue(), settlement.in_doubt()]
        taken, undone = done.count(("hold", "7")), done.count(("undo", "7"))
        once = (("refund", "1"), ("refund", "2"), ("release", "h-7"))
        wrong = [f"{what} {done.count(what)} times" for what in once if done.count(what) != 1]
        if taken - undone != 1:
            wrong.append(f"held {taken} times, taken back {undone} times")
        expected = [("hold_room lapses", "fulfilled"), ("refund 1", "fulfilled"), ("refund 2", "fulfilled")]
        if owed != expected:
            wrong.append(f"owed: {owed}")
        if left != [[], []]:
            wrong.append(f"left: {left}")
        return [*wrong, f"{done}"] if wrong else []


@pytest.mark.parametrize(("store", "every"), [("in_memory", 1 if FULL else 3), ("namespaces", 20)])
def test_whatever_statement_it_dies_at(store, every, request, record_property):
    record_property("explored_kills", kill_at_each(request.getfixturevalue(store), Case, every))
