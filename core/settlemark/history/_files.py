"""Histories as JSON Lines: one record a line, read with one record in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from settlemark._errors import UsageError
from settlemark.history._record import OpRecord

_CHUNK = 1 << 20
_RETRACTED = b'{"retracted":'


class HistoryError(UsageError, ValueError):
    """A line of a history is no record. Attributes: `file`, `line` (from 1), `field` (or None)."""


def read(path: str | Path) -> Iterator[OpRecord]:
    """Yield the records of a file in its order; empty lines are passed over.

    Raises:
        HistoryError: a line is no record; it names file, line and field.
        OSError: the file cannot be read.
    """
    decode = msgspec.json.Decoder(OpRecord).decode
    retracted = _retracted(path)
    number = 0
    with Path(path).open("rb", buffering=_CHUNK) as file:
        for number, line in enumerate(file, 1):
            try:
                record = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
                if line.isspace() or line.startswith(_RETRACTED):
                    continue
                raise _bad(str(path), number, error) from None
            # What a transaction read at several moments is several records, told apart behind an `@`.
            if retracted and (record.id in retracted or record.id.rpartition("@")[0] in retracted):
                record = msgspec.structs.replace(record, aborted=True)
            yield record


def _retracted(path: str | Path) -> set[str]:
    """Return the ids of what was taken back: told behind its own line, and to be known before it."""
    with Path(path).open("rb", buffering=_CHUNK) as file:
        return {str(msgspec.json.decode(line)["retracted"]) for line in file if line.startswith(_RETRACTED)}


def ordered(records: Iterable[OpRecord]) -> list[OpRecord]:
    """Return records in the order of their write times, as detectors want them: all of them in memory."""
    return sorted(records, key=lambda record: record.write_time)


class LineFile:
    """A file of JSON Lines that is written line by line, each in one piece, and may be read meanwhile."""

    def __init__(self, path: str | Path) -> None:
        self._encoder = msgspec.json.Encoder()
        self._file: IO[bytes] = Path(path).open("ab", buffering=0)  # noqa: SIM115 - open until it is closed

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HistoryFile(LineFile):
    """A history that is written record by record; what is written is in the file, and may be read meanwhile.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "h.jsonl")
    >>> with HistoryFile(path) as history:
    ...     history.write(OpRecord(agent="ada", read_time=0, write_time=1, write_values={"date": "14 June"}))
    >>> [record.agent for record in read(path)]
    ['ada']
    """

    def write(self, record: OpRecord) -> None:
        """Append one record, in one piece.

        Raises:
            TypeError: a value of it is no JSON; nothing was written.
        """
        self._file.write(encode(record, self._encoder) + b"\n")

    def retract(self, name: str) -> None:
        """Note that the operation with this id was taken back."""
        self._file.write(self._encoder.encode({"retracted": name}) + b"\n")


def encode(record: OpRecord, encoder: msgspec.json.Encoder | None = None) -> bytes:
    """Return a record as one line of JSON, with the sets that the paper's format has."""
    plain: dict[str, Any] = {"read_set": record.read_set, "write_set": record.write_set}
    plain |= {name: getattr(record, name) for name in record.__struct_fields__}
    plain = {name: value for name, value in plain.items() if value is not None or name == "planned_tool"}
    return (encoder or msgspec.json.Encoder()).encode(plain)


def _bad(path: str, number: int, error: Exception) -> HistoryError:
    told, _, where = str(error).partition(" - at `$")
    field = where.rstrip("`").removeprefix(".") or None
    at = "" if field is None else f", field {field}"
    return HistoryError(f"{path}, line {number}{at}: {told}", file=path, line=number, field=field)


__all__ = ["HistoryError", "HistoryFile", "encode", "ordered", "read"]
