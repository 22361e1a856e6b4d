"""A log of reads as JSON Lines, for a store with replicas: which copy of a cell answered, and with which value.

A history has one value of a cell at a time. Where copies lag, two readers may see two values at once, and only the
replica's name tells them apart: so reads have a log of their own. Source: the anomaly paper, section 4.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from settlemark.history._importers.entries import entries
from settlemark.history._importers.messages import is_mapping
from settlemark.history._recording.files import LineFile, bad_line, lines

_LOOKED_AT = 20


class ReplicaRead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One read of a cell, and the copy that answered it.

    Attributes:
        cell: the cell that was read.
        replica: the copy that answered; the one that takes the writes is a copy, too.
        version: how many writes of the cell that copy had then, from 0.
        value: the answer; None where nothing had been written.
        agent: the reader, or None.
        time: when, on the clock of the log, or None.

    Raises:
        ValueError: the version is negative.

    >>> ReplicaRead(cell="date", replica="eu", version=1, value="14 June").agent is None
    True
    """

    cell: str
    replica: str
    version: int
    value: Any
    agent: str | None = None
    time: int | None = None

    def __post_init__(self) -> None:
        if self.version < 0:
            raise ValueError(f"version is {self.version}: versions count the writes of a cell, from 0")


def replica_reads(path: str | Path) -> Iterator[ReplicaRead]:
    """Yield the reads of a log in order, one in memory at a time; empty lines are skipped.

    Raises:
        HistoryError: a line is no read; it names file, line and field.
        OSError: the file cannot be read.
    """
    decode = msgspec.json.Decoder(ReplicaRead).decode
    for number, line in lines(path):
        if line.isspace():
            continue
        try:
            read = decode(line)
        except (ValueError, RecursionError) as error:
            raise bad_line(path, number, error) from None
        yield read


def is_read_log(path: str | Path) -> bool:
    """Whether a file is a log of reads, by its first lines.

    Raises:
        OSError: the file cannot be read.
    """
    first = islice(entries(path), _LOOKED_AT)
    return any(is_mapping(entry.value) and {"cell", "replica"} <= entry.value.keys() for entry in first)


class ReplicaReadFile(LineFile):
    """A log of reads, called with each read, which is in the file at once and may be read meanwhile.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "reads.jsonl")
    >>> with ReplicaReadFile(path) as log:
    ...     log(ReplicaRead(cell="date", replica="eu", version=1, value="14 June"))
    >>> [read.replica for read in replica_reads(path)]
    ['eu']
    """

    _beginnings = (b'{"cell":',)

    def __call__(self, read: ReplicaRead) -> None:
        """Append one read, in one piece.

        Raises:
            TypeError, ValueError, OverflowError: its value is no JSON; nothing was written.
            OSError: it cannot be written; nothing was.
        """
        self._append(self._encoder.encode(read) + b"\n")


__all__ = ["ReplicaRead", "ReplicaReadFile", "is_read_log", "replica_reads"]
