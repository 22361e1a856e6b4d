"""What a store's failure means for whoever uses the ledger, and what to do about it."""

from __future__ import annotations

from settlemark._errors import LedgerError
from settlemark._wording import message_of

_ADVICE = (
    (("does not exist",), "create it, or name another one"),
    (("readonly", "read-only", "permission denied"), "make the file and its folder writable, or name another file"),
    (("unable to open",), "create its folder, or name another file"),
    (("is full", "no space left", "disk full"), "free some space: nothing was run that could not be recorded"),
    (("locked",), "another process holds it for long: look for one that hangs in a transaction of its own"),
    (("not a database", "malformed"), "this file is something else, or damaged: name another one, or restore a backup"),
    (("i/o error",), "its disk fails, or its files were removed while it was open: see to that, then start anew"),
    (
        ("connection refused", "could not connect", "server closed", "terminating connection", "connection failed",
         "connection is lost", "connection is bad", "consuming input failed", "no route", "timeout expired",
         "is the server running", "the database system is"),
        "the server is not reachable: what was open is taken up when it is back",
    ),
    (("password authentication", "no password"), "check the user and password in the URL"),
)  # fmt: skip


def explain(url: str, error: BaseException) -> LedgerError:
    """Return an error that says what failed and what to do; its cause is the store's own."""
    if isinstance(error, LedgerError):
        error.data.setdefault("url", shown(url))
        return error
    cause = getattr(error, "orig", None) or error
    text = " ".join(message_of(cause).split())
    lowered = text.lower()
    advice = next((told for signs, told in _ADVICE if any(sign in lowered for sign in signs)), "see the cause below")
    failed = LedgerError(f"the ledger {shown(url)} failed: {text}; {advice}", url=shown(url))
    failed.__cause__ = error
    return failed


def shown(url: str) -> str:
    """Return a URL as it may be shown: without its password.

    >>> shown("postgresql+psycopg://ada:secret@db/trips")
    'postgresql+psycopg://ada:***@db/trips'
    """
    head, at, tail = url.rpartition("@")
    scheme, sep, user = head.partition("://")
    if not at or ":" not in user:
        return url
    return f"{scheme}{sep}{user.partition(':')[0]}:***@{tail}"


__all__ = ["explain", "shown"]
