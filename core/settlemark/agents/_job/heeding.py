"""What is said to a job while it works: its agents hear it before their models are called, or before their calls act.

A loop that comes to a boundary before each call of its model is told there. A framework that shows no such place is
told at the next turn: none of its calls runs, and each is answered with what was said, so that the model decides again.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from settlemark._acts.perform import Program
from settlemark._api.settlement import host_of
from settlemark._protocol.protocol import Protocol
from settlemark._steering.message import DONE, Steering
from settlemark.agents._job.host import WorkHost
from settlemark.agents._names import Names
from settlemark.agents._record.recalled import Decision, decision_of, stands
from settlemark.ledger._contract import Book, RecordedEffect


class Heard(NamedTuple):
    """What one agent's work hears at a boundary.

    Attributes:
        new: what it is to be told now.
        gone: keys of the effects that were undone for it.
        stay: effects of the work that could not be undone for it.
    """

    new: list[Steering]
    gone: set[str]
    stay: list[Decision]


class Heeding:
    """Hears what is said to a job for one agent's work, and knows what of it the agent was told.

    Args:
        run: the job.
        name: the agent's or task's.
        names: of the transactions that are the work's own.
    """

    def __init__(self, run: WorkHost, name: str, names: Names) -> None:
        self._run = run
        self._name = name
        self._names = names
        self._told_of: set[int] = set()
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Take what was said for untold: the work is begun again, and its model knows nothing of it."""
        with self._lock:
            self._told_of.clear()

    def is_inside(self) -> bool:
        """Whether this runs in a call of another turn, which has heard it, and cannot be undone from within."""
        return host_of(self._run.settlement).driver.kernel.callers.outer() is not None

    def hear(self, *, everything: bool) -> Program[Heard]:
        """Take what waits, and return what this work was not told of; or only of what has undone work.

        Raises:
            Paused: the job is paused.
            DeclarationError: an undo is unknown in this process. WaitTimeout: another holds what is to be undone.
        """
        driver = host_of(self._run.settlement).driver
        yield from driver.pauses.stop_here(self._run.name, self._name, None, None)
        said: list[Steering] = yield from driver.steers.said(self._run.name)
        if any(each.is_open and (everything or each.what != "add") for each in said):
            yield from driver.steers.hear(self._run.name, self._name, adds=everything, wait=self._run.patience)
            said = yield from driver.steers.said(self._run.name)
        with self._lock:
            new = [each for each in said if each.state == DONE and each.number not in self._told_of]
            new = [each for each in new if everything or each.rewound]
            self._told_of.update(each.number for each in new)
        bound = [effect for each in new for effect in each.bound if self._names.has(effect.transaction)]
        stay: list[Decision] = yield from self._on_record([effect.key for effect in bound])
        return Heard(new, {effect.key for each in said for effect in each.undone}, stay)

    def _on_record(self, keys: list[str]) -> Program[list[Decision]]:
        """Return what stands of effects."""
        if not keys:
            return []

        def look(_protocol: Protocol, book: Book) -> list[RecordedEffect]:
            found = [(key, book.find(key)) for key in keys]
            return [effect for key, one in found if one is not None for effect in one.effects if effect.row.key == key]

        host = host_of(self._run.settlement)
        effects: list[RecordedEffect] = yield from host.driver.kernel.look(look)
        return [decision_of(effect, host.ledger.payloads) for effect in effects if stands(effect)]


__all__ = ["Heard", "Heeding"]
