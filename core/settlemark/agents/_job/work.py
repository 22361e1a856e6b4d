"""The work of one agent, or task, in a run: its turns, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence

from settlemark._acts.perform import Program
from settlemark._api.settlement import host_of
from settlemark._attempt.part import Asked, Part
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import ScopeError, SettlemarkError
from settlemark._edges.wording import is_a
from settlemark._model.scope import Scope
from settlemark._steering.message import Steering
from settlemark.agents._call import Call, PlacedCall, unset
from settlemark.agents._job.heeding import Heard, Heeding
from settlemark.agents._job.host import WorkHost
from settlemark.agents._job.left import LeftTurns
from settlemark.agents._job.shared import Succession
from settlemark.agents._names import Names
from settlemark.agents._open.deciding import Because
from settlemark.agents._open.open_turn import OpenTurn
from settlemark.agents._open.opening import open_turn, refuse_in_undone
from settlemark.agents._open.unasked import refuse_unasked
from settlemark.agents._record.recalled import Decision, Recalled, ask_again, recall, standing
from settlemark.agents._turns.gathering import Opened, Placed
from settlemark.agents._turns.plan import Plan
from settlemark.agents._turns.turn import AgentTurn
from settlemark.agents._words import not_run, undone_before

_LEAST_SECONDS = 0.001  # for a turn that opens as its framework gives it up: then it is undone


class Work:
    """The work of one agent, or task, in a run. Get one from `AgentRun.work`.

    Attributes:
        run: the job it is a part of.
        name: the agent's or task's; it is the same when the job is begun again.
        agent: the name of the agent that acts in it; None: nobody has named it.
    """

    def __init__(self, run: WorkHost, name: str, number: int, shared: Succession | None) -> None:
        self.run = run
        self.name, self.agent = name or run.name, name or None
        self._number = number
        self._names = Names.of(run.name, name)
        self._next = 0
        self._recalled: Recalled | None = None
        self._answered: Collection[str] = ()
        self._again = False
        self._last: AgentTurn | None = None
        self._acted: AgentTurn | None = None
        self._turns: list[AgentTurn] = []
        self._singles: list[AgentTurn] = []
        self._once: list[AgentTurn] = []
        self._order: Turn | None = None
        self._cut: BaseException | None = None
        self._until: float | None = None
        self._lock = threading.Lock()
        self._heeding = Heeding(run, self.name, self._names)
        self._left_turns = LeftTurns(run, self._lock)
        own = Succession(run.settlement, run.name, self._named, run.may_touch) if run.settle == "part" else None
        self._shared = shared or own

    @property
    def patience(self) -> float:
        """Seconds after which a call that has not come is taken for answered by the framework itself."""
        return self.run.patience

    def now(self) -> float:
        """Return the time in seconds, from any fixed point."""
        return host_of(self.run.settlement).driver.kernel.monotonic()

    # ---- what a framework says

    def begin(self) -> None:
        """Say that the framework begins it, or begins it again: what was decided before is recalled, not repeated."""
        with self._lock:
            self._cut = None
            self._again = self._again or self._recalled is not None
            self._recalled = None
        self._heeding.forget()

    def limit(self, seconds: float | None) -> None:
        """Say that the framework gives it up after so many seconds; None: it has no time limit.

        A turn that is open by then is undone as soon as no call of it runs, and a call that comes later is refused: a
        tool that nobody can stop goes on, and what its agent does next is for nobody.
        """
        with self._lock:
            self._until = None if seconds is None else self.now() + seconds

    @property
    def is_given_up(self) -> bool:
        """Whether the time is over after which the framework gives it up."""
        left = self._left()
        return left is not None and left <= 0

    def _left(self) -> float | None:
        """Return the seconds until the framework gives it up; None where it does not."""
        until = self._until
        return None if until is None else until - self.now()

    def _stopped(self) -> BaseException | None:
        """Return what has stopped it, if anything has."""
        return TimeoutError() if self._cut is None and self.is_given_up else self._cut

    @property
    def unfinished(self) -> AgentTurn | None:
        """Its last turn, while that has not settled."""
        last = self._last
        return None if last is None or last.settled else last

    @property
    def is_undone(self) -> bool:
        """Whether what it did last was undone, or is in doubt: what it came to is no result to be kept."""
        return self._acted is not None and self._acted.is_undone

    def turn(self, calls: Sequence[Call], *, because: Because = None, answered: Collection[str] = ()) -> AgentTurn:
        """Return the next turn: the calls of one answer of the model, in the order in which it issued them.

        Nothing is opened yet. A turn that the framework left behind is settled first, without what has not come.

        Args:
            calls: not none.
            because: what the model said when it issued them: a text, or all that is known of its answer.
            answered: ids of the calls whose answers the model was given before: no new call is taken for one of them.
        """
        with self._lock:
            self._answered = answered
            turn = self._last = AgentTurn(self, calls, because=because, before=self._last, cut=self._stopped())
            if any(call.acts for call in calls):
                self._acted = turn
            self._keep(turn)
        return turn

    def single(
        self, call: Call, *, because: Because = None, answered: Collection[str] = (), once: bool = False
    ) -> AgentTurn:
        """Return a turn of one call of which nobody knows what else its model issued.

        Those whose lives overlap act in the order in which this was called; each settles by itself. With `once` no
        model has issued it, but a program: an equal one of the work, in whatever process, is the same act, and is
        answered with what that returned. Inside another's call it is a part of that one, and not compared.
        """
        once = once and call.acts and not host_of(self.run.settlement).driver.kernel.callers.outer()
        with self._lock:
            self._answered = answered
            self._singles = [turn for turn in self._singles if not turn.settled]
            self._order = self._order if self._singles else None
            before = self._singles[-1] if self._singles else None
            turn = AgentTurn(self, [call], because=because, before=before, alone=True, once=once, cut=self._stopped())
            self._singles.append(turn)
            if once:
                self._once.append(turn)
            if call.acts:
                self._acted = turn
            self._keep(turn)
        return turn

    def _keep(self, turn: AgentTurn) -> None:
        self._note_doubts()
        self._turns = [earlier for earlier in self._turns if not earlier.is_past(shared=self._shared is not None)]
        self._turns.append(turn)

    def note_doubts(self) -> None:
        """Note what of it is in doubt, for every agent of the job."""
        with self._lock:
            self._note_doubts()

    def _note_doubts(self) -> None:
        effects = [effect for turn in self._turns for effect in turn.doubts()]
        self.run.add_doubts(standing(effects, host_of(self.run.settlement).ledger.payloads))

    def corrections(self) -> list[tuple[Call, str]]:
        """Return what the model is to be told of calls whose answers are not true any more, each once."""
        with self._lock:
            turns = list(self._turns)
        found = [(turn.calls[place], text) for turn in turns for place, text in turn.corrections().items()]
        if self._shared is not None and self._shared.part is None:
            with self._lock:  # it was undone, and they are told
                self._turns = [turn for turn in self._turns if not turn.settled]
        return found

    def end(self, error: BaseException | None = None) -> Program[None]:
        """Say that the framework has come to its end; what turns of `settle="part"` share commits, or is undone.

        What was stopped by no mere `Exception`, a cancellation say, is over: a call that comes still is refused, until
        the work is begun again.

        Raises:
            Refused, InDoubt, PartialCommit: it did not settle as a whole.
        """
        with self._lock:
            begun = [turn for turn in (self._last, *self._singles) if turn is not None]
            self._last, self._singles = None, []
            if error is not None and not is_a(error, Exception):
                self._cut = error
        for turn in begun:
            yield from turn.finish()
        if self.run.settle == "part" and self._shared is not None:
            yield from self._shared.end(error)

    def boundary(self) -> Program[list[Steering]]:
        """Come to the boundary before a call of the model: return what it is to be told now, each once, in one order.

        What was said to the job is taken: what a revision or a retraction is in conflict with is undone, from the
        earliest decision on, before this returns. `Steering.words` says it to a model. Work that is begun again, in
        this process or another, is told all of it again: its model knows nothing of it.

        Raises:
            Paused: the job is paused; what it did stands. A turn's calls are answered so, too, and none runs.
            DeclarationError: an undo is unknown in this process. WaitTimeout: another holds what is to be undone. What
                was said is taken at the next boundary, then.

        >>> from settlemark import Settlement
        >>> from settlemark.agents import AgentRun, run_sync
        >>> settlement = Settlement("memory:")
        >>> _ = settlement.steer("trip-42", "add", "a window seat", by="ada")
        >>> work = AgentRun(settlement, "trip-42").work("clerk")
        >>> [said.words() for said in run_sync(work.boundary())], run_sync(work.boundary())
        (['ada says (add): a window seat'], [])
        """
        last = self.unfinished
        if last is not None:
            yield from last.finish()
        return (yield from self._hear(everything=True))

    def _heard(self) -> Program[str | None]:
        """Return what was said since the model was called that issued a turn's calls; None: nothing.

        What is shared by turns would be undone by that: there only what has undone it already is told.
        """
        if self._heeding.is_inside():
            return None
        new: list[Steering] = yield from self._hear(everything=self._shared is None)
        return "; ".join(each.words() for each in new) if new else None

    def _hear(self, *, everything: bool) -> Program[list[Steering]]:
        """Return what this work is to be told now; what was undone is forgotten, and what stays answers repeats."""
        heard: Heard = yield from self._heeding.hear(everything=everything)
        with self._lock:
            known = [] if self._recalled is None else self._recalled.decisions
            known[:] = [decision for decision in known if decision.key not in heard.gone]
            self.run.forget_doubts(heard.gone)
        if heard.stay:
            recalled: Recalled = yield from self._recollect()
            with self._lock:
                recalled.add(heard.stay)
        return heard.new

    # ---- what its turns ask

    def plan(self, turn: AgentTurn) -> Program[Plan]:
        """Return what is to become of a turn, when what was decided before is recalled."""
        calls = [turn.as_run(place) for place in range(len(turn.calls))]
        acting = [place for place, call in enumerate(calls) if call.acts]
        known: dict[int, Decision | SettlemarkError] = {}
        told = (yield from self._heard()) if acting else None
        recalled: Recalled = yield from self._recollect()
        untrue = recalled.undone_of(turn.answered)
        name: str | None = None
        if told is not None:
            name = None if self._shared is not None else (yield from self._named())
            known.update({place: not_run(calls[place].tool, told) for place in acting})
            return Plan(calls, known, name, self._common() if turn.alone else None, untrue, turn.said)
        if acting:
            its = [calls[place] for place in acting]
            if self._shared is None:
                name = yield from self._left_turns.go_on(recalled, its, self._answered)
            else:
                yield from self._left_turns.undo_unless_repeated(recalled, its, self._answered)
        if turn.once:
            yield from self._until_equal_ones_ended(recalled, turn)
        if acting and name is None:
            self.run.note_doubts()
            yield from ask_again(self.run.settlement, self.run.doubts)
            yield from ask_again(self.run.settlement, recalled.decisions)
            with self._lock:
                recalled.add(self.run.doubts)
                found = recalled.claim([(calls[place], self._scopes(calls[place])) for place in acting], once=turn.once)
            known = {place: one for place, one in zip(acting, found, strict=True) if one is not None}
            for place in acting if untrue else ():
                known.setdefault(place, undone_before(calls[place].tool, *untrue.values()))
            if any(place not in known or isinstance(known[place], SettlemarkError) for place in acting):
                name = None if self._shared is not None else (yield from self._named())
        if recalled.left:
            scopes = [scope for n, call in enumerate(calls) if n not in known for scope in self._scopes(call)]
            yield from self._left_turns.make_room(recalled, scopes, self._answered)
        return Plan(calls, known, name, self._common() if turn.alone else None, untrue, turn.said)

    def _until_equal_ones_ended(self, recalled: Recalled, turn: AgentTurn) -> Program[None]:
        """Wait until equal acts that came before have settled, and note what stands of all that have."""
        (call,) = turn.calls
        with self._lock:
            before = self._once[: self._once.index(turn)]
        for other in before:
            if [(its.tool, its.arguments) for its in other.calls] == [(call.tool, call.arguments)]:
                yield from other.finish()
        with self._lock:
            over = [other for other in self._once if other.settled]
            self._once = [other for other in self._once if not other.settled]
            effects = [effect for other in over for effect in other.effects()]
            recalled.add(standing(effects, host_of(self.run.settlement).ledger.payloads))

    def plan_again(self, plan: Plan, place: int, call: Call, *, is_seated: bool) -> Program[None]:
        """Plan one call of a turn as another, which will run in its place if it has one; it repeats nothing else."""
        recalled: Recalled = yield from self._recollect()
        with self._lock:
            plan.calls[place] = call
            recalled.let_go(plan.known.pop(place, None))
            seated = [(call, self._scopes(call))] if is_seated and call.acts else []
            plan.known.update((place, found) for found in recalled.claim(seated) if found is not None)

    def has_left(self) -> Program[bool]:
        """Return whether a turn was left open, which the next one may go on with."""
        return bool((yield from self._recollect()).left)

    def _common(self) -> Turn:
        with self._lock:
            if self._order is None:
                self._order = host_of(self.run.settlement).turn(
                    order=self.run.order, stop_on_failure=False, holds=False
                )
            return self._order

    def open(self, plan: Plan) -> Program[Opened]:
        """Begin a turn, and give its calls their places."""
        run = self.run
        rest = [place for place in range(len(plan.calls)) if not isinstance(plan.known.get(place), Decision)]
        within: Part | None = None
        if self._shared is not None and any(plan.calls[place].acts for place in rest):
            refuse_in_undone(run.settlement)
            inner: Part = yield from self._shared.enter(self._number)
            within = inner.under(self._number)
        left = self._left()
        turn: OpenTurn = yield from open_turn(
            run.settlement,
            plan.name,
            run=run.name,
            within=within,
            turn=plan.order,
            order=run.order,
            may_touch=run.may_touch,
            max_age=None if left is None else max(left, _LEAST_SECONDS),
            resumable=run.resumable,
            let_through=run.let_through,
            park=run.park,
            asked=Asked(tuple(call.call_id for call in plan.calls if call.call_id is not None), tuple(self._answered)),
            agent=self.agent,
        )
        placed: list[PlacedCall] = yield from turn.place_all([plan.calls[place] for place in rest])
        for call in filter(lambda call: call.refused, placed):
            yield from turn.leave(call, failed=call.refused)
        yield from () if run.asks else refuse_unasked(turn, "Settlement(…, approver=function)")
        turn.decide(plan.said)
        for number, call in enumerate(placed) if run.asks_together else ():
            call.ask_in(number)
        return Opened((turn,), {place: Placed(turn, call) for place, call in zip(rest, placed, strict=True)})

    def _scopes(self, call: Call) -> Sequence[Scope]:
        given, tools = dict(call.arguments if call.given is None else call.given), host_of(self.run.settlement).tools
        try:
            return tools.effect_of(call.declaration, given, unset, run=self.run.name).scopes
        except ScopeError:
            return ()  # it is told so when it runs

    def _named(self) -> Program[str]:
        """Return the name of the next transaction."""
        yield from self._recollect()
        with self._lock:
            number, self._next = self._next, self._next + 1
        return self._names.name(number)

    def _recollect(self) -> Program[Recalled]:
        """Return what was decided before this beginning of it."""
        if self._recalled is not None:
            return self._recalled
        run, recalled = self.run, Recalled()
        if run.resumable or self._again:
            recalled = yield from recall(
                run.settlement, run.name, self._names.has, answered=self._answered, wait=run.patience
            )
        if self._shared is not None:
            # What turns share is nobody's to go on with when the model is asked anew: it goes on here, or is undone.
            part = self._shared.part
            here = None if part is None else part.attempt.name
            recalled.left = [left for left in recalled.left if left.name != here]
            recalled.decisions.extend(self._unknown_to_the_model((yield from run.earlier())))
        with self._lock:
            effects = [effect for turn in self._turns for effect in turn.open_effects()]
            known = standing(effects, host_of(run.settlement).ledger.payloads)
            recalled.decisions.extend(self._unknown_to_the_model(known))
            self._recalled = recalled
            self._next = max([self._next, *(self._names.number(name) + 1 for name in recalled.names)])
            return recalled

    def _unknown_to_the_model(self, decisions: Iterable[Decision]) -> Iterable[Decision]:
        return (decision for decision in decisions if decision.call_id not in self._answered)


__all__ = ["Plan", "Work"]
