"""What the parts of an agent's work ask of the job that they belong to."""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterable
from typing import Literal

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement
from settlemark._lifecycle.parking import Park
from settlemark._model.guards import Order
from settlemark.agents._open.settling import Control
from settlemark.agents._record.recalled import Decision

Settles = Literal["turn", "part", "run"]
"""What settles together: the calls of a turn, all of one agent's or task's work, or all of a run."""


class WorkHost(typing.Protocol):
    """What the work of an agent asks of the job that it is a part of; see `AgentRun`."""

    settlement: Settlement
    name: str
    resumable: bool
    settle: Settles
    order: Order
    park: Park
    may_touch: tuple[str, ...]
    let_through: Control
    asks: bool
    asks_together: bool
    doubts: list[Decision]

    @property
    def patience(self) -> float:
        """Seconds after which a call that has not come is taken for answered by the framework itself."""
        ...

    def add_doubts(self, found: Iterable[Decision]) -> None:
        """Add what is in doubt, and not known to be."""
        ...

    def forget_doubts(self, keys: Collection[str]) -> None:
        """Forget doubts about acts that were undone."""
        ...

    def note_doubts(self) -> None:
        """Note what is in doubt of any agent's work."""
        ...

    def earlier(self) -> Program[list[Decision]]:
        """Return what stands of the whole run from before it was begun here."""
        ...


__all__ = ["Settles", "WorkHost"]
