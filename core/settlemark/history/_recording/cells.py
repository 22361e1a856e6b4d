"""The cells of a trace, as far as the trace shows their values, and the recorded operations on them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from settlemark.history._recording.record import OpRecord
from settlemark.history._recording.recorder import Recorder
from settlemark.history._recording.values import compact, plain, shows, told

Pair = tuple[str, Any]


class Seen(NamedTuple):
    """A read of a cell: the moment whose state was seen, the value, and the value's writer."""

    moment: int
    value: Any
    preds: tuple[str, ...] = ()


class Cells:
    """The values of cells, and their readers.

    Tools describe a cell in their own words. A read that shows the last written value has read that write; any other
    read has read what it says, in the state in which its call began. A value from before the first write is logged as a
    write by `setup`.

    >>> cells = Cells(Recorder())
    >>> cells.read("date", '{"date": "14 June", "seats": 3}', 0)
    Seen(moment=1, value={'date': '14 June', 'seats': 3}, preds=('1',))
    >>> _ = cells.commit("bob", {}, {"date": "21 June"})
    >>> cells.read("date", '{"date": "21 June", "seats": 3}', 1).value
    '21 June'
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.lock = threading.RLock()
        self._stands: dict[str, Any] = {}

    def read(self, cell: str, value: Any, since: int) -> Seen:
        """Return what a call read that began at a moment and has ended now."""
        value = compact(plain(told(value)))
        with self.lock:
            if cell not in self._stands:
                self._stands[cell] = value
                if value is not None:
                    self.recorder.seed({cell: value})
            stands = self._stands[cell]
            if not shows(value, stands):
                return Seen(since, value)
            begun = self.recorder.begin("", {cell: stands})
            begun.drop()
            return Seen(begun.began, stands, tuple(begun.preds))

    def written(self, cell: str, value: Any) -> Any:
        """Return the value that a write leaves: the current value, when that already shows the write."""
        stands = self._stands.get(cell)
        return stands if stands is not None and shows(stands, value) else value

    def commit(
        self,
        agent: str,
        seen: Mapping[str, Seen],
        writes: Mapping[str, Any],
        *,
        io: list[Pair] | None = None,
        co: list[Pair] | None = None,
        name: str | None = None,
    ) -> dict[str, Seen]:
        """Record an operation, and return those of its reads that are not recorded yet or stay for its next write.

        A record has one moment at which it read. So a read from an earlier moment, whose cell was written in between,
        goes into a record of its own, just before.
        """
        with self.lock:
            last = max((each.moment for each in seen.values()), default=0)
            seen = {
                cell: each._replace(moment=last) if self.recorder.written_at(cell) <= each.moment else each
                for cell, each in seen.items()
            }
            for moment in sorted({each.moment for each in seen.values()} - {last}):
                self._record(agent, {cell: each for cell, each in seen.items() if each.moment == moment}, {}, name=name)
            now = {cell: each for cell, each in seen.items() if each.moment == last}
            written = {cell: self.written(cell, value) for cell, value in writes.items()}
            self._stands |= written
            self._record(agent, now, written, io=io, co=co, name=name, externalized=bool(writes))
            return {cell: each for cell, each in now.items() if cell not in writes}

    def _record(
        self,
        agent: str,
        seen: Mapping[str, Seen],
        writes: Mapping[str, Any],
        *,
        name: str | None,
        io: list[Pair] | None = None,
        co: list[Pair] | None = None,
        externalized: bool = False,
    ) -> OpRecord:
        operation = self.recorder.begin(agent, name=name)
        if seen:
            operation.began = next(iter(seen.values())).moment
        operation.reads = {cell: each.value for cell, each in seen.items()}
        operation.preds = list(dict.fromkeys(pred for each in seen.values() for pred in each.preds))
        return operation.commit(writes, io=io or (), co=co, externalized=externalized)


__all__ = ["Cells", "Pair", "Seen"]
