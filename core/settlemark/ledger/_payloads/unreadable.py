"""What stands for a payload that nobody can read any more, or not here: it says why, wherever it is shown."""

from __future__ import annotations

from typing import Self

from settlemark._model import json_text

_TEXTS = frozenset({"rationale", "error", "note"})


class Unreadable(str):  # noqa: SLOT000 - it has a `why` of its own
    """Stands for a payload that cannot be read, and prints as the reason; a JSON text where that is expected.

    Attributes:
        why: the reason.
        stored: what stands in its column. Written back, it is left as it is.
    """

    why: str
    stored: str = ""
    _marker = "$unreadable"

    @classmethod
    def of(cls, field: str, why: str) -> Self:
        """Return the marker for a field of an effect."""
        text = f"{cls._marker[1:]}: {why}" if field in _TEXTS else json_text.encode({cls._marker: why})
        made = cls(text)
        made.why = why
        return made


class Erased(Unreadable):
    """Its key was dropped: nobody can read it any more.

    >>> Erased.of("error", "its key 9f3c21aa0b4d is gone")
    'erased: its key 9f3c21aa0b4d is gone'
    >>> Erased.of("result", "its key 9f3c21aa0b4d is gone")
    '{"$erased":"its key 9f3c21aa0b4d is gone"}'
    """

    _marker = "$erased"


class Outdated(Unreadable):
    """It was older than the record is kept; see `settlemark prune`."""

    _marker = "$pruned"


class Sealed(Unreadable):
    """It is encrypted, and this process was given no `encrypt=`."""

    _marker = "$sealed"


class Damaged(Unreadable):
    """It was changed, or is sealed under a key that this process was not given."""

    _marker = "$damaged"


GONE = (Erased, Outdated)
"""For good: no other process can read it either."""

__all__ = ["GONE", "Damaged", "Erased", "Outdated", "Sealed", "Unreadable"]
