"""What an explored run is asked for, and the tasks that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.core.explorer.cells import Value
from tests.rooms.acts import Verdict
from tests.rooms.attempt import OnFailure
from tests.rooms.edges import Ended
from tests.rooms.model import ALL_ON, Guards
from tests.rooms.runtime import Parts

from settlemark.hosting import Attempt, Protocol

if TYPE_CHECKING:
    from tests.core.explorer.stores import SteppedLedger
    from tests.rooms.attempt import Seat

    from settlemark import Effect

KEEPS = "kK"
"""How a program ends that is parked whole: with a yes, or a no."""
POINT = object()
"""What a task asks for where others may move before it goes on."""

Program = tuple[str, ...]
Programs = tuple[Program, ...]
Doing = Generator[Any, Any, Any]
Store = Callable[[Callable[[], Protocol]], "Sequence[SteppedLedger]"]
"""Returns the ledgers of workers on one store, which nobody has used."""
_Read = tuple[int, tuple[tuple[int, Value], ...]]


class ProgramFailedError(Exception):
    """The operation `f`, and the first try of `b`: the transaction's own failure."""


class CutOffError(Exception):
    """Somebody cut a plan off, between two of its operations."""


class ViolatedError(Exception):
    """The engine did what it must never do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run, and what may happen at any moment; see `explore`."""

    programs: Programs
    protocol: Callable[[], Protocol]
    parts: Parts
    declared: frozenset[int]
    loops: Mapping[int, int]
    tries: int
    siblings: Mapping[int, Program]
    on_failure: OnFailure
    durable: bool
    cancelled: frozenset[int]
    halted: frozenset[int]
    stopped: frozenset[int]
    aborted: frozenset[int]
    store: Store | None
    inside: Mapping[int, Program]
    holds: Mapping[str, tuple[int, ...]]
    outside: Program
    advanced: Program
    verdict: Verdict
    chosen: int
    guards: Guards
    turns: Mapping[int, Program]
    revoked: Program
    queues: bool
    budget: int | None

    @property
    def weakened(self) -> bool:
        """Whether anything may come out of it that the engine prevents by default, or that only its history tells."""
        return bool(self.guards != ALL_ON or self.turns or self.revoked)


@dataclass(slots=True)
class Task:
    """One thread of a run; or what is judged as a transaction of its own, and moved by another task.

    Attributes:
        number: its place among the tasks: transaction `T0` is number 0.
        program: what is judged of it; what was split off or skipped is not in it.
        operations: what it runs.
        end: how it is put aside in place of its commit; empty when it is not.
        parts: its branches, what is begun inside its calls, or its gates.
        after: the one that takes its place in the order before it.
        holder: who has the hold that it works under.
        scope: of a holder, what it holds.
        plans: what it plays under its name, one after the other, where it is come back to; empty when it is not.
        turn_of: of a second thread, whose turn its calls are in; `calls` are those, once they have their seats.
    """

    number: int
    program: Program
    operations: Program = ()
    stack: list[Doing] = field(default_factory=list[Doing])
    begins: bool = False
    worker: int = 0
    maintains: bool = False
    end: str = ""
    branch: bool = False
    parts: list[Task] = field(default_factory=list["Task"])
    after: Task | None = None
    holder: Task | None = None
    scope: str = ""
    plans: tuple[Program, ...] = ()
    entered: int = 0
    cut: bool = False
    turn_of: Task | None = None
    calls: list[tuple[Effect, Seat]] | None = None
    attempt: Attempt | None = None
    began: bool = False
    step: int = 0
    request: Any = POINT
    done: bool = False
    ended: Ended = field(default_factory=partial(Ended, None))
    gave_up: bool = False
    failed: bool = False
    said: bool | None = None
    reads: list[_Read] = field(default_factory=list[_Read])
    watched: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    committed: int = 0
    partial: bool = False
    laps: int = 0
    before: tuple[int, ...] = ()
    now: tuple[int, ...] = ()

    def stale(self, now: tuple[int, ...]) -> bool:
        """Whether what it watches had changed by then."""
        return any(now[place] != seen for place, seen in self.watched)


def parse(text: str) -> Program:
    """Return a program from its text.

    >>> parse("rx sx")
    ('rx', 'sx')
    """
    return tuple(text.split())


__all__ = [
    "KEEPS",
    "POINT",
    "CutOffError",
    "Doing",
    "Plan",
    "Program",
    "ProgramFailedError",
    "Programs",
    "Store",
    "Task",
    "ViolatedError",
    "parse",
]
