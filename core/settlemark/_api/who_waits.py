"""Which transaction waits for which: every unfinished transaction of a store, with its worker and its waits.

Any process can read this without joining the others: the protocol's state is in the store.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from settlemark._edges.errors import Entangled
from settlemark._edges.plain import joined
from settlemark._protocol.holdings import Blocked, Txn
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import State
from settlemark._report.questions import Question, questions
from settlemark._report.sentences import short
from settlemark.ledger._contract import Ledger, RecordedTransaction
from settlemark.ledger._lease import held_by_zombies
from settlemark.ledger._replica.looking import Look, Worker, looking
from settlemark.ledger._workers import process

NOBODY_WAITS = "Nothing is unfinished."

Ends = Literal["process", "person", "framework", "sender", "nobody"]
"""Who ends a transaction: a living process, a person's answer, the framework that resumes it; or, when its worker is
silent, that worker, else the process that takes it up when its quarantine is over."""

_STANDS = {
    State.OPEN: "open",
    State.SEALED: "complete, and not settled yet",
    State.RELEASING: "committed, and what it held back is leaving",
    State.ABORTING: "being undone",
}


@dataclass(frozen=True, slots=True)
class Waits:
    """One wait of a transaction.

    Attributes:
        holder: the name of the transaction it waits for.
        scope: the scope that it asked for, or holds and cannot settle on yet.
        since: in seconds since 1970 on the store's clock; None when unknown.
    """

    holder: str
    scope: str
    since: float | None


@dataclass(frozen=True, slots=True)
class Silent:
    """An effect that a silent process may still be sending or undoing: its transaction ends after that.

    Attributes:
        tool, scope, key: the effect.
        worker: the process.
        until: when the process counts as gone, in seconds since 1970 on the store's clock; None: when it comes back,
            or, for a process of this host, has ended.
    """

    tool: str
    scope: str
    key: str
    worker: str
    until: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """An unfinished transaction as it stands.

    Attributes:
        state: `open`, `sealed`, `releasing` or `aborting`.
        parked: its framework has put it aside, and will resume it.
        since: when it began, and when it came to this state, in seconds since 1970.
        worker: the worker that ends it; "" when there is none yet.
        alive: whether that worker is alive; its lease runs out in `lease_left` seconds.
        scopes: its holds.
        waits: its waits; empty when it waits for nobody.
        asked: its calls that wait for a person.
        ended: it has ended, but its process was gone before it could record that: the next recovery does.
        silent: effects that its former worker may still be sending.
        kept: effects that may still happen, because their worker is silent: the scopes are held until then.
    """

    transaction: str
    attempt: int
    run: str
    state: State
    parked: bool
    since: float | None
    state_since: float | None
    worker: str
    alive: bool
    lease_left: float | None
    scopes: tuple[str, ...]
    waits: tuple[Waits, ...]
    ended: bool = False
    asked: tuple[Question, ...] = ()
    silent: bool = False
    kept: tuple[Silent, ...] = ()

    @property
    def ends_it(self) -> Ends:
        """Who ends the transaction: see `Ends`."""
        if self.parked and not self.worker:
            return "person" if self.asked else "framework"
        if self.alive:
            return "process"
        return "sender" if self.silent else "nobody"

    def values(self) -> dict[str, Any]:
        """Return the transaction as JSON values."""
        return {
            "transaction": self.transaction,
            "attempt": self.attempt,
            "run": self.run,
            "state": self.state.value,
            "parked": self.parked,
            "since": self.since,
            "state_since": self.state_since,
            "worker": self.worker,
            "alive": self.alive,
            "silent": self.silent,
            "ends_it": self.ends_it,
            "lease_left": self.lease_left,
            "scopes": list(self.scopes),
            "ended": self.ended,
            "approvals": [one.key for one in self.asked],
            "waits": [{"holder": w.holder, "scope": w.scope, "since": w.since} for w in self.waits],
            "kept": [
                {"tool": s.tool, "scope": s.scope, "key": s.key, "worker": s.worker, "until": s.until}
                for s in self.kept
            ],
        }


def left_standing(stand: Iterable[Standing], *, run: str | None = None, since: float | None = None) -> list[Standing]:
    """Return the transactions whose process is gone or silent: their effects are not settled, and may be unknown."""
    return [
        one
        for one in stand
        if (one.ends_it in ("nobody", "sender") or one.kept)
        and not one.ended  # nothing to undo
        and run in (None, one.run)
        and (since is None or one.since is None or one.since >= since)
    ]


def standing(ledger: Ledger) -> tuple[list[Standing], float]:
    """Return every unfinished transaction of a store, the oldest first, and the store's time.

    Raises:
        LedgerError: the store cannot be read.
    """
    return looking(ledger, found)


def found(look: Look) -> tuple[list[Standing], float]:
    """Return the result of `standing`, as part of a larger read."""
    protocol = look.replica()
    workers = {worker.name: worker for worker in look.workers()}
    rows = {(r.row.name, r.row.attempt): r for r in look.book.unfinished()}
    asked: dict[tuple[str, int], list[Question]] = {}
    for one in questions(protocol, look.book):
        asked.setdefault((one.transaction, one.attempt), []).append(one)
    zombies: dict[str | None, float | None] = {
        name: worker.until for name, worker in workers.items() if worker.buried and not worker.ended
    }
    stand: list[Standing] = []
    for txn in sorted(protocol.live.values(), key=lambda txn: txn.position):
        recorded = rows.pop((txn.name, txn.attempt), None)
        mine = tuple(asked.get((txn.name, txn.attempt), ()))
        stands = _standing(protocol, txn, recorded, workers.get(txn.owner), zombies)
        stand.append(replace(stands, asked=mine, kept=_kept(txn, recorded, zombies)))
    for recorded in rows.values():
        row = recorded.row
        worker = workers.get(row.owner)
        alive = worker is not None and worker.alive
        left = None if worker is None else worker.lease_left
        stand.append(
            Standing(
                row.name,
                row.attempt,
                row.run,
                recorded.state,
                False,
                row.at,
                None,
                row.owner,
                alive,
                left,
                (),
                (),
                ended=True,
            )
        )
    return stand, look.clock()


def _standing(
    protocol: Protocol,
    txn: Txn,
    recorded: RecordedTransaction | None,
    worker: Worker | None,
    zombies: Container[str | None],
) -> Standing:
    begun = recorded.row.at if recorded is not None else txn.since or None
    waits = tuple(
        Waits(blocked.holder.name, blocked.scope.text, since or None) for blocked, since in in_the_way(protocol, txn)
    )
    return Standing(
        txn.name,
        txn.attempt,
        txn.run,
        txn.state,
        txn.parked,
        begun,
        txn.moved or begun,
        "" if txn.owner == NOBODY else txn.owner,
        worker is not None and worker.alive,
        None if worker is None else worker.lease_left,
        tuple(hold.scope.text for hold in txn.holds.values()),
        waits,
        silent=any(effect.sender in zombies for effect in (() if recorded is None else recorded.effects)),
    )


def _kept(
    txn: Txn, recorded: RecordedTransaction | None, zombies: Mapping[str | None, float | None]
) -> tuple[Silent, ...]:
    out = [] if recorded is None else held_by_zombies(recorded, txn.state, zombies)
    return tuple(Silent(e.row.tool, e.row.scope, e.row.key, e.sender or "", zombies[e.sender]) for e in out)


def in_the_way(protocol: Protocol, txn: Txn) -> list[tuple[Blocked, int]]:
    """Return for whom a transaction's requests and its commit wait, and since when.

    A transaction that lost a race and has not begun again waits for those before it, too.
    """
    waits = [(blocked, call.since) for call in txn.calls.values() if (blocked := protocol.in_the_way(call)) is not None]
    ahead = protocol.ahead(txn)
    if ahead is not None:
        waits.append((ahead, txn.since))
    if txn.state is State.SEALED:
        with suppress(Entangled):  # it would be undone, and waits for nobody
            if (blocked := protocol.waits_for(txn)) is not None:
                waits.append((blocked, txn.moved))
    return waits


# ---- sentences


def told(stand: list[Standing], now: float) -> str:
    """Describe in sentences the unfinished transactions, their owners, and their waits.

    >>> told([], 0.0)
    'Nothing is unfinished.'
    """
    return joined(line for one in stand for line in _lines(one, now)) or NOBODY_WAITS


def _lines(one: Standing, now: float) -> list[str]:
    state = _STANDS[one.state]
    unanswered = [each for each in one.asked if each.answer is None]
    if one.parked:
        person = "a person has answered" if unanswered else "a process has its tools"
        state = f"put aside, until {person if one.asked else 'its framework comes back to it'}"
    if one.ended:
        state = "over; its process was gone before it could record that, and the next recovery does"
    lines = [f"{name_of(one)} is {state}{_since(one.since, now)}; {owner_of(one)}."]
    if one.scopes:
        lines.append(f"  holds: {', '.join(one.scopes)}")
    lines += [
        f"  waits for a person: {each.tool} on {each.scope}; settlemark approve {each.key} --by NAME"
        for each in unanswered
    ]
    lines += [f"  is answered, by {each.answered_by}: {each.tool} on {each.scope}" for each in one.asked if each.answer]
    lines += [f"  waits for {short(w.holder)}, on {w.scope}{_since(w.since, now)}" for w in one.waits]
    lines += [f"  keeps {each.scope}: {silence_of(each, now)}" for each in one.kept]
    return lines


def name_of(one: Standing) -> str:
    """Return a transaction's name as shown to people."""
    return short(one.transaction) if one.attempt == 1 else f"{short(one.transaction)} (attempt {one.attempt})"


def silence_of(silent: Silent, now: float) -> str:
    """Say which process may still be at an effect, and until when."""
    until = (
        "until it comes back or its process has ended"
        if silent.until is None
        else (f"for {duration(silent.until - now)} yet, or until it comes back")
    )
    return f"{process(silent.worker)} fell silent at {silent.tool}, and may still be at it, {until}"


def owner_of(one: Standing) -> str:
    """Say who ends a transaction."""
    if one.parked and not one.worker:
        return "nobody's until then: recovery leaves it as it is"
    if one.silent:
        return "nobody's: its worker fell silent, and may still be sending"
    if not one.worker:
        return "nobody's: its process is gone; settlemark recover ends it"
    if not one.alive:
        return f"its {process(one.worker)} is gone; settlemark recover ends it"
    left = "" if one.lease_left is None else f", whose lease lasts {one.lease_left:.0f} s"
    return f"it belongs to {process(one.worker)}{left}"


def _since(at: float | None, now: float) -> str:
    return "" if at is None else f", for {duration(now - at)}"


def duration(seconds: float) -> str:
    """Return a duration as people say it.

    >>> [duration(s) for s in (-2, 0.4, 75, 7300, 200_000)]
    ['0 s', '0 s', '1 min 15 s', '2 h 1 min', '2 d 7 h']
    """
    left = max(0, int(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


__all__ = [
    "Silent",
    "Standing",
    "Waits",
    "duration",
    "found",
    "in_the_way",
    "left_standing",
    "name_of",
    "owner_of",
    "silence_of",
    "standing",
    "told",
]
