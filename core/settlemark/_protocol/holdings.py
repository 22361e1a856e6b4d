"""What the protocol decides about: transactions, their holds on scopes, their calls, and their waits; and halts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import Enum, auto
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec

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
    agents: tuple[str, ...]


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


class Hold(msgspec.Struct, eq=False):
    """One transaction's hold on one scope, with its counts of claims, held effects, reads and waits.

    Attributes:
        commutes: the group of effects that it stands for; empty once it stands for anything else (a read, an effect of
            no group or of another), None before its first request.
        match: what the scope overlaps while nobody holds a wildcard.
        last_act: the number, within the transaction, of the last act on the scope.
        lined: a race was lost here, or may be: later ones may wait behind this hold.
    """

    txn: Txn
    scope: Scope
    path: list[Node]
    match: Match
    since: int
    declared: bool
    claims: int = 0
    granted: int = 0
    held: int = 0
    wants: int = 0
    readings: int = 0
    last_act: int = 0
    touched: bool = False
    active: bool = False
    busy: bool = False
    reading: bool = False
    lined: bool = False
    commutes: str | None = None

    def stands_for(self, group: str) -> None:
        """Note a request of a group's effect, or with no group of anything else: what it stood for it still does."""
        self.commutes = group if self.commutes in (None, group) else ""

    def commutes_with(self, other: Hold) -> bool:
        """Whether all that stands under another's hold may happen before or after all that stands under this one.

        On one scope, not on a parent and its child: nothing tells that a group's effects on the two commute. A scope
        that was declared may be touched in any way.
        """
        return self.commutes_as(self.commutes, other)

    def commutes_as(self, group: str | None, other: Hold) -> bool:
        """As `commutes_with`, if this stood for effects of a group."""
        return bool(group) and group == other.commutes and not other.declared and self.path[-1] is other.path[-1]


AGE: Callable[[Hold], tuple[Position, int]] = attrgetter("txn.position", "since")
"""Sorts holds by their transactions' age, then by when they were taken."""


class Call(msgspec.Struct, eq=False):
    """One request to touch a scope: admitted, or waiting.

    Attributes:
        place: the decision's number; -1 for a read.
        commutes: the group of effects that this one commutes with on its scope; empty for none.
        turned: issued as one of several, in an order.
        leaves: see `leaving`.
        number: within its transaction, once the call was requested.
        since: when it first had to wait.
    """

    txn: Txn
    scope: Scope
    mode: Mode
    place: int = -1
    turned: bool = False
    leaves: int = 0
    number: int = 0
    hold: Hold | None = None
    wanting: bool = False
    admitted: bool = False
    returned: bool = False
    since: int = 0
    commutes: str = ""


class Blocked(NamedTuple):
    """The transaction and scope that a request waits for; `in_line`: a wait that only avoids losing a race."""

    holder: Txn
    scope: Scope
    in_line: bool = False


class Txn(msgspec.Struct, eq=False):
    """What must settle together: the protocol's view of one attempt of a transaction.

    Attributes:
        owner: the worker that ends the transaction.
        parent: the transaction in whose call it runs, independent of it; 0 for none.
        group: the hold it works under; 0 for none.
        queues: it stands in line after it lost a race.
        mends: its purpose is to undo effects of others.
        begins_again: it waits in line before it does anything.
        writes: it has asked to write; `wrote`: it was admitted to.
        preds: the unsettled work it has read, by author: see `ties`.
        acts: how many of its effects have executed.
        tools: the tools it planned to call, as planned.
        members: of a hold: the unfinished transactions under it.
        hooked: it has hooks to ask before it may commit.
        judged: the hooks approved it as it is, before it was split off.
        since: when it began, in the store's time; `moved`: when its state last changed.
        parked: its framework has put it aside, and will resume it.
        agents: the agents that act in it, as their callers name them.
    """

    id: int
    name: str
    run: str
    attempt: int
    position: Position
    retry: bool
    owner: str
    parent: int = 0
    group: int = 0
    role: Role = ""
    guards: Guards = ALL_ON
    queues: bool = False
    mends: bool = False
    begins_again: bool = False
    writes: bool = False
    preds: dict[int, dict[Scope, int]] = {}
    dependents: set[int] = set()
    acts: int = 0
    tools: dict[str, Binding] = {}
    members: dict[int, Txn] = {}
    state: State = State.OPEN
    holds: dict[Node, Hold] = {}
    reads: dict[Scope, int] = {}
    plan: dict[Scope, int] = {}
    low: int | None = None
    claims: int = 0
    running: int = 0
    wrote: bool = False
    released: bool = False
    reading: int = 0
    reason: Reason | None = None
    detail: dict[str, Any] = {}
    successor: Txn | None = None
    watchers: dict[Ticket, bool] = {}
    calls: dict[int, Call] = {}
    numbered: int = 0
    hooked: bool = False
    judged: bool = False
    since: int = 0
    moved: int = 0
    parked: bool = False
    agents: tuple[str, ...] = ()

    __repr__ = object.__repr__  # the fields lead to all other transactions

    @property
    def epoch(self) -> int:
        """The epoch of its current position."""
        return self.position[0]

    @property
    def touched(self) -> list[Scope]:
        """The scopes that it has touched, or asked to; not those that it only declared."""
        return [hold.scope for hold in self.holds.values() if hold.touched or hold.wants]

    @property
    def finished(self) -> bool:
        """Whether its releases or undos are done."""
        return self.state in FINISHED


# ---- halts

EVERYTHING = "everything"
"""What is halted by a halt of neither a scope nor a run, as people name it."""


class Halt(NamedTuple):
    """A halt that stands, or once stood; see `Settlement.halt`.

    Attributes:
        number: names it.
        scope: what is halted, with all that overlaps it; None: it is no scope.
        run: the run that is halted, or with `*` at its end all runs that begin so; None: it is no run.
        agent: the agent that is halted, in all runs; None: it is no agent. With none of the three, all is halted.
        by: who halted it.
        because: why.
        since: since when, in seconds since 1970 on the store's clock.
        resumed_by: who lifted it; None while it stands.
        resumed_at: when it was lifted, on the store's clock.

    >>> Halt(1, Scope.parse("payment:/ada"), None, "eve", "odd payments", 0.0).what
    'payment:/ada'
    """

    number: int
    scope: Scope | None
    run: str | None
    by: str
    because: str
    since: float
    resumed_by: str | None = None
    resumed_at: float | None = None
    agent: str | None = None

    @property
    def what(self) -> str:
        """What is halted, as people name it."""
        if self.scope is not None:
            return self.scope.text
        if self.agent is not None:
            return f"agent {self.agent}"
        return EVERYTHING if self.run is None else f"run {self.run}"

    @property
    def stands(self) -> bool:
        """Whether it is not lifted."""
        return self.resumed_at is None

    def covers(self, run: str, scopes: Iterable[Scope], agents: Iterable[str] = ()) -> bool:
        """Whether work of a run, and of these agents, on these scopes is halted by it.

        >>> Halt(1, None, "ada/*", "eve", "", 0.0).covers("ada/7", ())
        True
        """
        if self.agent is not None:
            return self.agent in agents
        if self.scope is not None:
            return any(self.scope.overlaps(scope) for scope in scopes)
        if self.run is None:
            return True
        return run.startswith(self.run[:-1]) if self.run.endswith("*") else run == self.run

    def is_of(self, scope: Scope | None, run: str | None, agent: str | None = None) -> bool:
        """Whether it halts exactly this."""
        return (self.scope, self.run, self.agent) == (scope, run, agent)

    def values(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**self._asdict(), "scope": None if self.scope is None else self.scope.text, "what": self.what}


def shown_time(seconds: float) -> str:
    """Return a time on the store's clock, for people.

    >>> shown_time(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
