"""The interface needed of a store, and a shared mapping that implements it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from settlemark.hosting import json_text

Json = dict[str, Any]
Namespace = tuple[str, ...]


class Item(Protocol):
    """A store's item."""

    @property
    def value(self) -> Any: ...


class Found(Item, Protocol):
    """A search's item."""

    @property
    def namespace(self) -> Any: ...
    @property
    def key(self) -> str: ...


class BaseStore(Protocol):
    """The interface needed of a store: a part of LangGraph's `BaseStore`."""

    def get(self, namespace: Namespace, key: str, /) -> Item | None:
        """Return a key's item, or None."""
        ...

    def put(
        self, namespace: Namespace, key: str, value: Json, index: Literal[False] | list[str] | None = None, /
    ) -> None:
        """Store a value under a key, over the old one."""
        ...

    def delete(self, namespace: Namespace, key: str, /) -> None:
        """Delete a key's value, if any."""
        ...

    def search(
        self, namespace_prefix: Namespace, /, *, query: str | None = None, limit: int = 10, offset: int = 0
    ) -> Sequence[Found]:
        """Return the items of a namespace and below it."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """One value of `Blocks`, as a search returns it."""

    namespace: Namespace
    key: str
    value: Json


class Blocks:
    """A mapping that agents share (a `dict`, a `shelve`, a manager's proxy), as a store: `"team/plan"` names a block.

    A value that is a plain text counts as `{"text": …}`. Returned values are copies.

    >>> blocks = Blocks({"team/plan": "book the room"})
    >>> blocks.get(("team",), "plan").value
    {'text': 'book the room'}
    """

    def __init__(self, mapping: MutableMapping[str, Any]) -> None:
        self._mapping = mapping

    def get(self, namespace: Namespace, key: str, /) -> Block | None:
        """Return a block, or None."""
        found = self._mapping.get("/".join((*namespace, key)))
        return None if found is None else Block(namespace, key, _as_object(found))

    def put(
        self, namespace: Namespace, key: str, value: Json, _index: Literal[False] | list[str] | None = None, /
    ) -> None:
        """Store a block, over the old one."""
        self._mapping["/".join((*namespace, key))] = json_text.snapshot(value)

    def delete(self, namespace: Namespace, key: str, /) -> None:
        """Delete a block, if it exists."""
        self._mapping.pop("/".join((*namespace, key)), None)

    def search(
        self, namespace_prefix: Namespace, /, *, query: str | None = None, limit: int = 10, offset: int = 0
    ) -> list[Block]:
        """Return the blocks in a namespace and below it, by name, that have this text in them."""
        found = [block for block in self._below(namespace_prefix) if mentions(block.value, query)]
        return found[offset : offset + limit]

    def _below(self, prefix: Namespace) -> Iterator[Block]:
        for path in sorted(self._mapping):
            *namespace, key = path.split("/")
            found = self._mapping.get(path)
            if tuple(namespace[: len(prefix)]) == prefix and found is not None:
                yield Block(tuple(namespace), key, _as_object(found))


def _as_object(value: Any) -> Json:
    return {"text": value} if isinstance(value, str) else cast("Json", json_text.snapshot(dict(value)))


def mentions(value: Json, query: str | None) -> bool:
    """Whether a value contains a text."""
    return not query or query.casefold() in json_text.encode_result(value).casefold()


__all__ = ["BaseStore", "Block", "Blocks", "Json", "Namespace", "mentions"]
