"""Turns of an agent's work that were left open: the next turn goes on with one, or has it undone."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from settlemark._acts.perform import Program
from settlemark._model.scope import Scope
from settlemark.agents._call import Call
from settlemark.agents._job.host import WorkHost
from settlemark.agents._record.left_open import undo_left
from settlemark.agents._record.recalled import Left, Recalled, recall


class LeftTurns:
    """Decides what becomes of the turns that an agent's work has left open.

    Args:
        run: the job.
        lock: of what the work recalls.
    """

    def __init__(self, run: WorkHost, lock: threading.Lock) -> None:
        self._run = run
        self._lock = lock

    def go_on(self, recalled: Recalled, acting: Sequence[Call], answered: Collection[str]) -> Program[str | None]:
        """Return the name of a turn that was left open, if these are its calls; what is new has it undone first."""
        with self._lock:
            is_left = any(recalled.goes_on(turn, acting) for turn in recalled.left)
            if not is_left and recalled.repeats(acting):
                return None  # a framework that plays its journal again has not come to it yet
            left, recalled.left = recalled.left, []
        for number, turn in enumerate(left):
            if recalled.goes_on(turn, acting):
                with self._lock:
                    recalled.left = left[number + 1 :]
                return turn.name
            yield from self._undo(recalled, turn, answered)
        return None

    def undo_unless_repeated(
        self, recalled: Recalled, acting: Sequence[Call], answered: Collection[str]
    ) -> Program[None]:
        """Undo all that was left open, unless these calls only repeat what was decided."""
        with self._lock:
            if recalled.repeats(acting):
                return
            left, recalled.left = recalled.left, []
        for turn in left:
            yield from self._undo(recalled, turn, answered)

    def make_room(self, recalled: Recalled, scopes: Sequence[Scope], answered: Collection[str]) -> Program[None]:
        """Undo what was left open and holds what is asked for: a call would wait for its own job."""
        with self._lock:
            found = [turn for turn in recalled.left if turn.is_in_the_way_of(scopes)]
            recalled.left = [turn for turn in recalled.left if turn not in found]
        for turn in found:
            yield from self._undo(recalled, turn, answered)

    def _undo(self, recalled: Recalled, turn: Left, answered: Collection[str]) -> Program[None]:
        """Undo a turn that was left open; what of it stays was decided before."""
        yield from undo_left(self._run.settlement, self._run.name, turn.open)
        stays: Recalled = yield from recall(
            self._run.settlement,
            self._run.name,
            {turn.name}.__contains__,
            answered=answered,
            wait=self._run.patience,
        )
        recalled.decisions.extend(stays.decisions)


__all__ = ["LeftTurns"]
