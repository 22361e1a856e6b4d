"""Values of columns as JSON, in two forms: as a model reads and writes them, and exactly, for undoing.

A model sees numbers, texts and truth values unchanged, decimals and dates as text, bytes as `{"base64": "…"}`. The
exact form of a value is the database's own: on PostgreSQL its text, which casts back to any type there is; on SQLite
one of the five kinds of cells.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import sqlalchemy as sa

_MOST = 1 << 63

Exact = dict[str, Any]
"""A row, by its columns' names, in the exact form."""


class Raw(sa.types.UserDefinedType[Any]):
    """A value that goes to the driver unchanged."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the type's name in a cast; there are no casts."""
        raise NotImplementedError


def as_json(value: Any) -> Any:
    """Return a driver's value as a model sees it.

    >>> as_json([Decimal("1.50"), dt.date(2026, 12, 1), b"hi", float("inf"), None])
    ['1.50', '2026-12-01', {'base64': 'aGk='}, 'inf', None]
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(cast("bytes", value)).decode()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {str(name): as_json(item) for name, item in cast("Any", value).items()}
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def exact(value: Any) -> Any:
    """Return a SQLite cell as JSON that keeps its kind and every bit.

    >>> [exact(value) for value in (1, 1.0, float("-inf"), b"hi", None)]
    [1, 1.0, {'real': '-inf'}, {'blob': 'aGk='}, None]
    """
    if isinstance(value, bytes):
        return {"blob": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"real": str(value)}
    return value


def restored(value: Any) -> Any:
    """Return the value whose exact form this is, as it is bound.

    >>> restored(exact(b"hi")), restored(exact(float("inf")))
    (b'hi', inf)
    """
    if isinstance(value, Mapping):
        found = cast("Mapping[str, str]", value)
        return base64.b64decode(found["blob"]) if "blob" in found else float(found["real"])
    return value


def bound(value: Any) -> sa.BindParameter[Any]:
    """Return a parameter that the driver gets unchanged: PostgreSQL reads a text as the column's type."""
    return sa.bindparam(None, value, type_=Raw())


def python_value(column: sa.Column[Any], value: Any, dialect: str) -> Any:
    """Return a model's value for a column as the value to store.

    Raises:
        ValueError: it is invalid for that column's type, or would not be stored exactly; the message says what to give.

    >>> python_value(sa.Column("paid", sa.Numeric), "12.50", "postgresql")
    Decimal('12.50')
    >>> python_value(sa.Column("day", sa.Date), "tomorrow", "sqlite")
    Traceback (most recent call last):
    ValueError: column day takes a date as text, as in "2026-12-01", and not 'tomorrow'
    """
    if value is None or isinstance(column.type, sa.JSON):
        return value
    read, wanted = _READERS.get(_kind(column), (_as_it_is, "plain JSON"))
    try:
        return read(value, column, dialect)
    except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
        why = f": {error}" if isinstance(error, _Inexact) else ""
        raise ValueError(f"column {column.name} takes {wanted}, and not {value!r:.80}{why}") from None


def parameter(column: sa.Column[Any], value: Any, dialect: str) -> Any:
    """Return the expression that stores a value that `python_value` returned."""
    if value is None:
        return sa.null()
    if dialect == "sqlite" and isinstance(column.type, sa.Numeric):
        return bound(value)  # its type would turn every number into a float
    typed = _kind(column) is not None or isinstance(column.type, sa.JSON)
    return bound(value) if not typed else sa.bindparam(None, value, type_=column.type, unique=True)


def segment(value: Any) -> Any:
    """Return a primary key's value for `escape`: one value, one name."""
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case Decimal():
            return format(value.normalize() + 0, "f")
        case dt.time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return value


class _Inexact(ValueError):
    """A value that the database could not store exactly."""


def _kind(column: sa.Column[Any]) -> type[Any] | None:
    try:
        kind = column.type.python_type
    except NotImplementedError:
        return None
    return kind if kind in _READERS else None


def _as_it_is(value: Any, column: sa.Column[Any], dialect: str) -> Any:
    if dialect != "sqlite" or not isinstance(value, int | float):
        return value
    # A cell keeps a truth value as the number: as a key, both are one row.
    return _whole(int(value), column, dialect) if isinstance(value, int) else _real(value, column, dialect)


def _text(value: Any, _column: sa.Column[Any], _dialect: str) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _truth(value: Any, _column: sa.Column[Any], _dialect: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any, _column: sa.Column[Any], _dialect: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    if not -_MOST <= value < _MOST:
        raise _Inexact("it has more than 64 bits")
    return value


def _real(value: Any, _column: sa.Column[Any], dialect: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError
    number = float(value)
    if math.isnan(number):
        if dialect == "sqlite":
            raise _Inexact("SQLite keeps it as no value at all")
    elif number != value:
        raise _Inexact("it has more than 53 bits")
    return number


def _decimal(value: Any, _column: sa.Column[Any], dialect: str) -> Decimal | float:
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        raise TypeError
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise TypeError from None
    if not number.is_finite():
        raise TypeError
    if dialect != "sqlite":
        return number
    if number == number.to_integral_value() and abs(number) < _MOST:
        return int(number)
    if Decimal(repr(float(number))) != number:
        raise _Inexact("SQLite keeps it as a float, which differs: keep whole numbers of a smaller unit")
    return float(number)


def _bytes(value: Any, _column: sa.Column[Any], _dialect: str) -> bytes:
    if not isinstance(value, Mapping) or set(cast("Any", value)) != {"base64"}:
        raise TypeError
    try:
        return base64.b64decode(cast("Any", value)["base64"], validate=True)
    except binascii.Error:
        raise TypeError from None


def _datetime(value: Any, column: sa.Column[Any], dialect: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(value)
    zoned = bool(getattr(column.type, "timezone", False)) and dialect != "sqlite"
    if zoned != (found.tzinfo is not None):
        raise _Inexact("give its offset from UTC" if zoned else "leave out the offset: it would be dropped")
    return found


def _date(value: Any, _column: sa.Column[Any], _dialect: str) -> dt.date:
    return dt.date.fromisoformat(value)


def _time(value: Any, _column: sa.Column[Any], _dialect: str) -> dt.time:
    return dt.time.fromisoformat(value)


def _uuid(value: Any, _column: sa.Column[Any], _dialect: str) -> uuid.UUID:
    return uuid.UUID(value)


_READERS: dict[type[Any] | None, tuple[Callable[[Any, sa.Column[Any], str], Any], str]] = {
    str: (_text, "text"),
    bool: (_truth, "true or false"),
    int: (_whole, "a whole number"),
    float: (_real, "a number"),
    Decimal: (_decimal, 'a number, or one as text, as in "12.50"'),
    bytes: (_bytes, 'bytes as {"base64": "…"}'),
    dt.datetime: (_datetime, 'a time as text, as in "2026-12-01T09:30:00"'),
    dt.date: (_date, 'a date as text, as in "2026-12-01"'),
    dt.time: (_time, 'a time of day as text, as in "09:30:00"'),
    uuid.UUID: (_uuid, "a UUID as text"),
}

__all__ = ["Exact", "Raw", "as_json", "bound", "exact", "parameter", "python_value", "restored", "segment"]
