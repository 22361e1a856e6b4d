"""Calling a transaction's body again, on fresh state, when it lost a race."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from settlemark._acts.perform import Program
from settlemark._acts.requests import Act
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Part
from settlemark._edges.errors import Stale, WaitTimeout, WouldBlock, Wounded
from settlemark._edges.wording import in_words
from settlemark._engine.commit import Settling
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.wait import Deadline
from settlemark._lifecycle.ages import Ages
from settlemark._lifecycle.approval import Answers
from settlemark._lifecycle.parking import Parking
from settlemark._protocol.holdings import Blocked
from settlemark._protocol.states import Reason, State
from settlemark._protocol.ties import refuse_own_end


class Runs:
    """Runs bodies in transactions."""

    def __init__(
        self, kernel: Kernel, undoing: Undoing, settling: Settling, parking: Parking, answers: Answers, ages: Ages
    ) -> None:
        self._kernel = kernel
        self._undoing = undoing
        self._settling = settling
        self._parking = parking
        self._answers = answers
        self._ages = ages

    def run(self, enter: Program[Part], body: Callable[[Part], Callable[[], Any]], *, tries: int) -> Program[Any]:
        """Begin, call the body, commit, and return the body's value; again on fresh state after a lost race.

        A part that joined another transaction is called once: its caller commits, or begins again.

        Raises:
            Refused: it lost `tries` races, or was refused for another reason.
            BaseException: the body's own exception.
        """
        part: Part = yield from enter
        if part.joined:
            return (yield Act(body(part), {}, None))
        part.attempt.parks = "keep"
        with self._kernel.ledger.acts.under_way():
            return (yield from self.trying(part.attempt, body, self.conclude, tries))

    def branch(self, attempt: Attempt, body: Callable[[Part], Callable[[], Any]], *, tries: int) -> Program[Any]:
        """Call the body as `run` does in a transaction that has begun, without the commit: it stays open.

        Raises:
            Refused: it lost `tries` races, or was refused for another reason.
            BaseException: the body's own exception.
        """
        return self.trying(attempt, body, self.rest, tries)

    def rest(self, attempt: Attempt) -> Program[None]:
        """Wait until all its calls have returned, and check that it is still open."""
        yield from self._kernel.waits.quiesce(attempt, attempt.live)
        if attempt.live.state is not State.OPEN:
            with self._kernel.local as protocol:
                raise protocol.refusal(attempt.live)

    def trying(
        self,
        attempt: Attempt,
        body: Callable[[Part], Callable[[], Any]],
        then: Callable[[Attempt], Program[None]],
        tries: int,
    ) -> Program[Any]:
        while True:
            tries -= 1
            try:
                yield from self.line_up(attempt)
                value = yield Act(body(Part(attempt, attempt.numbering)), {}, None)
                yield from then(attempt)
            except (Stale, Wounded):
                again = yield from self.retry(attempt, last=tries <= 0)
                if again is None:
                    raise
                attempt = again
            except GeneratorExit:
                raise
            except BaseException as error:
                yield from self._undoing.discard(attempt, Reason.FAILED, cause=in_words(error))
                raise
            else:
                return value

    def line_up(self, attempt: Attempt) -> Program[None]:
        """Before a transaction that lost a race begins again, wait for those ahead of it on what it had read.

        This only saves attempts that would be lost: after the deadline the transaction goes ahead.
        """
        txn = attempt.txn
        deadline = Deadline(attempt.wait)
        while txn is not None and txn.begins_again:
            with self._kernel.local as protocol:
                blocked = protocol.ahead(txn)
                if blocked is None:
                    return
                ticket = protocol.watch(blocked.holder, txn)
            try:
                yield from self._kernel.waits.wait_for(attempt, ticket, blocked, deadline, blocked.holder.name)
            except (WaitTimeout, WouldBlock):
                attempt.patient = False
                return

    def let_pass(self, attempt: Attempt) -> Program[None]:
        """Wait until the transaction that wounded an attempt is done: earlier work would lose the race again.

        This only saves attempts: after the deadline the work goes ahead.
        """
        txn = attempt.txn
        if txn is None or txn.reason is not Reason.WOUNDED or txn.parent or txn.group:
            return  # others may wait for a tied transaction, and the one that wounded it for them
        deadline, scope, name = Deadline(attempt.wait), txn.detail.get("scope"), txn.detail.get("holder")
        while name is not None and scope is not None:
            with self._kernel.local as protocol:
                rival = protocol.named.get(name)
                if rival is None or rival.parked:
                    return
                ticket = protocol.watch(rival)
            try:
                yield from self._kernel.waits.wait_for(
                    attempt, ticket, Blocked(rival, scope), deadline, name, whom=name
                )
            except (WaitTimeout, WouldBlock):
                return

    def retry(self, attempt: Attempt, *, last: bool) -> Program[Attempt | None]:
        """Return the attempt that took this one's place, once this one is finished, or None."""
        txn = attempt.txn
        if txn is None:
            return None
        if last:
            yield from self._undoing.abandon(attempt)
        # The body may have raised another transaction's error: then this one failed.
        yield from self._undoing.abort(attempt, Reason.FAILED)
        if not txn.finished:
            yield from self._undoing.abandon(attempt)
        again = self._kernel.attempts.get(txn.successor) if txn.successor is not None and not last else None
        if again is not None:
            self._ages.watch_age(again)
        return again

    def conclude(self, attempt: Attempt) -> Program[None]:
        """Commit, or put aside a transaction that waits for an answer: whole, or split at its gates.

        Raises:
            Entangled: the caller is inside one of its own calls or hooks; nothing moved.
            BaseException: as `commit`.
        """
        if attempt.txn is not None and attempt.txn.state is State.OPEN and self._kernel.callers.is_within(attempt.txn):
            refuse_own_end(attempt.name)
        if attempt.park is None and attempt.parks is not None and attempt.approver is None and attempt.replay is None:
            yield from self._leave_to_answers(attempt)
        if attempt.park is not None:
            yield from self._settling.have_place(attempt)
        if attempt.replay is not None or attempt.park is None:
            yield from self._settling.commit(attempt)
        elif attempt.park == "keep":
            yield from self._answers.keep(attempt)
        else:
            yield from self._parking.split(attempt)

    def _leave_to_answers(self, attempt: Attempt) -> Program[None]:
        """Put a transaction aside where a policy that has come into force since asks about what is to leave."""
        judging = self._kernel.judging
        if judging.policy is None or attempt.txn is None or attempt.txn.state is not State.OPEN:
            return
        if judging.stands(attempt):
            return
        try:
            asked = yield from self._parking.judge_again(attempt)
        except GeneratorExit:
            raise
        except BaseException as error:
            yield from self._undoing.discard(attempt, Reason.FAILED, cause=in_words(error))
            raise
        if asked:
            attempt.park = attempt.parks
