"""The life of a transaction: every state and every transition, and nothing else.

```
open ──seal──▶ sealed ──decide──▶ releasing ──finish──▶ committed
  │               │                   │
  └────abort──────┴───────────────────┴──abort──▶ aborting ──finish──▶ aborted
```

*Waiting* is no state: it is a sealed transaction with somebody to wait for. `releasing` and
`aborting` are unfinished: the transaction still holds its scopes while it acts on the world.

A releasing transaction may still abort, but only while none of its held effects has left: then
nothing irreversible has happened and its claims, kept until it finishes, make its undo safe.

Only this file names transitions. Source: Atomix §2.2 (lifecycle), with the two unfinished states
named apart.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a transaction is in its life."""

    OPEN = "open"
    SEALED = "sealed"
    RELEASING = "releasing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Event(StrEnum):
    """What moves a transaction from one state to the next."""

    SEAL = "seal"
    DECIDE = "decide"
    ABORT = "abort"
    FINISH = "finish"


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.OPEN: {Event.SEAL: State.SEALED, Event.ABORT: State.ABORTING},
    State.SEALED: {Event.DECIDE: State.RELEASING, Event.ABORT: State.ABORTING},
    State.RELEASING: {Event.FINISH: State.COMMITTED, Event.ABORT: State.ABORTING},
    State.ABORTING: {Event.FINISH: State.ABORTED},
    State.COMMITTED: {},
    State.ABORTED: {},
}

FINISHED = frozenset({State.COMMITTED, State.ABORTED})


class Reason(StrEnum):
    """Why a transaction aborted.

    `LEFT`: its process had ended, and nobody came back to it. `CHOSEN` aborts nothing: it is the record of a choice,
    which points to the candidate that was chosen.
    """

    FAILED = "failed"
    STALE = "stale"
    WOUNDED = "wounded"
    CASCADED = "cascaded"
    VETOED = "vetoed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    VIOLATION = "violation"
    REFUSED = "release refused"
    ABANDONED = "abandoned"
    LOST = "ledger failed"
    LEASE = "lease lost"
    LATE = "late"
    REWOUND = "rewound"
    OVERDUE = "overdue"
    LEFT = "left behind"
    CHOSEN = "chosen"


# A transaction that lost a race is retried on fresh state; one that failed on its own is not.
RETRIED = frozenset({Reason.STALE, Reason.WOUNDED, Reason.CASCADED})


class Tag(StrEnum):
    """What an abort or a partial commit left of one effect.

    `clean`: nothing. `leaked`: an irreversible effect found released before the abort.
    `unresolved`: the undo failed or is missing, a cost stays, or nobody can tell.
    `partial_commit`: an irreversible effect that failed for good after another had left.
    """

    CLEAN = "clean"
    LEAKED = "leaked"
    UNRESOLVED = "unresolved"
    PARTIAL_COMMIT = "partial_commit"
