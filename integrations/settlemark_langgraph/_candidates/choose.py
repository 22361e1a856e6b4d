"""Choosing among candidates, from within a node: the winner commits, all others are undone."""

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
"""A function of the state that returns the winner's name, or None; may be async."""


def choose(winner: str | None, settlement: Settlement, *, among: str | None = None) -> str | None:
    """Undo all candidates but the winner, commit the winner, and return its name; for a node behind their branches.

    The effects of the others are undone, and their held effects never leave; then the winner's held effects leave. The
    decision is recorded first: a node that runs again, by a retry, a resume or in another process, carries out the
    recorded decision, and `choose` returns the recorded winner.

    Args:
        winner: the `candidate=` of the winner's nodes; None undoes all candidates.
        settlement: the settlement of the candidates' nodes.
        among: the group, where the candidates' names have a slash: the part before it. Needed with None only.

    Raises:
        UsageError: there is no such candidate, or it was undone, or the caller is no node; nothing changed.
        Refused: the winner was undone, too: a value that it had read has changed. PartialCommit, InDoubt: the winner
            ended so.

    >>> choose("train", Settlement("memory:"))
    Traceback (most recent call last):
    ...
    settlemark._edges.errors.UsageError: choose() is for a node of a graph: it was called outside of one; nothing moved
    """
    choosing = _Choosing(settlement, winner, among)
    before = run_sync(choosing.before())
    return cast("str | None", before[0] if before is not None else run_sync(choosing.make(winner)))


async def achoose(winner: str | None, settlement: Settlement, *, among: str | None = None) -> str | None:
    """Do as `choose`, in an event loop; a cancelled task carries the decision out first."""
    choosing = _Choosing(settlement, winner, among)
    before = await run_async(choosing.before())
    return cast("str | None", before[0] if before is not None else await end_async(choosing.make(winner)))


def choice(settlement: Settlement, pick: Pick, *, among: str | None = None) -> Runnable[Any, Any]:
    """Return a node that chooses; put the node behind the candidates' branches.

    As in `builder.add_node("choose", choice(settlement, lambda state: state["best"]))`.

    Args:
        settlement: the settlement of the candidates' nodes.
        pick: gets the state, and returns the winner's name, or None, which undoes all candidates. `pick` may be async,
            and may ask a person with `interrupt`. A node with a recorded decision does not call `pick` again.
        among: the group, where the candidates' names have a slash: the part before it.

    Raises:
        UsageError: `pick` cannot be called, or `settlement` is no `Settlement`. When the node runs: as `choose`.
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
        """Carry out this node's recorded decision, and return the record; None without one."""
        return self._candidates.recorded(self._identity, self._superstep, self._group)

    def make(self, winner: Any) -> Program[Any]:
        """Choose the winner, and return its name."""
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
