"""SIGKILL before and after every statement of a question's life: no answer counts twice, and what needs a yes has one.

A program has a payment approved by two people, and another one run out of time, and is killed at a statement. The next
process enters its names again, has both people answer again, lets the time pass, and judges from the desk's own file.

`SETTLEMARK_CRASHES=full` kills at every point; else at each third.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.core.crashes.conftest import FULL
from tests.core.crashes.sweep import kill_at_each
from tests.unattended import unattended

from settlemark import Approval, Retries, Settlement, UsageError, current_call, effect
from settlemark.hosting import host_of
from settlemark.ledger import Book
from settlemark.testing import VirtualClock

HOUR = 3_600.0
PEOPLE = ("ada", "bo")

pytestmark = [pytest.mark.usefixtures("still"), pytest.mark.long]


class Desk:
    """Keeps each payment in a file, under its key: so a probe can be told whether it happened."""

    def __init__(self, file):
        self.file = file

        def paid(key):
            return next(({"paid": True} for entry in self.log() if entry["key"] == key), None)

        def pay(account):
            key = current_call().key
            if not any(entry["key"] == key for entry in self.log()):
                with self.file.open("a") as log:
                    log.write(json.dumps({"key": key, "account": account}) + "\n")
            return {"paid": True}

        options = {"scope": "account:/{account}", "keyed": True, "probe": paid}
        both, soon = Approval(by=PEOPLE, quorum=2), Approval(by=PEOPLE, within=HOUR)
        self.pay = effect("irreversible", name="pay", approve=both, **options)(pay)
        self.pay_soon = effect("irreversible", name="pay_soon", approve=soon, **options)(lambda account: pay(account))

    def log(self):
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []


class Letters:
    """A channel that writes each notice to a file."""

    name = "letters"

    def __init__(self, file):
        self.file = file

    def tell(self, notice):
        with self.file.open("a") as log:
            log.write(notice.id + "\n")

    def told(self):
        return self.file.read_text().splitlines() if self.file.exists() else []


class Case:
    """One store, and the desk beside it."""

    def __init__(self, case):
        self.case, self.clock = case, VirtualClock()
        self.desk = Desk(case.desk.with_suffix(".acts"))
        self.letters = Letters(case.desk.with_suffix(".letters"))

    def open(self):
        options = {**self.clock.options(), "retries": Retries(first=0, most=0), "namespace": self.case.namespace}
        settlement = Settlement(self.case.url, channels=[self.letters], **options)
        return unattended(settlement)

    def work(self, settlement):
        """Put two payments aside, tell both people, and have one of them approved by both."""
        settlement.run("case/1", lambda tx: tx.call(self.desk.pay, account="1"))
        settlement.run("case/2", lambda tx: tx.call(self.desk.pay_soon, account="2"))
        settlement.recover()
        for person in PEOPLE:
            settlement.approve("case/1", by=person)

    def live(self):
        """Work, and let the time of the other pass."""
        with self.open() as settlement:
            self.work(settlement)
            self.clock.advance(HOUR)
            settlement.recover()

    def judged(self):
        """Return what is wrong once the next process has gone on, and the time has passed."""
        self.clock.advance(1)
        with self.open() as settlement:
            settlement.recover(keep_open=0)
            self.work(settlement)
            self.clock.advance(HOUR)
            with pytest.raises(UsageError):
                settlement.approve("case/2", by="ada")
            settlement.recover()
            paid = [entry["account"] for entry in self.desk.log()]
            states, answers, notices, intact = host_of(settlement).ledger.read(rows)
            told = Counter(self.letters.told())
            left = [settlement.approvals(), settlement.residue(), settlement.in_doubt()]
            audited = settlement.audit("case").intact
        wrong = [f"paid: {paid}"] if paid != ["1"] else []
        # Whoever was killed with an answer in its hands, before it decided, is undone: the next attempt asks anew.
        if "waiting" in states or "approved" not in states:
            wrong.append(f"states: {states}")
        if any(len(set(people)) < len(people) for people in answers) or not (intact and audited):
            wrong.append(f"answers: {answers}")
        # Who was killed between telling and noting it is told once more, and no notice that was left is lost.
        if any(
            state not in ("told", "dropped") or (state == "told") > told[number] for number, state in notices.items()
        ):
            wrong.append(f"notices: {notices}, told: {told}")
        if sum(count - 1 for count in told.values()) > 1 or not told.keys() <= notices.keys():
            wrong.append(f"told twice: {told}")
        return wrong if left == [[], [], []] else [*wrong, f"left: {left}"]


def rows(book: Book):
    """The states of all questions, who has answered each, those of all notices, and whether all are as recorded."""
    chain = book.entries.chain("case").entries
    last = [entry for entry in chain if entry.kind == "approval" and entry.latest]
    people = [[vote["by"] for vote in json.loads(entry.body)["answers"]] for entry in last]
    notices = {entry.id: entry.state for entry in chain if entry.kind == "notice" and entry.latest}
    return [entry.state for entry in last], people, notices, all(entry.intact for entry in chain)


@pytest.mark.parametrize(("store", "every"), [("in_memory", 1 if FULL else 3), ("namespaces", 20)])
def test_whatever_statement_it_dies_at(store, every, request, record_property):
    record_property("explored_kills", kill_at_each(request.getfixturevalue(store), Case, every))
