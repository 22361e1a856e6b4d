"""Values as JSON that compares as they do, and whether a tool's answer shows a written value."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite
from typing import Any, cast

LONGEST = 500
"""The most characters kept of a value; a longer one is kept as its digest and its beginning."""

_BEGINNING = 60
_DEEPEST = 50


def plain(value: Any, depth: int = 0) -> Any:  # noqa: PLR0911 - a way for each kind of value
    """Return a value as JSON: messages, models and data classes by their fields, other objects by their text.

    >>> plain({"when": {3, 1}, "ok": True, 7: (1.5, float("inf"))})
    {'when': [1, 3], 'ok': True, '7': [1.5, 'inf']}
    """
    if isinstance(value, Enum):
        return plain(value.value, depth)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if depth > _DEEPEST:
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in _pairs(value)}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in _members(value)]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, depth + 1) for item in _members(value)), key=_rank)
    return _by_fields(value, depth + 1)


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    yield from value.items()


def _members(value: Any) -> Iterator[Any]:
    yield from value


def _rank(value: object) -> tuple[str, str]:
    return type(value).__name__, str(value)


def _by_fields(value: Any, depth: int) -> Any:
    dump, formatted = getattr(value, "model_dump", None), getattr(value, "isoformat", None)
    if isinstance(value, type):
        return repr(value)
    if callable(dump):
        return plain(dump(), depth)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name), depth) for field in fields(value)}
    return str(formatted()) if callable(formatted) else repr(value)


def compact(value: Any) -> Any:
    """Return JSON as a history keeps it: unchanged, or when long its digest and its beginning.

    Law: two values are equal exactly when their compact forms are.

    >>> compact([1, 2]), sorted(compact("x" * 600))
    ([1, 2], ['length', 'sha256', 'starts'])
    """
    if isinstance(value, int | float | None):
        return value
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    if len(text) <= LONGEST:
        return value
    return {"sha256": digest(text), "length": len(text), "starts": text[:_BEGINNING]}


def digest(content: str | bytes) -> str:
    """Return a short name for a content.

    >>> digest("a") == digest(b"a"), len(digest("a"))
    (True, 16)
    """
    data = content.encode(errors="surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:16]


def told(value: Any) -> Any:
    """Return a tool's answer: parsed if it is JSON text, else the text.

    >>> told('{"date": "21 June"}'), told("21 June")
    ({'date': '21 June'}, '21 June')
    """
    if not isinstance(value, str) or value.strip()[:1] not in {"{", "["}:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def shows(seen: Any, written: Any) -> bool:
    """Whether a read value shows a written one: the same value, a field with it, or its words in a text.

    >>> shows({"date": "21 June", "seats": 3}, {"date": "21 June"}), shows("It is on 21 June.", "21 June")
    (True, True)
    >>> shows("It is on 21 June.", "1 June"), shows({"date": "14 June"}, "21 June")
    (False, False)
    """
    if seen == written and isinstance(seen, bool) == isinstance(written, bool):
        return True
    if written is None or written in ("", {}, []):
        return False
    if isinstance(written, dict):
        wanted = cast("dict[str, Any]", written)
        return isinstance(seen, dict) and all(key in seen and shows(seen[key], item) for key, item in wanted.items())
    if isinstance(seen, str):
        text = written if isinstance(written, str) else json.dumps(written)
        return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", seen) is not None
    return any(shows(item, written) for item in _items(seen))


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        yield from _members(value)


__all__ = ["LONGEST", "compact", "digest", "plain", "shows", "told"]
