"""What a settlement tells of its work while it does it, for whoever traces or measures it: `Settlement(observe=…)`.

Events carry names, scopes, keys and outcomes, never arguments or results. They are told outside of every
lock, behind the step that they are about.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Protocol

from settlemark._edges.door import through
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._observe.logs import log_failure
from settlemark._protocol.states import Reason, State, Tag

log = logging.getLogger("settlemark")


@dataclass(slots=True)
class Recovered:
    """What one recovery has done: names of transactions, by what became of them.

    Attributes:
        committed: it was sealed or releasing, and is committed now.
        undone: it was open or being undone, and is undone now.
        kept: open, and kept for its framework to come back to it.
        waiting: sealed, and its turn has not come; or a worker that fell silent may still be at work on it.
        stuck: nobody here knows its handlers; by name: what to declare.
        left: those that left something to look at; see `Settlement.residue`.
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
    """An attempt of a transaction began here, or is taken up here; what follows of it names this event.

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
    """A call or a commit had to wait for another transaction; `gave_up` says that it did so in vain."""

    of: Began | None
    transaction: str
    holder: str
    scope: str
    seconds: float
    gave_up: bool


@dataclass(frozen=True, slots=True, eq=False)
class Acting:
    """An effect is about to act: its tool's `call`, its `release` at commit, or its `undo`, with their retries.

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
    """It has acted, and this is what is known of it; `tag` is what an undo left."""

    acting: Acting
    outcome: Outcome
    tag: Tag | None
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Ended:
    """An attempt is finished, or is others' to finish; `left` counts the effects that somebody must look at."""

    of: Began
    state: State
    reason: Reason | None
    left: int


@dataclass(frozen=True, slots=True, eq=False)
class Aging:
    """A transaction is open for long: it is near its `max_age`, when it is undone, or has none and is old."""

    of: Began | None
    transaction: str
    seconds: float
    max_age: float | None


@dataclass(frozen=True, slots=True, eq=False)
class LostLease:
    """This process did not move for the length of its lease: what it had begun is others' now."""

    worker: str
    transactions: int


@dataclass(frozen=True, slots=True, eq=False)
class Recovery:
    """A look for what ended processes left has found something."""

    report: Recovered


Event = Began | Waited | Acting | Acted | Aging | Ended | LostLease | Recovery


class Observer(Protocol):
    """Told of what a settlement does. It should be quick: the work waits for it. What it raises is logged."""

    def tell(self, event: Event, /) -> None:
        """Take note of an event; in the thread, or task, that does the work."""
        ...

    def around(self, acting: Acting, /) -> AbstractContextManager[object]:
        """Return what is entered around every try of an act, in the very context in which its function runs."""
        ...


class Told:
    """An observer whose own faults reach nobody: they are logged, and the work goes on."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def tell(self, event: Event) -> None:
        """Tell it of an event."""
        try:
            through(self._observer.tell, event)
        except BaseException as error:
            kind = type(event).__name__
            log_failure(log, f"an observer failed at {kind}", error, event=kind)

    def around(self, acting: Acting) -> _Around:
        """Return what is entered around an act."""
        return _Around(self._observer, acting)


class _Around:
    """Enters what an observer gives, unless that fails; and leaves it, whatever it says to an exception."""

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
    "Acted", "Acting", "Aging", "Began", "Ended", "Event", "LostLease", "Observer", "Recovered", "Recovery", "Told",
    "Waited",
]  # fmt: skip
