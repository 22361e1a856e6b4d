"""What was committed since a read: versions, the plans of runs, and how long both must be kept.

A version is the number of the last committed write overlapping a scope: numbers are compared, never values (ABA). A
run's reads outlive the turn that made them, as its *plan*, until its next writing turn. Every commit is appended to a
log, and leaves it (with its floors and versions) when no unfinished position is below it and no read is older.

A reader that stays behind for long (parked for a person, hung, a run that never wrote) does not keep the log alive.
When a write leaves the log before every reader has seen it, the reads that it makes stale are marked, each once. Floors
that leave so become one floor for their type of resource: a transaction below that floor is restamped at its next
touch, which is always safe.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Hold, Txn
from settlemark._protocol.index import LATE, NOWHERE, Match, Node, Position, Positions, ScopeIndex

FLOORS = 16
"""How many commits are kept at least, and how many more for each unfinished transaction."""
TYPES = 64
"""How many types of resource keep a floor of their own for forgotten floors."""
LAST = "\U0010ffff"
"""The ordinal after every other one of its epoch."""


Reader = Txn | str
"""The owner of reads: an unfinished transaction, or a run that has not acted on its reads yet."""


class Entry(NamedTuple):
    """One committed write: its number and position, the scopes written, and all scopes whose floor it raises."""

    number: int
    position: Position
    written: tuple[Scope, ...]
    covered: tuple[Scope, ...]
    paths: list[list[Node]]


class _Read:
    """A read by a reader that stays behind: marked by the first write leaving the log that makes it stale."""

    __slots__ = ("path", "reader", "reads", "scope")

    def __init__(self, reader: Reader, reads: dict[Scope, int], scope: Scope, path: list[Node]) -> None:
        self.reader = reader
        self.reads = reads
        self.scope = scope
        self.path = path


def outdated(seen: int) -> int:
    """Return the number that stands for a read known to be stale.

    >>> outdated(7), then(outdated(7)), then(7)
    (-8, 7, 7)
    """
    return ~seen


def then(seen: int) -> int:
    """Return the number of the last write when a read was made, stale or not."""
    return seen if seen >= 0 else ~seen


class Versions:
    """Numbers every committed write, and finds stale reads.

    Args:
        index: finds overlapping scopes.
        plans: how many runs' plans are kept.
        floors: see `FLOORS`.

    Attributes:
        sequence: the number of the last committed write.
        base: a floor under every scope, in place of forgotten ones.
        folded: floors under all scopes of a type.
        plan_limit: how many runs' plans are kept.
    """

    def __init__(self, index: ScopeIndex, *, plans: int, floors: int = FLOORS) -> None:
        self.sequence = 0
        self.base: Position = NOWHERE
        self.folded: dict[str, Position] = {}
        self.floors = floors
        self._index = index
        self._log: deque[Entry] = deque()
        self._plans: OrderedDict[str, dict[Scope, int]] = OrderedDict()
        self.plan_limit = plans
        # Readers that follow the log, by the oldest of their reads; and the reads of those that have fallen behind.
        self._lows = Positions()
        self._low_of: dict[Reader, Position] = {}
        self._reader: dict[str, Reader] = {}
        self._late: dict[Reader, dict[tuple[int, Scope], _Read]] = {}

    @property
    def logged(self) -> int:
        """How many commits are still in the log."""
        return len(self._log)

    # ---- reading

    def read(self, txn: Txn, scope: Scope) -> None:
        """Record that a transaction reads a scope as it is now."""
        if scope in txn.reads:
            return
        txn.reads[scope] = self.sequence
        if txn.plan.pop(scope, None) is not None:  # read again: what an earlier turn saw no longer counts
            self._unwatch(txn, txn.plan, scope)
        if txn.low is None:
            txn.low = self.sequence
        if txn in self._late:
            self._watch(txn, txn.reads, scope)
        elif txn not in self._low_of:
            self._follow(txn, self.sequence)

    def changed(self, txn: Txn, *, planned: bool) -> Scope | None:
        """Return a scope whose read is stale; a run's plan counts only for a transaction that writes."""
        if txn.low is None or txn.low >= self.sequence:
            return None
        for reads in (txn.reads, txn.plan) if planned else (txn.reads,):
            for scope, seen in reads.items():
                # true also for every `outdated` number, which is negative
                if self._index.version(self._index.match(scope)) > seen:
                    return scope
        return None

    def forget(self, txn: Txn) -> None:
        """Forget a finished transaction's reads."""
        txn.low = None
        self._leave(txn)

    def standing(self, reader: Reader) -> tuple[int | None, bool]:
        """Return the write from which the log is kept for a reader, if any, and whether the reader fell behind."""
        low = self._low_of.get(reader)
        return (None if low is None else low[0]), reader in self._late

    def go_on(self, txn: Txn, low: int | None, *, late: bool) -> None:
        """Follow a transaction whose reads come from another replica, with the state that `standing` had there."""
        known = (*txn.reads.values(), *txn.plan.values())
        txn.low = min(known, default=None)
        if low is not None:
            self._follow(txn, low)
        elif late:
            self._fall_behind(txn)

    # ---- readers that fall behind

    def _follow(self, reader: Reader, seen: int) -> None:
        """Keep the log for a reader from a write on, as long as there is room."""
        key = f"r{reader}" if isinstance(reader, str) else f"t{reader.id}"
        self._low_of[reader] = (seen, key)
        self._reader[key] = reader
        self._lows.add((seen, key))

    def _leave(self, reader: Reader) -> None:
        low = self._low_of.pop(reader, None)
        if low is not None:
            self._lows.discard(low)
            del self._reader[low[1]]
            return
        for read in self._late.pop(reader, {}).values():
            self._drop_read(read)

    def _fall_behind(self, reader: Reader) -> None:
        """Mark each read made stale by writes that leave the log."""
        self._leave(reader)
        self._late[reader] = {}
        for reads in (self._plans[reader],) if isinstance(reader, str) else (reader.reads, reader.plan):
            for scope in reads:
                self._watch(reader, reads, scope)

    def _watch(self, reader: Reader, reads: dict[Scope, int], scope: Scope) -> None:
        if reads[scope] >= 0:
            read = _Read(reader, reads, scope, self._index.enter(scope))
            self._late[reader][id(reads), scope] = read
            self._index.add_hold(read.path, LATE, read)

    def _unwatch(self, reader: Reader, reads: dict[Scope, int], scope: Scope) -> None:
        read = self._late[reader].pop((id(reads), scope), None) if reader in self._late else None
        if read is not None:
            self._drop_read(read)

    def _drop_read(self, read: _Read) -> None:
        self._index.drop_hold(read.path, LATE, read)
        self._index.leave(read.path[-1])

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
        """Raise the floor of a scope without a write."""
        # A replica that began with an image does not know the floors forgotten before.
        if max(self.base, self.folded.get(scope.type, NOWHERE)) >= position:
            return
        path = self._index.enter(scope)
        if all(node.floor < position for node in path):  # that of a part of the scope is not one of the scope
            self._index.raise_floor(path, position)
            self._log.append(Entry(self.sequence, position, (), (scope,), [path]))

    def floor(self, scope: Scope, match: Match) -> Position:
        """Return the position at or below which nobody may newly touch a scope."""
        return max(self._index.floor(match), self.base, self.folded.get(scope.type, NOWHERE))

    def restore(self, number: int, position: Position, written: Iterable[Scope], covered: Iterable[Scope]) -> None:
        """Put another replica's entry into the log."""
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

    @property
    def plans(self) -> Mapping[str, dict[Scope, int]]:
        """The reads that each run has not acted on yet, the most recent reader last."""
        return self._plans

    def take_plan(self, txn: Txn) -> None:
        """Let a transaction continue from its run's earlier reads."""
        plan = self._plans.get(txn.run)
        if plan:
            txn.plan = dict(plan)
            self.go_on(txn, _oldest(plan), late=False)

    def put_plan(self, run: str, plan: dict[Scope, int], *, late: bool = False) -> None:
        """Keep a run's plan, as the most recent."""
        self._plans[run] = plan
        oldest = _oldest(plan)
        if late:
            self._fall_behind(run)
        elif oldest is not None:
            self._follow(run, oldest)

    def _take_out(self, run: str) -> dict[Scope, int]:
        self._leave(run)
        return self._plans.pop(run, {})

    def keep_plan(self, txn: Txn) -> None:
        """Keep a transaction's reads for its run's next writing turn."""
        self.put_plan(txn.run, {**self._take_out(txn.run), **txn.reads})
        if len(self._plans) > self.plan_limit:
            self.drop_plan(next(iter(self._plans)))

    def consume_plan(self, txn: Txn) -> None:
        """Record that a writing turn has committed on its run's plan."""
        plan = self._plans.get(txn.run)
        if plan is None:
            return
        for scope, seen in (*txn.plan.items(), *txn.reads.items()):
            # Reads of another turn of the run since then stay.
            if scope in plan and then(plan[scope]) <= then(seen):
                self._unwatch(txn.run, plan, scope)
                del plan[scope]
        if not plan:
            self._take_out(txn.run)
        elif txn.run not in self._late:
            self._leave(txn.run)
            self.put_plan(txn.run, plan)

    def drop_plan(self, run: str) -> None:
        """Drop a run's plan: the run was told what has changed."""
        self._take_out(run)

    # ---- forgetting

    def prune(self, oldest: Position | None, unfinished: int) -> None:
        """Forget what nobody can need any more, and the oldest entries that only readers far behind need."""
        room = self.floors * (1 + unfinished)
        while self._log:
            entry = self._log[0]
            if len(self._log) <= room and not self._is_over(entry, oldest):
                break
            self._log.popleft()
            self._tell_late(entry)
            self._fold(entry, oldest)
            for path in entry.paths:
                self._index.leave(path[-1])
        if self.folded:
            over = [kind for kind, at in self.folded.items() if oldest is None or at < oldest]
            self.base = max([self.base, *(self.folded.pop(kind) for kind in over)])

    def _is_over(self, entry: Entry, oldest: Position | None) -> bool:
        low = self._lows.least()
        return (oldest is None or entry.position < oldest) and (low is None or entry.number <= low[0])

    def _tell_late(self, entry: Entry) -> None:
        """Mark the reads that a write has made stale, before the write is forgotten."""
        if not entry.written:
            return
        while (low := self._lows.least()) is not None and low[0] < entry.number:
            self._fall_behind(self._reader[low[1]])
        for scope in entry.written if self._late else ():
            for read in self._index.members(self._index.match(scope), LATE):
                seen = read.reads[read.scope]
                if seen < entry.number:
                    read.reads[read.scope] = outdated(seen)
                    self._unwatch(read.reader, read.reads, read.scope)

    def _fold(self, entry: Entry, oldest: Position | None) -> None:
        if oldest is None or entry.position < oldest:
            self.base = max(self.base, entry.position)
            return
        for scope in entry.covered:
            self.folded[scope.type] = max(self.folded.get(scope.type, NOWHERE), entry.position)
        if len(self.folded) > TYPES:
            self.base = max(self.base, *self.folded.values())
            self.folded = {}


def _oldest(plan: dict[Scope, int]) -> int | None:
    """Return the oldest of the reads that may yet become stale."""
    return min((seen for seen in plan.values() if seen >= 0), default=None)


__all__ = ["FLOORS", "LAST", "Versions", "outdated", "then"]
