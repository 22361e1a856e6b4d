"""What can be done to a file: for each change its record, its preparation, and the one step that makes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from settlemark_adapters._keyed import Order
from settlemark_adapters.filesystem._records import (
    Desk,
    Picture,
    Record,
    Touch,
    copy_attributes,
    copy_into,
    is_same,
    picture,
    write_all,
)
from settlemark_adapters.filesystem._root import Parts, Root, opened
from settlemark_adapters.filesystem._view import View


@dataclass(frozen=True, slots=True)
class Plan:
    """How an act is done: its record, the one step that does it, and the folders in which names change."""

    record: Record
    land: Callable[[], None]
    folders: tuple[int, ...] = field(default=())


Planning = Callable[[Desk, ExitStack], Plan]


class Raced(Exception):
    """The files have changed between the check and the act."""


class Plans:
    """Plans changes to the files below a root; refuses what cannot be done, and changes nothing before it lands."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def putting(self, order: Order, parts: Parts, data: bytes, result: Any, *, append: bool) -> Planning:
        """Plan to write a file, whole or at its end, with its missing folders."""

        def plan(desk: Desk, stack: ExitStack) -> Plan:
            View(self._root).put(parts, data, append=append)
            depth = self._root.existing(parts[:-1])
            folder = stack.enter_context(self._root.entered(parts[:depth]))
            if depth < len(parts) - 1:
                return self._plan_folders(order, desk, folder, depth, parts, data, result)
            name = parts[-1]
            before = picture(folder, name)
            if before is not None and before.kind != "file":
                raise IsADirectoryError(f"{self._root.shown(parts)!r} is no file any more: name one")
            kept = "old" if before is not None and order.keeps else None
            if kept is not None:
                desk.keep(folder, name, kept, copy=False)
            _write(desk.folder, desk.name("new"), data, None if before is None else (folder, name), append=append)
            after = picture(desk.folder, desk.name("new"), digest=True)
            record = Record(order.tool, order.digest, "landed", [Touch(parts, before, after, kept)], result)
            return Plan(record, lambda: _take_place(desk, folder, name, before), (folder,))

        return plan

    def making(self, order: Order, parts: Parts, result: Any) -> Planning:
        """Plan to create a folder, with its missing parents."""

        def plan(desk: Desk, stack: ExitStack) -> Plan:
            View(self._root).make(parts)
            depth = self._root.existing(parts)
            if depth == len(parts):
                return Plan(Record(order.tool, order.digest, "nothing", [], result), lambda: None)
            folder = stack.enter_context(self._root.entered(parts[:depth]))
            return self._plan_folders(order, desk, folder, depth, parts, None, result)

        return plan

    def _plan_folders(
        self, order: Order, desk: Desk, folder: int, depth: int, parts: Parts, data: bytes | None, result: Any
    ) -> Plan:
        """Plan to let missing folders land at once, with the file in the innermost."""
        touched: list[Touch] = []
        with ExitStack() as made:
            inner, name = desk.folder, desk.name("new")
            for count in range(depth + 1, len(parts) + 1):
                if count == len(parts) and data is not None:
                    _write(inner, name, data, None, append=False)
                else:
                    os.mkdir(name, dir_fd=inner)
                os.fsync(inner)
                touched.append(Touch(parts[:count], None, picture(inner, name, digest=True)))
                if count < len(parts):
                    inner, name = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=inner), parts[count]
                    made.callback(os.close, inner)
        record = Record(order.tool, order.digest, "landed", touched, result)
        return Plan(record, lambda: _take_place(desk, folder, parts[depth], None), (folder,))

    def removing(self, order: Order, parts: Parts, result: Any) -> Planning:
        """Plan to remove a file."""

        def plan(desk: Desk, stack: ExitStack) -> Plan:
            View(self._root).remove(parts)
            folder = stack.enter_context(self._root.entered(parts[:-1]))
            before = self._there(folder, parts)

            def land() -> None:
                _check_unchanged(folder, parts[-1], before)
                os.rename(parts[-1], desk.name("old"), src_dir_fd=folder, dst_dir_fd=desk.folder)

            record = Record(order.tool, order.digest, "gone", [Touch(parts, before, None, "old")], result)
            return Plan(record, land, (folder, desk.folder))

        return plan

    def moving(self, order: Order, source: Parts, target: Parts, result: Any) -> Planning:
        """Plan to rename a file."""

        def plan(desk: Desk, stack: ExitStack) -> Plan:
            View(self._root).move(source, target)
            folder = stack.enter_context(self._root.entered(source[:-1]))
            to = stack.enter_context(self._root.entered(target[:-1]))
            before = self._there(folder, source)
            kept = "old" if order.keeps else None
            if kept is not None:
                desk.keep(folder, source[-1], kept, copy=False)

            def land() -> None:
                _check_unchanged(folder, source[-1], before)
                if picture(to, target[-1]) is not None:
                    raise FileExistsError(f"{self._root.shown(target)!r} exists: delete it first, or choose another")
                os.rename(source[-1], target[-1], src_dir_fd=folder, dst_dir_fd=to)

            # With its bytes: another file may have come to its new name, and look like it.
            after = picture(folder, source[-1], digest=True)
            touched = [Touch(source, before, None, kept), Touch(target, None, after)]
            return Plan(Record(order.tool, order.digest, "moved", touched, result), land, (folder, to))

        return plan

    def _there(self, folder: int, parts: Parts) -> Picture:
        found = picture(folder, parts[-1])
        if found is None:
            raise FileNotFoundError(f"{self._root.shown(parts)!r} does not exist: name a file that does")
        if found.kind != "file":
            raise IsADirectoryError(f"{self._root.shown(parts)!r} is no file: name one")
        return found


def _write(folder: int, name: str, data: bytes, model: tuple[int, str] | None, *, append: bool) -> None:
    """Write a new file, on disk when this returns: like the one it replaces, and after its bytes when asked."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    try:
        if model is not None:
            with opened(*model) as source:
                if append:
                    copy_into(source, file)
                copy_attributes(source, file, times=False)
        write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def _check_unchanged(folder: int, name: str, before: Picture | None) -> None:
    now = picture(folder, name)
    if not is_same(now, before) or (now is not None and before is not None and now.ino != before.ino):
        raise Raced


def _take_place(desk: Desk, folder: int, name: str, before: Picture | None) -> None:
    _check_unchanged(folder, name, before)
    os.rename(desk.name("new"), name, src_dir_fd=desk.folder, dst_dir_fd=folder)


__all__ = ["Plan", "Planning", "Plans", "Raced"]
