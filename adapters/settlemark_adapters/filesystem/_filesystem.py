"""The tools on a folder: read, list, write, append, move, delete, make a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from settlemark import Settlement, current_call
from settlemark.hosting import EffectName
from settlemark_adapters._adapter import operation
from settlemark_adapters._fence import FileFence, Leased
from settlemark_adapters._keeping import Keeping
from settlemark_adapters._keyed import Order, check_new, mark_of, to_bytes, to_text
from settlemark_adapters.filesystem._acts import Acts
from settlemark_adapters.filesystem._plans import Planning, Plans
from settlemark_adapters.filesystem._records import FENCE, Records
from settlemark_adapters.filesystem._root import OWN, Parts, Root
from settlemark_adapters.filesystem._view import View


class Filesystem(Keeping):
    """The files below a root, as tools.

    Args:
        root: a folder; nothing outside of it is read or written.
        settlement, name, effects: as for every `Adapter`.
        staged: nothing is written before the commit, and then each file by one rename; reads of the same transaction
            see what it has staged. Else files change at once, and an abort restores them.
        state: a folder on the same file system for what undoing needs; `.settlemark` in the root by default.
        keep_days: days for which that is kept; see `prune`.
        lease: a lease on the folder, or a function that returns the one of the running work: nothing is changed under a
            lesser token than the greatest that has changed something here, nor without one from then on (`Fenced`).

    Laws: an act happens once under its key, whole or not at all, wherever its process dies. An abort restores bytes,
    mode and time, and removes new files; a file changed by another writer since stays, and is named. Two spellings
    of one file are one scope. A written file is a new one in the place of the old: other hard links, and open handles,
    keep the old contents.

    Raises:
        FileNotFoundError, NotADirectoryError: there is no such root.
        ValueError: `state` or `keep_days` is invalid.

    >>> import tempfile, pathlib
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> settlement = Settlement("memory:")
    >>> files = Filesystem(root, settlement)
    >>> with settlement.transaction("monday") as tx:
    ...     tx.call(files.write, path="notes/today.txt", content="call Ada")
    {'path': 'notes/today.txt', 'bytes': 8}
    >>> with settlement.transaction("tuesday") as tx:
    ...     tx.call(files.delete, path="notes/today.txt")
    ...     raise ValueError("the step failed")
    Traceback (most recent call last):
    ValueError: the step failed
    >>> files.read("notes/today.txt")
    'call Ada'
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        settlement: Settlement | None = None,
        *,
        staged: bool = False,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
        state: str | os.PathLike[str] | None = None,
        keep_days: float = 30.0,
        lease: Leased = None,
    ) -> None:
        self._root = Root(root)
        self._records = Records(self._root, state)
        fence = FileFence(self._root.path / OWN / f"{FENCE}.json", lease, self._root.scope(()))
        self._acts = Acts(self._root, self._records, fence)
        self._plans = Plans(self._root)
        super().__init__(settlement, staged=staged, name=name, effects=effects, keep_days=keep_days)

    @property
    def root(self) -> str:
        """Its folder, an absolute path without links."""
        return str(self._root.path)

    # ---- scopes

    def _place(self, path: str) -> str:
        return self._root.scope(self._root.locate(path))

    def _place_made(self, path: str) -> str:
        """Return the scope of a file or folder, or of the first folder that would be created for it."""
        parts = self._root.locate(path)
        return self._root.scope(parts[: self._root.existing(parts[:-1]) + 1])

    def _place_itself(self, path: str) -> str:
        return self._root.scope(self._root.locate(path, through_link=False))

    def _places(self, source: str, destination: str) -> tuple[str, str]:
        return self._place_itself(source), self._place_itself(destination)

    # ---- checks

    def _fit_write(self, path: str, content: str = "", encoding: str = "utf-8") -> None:
        data = to_bytes(content, encoding)
        self._fit(path, lambda view: view.put(self._root.locate(path), data, append=False))

    def _fit_make(self, path: str) -> None:
        self._fit(path, lambda view: view.make(self._root.locate(path)))

    def _fit_delete(self, path: str) -> None:
        self._fit(path, lambda view: view.remove(self._root.locate(path, through_link=False)))

    def _fit_move(self, source: str, destination: str) -> None:
        where = self._root.locate
        self._fit(
            source, lambda view: view.move(where(source, through_link=False), where(destination, through_link=False))
        )

    def _fit(self, path: str, do: Callable[[View], None]) -> None:
        """Check that a call can be made."""
        call = current_call()
        if call is None:
            return
        with self._records.desk(mark_of(call.key)) as desk:
            check_new(call.key, repr(path), known=desk.load() is not None)
        if self._waits():
            do(self._seen())

    # ---- undo and probe

    def _undo(self, key: str, path: str = "", destination: str = "") -> None:
        self._acts.undo(mark_of(key), repr(path or destination))

    def _probe(self, key: str) -> Any:
        return self._acts.probe(mark_of(key))

    def _kept(self, path: str) -> AbstractContextManager[None]:
        return self._acts.keeping(self._order_theirs(path), self._root.locate(path))

    def _kept_both(self, source: str, destination: str) -> AbstractContextManager[None]:
        where = self._root.locate
        return self._acts.keeping(self._order_theirs(source), where(source), where(destination))

    # ---- the tools

    @operation("read_file", "read", scope=_place)
    def read(self, path: str, encoding: str = "utf-8") -> str:
        """Read a file.

        Args:
            path: the file, relative to the root.
            encoding: of its text; `base64` for bytes.
        """
        parts = self._root.locate(path)
        return to_text(self._seen().read(parts), encoding, repr(path))

    @operation("list_files", "read", scope=_place)
    def entries(self, path: str = ".") -> list[dict[str, str | int]]:
        """List what a folder has: of each its name, its kind and its size in bytes.

        Args:
            path: the folder, relative to the root.
        """
        parts = self._root.locate(path)
        found = self._seen().entries(parts)
        return [{"name": _printable(name), "kind": kind, "bytes": size} for name, (kind, size) in found.items()]

    @operation("write_file", "reversible", scope=_place_made, check=_fit_write, undo=_undo, probe=_probe, around=_kept)
    def write(self, path: str, content: str, encoding: str = "utf-8") -> dict[str, str | int]:
        """Write a file, in place of what it was; folders that it lacks are made.

        Args:
            path: the file, relative to the root.
            content: all that it is to hold.
            encoding: of its text; `base64` when the content is bytes in base64.
        """
        return self._put("write_file", path, content, encoding, append=False)

    @operation("append_file", "reversible", scope=_place_made, check=_fit_write, undo=_undo, probe=_probe, around=_kept)
    def append(self, path: str, content: str, encoding: str = "utf-8") -> dict[str, str | int]:
        """Write behind what a file holds; one that is not there is made.

        Args:
            path: the file, relative to the root.
            content: what is added, without a line break of its own.
            encoding: of its text; `base64` when the content is bytes in base64.
        """
        return self._put("append_file", path, content, encoding, append=True)

    @operation("move_file", "reversible", scope=_places, check=_fit_move, undo=_undo, probe=_probe, around=_kept_both)
    def move(self, source: str, destination: str) -> dict[str, str]:
        """Move a file to another name, which nothing has.

        Args:
            source: the file, relative to the root.
            destination: its new name, relative to the root, in a folder that exists.
        """
        order = self._order("move_file", source, {"source": source, "destination": destination})
        parts, target = (self._root.locate(path, through_link=False) for path in (source, destination))
        result = {"source": self._root.shown(parts), "destination": self._root.shown(target)}
        return self._do(order, self._plans.moving(order, parts, target, result), parts, target)

    @operation(
        "delete_file", "reversible", scope=_place_itself, check=_fit_delete, undo=_undo, probe=_probe, around=_kept
    )
    def delete(self, path: str) -> dict[str, str]:
        """Delete a file.

        Args:
            path: the file, relative to the root.
        """
        order = self._order("delete_file", path, {"path": path})
        parts = self._root.locate(path, through_link=False)
        return self._do(order, self._plans.removing(order, parts, {"path": self._root.shown(parts)}), parts)

    @operation(
        "make_directory", "reversible", scope=_place_made, check=_fit_make, undo=_undo, probe=_probe, around=_kept
    )
    def make_directory(self, path: str) -> dict[str, str]:
        """Make a folder, with the folders above it; one that is there already is no failure.

        Args:
            path: the folder, relative to the root.
        """
        order = self._order("make_directory", path, {"path": path})
        parts = self._root.locate(path)
        return self._do(order, self._plans.making(order, parts, {"path": self._root.shown(parts)}), parts)

    # ---- acting

    def _put(self, tool: str, path: str, content: str, encoding: str, *, append: bool) -> dict[str, str | int]:
        order = self._order(tool, path, {"path": path, "content": content, "encoding": encoding})
        data, parts = to_bytes(content, encoding), self._root.locate(path)
        result = {"path": self._root.shown(parts), "bytes": len(data)}
        return self._do(order, self._plans.putting(order, parts, data, result, append=append), parts)

    def _do(self, order: Order, planning: Planning, *places: Parts) -> dict[str, Any]:
        for parts in places:
            order.check_claimed(self._root.scope(parts))
        self._sweep()
        result: dict[str, Any] = self._acts.perform(order, planning)
        return result

    def _seen(self) -> View:
        """Return the files as the running call sees them."""
        view = View(self._root)
        for tool, arguments in self._staged(self._root.scope(())):
            view.apply(tool, arguments)
        return view

    def _forget(self, older_than: float) -> int:
        return self._records.prune(older_than)


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


__all__ = ["Filesystem"]
