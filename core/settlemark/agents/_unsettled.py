"""What becomes of work where a shim cannot keep its promises: it is refused before anything acts, unless that is known.

A framework's release may lack a name that the shim reads, or a hook that it is called by; a user may have put only half
of it in place. Each would be a quiet downgrade: calls that are no turn, and effects that nobody undoes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal, get_args

from settlemark._api.settlement import Settlement, host_of
from settlemark._edges.errors import UsageError

Unsettled = Literal["refuse", "warn", "allow"]
"""What to do where a shim cannot keep its promises: refuse, say so once and go on, or just go on."""


def refuse_unknown_choice(unsettled: str) -> None:
    """Return when there is such an `unsettled=`.

    Raises:
        UsageError: there is not; nothing was begun.
    """
    if unsettled not in get_args(Unsettled):
        raise UsageError(f"unsettled={unsettled!r}: choose one of {', '.join(map(repr, get_args(Unsettled)))}")


def cannot_keep(settlement: Settlement, what: str, told: str, unsettled: Unsettled) -> None:
    """Say that something cannot be kept here, in the way that `unsettled=` asks for.

    Args:
        settlement: the one whose user is told.
        what: what is missing; with `"warn"` it is told once for each.
        told: why nothing can be promised without it, and what to do.
        unsettled: the user's choice.

    Raises:
        UsageError: it asks to refuse; nothing was run.

    >>> cannot_keep(Settlement("memory:"), "client", "it has no client", "refuse")
    Traceback (most recent call last):
    settlemark._edges.errors.UsageError: it has no client; or pass unsettled="warn" to go on without; nothing was run
    """
    if unsettled == "warn":
        host_of(settlement).tell_once(what, told)
    elif unsettled == "refuse":
        raise UsageError(f'{told}; or pass unsettled="warn" to go on without; nothing was run')


@dataclass(frozen=True)
class ReadNames:
    """The names of a framework that a shim reads, overrides, or is called by, and that no import of it checks.

    Attributes:
        package: the framework, as it is installed.
        tested: the oldest and the newest release that the shim was tested with.
        without: what cannot be told where a name is gone: `"…, so {without}"`.
        names: by module and by the class or function in it ("" for the module itself).
        values: of names of modules, what each has to be.

    >>> names = ReadNames("pytest", ("1", "9"), "nothing", {("json", "JSONDecoder"): ("decode", "gone")})
    >>> names.each(), names.missing()
    ([('json', 'JSONDecoder', 'decode'), ('json', 'JSONDecoder', 'gone')], ['json.JSONDecoder.gone'])
    """

    package: str
    tested: tuple[str, str]
    without: str
    names: Mapping[tuple[str, str], Iterable[str]]
    values: Mapping[str, str] = field(default_factory=dict[str, str])

    def each(self) -> list[tuple[str, str, str]]:
        """Return every name: the module, the class or function in it, and the name there."""
        return [(module, within, name) for (module, within), names in self.names.items() for name in names]

    @cached_property
    def absent(self) -> list[str]:
        """The names that the installed release does not have."""
        return self.missing()

    def missing(self, load: Callable[[str], Any] = import_module) -> list[str]:
        """Return the names that a release does not have, or that mean something else there; `load` imports a module."""
        return [".".join(filter(None, parts)) for parts in self.each() if not self._is_there(load, *parts)]

    def refuse_without(self, settlement: Settlement, unsettled: Unsettled) -> None:
        """Return when the installed release has every name, or `unsettled=` allows to go on.

        Raises:
            UsageError: there is no such `unsettled=`, or one of the names is gone; nothing was run.
        """
        refuse_unknown_choice(unsettled)
        if self.absent:
            gone = ", ".join(self.absent)
            cannot_keep(settlement, gone, f"this release has no {gone}, so {self.without}; {self.tell()}", unsettled)

    def tell(self) -> str:
        """Return in words which release is installed, and with which the shim was tested."""
        oldest, newest = self.tested
        return (
            f"{self.package} {version(self.package)} is installed, and settlemark was tested with {oldest} to {newest}:"
            " install one of these"
        )

    def _is_there(self, load: Callable[[str], Any], module: str, within: str, name: str) -> bool:
        try:
            found = load(module)
            owner = getattr(found, within) if within else found
        except (ImportError, AttributeError):
            return False
        if not within:
            return hasattr(owner, name) and self.values.get(name) in (None, getattr(owner, name))
        return name in _names_of(owner)


def _names_of(owner: Any) -> set[str]:
    """Return the names of a function's parameters; or of a class: what it has, declares, or sets on itself."""
    if not isinstance(owner, type):
        return set(inspect.signature(owner).parameters)
    found: set[str] = set()
    for kind in owner.__mro__:
        found.update(vars(kind), getattr(kind, "__annotations__", ()))
        functions: Iterable[Any] = filter(inspect.isfunction, vars(kind).values())
        for function in functions:
            found.update(function.__code__.co_names)
    return found


__all__ = ["ReadNames", "Unsettled", "cannot_keep", "refuse_unknown_choice"]
