"""A boundary of a run that a framework's own loop comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from settlemark._acts.perform import Program
from settlemark._api.host import Host
from settlemark._steering.message import Steering


def hear(
    host: Host,
    run: str,
    before: str | None,
    *,
    listens: bool,
    undo: Callable[[Steering], Program[Iterable[str]]] | None = None,
) -> Program[list[Steering]]:
    """Come to a boundary of a run: take what was said to it, and return all that was acknowledged, in its order.

    Args:
        host: the workings of the run's settlement.
        run: the run's id.
        before: what comes next, for the record; None: nothing.
        listens: whether its model is asked next: else additions wait.
        undo: undoes what a message is in conflict with, where a framework's state goes back with the world; returns the
            names of the transactions that this state knows nothing of any more.

    Raises:
        Paused: the run is paused. DeclarationError, WaitTimeout: what is to be undone cannot be undone now.

    >>> from settlemark import Settlement
    >>> from settlemark.hosting import host_of, run_sync
    >>> settlement = Settlement("memory:")
    >>> _ = settlement.steer("trip-42", "add", "a window seat", by="ada")
    >>> [said.text for said in run_sync(hear(host_of(settlement), "trip-42", "model", listens=True))]
    ['a window seat']
    """
    yield from host.driver.pauses.stop_here(run, before, None, None)
    yield from host.driver.steers.hear(run, before, adds=listens, wait=host.patience, undo=undo)
    said: list[Steering] = yield from host.driver.steers.said(run)
    return [each for each in said if not each.is_open]


__all__ = ["hear"]
