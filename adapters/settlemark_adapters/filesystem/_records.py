"""The records of acts, for probing and undoing: each with what was there before.

All of them are in one folder, named by the call's key: `.json` is the record, `.new` what is to land, `.old` what was
there before. An act without a record never happened; so a record is written before its act, whole or not at all, and is
the first to be removed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from settlemark_adapters.filesystem._root import OWN, Parts, Root, opened

How = Literal["landed", "gone", "moved", "nothing", "theirs"]
FENCE = "fence"
"""The name, without its ending, of what is kept of leases; the mark of a call has another form."""
_PARTS = ("tmp", "new", "dead", "old", "old2")
_CHUNK = 1 << 20
_UNLINKABLE = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Picture:
    """How a file or a folder looks: enough to tell whether it is still the same."""

    kind: str
    ino: int
    size: int
    mode: int
    mtime_ns: int
    sha256: str | None = None


@dataclass(slots=True)
class Touch:
    """A name that an act changes: how it looks before and after, and where its old bytes are kept."""

    parts: Parts
    before: Picture | None
    after: Picture | None
    kept: str | None = None


@dataclass(slots=True)
class Record:
    """The record of an act.

    Attributes:
        tool, digest: the call.
        how: what shows that it happened: `.new` has landed, `.old` is there, the file has moved, or nothing has to.
            `theirs` is a user's own function, which has happened when it has returned.
        touched: names in the order in which they change.
        result: what the call returns.
        done: it has happened, for certain. undone: and was undone.
    """

    tool: str
    digest: str
    how: How
    touched: list[Touch]
    result: Any
    done: bool = False
    undone: bool = False
    at: float = field(default_factory=time.time)

    @classmethod
    def decode(cls, text: str) -> Record:
        """Parse a record."""
        told = json.loads(text)
        touched = [
            Touch(tuple(each["parts"]), _picture_of(each["before"]), _picture_of(each["after"]), each["kept"])
            for each in told.pop("touched")
        ]
        return cls(touched=touched, **told)


def _picture_of(told: dict[str, Any] | None) -> Picture | None:
    return None if told is None else Picture(**told)


def picture(folder: int, name: str, *, digest: bool = False) -> Picture | None:
    """Return how an entry of a folder looks, with a digest of its bytes if asked; None if it is missing."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = "file" if stat.S_ISREG(found.st_mode) else "folder" if stat.S_ISDIR(found.st_mode) else "other"
    sha256 = None
    if digest and kind == "file":
        with opened(folder, name) as file:
            sha256 = _digest(file)
    return Picture(kind, found.st_ino, found.st_size, stat.S_IMODE(found.st_mode), found.st_mtime_ns, sha256)


def is_same(now: Picture | None, then: Picture | None) -> bool:
    """Whether something is still as it was: a file by its bytes, mode and time; a folder by its identity."""
    if now is None or then is None:
        return now is then
    if now.kind != "file" or then.kind != "file":
        return (now.kind, now.ino) == (then.kind, then.ino)
    same = (now.size, now.mode, now.mtime_ns) == (then.size, then.mode, then.mtime_ns)
    return same and (now.sha256 == then.sha256 or then.sha256 is None)


def _digest(file: int) -> str:
    sha256 = hashlib.sha256()
    os.lseek(file, 0, os.SEEK_SET)
    while chunk := os.read(file, _CHUNK):
        sha256.update(chunk)
    return sha256.hexdigest()


class Records:
    """The folder of all records of a root.

    Args:
        root: the root whose acts are recorded.
        folder: its folder; `.settlemark` in the root by default. It must be on the same file system.

    Raises:
        ValueError: it is on another file system, or where the tools may change it.
    """

    def __init__(self, root: Root, folder: str | os.PathLike[str] | None) -> None:
        self.folder = root.path / OWN if folder is None else Path(folder).resolve()
        if self.folder.is_relative_to(root.path) and self.folder != root.path / OWN:
            raise ValueError(
                f"state={os.fspath(self.folder)!r} is in the root, where the tools could change it: choose a folder"
                f" outside of {root.path}, or leave it out"
            )
        with suppress(PermissionError):  # without permission to write, only reading is possible
            self._make()
        if self.folder.exists():
            if self.folder.stat().st_dev != root.path.stat().st_dev:
                raise ValueError(
                    f"state={os.fspath(self.folder)!r} is not on the file system of {root.path}: choose one"
                )
            other = self.folder.with_name(self.folder.name.swapcase())
            root.folds = other.exists() and other.samefile(self.folder)

    @contextmanager
    def desk(self, mark: str) -> Generator[Desk, None, None]:
        """Yield the records under a mark."""
        self._make()
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield Desk(folder, self.folder, mark)
        finally:
            os.close(folder)

    def prune(self, older_than: float) -> int:
        """Remove records older than so many seconds, and return of how many acts."""
        oldest = time.time() - older_than
        seen: dict[str, float] = {}
        with suppress(FileNotFoundError):
            for entry in list(os.scandir(self.folder)):
                mark = entry.name.partition(".")[0]
                if mark == FENCE:
                    continue  # it tells late holders of a lease from the present one, however old it is
                with suppress(FileNotFoundError):
                    # Not its mtime: a kept file has the user's file's.
                    seen[mark] = max(entry.stat(follow_symlinks=False).st_ctime, seen.get(mark, 0.0))
        old = [mark for mark, at in seen.items() if at <= oldest]
        for mark in old:
            with self.desk(mark) as desk:
                desk.clear()
        return len(old)

    def _make(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            return
        sync(self.folder.parent)


class Desk:
    """The files kept under one mark.

    Attributes:
        folder: a descriptor of their folder.
    """

    def __init__(self, folder: int, path: Path, mark: str) -> None:
        self.folder = folder
        self.path = path
        self._mark = mark

    def name(self, part: str) -> str:
        """Return the name of a part."""
        return f"{self._mark}.{part}"

    def has(self, part: str) -> bool:
        """Whether a part is there."""
        return picture(self.folder, self.name(part)) is not None

    def load(self) -> Record | None:
        """Return the record, or None: there is none."""
        try:
            with opened(self.folder, self.name("json")) as file:
                text = b"".join(iter(lambda: os.read(file, _CHUNK), b""))
        except FileNotFoundError:
            return None
        return Record.decode(text.decode())

    def save(self, record: Record) -> None:
        """Write the record, and flush it and everything kept to disk."""
        data = json.dumps(asdict(record)).encode()
        file = self.create("tmp")
        try:
            write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(self.name("tmp"), self.name("json"), src_dir_fd=self.folder, dst_dir_fd=self.folder)
        os.fsync(self.folder)

    def create(self, part: str) -> int:
        """Return a descriptor of a new, empty part."""
        self.drop(part)
        return os.open(self.name(part), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.folder)

    def keep(self, folder: int, name: str, part: str, *, copy: bool) -> None:
        """Keep a file as a part: by a hard link if possible, or as a copy, since it may change in place."""
        self.drop(part)
        if not copy:
            try:
                os.link(name, self.name(part), src_dir_fd=folder, dst_dir_fd=self.folder, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _UNLINKABLE:
                    raise
            else:
                return
        with opened(folder, name) as source:
            target = self.create(part)
            try:
                copy_into(source, target)
                copy_attributes(source, target, times=True)
                os.fsync(target)
            finally:
                os.close(target)

    def drop(self, *parts: str) -> None:
        """Remove parts."""
        for part in parts:
            try:
                os.unlink(self.name(part), dir_fd=self.folder)
            except FileNotFoundError:
                pass
            except (IsADirectoryError, PermissionError):  # the folders that were to land
                shutil.rmtree(self.path / self.name(part), ignore_errors=True)

    def clear(self) -> None:
        """Remove everything: the record first, since an act without one never happened."""
        self.drop("json")
        os.fsync(self.folder)
        self.drop(*_PARTS)


def copy_into(source: int, target: int) -> None:
    """Copy all bytes of a file."""
    os.lseek(source, 0, os.SEEK_SET)
    while chunk := os.read(source, _CHUNK):
        write_all(target, chunk)


def write_all(file: int, data: bytes) -> None:
    """Write all bytes, however many go at once."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def copy_attributes(source: int, target: int, *, times: bool) -> None:
    """Give a file another's owner, mode, extended attributes (as far as permitted) and times."""
    model = os.fstat(source)
    with suppress(PermissionError):
        os.fchown(target, model.st_uid, model.st_gid)
    for name in os.listxattr(source) if hasattr(os, "listxattr") else ():
        with suppress(OSError):
            os.setxattr(target, name, os.getxattr(source, name))
    os.fchmod(target, stat.S_IMODE(model.st_mode))
    if times:
        os.utime(target, ns=(model.st_atime_ns, model.st_mtime_ns))


def sync(folder: Path) -> None:
    """Flush a folder's names to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


__all__ = [
    "FENCE",
    "Desk",
    "How",
    "Picture",
    "Record",
    "Records",
    "Touch",
    "copy_attributes",
    "copy_into",
    "is_same",
    "picture",
    "write_all",
]
