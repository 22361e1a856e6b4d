"""Governed transactions, in every interleaving: what is allowed settles as ever, and what is denied undoes its own.

Another policy comes into force as soon as something has committed: what is held by then is judged again.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.explorer.cells import SCOPES
from tests.core.explorer.explorer import explore
from tests.core.parts import parts_with
from tests.rooms.engine import Kernel, Settling

from settlemark import Outcome, Policy, PolicyRule

V7 = Policy("v7", [PolicyRule("not y", "deny", tool="[es]y"), PolicyRule("rest", "allow")])
V8 = Policy("v8", [PolicyRule("not held", "deny", tool="[si]?"), PolicyRule("rest", "allow")])


class Governed(Kernel):
    """Judges by one policy until something has committed, and by another from then on."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        protocol = self.protocol

        class Judging(type(self.judging)):
            @property
            def policy(self):
                return V8 if any(protocol.floor(scope) for scope in SCOPES.values()) else V7

        self.judging.__dict__.pop("policy")
        self.judging.__class__ = Judging


@pytest.mark.parametrize("options", [{}, {"durable": True}, {"aborted": [0]}, {"cancelled": [0]}], ids=str)
@pytest.mark.parametrize("programs", [("ex", "sx"), ("ex", "ex ix"), ("ex ey", "ix"), ("sx", "ex sx")], ids=" | ".join)
def test_every_interleaving_of_governed_ones_is_right(programs, options):
    found = explore(*programs, parts=parts_with(Governed), **options)
    assert found.violations == {}
    assert found.finals > 0


class Checked(Settling):
    """Breaks down where something is decided that the policy in force by then has not judged."""

    def record_decision(self, attempt, txn, protocol, book):
        own = txn.epoch  # which its decision has raised floors to, in this step
        if any(protocol.floor(scope) not in (0, own) for scope in SCOPES.values()):
            held = [effect for effect in attempt.in_order() if effect.held and effect.outcome is Outcome.QUEUED]
            assert [effect.judged.policy for effect in held] == ["v8"] * len(held)
        super().record_decision(attempt, txn, protocol, book)


class LooksOnce(Governed):
    """Does not look again at what was judged when it was planned."""

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.judging.__class__ = type("Judging", (type(self.judging),), {"stands": lambda *_: True})


@pytest.mark.parametrize(("kernel", "right"), [(Governed, True), (LooksOnce, False)], ids=["engine", "mutant"])
def test_what_is_decided_was_judged_by_the_policy_in_force_and_the_explorer_catches_who_does_not_look_again(
    kernel, right
):
    parts = replace(parts_with(kernel), settling=Checked)
    assert (explore("ex", "iz", parts=parts).violations == {}) is right
