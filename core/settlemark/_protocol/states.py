"""The life of a transaction: every state and every transition, and nothing else.

```
open ──seal──▶ sealed ──decide──▶ releasing ──finish──▶ committed
  │               │                   │
  └────abort──────┴───────────────────┴──abort──▶ aborting ──finish──▶ aborted
```

*Waiting* is no state: it is a sealed transaction that waits for another. `releasing` and `aborting` are unfinished:
the transaction still holds its scopes while it acts on the world.

A releasing transaction may still abort, but only while none of its held effects has left: then nothing irreversible has
happened, and its claims, kept until it finishes, make its undo safe.

Only this file names transitions. Source: Atomix §2.2 (lifecycle), with the two unfinished states named apart.

Beside its state a transaction carries flags, each a small machine that another rule moves:

* `writes`, then `wrote` (admission): it has asked to write; an effect of it was admitted. Neither goes back.
* `released` (calls): a held effect has left, so that it can no longer be undone. Never goes back.
* `parked`, `hooked`, `judged` (ownership, decision): it was put aside; it has hooks to ask before it may commit; the
  hooks have approved it as it is. Resuming it clears all three, and its seal sets `hooked` again. A part that hooks
  have judged may settle as it is, still put aside.
* `begins_again` (abort, line): it lost a race and waits in line before it asks for anything. Its first request, its
  seal and the end of its worker clear this.
* `retry` (begin, `drop_retry`): it is run again when it loses a race.

`FLAGS` has the legal combinations; no step leaves a transaction in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """Where a transaction is in its life."""

    OPEN = "open"
    SEALED = "sealed"
    RELEASING = "releasing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Event(StrEnum):
    """A cause that moves a transaction from one state to the next."""

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
UNSETTLED = (State.OPEN, State.SEALED)
"""The states in which others may still abort a transaction, and it may wait for them."""


class Flag(NamedTuple):
    """The states in which a flag may be set, the flags it needs (more of them while open), and those it excludes."""

    states: frozenset[State]
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    while_open: tuple[str, ...] = ()


FLAGS: dict[str, Flag] = {
    "writes": Flag(frozenset(State)),
    "wrote": Flag(frozenset(State), needs=("writes",)),
    "released": Flag(frozenset({State.RELEASING, State.COMMITTED}), needs=("wrote",)),
    "parked": Flag(frozenset(State)),
    "hooked": Flag(frozenset(State), while_open=("parked",)),
    "judged": Flag(frozenset(State), needs=("parked",)),
    "begins_again": Flag(frozenset({State.OPEN, State.ABORTED}), excludes=("writes",)),
    "retry": Flag(frozenset(State)),
}


def illegal(state: State, on: Mapping[str, bool]) -> list[str]:
    """Return what is illegal about these flags in this state; always empty unless there is a bug.

    >>> illegal(State.OPEN, {"writes": True, "wrote": True, "released": True})
    ['released while open']
    >>> illegal(State.RELEASING, {"writes": True, "released": True})
    ['released without wrote']
    """
    wrong: list[str] = []
    for name, flag in FLAGS.items():
        if not on.get(name):
            continue
        if state not in flag.states:
            wrong.append(f"{name} while {state}")
        needs = flag.needs + (flag.while_open if state is State.OPEN else ())
        wrong += [f"{name} without {other}" for other in needs if not on.get(other)]
        wrong += [f"{name} with {other}" for other in flag.excludes if on.get(other)]
    return wrong


class Reason(StrEnum):
    """Why a transaction aborted.

    `LEFT`: its process ended, and nobody resumed it. `CHOSEN` aborts nothing: it marks the record of a choice, which
    links to the chosen candidate.
    """

    FAILED = "failed"
    STALE = "stale"
    WOUNDED = "wounded"
    CASCADED = "cascaded"
    VETOED = "vetoed"
    CANCELLED = "cancelled"
    HALTED = "halted"
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
