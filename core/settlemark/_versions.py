"""What was committed since a read: versions, the plans of runs, and how long both must be known.

A version is the number of the last committed write overlapping a scope: numbers are compared, never
values (ABA). A run's reads outlive the turn that made them, as its *plan*, until its next writing
turn. Every commit goes to a log, and leaves it (with its floors and versions) when no unfinished
position is below it and no read is older; one who never ends cannot make it grow without bound.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from settlemark._index import NOWHERE, Node, Position, Positions, ScopeIndex
from settlemark._scope import Scope
from settlemark._txn import Hold, Txn

EXPIRED = -1
LOG_LIMIT = 100_000
LAST = "\U0010ffff"
"""The ordinal behind every other one of its epoch."""


class Entry(NamedTuple):
    """One committed write: its number and position, the scopes written, and all that its floor is raised on."""

    number: int
    position: Position
    written: tuple[Scope, ...]
    covered: tuple[Scope, ...]
    paths: list[list[Node]]


class Versions:
    """Numbers every committed write, and tells a read that is out of date.

    Attributes:
        sequence: the number of the last committed write.
        base: a floor under every scope: all at or below it is final, and forgotten one by one.
    """

    def __init__(self, index: ScopeIndex, *, plans: int) -> None:
        self.sequence = 0
        self.base: Position = NOWHERE
        self._index = index
        self._log: deque[Entry] = deque()
        self._limit = LOG_LIMIT
        self._readers: dict[Txn, None] = {}
        self._lows = Positions()
        self._plans: OrderedDict[str, dict[Scope, int]] = OrderedDict()
        self._plan_lows = Positions()
        self._plan_limit = plans

    @property
    def logged(self) -> int:
        """How many commits are still remembered."""
        return len(self._log)

    # ---- reading

    def read(self, txn: Txn, scope: Scope) -> None:
        """Note that a transaction reads a scope as it is now."""
        if scope in txn.reads:
            return
        txn.reads[scope] = self.sequence
        txn.plan.pop(scope, None)  # read anew: what an earlier turn saw no longer counts
        self._note_reader(txn, self.sequence)

    def changed(self, txn: Txn, *, planned: bool) -> Scope | None:
        """Return a scope whose read is out of date; a run's plan counts for what writes only."""
        if txn.low is None or txn.low >= self.sequence:
            return None
        for reads in (txn.reads, txn.plan) if planned else (txn.reads,):
            for scope, seen in reads.items():
                if seen == EXPIRED or self._index.version(self._index.match(scope)) > seen:
                    return scope
        return None

    def _note_reader(self, txn: Txn, seen: int) -> None:
        if txn.low is None or seen < txn.low:
            self.forget(txn)
            txn.low = seen
            self._lows.add((seen, ""))
            self._readers[txn] = None

    def forget(self, txn: Txn) -> None:
        """Forget a transaction's reads: it is finished."""
        if txn.low is not None:
            self._lows.discard((txn.low, ""))
            txn.low = None
            del self._readers[txn]

    # ---- writing

    def wrote(self, holds: list[Hold], *, position: Position = NOWHERE, footprint: Iterable[Hold] = ()) -> None:
        """Number a write to these scopes; a commit's position is the floor of its whole footprint."""
        self.sequence += 1
        covering = list(footprint) or holds
        for hold in covering:
            hold.path[-1].uses += 1
            if position != NOWHERE:
                self._index.raise_floor(hold.path, position)
        for hold in holds:
            self._index.note_write(hold.path, self.sequence)
        written, covered = tuple(hold.scope for hold in holds), tuple(hold.scope for hold in covering)
        self._log.append(Entry(self.sequence, position, written, covered, [hold.path for hold in covering]))

    def advance(self, scope: Scope, position: Position) -> None:
        """Raise the floor of a scope, to which nothing was written."""
        # The base, too: a replica that began with an image knows no floor that was forgotten before.
        if max(self._index.floor(self._index.match(scope)), self.base) >= position:
            return
        path = self._index.enter(scope)
        self._index.raise_floor(path, position)
        self._log.append(Entry(self.sequence, position, (), (scope,), [path]))

    def restore(self, number: int, position: Position, written: Iterable[Scope], covered: Iterable[Scope]) -> None:
        """Put an entry back into the log, as another replica has it."""
        paths = {scope: self._index.enter(scope) for scope in covered}
        for path in paths.values():
            if position != NOWHERE:
                self._index.raise_floor(path, position)
        for scope in written:
            self._index.note_write(paths[scope], number)
        self._log.append(Entry(number, position, tuple(written), tuple(paths), list(paths.values())))

    # ---- plans

    def planned(self) -> Iterator[tuple[str, Scope, int]]:
        """Return every read that a run has not acted on yet: (run, scope, number seen)."""
        return ((run, scope, seen) for run, plan in self._plans.items() for scope, seen in plan.items())

    def take_plan(self, txn: Txn) -> None:
        """Let a transaction go on from what its run has read before."""
        plan = self._plans.get(txn.run)
        if plan:
            txn.plan = dict(plan)
            self._note_reader(txn, min(plan.values()))

    def keep_plan(self, txn: Txn) -> None:
        """Keep what a transaction read for its run's next writing turn."""
        plan = self._plans.pop(txn.run, {})
        self._drop_low(txn.run, plan)
        plan.update(txn.reads)
        self._plans[txn.run] = plan
        self._add_low(txn.run, plan)
        if len(self._plans) > self._plan_limit:
            self.drop_plan(next(iter(self._plans)))

    def consume_plan(self, txn: Txn) -> None:
        """Note that a writing turn has committed on its run's plan."""
        plan = self._plans.get(txn.run)
        if plan is None:
            return
        self._drop_low(txn.run, plan)
        for scope, seen in (*txn.plan.items(), *txn.reads.items()):
            # What another turn of the run has read since then is still to be acted on.
            if scope in plan and plan[scope] <= seen:
                del plan[scope]
        if plan:
            self._add_low(txn.run, plan)
        else:
            del self._plans[txn.run]

    def drop_plan(self, run: str) -> None:
        """Forget a run's plan: it was told what has changed."""
        plan = self._plans.pop(run, None)
        if plan:
            self._drop_low(run, plan)

    def _add_low(self, run: str, plan: dict[Scope, int]) -> None:
        self._plan_lows.add((min(plan.values()), run))

    def _drop_low(self, run: str, plan: dict[Scope, int]) -> None:
        if plan:
            self._plan_lows.discard((min(plan.values()), run))

    # ---- forgetting

    def prune(self, oldest: Position | None) -> None:
        """Forget floors that every unfinished position is above, and writes that every reader has seen."""
        if len(self._log) > self._limit:
            self._compact()
        while self._log:
            entry = self._log[0]
            if oldest is not None and entry.position >= oldest:
                return
            if not self._seen_by_all(entry.number):
                return
            self._drop(self._log.popleft())

    def _seen_by_all(self, number: int) -> bool:
        reader, planned = self._lows.least(), self._plan_lows.above((EXPIRED, LAST))
        return (reader is None or number <= reader[0]) and (planned is None or number <= planned[0])

    def _drop(self, entry: Entry) -> None:
        self.base = max(self.base, entry.position)
        for path in entry.paths:
            self._index.leave(path[-1])

    def _compact(self) -> None:
        """Cut a log that somebody who does not end keeps long down to what is needed.

        Its floors become one for all (whoever is below is restamped at its next touch, which is
        safe), plans expire (they count as changed: it fails closed), and only writes that overlap
        what an unfinished transaction has read are kept.
        """
        for run, plan in self._plans.items():
            self._drop_low(run, plan)
            self._plans[run] = dict.fromkeys(plan, EXPIRED)
            self._add_low(run, self._plans[run])
        reads = [(s, n) for txn in self._readers for known in (txn.reads, txn.plan) for s, n in known.items()]
        kept: deque[Entry] = deque()
        for entry in self._log:
            self.base = max(self.base, entry.position)
            if any(seen < entry.number and scope.overlaps(w) for scope, seen in reads for w in entry.written):
                kept.append(entry._replace(position=NOWHERE))
            else:
                self._drop(entry)
        self._log = kept
        self._limit = max(LOG_LIMIT, 2 * len(kept))


__all__ = ["EXPIRED", "LAST", "LOG_LIMIT", "Versions"]
