"""People who answer at once, and the deadline beside them, in every interleaving of their steps.

Each play is on a fresh ledger whose every step is waited for. Whatever comes first holds: the call happens once with a
yes of all who have to say so, or never, and no answer counts twice.
"""

from __future__ import annotations

import json

import pytest
from tests.core.explorer.plays import Play, every_play
from tests.rooms.lifecycle import counting

from settlemark import Approval, SettlemarkError, effect

MINUTE = 60.0


class Answering(Play):
    """A payment that waits for people, and programs that answer."""

    kinds = ("approval",)

    def __init__(self, answers, **terms):
        super().__init__()
        self.paid = []

        @effect("irreversible", scope="account:/{account}", approve=Approval(**terms))
        def pay(account):
            self.paid.append(account)

        self.settlement.run("case-7", lambda tx: tx.call(pay, account="ada"))
        (self.question,) = self.settlement.approvals()
        self.ledger.immediate = False
        if "late" in answers:
            self.clock.advance(MINUTE)
        for answer in answers:
            self.add(self._program(answer))

    def _program(self, answer):
        if answer == "late":
            return self.driver.answers.overdue(self.question.key)
        who, decision = answer
        because = "too dear" if decision == "reject" else None
        return self.driver.answers.say(self.question.key, decision, arguments=None, because=because, by=who)

    def observe(self): ...

    def picture(self):
        return (tuple(self.paid),)

    def judged(self):
        """Return what is wrong at the end."""
        if [each for each in self.moved if each.end is None]:
            return ["nobody can move"]
        failed = [each.end.error for each in self.moved if each.end.error is not None]
        if strange := [error for error in failed if not isinstance(error, SettlemarkError)]:
            return [f"broke down: {strange}"]
        self.ledger.immediate = True
        entries = [
            e for e in self.ledger.read(lambda book: book.entries.chain("case-7")).entries if e.kind == "approval"
        ]
        votes = json.loads(entries[-1].body)["answers"]
        left, state = self.settlement.approvals(), entries[-1].state
        recorded = str(self.settlement.transactions()[0].state)
        wrong = [f"{len(self.paid)} payments"] if len(self.paid) > 1 else []
        if len({vote["by"] for vote in votes}) < len(votes):
            wrong.append(f"counted twice: {votes}")
        yes = [vote for vote in votes if vote["decision"] == "approve"]
        expected = {
            "approved": (["ada"], "committed", 0),
            "rejected": ([], "aborted", 0),
            "overdue": ([], "aborted", 0),
            "waiting": ([], "open", 1),
        }
        if (self.paid, recorded, len(left)) != expected[state]:
            wrong.append(f"{state}, {recorded}, paid {self.paid}, {len(left)} left")
        if self.paid and len(yes) < json.loads(entries[-1].body)["quorum"]:
            wrong.append(f"paid with {votes}")
        if [entry.state for entry in entries].count(state) > 1 and state != "waiting":
            wrong.append(f"ended twice: {[entry.state for entry in entries]}")
        return wrong


YES, AGAIN, NO = ("ada", "approve"), ("bo", "approve"), ("cy", "reject")
PAID, UNPAID = (("ada",),), ((),)
CASES = {
    "two of two": ((YES, AGAIN), {"quorum": 2}, {PAID}),
    "a yes and a no": ((YES, NO), {}, {PAID, UNPAID}),
    "the same one twice": ((YES, YES), {"quorum": 2}, {UNPAID}),
    "a yes, again and again": ((YES, YES), {}, {PAID}),
    "a yes and the deadline": ((YES, "late"), {"within": MINUTE}, {UNPAID}),
    "the deadline in two processes": (("late", "late"), {"within": MINUTE}, {UNPAID}),
    "two of two, and a no": ((YES, AGAIN, NO), {"quorum": 2}, {PAID, UNPAID}),
}
"""Who answers, on which terms, and how it may end: with the payment, or without."""


@pytest.mark.parametrize("case", CASES)
def test_whatever_comes_first_holds_and_no_answer_counts_twice(case):
    answers, terms, ends = CASES[case]
    played = every_play(lambda: Answering(answers, **terms))
    assert (played.wrong, played.what) == ({}, ends)


def test_one_yes_that_is_taken_for_two_is_caught(monkeypatch):
    answers, terms, _ = CASES["two of two"]
    monkeypatch.setattr(counting, "weighed", lambda _book, _draft, _vote, **_: counting.Count(decided=True))
    assert every_play(lambda: Answering(answers, **terms), first=True).wrong
