"""The public face: `Settlement`."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, Unpack

from settlemark._acts.bodies import in_body
from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program, Retries
from settlemark._api.checked import WaitFor, checked_days, checked_epoch, checked_park, checked_text, checked_wait
from settlemark._api.hold import Hold
from settlemark._api.host import RUN, Host
from settlemark._api.opening import Opening
from settlemark._api.operators import Operators
from settlemark._api.records import Records
from settlemark._api.saying.claims import Claiming
from settlemark._api.settings import Injected, Payloads, Settings, checked_part
from settlemark._api.steered.pausing import Pausing
from settlemark._api.steered.steering import Steerable
from settlemark._api.subjects.charges import Budgeting
from settlemark._api.subjects.debts import Debts
from settlemark._api.subjects.entities import Entities
from settlemark._api.subjects.halts import Halting
from settlemark._api.subjects.leases import Leasing
from settlemark._api.subjects.mending import Mending
from settlemark._api.subjects.primers import Priming
from settlemark._api.transaction import AsyncTransaction, Transaction
from settlemark._approvals.channel import Channel
from settlemark._attempt.attempt import Hook, OnFailure
from settlemark._attempt.part import Part
from settlemark._edges.errors import UsageError
from settlemark._edges.given import function as checked_function
from settlemark._edges.given import several
from settlemark._edges.text import DERIVED, TOOL
from settlemark._lifecycle.parking import Park
from settlemark._mending.paging import Proposer, checked_proposer
from settlemark._model.budget import Budget
from settlemark._model.declaration import Declaration
from settlemark._model.declare import Parts, declare, spells_out_parts
from settlemark._model.effect_class import EffectClass, EffectName
from settlemark._model.guards import Reads, Tools, guards_for
from settlemark._model.level import Level
from settlemark._model.scope import Scope
from settlemark._observe.events import Observer, Recovered
from settlemark._observe.logs import about
from settlemark._policy.policy import Policy
from settlemark._runtime.aio import run_async
from settlemark._runtime.retention import DAY, KEYS_DAYS, Pruned, age_of, prune, total
from settlemark._runtime.speculation import Speculation
from settlemark._runtime.sync import run_sync
from settlemark._runtime.threads import in_thread
from settlemark.ledger._lease import QUARANTINE_SECONDS
from settlemark.ledger._urls import shown

_log = logging.getLogger("settlemark")

DEFAULT_URL = "sqlite:///settlemark.db"
_TOOL = "a tool is given by its name, a text"
_PARKED = "what is parked is given by its name, a text"


class Settlement(
    Budgeting, Claiming, Debts, Entities, Halting, Leasing, Mending, Operators, Priming, Pausing, Records, Steerable
):
    """A settlement layer over a ledger: threads and tasks may share one.

    Args:
        url: where the ledger is: `"memory:"`, `"sqlite:///FILE"`; by default `$SETTLEMARK_URL`, else
            `sqlite:///settlemark.db`.
        namespace: keeps several users of one store apart.
        wait: how long a call or a commit may wait for another, in seconds; also for a store that does not answer, which
            gets at least one second.
        lease: seconds of silence after which a process is thought dead, and others end what it began.
        quarantine: seconds for which a process of another host that was thought dead may still be sending. Until then a
            call that a probe finds absent is not sent again, and its transaction keeps the scopes of its effects in
            flight, so that nobody reads or writes there. A process of this host may be sending until it has ended. 0
            keeps nothing for other hosts: a late effect is then undone, or named as residue, after others may have read
            there.
        keep_open: seconds for which an open transaction of an ended process is left as it is, so that its framework can
            enter its name again and continue; then it is undone.
        max_age: seconds for which a transaction may be open in a living process: an agent that hangs keeps its scopes.
            At three quarters of it a warning is reported (log, observer); at its end the transaction is undone as soon
            as no call of it runs, and later calls are refused (`Overdue`). A transaction that is put aside for a person
            does not age, nor does a hold; a retry starts anew. By default nothing is ended: after an hour a warning
            says, once, that a transaction is still open and what it holds.
        ask: called with a `Failure` where `on_failure="ask"`; returns `"retry"`, `"skip"` (the call returns None, and
            the step goes on without it) or `"abort"`. It may be async. The step keeps its scopes while it waits for the
            answer.
        approver: called with a `Gate` before a call with `approve=` acts, where no framework asks in its own way;
            returns True, False, or `{"decision": "approve" | "reject" | "edit", "arguments": {…}, "because": "…"}`. It
            may be async. Without an approver, an irreversible effect waits for `answer`, and an eager one is refused.
        on_failure: what a failed call does to its turn, and in a framework to its step: `"abort"` it, `"retry"` the
            call first (see `retries`), or let it `"continue"`. In plain code the exception decides: one that leaves the
            `with` block aborts. `"continue"` covers a call whose outcome is unknown, too: its transaction commits, its
            scope is free, and `in_doubt()` and `residue()` name it.
        retries: how often a failed call is tried, and the pauses between.
        on_residue: called with a transaction's name when the transaction left residue.
        observe: receives events as they happen: transactions, waits, acts, lost leases; see
            `settlemark.telemetry.OpenTelemetry`.
        prevent: which anomalies between agents are prevented: a `Level`, or a set of their names; by default all. The
            risk of leaving one out is measured: see `settlemark check`.
        reads: `"settled"` reads wait for what others have begun. `"early"` reads see it, and their transaction then
            commits after those others, or is undone with them (`Cascaded`); nothing irreversible leaves before.
        tools: a transaction is undone if a tool it planned to call is revoked, or declared otherwise in its process,
            before it settles. `"pinned"`: a changed tool is called as planned, a revoked one is not.
        history: a file to which a record of each transaction is appended: see `settlemark.history`.
        payloads: what of arguments and results is recorded, who can read it, and how long it is kept: a `Payloads`.
        injected: time and identity from elsewhere, for tests: an `Injected`.
        budgets: limits on what effects spend (`spends=`), and charges: see `Budget`.
        policy: says of each call that acts whether it may: see `Policy`.
        channels: how people are told that a call waits for them, or, once, that a transaction is stuck and what was
            tried: see `settlemark.hosting.Channel`, and the ready-made ones in `settlemark_adapters`.
        on_stuck: called with a `Stuck`, once, when a transaction is stuck; returns a plan, as
            `[{"tool": "cancel", "arguments": {"room": "7"}}]`, or None: rules, or a model. It may be async. The plan is
            checked before anything runs: declared tools alone, on scopes that the transaction touched. It runs as
            `mends/<id>` in the run of that transaction, after a person's yes where a call of it cannot be undone, and
            the probe of what is stuck has to say that it is gone.

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

    def __init__(  # noqa: PLR0913 - one keyword for each option of a user
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
        observe: Observer | None = None,
        prevent: Level | Iterable[str] = Level.L4,
        reads: Reads = "settled",
        tools: Tools = "checked",
        history: str | os.PathLike[str] | None = None,
        payloads: Payloads | None = None,
        injected: Injected | None = None,
        budgets: Iterable[Budget] = (),
        policy: Policy | None = None,
        channels: Iterable[Channel] = (),
        on_stuck: Proposer | None = None,
    ) -> None:
        self._host = self._hosted(
            Settings(
                url=url or _default_url(),
                guards=guards_for(prevent, reads=reads, tools=tools),
                namespace=namespace,
                wait=wait,
                lease=lease,
                quarantine=quarantine,
                keep_open=keep_open,
                max_age=max_age,
                on_failure=on_failure,
                ask=ask,
                approver=approver,
                retries=retries or Retries(),
                on_residue=on_residue,
                observe=observe,
                history=history,
                payloads=payloads or Payloads(),
                injected=injected or Injected(),
                budgets=tuple(several(budgets, "budgets=")),
                policy=policy,
                channels=tuple(several(channels, "channels=")),
                on_stuck=checked_proposer(on_stuck),
            )
        )

        self._begin_owing(Transaction, AsyncTransaction)
        self._begin_mending((Transaction, AsyncTransaction))

    def _hosted(self, settings: Settings) -> Host:
        return Host(settings)

    @property
    def url(self) -> str:
        """The URL of the ledger."""
        return self._host.settings.url

    # ---- transactions

    def transaction(  # noqa: PLR0913 - one keyword for each option of a user
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
        agent: str | None = None,
    ) -> Opening:
        """Return a transaction to enter with `with` or `async with`; leaving it settles.

        Args:
            name: names the work, as in `"trip-42"` or `"trip-42/book"`: entering a committed name again replays its
                results, an aborted one tries anew. Without a name nothing is replayed.
            run: the run it belongs to; by default the name up to its first slash.
            may_touch: scopes to hold from the start, so that nobody younger comes first.
            before_commit: hooks called with the `Footprint`; `False` or a reason vetoes. Entering the name of a parked
                transaction gives its hooks anew; in the process that parked it, the earlier ones stay if none are
                given. Answered in a process that does not know them, nothing of it leaves: `approve` says so, and
                waits.
            wait: seconds; the settlement's by default.
            on_failure: the settlement's by default.
            ask: the settlement's by default.
            approver: the settlement's by default.
            park: how it is put aside, by `tx.park()` or because a call of it waits for a yes (`approve=`): `"keep"` it
                whole, or `"split"` it at its gates.
            prevent: the settlement's by default; see `Settlement`.
            max_age: seconds; the settlement's by default.
            independent: begun inside another's tool call it *joins* that transaction: its calls become that
                transaction's, and its end does not settle. True begins one of its own, which may touch nothing its
                caller holds.
            agent: the name of the agent that acts in it, by which it can be halted: see `halt`. Begun in another's tool
                call it is that one's agent by default.

        Raises (from the `with` statement): Entangled: it is independent, and declares what its caller holds. Cancelled:
        the run was cancelled. Stale, Wounded, Vetoed, WaitTimeout: it was undone. PartialCommit, InDoubt: see there.
        """
        options = self._host.options(
            name,
            run,
            may_touch=may_touch,
            before_commit=before_commit,
            wait=wait,
            on_failure=on_failure,
            ask=ask,
            approver=approver,
            prevent=prevent,
            max_age=max_age,
            agent=agent,
        )
        return Opening(self._host, {**options, "independent": independent}, checked_park(park))

    def run(  # noqa: PLR0913 - one keyword for each option of a user
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
        agent: str | None = None,
    ) -> Any:
        """Call `function(tx)` in a transaction and return its value; again on fresh state if it lost a race.

        A failed call is retried too. With an async function, await the result. Inside another's tool call it joins that
        transaction, as with `transaction`, and is called once: its caller begins again.

        After a lost race the function is called again when the older transactions on what it had read are done: until
        then its reads would become stale again. Where others stand in line so, its first reads wait with them. Neither
        wait fails; after `wait=` without progress it goes ahead. With `wait_for="nobody"` it stands in no line: for
        functions that mostly read.

        Raises:
            Refused: undone for another reason, or `tries` races were lost.
            BaseException: the exception of `function`.

        >>> Settlement("memory:").run("sum-1", lambda tx: tx.read("cell:/a", lambda: 2) + 1)
        3
        """
        checked_function(function, "what run() is to run")
        options = self._host.options(
            name,
            run,
            may_touch=may_touch,
            before_commit=before_commit,
            wait=wait,
            on_failure=on_failure,
            ask=ask,
            approver=approver,
            prevent=prevent,
            max_age=max_age,
            retry=True,
            wait_for=wait_for,
            agent=agent,
        )
        is_async = inspect.iscoroutinefunction(function)
        face = AsyncTransaction if is_async else Transaction
        host, driver = self._host, self._host.driver
        program = driver.runs.run(
            driver.entrance.enter(**options, independent=independent),
            lambda part: partial(in_body(driver.kernel, part.attempt.name, function), face(host, part)),
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
        agent: str | None = None,
    ) -> Any:
        """Call each branch in a transaction of its own, concurrently; commit the chosen one, and return its value.

        The others are undone, and finished, before it commits: their eager effects are undone, their held ones never
        left. No branch waits for another: an eager effect of one is refused to the others (`Entangled`); declare such a
        tool staged. With an async branch, await the result.

        Args:
            branches: functions of a transaction, run in threads, or tasks.
            choose: called with a list of each branch's value, or its exception; returns the index of a branch that did
                not fail, or None for none.
            name: names the work: when a branch has committed under it, that is replayed, and nothing chosen again.
            run: the run it belongs to; by default the name up to its first slash.
            may_touch: scopes to hold from the start, so that nobody younger comes first.
            before_commit: hooks called with the winner's `Footprint`.
            wait: seconds; the settlement's by default.
            on_failure: of a branch's call.
            ask: the settlement's by default.
            tries: how often a branch that loses a race is run.
            agent: the name of the agent that acts: see `transaction`.

        Raises:
            ExceptionGroup: every branch failed.
            UsageError: the choice is no branch that succeeded.
            Refused: the winner was undone, too.
            PartialCommit, InDoubt: see there.
            BaseException: the exception of `choose`.

        >>> settlement = Settlement("memory:")
        >>> offers = [lambda tx: tx.read("price:/Ada", lambda: 90), lambda tx: tx.read("price:/Bee", lambda: 80)]
        >>> settlement.speculate(offers, lambda prices: prices.index(min(prices)), name="trip-42")
        80
        """
        if not branches:
            raise UsageError("speculate() was given no branch: give at least one; nothing was run")
        for branch in several(branches, "what speculate() is to run"):
            checked_function(branch, "a branch of speculate()")
        checked_function(choose, "what speculate() chooses by")
        host, driver = self._host, self._host.driver
        options = host.options(
            name,
            run,
            may_touch=may_touch,
            before_commit=before_commit,
            wait=wait,
            on_failure=on_failure,
            ask=ask,
            agent=agent,
        )

        def body(branch: Callable[[Any], Any]) -> Callable[[Part], Callable[[], Any]]:
            face = AsyncTransaction if inspect.iscoroutinefunction(branch) else Transaction
            within = in_body(driver.kernel, options["name"], branch)
            return lambda part: partial(within, face(host, part))

        bodies = [body(branch) for branch in branches]
        program = Speculation(driver, options["name"], bodies, choose, options, tries=tries).program()
        is_async = any(inspect.iscoroutinefunction(function) for function in (*branches, choose))
        return run_async(program) if is_async else run_sync(program)

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

        Another process may have parked it, if the tools are declared in this one.

        Args:
            name: one of `parked()`.
            approve: False undoes it; of one that was split off, it drops the gated effect.
            arguments: for its one gated effect, in place of those it was queued with.
            because: why not, for the record.
            wait: seconds; the settlement's by default.

        Raises:
            UsageError: nothing is parked under this name, `arguments` fits no single effect, or it has `before_commit=`
                hooks that this process does not know; nothing moved.
            DeclarationError: one of its tools is not declared in this process; nothing moved.
            Stale: something it read has changed since; it was undone.
            WaitTimeout, PartialCommit, InDoubt: see there.

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
        self._host.remember_loop()
        found: list[Any] = await run_async(self._answering(name, approve, arguments, because, wait))
        return found

    def _answering(
        self, name: str, approve: bool, arguments: Mapping[str, Any] | None, because: str | None, wait: float | None
    ) -> Program[list[Any]]:
        host = self._host
        return host.driver.parking.answer(
            checked_text(name, _PARKED, DERIVED),
            approve=approve,
            arguments=arguments,
            because=because,
            remake=partial(host.tools.remade, run=name.split("/", 1)[0]),
            wait=host.patience if wait is None else checked_wait(wait),
            retries=host.settings.retries,
        )

    def hold(self, *scopes: str | Scope, name: str | None = None, wait: float | None = None) -> Hold:
        """Return a hold, to enter: younger transactions on these scopes do not settle before it is dropped.

        For an orchestrator that knows of work not begun, and begins it under the hold. A hold is no lock: it keeps a
        place in the order in which transactions settle. A younger transaction may read meanwhile, and is stale when it
        comes to settle after a change. For a resource that many want to change at once use `run`, which waits in line
        after a lost race before it reads again; a loop of your own around a hold reads as often as it loses.

        Args:
            scopes: what the work may touch.
            name: the hold's name, shown to transactions that wait for it.
            wait: seconds for which its name may be in use by another; the settlement's by default.

        >>> settlement = Settlement("memory:")
        >>> with settlement.hold("room:/Ada", name="night") as hold:
        ...     with hold.transaction("night/1") as first, settlement.transaction("day") as later:
        ...         first.epoch < later.epoch
        True
        """
        ids = self._host.settings.injected.ids
        options = self._host.options(name or f"hold-{ids()}", None, may_touch=scopes, wait=wait)
        return Hold(self._host.driver, self.transaction, {**options, "known": False})

    def advance(self, scope: str | Scope, epoch: int) -> None:
        """Declare everything at or below this epoch over on a scope: this raises its floor, which never decreases.

        The engine advances by itself as transactions settle; this is for an orchestrator that knows more.

        Raises:
            ContractViolation: work at or below it may still come; the message says whose. Nothing moved.
            ScopeError: the scope is malformed.

        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("trip-42") as tx:
        ...     epoch = tx.epoch
        >>> settlement.advance("room:/Ada", epoch)
        """
        run_sync(self._host.driver.advance(Scope.parse(scope), checked_epoch(epoch)))

    def cancel(self, run: str) -> None:
        """Fence a run: nothing of it acts from here on, late siblings and retries included.

        What has not settled is undone before this returns; a transaction that is releasing stops before its next
        release. A call that does not return is waited for up to 30 seconds (`wait=`, if that is less); a call of a
        silent process, and the one that this is called in, not at all: the log names each, and its transaction ends
        when the call has ended, or its quarantine is over. The fence outlives the process and is for good (with
        `retention=`, for a year, or for as long as keys are kept): later work needs another run id.

        Raises:
            UsageError: `run` is empty, or names a transaction; the message names its run.
        """
        run_sync(self._host.driver.fences.cancel(checked_text(run, RUN)))

    async def acancel(self, run: str) -> None:
        """Do as `cancel`, for an event loop."""
        await run_async(self._host.driver.fences.cancel(checked_text(run, RUN)))

    # ---- declarations

    @spells_out_parts
    def declare(self, tool: str, kind: EffectName | EffectClass, **parts: Unpack[Parts]) -> Declaration:
        """Declare a tool that you did not write, by its name; `parts` are those of `effect`.

        Declaring it again with another class, scope or version changes it: unsettled work that was planned with the old
        declaration becomes stale.

        Raises:
            DeclarationError, ScopeError, UsageError: the declaration is bad, or no name is given; nothing was declared.

        >>> Settlement("memory:").declare("send_email", "irreversible", scope="mail:/{to}").tool
        'send_email'
        """
        declaration = declare(checked_text(tool, _TOOL, TOOL), kind, **parts)
        before = self._host.tools.adopt(declaration)
        if before is not None and before.signature != declaration.signature:
            rebind = self._host.driver.registering(lambda protocol: protocol.rebind(tool, declaration.signature))
            run_sync(rebind)
        return declaration

    def enforce(self, policy: Policy | None) -> None:
        """Have another policy judge calls in this process from here on; None: none does.

        What is held, and was planned under another policy, is judged again before it leaves: it may be denied then, and
        a person may be asked once more. What is decided leaves.

        Raises:
            UsageError: it is no policy; the one before stays in force.

        >>> Settlement("memory:").enforce(Policy("treasury-v8", default="allow"))
        """
        if policy is not None:
            checked_part(policy, Policy)
        self._host.driver.kernel.judging.policy = policy

    def revoke(self, tool: str) -> None:
        """Revoke a tool: no call of it begins, and unsettled work that planned to call it is undone.

        All who share the ledger know this, and it outlasts this process: a tool that is declared again stays revoked
        until `reinstate`.

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
        known = self._host.tools
        if known.known(checked_text(tool, _TOOL, TOOL)) is None and known.recorded_as(tool) is None:
            known.tell_once(f"revoke {tool}", f"{tool} was revoked, and nothing is declared here under that name")
        run_sync(self._host.driver.registering(lambda protocol: protocol.revoke(tool)))

    def reinstate(self, tool: str) -> None:
        """Reinstate a revoked tool."""
        checked_text(tool, _TOOL, TOOL)
        run_sync(self._host.driver.registering(lambda protocol: protocol.reinstate(tool)))

    # ---- operations

    def recover(self, *, keep_open: float | None = None) -> Recovered:
        """End what ended processes have left, and return what was done; it also runs by itself.

        Nothing here waits for other transactions: a sealed one whose turn has not come is looked at again later.
        `keep_open` (seconds) overrides the settlement's: 0 keeps nothing open.

        >>> Settlement("memory:").recover().committed
        []
        """
        report: Recovered = run_sync(self._host.driver.recover(keep_open=keep_open))
        return report

    async def arecover(self, *, keep_open: float | None = None) -> Recovered:
        """Do as `recover`, for an event loop, in which async undos, probes and releases run."""
        self._host.remember_loop()
        report: Recovered = await run_async(self._host.driver.recover(keep_open=keep_open))
        return report

    def prune(self, days: float, *, keys: float = KEYS_DAYS) -> Pruned:
        """Remove the payloads of what finished so many days ago, and return what was done; see `retention=`.

        `keys` are the days for which a decision's key stays where its tool declares no `window`: until then the
        decision is known, and does not run again. What is left to mend, or in doubt, stays whole.

        Raises:
            UsageError: one of them is no number of days.

        >>> Settlement("memory:").prune(30)
        Pruned(payloads=0, keys=0, kept=0, fences=0, entries=0)
        """
        kept, longer = checked_days(days, "days") * DAY, checked_days(keys, "keys") * DAY
        return total(
            prune(self._host.ledger, age_of(self._host.settings.injected.clock(), older_than=kept, keys=longer))
        )

    def close(self) -> None:
        """Wait for calls under way (up to `wait=`), write queued records, and close the ledger.

        A call that is still running then, or that cannot return while its own thread or event loop is in here, is
        handed over: its transaction is in doubt and another worker's, and its outcome is reported and undone when it
        returns.

        A store that does not answer is given 5 seconds for each step under way; a step it has not taken by then is
        logged, is in doubt, and is resolved by the next process to open the ledger. In a forked child nothing is
        written or closed: the ledger is the parent's.
        """
        self._host.close()

    async def aclose(self) -> None:
        """Do as `close`, for an event loop; work under way in that loop goes on meanwhile."""
        await in_thread(self._host.close)

    def __deepcopy__(self, _: object) -> Self:
        """Return it: a copy of what settles with it settles with the same."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._host.remember_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def host_of(settlement: Settlement) -> Host:
    """Return a settlement's workings, for a shim that runs and ends transactions itself.

    >>> host_of(Settlement("memory:")).patience
    30.0
    """
    return settlement._host  # noqa: SLF001 - the only door to it


def _default_url() -> str:
    url = os.environ.get("SETTLEMARK_URL", DEFAULT_URL)
    told = shown(url)
    _log.info("the ledger is %s; name another with Settlement(url) or $SETTLEMARK_URL", told, extra=about(ledger=told))
    return url


__all__ = ["DEFAULT_URL", "Settlement", "host_of"]
