"""Kills an agent at every act and every checkpoint, has the next process go on, and judges what came of it."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, field

from tests.integrations.langgraph.death.audit import audit
from tests.integrations.langgraph.death.child import Process
from tests.integrations.langgraph.death.office import Office

from settlemark import Settlement
from settlemark.testing import in_child

PATIENCE = 60


@dataclass
class Tally:
    """What a sweep did, how many effects were there more than once, and all that went wrong: by point."""

    points: int = 0
    kills: int = 0
    in_doubt: int = 0
    twice: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)


class Sweep:
    """Every death of one way to build the agent."""

    def __init__(self, folder, way, judge=audit):
        self.folder = folder
        self.way = way
        self.tally = Tally()
        self._judge = judge
        self._cases = 0
        self._template = folder / "template.db"
        if not self._template.exists():
            Settlement(f"sqlite:///{self._template}").close()
        case = self._case()
        told = self._play(case, None, again=False).told[0]
        self.points = told["points"]
        self.tally.points = len(self.points)
        self._note("nobody killed it", case, told, deaths=0)
        shutil.rmtree(case)

    def run(self, points=None):
        """Die at each of these points, all by default, and return the tally."""
        for point in self.points if points is None else points:
            case = self._case()
            ended = self._play(case, point, again=False)
            deaths = int(ended.killed)
            self.tally.kills += deaths
            told = self._play(case, None, again=True).told[0]
            self._note(point, case, told, deaths=deaths)
            shutil.rmtree(case)
        return self.tally

    def run_twice(self, first):
        """Die at this point, and the process that goes on at each of its own; return the tally."""
        case = self._case()
        self.tally.kills += self._play(case, first, again=False).killed
        points = None
        for point in [None, *range(10_000)]:
            if points is not None and point is not None and point >= len(points):
                break
            copy = self._case(case)
            at = None if point is None else points[point]
            if at is not None:
                self.tally.kills += self._play(copy, at, again=True).killed
            told = self._play(copy, None, again=True).told[0]
            points = points or told["points"]
            self._note(f"{first}, then {at}", copy, told, deaths=1 + (at is not None))
            shutil.rmtree(copy)
        shutil.rmtree(case)
        return self.tally

    def _note(self, where, case, told, *, deaths):
        office = Office(case / "office.jsonl")
        wrong = self._judge(self.way, office, told, deaths=deaths)
        self.tally.in_doubt += bool(told["named"])
        standing = office.standing()
        if twice := sum(standing[goal] > 1 for goal in self.way.goals):
            self.tally.twice[where] = twice
        if wrong:
            self.tally.wrong[where] = wrong

    def _play(self, case, at, *, again):
        def play(tell):
            logging.disable()  # each doubt is logged, and what is undeclared
            tell(Process(case, self.way, at).run(again=again))

        ended = in_child(play, timeout=PATIENCE)
        assert ended.error is None, f"{self.way}, {at}: {ended.error}"
        assert not ended.late, f"{self.way}, {at}: {ended.stack}"
        return ended

    def _case(self, of=None):
        self._cases += 1
        case = self.folder / f"case-{self._cases}"
        if of is not None:
            shutil.copytree(of, case, ignore=shutil.ignore_patterns("*-shm"))
        else:
            case.mkdir()
            shutil.copyfile(self._template, case / "ledger.db")
        return case


__all__ = ["Sweep", "Tally"]
