"""Taking up what processes that are gone have left: every transaction they had begun is brought to its end.

The ledger has the protocol's state as it was: holds, claims and places in line are all still there. So
nothing is claimed anew; an ended worker's transactions become nobody's, and whoever knows their handlers
owns them and goes on: a decision is carried out, an undo undone to its end, a sealed one commits when its
turn comes, an open one is aborted, after a grace period in which its framework may come back to it.
Source: the crash windows of Atomix §D.3, ARIES (analysis, redo, undo) at the level of effects.
"""

from __future__ import annotations

from functools import partial

from settlemark._acts.perform import Program, Retries
from settlemark._acts.requests import Together, Wait
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.revival import is_sealed, named, revive
from settlemark._edges.door import Ended
from settlemark._edges.errors import InDoubt, PartialCommit, Refused
from settlemark._engine.abort import Beside, Undoing
from settlemark._engine.commit import Settling
from settlemark._engine.doubt import Probing
from settlemark._engine.kernel import Kernel, log
from settlemark._engine.release import Releases
from settlemark._model.effect_class import Outcome
from settlemark._observe.events import Recovered
from settlemark._observe.events import Recovery as Recovering
from settlemark._observe.logs import about
from settlemark._protocol.holdings import Ticket, Txn, fire
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import Reason, State, Tag
from settlemark.ledger._contract import Book, OutcomeChange, RecordedEffect, RecordedTransaction, StateChange
from settlemark.ledger._lease import bury, haunted

_UNDOING = (State.ABORTING, State.ABORTED)
CAUSE = "its process ended"
_MANY, _LANES = 256, 32
HANDLER_GRACE = 5.0
"""Seconds in which a tool that nobody declared may still be: "not yet", before it is "gone"."""


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
        self.ending: dict[Attempt, list[Ticket]] = {}  # what a program here has taken up, and who waits for that
        self._took_up = False
        self._first_seen: dict[int, float] = {}
        self._stuck_since: dict[str, float | None] = {}
        self._turn = Ticket()  # of those that were left sealed: fires when one of them may go on
        self._turn.fired = True

    def take_up(
        self,
        only: str | None = None,
        *,
        keep_open: float | None = None,
        turn: Ticket | None = None,
        beside: Beside | None = None,
    ) -> Program[Recovered]:
        """End what processes that are gone have left, and return a `Recovered`; nothing here waits for a rival.

        What a failing store had stopped in this process goes on, too.

        Args:
            only: the name of the one that is taken up; all by default.
            keep_open: seconds for which an open one stays as it is since it was first seen.
            turn: fires when whoever a sealed one waits for has moved.
            beside: runs the programs that end them, each beside the others: the report is without what they do.
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
                if only in (None, txn.name) and self.is_nobodys(txn) and txn not in coming
            ]
            orphans.sort(key=lambda txn: txn.position)
            due: list[Txn] = []
            for txn in orphans:
                if self._is_kept(txn, grace):
                    report.kept.append(txn.name)
                else:
                    due.append(txn)
            records: list[RecordedTransaction] = []
            if only is not None:
                records = [r for r in (book.load(only),) if due and r is not None]
            elif due or gone or keep_open is not None or not self._took_up:  # else it is much to read for nothing
                records = book.unfinished()
            found = {(r.row.name, r.row.attempt): r for r in records}
            if only is None:
                self.record_ends(protocol, book, found)
            taken = self._adrift(book, only)
            ghosts = book.ghosts() if due else frozenset[str]()
            for txn in due:
                recorded = found.get((txn.name, txn.attempt))
                if self._awaits_sender(txn, recorded, ghosts):
                    report.waiting.append(txn.name)
                    continue
                missing = self._missing(txn, recorded)
                if missing:
                    report.stuck[txn.name] = missing
                    continue
                attempt = Attempt(
                    txn, txn.name, txn.run, txn.attempt, prefix=self._kernel.prefix,
                payloads=self._kernel.ledger.payloads, wait=30.0,
                    hooks=(), on_failure="abort", retries=Retries(),
                )  # fmt: skip
                taken.append(self.revived(protocol, book, txn, attempt, recorded))
            for attempt in taken:
                self.ending[attempt] = []
                book.otherwise(partial(self.ending.pop, attempt, None))
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
        """Do as `end_all`, so that what they record shares commits."""
        lanes = [taken[n::_LANES] for n in range(_LANES)]
        ended: list[Ended] = yield Together([self.end_all(lane, report, turn) for lane in lanes])
        failed = next((lane.error for lane in ended if lane.error is not None), None)
        if failed is not None:
            raise failed
        order = {attempt.name: number for number, attempt in enumerate(taken)}
        for names in (report.committed, report.undone, report.waiting, report.left):
            names.sort(key=order.__getitem__)

    def end_all(self, taken: list[Attempt], report: Recovered, turn: Ticket | None) -> Program[None]:
        """Bring what was taken up to its end, one after the other, and tell what has been done."""
        try:
            for attempt in taken:
                yield from self._end(attempt, report, turn)
        finally:
            with self._kernel.local:  # what an interrupt or a failing store has left is taken up at the next look
                for attempt in taken:
                    txn = attempt.live
                    if self._kernel.attempts.get(txn) is not attempt:
                        continue  # who looked meanwhile may be at it by now
                    if txn.state is State.RELEASING or (attempt.adrift and attempt.knows_more):
                        attempt.adrift = True  # what has left is known here, and perhaps not on record
                    elif not (txn.finished or attempt.concluding):  # else another program is at it
                        self._kernel.attempts.pop(txn, None)
                waiting = [ticket for attempt in taken for ticket in self.ending.pop(attempt, ())]
            fire(waiting)
        if self._kernel.telling.observer is not None and report:
            self._kernel.telling.observer.tell(Recovering(report))

    def _give_back(self, attempt: Attempt) -> None:
        """Let go of what was taken up, and will not be begun: the next look takes it up."""
        with self._kernel.local:
            if self._kernel.attempts.get(attempt.live) is attempt:
                del self._kernel.attempts[attempt.live]
            waiting = self.ending.pop(attempt, [])
        fire(waiting)

    def _adrift(self, book: Book, only: str | None) -> list[Attempt]:
        """Take up what a failing store had stopped in this process."""
        found = [
            attempt for attempt in self._kernel.attempts.values() if attempt.adrift and only in (None, attempt.name)
        ]
        for attempt in found:
            attempt.adrift = False
            book.otherwise(partial(setattr, attempt, "adrift", True))
        # Whose abort the store never took is as it was, and its program goes on.
        return [a for a in found if not (a.live.state is State.OPEN or (a.live.state is State.SEALED and a.settling))]

    def recover(self, *, keep_open: float | None = None) -> Program[Recovered]:
        """Take up what was left, and return when what is being ended or undone here is over."""
        yield from self._undoing.tidy()
        report: Recovered = yield from self.take_up(keep_open=keep_open)
        with self._kernel.local:
            ending = [(attempt, Ticket()) for attempt in self.ending]
            for attempt, ticket in ending:
                self.ending[attempt].append(ticket)
        for attempt, ticket in ending:
            yield Wait(ticket, self._kernel.time_for(attempt.live, attempt.wait), attempt.name, "its own")
        with self._kernel.local:
            undoing = [
                (txn, a) for txn, a in self._kernel.attempts.items() if txn.state in _UNDOING and not txn.running
            ]
        for txn, attempt in undoing:
            yield from self._kernel.until_finished(attempt, txn)
        return report

    def tend(self, beside: Beside | None = None) -> Program[None]:
        """Conclude what others aborted, and take up what ended processes left; tell what nobody here can end.

        `beside` runs a program beside this one: a handler that hangs then holds up nothing but its own transaction.
        """
        yield from self._undoing.tidy(beside)
        report: Recovered = yield from self.take_up(beside=beside)
        yield from self._undoing.tidy(beside)
        for name, tools in report.stuck.items():
            self._tell_stuck(name, tools)

    def _tell_stuck(self, name: str, tools: list[str]) -> None:
        seen = self._stuck_since.setdefault(name, self._kernel.monotonic())
        if seen is not None and self._kernel.monotonic() - seen >= HANDLER_GRACE:
            self._stuck_since[name] = None
            log.error(
                "%s was left unfinished by a process that ended, and %s is not declared in this one: import or declare"
                " it, or tell its successor so with aliases= or versions=; then settlement.recover()",
                name, ", ".join(tools), extra=about(transaction=name, tools=tools),
            )  # fmt: skip

    def is_elsewhere(self, txn: Txn) -> bool:
        """Whether no program of this process has it: another process does, or one that has ended."""
        return txn not in self._kernel.attempts

    def is_nobodys(self, txn: Txn) -> bool:
        """Whether no program of this process or another brings a transaction to its end."""
        return txn.owner in (NOBODY, self._kernel.ledger.worker) and txn not in self._kernel.attempts

    def coming(self) -> set[Txn]:
        """Return the retries whose aborted attempts other programs here conclude, and then enter."""
        return {txn.successor for txn in self._kernel.attempts if txn.successor is not None}

    def _is_kept(self, txn: Txn, grace: float) -> bool:
        if txn.state is not State.OPEN or txn.mends:
            return False  # no framework comes back to a mend, and others wait for its scope
        if txn.role == "choice" and any(self._is_kept(member, grace) for member in txn.members.values()):
            return True
        seen = self._first_seen.setdefault(txn.id, self._kernel.monotonic())
        return txn.parked or self._kernel.monotonic() - seen < grace

    def _awaits_sender(self, txn: Txn, recorded: RecordedTransaction | None, ghosts: frozenset[str]) -> bool:
        """Whether an abort is left where it is, because a worker that fell silent may be at work on an effect of it.

        What has only its intent on record is asked about first: that is how it comes to be in doubt.
        """
        if recorded is None:
            return False
        if txn.mends and any(effect.sender in ghosts for effect in recorded.effects):
            return True  # what a mend has on record is its undo: one that may be under way is not begun again
        if txn.state is not State.ABORTING or recorded.row.attempt != txn.attempt:
            return False
        out = [e for e in haunted(recorded, txn.state, ghosts) if e.outcome is not Outcome.INTENDED]
        if out:
            self._probing.doubt()
        return bool(out)

    def record_ends(self, protocol: Protocol, book: Book, found: dict[tuple[str, int], RecordedTransaction]) -> None:
        """Record the end of those that the protocol has finished, and whose process ended before it could say so.

        Only an abort that had nothing to undo ends there by itself.
        """
        live = {(txn.name, txn.attempt) for txn in protocol.live.values()}
        ours = {(attempt.name, attempt.number) for attempt in self._kernel.attempts.values()}
        at = self._kernel.clock()
        for key in found.keys() - live - ours:
            row = found[key].row
            for effect in found[key].effects:
                if effect.outcome in (Outcome.QUEUED, Outcome.INTENDED):
                    dropped = Outcome.DROPPED
                    book.write([OutcomeChange(effect.row.key, dropped, None, None, Tag.CLEAN, None, at)])
            ended = StateChange(row.name, row.attempt, State.ABORTED, row.epoch, Reason.LEFT, at, cause=CAUSE)
            book.write([ended])

    def _missing(self, txn: Txn, recorded: RecordedTransaction | None) -> list[str]:
        """Return the tools without which a transaction cannot be ended here."""
        return sorted({named(effect.row) for effect in self.beyond(txn, recorded)})

    def beyond(self, txn: Txn, recorded: RecordedTransaction | None) -> list[RecordedEffect]:
        """Return the effects of a transaction that must leave, or be undone, by handlers that are not known here."""
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
            if unknown or ((undone or leaves) and is_sealed(effect.row)):
                found.append(effect)
        return found

    def revived(
        self,
        protocol: Protocol,
        book: Book,
        txn: Txn,
        attempt: Attempt,
        recorded: RecordedTransaction | None = None,
    ) -> Attempt:
        """Own a transaction that is nobody's, and give an attempt what the ledger knows of it."""
        if txn.owner == NOBODY:
            protocol.own(txn, self._kernel.ledger.worker)
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
        if txn.state is State.RELEASING:
            self._doubt_first(attempt)
        return attempt

    @staticmethod
    def _doubt_first(attempt: Attempt) -> None:
        """Ask about the first queued effect: each outcome was on disk before the next was let go."""
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
                # Its caller has ended with its process: a retry would hold all it held, and nobody would run it.
                yield from self._kernel.step(lambda protocol, _book: protocol.unretry(txn))
                yield from self._undoing.conclude(txn)
            elif txn.role == "choice" and txn.members:
                report.waiting.append(txn.name)  # the chosen one commits when the others are undone
                return
            else:
                yield from self._kernel.step(lambda protocol, _book: protocol.unretry(txn))
                yield from self._undoing.abort(attempt, Reason.LEFT, cause=CAUSE)
        except (Refused, PartialCommit, InDoubt):
            pass  # it ended as it could, and what is left is named
        if txn.state is State.COMMITTED:
            report.committed.append(txn.name)
        elif txn.state is State.ABORTED:
            report.undone.append(txn.name)
        elif attempt.adrift:
            report.waiting.append(txn.name)
        if any(effect.tag not in (None, "clean") for effect in attempt.effects.values()):
            report.left.append(txn.name)

    def _commit_at_last(self, attempt: Attempt, txn: Txn, report: Recovered, turn: Ticket | None) -> Program[None]:
        """Commit a sealed transaction if its turn has come; else let go of it until the one before it moves."""

        def decide(protocol: Protocol, book: Book) -> bool:
            blocked = protocol.decide(txn, lasting=attempt.written)
            if blocked is not None:
                self._kernel.attempts.pop(txn, None)
                if self._turn.fired:
                    self._turn = Ticket()
                    self._turn.wake = self._kernel.call_tender
                for ticket in (self._turn, turn):
                    if ticket is not None:
                        blocked.holder.watchers[ticket] = False
                return False
            if attempt.written:
                self._settling.record_decision(attempt, txn, protocol, book)
            return True

        if not (yield from self._kernel.step(decide, durable=True)):
            report.waiting.append(txn.name)
            return
        self._kernel.telling.began(attempt, "taken up")
        if txn.finished:
            self._releases.leave(attempt, txn)
        else:
            yield from self._releases.release_all(attempt, txn)


__all__ = ["CAUSE", "Recovery"]
