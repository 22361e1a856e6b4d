"""Marks: hidden refs that say under a decision's key what was sent, and what has completed, and since when."""

from __future__ import annotations

from typing import Literal

from settlemark_adapters.git._repository import Repository
from settlemark_adapters.git._work import ROOT, message, named, quoted

What = Literal["sent", "done", "refused"]


def mark(repository: Repository, what: What, key: str, object_: str, note: str = "") -> None:
    """Mark a commit or a tag under a key, with a reason."""
    kind = repository.line("cat-file", "-t", object_)
    # A tag of its own: it has the time of the mark, not the commit's.
    who = repository.line("var", "GIT_COMMITTER_IDENT")
    why = message(note, "") if note else ""
    told = f"object {object_}\ntype {kind}\ntag {what}\ntagger {who}\n\n{named(key)}\n\n{why}"
    repository.change_refs(
        f"update {_ref(what, key)} {repository.line('mktag', told=told.encode(errors='backslashreplace'))}"
    )


def marked(repository: Repository, what: What, key: str) -> str | None:
    """Return the object with this mark under a key, or None."""
    found = repository.ref(_ref(what, key))
    return None if found is None else repository.line("cat-file", "tag", found).split()[1]


def why_marked(repository: Repository, what: What, key: str) -> str | None:
    """Return the reason of such a mark under a key, or None: there is none."""
    found = repository.ref(_ref(what, key))
    if found is None:
        return None
    return (
        repository.git("cat-file", "tag", found)
        .decode(errors="replace")
        .partition("\n\n")[2]
        .partition("\n\n")[2]
        .strip()
    )


def unmark(repository: Repository, what: What, key: str) -> None:
    """Remove a mark."""
    repository.change_refs(f"delete {_ref(what, key)}")


def _ref(what: What, key: str) -> str:
    return f"{ROOT}/{what}/{quoted(key)}"


__all__ = ["mark", "marked", "unmark", "why_marked"]
