"""Two transactions and one budget, in every interleaving: it is never oversold, and nothing of it is lost."""

from __future__ import annotations

import pytest
from tests.core.explorer.explorer import explore
from tests.core.parts import parts_with
from tests.rooms.engine import Kernel
from tests.rooms.ledger import _budgets

CASES = [
    (("ex", "sy"), 1), (("ex f", "ix"), 1), (("ex ey", "sx"), 2), (("sx iy", "ey"), 2), (("ux", "ey"), 1),
    (("jx", "ex"), 1), (("rx ex", "ex"), 1), (("ox f", "ey"), 1), (("ix", "sy", "ex"), 2),
]  # fmt: skip # a list of names and values
MEDDLED = [{"cancelled": [0]}, {"aborted": [0]}, {"durable": True}, {"durable": True, "aborted": [0]}]


@pytest.mark.parametrize(("programs", "budget"), CASES, ids=str)
def test_every_interleaving_of_two_that_spend_is_right(programs, budget):
    found = explore(*programs, budget=budget)
    assert found.violations == {}
    assert found.finals > 0


@pytest.mark.parametrize("options", MEDDLED, ids=str)
@pytest.mark.parametrize("programs", [("ex", "sy"), ("sx iy", "ey")], ids=" | ".join)
def test_a_kill_at_any_moment_gives_back_what_was_not_spent_and_nothing_else(programs, options):
    assert explore(*programs, budget=1, **options).violations == {}


class ReservesNothing(Kernel):
    def reserve(self, book, attempt, effect):
        pass


class ReservesAtWill(Kernel):
    """Looks at what is left, in another step than that of the intent, as it were: the limit is not kept."""

    def reserve(self, book, attempt, effect):
        before, self.budgets = self.budgets, tuple(type(b)(b.name, 99, per="namespace") for b in self.budgets)
        super().reserve(book, attempt, effect)
        self.budgets = before


@pytest.mark.parametrize("kernel", [ReservesNothing, ReservesAtWill])
def test_the_explorer_catches_who_does_not_reserve_with_the_intent(kernel):
    assert explore("ex", "sy", budget=1, parts=parts_with(kernel), first_violation=True).violations != {}


@pytest.mark.parametrize(
    ("wrong", "programs"),
    [
        (lambda outcome, tag: "returned" if outcome == "failed" else "charged", ("ex f",)),
        (lambda outcome, tag: "reserved" if outcome in ("failed", "dropped") else _right(outcome, tag), ("sx f",)),
    ],
)
def test_the_explorer_catches_who_settles_a_reservation_wrongly(wrong, programs, monkeypatch):
    monkeypatch.setattr(_budgets, "became", wrong)
    assert explore(*programs, budget=1, durable=True, first_violation=True).violations != {}


_right = _budgets.became
