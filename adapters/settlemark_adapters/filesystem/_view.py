"""The files as a transaction sees them: the present ones, with its staged changes over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from settlemark_adapters._keyed import to_bytes
from settlemark_adapters.filesystem._root import Parts, Root


class _Mark(Enum):
    FOLDER = "folder"
    UNTOLD = "a function of the user's own will write it"


@dataclass(frozen=True, slots=True)
class _File:
    """A future file: an existing one's contents, and more."""

    base: Parts | None
    added: bytes


_Content = _File | _Mark | None


class View:
    """The files below a root with staged requests applied.

    Its `put`, `remove`, `move` and `make` refuse what cannot be done, and else change only the view.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._changes: dict[Parts, _Content] = {}

    def apply(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Apply a staged request to the view; a refused one will not happen.

        Args:
            tool: the unprefixed name of the tool.
            arguments: as the tool takes them; without `content` when a user's own function will write it.
        """
        where = self._root.locate
        try:
            if tool == "delete_file":
                self.remove(where(arguments["path"], through_link=False))
            elif tool == "make_directory":
                self.make(where(arguments["path"]))
            elif tool == "move_file":
                source = where(arguments["source"], through_link=False)
                self.move(source, where(arguments["destination"], through_link=False))
            elif "content" not in arguments:
                self._change(where(arguments["path"]), _Mark.UNTOLD)
            else:
                data = to_bytes(arguments["content"], arguments.get("encoding", "utf-8"))
                self.put(where(arguments["path"]), data, append=tool == "append_file")
        except (OSError, ValueError):
            return

    # ---- reading

    def kind(self, parts: Parts) -> str | None:
        """Return "file", "folder", "other", or None if it is missing."""
        if parts in self._changes:
            content = self._changes[parts]
            return None if content is None else "folder" if content is _Mark.FOLDER else "file"
        return self._root.kind(parts)

    def read(self, parts: Parts) -> bytes:
        """Return the bytes of a file.

        Raises:
            OSError: there is none that can be read.
        """
        shown = self._root.shown(parts)
        kind = self.kind(parts)
        if kind is None:
            raise FileNotFoundError(f"{shown!r} does not exist: name a file that does; list_files tells which do")
        if kind != "file":
            raise IsADirectoryError(f"{shown!r} is no file: name one; list_files tells what a folder has")
        content = self._changes.get(parts, _File(parts, b""))
        if not isinstance(content, _File):
            raise BlockingIOError(f"{shown!r} is written when this step settles: what it will be is not known yet")
        return (b"" if content.base is None else self._root.read(content.base)) + content.added

    def entries(self, parts: Parts) -> dict[str, tuple[str, int]]:
        """Return a folder's entries by name, with kind and size in bytes.

        Raises:
            OSError: there is no such folder.
        """
        shown = self._root.shown(parts)
        kind = self.kind(parts)
        if kind is None:
            raise FileNotFoundError(f"the folder {shown!r} does not exist: name one that does, such as '.'")
        if kind != "folder":
            raise NotADirectoryError(f"{shown!r} is no folder: name one, such as '.'")
        found = {} if parts in self._changes else self._root.entries(parts)
        for changed, content in self._changes.items():
            if changed[:-1] != parts or not changed:
                continue
            if content is None:
                found.pop(changed[-1], None)
            elif content is _Mark.FOLDER:
                found[changed[-1]] = ("folder", 0)
            else:
                found[changed[-1]] = ("file", self._size(content))
        return dict(sorted(found.items()))

    # ---- changes

    def put(self, parts: Parts, data: bytes, *, append: bool) -> None:
        """Write a file, whole or at its end."""
        kind = self._fit(parts)
        if kind is None:
            self._check_into(parts)
        before = self._changes.get(parts, _File(parts, b"")) if append and kind is not None else _File(None, b"")
        self._change(parts, _File(before.base, before.added + data) if isinstance(before, _File) else _Mark.UNTOLD)

    def remove(self, parts: Parts) -> None:
        """Delete a file."""
        self._check_there(parts)
        self._change(parts, None)

    def move(self, source: Parts, target: Parts) -> None:
        """Rename a file."""
        self._check_there(source)
        shown = self._root.shown(target)
        if self.kind(target) is not None:
            raise FileExistsError(f"{shown!r} exists: delete it first, or choose another destination")
        if self.kind(target[:-1]) != "folder":
            raise FileNotFoundError(f"the folder of {shown!r} does not exist: make it first, with make_directory")
        self._check_into(target)
        self._change(target, self._changes.get(source, _File(source, b"")))
        self._change(source, None)

    def make(self, parts: Parts) -> None:
        """Create a folder."""
        self._check_ancestors(parts)
        kind = self.kind(parts)
        if kind not in (None, "folder"):
            raise FileExistsError(f"{self._root.shown(parts)!r} is a file: choose another name for the folder")
        if kind is None:
            self._check_into(parts)
            self._change(parts, _Mark.FOLDER)

    def _size(self, content: _Content) -> int:
        if not isinstance(content, _File):
            return 0
        base = 0 if content.base is None else self._root.path.joinpath(*content.base).stat().st_size
        return base + len(content.added)

    def _change(self, parts: Parts, content: _Content) -> None:
        for count in range(1, len(parts)):
            if self.kind(parts[:count]) is None:
                self._changes[parts[:count]] = _Mark.FOLDER
        self._changes[parts] = content

    # ---- refusals

    def _fit(self, parts: Parts) -> str | None:
        self._check_ancestors(parts)
        kind, shown = self.kind(parts), self._root.shown(parts)
        if kind not in (None, "file"):
            raise IsADirectoryError(f"{shown!r} is a folder or a device: name a file")
        if kind == "file" and parts not in self._changes and not self._root.may_change(parts):
            raise PermissionError(f"{shown!r} is not writable: choose another file, or make it so")
        return kind

    def _check_ancestors(self, parts: Parts) -> None:
        for count in range(1, len(parts)):
            if self.kind(parts[:count]) not in (None, "folder"):
                raise NotADirectoryError(f"{self._root.shown(parts[:count])!r} is a file: nothing can be below it")

    def _check_there(self, parts: Parts) -> None:
        kind, shown = self.kind(parts), self._root.shown(parts)
        if kind is None:
            raise FileNotFoundError(f"{shown!r} does not exist: name a file that does; list_files tells which do")
        if kind != "file":
            raise IsADirectoryError(f"{shown!r} is no file: name one")
        self._check_into(parts)

    def _check_into(self, parts: Parts) -> None:
        depth = self._root.existing(parts[:-1])
        if parts[:-1] not in self._changes and not self._root.may_change(parts[:depth]):
            shown = self._root.shown(parts[:depth])
            raise PermissionError(f"the folder {shown!r} is not writable: choose another, or make it so")


__all__ = ["View"]
