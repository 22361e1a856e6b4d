"""What the protocol decides about: transactions, their holds on scopes, their calls, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

from settlemark._index import Match, Node, Position
from settlemark._scope import Scope
from settlemark._states import FINISHED, Reason, State


class Mode(Enum):
    """How a call touches its scope."""

    READ = auto()
    EAGER = auto()
    FINAL = auto()  # runs at once and cannot be undone cleanly
    HELD = auto()


AT_ONCE = (Mode.EAGER, Mode.FINAL)


class Ticket:
    """A waiter's place: fired once, when whom it waits for has moved."""

    __slots__ = ("fired", "wake")

    def __init__(self) -> None:
        self.fired = False
        self.wake: Callable[[], None] | None = None

    def has_fired(self) -> bool:
        """Whether it has fired by now: another thread may have done so since the last look."""
        return self.fired


class Hold:
    """One transaction's hold on one scope, and what makes it more than a hold."""

    __slots__ = ("active", "busy", "claims", "declared", "granted", "held", "match", "path", "reading", "readings",
                 "scope", "since", "touched", "txn", "wants")  # fmt: skip

    def __init__(self, txn: Txn, scope: Scope, path: list[Node], since: int, *, declared: bool) -> None:
        self.txn = txn
        self.scope = scope
        self.path = path
        self.since = since
        self.declared = declared
        self.claims = 0
        self.granted = 0
        self.held = 0
        self.wants = 0
        self.readings = 0
        self.touched = False
        self.active = False
        self.busy = False
        self.reading = False
        self.match = Match(path[:-1], path[-1:])  # what it overlaps while nobody holds a wildcard


class Call:
    """One request to touch a scope: admitted, or waiting for somebody."""

    __slots__ = ("admitted", "hold", "mode", "scope", "txn", "wanting")

    def __init__(self, txn: Txn, scope: Scope, mode: Mode) -> None:
        self.txn = txn
        self.scope = scope
        self.mode = mode
        self.hold: Hold | None = None
        self.wanting = False
        self.admitted = False


class Blocked(NamedTuple):
    """Whom a request waits for, and on what."""

    holder: Txn
    scope: Scope


class Txn:
    """What must settle together: the protocol's view of one attempt of a transaction."""

    __slots__ = (
        "attempt",
        "claims",
        "detail",
        "holds",
        "low",
        "name",
        "plan",
        "position",
        "reading",
        "reads",
        "reason",
        "released",
        "retry",
        "run",
        "running",
        "state",
        "successor",
        "watchers",
        "wrote",
    )  # fmt: skip

    def __init__(self, name: str, run: str, attempt: int, position: Position, *, retry: bool) -> None:
        self.name = name
        self.run = run
        self.attempt = attempt
        self.position = position
        self.retry = retry
        self.state = State.OPEN
        self.holds: dict[Node, Hold] = {}
        self.reads: dict[Scope, int] = {}
        self.plan: dict[Scope, int] = {}
        self.low: int | None = None
        self.claims = 0
        self.running = 0
        self.wrote = False
        self.released = False
        self.reading = 0
        self.reason: Reason | None = None
        self.detail: dict[str, Any] = {}
        self.successor: Txn | None = None
        self.watchers: dict[Ticket, None] = {}

    @property
    def epoch(self) -> int:
        """The epoch of its one current position."""
        return self.position[0]

    @property
    def finished(self) -> bool:
        """Whether its releases or undos are done."""
        return self.state in FINISHED
