"""Choosing among candidates, from within a node: one commits, all others leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableLambda
from langgraph.config import get_config
from langgraph.runtime import get_runtime

from settlemark import Settlement, UsageError
from settlemark.hosting import Act, Program, end_async, run_async, run_sync
from settlemark_langgraph._candidates.candidates import Candidates, candidates_of
from settlemark_langgraph._candidates.names import GROUP, checked_label, group_of
from settlemark_langgraph._identity import Identity, identify
from settlemark_langgraph._supersteps.superstep import Superstep

Pick = Callable[[Any], Any]
"""A function of the state that returns the name of the candidate that wins, or None; it may be async."""


def choose(winner: str | None, settlement: Settlement, *, among: str | None = None) -> str | None:
    """Commit a candidate when all others are undone, and return its name; call it in a node behind their branches.

    What the others did is taken back, what was held of them never leaves; then what was held of the winner leaves.
    The decision is on record before anything of it happens: a node that runs again, by a retry or a resume, or in
    another process, goes on with that, and it is what this returns.

    Args:
        winner: the name that its nodes were given with `candidate=`; None undoes all.
        settlement: that of its nodes.
        among: what stands before the slash in the candidates' names, where there is one; needed with None alone.

    Raises:
        UsageError: there is no such candidate, or it was undone, or this is no node's; nothing moved.
        Refused: the winner was undone, too: what it had read has changed. PartialCommit, InDoubt: see there.

    >>> choose("train", Settlement("memory:"))
    Traceback (most recent call last):
    ...
    settlemark._edges.errors.UsageError: choose() is for a node of a graph: it was called outside of one; nothing moved
    """
    choosing = _Choosing(settlement, winner, among)
    before = run_sync(choosing.before())
    return cast("str | None", before[0] if before is not None else run_sync(choosing.make(winner)))


async def achoose(winner: str | None, settlement: Settlement, *, among: str | None = None) -> str | None:
    """Do as `choose`, for an event loop; one that is cancelled is carried out first."""
    choosing = _Choosing(settlement, winner, among)
    before = await run_async(choosing.before())
    return cast("str | None", before[0] if before is not None else await end_async(choosing.make(winner)))


def choice(settlement: Settlement, pick: Pick, *, among: str | None = None) -> Runnable[Any, Any]:
    """Return a node that chooses, for a place behind the candidates' branches.

    As in `builder.add_node("choose", choice(settlement, lambda state: state["best"]))`.

    Args:
        settlement: that of the candidates' nodes.
        pick: called with the state; returns the name of the candidate that wins, or None, which undoes all. It may be
            async, and may ask a person with `interrupt`. It is not called again when it has chosen.
        among: what stands before the slash in the candidates' names, where there is one.

    Raises:
        UsageError: `pick` cannot be called, or `settlement` is no `Settlement`. When it runs: as `choose`.
    """
    if not callable(pick):
        raise UsageError(f"pick={pick!r}: give a function of the state that returns the name of a candidate")
    _checked(settlement)

    def node(state: Any) -> None:
        choosing = _Choosing(settlement, None, among)
        if run_sync(choosing.before()) is None:
            run_sync(choosing.make(run_sync(_picked(pick, state))))

    async def anode(state: Any) -> None:
        choosing = _Choosing(settlement, None, among)
        if await run_async(choosing.before()) is None:
            await end_async(choosing.make(await run_async(_picked(pick, state))))

    return RunnableLambda(node, anode, name="choice")


def _picked(pick: Pick, state: Any) -> Program[Any]:
    return (yield Act(partial(pick, state), {}, None))


class _Choosing:
    """One choice, made from within a node."""

    def __init__(self, settlement: Settlement, winner: str | None, among: str | None) -> None:
        self._candidates: Candidates = candidates_of(_checked(settlement))
        self._group = among or (GROUP if winner is None else group_of(checked_label(winner)))
        self._identity, self._superstep = _node()

    def before(self) -> Program[tuple[str | None, str] | None]:
        """Return what this node has chosen before, and carry it out; None: nothing."""
        return self._candidates.recorded(self._identity, self._superstep, self._group)

    def make(self, winner: Any) -> Program[Any]:
        """Choose, and return the winner."""
        if winner is not None and group_of(checked_label(winner)) != self._group:
            raise UsageError(
                f"{winner!r} is chosen among those of {self._group!r}, and is none of them: nothing moved; say"
                f" among={group_of(winner)!r}"
            )
        yield from self._candidates.choose(winner, self._identity, self._superstep, self._group)
        return winner


def _node() -> tuple[Identity, Superstep | None]:
    try:
        config = get_config()
    except RuntimeError:  # not in a graph
        return identify(None, {}), None
    return identify(get_runtime(), config), Superstep.of(config)


def _checked(settlement: object) -> Settlement:
    if not isinstance(settlement, Settlement):
        raise UsageError(f"settlement={settlement!r} is no Settlement: pass the one of the candidates' nodes")
    return settlement


__all__ = ["Pick", "achoose", "choice", "choose"]
