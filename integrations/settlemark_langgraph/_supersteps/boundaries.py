"""Transactions that outlive a node: one for a superstep, settled at its checkpoint, or one for a whole run.

All nodes of the superstep, or of the run, share the transaction; its irreversible effects wait for its commit. A
superstep ends when LangGraph stores its checkpoint (`settled_checkpointer`), a run when the graph is done. A run that
stops earlier leaves its transaction to the resume, where the thread can be resumed.
"""

from __future__ import annotations

import logging
import math
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

from settlemark import InDoubt, PartialCommit, Refused, Settlement, UsageError
from settlemark.agents import Asked, Shared, still_open
from settlemark.hosting import (
    OfSettlement,
    Part,
    Program,
    host_of,
    kind_of,
)
from settlemark_langgraph._identity import ROOT, WHOLE_RUN, Identity, superstep_name
from settlemark_langgraph._supersteps.left_behind import LeftBehind
from settlemark_langgraph._supersteps.superstep import Superstep, replaced_steps

Settle = Literal["call", "node", "superstep", "run"]
"""What settles together: one call, the calls of a turn, a superstep, or a run."""

FindReplaced = Callable[[Collection[int]], Program[set[int]]]
"""Returns which of some steps were replaced; see `Superstep.replaced_steps`."""

_log = logging.getLogger("settlemark")


@dataclass(slots=True, eq=False)
class Boundary:
    """A transaction that several nodes share.

    Attributes:
        name: the name of the transaction.
        run: the thread of the nodes.
        resumable: another invocation can resume the transaction.
        shared: the transaction.
        step: the last superstep in which a node entered the transaction.
    """

    name: str
    run: str
    resumable: bool
    shared: Shared
    step: int

    def is_lost(self, step: int) -> bool:
        """Whether an earlier superstep undid the transaction: the model was told, and its next calls are a new try."""
        return step > self.step and self.shared.is_undone


class Boundaries:
    """The shared transactions of one settlement that are open in this process."""

    def __init__(self, settlement: Settlement) -> None:
        self._settlement = cast("Settlement", weakref.proxy(settlement))
        self._host = host_of(settlement)
        self._open: dict[str, Boundary] = {}
        self._loops: dict[int, list[str]] = {}
        self.left_behind = LeftBehind(settlement)
        self._lock = threading.Lock()

    def enter(
        self,
        settle: Settle,
        identity: Identity,
        superstep: Superstep | None,
        place: int | None,
        may_touch: Sequence[str],
        asked: Asked,
    ) -> Program[Part]:
        """Enter the transaction of a node's superstep, or run, and return the node's part.

        `place` numbers the node among the others in the transaction, and is the same after a resume; by default the
        place of its task. `asked` tells the transaction of an agent inside a call that is resumed in its middle.

        Raises:
            UsageError: this graph does not tell when its superstep, or run, ends; nothing was begun.
        """
        if superstep is None or identity.name is None:
            raise UsageError(
                f'settle="{settle}" needs a graph of LangGraph that runs the node, of a release that tells when its'
                ' supersteps end: choose settle="node"'
            )
        name = identity.superstep if settle == "superstep" else self._name_of_run(identity, superstep)
        with self._lock:
            boundary = self._open.get(name)
            if boundary is None or boundary.is_lost(identity.step):
                shared = Shared(self._settlement, name)
                boundary = self._open[name] = Boundary(name, identity.run, identity.resumable, shared, identity.step)
            boundary.step = identity.step
            known, begins = self._loops.get(superstep.loop), superstep.loop not in self._loops
            if known is None:
                known = self._loops[superstep.loop] = []
            earlier = [other for other in known if other != name]
            if name not in known:
                known.append(name)
        if begins and not superstep.at_end(lambda error: self._end(superstep.loop, error)):
            with self._lock:
                self._loops.pop(superstep.loop, None)
            self._forget(boundary)
            raise UsageError(f'settle="{settle}": this release of LangGraph does not tell when a run ends')
        if settle == "superstep":
            for other in earlier:  # its checkpoint may never be stored: durability="exit"
                yield from self.settle(other)
        epoch: int = yield from self._host.epoch_for(identity.superstep)
        position = (epoch, "")

        def begin() -> Program[Part]:
            return self._host.begin(
                name, run=identity.run, position=position, may_touch=may_touch, asked=asked._replace(shares=True)
            )

        abandoned = _abandoned(identity.step, superstep.replaced_steps) if settle == "run" else None
        number = superstep.index if place is None else place
        own = (identity.step, number) if settle == "run" else (number,)
        try:
            return (yield from boundary.shared.enter(begin, *own, gone=abandoned))
        except BaseException:
            self._forget(boundary)
            raise

    def _name_of_run(self, identity: Identity, superstep: Superstep) -> str:
        """Return the name of the run's transaction: one entered here, one open on the thread, or else a new one."""
        with self._lock:
            here = next((name for name in self._loops.get(superstep.loop, ()) if name.endswith(WHOLE_RUN)), None)
        if here is not None:
            return here
        prefix = f"{identity.run}/{identity.namespace}:"
        names = (found.name for found in still_open(self._settlement, identity.run))
        found = next((name for name in names if name.startswith(prefix) and name.endswith(WHOLE_RUN)), None)
        return found or f"{identity.superstep}{WHOLE_RUN}"

    def settle(self, name: str) -> Program[Refused | InDoubt | PartialCommit | None]:
        """Commit the transaction of this name, if this process has it open; return the refusal, or None.

        The model learns of a refusal by `corrections`, at its next turn.
        """
        with self._lock:
            boundary = self._open.get(name)
        shared = (yield from Shared.left(self._settlement, name)) if boundary is None else boundary.shared
        if shared is None or shared.part is None:
            return None
        try:
            return (yield from self._committed(name, shared))
        finally:
            if boundary is not None and shared.is_over:  # else another thread is settling it
                self._forget(boundary)

    @staticmethod
    def _committed(name: str, shared: Shared) -> Program[Refused | InDoubt | PartialCommit | None]:
        """Commit a transaction, if it is open; return the refusal, or None."""
        try:
            yield from shared.commit()
        except (Refused, InDoubt, PartialCommit) as error:
            _log.warning("%s did not settle as a whole: %s", name, error)
            return error
        return None

    def finish_left(self, run: str | None, namespace: str, *, saver: Any, config: Any, done: bool) -> Program[None]:
        """Settle the open transactions of a run whose graph is `done`: no node resumes them.

        A process ended and left them open, or a turn waits for a person and the thread continued without the answer.
        `saver` has the thread's checkpoints up to `config`; effects of other steps are undone.
        """
        if run is None or not done:
            return
        left = [found for found in still_open(self._settlement, run) if found.waits or not found.is_here]
        if namespace in ("", ROOT):
            for found in left:
                if found.waits and found.name.startswith(f"{run}/") and not found.name.endswith(WHOLE_RUN):
                    yield from self.left_behind.undo(run, found.name)
        prefix = superstep_name(run, namespace, "")
        with self._lock:
            names = [found.name for found in left if found.name not in self._open]
        for name in names:
            if not (name.startswith(prefix) and name.endswith(WHOLE_RUN)):
                continue
            try:
                shared: Shared | None = yield from Shared.left(self._settlement, name)
                if shared is not None:
                    yield from shared.take_back(_abandoned(math.inf, partial(replaced_steps, saver, config)))
                    yield from self._committed(name, shared)
            except Refused as error:
                _log.warning("%s was not taken up: %s", name, error)

    def record(self, run: str) -> Program[None]:
        """Write the queued records of a run's calls: LangGraph is about to store their answers."""
        with self._lock:
            found = [boundary.shared for boundary in self._open.values() if boundary.run == run]
        if found:
            yield from found[0].record()

    def _end(self, loop: int, error: BaseException | None) -> Program[None]:
        """Settle a run's transactions at its end; after an error, or an interrupt, leave them to the resume.

        Raises:
            Refused, InDoubt, PartialCommit: the run did not settle as a whole, and no later turn can be told.
        """
        with self._lock:
            names = self._loops.pop(loop, [])
        refused: BaseException | None = None
        for name in names:
            if error is None:
                found = yield from self.settle(name)
                refused = refused or (found if name.endswith(WHOLE_RUN) else None)
                continue
            with self._lock:
                boundary = self._open.pop(name, None)
            if boundary is not None:
                cause = f"its run was stopped by {kind_of(error)}"
                yield from boundary.shared.stop(cause, resumable=boundary.resumable)
        if refused is not None:
            raise refused

    def _forget(self, boundary: Boundary) -> None:
        with self._lock:
            if self._open.get(boundary.name) is boundary:
                del self._open[boundary.name]
            for names in self._loops.values():
                if boundary.name in names and not boundary.name.endswith(WHOLE_RUN):
                    names.remove(boundary.name)


def _abandoned(step: float, replaced_steps: FindReplaced) -> Callable[[Collection[int]], Program[Collection[int]]]:
    """Return a function that finds the steps off a thread's way to `step`: later ones, and replaced ones."""

    def abandoned(steps: Collection[int]) -> Program[Collection[int]]:
        replaced = yield from replaced_steps([other for other in steps if other < step])
        return {*(other for other in steps if other > step), *replaced}

    return abandoned


boundaries_of = OfSettlement(Boundaries)
"""Returns the `Boundaries` of a settlement: its nodes and its checkpointer share them."""


__all__ = ["Boundaries", "Settle", "boundaries_of"]
