"""The explorer's counterparty: three cells under five scopes, with a log of all that was done to them."""

from __future__ import annotations

from typing import Any

from settlemark._scope import Scope

Value = tuple[int, int, int]
"""Who wrote it: (transaction, attempt, operation)."""

UNWRITTEN: Value = (-1, 0, 0)
CELLS = {"x": (0,), "y": (1,), "p": (0, 1), "z": (2,), "w": (0,)}
SCOPES = {
    "x": Scope.parse("cell:/p/x"),
    "y": Scope.parse("cell:/p/y"),
    "p": Scope.parse("cell:/p"),
    "z": Scope.parse("cell:/z"),
    "w": Scope.parse("cell:/*/x"),
}


class World:
    """Cells that keep the log of every write and every undo."""

    def __init__(self) -> None:
        self.values = [UNWRITTEN] * 3
        self.log: list[list[Value]] = [[], [], []]
        self.released: list[Value] = []
        self.wrong_undo = False
        self.fenced: set[int] = set()
        self.acted_late = False

    def write(self, name: str, value: Value) -> tuple[Value, ...]:
        """Write every cell of a scope and return what was there before."""
        self.acted_late = self.acted_late or value[0] in self.fenced
        before = tuple(self.values[cell] for cell in CELLS[name])
        for cell in CELLS[name]:
            self.values[cell] = value
            self.log[cell].append(value)
        return before

    def restore(self, name: str, value: Value, before: tuple[Value, ...]) -> None:
        """Undo a write; finding somebody else's on top of it is a violation."""
        for cell, old in zip(CELLS[name], before, strict=True):
            self.wrong_undo = self.wrong_undo or self.values[cell] != value
            self.values[cell] = old

    def picture(self) -> tuple[Any, ...]:
        """Return a hashable snapshot."""
        return (*self.values, *map(tuple, self.log), tuple(self.released), self.wrong_undo, tuple(sorted(self.fenced)))
