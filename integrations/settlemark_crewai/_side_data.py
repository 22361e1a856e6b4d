"""Side data about CrewAI's objects, kept for as long as they live."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Beside(Generic[_Value]):
    """Values for objects that can be neither hashed nor given an attribute, such as Pydantic's.

    A value must not refer to its object, else both stay for ever.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[object], _Value]] = {}

    def get(self, thing: object) -> _Value | None:
        """Return an object's value, or None."""
        found = self._found.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None

    def put(self, thing: object, value: _Value) -> None:
        """Set an object's value, over the old one."""
        key = id(thing)

        def forget(gone: weakref.ref[object]) -> None:
            found = self._found.get(key)
            if found is not None and found[0] is gone:
                del self._found[key]

        self._found[key] = (weakref.ref(thing, forget), value)


__all__ = ["Beside"]
