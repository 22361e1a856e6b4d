"""Recovery: every transaction that an ended process left is brought to its end.

The ledger still has all holds, claims and places in line, so nothing is claimed anew. An ended worker's transactions
lose their owner, and a process that knows their handlers continues: a decision is carried out, an undo completed, a
sealed one commits in its turn, an open one is aborted after a grace period in which its framework may resume it.
Source: the crash windows of Atomix §D.3, ARIES (analysis, redo, undo) at the level of effects.
"""

from __future__ import annotations

from functools import partial

from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Together, Wait
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import is_sealed, named, revive
from settlemark._edges.errors import InDoubt, PartialCommit, Refused
from settlemark._edges.user_code import Ended
from settlemark._engine.commit import Settling
from settlemark._engine.doubt import Probing
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.release import Releases
from settlemark._engine.undo.abort import Beside, Undoing
from settlemark._engine.undo.record_end import record_end
from settlemark._model.effect_class import Outcome
from settlemark._observe.events import Recovered
from settlemark._observe.events import Recovery as Recovering
from settlemark._observe.logs import about
from settlemark._protocol.holdings import Ticket, Txn, fire
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import Reason, State
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._lease import bury, held_by_zombies

_UNDOING = (State.ABORTING, State.ABORTED)
CAUSE = "its process ended"
_MANY, _LANES = 256, 32
HANDLER_GRACE = 5.0
"""Seconds in which a tool may still be declared before it counts as missing."""


class Recovery:
    """Takes up what ended processes left."""

    def __init__(
        self, kernel: Kernel, probing: Probing, undoing: Undoing, releases: Releases, settling: Settling
    ) -> None:
        self._kernel = kernel
        self._probing = probing
        self._undoing = undoing
        self._releases = releases
        self._settling = settling
        self.keep_open = 0.0
        self.ending: dict[Attempt, list[Ticket]] = {}  # taken up here, with the tickets of who waits for the end
        self._took_up = False
        self._first_seen: dict[int, float] = {}
        self._stuck_since: dict[str, float | None] = {}
        self._turn = Ticket()  # fires when a sealed transaction that was left may go on
        self._turn.fired = True

    def take_up(
        self,
        only: str | None = None,
        *,
        keep_open: float | None = None,
        turn: Ticket | None = None,
        beside: Beside | None = None,
    ) -> Program[Recovered]:
        """End what ended processes, or a failing store, have left, and return a `Recovered`; waits for nobody.

        Args:
            only: the name of the one to take up; all by default.
            keep_open: seconds for which an open one stays as it is, from when it was first seen.
            turn: fires when the transaction that a sealed one waits for has moved.
            beside: runs the ending programs concurrently; the report then leaves their results out.
        """
        report = Recovered()
        grace = self.keep_open if keep_open is None else keep_open

        def find(protocol: Protocol, book: Book) -> list[Attempt]:
            gone = book.gone()
            for worker in gone:
                bury(protocol, book, worker)
            coming = self.coming()
            orphans = [
                txn
                for txn in protocol.live.values()
                if only in (None, txn.name) and self.is_unattended(txn) and txn not in coming
            ]
            orphans.sort(key=lambda txn: txn.position)
            due: list[Txn] = []
            for txn in orphans:
                if protocol.stays(txn) or self._is_kept(txn, grace):
                    report.kept.append(txn.name)
                else:
                    due.append(txn)
            records: list[RecordedTransaction] = []
            if only is not None:
                records = [r for r in (book.load(only),) if due and r is not None]
            elif due or gone or keep_open is not None or not self._took_up:  # else a large read would find nothing
                records = book.unfinished()
            found = {(r.row.name, r.row.attempt): r for r in records}
            if only is None:
                self.record_ends(protocol, book, found)
            taken = self._resume_stopped(protocol, book, only)
            zombies = book.zombies() if due else frozenset[str]()
            for txn in due:
                recorded = found.get((txn.name, txn.attempt))
                if self._awaits_sender(txn, recorded, zombies):
                    report.waiting.append(txn.name)
                    continue
                missing = self._missing(txn, recorded)
                if missing:
                    report.stuck[txn.name] = missing
                    continue
                attempt = Attempt(
                    txn,
                    txn.name,
                    txn.run,
                    txn.attempt,
                    prefix=self._kernel.prefix,
                    payloads=self._kernel.ledger.payloads,
                    wait=30.0,
                    hooks=(),
                    on_failure="abort",
                    retries=Retries(),
                )
                taken.append(self.revived(protocol, book, txn, attempt, recorded))
            for attempt in taken:
                self.ending[attempt] = []
                book.on_rollback(partial(self.ending.pop, attempt, None))
            return taken

        taken: list[Attempt] = yield from self._kernel.step(find)
        self._took_up = self._took_up or only is None
        if beside is not None:
            for attempt in taken:
                beside(self.end_all([attempt], Recovered(), turn), partial(self._give_back, attempt))
            taken = []
        if len(taken) < _MANY:
            yield from self.end_all(taken, report, turn)
        else:
            yield from self._end_beside_each_other(taken, report, turn)
        return report

    def _end_beside_each_other(self, taken: list[Attempt], report: Recovered, turn: Ticket | None) -> Program[None]:
        """End all as `end_all` does, but concurrently, so that their records share commits."""
        lanes = [taken[n::_LANES] for n in range(_LANES)]
        ended: list[Ended] = yield Together([self.end_all(lane, report, turn) for lane in lanes])
        failed = next((lane.error for lane in ended if lane.error is not None), None)
        if failed is not None:
            raise failed
        order = {attempt.name: number for number, attempt in enumerate(taken)}
        for names in (report.committed, report.undone, report.waiting, report.left):
            names.sort(key=order.__getitem__)

    def end_all(self, taken: list[Attempt], report: Recovered, turn: Ticket | None) -> Program[None]:
        """End everything taken up, one after the other, and report."""
        try:
            for attempt in taken:
                yield from self._end(attempt, report, turn)
        finally:
            with self._kernel.local:  # work left by an interrupt or a failing store is taken up at the next look
                for attempt in taken:
                    txn = attempt.live
                    if self._kernel.attempts.get(txn) is not attempt:
                        continue  # another look may be at work on it by now
                    if txn.state is State.RELEASING or (attempt.handed_over and attempt.knows_more):
                        attempt.handed_over = True  # releases are known here, and perhaps not recorded
                    elif not (txn.finished or attempt.concluding):  # else another program is at work on it
                        self._kernel.attempts.pop(txn, None)
                waiting = [ticket for attempt in taken for ticket in self.ending.pop(attempt, ())]
            fire(waiting)
        if self._kernel.telling.observer is not None and report:
            self._kernel.telling.observer.tell(Recovering(report))

    def _give_back(self, attempt: Attempt) -> None:
        """Drop what was taken up and will not be begun: the next look takes it up."""
        with self._kernel.local:
            if self._kernel.attempts.get(attempt.live) is attempt:
                del self._kernel.attempts[attempt.live]
            waiting = self.ending.pop(attempt, [])
        fire(waiting)

    def _resume_stopped(self, protocol: Protocol, book: Book, only: str | None) -> list[Attempt]:
        """Take up work of this process that a failing store, or a halt, had stopped, unless its program still ends."""
        left = [a for a in self._kernel.attempts.values() if a.handed_over and only in (None, a.name)]
        left = [a for a in left if not (protocol.stays(a.live) or (a.live.parked and a.settling))]
        found = [a for a in left if not (a.concluding or a in self.ending)]
        for attempt in found:
            protocol.go_on(attempt.live)
            attempt.handed_over = False
            book.on_rollback(partial(setattr, attempt, "handed_over", True))
        # An abort that the store never took has changed nothing: its own program continues.
        return [a for a in found if not (a.live.state is State.OPEN or (a.live.state is State.SEALED and a.settling))]

    def recover(self, *, keep_open: float | None = None) -> Program[Recovered]:
        """Take up what was left, and return when everything being ended or undone here is done."""
        yield from self._undoing.tidy()
        report: Recovered = yield from self.take_up(keep_open=keep_open)
        yield from self._undoing.tidy()  # what was queued, and is taken by now, may have aborted more
        with self._kernel.local:
            ending = [(attempt, Ticket()) for attempt in self.ending]
            for attempt, ticket in ending:
                self.ending[attempt].append(ticket)
        for attempt, ticket in ending:
            yield Wait(ticket, self._kernel.callers.time_for(attempt.live, attempt.wait), attempt.name, "its own")
        with self._kernel.local:
            undoing = [
                (txn, a) for txn, a in self._kernel.attempts.items() if txn.state in _UNDOING and not txn.running
            ]
        for txn, attempt in undoing:
            yield from self._kernel.waits.until_finished(attempt, txn)
        return report

    def maintain(self, beside: Beside | None = None) -> Program[None]:
        """Conclude what others aborted, and take up what ended processes left; report what cannot be ended here.

        `beside` runs a program in another thread: a handler that hangs delays only its own transaction.
        """
        yield from self._undoing.tidy(beside)
        report: Recovered = yield from self.take_up(beside=beside)
        yield from self._undoing.tidy(beside)
        for name, tools in report.stuck.items():
            self._log_stuck(name, tools)

    def _log_stuck(self, name: str, tools: list[str]) -> None:
        seen = self._stuck_since.setdefault(name, self._kernel.monotonic())
        if seen is not None and self._kernel.monotonic() - seen >= HANDLER_GRACE:
            self._stuck_since[name] = None
            log.error(
                "%s was left unfinished by a process that ended, and %s is not declared in this one: import or declare"
                " it, tell its successor so with aliases= or versions=, or give encrypt= the key of its record; then"
                " settlement.recover()",
                name,
                ", ".join(tools),
                extra=about(transaction=name, tools=tools),
            )

    def is_elsewhere(self, txn: Txn) -> bool:
        """Whether no program of this process has it: another process does, or one that has ended did."""
        return txn not in self._kernel.attempts

    def is_unattended(self, txn: Txn) -> bool:
        """Whether no program of any process is bringing a transaction to its end."""
        return txn.owner in (NOBODY, self._kernel.ledger.worker) and txn not in self._kernel.attempts

    def coming(self) -> set[Txn]:
        """Return the retries that other programs here will enter, once they have concluded the aborts."""
        return {txn.successor for txn in self._kernel.attempts if txn.successor is not None}

    def _is_kept(self, txn: Txn, grace: float) -> bool:
        if txn.state is not State.OPEN or txn.mends:
            return False  # no framework resumes a mend, and others wait for its scope
        if txn.role == "choice" and any(self._is_kept(member, grace) for member in txn.members.values()):
            return True
        seen = self._first_seen.setdefault(txn.id, self._kernel.monotonic())
        return txn.parked or self._kernel.monotonic() - seen < grace

    def _awaits_sender(self, txn: Txn, recorded: RecordedTransaction | None, zombies: frozenset[str]) -> bool:
        """Whether an abort must wait, because a silent worker may still be at work on one of its effects.

        An effect with only its intent on record is probed first: that is how it comes to be in doubt.
        """
        if recorded is None:
            return False
        if txn.mends and any(effect.sender in zombies for effect in recorded.effects):
            return True  # a mend's recorded effect is its undo: one that may be under way is not begun again
        if txn.state is not State.ABORTING or recorded.row.attempt != txn.attempt:
            return False
        out = [e for e in held_by_zombies(recorded, txn.state, zombies) if e.outcome is not Outcome.INTENDED]
        if out:
            self._probing.doubt()
        return bool(out)

    def record_ends(self, protocol: Protocol, book: Book, found: dict[tuple[str, int], RecordedTransaction]) -> None:
        """Record the end of transactions that the protocol finished, and whose process ended before it recorded that.

        Only an abort with nothing to undo ends in that way.
        """
        live = {(txn.name, txn.attempt) for txn in protocol.live.values()}
        ours = {(attempt.name, attempt.number) for attempt in self._kernel.attempts.values()}
        at = self._kernel.clock()
        for key in found.keys() - live - ours:
            record_end(book, found[key], Reason.LEFT, at, CAUSE)

    def _missing(self, txn: Txn, recorded: RecordedTransaction | None) -> list[str]:
        """Return the tools without which a transaction cannot be ended here."""
        return sorted({named(effect.row) for effect in self.beyond(txn, recorded)})

    def beyond(self, txn: Txn, recorded: RecordedTransaction | None) -> list[RecordedEffect]:
        """Return the effects of a transaction that must leave, or be undone, by handlers unknown here."""
        found: list[RecordedEffect] = []
        for effect in recorded.effects if recorded is not None else ():
            declared = self._kernel.declaration(effect.row.tool, effect.row.version)
            leaves = (
                effect.row.held and effect.outcome is Outcome.QUEUED and txn.state in (State.SEALED, State.RELEASING)
            )
            acted = effect.outcome in (Outcome.CONFIRMED, Outcome.INTENDED, Outcome.UNKNOWN) and effect.tag is None
            undone = acted and not effect.row.held and effect.row.handled
            undone = undone and txn.state in (State.OPEN, State.ABORTING)
            unknown = (undone and declared is None) or (leaves and (declared is None or declared.function is None))
            if unknown or ((undone or leaves) and is_sealed(effect, declared)):
                found.append(effect)
        return found

    def revived(
        self, protocol: Protocol, book: Book, txn: Txn, attempt: Attempt, recorded: RecordedTransaction | None = None
    ) -> Attempt:
        """Own a transaction without an owner, and fill an attempt from its record."""
        if txn.owner == NOBODY:
            protocol.own(txn, self._kernel.ledger.worker)
        aside = protocol.go_on(txn)
        recorded = recorded or book.load(txn.name)
        self._kernel.seat(book, txn, attempt)
        self._first_seen.pop(txn.id, None)
        if recorded is None or recorded.row.attempt != txn.attempt:
            return attempt
        attempt.written = True
        attempt.take_times(recorded)
        if txn.state is State.SEALED and attempt.sealed_at is None:
            attempt.sealed_at = float(txn.moved)
        for found in recorded.effects:
            effect = revive(found, self._kernel.declaration(found.row.tool, found.row.version))
            effect.calls = [c for c in txn.calls.values() if c.place == effect.position and c.admitted]
            attempt.add(effect)
        if txn.state is State.RELEASING and not aside:
            self._doubt_first(attempt)
        return attempt

    @staticmethod
    def _doubt_first(attempt: Attempt) -> None:
        """Probe the first queued effect: each outcome was recorded before the next was released."""
        queued = next((e for e in attempt.leaving() if e.outcome is Outcome.QUEUED), None)
        if queued is not None:
            queued.doubt()

    def _end(self, attempt: Attempt, report: Recovered, turn: Ticket | None) -> Program[None]:
        txn = attempt.live
        if txn.state is not State.SEALED or txn.hooked:
            self._kernel.telling.began(attempt, "taken up")
        try:
            if txn.state is State.SEALED and not txn.hooked:
                yield from self._commit_at_last(attempt, txn, report, turn)
            elif txn.state is State.RELEASING:
                yield from self._releases.release_all(attempt, txn)
            elif txn.state is State.COMMITTED:
                self._releases.leave(attempt, txn)
            elif txn.state is State.ABORTING:
                # Its caller has ended with its process: nobody would run a retry, which would keep all holds.
                yield from self._kernel.step(lambda protocol, _book: protocol.drop_retry(txn))
                yield from self._undoing.conclude(txn)
            elif txn.role == "choice" and txn.members:
                report.waiting.append(txn.name)  # the chosen one commits when the others are undone
                return
            else:
                yield from self._undoing.abort(attempt, Reason.LEFT, retried=False, cause=CAUSE)
        except (Refused, PartialCommit, InDoubt):
            pass  # it ended as far as it could, and what is left is named
        if txn.state is State.COMMITTED:
            report.committed.append(txn.name)
        elif txn.state is State.ABORTED:
            report.undone.append(txn.name)
        elif attempt.handed_over:
            report.waiting.append(txn.name)
        if any(effect.tag not in (None, "clean") for effect in attempt.effects.copy().values()):
            report.left.append(txn.name)

    def _commit_at_last(self, attempt: Attempt, txn: Txn, report: Recovered, turn: Ticket | None) -> Program[None]:
        """Commit a sealed transaction if its turn has come; else drop it until the one before it moves."""

        def decide(protocol: Protocol, book: Book) -> bool:
            self._settling.refuse_unwanted(attempt, txn, protocol, book)
            blocked = protocol.decide(txn, releasing=attempt.written)
            if blocked is not None:
                attempt.handed_over = attempt.knows_more
                if not attempt.handed_over:
                    self._kernel.attempts.pop(txn, None)
                if self._turn.fired:
                    self._turn = Ticket()
                    self._turn.wake = self._kernel.call_maintenance
                tickets = (self._turn, turn)
                blocked.holder.watchers.update({ticket: False for ticket in tickets if ticket is not None})
                return False
            if attempt.written:
                self._settling.record_decision(attempt, txn, protocol, book)
            return True

        yield from self._settling.look_again(attempt, sealed=True)
        if not (yield from self._kernel.step(decide, durable=True)):
            report.waiting.append(txn.name)
            return
        self._kernel.telling.began(attempt, "taken up")
        if txn.finished:
            self._releases.leave(attempt, txn)
        else:
            yield from self._releases.release_all(attempt, txn)


__all__ = ["CAUSE", "Recovery"]
