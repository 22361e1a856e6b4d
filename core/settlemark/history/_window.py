"""The last write of a cell that some reader has not written itself and has not seen, in constant time and space.

A stale read is asked about with an agent and a value: is there a later write by *another* agent of *another* value?
To answer that for every pair, a handful of a cell's writes is enough, whatever its history: of the newest write of each
(agent, value), one is never the answer when two newer ones share its agent, or two newer ones its value (at least one
of the two differs from any asked pair that it would answer), or when three newer ones differ pairwise in both (an asked
pair rules out two of them at most). In the graph of agents and values what is left has no three edges apart and two at
each end: six writes at most. So a hot cell with long open windows costs as little as a cold one.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Write(NamedTuple):
    """One write of a cell: when, by whom, what (as it is compared), by which operation, and what as it was given."""

    time: int
    agent: str
    value: Any
    by: int
    given: Any = None


class Latest:
    """A cell's writes, as far as any question may still need them; given in the order of their times.

    >>> latest = Latest()
    >>> for time, agent, value in ((1, "ada", "x"), (2, "bob", "y"), (3, "bob", "x")):
    ...     latest.add(Write(time, agent, value, time))
    >>> latest.other("bob", "x"), latest.other("ada", "x").time
    (None, 2)
    """

    __slots__ = ("_kept", "newest")

    def __init__(self) -> None:
        self.newest = -1
        self._kept: list[Write] = []  # the newest first

    def add(self, write: Write) -> None:
        """Take in a write that is not older than the ones before."""
        agent, value = write.agent, write.value
        self.newest = write.time
        kept = self._kept
        if kept and kept[0].agent == agent and kept[0].value == value:
            kept[0] = write
            return
        self._kept = pruned([write, *(old for old in kept if old.agent != agent or old.value != value)])

    def other(self, agent: str, value: Any) -> Write | None:
        """Return the newest write by another agent of another value, or None."""
        for write in self._kept:
            if write.agent != agent and write.value != value:
                return write
        return None

    def __len__(self) -> int:
        return len(self._kept)


def pruned(writes: list[Write]) -> list[Write]:
    """Return those of a cell's writes, newest first and each of another (agent, value), that may be an answer."""
    if len(writes) <= 2:  # noqa: PLR2004 - no rule can leave out one of two
        return writes
    kept: list[Write] = []
    agents: dict[str, int] = {}
    values: dict[Any, int] = {}
    for write in writes:
        agent, value = write.agent, write.value
        if agents.get(agent, 0) > 1 or values.get(value, 0) > 1:
            continue
        if len(kept) > 2 and _three_apart(kept):  # noqa: PLR2004 - three are needed
            break
        agents[agent] = agents.get(agent, 0) + 1
        values[value] = values.get(value, 0) + 1
        kept.append(write)
    return kept


def _three_apart(writes: list[Write]) -> bool:
    for n, one in enumerate(writes):
        for m in range(n + 1, len(writes)):
            two = writes[m]
            if one.agent == two.agent or one.value == two.value:
                continue
            for three in writes[m + 1 :]:
                if three.agent not in (one.agent, two.agent) and three.value not in (one.value, two.value):
                    return True
    return False


__all__ = ["Latest", "Write", "pruned"]
