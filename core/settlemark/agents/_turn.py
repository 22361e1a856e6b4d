"""One turn of a model whose calls a framework runs: each is told the last word on it, when the turn has settled."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from settlemark._acts.effect import Effect
from settlemark._acts.gate import Approver
from settlemark._acts.once import Once
from settlemark._acts.perform import Program
from settlemark._acts.requests import Wait
from settlemark._api.transaction import Queued
from settlemark._edges.errors import Cancelled, Refused, SettlemarkError
from settlemark._engine.turn import Turn
from settlemark._protocol.holdings import Ticket, fire
from settlemark._protocol.states import State
from settlemark.agents._batch import Batch, BatchCall, Control, Remake, too_late
from settlemark.agents._call import Call
from settlemark.agents._recalled import Decision
from settlemark.agents._words import Undone, words

TRIES = 20
"""How often a turn that loses races is tried in all."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A turn that has begun: its batch, and the seats in it of the calls that were not answered before."""

    batch: Batch
    seats: Mapping[int, BatchCall]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of a turn.

    Attributes:
        calls: all of it.
        known: of those that were decided before, what is on record, or why they are refused.
        name: the transaction's, or None when nothing in it acts.
        order: one that it keeps with other turns.
    """

    calls: Sequence[Call]
    known: Mapping[int, Decision | SettlemarkError]
    name: str | None
    order: Turn | None


class TurnHost(Protocol):
    """What a turn asks of the work that it belongs to; see `Work`."""

    name: str

    @property
    def patience(self) -> float:
        """Seconds after which a call that has not come is taken for answered by the framework itself."""
        ...

    @property
    def let_through(self) -> Control:
        """The framework's control flow: exceptions that put a turn aside, to be gone on with."""
        ...

    def now(self) -> float:
        """Return the time in seconds, from any fixed point."""
        ...

    def plan(self, turn: AgentTurn) -> Program:
        """Return what is to become of a turn."""
        ...

    def open(self, plan: Plan) -> Program:
        """Begin a turn, and give its calls their seats."""
        ...


class AgentTurn:
    """One turn of a model. Get one from `Work.turn`, before its first call runs.

    The framework runs the calls as it likes, each through `perform`. Their effects act in issuance order; what is
    irreversible leaves when all have succeeded; the first that fails stops the later ones and undoes the earlier
    ones. A call that is answered when the turn has settled (`waits=True`) is told the last word on it. One that a
    framework wants answered before it runs the next (`waits=False`) may turn out to be undone: `corrections` has that.

    Attributes:
        calls: as the model issued them.
        alone: what else its model issued is not known.
    """

    def __init__(
        self,
        work: TurnHost,
        calls: Sequence[Call],
        *,
        because: str | None,
        before: AgentTurn | None,
        alone: bool = False,
        cut: BaseException | None = None,
    ) -> None:
        self.calls = tuple(calls)
        self.alone = alone
        self._work = work
        self._because = because
        self._before = before
        self._once = Once(work.name)
        self._come: set[int] = set()
        self._absent: set[int] = set()
        self._acting = 0
        self._moved = work.now()
        self._plan: Plan | None = None
        self._told: dict[int, str] = {}
        self._early = False
        self._opening = False
        self._cut = cut
        self._waiting: list[Ticket] = []
        self._lock = threading.Lock()

    @property
    def settled(self) -> bool:
        """Whether nothing of it is open any more."""
        opened = self._opened
        if opened is not None:
            return opened.batch.settled
        if self._once.failed is not None or (self._cut is not None and not self._opening):
            return True
        behind = not self.alone and self._before is not None and not self._before.settled
        return self._is_void and not self._opening and not behind

    @property
    def _is_void(self) -> bool:
        """Whether none of its calls comes."""
        return len(self._absent) == len(self.calls)

    @property
    def _opened(self) -> Opened | None:
        found: Opened | None = self._once.value
        return found

    def is_past(self, *, shared: bool) -> bool:
        """Whether none of its answers can turn out to be untrue any more."""
        return self.settled and not shared and not (self._early and self._untold())

    def _untold(self) -> bool:
        opened = self._opened
        if opened is None:
            return False
        untold = (seat for place, seat in opened.seats.items() if place not in self._told)
        return any(self._correction(opened.batch, seat) is not None for seat in untold)

    @property
    def is_undone(self) -> bool:
        """Whether it acted, and that was undone, or nobody knows what came of it; or it could not begin.

        Of a run that was cancelled nothing is ever to go on.
        """
        opened, failed = self._opened, self._once.failed
        if opened is None:
            return failed is not None and not isinstance(failed, Cancelled)
        txn = opened.batch.attempt.txn
        return opened.batch.refusal is not None or (txn is not None and txn.state in (State.ABORTING, State.ABORTED))

    def open_effects(self) -> list[Effect]:
        """Return what it has done in a transaction that is still open."""
        opened = self._opened
        if opened is None or opened.batch.attempt.txn is None or opened.batch.attempt.txn.finished:
            return []
        found = (opened.batch.acting(seat) for seat in opened.seats.values())
        return [effect for effect in found if effect is not None]

    # ---- calls

    def perform(
        self,
        place: int,
        run: Callable[[], Any],
        *,
        pack: Callable[[Any], Any] | None = None,
        unpack: Callable[[Any], Any] | None = None,
        ask: Approver | None = None,
        remake: Remake | None = None,
        waits: bool = True,
    ) -> Program:
        """Run a call in its turn, once, and return its result, or a `Queued`.

        Args:
            place: which of `calls`.
            run: runs the tool itself; a function without arguments, async or not.
            pack: makes of the tool's result what is recorded of it, a JSON value; `unpack` is its inverse.
            unpack: see `pack`.
            ask: asks for a person's yes where the tool is declared with `approve=`; see `Settlement(approver=)`.
            remake: returns what runs the call with other arguments, and these as the tool will get them.
            waits: answer when the turn has settled. The framework must run all of its calls beside each other.

        Raises:
            Refused, InDoubt, PartialCommit, UsageError: it did not run, or was undone, or nobody knows; `words` says
                it to a model. Else what the tool raised, or the framework's control flow.
        """
        self._arrive(place, waits=waits)
        run = self._counted(run)
        for tries in range(TRIES, 0, -1):
            once = self._once
            try:
                opened: Opened = yield from once.get(self._open)
                assert self._plan is not None, "it is opened"
                known = self._plan.known.get(place)
                if isinstance(known, Decision):
                    return known.answer(self.calls[place], unpack)
                yield from self._until_come(place)
            except (Exception, GeneratorExit):
                raise
            except BaseException as cut:
                self._withdraw(place)
                yield from self.abandon(cut)
                raise
            ended = yield from self._performed(
                opened, place, known, run, pack=pack, unpack=unpack, ask=ask, remake=remake, waits=waits
            )
            if opened.batch.lost_race and tries > 1 and not self._early:
                with self._lock:
                    if self._once is once:
                        self._once = Once(self._work.name)  # who comes first begins it again
                continue
            try:
                return ended()
            except Exception as error:
                self._told[place] = words(error)
                raise
        raise AssertionError

    def _performed(
        self,
        opened: Opened,
        place: int,
        known: SettlemarkError | None,
        run: Callable[[], Any],
        *,
        waits: bool,
        **how: Any,
    ) -> Program:
        """Run a call, say that it is over, and return what gives the last word on it."""
        batch, seat, call = opened.batch, opened.seats[place], self.calls[place]
        found: Any = None
        error: BaseException | None = known
        if known is None:
            try:
                found = yield from batch.perform(
                    seat, run, call.arguments, given=call.given, because=self._because, may_wait=waits, **how
                )
            except GeneratorExit:
                raise
            except BaseException as raised:
                error = raised
        try:
            if error is None or (isinstance(error, Exception) and not isinstance(error, self._work.let_through)):
                yield from batch.leave(seat, failed=None if error is None else words(error))
            else:
                yield from batch.leave(seat, error=error)
            if error is not None and not isinstance(error, Exception):
                raise error
            if waits:
                yield from batch.finish(seat)
        except GeneratorExit:
            raise
        except BaseException as cut:
            self._cut = self._cut or cut
            yield from batch.abandon(cut)
            raise
        return lambda: self._last_word(batch, seat, found, error)

    def _last_word(self, batch: Batch, seat: BatchCall, found: Any, error: BaseException | None) -> Any:
        if error is not None:
            raise error
        if batch.broken is not None:
            raise batch.broken
        if isinstance(found, Queued) and batch.settled and not batch.joined and not batch.suspended:
            effect = batch.acting(seat)
            assert effect is not None, "it was queued"
            return batch.result(effect)
        undone = batch.undone(seat)
        if undone is not None:
            raise Undone(undone, transaction=batch.attempt.name, epoch=None)
        return found

    def absent(self, place: int) -> None:
        """Say that a call will not come: the framework answers it itself, or nobody will."""
        with self._lock:
            if place in self._come or place in self._absent:
                return
            self._absent.add(place)
            opened = self._opened
        if opened is not None and place in opened.seats:
            _leave_out(opened.batch, opened.seats[place])
        self._wake()

    def _withdraw(self, place: int) -> None:
        """Take back that a call has come: it was cut short before it had its place."""
        with self._lock:
            self._come.discard(place)
        self.absent(place)

    def finish(self) -> Program:
        """Settle it, when the framework has gone on without the calls that have not come; and what it came behind."""
        for place in range(len(self.calls)):
            self.absent(place)
        before = self._before
        if self._opened is None and before is not None and not self.alone:
            yield from before.finish()
            self._before = None
        opened = self._opened
        if opened is not None:
            for seat in opened.seats.values():
                yield from opened.batch.finish(seat)

    def abandon(self, error: BaseException) -> Program:
        """End what a cancellation left unsettled; nothing of it acts any more, nor what comes to it later."""
        self._cut = self._cut or error
        opened = self._opened
        for place in range(len(self.calls)):
            self.absent(place)
        if opened is not None:
            yield from opened.batch.abandon(error)

    def corrections(self) -> dict[int, str]:
        """Return what a model is to be told of calls whose answers are not true any more, each once, by place."""
        opened = self._opened
        if opened is None:
            return {}
        found: dict[int, str] = {}
        for place, seat in opened.seats.items():
            if place in self._told:
                continue
            told = self._correction(opened.batch, seat)
            if told is not None:
                self._told[place] = found[place] = told
        return found

    @staticmethod
    def _correction(batch: Batch, seat: BatchCall) -> str | None:
        undone = batch.undone(seat)
        effect = batch.acting(seat)
        if undone is not None or effect is None or not effect.held or not batch.settled or batch.joined:
            return undone
        try:
            batch.result(effect)
        except Exception as error:
            return words(error)
        return None

    # ---- who has come

    def _arrive(self, place: int, *, waits: bool) -> None:
        now = self._work.now()
        with self._lock:
            late = place in self._absent
            self._come.add(place)
            self._moved = now
            self._early = self._early or not waits
        if late:
            raise Refused(
                f"{self.calls[place].tool} was called after its turn had gone on without it: nothing was run; issue it"
                " again",
                transaction=None, epoch=None,
            )  # fmt: skip
        self._refuse_late(self.calls[place].tool)
        self._wake()

    def _refuse_late(self, tool: str) -> None:
        """Return when it was not abandoned.

        Raises:
            Refused: it was.
        """
        if self._cut is not None:
            raise too_late(tool, self._cut, None)

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        fire(waiting)

    def _missing(self, below: int) -> list[int]:
        return [place for place in range(below) if place not in self._come and place not in self._absent]

    def _until_come(self, place: int) -> Program:
        """Wait until the calls issued before have come; who does not in time is taken for answered elsewhere."""
        patience = self._work.patience
        while self._missing(place):
            ticket = Ticket()
            with self._lock:
                self._waiting.append(ticket)
            if self._missing(place):
                yield Wait(ticket, patience, "calls issued before it", self._work.name)
                self._give_up()

    def _look(self) -> float | None:
        """Take for answered elsewhere what has not come, when nobody has moved since the last look."""
        opened = self._opened
        if opened is not None:
            self._tell_absent(opened)  # it may have been said while the turn was being opened
        self._give_up()
        return self._work.patience if self._missing(len(self.calls)) else None

    def _give_up(self) -> None:
        now, patience = self._work.now(), self._work.patience
        with self._lock:
            idle = not self._acting and now - self._moved >= patience
        for place in self._missing(len(self.calls)) if idle else ():
            self.absent(place)

    def _counted(self, run: Callable[[], Any]) -> Callable[[], Any]:
        """Return what runs a tool so that it is known how many act: as long as one does, others may still come."""
        if inspect.iscoroutinefunction(run):

            async def acting() -> Any:
                self._moves(1)
                try:
                    return await run()
                finally:
                    self._moves(-1)

            return acting

        def act() -> Any:
            self._moves(1)
            try:
                return run()
            finally:
                self._moves(-1)

        return act

    def _moves(self, more: int) -> None:
        now = self._work.now()
        with self._lock:
            self._acting += more
            self._moved = now

    # ---- its beginning

    def _open(self) -> Program:
        self._opening = True
        try:
            before = self._before
            if before is not None:
                yield from before.seated() if self.alone else before.finish()
            self._before = None
            self._refuse_late(self.calls[0].tool)
            plan: Plan = self._plan or (yield from self._work.plan(self))
            self._plan = plan
            opened: Opened = yield from self._work.open(plan)
        finally:
            self._opening = False
        if self._cut is not None:  # it was abandoned meanwhile
            yield from opened.batch.abandon(self._cut)
        self._tell_absent(opened)
        opened.batch.look = self._look
        if opened.batch.unattended:  # all of them were told to be absent meanwhile
            for seat in opened.seats.values():
                yield from opened.batch.finish(seat)
        return opened

    def _tell_absent(self, opened: Opened) -> None:
        with self._lock:
            seats = [opened.seats[place] for place in self._absent if place in opened.seats]
        for seat in seats:
            if not seat.over:
                _leave_out(opened.batch, seat)

    def seated(self) -> Program:
        """Wait until its calls have their places, or it turned out that they will not have any."""
        if self._is_void and self._opened is None:
            return
        try:
            yield from self._once.get(self._open)
        except Exception:
            return


def _leave_out(batch: Batch, seat: BatchCall) -> None:
    """Have a turn go on without a call; what it did before the turn was put aside is still told of, if it is undone."""
    known = batch.attempt.effects.get(seat.placed.path)
    if known is not None and not seat.effects:
        seat.effects.append(known)
    batch.absent(seat)


__all__ = ["TRIES", "AgentTurn", "Opened"]
