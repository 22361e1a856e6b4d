"""A run that is halted at any moment and resumed later, in every interleaving.

Between the return of a halt and its end nothing of the run acts, releases or undoes; afterwards each of its effects has
happened once, or not at all. The world's log is what is believed.
"""

from __future__ import annotations

import pytest
from tests.core.explorer.explorer import explore
from tests.core.parts import parts_with
from tests.rooms.lifecycle import Halts

from settlemark.hosting import Protocol

PROGRAMS = [("sx sy",), ("ex sy",), ("ox sy",), ("ix iy",), ("ex", "rx"), ("ey", "sy")]
LONG = [("ex sy", "rx"), ("ey jx", "ry sx"), ("sx sy", "ex"), ("ux sy", "rx")]


@pytest.mark.parametrize("durable", [False, True], ids=["at once", "durable"])
@pytest.mark.parametrize("programs", [*PROGRAMS, *(pytest.param(p, marks=pytest.mark.long) for p in LONG)], ids=str)
def test_a_run_that_is_halted_at_any_moment_is_at_rest_until_it_is_resumed(programs, durable):
    found = explore(*programs, durable=durable, halted=[0])
    assert found.violations == {}
    assert found.finals > 0


@pytest.mark.long
def test_two_runs_that_are_halted_and_resumed_beside_each_other():
    assert explore("sx", "sy", halted=[0, 1]).violations == {}


@pytest.mark.parametrize("programs", [("ex sy",), ("sx", "ex")], ids=str)
def test_an_agent_that_is_halted_at_any_moment_is_at_rest_until_it_is_resumed(programs):
    found = explore(*programs, stopped=[0])
    assert found.violations == {}
    assert found.finals > 0


class ForgetsAgents(Protocol):
    """Begins transactions of nobody, whatever it is told."""

    def begin(self, *args, agents=(), **options):
        return super().begin(*args, **options)


class DoesNotWait(Halts):
    """Returns when the halt stands, whatever is still out."""

    def _is_still(self, txn):
        return True


class DecidesBehindAHalt(Protocol):
    """Decides, and lets leave, behind a halt as if there were none."""

    def halted(self, txn):
        return None

    def halted_call(self, run, scopes=(), agents=()):
        return None


@pytest.mark.parametrize(
    ("programs", "halted", "mutant"),
    [
        (("sx sy",), [0], {"parts": parts_with(DoesNotWait)}),
        (("ex", "sx"), [1], {"protocol": DecidesBehindAHalt}),
        (("ex sy",), [], {"protocol": ForgetsAgents, "stopped": [0]}),
    ],
    ids=["does not wait", "decides", "forgets agents"],
)
def test_the_explorer_catches_a_halt_that_is_none(programs, halted, mutant):
    assert explore(*programs, durable=True, halted=halted, first_violation=True, **mutant).violations != {}
