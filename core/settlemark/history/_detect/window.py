"""The last write of a cell that some reader neither made nor saw, in constant time and space.

The query of a stale read has an agent and a value: is there a later write by *another* agent of *another* value? Five
of a cell's writes answer it for every agent and value: the newest one; for that one's own agent the newest by others,
and the newest by others of another value than that; for its own value the newest of other values, and the newest of
other values by another agent than that. So a hot cell with long open windows costs as little as a cold one.

Where effects commute a third question is asked, of another *group*; sixteen writes answer that (`Beside`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

_MANY = 64  # writes that are kept before those that no question needs are dropped: a sixteenth of the work each


class Write(msgspec.Struct, frozen=True, gc=False):
    """One write of a cell: when, by whom, the value as compared, the operation, the value as given, and the group.

    The group is that of the effects that commute; None where it commutes with nothing.
    """

    time: int
    agent: str
    value: Any
    by: int
    given: Any = None
    group: str | None = None


class Beside:
    """A cell's writes, as far as a query for another agent, another value and another group may need them.

    What is dropped answers no query, now or later: one write that fits is newer, whatever is asked.

    >>> beside = Beside([Write(1, "ada", "x", 1)])
    >>> for time, agent in ((2, "bob"), (3, "cy")):
    ...     beside.add(Write(time, agent, "y", time, group="add"))
    >>> beside.other("cy", "z", "add").time, beside.other("cy", "z", "multiply").time
    (1, 2)
    """

    __slots__ = ("_kept",)

    def __init__(self, writes: Iterable[Write | None]) -> None:
        self._kept = sorted((write for write in writes if write is not None), key=lambda write: (write.time, write.by))

    def add(self, write: Write) -> None:
        """Add a write that is not older than the ones before."""
        self._kept.append(write)
        if len(self._kept) > _MANY:
            self._kept = _needed(self._kept)

    def other(self, agent: str | None, value: Any, group: str) -> Write | None:
        """Return the newest write of another value and another group by another agent (by any for None), or None."""
        for write in reversed(self._kept):
            if write.group != group and write.agent != agent and write.value != value:
                return write
        return None


def _needed(writes: list[Write]) -> list[Write]:
    """Return the newest write, the newest that differs from it in one respect, from that in one more, and so on."""
    told = [(write.agent, write.value, write.group) for write in writes]
    found: set[int] = set()
    rest: list[tuple[list[int], tuple[int, ...]]] = [([*range(len(writes))], (0, 1, 2))]
    while rest:
        places, respects = rest.pop()
        if places:
            newest = places[-1]
            found.add(newest)
            for respect in respects:
                differing = [place for place in places if told[place][respect] != told[newest][respect]]
                rest.append((differing, tuple(other for other in respects if other != respect)))
    return [writes[place] for place in sorted(found)]


class Latest:
    """A cell's writes, as far as any query may need them; added in the order of their times.

    >>> latest = Latest(Write(1, "ada", "x", 1))
    >>> for time, agent, value in ((2, "bob", "y"), (3, "bob", "x")):
    ...     latest.add(Write(time, agent, value, time))
    >>> latest.newest.time, latest.other("bob", "x"), latest.other("ada", "x").time
    (3, None, 2)
    """

    __slots__ = ("_beside", "_by_others", "_by_others_of_another", "_of_others", "_of_others_by_another", "newest")

    def __init__(self, write: Write) -> None:
        self.newest = write
        self._by_others: Write | None = None
        self._by_others_of_another: Write | None = None
        self._of_others: Write | None = None
        self._of_others_by_another: Write | None = None
        self._beside = None if write.group is None else Beside((write,))

    def add(self, write: Write) -> None:
        """Add a write that is not older than the ones before."""
        before = self.newest
        if self._beside is not None or write.group is not None:
            self._add_beside(write)
        other_agent, other_value = before.agent != write.agent, before.value != write.value
        by_another = self.other(write.agent, before.value) if other_agent else None
        of_another = self.other(before.agent, write.value) if other_value else None
        if other_agent:
            self._by_others, self._by_others_of_another = before, by_another
        if other_value:
            self._of_others, self._of_others_by_another = before, of_another
        self.newest = write

    def _add_beside(self, write: Write) -> None:
        if self._beside is None:  # so far nothing has commuted: what answers for agents and values answers for all
            self._beside = Beside(
                (
                    self.newest,
                    self._by_others,
                    self._by_others_of_another,
                    self._of_others,
                    self._of_others_by_another,
                )
            )
        self._beside.add(write)

    def beside(self, agent: str, value: Any, group: str) -> Write | None:
        """Return the newest write by another agent, of another value and of another group, or None."""
        found = self.other(agent, value)
        if found is None or found.group != group or self._beside is None:
            return found
        return self._beside.other(agent, value, group)

    def other(self, agent: str, value: Any) -> Write | None:
        """Return the newest write by another agent of another value, or None."""
        newest = self.newest
        if newest.agent == agent:
            found = self._by_others
            return found if found is None or found.value != value else self._by_others_of_another
        if newest.value != value:
            return newest
        found = self._of_others
        return found if found is None or found.agent != agent else self._of_others_by_another


__all__ = ["Beside", "Latest", "Write"]
