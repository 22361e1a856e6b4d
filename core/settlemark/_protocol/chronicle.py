"""The history of the protocol's decisions, written as they are made: each transaction's reads and writes.

The chronicle listens to the protocol's steps. Where processes share a store each replays everybody's steps, so each can
write the whole history, in its one order. Cells are scopes, and a cell's value is the name of its last writer: versions
are compared, never values. A transaction that read at several moments becomes several records, each with its own
window, so that a value is counted from the moment it was seen. For a transaction that stays open, only writes to scopes
it has read are remembered. A transaction that was undone after others had read its work gets a record too, at the
moment it was first seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Call, Mode, Txn
from settlemark._protocol.index import LATE, Node, ScopeIndex
from settlemark._protocol.leaving import Held, leaving_order

if TYPE_CHECKING:
    from settlemark._protocol.holdings import Binding, Hold

Record = dict[str, Any]
"""One operation, by the fields of `settlemark.history.OpRecord`."""


WRITES = 64
"""How many writes are remembered at least, and how many more for each open transaction."""


class _Version(NamedTuple):
    """The version of a scope: its writer, and the number of the writer's acts unless all of them count."""

    writer: str
    act: int

    @property
    def value(self) -> str:
        return f"{self.writer}.{self.act}" if self.act else self.writer


class _Written(NamedTuple):
    """One write of a scope: its time, the new version and the one before (None for never written)."""

    time: int
    scope: Scope
    version: _Version
    before: _Version | None


@dataclass
class _Open:
    """An unfinished transaction's reads with their times, its acted effects, and its records once decided.

    Attributes:
        leaving: the places of held effects, in their order of release.
        early: the unsettled work it saw, at each moment; `preds` are the authors of that work.
        seen: others saw its unsettled work; `shown` is its place in the history, kept for readers of work since undone.
        before: once writes since it began are forgotten: what its reads found at each moment.
        paths: the index nodes at which it is told of further writes.
    """

    began: int
    reads: dict[Scope, int] = field(default_factory=dict[Scope, int])
    early: dict[int, dict[Scope, _Version]] = field(default_factory=dict[int, dict[Scope, "_Version"]])
    preds: set[str] = field(default_factory=set[str])
    seen: bool = False
    shown: _Open | None = None
    left: list[Call] = field(default_factory=list["Call"])
    leaving: list[int] = field(default_factory=list[int])
    records: list[Record] = field(default_factory=list[Record])
    written: list[_Written] = field(default_factory=list[_Written])
    before: dict[int, dict[Scope, _Version | None]] = field(default_factory=dict[int, dict[Scope, "_Version | None"]])
    paths: list[tuple[list[Node], _Read]] | None = None
    ended: bool = False


class _Read(NamedTuple):
    """A read at a moment, by a transaction that has been open for long."""

    known: _Open
    at: int

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Chronicle:
    """Writes a record of each operation that commits, in the order of the decisions.

    An operation that was decided and then undone, because it could not be released, has a record too, marked as
    retracted; so has one whose work others saw before it was undone.

    Args:
        write: receives each record, under the protocol's lock: be quick.
        retract: receives the id of a written record whose transaction is undone on request.
        writes: see `WRITES`.
    """

    def __init__(
        self,
        write: Callable[[Record], object],
        retract: Callable[[str], object] = lambda _: None,
        *,
        writes: int = WRITES,
    ) -> None:
        self._room = writes
        self._write = write
        self._told_back = retract
        self._clock = 0
        self._open: dict[int, _Open] = {}
        self._recent: dict[int, _Open] = {}  # the same, the first to begin at the front
        self._index = ScopeIndex()
        self._last: dict[Scope, _Version] = {}
        self._writes: deque[_Written] = deque()
        self._decided: deque[_Open] = deque()
        self._undone: dict[_Version, _Version | None] = {}  # beneath others that stand, and what was before each

    def began(self, txn: Txn) -> None:
        """Record that a transaction began."""
        self._open[txn.id] = self._recent[txn.id] = _Open(self._clock)

    def _of(self, txn: Txn) -> _Open:
        if txn.id not in self._open:
            self.began(txn)
        return self._open[txn.id]

    def _close(self, number: int) -> _Open | None:
        self._recent.pop(number, None)
        known = self._open.pop(number, None)
        if known is not None and known.paths is not None:
            for path, read in known.paths:
                self._index.drop_hold(path, LATE, read)
                self._index.leave(path[-1])
            known.paths = None
        return known

    def read(self, txn: Txn, scope: Scope) -> None:
        """Record a read of a scope; of repeated reads the first counts."""
        known = self._of(txn)
        if scope not in known.reads:
            known.reads[scope] = self._clock
            if known.paths is not None:
                self._watch(known, known.paths, scope)

    def saw(self, txn: Txn, claims: Iterable[Hold], *, first: bool) -> None:
        """Record that the last read, the `first` of its scope or not, saw the work under these claims."""
        known, moment = self._of(txn), self._clock
        for claim in claims:
            other = self._of(claim.txn)
            known.preds.add(_name(claim.txn))
            decided = next((write.version for write in other.written if write.scope == claim.scope), None)
            if first:
                version = decided or _Version(_name(claim.txn), claim.last_act)
                known.early.setdefault(moment, {}).setdefault(claim.scope, version)
            other.seen = True
            # With early reads this reader is undone with the other, so that nobody has seen the undone work.
            if txn.guards.reads == "any" and decided is None and other.shown is None:
                self._clock += 1
                other.shown = _Open(self._clock)
                self._decided.append(other.shown)

    def left(self, txn: Txn, call: Call) -> None:
        """Record that an effect of a transaction has acted."""
        self._of(txn).left.append(call)

    def decided(
        self, txn: Txn, written: Iterable[Hold], bindings: Mapping[str, Binding], revoked: Container[str]
    ) -> None:
        """Record a commit decision with its writes and the current tools: others may see the writes from here on."""
        known = self._of(txn)
        if known.records:
            return  # decided again, since the store failed before it recorded the decision
        moments = sorted({*known.reads.values()} or {known.began})
        known.records = [self._record(txn, known, moment, last=moment == moments[-1]) for moment in moments]
        known.leaving = _leaving(txn)
        last = known.records[-1]
        for hold in written:
            scope, act = hold.scope, 0 if hold.held or not known.seen else hold.last_act
            write = _Written(self._clock, scope, _Version(_name(txn), act), self._last.get(scope))
            known.written.append(write)
            self._writes.append(write)
            self._last[scope] = write.version
            last["write_values"][scope.text] = write.version.value
            # What it read of the scope, if only with a part or the whole of it, is no part of its effects.
            if hold.commutes and not any(scope.overlaps(read) for read in known.reads):
                last.setdefault("commutes", {})[scope.text] = hold.commutes
        if txn.tools:
            last |= _tools(txn, bindings, revoked)
        self._decided.append(known)

    def committed(self, txn: Txn) -> None:
        """Record that everything of a decided transaction has left; its records are written once earlier ones are."""
        known = self._close(txn.id)
        if known is None or not known.records:
            return  # decided before the chronicle listened
        self._show(known, None)
        last = known.records[-1]
        # Held effects count as issued at the commit, in their order of release; where no order is kept, where they were
        # called. A call that is a turn of its own counts as issued when it acts.
        turned = [call for call in known.left if call.turned]
        places = {place: number for number, place in enumerate(known.leaving)} if txn.guards.ordered else {}

        def issued_as(call: Call) -> tuple[bool, int]:
            number = places.get(call.place) if call.mode is Mode.HELD else None
            return (False, call.place) if number is None else (True, number)

        issued = iter(sorted(turned, key=issued_as))
        in_order = [next(issued) if call.turned else call for call in known.left]
        last["io"] = [(call.scope.text, call.place) for call in in_order]
        last["co"] = [(call.scope.text, call.place) for call in known.left]
        last["externalized"] = bool(known.left)
        self._end(known)

    def aborted(self, txn: Txn) -> None:
        """Record that a transaction was undone; records of a decided one say so."""
        known = self._close(txn.id)
        if known is not None:
            self._show(known, None if known.records else txn)
            self._retract(known)

    def retracted(self, name: str, attempt: int) -> None:
        """Record that a committed transaction was rewound."""
        self._told_back(f"{name}#{attempt}")

    @staticmethod
    def _show(known: _Open, undone: Txn | None) -> None:
        """Fill the place of a transaction whose work was seen before it was undone, or give the place up."""
        if known.shown is None:
            return
        known.shown.ended = True
        if undone is not None:
            known.shown.records = [
                {
                    "id": _name(undone),
                    "agent": undone.run,
                    "name": undone.name,
                    "read_time": known.began,
                    "write_time": known.shown.began,
                    "aborted": True,
                    "externalized": bool(known.left),
                }
            ]

    def _retract(self, known: _Open) -> None:
        for record in known.records:
            record["aborted"] = True
        for write in known.written:
            if self._last.get(write.scope) is not write.version:
                self._undone[write.version] = write.before  # others that commute with it are on top of it
                continue
            before = write.before
            while before is not None and before in self._undone:
                before = self._undone[before]
            if before is None:  # the earlier version is back
                del self._last[write.scope]
            else:
                self._last[write.scope] = before
        self._end(known)

    def keep(self, live: Container[int]) -> None:
        """Forget all transactions except these (by number): the store does not have the others."""
        for number in [number for number in self._open if number not in live]:
            known = self._close(number)
            assert known is not None, "it is open"
            self._show(known, None)
            self._retract(known)

    def _end(self, known: _Open) -> None:
        known.ended = True
        while self._decided and self._decided[0].ended:
            for record in self._decided.popleft().records:
                self._write(record)
        if not self._decided:  # all that was decided stands, or has been taken back
            self._undone.clear()
        # The oldest open transaction: everything written since its beginning may still be needed.
        oldest = next((each.began for each in self._open.values()), self._clock)
        room = self._room * (1 + len(self._open))
        while self._writes and (self._writes[0].time <= oldest or len(self._writes) > room):
            self._forget(self._writes.popleft())

    def _forget(self, write: _Written) -> None:
        """Before a write is forgotten, copy its earlier version to each earlier overlapping read."""
        while self._recent:
            number, known = next(iter(self._recent.items()))
            if known.began >= write.time:
                break
            del self._recent[number]
            known.paths = []
            for scope in known.reads:
                self._watch(known, known.paths, scope)
        for read in self._index.members(self._index.match(write.scope), LATE):
            if read.at < write.time:
                read.known.before.setdefault(read.at, {}).setdefault(write.scope, write.before)

    def _watch(self, known: _Open, paths: list[tuple[list[Node], _Read]], scope: Scope) -> None:
        path, read = self._index.enter(scope), _Read(known, known.reads[scope])
        self._index.add_hold(path, LATE, read)
        paths.append((path, read))

    def waiting(self) -> Iterable[Record]:
        """Return the records that are not written yet: decided, and possibly still to be undone."""
        return (record for known in self._decided for record in known.records)

    def _record(self, txn: Txn, known: _Open, moment: int, *, last: bool) -> Record:
        self._clock += 1
        seen = self._seen(known, [scope for scope, at in known.reads.items() if at == moment], moment)
        writers = {version.writer for version in seen.values() if version is not None}
        if last:
            writers |= known.preds
        return {
            "id": _name(txn) if last else f"{_name(txn)}@{moment}",
            "agent": txn.run,
            "name": txn.name,
            "read_time": moment,
            "write_time": self._clock,
            "write_values": {},
            "read_values": {cell: None if version is None else version.value for cell, version in seen.items()},
            "preds": sorted(writers - {_name(txn)}),
            "direct": True,
        }

    def _seen(self, known: _Open, reads: list[Scope], moment: int) -> dict[str, _Version | None]:
        """Return the versions that reads saw: of their scopes and of each overlapping scope written since."""
        seen: dict[str, _Version | None] = {}
        for write in reversed(self._writes):
            if write.time <= moment:
                break
            if any(write.scope.overlaps(scope) for scope in reads):
                seen[write.scope.text] = write.before
        seen |= {cell.text: version for cell, version in known.before.get(moment, {}).items()}
        seen |= {cell.text: version for cell, version in known.early.get(moment, {}).items()}
        for scope in reads:
            seen.setdefault(scope.text, self._last.get(scope))
        return seen


def _leaving(txn: Txn) -> list[int]:
    """Return the places of a transaction's held effects, in the order of their release."""
    held: dict[int, Held] = {}
    for call in txn.calls.values():
        if call.mode is Mode.HELD and call.admitted and call.hold is not None:
            _, scopes = held.get(call.place, (0, ()))
            held[call.place] = Held(call.leaves, (*scopes, call.scope))
    return leaving_order(sorted(held), held.__getitem__)


def _name(txn: Txn) -> str:
    return f"{txn.name}#{txn.attempt}"


def _tools(txn: Txn, bindings: Mapping[str, Binding], revoked: Container[str]) -> Record:
    """Return the tools that a transaction planned to call, as planned and as they are now."""
    then = {tool: binding.signature for tool, binding in txn.tools.items()}
    now: dict[str, str] = {}
    for tool, planned in txn.tools.items():
        binding = bindings.get(tool, planned)
        if tool not in revoked:
            changed = binding.number > planned.number and txn.guards.tools != "pinned"
            now[tool] = binding.signature if changed else planned.signature
    phantom = next((tool for tool in then if now.get(tool) != then[tool]), next(iter(then)))
    return {"planned_tool": phantom, "read_registry": then, "write_registry": now}


__all__ = ["Chronicle", "Record"]
