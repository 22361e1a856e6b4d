"""Payloads are JSON: one canonical text to store, compare and fingerprint."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import threading
import types
from collections import Counter, OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from json import encoder
from typing import Any, cast

from settlemark._edges.errors import PayloadError
from settlemark._edges.text import brief, prose

# Python refuses to write much longer integers (4300 digits by default).
_MOST_BITS = 13_000
_PLAIN = 1 << 63
_MOST_PATH = 60
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})
_MOST_BYTES = 1 << 28
"""Of a payload's text: PostgreSQL stores a gigabyte a field, and a message over its limit ends the connection."""
MOST_LEVELS = 100
"""Nesting of lists and objects, the outermost included: every JSON library and store supports this depth."""
# Annotated with Any: a type checker finds the type of an `Any` partly unknown.
_kind: Callable[[Any], type[Any]] = type
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict)
# `JSONEncoder.encode` builds its C encoder for every call, which costs more than encoding a small payload. Other
# Pythons have no C encoder, and use the JSONEncoder itself.
_make: Any = getattr(encoder, "c_make_encoder", None)
_iterencode: Any = _make(None, dict, encoder.encode_basestring, None, ":", ",", True, False, False) if _make else None
_write_ascii: Any = (
    _make(None, dict, encoder.encode_basestring_ascii, None, ":", ",", False, False, False) if _make else None
)


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value that was checked before."""
    return "".join(_iterencode(value, 0)) if _iterencode else _ENCODER.encode(value)


def _all_plain(value: Any) -> bool:
    """Whether a value surely passes `check`: a cheap test for the common cases, a flat dict and an ASCII text."""
    if _kind(value) is not dict:
        return _kind(value) is str and value.isascii()
    for key, item in value.items():
        if type(key) is not str or not key.isascii():
            return False
        kind = _kind(item)
        if kind is str:
            if not item.isascii():
                return False
        elif not (item is None or kind is bool or (kind is int and -_PLAIN < item < _PLAIN)):
            return False
    return True


def check(value: Any, path: str = "$") -> None:
    """Check that a value can be stored as JSON and come back equal (tuples come back as lists).

    Raises:
        PayloadError: the value cannot be stored; the message names the first offending place.

    >>> check({"to": "a@b.example", "rooms": [1, 2]})
    >>> check({"when": {1, 2}})
    Traceback (most recent call last):
    settlemark._edges.errors.PayloadError: $.when is a set, which JSON cannot hold: pass a list instead
    """
    _limited(partial(_check, value, path))


def _limited(work: Callable[[], Any]) -> Any:
    try:
        return with_room(work)
    except RecursionError:  # from a user's class, or a copy of it
        raise _too_deep("$") from None


def with_room(work: Callable[[], Any]) -> Any:
    """Call a function that recurses into a payload, with enough stack whatever the caller's depth.

    Where the stack is full, the call is repeated in a new thread, which has a stack of its own: recording an outcome
    must not fail for want of stack.

    Raises:
        RecursionError: the new stack is too small as well.
    """
    try:
        return work()
    except RecursionError:
        pass
    ended: list[tuple[Any, BaseException | None]] = []

    def again() -> None:
        try:
            ended.append((work(), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=again, name="settlemark-payload", daemon=True)
    thread.start()
    thread.join()
    value, error = ended[0]
    if error is not None:
        raise error
    return value


def _too_deep(path: str) -> PayloadError:
    if len(path) > _MOST_PATH:
        path = f"{path[:_MOST_PATH]}…"
    return PayloadError(
        f"{path} is nested too deeply, or contains itself: {MOST_LEVELS} levels are the most; pass flatter data",
        path=path,
    )


def _check(value: Any, path: str, level: int = 1, *, halves: bool = False) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        if not halves:
            _check_text(value, path)
        return
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise PayloadError(f"{path} is a number too long to store: pass a string", path=path)
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PayloadError(f"{path} is {value!r}, which JSON cannot hold: pass None or a string", path=path)
        return
    if level > MOST_LEVELS and isinstance(value, Mapping | list | tuple):
        raise _too_deep(path)
    if isinstance(value, Mapping):
        for key, item in cast("Any", value).items():
            if not isinstance(key, str):
                raise PayloadError(f"{path} has the key {key!r}: JSON keys are strings", path=path)
            if not halves:
                _check_text(key, path)
            _check(item, f"{path}.{str.__str__(key)}", level + 1, halves=halves)
        return
    if isinstance(value, list | tuple):
        for position, item in enumerate(cast("Any", value)):
            _check(item, f"{path}[{position}]", level + 1, halves=halves)
        return
    kind = type(value).__name__
    advice = "pass a list instead" if isinstance(value, set | frozenset) else "pass plain data instead"
    raise PayloadError(f"{path} is a {kind}, which JSON cannot hold: {advice}", path=path)


def _check_text(text: str, path: str) -> None:
    if str.isascii(text):  # str's own method: a subclass may answer anything
        return
    try:
        str.encode(text)
    except UnicodeEncodeError:
        raise PayloadError(
            f"{path} has a lone surrogate in {brief(text)}, half a character that no store can hold: replace it",
            path=path,
        ) from None


def encode_ascii(value: Any) -> str:
    """Return compact JSON text in ASCII, unchecked and unsorted, for values that are not a user's."""
    return "".join(_write_ascii(value, 0)) if _write_ascii else json.dumps(value, separators=(",", ":"))


def encode(value: Any) -> str:
    """Return the canonical JSON text of a value that `check` accepts.

    >>> encode({"b": 1, "a": (True, None)})
    '{"a":[true,null],"b":1}'
    """
    # `default` is called only for mappings other than dict: all other values were checked.
    if _all_plain(value):
        text = canonical(value)
    else:
        check(value)
        text = with_room(partial(canonical, value))
    if len(text) * 4 > _MOST_BYTES and len(text.encode()) > _MOST_BYTES:  # a character has at most four bytes
        raise PayloadError(
            f"$ is over {_MOST_BYTES:,} bytes long as JSON: store it elsewhere, and pass a reference", path="$"
        )
    return text


def snapshot(value: Any) -> Any:
    """Return an equal value that shares no mutable part with the given one.

    A value of another type is copied with its type where it can be copied; an object that cannot be examined stays as
    it is.

    Raises:
        PayloadError: the value has more than `MOST_LEVELS` levels, or contains itself.

    >>> guests = ["Ada"]
    >>> kept = snapshot({"guests": guests})
    >>> guests.append("Bob")
    >>> kept
    {'guests': ['Ada']}
    """
    kind = _kind(value)
    if kind in _SCALARS:
        return value
    # Flat ones, as most are, need no recursion.
    if kind is tuple and _SCALARS.issuperset(map(_kind, value)):
        return value
    if kind is dict and _SCALARS.issuperset(map(_kind, value)) and _SCALARS.issuperset(map(_kind, value.values())):
        return dict(value)
    return _limited(partial(_copy, value))


def _copy(value: Any, level: int = 1) -> Any:
    kind = _kind(value)
    if kind in _SCALARS:
        return value
    if level > MOST_LEVELS and isinstance(value, Mapping | list | tuple):
        raise _too_deep("$")
    below = level + 1
    if kind is dict:
        return {
            key if type(key) is str else _copy(key, below): item if type(item) is str else _copy(item, below)
            for key, item in value.items()
        }
    if kind is list:
        return [_copy(item, below) for item in value]
    if kind is tuple:
        return tuple(_copy(item, below) for item in value)
    return _copy_of_a_class(value, level)


def _is_copied(value: Any) -> bool:
    """Whether a value that is no plain JSON may be mutable, and so must be copied."""
    kinds = (str, int, float, list, tuple, Mapping, set, frozenset, bytearray)
    return isinstance(value, kinds) or is_dataclass(value) or _is_a_model(value)


def _copy_of_a_class(value: Any, level: int) -> Any:
    """Return a copy of a value that is no plain JSON: of its own type, or else as recorded."""
    if isinstance(value, Enum):
        return value
    if not _is_copied(value):
        return value
    if not _is_as_it_reads(value):
        return _as_recorded(value, level + 1)
    try:
        made: Any = copy.deepcopy(value)
    except RecursionError:
        raise
    except BaseException:  # a user's class may raise anything
        made = value
    return made if made is not value and _kind(made) is _kind(value) else _as_recorded(value, level + 1)


def _as_recorded(value: Any, below: int) -> Any:
    """Return a value as the record has it: for a class that cannot be copied, or that computes what it shows.

    A class that computes what it shows is read once.
    """
    if isinstance(value, Mapping):
        return {_copy(key, below): _copy(item, below) for key, item in cast("Any", value).items()}
    if isinstance(value, list | tuple):
        items = [_copy(item, below) for item in cast("Any", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, str):
        return str.__str__(value)  # not the subclass's own text
    if isinstance(value, float):
        return float.__float__(value)
    return int.__int__(value) if isinstance(value, int) else value


def _is_as_it_reads(value: Any) -> bool:
    """Whether reading a value gives what it holds: neither its class, nor one within, computes what it shows.

    Such a class may answer differently each time: the record, the scope, an approver and the tool would each see
    another value. A mapping that is no dict always computes what it shows.
    """
    kind = _kind(value)
    if kind in _SCALARS or isinstance(value, Enum):
        return True
    held: tuple[Any, ...] = ()
    if isinstance(value, dict):
        held = (*_KEYS(value), *_VALUES(value))
    elif isinstance(value, list | tuple):
        held = tuple(_ITEMS(value) if isinstance(value, list) else _PARTS(value))
    elif kind is UserDict:
        held = (value.data,)
    elif isinstance(value, Mapping):
        return False
    elif not isinstance(value, str | int | float):
        return True  # no record can hold it
    return not _has_its_own_words(kind) and all(map(_is_as_it_reads, held))


def _has_its_own_words(kind: type[Any]) -> bool:
    """Whether a class's own Python code computes what a reader sees."""
    return any(
        type(vars(each)[name]) not in _OF_C
        for each in kind.__mro__
        if each not in _STANDARD
        for name in vars(each).keys() & _READERS
    )


# The dict's real keys, whatever its class answers.
_KEYS: Callable[[Any], Any] = vars(dict)["keys"]
_VALUES: Callable[[Any], Any] = vars(dict)["values"]
_ITEMS: Callable[[Any], Any] = vars(list)["__iter__"]
_PARTS: Callable[[Any], Any] = vars(tuple)["__iter__"]
_STANDARD = frozenset({dict, list, tuple, str, int, float, object, Counter, OrderedDict, defaultdict, UserDict})
_OF_C = frozenset({types.WrapperDescriptorType, types.MethodDescriptorType, types.NoneType})
_READERS = frozenset(
    {"encode", "get", "items", "keys", "values"}
    | {"__float__", "__format__", "__index__", "__int__", "__str__"}
    | {"__contains__", "__getattribute__", "__getitem__", "__iter__", "__len__", "__missing__", "__reversed__"}
)


def _is_a_model(value: Any) -> bool:
    """Whether a value is a Pydantic model; Pydantic need not be installed."""
    return hasattr(_kind(value), "__pydantic_fields__")


def encode_result(value: Any) -> str:
    r"""Return JSON text for a tool's result, which exists already and can no longer be refused.

    A lone surrogate is escaped, and comes back unchanged; a pair of surrogates comes back as the character they stand
    for, from which JSON cannot tell them. A value that JSON cannot hold, or that is nested deeper than `MOST_LEVELS`,
    is kept as its `repr`:

    >>> decode(encode_result("\ud83d\udc00")) == "\U0001f400"
    True
    >>> encode_result({"id": 7}), encode_result("\ud83d"), encode_result(object) == '{"$repr":"<class \'object\'>"}'
    ('{"id":7}', '"\\ud83d"', True)
    """
    try:
        return encode(value)
    except BaseException:  # a user's class may raise anything when looked at, even SystemExit
        return _encode_halves(value) or json.dumps({"$repr": _picture(value)}, separators=(",", ":"))


def recorded_result(value: Any) -> Any:
    """Return a result as a replay returns it: a copy, or its `repr` where JSON cannot hold it."""
    try:
        return snapshot(value)
    except PayloadError:
        return decode(encode_result(value))


def _encode_halves(value: Any) -> str | None:
    """Return canonical JSON text in ASCII where lone surrogates are all that `encode` refuses; else None."""
    try:
        with_room(partial(_check, value, "$", halves=True))
        text: str = with_room(partial(json.dumps, value, sort_keys=True, separators=(",", ":"), default=dict))
    except BaseException:  # as above
        return None
    return None if len(text) > _MOST_BYTES else text


def _picture(value: Any) -> str:
    try:
        return prose(with_room(partial(repr, value)), 10_000)
    except BaseException as error:
        return f"<{type(value).__name__} without a repr: {type(error).__name__}>"


def decode(text: str | None) -> Any:
    """Return the value of a stored JSON text; None stays None.

    >>> decode('{"a":[true,null]}')
    {'a': [True, None]}
    """
    return None if text is None else with_room(partial(json.loads, text))


def fingerprint(text: str) -> str:
    """Return a short digest of an argument text: equal exactly for equal texts.

    >>> fingerprint('{}')
    '44136fa355b3678a1146ad16f7e8649e'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:32]
