"""What a caller gives, where a mapping or several things are asked for: a text in their place is no list of letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from settlemark._edges.errors import UsageError
from settlemark._edges.text import brief


def mapping(given: object, what: str) -> dict[str, Any]:
    """Return a mapping as a dict.

    Raises:
        UsageError: it is none.

    >>> mapping({"amount": 20}, "matching=")
    {'amount': 20}
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"{what} is {brief(given)}: give a mapping of names to values; nothing was recorded")
    return dict(cast("Mapping[str, Any]", given))


def several(given: object, what: str) -> list[Any]:
    """Return several things as a list.

    Raises:
        UsageError: it is one thing: a text, or a mapping, is one.

    >>> several(("hold", {"sweep": "B"}), "alternatives=")
    ['hold', {'sweep': 'B'}]
    """
    said = brief(given)
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UsageError(f"{what} is {said}: give a list of them; nothing was recorded")
    return list(cast("Iterable[object]", given))


def function(given: object, what: str) -> Callable[..., Any]:
    """Return a function.

    Raises:
        UsageError: it cannot be called.

    >>> function(len, "approver=") is len
    True
    """
    if not callable(given):
        raise UsageError(f"{what} is {brief(given)}: give a function; nothing was run")
    return given


__all__ = ["function", "mapping", "several"]
