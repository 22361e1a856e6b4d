"""Branches of a graph as candidates: each is a transaction of its own, and a node chooses one of them.

A branch may have many supersteps, or be a subgraph, so a candidate belongs to the run of the outermost graph. The name
of a choice contains the checkpoint that its first candidate began from. A resumed run enters the choice again if that
checkpoint is an ancestor of its own; the thread's other open choices are undone when the thread begins a new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from settlemark import Refused, Settlement, UsageError
from settlemark.hosting import (
    MARK,
    Choice,
    OfSettlement,
    Once,
    Part,
    Program,
    Reason,
    decisions_on,
    host_of,
    kind_of,
)
from settlemark.ledger import RecordedTransaction
from settlemark_langgraph._candidates.names import (
    NEEDS_A_GRAPH,
    Candidate,
    Lineage,
    checked_label,
    checkpoint_in,
    choice_name,
    descends_from,
    group_of,
    parsed,
    record_name,
    was_forked_at,
)
from settlemark_langgraph._identity import ROOT, Identity, superstep_name
from settlemark_langgraph._supersteps.superstep import Superstep

_log = logging.getLogger("settlemark")


@dataclass(slots=True, eq=False)
class _Open:
    """A choice that is open in this process.

    Attributes:
        choice: the choice.
        group: the name that its candidates have in common.
        resumable: another invocation can resume the choice.
        begun: begins the choice, once.
    """

    choice: Choice
    group: str
    resumable: bool
    begun: Once[Choice]


class Candidates:
    """The choices of one settlement that are open in this process."""

    def __init__(self, settlement: Settlement) -> None:
        self._host = host_of(settlement)
        self._loops: dict[int, list[_Open]] = {}
        self._labels: set[str] = set()
        self._any_label = False
        self._lock = threading.Lock()

    def know(self, candidate: Candidate) -> None:
        """Remember a node's candidate: one that has had no effect can be chosen, too."""
        if isinstance(candidate, str):
            self._labels.add(candidate)
        else:
            self._any_label = True

    # ---- candidates

    def enter(
        self,
        label: str,
        identity: Identity,
        superstep: Superstep | None,
        place: int | None,
        may_touch: Sequence[str],
        turn: str | None,
    ) -> Program[Part]:
        """Enter the transaction of a node's candidate, and return the node's part.

        `place` numbers the node among the others of its superstep, and is the same after a resume; by default the place
        of its task.

        Raises:
            UsageError: this graph does not tell when its run ends; nothing was begun.
            Refused: the process of the candidates ended, and their effects were undone.
        """
        if superstep is None or turn is None:
            raise UsageError(NEEDS_A_GRAPH)
        enclosing = superstep.enclosing()
        found: _Open = yield from self._found(group_of(label), identity, enclosing[0])
        numbers = [number for each in enclosing for number in each.place]
        if place is not None:
            numbers[-1] = place
        # The outermost graph's step comes first: a rewind reads which step an effect belongs to.
        numbers[0], numbers[1] = numbers[1], numbers[0]
        return (yield from found.choice.enter(label, turn, *numbers, may_touch=may_touch))

    def _found(self, group: str, identity: Identity, root: Superstep) -> Program[_Open]:
        """Return the open choice of a group: this run's, one that this run resumes, or a new one."""
        found = self._here(group, root)
        if found is None:
            found = yield from self._opened(group, identity, root)
        try:
            yield from found.begun.get(lambda: self._begin(found))
        except BaseException:
            self._forget(root.loop, found)
            raise
        return found

    def _here(self, group: str, root: Superstep) -> _Open | None:
        with self._lock:
            return next((each for each in self._loops.get(root.loop, ()) if each.group == group), None)

    def _opened(self, group: str, identity: Identity, root: Superstep) -> Program[_Open]:
        name = (yield from self._left(group, identity, root)) or choice_name(group, identity, root)
        epoch = yield from self._host.epoch_for(superstep_name(identity.run, ROOT, root.checkpoint))
        position = (epoch, f"{group}@")
        made = self._host.choice(name, run=identity.run, position=position)
        with self._lock:
            known = self._loops.get(root.loop)
            begins = known is None
            known = self._loops.setdefault(root.loop, [])
            found = next((each for each in known if each.group == group), None)
            if found is None:
                found = _Open(made, group, root.is_resumable, Once(name))
                known.append(found)
        if begins and not root.at_end(lambda error: self._end(root.loop, error)):
            raise UsageError(NEEDS_A_GRAPH)
        return found

    def _begin(self, found: _Open) -> Program[Choice]:
        if found.resumable:
            yield from self._undo_left(found)
        return (yield from found.choice.begin())

    # ---- choices that earlier runs of the thread left open

    def _left(self, group: str, identity: Identity, root: Superstep) -> Program[str | None]:
        """Return the name of the open choice that this run resumes, or None.

        Raises:
            Refused: the choice is over: the run was forked from a checkpoint before the decision, or the process of the
            candidates ended and their effects were undone.
        """
        if not root.is_resumed:
            return None
        yield from root.until_stored()
        yield from self._host.take_up()
        lineage: Lineage = yield from root.lineage()
        recorded: list[RecordedTransaction]
        recorded, unfinished = yield from self._host.of_run(identity.run)
        names = dict.fromkeys((*(one.row.name for one in recorded), *unfinished))
        found = {name: named for name in names if (named := parsed(name, identity.run, group)) is not None}
        ours: list[tuple[int, str]] = []
        for checkpoint, step, choice in dict.fromkeys(found.values()):
            if step <= root.step and (yield from descends_from(root, lineage, checkpoint)):
                ours.append((step, choice))
        if not ours:
            return None
        _, choice = max(ours)
        ended = [one for one in recorded if one.row.name.startswith(f"{choice}{MARK}")]
        made = next(iter(decisions_on(choice, recorded)), None)
        if made is not None:
            at = checkpoint_in(made.row.name, identity.run)
            if at is None or (not was_forked_at(lineage, at) and (yield from descends_from(root, lineage, at))):
                return None
            raise Refused(
                f"{choice} was made already, after the checkpoint that this run was forked from: its candidates have"
                " settled, so nothing is chosen or added; fork from the checkpoint before their first node",
                transaction=made.row.name,
                epoch=made.epoch,
            )
        lost = next((one for one in ended if one.reason is Reason.LEFT), None)
        if lost is not None:
            raise Refused(
                f"{lost.row.name} was undone when its process had ended, and this run would go on without what it did:"
                " begin anew, from the checkpoint before its first node (or raise keep_open=, and resume sooner)",
                transaction=lost.row.name,
                epoch=lost.epoch,
            )
        return choice if choice in unfinished else None

    def _undo_left(self, found: _Open) -> Program[None]:
        """Undo the thread's other open choices of this group: no node can choose in them any more."""
        run, own = found.choice.run, found.choice.name
        for name in (yield from self._host.choices_left(run)):
            if name == own or parsed(name, run, found.group) is None:
                continue
            left = self._host.choice(name, run=run)
            yield from left.begin()
            yield from left.undo("its thread went on without a choice")

    # ---- choosing

    def recorded(
        self, identity: Identity, superstep: Superstep | None, group: str
    ) -> Program[tuple[str | None, str] | None]:
        """Return the recorded decision of a node that ran before, carried out; None without one.

        Raises:
            UsageError: the caller is no node of a graph.
            Rewound: the decision was rewound. Refused, PartialCommit, InDoubt: the winner ended so.
        """
        return (yield from self._host.chosen(record_name(identity, superstep, group)))

    def choose(self, winner: str | None, identity: Identity, superstep: Superstep | None, group: str) -> Program[None]:
        """Undo all candidates of a group but the winner, and commit the winner; with None undo all.

        Raises:
            UsageError: there is no such candidate, or it was undone; nothing changed.
            Refused: the winner was undone, too. PartialCommit, InDoubt: the winner ended so.
        """
        record = record_name(identity, superstep, group)
        root = cast("Superstep", superstep).enclosing()[0]
        found = self._here(group, root)
        if found is None and (yield from self._left(group, identity, root)) is not None:
            found = yield from self._found(group, identity, root)
        self._refuse_unknown(winner, found)
        if found is None:
            return
        try:
            yield from found.choice.make(winner, record=record)
        finally:
            if found.choice.is_made:
                self._forget(root.loop, found)

    def _refuse_unknown(self, winner: str | None, found: _Open | None) -> None:
        begun: set[str] = set() if found is None else {*found.choice.candidates}
        if winner is None or winner in begun or self._any_label or winner in self._labels:
            return
        known = ", ".join(map(repr, sorted(begun | self._labels))) or "none"
        raise UsageError(
            f"{winner!r} is no candidate: nothing moved; choose one of {known}, as the nodes say with candidate=, or"
            " None, which undoes all"
        )

    # ---- the end of a run

    def _end(self, loop: int, error: BaseException | None) -> Program[None]:
        """Undo the open choices at the end of a run; after an error, or an interrupt, leave them to the resume."""
        with self._lock:
            choices = self._loops.pop(loop, [])
        for found in choices:
            if found.begun.value is None:
                continue
            if error is not None and found.resumable:
                yield from found.choice.suspend()
                continue
            how = "ended without a choice" if error is None else f"was stopped by {kind_of(error)}"
            if error is None and found.choice.stands:
                _log.warning("%s: its run %s, so all of its candidates are undone", found.choice.name, how)
            yield from found.choice.undo(f"its run {how}")

    def _forget(self, loop: int, found: _Open) -> None:
        with self._lock:
            known = self._loops.get(loop, [])
            if found in known:
                known.remove(found)


def check_candidate(candidate: Candidate, settlement: Settlement | None, *, settle: str, park: str) -> None:
    """Check the options of a candidate's node; the candidate can be chosen from now on.

    Raises:
        UsageError: a candidate's node cannot have these options.
    """
    if not callable(candidate):
        checked_label(candidate)
    if settlement is None:
        raise UsageError(f"candidate={candidate!r} is chosen with a settlement: pass settlement=Settlement(url), too")
    if settle != "node" or park != "keep":
        raise UsageError(
            f"candidate={candidate!r} settles as a whole, when it is chosen: leave out settle={settle!r} and"
            f" park={park!r}"
        )
    candidates_of(settlement).know(candidate)


candidates_of = OfSettlement(Candidates)
"""Returns the `Candidates` of a settlement: its nodes share them."""


__all__ = ["Candidates", "candidates_of", "check_candidate"]
