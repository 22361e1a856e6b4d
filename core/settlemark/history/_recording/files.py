"""Histories as JSON Lines: one record a line, read with one record in memory at a time."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Self

import msgspec

from settlemark._edges.errors import UsageError
from settlemark._edges.private import private
from settlemark._edges.wording import message_of
from settlemark.history._recording.record import OpRecord

if sys.platform != "win32":
    import fcntl

_CHUNK = 1 << 20
_TOLD_EVERY = 1_000
"""After how many lines a reader is told how far the file is read."""
_BOM = b"\xef\xbb\xbf"
_RETRACTED = b'{"retracted":'


class _Retraction(msgspec.Struct):
    retracted: str


class HistoryError(UsageError, ValueError):
    """A line of a history cannot be read. Attributes: `file`, `line` (from 1), `field` (or None)."""

    remedy: ClassVar[str] = (
        "Correct or remove the line that the message names; name the format with `settlemark check --format`."
    )


def read(path: str | Path, *, told: Callable[[int], object] | None = None) -> Iterator[OpRecord]:
    """Yield the records of a file in order; empty lines are skipped.

    Args:
        path: the file, in JSON Lines.
        told: is told now and then how many bytes have been read: for a progress bar.

    Raises:
        HistoryError: a line is no record; it names file, line and field.
        OSError: the file cannot be read.
    """
    decode = msgspec.json.Decoder(OpRecord).decode
    retracted, size = _retracted(path), 0
    for number, line in lines(path):
        size += len(line)
        if told is not None and number % _TOLD_EVERY == 0:
            told(size)
        try:
            record = decode(line)
        except (ValueError, RecursionError) as error:
            if line.isspace() or line.startswith(_RETRACTED):
                continue
            raise bad_line(path, number, error) from None
        # A transaction that read at several moments has several records, numbered after an `@`.
        if retracted and (record.id in retracted or record.id.rpartition("@")[0] in retracted):
            record = msgspec.structs.replace(record, aborted=True)
        yield record


def _retracted(path: str | Path) -> set[str]:
    """Return the retracted ids: a retraction follows its record, and must be known before it."""
    decode, found = msgspec.json.Decoder(_Retraction).decode, set[str]()
    for number, line in lines(path):
        if line.startswith(_RETRACTED):
            try:
                found.add(decode(line).retracted)
            except ValueError as error:
                raise bad_line(path, number, error) from None
    return found


def lines(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, without a UTF-8 byte order mark."""
    with Path(path).open("rb", buffering=_CHUNK) as file:
        for number, line in enumerate(file, 1):
            yield number, line.removeprefix(_BOM) if number == 1 else line


def ordered(records: Iterable[OpRecord]) -> list[OpRecord]:
    """Return records sorted by write time, as detectors need them: all of them in memory."""
    return sorted(records, key=lambda record: record.write_time)


class LineFile:
    """A file of JSON Lines that is written line by line, each in one piece, and may be read meanwhile.

    It has one writer at a time. An unfinished last line of a writer that died is cut off.

    Raises:
        UsageError: another writer has it open, or its last line is of another format; nothing was changed. Attribute
            `file`.
        OSError: the file cannot be opened.
    """

    _beginnings: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self, path: str | Path) -> None:
        self._encoder = msgspec.json.Encoder()
        self._lock = threading.Lock()
        self._file: IO[bytes] = open(  # noqa: SIM115 - open until `close`, and a Path has no opener
            path, "ab+", buffering=0, opener=private
        )
        try:
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._claim(path)
                self._mend_end(path)
        except BaseException:
            self._file.close()
            raise

    def _claim(self, path: str | Path) -> None:
        if sys.platform == "win32":
            return
        try:
            fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{path} is being written by another process: close that first, or name another file", file=str(path)
            ) from None
        except OSError:
            return  # a file system without locks: the caller must ensure a single writer

    def _mend_end(self, path: str | Path) -> None:
        """Make the file end with a whole line."""
        last = self._behind_the_last_newline()
        if not last:
            return
        with suppress(ValueError, RecursionError):
            msgspec.json.decode(last)
            self._append(b"\n")
            return
        if not any(last.startswith(known) or known.startswith(last) for known in self._beginnings):
            raise UsageError(f"the last line of {path} is of another format: name another file", file=str(path))
        self._file.truncate(self._file.seek(0, os.SEEK_END) - len(last))

    def _behind_the_last_newline(self) -> bytes:
        at, last = self._file.seek(0, os.SEEK_END), b""
        while at and b"\n" not in last:
            size = min(at, _CHUNK)
            at = self._file.seek(at - size)
            last = self._file.read(size) + last
        return last.rpartition(b"\n")[2]

    def _append(self, line: bytes) -> None:
        """Write a whole line, or nothing and raise OSError: a full disk takes a part of one."""
        done = 0
        with self._lock:
            try:
                while done < len(line):
                    taken = self._file.write(line[done:])
                    if not taken:
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
                    done += taken
            except OSError:
                if done:
                    with suppress(OSError):
                        self._file.truncate(os.fstat(self._file.fileno()).st_size - done)
                raise

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HistoryFile(LineFile):
    """A history that is written record by record; each record is in the file at once, and may be read meanwhile.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "h.jsonl")
    >>> with HistoryFile(path) as history:
    ...     history.write(OpRecord(agent="ada", read_time=0, write_time=1, write_values={"date": "14 June"}))
    >>> [record.agent for record in read(path)]
    ['ada']
    """

    _beginnings = (b'{"read_set":', _RETRACTED)

    def write(self, record: OpRecord) -> None:
        """Append one record, in one piece.

        Raises:
            TypeError, ValueError, OverflowError: one of its values is no JSON; nothing was written.
            OSError: it cannot be written; nothing was.
        """
        self._append(encode(record, self._encoder) + b"\n")

    def retract(self, name: str) -> None:
        """Record that the operation with this id was retracted."""
        self._append(self._encoder.encode({"retracted": name}) + b"\n")


def encode(record: OpRecord, encoder: msgspec.json.Encoder | None = None) -> bytes:
    """Return a record as one line of JSON, with the sets of the paper's format."""
    plain: dict[str, Any] = {"read_set": record.read_set, "write_set": record.write_set}
    plain |= {name: getattr(record, name) for name in record.__struct_fields__}
    plain = {name: value for name, value in plain.items() if value is not None or name == "planned_tool"}
    return (encoder or msgspec.json.Encoder()).encode(plain)


def bad_line(path: str | Path, number: int, error: Exception) -> HistoryError:
    """Return the error for a line that could not be decoded."""
    told, _, where = message_of(error).partition(" - at `$")
    field = where.rstrip("`").removeprefix(".") or None
    at = "" if field is None else f", field {field}"
    return HistoryError(f"{path}, line {number}{at}: {told}", file=str(path), line=number, field=field)


__all__ = ["HistoryError", "HistoryFile", "LineFile", "bad_line", "encode", "lines", "ordered", "read"]
