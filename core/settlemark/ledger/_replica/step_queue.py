"""Steps that wait to be taken, and the threads that wait for their answers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from settlemark._acts.requests import Pending
from settlemark.ledger._contract import Step


class QueuedStep(msgspec.Struct, eq=False):
    """A step in the queue; one without a caller is tried until it is taken.

    Attributes:
        answer: what its caller waits for, if anybody does.
        durable: whether its commit waits for the disk.
        looks: the step changes nothing: a transaction of such steps alone writes nothing.
        over: the step was taken, or its caller was told that it is not, or has left: it is not taken any more.
        refused: how often the step could not be taken for its own sake.
        taking: the step was done in the transaction that is open, or whose end is not known.
        rollbacks: functions that undo the step's changes to this process, if the step is not taken or its caller left.
    """

    step: Step[Any]
    answer: Pending | None = None
    durable: bool = False
    looks: bool = False
    over: bool = False
    refused: int = 0
    taking: bool = False
    rollbacks: list[Callable[[], object]] = []

    def roll_back(self) -> None:
        """Undo the step's changes to this process: no program here continues after it."""
        while self.rollbacks:
            self.rollbacks.pop()()


class Waiting(Protocol):
    """An answer whose thread waits while another thread takes steps."""

    done: bool

    def wake(self) -> None:
        """Wake the thread."""

    def limit_wait(self, closing: float) -> None:
        """Wait only a little longer from this moment."""


class StepQueue:
    """The steps of one process that wait for its store.

    Attributes:
        steps: in the order in which they are taken.
        waiting: the answers whose threads wait while another thread takes steps.
        marking: guards whether a step is over: a waiting caller leaves at once, whatever a step does meanwhile.
        wake: wakes the thread that takes steps without a caller.
        woken: that thread is to take what is queued at once.
        idle: that thread sleeps until it is woken.
    """

    def __init__(self) -> None:
        self.steps: deque[QueuedStep] = deque()
        self.waiting: deque[Waiting] = deque()
        self.marking = threading.Lock()
        self.wake = threading.Event()
        self.woken = self.idle = False

    def later(self, step: Step[Any]) -> None:
        """Queue a step that must be taken, and that has no caller."""
        self.steps.append(QueuedStep(step))
        if self.idle:  # else the thread looks by itself
            self.idle = False
            self.wake.set()

    def wake_thread(self) -> None:
        """Wake the thread that takes what is queued."""
        self.woken = True
        if not self.wake.is_set():
            self.wake.set()

    def put_back(self, steps: Iterable[QueuedStep]) -> None:
        """Put steps that are not over back at the head, for the next who takes steps."""
        self.steps.extendleft(reversed([step for step in steps if not step.over]))

    def pass_on(self) -> None:
        """Let one of the threads that wait for their answers take steps."""
        while self.waiting:
            try:
                answer = self.waiting.popleft()
            except IndexError:  # another thread was faster
                return
            if not answer.done:
                answer.wake()
                return

    def in_child(self) -> None:
        """Be empty, in a forked child: its parent takes what is queued."""
        self.marking, self.wake = threading.Lock(), threading.Event()
        self.steps.clear()


__all__ = ["QueuedStep", "StepQueue"]
