"""What an adapter leaves at its counterparty under a call's key, and for which call it does so."""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from settlemark import Effect, KeyConflict, Scope, current_call
from settlemark.hosting import json_text

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done once, and under which key.

    Attributes:
        tool, about: the tool's name, and what it acts on, for people.
        key, mark: the call's key, and the name of what is kept under it.
        digest: of the arguments: under one key there are no others.
        alone: nobody will undo it or ask about it.
        keeps: what was there before is to be kept, since it may be undone.
        scopes: what the call has claimed, None when it is part of no transaction.
    """

    tool: str
    about: str
    key: str
    mark: str
    digest: str
    alone: bool
    keeps: bool
    scopes: tuple[Scope, ...] | None

    @classmethod
    def of(cls, tool: str, about: str, arguments: Mapping[str, Any]) -> Order:
        """Return the order that the running call of a tool gives, or a fresh one when it is called bare.

        A tool that calls this one, as a part of its own work, is another call: its key is not for this.
        """
        call, effect = current_call(), _running(tool)
        key = uuid.uuid4().hex if call is None or effect is None else call.key
        return cls(
            tool,
            about,
            key,
            mark_of(key),
            digest_of(arguments),
            alone=effect is None,
            keeps=effect is not None and effect.declaration.undo is not None,
            scopes=None if effect is None else effect.scopes,
        )

    def check_same(self, tool: str, digest: str) -> None:
        """Return when what was recorded under the key is this very order.

        Raises:
            KeyConflict: it is another one.
        """
        if (tool, digest) != (self.tool, self.digest):
            raise KeyConflict(
                f"{self.tool} on {self.about} was not done: {self.key} stands for another call of {tool} here, made by"
                " another ledger; give each ledger that acts here a namespace= of its own",
                key=self.key,
                recorded={"tool": tool, "digest": digest},
                given={"tool": self.tool, "digest": self.digest},
            )

    def check_claimed(self, scope: str) -> None:
        """Return when what is to be touched is in what the call has claimed.

        Raises:
            PermissionError: the name led elsewhere when it was called.
        """
        found = Scope.parse(scope)
        if self.scopes is not None and not any(claimed.covers(found) for claimed in self.scopes):
            raise PermissionError(
                f"{self.tool} on {self.about} was not done: it led to {self.scopes[0]} when it was called, and leads to"
                f" {found} now; call it again, as it is now"
            )


def check_new(key: str, about: str, *, known: bool) -> None:
    """Return when nothing is on record under the key of a call that is made for the first time.

    Args:
        key: the call's.
        about: what it acts on, for people.
        known: whether something is.

    Raises:
        KeyConflict: it is, and that is no call that the ledger knows.
    """
    if known:
        raise KeyConflict(
            f"nothing was done to {about}: {key} stands here for a call that this ledger does not know, made by another"
            " ledger (a copy of this one), or by this one before it was restored from a backup: look at what that call"
            " did, then take another name for this step",
            key=key,
        )


def running() -> Effect | None:
    """Return the effect that is being called, checked or released, or None."""
    call = current_call()
    return None if call is None else call.effect


def _running(tool: str) -> Effect | None:
    effect = running()
    return effect if effect is not None and effect.declaration.tool == tool else None


def tool_running(tools: Iterable[str]) -> str | None:
    """Return which of these tools the running call is of, or None."""
    return next((tool for tool in tools if _running(tool) is not None), None)


def mark_of(key: str) -> str:
    """Return the name of what is kept under a key: of plain characters, whatever the key has.

    >>> mark_of("trip#1/0")[:12]
    '5970c707f529'
    """
    return hashlib.sha256(key.encode()).hexdigest()[:40]


def digest_of(arguments: Mapping[str, Any]) -> str:
    """Return a digest under which two calls' arguments are equal exactly when they are."""
    return json_text.fingerprint(json_text.encode(arguments))


def to_bytes(content: str, encoding: str) -> bytes:
    r"""Return what a text stands for, in an encoding or as `base64`.

    Raises:
        ValueError: there is no such encoding, or the text is none in it.

    >>> to_bytes("ÿ", "utf-8"), to_bytes("AAE=", "base64")
    (b'\xc3\xbf', b'\x00\x01')
    """
    try:
        if encoding == "base64":
            return base64.b64decode(content, validate=True)
        return content.encode(encoding)
    except (LookupError, UnicodeError, binascii.Error, AttributeError) as error:
        raise ValueError(f"the content is no {encoding}: {error}; choose another encoding, or base64") from None


def to_text(data: bytes, encoding: str, about: str) -> str:
    """Return bytes as a text, in an encoding or as `base64`.

    Raises:
        ValueError: there is no such encoding, or they are no text in it.
    """
    try:
        return base64.b64encode(data).decode() if encoding == "base64" else data.decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise ValueError(f"{about} is no {encoding}: {error}; choose another encoding, or base64") from None


__all__ = [
    "DAY",
    "Order",
    "check_new",
    "digest_of",
    "mark_of",
    "running",
    "to_bytes",
    "to_text",
    "tool_running",
]
