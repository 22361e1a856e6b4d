"""A settlement's workings: its ledger, engine, tools, and background threads."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from settlemark._acts.current import current_call
from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program
from settlemark._api.checked import (
    A_NAME,
    checked_age,
    checked_failure,
    checked_footprint,
    checked_hooks,
    checked_text,
    checked_wait,
    checked_wait_for,
    checked_word,
)
from settlemark._api.settings import Settings
from settlemark._api.toolbox import Toolbox
from settlemark._attempt.attempt import Hook, OnFailure
from settlemark._attempt.part import Asked, Part
from settlemark._attempt.turn import Turn
from settlemark._edges.errors import UsageError
from settlemark._edges.given import function
from settlemark._edges.text import DERIVED, KEY, NAMESPACE, WHO, identity
from settlemark._lifecycle.rewind.plan import Rewind
from settlemark._lifecycle.rewind.survey import Request
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.effect_class import Outcome
from settlemark._model.guards import Guards, Order
from settlemark._model.level import Level
from settlemark._model.scope import Scope
from settlemark._observe.clock import SureClock
from settlemark._observe.events import LostLease, Recovered, Told
from settlemark._observe.logs import redact_logs_for, stop_redacting_for
from settlemark._protocol.index import Position
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import rewound
from settlemark._report.verdicts import Verdict, is_rewound
from settlemark._runtime.apart import wait_at_exit_for, wait_for_apart
from settlemark._runtime.background import DueWatch, LeaseKeeper, Maintenance, MendWatch, Prober, QuestionWatch, Watch
from settlemark._runtime.choice import Choice, chosen_in, is_left
from settlemark._runtime.driver import Driver
from settlemark._runtime.retention import DAY, Pruner
from settlemark.ledger import Book, Ledger, RecordedTransaction, open_ledger
from settlemark.ledger._forking import Origin
from settlemark.ledger._payloads.encryption import encryption_of
from settlemark.ledger._payloads.redaction import Redaction

if TYPE_CHECKING:
    from settlemark._api.checked import WaitFor
    from settlemark.history._recording.engine import Historian

AGENT = "agent= is the name of the agent that acts, a text"
RUN = "a run is its own id, the part of its transactions' names before the first slash"
EFFECT_KEY = "an effect's key is a text: current_call().key, as its tool sees it"
_NAMES = "rewind() takes names of transactions, as in 'trip-42/1'"
SUPERSTEPS = 1_000  # how many are remembered: a later request gets a fresh epoch, which is always correct


class Host:
    """What a framework's shim works a settlement with: see `settlemark.hosting.host_of`.

    The host works as long as the host or its settlement is referenced, or until it is closed.

    Attributes:
        settings: the settlement's arguments.
        patience: seconds for which a call or a commit may wait for another: `wait=`.
        ledger: where everything is recorded.
        driver: the engine: its services carry out every step.
        tools: what is known of tools.
    """

    def __init__(self, settings: Settings, tools: Callable[[Ledger], Toolbox] = Toolbox) -> None:
        self.settings = settings
        self.patience = settings.wait
        payloads, injected = settings.payloads, settings.injected
        clock = SureClock(injected.clock)
        self._supersteps: OrderedDict[str, int] = OrderedDict()
        self.ledger = open_ledger(
            settings.url,
            namespace=identity(settings.namespace, "namespace=", NAMESPACE),
            retain=payloads.retain,
            lease=settings.lease,
            wait=settings.wait,
            redaction=None if payloads.redact is None else Redaction(payloads.redact),
            encryption=encryption_of(payloads.encrypt, namespace=settings.namespace, tenant=payloads.tenant),
            quarantine=settings.quarantine,
            monotonic=injected.monotonic,
            store_clock=injected.store_clock or (clock if settings.url == "memory:" else None),
        )
        wait_at_exit_for(self.ledger.acts)
        self.tools = tools(self.ledger)
        self.driver = Driver(
            self.ledger,
            clock=clock,
            monotonic=injected.monotonic,
            declaration=self._recorded_as,
            namespace=settings.namespace,
            on_residue=settings.on_residue,
        )
        self.driver.answers.remake = lambda run, effect, arguments: self.tools.remade(effect, arguments, run=run)
        self.driver.answers.patience = settings.wait
        self.driver.recovery.keep_open = settings.keep_open
        kernel = self.driver.kernel
        kernel.retries, kernel.budgets, kernel.judging.policy = settings.retries, settings.budgets, settings.policy
        self.driver.notices.channels = {channel.name: channel for channel in settings.channels}
        if settings.observe is not None:
            told = kernel.telling.observer = Told(settings.observe)
            self.ledger.watch_leases(lambda worker, transactions: told.tell(LostLease(worker, transactions)))
        if payloads.encrypt is not None:
            redact_logs_for(self)
        self._historian = None if settings.history is None else self._recording(settings.history)
        self._start_maintenance()

    def _start_maintenance(self) -> None:
        """Start the background threads; each ends with the host, but not in a forked child."""
        here, settings = Origin(), self.settings
        self._maintenance: Maintenance | None = None
        if not self.ledger.immediate:
            self._maintenance = Maintenance(self.driver, every=settings.lease / 3)
            self.ledger.watch_aborts(self._maintenance.tell)
            self.driver.kernel.wake_maintenance = self._maintenance.tell
            self._maintenance.start()
            weakref.finalize(self, here.guarded(self._maintenance.tell))
        self._pruner: Pruner | None = None
        if settings.payloads.retention is not None:
            older_than = settings.payloads.retention * DAY
            self._pruner = Pruner(self.ledger, older_than=older_than, clock=settings.injected.clock)
            self._pruner.start()
            weakref.finalize(self, here.guarded(self._pruner.tell))
        driver = self.driver
        watches = (Prober, Watch, DueWatch, QuestionWatch, LeaseKeeper, MendWatch)
        self._watches = prober, watch, due, questions, leases, mends = tuple(kind(driver) for kind in watches)
        driver.probing.on_doubt, driver.ages.on_age, driver.obligations.on_owed = prober.tell, watch.tell, due.tell
        driver.questions.on_asked, driver.leases.on_kept, driver.mends.on_stuck = (
            questions.tell,
            leases.tell,
            mends.tell,
        )
        for each in self._watches:
            weakref.finalize(self, here.guarded(each.wake))

    def _recorded_as(self, tool: str, version: str | None = None) -> Declaration | None:
        # The engine refers to the host, not to its tools: a user of the engine keeps the host, and everything is
        # collected at once.
        return self.tools.recorded_as(tool, version)

    @property
    def guards(self) -> Guards:
        """The guards of a transaction: `prevent=`, `reads=` and `tools=`."""
        return self.settings.guards

    @property
    def protocol(self) -> Protocol:
        """The protocol as this process knows it, for reading."""
        return self.ledger.protocol

    # ---- transactions

    def new_name(self) -> str:
        """Return a name for a transaction whose caller gave none."""
        return identity(self.settings.injected.ids(), "a name that ids= gave")

    def options(  # noqa: PLR0913 - one for each option of a user
        self,
        name: str | None,
        run: str | None,
        *,
        may_touch: str | Scope | Iterable[str | Scope] = (),
        before_commit: Hook | Sequence[Hook] = (),
        wait: float | None = None,
        on_failure: OnFailure | None = None,
        ask: Ask | None = None,
        approver: Approver | None = None,
        prevent: Level | Iterable[str] | None = None,
        max_age: float | None = None,
        retry: bool = False,
        wait_for: WaitFor = "nobody",
        position: Position | None = None,
        whole: bool = True,
        agent: str | None = None,
    ) -> dict[str, Any]:
        """Return the checked options of a transaction; the settlement's own where left out.

        `position` is its place in the order, where a framework gives it one; `whole` says that its block makes all of
        its decisions.

        Raises:
            UsageError: an option is invalid; nothing was begun.
            ScopeError: a scope is malformed.
        """
        settings = self.settings
        name = None if name is None else checked_text(name, A_NAME)
        run = None if run is None else checked_text(run, RUN)
        chosen = name or self.new_name()
        if position is not None and position[1]:
            identity(position[1], "a position's ordinal", DERIVED)
        if name is None and run is None and current_call() is None:
            self.tell_once("unnamed", "a transaction without a name cannot be told from its own retry: name it")
        return {
            "name": chosen,
            "run": run or chosen.split("/", 1)[0],
            "known": name is not None,
            "declared": [] if may_touch == () else checked_footprint(may_touch),
            "hooks": () if before_commit == () else checked_hooks(before_commit),
            "wait": self.patience if wait is None else checked_wait(wait),
            "on_failure": checked_failure(on_failure or settings.on_failure, ask or settings.ask),
            "ask": ask or settings.ask,
            "approver": settings.approver if approver is None else function(approver, "approver="),
            "retries": settings.retries,
            "retry": retry,
            "queues": checked_wait_for(wait_for) == "scopes",
            "position": position,
            "agents": () if agent is None else (checked_text(agent, AGENT),),
            "guards": self.guards if prevent is None else self.guards.against(prevent),
            "whole": whole,
            "max_age": settings.max_age if max_age is None else checked_age(max_age),
        }

    def begin(
        self,
        name: str | None,
        *,
        run: str,
        position: Position | None = None,
        may_touch: str | Scope | Iterable[str | Scope] = (),
        max_age: float | None = None,
        comes_back: bool = False,
        asked: Asked | None = None,
        agent: str | None = None,
    ) -> Program[Part]:
        """Return the program that begins a transaction, for an integration that runs and ends it itself.

        The program returns a `Part`, which joins the enclosing call, if there is one. `comes_back` says that a name
        entered again stands for the same decisions, as when a framework resumes: effects that an aborted attempt could
        not undo are not repeated, but answered from the record. `asked` tells a turn of an agent that a call runs from
        that agent's other turns. `max_age` counts where it is less than the settlement's. `agent` acts in it.
        """
        ages = [age for age in (max_age, self.settings.max_age) if age is not None]
        options = self.options(
            name,
            run,
            may_touch=may_touch,
            position=position,
            whole=False,
            max_age=min(ages, default=None),
            agent=agent,
        )
        return self.driver.entrance.enter(**options, independent=False, comes_back=comes_back, asked=asked)

    def choice(self, name: str, *, run: str, position: Position | None = None) -> Choice:
        """Return a choice that has not begun, for an integration whose framework runs the candidates."""
        return Choice(self.driver, self.options(name, run, position=position, whole=False))

    def choices_left(self, run: str) -> Program[list[str]]:
        """Return the names of a run's choices that are not made, and that no worker is at."""

        def look(protocol: Protocol, _book: Book) -> list[str]:
            return [txn.name for txn in protocol.live.values() if txn.run == run and is_left(txn)]

        return self.driver.kernel.look(look)

    def chosen(self, record: str) -> Program[tuple[str | None, str] | None]:
        """Return what a choice decided that is on record under a name, carried out: its winner and its own name.

        None: no such choice is on record. See `Choice.make`.

        Raises:
            Rewound: somebody went back before it. Refused, PartialCommit, InDoubt: as it ended.
        """
        found: RecordedTransaction | None = yield from self.driver.kernel.look(
            lambda _protocol, book: book.load(record)
        )
        if found is None:
            return None
        decided = chosen_in(found)
        if decided is None or is_rewound(found):
            raise rewound(record, found.epoch, found.cause or "")
        winner, choice = decided
        yield from self.choice(choice, run=found.row.run).carry_out(winner)
        return decided

    def of_run(self, run: str) -> Program[tuple[list[RecordedTransaction], list[str]]]:
        """Return what is on record of a run, and the names of those of its transactions that are unfinished."""
        return self.driver.rewinds.of_run(run)

    def take_up(self) -> Program[Recovered]:
        """End what processes that are gone have left, as `Settlement.recover` does."""
        return self.driver.recovery.take_up()

    def epoch_for(self, superstep: str) -> Program[int]:
        """Return the epoch that the transactions of one superstep share: a fresh one at the first request."""
        with self.driver.kernel.local:
            epoch = self._supersteps.get(superstep)
            if epoch is not None:
                self._supersteps.move_to_end(superstep)
                return epoch
        fresh: int = yield from self.driver.new_epoch()
        with self.driver.kernel.local:
            epoch = self._supersteps.setdefault(superstep, fresh)
            if len(self._supersteps) > SUPERSTEPS:
                self._supersteps.popitem(last=False)
        return epoch

    def turn(self, *, order: Order = "turn", stop_on_failure: bool = True, holds: bool = True) -> Turn:
        """Return the sequencer of a turn; without the guard against A6 its calls act in order of arrival."""
        order = self.guards.order(order)
        asks = None if self.settings.policy is None else self.may_ask
        return Turn(order=order, stop_on_failure=stop_on_failure, holds=holds, may_ask=asks)

    def may_ask(self, declaration: Declaration, *, by_function: bool = True) -> bool:
        """Whether a person may be asked about a tool's calls; `by_function`: also where only a function knows."""
        return self.driver.kernel.judging.may_ask(declaration, by_function=by_function)

    def rewinding(
        self,
        transactions: str | Iterable[str],
        *,
        by: str,
        note: str,
        dry_run: bool,
        overwrite: Iterable[str],
        barred: Mapping[str, str] | None = None,
    ) -> Program[Rewind]:
        """Return the program of `Settlement.rewind`, for an integration that maps its own history onto transactions.

        `barred` are further names, each with its run, under which nothing may begin once something is undone, such as
        the steps that would have followed.
        """
        names = [transactions] if isinstance(transactions, str) else list(transactions)
        word = self.driver.rewinds.word(checked_word(by, "by= is who rewinds, a text", WHO), note)
        keys = frozenset([overwrite] if isinstance(overwrite, str) else overwrite)
        for key in keys:
            checked_word(key, EFFECT_KEY, KEY)
        for text in (*(barred or {}).keys(), *(barred or {}).values()):
            checked_word(text, _NAMES, DERIVED)
        request = Request(tuple(checked_word(name, _NAMES, DERIVED) for name in names), word, keys, dict(barred or {}))
        return self.driver.rewinds.rewind(request, dry_run=dry_run, wait=self.patience)

    def resolving(
        self, key: str, verdict: Verdict, by: str, note: str = "", result: Any = None
    ) -> Program[tuple[Outcome, bool]]:
        """Return the program of `Settlement.resolve`; it also returns whether the verdict was news."""
        key = checked_word(key, EFFECT_KEY, KEY)
        if verdict not in get_args(Verdict):
            raise UsageError(f"verdict={verdict!r}: choose one of {', '.join(map(repr, get_args(Verdict)))}")
        if result is not None and verdict != "confirmed":
            raise UsageError(f'result= belongs to "confirmed", not to {verdict!r}: nothing was recorded')
        json_text.check(result)
        found = (True if result is None else result) if verdict == "confirmed" else None
        who = checked_word(by, "by= is who decides, a text", WHO)
        return self.driver.resolution.resolve(key, verdict, found, by=who, note=note, wait=self.patience)

    # ---- threads and logs

    def remember_loop(self) -> None:
        """Remember the caller's event loop: handlers without a waiting caller run there."""
        for thread in (self._maintenance, *self._watches):
            if thread is not None:
                thread.loop = weakref.ref(asyncio.get_running_loop())

    def tell_once(self, topic: str, text: str) -> None:
        """Log a warning the first time a topic comes up."""
        self.tools.tell_once(topic, text)

    def close(self) -> None:
        """Wait for calls under way, write queued records, close the ledger: see `Settlement.close`."""
        if self.ledger.is_elsewhere:
            return
        wait_for_apart()
        self.ledger.acts.wait(self.patience)
        self.ledger.expect_end()
        for thread in (*self._watches, self._pruner, self._maintenance):
            if thread is not None:
                thread.stop()
        self.ledger.close()
        if self._historian is not None:
            self._historian.close()
        stop_redacting_for(self)

    def _recording(self, path: str | os.PathLike[str]) -> Historian:
        from settlemark.history._recording.engine import Historian

        try:
            historian = Historian(os.fspath(path))
        except BaseException:
            self.ledger.close()
            raise
        with self.driver.kernel.local as protocol:
            protocol.chronicle = historian.chronicle
        return historian


__all__ = ["EFFECT_KEY", "RUN", "Host"]
