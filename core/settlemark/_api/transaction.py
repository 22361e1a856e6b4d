"""The faces of a transaction, sync and async: what a program holds while it calls tools."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeVar

from settlemark._acts.current import Staged
from settlemark._acts.effect import Effect, Frozen
from settlemark._acts.failure import Skipped
from settlemark._acts.perform import Program
from settlemark._api.checked import checked_park
from settlemark._api.host import Host
from settlemark._api.subjects.charges import AsyncCharging, Charging
from settlemark._api.subjects.deciding import Deciding
from settlemark._api.subjects.owes import AsyncOwes, Owes
from settlemark._attempt.part import Part
from settlemark._attempt.turn import Seat, Turn
from settlemark._edges.errors import StateError, UsageError
from settlemark._edges.on_drop import OnDrop
from settlemark._edges.user_code import is_lazy_function
from settlemark._lifecycle.parking import Park
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.declare import declare
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.guards import Order
from settlemark._model.scope import Scope
from settlemark._protocol.states import Reason, State
from settlemark._runtime.aio import run_async
from settlemark._runtime.apart import run_from_anywhere
from settlemark._runtime.sync import run_sync

_T = TypeVar("_T")

QUEUED = "queued: will run when this step settles"
NEVER_ENTERED = "it was interrupted as it began"


class Queued:
    """The acknowledgement of an effect that is held until its transaction commits.

    Attributes:
        key: the idempotency key of the later call.
        tool: the tool's name.
    """

    __slots__ = ("_effect", "key", "tool")

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        self.key = effect.key
        self.tool = effect.declaration.tool

    @property
    def outcome(self) -> str:
        """The effect's outcome: `queued`, `confirmed`, `failed`, `unknown` or `dropped`."""
        return self._effect.outcome.value

    def result(self) -> Any:
        """Return the tool's result, once it has run.

        Raises:
            StateError: the tool has not run: its transaction has not committed, or was undone.
        """
        if self._effect.outcome is not Outcome.CONFIRMED:
            raise StateError(
                f"{self.tool} is {self.outcome}: it has a result once its transaction has committed",
                transaction=None,
                state=self.outcome,
            )
        return self._effect.result

    def __str__(self) -> str:
        return QUEUED if self._effect.outcome is Outcome.QUEUED else f"{self.tool}: {self.outcome}"

    def __repr__(self) -> str:
        return f"<Queued {self.tool} {self.key} {self.outcome}>"


class _Face(Deciding):
    """What the synchronous and the async face of a transaction share: everything but running."""

    _to_be_left: OnDrop | None = None
    """Undoes it when its caller drops it without leaving its block; none outside of the block."""

    def __init__(self, host: Host, part: Part, park: Park = "keep") -> None:
        self._host = host
        self._part = part
        self._attempt = part.attempt
        self._park: Park = park

    def _enter_block(self) -> None:
        # Nothing is done where it is dropped, which may be between any two instructions: only a thread is started.
        if not self.joined:
            end = self._host.driver.ages.end_dropped
            self._to_be_left = OnDrop(partial(run_from_anywhere, end, self._attempt))

    def _leave_block(self) -> None:
        if self._to_be_left is not None:
            self._to_be_left.disarm()
            self._to_be_left = None  # here, where signals are deferred

    @property
    def name(self) -> str:
        """The transaction's name; of a part, the name of the transaction that it joined."""
        return self._attempt.name

    @property
    def joined(self) -> bool:
        """Whether it is part of the transaction in whose call it was begun, and settles with that."""
        return self._part.joined

    @property
    def run(self) -> str:
        """The run it belongs to."""
        return self._attempt.run

    @property
    def attempt(self) -> int:
        """1 for the first try, more after an abort."""
        return self._attempt.number

    @property
    def epoch(self) -> int:
        """Its place in the settlement order; before its first call, the place it would get now."""
        return self._attempt.live.epoch

    @property
    def state(self) -> State:
        """Its state."""
        return State.COMMITTED if self._attempt.txn is None else self._attempt.txn.state

    def staged(self, scope: str | Scope) -> list[Staged]:
        """Return the requests that it has staged on a scope and not yet applied."""
        return self._attempt.staged(Scope.parse(scope))

    def park(self, how: Park | None = None) -> None:
        """Put the transaction aside at the end of its block, until `Settlement.answer` says yes or no in any process.

        `"keep"` parks it whole: it holds its scopes, and the answer commits or undoes all of it. `"split"` commits what
        is eager or staged, and parks each irreversible effect as a transaction of its own, named `name!number`, which
        holds nothing while it waits: its reads are checked again when the answer comes. It leaves behind what was
        committed, and not at all where that is refused as it leaves. By default its `park=` decides.

        Raises:
            UsageError: there is no such way, or it is a part of another's call, which decides for both.
        """
        if self.joined:
            raise UsageError(
                f"a part of {self.name} cannot be parked alone: park {self.name}, or begin it with independent=True"
            )
        self._attempt.park = checked_park(how or self._park)

    def _committing(self) -> Program[None]:
        if not self.joined:
            yield from self._host.driver.runs.conclude(self._attempt)

    def _aborting(self, reason: str) -> Program[None]:
        if self.joined:
            # The call it was begun in still runs: its effects are undone when the call returns.
            yield from self._host.driver.undoing.abort_within_call(self._attempt, Reason.FAILED, cause=reason)
            return
        # One that is releasing is waited for: its releaser may still undo it.
        yield from self._host.driver.undoing.abort(self._attempt, Reason.FAILED, cause=reason)
        if self.state is State.COMMITTED:
            raise StateError(
                f"{self.name} is committed: it can no longer be undone", transaction=self.name, state=self.state
            )
        if self.state is State.RELEASING:
            raise StateError(
                f"{self.name} is still releasing: whether it commits is not known yet; check its state again",
                transaction=self.name,
                state=self.state,
            )

    def _read_effect(
        self,
        scope: str | Scope,
        fetch: Callable[[], Any] | None,
        live: Callable[[], Any] | None,
        valid_for: float | None,
    ) -> Effect:
        declaration = Declaration(tool=f"read {scope}", kind=EffectClass.READ)
        if live is not None or valid_for is not None:
            # A placeholder scope, never filled: the name tells what is read.
            declaration = declare(f"read {scope}", "read", scope="here:/x", live=live, valid_for=valid_for)
        return Effect(declaration, (Scope.parse(scope),), {}, fetch or (lambda: None))

    def _effect(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Effect:
        if is_lazy_function(function):
            raise UsageError(
                f"{getattr(function, '__name__', function)} is a generator, so calling it does nothing: nothing was"
                " run; do the work in the function, and return its result"
            )
        decision, declaration = self._decision_for(kwargs), self._host.tools.of(function)
        run: Callable[[], Any] = partial(function, *args, **kwargs)
        if declaration.kind is not EffectClass.READ:
            # The call runs with the recorded arguments, whatever its caller, or an earlier try, changes meanwhile.
            args, kwargs = json_text.snapshot(args), json_text.snapshot(kwargs)
            run = Frozen(function, args, kwargs)
        effect = self._host.tools.effect_of(
            declaration, declaration.arguments(args, kwargs), run, run=self._attempt.run
        )
        # Not a method of this face: the transaction's record must not keep the face alive, see `_to_be_left`.
        effect.remake = partial(self._host.tools.remade, run=self._attempt.run)
        effect.decision = decision
        with self._host.driver.kernel.local:
            self._attempt.place(effect, self._part.numbering)
        return effect


def _answer(result: Any) -> Any:
    if isinstance(result, Skipped):
        return None
    return Queued(result) if isinstance(result, Effect) else result


def _refuse_async(function: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(function):
        name = getattr(function, "__name__", function)
        raise UsageError(
            f"{name} is async: nothing was run; use `async with settlement.transaction(…) as tx` and"
            f" `await tx.call({name}, …)`"
        )


class Transaction(Charging, Owes, _Face):
    """An open transaction: call tools through it, and it commits or undoes them together."""

    def read(
        self,
        scope: str | Scope,
        fetch: Callable[[], _T] | None = None,
        *,
        live: Callable[[], Any] | None = None,
        valid_for: float | None = None,
    ) -> _T | None:
        """Record that the plan depends on a resource, and return the result of `fetch`, if given.

        This transaction does not commit if another's write to the resource commits first.

        Args:
            scope: the resource that is read.
            fetch: reads it.
            live: returns its ETag or a digest, for resources that others change without the settlement: called before
                `fetch`, and again before anything settles or leaves; if it differs then, the transaction is stale.
            valid_for: seconds after which nothing settles on this read any more.
        """
        for function in (fetch, live):
            if function is not None:
                _refuse_async(function)
        effect = self._read_effect(scope, fetch, live, valid_for)
        result: _T | None = _answer(run_sync(self._host.driver.calls.call(self._attempt, effect)))
        return result

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool. Return its result, a `Queued` when it is held until commit, None when it was skipped.

        A `Decision` given as `decision=` is not for the tool: it is called for the sake of that.

        Raises:
            UsageError: bad arguments or declaration; nothing was run.
            Refused: this transaction was undone, or the wait was too long.
            InDoubt: nobody can tell whether it happened.
            BaseException: the tool's own exception.
        """
        _refuse_async(function)
        return _answer(run_sync(self._host.driver.calls.call(self._attempt, self._effect(function, args, kwargs))))

    def turn(self, *, order: Order = "turn", because: str | None = None) -> TurnFace:
        """Return a group of calls that act in the order in which they are planned.

        Args:
            order: `"turn"`: eager calls keep their order, and held ones leave at the commit, irreversible ones last; an
                eager call behind a held one runs in its turn, unless the two overlap. `"scopes"`: the same, but only
                calls on overlapping scopes keep their order. `"issued"`: all act in the order in which they are
                planned, for calls that must not run before something irreversible: a call behind a held one is held
                too, and if it fails after a release that is a partial commit.
            because: why, for the record.
        """
        return TurnFace(self, order, because)

    def commit(self) -> None:
        """Settle now, instead of at the end of the `with` block. A part settles with its caller's transaction.

        Raises:
            Refused: it was undone instead.
            PartialCommit, InDoubt: see there.
            StateError: it is sealed or settled already; nothing moved.
        """
        run_sync(self._committing())

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Undo everything now. A settled transaction stays as it is.

        A part undoes all of its caller's transaction, as soon as the call it was begun in returns.

        Raises:
            StateError: it is committed, or still releasing after its wait; nothing moved.
        """
        run_sync(self._aborting(reason))


class AsyncTransaction(AsyncCharging, AsyncOwes, _Face):
    """An open transaction for async code: the same, awaited."""

    async def read(
        self,
        scope: str | Scope,
        fetch: Callable[[], Any] | None = None,
        *,
        live: Callable[[], Any] | None = None,
        valid_for: float | None = None,
    ) -> Any:
        """Record that the plan depends on a resource, and return the result of `fetch`. See `Transaction.read`."""
        effect = self._read_effect(scope, fetch, live, valid_for)
        return _answer(await run_async(self._host.driver.calls.call(self._attempt, effect)))

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool, async or not (then in a thread). See `Transaction.call`."""
        return _answer(
            await run_async(self._host.driver.calls.call(self._attempt, self._effect(function, args, kwargs)))
        )

    def turn(self, *, order: Order = "turn", because: str | None = None) -> TurnFace:
        """Return a group of calls that act in the order in which they are planned. See `Transaction.turn`."""
        return TurnFace(self, order, because)

    async def commit(self) -> None:
        """Settle now, instead of at the end of the `async with` block. See `Transaction.commit`."""
        await run_async(self._committing())

    async def abort(self, reason: str = "aborted by the caller") -> None:
        """Undo everything now. See `Transaction.abort`."""
        await run_async(self._aborting(reason))


class TurnFace:
    """The calls of one turn: they act in the order in which they were planned, whichever is run first.

    `plan` gives a call its place and returns it unrun, to be run from any thread or task; `call` plans and runs at
    once.
    """

    def __init__(self, transaction: Transaction | AsyncTransaction, order: Order, because: str | None) -> None:
        self._awaited = isinstance(transaction, AsyncTransaction)
        self._because = because
        self._of = transaction  # a turn keeps its transaction alive, whichever face that has
        self._driver = transaction._host.driver  # noqa: SLF001 - the other half of the pair
        self._attempt = transaction._attempt  # noqa: SLF001 - the other half of the pair
        self._effect = transaction._effect  # noqa: SLF001 - the other half of the pair
        txn = self._attempt.txn
        kept = order if txn is None else txn.guards.order(order)
        goes_on, asks = self._attempt.on_failure == "continue", self._driver.kernel.judging.may_ask
        self._turn = Turn(order=kept, stop_on_failure=not goes_on, may_ask=asks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def plan(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> PlannedCall:
        """Give a call the next place in the turn, and return it unrun."""
        if not self._awaited:
            _refuse_async(function)
        return self.seat(self._effect(function, args, kwargs))

    def seat(self, effect: Effect) -> PlannedCall:
        """Give an effect the next place in the turn; integrations make effects with `Host.tools`."""
        effect.rationale = effect.rationale or self._because
        with self._driver.kernel.local:
            seat = self._turn.take(effect.declaration, *effect.scopes)
        return PlannedCall(self, effect, seat)

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Plan a call and run it at once; awaitable in an async transaction."""
        planned = self.plan(function, *args, **kwargs)
        return planned.arun() if self._awaited else planned.run()


class PlannedCall:
    """A call with its place in a turn."""

    __slots__ = ("_of", "effect", "seat")

    def __init__(self, turn: TurnFace, effect: Effect, seat: Seat) -> None:
        self._of = turn
        self.effect = effect
        self.seat = seat

    def _program(self, let_through: tuple[type[BaseException], ...]) -> Program[Any]:
        turn = self._of
        return turn._driver.calls.call(turn._attempt, self.effect, self.seat, let_through)  # noqa: SLF001 - the other half of the pair

    def run(self, let_through: tuple[type[BaseException], ...] = ()) -> Any:
        """Run it when its place has come; return its result or a `Queued`."""
        return _answer(run_sync(self._program(let_through)))

    async def arun(self, let_through: tuple[type[BaseException], ...] = ()) -> Any:
        """Run it when its place has come; return its result or a `Queued`."""
        return _answer(await run_async(self._program(let_through)))
