"""Group commit: one of the threads that wait for an answer takes what is queued, for all, in one commit.

Callers share commits, and a lone caller needs no thread.

Source: flat combining (Hendler et al. 2010).
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from math import inf
from queue import Empty
from typing import Any

from settlemark._acts.requests import Pending
from settlemark._edges.errors import LedgerError
from settlemark._edges.wording import by_reader
from settlemark.ledger._contract import Step
from settlemark.ledger._limits import LAST_LOOK_SECONDS, Limit, patience, within
from settlemark.ledger._replica.batch import IN_DOUBT, Batches
from settlemark.ledger._replica.replica import Replica
from settlemark.ledger._replica.step_queue import QueuedStep, StepQueue
from settlemark.ledger._sql.connection import Connection
from settlemark.ledger._urls import shown

_SLICE_SECONDS = 0.5


class Answer(Pending):
    """The answer to a queued step.

    Attributes:
        item: the step: a caller that gives the step up says so there.
        limit: until when the answer is waited for.
    """

    __slots__ = ("_commits", "item", "limit")

    def __init__(self, commits: GroupCommit, limit: Limit) -> None:
        super().__init__()
        self.item: QueuedStep | None = None
        self._commits = commits
        self.limit = limit

    def limit_wait(self, closing: float) -> None:
        """Wait for a store that does not answer only a little longer: the ledger is to be closed."""
        self.limit.closing = closing
        self.wake()

    @property
    def remaining(self) -> float:
        """The seconds for which the answer is waited for."""
        return self.limit.remaining()

    def lead(self) -> None:
        """Take in this thread what is queued up to the step, unless another thread does so already.

        A thread that is interrupted here leaves at once: the step is taken by then, or never is, or is in doubt.
        """
        try:
            while not self.done:
                if self.limit.remaining() <= 0:
                    self.give_up()
                elif self._commits.is_led:
                    self._wait()
                else:
                    self._commits.lead(self)
        except BaseException:
            self.give_up()
            self.wake_thread()  # it may have been this thread's turn to lead
            raise

    def _wait(self) -> None:
        woken = self.woken()
        self._commits.queue.waiting.append(self)
        if self._commits.is_led:  # else the thread that led may have seen no thread wait
            with suppress(Empty):
                woken.get(timeout=max(0.0, min(self.limit.remaining(), _SLICE_SECONDS)))

    def wake_thread(self) -> None:
        """Ask another thread to take the step."""
        self._commits.queue.wake_thread()

    def answer(self, value: Any, error: BaseException | None = None) -> None:
        """Give the answer."""
        self.item = None  # which has this answer: neither is to keep the other
        super().answer(value, error)

    def give_up(self) -> None:
        """Wait no longer: a step that is not begun never is, and one that is being taken is in doubt."""
        self._commits.give_up(self)


class GroupCommit:
    """The steps that callers of this process submit, and the one thread that takes them.

    Args:
        queue: where the steps wait.
        batches: takes what is queued.
        replica: the protocol that the steps move.
        connection: to the store.
        wait: seconds in which the store must have answered, unless a call gives another number.

    Attributes:
        leading: held by the one thread that takes steps.
    """

    def __init__(
        self, queue: StepQueue, batches: Batches, replica: Replica, connection: Connection, *, wait: float
    ) -> None:
        self.queue = queue
        self._wait = wait
        self.leading = threading.Lock()
        self._led = False
        self._batches = batches
        self._replica = replica
        self._connection = connection

    @property
    def patience(self) -> float:
        """Seconds in which the store must have answered, at least the least that a store is given."""
        return patience(self._wait)

    def submit(self, step: Step[Any], *, durable: bool, looks: bool = False, wait: float | None = None) -> Answer:
        """Queue a step whose answer its caller waits for, until the store has had its time: so many seconds."""
        answer = Answer(self, self._limited(patience(self._wait if wait is None else wait)))
        item = answer.item = QueuedStep(step, answer, durable, looks)
        self.queue.steps.append(item)
        return answer

    def _limited(self, seconds: float) -> Limit:
        """Return the limit of a wait that begins now; when the ledger is to be closed, a silent store gets little."""
        now, closing = time.monotonic(), self._batches.limit.closing
        silent = self._batches.stalled and closing < inf
        return Limit(now + (LAST_LOOK_SECONDS if silent else seconds), now, closing)

    def give_up(self, answer: Answer) -> None:
        """Tell the waiting thread that the store has not answered."""
        with self.queue.marking:
            item = answer.item
            if answer.done or item is None:
                return
            item.over = True
            if time.monotonic() - answer.limit.since >= LAST_LOOK_SECONDS:
                self._batches.stalled = True  # else the caller was interrupted, and nothing is known of the store
            answer.answer(None, self._given_up(answer, in_doubt=item.taking))
        if item.rollbacks:
            with self._replica.lock:
                item.roll_back()

    def _given_up(self, answer: Answer, *, in_doubt: bool) -> LedgerError:
        waited = max(0.0, time.monotonic() - answer.limit.since)
        known = IN_DOUBT if in_doubt else "the step was withdrawn, so nothing was run and nothing was decided"
        advice = (
            "another program has its file locked (a backup, a shell in a transaction), or its disk hangs"
            if self._connection.is_file
            else "the server, or the network to it, hangs"
        )
        remedy = by_reader("see to that, or raise wait=", "see to that, then give the command again")
        url = shown(self._connection.url)
        return LedgerError(
            f"the ledger {url} has not answered for {waited:.1f} s: {known}; probably {advice}: {remedy}",
            url=url,
            waited=waited,
            in_doubt=in_doubt,
        )

    def expect_end(self) -> None:
        """Let waits for a store that does not answer end soon: the ledger is to be closed."""
        closing = self._batches.limit.closing = min(self._batches.limit.closing, time.monotonic())
        for answer in list(self.queue.waiting):
            answer.limit_wait(closing)

    @property
    def is_led(self) -> bool:
        """Whether a thread takes steps, or is about to: one that waited for the lock would not see its answer."""
        return self._led or self.leading.locked()

    def lead(self, leader: Answer | None = None) -> None:
        """Take what is queued, in the thread that waits for `leader`, and pass the lead on."""
        self._led = True
        try:
            with self.leading:
                if leader is None or not leader.done:
                    self._batches.limit.begin(time.monotonic() + self.patience if leader is None else leader.limit.at)
                    with within(self._batches.limit):
                        self._batches.gather()
                        self._batches.take_queued(leader)
        finally:
            self._led = False
            self.queue.pass_on()

    def in_child(self) -> None:
        """Be led by nobody, in a forked child: no lock is held by a thread that is not there."""
        self.leading, self._led = threading.Lock(), False


__all__ = ["GroupCommit"]
