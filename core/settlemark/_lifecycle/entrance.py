"""Entering a transaction by its name: fresh, gone on with, or the replay of what has committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from settlemark._acts.bodies import is_in_body, names_asked_for
from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Wait
from settlemark._attempt.attempt import Attempt, Hook, OnFailure, Part
from settlemark._edges.errors import DeclarationError, Forgotten, WaitTimeout
from settlemark._engine.kernel import Kernel
from settlemark._lifecycle.ages import Ages
from settlemark._lifecycle.parking import follow
from settlemark._lifecycle.recovery import Recovery
from settlemark._model.scope import Scope
from settlemark._observe.events import Recovered
from settlemark._protocol.holdings import Placing, Ticket, Txn
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.refusals import rewound
from settlemark._protocol.states import State
from settlemark._protocol.ties import refuse_own_name
from settlemark._report.verdicts import is_rewound
from settlemark.ledger._contract import Book, RecordedTransaction


class Entrance:
    """Begins transactions, and finds what is on record under their names."""

    def __init__(self, kernel: Kernel, recovery: Recovery, ages: Ages) -> None:
        self._kernel = kernel
        self._recovery = recovery
        self._ages = ages

    def enter(self, *, independent: bool, **options: Any) -> Program[Part]:
        """Return a part: what joins the call that this is asked in, or a transaction of its own; see `begin`."""
        inside = self._kernel.outer()
        outer = None if inside is None else inside.attempt.txn
        if inside is not None and outer is not None and outer.state is State.OPEN and not independent:
            part = inside.join()
            inside.attempt.hooks += tuple(hook for hook in options["hooks"] if hook not in inside.attempt.hooks)
            footprint = list(options["declared"])
            if footprint:
                yield from self._kernel.step(lambda protocol, _book: protocol.declare(outer, footprint))
            return part
        attempt = yield from self.begin(**options, parent=0 if outer is None else outer.id)
        return Part(attempt, attempt.numbering)

    def begin(  # noqa: PLR0913 - one keyword for each thing that may be said of a transaction
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
        **placing: Unpack[Placing],
    ) -> Program[Attempt]:
        """Return an attempt of a transaction: fresh, resumed, or a replay of what has committed.

        `known` says that the name was chosen by the caller, so that the ledger may know it; `comes_back` that who
        enters it again makes the same decisions again, and not others: what of them stays is not done twice. `whole`
        says that who enters it makes all of its decisions: what was decided before and is not asked for is taken back.

        Raises:
            Cancelled: its run was cancelled. WaitTimeout: the name is in use and stays so.
            Rewound: it was undone on request: neither is it replayed nor run anew.
            Entangled: it declares what its parent holds, or has its parent's name.
            StateError: the hold it was to work under has been dropped.
        """
        deadline = self._kernel.monotonic() + wait
        footprint = list(declared)
        # Asked here: a step may be taken by another thread.
        within = is_in_body(self._kernel, name) or name in names_asked_for(self._kernel)

        def build(txn: Txn | None, number: int) -> Attempt:
            return Attempt(
                txn, name, run, number, prefix=self._kernel.prefix,
                payloads=self._kernel.ledger.payloads, wait=wait, hooks=hooks,
                on_failure=on_failure, retries=retries, ask=ask, approver=approver,
            )  # fmt: skip

        def carry(book: Book, attempt: Attempt, recorded: RecordedTransaction | None) -> None:
            if comes_back and recorded is not None and (recorded.state is State.ABORTED or recorded.row.attempt > 1):
                attempt.carry_on(found for found in book.of_run(run) if found.row.name == name)

        def enter(protocol: Protocol, book: Book) -> Attempt | Ticket:
            protocol.refuse_fenced(name, run)
            same = protocol.named.get(name)
            if same is not None:
                refuse_own_name(protocol.by_id, name, placing.get("parent", 0), same, within=within)
                again = self._enter_again(protocol, book, same, build)
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
            )  # fmt: skip
            attempt = build(txn, number)
            carry(book, attempt, recorded)
            self._kernel.seat(book, txn, attempt)
            return attempt

        while True:
            found = yield from self._kernel.step(enter, wait=wait)
            if isinstance(found, Attempt):
                found.max_age = max_age
                self._ages.watch_age(found)
                if self._kernel.telling.observer is not None:
                    self._kernel.telling.began(found, "taken up" if found.effects else "begun")
                return found
            # What an ended process left under this name is ended first.
            report: Recovered = yield from self._recovery.take_up(name, turn=found)
            if name in report.stuck:
                missing = ", ".join(report.stuck[name])
                raise DeclarationError(
                    f"{name} was left unfinished by a process that ended, and nothing called {missing} is declared in"
                    " this one: import or declare it, then enter the name again",
                    tool=report.stuck[name][0],
                )
            seconds = deadline - self._kernel.monotonic()
            if seconds <= 0 or not (yield from self._kernel.listen(Wait(found, seconds, name, name))):
                same = self._kernel.protocol.named.get(name)
                silence = "" if same is None else (yield from self._kernel.silence(same))
                in_use = f"{name} is kept{silence}" if silence else f"{name} is in use by another caller"
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {in_use} and has not finished;"
                    " give this work a name of its own, or raise wait=",
                    transaction=name, holder=name, waited=wait,
                )  # fmt: skip

    def ended(self, name: str, *, wait: float) -> Program[RecordedTransaction | None]:
        """Return the last record of a transaction when nothing of it goes on, or None; one left over is ended first.

        Raises:
            WaitTimeout: it has not come to its end.
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
            if seconds <= 0 or not (yield from self._kernel.listen(Wait(found, seconds, name, name))):
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {name} has not come to its end; try again later, or raise wait=",
                    transaction=name, holder=name, waited=wait,
                )  # fmt: skip

    def _enter_again(
        self, protocol: Protocol, book: Book, same: Txn, build: Callable[[Txn | None, int], Attempt]
    ) -> Attempt | Ticket:
        """Return the attempt under a name in use, if it is anybody's to go on with; else a ticket to wait with."""
        attempt = self._kernel.attempts.get(same)
        if attempt is not None and attempt.suspended and same.owner in (NOBODY, self._kernel.ledger.worker):
            if same.owner == NOBODY:
                protocol.own(same, self._kernel.ledger.worker)
            self._kernel.come_to(book, attempt)
            attempt.since, attempt.age_told = self._kernel.monotonic(), False
            attempt.restart(build(same, same.attempt))
            protocol.park(same, parked=False)
            return attempt
        if same.state is State.OPEN and self._recovery.is_nobodys(same) and same not in self._recovery.coming():
            attempt = self._recovery.revived(protocol, book, same, build(same, same.attempt))
            attempt.again = 1
            protocol.park(same, parked=False)
            return attempt
        return protocol.watch(same)


def _next_number(book: Book, name: str, recorded: RecordedTransaction | None) -> int:
    """Return the number of the attempt that comes after what is on record, or was.

    Raises:
        Forgotten: it had committed, and nobody knows with which results.
    """
    if recorded is not None:
        return recorded.row.attempt + 1
    gone = book.forgotten(name)
    if gone != 0:
        return 1 if gone is None else gone + 1
    raise Forgotten(
        f"{name} has committed, and its record had to make room for later ones: nothing was run; use a new name for new"
        " work, raise retain=, or keep the ledger in a file",
        transaction=name,
    )
