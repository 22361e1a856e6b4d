"""The description of an adapter for the conformance kit and the scope fuzzer: how to make it, and where to look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from settlemark import Settlement
from settlemark.hosting import escape
from settlemark_adapters._adapter import Adapter


def scope_of(kind: str, *names: object) -> str:
    """Return the text of a resource's scope, whatever characters its names have: for `Subject.resources`.

    An empty name, which no call can declare, is spelled `%00`.

    >>> scope_of("file", "reports", "50%.txt")
    'file:/reports/50%25.txt'
    """
    texts = map(str, names)
    return f"{kind}:/{'/'.join('%00' if not text or text.isspace() else escape(text) for text in texts)}"


@dataclass(frozen=True)
class Example:
    """One call of a tool that can succeed on a fresh world, once `before` has made it ready.

    Attributes:
        tool: the tool's name.
        arguments: its arguments, as JSON.
        before: given the place, makes what the call needs there (the file to be deleted, say).
    """

    tool: str
    arguments: Mapping[str, Any]
    before: Callable[[Any], object] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Subject:
    """An adapter under test, and its counterparty.

    Attributes:
        make: `make(settlement, place)` returns the adapter; also called in a child process that will be killed, and
            again in the process that recovers.
        world: `world()` is a context manager that begins a fresh counterparty and yields its *place*: an address, a
            folder, whatever `make` and `look` need, usable behind a fork. One with a method `reset()`, which makes it
            new again, is begun once only, since to begin a server takes long.
        look: `look(place)` returns what the counterparty itself says is there, as plain data that compares equal when
            nothing has changed; never through the adapter.
        examples: at least one call of each tool.
        lose: `lose(place)` makes the counterparty act on the next request and never answer; None where that cannot
            be, and the kit then loses the answer inside this process.
        meddle: `meddle(place, example)` changes what the example's call has just made, as a program would that knows
            nothing of settlements; None where nobody can.
        resources: `resources(place)` returns what is there by the scope it is found under, each as narrow as it can
            be: `{scope_of("file", "a.txt"): "…"}`; None when `look` does. The scope fuzzer compares them.
    """

    make: Callable[[Settlement | None, Any], Adapter]
    world: Callable[[], AbstractContextManager[Any]]
    look: Callable[[Any], Any]
    examples: Sequence[Example]
    lose: Callable[[Any], object] | None = None
    meddle: Callable[[Any, Example], object] | None = None
    resources: Callable[[Any], Mapping[str, Any]] | None = None
