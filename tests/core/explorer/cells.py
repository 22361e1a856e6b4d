"""The explorer's counterparty: three cells under five scopes, with a log of all that was done to them."""

from __future__ import annotations

from typing import Any

from settlemark import Scope

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
SIBLING = 10
"""Operations of a transaction's second thread are numbered from here."""
TIME = "t"
READS = "rlv"
REFUSED = "jt"
"""Held operations that are refused for good when they are to leave."""
FINAL = "ij"
"""Operations that cannot be undone."""
NOT_HERE = "-"
"""In place of an operation that is not this transaction's any more: it was split off, or skipped."""


def touches(program: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Return the operations that touch a scope: (their place, their kind, the scope's name).

    >>> touches(("rx", "-", "sy", "f"))
    [(0, 'r', 'x'), (2, 's', 'y')]
    """
    return [(step, op[0], op[1]) for step, op in enumerate(program) if len(op) == 2]


def writes(program: tuple[str, ...], cell: int) -> list[int]:
    """Return the places of the operations that write a cell when all goes well."""
    return [step for step, kind, name in touches(program) if kind not in READS and cell in CELLS[name]]


class World:
    """Cells that keep the log of every write and every undo; they may also change from outside, and time pass."""

    def __init__(self) -> None:
        self.values = [UNWRITTEN] * 3
        self.log: list[list[Value]] = [[], [], []]
        self.sequence: list[Value] = []
        self.released: list[Value] = []
        self.refused: list[Value] = []
        self.tags = [0, 0, 0]
        self.seconds = 0
        self.wrong_undo = False
        self.fenced: set[int] = set()
        self.acted_late = False
        self.left_early = False
        self.left_stale = False
        self.priors: dict[Value, list[tuple[Value, tuple[Value, ...]]]] = {}
        self.undone: set[Value] = set()
        self.unsaid = False

    def write(self, name: str, value: Value) -> tuple[Value, ...]:
        """Write every cell of a scope and return what was there before."""
        self.acted_late = self.acted_late or value[0] in self.fenced
        self.sequence.append(value)
        before = tuple(self.values[cell] for cell in CELLS[name])
        for cell in CELLS[name]:
            self.values[cell] = value
            self.log[cell].append(value)
        return before

    def restore(self, name: str, value: Value, before: tuple[Value, ...]) -> None:
        """Undo a write; finding somebody else's on top of it is a violation."""
        self.undone.add(value)
        for cell, old in zip(CELLS[name], before, strict=True):
            self.wrong_undo = self.wrong_undo or self.values[cell] != value
            self.values[cell] = old

    def change(self, what: str) -> None:
        """Let a cell's tag change, as by somebody who knows nothing of settlements, or let a second pass."""
        if what == TIME:
            self.seconds += 1
            return
        for cell in CELLS[what]:
            self.tags[cell] += 1

    def now(self) -> tuple[int, ...]:
        """Return what comes from outside, as it is now: the tags of the cells, and the time."""
        return (*self.tags, self.seconds)

    def picture(self) -> tuple[Any, ...]:
        """Return a hashable snapshot."""
        marks = (self.wrong_undo, self.left_early, self.left_stale, tuple(sorted(self.fenced)))
        acts = (*map(tuple, self.log), tuple(self.released), tuple(self.refused))
        return (*self.values, *acts, *marks, *self.now())
