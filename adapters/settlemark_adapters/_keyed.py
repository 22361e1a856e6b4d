"""What an adapter keeps at its counterparty under a call's key, and for which call."""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from settlemark import Effect, InDoubt, KeyConflict, Scope, current_call
from settlemark.hosting import in_words, json_text

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Order:
    """Something to be done once, under a key.

    Attributes:
        tool, about: the tool's name, and what it acts on, for people.
        key, mark: the call's key, and the name of the record under it.
        digest: of the arguments: one key always has the same arguments.
        alone: nobody will undo or probe it.
        keeps: keep what was there before, since it may be undone.
        scopes: the call's claims; None for a call without a transaction.
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
        """Return the order of a tool's running call, or a fresh one for a bare call.

        A tool that calls this one, as a part of its own work, is another call with another key.
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
        """Check that the order recorded under the key is this very one.

        Raises:
            KeyConflict: it is another one.
        """
        if (tool, digest) != (self.tool, self.digest):
            raise KeyConflict(
                f"{self.tool} on {self.about} was not done: {self.key} is already used here by another call of"
                f" {tool}, from another ledger; give each ledger that acts here a namespace= of its own",
                key=self.key,
                recorded={"tool": tool, "digest": digest},
                given={"tool": self.tool, "digest": self.digest},
            )

    def in_doubt(self, why: str) -> InDoubt:
        """Return the error of a call of which nobody can tell what it has done."""
        return InDoubt(
            f"whether {self.tool} on {self.about} happened is unknown{why}: look at it, and do not repeat it",
            key=self.key,
            tool=self.tool,
            scope=self.about,
        )

    @contextmanager
    def closing(self, failure: BaseException | None = None) -> Generator[None]:
        """Record, or put back, what a user's own function has done, within this; a failure here is no "it did not".

        Args:
            failure: what the function has raised; an interrupt stays what is raised.

        Raises:
            InDoubt: the act is there, in part or whole, and is neither on record nor put back.
        """
        try:
            yield
        except Exception as fault:
            done = "is not on record" if failure is None else "is not put back"
            why = f" (what it has done {done}: {in_words(fault)})"
            if failure is None or isinstance(failure, Exception):
                raise self.in_doubt(why) from (fault if failure is None else failure)
            BaseException.add_note(failure, f"{self.tool} on {self.about}{why}")

    def check_claimed(self, scope: str) -> None:
        """Check that the call has claimed what it is about to touch.

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
    """Check that nothing is on record under the key of a call that is made for the first time.

    Args:
        key: the call's.
        about: what it acts on, for people.
        known: whether something is on record.

    Raises:
        KeyConflict: there is a record, of a call that the ledger does not know.
    """
    if known:
        raise KeyConflict(
            f"nothing was done to {about}: {key} is already used here by a call that this ledger does not know, from"
            " another ledger (a copy of this one), or from this one before it was restored from a backup: look at"
            " what that call did, then take another name for this step",
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
    """Return the one of these tools that the running call is of, or None."""
    return next((tool for tool in tools if _running(tool) is not None), None)


def mark_of(key: str) -> str:
    """Return the name of the record under a key, in plain characters only.

    >>> mark_of("trip#1/0")[:12]
    '5970c707f529'
    """
    return hashlib.sha256(key.encode()).hexdigest()[:40]


def digest_of(arguments: Mapping[str, Any]) -> str:
    """Return a digest that is equal for two calls exactly when their arguments are."""
    return json_text.fingerprint(json_text.encode(arguments))


def to_bytes(content: str, encoding: str) -> bytes:
    r"""Decode a text into bytes, from an encoding or from `base64`.

    Raises:
        ValueError: there is no such encoding, or the text is not valid in it.

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
    """Decode bytes into a text, in an encoding or as `base64`.

    Raises:
        ValueError: there is no such encoding, or the bytes are not valid in it.
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
