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
from typing import Any, Self, get_args

from settlemark import _codec
from settlemark._acting import Program, Retries
from settlemark._attempt import Hook, OnFailure
from settlemark._driver import Driver
from settlemark._effect import (
    Declaration,
    Effect,
    EffectClass,
    EffectName,
    declaration_of,
    declare,
    declared_as,
)
from settlemark._errors import UsageError
from settlemark._index import Position
from settlemark._protocol import Protocol
from settlemark._recovery import retire, shared_by, worker_name
from settlemark._runners import run_async, run_sync
from settlemark._scope import Scope, escape
from settlemark._states import Tag
from settlemark._transaction import AsyncTransaction, Opening, Transaction
from settlemark.ledger import RecordedTransaction, open_ledger

_log = logging.getLogger("settlemark")

DEFAULT_URL = "sqlite:///settlemark.db"
_RUN = "a run is the id of its job, the name of its transactions up to the first slash"
SUPERSTEPS = 1_000  # remembered: a node that comes back later has a fresh epoch, which is never wrong


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


class Settlement:
    """A settlement layer over a ledger: threads and tasks may share one.

    Args:
        url: where its ledger lives: `"memory:"`, `"sqlite:///FILE"`; by default `$SETTLEMARK_URL`,
            else `sqlite:///settlemark.db`.
        namespace: keeps several users of one store apart.
        wait: how long a call or a commit may wait for another, in seconds.
        on_failure: what a failed call does to its turn, and in a framework to its step: `"abort"` it,
            `"retry"` the call first (see `retries`), or let it `"continue"`. In plain code the exception
            decides: one that leaves the `with` block aborts.
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
        self._wait = _checked_wait(wait)
        self._on_failure: OnFailure = _checked_choice(on_failure)
        self._retries = retries or Retries()
        self._ids = ids
        self._declarations: dict[str, Declaration] = {}
        self._seen: dict[str, tuple[Declaration | None, Callable[..., Any] | None, Declaration]] = {}
        self._told: set[str] = set()
        self._supersteps: OrderedDict[str, int] = OrderedDict()
        self.ledger = open_ledger(self.url, namespace=namespace, retain=retain)
        self.protocol = Protocol()
        self._worker = worker_name(ids()[:8], self.url)
        if shared_by(self.url) > 1:
            _log.warning(
                "%s is open in this process already: what two settlements do does not wait for each other; share one",
                self.url,
            )
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
        may_touch: str | Scope | Iterable[str | Scope] = (),
        before_commit: Hook | Sequence[Hook] = (),
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
        may_touch: str | Scope | Iterable[str | Scope],
        before_commit: Hook | Sequence[Hook],
        wait: float | None,
        on_failure: OnFailure | None,
        *,
        retry: bool = False,
        position: Position | None = None,
    ) -> dict[str, Any]:
        if name is not None:
            _checked_text(name, "a transaction's name is a text, as in 'trip-42'")
        hooks = (before_commit,) if callable(before_commit) else tuple(before_commit)
        scopes = (may_touch,) if isinstance(may_touch, str | Scope) else may_touch
        chosen = name or self._ids()
        if name is None and run is None:
            self.tell_once("unnamed", "a transaction without a name cannot be told from its own retry: name it")
        return {
            "name": chosen,
            "run": run or chosen.split("/", 1)[0],
            "known": name is not None,
            "declared": [Scope.parse(scope) for scope in scopes],
            "hooks": hooks,
            "wait": self._wait if wait is None else _checked_wait(wait),
            "on_failure": self._on_failure if on_failure is None else _checked_choice(on_failure),
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
        may_touch: str | Scope | Iterable[str | Scope] = (),
        before_commit: Hook | Sequence[Hook] = (),
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

        What has not settled is undone before this returns; what is leaving stops before its next
        release. The fence outlives the process and is for good: later work needs another run id.

        Raises:
            UsageError: `run` is empty, or names a transaction; the message names its run.
        """
        run_sync(self.driver.cancel(_checked_text(run, _RUN)))

    def acancel(self, run: str) -> Awaitable[None]:
        """Do as `cancel`, for an event loop."""
        return run_async(self.driver.cancel(_checked_text(run, _RUN)))

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
        if function is not None and (declared.function is None or inspect.ismethod(function)):
            declared = replace(declared, function=function)  # a bound method is called without its `self`
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
        from settlemark._show import left_over

        return [
            Residue(
                recorded.row.name,
                recorded.row.attempt,
                effect.row.tool,
                effect.row.scope,
                effect.row.key,
                effect.tag or Tag.UNRESOLVED,
                effect.note or "",
                _codec.decode(effect.row.arguments),
                _codec.decode(effect.result),
            )
            for recorded, effect in left_over(self.ledger.transactions())
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


def _checked_wait(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise UsageError(f"wait={seconds!r}: give seconds, 0 or more")
    return seconds


def _checked_choice(on_failure: OnFailure) -> OnFailure:
    if on_failure not in get_args(OnFailure):
        raise UsageError(f"on_failure={on_failure!r}: choose one of {', '.join(map(repr, get_args(OnFailure)))}")
    return on_failure


def _checked_text(text: object, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{what}, not {text!r}")
    return text


def _default_url() -> str:
    url = os.environ.get("SETTLEMARK_URL", DEFAULT_URL)
    _log.info("the ledger is %s; name another with Settlement(url) or $SETTLEMARK_URL", url)
    return url


__all__ = ["DEFAULT_URL", "Residue", "Settlement"]
