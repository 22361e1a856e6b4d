"""One commit: what was written together, by whom, why, and under which key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from settlemark.hosting import json_text


@dataclass(frozen=True)
class Commit:
    """The contents of one commit.

    Attributes:
        message: why, in one line.
        author: who, as `Ada` or `Ada <ada@a.example>`.
        at: when, in seconds since 1970.
        contents: by path, the record's text, or None where it is deleted.
        result: what the tool returned, as JSON.
        key: the idempotency key of the call it was made for; None where another program made it.
        request: a digest of that call.
        reverts: the id of the commit that it takes back.
        number: how many there are, with this one.
        parent: the id of the one before it.
        id: its own.
    """

    message: str
    author: str
    at: float
    contents: Mapping[str, str | None] = field(hash=False)
    result: Any = field(default=None, hash=False)
    key: str | None = None
    request: str = ""
    reverts: str | None = None
    number: int = 0
    parent: str | None = None
    id: str = ""

    def after(self, head: Head) -> Self:
        """Return it as the next one; its id is a digest of its contents."""
        placed = replace(self, number=head.number + 1, parent=head.id, id="")
        return replace(placed, id=placed.digest())

    def digest(self) -> str:
        """Return the digest of its contents."""
        return hashlib.sha256(json_text.encode({**self.plain(), "id": ""}).encode()).hexdigest()[:40]

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def entry(self) -> dict[str, Any]:
        """Return its entry for a log."""
        entry = {"commit": self.id, "message": self.message, "author": self.author, "at": self.at}
        return {**entry, "paths": list(self.contents), **({"reverts": self.reverts} if self.reverts else {})}


@dataclass(frozen=True)
class Head:
    """The last commit; number 0 before there is any."""

    number: int = 0
    id: str | None = None


@dataclass(frozen=True)
class Committed:
    """The outcome of a transaction.

    Attributes:
        result: its function's result.
        commit: the id of the commit; None when nothing was to be written.
        records: the records as the commit has them, by path; None where one is deleted.
    """

    result: Any
    commit: str | None
    records: Mapping[str, dict[str, Any] | None] = field(hash=False)

    @property
    def answer(self) -> dict[str, Any]:
        """The tool's answer: its result, with the commit's id."""
        result: Any = self.result
        return {**(result if isinstance(result, dict) else {"result": result}), "commit": self.commit}


__all__ = ["Commit", "Committed", "Head"]
