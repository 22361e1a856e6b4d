"""All that the engine's own protocol can reach, driven by the steps that `docs/settlement.tla` has.

A state is told as the specification's `Picture` tells it, so that the two can be compared one by one. The
world and what the programs do in it are this file's; who may touch, waits, commits or aborts is asked of
the protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.core.explorer.cells import SCOPES
from tests.rooms.protocol import NOWHERE, Call, Held, Leaves, Mode, Position, Txn, leaving_order

from settlemark import Refused, State
from settlemark.hosting import Protocol, Reason

Programs = tuple[tuple[tuple[str, str], ...], ...]
Who = tuple[int, int, int]
Picture = tuple[Any, ...]
Move = Callable[[], object]
Blocks = tuple[tuple[str, frozenset[tuple[Who, int]]], ...]
Leaving = Callable[[Sequence[int], Callable[[int], Held]], Sequence[int]]

CELLS = {"x": ("x",), "y": ("y",), "z": ("z",), "p": ("x", "y")}
NAMES = {SCOPES[name].text: name for name in CELLS}
MODES = {
    "read": Mode.READ, "eager": Mode.EAGER, "final": Mode.FINAL, "held": Mode.HELD, "last": Mode.HELD,
    "add": Mode.EAGER, "multiply": Mode.EAGER, "add held": Mode.HELD,
}  # fmt: skip # a table
GROUPS = {"add": "add", "add held": "add", "multiply": "multiply"}


@dataclass(frozen=True, slots=True)
class Value:
    """What stands in a cell: who wrote it, and what was added since, in blocks of one group each."""

    by: Who = (0, 0, 0)
    added: Blocks = ()

    def changed(self, who: Who, group: str) -> Value:
        """Return it as it is when somebody has written, or with a group, added."""
        if not group:
            return Value(who)
        on_top = bool(self.added) and self.added[-1][0] == group
        many = Counter(dict(self.added[-1][1])) if on_top else Counter[Who]()
        many[who] += 1
        below = self.added[:-1] if on_top else self.added
        return replace(self, added=(*below, (group, frozenset(many.items()))))

    def less(self, who: Who) -> Value:
        """Return it as it is when somebody has taken away again what that one has added, once."""
        blocks = ((group, frozenset((+(Counter(dict(many)) - Counter([who]))).items())) for group, many in self.added)
        return replace(self, added=tuple(block for block in blocks if block[1]))

    @property
    def told(self) -> tuple[Who, Blocks]:
        return self.by, self.added


UNWRITTEN = Value()
Undoing = Callable[[str], bool]


def by_inverse(kind: str) -> bool:
    """Whether an undo takes away what was added, in place of putting back what was there before."""
    return kind in GROUPS


@dataclass(slots=True)
class Effect:
    """One that was admitted, and what it replaced in the world."""

    step: int
    call: Call
    was: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class Task:
    """A transaction: its program, and how far its present attempt has come."""

    number: int
    program: tuple[tuple[str, str], ...]
    txn: Txn | None = None
    step: int = 1
    call: Call | None = None
    ran: list[Effect] = field(default_factory=list)
    kept: list[Effect] = field(default_factory=list)
    saw: list[tuple[int, Picture]] = field(default_factory=list)

    @property
    def state(self) -> str:
        return "new" if self.txn is None else self.txn.state.value

    @property
    def calling(self) -> str:
        if self.call is None:
            return ""
        if not self.call.admitted:
            return "waits"
        return "reading" if self.call.mode is Mode.READ else "acting"

    def who(self, step: int) -> Who:
        return self.number, self.txn.attempt, step

    def group(self, step: int) -> str:
        return GROUPS.get(self.program[step - 1][0], "")

    def catch_up(self) -> None:
        """Follow what the protocol has decided about it: an abort, and a retry that has taken its place."""
        if self.state == "committed":
            self.ran = []
        if self.state not in ("aborting", "aborted"):
            return
        self.kept, self.saw = [], []
        if self.calling != "acting":
            self.call = None
        if self.txn.successor is not None:
            self.txn, self.step = self.txn.successor, 1


class Walk:
    """One fresh protocol with its programs and their world, moved one step at a time."""

    def __init__(
        self,
        programs: Programs,
        scopes: Iterable[str],
        protocol: Callable[[], Protocol],
        declaring: Iterable[int],
        leaving: Leaving,
        inverse: Undoing,
    ) -> None:
        self.scopes = tuple(scopes)
        self.programs = programs
        self.declaring = tuple(declaring)
        self.leaving = leaving
        self.inverse = inverse
        self.protocol = protocol()
        self.tasks = [Task(number, program) for number, program in enumerate(programs, start=1)]
        self.world = {cell: UNWRITTEN for name in self.scopes for cell in CELLS[name]}
        self.left: set[Who] = set()
        self.order: list[int] = []

    def move(self, number: int) -> None:
        """Let a transaction do its next step."""
        self._next(self.tasks[number])()
        for task in self.tasks:
            task.catch_up()
        self.protocol.take_aborted()

    def movable(self) -> list[int]:
        """Return who has a next step; it may turn out that it still has to wait."""
        begun = sum(task.txn is not None for task in self.tasks)
        return [place for place, task in enumerate(self.tasks) if place <= begun and not _over(task)]

    def _next(self, task: Task) -> Move:
        if task.calling in ("reading", "acting"):
            return partial(self._return, task)
        at_its_end = task.step > len(task.program)
        moves = {
            "new": self._begin,
            "open": self._seal if at_its_end else self._go_on,
            "sealed": self._decide,
            "releasing": self._release,
            "aborting": self._undo,
        }
        return partial(moves[task.state], task)

    # ---- the steps

    def _begin(self, task: Task) -> None:
        may_touch = self.scopes if task.number in self.declaring else ()
        declared = [SCOPES[name] for name in CELLS if name in may_touch]
        task.txn = self.protocol.begin(f"T{task.number}", declared=declared, retry=True)

    def _go_on(self, task: Task) -> None:
        kind, name = task.program[task.step - 1]
        if kind == "fail":
            self.protocol.drop_retry(task.txn)
            self.protocol.abort(task.txn, Reason.FAILED)
            return
        if task.call is None:
            own = any(_overlap(effect.call, name) for effect in task.kept)
            mode = Mode.HELD if own and kind != "read" else MODES[kind]
            task.call = self.protocol.request(task.txn, SCOPES[name], mode, commutes=task.group(task.step))
        call = task.call
        with suppress(Refused):  # stale: it was aborted
            if self.protocol.admit(call) is not None:
                return
            if call.mode is Mode.HELD:
                task.kept.append(Effect(task.step, call))
                task.call, task.step = None, task.step + 1
            elif call.mode is not Mode.READ:
                replaced = () if self.inverse(kind) else CELLS[name]
                task.ran.append(Effect(task.step, call, {cell: self.world[cell] for cell in replaced}))

    def _return(self, task: Task) -> None:
        name = task.program[task.step - 1][1]
        call, task.call = task.call, None
        if call.mode is Mode.READ:
            seen = {cell: self.world[cell] for cell in CELLS[name]}
            for effect in task.kept:
                self._write(task, effect, seen)
            task.saw.append((task.step, _values(seen)))
        else:
            self._write(task, task.ran[-1], self.world)
        task.step += 1
        self.protocol.acted(call, happened=True)

    @staticmethod
    def _write(task: Task, effect: Effect, world: dict[str, Value]) -> None:
        for cell in CELLS[_name(effect.call)]:
            if cell in world:
                world[cell] = world[cell].changed(task.who(effect.step), task.group(effect.step))

    def _seal(self, task: Task) -> None:
        self.protocol.seal(task.txn)

    def _decide(self, task: Task) -> None:
        with suppress(Refused):  # stale: it was aborted
            if self.protocol.decide(task.txn) is None:
                self.order.append(task.number)

    def _release(self, task: Task) -> None:
        issued = range(len(task.kept))
        effect = task.kept.pop(self.leaving(issued, partial(self._held, task))[0])
        self._write(task, effect, self.world)
        self.left.add(task.who(effect.step))
        self.protocol.released(effect.call)
        if not task.kept:
            self.protocol.finish(task.txn)

    @staticmethod
    def _held(task: Task, number: int) -> Held:
        effect = task.kept[number]
        last = task.program[effect.step - 1][0] == "last"
        return Held(Leaves.LAST if last else 0, [effect.call.scope])

    def _undo(self, task: Task) -> None:
        effect = task.ran.pop()
        cells = () if effect.was else CELLS[_name(effect.call)]
        self.world |= effect.was
        self.world |= {cell: self.world[cell].less(task.who(effect.step)) for cell in cells}
        self.protocol.undone(effect.call, clean=True)
        if not task.ran:
            self.protocol.finish_abort(task.txn)

    # ---- what is alike

    def picture(self) -> Picture:
        """Return the state as the specification's `Picture` has it."""
        positions = sorted(self.protocol.live)
        return (
            self.programs,
            tuple(self._of(task, positions) for task in self.tasks),
            frozenset(self._who_was_first()),
            frozenset((name, _rank(positions, self._floor(name))) for name in self.scopes),
            _values(self.world),
            frozenset(self.left),
            tuple(self.order),
        )

    def _of(self, task: Task, positions: list[Position]) -> Picture:
        txn = task.txn
        if txn is None:
            return "new", "", 0, 0, 1, "", frozenset(), frozenset(), (), (), ()
        return (
            task.state,
            txn.reason.value if txn.reason else "",
            txn.attempt,
            0 if txn.finished else _rank(positions, txn.position),
            task.step,
            task.calling,
            frozenset(
                (
                    NAMES[h.scope.text],
                    h.declared,
                    "none" if h.commutes is None else h.commutes,
                    h.claims,
                    h.held,
                    h.wants > 0,
                    h.readings > 0,
                )
                for h in txn.holds.values()
            ),
            frozenset(self._reads(txn)) if txn.state in (State.OPEN, State.SEALED) else frozenset(),
            tuple(effect.step for effect in task.kept),
            tuple((effect.step, _values(effect.was)) for effect in task.ran),
            tuple(task.saw),
        )

    def _reads(self, txn: Txn) -> Iterable[tuple[str, bool]]:
        index = self.protocol.board.index
        return ((NAMES[s.text], index.version(index.match(s)) > seen) for s, seen in txn.reads.items())

    def _floor(self, name: str) -> Position:
        index = self.protocol.board.index
        return max(index.floor(index.match(SCOPES[name])), self.protocol.board.versions.base, NOWHERE)

    def _who_was_first(self) -> Iterable[tuple[int, str, int, str]]:
        holds = [(t.number, NAMES[h.scope.text], h) for t in self.tasks if t.txn for h in t.txn.holds.values()]
        for mine, name, hold in holds:
            for theirs, claimed, claim in holds:
                if mine != theirs and hold.scope.overlaps(claim.scope) and hold.since < claim.granted:
                    yield mine, name, theirs, claimed


def _over(task: Task) -> bool:
    return task.txn is not None and task.txn.finished


def _name(call: Call) -> str:
    return NAMES[call.scope.text]


def _overlap(call: Call, name: str) -> bool:
    return call.scope.overlaps(SCOPES[name])


def _values(cells: dict[str, Value]) -> Picture:
    return frozenset((cell, value.told) for cell, value in cells.items())


def _rank(positions: list[Position], position: Position) -> int:
    return sum(other <= position for other in positions)


def reach(
    programs: Programs,
    scopes: Iterable[str],
    *,
    protocol: Callable[[], Protocol] = Protocol,
    declaring: Iterable[int] = (),
    leaving: Leaving = leaving_order,
    inverse: Undoing = by_inverse,
) -> set[Picture]:
    """Return the picture of every state that these programs reach, in any order of their steps."""
    seen: set[Picture] = set()
    branches: list[list[int]] = [[]]
    while branches:
        schedule = branches.pop()
        walk = Walk(programs, scopes, protocol, declaring, leaving, inverse)
        for number in schedule:
            walk.move(number)
        while (picture := walk.picture()) not in seen:
            seen.add(picture)
            movable = walk.movable()
            if not movable:
                break
            branches.extend([*schedule, number] for number in movable[1:])
            schedule = [*schedule, movable[0]]
            walk.move(movable[0])
    return seen


__all__ = ["Picture", "Programs", "reach"]
