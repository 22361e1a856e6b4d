"""Stand-ins for payloads that cannot be read any more, or not here: each says why, wherever it is shown."""

from __future__ import annotations

from typing import ClassVar, Self

from settlemark._model import json_text

_TEXTS = frozenset({"rationale", "error", "note"})


class Unreadable(str):  # noqa: SLOT000 - it has a `why` of its own
    """Stands for a payload that cannot be read, and prints as the reason; a JSON text where that is expected.

    Attributes:
        remedy: what to do about it.
        why: the reason.
        stored: the column's text. Written back, it is left as it is.
    """

    remedy: ClassVar[str] = "Open the ledger with the key, or with the file, that `why` names."
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
    """The key was dropped: nobody can read the payload any more.

    >>> Erased.of("error", "its key 9f3c21aa0b4d is gone")
    'erased: its key 9f3c21aa0b4d is gone'
    >>> Erased.of("result", "its key 9f3c21aa0b4d is gone")
    '{"$erased":"its key 9f3c21aa0b4d is gone"}'
    """

    remedy: ClassVar[str] = (
        "Nothing brings it back; if its key is kept elsewhere, pass it in `encrypt=` with the others."
    )
    _marker = "$erased"


class Outdated(Unreadable):
    """Retention has removed the payload; see `settlemark prune`."""

    remedy: ClassVar[str] = "Nothing brings it back; raise `retention=` to keep later ones for longer."
    _marker = "$pruned"


class Sealed(Unreadable):
    """The payload is encrypted, and this process was given no `encrypt=`."""

    _marker = "$sealed"


class Damaged(Unreadable):
    """The payload was changed, or is encrypted under a key that this process was not given."""

    _marker = "$damaged"


GONE = (Erased, Outdated)
"""Gone for good: no other process can read the payload either."""

__all__ = ["GONE", "Damaged", "Erased", "Outdated", "Sealed", "Unreadable"]
