"""What a ledger keeps, whatever stores it: intent before the act, outcome after it, the why beside both.

A ledger takes *steps*: what a step does to the protocol and to the record happens together or not at all, and all steps
happen in one order, whoever takes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, Protocol, TypeVar

from settlemark._acts.requests import Pending
from settlemark._model import json_text
from settlemark._model.disposition import Disposed, Disposition
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.identity import Path, parsed, path_in
from settlemark._protocol.protocol import Protocol as Engine
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._acts import Acts
from settlemark.ledger._age import Age, Cursor, Swept
from settlemark.ledger._budgets import Purse
from settlemark.ledger._entries import Entries
from settlemark.ledger._leased.rows import LeaseRows
from settlemark.ledger._owed import Debts, Lapse, OwedChange, OwedRow
from settlemark.ledger._payloads.payloads import Packer

SCHEMA_VERSION = 8
"""The version of the tables and of the log in them: replicas that decide differently must not share a log."""

UNRESOLVED = (Tag.UNRESOLVED, Tag.LEAKED)
HAPPENED = (Outcome.CONFIRMED, Outcome.UNKNOWN)

T = TypeVar("T")


class TransactionRow(NamedTuple):
    """One attempt of a transaction, as first recorded. `at` is in seconds since 1970.

    `agents` are the agents that act in it: those that came later stand there, too.
    """

    name: str
    attempt: int
    run: str
    state: State
    epoch: int
    ordinal: str
    owner: str
    at: float
    agents: tuple[str, ...] = ()


class Waited(NamedTuple):
    """A wait of a transaction: for whom, on what, since when and until when, in seconds on the store's clock.

    `until` is None while it lasts, and where its process ended meanwhile.
    """

    holder: str
    scope: str
    since: float
    until: float | None = None


class StateChange(NamedTuple):
    """A transaction's attempt reached another state.

    `reason` says why, `cause` explains it to people, and `link` is the name of the transaction that the reason points
    to. For a waiting unfinished one, `waits_for` and `waits_on` name the holder and the resource, as shown to people.
    `sealed_at` and `decided_at` are when it was sealed and when its commit was decided, on the store's clock, and
    `waits` its past waits; `agents` are those that act in it: of these four, a value not given here leaves the recorded
    one unchanged.
    """

    name: str
    attempt: int
    state: State
    epoch: int
    reason: Reason | None
    at: float
    sealed_at: float | None = None
    decided_at: float | None = None
    waits: tuple[Waited, ...] = ()
    cause: str | None = None
    link: str | None = None
    waits_for: str | None = None
    waits_on: str | None = None
    agents: tuple[str, ...] = ()


class EffectRow(NamedTuple):
    """One effect's intent, recorded before it acts. Payloads are JSON texts.

    `fingerprint` is a digest of the arguments that outlives them; `window` is for how many seconds its counterparty
    remembers the key, None if undeclared; `leaves` is what is asked of its place among the held ones
    (`settlemark._protocol.leaving.Leaves`). `path` names its decision where the path is too long for the key; `under`
    is the id of the `Decision` for the sake of which it is called.
    """

    key: str
    name: str
    attempt: int
    position: int
    tool: str
    kind: EffectClass
    scopes: str
    held: bool
    call_id: str | None
    arguments: str
    rationale: str | None
    handlers: str
    version: str
    outcome: Outcome
    at: float
    fingerprint: str = ""
    window: float | None = None
    leaves: int = 0
    path: str | None = None
    under: str | None = None

    @property
    def decision(self) -> Path:
        """The path of its decision in its transaction."""
        return path_in(self.key, self.name, self.attempt) if self.path is None else parsed(self.path)

    @property
    def undoable(self) -> bool:
        """Whether its declaration had an undo."""
        return "undo" in json_text.decode(self.handlers)

    @property
    def handled(self) -> bool:
        """Whether its declaration had a handler, which must be declared to end it."""
        return any(role not in ("keyed", "commutes") for role in json_text.decode(self.handlers))

    @property
    def probed(self) -> bool:
        """Whether its declaration had a probe."""
        return "probe" in json_text.decode(self.handlers)

    @property
    def keyed(self) -> bool:
        """Whether its counterparty was sent its key, and answers a repeat with the first outcome."""
        return self.kind is EffectClass.IDEMPOTENT or "keyed" in json_text.decode(self.handlers)

    @property
    def commutes(self) -> str | None:
        """The group of effects that it commutes with on its scope, as declared when it acted; None for none."""
        group: str | None = json_text.decode(self.handlers).get("commutes")
        return group

    @property
    def scope(self) -> str:
        """Its scopes as one text, for people."""
        return " ".join(json_text.decode(self.scopes))


class OutcomeChange(NamedTuple):
    """The outcome of an effect; the tool is named for the rules of `redact=`.

    `disposition` and the next fields have the decision about it, and `note` explains that to people: see `Disposed`.
    `spent` has what its result says that it spent, by budget; `lapse` what it owes for what it got until a time.
    """

    key: str
    outcome: Outcome
    result: str | None
    error: str | None
    tag: Tag | None
    note: str | None
    at: float
    tool: str = ""
    disposition: Disposition | None = None
    link: str | None = None
    question: int | None = None
    contradicted: bool = False
    spent: Mapping[str, Decimal] = {}
    lapse: Lapse | None = None

    @classmethod
    def of(
        cls,
        key: str,
        outcome: Outcome,
        result: str | None,
        error: str | None,
        tag: Tag | None,
        disposed: Disposed,
        at: float,
        tool: str = "",
    ) -> OutcomeChange:
        """Return the change that gives an effect this disposition."""
        disposition, note, link, question, contradicted = disposed
        return cls(key, outcome, result, error, tag, note, at, tool, disposition, link, question, contradicted)

    @property
    def disposed(self) -> Disposed:
        """Its disposition."""
        return Disposed(self.disposition, self.note, self.link, self.question, self.contradicted)


class Said(NamedTuple):
    """A person's last word on an effect: an answer to a question, or a verdict.

    `text` is JSON, a payload for people; `verdict` is the word itself, as data; None takes back what was said. With
    `dealt` nobody needs to look at the effect's residue any more. Later news of the effect revokes that.
    """

    key: str
    text: str
    by: str
    at: float
    dealt: bool
    tool: str = ""
    verdict: str | None = None


class Page(NamedTuple):
    """A part of the record: the last so many, those since a time, of a run, in a state."""

    last: int | None = None
    since: float | None = None
    run: str | None = None
    state: State | None = None


class Fence(NamedTuple):
    """A run was cancelled: nothing of it acts from here on."""

    run: str
    at: float


Change = TransactionRow | StateChange | EffectRow | OutcomeChange | Said | Fence | OwedRow | OwedChange


@dataclass(slots=True)
class RecordedEffect:
    """An effect as recorded: its intent and its latest outcome."""

    row: EffectRow
    outcome: Outcome
    result: str | None = None
    error: str | None = None
    tag: Tag | None = None
    note: str | None = None
    settled_at: float | None = None
    sender: str | None = None
    """A worker that was thought dead while it may have been sending the effect, or one that has sent it again since."""
    said: str | None = None
    said_by: str | None = None
    said_at: float | None = None
    dealt_at: float | None = None
    disposition: Disposition | None = None
    link: str | None = None
    question: int | None = None
    contradicted: bool = False
    verdict: str | None = None
    """A person's last word on it: `approve`, `edit` or `reject`, or an operator's verdict."""

    @property
    def disposed(self) -> Disposed:
        """Its disposition; `note` alone is for people."""
        return Disposed(self.disposition, self.note, self.link, self.question, self.contradicted)


@dataclass(slots=True)
class RecordedTransaction:
    """An attempt of a transaction as recorded, with its effects in issuance order."""

    row: TransactionRow
    state: State
    epoch: int
    reason: Reason | None = None
    settled_at: float | None = None
    effects: list[RecordedEffect] = field(default_factory=list[RecordedEffect])
    sealed_at: float | None = None
    """When it was sealed, on the store's clock; None if never."""
    decided_at: float | None = None
    """When its commit was decided, on the store's clock; None if never."""
    waits: tuple[Waited, ...] = ()
    """Its waits, the latest last; of many the last few."""
    listed: frozenset[str] | None = None
    """On a page of residue: the keys of its listed effects; else None."""
    cause: str | None = None
    """The explanation of the reason, for people."""
    link: str | None = None
    """The name of the transaction that the reason points to: of a choice the chosen candidate."""
    waits_for: str | None = None
    """The holder it waits for now, as shown to people."""
    waits_on: str | None = None
    """The resource it waits on now."""

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that act in it, as their callers name them."""
        return self.row.agents

    @property
    def because(self) -> str | None:
        """Why it is in its state, for people; None if not recorded."""
        return ": ".join(part for part in (self.reason, self.cause) if part is not None) or None


def age_of(recorded: RecordedTransaction) -> tuple[float, int, int]:
    """Return the sort key of attempts, oldest first."""
    return recorded.row.at, recorded.epoch, recorded.row.attempt


class Book(Protocol):
    """The record as a step may read and write it, in the same transaction of the store as the protocol.

    Attributes:
        behind: the number of the log's entry before this step: where two steps see the same, nobody wrote in between.
        entries: what the record holds beside transactions and effects.
    """

    behind: int

    @property
    def entries(self) -> Entries:
        """What the record holds beside transactions and effects: written in the same transaction of the store."""
        ...

    @property
    def debts(self) -> Debts:
        """What transactions owe."""
        ...

    @property
    def purse(self) -> Purse:
        """The rows of budgets."""
        ...

    @property
    def leases(self) -> LeaseRows:
        """The rows of agents' leases."""
        ...

    def write(self, changes: list[Change]) -> None:
        """Record changes; an attempt that is recorded already stays as it is.

        Raises:
            LedgerError: an effect's key is taken, or its transaction is not recorded.
        """
        ...

    def on_rollback(self, undo: Callable[[], object]) -> None:
        """Register a function to be called, under the ledger's lock, if the step is not taken since the store failed.

        The function undoes the step's changes to this process's own state, which the store does not have.
        """
        ...

    def load(self, name: str) -> RecordedTransaction | None:
        """Return the last attempt of a transaction, or None if it was never recorded."""
        ...

    def forgotten(self, name: str) -> int | None:
        """Return the number of a forgotten attempt that was aborted; the record had no room for more."""
        ...

    def find(self, key: str) -> RecordedTransaction | None:
        """Return the attempt with the effect of this key, with all its effects, or None."""
        ...

    def unfinished(self, outcome: Outcome | None = None) -> list[RecordedTransaction]:
        """Return every unfinished attempt; with `outcome`, only its effects with that outcome."""
        ...

    def unresolved(self) -> list[RecordedTransaction]:
        """Return attempts with those of their effects that are unresolved or leaked, and happened or may have."""
        ...

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt, oldest first."""
        ...

    def recent(self, page: Page) -> list[RecordedTransaction]:
        """Return the recorded attempts of a page, oldest first; nothing else is read from the store."""
        ...

    def left(self, page: Page, *, dealt: bool = False) -> list[RecordedTransaction]:
        """Return attempts with residue, oldest first.

        With `dealt`, those with effects that an operator has dealt with. A page counts these effects.
        """
        ...

    def of_run(self, run: str) -> list[RecordedTransaction]:
        """Return every recorded attempt of a run, oldest first."""
        ...

    def in_doubt(self, run: str) -> list[RecordedEffect]:
        """Return the effects of a run of which nobody knows whether they happened."""
        ...

    def since(self, epoch: int) -> list[RecordedTransaction]:
        """Return every recorded attempt at this epoch or later, oldest first."""
        ...

    def sweep(self, age: Age, *, after: Cursor | None, limit: int) -> Swept:
        """Remove what is old: at most `limit` attempts, from where the last sweep ended.

        What an operator has to look at stays entirely, however old it is.
        """
        ...

    def old(self, age: Age) -> Swept:
        """Return what a complete sweep would do now; nothing changes."""
        ...

    def old_fences(self, before: float, *, limit: int) -> list[str]:
        """Return the runs that were cancelled before this time, the oldest first."""
        ...

    def remove_fences(self, runs: Iterable[str]) -> None:
        """Remove fences from the record."""
        ...

    def gone(self) -> list[str]:
        """Return the workers that are gone since the last look, to be buried in this step: see `_lease.bury`.

        A worker whose process ended is removed from the list. A silent one stays on the list as a zombie.
        """
        ...

    def mark_zombie(self, worker: str) -> None:
        """Record that a worker lost its lease and may still be sending: a zombie."""
        ...

    def zombies(self) -> frozenset[str]:
        """Return the zombies: buried workers that may still be sending."""
        ...

    def set_sender(self, keys: Iterable[str], sender: str | None) -> None:
        """Record the worker that may still be sending these effects; None for nobody."""
        ...

    def remove_workers(self, workers: Iterable[str]) -> None:
        """Remove workers from the list."""
        ...


Step = Callable[[Engine, Book], T]
"""One step: its changes to the protocol and to the book are made together, or not at all."""


class Ledger(Protocol):
    """The durable record under a settlement, and the protocol whose every step it records.

    Attributes:
        url: where it is.
        id: unique to this ledger; its keys carry it.
        protocol: this process's replica. Read it under `lock`; change it only by steps.
        lock: short, never held across I/O; it guards this process's own state, too.
        worker: the name under which this process owns its transactions, or "" where there is only one process.
        immediate: a step is taken when `now` returns; otherwise `submit` returns the answer to come.
    """

    url: str
    id: str
    immediate: bool

    @property
    def protocol(self) -> Engine:
        """This process's replica."""
        ...

    @property
    def lock(self) -> threading.Lock:
        """Guards the replica."""
        ...

    @property
    def payloads(self) -> Packer:
        """Prepares payloads for the record."""
        ...

    @property
    def worker(self) -> str:
        """The name under which this process owns its transactions."""
        ...

    def now(self, step: Step[T]) -> T:
        """Take a step and return its result. Blocks."""
        ...

    def submit(self, step: Step[Any], *, durable: bool, looks: bool = ..., wait: float | None = ...) -> Pending:
        """Queue a step after all earlier ones; the answer comes when the step, with `durable` on disk, is taken.

        A step that only `looks` changes nothing, and commits nothing by itself. It is given up when the store has not
        taken it in so many seconds (`wait`, or the least that a store is given); the ledger's own by default.
        """
        ...

    def later(self, step: Step[Any]) -> None:
        """Queue a step that is taken eventually, in its order; nobody is told."""
        ...

    def read(self, query: Callable[[Book], T]) -> T:
        """Return a query's result, after all earlier steps. Blocks."""
        ...

    def time(self) -> float:
        """Return the store's time, in seconds since 1970; it never goes back."""
        ...

    @property
    def acts(self) -> Acts:
        """This process's acts in flight."""
        ...

    @property
    def stalled(self) -> bool:
        """Whether the store was silent for longer than a caller waited, and has not answered since."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether this process has closed the ledger: no further step is taken here."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process was forked since the ledger was opened: the ledger is then its parent's."""
        ...

    def expect_end(self) -> None:
        """Limit waits for an unresponsive store to some seconds: the ledger is about to be closed."""
        ...

    def undecided(self) -> float:
        """Return for how many more seconds workers elsewhere must be watched to know which are dead."""
        ...

    def is_fresh(self) -> bool:
        """Whether this worker surely keeps its lease for long enough to begin an act."""
        ...

    def watch_aborts(self, told: Callable[[], None]) -> None:
        """Call a function when another worker's step may have aborted a transaction of this process."""
        ...

    def watch_leases(self, told: Callable[[str, int], None]) -> None:
        """Call a function with the worker's name and the number of open transactions when the lease is lost."""
        ...

    def listen(self, change: int) -> None:
        """Report that so many more (or fewer) callers wait for another process: look for its steps often."""
        ...

    def close(self) -> None:
        """Take what is queued and close the store.

        While acts are in flight their transactions are handed over, in doubt, and the store is closed when they have
        returned.
        """
        ...
