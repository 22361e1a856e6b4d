"""Commits in a store of objects (fsspec): staged under `scratch/`, and made real by one put of the next log entry.

```
log/000000000042.json                                 who, when, why, under which key, and the records
scratch/acme/…/data/acme/Invoice/….json               what a transaction has written so far: no reader looks here
```

Stores of objects rename nothing, but they put one object as a whole, and most can be told to put it only where there
is none. So an entry is a whole commit, and putting it is what makes it real and what decides between two committers.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

from settlemark.hosting import message_of, missing
from settlemark_adapters.records._backend import DAY, Moved
from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._errors import OutcomeUnknown, StoreError
from settlemark_adapters.records._log import NumberedLog, whole

Create = Callable[[str, bytes], object]

# How to put an object only where there is none, for each service whose fsspec library supports it.
_CONDITIONS: dict[str, tuple[str, Any]] = {
    **dict.fromkeys(("s3", "s3a", "gs", "gcs"), ("mode", "create")),
    **dict.fromkeys(("abfs", "abfss", "az"), ("overwrite", False)),
}
_in_memory = threading.Lock()


class ObjectBackend(NumberedLog):
    """Commits under a URL of fsspec, as `s3://bucket/books`, `memory://books` or `file:///srv/books`.

    Args:
        url: where; or a file system of fsspec, with `path`.
        path: the folder in that file system.
        projection: where queries are answered from, an SQLAlchemy URL; by default memory, made from the log.
        create: `create(path, data)` puts an object where there is none, and else raises FileExistsError, in one step
            at the store. It is needed where that is not known of the file system: local files are linked, memory is
            locked, and of S3, Google and Azure the service checks it, where their library knows how to ask.

    Laws: as `FileBackend`; and a lost answer to the last put is `OutcomeUnknown`, unless the log can tell.

    Raises:
        ImportError: fsspec is not installed.
        StoreError: it is not known how to put an object only where there is none.
    """

    def __init__(
        self, url: Any, path: str = "", *, projection: str = "sqlite://", create: Create | None = None
    ) -> None:
        self._swept = False
        self.fs, self.root = _opened(url, path)
        self._create = create or _create_for(self.fs)
        super().__init__(projection)

    def __repr__(self) -> str:
        return f"ObjectBackend({self._protocol}://{self.root})"

    @property
    def _protocol(self) -> str:
        return _protocols(self.fs)[0]

    def stage(self, tenant: str, key: str) -> ObjectStaging:
        """Return a place for a transaction's writes; the first time, sweep old ones of dead processes."""
        if not self._swept:
            self._swept = True
            self.sweep()
        # Two processes may be at one call, one of them thought dead: each has a place of its own.
        own = f"{hashlib.sha256(key.encode()).hexdigest()[:16]}-{uuid.uuid4().hex[:8]}"
        return ObjectStaging(self, f"{self.root}/scratch/{tenant or '_'}/{own}")

    def sweep(self, older_than: float = DAY) -> list[str]:
        """Remove what transactions of dead processes have left in `scratch/`, and return the names.

        One that is alive after all loses nothing: it publishes only the log entry.
        """
        try:
            found: dict[str, dict[str, Any]] = self.fs.find(f"{self.root}/scratch", detail=True)
        except FileNotFoundError:
            return []
        old = [name for name, info in sorted(found.items()) if time.time() - _seconds(info) >= older_than]
        for name in old:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(name)
        return [name.removeprefix(f"{self.root}/") for name in old]

    def put(self, path: str, data: bytes) -> None:
        """Put an object, whether there is one or not.

        Raises:
            StoreError: it could not be put.
        """
        try:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self.fs.pipe_file(path, data)
        except Exception as error:
            raise StoreError(
                f"{path} could not be written ({message_of(error)}): nothing was committed", store=repr(self)
            ) from error

    def publish(self, made: Commit) -> Commit:
        """Put a commit at its number, unless there is one."""
        path = self._entry(made.number)
        data = json.dumps(made.plain(), ensure_ascii=False, indent=1).encode()
        try:
            self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._create(path, data)
        except Exception as error:
            there = self._there(error, made)
            if there is None or there.id != made.id:
                raise Moved from error
        return made

    def _there(self, error: Exception, made: Commit) -> Commit | None:
        """Return what is at a commit's number, after putting it there failed."""
        if isinstance(error, PermissionError):
            raise StoreError(
                f"{self!r} may not be written ({message_of(error)}): nothing was committed", store=repr(self)
            ) from error
        try:
            there = self.entry(made.number)
        except Exception:
            there = None
        if there is None and not isinstance(error, FileExistsError):
            raise OutcomeUnknown(f"{self!r} did not say whether {made.id} is committed: {message_of(error)}") from error
        return there

    def _entry(self, number: int) -> str:
        return f"{self.root}/log/{number:012}.json"

    def entry(self, number: int) -> Commit | None:
        """Return a commit; None if there is none of this number."""
        path = self._entry(number)
        try:
            data = self.fs.cat_file(path)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise StoreError(
                f"{path} could not be read ({message_of(error)}): nothing was written", store=repr(self)
            ) from error
        try:
            return whole(Commit(**json.loads(data)), path)
        except (ValueError, TypeError) as error:
            raise StoreError(
                f"{path} is damaged ({error}): nothing was read from it or written; bring it back from a backup",
                store=repr(self),
            ) from error


class ObjectStaging:
    """What one transaction has written so far, under a prefix of its own in `scratch/`."""

    def __init__(self, backend: ObjectBackend, prefix: str) -> None:
        self._backend, self._prefix = backend, prefix
        self._written: set[str] = set()

    def put(self, path: str, text: str | None) -> None:
        """Write a record's text, or record its deletion."""
        if text is not None:
            self._written.add(f"{self._prefix}/{path}")
            self._backend.put(f"{self._prefix}/{path}", text.encode())

    def publish(self, commit: Commit, head: Head) -> Commit:
        """Publish in one atomic step: the put of the next log entry."""
        return self._backend.publish(commit.after(head))

    def discard(self) -> None:
        """Remove its remains."""
        while self._written:
            with contextlib.suppress(Exception):  # the rest is swept
                self._backend.fs.rm_file(self._written.pop())
        with contextlib.suppress(Exception):
            self._backend.fs.rm(self._prefix, recursive=True)  # folders, where the store has them


def _opened(url: Any, path: str) -> tuple[Any, str]:
    try:
        import fsspec  # type: ignore[import-untyped]  # it has no type hints
    except ImportError as _error:
        raise missing("records in a store of objects need fsspec", "objects", _error) from _error
    if isinstance(url, str):
        try:
            opened = cast("Any", fsspec).url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise StoreError(f"{url!r} names no store of objects: {error}", store=url) from error
    else:
        opened = url, url._strip_protocol(path)  # noqa: SLF001 - fsspec's own functions call it
    return opened[0], str(opened[1]).rstrip("/")


def _protocols(fs: Any) -> tuple[str, ...]:
    found = fs.protocol
    return (found,) if isinstance(found, str) else tuple(found)


def _create_for(fs: Any) -> Create:
    names = set(_protocols(fs))
    if names & {"file", "local"}:
        return _link
    if "memory" in names:
        return lambda path, data: _remember(fs, path, data)
    condition = next((_CONDITIONS[name] for name in _protocols(fs) if name in _CONDITIONS), None)
    asked = inspect.signature(getattr(fs, "_pipe_file", fs.pipe_file)).parameters
    if condition is not None and condition[0] in asked:  # an older library would overwrite another's object silently
        return lambda path, data: fs.pipe_file(path, data, **dict([condition]))
    raise StoreError(
        f"it is not known whether {type(fs).__name__} can put an object only where there is none, without which two"
        " committers could overwrite each other: pass create=, a function of a path and data that does so",
        store=type(fs).__name__,
    )


def _link(path: str, data: bytes) -> None:
    """Write a file whole, or not at all, and only where there is none: a link is made in one step."""
    root = path.rpartition("/log/")[0]
    scratch = f"{root}/scratch/_/{uuid.uuid4().hex}"
    try:
        os.makedirs(f"{root}/scratch/_", exist_ok=True)  # noqa: PTH103 - a path of fsspec is a text
        with open(scratch, "xb") as opened:  # noqa: PTH123 - a path of fsspec is a text
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        os.link(scratch, path)
        if os.name != "nt":
            folder = os.open(os.path.dirname(path), os.O_RDONLY)  # noqa: PTH120 - a path of fsspec is a text
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)  # noqa: PTH108 - a path of fsspec is a text


def _remember(fs: Any, path: str, data: bytes) -> None:
    with _in_memory:
        if fs.exists(path):
            raise FileExistsError(path)
        fs.pipe_file(path, data)


def _seconds(info: dict[str, Any]) -> float:
    """Return when an object was written, according to its store; infinity if unknown."""
    for name in ("mtime", "created", "LastModified", "last_modified", "updated"):
        found: Any = info.get(name)
        if isinstance(found, int | float):
            return float(found)
        if isinstance(found, str):
            with contextlib.suppress(ValueError):
                found = datetime.fromisoformat(found)
        if isinstance(found, datetime):
            return found.timestamp()
    return time.time()


__all__ = ["ObjectBackend", "ObjectStaging"]
