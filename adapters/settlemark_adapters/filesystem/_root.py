"""Resolves a path to a file below a root, whatever dots, links, cases or spellings it is written with."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from unicodedata import normalize

from settlemark.hosting import escape

OWN = ".settlemark"
Parts = tuple[str, ...]

_MOST_LINKS = 40
_LOOKALIKES = frozenset("K;`")  # other characters become these in NFC: the Kelvin sign, the Greek question mark
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class Root:
    """A folder that no path can leave.

    Attributes:
        path: its absolute path, without links.
        folds: the file system ignores case.

    Raises:
        FileNotFoundError, NotADirectoryError: there is no such folder.
        NotImplementedError: this system cannot open files relative to a folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise NotImplementedError("Filesystem needs a POSIX system: elsewhere a link can lead it out of its root")
        self._given = Path(os.path.abspath(folder))  # noqa: PTH100 - as spelled: resolve() follows links
        self.path = Path(folder).resolve()
        self.folds = False
        if not self.path.exists():
            raise FileNotFoundError(f"the root {os.fspath(folder)!r} does not exist: make it first")
        if not self.path.is_dir():
            raise NotADirectoryError(f"the root {os.fspath(folder)!r} is no folder: name one")

    # ---- names

    def locate(self, path: str, *, through_link: bool = True) -> Parts:
        """Return the names that lead from the root to a path's file, none of them a link.

        An absolute path below the root counts as the relative one, and a link within the root as its target. A missing
        file is spelled in NFC. With `through_link=False` the last name may not be a link.

        Raises:
            PermissionError: it leads out of the root, or to the records kept for undoing.
            FileExistsError: two files have this name, in two Unicode spellings.
            ValueError: it is no path.
        """
        pending = list(reversed(self._names(path)))
        found: list[str] = []
        links = 0
        while pending:
            name = pending.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not found:
                    raise self._outside(path)
                found.pop()
                continue
            name = self._spelled(found, name, path)
            target = self._link(found, name, path)
            if target is None:
                found.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, f"{path!r} goes through links without an end")
            if not through_link and all(rest in ("", ".") for rest in pending):
                raise PermissionError(f"{path!r} is a link to {target!r}: name the file itself")
            if target.startswith("/"):
                found.clear()
                pending += reversed(self._below(target, path))
            else:
                pending += reversed(target.split("/"))
        return tuple(found)

    def scope(self, parts: Parts) -> str:
        """Return the scope of a file: its absolute path, in one spelling."""
        names = (*self.path.parts[1:], *parts)
        return "file:/" + "/".join(escape(self._folded(name)) for name in names)

    def shown(self, parts: Parts) -> str:
        """Return names as a path relative to the root, for people and models."""
        return "/".join(parts) or "."

    def _names(self, path: str) -> list[str]:
        if not path or "\0" in path:
            raise ValueError(f"{path!r} is no path: give one below {self.path}, such as 'notes/today.txt'")
        return self._below(path, path) if path.startswith("/") else path.split("/")

    def _below(self, absolute: str, path: str) -> list[str]:
        for root in (self.path, self._given):
            inside = f"{root}/".replace("//", "/")
            if f"{absolute}/".startswith(inside):
                return absolute[len(inside) :].split("/")
        raise self._outside(path)

    def _outside(self, path: str) -> PermissionError:
        return PermissionError(f"{path!r} leads out of {self.path}: give a path below it, such as 'notes/today.txt'")

    def _spelled(self, before: list[str], name: str, path: str) -> str:
        """Return a name as its folder spells it."""
        folded = self._folded(name)
        if folded == OWN or name.lower() == OWN:
            raise PermissionError(f"{path!r} is where settlemark keeps what undoing needs: choose another name")
        if name.isascii() and not self.folds and not _LOOKALIKES & set(name):
            return name
        found: list[str] = []
        with suppress(OSError):
            folder = self.path.joinpath(*before)
            found = [entry.name for entry in folder.iterdir() if self._folded(entry.name) == folded]
        if len(found) > 1 and not (self.folds and name in found):
            spelled = " and ".join(ascii(entry) for entry in sorted(found))
            raise FileExistsError(f"{path!r} may mean {spelled}, which differ in spelling alone: rename one of them")
        if self.folds and name in found:
            return name
        return found[0] if found else normalize("NFC", name)

    def _folded(self, name: str) -> str:
        name = normalize("NFC", name)
        return normalize("NFC", name.casefold()) if self.folds else name

    def _link(self, before: list[str], name: str, path: str) -> str | None:
        try:
            return str(self.path.joinpath(*before, name).readlink())
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES):
                raise OSError(error.errno, f"{path!r}: {error.strerror}") from None
            return None

    # ---- contents

    @contextmanager
    def entered(self, parts: Parts) -> Generator[int, None, None]:
        """Yield a descriptor of a folder, reached name by name and through no link.

        Raises:
            FileNotFoundError: it is missing.
            NotADirectoryError: a file or a link is in its place.
        """
        folder = os.open(self.path, _FOLDER)
        try:
            for count, name in enumerate(parts, 1):
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                except OSError as error:
                    shown = self.shown(parts[:count])
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise NotADirectoryError(f"{shown!r} is no folder, or became a link: name a folder") from None
                    raise OSError(error.errno, f"the folder {shown!r}: {error.strerror}") from None
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def existing(self, parts: Parts) -> int:
        """Return how many of these names exist as folders, counted from the root."""
        for count in range(len(parts), 0, -1):
            with suppress(OSError):
                if stat.S_ISDIR(os.lstat(self.path.joinpath(*parts[:count])).st_mode):
                    return count
        return 0

    def kind(self, parts: Parts) -> str | None:
        """Return "file", "folder", "other" (a device, a link), or None if it is missing."""
        try:
            mode = os.lstat(self.path.joinpath(*parts)).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"

    def read(self, parts: Parts) -> bytes:
        """Return the bytes of a file.

        Raises:
            OSError: there is none that can be read.
        """
        with self.entered(parts[:-1]) as folder, opened(folder, parts[-1]) as file:
            chunks: list[bytes] = []
            while chunk := os.read(file, 1 << 20):
                chunks.append(chunk)
            return b"".join(chunks)

    def entries(self, parts: Parts) -> dict[str, tuple[str, int]]:
        """Return a folder's entries by name, with kind and size in bytes."""
        found: dict[str, tuple[str, int]] = {}
        with self.entered(parts) as folder, os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed meanwhile
                    if entry.name.lower() != OWN:
                        found[entry.name] = _entry(entry)
        return found

    def may_change(self, parts: Parts) -> bool:
        """Whether this process may write a file, or create one in a folder."""
        path = self.path.joinpath(*parts)
        return os.access(path, os.W_OK | os.X_OK if path.is_dir() else os.W_OK)


@contextmanager
def opened(folder: int, name: str) -> Generator[int, None, None]:
    """Yield a descriptor for reading a regular file, not a link to one.

    Raises:
        OSError: there is no such file.
    """
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise IsADirectoryError(f"{name!r} is no file: name one")
        yield file
    finally:
        os.close(file)


def _entry(entry: os.DirEntry[str]) -> tuple[str, int]:
    found = entry.stat(follow_symlinks=False)
    if stat.S_ISREG(found.st_mode):
        return "file", found.st_size
    return ("folder" if stat.S_ISDIR(found.st_mode) else "link" if entry.is_symlink() else "other"), 0


__all__ = ["OWN", "Parts", "Root", "opened"]
