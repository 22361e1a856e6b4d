"""One turn of a model whose calls a framework runs: each is told the last word on it, when the turn has settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from settlemark._acts.effect import Effect
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program
from settlemark._edges.errors import Cancelled, Refused, ScopeError, SettlemarkError
from settlemark._edges.wording import is_a
from settlemark._model.effect_class import Outcome
from settlemark.agents._call import Call
from settlemark.agents._open.deciding import Because, Said
from settlemark.agents._open.open_turn import OpenTurn, Remake
from settlemark.agents._record.recalled import Decision
from settlemark.agents._turns.attendance import Attendance, Watch
from settlemark.agents._turns.gathering import Gathering, Opened, Placed
from settlemark.agents._turns.plan import Plan
from settlemark.agents._words import too_late, words

TRIES = 20
"""How often a turn that loses races is tried in all."""


class TurnHost(Watch, Protocol):
    """What a turn asks of the work that it belongs to; see `Work`."""

    def plan(self, turn: AgentTurn) -> Program[Plan]:
        """Return what is to become of a turn."""
        ...

    def plan_again(self, plan: Plan, place: int, call: Call, *, is_seated: bool) -> Program[None]:
        """Plan one call of a turn as another, which will run in its place if it has one; it repeats nothing else."""
        ...

    def has_left(self) -> Program[bool]:
        """Return whether a turn was left open, which this one may go on with."""
        ...

    def single(self, call: Call, *, because: str | None = None) -> AgentTurn:
        """Return a turn of one call."""
        ...

    def open(self, plan: Plan) -> Program[Opened]:
        """Begin a turn, and give its calls their places."""
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
        once: no model issued it: an equal call of its work is the same act, whenever that was made.
    """

    def __init__(
        self,
        work: TurnHost,
        calls: Sequence[Call],
        *,
        because: Because,
        before: AgentTurn | None,
        alone: bool = False,
        once: bool = False,
        cut: BaseException | None = None,
    ) -> None:
        self.calls = tuple(calls)
        self.alone, self.once = alone, once
        self._work = work
        self.said = Said.of(because)
        self._because = self.said.text
        self._before = before
        self._gathering = Gathering(work.name, len(self.calls), self._look, cut=cut)
        self._attendance = Attendance(self._gathering, work)
        self._plan: Plan | None = None
        self._told: dict[int, str] = {}
        self._rewritten: dict[int, Call] = {}
        self._repeatable: set[int] = set()
        self._early = False
        for place, call in enumerate(self.calls):
            if call.refused is not None:
                self.absent(place)

    @property
    def answered(self) -> dict[int, Call]:
        """The calls that will not come, by place: those whose answers the model has, among others."""
        return {place: self.calls[place] for place in self._attendance.absent}

    def as_run(self, place: int) -> Call:
        """Return a call as it will run: something of the framework's may have rewritten what the model issued."""
        return self._rewritten.get(place, self.calls[place])

    @property
    def settled(self) -> bool:
        """Whether nothing of it is open any more."""
        opened, gathering = self._gathering.opened, self._gathering
        if opened is not None:
            return _whole(opened).settled
        if gathering.failed is not None or (gathering.cut is not None and not gathering.is_opening):
            return True
        behind = not self.alone and self._before is not None and not self._before.settled
        return gathering.roll.is_void and not gathering.is_opening and not behind

    def is_past(self, *, shared: bool) -> bool:
        """Whether none of its answers can turn out to be untrue any more."""
        return self.settled and not shared and not (self._early and self._untold())

    def _untold(self) -> bool:
        return any(
            turn.correction(call) is not None for place, (turn, call) in self._placed() if place not in self._told
        )

    def _placed(self) -> list[tuple[int, Placed]]:
        """Return the calls that have places, once the turn has begun."""
        opened = self._gathering.opened
        return [] if opened is None else list(opened.calls.items())

    @property
    def is_undone(self) -> bool:
        """Whether it acted, and that was undone, or nobody knows what came of it; or it could not begin.

        Of a run that was cancelled nothing is ever to go on.
        """
        opened, failed = self._gathering.opened, self._gathering.failed
        if opened is None:
            return failed is not None and not isinstance(failed, Cancelled)
        return _whole(opened).is_undone

    def failed_by(self) -> int | None:
        """Return the place of the call whose own failure undid the others or kept them from acting; None: no one's."""
        for place, (turn, call) in self._placed():
            effect = turn.acting(call)
            failed = effect is not None and effect.outcome is Outcome.FAILED
            if failed or call.seat.turn.failed is call.seat:
                return place
        return None

    def open_effects(self) -> list[Effect]:
        """Return what it has done in a transaction that is still open."""
        open_ = (placed for _, placed in self._placed() if placed.turn.is_open)
        found = (turn.acting(call) for turn, call in open_)
        return [effect for effect in found if effect is not None]

    def effects(self) -> list[Effect]:
        """Return what acts, or has acted, for its calls."""
        found = (turn.acting(call) for _, (turn, call) in self._placed())
        return [effect for effect in found if effect is not None]

    def doubts(self) -> list[Effect]:
        """Return what it did of which nobody knows whether it happened, and what must not be repeated therefore."""
        found = (turn.acting(call) for place, (turn, call) in self._placed() if place not in self._repeatable)
        return [effect for effect in found if effect is not None and effect.outcome is Outcome.UNKNOWN]

    def let_repeat(self, place: int) -> None:
        """Let a later turn make a call again that ended without a word of what it did; it stays on record as it is.

        For a tool that nobody declared, where its author had the framework ask the model for that, and nothing of the
        first call can still act.
        """
        self._repeatable.add(place)

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
        outlives: bool = False,
        rewritten: Call | None = None,
    ) -> Program[Any]:
        """Run a call in its turn, once, and return its result, or a `Queued`.

        Args:
            place: which of `calls`.
            run: runs the tool itself; a function without arguments, async or not.
            pack: makes of the tool's result what is recorded of it, a JSON value; `unpack` is its inverse.
            unpack: see `pack`.
            ask: asks for a person's yes where the tool is declared with `approve=`; see `Settlement(approver=)`.
            remake: returns what runs the call with other arguments, and these as the tool will get them.
            waits: answer when the turn has settled. The framework must run all of its calls beside each other.
            outlives: answer a call that is cancelled when its tool has returned, and it waits for the others alone,
                with what became of it, and not with the cancellation: for a framework that keeps such answers.
            rewritten: the call as it will run, where something of the framework's (a hook, say) has given it other
                arguments than its model: by these it acts, is recorded, and is known again when the job is begun again.

        Raises:
            Refused, InDoubt, PartialCommit, UsageError: it did not run, or was undone, or nobody knows; `words` says
                it to a model. Else what the tool raised, or the framework's control flow.
        """
        if rewritten is not None:
            self._rewritten[place] = rewritten
        self._arrive(place, waits=waits)
        how: dict[str, Any] = {"pack": pack, "unpack": unpack, "ask": ask, "remake": remake}
        counted = self._attendance.counted(run)
        for tries in range(TRIES, 0, -1):
            try:
                opened = yield from self._gathering.open(self._begin)
                known: Decision | SettlemarkError | None = yield from self._known(place, opened)
                if isinstance(known, Decision):
                    return (yield from self._answered_before(place, opened, known, unpack))
                yield from self._attendance.until_come(place)
                self._seat_as_run(opened, place)
            except (Exception, GeneratorExit):
                raise
            except BaseException as cut:
                self._attendance.withdraw(place)
                yield from self.abandon(cut)
                raise
            if place not in opened.calls:
                return (yield from self._work.single(self.as_run(place), because=self._because).perform(0, run, **how))
            ended = yield from self._performed(
                opened.calls[place], place, known, counted, waits=waits, outlives=outlives, **how
            )
            if _whole(opened).lost_race and tries > 1 and not self._early:
                self._gathering.reopen(opened)
                continue
            try:
                return ended()
            except Exception as error:
                self._told[place] = words(error)
                raise
        raise AssertionError

    def _known(self, place: int, opened: Opened) -> Program[Decision | SettlemarkError | None]:
        """Return what is on record of a call as it will run; when the turn was planned that may not have been known."""
        plan, call = self._plan, self.as_run(place)
        assert plan is not None, "it is opened"
        if plan.calls[place] is not call:
            yield from self._work.plan_again(plan, place, call, is_seated=place in opened.calls)
        return plan.known.get(place)

    def _answered_before(
        self, place: int, opened: Opened, known: Decision, unpack: Callable[[Any], Any] | None
    ) -> Program[Any]:
        """Return the answer on record to a call, which leaves the place that it may have been given."""
        if place in opened.calls:
            turn, seat = opened.calls[place]
            yield from turn.answer(seat)
        return known.answer(self.as_run(place), unpack)

    def _seat_as_run(self, opened: Opened, last: int) -> None:
        """Have calls that have come, up to the `last`, stand in the order with the scopes on which they will act."""
        for place in sorted(place for place in list(self._rewritten) if place in opened.calls and place <= last):
            (turn, seat), call = opened.calls[place], self.as_run(place)
            if not seat.over and seat.arguments != call.arguments:
                with suppress(ScopeError):  # it is told so when it runs
                    turn.rewrite(seat, call.arguments, call.given, call.declaration)

    def _performed(
        self,
        placed: Placed,
        place: int,
        known: SettlemarkError | None,
        run: Callable[[], Any],
        *,
        waits: bool,
        outlives: bool,
        **how: Any,
    ) -> Program[Any]:
        """Run a call, say that it is over, and return what gives the last word on it."""
        (turn, seat), call = placed, self.as_run(place)
        how["declaration"] = call.declaration
        found: Any = None
        error: BaseException | None = known
        if known is None:
            try:
                found = yield from turn.perform(
                    seat, run, call.arguments, given=call.given, because=self._because, may_wait=waits, **how
                )
            except GeneratorExit:
                raise
            except BaseException as raised:
                error = raised
        try:
            yield from turn.answer(seat, error)
            if error is not None and not is_a(error, Exception):
                raise error
            if waits:
                yield from turn.finish(seat)
        except GeneratorExit:
            raise
        except BaseException as cut:
            yield from self._gathering.abandon(cut)
            if error is not None or not outlives:
                raise
            yield from turn.finish(seat)  # another call may be the one that undoes it

        def ended() -> Any:
            if error is not None:
                raise error
            return turn.last_word(seat, found)

        return ended

    def absent(self, place: int) -> None:
        """Say that a call will not come: the framework answers it itself, or nobody will."""
        self._attendance.give_up(place)

    def turn_down(self, place: int, why: str, *, waits: bool) -> Program[None]:
        """Say that the framework has told the model why a call's tool runs nothing of it: the turn has failed."""
        self._arrive(place, waits=waits)
        return self._gathering.turn_down(place, why, self._begin)

    def finish(self) -> Program[None]:
        """Settle it, when the framework has gone on without the calls that have not come; and what it came behind."""
        for place in range(len(self.calls)):
            self.absent(place)
        before = self._before
        if self._gathering.opened is None and before is not None and not self.alone:
            yield from before.finish()
            self._before = None
        yield from self._gathering.finish()

    def abandon(self, error: BaseException) -> Program[None]:
        """End what a cancellation left unsettled; nothing of it acts any more, nor what comes to it later."""
        self._gathering.cut = self._gathering.cut or error
        for place in range(len(self.calls)):
            self.absent(place)
        yield from self._gathering.abandon(error)

    def corrections(self) -> dict[int, str]:
        """Return what a model is to be told of calls whose answers are not true any more, each once, by place."""
        untrue = {} if self._plan is None else self._plan.untrue
        found = {place: text for place, text in untrue.items() if place not in self._told}
        self._told.update(found)
        for place, (turn, call) in self._placed():
            told = None if place in self._told else turn.correction(call)
            if told is not None:
                self._told[place] = found[place] = told
        return found

    # ---- who has come

    def _arrive(self, place: int, *, waits: bool) -> None:
        late = self._attendance.arrive(place)
        if not waits:
            self._early = True
        if late:
            raise Refused(
                f"{self.calls[place].tool} was called after its turn had gone on without it: nothing was run; issue it"
                " again",
                transaction=None,
                epoch=None,
            )
        self._refuse_late(self.calls[place].tool)
        self._attendance.wake()

    def _refuse_late(self, tool: str) -> None:
        """Return when it was not abandoned.

        Raises:
            Refused: it was.
        """
        cut = self._gathering.cut
        if cut is not None:
            raise too_late(tool, cut, None)

    def _look(self) -> float | None:
        return self._attendance.look()

    # ---- its beginning

    def _begin(self) -> Program[Opened]:
        before = self._before
        if before is not None:
            yield from before.seated() if self.alone else before.finish()
        self._before = None
        self._refuse_late(self.calls[0].tool)
        if self._plan is None and not self._early and (yield from self._work.has_left()):
            yield from self._attendance.until_come(len(self.calls))  # what was left is compared with what will run
        self._plan = self._plan or (yield from self._work.plan(self))
        return (yield from self._work.open(self._plan))

    def seated(self) -> Program[None]:
        """Wait until its calls have their places, or it turned out that they will not have any."""
        if self._gathering.roll.is_void and self._gathering.opened is None:
            return
        try:
            yield from self._gathering.open(self._begin)
        except Exception:
            return


def _whole(opened: Opened) -> OpenTurn:
    """Return what all calls of a model's turn settle with."""
    return opened.turns[0]


__all__ = ["TRIES", "AgentTurn"]
