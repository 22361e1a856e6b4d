"""The summary of an existing history: its clock and its cells' values, for a writer that continues it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from settlemark.history._recording.files import read


class Wrote(NamedTuple):
    """A cell's last write: the record's id, the time, and the value.

    `group` is that of the effects that commute, `beneath` the id of the last write before all of this group.
    """

    id: str
    time: int
    value: Any
    group: str | None = None
    beneath: str | None = None


@dataclass
class SoFar:
    """The summary of a history.

    Attributes:
        clock: when the last operation committed; 0 when there is none.
        ids: the records' ids.
        last: by cell, the last write, retracted or not.
        standing: by cell, the last write that was not retracted.
    """

    clock: int = 0
    ids: set[str] = field(default_factory=set[str])
    last: dict[str, Wrote] = field(default_factory=dict[str, Wrote])
    standing: dict[str, Wrote] = field(default_factory=dict[str, Wrote])


def so_far(path: str | Path) -> SoFar:
    """Read a history, one record in memory at a time; a missing file, or one that is no plain file, is empty.

    Raises:
        HistoryError: the file is no history.

    >>> import os
    >>> so_far(os.devnull).clock
    0
    """
    found = SoFar()
    if not Path(path).is_file():
        return found
    for place, record in enumerate(read(path), 1):
        name = record.id or str(place)
        found.clock = max(found.clock, record.write_time)
        found.ids.add(name)
        for cell, value in record.write_values.items():
            wrote = Wrote(name, record.write_time, value, *_group(record.commutes.get(cell), found.last.get(cell)))
            found.last[cell] = wrote
            if not record.aborted:
                found.standing[cell] = wrote
    return found


def _group(group: str | None, before: Wrote | None) -> tuple[str | None, str | None]:
    if group is None or before is None:
        return group, None
    return group, before.beneath if before.group == group else before.id


__all__ = ["SoFar", "Wrote", "so_far"]
