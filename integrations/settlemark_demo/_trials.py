"""The trip again and again, under random faults, on both sides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from settlemark.testing import FaultPlan
from settlemark_demo._evidence import Evidence
from settlemark_demo._scenarios import Rule, Scenario, Side

_KINDS = ("hotel", "flight", "car")
_MAIL: dict[str, Literal["transient", "lost"]] = {"before": "transient", "after": "lost"}


@dataclass
class Tally:
    """How often a side's world was in which state, over all trials."""

    label: str
    trials: int = 0
    clean: int = 0
    completed: int = 0
    completable: int = 0
    duplicates: int = 0
    stray_mails: int = 0
    out_of_order: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    dirty: list[str] = field(default_factory=list[str])

    def add(self, scenario: Scenario, evidence: Evidence) -> None:
        """Count one trial."""
        self.trials += 1
        self.clean += evidence.clean
        self.outcomes[evidence.outcome] += 1
        self.completable += scenario.must_complete
        self.completed += scenario.must_complete and evidence.outcome == "all"
        self.duplicates += evidence.duplicates
        self.out_of_order += not evidence.in_order
        booked = {entry.tool for entry in evidence.left}
        self.stray_mails += evidence.mails > 0 and not booked >= set(scenario.tools[:-1])
        if not evidence.clean:
            self.dirty.append(scenario.name)

    def values(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "label": self.label,
            "trials": self.trials,
            "clean": self.clean,
            "completed": self.completed,
            "completable": self.completable,
            "duplicates": self.duplicates,
            "stray_mails": self.stray_mails,
            "out_of_order": self.out_of_order,
            "outcomes": dict(self.outcomes),
            "dirty": self.dirty,
        }


def draw(rate: float, seed: int, number: int, tag: str = "") -> Scenario:
    """Return the trial of that number: each call of the trip faulted with probability `rate`.

    Passing faults end by the third try. With half that probability a trip also meets a refusal for
    good, of one of its bookings; and then, as often, an undo that fails for good.

    >>> draw(0.0, seed=1, number=1).faults
    ()
    """
    # Seeded for fair dice, not for secrets.
    dice = random.Random(f"{seed}/{number}")  # noqa: S311
    plan = FaultPlan(rate, dice)
    rules: list[Rule] = [dict(rule) for rule in plan.for_trip(_KINDS)]
    for rule in rules:
        del rule["trip"]
    mail = plan.for_call("mail")
    chances = dice.random(), dice.random()
    refused = dice.randrange(len(_KINDS))
    lasting = chances[0] < rate / 2
    if lasting:
        # Before the others: the first matching rule strikes.
        rules.insert(0, {"kind": _KINDS[refused], "when": "before", "on": "book", "times": -1})
        if refused > 0 and chances[1] < 1 / 2:
            stuck = _KINDS[dice.randrange(refused)]
            rules.insert(0, {"kind": stuck, "when": "before", "on": "cancel", "times": -1})
    return Scenario(
        f"trial-{number}{tag}",
        "Random faults",
        tuple(rules),
        (_MAIL[mail["when"]],) * mail["times"] if mail is not None and mail["when"] in _MAIL else (),
        must_complete=not lasting,
    )


def repeat(
    trials: Sequence[Scenario], sides: Sequence[Side], *, told: Callable[[], None] = lambda: None
) -> list[Tally]:
    """Play every trial on every side; `told` is called after each trial."""
    tallies = [Tally(side.label) for side in sides]
    for scenario in trials:
        for side, tally in zip(sides, tallies, strict=True):
            tally.add(scenario, side.play(scenario))
        told()
    return tallies
