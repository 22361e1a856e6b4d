"""Payloads are JSON: one canonical text for storing, comparing and fingerprinting them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from settlemark._errors import PayloadError

_LEAVES = (str, int, bool, type(None))


def check(value: Any, path: str = "$") -> None:
    """Return when `value` can be stored as JSON and come back equal (tuples come back as lists).

    Raises:
        PayloadError: naming the first place that cannot, before any effect runs.

    >>> check({"to": "a@b.example", "rooms": [1, 2]})
    >>> check({"when": {1, 2}})
    Traceback (most recent call last):
    settlemark._errors.PayloadError: $.when is a set, which JSON cannot hold: pass a list instead
    """
    if isinstance(value, _LEAVES):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadError(f"{path} is {value!r}, which JSON cannot hold: pass None or a string", path=path)
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise PayloadError(f"{path} has the key {key!r}: JSON keys are strings", path=path)
            check(item, f"{path}.{key}")
        return
    if isinstance(value, list | tuple):
        for position, item in enumerate(value):
            check(item, f"{path}[{position}]")
        return
    kind = type(value).__name__
    advice = "pass a list instead" if isinstance(value, set | frozenset) else "pass plain data instead"
    raise PayloadError(f"{path} is a {kind}, which JSON cannot hold: {advice}", path=path)


def encode(value: Any) -> str:
    """Return the canonical JSON text of a value that `check` accepts.

    >>> encode({"b": 1, "a": (True, None)})
    '{"a":[true,null],"b":1}'
    """
    check(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode_result(value: Any) -> str:
    """Return JSON text for a tool's result, which exists already and can no longer be refused.

    What JSON cannot hold is kept as its `repr`, so that an account of it survives:

    >>> encode_result({"id": 7}), encode_result(object) == '{"$repr":"<class \\'object\\'>"}'
    ('{"id":7}', True)
    """
    try:
        return encode(value)
    except (PayloadError, RecursionError):
        return json.dumps({"$repr": repr(value)[:10_000]}, ensure_ascii=False, separators=(",", ":"))


def decode(text: str | None) -> Any:
    """Return the value of a stored JSON text; None stays None.

    >>> decode('{"a":[true,null]}')
    {'a': [True, None]}
    """
    return None if text is None else json.loads(text)


def fingerprint(text: str) -> str:
    """Return a short digest under which two argument texts are equal exactly when they are.

    >>> fingerprint('{}')
    '44136fa355b3678a1146ad16f7e8649e'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:32]
