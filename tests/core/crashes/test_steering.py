"""SIGKILL before and after every statement of what is said to a run: it is neither lost nor taken twice.

A program of five steps hears an addition, is paused and gone on with, hears a revision, which undoes steps 2 to 4, of
which 3 cannot be undone, and is killed at a statement. The next process begins the run again, and it is judged from the
desk's own file.

`SETTLEMARK_CRASHES=full` kills at every point; else at each sixth.
"""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from tests.core.crashes.conftest import FULL
from tests.core.crashes.sweep import kill_at_each
from tests.unattended import unattended

from settlemark import Paused, Retries, Settlement, current_call, effect
from settlemark.hosting import host_of
from settlemark.testing import VirtualClock

pytestmark = [pytest.mark.usefixtures("still"), pytest.mark.long]


class Desk:
    """Keeps each act in a file, under its key: a probe is told whether it happened, and what comes twice is one."""

    def __init__(self, file):
        self.file = file

        def happened(key):
            return next(({"done": True} for entry in self.log() if entry[:2] == [key, "do"]), None)

        def cancel(place, key):
            self.act(key, "cancel", place)

        @effect("reversible", scope="trip:/{place:path}", undo=cancel, probe=happened, keyed=True)
        def book(place):
            return self.act(current_call().key, "do", place)

        @effect("irreversible", scope="mail:/{to}", probe=happened, keyed=True)
        def mail(to):
            return self.act(current_call().key, "do", to)

        self.book, self.mail = book, mail

    def log(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def act(self, key, what, whom):
        if [key, what] not in [entry[:2] for entry in self.log()]:
            with self.file.open("a") as file:
                file.write(json.dumps([key, what, whom]) + "\n")
        return {"done": True}


SAID = {3: ("add", "window", ()), 5: ("revise", "Bee", "trip:/hotel/**")}
"""What is said before which step."""


class Case:
    """One store, and the desk beside it."""

    def __init__(self, case):
        self.case, self.clock = case, VirtualClock()
        self.desk = Desk(case.desk.with_suffix(".acts"))
        self.heard = case.desk.with_suffix(".heard")

    def open(self):
        options = {**self.clock.options(), "retries": Retries(first=0, most=0), "namespace": self.case.namespace}
        return unattended(Settlement(self.case.url, **options))

    def say(self, settlement, step):
        """Say what was not said, and note that the ledger has it."""
        what, text, scope = SAID[step]
        if text not in [said.text for said in settlement.steering("trip")]:
            settlement.steer("trip", what, text, scope=scope, by="ada")
        with self.heard.open("a") as file:
            file.write(f"{text}\n")

    def plan(self, settlement, run):
        for number in range(1, 6):
            if number == 4 and not settlement.paused(every=True):
                settlement.pause("trip", by="bob", because="a look")
            if number in SAID:
                self.say(settlement, number)
            with run.step(str(number)) as tx:
                texts = [said.text for said in run.said]
                seat = "-window" if "window" in texts else ""
                if number == 2:
                    tx.call(self.desk.book, place=f"hotel/{'Bee' if 'Bee' in texts else 'Ada'}")
                elif number == 3:
                    tx.call(self.desk.mail, to="ada")
                else:
                    tx.call(self.desk.book, place=f"day/{number}{seat}")

    def play(self, settlement):
        """Play the run, which is paused once, and go on with it."""
        try:
            settlement.steered("trip", lambda run: self.plan(settlement, run))
        except Paused:
            settlement.go_on("trip", by="bob")
            settlement.steered("trip", lambda run: self.plan(settlement, run))

    def live(self):
        with self.open() as settlement:
            self.play(settlement)

    def judged(self):
        """Return what is wrong once the next process has gone on."""
        told = self.heard.read_text().split() if self.heard.exists() else []
        self.clock.advance(3_600)
        with self.open() as settlement:
            kept = [said.text for said in settlement.steering("trip")]
            lost = [text for text in told if text not in kept]
            settlement.recover(keep_open=0)
            self.play(settlement)
            before = self.desk.log()
            settlement.steered("trip", lambda run: self.plan(settlement, run))
            said = settlement.steering("trip")
            versions = host_of(settlement).ledger.read(
                lambda book: [[v.state for v in book.entries.versions("steering", f"trip~{n}")] for n in (1, 2)]
            )
            doubts = settlement.in_doubt()
            paused = [(each.number, each.state) for each in settlement.paused(every=True)]
            left = sorted(each.scope for each in settlement.residue())
        wrong = [f"lost {text}" for text in lost]
        if self.desk.log() != before:
            wrong.append("begun again, it acted again")
        if [(each.number, each.text, each.state) for each in said] != [(1, "window", "done"), (2, "Bee", "done")]:
            wrong.append(f"said: {said}")
        taken = [[now for last, now in pairwise(states) if last != now] for states in versions]
        if taken != [["done"], ["taken", "done"]]:
            wrong.append(f"acknowledged: {versions}")
        if paused != [(1, "gone_on")]:
            wrong.append(f"paused: {paused}")
        found = [(each.tool, each.scope) for each in said[-1].bound]
        if found != [("mail", "mail:/ada")] or left != ["mail:/ada"] or doubts:
            wrong.append(f"bound: {found}, left: {left}, in doubt: {doubts}")
        log = self.desk.log()
        gone = [key for key, what, _ in log if what == "cancel"]
        stands = [whom for key, what, whom in log if what == "do" and key not in gone]
        if sorted(stands) != ["ada", "day/1", "day/4-window", "day/5-window", "hotel/Bee"]:
            wrong.append(f"stands: {stands}")
        return [*wrong, f"{log}"] if wrong else []


@pytest.mark.parametrize(("store", "every"), [("in_memory", 1 if FULL else 6), ("namespaces", 60)])
def test_whatever_statement_it_dies_at(store, every, request, record_property):
    record_property("explored_kills", kill_at_each(request.getfixturevalue(store), Case, every))
