"""What a channel did not apply, kept where the next node sees it."""

# What nodes write comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Required, cast

from langgraph.config import get_config
from typing_extensions import TypedDict  # pydantic wants this one, before Python 3.12, for a JSON schema

from settlemark import UsageError

_NOTHING: Any = object()
RESOLVED = "$resolved"
WRITTEN = "$written"


class WriteConflict(UsageError):
    """Nodes wrote what cannot both hold: no write was applied. Attributes: `by` (the nodes), `values`."""


class Conflict(TypedDict, total=False):
    """One write, or several, that a channel did not apply.

    Keys:
        message: what happened, who wrote, and what to do.
        by: the nodes concerned; None stands for a write that nobody signed.
        values: what was written and not applied.
        based_on: for a versioned channel, the version the writer had read; `found`: the one there was.
    """

    message: Required[str]
    by: Required[list[str | None]]
    values: Required[list[Any]]
    based_on: int | str | None
    found: int | str


def conflicts(current: Mapping[str, Any] | None) -> list[Conflict]:
    """Return the unresolved conflicts of a `SingleWriter` or `latest_by_version` channel, oldest first.

    >>> conflicts({}), conflicts(None)
    ([], [])
    """
    return list((current or {}).get("conflicts", ()))


def value_of(current: Mapping[str, Any] | None) -> Any:
    """Return the value of a `SingleWriter` or `latest_by_version` channel; None when nothing was written yet.

    Raises:
        WriteConflict: two nodes wrote a `SingleWriter` channel in the last step that wrote it. Raised in the
            node that reads, it leaves the thread whole: `update_state` with `resolve` mends it.

    >>> value_of({"value": "fly", "version": 3, "conflicts": []})
    'fly'
    """
    record = current or {}
    if "value" not in record and (found := conflicts(record)):
        raise WriteConflict(found[-1]["message"], by=found[-1]["by"], values=found[-1]["values"])
    return record.get("value")


def sign(value: Any) -> dict[str, Any]:
    """Return a write to a `SingleWriter` channel that carries the name of the node it is called in.

    Not needed in a graph that went through `signed`. Outside of a node it signs nothing.

    >>> sign("fly")
    {'$written': 'fly', 'by': None}
    """
    return signed_by(node_name(), value)


def signed_by(node: str | None, value: Any) -> dict[str, Any]:
    """Return a write that carries a node's name, or the write itself when it carries one.

    >>> signed_by("late", signed_by("early", "fly"))
    {'$written': 'fly', 'by': 'early'}
    """
    if isinstance(value, dict) and value.keys() & {WRITTEN, RESOLVED}:
        return value if value.get("by") is not None or WRITTEN not in value else {**value, "by": node}
    return {WRITTEN: value, "by": node}


def resolve(current: Mapping[str, Any] | None, value: Any = _NOTHING) -> dict[str, Any]:
    """Return the write that clears the conflicts seen in `current`, and writes `value` if one is given.

    A conflict that arose meanwhile stays. When the value is itself refused, nothing is cleared.

    >>> resolve({"value": "fly", "version": 3, "conflicts": [{"message": "..."}]}, "drive")["value"]
    'drive'
    """
    seen = conflicts(current)
    if "version" not in (current or {}):
        write = {} if value is _NOTHING else sign(value)
        return {**write, RESOLVED: seen}
    return {RESOLVED: seen} if value is _NOTHING else {**propose(current, value), RESOLVED: seen}


def propose(current: Mapping[str, Any] | None, value: Any, *, version: int | str | None = None) -> dict[str, Any]:
    """Return a write to a `latest_by_version` channel: this value, if `current` still is what holds.

    Args:
        current: what the node was handed, as it was handed.
        value: what shall hold.
        version: its version, where an outside store gives one (an ETag). Otherwise the channel counts.

    >>> propose({"value": "fly", "version": 3, "conflicts": []}, "drive")
    {'value': 'drive', 'based_on': 3, 'by': None}
    """
    write = {"value": value, "based_on": (current or {}).get("version", 0), "by": node_name()}
    return write if version is None else {**write, "version": version}


def without(found: Sequence[Any], resolved: Any) -> list[Any]:
    """Return the conflicts that are not among the resolved ones."""
    seen: Sequence[Any] = cast("Sequence[Any]", resolved) if isinstance(resolved, list | tuple) else ()
    return [conflict for conflict in found if not any(same(conflict, other) for other in seen)]


def same(left: Any, right: Any) -> bool:
    """Return whether two written values are equal; those that cannot tell (arrays) are not.

    >>> same(["fly"], ["fly"])
    True
    """
    try:
        return left is right or bool(left == right)
    except (TypeError, ValueError):
        return False


def node_name() -> str | None:
    """Return the name of the node this is called in; None outside of a graph."""
    try:
        config = get_config()
    except RuntimeError:
        return None
    name = (config.get("metadata") or {}).get("langgraph_node")
    return name if isinstance(name, str) else None


def named(nodes: Sequence[str | None]) -> str:
    """Return the nodes' names for a sentence.

    >>> named(["left", None])
    "'left' and a node that did not sign its write"
    """
    return " and ".join("a node that did not sign its write" if node is None else repr(node) for node in nodes)
