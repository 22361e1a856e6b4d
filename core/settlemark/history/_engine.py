"""The engine's own history: what `Settlement(history=FILE)` writes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from settlemark._chronicle import Chronicle, Record
from settlemark._logs import about
from settlemark.history._files import HistoryFile
from settlemark.history._record import OpRecord

_log = logging.getLogger("settlemark")


class Historian:
    """Appends what a protocol decides to a file. A file that cannot be written stops the history, and nothing else.

    Attributes:
        chronicle: what the protocol tells its decisions to.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._file: HistoryFile | None = HistoryFile(path)
        self.chronicle = Chronicle(self._write, self._retract)

    def _write(self, record: Record) -> None:
        self._put(lambda file: file.write(OpRecord(**record)))

    def _retract(self, name: str) -> None:
        self._put(lambda file: file.retract(name))

    def _put(self, put: Callable[[HistoryFile], None]) -> None:
        if self._file is None:
            return
        try:
            put(self._file)
        except OSError as error:
            self.close()
            _log.error(
                "the history %s ends here, it cannot be written: %s", self._path, error,
                extra=about(history=str(self._path)),
            )  # fmt: skip

    def close(self) -> None:
        """Write nothing more. A second call does nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


__all__ = ["Historian"]
