"""The tools on the objects of a store: get, list, put, copy, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from settlemark import Settlement, current_call
from settlemark.hosting import EffectName
from settlemark_adapters._adapter import operation
from settlemark_adapters._keeping import Keeping
from settlemark_adapters._keyed import Order, check_new, mark_of, to_bytes, to_text
from settlemark_adapters.objects._acts import Acts
from settlemark_adapters.objects._bucket import Bucket
from settlemark_adapters.objects._view import View


class Objects(Keeping):
    """The objects below one address of a store, as tools.

    Args:
        where: a URL (`file:///srv/data`, `memory://data`, `s3://bucket/data`), or a file system of fsspec.
        settlement, name, effects: as for every `Adapter`.
        root: what lies above the keys: of a file system its bucket or folder.
        options: for the file system that a URL names: what it needs to log in, say. They are shown nowhere.
        staged: nothing is put before the commit; reads of the same transaction see what it has staged. Else objects
            change at once, and an abort puts back the version before.
        keep_days: for how long versions and records are kept below `.settlemark/`; see `prune`.

    Laws: an act happens once under its key, whole or not at all. An abort puts back the bytes that were there; what
    another writer has changed since stays, and is named.

    Raises:
        ImportError: fsspec is not installed. ValueError: the address is none.

    >>> settlement = Settlement("memory:")
    >>> objects = Objects("memory://example", settlement)
    >>> with settlement.transaction("monday") as tx:
    ...     tx.call(objects.put, path="reports/may.txt", content="12 rooms")
    {'path': 'reports/may.txt', 'bytes': 8}
    >>> with settlement.transaction("tuesday") as tx:
    ...     tx.call(objects.delete, path="reports/may.txt")
    ...     raise ValueError("the step failed")
    Traceback (most recent call last):
    ValueError: the step failed
    >>> objects.get("reports/may.txt")
    '12 rooms'
    """

    def __init__(
        self,
        where: Any,
        settlement: Settlement | None = None,
        *,
        root: str = "",
        options: Mapping[str, Any] | None = None,
        staged: bool = False,
        name: str = "",
        effects: Mapping[str, EffectName | Mapping[str, Any]] | None = None,
        keep_days: float = 30.0,
    ) -> None:
        self._bucket = Bucket(where, root, options or {})
        self._acts = Acts(self._bucket)
        super().__init__(settlement, staged=staged, name=name, effects=effects, keep_days=keep_days)

    # ---- scopes

    def _place(self, path: str) -> str:
        self._bucket.check(path)
        return self._bucket.scope(path)

    def _place_folder(self, folder: str) -> str:
        return self._place(folder) if folder else self._bucket.scope("")

    def _places(self, source: str, destination: str) -> tuple[str, str]:
        return self._place(source), self._place(destination)

    # ---- checks

    def _fit_put(self, path: str, content: str = "", encoding: str = "utf-8") -> None:
        data = to_bytes(content, encoding)
        self._fit(path, lambda view: view.put(path, data))

    def _fit_copy(self, source: str, destination: str) -> None:
        self._fit(source, lambda view: view.copy(source, destination))

    def _fit_delete(self, path: str) -> None:
        self._fit(path, lambda view: view.delete(path))

    def _fit(self, path: str, do: Callable[[View], None]) -> None:
        """Check that a call can be made."""
        call = current_call()
        if call is None:
            return
        check_new(call.key, repr(path), known=self._acts.load(mark_of(call.key)) is not None)
        if self._waits():
            do(self._seen())

    # ---- undo and probe

    def _undo(self, key: str, path: str = "", destination: str = "") -> None:
        self._acts.undo(mark_of(key), repr(path or destination))

    def _probe(self, key: str) -> Any:
        return self._acts.probe(mark_of(key))

    def _kept(self, path: str) -> AbstractContextManager[None]:
        return self._acts.keeping(self._order_theirs(path), path)

    def _kept_copy(self, destination: str) -> AbstractContextManager[None]:
        return self._acts.keeping(self._order_theirs(destination), destination)

    # ---- the tools

    @operation("get_object", "read", scope=_place)
    def get(self, path: str, encoding: str = "utf-8") -> str:
        """Read an object.

        Args:
            path: its key: names between slashes.
            encoding: of its text; `base64` for bytes.
        """
        self._bucket.check(path)
        return to_text(self._seen().read(path), encoding, repr(path))

    @operation("list_objects", "read", scope=_place_folder)
    def list_all(self, folder: str = "") -> list[dict[str, str | int]]:
        """List the objects below a folder: of each its key and its size in bytes.

        Args:
            folder: the names that their keys begin with; all objects when it is left out.
        """
        if folder:
            self._bucket.check(folder)
        return [{"path": key, "bytes": size} for key, size in self._seen().keys(folder).items()]

    @operation("put_object", "reversible", scope=_place, check=_fit_put, undo=_undo, probe=_probe, around=_kept)
    def put(self, path: str, content: str, encoding: str = "utf-8") -> dict[str, str | int]:
        """Write an object, in place of what it was.

        Args:
            path: its key: names between slashes.
            content: all that it is to hold.
            encoding: of its text; `base64` when the content is bytes in base64.
        """
        order = self._order("put_object", path, {"path": path, "content": content, "encoding": encoding})
        data = to_bytes(content, encoding)
        View(self._bucket).put(path, data)
        return self._put(order, path, lambda at: self._bucket.write(at, data), {"path": path, "bytes": len(data)})

    @operation("copy_object", "reversible", scope=_places, check=_fit_copy, undo=_undo, probe=_probe, around=_kept_copy)
    def copy(self, source: str, destination: str) -> dict[str, str | int]:
        """Copy an object, in place of what was at the destination.

        Args:
            source: the key of the object.
            destination: the key of its copy.
        """
        order = self._order("copy_object", source, {"source": source, "destination": destination})
        result: dict[str, str | int] = {"source": source, "destination": destination}

        def fill(at: str) -> None:
            View(self._bucket).copy(source, destination)
            self._bucket.copy(source, at)

        return self._put(order, destination, fill, result)

    @operation("delete_object", "reversible", scope=_place, check=_fit_delete, undo=_undo, probe=_probe, around=_kept)
    def delete(self, path: str) -> dict[str, str]:
        """Delete an object.

        Args:
            path: its key: names between slashes.
        """
        order = self._order("delete_object", path, {"path": path})
        self._bucket.check(path)
        self._sweep()
        done: dict[str, str] = self._acts.remove(order, path, {"path": path})
        return done

    # ---- acting

    def _put(
        self, order: Order, path: str, fill: Callable[[str], None], result: dict[str, str | int]
    ) -> dict[str, str | int]:
        self._bucket.check(path)
        self._sweep()
        done: dict[str, str | int] = self._acts.put(order, path, fill, result)
        return done

    def _seen(self) -> View:
        """Return the objects as the running call sees them."""
        view = View(self._bucket)
        for tool, arguments in self._staged(self._bucket.scope("")):
            view.apply(tool, arguments)
        return view

    def _forget(self, older_than: float) -> int:
        return self._acts.forget(older_than)


__all__ = ["Objects"]
