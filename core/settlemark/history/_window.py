"""The last write of a cell that some reader neither made nor saw, in constant time and space.

The query of a stale read has an agent and a value: is there a later write by *another* agent of *another* value? Five
of a cell's writes answer it for every agent and value: the newest one; for that one's own agent the newest by others,
and the newest by others of another value than that; for its own value the newest of other values, and the newest of
other values by another agent than that. So a hot cell with long open windows costs as little as a cold one.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Write(msgspec.Struct, frozen=True, gc=False):
    """One write of a cell: when, by whom, the value as compared, the operation, and the value as given."""

    time: int
    agent: str
    value: Any
    by: int
    given: Any = None


class Latest:
    """A cell's writes, as far as any query may need them; added in the order of their times.

    >>> latest = Latest(Write(1, "ada", "x", 1))
    >>> for time, agent, value in ((2, "bob", "y"), (3, "bob", "x")):
    ...     latest.add(Write(time, agent, value, time))
    >>> latest.newest.time, latest.other("bob", "x"), latest.other("ada", "x").time
    (3, None, 2)
    """

    __slots__ = ("_by_others", "_by_others_of_another", "_of_others", "_of_others_by_another", "newest")

    def __init__(self, write: Write) -> None:
        self.newest = write
        self._by_others: Write | None = None
        self._by_others_of_another: Write | None = None
        self._of_others: Write | None = None
        self._of_others_by_another: Write | None = None

    def add(self, write: Write) -> None:
        """Add a write that is not older than the ones before."""
        before = self.newest
        other_agent, other_value = before.agent != write.agent, before.value != write.value
        by_another = self.other(write.agent, before.value) if other_agent else None
        of_another = self.other(before.agent, write.value) if other_value else None
        if other_agent:
            self._by_others, self._by_others_of_another = before, by_another
        if other_value:
            self._of_others, self._of_others_by_another = before, of_another
        self.newest = write

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


__all__ = ["Latest", "Write"]
