"""What a node without a settlement remembers: the invocations that failed, should they be tried again."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from langchain_core.messages import ToolCall

from settlemark import Payloads, Settlement
from settlemark.agents import OpenTurn, run_sync

NO_DEADLINE = 1e6
KEPT = 1_000


class Memory:
    """Order and deduplication in this process, for one node."""

    def __init__(self) -> None:
        self.settlement = Settlement("memory:", on_failure="continue", wait=NO_DEADLINE, payloads=Payloads(retain=KEPT))
        self._tasks: WeakKeyDictionary[OpenTurn, str] = WeakKeyDictionary()
        self._failed: OrderedDict[str, OpenTurn] = OrderedDict()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    @staticmethod
    def task(name: str | None, calls: Sequence[ToolCall]) -> str | None:
        """Return what the retries of one invocation have in common, or None when it cannot be known again."""
        return None if name is None else f"{name} {calls!r}"

    def name(self, task: str | None) -> str | None:
        """Return the name of a task's transaction: that of its failed invocation, or a new one."""
        if task is None:
            return None
        with self._lock:
            left = self._failed.pop(task, None)
            return left.name if left is not None and left.is_left else f"{next(self._numbers)}"

    def know(self, turn: OpenTurn, task: str | None) -> None:
        """Take note of the task whose invocation a turn is."""
        if task is not None:
            self._tasks[turn] = task

    def keep(self, turn: OpenTurn) -> None:
        """Remember a failed invocation, and forget the oldest that nobody came back to."""
        task = self._tasks.get(turn)
        if task is None or not turn.suspended:
            return
        with self._lock:
            self._failed[task] = turn
            forgotten = self._failed.popitem(last=False)[1] if len(self._failed) > KEPT else None
        if forgotten is not None:
            run_sync(forgotten.let_go())
