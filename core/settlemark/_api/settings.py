"""A settlement's settings: related arguments are small frozen values of their own."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial

from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Retries
from settlemark._api.checked import (
    checked_age,
    checked_days,
    checked_failure,
    checked_lease,
    checked_number,
    checked_wait,
)
from settlemark._approvals.channel import Channel
from settlemark._attempt.attempt import OnFailure
from settlemark._edges.errors import UsageError
from settlemark._edges.given import function
from settlemark._edges.text import VERSION, brief, identity
from settlemark._edges.user_code import through
from settlemark._mending.paging import Proposer
from settlemark._model.budget import Budget
from settlemark._model.guards import Guards
from settlemark._observe.events import Observer
from settlemark._policy.policy import Policy
from settlemark.ledger._lease import QUARANTINE_SECONDS
from settlemark.ledger._payloads.encryption import Encryption, KeySource
from settlemark.ledger._payloads.redaction import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """What of arguments, results and reasons is recorded, who can read it, and how long it is kept.

    Args:
        redact: what must never be recorded: fields as dotted paths (`"card.number"`, `"*.token"`), or a function of
            tool, path and value that returns the value to record. A replay returns the recorded values, where
            `{"$redacted": null}` stands for a redacted one, and after a crash a handler that needs it does not run.
        encrypt: a key from `new_key()`, several (the first encrypts, all decrypt), a function of the tenant that
            returns either, or an `Encryption`. Dropping the key erases the payloads, in backups too. Names, runs,
            scopes, keys and tools are recorded as they are: keep secrets out of them.
        tenant: whose key that is; the namespace by default.
        retention: days for which the payloads of finished transactions are kept; for ever by default. The keys of
            decisions stay for the `window` their tools declare, or a year: until then nothing runs again. This, and
            `Settlement.prune`, go by this host's clock and by the times that each host recorded: use NTP.
        retain: how many finished transactions a memory ledger keeps.

    Raises:
        UsageError: `retention` is no number of days, or `retain` no number.

    >>> from settlemark import Settlement
    >>> Settlement("memory:", payloads=Payloads(redact=["card.number"], retention=30)).close()
    """

    redact: str | Sequence[str] | Rule | None = None
    encrypt: KeySource | Encryption = None
    tenant: str | None = None
    retention: float | None = None
    retain: int = 10_000

    def __post_init__(self) -> None:
        if self.retention is not None:
            checked_days(self.retention)
        checked_number(self.retain, "retain", "how many finished transactions a memory ledger keeps")


def _hex() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """Time and identity from elsewhere, for tests.

    Args:
        clock: returns the time in seconds since 1970, for the record; where it fails, the system's clock is used, and
            the log says so once.
        monotonic: returns seconds that never go back, for waits, leases and ages.
        store_clock: returns the store's time in seconds since 1970, by which `window=` goes; for a memory ledger
            `clock` by default.
        ids: returns the name of a transaction that was given none.

    >>> from settlemark import Settlement
    >>> with Settlement("memory:", injected=Injected(ids=lambda: "first")).transaction(run="trip") as tx:
    ...     tx.name
    'first'
    """

    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    store_clock: Callable[[], float] | None = None
    ids: Callable[[], str] = _hex

    def __post_init__(self) -> None:
        """Have each given function called through the door: a generator may be what calls."""
        for each in fields(self):
            given = getattr(self, each.name)
            if each.name != "clock" and given is not each.default:  # a `SureClock` asks that one
                object.__setattr__(self, each.name, partial(through, given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All arguments of a settlement, checked: see `Settlement`."""

    url: str
    guards: Guards
    namespace: str = "default"
    wait: float = 30.0
    lease: float = 30.0
    quarantine: float = QUARANTINE_SECONDS
    keep_open: float = 30.0
    max_age: float | None = None
    on_failure: OnFailure = "abort"
    ask: Ask | None = None
    approver: Approver | None = None
    retries: Retries = field(default_factory=Retries)
    on_residue: Callable[[str], None] | None = None
    observe: Observer | None = None
    history: str | os.PathLike[str] | None = None
    payloads: Payloads = field(default_factory=Payloads)
    injected: Injected = field(default_factory=Injected)
    budgets: tuple[Budget, ...] = ()
    policy: Policy | None = None
    channels: tuple[Channel, ...] = ()
    on_stuck: Proposer | None = None

    def __post_init__(self) -> None:
        checked_wait(self.wait)
        checked_failure(self.on_failure, self.ask)
        if self.max_age is not None:
            checked_age(self.max_age)
        checked_lease(self.lease)
        checked_wait(self.quarantine, "quarantine")
        checked_wait(self.keep_open, "keep_open")
        checked_part(self.retries, Retries)
        for budget in self.budgets:
            checked_part(budget, Budget)
        if self.policy is not None:
            checked_part(self.policy, Policy)
        _checked_channels(self.channels)
        _checked_observer(self.observe)
        # One that cannot be called would be missed only where it is needed.
        for given, what in ((self.approver, "approver="), (self.ask, "ask="), (self.on_residue, "on_residue=")):
            if given is not None:
                function(given, what)
        checked_part(self.payloads, Payloads)
        checked_part(self.injected, Injected)


def _checked_channels(channels: tuple[Channel, ...]) -> None:
    names: set[str] = set()
    for channel in channels:
        name = getattr(channel, "name", None)
        if not callable(getattr(channel, "tell", None)):
            raise UsageError(f"channels= has {brief(channel)}, which tells nobody: give channels, with name and tell()")
        identity(name, "the name of a channel in channels=", VERSION)
        if name in names:
            raise UsageError(f"channels= has two that are called {name}: give each a name of its own")
        names.add(str(name))


def _checked_observer(observer: object) -> None:
    """Check who is told events: what can be told none would be missed only where something has happened."""
    lacking = [name for name in ("tell", "around") if not callable(getattr(observer, name, None))]
    if observer is not None and lacking:
        raise UsageError(
            f"observe= is {brief(observer)}, which has no {lacking[0]}(): give an observer, with tell() and around()"
        )


def checked_part(given: object, kind: type[Payloads | Injected | Budget | Policy | Retries]) -> None:
    """Return when what was given is of its class.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(given, kind):
        name = kind.__name__
        part = "budgets" if kind is Budget else name.lower()
        raise UsageError(f"{part}={brief(given)}: give a settlemark.{name}, as in {name}(…)")


__all__ = ["Injected", "Payloads", "Settings", "checked_part"]
