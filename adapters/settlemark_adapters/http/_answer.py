"""A server's answer: a status, headers, and a content that is JSON, or a text of bounded length."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from typing import Any, Never

from settlemark_adapters.http._secrets import Secrets

_SHOWN = 200


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        status: its status.
        headers: its headers, named in lower case.
        raw: its content, as far as it was read.
        whole: whether that is all of it.
    """

    status: int
    headers: Mapping[str, str]
    raw: bytes = field(repr=False)
    whole: bool
    secrets: Secrets = field(repr=False)

    @property
    def ok(self) -> bool:
        """Whether the status says that it was done."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @cached_property
    def _parsed(self) -> tuple[bool, Any]:
        if not self.raw and self.whole:
            return True, None
        try:
            if not self.whole:
                return False, None
            # A lone surrogate, as in "\ud800", cannot be stored anywhere.
            value = json.loads(self.raw, parse_constant=_no_number, parse_float=_finite)
            text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
            return True, self.secrets.scrub(json.loads(text))
        except (ValueError, RecursionError):
            return False, None

    @property
    def is_json(self) -> bool:
        """Whether its content is JSON; an empty content counts."""
        return self._parsed[0]

    @property
    def content(self) -> Any:
        """Its JSON data, without secrets; for other content `{"status", "type", "text"}`, and `truncated`."""
        parsed, value = self._parsed
        if parsed:
            return value
        told = {"status": self.status, "type": self.headers.get("content-type", ""), "text": self.text}
        return told if self.whole else told | {"truncated": True}

    @property
    def text(self) -> str:
        """Its content as text, without secrets."""
        scrubbed: str = self.secrets.scrub(self.raw.decode(errors="replace"))
        return scrubbed

    def header(self, name: str) -> str | None:
        """Return one of its headers, without secrets, or None."""
        found: str | None = self.secrets.scrub(self.headers.get(name.lower()))
        return found

    @property
    def digest(self) -> str:
        """A digest that differs when the resource has changed: its ETag, else of the content."""
        etag = self.headers.get("etag")
        return etag or f"{self.status}:{hashlib.sha256(self.raw).hexdigest()}"

    def retry_after(self, now: float) -> float | None:
        """Return after how many seconds the server wants to be asked again, or None; given in seconds or as a date.

        >>> Answer(503, {"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, b"", True, Secrets({})).retry_after(90.0)
        30.0
        """
        told = self.headers.get("retry-after", "").strip()
        if told.isascii() and told.isdigit():
            return float(told)
        try:
            return max(0.0, parsedate_to_datetime(told).timestamp() - now)
        except (ValueError, OverflowError, OSError, TypeError, IndexError):  # the parser's errors for odd texts
            return None

    def __str__(self) -> str:
        said = " ".join(self.text.split())
        return f"{self.status}{f' ({said[:_SHOWN]})' if said else ''}"


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)
