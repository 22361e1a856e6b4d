"""One run of an explored engine: who can move, what a move does, and what must hold after every one of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import GeneratorType
from typing import Any, cast

from tests.core.explorer.answered import Returning, answered
from tests.core.explorer.cells import READS, SCOPES, World, conflict, touches
from tests.core.explorer.operations import UNIT
from tests.core.explorer.plan import POINT, Doing, Plan, Task, ViolatedError
from tests.core.explorer.tasks import Tasks
from tests.rooms.acts import Recorded, Sleep, Together
from tests.rooms.edges import Ended
from tests.rooms.model import ID_DIGITS
from tests.rooms.protocol import Chronicle, Txn

from settlemark import Budget, Effect, Scope, State
from settlemark.history import ANOMALIES, OpRecord, analyze
from settlemark.hosting import Act, Driver, Protocol, Wait, in_words
from settlemark.ledger import Ledger, MemoryLedger

_MAX_EPOCHS = 60


class _FixedLedger(MemoryLedger):
    """A ledger of no random id: two runs that move alike make the same keys."""

    def __init__(self, *, protocol: Protocol) -> None:
        super().__init__(protocol=protocol)
        self.id = "0" * ID_DIGITS


class _SlowLedger(_FixedLedger):
    """A ledger whose every step is waited for: others move before it is answered."""

    immediate = False


class Run(Tasks):
    """One fresh engine with its tasks, moved by a schedule."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World()
        self.history: list[OpRecord] = []
        self.workers = () if plan.store is None else plan.store(plan.protocol)
        alone = _SlowLedger if plan.durable else _FixedLedger
        self.ledgers: Sequence[Ledger] = self.workers or [alone(protocol=plan.protocol())]
        self.replicas = [ledger.protocol for ledger in self.ledgers]
        self.protocol = self.replicas[0]
        self.chronicle = self.protocol.chronicle = Chronicle(lambda record: self.history.append(OpRecord(**record)))
        self.drivers = [
            Driver(ledger, clock=_zero, monotonic=self._seconds, parts=plan.parts) for ledger in self.ledgers
        ]
        for each in self.drivers:
            each.kernel.warns = False
            if plan.budget is not None:
                each.kernel.budgets = (Budget(UNIT, plan.budget, per="namespace"),)
        self._looking: int | None = None
        self.decided: list[tuple[int, tuple[int, str], list[tuple[int, str, str]]]] = []
        self.order: list[tuple[int, int]] = []
        self.deciders: dict[tuple[int, int], Txn] = {}
        self.attempts = []
        self.advanced = []
        self.names = {}
        self.asked = None
        self._seen_decided: set[int] = set()
        self._floors: dict[tuple[int, str], int] = {}
        self.tasks = []
        self.cast(len(self.workers), len(self.ledgers))
        self.mover = self.tasks[0]
        self._outside = bool(plan.outside)

    def _seconds(self) -> float:
        return float(self.world.seconds)

    def anomalies(self) -> set[str]:
        """Return which of the four the history has up to now."""
        point = analyze(self.history).point
        return {anomaly for anomaly in ANOMALIES if anomaly not in point}

    # ---- moving

    def ready(self) -> list[int]:
        """Return the tasks that can move, and behind them the workers that have something to keep up with."""
        found: list[int] = []
        for task in self.tasks:
            if task.maintains and task.request is POINT and not self.replicas[task.worker].has_aborted:
                continue
            if task.done or (type(task.request) is Wait and not task.request.ticket.fired):
                continue
            if type(task.request) is Together and not all(part.done for part in task.parts):
                continue
            if task.after is not None and task.attempt is None and not self.has_begun(task.after):
                continue
            found.append(task.number)
        if self._looking is not None:
            # What a worker saw shows in what it does next: whoever moves in between might as well have moved before.
            its_own = [number for number in found if self.tasks[number].worker == self._looking]
            if its_own:
                return its_own
        return found + [len(self.tasks) + number for number, worker in enumerate(self.workers) if worker.due]

    def move(self, number: int) -> None:
        """Let one task do its next act or step, up to its next choice; or a worker keep up."""
        self._looking = None
        if number >= len(self.tasks):
            worker = number - len(self.tasks)
            self._looking = None if self.workers[worker].queue.steps else worker
            self.workers[worker].keep()
            self._observe()
            return
        self.mover = task = self.tasks[number]
        if self._outside:
            task.before, task.now = task.now, self.world.now()
        try:
            self._go_on(task)
        except Exception as error:
            if isinstance(error, ViolatedError):
                raise
            raise ViolatedError(f"the engine broke down: {in_words(error)}") from error
        self._observe()

    def _go_on(self, task: Task) -> None:
        request = task.request
        while True:
            answer, failure = answered(request)
            if type(answer) is GeneratorType:
                task.stack.append(cast("Doing", answer))  # a tool that takes more than one move
                answer = None
            elif type(request) is Act and self.plan.durable:
                task.request = Returning(Ended(answer, failure))
                return
            elif type(request) is Together:
                answer = [part.ended for part in task.parts[: len(request.programs)]]
            request = self._resume(task, answer, failure)
            at_once = Sleep if self.plan.durable else (Recorded, Sleep)
            if isinstance(request, at_once) or (type(request) is Wait and request.ticket.fired):
                continue
            task.request = request
            if type(request) is Together:
                self._spread(task, request)
            elif type(request) is Wait and task.holder is not None:
                self._check_work(task, request)
            return

    def _resume(self, task: Task, answer: Any, failure: BaseException | None) -> Any:
        """Give a task what it asked for, and return what it asks for next; None when it is done."""
        asked, self.asked = self.asked, None
        while task.stack:
            doing = task.stack[-1]
            try:
                request = doing.send(answer) if failure is None else doing.throw(failure)
            except StopIteration as stop:
                answer, failure = stop.value, None
            except ViolatedError:
                raise
            except Exception as error:
                answer, failure = None, error
            else:
                if asked is not None and type(request) is Act and not request.final:
                    self._check_asked(asked.live)
                return request
            task.stack.pop()
        task.done = True
        if not task.branch:
            if failure is not None:
                raise failure
            return None
        task.ended = Ended(answer, failure)
        return None

    def _spread(self, task: Task, request: Together) -> None:
        task.began = True
        for part, program in zip(task.parts, request.programs, strict=False):
            part.stack, part.request, part.done, part.ended = [program], POINT, False, Ended(None)

    # ---- what must hold

    def check_floors(self) -> None:
        """Hold the floors to their law: none ever goes back; and the replicas to theirs: they are alike."""
        for number, replica in enumerate(self.replicas):
            for name, scope in SCOPES.items():
                floor = replica.floor(scope)
                if floor < self._floors.get((number, name), 0):
                    raise ViolatedError("a floor went back")
                self._floors[number, name] = floor
        frozen = {worker.protocol.freeze() for worker in self.workers if not worker.unseen()}
        if len(frozen) > 1:
            raise ViolatedError("the replicas differ")

    def _observe(self) -> None:
        world = self.world
        if self.protocol.next_epoch > _MAX_EPOCHS:
            raise ViolatedError("restamps without end")
        if world.acted_late:
            raise ViolatedError("a cancelled run acted after its fence, or a halted one before it was resumed")
        if world.wrong_undo:
            raise ViolatedError("an undo met another's write")
        if world.unsaid:
            raise ViolatedError("an act was taken back before that was on record")
        if world.left_early:
            raise ViolatedError("an effect left before somebody had said yes")
        if world.left_stale:
            raise ViolatedError("an effect left although what was read live had changed")
        for txn in (attempt.live for attempt in self.attempts):
            if id(txn) in self._seen_decided or txn.state not in (State.RELEASING, State.COMMITTED):
                continue
            self._seen_decided.add(id(txn))
            self._decide(txn)

    @staticmethod
    def _check_asked(txn: Txn) -> None:
        if txn.state not in (State.OPEN, State.RELEASING):
            raise ViolatedError("a call was tried again although its step had been undone")

    def _decide(self, txn: Txn) -> None:
        number, lap = self.number_of(txn.name)
        who = (number, txn.attempt + 10 * lap)
        self.order.append(who)
        self.deciders[who] = txn
        task = self.tasks[number]
        footprint = tuple(SCOPES[name] for _, _, name in touches(task.program))
        mine = touches(task.program)
        guards = self.plan.guards
        if guards.current and task.stale(self.world.now()):
            raise ViolatedError("what was read live had changed, and was settled on")
        if any(position >= txn.position and _overlap(footprint, (scope,)) for scope, position in self.advanced):
            raise ViolatedError("a transaction settled at or below an advanced floor")
        if task.branch:
            self._check_choice(task)
        if all(kind in READS for _, kind, _ in touches(task.program)):
            return
        self._check_holds(task, txn, footprint)
        for other, position, theirs in self.decided:
            # One that was decided and taken back before anything left comes again at the place it had.
            again = other == number and position == txn.position
            ordered = guards.current and guards.reads != "any"
            if ordered and position >= txn.position and not again and conflict(mine, theirs):
                raise ViolatedError("writers committed out of position order")
        self.decided.append((number, txn.position, mine))

    def _check_choice(self, task: Task) -> None:
        """Hold a choice to its law: one branch settles, when the others are over, and have been undone."""
        (choice,) = (other for other in self.tasks if task in other.parts)
        beside = {part.number for part in choice.parts} - {task.number}
        if any(number in beside for number, _ in self.order):
            raise ViolatedError("two branches of one choice settled")
        if any(self.number_of(a.name)[0] in beside and not a.live.finished for a in self.attempts):
            raise ViolatedError("a branch settled before the others were undone")

    @staticmethod
    def _check_work(task: Task, wait: Wait) -> None:
        hold = None if task.holder is None else task.holder.attempt
        if hold is not None and hold.name == wait.holder:
            raise ViolatedError("work waits for the hold it is done under")

    def _check_holds(self, task: Task, txn: Txn, footprint: tuple[Scope, ...]) -> None:
        for holder in self.tasks:
            if not holder.scope or holder.attempt is None or holder.attempt.live.finished:
                continue
            younger = txn.position > holder.attempt.live.position
            if task.holder is holder and younger:
                raise ViolatedError("work settled behind the hold it was done under")
            if younger and _overlap(footprint, (SCOPES[holder.scope],)):
                raise ViolatedError("a younger one settled on what was held for work to come")

    # ---- what is the same

    def spent(self) -> tuple[int, int]:
        """Return what is charged to the budget, and what is reserved of it, in the one ledger in memory."""
        ledger = self.ledgers[0]
        assert isinstance(ledger, MemoryLedger), "the budget of a store is not looked at at every moment"
        bucket = ledger.book.purse.bucket(UNIT, "namespace")
        return (0, 0) if bucket is None else (int(bucket.charged), int(bucket.reserved))

    def check_budget(self) -> None:
        """See that no more is spent than there is, by the record or in the world.

        Raises:
            ViolatedError: there is.
        """
        if self.plan.budget is None:
            return
        stands = len(self.world.sequence) - len(self.world.undone)
        if max(sum(self.spent()), stands) > self.plan.budget:
            raise ViolatedError("a budget was oversold")
        if stands > sum(self.spent()):
            raise ViolatedError("something was spent that no budget knows of")

    def signature(self) -> tuple[Any, ...]:
        """Return what makes two states of this run alike."""
        tasks = tuple(
            (
                task.step, task.done, task.gave_up, task.failed, task.committed, task.partial, task.laps, task.said,
                task.entered, task.cut,
                type(task.request) is Returning,
                tuple(_frames(doing) for doing in task.stack),
                type(task.request) is Wait and not task.request.ticket.fired,
                tuple(task.reads), tuple(task.watched), task.now,
                tuple((e.position, e.outcome, e.tag) for e in task.attempt.effects.values()) if task.attempt else (),
            )
            for task in self.tasks
        )  # fmt: skip # a table of values
        replicas = [worker.freeze() for worker in self.workers] or [self.protocol.freeze()]
        beside: tuple[Any, ...] = (self._looking, self.world.picture(), len(self.advanced))
        if self.plan.budget is not None:
            beside += (self.spent(),)
        if self.plan.weakened:
            # Also what is decided and not told yet: a tool may be gone by then, or only afterwards.
            told = [OpRecord(**record) for record in self.chronicle.waiting()]
            decided = tuple((record.id, tuple(record.write_registry)) for record in told)
            beside += (tuple(self.world.sequence), tuple(sorted(self.anomalies())), decided)
        return (*replicas, *beside, tasks, tuple(self.order))


def _zero() -> float:
    return 0.0


def _overlap(some: tuple[Scope, ...], others: tuple[Scope, ...]) -> bool:
    return any(a.overlaps(b) for a in some for b in others)


def _frames(generator: Any) -> tuple[Any, ...]:
    """Where a chain of generators stands, and for whom."""
    found: list[Any] = []
    while isinstance(generator, GeneratorType):
        frame = generator.gi_frame
        if frame is None:
            break
        effect, txn = frame.f_locals.get("effect"), frame.f_locals.get("txn")
        found.append(
            (
                frame.f_code.co_name,
                frame.f_lasti,
                effect.key if isinstance(effect, Effect) else None,
                (txn.name, txn.attempt) if isinstance(txn, Txn) else None,
            )
        )
        generator = cast("Any", generator).gi_yieldfrom
    return tuple(found)


__all__ = ["Run"]
