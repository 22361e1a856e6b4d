"""The one program behind every face: what happens, in which order, when a call is made or a step ends.

Each method is a generator that asks the protocol (one short lock a step, never held across I/O)
and yields requests for the world; `runners` carries them out, synchronously, in asyncio, or in
every possible interleaving.

The order that matters: admission, then the durable intent, then the act, then its outcome. A commit
decision is durable before the first release. An abort's undos run in whoever's program made the
last step before them, so that nobody waits for a thread that is away thinking.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Unpack

from settlemark._acts.bodies import is_in_body, names_asked_for
from settlemark._acts.failure import Ask
from settlemark._acts.gate import Approver
from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Act, Together, Wait
from settlemark._edges.door import Ended
from settlemark._edges.errors import DeclarationError, Forgotten, Stale, UsageError, WaitTimeout, WouldBlock, Wounded
from settlemark._edges.wording import in_words
from settlemark._engine.attempt import Attempt, Hook, OnFailure, Part
from settlemark._engine.commit import settling
from settlemark._engine.kernel import Deadline
from settlemark._lifecycle.aging import Aging
from settlemark._lifecycle.approval import Approving
from settlemark._lifecycle.parking import follow
from settlemark._lifecycle.rewind import Rewinding
from settlemark._model.scope import Scope
from settlemark._observe.events import Recovered
from settlemark._observe.logs import about_txn
from settlemark._protocol.entangled import refuse_own_name
from settlemark._protocol.holdings import Blocked, Placing, Ticket, Txn
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.refusals import rewound
from settlemark._protocol.states import Reason, State
from settlemark._report.verdicts import is_rewound
from settlemark.ledger._contract import Book, Fence, RecordedTransaction

log = logging.getLogger("settlemark")

CANCEL_SECONDS = 30.0


class Driver(Aging, Approving, Rewinding):
    """Runs transactions over a ledger: begins, recalls and repeats them.

    Making calls, settling, aborting, taking up what was left and resolving what is in doubt are its bases' parts.
    """

    def enter(self, *, independent: bool, **options: Any) -> Program:
        """Return a part: what joins the call that this is asked in, or a transaction of its own; see `begin`."""
        inside = self._outer()
        outer = None if inside is None else inside.attempt.txn
        if inside is not None and outer is not None and outer.state is State.OPEN and not independent:
            part = inside.join()
            inside.attempt.hooks += tuple(hook for hook in options["hooks"] if hook not in inside.attempt.hooks)
            footprint = list(options["declared"])
            if footprint:
                yield from self._step(lambda protocol, _book: protocol.declare(outer, footprint))
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
    ) -> Program:
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
        deadline = self._monotonic() + wait
        footprint = list(declared)
        # Asked here: a step may be taken by another thread.
        within = is_in_body(self, name) or name in names_asked_for(self)

        def build(txn: Txn | None, number: int) -> Attempt:
            return Attempt(
                txn, name, run, number, prefix=self._prefix, payloads=self.ledger.payloads, wait=wait, hooks=hooks,
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
                self._record_ends(protocol, book, {(name, recorded.row.attempt): recorded})
            number = 1 if not known else _next_number(book, name, recorded)
            txn = protocol.begin(
                name, run, attempt=number, declared=footprint, retry=retry, owner=self.ledger.worker, **placing
            )  # fmt: skip
            attempt = build(txn, number)
            carry(book, attempt, recorded)
            self._seat(book, txn, attempt)
            return attempt

        while True:
            found = yield from self._step(enter, wait=wait)
            if isinstance(found, Attempt):
                found.max_age = max_age
                self._watch_age(found)
                if self.observer is not None:
                    self._tell_began(found, "taken up" if found.effects else "begun")
                return found
            # What an ended process left under this name is ended first.
            report: Recovered = yield from self.take_up(name, turn=found)
            if name in report.stuck:
                missing = ", ".join(report.stuck[name])
                raise DeclarationError(
                    f"{name} was left unfinished by a process that ended, and nothing called {missing} is declared in"
                    " this one: import or declare it, then enter the name again",
                    tool=report.stuck[name][0],
                )
            seconds = deadline - self._monotonic()
            if seconds <= 0 or not (yield from self._listen(Wait(found, seconds, name, name))):
                same = self._protocol.named.get(name)
                silence = "" if same is None else (yield from self._silence(same))
                in_use = f"{name} is kept{silence}" if silence else f"{name} is in use by another caller"
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {in_use} and has not finished;"
                    " give this work a name of its own, or raise wait=",
                    transaction=name, holder=name, waited=wait,
                )  # fmt: skip

    def ended(self, name: str, *, wait: float) -> Program:
        """Return the last record of a transaction when nothing of it goes on, or None; one left over is ended first.

        Raises:
            WaitTimeout: it has not come to its end.
        """
        deadline = self._monotonic() + wait

        def look(protocol: Protocol, book: Book) -> RecordedTransaction | Ticket | None:
            same = protocol.named.get(name)
            return book.load(name) if same is None else protocol.watch(same)

        while True:
            found = yield from self._step(look)
            if not isinstance(found, Ticket):
                return found
            yield from self.take_up(name, keep_open=0, turn=found)
            seconds = deadline - self._monotonic()
            if seconds <= 0 or not (yield from self._listen(Wait(found, seconds, name, name))):
                raise WaitTimeout(
                    f"gave up after {wait:g} s: {name} has not come to its end; try again later, or raise wait=",
                    transaction=name, holder=name, waited=wait,
                )  # fmt: skip

    def _enter_again(
        self, protocol: Protocol, book: Book, same: Txn, build: Callable[[Txn | None, int], Attempt]
    ) -> Attempt | Ticket:
        """Return the attempt under a name in use, if it is anybody's to go on with; else a ticket to wait with."""
        attempt = self._attempts.get(same)
        if attempt is not None and attempt.suspended and same.owner in (NOBODY, self.ledger.worker):
            if same.owner == NOBODY:
                protocol.own(same, self.ledger.worker)
            self._come_to(book, attempt)
            attempt.since, attempt.age_told = self._monotonic(), False
            attempt.restart(build(same, same.attempt))
            protocol.park(same, parked=False)
            return attempt
        if same.state is State.OPEN and self._is_nobodys(same) and same not in self._coming():
            attempt = self._revived(protocol, book, same, build(same, same.attempt))
            attempt.again = 1
            protocol.park(same, parked=False)
            return attempt
        return protocol.watch(same)

    def cancel(self, run: str) -> Program:
        """Put up a fence before a run, durably, and end what of it has not settled, in this process or before it.

        Raises:
            UsageError: this names a transaction, not a run; there is no fence.
        """
        at = self._clock()

        def cancel(protocol: Protocol, book: Book) -> list[Txn]:
            known = protocol.named.get(run)
            if known is not None and known.run != run:
                raise UsageError(
                    f"{run} is a transaction of the run {known.run}: nothing was cancelled; cancel {known.run!r}"
                )
            found = protocol.cancel(run)
            book.write([Fence(run, at)])
            return found

        found = yield from self._step(cancel, durable=True)
        yield from self._tidy()
        yield from self.take_up()
        began = self._monotonic()
        for txn in found:
            attempt = self._attempts.get(txn)
            patience = CANCEL_SECONDS if attempt is None else min(attempt.wait, CANCEL_SECONDS)
            yield from self._until_over(txn, began + self._time_for(txn, patience))

    def now(self) -> float:
        """Return the time in seconds, from any fixed point."""
        return self._monotonic()

    def leap(self) -> Program:
        """Return an epoch that nobody else is given."""
        return self._step(lambda protocol, _book: protocol.leap(1))

    def advance(self, scope: Scope, epoch: int) -> Program:
        """Raise the floor of a scope, durably.

        Raises:
            ContractViolation: work at or below it may still come; nothing moved.
        """
        yield from self._step(lambda protocol, _book: protocol.advance(scope, epoch), durable=True)

    def registering(self, change: Callable[[Protocol], None]) -> Program:
        """Have a change of the tool registry known, durably, and end what it aborts."""
        yield from self._step(lambda protocol, _book: change(protocol), durable=True)
        yield from self._tidy()

    def _until_over(self, txn: Txn, deadline: float) -> Program:
        """Wait until a transaction is finished, whoever finishes it."""
        while not txn.finished:
            with self.local as protocol:
                ticket = protocol.watch(txn)
            if txn not in self._attempts and (silence := (yield from self._silence(txn))):
                # What could be undone is; the rest comes when nobody may be at it any more, which may take long.
                log.warning(
                    "%s is cancelled, and kept%s", txn.name, silence, extra=about_txn(txn, state=txn.state.value)
                )
                return
            seconds = deadline - self._monotonic()
            if not (yield from self._listen(Wait(ticket, seconds, txn.name, "its own"))):
                log.warning(
                    "%s is cancelled, and %s: it ends when its call returns", txn.name, txn.state,
                    extra=about_txn(txn, state=txn.state.value),
                )  # fmt: skip
                return

    def run(self, enter: Program, body: Callable[[Part], Callable[[], Any]], *, tries: int) -> Program:
        """Begin, call the body, commit, and return the body's value; again on fresh state when it lost a race.

        A part of another is called once: it is its caller that commits, or begins again.

        Raises:
            Refused: it lost `tries` races, or was refused for another reason. Else what the body raised.
        """
        part: Part = yield from enter
        if part.joined:
            return (yield Act(body(part), {}, None))
        part.attempt.parks = "keep"
        with self.ledger.acts.under_way():
            return (yield from self._trying(part.attempt, body, self.conclude, tries))

    def branch(self, attempt: Attempt, body: Callable[[Part], Callable[[], Any]], *, tries: int) -> Program:
        """Do as `run` in a transaction that has begun, but for the commit: it stays open, with all it has done.

        Raises:
            Refused: it lost `tries` races, or was refused for another reason. Else what the body raised.
        """
        return self._trying(attempt, body, self._rest, tries)

    def _rest(self, attempt: Attempt) -> Program:
        """Wait until all its calls have returned, and return when it is still open."""
        yield from self._quiesce(attempt, attempt.live)
        if attempt.live.state is not State.OPEN:
            with self.local as protocol:
                raise protocol.refusal(attempt.live)

    def discard(self, attempt: Attempt, reason: Reason, **detail: Any) -> Program:
        """Abort a transaction that nobody will try again, and return when everything of it is undone or named."""
        yield from self._abandon(attempt)
        yield from self.abort(attempt, reason, **detail)

    def discard_all(self, attempts: Iterable[Attempt], *, cause: str) -> Program:
        """Abort transactions that nobody will try again, beside each other, and return when all is undone or named."""
        lost = [attempt for attempt in attempts if attempt.replay is None]
        acted = [attempt for attempt in lost if any(effect.executed for effect in attempt.effects.values())]
        if acted:
            # What each has to undo takes its time.
            ended = yield Together([self.discard(attempt, Reason.ABANDONED, cause=cause) for attempt in acted])
            raise_interrupt(ended)
        for attempt in lost:
            if attempt not in acted:
                yield from self.discard(attempt, Reason.ABANDONED, cause=cause)

    def choose(
        self,
        winner: Attempt | None,
        losers: Iterable[Attempt],
        *,
        cause: str,
        noted: Callable[[Book, float], None] | None = None,
    ) -> Program:
        """Commit the winner of a choice, if there is one, when the losers are undone; one step decides both.

        It seals the one and aborts the others, so nobody can choose anew: what a process that ends behind it has left
        is carried out by whoever recovers. `noted` writes to the book in the same step, which then is on disk before
        anything is undone.

        Raises:
            Refused: before the step the winner was undone, and nothing moved; else as `commit`.
        """
        with nullcontext() if winner is None else settling(winner):
            yield from self._choose(winner, losers, cause, noted)

    def _choose(
        self,
        winner: Attempt | None,
        losers: Iterable[Attempt],
        cause: str,
        noted: Callable[[Book, float], None] | None,
    ) -> Program:
        lost, at = [attempt for attempt in losers if attempt.replay is None], self._clock()

        def decide(protocol: Protocol, book: Book) -> bool:
            if winner is not None:
                if winner.in_flight():
                    return False  # a call slipped in
                protocol.seal(winner.live, hooked=bool(winner.hooks or self._live_reads(winner)))
                self._note_sealed(winner, book)
            for attempt in lost:
                protocol.abort(attempt.live, Reason.ABANDONED, **attempt.cause({"cause": cause}))
            for attempt in (*lost, *([] if winner is None else [winner])):
                if attempt.written:
                    attempt.put(book, [attempt.state_change(at)])
            if noted is not None:
                noted(book, at)
            return True

        decided = False
        while not decided:
            if winner is not None:
                yield from self.take_back_orphans(winner)
                yield from self._rest(winner)
            decided = yield from self._step(decide, durable=noted is not None)
        interrupted: BaseException | None = None
        try:
            yield from self.discard_all(lost, cause=cause)
        except GeneratorExit:
            raise
        except BaseException as error:
            interrupted = error  # what was chosen is carried out first
        if winner is not None:
            yield from self.commit(winner, sealed=True)
        if interrupted is not None:
            raise interrupted

    def _trying(
        self,
        attempt: Attempt,
        body: Callable[[Part], Callable[[], Any]],
        then: Callable[[Attempt], Program],
        tries: int,
    ) -> Program:
        while True:
            tries -= 1
            try:
                yield from self._line_up(attempt)
                value = yield Act(body(Part(attempt, attempt.numbering)), {}, None)
                yield from then(attempt)
            except (Stale, Wounded):
                again = yield from self._retry(attempt, last=tries <= 0)
                if again is None:
                    raise
                attempt = again
            except GeneratorExit:
                raise
            except BaseException as error:
                yield from self.discard(attempt, Reason.FAILED, cause=in_words(error))
                raise
            else:
                return value

    def _line_up(self, attempt: Attempt) -> Program:
        """Wait, before one that lost a race begins again, for those who are before it on what it had read.

        It saves an attempt that would be lost, and is no more than that: after its deadline it goes ahead.
        """
        txn = attempt.txn
        deadline = Deadline(attempt.wait)
        while txn is not None and txn.begins_again:
            with self.local as protocol:
                blocked = protocol.ahead(txn)
                if blocked is None:
                    return
                ticket = protocol.watch(blocked.holder, txn)
            try:
                yield from self._await(attempt, ticket, blocked, deadline, blocked.holder.name)
            except (WaitTimeout, WouldBlock):
                attempt.patient = False
                return

    def let_pass(self, attempt: Attempt) -> Program:
        """Wait until whoever wounded an attempt is done: its work, begun anew before, would lose the race again.

        It saves that, and is no more: after its deadline it lets the work go ahead.
        """
        txn = attempt.txn
        if txn is None or txn.reason is not Reason.WOUNDED or txn.parent or txn.group:
            return  # for one that is tied others may wait, and they be waited for by whoever wounded it
        deadline, scope, name = Deadline(attempt.wait), txn.detail.get("scope"), txn.detail.get("holder")
        while name is not None and scope is not None:
            with self.local as protocol:
                rival = protocol.named.get(name)
                if rival is None or rival.parked:
                    return
                ticket = protocol.watch(rival)
            try:
                yield from self._await(attempt, ticket, Blocked(rival, scope), deadline, name, whom=name)
            except (WaitTimeout, WouldBlock):
                return

    def _retry(self, attempt: Attempt, *, last: bool) -> Program:
        """Return the attempt that took this one's place, once it is finished, or None."""
        txn = attempt.txn
        if txn is None:
            return None
        if last:
            yield from self._abandon(attempt)
        # The body may have raised this for another transaction than its own: then it failed.
        yield from self.abort(attempt, Reason.FAILED)
        if not txn.finished:
            yield from self._abandon(attempt)
        again = self._attempts.get(txn.successor) if txn.successor is not None and not last else None
        if again is not None:
            self._watch_age(again)
        return again


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


def raise_interrupt(ended: Iterable[Ended]) -> None:
    """Raise what is no failure of a program: an interrupt from the keyboard, or a cancellation."""
    for end in ended:
        if end.error is not None and not isinstance(end.error, Exception):
            raise end.error


__all__ = ["Driver", "raise_interrupt"]
