"""What a ledger keeps, whatever stores it: intent before the act, outcome after it, the why beside both.

A ledger takes *changes* and makes them durable in the order given. `write` answers with None when
that has happened already, else with a future of it, so that callers can share one commit.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from settlemark import _codec
from settlemark._effect import EffectClass, Outcome
from settlemark._states import State, Tag

SCHEMA_VERSION = 1


class TransactionRow(NamedTuple):
    """One attempt of a transaction, as first recorded. `at` is in seconds since 1970."""

    name: str
    attempt: int
    run: str
    state: State
    epoch: int
    ordinal: str
    owner: str
    fence: int
    at: float


class StateChange(NamedTuple):
    """A transaction's attempt reached another state."""

    name: str
    attempt: int
    state: State
    epoch: int
    reason: str | None
    at: float


class EffectRow(NamedTuple):
    """One effect's intent, recorded before it acts. Payloads are JSON texts."""

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

    @property
    def scope(self) -> str:
        """Its scopes as one text, for people."""
        return " ".join(_codec.decode(self.scopes))

    @property
    def fingerprint(self) -> str:
        """A digest of the arguments that outlives them: retention may drop the payload, never this."""
        return _codec.fingerprint(self.arguments)


class OutcomeChange(NamedTuple):
    """What became of an effect."""

    key: str
    outcome: Outcome
    result: str | None
    error: str | None
    tag: Tag | None
    note: str | None
    at: float


class Fence(NamedTuple):
    """A run was cancelled: nothing of it acts from here on."""

    run: str
    at: float


Change = TransactionRow | StateChange | EffectRow | OutcomeChange | Fence


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


@dataclass(slots=True)
class RecordedTransaction:
    """An attempt of a transaction as the ledger has it, with its effects in issuance order."""

    row: TransactionRow
    state: State
    epoch: int
    reason: str | None = None
    settled_at: float | None = None
    effects: list[RecordedEffect] = field(default_factory=list[RecordedEffect])


class Ledger(Protocol):
    """The durable record under a settlement."""

    url: str

    def reserve_epochs(self, count: int) -> int:
        """Return the first of `count` epochs that no one was ever given before. Blocks."""
        ...

    def fences(self) -> list[str]:
        """Return the runs that were cancelled. Blocks."""
        ...

    def write(self, changes: list[Change]) -> Future[Any] | None:
        """Make changes durable, after all given before; None means done."""
        ...

    def load(self, name: str) -> Future[Any] | RecordedTransaction | None:
        """Return the last attempt of a transaction, or None when it was never recorded."""
        ...

    def unfinished(self, run: str) -> Future[Any] | list[RecordedTransaction]:
        """Return the attempts of a run that no process has brought to an end."""
        ...

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt, oldest first. Blocks until all given before is written."""
        ...

    def close(self) -> None:
        """Write what is queued and let go of the store."""
        ...
