"""What is known of an object of CrewAI's, for as long as it lives."""

from __future__ import annotations

import weakref
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Beside(Generic[_Value]):
    """Values beside objects that can be neither hashed nor given an attribute, as Pydantic's cannot.

    A value must not hold its object, else both stay for ever.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[object], _Value]] = {}

    def get(self, thing: object) -> _Value | None:
        """Return what stands beside an object, or None."""
        found = self._found.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None

    def put(self, thing: object, value: _Value) -> None:
        """Put a value beside an object, in the place of what stood there."""
        key = id(thing)

        def forget(gone: weakref.ref[object]) -> None:
            found = self._found.get(key)
            if found is not None and found[0] is gone:
                del self._found[key]

        self._found[key] = (weakref.ref(thing, forget), value)


__all__ = ["Beside"]
