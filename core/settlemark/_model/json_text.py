"""Payloads are JSON: one canonical text for storing, comparing and fingerprinting them."""

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

# Python itself refuses to write integers much longer than this (4300 digits by default).
_MOST_BITS = 13_000
_PLAIN = 1 << 63
_MOST_PATH = 60
_SCALARS = frozenset({str, int, float, bool, bytes, type(None)})
_MOST_BYTES = 1 << 28
"""Of a payload's text: PostgreSQL takes a gigabyte a field, and a message that is too long ends the connection."""
MOST_LEVELS = 100
"""Of lists and objects within each other, the outermost included: what every JSON library and store carries."""
# `type` itself, annotated: a checker takes the type of an `Any` for partly unknown.
_kind: Callable[[Any], type[Any]] = type
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict)
# `JSONEncoder.encode` builds its C encoder anew for every call, which costs more than the encoding of a
# small payload; without the C module (other Pythons have none) it serves as it is.
_make: Any = getattr(encoder, "c_make_encoder", None)
_iterencode: Any = _make(None, dict, encoder.encode_basestring, None, ":", ",", True, False, False) if _make else None
_write_ascii: Any = (
    _make(None, dict, encoder.encode_basestring_ascii, None, ":", ",", False, False, False) if _make else None
)


def _text(value: Any) -> str:
    """Return the canonical text of a value that is known to be plain."""
    return "".join(_iterencode(value, 0)) if _iterencode else _ENCODER.encode(value)


def _all_plain(value: dict[Any, Any]) -> bool:
    """Whether a dict surely passes the check: the common case, kept cheap."""
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
    """Return when `value` can be stored as JSON and come back equal (tuples come back as lists).

    Raises:
        PayloadError: naming the first place that cannot, before any effect runs.

    >>> check({"to": "a@b.example", "rooms": [1, 2]})
    >>> check({"when": {1, 2}})
    Traceback (most recent call last):
    settlemark._edges.errors.PayloadError: $.when is a set, which JSON cannot hold: pass a list instead
    """
    _limited(partial(_check, value, path))


def _limited(work: Callable[[], Any]) -> Any:
    try:
        return with_room(work)
    except RecursionError:  # what a class of somebody's own says of itself, or a copy of it
        raise _too_deep("$") from None


def with_room(work: Callable[[], Any]) -> Any:
    """Return what a function returns that goes down a payload: how deep its caller stands makes no difference.

    Where the stack is full it is done again in a thread, which has a stack of its own: an outcome that is to be
    recorded cannot wait for one.

    Raises:
        RecursionError: that is too small as well.
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
        f"{path} is nested too deeply, or contains itself: {MOST_LEVELS} levels are the most; pass plain data instead",
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
    if str.isascii(text):  # not what a class of somebody's own says of itself
        return
    try:
        str.encode(text)
    except UnicodeEncodeError:
        raise PayloadError(
            f"{path} has a lone surrogate in {brief(text)}, half a character that no store can hold: replace it",
            path=path,
        ) from None


def encode_ascii(value: Any) -> str:
    """Return a compact JSON text, for what is no user's: nothing is checked, and no order is made."""
    return "".join(_write_ascii(value, 0)) if _write_ascii else json.dumps(value, separators=(",", ":"))


def encode_texts(texts: list[str]) -> str:
    """Return the canonical JSON text of a list of texts that were checked when they were made."""
    return _text(texts)


def encode(value: Any) -> str:
    """Return the canonical JSON text of a value that `check` accepts.

    >>> encode({"b": 1, "a": (True, None)})
    '{"a":[true,null],"b":1}'
    """
    if not (_kind(value) is dict and _all_plain(value)):
        check(value)
    # `default` is asked only for mappings that are no dict: all else has been checked.
    text: str = with_room(partial(_text, value))
    if len(text) * 4 > _MOST_BYTES and len(text.encode()) > _MOST_BYTES:  # a character has four bytes at most
        raise PayloadError(f"$ is over {_MOST_BYTES:,} bytes long as JSON: keep it elsewhere, and pass where", path="$")
    return text


def snapshot(value: Any) -> Any:
    """Return an equal value that shares nothing with the given one which could change.

    What is no plain data keeps its type where that can be copied; an object of which nobody can tell stays as it is.

    Raises:
        PayloadError: it has more than `MOST_LEVELS`, or contains itself.

    >>> guests = ["Ada"]
    >>> kept = snapshot({"guests": guests})
    >>> guests.append("Bob")
    >>> kept
    {'guests': ['Ada']}
    """
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
    """Whether a value of no plain type is one that may be changed behind the record's back."""
    kinds = (str, int, float, list, tuple, Mapping, set, frozenset, bytearray)
    return isinstance(value, kinds) or is_dataclass(value) or _is_a_model(value)


def _copy_of_a_class(value: Any, level: int) -> Any:
    """Return a copy of what is of no plain type: of its own type, or else as the record has it."""
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
    except BaseException:  # whatever a class of somebody's own raises
        made = value
    return made if made is not value and _kind(made) is _kind(value) else _as_recorded(value, level + 1)


def _as_recorded(value: Any, below: int) -> Any:
    """Return what the record has of a value whose class cannot be copied, or says for itself what it holds.

    Of the latter it is asked once.
    """
    if isinstance(value, Mapping):
        return {_copy(key, below): _copy(item, below) for key, item in cast("Any", value).items()}
    if isinstance(value, list | tuple):
        items = [_copy(item, below) for item in cast("Any", value)]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, str):
        return str.__str__(value)  # not what its class makes of itself
    if isinstance(value, float):
        return float.__float__(value)
    return int.__int__(value) if isinstance(value, int) else value


def _is_as_it_reads(value: Any) -> bool:
    """Whether whoever reads a value finds what it holds: its class, or one within, has not its own words for that.

    Those may change from one reading to the next: then the record, the scope, an approver and the tool would each find
    something else. A mapping that is no dict has nothing but its own words.
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
        return True  # no record holds it
    return not _has_its_own_words(kind) and all(map(_is_as_it_reads, held))


def _has_its_own_words(kind: type[Any]) -> bool:
    """Whether somebody's own Python code says what a reader of this class finds."""
    return any(
        type(vars(each)[name]) not in _OF_C
        for each in kind.__mro__
        if each not in _STANDARD
        for name in vars(each).keys() & _READERS
    )


# What is held, whatever the class of it says.
_KEYS: Callable[[Any], Any] = vars(dict)["keys"]
_VALUES: Callable[[Any], Any] = vars(dict)["values"]
_ITEMS: Callable[[Any], Any] = vars(list)["__iter__"]
_PARTS: Callable[[Any], Any] = vars(tuple)["__iter__"]
_STANDARD = frozenset({dict, list, tuple, str, int, float, object, Counter, OrderedDict, defaultdict, UserDict})
_OF_C = frozenset({types.WrapperDescriptorType, types.MethodDescriptorType, types.NoneType})
_READERS = frozenset({
    "__contains__", "__float__", "__format__", "__getattribute__", "__getitem__", "__index__", "__int__", "__iter__",
    "__len__", "__missing__", "__reversed__", "__str__", "encode", "get", "items", "keys", "values",
})  # fmt: skip


def _is_a_model(value: Any) -> bool:
    """Whether it is a model of Pydantic, which need not be installed."""
    return hasattr(_kind(value), "__pydantic_fields__")


def encode_result(value: Any) -> str:
    r"""Return JSON text for a tool's result, which exists already and can no longer be refused.

    Half a character is escaped, and comes back as it was; two halves that belong together come back as the character
    that they are, from which JSON cannot tell them. What JSON cannot hold, or has more than `MOST_LEVELS`, is kept as
    its `repr`, so that an account of it survives:

    >>> decode(encode_result("\ud83d\udc00")) == "\U0001f400"
    True
    >>> encode_result({"id": 7}), encode_result("\ud83d"), encode_result(object) == '{"$repr":"<class \'object\'>"}'
    ('{"id":7}', '"\\ud83d"', True)
    """
    try:
        return encode(value)
    except BaseException:  # whatever a value of somebody's own class raises when it is looked at, a SystemExit too
        return _encode_halves(value) or json.dumps({"$repr": _picture(value)}, separators=(",", ":"))


def recorded_result(value: Any) -> Any:
    """Return what a replay would have of a result: a copy, or what is told of it where JSON cannot hold it."""
    try:
        return snapshot(value)
    except PayloadError:
        return decode(encode_result(value))


def _encode_halves(value: Any) -> str | None:
    """Return canonical JSON text in ASCII for what only half a character keeps from `encode`, or None."""
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
    """Return a short digest under which two argument texts are equal exactly when they are.

    >>> fingerprint('{}')
    '44136fa355b3678a1146ad16f7e8649e'
    """
    return hashlib.sha256(text.encode()).hexdigest()[:32]
