"""The public face: a settlement, its transactions, and what they tell."""

from __future__ import annotations

import inspect
import logging
import os
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from settlemark import _codec
from settlemark._acting import Program, Retries
from settlemark._attempt import Attempt, Hook, OnFailure
from settlemark._driver import Driver
from settlemark._effect import (
    Declaration,
    Effect,
    EffectClass,
    EffectName,
    Outcome,
    declaration_of,
    declare,
    declared_as,
)
from settlemark._errors import StateError, UsageError
from settlemark._index import Position
from settlemark._protocol import Protocol
from settlemark._recovery import retire, worker_name
from settlemark._runners import run_async, run_sync
from settlemark._scope import Scope, escape
from settlemark._sequencer import Order, Seat, Turn
from settlemark._states import Reason, State, Tag
from settlemark.ledger import RecordedTransaction, open_ledger

_log = logging.getLogger("settlemark")
_T = TypeVar("_T")

DEFAULT_URL = "sqlite:///settlemark.db"
QUEUED = "queued: will run when this step settles"
SUPERSTEPS = 1_000  # remembered: a node that comes back later has a fresh epoch, which is never wrong


class Queued:
    """The acknowledgement of an effect that is held until its transaction commits.

    Attributes:
        key: the idempotency key under which it will run.
        tool: the tool's name.
    """

    __slots__ = ("_effect", "key", "tool")

    def __init__(self, effect: Effect) -> None:
        self._effect = effect
        self.key = effect.key
        self.tool = effect.declaration.tool

    @property
    def outcome(self) -> str:
        """What is known of it: `queued`, `confirmed`, `failed`, `unknown` or `dropped`."""
        return self._effect.outcome.value

    def result(self) -> Any:
        """Return what the tool returned when it left.

        Raises:
            StateError: it has not left: its transaction is not committed, or was undone.
        """
        if self._effect.outcome is not Outcome.CONFIRMED:
            raise StateError(
                f"{self.tool} is {self.outcome}: its result is there once its transaction has committed",
                transaction=None, state=self.outcome,
            )  # fmt: skip
        return self._effect.result

    def __str__(self) -> str:
        return QUEUED if self._effect.outcome is Outcome.QUEUED else f"{self.tool}: {self.outcome}"

    def __repr__(self) -> str:
        return f"<Queued {self.tool} {self.key} {self.outcome}>"


@dataclass(frozen=True, slots=True)
class Residue:
    """What an abort or a partial commit left of one effect, for an operator to mend."""

    transaction: str
    attempt: int
    tool: str
    scope: str
    key: str
    tag: Tag
    note: str
    arguments: dict[str, Any]
    result: Any


class _Face:
    """What the synchronous and the async face of a transaction share: everything but running."""

    def __init__(self, settlement: Settlement, attempt: Attempt) -> None:
        self._settlement = settlement
        self._attempt = attempt

    @property
    def name(self) -> str:
        """The name it was begun under."""
        return self._attempt.name

    @property
    def run(self) -> str:
        """The job it belongs to."""
        return self._attempt.run

    @property
    def attempt(self) -> int:
        """1 for the first try, more after an abort."""
        return self._attempt.number

    @property
    def epoch(self) -> int:
        """Its place in the settlement order."""
        return self._attempt.live.epoch

    @property
    def state(self) -> State:
        """Where it is in its life."""
        return State.COMMITTED if self._attempt.txn is None else self._attempt.txn.state

    def staged(self, scope: str | Scope) -> list[dict[str, Any]]:
        """Return the requests it has staged on a scope and not yet applied."""
        return self._attempt.staged(Scope.parse(scope))

    def _read_effect(self, scope: str | Scope, fetch: Callable[[], Any] | None) -> Effect:
        declaration = Declaration(tool=f"read {scope}", kind=EffectClass.READ)
        return Effect(declaration, (Scope.parse(scope),), {}, fetch or _nothing)

    def _effect(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Effect:
        declaration = self._settlement.declaration(function)
        if declaration.held:
            # It leaves as it was recorded, whatever the caller changes until then.
            args, kwargs = _codec.snapshot(args), _codec.snapshot(kwargs)
        effect = self._settlement.effect_of(
            declaration, declaration.arguments(args, kwargs), partial(function, *args, **kwargs), run=self.run
        )
        with self._settlement.driver.step:
            self._attempt.place(effect)
        return effect


def _nothing() -> None:
    return None


def _answer(result: Any) -> Any:
    return Queued(result) if isinstance(result, Effect) else result


def _refuse_async(function: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(function):
        name = getattr(function, "__name__", function)
        raise UsageError(
            f"{name} is async: nothing was run; use `async with settlement.transaction(…) as tx` and"
            f" `await tx.call({name}, …)`"
        )


class Transaction(_Face):
    """An open transaction: call tools through it, and it commits or undoes them together."""

    def read(self, scope: str | Scope, fetch: Callable[[], _T] | None = None) -> _T | None:
        """Note that the plan depends on a resource, and return what `fetch` returns, if given.

        Should another's write to it commit first, this transaction does not.
        """
        if fetch is not None:
            _refuse_async(fetch)
        result: _T | None = run_sync(self._settlement.driver.call(self._attempt, self._read_effect(scope, fetch)))
        return result

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool. Return its result, or a `Queued` when it is held until commit.

        Raises:
            UsageError: bad arguments or declaration; nothing was run.
            Refused: this transaction was undone, or the wait was too long.
            InDoubt: nobody can tell whether it happened. Else what the tool raises.
        """
        _refuse_async(function)
        return _answer(run_sync(self._settlement.driver.call(self._attempt, self._effect(function, args, kwargs))))

    def turn(self, *, order: Order = "turn", because: str | None = None) -> TurnFace:
        """Return a group of calls that act in the order in which they are planned."""
        return TurnFace(self, order, because)

    def commit(self) -> None:
        """Settle now, instead of at the end of the `with` block.

        Raises:
            Refused: it was undone instead. PartialCommit, InDoubt: see there.
            StateError: it is sealed or settled already; nothing moved.
        """
        if self._attempt.replay is None:
            run_sync(self._settlement.driver.commit(self._attempt))

    def abort(self, reason: str = "aborted by the caller") -> None:
        """Undo everything now. A settled transaction stays as it is.

        Raises:
            StateError: it is committed, so there is nothing to abort; nothing moved.
        """
        if self.state in (State.COMMITTED, State.RELEASING):
            raise StateError(f"{self.name} is {self.state}: it can no longer be undone", transaction=self.name,
                             state=self.state)  # fmt: skip
        run_sync(self._settlement.driver.abort(self._attempt, Reason.FAILED, cause=reason))


class AsyncTransaction(_Face):
    """An open transaction for async code: the same, awaited."""

    async def read(self, scope: str | Scope, fetch: Callable[[], Any] | None = None) -> Any:
        """Note that the plan depends on a resource, and return what `fetch` returns, if given."""
        return await run_async(self._settlement.driver.call(self._attempt, self._read_effect(scope, fetch)))

    async def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool, async or not (then in a thread). See `Transaction.call`."""
        return _answer(
            await run_async(self._settlement.driver.call(self._attempt, self._effect(function, args, kwargs)))
        )

    def turn(self, *, order: Order = "turn", because: str | None = None) -> TurnFace:
        """Return a group of calls that act in the order in which they are planned."""
        return TurnFace(self, order, because)

    async def commit(self) -> None:
        """Settle now, instead of at the end of the `async with` block. See `Transaction.commit`."""
        if self._attempt.replay is None:
            await run_async(self._settlement.driver.commit(self._attempt))

    async def abort(self, reason: str = "aborted by the caller") -> None:
        """Undo everything now. See `Transaction.abort`."""
        if self.state in (State.COMMITTED, State.RELEASING):
            raise StateError(f"{self.name} is {self.state}: it can no longer be undone", transaction=self.name,
                             state=self.state)  # fmt: skip
        await run_async(self._settlement.driver.abort(self._attempt, Reason.FAILED, cause=reason))


class TurnFace:
    """The calls of one turn: they act in the order in which they were planned, whoever runs first.

    `plan` gives a call its place and returns it unrun, to be run from any thread or task; `call`
    plans and runs at once.
    """

    def __init__(self, transaction: Transaction | AsyncTransaction, order: Order, because: str | None) -> None:
        self._transaction = transaction
        self._because = because
        continues = transaction._attempt.on_failure == "continue"  # noqa: SLF001 - one class in two faces
        self._turn = Turn(order=order, stop_on_failure=not continues)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def plan(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> PlannedCall:
        """Give a call the next place in the turn, and return it to be run."""
        if isinstance(self._transaction, Transaction):
            _refuse_async(function)
        effect = self._transaction._effect(function, args, kwargs)  # noqa: SLF001
        return self.seat(effect)

    def seat(self, effect: Effect) -> PlannedCall:
        """Give an effect the next place in the turn; integrations build theirs with `effect_of`."""
        effect.rationale = effect.rationale or self._because
        face = self._transaction
        with face._settlement.driver.step:  # noqa: SLF001
            seat = self._turn.take(effect.declaration, *effect.scopes)
        return PlannedCall(face._settlement.driver, face._attempt, effect, self._turn, seat)  # noqa: SLF001

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Plan a call and run it at once; awaitable in an async transaction."""
        planned = self.plan(function, *args, **kwargs)
        return planned.arun() if isinstance(self._transaction, AsyncTransaction) else planned.run()


class PlannedCall:
    """A call with its place in a turn."""

    __slots__ = ("_attempt", "_driver", "_turn", "effect", "seat")

    def __init__(self, driver: Driver, attempt: Attempt, effect: Effect, turn: Turn, seat: Seat) -> None:
        self._driver = driver
        self._attempt = attempt
        self._turn = turn
        self.effect = effect
        self.seat = seat

    def run(self, let_through: tuple[type[BaseException], ...] = ()) -> Any:
        """Run it when its place has come; return its result or a `Queued`."""
        return _answer(run_sync(self._driver.call(self._attempt, self.effect, self._turn, self.seat, let_through)))

    async def arun(self, let_through: tuple[type[BaseException], ...] = ()) -> Any:
        """Run it when its place has come; return its result or a `Queued`."""
        return _answer(
            await run_async(self._driver.call(self._attempt, self.effect, self._turn, self.seat, let_through))
        )


class Opening:
    """A transaction about to begin: enter it with `with` or `async with`."""

    def __init__(self, settlement: Settlement, options: dict[str, Any]) -> None:
        self._settlement = settlement
        self._options = options
        self._face: Transaction | AsyncTransaction | None = None

    def __enter__(self) -> Transaction:
        attempt = run_sync(self._settlement.driver.begin(**self._options))
        self._face = Transaction(self._settlement, attempt)
        return self._face

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._face, Transaction)
        run_sync(self._leaving(self._face, error))

    async def __aenter__(self) -> AsyncTransaction:
        attempt = await run_async(self._settlement.driver.begin(**self._options))
        self._face = AsyncTransaction(self._settlement, attempt)
        return self._face

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._face, AsyncTransaction)
        await run_async(self._leaving(self._face, error))

    def _leaving(self, face: _Face, error: BaseException | None) -> Any:
        driver, attempt = self._settlement.driver, face._attempt  # noqa: SLF001 - the same module's pair
        if error is not None:
            return driver.abort(attempt, Reason.FAILED, cause=f"{type(error).__name__}: {error}")
        if face.state is State.COMMITTED or (face.state is State.ABORTED and _aborted_by_caller(attempt)):
            return driver.nothing()
        return driver.commit(attempt)


def _aborted_by_caller(attempt: Attempt) -> bool:
    return attempt.live.reason is Reason.FAILED


class Settlement:
    """A settlement layer over a ledger: threads and tasks may share one.

    Args:
        url: where its ledger lives: `"memory:"`, `"sqlite:///FILE"`; by default `$SETTLEMARK_URL`,
            else `sqlite:///settlemark.db`.
        namespace: keeps several users of one store apart.
        wait: how long a call or a commit may wait for another, in seconds.
        on_failure: what a failed call does: `"abort"` its transaction, `"retry"` it first (see
            `retries`), or let the turn `"continue"`.
        retries: how often a faulted call is tried, and the pauses between.
        on_residue: called with a transaction's name when it left something to mend.
        retain: how many finished transactions a memory ledger keeps.
        clock, monotonic, ids: injected time and identity, for tests.

    Raises:
        LedgerError: the ledger cannot be opened; the message says what to do.

    >>> rooms = []
    >>> from settlemark import effect
    >>> @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: rooms.remove(hotel))
    ... def reserve(hotel): rooms.append(hotel)
    >>> settlement = Settlement("memory:")
    >>> with settlement.transaction("trip-42") as tx:
    ...     tx.call(reserve, hotel="Ada")
    >>> rooms
    ['Ada']
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str = "default",
        wait: float = 30.0,
        on_failure: OnFailure = "abort",
        retries: Retries | None = None,
        on_residue: Callable[[str], None] | None = None,
        retain: int = 10_000,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self.url = url or _default_url()
        self._wait = wait
        self._on_failure: OnFailure = on_failure
        self._retries = retries or Retries()
        self._ids = ids
        self._declarations: dict[str, Declaration] = {}
        self._seen: dict[str, tuple[Declaration | None, Callable[..., Any] | None, Declaration]] = {}
        self._told: set[str] = set()
        self._supersteps: OrderedDict[str, int] = OrderedDict()
        self.ledger = open_ledger(self.url, namespace=namespace, retain=retain)
        self.protocol = Protocol()
        self._worker = worker_name(ids()[:8])
        # A settlement that is dropped unclosed is no longer running anything.
        weakref.finalize(self, retire, self._worker)
        self.driver = Driver(
            self.protocol,
            self.ledger,
            clock=clock,
            monotonic=monotonic,
            worker=self._worker,
            declaration=self._declared_as,
            prefix="" if namespace == "default" else f"{namespace}:",
            on_residue=on_residue,
        )

    # ---- transactions

    def transaction(
        self,
        name: str | None = None,
        *,
        run: str | None = None,
        may_touch: Iterable[str | Scope] = (),
        before_commit: Sequence[Hook] = (),
        wait: float | None = None,
        on_failure: OnFailure | None = None,
    ) -> Opening:
        """Return a transaction to enter with `with` or `async with`; leaving it settles.

        Args:
            name: names the work, as in `"trip-42"` or `"trip-42/book"`: entering a committed name again
                replays its results, an aborted one tries anew. Without a name nothing is replayed.
            run: the job it belongs to; by default the name up to its first slash.
            may_touch: scopes to hold from the start, so that nobody younger comes first.
            before_commit: hooks asked with the `Footprint`; `False` or a reason vetoes.
            wait: seconds; the settlement's by default.
            on_failure: the settlement's by default.

        Raises (from the `with` statement):
            Cancelled: the run was cancelled. Stale, Wounded, Vetoed, WaitTimeout: it was undone.
            PartialCommit, InDoubt: see there.
        """
        return Opening(self, self._options(name, run, may_touch, before_commit, wait, on_failure))

    def _options(
        self,
        name: str | None,
        run: str | None,
        may_touch: Iterable[str | Scope],
        before_commit: Sequence[Hook],
        wait: float | None,
        on_failure: OnFailure | None,
        *,
        retry: bool = False,
        position: Position | None = None,
    ) -> dict[str, Any]:
        chosen = name or self._ids()
        if name is None and run is None:
            self.tell_once("unnamed", "a transaction without a name cannot be told from its own retry: name it")
        return {
            "name": chosen,
            "run": run or chosen.split("/", 1)[0],
            "known": name is not None,
            "declared": [Scope.parse(scope) for scope in may_touch],
            "hooks": tuple(before_commit),
            "wait": self._wait if wait is None else wait,
            "on_failure": on_failure or self._on_failure,
            "retries": self._retries,
            "retry": retry,
            "position": position,
        }

    def run(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        run: str | None = None,
        may_touch: Iterable[str | Scope] = (),
        before_commit: Sequence[Hook] = (),
        wait: float | None = None,
        on_failure: OnFailure | None = "retry",
        tries: int = 20,
    ) -> Any:
        """Call `function(tx)` in a transaction and return its value; again on fresh state if it lost a race.

        A faulted call is retried too. With an async function, await the result.

        Raises:
            Refused: undone for another reason, or `tries` races were lost. Else what `function` raises.

        >>> Settlement("memory:").run("sum-1", lambda tx: tx.read("cell:/a", lambda: 2) + 1)
        3
        """
        options = self._options(name, run, may_touch, before_commit, wait, on_failure, retry=True)
        is_async = inspect.iscoroutinefunction(function)
        face = AsyncTransaction if is_async else Transaction
        program = self.driver.run(
            self.driver.begin(**options), lambda attempt: partial(function, face(self, attempt)), tries=tries
        )
        return run_async(program) if is_async else run_sync(program)

    def cancel(self, run: str) -> None:
        """Put up a fence: nothing of this run acts from here on, late siblings and retries included.

        What has not settled is undone before this returns. The fence outlives the process.
        """
        run_sync(self.driver.cancel(run))

    def acancel(self, run: str) -> Awaitable[None]:
        """Do as `cancel`, for an event loop."""
        return run_async(self.driver.cancel(run))

    def begin(self, name: str | None, *, run: str, position: Position | None = None) -> Program:
        """Return the program that begins a transaction, for an integration that runs and ends it itself."""
        return self.driver.begin(**self._options(name, run, (), (), None, None, position=position))

    def epoch_for(self, superstep: str) -> int:
        """Return the epoch that the transactions of one superstep share: a fresh one when it is first named."""
        with self.driver.step as protocol:
            epoch = self._supersteps.get(superstep)
            if epoch is None:
                epoch = self._supersteps[superstep] = protocol.next_epoch
                protocol.next_epoch = epoch + 1
                if len(self._supersteps) > SUPERSTEPS:
                    self._supersteps.popitem(last=False)
            else:
                self._supersteps.move_to_end(superstep)
            return epoch

    # ---- declarations

    def declare(self, tool: str, kind: EffectName | EffectClass, **parts: Any) -> Declaration:
        """Declare a tool that nobody of yours wrote, by its name; `parts` are those of `effect`.

        Raises:
            DeclarationError, ScopeError: the declaration is bad; nothing was declared.

        >>> Settlement("memory:").declare("send_email", "irreversible", scope="mail:/{to}").tool
        'send_email'
        """
        declaration = declare(tool, kind, **parts)
        self._declarations[tool] = declaration
        return declaration

    def declaration(self, function: Callable[..., Any] | None, tool: str | None = None) -> Declaration:
        """Return what is known of a tool: declared here, on the function, or else opaque (said once)."""
        own = declaration_of(function)
        name = tool or (str(getattr(function, "__name__", repr(function))) if own is None else own.tool)
        base = self._declarations.get(name) or own
        seen = self._seen.get(name)
        # Two functions may share a name: each keeps its own declaration and signature.
        if seen is not None and seen[0] is base and seen[1] == function:
            return seen[2]
        declared = base
        if declared is None:
            declared = declare(name, EffectClass.OPAQUE)
            self.tell_once(
                f"undeclared {name}",
                f"{name} is undeclared, so it runs in order and cannot be undone; say what it does:"
                f' settlement.declare("{name}", "read") or @effect(…)',
            )
        if declared.function is None and function is not None:
            declared = replace(declared, function=function)
        self._seen[name] = (base, function, declared)
        return declared

    def declared(self, tool: str, function: Callable[..., Any] | None = None) -> Declaration | None:
        """Return what was declared of a tool, here or on its function, or None; nothing is logged or kept."""
        return self._declarations.get(tool) or declaration_of(function)

    def _declared_as(self, tool: str) -> Declaration | None:
        seen = self._seen.get(tool)
        return self._declarations.get(tool) or declared_as(tool) or (None if seen is None else seen[2])

    def adopt(self, declaration: Declaration) -> None:
        """Know a tool by a declaration that exists already, as `declare` would make it known."""
        self._declarations[declaration.tool] = declaration

    def effect_of(
        self,
        declaration: Declaration,
        arguments: dict[str, Any],
        run_tool: Callable[[], Any],
        *,
        run: str,
        call_id: str | None = None,
    ) -> Effect:
        """Return the effect of one call: which scopes it touches under its declaration.

        Raises:
            ScopeError: an argument cannot be a scope's segment; nothing was run.
        """
        scopes: tuple[Scope, ...] = tuple(template.fill(arguments) for template in declaration.may_touch)
        if declaration.scope is not None:
            scopes = (declaration.scope.fill(arguments), *scopes)
        elif declaration.kind is EffectClass.OPAQUE:
            scopes = (Scope.parse(f"run:/{escape(run)}"), *scopes)
        return Effect(declaration, scopes, arguments, run_tool, call_id=call_id)

    def tell_once(self, topic: str, text: str) -> None:
        """Log a warning, the first time this topic comes up."""
        if topic not in self._told:
            self._told.add(topic)
            _log.warning("%s", text)

    # ---- what an operator sees

    def residue(self) -> list[Residue]:
        """Return what aborts and partial commits left, oldest first: what somebody must look at."""
        return [
            Residue(
                recorded.row.name,
                recorded.row.attempt,
                effect.row.tool,
                effect.row.scope,
                effect.row.key,
                effect.tag,
                effect.note or "",
                _codec.decode(effect.row.arguments),
                _codec.decode(effect.result),
            )
            for recorded in self.ledger.transactions()
            for effect in recorded.effects
            if effect.tag is not None and effect.tag is not Tag.CLEAN
        ]

    def transactions(self) -> list[RecordedTransaction]:
        """Return every recorded attempt of every transaction, oldest first."""
        return self.ledger.transactions()

    def waiting(self) -> list[tuple[str, str, str]]:
        """Return who waits now: (transaction, its holder, the scope)."""
        return [(name, holder, scope.text) for name, holder, scope in list(self.driver.waiting.values())]

    def show(self) -> str:
        """Return the account of this settlement's ledger, in sentences."""
        from settlemark._show import account

        return account(self.transactions())

    def close(self) -> None:
        """Write what is queued and let go of the ledger."""
        retire(self._worker)
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _default_url() -> str:
    url = os.environ.get("SETTLEMARK_URL", DEFAULT_URL)
    _log.info("the ledger is %s; name another with Settlement(url) or $SETTLEMARK_URL", url)
    return url


__all__ = [
    "AsyncTransaction",
    "Opening",
    "PlannedCall",
    "Queued",
    "Residue",
    "Settlement",
    "Transaction",
    "TurnFace",
]
