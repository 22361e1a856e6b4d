"""The engine's own history: what `Settlement(history=FILE)` writes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from settlemark._observe.logs import about, quote_of
from settlemark._protocol.chronicle import Chronicle, Record
from settlemark.history._recording.files import HistoryFile
from settlemark.history._recording.record import OpRecord
from settlemark.history._recording.so_far import so_far

_log = logging.getLogger("settlemark")
_NAME = re.compile(r"(.*#\d+)([@.]\d+)?", re.DOTALL)
"""A transaction's name in the chronicle; after it, which of its records, or after how many of its acts."""


class Historian:
    """Appends the protocol's decisions to a file. A file that cannot be written ends the history, and nothing else.

    An existing history is continued: its clock runs on, cells not written since have their value from it, and a
    transaction with a name that it has already gets an id of its own, `NAME+CLOCK`.

    Attributes:
        chronicle: receives the protocol's decisions.

    Raises:
        UsageError: another process writes the file, or it is no history; nothing was changed.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file: HistoryFile | None = HistoryFile(path)
        try:
            self._before = so_far(path)
        except BaseException:
            self.close()
            raise
        self._renamed: set[str] = set()
        self.chronicle = Chronicle(self._write, self._retract)

    def _write(self, record: Record) -> None:
        self._put(lambda file: file.write(OpRecord(**(self._running_on(record) if self._before.clock else record))))

    def _retract(self, name: str) -> None:
        # A name that the earlier history has too means this process's record, if there is one.
        self._put(lambda file: file.retract(self._named(name) if name in self._renamed else name))

    def _running_on(self, record: Record) -> Record:
        """Move a record from a clock that began at 0 to the file's clock."""
        before = self._before
        reads: dict[str, Any] = record.get("read_values", {})
        stood = {cell: before.standing[cell] for cell in reads if reads[cell] is None and cell in before.standing}
        if record["id"] in before.ids:
            self._renamed.add(record["id"])
        preds = {self._named(pred) for pred in record.get("preds", ())} | {wrote.id for wrote in stood.values()}
        return record | {
            "id": self._named(record["id"]),
            "read_time": record["read_time"] + before.clock,
            "write_time": record["write_time"] + before.clock,
            "read_values": {cell: value and self._named(value) for cell, value in reads.items()}
            | {cell: wrote.value for cell, wrote in stood.items()},
            "write_values": {cell: self._named(value) for cell, value in record.get("write_values", {}).items()},
            "preds": sorted(preds),
        }

    def _named(self, text: str) -> str:
        found = _NAME.fullmatch(text)
        if found is None or found[1] not in self._before.ids:
            return text
        return f"{found[1]}+{self._before.clock}{found[2] or ''}"

    def _put(self, put: Callable[[HistoryFile], None]) -> None:
        if self._file is None:
            return
        try:
            put(self._file)
        except BaseException as error:  # the protocol is in the middle of a step, which a history must not break
            self.close()
            _log.error(
                "the history %s ends here, since it cannot be written: %s",
                self._path,
                quote_of(error),
                extra=about(history=str(self._path)),
            )

    def close(self) -> None:
        """Stop writing. A second call does nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


__all__ = ["Historian"]
