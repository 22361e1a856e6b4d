"""What a job has left open: turns that wait for a person, and those of a process that may have ended."""

from __future__ import annotations

from typing import NamedTuple

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.part import Part
from settlemark._protocol.states import Reason, State
from settlemark._report.questions import is_parked

_OTHERWISE = "its job was begun again, and went on otherwise"


class StillOpen(NamedTuple):
    """An open transaction of a job.

    Attributes:
        name: the transaction's.
        is_here: a program of this process works on it, or has put it aside.
        waits: it was put aside, and waits for a person or its framework.
        is_cut_off: another process had it, and may have ended.
    """

    name: str
    is_here: bool
    waits: bool
    is_cut_off: bool


def still_open(settlement: Settlement, run: str) -> list[StillOpen]:
    """Return what of a job is open, as this process knows it; candidates end with their choice, and are not in it.

    >>> from settlemark.agents import open_turn, run_sync
    >>> settlement = Settlement("memory:")
    >>> turn = run_sync(open_turn(settlement, "trip/1", run="trip"))
    >>> [(found.name, found.is_here) for found in still_open(settlement, "trip")]
    [('trip/1', True)]
    """
    driver = host_of(settlement).driver
    found: list[StillOpen] = []
    with driver.kernel.local as protocol:
        for txn in protocol.live.values():
            if txn.run == run and txn.state is State.OPEN and not (txn.role or txn.group):
                away = driver.recovery.is_elsewhere(txn)
                found.append(StillOpen(txn.name, not away, is_parked(txn), away and not txn.parked))
    return found


def take_up(settlement: Settlement, name: str) -> Program[None]:
    """Undo an open transaction whose process has ended; one whose process lives goes on."""
    yield from host_of(settlement).driver.recovery.take_up(name, keep_open=0)


def undo_left(settlement: Settlement, run: str, name: str, cause: str = _OTHERWISE) -> Program[None]:
    """Undo a transaction that this process has left open, or one that has ended."""
    part: Part = yield from host_of(settlement).begin(name, run=run)
    if part.attempt.replay is None and not part.joined:
        yield from host_of(settlement).driver.undoing.abort(part.attempt, Reason.ABANDONED, cause=cause)


__all__ = ["StillOpen", "still_open", "take_up", "undo_left"]
