"""The events that a settlement reports while it works, for tracing and metrics: `Settlement(observe=…)`.

Events carry names, scopes, keys and outcomes, never arguments or results. They are reported outside of every lock,
after the step they describe.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol

from settlemark._edges.user_code import through
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._observe.logs import log_failure
from settlemark._protocol.states import Reason, State, Tag

log = logging.getLogger("settlemark")


@dataclass(slots=True)
class Recovered:
    """What one recovery did: names of transactions, by outcome.

    Attributes:
        committed: was sealed or releasing, and is committed now.
        undone: was open or being undone, and is undone now.
        kept: open, and kept until its framework resumes it.
        waiting: sealed, and not yet its turn; or a silent worker may still be at work on it.
        stuck: its handlers are not declared in this process; by name, the missing declarations.
        left: left residue; see `Settlement.residue`.
    """

    committed: list[str] = field(default_factory=list[str])
    undone: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    stuck: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    left: list[str] = field(default_factory=list[str])

    def __bool__(self) -> bool:
        """Whether anything had to be done."""
        return bool(self.committed or self.undone or self.kept or self.waiting or self.stuck)


@dataclass(frozen=True, slots=True, eq=False)
class Began:
    """An attempt of a transaction began, or was taken up, in this process; its later events refer to this one.

    Attributes:
        how: `begun` by a caller, `retried` by the engine on fresh state, or `taken up` from a process that ended.
    """

    transaction: str
    run: str
    attempt: int
    epoch: int
    how: Literal["begun", "retried", "taken up"]


@dataclass(frozen=True, slots=True, eq=False)
class Waited:
    """A call or a commit had to wait for another transaction; `gave_up` says that the wait ran out."""

    of: Began | None
    transaction: str
    holder: str
    scope: str
    seconds: float
    gave_up: bool


@dataclass(frozen=True, slots=True, eq=False)
class Acting:
    """An effect is about to act: its tool's `call`, its `release` at commit, or its `undo`, retries included.

    Attributes:
        key: its idempotency key; "" for a read.
    """

    of: Began | None
    transaction: str
    attempt: int
    act: Literal["call", "release", "undo"]
    tool: str
    kind: EffectClass
    scope: str
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Acted:
    """An effect has acted; `tag` is what an undo left."""

    acting: Acting
    outcome: Outcome
    tag: Tag | None
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """An attempt is finished, or was taken from this process, which had lost its lease.

    `left` counts effects in the residue. `elsewhere` says that another process has finished what was put aside here:
    that process tells its own observer of it, too.
    """

    of: Began
    state: State
    reason: Reason | None
    left: int
    elsewhere: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Aging:
    """A transaction has been open for long: it is near its `max_age`, or has none and is old."""

    of: Began | None
    transaction: str
    seconds: float
    max_age: float | None


@dataclass(frozen=True, slots=True, eq=False)
class LostLease:
    """This process was silent for the length of its lease: other workers take over its transactions."""

    worker: str
    transactions: int


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """Recovery found work that ended processes left."""

    report: Recovered


@dataclass(frozen=True, slots=True, eq=False)
class Overlooked:
    """An obligation was due, and nobody has dealt with it: it has no handler, or that failed. Reported once."""

    obligation: str
    transaction: str
    to: str
    fulfilled_by: str | None


Event = Began | Waited | Acting | Acted | Aging | Ended | LostLease | Overlooked | Recovery


class Observer(Protocol):
    """Receives a settlement's events. Be quick: the work waits. An observer's exceptions are logged."""

    def tell(self, event: Event, /) -> None:
        """Receive an event, in the thread or task that does the work."""
        ...

    def around(self, acting: Acting, /) -> AbstractContextManager[object]:
        """Return a context manager entered around every try of an act, in the act's own context."""
        ...


class Told:
    """Wraps an observer: its exceptions are logged, and the work goes on."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def tell(self, event: Event) -> None:
        """Report an event."""
        try:
            through(self._observer.tell, event)
        except BaseException as error:
            kind = type(event).__name__
            log_failure(log, f"an observer failed at {kind}", error, event=kind)

    def around(self, acting: Acting) -> _Around:
        """Return a context manager to enter around an act."""
        return _Around(self._observer, acting)


class _Around:
    """Enters the observer's context manager, unless that fails; the observer cannot swallow an exception."""

    __slots__ = ("_acting", "_entered", "_observer")

    def __init__(self, observer: Observer, acting: Acting) -> None:
        self._observer = observer
        self._acting = acting
        self._entered = ExitStack()

    def __enter__(self) -> None:
        try:
            self._entered.enter_context(through(self._observer.around, self._acting))
        except BaseException as error:
            self._failed(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._entered.__exit__(kind, error, trace)
        except BaseException as failed:
            if failed is not error:
                self._failed(failed)

    def _failed(self, error: BaseException) -> None:
        log_failure(log, f"an observer failed around {self._acting.tool}", error, key=self._acting.key)


__all__ = [
    "Acted",
    "Acting",
    "Aging",
    "Began",
    "Ended",
    "Event",
    "LostLease",
    "Observer",
    "Overlooked",
    "Recovered",
    "Recovery",
    "Told",
    "Waited",
]
