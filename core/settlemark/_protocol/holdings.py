"""What the protocol decides about: transactions, their holds on scopes, their calls, and who waits."""

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
    FINAL = auto()  # runs at once and cannot be undone cleanly
    HELD = auto()


DETACHED = 0
"""The id of a transaction that is none any more in this process: another has it, or it was never recorded."""
PLANNED = -1
"""The id of a transaction that this process has begun, and that takes its place with the next step behind that."""
NOBODY = ""
"""The owner of a transaction whose worker is gone."""
AT_ONCE = (Mode.EAGER, Mode.FINAL)


Role = Literal["", "hold", "choice"]
"""What a transaction is for: work; to hold scopes for work to come; the same for branches of which one is chosen."""


class Placing(TypedDict, total=False):
    """Where a transaction takes its place in the order, and what keeps it from others; see `Protocol.begin`."""

    position: Position | None
    parent: int
    group: int
    role: Role
    guards: Guards
    queues: bool


class Binding(NamedTuple):
    """What a tool is: its signature, and the number of the change that made it that (0: none has)."""

    number: int
    signature: str


class Ticket:
    """A waiter's place: fired once, when whom it waits for has moved."""

    __slots__ = ("fired", "wake")

    def __init__(self) -> None:
        self.fired = False
        self.wake: Callable[[], None] | None = None

    def has_fired(self) -> bool:
        """Whether it has fired by now: another thread may have done so since the last look."""
        return self.fired


def fire(tickets: Iterable[Ticket]) -> None:
    """Wake whoever waits on these tickets, or will. Not under a lock: they may move at once."""
    for ticket in tickets:
        ticket.fired = True
        if ticket.wake is not None:
            ticket.wake()


class Hold:
    """One transaction's hold on one scope, and what makes it more than a hold."""

    __slots__ = ("active", "busy", "claims", "declared", "granted", "held", "last_act", "lined", "match", "path",
                 "reading", "readings", "scope", "since", "touched", "txn", "wants")  # fmt: skip

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
        self.last_act = 0  # the number, among its transaction's, of the last act on it
        self.touched = False
        self.active = False
        self.busy = False
        self.reading = False
        self.lined = False  # a race was lost here, or stands to be: those who come behind it may wait for it
        self.match = Match(path[:-1], path[-1:])  # what it overlaps while nobody holds a wildcard


def oldest_first(holds: list[Hold]) -> list[Hold]:
    """Return holds by the age of their transactions, those of one transaction as it took them."""
    if len(holds) > 1:
        holds.sort(key=_age)
    return holds


def _age(hold: Hold) -> tuple[Position, int]:
    return hold.txn.position, hold.since


class Call:
    """One request to touch a scope: admitted, or waiting for somebody."""

    __slots__ = ("admitted", "hold", "leaves", "mode", "number", "place", "returned", "scope", "since", "turned",
                 "txn", "wanting")  # fmt: skip

    def __init__(
        self, txn: Txn, scope: Scope, mode: Mode, place: int = -1, *, turned: bool = False, leaves: int = 0
    ) -> None:
        self.txn = txn
        self.scope = scope
        self.mode = mode
        self.place = place  # the number of the decision it is for; -1: none, it reads
        self.turned = turned  # it was issued as one of several, in an order
        self.leaves = leaves  # what is asked of its place among the held ones: see `leaving`
        self.number = 0  # its number among the calls of its transaction, once it was asked for
        self.hold: Hold | None = None
        self.wanting = False
        self.admitted = False
        self.returned = False
        self.since = 0  # when it first had to wait


class Blocked(NamedTuple):
    """Whom a request waits for, and on what; `in_line` where it need not, and would only lose by going ahead."""

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

    def __init__(  # noqa: PLR0913 - one keyword for each thing that is said of it
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
        self.owner = owner  # the worker that brings it to its end
        self.parent = parent  # the transaction in whose call it runs, independent of it; 0 for none
        self.group = group  # the hold it works under; 0 for none
        self.role: Role = role
        self.guards = guards
        self.queues = queues  # where a race was lost it stands in line
        self.mends = mends  # it is there to undo what others have done
        self.begins_again = False  # it stands in line before it does anything
        self.writes = False  # it has asked to write
        self.preds: dict[int, dict[Scope, int]] = {}  # whose work it read before that was settled: see `ties`
        self.dependents: set[int] = set()
        self.acts = 0  # how many of its effects have executed
        self.tools: dict[str, Binding] = {}  # what it has planned to call, as it was then
        self.members: dict[int, Txn] = {}  # of a hold: the unfinished ones that work under it
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
        self.hooked = False  # it has hooks to ask before it may commit
        self.judged = False  # they had said yes to it as it is: it was split off behind them
        self.since = 0  # when it began, and when it came to its present state: in the time it was told
        self.moved = 0
        self.parked = False  # its framework has put it aside, and comes back to it

    @property
    def epoch(self) -> int:
        """The epoch of its one current position."""
        return self.position[0]

    @property
    def finished(self) -> bool:
        """Whether its releases or undos are done."""
        return self.state in FINISHED
