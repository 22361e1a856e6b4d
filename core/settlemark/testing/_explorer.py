"""Every interleaving of small transaction programs, run by the real protocol, driver and ledger.

A program is a string of operations: `r` read, `e` reversible, `o` opaque, `s` staged, `i`
irreversible, `u` a reversible whose answer is lost, `j` an irreversible that is refused for good,
each on `x`, `y`, their parent `p`, a wildcard `w` that overlaps x, or `z`; `f` fails. `"rx sx"` reads x
and stages a write to it.

The explorer replays schedules on fresh engines and prunes by what `freeze` calls equal, so it needs
no copy of a running generator. What it checks is judged from the world's own log, not the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from types import GeneratorType
from typing import TYPE_CHECKING, Any, cast

from settlemark._acting import Retries
from settlemark._attempt import Attempt, OnFailure
from settlemark._driver import Driver
from settlemark._effect import Declaration, Effect, EffectClass, Handler
from settlemark._errors import PartialCommit, Refused, SettlemarkError, Stale, Wounded
from settlemark._protocol import Protocol
from settlemark._requests import Act, Recorded, Sleep, Wait
from settlemark._runners import call_with_current
from settlemark._scope import Scope
from settlemark._states import Reason, State
from settlemark._txn import Txn
from settlemark.ledger import Ledger, MemoryLedger
from settlemark.testing._cells import CELLS, SCOPES, Value, World
from settlemark.testing._judgement import judge

if TYPE_CHECKING:
    from settlemark.testing._stores import SteppedLedger

_CLASSES = {
    "r": EffectClass.READ, "e": EffectClass.REVERSIBLE, "u": EffectClass.REVERSIBLE, "o": EffectClass.OPAQUE,
    "s": EffectClass.STAGED, "i": EffectClass.IRREVERSIBLE, "j": EffectClass.IRREVERSIBLE,
}  # fmt: skip
_POINT = object()
_MAX_EPOCHS = 60

Programs = tuple[tuple[str, ...], ...]
Store = Callable[[Callable[[], Protocol]], "Sequence[SteppedLedger]"]
"""Returns the ledgers of workers on one store, which nobody has used."""
_Read = tuple[int, tuple[tuple[int, Value], ...]]


class _SlowLedger(MemoryLedger):
    """A ledger whose every step is waited for: others move before it is answered."""

    immediate = False


@dataclass(frozen=True, slots=True)
class _Returning:
    """An act that has happened and whose answer is still on its way."""

    answer: Any
    failure: BaseException | None


class ProgramFailedError(Exception):
    """The operation `f`: the transaction's own failure."""


@dataclass(slots=True)
class _Task:
    number: int
    program: tuple[str, ...]
    generator: Generator[Any, Any, Any]
    begins: bool = True
    worker: int = 0
    tends: bool = False
    attempt: Attempt | None = None
    step: int = 0
    request: Any = _POINT
    done: bool = False
    gave_up: bool = False
    failed: bool = False
    reads: list[_Read] = field(default_factory=list[_Read])
    committed: int = 0
    partial: bool = False
    laps: int = 0


@dataclass(slots=True)
class Exploration:
    """What exploring one set of programs found.

    Attributes:
        states: how many different states were reached.
        finals: how many of them were ends.
        violations: for each kind, the schedule (which task moved) that shows it.
        attempts: the most attempts any transaction needed.
    """

    states: int = 0
    finals: int = 0
    gave_up: int = 0
    attempts: int = 0
    violations: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    ends: set[tuple[Any, ...]] = field(default_factory=set[tuple[Any, ...]])


class _Violated(Exception):
    pass


class Run:
    """One fresh engine with its tasks, moved by a schedule."""

    def __init__(
        self,
        programs: Programs,
        protocol: Callable[[], Protocol],
        driver: type[Driver],
        *,
        declared: frozenset[int],
        loops: dict[int, int],
        tries: int,
        siblings: dict[int, tuple[str, ...]],
        on_failure: OnFailure,
        durable: bool,
        cancelled: frozenset[int],
        aborted: frozenset[int],
        store: Store | None,
    ) -> None:
        self.durable = durable
        self.on_failure: OnFailure = on_failure
        self.world = World()
        self.workers = () if store is None else store(protocol)
        alone = _SlowLedger if durable else MemoryLedger
        self.ledgers: Sequence[Ledger] = self.workers or [alone(protocol=protocol())]
        self.replicas = [ledger.protocol for ledger in self.ledgers]
        self.protocol = self.replicas[0]
        self.drivers = [driver(ledger, clock=_zero, monotonic=_zero) for ledger in self.ledgers]
        for each in self.drivers:
            each.warns = False
        self._looking: int | None = None
        self.tries = tries
        self.declared = declared
        self.loops = loops
        self.decided: list[tuple[Txn, int, tuple[Scope, ...]]] = []
        self.order: list[tuple[int, int]] = []
        self.deciders: dict[tuple[int, int], Txn] = {}
        self.attempts: list[Attempt] = []
        self._seen_decided: set[int] = set()
        self._floors: dict[tuple[int, str], int] = {}
        count = len(self.ledgers)
        self.tasks = [_Task(n, tuple(p), self._nothing(), worker=n % count) for n, p in enumerate(programs)]
        for task in self.tasks:
            task.generator = self._transaction(task)
        for owner, program in siblings.items():
            late = _Task(len(self.tasks), program, self._nothing(), begins=False, worker=owner % count)
            late.generator = self._sibling(late, self.tasks[owner])
            self.tasks.append(late)
        for number in sorted(cancelled):
            self.tasks.append(self._meddler(self.tasks[number], self._cancel))
        for number in sorted(aborted):
            self.tasks.append(self._meddler(self.tasks[number], self._abort))
        for worker in range(len(self.workers)):
            tender = _Task(len(self.tasks), (), self._tend(worker), begins=False, worker=worker, tends=True)
            self.tasks.append(tender)

    @staticmethod
    def _nothing() -> Generator[Any, Any, Any]:
        yield from ()

    # ---- what a task does

    def _driver(self, task: _Task) -> Driver:
        return self.drivers[task.worker]

    def _tend(self, worker: int) -> Generator[Any, Any, Any]:
        while True:
            yield from self.drivers[worker].tend()
            yield _POINT

    def _transaction(self, task: _Task) -> Generator[Any, Any, Any]:
        while True:
            name = f"T{task.number}" if not task.laps else f"T{task.number}.{task.laps}"
            footprint: set[Scope] = set()
            if task.number in self.declared:
                footprint = {SCOPES[op[1]] for op in task.program if op != "f"}
            attempt = yield from self._driver(task).begin(
                name,
                name,
                known=False,
                declared=sorted(footprint, key=str),
                hooks=(),
                wait=1e9,
                on_failure=self.on_failure,
                retries=Retries(tries=2, first=0.0),
                retry=True,
            )
            yield from self._attempts(task, attempt)
            if task.laps >= self.loops.get(task.number, 0):
                return
            task.laps += 1
            task.step = 0
            yield _POINT

    def _attempts(self, task: _Task, attempt: Attempt) -> Generator[Any, Any, Any]:
        while True:
            task.attempt = attempt
            self._watch(attempt)
            task.step, task.reads = 0, []
            try:
                for step, op in enumerate(task.program):
                    task.step = step
                    yield _POINT
                    if op == "f":
                        raise ProgramFailedError
                    yield from self._call(task, attempt, op, step)
                task.step = len(task.program)
                yield _POINT
                yield from self._driver(task).commit(attempt)
            except (Stale, Wounded):
                last = attempt.number >= self.tries
                again = yield from self._driver(task)._retry(attempt, last=last)  # noqa: SLF001 - as `Driver.run` does
                if again is None:
                    task.gave_up = True
                    return
                attempt = again
                continue
            except PartialCommit:
                task.committed, task.partial = attempt.number, True
                return
            except (ProgramFailedError, Refused):
                yield from self._driver(task).abort(attempt, Reason.FAILED)
                yield from self._driver(task)._abandon(attempt)  # noqa: SLF001
                task.failed = True
                return
            task.committed = attempt.number
            return

    def _sibling(self, late: _Task, owner: _Task) -> Generator[Any, Any, Any]:
        for step, op in enumerate(late.program):
            late.step = step
            yield _POINT
            while owner.attempt is None:
                yield _POINT
            try:
                yield from self._call(late, owner.attempt, op, 10 + step)
            except SettlemarkError:
                return

    def _meddler(self, owner: _Task, meddle: Callable[[_Task], Generator[Any, Any, Any]]) -> _Task:
        def waits_its_time() -> Generator[Any, Any, Any]:
            yield _POINT
            while owner.attempt is None:
                yield _POINT
            yield from meddle(owner)

        return _Task(len(self.tasks), (), waits_its_time(), begins=False)

    def _cancel(self, owner: _Task) -> Generator[Any, Any, Any]:
        # From another process, where there is one.
        yield from self.drivers[owner.worker - 1].cancel(f"T{owner.number}")
        self.world.fenced.add(owner.number)

    def _abort(self, owner: _Task) -> Generator[Any, Any, Any]:
        attempt = owner.attempt
        assert attempt is not None
        txn = attempt.live
        yield from self._driver(owner).abort(attempt, Reason.FAILED)
        if not txn.finished:
            raise _Violated("an abort returned before its end")

    def _call(self, task: _Task, attempt: Attempt, op: str, step: int) -> Generator[Any, Any, Any]:
        kind, name = op[0], op[1]
        world, number = self.world, int(attempt.name[1:].split(".")[0])
        value = (number, attempt.number + 10 * task.laps, step)
        before: list[tuple[Value, ...]] = []

        def read() -> None:
            seen: list[tuple[int, Value]] = []
            for cell in CELLS[name]:
                staged = [e.arguments["step"] for e in attempt.in_order() if _stages(e, cell)]
                seen.append((cell, (*value[:2], staged[-1]) if staged else world.values[cell]))
            task.reads.append((len(self.order), tuple(seen)))

        def write() -> Value:
            if kind == "j":
                raise ValueError("refused for good")
            before.append(world.write(name, value))
            if kind in "si":
                world.released.append(value)
            if kind == "u" and len(before) == 1:
                raise TimeoutError("the answer was lost")
            return value

        def undo() -> None:
            world.restore(name, value, before[0])

        def probe() -> Any:
            return value if before else None

        reversible = kind in "eu"
        declaration = Declaration(
            tool=op, kind=_CLASSES[kind], undo=Handler(undo, op) if reversible else None,
            probe=Handler(probe, op) if kind == "u" else None,
        )  # fmt: skip
        arguments = {"step": step, "scope": name} if kind != "r" else {}
        effect = Effect(declaration, (SCOPES[name],), arguments, read if kind == "r" else write)
        attempt.place(effect)
        yield from self._driver(task).call(attempt, effect)

    # ---- moving

    def ready(self) -> list[int]:
        """Return the tasks that can move, and behind them the workers that have something to keep up with."""
        found: list[int] = []
        for task in self.tasks:
            if task.tends and task.request is _POINT and not self.replicas[task.worker].has_aborted:
                continue
            if task.done or (type(task.request) is Wait and not task.request.ticket.fired):
                continue
            # Epochs are given in the order of the numbers: other orders are other sets of programs.
            if task.attempt is None and task.number and not self._begun(task.number - 1):
                continue
            found.append(task.number)
        if self._looking is not None:
            # What a worker saw shows in what it does next: whoever moves in between might as well have moved before.
            its_own = [number for number in found if self.tasks[number].worker == self._looking]
            if its_own:
                return its_own
        return found + [len(self.tasks) + number for number, worker in enumerate(self.workers) if worker.due]

    def _begun(self, number: int) -> bool:
        task = self.tasks[number]
        return task.attempt is not None or task.done or not task.begins

    def move(self, number: int) -> None:
        """Let one task do its next act or step, up to its next choice; or a worker keep up."""
        self._looking = None
        if number >= len(self.tasks):
            worker = number - len(self.tasks)
            self._looking = None if self.workers[worker].queued else worker
            self.workers[worker].keep()
            self._observe()
            return
        task = self.tasks[number]
        request = task.request
        generator = task.generator
        try:
            while True:
                answer: Any = None
                failure: BaseException | None = None
                if type(request) is Act:
                    try:
                        answer = call_with_current(request)
                    except Exception as error:
                        failure = error
                    if self.durable:
                        task.request = _Returning(answer, failure)
                        break
                elif type(request) is _Returning:
                    answer, failure = request.answer, request.failure
                elif type(request) is Wait:
                    answer = True
                elif type(request) is Recorded:
                    failure = cast("Exception | None", request.pending.exception())
                    answer = None if failure is not None else request.pending.result()
                request = generator.send(answer) if failure is None else generator.throw(failure)
                at_once = Sleep if self.durable else (Recorded, Sleep)
                if isinstance(request, at_once) or (type(request) is Wait and request.ticket.fired):
                    continue
                task.request = request
                break
        except StopIteration:
            task.done = True
            task.request = None
        except Exception as error:
            raise _Violated(f"the engine broke down: {type(error).__name__}: {error}") from error
        self._observe()

    def _watch(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)

    def check_floors(self) -> None:
        """Hold the floors to their law: none ever goes back; and the replicas to theirs: they are alike."""
        for number, replica in enumerate(self.replicas):
            for name, scope in SCOPES.items():
                floor = replica.floor(scope)
                if floor < self._floors.get((number, name), 0):
                    raise _Violated("a floor went back")
                self._floors[number, name] = floor
        frozen = {worker.protocol.freeze() for worker in self.workers if not worker.unseen()}
        if len(frozen) > 1:
            raise _Violated("the replicas differ")

    def _observe(self) -> None:
        if self.protocol.next_epoch > _MAX_EPOCHS:
            raise _Violated("restamps without end")
        if self.world.acted_late:
            raise _Violated("a cancelled run acted after its fence")
        if self.world.wrong_undo:
            raise _Violated("an undo met another's write")
        for txn in (attempt.live for attempt in self.attempts):
            if id(txn) in self._seen_decided or txn.state not in (State.RELEASING, State.COMMITTED):
                continue
            self._seen_decided.add(id(txn))
            self._decide(txn)

    def _decide(self, txn: Txn) -> None:
        number, lap = _number(txn.name)
        who = (number, txn.attempt + 10 * lap)
        self.order.append(who)
        self.deciders[who] = txn
        task = self.tasks[number]
        footprint = tuple(SCOPES[op[1]] for op in task.program if op != "f")
        writes = any(op[0] not in "rf" for op in task.program)
        if not writes:
            return
        for _, position, other in self.decided:
            if any(a.overlaps(b) for a in footprint for b in other) and position >= txn.epoch:
                raise _Violated("writers committed out of position order")
        self.decided.append((txn, txn.epoch, footprint))

    def signature(self) -> tuple[Any, ...]:
        """Return what makes two states of this run alike."""
        tasks = tuple(
            (
                task.step, task.done, task.gave_up, task.failed, task.committed, task.partial, task.laps,
                type(task.request) is _Returning,
                _frames(task.generator),
                type(task.request) is Wait and not task.request.ticket.fired,
                tuple(task.reads),
                tuple((e.position, e.outcome, e.tag) for e in task.attempt.effects.values()) if task.attempt else (),
            )
            for task in self.tasks
        )  # fmt: skip
        replicas = [worker.freeze() for worker in self.workers] or [self.protocol.freeze()]
        return (*replicas, self._looking, self.world.picture(), tasks, tuple(self.order))


def _zero() -> float:
    return 0.0


def _number(name: str) -> tuple[int, int]:
    number, _, lap = name[1:].partition(".")
    return int(number), int(lap or 0)


def _stages(effect: Effect, cell: int) -> bool:
    return effect.declaration.kind is EffectClass.STAGED and cell in CELLS[effect.arguments["scope"]]


def _frames(generator: Any) -> tuple[Any, ...]:
    """Where a chain of generators stands, and for whom."""
    found: list[Any] = []
    while isinstance(generator, GeneratorType):
        frame = generator.gi_frame
        if frame is None:
            break
        effect, txn = frame.f_locals.get("effect"), frame.f_locals.get("txn")
        found.append((
            frame.f_code.co_name, frame.f_lasti,
            effect.key if isinstance(effect, Effect) else None,
            (txn.name, txn.attempt) if isinstance(txn, Txn) else None,
        ))  # fmt: skip
        generator = cast("Any", generator).gi_yieldfrom
    return tuple(found)


def parse(text: str) -> tuple[str, ...]:
    """Return a program from its text.

    >>> parse("rx sx")
    ('rx', 'sx')
    """
    return tuple(text.split())


def explore(  # noqa: PLR0913 - each is one more thing that may happen at any moment
    *programs: str | tuple[str, ...],
    protocol: Callable[[], Protocol] = Protocol,
    driver: type[Driver] = Driver,
    declared: Iterable[int] = (),
    loops: dict[int, int] | None = None,
    tries: int = 2,
    siblings: dict[int, str] | None = None,
    on_failure: OnFailure = "abort",
    durable: bool = False,
    cancelled: Iterable[int] = (),
    aborted: Iterable[int] = (),
    limit: int = 200_000,
    first_violation: bool = False,
    store: Store | None = None,
    shuffled: int | None = None,
) -> Exploration:
    """Explore every interleaving of these programs and judge every end.

    Args:
        programs: one text (or tuple of operations) a transaction, in the order in which they begin.
        protocol: makes the protocol under test, or a mutant of it.
        driver: the driver under test, or a mutant of it.
        declared: the numbers of those that declare their footprint when they begin.
        loops: how often a transaction begins anew after its end, by number.
        tries: attempts before a transaction gives up.
        siblings: operations that a second thread of a transaction does at any time, by number.
        on_failure: what a failed call does.
        durable: let others move between each write to the ledger and its answer, and between each
            act and its return.
        cancelled: the numbers of those whose run somebody cancels at any time.
        aborted: the numbers of those that somebody else aborts at any time.
        limit: the most states to visit.
        first_violation: stop at the first.
        store: makes the ledgers of several workers on a store, to whom the transactions are dealt out;
            then a worker may also keep up with the others, and tend what they aborted, at any time.
        shuffled: the seed of a random order in which states are visited, so that `limit` takes a sample.

    >>> found = explore("ex", "rx sy")
    >>> found.violations, found.finals > 0
    ({}, True)
    """
    parsed = tuple(parse(p) if isinstance(p, str) else tuple(p) for p in programs)
    late = {number: parse(text) for number, text in (siblings or {}).items()}

    def fresh() -> Run:
        return Run(
            parsed,
            protocol,
            driver,
            declared=frozenset(declared),
            loops=loops or {},
            tries=tries,
            siblings=late,
            on_failure=on_failure,
            durable=durable,
            cancelled=frozenset(cancelled),
            aborted=frozenset(aborted),
            store=store,
        )

    result = Exploration()
    seen: set[Any] = set()
    branches: list[list[int]] = [[]]
    chance = None if shuffled is None else Random(shuffled)  # noqa: S311 - a sample, no secret
    while branches and result.states < limit:
        schedule = branches.pop(-1 if chance is None else chance.randrange(len(branches)))
        run = fresh()
        try:
            for number in schedule:
                run.move(number)
            while True:
                run.check_floors()
                signature = run.signature()
                if signature in seen:
                    break
                seen.add(signature)
                result.states += 1
                choices = run.ready()
                if not choices:
                    _judge(run, result, schedule)
                    break
                if chance is not None:
                    chance.shuffle(choices)
                branches.extend([*schedule, number] for number in choices[1:])
                schedule = [*schedule, choices[0]]
                run.move(choices[0])
        except _Violated as violated:
            result.violations.setdefault(str(violated), schedule)
        if first_violation and result.violations:
            break
    return result


def _judge(run: Run, result: Exploration, schedule: list[int]) -> None:
    result.finals += 1
    if not all(task.done or (task.tends and task.request is _POINT) for task in run.tasks):
        result.violations.setdefault("deadlock", schedule)
        return
    result.gave_up += any(task.gave_up for task in run.tasks)
    result.attempts = max([result.attempts, *(t.attempt.number for t in run.tasks if t.attempt is not None)])
    for name in judge(run):
        result.violations.setdefault(name, schedule)
    outcome = tuple((task.committed, task.failed, task.gave_up) for task in run.tasks if not task.tends)
    result.ends.add((outcome, tuple(run.order), tuple(run.world.values)))


__all__ = ["Exploration", "Programs", "explore", "parse"]
