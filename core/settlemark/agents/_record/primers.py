"""What the model of a job that is taken up again is told of it: the primer of its run, once for each beginning."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._api.subjects.primers import priming
from settlemark._claims.words import Primer
from settlemark._edges.errors import UsageError

_MOST = 1_000
"""Beginnings whose texts are kept."""


class Primers:
    """What the models of one job are told as it is taken up again, in this process.

    A job that is begun for the first time has nothing to be told, and so has each agent of it that begins then. When it
    was begun before, by whomever, or when one of its agents is begun again, that agent's model is told what the record
    says; and the same at each request until the agent is begun once more.

    >>> from settlemark.agents import run_sync
    >>> settlement = Settlement("memory:")
    >>> first = Primers(settlement, "trip-42")
    >>> run_sync(first.text("clerk", 1)) is None
    True
    >>> with settlement.transaction("trip-42/1") as tx:
    ...     _ = tx.call(print, "booked")
    booked
    >>> run_sync(first.text("clerk", 1)) is None
    True
    >>> run_sync(Primers(settlement, "trip-42").text("clerk", 1)).splitlines()[1]
    'Done, and not to be done again:'
    """

    def __init__(self, settlement: Settlement, run: str) -> None:
        self._host = host_of(settlement)
        self._run = run
        self._was_known: bool | None = None
        self._agents: set[str] = set()
        self._texts: dict[tuple[str, Hashable], str | None] = {}
        self._lock = threading.Lock()

    def text(self, agent: str, beginning: Hashable) -> Program[str | None]:
        """Return what an agent's model is told in this beginning of the agent; None: nothing.

        Args:
            agent: its name in the job.
            beginning: the same for as long as the agent goes on.
        """
        which = (agent, beginning)
        with self._lock:
            if which in self._texts:
                return self._texts[which]
        primer: Primer = yield from priming(self._host, self._run)
        with self._lock:
            if self._was_known is None:
                self._was_known = primer.known
            told = primer.text if primer.known and (self._was_known or agent in self._agents) else None
            self._agents.add(agent)
            self._texts.setdefault(which, told)
            while len(self._texts) > _MOST:
                del self._texts[next(iter(self._texts))]
            return self._texts[which]


def refuse_bad_primer(primer: object) -> None:
    """Check a shim's `primer=`.

    Raises:
        UsageError: it is neither True nor False.
    """
    if not isinstance(primer, bool):
        raise UsageError(
            f"primer={primer!r}: choose True or False, whether the model is told when a job is taken up again"
        )


__all__ = ["Primers", "refuse_bad_primer"]
