"""The detector of cascades: who stands, or has left, upon an operation that was retracted (A3, A3x).

Definitions: the anomaly paper, section 3, with the correction of its author's later revision: effects that have left.
"""

from __future__ import annotations

import msgspec

from settlemark.history._detect.verdict import Verdict, Witness
from settlemark.history._recording.record import OpRecord


class _Observed(msgspec.Struct, eq=False, gc=False):
    """An operation that others must not build on: it was retracted, or depends on one that was, or may turn out to.

    `behind` is the place of the retracted operation it observed, `open` the number of its preds that may still turn out
    to be retracted, and `readers` those that depend on it. Its reads and writes are not kept, unless effects of it
    commute: then `commuting` is its record.
    """

    place: int
    name: str
    agent: str
    time: int
    direct: bool
    aborted: bool
    externalized: bool
    behind: int | None = None
    open: int = 0
    readers: list[_Observed] = []
    commuting: OpRecord | None = None

    @classmethod
    def of(cls, place: int, name: str, record: OpRecord) -> _Observed:
        # What commutes with it is left out of its preds, so those behind the others are followed.
        direct = record.direct or bool(record.commutes)
        found = cls(place, name, record.agent, record.write_time, direct, record.aborted, record.externalized)
        found.commuting = record if record.commutes else None
        return found

    def commutes_with(self, pred: _Observed) -> bool:
        mine, theirs = self.commuting, pred.commuting
        return mine is not None and theirs is not None and mine.commutes_with(theirs)


class CausalCascade:
    """A3: a standing record had observed a retracted one; A3x: it has left, standing or not.

    `preds` are all operations it observed, directly or not; where only the direct ones are known (`direct`), the
    indirect ones are followed. A pred may stand later in the history than its reader, which waits for it. An id that is
    used again means the last record before the reader with this id, or else the first one after. A pred of which an
    operation has seen nothing but cells on which the effects of the two commute is none.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._suspects: dict[str, _Observed] = {}
        self._waiting: dict[str, list[_Observed]] = {}  # for preds that were not seen yet
        self._stands = Verdict("A3")
        self._left = Verdict("A3x")

    def add(self, place: int, record: OpRecord) -> None:
        """See `Detector`."""
        name = record.id or str(place)
        preds = record.preds
        found: _Observed | None = None
        if preds and not (self._seen.issuperset(preds) and self._suspects.keys().isdisjoint(preds)):
            found = self._look(place, name, record)
        if record.aborted and found is None:
            found = _Observed.of(place, name, record)
        if record.id and not self._seen:
            self._seen.update(map(str, range(1, place)))
        # while no record has an id, only places are referred to, and nothing need be remembered
        if record.id or self._seen:
            self._seen.add(name)
        if found is not None and (record.aborted or found.behind is not None or found.open):
            self._suspects[name] = found
        elif self._suspects:
            self._suspects.pop(name, None)
        if self._waiting:
            self._arrived(name, found)

    def _look(self, place: int, name: str, record: OpRecord) -> _Observed:
        found = _Observed.of(place, name, record)
        for pred in record.preds:
            behind = self._behind(found, self._suspects.get(pred))
            if behind is not None:
                self._taint(found, behind)
                return found
        for pred in record.preds if record.externalized or not record.aborted else ():
            if pred not in self._seen and (self._seen or not _is_before(pred, place)):
                self._waiting.setdefault(pred, []).append(found)
                found.open += 1
            elif found.direct and (other := self._suspects.get(pred)) is not None and not found.commutes_with(other):
                other.readers.append(found)
                found.open += 1
        return found

    def _behind(self, reader: _Observed, pred: _Observed | None) -> int | None:
        if pred is None or reader.commutes_with(pred):
            return None
        return pred.place if pred.aborted else pred.behind if reader.direct else None

    def _arrived(self, name: str, pred: _Observed | None) -> None:
        """Tell those who wait for an operation whether it was retracted."""
        for reader in self._waiting.pop(name, ()):
            behind = self._behind(reader, pred)
            if behind is not None:
                self._taint(reader, behind)
            elif reader.direct and pred is not None and pred.open and not reader.commutes_with(pred):
                pred.readers.append(reader)
            else:
                self._clear(reader)

    def _taint(self, first: _Observed, behind: int) -> None:
        reached = [first]
        while reached:
            found = reached.pop()
            if found.behind is None:
                found.behind = behind
                self._tell(found, behind)
                reached += found.readers
                found.readers = []

    def _clear(self, first: _Observed) -> None:
        """Record that one pred of an operation is not retracted after all, and so on for its readers."""
        cleared = [first]
        while cleared:
            found = cleared.pop()
            found.open -= 1
            if not found.open and found.behind is None and not found.aborted:
                cleared += found.readers
                found.readers = []
                if self._suspects.get(found.name) is found:
                    del self._suspects[found.name]

    def _tell(self, found: _Observed, behind: int) -> None:
        for verdict, counts in ((self._stands, not found.aborted), (self._left, found.externalized)):
            if counts and verdict.wants():
                stands = "stands" if verdict is self._stands else "has left"
                verdict.witnesses.append(
                    Witness(
                        f"{found.agent}'s operation of {found.time} {stands}, and it had observed operation"
                        f" {behind}, which was retracted",
                        (found.place, behind),
                        None,
                        (found.time,),
                    )
                )

    def verdicts(self) -> list[Verdict]:
        """See `Detector`."""
        return [self._stands, self._left]


def _is_before(name: str, place: int) -> bool:
    return name.isdecimal() and len(name) <= len(str(place)) and int(name) < place


__all__ = ["CausalCascade"]
