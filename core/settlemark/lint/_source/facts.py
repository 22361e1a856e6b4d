"""What a function does to the world, as far as its text shows: what it addresses, writes and sends as a key."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal

from settlemark.lint._source.values import Value

Medium = Literal["file", "url", "table", "object"]
Way = Literal["read", "write", "create"]


@dataclass(frozen=True, slots=True)
class Address:
    """One place where a function reaches a resource.

    Attributes:
        medium: the kind of resource.
        resource: the resource's name within its kind, without its key: `("table", "orders")`.
        arguments: the tool's arguments that say which one it is; empty when none does.
        way: `create` makes something new there, `write` changes what is there.
        whole: the arguments are the whole address, so that anything else in a scope is too much.
        node: the syntax node.
        shown: how the text spells it.
    """

    medium: Medium
    resource: tuple[str, ...]
    arguments: tuple[str, ...]
    way: Way
    node: ast.AST
    shown: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class SentKey:
    """An idempotency key sent to a counterparty; `sure` when its name says so."""

    name: str
    value: Value
    node: ast.AST
    sure: bool


@dataclass(frozen=True, slots=True)
class Written:
    """A change that the text shows.

    `how`: `hard` is a change for sure, `post` may be a query, `memory` is a list or dict of this process, `soft` a
    method whose name says so.
    """

    what: str
    how: Literal["hard", "post", "memory", "soft"]
    node: ast.AST


@dataclass
class Facts:
    """Everything seen in a function and in those of its module that it calls.

    Attributes:
        outside: the first call that leaves this process; None if there is none.
        asks_key: it asks for the call's own key.
        uncertain: it calls something that cannot be examined here.
        used: the arguments that it passes on at all.
        kept: the arguments that it passes on as they are, not as a part of the address.
    """

    addresses: list[Address] = field(default_factory=list[Address])
    keys: list[SentKey] = field(default_factory=list[SentKey])
    written: list[Written] = field(default_factory=list[Written])
    returned: list[Value] = field(default_factory=list[Value])
    outside: ast.AST | None = None
    asks_key: bool = False
    uncertain: bool = False
    used: set[str] = field(default_factory=set[str])
    empty: bool = False

    @property
    def hard(self) -> Written | None:
        """A change for sure."""
        return next((each for each in self.written if each.how == "hard"), None)

    def arguments(self, *ways: Way) -> list[str]:
        """Return the arguments that are an address, in order."""
        chosen = [each for each in self.addresses if not ways or each.way in ways]
        return list(dict.fromkeys(name for each in chosen for name in each.arguments))


__all__ = ["Address", "Facts", "Medium", "SentKey", "Way", "Written"]
