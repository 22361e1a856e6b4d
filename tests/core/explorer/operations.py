"""One operation of an explored program: a call through the engine, to a counterparty that watches it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from tests.core.explorer.cells import CELLS, GROUPS, READS, REFUSED, SCOPES, Value, World
from tests.core.explorer.plan import KEEPS, Doing, Plan, ProgramFailedError, Task

from settlemark import Declaration, Effect, EffectClass, Scope, State, current_call
from settlemark.hosting import Attempt, Disposition, Driver, Handler, Protocol
from settlemark.ledger import Ledger

_CLASSES = {
    "r": EffectClass.READ, "l": EffectClass.READ, "v": EffectClass.READ, "e": EffectClass.REVERSIBLE,
    "u": EffectClass.REVERSIBLE, "b": EffectClass.REVERSIBLE, "n": EffectClass.REVERSIBLE, "o": EffectClass.OPAQUE,
    "a": EffectClass.REVERSIBLE, "m": EffectClass.REVERSIBLE, "c": EffectClass.STAGED,
    "s": EffectClass.STAGED, "t": EffectClass.STAGED, "i": EffectClass.IRREVERSIBLE, "j": EffectClass.IRREVERSIBLE,
}  # fmt: skip # a table
_UNDOABLE = "eubnam"
UNIT = "usd"


class Operations:
    """What the tasks of a run share, and what they do with it."""

    plan: Plan
    world: World
    protocol: Protocol
    drivers: Sequence[Driver]
    ledgers: Sequence[Ledger]
    tasks: list[Task]
    order: list[tuple[int, int]]
    attempts: list[Attempt]
    advanced: list[tuple[Scope, tuple[int, str]]]
    names: dict[str, int]
    asked: Attempt | None
    mover: Task

    def driver_of(self, task: Task) -> Driver:
        """Return the driver of the worker that a task runs on."""
        return self.drivers[task.worker]

    def number_of(self, name: str) -> tuple[int, int]:
        """Return the number of the transaction with this name, and its lap."""
        known = self.names.get(name)
        if known is not None:
            return known, 0
        number, _, lap = name[1:].partition(".")
        return int(number), int(lap or 0)

    def _inside(self, task: Task, outer: Attempt) -> Doing:
        """Run a transaction of its own inside a call of another."""
        raise NotImplementedError

    def _call(self, task: Task, attempt: Attempt, op: str, step: int) -> Doing:
        effect = self.effect(task, attempt, op, step)
        attempt.place(effect)
        yield from self.driver_of(task).calls.call(attempt, effect)

    def effect(self, task: Task, attempt: Attempt, op: str, step: int) -> Effect:
        """Return the effect of one operation of an attempt, which has no place in it yet."""
        kind, name = op[0], op[1]
        world, number = self.world, self.number_of(attempt.name)[0]
        own = (number, attempt.number + 10 * task.laps, step)
        # Who comes back with the same decision has another function, and what that undoes is the first one's act.
        before = world.priors.setdefault(own, [])

        def tag() -> list[int]:
            tags = [(cell, world.tags[cell]) for cell in CELLS[name]]
            if not any(place == tags[0][0] for place, _ in task.watched):
                task.watched.extend(tags)
            return [value for _, value in tags]

        def read() -> None:
            seen: list[tuple[int, Value]] = []
            for cell in CELLS[name]:
                staged = [e.arguments["step"] for e in attempt.in_order() if _stages(e, cell)]
                seen.append((cell, (*own[:2], staged[-1]) if staged else world.values[cell]))
                seen += [(cell, value) for _, block in world.blocks[cell] for value in sorted(block)]
            task.reads.append((len(self.order), tuple(seen)))
            if kind == "v":
                task.watched.append((len(world.tags), world.seconds))

        def write() -> Any:
            value = self._who(step, task.laps, own)
            if kind in REFUSED:
                raise ValueError("refused for good")
            if kind == "b" and value not in world.refused:
                world.refused.append(value)
                raise ProgramFailedError
            if kind in "sic":
                self._leave(kind, value)
            if kind in GROUPS:
                world.add(name, value, GROUPS[kind])
                before.append((value, ()))
            else:
                before.append((value, world.write(name, value)))
            if kind == "u" and len(before) == 1:
                raise TimeoutError("the answer was lost")
            return self._inside(self.tasks[number].parts[0], attempt) if kind == "n" else value

        def undo() -> None:
            value, restored = before[0]
            world.unsaid = world.unsaid or not self._is_said(attempt, value)
            if kind in GROUPS:
                world.take_away(name, value, GROUPS[kind])
            else:
                world.restore(name, value, restored)

        def probe() -> Any:
            return before[0][0] if before else None

        declaration = Declaration(
            tool=op,
            kind=_CLASSES[kind],
            undo=Handler(undo, op) if kind in _UNDOABLE else None,
            probe=Handler(probe, op) if kind == "u" else None,
            live=Handler(tag, op) if kind == "l" else None,
            valid_for=1.0 if kind == "v" else None,
            commutes=GROUPS.get(kind),
        )
        reads = kind in READS
        arguments = {} if reads else {"step": step, "scope": name}
        bound = self.protocol.changes if op in self.plan.revoked else None
        spends = {} if reads or self.plan.budget is None else {UNIT: Decimal(1)}
        run = read if reads else write
        return Effect(declaration, (SCOPES[name],), arguments, run, bound=bound, spends=spends)

    def _is_said(self, attempt: Attempt, value: Value) -> bool:
        """Whether it is on record that an act is taken back, before it is: with its transaction, or by itself."""
        if attempt.txn is None or attempt.txn.state is not State.OPEN:
            return True
        recorded = self.ledgers[0].read(lambda book: book.load(attempt.name))
        found = [e for e in attempt.effects.values() if e.executed and e.arguments.get("step") == value[2]]
        known = {e.row.key: e.disposition for e in recorded.effects} if recorded is not None else {}
        return all(known.get(e.key) is Disposition.ORPHANED for e in found)

    def _who(self, step: int, laps: int, own: Value) -> Value:
        """Return who acts: what was split off acts under a name of its own."""
        call = current_call()
        return own if call is None else (self.number_of(call.transaction)[0], call.attempt + 10 * laps, step)

    def _leave(self, kind: str, value: Value) -> None:
        """Note that a held effect leaves, and whether it may."""
        world, task = self.world, self.tasks[value[0]]
        first = not any(left[:2] == value[:2] for left in world.released)
        waits = bool(task.end) and (task.end in KEEPS or kind == "i")
        world.left_early = world.left_early or (waits and not task.said)
        # It looked in its last move: what changed since then nobody can know.
        world.left_stale = world.left_stale or (first and task.stale(self.mover.before))
        world.released.append(value)


def _stages(effect: Effect, cell: int) -> bool:
    return effect.declaration.kind is EffectClass.STAGED and cell in CELLS[effect.arguments["scope"]]


__all__ = ["Operations"]
