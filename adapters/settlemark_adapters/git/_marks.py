"""Marks: hidden refs that say under a decision's key what was sent, and what has come to its end, and since when."""

from __future__ import annotations

from typing import Literal

from settlemark_adapters.git._repository import Repository
from settlemark_adapters.git._work import ROOT, named, quoted

What = Literal["sent", "done"]


def mark(repository: Repository, what: What, key: str, object_: str) -> None:
    """Say of a commit or a tag what becomes of it under a key."""
    kind = repository.line("cat-file", "-t", object_)
    who = repository.line(
        "var", "GIT_COMMITTER_IDENT"
    )  # a tag of its own: it has the time of the mark, not the commit's
    told = f"object {object_}\ntype {kind}\ntag {what}\ntagger {who}\n\n{named(key)}\n"
    repository.change_refs(f"update {_ref(what, key)} {repository.line('mktag', told=told.encode())}")


def marked(repository: Repository, what: What, key: str) -> str | None:
    """Return what is marked so under a key, or None."""
    found = repository.ref(_ref(what, key))
    return None if found is None else repository.line("cat-file", "tag", found).split()[1]


def unmark(repository: Repository, what: What, key: str) -> None:
    """Take a mark back."""
    repository.change_refs(f"delete {_ref(what, key)}")


def _ref(what: What, key: str) -> str:
    return f"{ROOT}/{what}/{quoted(key)}"


__all__ = ["mark", "marked", "unmark"]
