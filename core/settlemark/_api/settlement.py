"""The public face: a settlement, its transactions, and what they tell."""

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
from settlemark._api.settings import Injected, Payloads, Settings
from settlemark._api.transaction import AsyncTransaction, Transaction
from settlemark._attempt.attempt import Hook, OnFailure, Part
from settlemark._edges.errors import UsageError
from settlemark._edges.text import DERIVED, TOOL
from settlemark._lifecycle.parking import Park
from settlemark._model.declaration import Declaration
from settlemark._model.declare import Parts, declare, spells_out_parts
from settlemark._model.effect_class import EffectClass, EffectName
from settlemark._model.guards import Reads, Tools, guards_for
from settlemark._model.level import Level
from settlemark._model.scope import Scope
from settlemark._observe.events import Observer, Recovered
from settlemark._observe.logs import about
from settlemark._runtime.aio import run_async
from settlemark._runtime.retention import DAY, KEYS_DAYS, Pruned, age_of, prune, total
from settlemark._runtime.speculation import Speculation
from settlemark._runtime.sync import run_sync
from settlemark._runtime.threads import in_thread
from settlemark.ledger._lease import QUARANTINE_SECONDS
from settlemark.ledger._urls import shown

_log = logging.getLogger("settlemark")

DEFAULT_URL = "sqlite:///settlemark.db"
_TOOL = "a tool is known by its name, a text"
_PARKED = "what is parked is known by its name, a text"


class Settlement(Operators, Records):
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
        observe: told of what is done, as it is done: transactions, waits, acts, lost leases; see
            `settlemark.telemetry.OpenTelemetry`.
        prevent: which anomalies between agents do not happen: a `Level`, or a set of their names; by default all. What
            is left out is a measured risk: see `settlemark check`.
        reads: `"settled"` ones wait for what others have begun. `"early"` ones see it, and their transaction then
            commits behind those others, or is undone with them (`Cascaded`); nothing irreversible leaves before.
        tools: a planned call whose tool is revoked, or declared otherwise in its process, before it settles is undone.
            `"pinned"`, it is called as it was planned, unless the tool was revoked.
        history: a file to which a record of each transaction is appended: see `settlemark.history`.
        payloads: what of arguments and results is recorded, who can read it, and how long it is kept: a `Payloads`.
        injected: time and identity from elsewhere, for tests: an `Injected`.

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
        observe: Observer | None = None,
        prevent: Level | Iterable[str] = Level.L4,
        reads: Reads = "settled",
        tools: Tools = "checked",
        history: str | os.PathLike[str] | None = None,
        payloads: Payloads | None = None,
        injected: Injected | None = None,
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
            )
        )

    def _hosted(self, settings: Settings) -> Host:
        return Host(settings)

    @property
    def url(self) -> str:
        """Where its ledger lives."""
        return self._host.settings.url

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
        )
        return Opening(self._host, {**options, "independent": independent}, checked_park(park))

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
        host, driver = self._host, self._host.driver
        options = host.options(
            name, run, may_touch=may_touch, before_commit=before_commit, wait=wait, on_failure=on_failure, ask=ask
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
        ids = self._host.settings.injected.ids
        options = self._host.options(name or f"hold-{ids()}", None, may_touch=scopes, wait=wait)
        return Hold(self._host.driver, self.transaction, {**options, "known": False})

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
        run_sync(self._host.driver.advance(Scope.parse(scope), checked_epoch(epoch)))

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
        run_sync(self._host.driver.fences.cancel(checked_text(run, RUN)))

    async def acancel(self, run: str) -> None:
        """Do as `cancel`, for an event loop."""
        await run_async(self._host.driver.fences.cancel(checked_text(run, RUN)))

    # ---- declarations

    @spells_out_parts
    def declare(self, tool: str, kind: EffectName | EffectClass, **parts: Unpack[Parts]) -> Declaration:
        """Declare a tool that nobody of yours wrote, by its name; `parts` are those of `effect`.

        Declared here before, with another class, scope or version, it is changed: what was planned with it and has
        not settled is stale.

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
        known = self._host.tools
        if known.known(checked_text(tool, _TOOL, TOOL)) is None and known.recorded_as(tool) is None:
            known.tell_once(f"revoke {tool}", f"{tool} was revoked, and nothing is declared here under that name")
        run_sync(self._host.driver.registering(lambda protocol: protocol.revoke(tool)))

    def reinstate(self, tool: str) -> None:
        """Give back a tool that was revoked."""
        checked_text(tool, _TOOL, TOOL)
        run_sync(self._host.driver.registering(lambda protocol: protocol.reinstate(tool)))

    # ---- what an operator sees

    def recover(self, *, keep_open: float | None = None) -> Recovered:
        """End what processes that are gone have left, and return what was done; it also runs by itself.

        Nothing here waits for a rival: a sealed transaction whose turn has not come is looked at again later.
        `keep_open` (seconds) goes before the settlement's: with 0 nothing open is kept.

        >>> Settlement("memory:").recover().committed
        []
        """
        report: Recovered = run_sync(self._host.driver.recover(keep_open=keep_open))
        return report

    async def arecover(self, *, keep_open: float | None = None) -> Recovered:
        """Do as `recover`, for an event loop: async undos, probes and releases run in that."""
        self._host.remember_loop()
        report: Recovered = await run_async(self._host.driver.recover(keep_open=keep_open))
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
        kept, longer = checked_days(days, "days") * DAY, checked_days(keys, "keys") * DAY
        return total(
            prune(self._host.ledger, age_of(self._host.settings.injected.clock(), older_than=kept, keys=longer))
        )

    def close(self) -> None:
        """Wait for what is under way, as long as for another (`wait=`), write what is queued, let go of the ledger.

        A call that is still out then, or that cannot come back while its own thread or event loop is here, is handed
        over: its transaction is in doubt and others', and what came of it is told and undone when it is back.

        A store that does not answer is waited for 5 seconds each by what is still at it; what it has not taken by
        then is logged, is in doubt, and is found out by whoever opens the ledger next. In a forked child nothing is
        written or closed: it is the parent's.
        """
        self._host.close()

    async def aclose(self) -> None:
        """Do as `close`, for an event loop: what is under way in that goes on meanwhile."""
        await in_thread(self._host.close)

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
    """Return the workings of a settlement, for a shim that runs and ends transactions itself.

    >>> host_of(Settlement("memory:")).patience
    30.0
    """
    return settlement._host  # noqa: SLF001 - the one door to it


def _default_url() -> str:
    url = os.environ.get("SETTLEMARK_URL", DEFAULT_URL)
    told = shown(url)
    _log.info("the ledger is %s; name another with Settlement(url) or $SETTLEMARK_URL", told, extra=about(ledger=told))
    return url


__all__ = ["DEFAULT_URL", "Settlement", "host_of"]
