"""The public face: a settlement, its transactions, and what they tell."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from settlemark._acts.bodies import in_body
from settlemark._acts.current import current_call
from settlemark._acts.effect import Effect, Frozen
from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program, Retries
from settlemark._api.hold import Hold
from settlemark._api.operators import Operators
from settlemark._api.transaction import AsyncTransaction, Opening, Transaction, checked_park
from settlemark._attempt.attempt import Hook, OnFailure, Part
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import DeclarationError, UsageError
from settlemark._edges.text import CALL_ID, DERIVED, NAME, NAMESPACE, TOOL, Most, brief, identity
from settlemark._lifecycle.parking import Park, Parked
from settlemark._model import json_text
from settlemark._model.declaration import Declaration, Registry
from settlemark._model.declare import declaration_of, declare, declared_as, named_by
from settlemark._model.effect_class import EffectClass, EffectName
from settlemark._model.guards import Order, Reads, Tools, guards_for
from settlemark._model.level import Level
from settlemark._model.scope import Scope, escape
from settlemark._observe.events import LostLease, Observer, Recovered, Told
from settlemark._observe.logs import about, keep_from_logs, let_into_logs
from settlemark._protocol.index import Position
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State, Tag
from settlemark._runtime.aio import run_async
from settlemark._runtime.background import Asker, Tender, Watch
from settlemark._runtime.choice import Choice
from settlemark._runtime.driver import Driver
from settlemark._runtime.retention import DAY, KEYS_DAYS, Keeper, Pruned, age_of, prune, total
from settlemark._runtime.speculation import Speculation
from settlemark._runtime.sync import run_sync
from settlemark.ledger import RecordedTransaction, open_ledger
from settlemark.ledger._contract import Page
from settlemark.ledger._forking import Origin
from settlemark.ledger._lease import QUARANTINE_SECONDS
from settlemark.ledger._payloads.encryption import Encryption, KeySource, encryption_of
from settlemark.ledger._payloads.recoverable import objections
from settlemark.ledger._payloads.redaction import Redaction, Rule
from settlemark.ledger._urls import shown

if TYPE_CHECKING:
    from settlemark.history._engine import Historian

_log = logging.getLogger("settlemark")

WaitFor = Literal["scopes", "nobody"]
"""For whom a lost race makes wait: for those who are before on the same scopes, or nobody."""
DEFAULT_URL = "sqlite:///settlemark.db"
_RUN = "a run is the id of its job, the name of its transactions up to the first slash"
_TOOL = "a tool is known by its name, a text"
_PARKED = "what is parked is known by its name, a text"
LEAST_LEASE = 0.5
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
    dealt_by: str | None = None
    dealt_at: float | None = None


class Settlement(Operators):
    """A settlement layer over a ledger: threads and tasks may share one.

    Args:
        url: where its ledger lives: `"memory:"`, `"sqlite:///FILE"`; by default `$SETTLEMARK_URL`,
            else `sqlite:///settlemark.db`.
        namespace: keeps several users of one store apart.
        wait: how long a call or a commit may wait for another, in seconds; and for a store that does not answer, which
            is given one second at least.
        lease: seconds after which a process that does not move is thought dead, and others end what it began.
        quarantine: seconds for which a process of another host that was thought dead may still be sending: until
            then what a probe calls absent is not sent again, and its transaction keeps the scopes of what was out, so
            that nobody reads or writes there before that has come, or cannot. A process of this host may until it has
            ended. 0 keeps nothing for other hosts: what comes late is then undone or named behind who read it.
        keep_open: seconds for which an open transaction of an ended process is left as it is, for its framework
            to enter its name again and go on; then it is undone.
        max_age: seconds for which a transaction may be open in a process that lives: an agent that hangs holds what it
            holds. After three quarters of it that is told (log, observer); then the transaction is undone as soon as
            no call of it runs, and what its agent calls late is refused (`Overdue`). One that is put aside for a
            person does not age, nor does a hold; a retry begins anew. By default nothing is ended: after an hour
            it is told, once, that a transaction is still open and what it holds.
        ask: called with a `Failure` where `on_failure="ask"`, and says what to do about it: `"retry"`, `"skip"` (the
            call returns None, and the step goes on without it) or `"abort"`. It may be async. Its step waits for the
            answer, and holds what it holds.
        approver: called with a `Gate` before a call acts whose declaration has `approve=`, where no framework asks in
            its own way; answers True, False, or `{"decision": "approve" | "reject" | "edit", "arguments": {…},
            "because": "…"}`. It may be async. Without one, what is irreversible waits for `answer`, and what would act
            at once is refused.
        on_failure: what a failed call does to its turn, and in a framework to its step: `"abort"` it,
            `"retry"` the call first (see `retries`), or let it `"continue"`. In plain code the exception
            decides: one that leaves the `with` block aborts. A call whose outcome is unknown is gone on from, too:
            then its transaction commits, its scope is free, and it is named by `in_doubt()` and `residue()`.
        retries: how often a faulted call is tried, and the pauses between.
        on_residue: called with a transaction's name when it left something to mend.
        retain: how many finished transactions a memory ledger keeps.
        redact: what must never be recorded: fields as dotted paths (`"card.number"`, `"*.token"`), or a function of
            tool, path and value that returns what to record. A replay answers with what was recorded, where
            `{"$redacted": null}` stands for it, and after a crash a handler that needs it does not run.
        encrypt: a key from `new_key()`, several (the first encrypts, all decrypt), a function of the tenant that
            returns either, or an `Encryption`. Who drops the key has erased the payloads, in backups too. Names,
            runs, scopes, keys and tools are recorded as they are: keep secrets out of them.
        tenant: whose key that is; the namespace by default.
        retention: days for which the payloads of finished transactions are kept; for good by default. The keys of
            decisions stay for the `window` their tools declare, or a year: until then nothing runs again. This, and
            `prune`, go by this host's clock and by the times that each host wrote down: keep them by NTP.
        observe: told of what is done, as it is done: transactions, waits, acts, lost leases; see
            `settlemark.telemetry.OpenTelemetry`.
        prevent: which anomalies between agents do not happen: a `Level`, or a set of their names; by default all. What
            is left out is a measured risk: see `settlemark check`.
        reads: `"settled"` ones wait for what others have begun. `"early"` ones see it, and their transaction then
            commits behind those others, or is undone with them (`Cascaded`); nothing irreversible leaves before.
        tools: a planned call whose tool is revoked, or declared otherwise in its process, before it settles is undone.
            `"pinned"`, it is called as it was planned, unless the tool was revoked.
        history: a file to which a record of each transaction is appended: see `settlemark.history`.
        clock, monotonic, store_clock, ids: injected time and identity, for tests. `window=` goes by the store's clock.

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

    def __init__(  # noqa: PLR0913 - one keyword for each thing a user may choose
        self,
        url: str | None = None,
        *,
        namespace: str = "default",
        wait: float = 30.0,
        lease: float = 30.0,
        quarantine: float = QUARANTINE_SECONDS,
        keep_open: float = 30.0,
        max_age: float | None = None,
        on_failure: OnFailure = "abort",
        ask: Ask | None = None,
        approver: Approver | None = None,
        retries: Retries | None = None,
        on_residue: Callable[[str], None] | None = None,
        retain: int = 10_000,
        redact: str | Sequence[str] | Rule | None = None,
        encrypt: KeySource | Encryption = None,
        tenant: str | None = None,
        retention: float | None = None,
        observe: Observer | None = None,
        prevent: Level | Iterable[str] = Level.L4,
        reads: Reads = "settled",
        tools: Tools = "checked",
        history: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        store_clock: Callable[[], float] | None = None,
        ids: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self.url = url or _default_url()
        self._wait = _checked_wait(wait)
        self._on_failure: OnFailure = _checked_choice(on_failure, ask)
        self._max_age = None if max_age is None else _checked_age(max_age)
        self._ask = ask
        self._approver = approver
        self._retries = retries or Retries()
        self.guards = guards_for(prevent, reads=reads, tools=tools)
        self._ids = ids
        self._declarations: dict[str, Declaration] = {}
        self._registry = Registry()
        self._seen: dict[str, tuple[Declaration | None, Callable[..., Any] | None, Declaration]] = {}
        self._told: set[str] = set()
        self._supersteps: OrderedDict[str, int] = OrderedDict()
        older_than = None if retention is None else _checked_days(retention) * DAY
        self.ledger = open_ledger(
            self.url,
            namespace=identity(namespace, "namespace=", NAMESPACE),
            retain=retain,
            lease=_checked_lease(lease),
            wait=self._wait,
            redaction=None if redact is None else Redaction(redact),
            encryption=encryption_of(encrypt, namespace=namespace, tenant=tenant),
            quarantine=_checked_wait(quarantine, "quarantine"),
            monotonic=monotonic,
            store_clock=store_clock or (clock if self.url == "memory:" else None),
        )
        self.driver = Driver(
            self.ledger,
            clock=clock,
            monotonic=monotonic,
            declaration=self._declared_as,
            namespace=namespace,
            on_residue=on_residue,
        )
        self.driver.answers.remake = lambda run, effect, arguments: self.remade(effect, arguments, run=run)
        self.driver.answers.patience = self._wait
        self.driver.recovery.keep_open = _checked_wait(keep_open, "keep_open")
        if observe is not None:
            told = self.driver.kernel.telling.observer = Told(observe)
            self.ledger.watch_leases(lambda worker, transactions: told.tell(LostLease(worker, transactions)))
        if encrypt is not None:
            keep_from_logs(self)
        self._historian = None if history is None else self._recording(history)
        here = Origin()
        self._tender: Tender | None = None
        if not self.ledger.immediate:
            self._tender = Tender(self.driver, every=lease / 3)
            self.ledger.watch_aborts(self._tender.tell)
            self.driver.kernel.wake_tender = self._tender.tell
            self._tender.start()
            weakref.finalize(self, here.guarded(self._tender.tell))
        self._clock = clock
        self._keeper = None if older_than is None else Keeper(self.ledger, older_than=older_than, clock=clock)
        if self._keeper is not None:
            self._keeper.start()
            weakref.finalize(self, here.guarded(self._keeper.tell))
        self.driver.kernel.retries = self._retries
        self._asker = Asker(self.driver)
        self.driver.probing.on_doubt = self._asker.tell
        weakref.finalize(self, here.guarded(self._asker.wake))
        self._watch = Watch(self.driver)
        self.driver.ages.on_age = self._watch.tell
        weakref.finalize(self, here.guarded(self._watch.wake))

    @property
    def patience(self) -> float:
        """Seconds for which a call or a commit may wait for another: `wait=`."""
        return self._wait

    @property
    def protocol(self) -> Protocol:
        """The protocol as this process knows it: to be looked at."""
        return self.ledger.protocol

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
        ask: Ask | None = None,
        approver: Approver | None = None,
        park: Park = "keep",
        prevent: Level | Iterable[str] | None = None,
        max_age: float | None = None,
        independent: bool = False,
    ) -> Opening:
        """Return a transaction to enter with `with` or `async with`; leaving it settles.

        Args:
            name: names the work, as in `"trip-42"` or `"trip-42/book"`: entering a committed name again
                replays its results, an aborted one tries anew. Without a name nothing is replayed.
            run: the job it belongs to; by default the name up to its first slash.
            may_touch: scopes to hold from the start, so that nobody younger comes first.
            before_commit: hooks asked with the `Footprint`; `False` or a reason vetoes. Whoever enters the name of one
                that was put aside gives them anew; in the process that did, those given before stay where none are.
                Answered in a process that does not know them, nothing of it leaves: `approve` says so, and waits.
            wait: seconds; the settlement's by default.
            on_failure: the settlement's by default.
            ask: the settlement's by default.
            approver: the settlement's by default.
            park: how it is put aside, by `tx.park()` or because something of it waits for a yes (`approve=`): `"keep"`
                it whole, or `"split"` it at its gates.
            prevent: the settlement's by default; see `Settlement`.
            max_age: seconds; the settlement's by default.
            independent: begun inside another's tool call it *joins* that: its calls become that transaction's,
                and its end does not settle. True begins one of its own, which may touch nothing its caller holds.

        Raises (from the `with` statement):
            Entangled: it is independent, and declares what its caller holds. Cancelled: the run was cancelled.
            Stale, Wounded, Vetoed, WaitTimeout: it was undone.
            PartialCommit, InDoubt: see there.
        """
        options = self._options(
            name, run, may_touch, before_commit, wait, on_failure, ask=ask, approver=approver, prevent=prevent,
            max_age=max_age,
        )  # fmt: skip
        return Opening(self, {**options, "independent": independent}, checked_park(park))

    def _options(  # noqa: PLR0913 - one for each that a user may choose
        self,
        name: str | None,
        run: str | None,
        may_touch: str | Scope | Iterable[str | Scope],
        before_commit: Hook | Sequence[Hook],
        wait: float | None,
        on_failure: OnFailure | None,
        *,
        ask: Ask | None = None,
        approver: Approver | None = None,
        prevent: Level | Iterable[str] | None = None,
        max_age: float | None = None,
        retry: bool = False,
        wait_for: WaitFor = "nobody",
        position: Position | None = None,
    ) -> dict[str, Any]:
        if name is not None:
            name = _checked_text(name, "a transaction's name is a text, as in 'trip-42'")
        if run is not None:
            run = _checked_text(run, _RUN)
        hooks = (before_commit,) if callable(before_commit) else tuple(before_commit)
        scopes = (may_touch,) if isinstance(may_touch, str | Scope) else may_touch
        chosen = name or identity(self._ids(), "a name that ids= gave")
        if position is not None and position[1]:
            identity(position[1], "a position's ordinal", DERIVED)
        if name is None and run is None and current_call() is None:
            self.tell_once("unnamed", "a transaction without a name cannot be told from its own retry: name it")
        return {
            "name": chosen,
            "run": run or chosen.split("/", 1)[0],
            "known": name is not None,
            "declared": [Scope.parse(scope) for scope in scopes],
            "hooks": hooks,
            "wait": self._wait if wait is None else _checked_wait(wait),
            "on_failure": _checked_choice(on_failure or self._on_failure, ask or self._ask),
            "ask": ask or self._ask,
            "approver": approver or self._approver,
            "retries": self._retries,
            "retry": retry,
            "queues": _checked_wait_for(wait_for) == "scopes",
            "position": position,
            "guards": self.guards if prevent is None else self.guards.against(prevent),
            "whole": True,
            "max_age": self._max_age if max_age is None else _checked_age(max_age),
        }

    def run(  # noqa: PLR0913 - one keyword for each thing a user may choose
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        run: str | None = None,
        may_touch: str | Scope | Iterable[str | Scope] = (),
        before_commit: Hook | Sequence[Hook] = (),
        wait: float | None = None,
        on_failure: OnFailure | None = "retry",
        ask: Ask | None = None,
        approver: Approver | None = None,
        prevent: Level | Iterable[str] | None = None,
        max_age: float | None = None,
        independent: bool = False,
        wait_for: WaitFor = "scopes",
        tries: int = 20,
    ) -> Any:
        """Call `function(tx)` in a transaction and return its value; again on fresh state if it lost a race.

        A faulted call is retried too. With an async function, await the result. Inside another's tool call it
        joins that, as with `transaction`, and is called once: it is the caller that begins again.

        After a lost race it is called again when those before it on what it had read are done: until then what it
        reads would be out of date again. Where others stand in line so, its first reads wait with them. Neither wait
        fails; after `wait=` without progress it goes ahead. With `wait_for="nobody"` it stands in no line: for what
        mostly looks.

        Raises:
            Refused: undone for another reason, or `tries` races were lost. Else what `function` raises.

        >>> Settlement("memory:").run("sum-1", lambda tx: tx.read("cell:/a", lambda: 2) + 1)
        3
        """
        options = self._options(
            name, run, may_touch, before_commit, wait, on_failure, ask=ask, approver=approver, prevent=prevent,
            max_age=max_age, retry=True, wait_for=wait_for,
        )  # fmt: skip
        is_async = inspect.iscoroutinefunction(function)
        face = AsyncTransaction if is_async else Transaction
        program = self.driver.runs.run(
            self.driver.entrance.enter(**options, independent=independent),
            lambda part: partial(in_body(self.driver.kernel, part.attempt.name, function), face(self, part)),
            tries=tries,
        )
        return run_async(program) if is_async else run_sync(program)

    def speculate(
        self,
        branches: Sequence[Callable[[Any], Any]],
        choose: Callable[[list[Any]], Any],
        *,
        name: str | None = None,
        run: str | None = None,
        may_touch: str | Scope | Iterable[str | Scope] = (),
        before_commit: Hook | Sequence[Hook] = (),
        wait: float | None = None,
        on_failure: OnFailure | None = "retry",
        ask: Ask | None = None,
        tries: int = 20,
    ) -> Any:
        """Call each branch with a transaction of its own, all at once; commit the one chosen, and return its value.

        The others are undone, and finished, before it commits: an eager effect of theirs is taken back, a held
        one never left. No branch waits for another: what one has done at once is refused to the others
        (`Entangled`); declare such a tool staged. With an async branch, await the result.

        Args:
            branches: functions of a transaction, run in threads, or tasks.
            choose: called with a list: each branch's value, or the exception it failed with; returns the place of
                one that did not fail, or None for none.
            name: names the work: when a branch has committed under it, that is replayed, and nothing chosen again.
            run: the job it belongs to; by default the name up to its first slash.
            may_touch: scopes to hold from the start, so that nobody younger comes first.
            before_commit: hooks asked with the winner's `Footprint`.
            wait: seconds; the settlement's by default.
            on_failure: of a branch's call.
            ask: the settlement's by default.
            tries: how often a branch that loses a race is run.

        Raises:
            ExceptionGroup: every branch failed. UsageError: no such branch was there to choose.
            Refused: the winner was undone, too. PartialCommit, InDoubt: see there. Else what `choose` raises.

        >>> settlement = Settlement("memory:")
        >>> offers = [lambda tx: tx.read("price:/Ada", lambda: 90), lambda tx: tx.read("price:/Bee", lambda: 80)]
        >>> settlement.speculate(offers, lambda prices: prices.index(min(prices)), name="trip-42")
        80
        """
        if not branches:
            raise UsageError("speculate() was given no branch: give it one at least; nothing was run")
        options = self._options(name, run, may_touch, before_commit, wait, on_failure, ask=ask)

        def body(branch: Callable[[Any], Any]) -> Callable[[Part], Callable[[], Any]]:
            face = AsyncTransaction if inspect.iscoroutinefunction(branch) else Transaction
            within = in_body(self.driver.kernel, options["name"], branch)
            return lambda part: partial(within, face(self, part))

        bodies = [body(branch) for branch in branches]
        program = Speculation(self.driver, options["name"], bodies, choose, options, tries=tries).program()
        is_async = any(inspect.iscoroutinefunction(function) for function in (*branches, choose))
        return run_async(program) if is_async else run_sync(program)

    def parked(self) -> list[Parked]:
        """Return what `tx.park()` has put aside and nobody has answered yet, oldest first."""
        return self.driver.parking.parked()

    def answer(
        self,
        name: str,
        approve: bool,
        *,
        arguments: Mapping[str, Any] | None = None,
        because: str | None = None,
        wait: float | None = None,
    ) -> list[Any]:
        """Commit what is parked under this name, or undo it; return the results of what left, in order.

        It may have been parked by another process, if the tools are declared in this one.

        Args:
            name: one of `parked()`.
            approve: False undoes it; of one that was split off, it drops what was gated.
            arguments: for its one gated effect, in place of those it was queued with.
            because: why not, for the record.
            wait: seconds; the settlement's by default.

        Raises:
            UsageError: nothing is parked under this name, `arguments` has no one effect to go to, or it has
                `before_commit=` hooks that this process does not know; nothing moved.
            DeclarationError: a tool of it is not declared in this process; nothing moved.
            Stale: what it read has changed since; it was undone. WaitTimeout, PartialCommit, InDoubt: see there.

        >>> sent = []
        >>> from settlemark import effect
        >>> @effect("irreversible", scope="mail:/{to}")
        ... def send_mail(to): sent.append(to)
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("trip-42") as tx:
        ...     _ = tx.call(send_mail, to="a@b.example")
        ...     tx.park("split")
        >>> [waiting.transaction for waiting in settlement.parked()]
        ['trip-42!0']
        >>> _ = settlement.answer("trip-42!0", approve=True)
        >>> sent
        ['a@b.example']
        """
        found: list[Any] = run_sync(self._answering(name, approve, arguments, because, wait))
        return found

    async def aanswer(
        self,
        name: str,
        approve: bool,
        *,
        arguments: Mapping[str, Any] | None = None,
        because: str | None = None,
        wait: float | None = None,
    ) -> list[Any]:
        """Do as `answer`, for an event loop."""
        self.remember_loop()
        found: list[Any] = await run_async(self._answering(name, approve, arguments, because, wait))
        return found

    def _answering(
        self, name: str, approve: bool, arguments: Mapping[str, Any] | None, because: str | None, wait: float | None
    ) -> Program[list[Any]]:
        return self.driver.parking.answer(
            _checked_text(name, _PARKED, DERIVED), approve=approve, arguments=arguments, because=because,
            remake=partial(self.remade, run=name.split("/", 1)[0]),
            wait=self._wait if wait is None else _checked_wait(wait), retries=self._retries,
        )  # fmt: skip

    def remade(self, effect: Effect, arguments: Mapping[str, Any], *, run: str) -> Effect:
        """Return the likeness of an effect with other arguments, not recorded yet.

        Raises:
            UsageError: the tool does not take them, or nobody here knows its function; nothing was run.
        """
        declaration = effect.declaration
        function = declaration.function
        if function is None:
            raise DeclarationError(
                f"{declaration.tool} cannot be called with other arguments: declare it on its function, or answer"
                " without arguments", tool=declaration.tool,
            )  # fmt: skip
        try:
            named = declaration.arguments((), dict(arguments))
        except TypeError as error:
            raise UsageError(
                f"{declaration.tool} does not take {json_text.encode_result(dict(arguments))}: {error}; nothing was run"
            ) from error
        named = json_text.snapshot(named)
        return self.effect_of(declaration, named, Frozen(function, (), named), run=run)

    def hold(self, *scopes: str | Scope, name: str | None = None, wait: float | None = None) -> Hold:
        """Return a hold, to enter: what begins later and overlaps these scopes does not settle before it is dropped.

        For an orchestrator that knows of work not begun: it begins that under the hold. It is no lock: it keeps a place
        in the order in which transactions settle, and who began later may read meanwhile, and is stale when he comes to
        settle on what was changed before him. For a resource that many want to change at once use `run`, which waits in
        line after a lost race before it reads again; a loop of one's own around a hold reads as often as it loses.

        Args:
            scopes: what the work may touch.
            name: what those who wait are told.
            wait: seconds for which its name may be in use by another; the settlement's by default.

        >>> settlement = Settlement("memory:")
        >>> with settlement.hold("room:/Ada", name="night") as hold:
        ...     with hold.transaction("night/1") as first, settlement.transaction("day") as later:
        ...         first.epoch < later.epoch
        True
        """
        options = self._options(name or f"hold-{self._ids()}", None, scopes, (), wait, None)
        return Hold(self.driver, self.transaction, {**options, "known": False})

    def advance(self, scope: str | Scope, epoch: int) -> None:
        """Say that all at or below this epoch is over on a scope: its floor, which never goes back.

        The engine advances by itself as transactions settle; this is for an orchestrator that knows more.

        Raises:
            ContractViolation: work at or below it may still come; the message says whose. Nothing moved.
            ScopeError: the scope is malformed.

        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("trip-42") as tx:
        ...     epoch = tx.epoch
        >>> settlement.advance("room:/Ada", epoch)
        """
        run_sync(self.driver.advance(Scope.parse(scope), _checked_epoch(epoch)))

    def cancel(self, run: str) -> None:
        """Put up a fence: nothing of this run acts from here on, late siblings and retries included.

        What has not settled is undone before this returns; what is leaving stops before its next
        release. A call that does not return is waited for up to 30 seconds (`wait=`, if that is less), one of a
        process that fell silent, and the one that this is called in, not at all: each is told of in the log, and its
        transaction ends when the call has, or its quarantine is over. The fence outlives the process and is for good
        (with `retention=`, for a year, or for as long as keys are told to stay): later work needs another run id.

        Raises:
            UsageError: `run` is empty, or names a transaction; the message names its run.
        """
        run_sync(self.driver.fences.cancel(_checked_text(run, _RUN)))

    def remember_loop(self) -> None:
        """Have handlers that nobody calls run in the event loop of the caller."""
        for tender in (self._tender, self._asker, self._watch):
            if tender is not None:
                tender.loop = weakref.ref(asyncio.get_running_loop())

    def acancel(self, run: str) -> Awaitable[None]:
        """Do as `cancel`, for an event loop."""
        return run_async(self.driver.fences.cancel(_checked_text(run, _RUN)))

    def begin(
        self,
        name: str | None,
        *,
        run: str,
        position: Position | None = None,
        may_touch: str | Scope | Iterable[str | Scope] = (),
        comes_back: bool = False,
    ) -> Program[Part]:
        """Return the program that begins a transaction, for an integration that runs and ends it itself.

        Its answer is a `Part`: where the caller is inside another's call, a part of that. `comes_back` says that a
        name that is entered again stands for the same decisions, as when a framework resumes: then what an aborted
        attempt did and could not undo is not done again, but answered from the record.
        """
        options = self._options(name, run, may_touch, (), None, None, position=position) | {"whole": False}
        return self.driver.entrance.enter(**options, independent=False, comes_back=comes_back)

    def choice(self, name: str, *, run: str, position: Position | None = None) -> Choice:
        """Return a choice that is not begun yet, for an integration whose framework runs the candidates."""
        return Choice(self.driver, self._options(name, run, (), (), None, None, position=position) | {"whole": False})

    def frontier(self, scope: str | Scope) -> int:
        """Return the epoch before which nothing more touches a scope, as far as this process knows by now.

        It grows as transactions settle; with nobody at work on the scope it is the next epoch.

        Raises:
            ScopeError: `scope` is none.

        >>> settlement = Settlement("memory:")
        >>> before = settlement.frontier("room:/Ada")
        >>> with settlement.transaction("trip", may_touch="room:/Ada") as tx:
        ...     settlement.frontier("room:/Ada") == tx.epoch
        True
        >>> settlement.frontier("room:/Ada") > before
        True
        """
        wanted = Scope.parse(scope)
        with self.driver.kernel.local as protocol:
            return protocol.frontier(wanted)

    def epoch_for(self, superstep: str) -> Program[int]:
        """Return the epoch that the transactions of one superstep share: a fresh one when it is first named."""
        with self.driver.kernel.local:
            epoch = self._supersteps.get(superstep)
            if epoch is not None:
                self._supersteps.move_to_end(superstep)
                return epoch
        fresh: int = yield from self.driver.leap()
        with self.driver.kernel.local:
            epoch = self._supersteps.setdefault(superstep, fresh)
            if len(self._supersteps) > SUPERSTEPS:
                self._supersteps.popitem(last=False)
        return epoch

    # ---- declarations

    def declare(self, tool: str, kind: EffectName | EffectClass, **parts: Any) -> Declaration:
        """Declare a tool that nobody of yours wrote, by its name; `parts` are those of `effect`.

        Declared here before, with another class, scope or version, it is changed: what was planned with it and has
        not settled is stale.

        Raises:
            DeclarationError, ScopeError, UsageError: the declaration is bad, or no name is given; nothing was declared.

        >>> Settlement("memory:").declare("send_email", "irreversible", scope="mail:/{to}").tool
        'send_email'
        """
        declaration = declare(_checked_text(tool, _TOOL, TOOL), kind, **parts)
        before = self._declarations.get(tool)
        self.adopt(declaration)
        if before is not None and before.signature != declaration.signature:
            run_sync(self.driver.registering(lambda protocol: protocol.rebind(tool, declaration.signature)))
        return declaration

    def declaration(self, function: Callable[..., Any] | None, tool: str | None = None) -> Declaration:
        """Return what is known of a tool: declared here, on the function, or else opaque (said once)."""
        own = declaration_of(function)
        name = tool or (named_by(function) if own is None else own.tool)
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
        self._withhold(declared)
        for told in objections(declared, self.ledger.payloads.redactions(declared.tool)):
            self.tell_once(told, told)
        return declared

    def _withhold(self, declaration: Declaration) -> None:
        if declaration.redact:
            self.ledger.payloads.withhold(declaration.tool, declaration.redact)

    def declared(self, tool: str, function: Callable[..., Any] | None = None) -> Declaration | None:
        """Return what was declared of a tool, here or on its function, or None; nothing is logged or kept."""
        return self._declarations.get(tool) or declaration_of(function)

    def _declared_as(self, tool: str, version: str | None = None) -> Declaration | None:
        found = self._registry.find(tool, version) or declared_as(tool, version)
        if found is not None:
            self._withhold(found)
            return found
        seen = self._seen.get(tool)
        return seen[2] if seen is not None and (version is None or seen[2].speaks_for(version)) else None

    def revoke(self, tool: str) -> None:
        """Take a tool away: no call of it begins, and what was planned with it and has not settled is undone.

        That is known to all who share the ledger, and outlasts this process: a tool that is declared again stays
        revoked until `reinstate`.

        >>> from settlemark import Revoked, effect
        >>> @effect("irreversible", scope="mail:/{to}")
        ... def send_mail(to): print("sent")
        >>> settlement = Settlement("memory:")
        >>> settlement.revoke("send_mail")
        >>> try:
        ...     settlement.run("trip-42", lambda tx: tx.call(send_mail, to="ada"))
        ... except Revoked as error:
        ...     print(error.tool)
        send_mail
        """
        if self.declared(_checked_text(tool, _TOOL, TOOL)) is None and self._declared_as(tool) is None:
            self.tell_once(f"revoke {tool}", f"{tool} was revoked, and nothing is declared here under that name")
        run_sync(self.driver.registering(lambda protocol: protocol.revoke(tool)))

    def reinstate(self, tool: str) -> None:
        """Give back a tool that was revoked."""
        _checked_text(tool, _TOOL, TOOL)
        run_sync(self.driver.registering(lambda protocol: protocol.reinstate(tool)))

    def turn(self, *, order: Order = "turn", stop_on_failure: bool = True, holds: bool = True) -> Turn:
        """Return the sequencer of a turn; without the guard against A6 its calls act as they come."""
        return Turn(order=self.guards.order(order), stop_on_failure=stop_on_failure, holds=holds)

    def adopt(self, declaration: Declaration) -> None:
        """Know a tool by a declaration that exists already, as `declare` would make it known."""
        self._declarations[declaration.tool] = declaration
        self._registry.add(declaration)

    def know(self, tool: str, function: Callable[..., Any]) -> None:
        """Know the function of a tool that nobody declared: an ended process may have left a call of it to be made."""
        opaque = Declaration(tool, EffectClass.OPAQUE, function=function)
        self._seen.setdefault(tool, (opaque, function, opaque))

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
            UsageError: no store can hold the call's id; nothing was run.
        """
        if call_id is not None:
            call_id = identity(call_id, f"the id of a call of {declaration.tool}", CALL_ID)
        self._withhold(declaration)
        scopes = declaration.scopes(arguments)
        if declaration.scope is None and declaration.kind is EffectClass.OPAQUE:
            scopes = (Scope.parse(f"run:/{escape(run)}"), *scopes)
        return Effect(declaration, scopes, arguments, run_tool, call_id=call_id, bound=self.protocol.changes)

    def tell_once(self, topic: str, text: str) -> None:
        """Log a warning, the first time this topic comes up."""
        if topic not in self._told:
            self._told.add(topic)
            _log.warning("%s", text, extra=about(topic=topic))

    # ---- what an operator sees

    def residue(
        self, *, last: int | None = None, since: float | None = None, run: str | None = None, dealt: bool = False
    ) -> list[Residue]:
        """Return what aborts and partial commits left, oldest first: what somebody must look at.

        What a process that is gone has left unfinished is not among it before that was taken up, which each
        settlement does in the background, and `recover()` now; `settlemark residue` counts it.

        Args:
            last: only the last so many.
            since: only what was begun since then, in seconds since 1970.
            run: only that of one run.
            dealt: what somebody has dealt with (`resolve`) in place of what nobody has.
        """
        from settlemark._report.sentences import left_over

        page = _page(last, since, run, None)
        return [
            Residue(
                recorded.row.name,
                recorded.row.attempt,
                effect.row.tool,
                effect.row.scope,
                effect.row.key,
                effect.tag or Tag.UNRESOLVED,
                str(effect.disposed),
                json_text.decode(effect.row.arguments),
                json_text.decode(effect.result),
                effect.said_by if effect.dealt_at is not None else None,
                effect.dealt_at,
            )
            for recorded, effect in left_over(self.ledger.read(lambda book: book.left(page, dealt=dealt)), dealt=dealt)
        ]

    def transactions(
        self,
        *,
        last: int | None = None,
        since: float | None = None,
        run: str | None = None,
        state: State | str | None = None,
    ) -> list[RecordedTransaction]:
        """Return recorded attempts of transactions, oldest first: all, or only the page that is asked for.

        Args:
            last: only the last so many.
            since: only those begun since then, in seconds since 1970.
            run: only those of one run.
            state: only those that are in it, as in `"aborted"`.
        """
        page = _page(last, since, run, state)
        if page == Page():
            return self.ledger.read(lambda book: book.transactions())
        return self.ledger.read(lambda book: book.recent(page))

    def waiting(self) -> list[tuple[str, str, str]]:
        """Return who waits now: (transaction, its holder, the scope)."""
        return [(name, holder, scope.text) for name, holder, scope in list(self.driver.kernel.waiting.values())]

    def show(
        self,
        *,
        last: int | None = None,
        since: float | None = None,
        run: str | None = None,
        state: State | str | None = None,
    ) -> str:
        """Return the account of this settlement's ledger, in sentences: of all, or of a page: see `transactions`."""
        from settlemark._report.sentences import account

        return account(self.transactions(last=last, since=since, run=run, state=state))

    def recover(self, *, keep_open: float | None = None) -> Recovered:
        """End what processes that are gone have left, and return what was done; it also runs by itself.

        Nothing here waits for a rival: a sealed transaction whose turn has not come is looked at again later.
        `keep_open` (seconds) goes before the settlement's: with 0 nothing open is kept.

        >>> Settlement("memory:").recover().committed
        []
        """
        report: Recovered = run_sync(self.driver.recover(keep_open=keep_open))
        return report

    def prune(self, days: float, *, keys: float = KEYS_DAYS) -> Pruned:
        """Let go of the payloads of what finished so many days ago, and return what was done; see `retention=`.

        `keys` are the days for which a decision's key stays where its tool declares no `window`: until then
        the decision is known, and does not run again. What is left to mend, or in doubt, stays whole.

        Raises:
            UsageError: one of them is no number of days.

        >>> Settlement("memory:").prune(30)
        Pruned(payloads=0, keys=0, kept=0, fences=0)
        """
        kept, longer = _checked_days(days, "days") * DAY, _checked_days(keys, "keys") * DAY
        return total(prune(self.ledger, age_of(self._clock(), older_than=kept, keys=longer)))

    def close(self) -> None:
        """Wait for what is under way, as long as for another (`wait=`), write what is queued, let go of the ledger.

        A call that is still out then, or that cannot come back while its own thread or event loop is here, is handed
        over: its transaction is in doubt and others', and what came of it is told and undone when it is back.

        A store that does not answer is waited for 5 seconds each by what is still at it; what it has not taken by
        then is logged, is in doubt, and is found out by whoever opens the ledger next. In a forked child nothing is
        written or closed: it is the parent's.
        """
        if self.ledger.is_elsewhere:
            return
        self.ledger.acts.wait(self._wait)
        self.ledger.expect_end()
        self._asker.stop()
        self._watch.stop()
        if self._keeper is not None:
            self._keeper.stop()
        if self._tender is not None:
            self._tender.stop()
        self.ledger.close()
        if self._historian is not None:
            self._historian.close()
        let_into_logs(self)

    def _recording(self, path: str | os.PathLike[str]) -> Historian:
        from settlemark.history._engine import Historian

        try:
            historian = Historian(os.fspath(path))
        except BaseException:
            self.ledger.close()
            raise
        with self.driver.kernel.local as protocol:
            protocol.chronicle = historian.chronicle
        return historian

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_wait(seconds: object, what: str = "wait") -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise UsageError(f"{what}={seconds!r}: give seconds, 0 or more")
    return seconds


def _checked_age(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise UsageError(f"max_age={seconds!r}: give the seconds for which it may be open, more than 0")
    return seconds


def _page(last: object, since: object, run: str | None, state: State | str | None) -> Page:
    if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 1):
        raise UsageError(f"last={last!r}: give how many, 1 or more")
    if since is not None and (isinstance(since, bool) or not isinstance(since, int | float)):
        raise UsageError(f"since={since!r}: give seconds since 1970, as time.time() does")
    if run is not None:
        identity(run, "run=", DERIVED)
    try:
        return Page(last, since, run, None if state is None else State(state))
    except ValueError:
        raise UsageError(f"state={state!r}: choose one of {', '.join(repr(each.value) for each in State)}") from None


def _checked_epoch(epoch: object) -> int:
    if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 1:
        raise UsageError(f"epoch={epoch!r}: give a positive integer, as in tx.epoch")
    return epoch


def _checked_wait_for(chosen: object) -> object:
    if chosen not in get_args(WaitFor):
        raise UsageError(f"wait_for={chosen!r}: choose {' or '.join(map(repr, get_args(WaitFor)))}")
    return chosen


def _checked_days(days: object, what: str = "retention") -> float:
    if isinstance(days, bool) or not isinstance(days, int | float) or not days >= 0:
        raise UsageError(f"{what}={days!r}: give days, 0 or more")
    return days


def _checked_lease(seconds: float) -> float:
    if _checked_wait(seconds, "lease") < LEAST_LEASE:
        raise UsageError(f"lease={seconds!r}: give {LEAST_LEASE:g} seconds or more: a busy process pauses, too")
    return seconds


def _checked_choice(on_failure: OnFailure, ask: Ask | None) -> OnFailure:
    if on_failure not in get_args(OnFailure):
        raise UsageError(f"on_failure={on_failure!r}: choose one of {', '.join(map(repr, get_args(OnFailure)))}")
    if on_failure == "ask" and not callable(ask):
        raise UsageError(f"on_failure='ask' and ask={ask!r}: say whom to ask, ask=function, called with a Failure")
    return on_failure


def _checked_text(text: object, what: str, most: Most = NAME) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{what}, not {brief(text)}")
    return identity(text, f"{what}; this one", most)


def _default_url() -> str:
    url = os.environ.get("SETTLEMARK_URL", DEFAULT_URL)
    told = shown(url)
    _log.info("the ledger is %s; name another with Settlement(url) or $SETTLEMARK_URL", told, extra=about(ledger=told))
    return url


__all__ = ["DEFAULT_URL", "Residue", "Settlement"]
