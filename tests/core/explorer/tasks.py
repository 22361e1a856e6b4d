"""What the tasks of an explored run do: transactions, and whoever comes between them at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypedDict

from tests.core.explorer.cells import NOT_HERE, SCOPES, SIBLING, touches
from tests.core.explorer.operations import Operations
from tests.core.explorer.plan import KEEPS, POINT, CutOffError, Doing, Program, ProgramFailedError, Task, ViolatedError
from tests.rooms.acts import Ask, Verdict
from tests.rooms.attempt import Hook, OnFailure
from tests.rooms.model import Guards
from tests.rooms.protocol import LAST
from tests.rooms.runtime import Speculation

from settlemark import (
    Cancelled,
    ContractViolation,
    Effect,
    Entangled,
    Failure,
    Halted,
    KeyConflict,
    PartialCommit,
    Refused,
    Retries,
    Revoked,
    Scope,
    SettlemarkError,
    Stale,
    State,
    UsageError,
    Wounded,
)
from settlemark.hosting import Attempt, Disposition, Part, Reason, Turn

_GATED = "ij"
_SPLITS = "gG"
_YES = "kg"
_BRANCH = "|"
_AGAIN = "/"


class _Options(TypedDict):
    known: bool
    declared: Sequence[Scope]
    hooks: tuple[Hook, ...]
    wait: float
    on_failure: OnFailure
    ask: Ask
    retries: Retries
    retry: bool
    queues: bool
    agents: tuple[str, ...]
    guards: Guards


class Tasks(Operations):
    """The tasks of one run, over one engine and one world."""

    def has_begun(self, task: Task) -> bool:
        """Whether a task has its place in the order, or wants none."""
        return task.attempt is not None or task.began or task.done or not task.begins

    # ---- who there is

    def cast(self, workers: int, count: int) -> None:
        """Make the tasks that the plan asks for; `workers` maintain what others abort."""
        plan = self.plan
        for number, program in enumerate(plan.programs):
            self.tasks.append(Task(number, (), begins=True, worker=number % count))
            self._give(self.tasks[-1], program)
        for task in self.tasks[:]:
            self._divide(task)
        for owner, program in plan.siblings.items():
            late = self._add(worker=owner % count, program=program)
            late.stack = [self._sibling(late, self.tasks[owner])]
        for owner, program in plan.turns.items():
            late = self._add(worker=owner % count, program=program)
            late.turn_of, late.stack = self.tasks[owner], [self._later_calls(late, self.tasks[owner])]
        for tool in plan.revoked:
            self._add().stack = [self._revoke(tool)]
        for name, members in plan.holds.items():
            self._add_holder(name, [self.tasks[number] for number in members])
        self._line_up()
        for what in plan.outside:
            self._add().stack = [self._change(what)]
        for name in plan.advanced:
            self._add().stack = [self._advance(name)]
        for number in sorted(plan.cancelled):
            self._add().stack = [self._meddle(self.tasks[number], self._cancel)]
        for number in sorted(plan.halted):
            self._add().stack = [self._meddle(self.tasks[number], self._halt)]
        for number in sorted(plan.stopped):
            self._add().stack = [self._meddle(self.tasks[number], partial(self._halt, agent=True))]
        for number in sorted(plan.aborted):
            self._add().stack = [self._meddle(self.tasks[number], self._abort)]
        for task in [each for each in self.tasks if each.plans]:
            self._add().stack = [self._meddle(task, self._cut_off)]
        for worker in range(workers):
            maintenance = self._add(worker=worker)
            maintenance.maintains, maintenance.stack = True, [self._maintain(worker)]

    def _add(self, *, worker: int = 0, program: Program = ()) -> Task:
        last = self.tasks[len(self.plan.programs) - 1]
        task = Task(len(self.tasks), program, program, worker=worker, after=last)
        self.tasks.append(task)
        return task

    def _give(self, task: Task, program: Program) -> None:
        """Let a task run a program."""
        if _AGAIN in program:
            task.plans = tuple(_divided(program, _AGAIN))
            task.program = task.operations = task.plans[-1]
            task.stack = [self._come_back(task)]
            return
        if program[-1] in (*KEEPS, *_SPLITS):
            task.end, program = program[-1], program[:-1]
        task.program = task.operations = program
        task.stack = [self._speculate(task) if _BRANCH in program else self._transaction(task)]

    def _divide(self, task: Task) -> None:
        """Make what becomes a transaction of its own within a program."""
        program = task.operations
        parts: list[Program] = []
        if _BRANCH in program:
            parts = _divided(program, _BRANCH)
            task.program = ()
        elif task.number in self.plan.inside:
            parts = [self.plan.inside[task.number]]
        elif task.end and task.end in _SPLITS:
            gates = [n for n, op in enumerate(program) if op[0] in _GATED]
            behind = [n for n, op in enumerate(program) if op[0] in "sij" and gates and n >= gates[0]]
            task.program = _without(program, set(behind))
            for gate, following in zip(gates, [*gates[1:], len(program)], strict=True):
                ours = {n for n in behind if gate <= n < following}
                parts.append(_without(program, set(range(len(program))) - ours))
        for program in parts:
            part = self._add(worker=task.worker, program=program)
            part.done, part.branch, part.end = True, _BRANCH in task.operations, KEEPS[0] if task.end else ""
            task.parts.append(part)

    def _add_holder(self, name: str, members: list[Task]) -> None:
        """Let a hold be placed, and work be done under it."""
        holder = self._add()
        holder.begins, holder.scope = True, name
        holder.stack = [self._hold(holder, name, members)]
        for member in members:
            member.holder = holder

    def _line_up(self) -> None:
        """Give places in the order of the numbers: other orders are other sets of programs.

        A hold has its place before the first of those who work under it, and they have theirs from it.
        """
        last: Task | None = None
        placed: list[Task] = []
        for task in self.tasks[: len(self.plan.programs)]:
            holder = task.holder
            if holder is None:
                task.after, last = last, task
                continue
            task.after = holder
            if holder not in placed:
                holder.after, last = last, holder
                placed.append(holder)

    # ---- transactions

    def _options(self, task: Task, *, retry: bool) -> _Options:
        return {
            "known": False, "declared": (), "hooks": (), "wait": 1e9, "on_failure": self.plan.on_failure,
            "ask": self._ask, "retries": Retries(tries=2, first=0.0), "retry": retry and not task.end,
            "queues": self.plan.queues,
            "agents": (f"agent {task.number}",) if task.number in self.plan.stopped else (),
            "guards": self.plan.guards,
        }  # fmt: skip # a table

    def _transaction(self, task: Task) -> Doing:
        while True:
            name = f"T{task.number}" if not task.laps else f"T{task.number}.{task.laps}"
            options = self._options(task, retry=True)
            if task.number in self.plan.declared:
                options["declared"] = sorted({SCOPES[scope] for _, _, scope in touches(task.program)}, key=str)
            hold = None if task.holder is None else task.holder.attempt
            group = 0 if hold is None else hold.live.id
            attempt = yield from self.driver_of(task).entrance.begin(name, name, **options, group=group)
            yield from self._try(task, attempt)
            if task.laps >= self.plan.loops.get(task.number, 0):
                return
            task.laps += 1
            task.step = 0
            yield POINT

    def _work(self, task: Task, attempt: Attempt) -> Doing:
        """Do the operations of a program in one attempt of it."""
        task.attempt = attempt
        self.attempts.append(attempt)
        task.step, task.reads, task.watched = 0, [], []
        if task.number in self.plan.turns:
            yield from self._turn(task, attempt)
            return
        for step, op in enumerate(task.operations):
            task.step = step
            yield POINT
            if task.cut:
                raise CutOffError
            if op == "f":
                raise ProgramFailedError
            yield from self._call(task, attempt, op, step)
        task.step = len(task.operations)

    def _try(self, task: Task, attempt: Attempt) -> Doing:
        driver = self.driver_of(task)
        while True:
            try:
                yield from driver.runs.line_up(attempt)
                yield from self._work(task, attempt)
                yield POINT
                yield from self._put_aside(task, attempt) if task.end else driver.settling.commit(attempt)
            except (Stale, Wounded):
                last = attempt.number >= self.plan.tries
                again = yield from driver.runs.retry(attempt, last=last)
                if again is None:
                    task.gave_up = True
                    return
                attempt = again
                continue
            except PartialCommit:
                task.committed, task.partial = attempt.number, True
                return
            except (ProgramFailedError, Refused, Entangled, Revoked) as error:
                if isinstance(error, Halted) and error.parked:
                    yield from self._resumed(task, attempt)
                    return
                yield from driver.undoing.abort(attempt, Reason.FAILED)
                yield from driver.undoing.abandon(attempt)
                task.failed = True
                return
            if not task.end:
                task.committed = attempt.number
                self._leave_out(task, attempt)
            return

    @staticmethod
    def _resumed(task: Task, attempt: Attempt) -> Doing:
        """Wait for the end of what goes on by itself when it is resumed."""
        while not attempt.live.finished:
            yield POINT
        if attempt.live.state is State.COMMITTED:
            task.committed = attempt.number
        else:
            task.failed = True

    def _come_back(self, task: Task) -> Doing:
        """Play one plan after the other under one name; each but the last is put aside, whole or cut off."""
        driver, name = self.driver_of(task), f"T{task.number}"
        options: dict[str, Any] = {**self._options(task, retry=True), "known": True, "whole": True}
        for number, plan in enumerate(task.plans):
            task.entered, task.operations, task.cut = number, plan, False
            is_last = number == len(task.plans) - 1
            while True:
                try:
                    attempt = yield from driver.entrance.begin(name, name, **options)
                except Cancelled:
                    task.failed = True
                    return
                try:
                    yield from self._try(task, attempt) if is_last else self._play_in_part(task, attempt)
                except (KeyConflict, Refused):  # another decision in the same place: all of it was undone, or will be
                    yield from driver.undoing.abort(attempt, Reason.FAILED)
                    yield from driver.undoing.abandon(attempt)
                    if is_last:
                        continue
                break

    def _play_in_part(self, task: Task, attempt: Attempt) -> Doing:
        """Play a plan, as far as nobody cuts it off, and leave it open."""
        try:
            yield from self._work(task, attempt)
            yield POINT
        except CutOffError:
            pass
        if attempt.live.state is not State.OPEN:
            raise self.protocol.refusal(attempt.live)
        yield from self.driver_of(task).undoing.suspend(attempt)

    @staticmethod
    def _leave_out(task: Task, attempt: Attempt) -> None:
        skipped = {e.arguments["step"] for e in attempt.effects.values() if e.disposition is Disposition.SKIPPED}
        task.program = _without(task.program, skipped)

    def _inside(self, task: Task, outer: Attempt) -> Doing:
        """Run a transaction of its own inside a call of another."""
        task.laps += task.attempt is not None
        name = f"T{task.number}" if not task.laps else f"T{task.number}.{task.laps}"
        task.committed, task.failed, task.gave_up = 0, False, False
        options = self._options(task, retry=True)
        attempt = yield from self.driver_of(task).entrance.begin(name, name, **options, parent=outer.live.id)
        yield from self._try(task, attempt)

    def _sibling(self, late: Task, owner: Task) -> Doing:
        for step, op in enumerate(late.program):
            late.step = step
            yield POINT
            while owner.attempt is None:
                yield POINT
            try:
                yield from self._call(late, owner.attempt, op, SIBLING + step)
            except SettlemarkError:
                return

    # ---- a turn

    def _turn(self, task: Task, attempt: Attempt) -> Doing:
        """Do the operations of a program as one turn, together with those of a second thread."""
        turn = Turn(order="turn" if self.plan.guards.ordered else "none")
        late = next(each for each in self.tasks if each.turn_of is task)
        issued = [(task, op, step) for step, op in enumerate(task.operations)]
        issued += [(late, op, SIBLING + step) for step, op in enumerate(late.program)]
        calls = [self.effect(who, attempt, op, step) for who, op, step in issued]
        for effect in calls:
            attempt.place(effect)
        seats = [turn.take(effect.declaration, *effect.scopes) for effect in calls]
        seated = list(zip(calls, seats, strict=True))
        late.calls = seated[len(task.operations) :]
        for step, (effect, seat) in enumerate(seated[: len(task.operations)]):
            task.step = step
            yield POINT
            yield from self.driver_of(task).calls.call(attempt, effect, seat)
        task.step = len(task.operations)
        while not late.done:
            yield POINT

    def _later_calls(self, late: Task, owner: Task) -> Doing:
        while late.calls is None:
            yield POINT
        for step, (effect, seat) in enumerate(late.calls):
            late.step = step
            yield POINT
            assert owner.attempt is not None
            try:
                yield from self.driver_of(owner).calls.call(owner.attempt, effect, seat)
            except Refused:
                return  # its transaction was undone meanwhile: the other thread of it says so

    def _revoke(self, tool: str) -> Doing:
        yield POINT
        yield from self.drivers[0].registering(lambda protocol: protocol.revoke(tool))

    # ---- a choice among branches

    def _speculate(self, task: Task) -> Doing:
        name, chosen = f"T{task.number}", self.plan.chosen
        for number, part in enumerate(task.parts):
            self.names[f"{name}~{number}"] = part.number

        def choose(results: list[Any]) -> int | None:
            good = [n for n, result in enumerate(results) if not isinstance(result, Exception)]
            return min(good, key=lambda n: (n - chosen) % len(results), default=None)

        def body(part: Task) -> Callable[[Part], Callable[[], Any]]:
            return lambda joined: partial(self._work, part, joined.attempt)

        options: dict[str, Any] = {**self._options(task, retry=True), "run": name}
        bodies = [body(part) for part in task.parts]
        choice = Speculation(self.driver_of(task), name, bodies, choose, options, tries=self.plan.tries)
        try:
            yield from choice.program()
        except PartialCommit:
            task.partial = True
        except (Refused, ExceptionGroup):
            task.failed = True
        for part in task.parts:
            if part.attempt is not None and part.attempt.live.state is State.COMMITTED:
                part.committed, part.partial = part.attempt.number, task.partial

    # ---- waiting for a person

    def _put_aside(self, task: Task, attempt: Attempt) -> Doing:
        driver = self.driver_of(task)
        if task.end in KEEPS:
            yield from driver.answers.keep(attempt)
            yield from self._answer(task, attempt, yes=task.end in _YES)
            return
        try:
            yield from driver.parking.split(attempt)
        finally:
            waiting = [(p, s.attempt) for p, s in zip(task.parts, attempt.splinters, strict=False) if s.attempt.txn]
            for part, splinter in waiting:
                self.names[splinter.name] = part.number
                part.attempt, part.watched = splinter, task.watched
                self.attempts.append(splinter)
        task.committed = attempt.number
        for part, splinter in waiting:
            yield from self._answer(part, splinter, yes=task.end in _YES)

    def _answer(self, task: Task, attempt: Attempt, *, yes: bool) -> Doing:
        yield POINT
        task.said = yes
        try:
            yield from self.driver_of(task).parking.answer(
                attempt.name,
                approve=yes,
                arguments=None,
                because=None,
                remake=_unchanged,
                wait=1e9,
                retries=Retries(tries=2, first=0.0),
            )
        except PartialCommit:
            task.committed, task.partial = attempt.number, True
        except (Refused, UsageError):
            task.gave_up = True
        else:
            task.committed = attempt.number if yes else 0
            task.failed = not yes

    def _ask(self, failure: Failure) -> Verdict:
        number, _ = self.number_of(failure.transaction)
        self.asked = self.tasks[number].attempt
        return self.plan.verdict

    # ---- whoever comes between them

    def _maintain(self, worker: int) -> Doing:
        while True:
            yield from self.drivers[worker].maintain()
            yield POINT

    def _meddle(self, owner: Task, meddle: Callable[[Task], Doing]) -> Doing:
        yield POINT
        while owner.attempt is None:
            yield POINT
        yield from meddle(owner)

    def _cancel(self, owner: Task) -> Doing:
        # From another process, where there is one.
        yield from self.drivers[owner.worker - 1].fences.cancel(f"T{owner.number}")
        self.world.fenced.add(owner.number)

    def _halt(self, owner: Task, *, agent: bool = False) -> Doing:
        halts = self.drivers[owner.worker - 1].halts
        what = (None, None, f"agent {owner.number}") if agent else (None, f"T{owner.number}", None)
        found = yield from halts.halt(*what, by="eve", because="odd", wait=1e9)
        if not found.silent:
            raise ViolatedError("a halt returned before what it covers had come to rest")
        self.world.halted.add(owner.number)
        yield POINT
        self.world.halted.discard(owner.number)
        yield from halts.resume(found.halt.number, by="eve")

    def _abort(self, owner: Task) -> Doing:
        attempt = owner.attempt
        assert attempt is not None
        txn = attempt.live
        yield from self.driver_of(owner).undoing.abort(attempt, Reason.FAILED)
        if not txn.finished:
            raise ViolatedError("an abort returned before its end")

    def _cut_off(self, owner: Task) -> Doing:
        owner.cut = owner.entered < len(owner.plans) - 1
        yield from ()

    def _change(self, what: str) -> Doing:
        yield POINT
        self.world.change(what)

    def _hold(self, holder: Task, name: str, members: list[Task]) -> Doing:
        driver, title = self.driver_of(holder), f"H{holder.number}"
        options = self._options(holder, retry=False)
        options["declared"] = [SCOPES[name]]
        attempt = holder.attempt = yield from driver.entrance.begin(title, title, **options, role="hold")
        while not all(self.has_begun(member) for member in members):
            yield POINT
        yield POINT
        yield from driver.settling.commit(attempt)

    def _advance(self, name: str) -> Doing:
        yield POINT
        protocol, scope = self.protocol, SCOPES[name]
        epoch = protocol.next_epoch - 1
        before = protocol.freeze()
        try:
            yield from self.drivers[0].advance(scope, epoch)
        except ContractViolation:
            if protocol.freeze() != before:
                raise ViolatedError("an advance was refused, and something moved") from None
        else:
            self.advanced.append((scope, (epoch, LAST)))
            if protocol.floor(scope) < epoch:
                raise ViolatedError("an advance left the floor below it")


def _divided(program: Program, mark: str) -> list[Program]:
    """Return what stands between the marks of a program.

    >>> _divided(("ex", "/", "sy", "ex"), "/")
    [('ex',), ('sy', 'ex')]
    """
    ends = [-1, *(n for n, op in enumerate(program) if op == mark), len(program)]
    return [program[a + 1 : b] for a, b in pairwise(ends)]


def _without(program: Program, places: set[int]) -> Program:
    return tuple(NOT_HERE if place in places else op for place, op in enumerate(program))


def _unchanged(effect: Effect, _arguments: Mapping[str, Any]) -> Effect:
    return effect


__all__ = ["Tasks"]
