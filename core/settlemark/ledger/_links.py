"""One-time links on record: the bearer of the token answers one question, once, in somebody's name.

The token itself is nowhere on record: its digest is, as the id of an entry of the question's run.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from settlemark._edges.errors import UsageError
from settlemark._model import json_text
from settlemark.ledger._approvals import approval_of_key
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Draft
from settlemark.ledger._payloads.unreadable import Unreadable

KIND = "link"
OPEN = "open"


class Link(NamedTuple):
    """What a token is for.

    Attributes:
        key: of the call that is asked about.
        seen: the digest of the arguments that are shown with the link.
        by, roles: in whose name it answers, and as what.
        round: of the question that it answers.
    """

    key: str
    seen: str
    by: str
    roles: tuple[str, ...]
    round: int


def link_id(token: str) -> str:
    """Return the id under which a token's link is on record."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def add_link(book: Book, token: str, link: Link, *, run: str, name: str | None, attempt: int | None, at: float) -> None:
    """Record that a token answers a question."""
    body = json_text.encode({**link._asdict(), "roles": list(link.roles)})
    book.entries.add(Draft(KIND, link_id(token), run, OPEN, at, body, name, attempt, link.key))


def linked(book: Book, token: str) -> str | None:
    """Return the key of the call that a link is about; None where it answers nothing."""
    entry = book.entries.get(KIND, link_id(token))
    if entry is None or isinstance(entry.body, Unreadable) or not entry.kept:
        return None
    return str(json_text.decode(entry.body)["key"])


def use_link(book: Book, token: str, decision: str, at: float) -> Link:
    """Record that a link is used for a decision, and return it; a second time, for the same one alone.

    Raises:
        UsageError: there is no such link, it was used for another decision, or its question was put again since;
            nothing was recorded.
    """
    entry = book.entries.get(KIND, link_id(token))
    if entry is None or isinstance(entry.body, Unreadable) or not entry.kept:
        raise UsageError("this link answers nothing: it is none, or too old; nothing was recorded")
    if entry.state not in (OPEN, decision):
        raise UsageError(f"this link was used already, to {entry.state}; nothing was recorded", decision=entry.state)
    said: dict[str, Any] = json_text.decode(entry.body)
    asked, of = approval_of_key(book, said["key"]), int(said.get("round", 0))
    if asked is not None and asked.round > of:
        raise UsageError(
            f"this link answers what was asked before: its answers were taken back, and {asked.key} is asked about"
            " again; nothing was recorded: answer by the newest link, or with settlement.approve(…)",
            key=asked.key,
        )
    if entry.state == OPEN:
        book.entries.change(KIND, entry.id, state=decision, at=at, from_version=entry.version)
    return Link(said["key"], said["seen"], said["by"], tuple(said["roles"]), of)


__all__ = ["KIND", "Link", "add_link", "link_id", "linked", "use_link"]
