"""One memory's state, and the edits that lead to the next one: plain functions, without a store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from settlemark.hosting import json_text
from settlemark_adapters.store._blocks import Json
from settlemark_adapters.store._faults import MemoryFault, VersionMoved

MARK = "$settlemark"
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class State:
    """A memory's state: its value (None: there is none), its last writer, and whether it was changed from outside."""

    value: Json | None
    counter: int
    writer: str | None
    digest: str
    meddled: bool = False

    @property
    def version(self) -> str:
        """Changes with every write: a number, and a digest after it where somebody wrote without the settlement."""
        return f"{self.counter}~{self.digest[:8]}" if self.meddled else str(self.counter)


Edit = Callable[[State], Json | None]


def putting(value: Json, expected: str | None, namespace: str, name: str) -> Edit:
    """Return the edit that replaces a value, if the version is as expected."""

    def edit(now: State) -> Json:
        _compare(now, expected, namespace, name)
        return value

    return edit


def deleting(expected: str | None, namespace: str, name: str) -> Edit:
    """Return the edit that deletes a value, if the version is as expected."""

    def edit(now: State) -> None:
        _compare(now, expected, namespace, name)
        if now.value is None:
            raise MemoryFault(f"there is no memory {namespace}/{name} to delete", namespace=namespace, name=name)

    return edit


def appending(field: str, line: str, namespace: str, name: str) -> Edit:
    """Return the edit that adds a line to a text."""
    _check_text("text", line, namespace, name)

    def edit(now: State) -> Json:
        before = _text_of(now, field, namespace, name)
        joined = f"{before}\n" if before and not before.endswith("\n") else before
        return {**(now.value or {}), field: joined + line}

    return edit


def replacing(field: str, passages: tuple[str, str], namespace: str, name: str) -> Edit:
    """Return the edit that replaces a passage, which must occur once: (the old one, the new one)."""
    for argument, passage in zip(("old", "new"), passages, strict=True):
        _check_text(argument, passage, namespace, name)

    def edit(now: State) -> Json:
        (old, new), text = passages, _text_of(now, field, namespace, name)
        times = text.count(old) if old else 0
        if times != 1:
            raise MemoryFault(
                f"{old!r} stands {times} times in {namespace}/{name}, and must stand there once: quote a longer"
                f" passage of it: {text[:_SHOWN]!r}",
                namespace=namespace,
                name=name,
            )
        return {**(now.value or {}), field: text.replace(old, new)}

    return edit


def _check_text(argument: str, given: Any, namespace: str, name: str) -> None:
    if not isinstance(given, str):
        raise MemoryFault(f"{argument}= is {given!r:.80}: give text", namespace=namespace, name=name)


def _text_of(now: State, field: str, namespace: str, name: str) -> str:
    found = (now.value or {}).get(field, "")
    if not isinstance(found, str):
        raise MemoryFault(
            f"{field!r} of {namespace}/{name} is {type(found).__name__}, not a text: use put_memory",
            namespace=namespace,
            name=name,
        )
    return found


def _compare(now: State, expected: str | None, namespace: str, name: str) -> None:
    if expected is not None and expected != now.version:
        raise VersionMoved(
            f"{namespace}/{name} is at version {now.version}, not {expected}: nothing was written; it is now"
            f" {json_text.encode_result(now.value)[:_SHOWN]}; plan again from that",
            namespace=namespace,
            name=name,
            expected=expected,
            version=now.version,
            value=now.value,
        )


def fitting(value: Any) -> Json:
    """Return a valid memory.

    Raises:
        MemoryFault: it is invalid.
    """
    if not isinstance(value, dict) or MARK in value:
        raise MemoryFault(f"a memory is an object without the field {MARK!r}, as in {{'text': …}}; not {value!r:.80}")
    return cast("Json", value)


def marked(value: Json, version: int, writer: str | None) -> Json:
    """Return a value with its writer's mark, as stored: so that both change at once."""
    return {**value, MARK: {"version": version, "writer": writer, "digest": _digest_of(value)}}


def state_of(stored: Mapping[str, Any]) -> State:
    """Return a memory's state, from what is stored."""
    value, found = bare(stored), stored.get(MARK)
    mark, digest = cast("Json", found) if isinstance(found, dict) else {}, _digest_of(value)
    return State(value, mark.get("version", 0), mark.get("writer"), digest, mark.get("digest") != digest)


def bare(stored: Mapping[str, Any]) -> Json:
    """Return a value without its mark, as a copy."""
    return {field: json_text.snapshot(part) for field, part in stored.items() if field != MARK}


def digest(text: str) -> str:
    """Return a digest that is equal for two texts exactly when they are."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _digest_of(value: Json) -> str:
    return digest(json_text.encode_result(_plain(value)))


def _plain(value: Any) -> Any:
    """Return a value as every store returns it: some keep a number but not its spelling, so 1e3 becomes 1000."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in cast("Json", value).items()}
    return [_plain(part) for part in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


__all__ = [
    "Edit",
    "State",
    "appending",
    "bare",
    "deleting",
    "digest",
    "fitting",
    "marked",
    "putting",
    "replacing",
    "state_of",
]
