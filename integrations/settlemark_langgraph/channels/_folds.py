"""Channel contracts that combine what was there with what was written, and lose neither.

Every reducer here is total where it can be (a reducer that raises stops the run after its nodes have had
their effects, and makes the thread unreadable), never changes its arguments, and takes None for "nothing written".
"""

# What nodes write comes through here: pyright can know no more of it than `Any`.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def keep_last(old: T | None, new: T | None) -> T | None:
    """Return the last value that is not None.

    Channel contract: None never clobbers, so a node that returns `{"todos": None}`, or a state object whose
    field kept its default of None, takes nothing away. Empty values do count: `[]` clears a list.
    It is still one value: of two writes in a step the later in write order stays.

    Laws: associative; idempotent; None is the identity. Not commutative: the write order decides.

    >>> keep_last(["plan", "book"], None)
    ['plan', 'book']
    >>> keep_last(["plan", "book"], [])
    []
    """
    return old if new is None else new


def append(old: Any, new: Any) -> list[Any]:
    """Return a new list of all that was written, in write order.

    Channel contract: nothing lost. A list or tuple adds its items, None adds none, anything else is one item.

    Laws: associative over lists; None and `[]` are the identity. Not commutative, and not idempotent:
    what a retry or a subgraph returns again is there twice (use `dedupe_by_id` or `merge_by_key`).

    >>> append(append(["a"], ["b", "c"]), "d")
    ['a', 'b', 'c', 'd']
    """
    return [*_items(old), *_items(new)]


def add(old: Any, new: Any) -> Any:
    """Return the sum, of numbers or of anything else that has `+`; nodes write deltas, not totals.

    Channel contract: nothing lost. 100 and two deposits of 10 make 120, whichever steps they fall in.

    Laws: associative and commutative as far as `+` is (int, Fraction and timedelta are; float rounds, so the
    write order keeps it reproducible); None is the identity. Not idempotent: a total written back counts again.

    Raises:
        TypeError: when `+` does. LangGraph then refuses the step, and every read of the thread's current
            state, until `update_state` or a new input replaces the step.

    >>> add(add(100, 10), 10)
    120
    """
    if old is None or new is None:
        return new if old is None else old
    return old + new


def merge_by_key(key: str) -> Callable[[Any, Any], list[Any]]:
    """Return a reducer for lists of mappings, in which writes with the same `key` become one item.

    Channel contract: no item is lost, nor a field that only one writer wrote. The fields of a later write go
    over those of an earlier one; items keep the place of their first appearance. An item without the key
    (missing or None), or that is no mapping, is appended as it is. To remove an item, write an `Overwrite`.

    Laws: associative; None and `[]` are the identity; writing the same batch again at once changes nothing
    (when its items have keys). Not commutative: the write order decides who wrote a field last.

    The same key gives the same reducer object, so two schemas can name one channel.

    >>> todos = merge_by_key("id")
    >>> todos([{"id": 1, "text": "book"}], [{"id": 1, "done": True}, {"id": 2, "text": "pay"}])
    [{'id': 1, 'text': 'book', 'done': True}, {'id': 2, 'text': 'pay'}]
    >>> merge_by_key("id") is todos
    True
    """
    return _merge_by_key(key)


def dedupe_by_id(old: Any, new: Any) -> list[Any]:
    """Return a new list in write order, in which the first item with an `id` stays and later ones are dropped.

    Channel contract: nothing new is lost, and what is delivered twice is there once. The id is the field `id` of
    a mapping or the attribute `id` of an object (a message). Items without one are all kept. What a later
    write says otherwise under a known id is not taken: use `merge_by_key` where items change.

    Laws: associative; None and `[]` are the identity; idempotent for items with ids, at any later time.
    Not commutative: the write order decides the places.

    >>> dedupe_by_id([{"id": "a"}], [{"id": "b"}, {"id": "a"}])
    [{'id': 'a'}, {'id': 'b'}]
    """
    kept: dict[Hashable, Any] = {}
    for item in (*_items(old), *_items(new)):
        slot = _slot(item, "id")
        kept.setdefault(_Nameless() if slot is None else slot, item)
    return list(kept.values())


@dataclass(frozen=True, slots=True)
class _MergeByKey:
    key: str

    @property
    def __name__(self) -> str:
        # LangGraph reads it off every reducer that it compares
        return f"merge_by_key({self.key!r})"

    def __repr__(self) -> str:
        return self.__name__

    def __reduce__(self) -> tuple[Any, ...]:
        # LangGraph compares reducers with `is`: a copy has to be the same object
        return merge_by_key, (self.key,)

    def __call__(self, old: Any, new: Any) -> list[Any]:
        merged: dict[Hashable, Any] = {}
        for item in (*_items(old), *_items(new)):
            slot = _slot(item, self.key) if isinstance(item, Mapping) else None
            if slot is None:
                merged[_Nameless()] = item
            else:
                merged[slot] = {**merged.get(slot, {}), **item}
        return list(merged.values())


@cache
def _merge_by_key(key: str) -> _MergeByKey:
    return _MergeByKey(key)


class _Nameless:
    """The place of an item without a key: equal to no other."""


def _items(batch: Any) -> list[Any]:
    if batch is None:
        return []
    return list(batch) if isinstance(batch, list | tuple) else [batch]


def _slot(item: Any, key: str) -> Hashable | None:
    name = item.get(key) if isinstance(item, Mapping) else getattr(item, key, None)
    try:
        hash(name)
    except TypeError:
        return _Nameless, repr(name)
    return name
