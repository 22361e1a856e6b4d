"""SIGKILL before and after every statement of a mend: what is stuck is mended once, or a person is paged; none is lost.

A program books a room that its own undo cannot cancel, fails, and has what is stuck mended: by a plan, by a plan that
needs a person's yes, or by nobody, so that a person is paged. It is killed at a statement. The next process goes on,
and judges from the hotel's own file.

`SETTLEMARK_CRASHES=full` kills at every point; else at some.
"""

from __future__ import annotations

import contextlib
import json

import pytest
from tests.core.crashes.conftest import FULL
from tests.core.crashes.sweep import kill_at_each
from tests.unattended import unattended

from settlemark import Retries, Settlement, current_call, effect
from settlemark.testing import VirtualClock

pytestmark = [pytest.mark.usefixtures("still"), pytest.mark.long]

PLANS = {"a plan": "void", "a gated plan": "evict", "no plan": None}


class Boom(Exception):
    """A failure of the caller's own."""


class Hotel:
    """Keeps each act in a file, under its key; a room is taken when the last act on it says so."""

    name = "pager"

    def __init__(self, file):
        self.file = file

        def cancel(room):
            raise LookupError("the desk is closed")

        def find(room):
            return {"room": room} if self.is_taken() else None

        def happened(key):
            return {"done": True} if any(entry["key"] == key for entry in self.log()) else None

        @effect("reversible", scope="room:/{room}", undo=cancel, probe=find)
        def book(room):
            return self.act("book")

        @effect(
            "reversible", scope="room:/{room}", undo=lambda room: self.act("take again"), probe=happened, keyed=True
        )
        def void(room):
            return self.act("void")

        @effect("irreversible", scope="room:/{room}", probe=happened, keyed=True)
        def evict(room):
            return self.act("evict")

        self.book = book

    def log(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def is_taken(self):
        done = [entry["what"] for entry in self.log() if entry["what"] != "page"]
        return bool(done) and done[-1] in ("book", "take again")

    def act(self, what, **more):
        call = current_call()
        key = None if call is None else call.key
        if what in ("void", "evict") and any(entry["key"] == key for entry in self.log()):
            return {"done": True}
        with self.file.open("a") as file:
            file.write(json.dumps({"key": key, "what": what, **more}) + "\n")
        return {"done": True}

    def tell(self, notice):
        if notice.occasion == "stuck":  # else a call waits for a yes
            self.act("page", id=notice.id, tried=notice.data["tried"]["state"])


class Case:
    """One store, and the hotel beside it."""

    def __init__(self, case, plan):
        self.case, self.clock, self.plan = case, VirtualClock(), plan
        self.hotel = Hotel(case.desk.with_suffix(".acts"))

    def open(self):
        def propose(stuck):
            return self.plan and [{"tool": self.plan, "arguments": {"room": "7"}}]

        options = {**self.clock.options(), "retries": Retries(first=0, most=0), "namespace": self.case.namespace}
        settlement = Settlement(self.case.url, on_stuck=propose, channels=[self.hotel], **options)
        return unattended(settlement)

    def go_on(self, settlement):
        settlement.recover(keep_open=0)
        for asked in settlement.approvals():
            settlement.approve(asked, by="ada")
        settlement.recover(keep_open=0)

    def live(self):
        with self.open() as settlement:
            with contextlib.suppress(Boom), settlement.transaction("trip") as tx:
                tx.call(self.hotel.book, room="7")
                raise Boom
            self.go_on(settlement)

    def judged(self):
        """Return what is wrong once the next processes have gone on."""
        for _ in range(3):
            self.clock.advance(3_600)
            with self.open() as settlement:
                self.go_on(settlement)
                stuck, left = settlement.stuck(), [settlement.residue(), settlement.in_doubt()]
        acts = self.hotel.log()
        done = [entry["what"] for entry in acts]
        pages = {entry["id"] for entry in acts if entry["what"] == "page"}
        wrong = []
        if bool(stuck) is not self.hotel.is_taken():
            wrong.append(f"taken: {self.hotel.is_taken()}, stuck: {stuck}")
        if {f"mend-{each.remedy.id}" for each in stuck} != pages or any(s.remedy.state != "paged" for s in stuck):
            wrong.append(f"paged: {pages}, stuck: {stuck}")
        if done.count("page") > 2 or done.count("evict") > 1 or done.count("void") - done.count("take again") > 1:
            wrong.append("twice")
        if len(left[0]) != len(stuck) or left[1]:
            wrong.append(f"left: {left}")
        return [*wrong, f"{acts}"] if wrong else []


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(("store", "every"), [("in_memory", 1 if FULL else 7), ("namespaces", 40)])
def test_whatever_statement_it_dies_at(store, every, plan, request, record_property):
    record_property(
        "explored_kills", kill_at_each(request.getfixturevalue(store), lambda case: Case(case, PLANS[plan]), every)
    )
