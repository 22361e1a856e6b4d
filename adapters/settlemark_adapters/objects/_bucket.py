"""The objects below one address of a store: read, written aside, moved, copied, removed."""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unicodedata import normalize

from settlemark.hosting import escape, missing

OWN = ".settlemark"
_CHUNK = 1 << 20


class Bucket:
    """The objects below one address of a store.

    Args:
        where: a URL (`file:///srv/data`, `memory://data`, `s3://bucket/folder`), or a file system of fsspec.
        root: the folder of the keys, in that file system.
        options: for the URL's file system: login data, for example.

    Attributes:
        steady: a move takes one step, so that an object is nowhere twice.

    Raises:
        ImportError: fsspec, or a package it needs for this store, is not installed.
        ValueError: the address is invalid, or the store keeps copies of what others may change.
    """

    def __init__(self, where: Any, root: str, options: Mapping[str, Any]) -> None:
        try:
            fsspec = importlib.import_module("fsspec")
            kinds = importlib.import_module("fsspec.implementations")
            for kind in ("cached", "dirfs", "local"):
                importlib.import_module(f"fsspec.implementations.{kind}")
        except ImportError as _error:
            raise missing("Objects needs fsspec", "objects", _error) from _error
        if isinstance(where, str):
            if "://" not in where:
                raise ValueError(f"{where!r} is no address: write for example 'file:///srv/data' or 's3://bucket/data'")
            # Listings are not cached: another process may have written.
            found = fsspec.core.url_to_fs(where, **{"use_listings_cache": False, **options})
            self._store: Any = found[0]
            self._root = "/".join(part for part in (str(found[1]).rstrip("/"), root.strip("/")) if part)
        else:
            self._store = where
            self._root = str(where._strip_protocol(root)).rstrip("/")  # noqa: SLF001 - as fsspec's own callers do
        local: type = kinds.local.LocalFileSystem
        self.steady = isinstance(self._store, local)
        if self.steady:  # one object has one scope, whichever links its root is reached through
            self._root = Path(self._root or "/").resolve().as_posix()
        beneath, place = _beneath(self._store, self._root, kinds)
        protocol = beneath.protocol
        named = Path(place or "/").resolve().as_posix() if isinstance(beneath, local) else place
        self._place = (str(protocol if isinstance(protocol, str) else protocol[0]), *named.split("/"))

    # ---- names

    def check(self, key: str) -> None:
        """Check that a key names one object, in its canonical spelling.

        Raises:
            ValueError: it does not.
            PermissionError: it leads elsewhere.
        """
        parts = key.split("/")
        if not key or "" in parts or "." in parts or ".." in parts or "\\" in key or "\0" in key:
            raise ValueError(f"{key!r} is no key: write names between single slashes, such as 'reports/may.txt'")
        if normalize("NFC", key) != key:
            raise ValueError(f"{key!a} is not in Unicode's composed form (NFC): write it in that")
        if parts[0].lower() == OWN:
            raise PermissionError(f"{key!r} is where settlemark keeps what undoing needs: choose another key")
        if self.steady:
            path = self.path(key)
            real = os.path.join(os.path.realpath(self._root), *parts)  # noqa: PTH118 - as text, to compare
            if os.path.realpath(path) != real:
                raise PermissionError(f"{key!r} goes through a link: name the object that it leads to")

    def scope(self, key: str) -> str:
        """Return the scope of an object, of all below a folder, or of all."""
        names = [part for part in (*self._place, *key.split("/")) if part]
        return f"object:/{'/'.join(map(escape, names))}"

    def path(self, key: str) -> str:
        """Return an object's path, for the store."""
        return f"{self._root.rstrip('/')}/{key}" if self._root else key

    # ---- objects

    def read(self, key: str) -> bytes | None:
        """Return an object's bytes, or None: there is none."""
        try:
            data: bytes = self._store.cat_file(self.path(key))
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return data

    def digest(self, key: str) -> str | None:
        """Return a digest of an object's bytes, or None: there is none."""
        sha256 = hashlib.sha256()
        try:
            with self._store.open(self.path(key), "rb") as file:
                while chunk := file.read(_CHUNK):
                    sha256.update(chunk)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return sha256.hexdigest()

    def has(self, key: str) -> bool:
        """Whether there is such an object."""
        path = self.path(key)
        return bool(self._store.exists(path) and not self._store.isdir(path))

    def keys(self, folder: str) -> dict[str, int]:
        """Return the keys of all objects below a folder, with their sizes in bytes."""
        above = self.path(folder) if folder else self._root
        self._store.invalidate_cache()
        try:
            found: dict[str, Any] = self._store.find(above, detail=True)
        except FileNotFoundError:
            return {}
        sizes = {self._key(path): int(info.get("size") or 0) for path, info in found.items() if info}
        return {key: size for key, size in sorted(sizes.items()) if key.split("/")[0] != OWN}

    def write(self, key: str, data: bytes) -> None:
        """Write an object, whole or not at all."""
        if not self.steady:
            self._in_folder(key, lambda path: self._store.pipe_file(path, data))
            return
        # A write goes piece by piece there.
        self._in_folder(f"{key}.part", lambda path: self._write_through(path, data))
        self.move(f"{key}.part", key)

    def copy(self, source: str, target: str) -> None:
        """Copy an object over the target; on a steady store not in one step."""
        self._in_folder(target, lambda path: self._store.cp_file(self.path(source), path))

    def move(self, source: str, target: str) -> None:
        """Move an object over the target."""
        if not self.steady:
            self.copy(source, target)
            self._store.rm_file(self.path(source))
            return
        if self._store.isdir(self.path(target)):
            raise IsADirectoryError(f"{target!r} is a folder here: choose another key")
        self._in_folder(target, lambda path: Path(self.path(source)).replace(path))

    def remove(self, *keys: str) -> None:
        """Remove objects, if they exist."""
        for key in keys:
            with suppress(FileNotFoundError):
                self._store.rm_file(self.path(key))

    def version(self, key: str) -> Any:
        """Return a value that differs when an object has changed, from the store; None if there is no object."""
        try:
            return self._store.checksum(self.path(key))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def kept(self) -> dict[str, float]:
        """Return the names of what is kept for undoing, with the time of each."""
        found: dict[str, float] = {}
        with suppress(FileNotFoundError):
            for path in self._store.find(self.path(OWN)):
                with suppress(FileNotFoundError, NotImplementedError):
                    found[path.rpartition("/")[2]] = self._store.modified(path).timestamp()
        return found

    def _key(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")

    def _write_through(self, path: str, data: bytes) -> None:
        with self._store.open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _in_folder(self, key: str, write: Callable[[str], object]) -> None:
        """Write an object, and create its folder if the store has folders."""
        path = self.path(key)
        try:
            write(path)
        except FileNotFoundError:
            self._store.makedirs(path.rpartition("/")[0], exist_ok=True)
            write(path)


def _beneath(store: Any, root: str, kinds: Any) -> tuple[Any, str]:
    """Return the store that a view of one of its folders stands on, and where in it the root is.

    Raises:
        ValueError: it keeps copies.
    """
    if isinstance(store, kinds.cached.CachingFileSystem):
        raise ValueError(  # noqa: TRY004 - as for every address that is none
            f"{type(store).__name__} keeps copies of objects, and does not see what has become of them since: name the"
            " store itself, as in 's3://bucket/data' without a cache before it"
        )
    if not isinstance(store, kinds.dirfs.DirFileSystem):
        return store, root
    folder = str(store.fs._strip_protocol(store.path))  # noqa: SLF001 - as fsspec's own callers do
    return _beneath(store.fs, f"{folder}/{root}", kinds)


__all__ = ["OWN", "Bucket"]
