"""Dotted paths that name fields of a payload."""

from __future__ import annotations

from typing import Any

from settlemark._edges.errors import UsageError


def field_path(path: Any) -> tuple[str, ...]:
    """Parse a field's dotted path, as given to `redact=`.

    Raises:
        UsageError: the path is malformed.

    >>> field_path("card.number")
    ('card', 'number')
    """
    parts = tuple(path.split(".")) if isinstance(path, str) else ()
    if not parts or not all(parts):
        raise UsageError(
            f"redact= has {path!r}: name a field by its dotted path, as in 'password', 'card.number' or '*.token'",
            path=path,
        )
    return parts


__all__ = ["field_path"]
