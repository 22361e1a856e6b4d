"""Turns that a thread left open when it continued from another checkpoint: no run resumes them."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import cast

from settlemark import SettlemarkError, Settlement
from settlemark.agents import still_open, take_up, undo_left
from settlemark.hosting import Program
from settlemark_langgraph._identity import ROOT, WHOLE_RUN, Identity, is_left_behind
from settlemark_langgraph._supersteps.superstep import Superstep

_log = logging.getLogger("settlemark")


class LeftBehind:
    """The open turns of one settlement whose threads continued without them."""

    def __init__(self, settlement: Settlement) -> None:
        self._settlement = cast("Settlement", weakref.proxy(settlement))
        self._looked: set[int] = set()
        self._lock = threading.Lock()

    def undo_in(self, identity: Identity, superstep: Superstep) -> Program[None]:
        """Undo the open turns that this thread continued without: no run resumes them.

        Such a turn waits for a person, or its process ended. Meanwhile the thread was edited, forked, given other
        input, or its checkpoints were lost. Each run of a graph looks once, before its first effect: the effect would
        wait for scopes that the thread's own abandoned turn holds.
        """
        with self._lock:
            if superstep.loop in self._looked:
                return
            self._looked.add(superstep.loop)
        if not superstep.at_end(lambda _error: self._look_again(superstep.loop)):
            self._looked.discard(superstep.loop)
        outermost = superstep.enclosing()[0]
        tasks = {task.id for task in outermost.tasks()}
        goes_on = tuple(f"{identity.run}/{namespace}:" for namespace in (ROOT, identity.namespace))
        for found in still_open(self._settlement, identity.run):
            if found.name.endswith(WHOLE_RUN) and found.name.startswith(goes_on):
                continue  # a run's transaction undoes its abandoned steps when it is resumed
            if not is_left_behind(found.name, identity, outermost.checkpoint, tasks):
                continue
            if found.waits:
                yield from self.undo(identity.run, found.name)
            elif found.is_cut_off:
                yield from take_up(self._settlement, found.name)

    def undo(self, run: str, name: str) -> Program[None]:
        """Undo a turn that its thread continued without; a failure is logged, and the thread continues."""
        try:
            yield from undo_left(self._settlement, run, name, "its thread went on without it")
        except SettlemarkError as error:
            _log.warning("%s could not be undone, although its thread has gone on without it: %s", name, error)

    def _look_again(self, loop: int) -> Program[None]:
        yield from ()
        self._looked.discard(loop)


__all__ = ["LeftBehind"]
