"""The engine of a proof: a clean run shows the steps, then each is struck, and the world is examined."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from settlemark._api.records import Residue
from settlemark._api.settlement import Settlement
from settlemark._edges.errors import UsageError
from settlemark.testing._injector import FaultInjector
from settlemark.testing._playing import Agent, CaseLedger, Stage, Story
from settlemark.testing._proof import ACCEPTED, Case, End, Proof, difference
from settlemark.testing._steps import Fault, Mode, Step

Way = Mode | Literal["statement"]

_HALF = (
    "some of its transactions have settled and the others not: put one transaction around all of it, or accept that"
    " with between=True"
)
_NAMED = "neither all nor nothing; what is left is named, and allow_residue=True accepts that"
_UNNAMED = (
    "neither all nor nothing, and settlement.residue() names nothing: is something done past the settlement, or does"
    " an undo not undo?"
)


@dataclass(slots=True)
class Prover:
    """Plays the cases of one proof; see `prove_settlement` for what each field means."""

    run: Agent
    world: Callable[[], Any]
    reset: Callable[[], object]
    stage: Stage
    ledgers: Iterator[CaseLedger]
    modes: tuple[Mode, ...]
    statements: bool
    faults: int
    rerun: bool
    between: bool
    allow_residue: bool
    mend: Callable[[Residue], object] | None
    recover: Agent | None
    nothing: Any = None
    all: Any = None
    halves: list[Any] = field(default_factory=list[Any])

    def prove(self) -> Proof:
        """Play every case.

        Raises:
            UsageError: the proof would prove nothing; the message says what to change.
        """
        steps, cases = self._learn()
        for fault in self._strikes(steps):
            cases += self._cases([fault])
        if self.statements:
            cases += self._deaths()
        return Proof(tuple(cases), self.nothing, self.all, tuple(self.halves) if self.between else ())

    def _strikes(self, steps: list[Step]) -> list[Fault]:
        return [Fault(step.number, mode) for step in steps for mode in self.modes if step.suffers(mode)]

    def _snapshot(self) -> Any:
        # A copy: a world in this process may go on changing.
        return copy.deepcopy(self.world())

    # ---- clean runs

    def _learn(self) -> tuple[list[Step], list[Case]]:
        """Find the steps of a clean run; with `rerun` also the case that runs it twice."""
        self.reset()
        self.nothing = self._snapshot()
        ledger = next(self.ledgers)
        injector = FaultInjector(on_step=self._between_transactions())
        try:
            self.stage.perform(injector, ledger, self.run)
        except Exception as error:
            error.add_note("the agent failed in its clean run: no fault had been injected yet")
            raise
        self.all = self._snapshot()
        if all(step.role == "commit" for step in injector.steps):
            raise UsageError(
                "no step reached the settlement that run(settlement) was given, so none can fail: let the agent act"
                " through that one, and declare what its tools do"
            )
        if self.all == self.nothing:
            raise UsageError(
                f"world() is the same before and after a clean run ({self.nothing!r:.200}): let it show what the"
                " agent's tools do, as a fresh value"
            )
        twice = [self._again(Story(ledger, []), End.ALL, ())] if self.rerun else []
        self._check_repeated()
        return injector.steps, twice

    def _between_transactions(self) -> Callable[[Step], None]:
        settled = False

        def look(step: Step) -> None:
            nonlocal settled
            if settled and step.role in ("call", "commit"):
                # A transaction is about to act: those before it have settled.
                self.halves.append(self._snapshot())
                settled = False
            settled = settled or step.role == "commit"

        return look

    def _check_repeated(self) -> None:
        """Run cleanly once more, in the way the cases will run."""
        self.reset()
        found = self._snapshot()
        if found != self.nothing:
            raise UsageError(
                f"reset() does not make the world new:\n{difference(self.nothing, found)}\nlet it undo all that the"
                " agent does"
            )
        played = self.stage.play(next(self.ledgers), self.run, [])
        if played.late:
            raise UsageError(
                f"a clean run takes more than {self.stage.timeout:g} s; give a longer timeout=; it was here:\n"
                f"{played.late}"
            )
        found = self._snapshot()
        if not self.stage.here and found == self.nothing:
            raise UsageError(
                "what the agent does in another process is not seen here: its world lives in this process, and one"
                " that is killed would take it along; keep it in files, a database or a settlemark.testing.Provider,"
                " or give kill=False"
            )
        if played.raised is not None:
            raise UsageError(f"the agent failed in its second clean run: {played.raised}; what did the first leave?")
        if found != self.all:
            raise UsageError(
                f"two clean runs leave different worlds:\n{difference(self.all, found)}\nleave out ids and times, and"
                " script the agent's model"
            )

    # ---- cases

    def _cases(self, plan: list[Fault]) -> list[Case]:
        """Play this plan's case, and those in which the steps after its last fault are struck as well."""
        story, case = self._case(plan)
        cases = [case]
        if len(plan) < self.faults and case.end is not End.MISSED:
            later = [step for step in story.steps if step.number > plan[-1].step]
            for fault in self._strikes(later):
                cases += self._cases([*plan, fault])
        return cases

    def _deaths(self) -> Iterator[Case]:
        for number in itertools.count(1):
            story, case = self._case([], number)
            if story.died_at is None and case.end is End.MISSED:
                return  # it ended by itself: there are no more
            yield case

    def _case(self, plan: list[Fault], statement: int | None = None) -> tuple[Story, Case]:
        self.reset()
        story = Story(next(self.ledgers), plan, statement)
        played = self.stage.go_on(story, self.run)
        if self.recover is not None and not (played.killed or played.late):
            played = self.stage.go_on(story, self.recover)
        while played.killed:
            played = self.stage.go_on(story, self.recover or self.run)
        return story, self._judge(story)

    # ---- verdicts

    def _judge(self, story: Story) -> Case:
        found = self._snapshot()
        if story.late:
            why = f"it did not come to its end in {self.stage.timeout:g} s; it was here:\n{story.late}"
            return _told(story, End.LATE, found, (), why)
        residue = self._residue(story.ledger)
        end, why = self._state(found, residue)
        if end in ACCEPTED and story.missed:
            why = "the fault struck nothing: the agent's steps are not the same in every run; script its model"
            return _told(story, End.MISSED, found, residue, why)
        looked_at_first = bool(self.allow_residue and residue)
        if self.rerun and end in ACCEPTED and not looked_at_first:
            return self._again(story, end, residue)
        return _told(story, end, found, residue, why)

    def _again(self, story: Story, end: End, residue: tuple[Residue, ...]) -> Case:
        """Run the agent once more, without faults: the world must be as if nothing had failed."""
        played = self.stage.play(story.ledger, self.run, [])
        found = self._snapshot()
        if found == self.all:
            return _told(story, End.ALL, found, residue, "")
        story.raised = played.raised
        return _told(
            story,
            End.TORN,
            found,
            self._residue(story.ledger),
            f"it was {end} before; the agent ran again, and the world is not as if nothing had failed",
        )

    def _residue(self, ledger: CaseLedger) -> tuple[Residue, ...]:
        with Settlement(ledger.url, **self.stage.options, **ledger.options) as settlement:
            return tuple(settlement.residue())

    def _state(self, found: Any, residue: tuple[Residue, ...]) -> tuple[End, str]:
        """Return the state the world is in, and why it may not be in that."""
        whole = self._whole(found)
        if whole is not None:
            return whole, ""
        if residue and self.allow_residue:
            return self._mended(residue)
        if residue:
            return End.TORN, _NAMED
        return End.TORN, _HALF if found in self.halves else _UNNAMED

    def _mended(self, residue: tuple[Residue, ...]) -> tuple[End, str]:
        if self.mend is None:
            return End.NAMED, ""
        for left in residue:
            self.mend(left)
        if self._whole(self._snapshot()) is not None:
            return End.NAMED, ""
        return End.TORN, "neither all nor nothing, also after mend() was called with all that is named"

    def _whole(self, found: Any) -> End | None:
        if found == self.all:
            return End.ALL
        if found == self.nothing:
            return End.NOTHING
        return End.BETWEEN if self.between and found in self.halves else None


def _told(story: Story, end: End, found: Any, residue: tuple[Residue, ...], why: str) -> Case:
    return Case(story.where(), story.how(), end, found, residue, story.raised, why)
