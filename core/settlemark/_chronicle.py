"""A history of what the protocol decided, as it decides it: which reads each transaction acted on, and what it wrote.

It listens to the protocol's steps. Where processes share a store each replays the steps of all, so each can write the
whole history, in the one order there is. Cells are scopes, and their values the times at which they were last written:
versions are compared, never values. A transaction that read at several moments becomes several records, each with its
own window, so that what it had seen already counts as seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from settlemark._scope import Scope

if TYPE_CHECKING:
    from settlemark._txn import Txn

Record = dict[str, Any]
"""One operation, by the fields of `settlemark.history.OpRecord`."""


class _Written(NamedTuple):
    """One write of a scope: when, and the time of the write before it, None for the first."""

    time: int
    scope: Scope
    before: int | None


@dataclass
class _Open:
    """What an unfinished transaction has read, when; its effects as they left; its records, once it is decided."""

    began: int
    reads: dict[Scope, int] = field(default_factory=dict[Scope, int])
    left: list[tuple[bool, int, Scope]] = field(default_factory=list[tuple[bool, int, Scope]])
    records: list[Record] = field(default_factory=list[Record])
    written: list[_Written] = field(default_factory=list[_Written])
    ended: bool = False

    @property
    def oldest(self) -> int:
        """The first moment of which it may still have to know what came after."""
        return min([self.began, *self.reads.values()])


class Chronicle:
    """Writes a record of each operation that commits, in the order in which they were decided.

    One that was decided and could then not leave, so that it was undone, has a record, too: as retracted.

    Args:
        write: is given each record; under the protocol's lock, so it should be quick.
    """

    def __init__(self, write: Callable[[Record], object]) -> None:
        self._write = write
        self._clock = 0
        self._open: dict[int, _Open] = {}
        self._last: dict[Scope, int] = {}
        self._writes: deque[_Written] = deque()
        self._decided: deque[_Open] = deque()

    def began(self, txn: Txn) -> None:
        """Note that a transaction is there."""
        self._open[txn.id] = _Open(self._clock)

    def _of(self, txn: Txn) -> _Open:
        return self._open.setdefault(txn.id, _Open(self._clock))

    def read(self, txn: Txn, scope: Scope) -> None:
        """Note that it reads a scope as it is now; read again, the first time is what has to hold."""
        self._of(txn).reads.setdefault(scope, self._clock)

    def left(self, txn: Txn, place: int, scope: Scope, *, held: bool) -> None:
        """Note that the effect of its decision at this place has acted; what is held is issued to the commit."""
        self._of(txn).left.append((held, place, scope))

    def decided(self, txn: Txn, written: Iterable[Scope]) -> None:
        """Note that it is to commit, with these writes: from here on others may see them."""
        known = self._of(txn)
        if known.records:
            return  # the store failed before this was recorded, and it is decided again
        moments = sorted({*known.reads.values()} or {known.began})
        known.records = [self._record(txn, known, moment, last=moment == moments[-1]) for moment in moments]
        values: dict[str, int] = known.records[-1]["write_values"]
        for scope in dict.fromkeys(written):
            write = _Written(self._clock, scope, self._last.get(scope))
            known.written.append(write)
            self._writes.append(write)
            self._last[scope] = values[scope.text] = self._clock
        self._decided.append(known)

    def committed(self, txn: Txn) -> None:
        """Note that all of a decided transaction has left: its records are written when those before it are."""
        known = self._open.pop(txn.id, None)
        if known is None or not known.records:
            return  # decided before anybody listened here
        last = known.records[-1]
        last["io"] = [(scope.text, place) for _, place, scope in sorted(known.left, key=lambda each: each[:2])]
        last["co"] = [(scope.text, place) for _, place, scope in known.left]
        last["externalized"] = bool(known.left)
        self._end(known)

    def aborted(self, txn: Txn) -> None:
        """Note that a transaction was undone; of one that had been decided the records say so."""
        known = self._open.pop(txn.id, None)
        if known is not None:
            self._retract(known)

    def _retract(self, known: _Open) -> None:
        for record in known.records:
            record["aborted"] = True
        for write in known.written:
            if self._last.get(write.scope) == write.time:  # what it had been is there again
                if write.before is None:
                    del self._last[write.scope]
                else:
                    self._last[write.scope] = write.before
        self._end(known)

    def keep(self, live: Container[int]) -> None:
        """Forget all transactions but these, by their numbers: the store does not have the others."""
        for number in [number for number in self._open if number not in live]:
            self._retract(self._open.pop(number))

    def _end(self, known: _Open) -> None:
        known.ended = True
        while self._decided and self._decided[0].ended:
            for record in self._decided.popleft().records:
                self._write(record)
        oldest = min((each.oldest for each in self._open.values()), default=self._clock)
        while self._writes and self._writes[0].time <= oldest:
            self._writes.popleft()

    def _record(self, txn: Txn, known: _Open, moment: int, *, last: bool) -> Record:
        self._clock += 1
        return {
            "id": f"{txn.name}#{txn.attempt}" if last else f"{txn.name}#{txn.attempt}@{moment}", "agent": txn.run,
            "name": txn.name, "read_time": moment, "write_time": self._clock, "write_values": {},
            "read_values": self._seen([scope for scope, at in known.reads.items() if at == moment], moment),
        }  # fmt: skip

    def _seen(self, reads: list[Scope], moment: int) -> dict[str, int | None]:
        """Return the versions that reads saw, of their scopes and of each that overlaps one and was written since."""
        seen: dict[str, int | None] = {}
        for write in reversed(self._writes):
            if write.time <= moment:
                break
            if any(write.scope.overlaps(scope) for scope in reads):
                seen[write.scope.text] = write.before
        for scope in reads:
            seen.setdefault(scope.text, self._last.get(scope))
        return seen


__all__ = ["Chronicle", "Record"]
