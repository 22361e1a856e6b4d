"""A transaction that took no place, because somebody else had its name by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from settlemark._acts.perform import Program
from settlemark._protocol.holdings import Txn


class TurnedAway(NamedTuple):
    """What took no place, and what enters its name anew, once for all callers.

    A caller that was refused for that transaction tries again with what its attempt has then: nothing of it had run.
    """

    txn: Txn
    enter: Callable[[], Program[Any]]


__all__ = ["TurnedAway"]
