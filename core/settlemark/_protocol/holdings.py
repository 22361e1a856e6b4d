"""What the protocol decides about: transactions, their holds on scopes, their calls, and their waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Literal, NamedTuple, TypedDict

from settlemark._model.guards import ALL_ON, Guards
from settlemark._model.scope import Scope
from settlemark._protocol.index import Match, Node, Position
from settlemark._protocol.states import FINISHED, Reason, State


class Mode(Enum):
    """How a call touches its scope."""

    READ = auto()
    EAGER = auto()
    FINAL = auto()  # eager, and cannot be undone cleanly
    HELD = auto()


DETACHED = 0
"""The id of a transaction without a record in this process: another process has it, or it was never recorded."""
PLANNED = -1
"""The id of a transaction that has begun in this process, and is recorded with its first step."""
NOBODY = ""
"""The owner of a transaction whose worker is gone."""
AT_ONCE = (Mode.EAGER, Mode.FINAL)


Role = Literal["", "hold", "choice"]
"""A transaction's purpose: work, holding scopes for work to come, or the hold over the branches of a choice."""


class Placing(TypedDict, total=False):
    """A transaction's place in the order, and its isolation; see `Protocol.begin`."""

    position: Position | None
    parent: int
    group: int
    role: Role
    guards: Guards
    queues: bool


class Binding(NamedTuple):
    """A version of a tool: its signature, and the number of the change that made it (0: never changed)."""

    number: int
    signature: str


class Ticket:
    """A waiter's ticket: fires once, when a watched transaction moves."""

    __slots__ = ("fired", "wake")

    def __init__(self) -> None:
        self.fired = False
        self.wake: Callable[[], None] | None = None

    def has_fired(self) -> bool:
        """Whether the ticket has fired: another thread may fire it at any time."""
        return self.fired


def fire(tickets: Iterable[Ticket]) -> None:
    """Wake the waiters on these tickets. Do not call it under a lock: they may move at once."""
    for ticket in tickets:
        ticket.fired = True
        if ticket.wake is not None:
            ticket.wake()


class Hold:
    """One transaction's hold on one scope, with its counts of claims, held effects, reads and waits."""

    __slots__ = (
        "active",
        "busy",
        "claims",
        "declared",
        "granted",
        "held",
        "last_act",
        "lined",
        "match",
        "path",
        "reading",
        "readings",
        "scope",
        "since",
        "touched",
        "txn",
        "wants",
    )

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
        self.last_act = 0  # the number, within the transaction, of the last act on the scope
        self.touched = False
        self.active = False
        self.busy = False
        self.reading = False
        self.lined = False  # a race was lost here, or may be: later ones may wait behind this hold
        self.match = Match(path[:-1], path[-1:])  # overlaps while nobody holds a wildcard


def oldest_first(holds: list[Hold]) -> list[Hold]:
    """Return holds sorted by their transactions' age, then by when they were taken."""
    if len(holds) > 1:
        holds.sort(key=_age)
    return holds


def _age(hold: Hold) -> tuple[Position, int]:
    return hold.txn.position, hold.since


class Call:
    """One request to touch a scope: admitted, or waiting."""

    __slots__ = (
        "admitted",
        "hold",
        "leaves",
        "mode",
        "number",
        "place",
        "returned",
        "scope",
        "since",
        "turned",
        "txn",
        "wanting",
    )

    def __init__(
        self, txn: Txn, scope: Scope, mode: Mode, place: int = -1, *, turned: bool = False, leaves: int = 0
    ) -> None:
        self.txn = txn
        self.scope = scope
        self.mode = mode
        self.place = place  # the decision's number; -1 for a read
        self.turned = turned  # issued as one of several, in an order
        self.leaves = leaves  # see `leaving`
        self.number = 0  # within its transaction, once the call was requested
        self.hold: Hold | None = None
        self.wanting = False
        self.admitted = False
        self.returned = False
        self.since = 0  # when it first had to wait


class Blocked(NamedTuple):
    """The transaction and scope that a request waits for; `in_line`: a wait that only avoids losing a race."""

    holder: Txn
    scope: Scope
    in_line: bool = False


class Txn:
    """What must settle together: the protocol's view of one attempt of a transaction."""

    __slots__ = (
        "acts",
        "attempt",
        "begins_again",
        "calls",
        "claims",
        "dependents",
        "detail",
        "group",
        "guards",
        "holds",
        "hooked",
        "id",
        "judged",
        "low",
        "members",
        "mends",
        "moved",
        "name",
        "numbered",
        "owner",
        "parent",
        "parked",
        "plan",
        "position",
        "preds",
        "queues",
        "reading",
        "reads",
        "reason",
        "released",
        "retry",
        "role",
        "run",
        "running",
        "since",
        "state",
        "successor",
        "tools",
        "watchers",
        "writes",
        "wrote",
    )

    def __init__(  # noqa: PLR0913 - one keyword for each property
        self,
        serial: int,
        name: str,
        run: str,
        attempt: int,
        position: Position,
        *,
        retry: bool,
        owner: str,
        parent: int = 0,
        group: int = 0,
        role: Role = "",
        guards: Guards = ALL_ON,
        queues: bool = False,
        mends: bool = False,
    ) -> None:
        self.id = serial
        self.owner = owner  # the worker that ends the transaction
        self.parent = parent  # the transaction in whose call it runs, independent of it; 0 for none
        self.group = group  # the hold it works under; 0 for none
        self.role: Role = role
        self.guards = guards
        self.queues = queues  # stands in line after it lost a race
        self.mends = mends  # its purpose is to undo effects of others
        self.begins_again = False  # waits in line before it does anything
        self.writes = False  # has asked to write
        self.preds: dict[int, dict[Scope, int]] = {}  # the unsettled work it has read, by author: see `ties`
        self.dependents: set[int] = set()
        self.acts = 0  # how many of its effects have executed
        self.tools: dict[str, Binding] = {}  # the tools it planned to call, as planned
        self.members: dict[int, Txn] = {}  # of a hold: the unfinished transactions under it
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
        self.watchers: dict[Ticket, bool] = {}
        self.calls: dict[int, Call] = {}
        self.numbered = 0
        self.hooked = False  # has hooks to ask before it may commit
        self.judged = False  # the hooks approved it as it is, before it was split off
        self.since = 0  # when it began and when its state last changed, in the store's time
        self.moved = 0
        self.parked = False  # its framework has put it aside, and will resume it

    @property
    def epoch(self) -> int:
        """The epoch of its current position."""
        return self.position[0]

    @property
    def finished(self) -> bool:
        """Whether its releases or undos are done."""
        return self.state in FINISHED
