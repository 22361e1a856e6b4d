"""Entering a transaction by its name: as a new one, a resumed one, or the replay of a committed one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, Unpack

from settlemark._acts.bodies import is_in_body, names_asked_for
from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.once import Once
from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Wait
from settlemark._attempt.anew import become
from settlemark._attempt.attempt import Attempt, Hook, OnFailure
from settlemark._attempt.part import Asked, Part
from settlemark._attempt.recall import follow
from settlemark._attempt.revival import readable
from settlemark._attempt.turned_away import TurnedAway
from settlemark._edges.errors import DeclarationError, Forgotten, WaitTimeout
from settlemark._engine.kernel import Kernel
from settlemark._lifecycle.ages import Ages
from settlemark._lifecycle.fences import act_in, newcomers
from settlemark._lifecycle.recovery import Recovery
from settlemark._model.scope import Scope
from settlemark._observe.events import Recovered
from settlemark._protocol.holdings import DETACHED, NOBODY, PLANNED, Placing, Ticket, Txn
from settlemark._protocol.index import Position
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.refusals import halted, rewound
from settlemark._protocol.states import Reason, State
from settlemark._protocol.ties import refuse_own_name
from settlemark._report.verdicts import is_rewound
from settlemark.ledger._contract import Book, RecordedTransaction, Step


class Entrance:
    """Begins transactions, and finds what is on record under their names."""

    def __init__(self, kernel: Kernel, recovery: Recovery, ages: Ages) -> None:
        self._kernel = kernel
        self._recovery = recovery
        self._ages = ages

    def enter(self, *, independent: bool, asked: Asked | None = None, **options: Any) -> Program[Part]:
        """Return a part: one that joins the enclosing call, or a transaction of its own; see `begin`."""
        inside = self._kernel.callers.outer()
        outer = None if inside is None else inside.attempt.txn
        if inside is not None and outer is not None and outer.state is State.OPEN and not independent:
            part = inside.join(asked)
            inside.attempt.hooks += tuple(hook for hook in options["hooks"] if hook not in inside.attempt.hooks)
            if footprint := list(options["declared"]):
                yield from self._kernel.step(lambda protocol, _book: protocol.declare(outer, footprint))
            if options["agents"]:
                yield from act_in(self._kernel, outer, options["agents"])
            return part
        if outer is None and self._claims_nothing(options):
            attempt = yield from self._begin_with_a_step(options)
        else:
            attempt = yield from self.begin(**options, parent=0 if outer is None else outer.id)
        return Part(attempt, attempt.numbering)

    def begin(  # noqa: PLR0913 - one keyword for each property
        self,
        name: str,
        run: str,
        *,
        known: bool,
        declared: Iterable[Scope],
        hooks: tuple[Hook, ...],
        wait: float,
        on_failure: OnFailure,
        retries: Retries,
        retry: bool,
        ask: Ask | None = None,
        approver: Approver | None = None,
        max_age: float | None = None,
        comes_back: bool = False,
        whole: bool = False,
        carries: tuple[str, ...] = (),
        into: Attempt | None = None,
        **placing: Unpack[Placing],
    ) -> Program[Attempt]:
        """Return an attempt of a transaction: new, resumed, or a replay of a committed one.

        Args:
            name: the transaction's name.
            run: the run it belongs to.
            known: the caller chose the name, so the ledger may know it.
            declared: scopes that it may touch.
            hooks: asked before it commits.
            wait: seconds to wait for the name.
            on_failure: what a failed call means.
            retries: how often a failed call is tried.
            retry: it is tried again when it loses a race.
            ask: asked about failed calls.
            approver: asked about gated calls.
            max_age: seconds after which it is undone if still open.
            comes_back: who enters it again makes the same decisions: surviving effects are not repeated.
            whole: who enters it again makes all decisions: surviving effects not asked for again are taken back.
            carries: rewound names whose work this is again: what stays of them is not repeated.
            into: an attempt that has not begun, and becomes the returned one.
            placing: its place in the order; see `Placing`.

        Raises:
            Cancelled: its run was cancelled.
            WaitTimeout: the name stays in use.
            Rewound: it was rewound: it is neither replayed nor run anew.
            Entangled: it declares what its parent holds, or has its parent's name.
            StateError: its hold has been dropped.
        """
        deadline = self._kernel.monotonic() + wait
        footprint = list(declared)
        # Evaluated here, since another thread may take the step.
        within = into is None and (is_in_body(self._kernel, name) or name in names_asked_for(self._kernel))
        kept: dict[str, Any] = {
            "hooks": hooks,
            "on_failure": on_failure,
            "retries": retries,
            "ask": ask,
            "approver": approver,
        }

        def build(txn: Txn | None, number: int) -> Attempt:
            prefix, payloads = self._kernel.prefix, self._kernel.ledger.payloads
            return Attempt(txn, name, run, number, prefix=prefix, payloads=payloads, wait=wait, **kept)

        def carry(book: Book, attempt: Attempt, recorded: RecordedTransaction | None) -> None:
            if carries:
                attempt.carry_on(found for found in book.of_run(run) if found.row.name in carries)
            if comes_back and recorded is not None and (recorded.state is State.ABORTED or recorded.row.attempt > 1):
                attempt.carry_on(found for found in book.of_run(run) if found.row.name == name)

        def enter(protocol: Protocol, book: Book) -> Attempt | Ticket:
            protocol.refuse_fenced(name, run)
            same = protocol.named.get(name)
            if same is not None:
                refuse_own_name(protocol.by_id, name, placing.get("parent", 0), same, within=within)
                new = newcomers(protocol, same, placing.get("agents", ()))
                again = self._enter_again(protocol, book, same, build, new, here=into is None)
                if whole and isinstance(again, Attempt):
                    again.expect()
                return again
            recorded = book.load(name) if known else None
            if recorded is not None and is_rewound(recorded):
                raise rewound(name, recorded.epoch, recorded.cause or "")
            if recorded is not None and recorded.state is State.COMMITTED:
                replay = build(None, recorded.row.attempt)
                replay.become_replay(follow(book, recorded))
                carry(book, replay, recorded)
                return replay
            if recorded is not None and recorded.state is not State.ABORTED:
                self._recovery.record_ends(protocol, book, {(name, recorded.row.attempt): recorded})
            number = 1 if not known else _next_number(book, name, recorded)
            txn = protocol.begin(
                name, run, attempt=number, declared=footprint, retry=retry, owner=self._kernel.ledger.worker, **placing
            )
            attempt = build(txn, number)
            carry(book, attempt, recorded)
            self._kernel.seat(book, txn, attempt)
            return attempt

        while True:
            found = yield from self._kernel.step(partial(self._entered, enter, into), wait=wait)
            if isinstance(found, Attempt):
                self._tell_of(found, max_age)
                return found
            # What an ended process left under this name is ended first.
            report: Recovered = yield from self._recovery.take_up(name, turn=found)
            if name in report.stuck:
                missing = ", ".join(report.stuck[name])
                raise DeclarationError(
                    f"{name} was left by a process that ended, and nothing called {missing} is declared here, or its"
                    " record needs encrypt=: import or declare it, or give the key, then enter the name again",
                    tool=report.stuck[name][0],
                )
            seconds = deadline - self._kernel.monotonic()
            if seconds <= 0 or not (yield from self._kernel.waits.listen(Wait(found, seconds, name, name))):
                same = self._kernel.protocol.named.get(name)
                silence = "" if same is None else (yield from self._kernel.waits.silence(same))
                in_use = f"{name} is kept{silence}" if silence else f"{name} is in use by another caller"
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {in_use} and has not finished;"
                    " give this work a name of its own, or raise wait=",
                    transaction=name,
                    holder=name,
                    waited=wait,
                )

    def ended(self, name: str, *, wait: float) -> Program[RecordedTransaction | None]:
        """Return a transaction's last record once nothing of it goes on, or None; one left over is ended first.

        Raises:
            WaitTimeout: it has not ended.
        """
        deadline = self._kernel.monotonic() + wait

        def look(protocol: Protocol, book: Book) -> RecordedTransaction | Ticket | None:
            same = protocol.named.get(name)
            return book.load(name) if same is None else protocol.watch(same)

        while True:
            found = yield from self._kernel.step(look)
            if not isinstance(found, Ticket):
                return found
            yield from self._recovery.take_up(name, keep_open=0, turn=found)
            seconds = deadline - self._kernel.monotonic()
            if seconds <= 0 or not (yield from self._kernel.waits.listen(Wait(found, seconds, name, name))):
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {name} has not ended; try again later, or raise wait=",
                    transaction=name,
                    holder=name,
                    waited=wait,
                )

    def _entered(
        self, enter: Step[Attempt | Ticket], into: Attempt | None, protocol: Protocol, book: Book
    ) -> Attempt | Ticket:
        """Return a step's result, in `into` if given; `into` is restored if the step fails."""
        found = enter(protocol, book)
        if into is None or isinstance(found, Ticket):
            return found
        book.on_rollback(partial(become, into, copy(into)))
        become(into, found)
        if into.txn is not None:
            self._kernel.attempts[into.txn] = into
        return into

    def _enter_again(
        self,
        protocol: Protocol,
        book: Book,
        same: Txn,
        build: Callable[[Txn | None, int], Attempt],
        new: Iterable[str],
        *,
        here: bool,
    ) -> Attempt | Ticket:
        """Return the attempt under a name in use, if it may be resumed; else a ticket to wait with.

        `new` are agents that act in it from then on. `here` allows one that was put aside in this process.
        """
        halt = protocol.halted(same)
        if halt is not None and same.parked:
            raise halted(same.name, same.epoch, halt, parked=True)
        attempt = self._kernel.attempts.get(same)
        if here and attempt is not None and attempt.suspended and same.owner in (NOBODY, self._kernel.ledger.worker):
            if same.owner == NOBODY:
                protocol.own(same, self._kernel.ledger.worker)
            self._kernel.come_to(book, attempt)
            attempt.since, attempt.age_told = self._kernel.monotonic(), False
            attempt.restart(build(same, same.attempt))
            _go_on(protocol, same, new)
            return attempt
        if same.state is State.OPEN and self._recovery.is_unattended(same) and same not in self._recovery.coming():
            attempt = self._recovery.revived(protocol, book, same, build(same, same.attempt), readable(book, same.name))
            attempt.again = 1
            _go_on(protocol, same, new)
            return attempt
        return protocol.watch(same)

    def _tell_of(self, attempt: Attempt, max_age: float | None) -> None:
        attempt.max_age = max_age
        self._ages.watch_age(attempt)
        if self._kernel.telling.observer is not None:
            self._kernel.telling.began(attempt, "taken up" if attempt.effects else "begun")

    # ---- a begin that is recorded together with the first step

    def _claims_nothing(self, options: Mapping[str, Any]) -> bool:
        """Whether nobody else needs to see the begin before the first step, or to end it when due."""
        due = options["max_age"] is not None
        return not (
            self._kernel.ledger.immediate
            or options.get("group")
            or options["declared"]
            or due
            or options.get("carries")
        )

    def _begin_with_a_step(self, options: dict[str, Any]) -> Program[Attempt]:
        """Begin as `begin`, but record a transaction with an unused name together with its first step.

        That step checks again that the name is unused. If another process was faster, the name is entered anew before
        anything has run.
        """
        name, run, known = options["name"], options["run"], options["known"]

        def look(protocol: Protocol, book: Book) -> tuple[int, Txn] | None:
            if not (_is_free(protocol, name, run, options["agents"]) and (not known or _is_new(book, name))):
                return None
            return book.behind, _planned(options, options["position"] or (protocol.next_epoch, ""))

        found = yield from self._kernel.look(look, wait=options["wait"])
        if found is None:
            return (yield from self.begin(**options))
        behind, txn = found
        attempt = Attempt(
            txn,
            name,
            run,
            txn.attempt,
            prefix=self._kernel.prefix,
            payloads=self._kernel.ledger.payloads,
            **{of: options[of] for of in ("wait", "hooks", "on_failure", "retries", "ask", "approver")},
        )
        attempt.since = self._kernel.monotonic()
        self._kernel.ledger.later(partial(self._take_place, attempt, txn, options, behind))
        self._tell_of(attempt, options["max_age"])
        return attempt

    def _take_place(
        self, attempt: Attempt, txn: Txn, options: dict[str, Any], behind: int, protocol: Protocol, book: Book
    ) -> None:
        """Begin the planned transaction, unless its name has been taken meanwhile."""
        if txn.id != PLANNED:
            return  # the store failed, and the transaction was dropped
        name, run = options["name"], options["run"]
        attempt.turned_away = None
        book.on_rollback(partial(_plan_anew, txn, options))
        unseen = options["known"] and book.behind != behind  # another process wrote since
        if not _is_free(protocol, name, run, txn.agents) or (unseen and not _is_new(book, name)):
            self._turn_away(attempt, txn, options)
            txn.id, txn.state, txn.reason, txn.detail = DETACHED, State.ABORTED, Reason.LOST, {"cause": _TAKEN}
            protocol.wake_watchers(txn)
            return
        protocol.begin(
            name,
            run,
            attempt=txn.attempt,
            position=options["position"],
            retry=txn.retry,
            owner=self._kernel.ledger.worker,
            guards=txn.guards,
            queues=txn.queues,
            agents=txn.agents,
            into=txn,
        )
        since = attempt.since
        self._kernel.seat(book, txn, attempt)
        attempt.since = since  # its age counts from when its caller entered it

    def _turn_away(self, attempt: Attempt, txn: Txn, options: dict[str, Any]) -> None:
        once: Once[Attempt] = Once(options["name"])
        attempt.turned_away = TurnedAway(txn, partial(self._enter_anew, attempt, txn, options, once))

    def _enter_anew(self, attempt: Attempt, txn: Txn, options: dict[str, Any], once: Once[Attempt]) -> Program[None]:
        self._kernel.telling.ended(attempt)  # its replacement is reported as a transaction of its own
        try:
            yield from once.get(partial(self.begin, **options, into=attempt))
        except Exception:
            self._turn_away(attempt, txn, options)  # a later call tries again
            raise


_TAKEN = "another process began this name at the same time; nothing was run: enter it again"


def _is_free(protocol: Protocol, name: str, run: str, agents: Iterable[str]) -> bool:
    free = name not in protocol.named and run not in protocol.fenced
    return free and protocol.halted_call(run, agents=agents) is None


def _is_new(book: Book, name: str) -> bool:
    return book.load(name) is None and book.forgotten(name) is None


def _go_on(protocol: Protocol, txn: Txn, new: Iterable[str]) -> None:
    protocol.park(txn, parked=False)
    for agent in new:
        protocol.join(txn, agent)


def _planned(options: Mapping[str, Any], position: Position) -> Txn:
    """Return a transaction without a place yet."""
    given = {of: options[of] for of in ("retry", "guards", "queues", "agents")}
    return Txn(PLANNED, options["name"], options["run"], 1, position, owner=NOBODY, **given)


def _plan_anew(txn: Txn, options: Mapping[str, Any]) -> None:
    """Take a transaction's place back: its store has failed, and it takes a place when the store works again."""
    planned = _planned(options, txn.position)
    planned.watchers = txn.watchers
    for name in Txn.__struct_fields__:
        setattr(txn, name, getattr(planned, name))


def _next_number(book: Book, name: str, recorded: RecordedTransaction | None) -> int:
    """Return the number of the next attempt after the recorded ones.

    Raises:
        Forgotten: it had committed, and its results are forgotten.
    """
    if recorded is not None:
        return recorded.row.attempt + 1
    gone = book.forgotten(name)
    if gone != 0:
        return 1 if gone is None else gone + 1
    raise Forgotten(
        f"{name} has committed, but its record has made room for later ones: nothing was run; use a new name for new"
        " work, raise retain=, or keep the ledger in a file",
        transaction=name,
    )
