"""The objects as a transaction sees them: the present ones, with its staged changes over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from settlemark_adapters._keyed import to_bytes
from settlemark_adapters.objects._bucket import Bucket


@dataclass(frozen=True, slots=True)
class _Copy:
    """An existing object's content."""

    of: str


@dataclass(frozen=True, slots=True)
class _Untold:
    """Content that a user's own function will write."""


class View:
    """A bucket's objects with staged requests applied.

    Its `put`, `copy` and `delete` refuse what cannot be done, and else change only the view.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._changes: dict[str, bytes | _Copy | _Untold | None] = {}

    def apply(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Apply a staged request to the view; a refused one will not happen."""
        try:
            if tool == "delete_object":
                self.delete(arguments["path"])
            elif tool == "copy_object":
                self.copy(arguments["source"], arguments["destination"])
            elif "content" not in arguments:
                self._changes[arguments["path"]] = _Untold()
            else:
                self.put(arguments["path"], to_bytes(arguments["content"], arguments.get("encoding", "utf-8")))
        except (OSError, ValueError):
            return

    def read(self, key: str) -> bytes:
        """Return an object's bytes.

        Raises:
            OSError: there is none, or it is not known yet.
        """
        content = self._changes.get(key, _Copy(key))
        if isinstance(content, _Copy):
            content = self._bucket.read(content.of)
        if isinstance(content, _Untold):
            raise BlockingIOError(f"{key!r} is written when this step settles: what it will be is not known yet")
        if content is None:
            raise _missing(key)
        return content

    def keys(self, folder: str) -> dict[str, int]:
        """Return the keys of all objects below a folder, with their sizes in bytes."""
        found = self._bucket.keys(folder)
        for key, content in self._changes.items():
            if folder and not key.startswith(f"{folder}/"):
                continue
            if content is None:
                found.pop(key, None)
            else:
                found[key] = 0 if isinstance(content, _Untold) else len(self.read(key))
        return dict(sorted(found.items()))

    def put(self, key: str, data: bytes) -> None:
        """Write an object."""
        self._bucket.check(key)
        self._changes[key] = data

    def copy(self, source: str, target: str) -> None:
        """Copy an object."""
        for key in (source, target):
            self._bucket.check(key)
        self._check_there(source)
        if source == target:
            raise ValueError(f"{source!r} is copied to itself: name another destination")
        self._changes[target] = self._changes.get(source, _Copy(source))

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._bucket.check(key)
        self._check_there(key)
        self._changes[key] = None

    def _check_there(self, key: str) -> None:
        there = self._changes[key] is not None if key in self._changes else self._bucket.has(key)
        if not there:
            raise _missing(key)


def _missing(key: str) -> FileNotFoundError:
    return FileNotFoundError(f"there is no object {key!r}: name one that is there; list_objects tells which")


__all__ = ["View"]
