"""Objects for as long as they live: threads add to them while another walks them, and nobody waits for a lock."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Alive(Generic[T]):
    """A set of objects that it does not keep alive, walked as it stood when the walk began.

    A `WeakSet` is walked in many steps, and breaks off when a thread adds to it meanwhile. A lock would be no help in a
    forked child, whose lock a thread may hold that is not there.

    >>> class Ledger: "An object."
    >>> alive, first, second = Alive(), Ledger(), Ledger()
    >>> alive.add(first), alive.add(first), alive.add(second)
    (None, None, None)
    >>> del second
    >>> list(alive) == [first]
    True
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[weakref.ref[T], None] = {}  # one step for each change, and for the copy

    def add(self, thing: T) -> None:
        """Add an object, unless it is there."""
        self._known[weakref.ref(thing, self._forget)] = None

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    def __iter__(self) -> Iterator[T]:
        """Walk those that are there now."""
        return iter([found for known in list(self._known) if (found := known()) is not None])

    def _forget(self, gone: weakref.ref[T]) -> None:
        self._known.pop(gone, None)


__all__ = ["Alive"]
