"""Commits in a directory: written under `scratch/`, and made real by one atomic rename.

```
commits/000000000042/commit.json                      who, when, why, under which key
commits/000000000042/data/acme/Invoice/….json         the records, as this commit has them
scratch/acme/…/data/acme/Invoice/….json               what a transaction has written so far: no reader looks here
```

A directory is never renamed onto one that has files in it, so the rename is also what decides between two committers:
no lock is taken, and none is left behind by a crash.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

from settlemark_adapters.records._backend import DAY, Moved
from settlemark_adapters.records._commit import Commit, Head
from settlemark_adapters.records._errors import BadRecord, OutcomeUnknown, StoreError
from settlemark_adapters.records._log import NumberedLog, whole

SAYS = "commit.json"
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.EACCES, errno.EPERM})


class FileBackend(NumberedLog):
    """Commits in a directory of a local file system; it is made when there is none.

    Args:
        root: the directory. All below it is this backend's own.
        projection: where queries are answered from; by default `projection.db` in it.

    Laws: a reader sees a commit as a whole or not at all. Of two committers, in any processes, one is refused and
    tries again on the other's state. What `publish` returned survives a power cut, where `fsync` does.

    >>> import tempfile; from settlemark_adapters.records import Entity, Records
    >>> note = Entity("Note", {"text": str})
    >>> records = Records(FileBackend(tempfile.mkdtemp()), entities=[note])
    >>> done = records.transaction("note two things", lambda tx: [tx.create("Note", {"text": t}, t) for t in "ab"])
    >>> list(done.records)
    ['data/Note/a.json', 'data/Note/b.json']
    """

    def __init__(self, root: str | os.PathLike[str], *, projection: str | None = None) -> None:
        self.root = Path(root).absolute()
        self._swept = False
        self._commits, self._scratch = self.root / "commits", self.root / "scratch"
        try:
            for folder in (self._commits, self._scratch):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.root} cannot hold records: {error}; name a directory", store=str(root)) from error
        super().__init__(projection or f"sqlite:///{self.root / 'projection.db'}")

    def __repr__(self) -> str:
        return f"FileBackend({str(self.root)!r})"

    def stage(self, tenant: str, key: str) -> FileStaging:
        """Return a place for what a transaction writes; the first time, old ones of dead processes are swept."""
        if not self._swept:
            self._swept = True
            self.sweep()
        folder = self._scratch / (tenant or "_")
        # Two processes may be at one call, one of them given up for dead: each has a place of its own.
        own = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}-{uuid.uuid4().hex[:8]}"
        try:
            own.mkdir(parents=True)
        except OSError as error:
            raise _failed(own, error) from error
        return FileStaging(own, self._commits)

    def sweep(self, older_than: float = DAY) -> list[str]:
        """Remove what transactions of dead processes have left in `scratch/`, and return the names.

        One that is alive after all finds its place gone when it is to publish, and has written nothing.
        """
        swept: list[str] = []
        for found in sorted(self._scratch.glob("*/*")):
            with contextlib.suppress(FileNotFoundError):  # published, or swept by another
                if time.time() - found.stat().st_mtime < older_than:
                    continue
                away = found.with_name(f"{found.name.removesuffix('.swept')}.swept")
                found.rename(away)  # at once: what is left of it must not be published
                shutil.rmtree(away, ignore_errors=True)
                swept.append(str(found.relative_to(self.root)))
        return swept

    def entry(self, number: int) -> Commit | None:
        """Return a commit; None when there is none of this number."""
        folder = _numbered(self._commits, number)
        try:
            return _commit(folder) if folder.exists() else None  # once it is there it is whole
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{folder} is damaged ({error}): nothing was read from it or written; bring it back from a backup",
                store=str(folder),
            ) from error


class FileStaging:
    """What one transaction has written so far, in a directory of its own under `scratch/`."""

    def __init__(self, folder: Path, commits: Path) -> None:
        self._folder, self._commits = folder, commits
        self._written: set[str] = set()

    def put(self, path: str, text: str | None) -> None:
        """Write a record's text, or note that it is to be deleted."""
        file = self._folder / path
        try:
            if text is None:
                file.unlink(missing_ok=True)
                self._written.discard(path)
                return
            for parent in reversed(file.relative_to(self._folder).parents[:-1]):
                (self._folder / parent).mkdir(exist_ok=True)  # never the first: a place that was swept stays gone
            with file.open("wb" if path in self._written else "xb") as opened:
                opened.write(text.encode())
                opened.flush()
                os.fsync(opened.fileno())
            self._written.add(path)
        except FileExistsError as error:
            raise BadRecord(
                f"{path} and another record of this commit have one name for this file system, which does not tell"
                " capitals from small letters: choose another id; nothing was written",
                path=path,
            ) from error
        except OSError as error:
            raise _failed(self._folder, error) from error

    def publish(self, commit: Commit, head: Head) -> Commit:
        """Make it real in one atomic step: the rename of its directory to the commit's."""
        made = commit.after(head)
        said: dict[str, Any] = made.plain()
        said["paths"] = {path: text is not None for path, text in said.pop("contents").items()}
        try:
            for path in self._written - {path for path, text in made.contents.items() if text is not None}:
                (self._folder / path).unlink(missing_ok=True)  # it ended as it was, which is no change
            _written(self._folder / SAYS, json.dumps(said, ensure_ascii=False, indent=1))
            for folder, _, _ in os.walk(self._folder, topdown=False):
                _synced(Path(folder))
            self._folder.rename(_numbered(self._commits, made.number))
        except OSError as error:
            if error.errno in _TAKEN and _numbered(self._commits, made.number).exists():
                raise Moved from error
            raise _failed(self._folder, error) from error
        try:
            _synced(self._commits)
        except OSError as error:
            raise OutcomeUnknown(f"whether {self._commits} has {made.id} after a power cut: {error}") from error
        return made

    def discard(self) -> None:
        """Remove what is left of it."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _numbered(commits: Path, number: int) -> Path:
    return commits / f"{number:012}"


def _commit(folder: Path) -> Commit:
    said = json.loads(_text(folder / SAYS))
    contents = {path: _text(folder / path) if there else None for path, there in said.pop("paths").items()}
    return whole(Commit(contents=contents, **said), str(folder))


def _text(file: Path) -> str:
    return file.read_bytes().decode()  # as it was written: no line end is changed


def _written(file: Path, text: str) -> None:
    with file.open("wb") as opened:
        opened.write(text.encode())
        opened.flush()
        os.fsync(opened.fileno())


def _synced(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows opens no directories, and syncs their entries itself
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _failed(folder: Path, error: OSError) -> StoreError:
    return StoreError(f"{folder} could not be written ({error}): nothing was committed", store=str(folder))


__all__ = ["FileBackend", "FileStaging"]
