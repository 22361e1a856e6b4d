"""Something is done when an object is dropped by everybody who could use the object."""

from __future__ import annotations

import sys
from collections.abc import Callable

from settlemark._edges.shield import closed


class OnDrop:
    """Calls a function as soon as nobody keeps this object any more, unless it was disarmed.

    An object that a caller may forget to leave keeps one as long as the caller can leave, and has no `__del__` itself:
    Python drops what a signal's handler raises in a `__del__`, and an object that was left is freed where no signal is
    deferred.

    Args:
        act: what is done; the garbage collector may call it in any thread and between any two instructions. It must not
            keep what keeps this object.

    >>> guards = [OnDrop(lambda: print("dropped")), OnDrop(lambda: print("never"))]
    >>> guards[1].disarm()
    True
    >>> guards.clear()
    dropped
    """

    __slots__ = ("_act",)

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def disarm(self) -> bool:
        """Have nothing done: the caller has left. Return False if it was done before.

        In a circle the garbage collector may drop this object first, and have the caller leave then.
        """
        act, self._act = self._act, None
        return act is not None

    @closed
    def __del__(self) -> None:
        act, self._act = self._act, None
        if act is not None and not sys.is_finalizing():
            act()


__all__ = ["OnDrop"]
