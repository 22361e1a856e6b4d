"""Removes the secrets that go with every request from everything that comes back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

_SHORTEST = 6  # shorter ones occur in too many texts by chance
_PUBLIC = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_SCRUBBED = "[redacted]"


class Secrets:
    """The secret parts of headers; every header is secret, except a few known ones, and those named `…-Version`.

    Args:
        headers: those that go with every request.
        more: other secret texts.

    >>> Secrets({"Authorization": "Bearer sk_live_7"}).scrub({"you sent": ["sk_live_7"]})
    {'you sent': ['[redacted]']}
    """

    def __init__(self, headers: Mapping[str, str], more: Collection[str] = ()) -> None:
        found = set(more)
        for name, value in headers.items():
            if name.lower() not in _PUBLIC and not name.lower().endswith("-version"):
                scheme, _, rest = value.partition(" ")
                found |= {value, rest, *(_password(rest) if scheme.lower() == "basic" else ())}
        # The longest first: one may be a part of another.
        self._found = sorted((text for text in found if len(text) >= _SHORTEST), key=len, reverse=True)

    def scrub(self, value: Any) -> Any:
        """Return JSON data without the secrets."""
        if isinstance(value, str):
            for secret in self._found:
                value = value.replace(secret, _SCRUBBED)
            return value
        if isinstance(value, Mapping):
            parts = cast("Mapping[str, Any]", value)
            return {self.scrub(name): self.scrub(part) for name, part in parts.items()}
        if isinstance(value, list):
            return [self.scrub(part) for part in cast("Sequence[Any]", value)]
        return value


def _password(encoded: str) -> tuple[str, ...]:
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ()
    return (password, f"{user}:{password}")
