"""Changes files so that a crash at any moment leaves all of a change or none, and a record that tells which.

New contents are prepared aside and land by one rename: if they are still aside, the act has not happened. Removed files
are renamed aside, and a moved file is recognised by its inode number.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from settlemark import UNKNOWN, StateError
from settlemark_adapters._fence import FileFence
from settlemark_adapters._keyed import Order
from settlemark_adapters.filesystem._plans import Plan, Planning, Raced
from settlemark_adapters.filesystem._records import Desk, Picture, Record, Records, Touch, is_same, picture
from settlemark_adapters.filesystem._root import Parts, Root

_TRIES = 3
_RACES = (errno.EEXIST, errno.ENOTEMPTY)


class Acts:
    """Acts on the files below a root: each once under its key, probed and undone."""

    def __init__(self, root: Root, records: Records, fence: FileFence) -> None:
        self._root = root
        self._records = records
        self._fence = fence

    def perform(self, order: Order, planning: Planning) -> Any:
        """Do something, and return its result; an act that happened under this key already is answered from its record.

        Raises:
            OSError: nothing was done, and the message says why.
        """
        with self._fence.passed(), self._records.desk(order.mark) as desk:
            for tries_left in reversed(range(_TRIES)):
                record = self._recorded(desk, order)
                if record is not None:
                    return record.result
                with ExitStack() as stack:
                    try:
                        plan = self._land(desk, planning, stack)
                    except Raced as error:
                        if not tries_left:
                            raise OSError(
                                errno.EAGAIN, f"{order.about} changes faster than {order.tool} can: try it again later"
                            ) from error
                        continue
                    except OSError as error:
                        if tries_left and error.errno in _RACES:
                            continue
                        raise _told(error, order) from error
                    self._settle(desk, plan, order)
                    return plan.record.result
        raise AssertionError("not reached")

    def _land(self, desk: Desk, planning: Planning, stack: ExitStack) -> Plan:
        recorded: Plan | None = None
        try:
            plan = planning(desk, stack)
            desk.save(plan.record)
            recorded = plan
            plan.land()
        except Raced:
            desk.clear()
            raise
        except BaseException:
            # A probe takes back what has not landed, so that it cannot land later.
            if recorded is None:
                desk.clear()
            else:
                self.outcome(desk, recorded.record)
            raise
        return plan

    def _settle(self, desk: Desk, plan: Plan, order: Order) -> None:
        for folder in plan.folders:
            os.fsync(folder)
        if order.alone:
            desk.clear()
            return
        if plan.record.how == "moved":
            plan.record.done = True
            desk.save(plan.record)
        elif plan.record.how == "gone" and not order.keeps:
            os.close(desk.create("tmp"))
            os.replace(desk.name("tmp"), desk.name("old"), src_dir_fd=desk.folder, dst_dir_fd=desk.folder)

    def _recorded(self, desk: Desk, order: Order) -> Record | None:
        record = desk.load()
        if record is None:
            desk.clear()
            return None
        order.check_same(record.tool, record.digest)
        if record.undone:
            raise StateError(f"{order.tool} on {order.about} was undone: its key is used up", key=order.key)
        happened = self.outcome(desk, record)
        if happened is UNKNOWN:
            raise order.in_doubt("")
        return record if happened else None

    # ---- asking

    def probe(self, mark: str) -> Any:
        """Return the result of the act under a mark, None if it did not happen, `UNKNOWN` if that cannot be told.

        An act that had not happened when probed does not happen any more.
        """
        with self._records.desk(mark) as desk:
            record = desk.load()
            if record is None or record.undone:
                return None
            happened = self.outcome(desk, record)
            return happened if happened is UNKNOWN else record.result if happened else None

    def outcome(self, desk: Desk, record: Record) -> Any:
        """Return whether a recorded act happened, or `UNKNOWN`; one that did not is forgotten."""
        happened: Any = record.done or record.how == "nothing"
        if not happened and record.how == "landed":
            with suppress(FileNotFoundError):
                os.rename(desk.name("new"), desk.name("dead"), src_dir_fd=desk.folder, dst_dir_fd=desk.folder)
            happened = not desk.has("dead")
        elif not happened and record.how == "gone":
            happened = desk.has("old")
        elif not happened and record.how == "moved":
            happened = self._has_moved(record)
        elif not happened and all(is_same(self._now(touch), touch.before) for touch in record.touched):
            happened = False
        elif not happened:
            happened = UNKNOWN
        if happened is False:
            desk.clear()
        return happened

    def _has_moved(self, record: Record) -> Any:
        source, target = record.touched
        here, there = self._now(source), self._now(target)
        moved = source.before.ino if source.before is not None else None
        if there is not None and there.ino == moved:
            return True
        return False if here is not None and here.ino == moved else UNKNOWN

    def _now(self, touch: Touch) -> Picture | None:
        digest = touch.after is not None and touch.after.sha256 is not None
        try:
            with self._root.entered(touch.parts[:-1]) as folder:
                return picture(folder, touch.parts[-1], digest=digest)
        except (FileNotFoundError, NotADirectoryError):
            return None

    # ---- undoing

    def undo(self, mark: str, about: str) -> None:
        """Restore what was there before an act; a second time does nothing.

        Raises:
            LookupError: no record of it is kept.
            OSError: something has changed since the act, and stays as it is.
        """
        with self._fence.passed(), self._records.desk(mark) as desk:
            record = desk.load()
            if record is None:
                raise LookupError(
                    f"nothing is kept of what was done to {about}: it was pruned, or its folder"
                    f" {self._records.folder} is not the one it was kept in; put it right by hand"
                )
            if not record.undone:
                self._put_back(desk, record)
                record.undone = True
                desk.save(record)
            desk.drop("old", "old2", "new", "dead")

    def _put_back(self, desk: Desk, record: Record) -> None:
        changed: list[tuple[Touch, Picture | None]] = []
        for touch in record.touched:
            now = self._now(touch)
            if _is_as_found(touch):
                continue
            if is_same(now, touch.after):
                changed.append((touch, now))
            elif not is_same(now, touch.before):
                shown = self._root.shown(touch.parts)
                raise OSError(f"{shown!r} was changed by another writer since: it stays as it is; put it right by hand")
        for touch, now in reversed(changed):
            self._restore(desk, touch, now)

    def _restore(self, desk: Desk, touch: Touch, now: Picture | None) -> None:
        name, shown = touch.parts[-1], self._root.shown(touch.parts)
        with self._root.entered(touch.parts[:-1]) as folder:
            if touch.before is None:
                _remove(folder, name, now, shown)
            elif touch.kept is None or not desk.has(touch.kept):
                raise LookupError(f"what {shown!r} was before is not kept any more: put it right by hand")
            elif now is None:
                _put_beside(desk, touch.kept, folder, name, shown)
            else:
                os.rename(desk.name(touch.kept), name, src_dir_fd=desk.folder, dst_dir_fd=folder)
            os.fsync(folder)

    # ---- users' own functions

    @contextmanager
    def keeping(self, order: Order, *changing: Parts) -> Generator[None, None, None]:
        """Keep copies of files while a user's own function changes them; when it raises, restore them."""
        with self._fence.passed(), self._records.desk(order.mark) as desk:
            if self._recorded(desk, order) is not None:
                raise StateError(f"{order.tool} on {order.about} has happened: it is not done twice", key=order.key)
            record = Record(order.tool, order.digest, "theirs", [], True)
            for number, parts in enumerate(changing):
                record.touched += self._kept_before(desk, parts, "old2" if number else "old")
            desk.save(record)
            try:
                yield
            except BaseException as error:
                with order.closing(error):
                    self._look_after(record)
                    self._put_back(desk, record)
                    desk.clear()
                raise
            with order.closing():
                self._look_after(record)
                record.done = True
                desk.save(record)
                if order.alone:
                    desk.clear()

    def _kept_before(self, desk: Desk, parts: Parts, part: str) -> list[Touch]:
        depth = self._root.existing(parts[:-1])
        missing = [Touch(parts[:count], None, None) for count in range(depth + 1, len(parts))]
        if missing:
            return [*missing, Touch(parts, None, None)]
        with self._root.entered(parts[:-1]) as folder:
            before = picture(folder, parts[-1])
            if before is None or before.kind != "file":
                return [Touch(parts, before, None)]
            # The file may be written in place: a hard link would change with it.
            desk.keep(folder, parts[-1], part, copy=True)
            return [Touch(parts, before, None, part)]

    def _look_after(self, record: Record) -> None:
        for touch in record.touched:
            with suppress(FileNotFoundError, NotADirectoryError), self._root.entered(touch.parts[:-1]) as folder:
                touch.after = picture(folder, touch.parts[-1], digest=True)


def _is_as_found(touch: Touch) -> bool:
    """Whether an act left an existing folder as it was: then there is nothing to restore."""
    found, left = touch.before, touch.after
    return found is not None and found.kind == "folder" and is_same(left, found)


def _remove(folder: int, name: str, now: Picture | None, shown: str) -> None:
    if now is None:
        return
    if now.kind != "folder":
        os.unlink(name, dir_fd=folder)
        return
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        raise OSError(
            error.errno, f"the folder {shown!r} is not removed, {error.strerror}: look at what was put into it"
        ) from None


def _put_beside(desk: Desk, kept: str, folder: int, name: str, shown: str) -> None:
    """Restore a kept file where nothing is: by a hard link, which never replaces a newer file."""
    try:
        os.link(desk.name(kept), name, src_dir_fd=desk.folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise FileExistsError(f"{shown!r} was made by another writer meanwhile: put it right by hand") from None
    except OSError:
        os.rename(desk.name(kept), name, src_dir_fd=desk.folder, dst_dir_fd=folder)


def _told(error: OSError, order: Order) -> OSError:
    """Return the system's error with its meaning for the call."""
    if error.errno is None:
        return error
    why = error.strerror or str(error)
    return OSError(
        error.errno, f"{order.tool} on {order.about} changed nothing: {why}; put that right, then call again"
    )


__all__ = ["Acts"]
