"""What a channel allows: two writes in one superstep, and whether any of them is lost; and the reducer to suggest."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NotRequired, Required, Union, cast, get_args, get_origin

from langchain_core.messages import BaseMessage
from langgraph.channels import AnyValue, BinaryOperatorAggregate, EphemeralValue, LastValue, UntrackedValue
from langgraph.channels.base import BaseChannel

_OURS = "settlemark_langgraph"


class Rule(StrEnum):
    """What becomes of several writes."""

    ONE = "one write a superstep: a second one ends the run"
    LAST = "the last write wins"
    REDUCED = "a reducer takes all writes"
    VERSIONED = "a write that is grounded on an old value is refused"


@dataclass(frozen=True)
class Contract:
    """A channel's rule, and the name of the reducer in `settlemark_langgraph.channels` that suits its type."""

    rule: Rule
    suggestion: str

    @property
    def is_plain(self) -> bool:
        """Whether there is no reducer, so that of two writes one is lost."""
        return self.rule in (Rule.ONE, Rule.LAST)


def contract_of(channel: object) -> Contract:
    """Return what a channel allows.

    >>> contract_of(LastValue(int)).rule.name, contract_of(LastValue(int)).suggestion
    ('ONE', 'add')
    """
    return Contract(_rule(channel), _suggestion(getattr(channel, "typ", Any)))


def _rule(channel: object) -> Rule:
    if isinstance(channel, AnyValue):
        return Rule.LAST
    if isinstance(channel, EphemeralValue | UntrackedValue):
        return Rule.ONE if cast("Any", channel).guard else Rule.LAST
    if isinstance(channel, BinaryOperatorAggregate):
        operator: object = cast("Any", channel).operator
        home = getattr(operator, "__module__", None) or ""
        name = getattr(operator, "__qualname__", type(operator).__qualname__)
        return Rule.VERSIONED if home.startswith(_OURS) and "latest_by_version" in name else Rule.REDUCED
    # LangGraph's other one-value channels are told by their name: they came and went between its releases.
    plain = isinstance(channel, LastValue) or type(channel).__name__.startswith("LastValue")
    return Rule.ONE if plain and isinstance(channel, BaseChannel) else Rule.REDUCED


def _suggestion(kind: Any) -> str:
    """Return the reducer that keeps what two writers of this type write."""
    while get_origin(kind) in (Annotated, NotRequired, Required):
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        kinds = {_suggestion(part) for part in get_args(kind) if part is not type(None)}
        return kinds.pop() if len(kinds) == 1 else "latest_by_version"
    plain = get_origin(kind) or kind
    if not isinstance(plain, type) or issubclass(plain, str | bytes | bool):
        return "latest_by_version"
    if issubclass(plain, int | float | complex):
        return "add"
    if issubclass(plain, Mapping):
        return "merge_by_key"
    if issubclass(plain, Sequence | AbstractSet):
        return "dedupe_by_id" if any(map(_is_message, get_args(kind))) else "append"
    return "latest_by_version"


def _is_message(kind: Any) -> bool:
    if get_args(kind):
        return any(map(_is_message, get_args(kind)))
    return isinstance(kind, type) and issubclass(kind, BaseMessage)


__all__ = ["Contract", "Rule", "contract_of"]
