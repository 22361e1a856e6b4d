"""What two runs of the same work have in common: ids and times may differ, everything else must not.

A counterparty may assign its own ids, and read the clock. So the result of a clean run is learned from two of them, and
what differs between these two is ignored in a third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, TypeGuard


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that differed each time: only its type is known."""

    kind: type


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping some of whose names differed each time: their number is known, and what one looks like."""

    known: dict[Any, Any]
    others: int
    like: Any


def common(one: Any, other: Any) -> Any:
    """Return what two values have in common, for `fits`.

    >>> common({"id": 7, "to": "Ada"}, {"id": 8, "to": "Ada"})
    {'id': Anything(kind=<class 'numbers.Number'>), 'to': 'Ada'}
    """
    if isinstance(one, Anything | Named):
        return one if fits(one, other) else Anything(object)
    if is_mapping(one) and is_mapping(other):
        return _common_names(one, other)
    if is_list(one) and is_list(other) and len(one) == len(other):
        return [common(mine, theirs) for mine, theirs in zip(one, other, strict=True)]
    return one if _equal(one, other) else Anything(_kind(one, other))


def _common_names(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Any:
    known = {name: common(value, other[name]) for name, value in one.items() if name in other}
    mine = [value for name, value in one.items() if name not in other]
    theirs = [value for name, value in other.items() if name not in one]
    if len(mine) != len(theirs):
        return Anything(dict)
    if not mine:
        return known
    like = mine[0]
    for value in (*mine[1:], *theirs):
        like = common(like, value)
    return Named(known, len(mine), like)


def fits(shape: Any, found: Any) -> bool:
    """Whether a value is like those that `shape` was learned from.

    >>> shape = common({"id": 7, "to": "Ada"}, {"id": 8, "to": "Ada"})
    >>> fits(shape, {"id": 9, "to": "Ada"}), fits(shape, {"id": 9, "to": "Bee"}), fits(shape, {"id": 9})
    (True, False, False)
    """
    if isinstance(shape, Anything):
        return isinstance(found, shape.kind)
    if isinstance(shape, Named) or is_mapping(shape):
        return is_mapping(found) and _fits_names(shape, found)
    if is_list(shape) and is_list(found):
        return len(shape) == len(found) and all(fits(w, f) for w, f in zip(shape, found, strict=True))
    return _equal(shape, found)


def _fits_names(shape: Mapping[Any, Any] | Named, found: Mapping[Any, Any]) -> bool:
    wanted = shape if isinstance(shape, Named) else Named(dict(shape), 0, None)
    others = [value for name, value in found.items() if name not in wanted.known]
    return (
        all(name in found and fits(value, found[name]) for name, value in wanted.known.items())
        and len(others) == wanted.others
        and all(fits(wanted.like, value) for value in others)
    )


def is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    """Whether it is a mapping."""
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether it is a sequence of values, and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


def _kind(one: Any, other: Any) -> type:
    if isinstance(one, Number) and isinstance(other, Number):
        return Number
    return one.__class__ if isinstance(other, one.__class__) else object


__all__ = ["Anything", "Named", "common", "fits", "is_list", "is_mapping"]
