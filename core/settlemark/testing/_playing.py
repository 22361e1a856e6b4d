"""Plays one case of a proof: its ledger, the processes that work on it, and the faults they met."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from settlemark._api.settlement import Settlement
from settlemark._edges.wording import in_words
from settlemark.testing._child import Exit, Tell, in_child
from settlemark.testing._injector import FaultInjector
from settlemark.testing._kill_points import KillPoint, KillPoints
from settlemark.testing._steps import Fault, Step, step_of

Agent = Callable[[Settlement], object]


@dataclass(frozen=True, slots=True)
class CaseLedger:
    """The ledger of one case, which no other case sees."""

    url: str
    options: dict[str, Any]


def case_ledgers(url: str | None, folder: Path) -> Iterator[CaseLedger]:
    """Return a ledger for each case: a namespace at the URL, or without one a file of its own.

    >>> next(case_ledgers("postgresql+psycopg://host/db", Path())).options["namespace"].endswith("-1")
    True
    """
    proof = uuid.uuid4().hex[:8]
    for number in itertools.count(1):
        if url is None:
            yield CaseLedger(f"sqlite:///{folder / f'{proof}-{number}.db'}", {})
        else:
            yield CaseLedger(url, {"namespace": f"proof-{proof}-{number}"})


@dataclass(slots=True)
class Played:
    """What one process of a case did, and how it ended; `late` is where it was when its time was over."""

    steps: list[Step] = field(default_factory=list[Step])
    struck: list[Fault] = field(default_factory=list[Fault])
    points: list[KillPoint] = field(default_factory=list[KillPoint])
    raised: str | None = None
    killed: bool = False
    late: str = ""


@dataclass(slots=True)
class Story:
    """A case while it is played: the faults it has met, and those still to come.

    `statement` is the kill point of the ledger at which it is to die, or None.
    """

    ledger: CaseLedger
    faults: list[Fault]
    statement: int | None = None
    steps: list[Step] = field(default_factory=list[Step])
    struck: list[Fault] = field(default_factory=list[Fault])
    died_at: KillPoint | None = None
    raised: str | None = None
    late: str = ""

    def add(self, played: Played) -> None:
        """Add what another process did."""
        self.steps += played.steps
        self.struck += played.struck
        self.faults = [fault for fault in self.faults if fault not in played.struck]
        if self.statement is not None and played.killed:
            self.died_at, self.statement = played.points[-1], None
        self.raised, self.late = played.raised or self.raised, played.late

    @property
    def missed(self) -> bool:
        """Whether a fault has not struck."""
        return bool(self.faults) or self.statement is not None

    def where(self) -> tuple[str, ...]:
        """The steps that were to be struck; for a kill in the ledger its statement."""
        known = {step.number: str(step) for step in self.steps}
        at = () if self.died_at is None else (f"{self.died_at.number}. {_short(self.died_at.statement)}",)
        return (*(known.get(fault.step, f"{fault.step}.") for fault in (*self.struck, *self.faults)), *at)

    def how(self) -> tuple[str, ...]:
        """The way each was to fail."""
        at = () if self.died_at is None else (f"kill {self.died_at.when}",)
        return (*(fault.mode for fault in (*self.struck, *self.faults)), *at)


@dataclass(frozen=True, slots=True)
class Stage:
    """Plays programs under faults: in forks of this process, or with `here` in this one."""

    here: bool
    refusal: Callable[[str], Exception]
    lost: Callable[[str], Exception]
    timeout: float
    options: dict[str, Any]

    def go_on(self, story: Story, program: Agent) -> Played:
        """Play a program as the next process of a case.

        Raises:
            RuntimeError: something ended it that is not part of the case.
        """
        played = self.play(story.ledger, program, story.faults, statement=story.statement, first=len(story.steps) + 1)
        met = bool(played.struck or played.points)
        story.add(played)
        if played.killed and not met:
            raise RuntimeError("the agent's process was killed, and not by this proof: what else kills it?")
        return played

    def play(
        self,
        ledger: CaseLedger,
        program: Agent,
        faults: list[Fault],
        *,
        statement: int | None = None,
        first: int = 1,
    ) -> Played:
        """Play a program on a ledger, and return what it did; its exceptions are recorded, and end nothing."""

        def act(tell: Tell) -> None:
            injector = FaultInjector(
                *faults,
                first=first,
                refusal=self.refusal,
                lost=self.lost,
                on_step=lambda step: tell(["step", step.number, step.tool, step.role]),
                on_strike=lambda fault: tell(["fault", fault.step, fault.mode]),
            )

            def told(point: KillPoint) -> None:
                tell(["point", point.number, point.when, point.statement])

            with ExitStack() as stack:
                if statement is not None:
                    stack.enter_context(KillPoints(statement, url=ledger.url, tell=told))
                try:
                    self.perform(injector, ledger, program)
                except Exception as error:
                    tell(["raised", in_words(error)])

        if not self.here:
            return _heard(in_child(act, timeout=self.timeout))
        told: list[Any] = []
        act(told.append)
        return _heard(Exit(told=told))

    def perform(self, injector: FaultInjector, ledger: CaseLedger, program: Agent) -> None:
        """Call a program with a settlement, and raise its exceptions."""
        with injector.settlement(ledger.url, **self.options, **ledger.options) as settlement:
            value = program(settlement)
            if inspect.iscoroutine(value):
                asyncio.run(cast("Coroutine[Any, Any, Any]", value))


def _heard(ended: Exit) -> Played:
    played = Played(killed=ended.killed, late=ended.stack if ended.late else "")
    for kind, *parts in ended.told:
        match kind:
            case "step":
                played.steps.append(step_of(*parts))
            case "fault":
                played.struck.append(Fault(*parts))
            case "point":
                played.points.append(KillPoint(*parts))
            case _:
                played.raised = parts[0]
    if ended.error is not None:
        raise RuntimeError(f"the agent's process failed:\n{ended.error}")
    if ended.signal is not None and not ended.killed and not ended.late:
        raise RuntimeError(f"the agent's process was ended by signal {ended.signal}")
    return played


def _short(statement: str, most: int = 40) -> str:
    return statement if len(statement) <= most else f"{statement[: most - 1]}…"
