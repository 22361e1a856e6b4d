"""What a transaction does does not grow with those that are over: not in memory, and not in a file."""

from __future__ import annotations

import itertools
from datetime import timedelta
from types import SimpleNamespace

import pytest
from tests.rooms.replica import store
from tests.way import lines

from settlemark import Budget, Policy, PolicyRule, effect

FEW, MANY = 12, 60
"""So many are over before the first look, and so many more before the second."""


def made():
    """Return tools: to declare one is a test's own."""

    @effect("reversible", scope="cell:/{number}", undo=lambda number: None, spends={"usd": "{number}"})
    def put(number: int) -> int:
        return number

    @effect("reversible", scope="asked:/{number}", undo=lambda number: None)
    def put_if_asked(number: int) -> int:
        return number

    @effect("irreversible", scope="letter:/{number}")
    def post(number: int) -> int:
        return number

    @effect("reversible", scope="sum:/all", undo=lambda number: None, commutes="add")
    def add(number: int) -> int:
        return number

    @effect("read", scope="cell:/{number}")
    def look(number: int) -> int:
        return number

    return SimpleNamespace(put=put, put_if_asked=put_if_asked, post=post, add=add, look=look)


def decides(tx, tools, number):
    with tx.decide(f"put {number}", because="it is due"):
        tx.call(tools.put, number=number)


def owes(tx, tools, number):
    tx.call(tools.put, number=number)
    tx.owe("a letter", to=f"customer:/{number}", by=timedelta(days=2), fulfilled_by="post", scope=f"letter:/{number}")


def fulfils(tx, tools, number):
    owes(tx, tools, number)
    tx.call(tools.post, number=number)


def reads_what_others_wrote(tx, tools, number):
    tx.call(tools.look, number=1)
    tx.call(tools.put, number=1)


def fails(tx, tools, number):
    tx.call(tools.put, number=number)
    raise ZeroDivisionError


WORKS = {
    "puts": lambda tx, tools, number: tx.call(tools.put, number=number),
    "is asked for": lambda tx, tools, number: tx.call(tools.put_if_asked, number=number),
    "posts": lambda tx, tools, number: tx.call(tools.post, number=number),
    "adds": lambda tx, tools, number: tx.call(tools.add, number=number),
    "decides": decides,
    "owes": owes,
    "fulfils": fulfils,
    "reads": reads_what_others_wrote,
    "fails": fails,
}


@pytest.fixture
def settlement(open_settlement, url, monkeypatch):
    """A settlement with a policy and budgets. Nobody else goes to its store."""
    for name in ("LINGER_SECONDS", "LINGER_MOST_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(store, name, 60.0)
    rules = [PolicyRule("asked", "ask", tool="put_if_asked"), PolicyRule("rest", "allow")]
    budgets = [Budget("usd", 1e9, per="run"), Budget("usd", 1e9, per="day")]
    return open_settlement(url, policy=Policy("v1", rules), budgets=budgets)


@pytest.mark.every_store
@pytest.mark.parametrize("run", ["of one run", "each in a run of its own"])
@pytest.mark.parametrize("what", WORKS)
def test_a_transaction_does_no_more_behind_many_that_are_over(settlement, what, run):
    tools, numbers, work = made(), itertools.count(), WORKS[what]

    def settle():
        number = next(numbers)
        name = "long" if run == "of one run" else f"run {number}"
        try:
            with settlement.transaction(f"trip-{number}", run=name, approver=lambda question: True) as tx:
                work(tx, tools, number)
        except ZeroDivisionError:
            assert what == "fails"

    for _ in range(FEW):
        settle()
    before = lines(settle)
    for _ in range(MANY):
        settle()
    after = lines(settle)

    assert {line: (before[line], count) for line, count in after.items() if count > before[line] + MANY // 2} == {}
