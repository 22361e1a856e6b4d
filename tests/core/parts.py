"""A driver with one service in place of another: a mutant is one service that is wrong, in a driver that is right."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial

from tests.rooms.runtime import PARTS, Parts

from settlemark.hosting import Driver


def parts_with(service: type[object]) -> Parts:
    """Return the parts of a driver, with this class in place of the service it is derived from."""
    name = next(part.name for part in fields(Parts) if issubclass(service, getattr(PARTS, part.name)))
    return replace(PARTS, **{name: service})


def driver_with(service: type[object]) -> partial[Driver]:
    """Return what makes drivers with this class in place of the service it is derived from."""
    return partial(Driver, parts=parts_with(service))
