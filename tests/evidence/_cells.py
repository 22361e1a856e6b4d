"""The counterparty: cells that agents share, in a process of its own, which logs every request as it comes.

It knows nothing of transactions: who asks says so, and that is what it writes down.
"""

from __future__ import annotations

import atexit
import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.rooms.testing import ChildServer, Journal, attend


class Cells:
    """Values under names. A request is in the log before it is answered; a write that comes twice is there twice."""

    def __init__(self) -> None:
        self._child = ChildServer("tests.evidence._cells")
        self._log = Path(self._child.log_path)
        self._from = 0

    def close(self) -> None:
        """End the process, and its log with it."""
        self._child.close()

    def clear(self) -> None:
        """Begin with nothing in the cells, and a log that begins here."""
        self._child.ask({"do": "clear"})
        self._from = self._log.stat().st_size

    def read(self, cell: str, by: str) -> Any:
        """Return what stands there; None when nothing was written."""
        return self._child.ask({"do": "read", "cell": cell, "by": by})["value"]

    def write(self, cell: str, value: Any, by: str, **more: Any) -> None:
        """Put a value there; `more` goes into the log."""
        self._child.ask({"do": "write", "cell": cell, "value": value, "by": by, **more})

    def undo(self, cell: str, by: str) -> None:
        """Take back the newest write that this one has made there."""
        self._child.ask({"do": "undo", "cell": cell, "by": by})

    def note(self, what: str, by: str, **more: Any) -> None:
        """Log something that touches no cell: a message sent, a tool taken away, words that a model made."""
        self._child.ask({"do": what, "by": by, **more})

    def log(self) -> list[dict[str, Any]]:
        """Return all that was asked since the cells were cleared, in order, as the file has it."""
        with self._log.open("rb") as file:
            file.seek(self._from)
            return [json.loads(line) for line in file]


@cache
def shared_cells() -> Cells:
    """The one counterparty of this process."""
    cells = Cells()
    atexit.register(cells.close)
    return cells


def close_cells() -> None:
    """End the one counterparty, if there is one; the next who asks begins another."""
    if shared_cells.cache_info().currsize:
        cells = shared_cells()
        shared_cells.cache_clear()
        atexit.unregister(cells.close)
        cells.close()


class _Shelf:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._stacks: dict[str, list[tuple[str, Any]]] = {}

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["do"] == "clear":
            self._stacks.clear()
            return {}
        stack = self._stacks.setdefault(asked.get("cell", ""), [])
        if asked["do"] == "read":
            value = stack[-1][1] if stack else None
            self._journal.append({**asked, "value": value})
            return {"value": value}
        if asked["do"] == "write":
            stack.append((asked["by"], asked["value"]))
        if asked["do"] == "undo":
            place = max((n for n, (by, _) in enumerate(stack) if by == asked["by"]), default=None)
            if place is not None:
                del stack[place]
        self._journal.append(asked)
        return {}


def main(log_path: str) -> None:
    """Serve until the parent is gone."""
    attend({}, _Shelf(Journal(log_path)).answer)


__all__ = ["Cells", "close_cells", "shared_cells"]
