"""The explorer's counterparty: three cells under five scopes, with a log of all that was done to them."""

from __future__ import annotations

from typing import Any

from settlemark import Scope

Value = tuple[int, int, int]
"""Who wrote it: (transaction, attempt, operation)."""
Blocks = tuple[tuple[str, frozenset[Value]], ...]
Before = tuple[tuple[Value, Blocks], ...]

UNWRITTEN: Value = (-1, 0, 0)
CELLS = {"x": (0,), "y": (1,), "p": (0, 1), "z": (2,), "w": (0,)}
SCOPES = {
    "x": Scope.parse("cell:/p/x"),
    "y": Scope.parse("cell:/p/y"),
    "p": Scope.parse("cell:/p"),
    "z": Scope.parse("cell:/z"),
    "w": Scope.parse("cell:/*/x"),
}
GROUPS = {"a": "add", "c": "add", "m": "multiply"}
"""Operations that commute with those of their group on one scope: `c` is staged, the others run at once."""
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


def conflict(some: list[tuple[int, str, str]], others: list[tuple[int, str, str]]) -> bool:
    """Whether two programs touch a cell in ways that do not commute, from what `touches` says of them.

    >>> conflict(touches(("ax",)), touches(("cx",))), conflict(touches(("ax",)), touches(("rx", "ax")))
    (False, True)
    """
    return any(
        SCOPES[one].overlaps(SCOPES[other]) and not (one == other and _commute(kind, theirs))
        for _, kind, one in some
        for _, theirs, other in others
    )


def _commute(one: str, other: str) -> bool:
    return one in GROUPS and GROUPS[one] == GROUPS.get(other)


class World:
    """Cells that keep the log of every write and every undo; they may also change from outside, and time pass.

    What commutes changes a cell by what it adds: `blocks` has, for each cell, what was added since its value was
    written, in blocks of one group each. Within a block no order is told.
    """

    def __init__(self) -> None:
        self.values = [UNWRITTEN] * 3
        self.blocks: list[Blocks] = [(), (), ()]
        self.log: list[list[Value]] = [[], [], []]
        self.sequence: list[Value] = []
        self.released: list[Value] = []
        self.refused: list[Value] = []
        self.tags = [0, 0, 0]
        self.seconds = 0
        self.wrong_undo = False
        self.fenced: set[int] = set()
        self.halted: set[int] = set()
        self.acted_late = False
        self.left_early = False
        self.left_stale = False
        self.priors: dict[Value, list[tuple[Value, Before]]] = {}
        self.undone: set[Value] = set()
        self.unsaid = False

    def write(self, name: str, value: Value) -> Before:
        """Write every cell of a scope and return what was there before."""
        self.acted_late = self.acted_late or value[0] in self.fenced | self.halted
        self.sequence.append(value)
        before = tuple((self.values[cell], self.blocks[cell]) for cell in CELLS[name])
        for cell in CELLS[name]:
            self.values[cell], self.blocks[cell] = value, ()
            self.log[cell].append(value)
        return before

    def restore(self, name: str, value: Value, before: Before) -> None:
        """Undo a write; finding somebody else's on top of it is a violation."""
        self.acted_late = self.acted_late or value[0] in self.halted
        self.undone.add(value)
        for cell, old in zip(CELLS[name], before, strict=True):
            self.wrong_undo = self.wrong_undo or (self.values[cell], self.blocks[cell]) != (value, ())
            self.values[cell], self.blocks[cell] = old

    def add(self, name: str, value: Value, group: str) -> None:
        """Change every cell of a scope by what commutes within a group."""
        self.acted_late = self.acted_late or value[0] in self.fenced | self.halted
        self.sequence.append(value)
        for cell in CELLS[name]:
            self.blocks[cell] = added(self.blocks[cell], value, group)
            self.log[cell].append(value)

    def take_away(self, name: str, value: Value, group: str) -> None:
        """Undo what was added, by its inverse; finding anything but more of its group on top of it is a violation."""
        self.acted_late = self.acted_late or value[0] in self.halted
        self.undone.add(value)
        for cell in CELLS[name]:
            last, mine = self.blocks[cell][-1:], frozenset({value})
            if not last or last[0][0] != group or not mine <= last[0][1]:
                self.wrong_undo = True
                continue
            rest = last[0][1] - mine
            self.blocks[cell] = (*self.blocks[cell][:-1], *([(group, rest)] if rest else []))

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
        marks = (
            self.wrong_undo,
            self.left_early,
            self.left_stale,
            tuple(sorted(self.fenced)),
            tuple(sorted(self.halted)),
        )
        acts = (*map(tuple, self.log), tuple(self.released), tuple(self.refused))
        return (*self.values, *self.blocks, *acts, *marks, *self.now())


def added(blocks: Blocks, value: Value, group: str) -> Blocks:
    """Return what stands on a cell when one more was added.

    >>> added((), (0, 1, 0), "add")
    (('add', frozenset({(0, 1, 0)})),)
    """
    if blocks and blocks[-1][0] == group:
        return (*blocks[:-1], (group, blocks[-1][1] | {value}))
    return (*blocks, (group, frozenset({value})))
