"""What a ledger keeps, whatever stores it: intent before the act, outcome after it, the why beside both.

A ledger takes *steps*: what one does to the protocol and to the record happens together or not at all,
and all of them in one order, whoever takes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
from settlemark.ledger._payloads.payloads import Packer

SCHEMA_VERSION = 4
"""Of the tables, and of the log in them: replicas that would decide otherwise must not share one."""

UNRESOLVED = (Tag.UNRESOLVED, Tag.LEAKED)
HAPPENED = (Outcome.CONFIRMED, Outcome.UNKNOWN)

T = TypeVar("T")


class TransactionRow(NamedTuple):
    """One attempt of a transaction, as first recorded. `at` is in seconds since 1970."""

    name: str
    attempt: int
    run: str
    state: State
    epoch: int
    ordinal: str
    owner: str
    at: float


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

    `reason` says why, `cause` the rest of it to people, and `link` is the name of the transaction that it points to.
    An unfinished one that waits has in `waits_for` and `waits_on` for whom, and on what, as people are told it.
    `sealed_at` and `decided_at` are when it was sealed and when its commit was decided, on the store's clock, and
    `waits` for whom it waited: of these three, what is not given here stays on record as it is.
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


class EffectRow(NamedTuple):
    """One effect's intent, recorded before it acts. Payloads are JSON texts.

    `fingerprint` is a digest of the arguments that outlives them; `window` is for how many seconds its
    counterparty remembers the key, or None when nobody said; `leaves` is what is asked of its place among the held ones
    (`settlemark._protocol.leaving.Leaves`). `path` is the name of its decision where that is too long for the key.
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

    @property
    def decision(self) -> Path:
        """The name of its decision in its transaction."""
        return path_in(self.key, self.name, self.attempt) if self.path is None else parsed(self.path)

    @property
    def undoable(self) -> bool:
        """Whether its declaration had an undo."""
        return "undo" in json_text.decode(self.handlers)

    @property
    def handled(self) -> bool:
        """Whether its declaration had a handler, which must be declared to end it."""
        return any(role != "keyed" for role in json_text.decode(self.handlers))

    @property
    def probed(self) -> bool:
        """Whether its declaration had a probe."""
        return "probe" in json_text.decode(self.handlers)

    @property
    def keyed(self) -> bool:
        """Whether its counterparty was to know its key, and answer a repeat with the first outcome."""
        return self.kind is EffectClass.IDEMPOTENT or "keyed" in json_text.decode(self.handlers)

    @property
    def scope(self) -> str:
        """Its scopes as one text, for people."""
        return " ".join(json_text.decode(self.scopes))


class OutcomeChange(NamedTuple):
    """What became of an effect; its tool is named for the rules of `redact=`.

    What is decided about it stands in the last fields, and `note` says the rest to people: see `Disposed`.
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
        """Return the change that has an effect stand so."""
        disposition, note, link, question, contradicted = disposed
        return cls(key, outcome, result, error, tag, note, at, tool, disposition, link, question, contradicted)

    @property
    def disposed(self) -> Disposed:
        """How it stands."""
        return Disposed(self.disposition, self.note, self.link, self.question, self.contradicted)


class Said(NamedTuple):
    """What a person has said of an effect: an answer to a question about it, or a verdict.

    `text` is JSON; with `dealt` what the effect left is nobody's to look at any more. Later news of the effect takes
    that back.
    """

    key: str
    text: str
    by: str
    at: float
    dealt: bool
    tool: str = ""


class Page(NamedTuple):
    """Which part of the record is asked for: the last so many, those since a time, of a run, in a state."""

    last: int | None = None
    since: float | None = None
    run: str | None = None
    state: State | None = None


class Fence(NamedTuple):
    """A run was cancelled: nothing of it acts from here on."""

    run: str
    at: float


Change = TransactionRow | StateChange | EffectRow | OutcomeChange | Said | Fence


@dataclass(slots=True)
class RecordedEffect:
    """An effect as the ledger has it: its intent and its latest outcome."""

    row: EffectRow
    outcome: Outcome
    result: str | None = None
    error: str | None = None
    tag: Tag | None = None
    note: str | None = None
    settled_at: float | None = None
    sender: str | None = None
    """A worker that was buried while it may have been sending it, or who has sent it again since."""
    said: str | None = None
    said_by: str | None = None
    said_at: float | None = None
    dealt_at: float | None = None
    disposition: Disposition | None = None
    link: str | None = None
    question: int | None = None
    contradicted: bool = False

    @property
    def disposed(self) -> Disposed:
        """How it stands; `note` alone is the rest of what people are told."""
        return Disposed(self.disposition, self.note, self.link, self.question, self.contradicted)


@dataclass(slots=True)
class RecordedTransaction:
    """An attempt of a transaction as the ledger has it, with its effects in issuance order."""

    row: TransactionRow
    state: State
    epoch: int
    reason: Reason | None = None
    settled_at: float | None = None
    effects: list[RecordedEffect] = field(default_factory=list[RecordedEffect])
    sealed_at: float | None = None
    """When nothing could be added to it any more, on the store's clock; None: that was never so."""
    decided_at: float | None = None
    """When its commit was decided, on the store's clock; None: it never was."""
    waits: tuple[Waited, ...] = ()
    """For whom it waited, the latest last; of many the last few."""
    listed: frozenset[str] | None = None
    """On a page of what is left: the keys of its effects that are on it; else None."""
    cause: str | None = None
    """What people are told besides the reason."""
    link: str | None = None
    """The name of another transaction, which the reason points to: of a choice the chosen candidate."""
    waits_for: str | None = None
    """For whom it waits now, as people are told it."""
    waits_on: str | None = None
    """On what it waits now."""

    @property
    def because(self) -> str | None:
        """Why it stands as it does, for people; None where nobody has said."""
        return ": ".join(part for part in (self.reason, self.cause) if part is not None) or None


def age_of(recorded: RecordedTransaction) -> tuple[float, int, int]:
    """Return what attempts are ordered by, oldest first."""
    return recorded.row.at, recorded.epoch, recorded.row.attempt


class Book(Protocol):
    """What a step of the protocol may read and write beside it, in the same transaction of the store.

    Attributes:
        behind: the number of the log's last entry before it: where two steps see the same, nobody wrote in between.
    """

    behind: int

    def write(self, changes: list[Change]) -> None:
        """Keep changes; an attempt that was opened before stays as it is.

        Raises:
            LedgerError: an effect's key is taken, or its transaction is not there.
        """
        ...

    def otherwise(self, undo: Callable[[], object]) -> None:
        """Call a function, under the ledger's lock, if the step is not taken: the store has failed.

        It takes back what the step did to what is this process's own, which the store knows nothing of.
        """
        ...

    def load(self, name: str) -> RecordedTransaction | None:
        """Return the last attempt of a transaction, or None when it was never recorded."""
        ...

    def forgotten(self, name: str) -> int | None:
        """Return what is known of a name whose record had to make room: the number of its attempt, if that was aborted.

        0: it has committed. None: nothing was forgotten.
        """
        ...

    def find(self, key: str) -> RecordedTransaction | None:
        """Return the attempt that has the effect of this key, with all its effects, or None."""
        ...

    def unfinished(self, outcome: Outcome | None = None) -> list[RecordedTransaction]:
        """Return every attempt that has not come to its end; with `outcome` its effects that have it, if any."""
        ...

    def unresolved(self) -> list[RecordedTransaction]:
        """Return attempts with those of their effects that are unresolved or leaked, and happened or may have."""
        ...

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt, oldest first."""
        ...

    def recent(self, page: Page) -> list[RecordedTransaction]:
        """Return the recorded attempts of a page, oldest first; no more of the store is read than that."""
        ...

    def left(self, page: Page, *, dealt: bool = False) -> list[RecordedTransaction]:
        """Return attempts that have effects which somebody has to look at, oldest first.

        With `dealt`, that have effects which somebody has dealt with. A page counts these effects.
        """
        ...

    def of_run(self, run: str) -> list[RecordedTransaction]:
        """Return every recorded attempt of a run, oldest first."""
        ...

    def since(self, epoch: int) -> list[RecordedTransaction]:
        """Return every recorded attempt that is at this epoch or a later one, oldest first."""
        ...

    def sweep(self, age: Age, *, after: Cursor | None, limit: int) -> Swept:
        """Let go of what is old: at most `limit` attempts, from where the last sweep ended.

        What an operator has to look at stays whole, however old it is.
        """
        ...

    def old(self, age: Age) -> Swept:
        """Return what sweeping all would do now; nothing changes."""
        ...

    def old_fences(self, before: float, *, limit: int) -> list[str]:
        """Return the runs that were cancelled before this time, the oldest first."""
        ...

    def strike_fences(self, runs: Iterable[str]) -> None:
        """Take fences off the record."""
        ...

    def gone(self) -> list[str]:
        """Return the workers that are gone since the last look, to be buried in this step: see `_lease.bury`.

        One whose process ended is off the list. One that is only silent stays on it as a ghost.
        """
        ...

    def haunt(self, worker: str) -> None:
        """Record that a worker has no lease any more and may still be sending: a ghost on the list."""
        ...

    def ghosts(self) -> frozenset[str]:
        """Return the workers that were buried and may still be sending what they had begun."""
        ...

    def may_come(self, keys: Iterable[str], sender: str | None) -> None:
        """Record who may still be sending these effects; None for nobody."""
        ...

    def strike_off(self, workers: Iterable[str]) -> None:
        """Take workers off the list."""
        ...


Step = Callable[[Engine, Book], T]
"""One step: what it does to the protocol and to the book is done together, or not at all."""


class Ledger(Protocol):
    """The durable record under a settlement, and the protocol whose every step is on it.

    Attributes:
        url: where it lives.
        id: its own, which no other ledger has: its keys carry it.
        protocol: this process's replica. Look at it under `lock`; move it by steps alone.
        lock: short, never held across I/O; it guards what belongs to this process, too.
        worker: the name under which this process owns its transactions, or "" where there is one alone.
        immediate: a step is taken when `now` returns; else `submit` answers with what will be its answer.
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
        """Guards it."""
        ...

    @property
    def payloads(self) -> Packer:
        """How payloads are recorded."""
        ...

    @property
    def worker(self) -> str:
        """The name under which this process owns its transactions."""
        ...

    def now(self, step: Step[T]) -> T:
        """Take a step and return what it returns. Blocks."""
        ...

    def submit(self, step: Step[Any], *, durable: bool, looks: bool = False) -> Pending:
        """Queue a step behind all given before; the answer comes when it, with `durable` on disk, is taken.

        One that only `looks` changes nothing: by itself it commits nothing.
        """
        ...

    def later(self, step: Step[Any]) -> None:
        """Queue a step that is taken sooner or later, in its order; nobody is told."""
        ...

    def read(self, query: Callable[[Book], T]) -> T:
        """Return what a query finds, after all that was given before. Blocks."""
        ...

    def time(self) -> float:
        """Return what time it is where the record lives, in seconds since 1970; it never goes back."""
        ...

    @property
    def acts(self) -> Acts:
        """What of this process is out in the world."""
        ...

    @property
    def stalled(self) -> bool:
        """Whether the store was silent for longer than somebody waited, and has not answered since."""
        ...

    @property
    def is_elsewhere(self) -> bool:
        """Whether this process was forked since it was opened, so that it is its parent's."""
        ...

    def expect_end(self) -> None:
        """Let waits for a store that does not answer end in some seconds: the ledger is to be closed."""
        ...

    def undecided(self) -> float:
        """Return for how many seconds workers elsewhere, who have work here, must be watched to know who is dead."""
        ...

    def is_fresh(self) -> bool:
        """Whether this worker surely has its lease for long enough to begin an act."""
        ...

    def watch_aborts(self, told: Callable[[], None]) -> None:
        """Call a function when another worker's step may have aborted a transaction of this process."""
        ...

    def watch_leases(self, told: Callable[[str, int], None]) -> None:
        """Call a function when this process lost its lease: with the worker's name and how many were open."""
        ...

    def listen(self, change: int) -> None:
        """Say that so many more (or fewer) wait for what another process does: look for it often."""
        ...

    def close(self) -> None:
        """Take what is queued and let go of the store.

        While acts are out their transactions are handed over, in doubt, and the store is let go of when they are back.
        """
        ...
