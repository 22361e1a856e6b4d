"""Changes one object once under a key, probes whether that happened, and undoes it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from settlemark import UNKNOWN, StateError
from settlemark_adapters._keyed import Order
from settlemark_adapters.objects._bucket import OWN, Bucket

_PARTS = ("new", "new.part", "old", "back")


@dataclass(slots=True)
class Record:
    """The record of an act.

    Attributes:
        tool, digest: the call.
        key: the object's.
        before, after: digests of the content before and after, None for no object.
        kept: the previous content is kept.
        theirs: a user's own function does it.
        result: what the call returns.
        done: it has happened, for certain. undone: and was undone.
    """

    tool: str
    digest: str
    key: str
    before: str | None
    after: str | None
    kept: bool
    result: Any
    theirs: bool = False
    done: bool = False
    undone: bool = False


class Acts:
    """Acts on the objects of a bucket: each once under its key."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    # ---- acting

    def put(self, order: Order, key: str, fill: Callable[[str], None], result: Any) -> Any:
        """Write an object by `fill`, which gets the key to write to; return `result`.

        Raises:
            OSError: nothing was done, and the message says why.
        """
        return self._perform(order, key, result, fill)

    def remove(self, order: Order, key: str, result: Any) -> Any:
        """Remove an object; return `result`.

        Raises:
            OSError: nothing was done, and the message says why.
        """
        return self._perform(order, key, result, None)

    def _perform(self, order: Order, key: str, result: Any, fill: Callable[[str], None] | None) -> Any:
        known = self._recorded(order)
        if known is not None:
            return known.result
        bucket, mark = self._bucket, order.mark
        version = bucket.version(key)
        record: Record | None = None
        try:
            before = bucket.digest(key)
            if fill is None and before is None:
                raise FileNotFoundError(f"there is no object {key!r}: name one that is there; list_objects tells which")
            kept = before is not None and order.keeps
            if kept:
                bucket.copy(key, _at(mark, "old"))
            if fill is not None:
                fill(_at(mark, "new"))
            after = None if fill is None else bucket.digest(_at(mark, "new"))
            made = Record(order.tool, order.digest, key, before, after, kept, result)
            if bucket.version(key) != version or (kept and bucket.digest(_at(mark, "old")) != before):
                raise OSError(
                    f"{key!r} was changed by another writer meanwhile: {order.tool} was not done; try it again"
                )
            self._save(mark, made)
            record = made
            if fill is None:
                bucket.remove(key)
            else:
                bucket.move(_at(mark, "new"), key)
        except BaseException:
            if record is None:
                self.clear(mark)
            else:
                self.outcome(mark, record)
            raise
        self._settle(order, record)
        return result

    def _settle(self, order: Order, record: Record) -> None:
        if order.alone:
            self.clear(order.mark)
        elif record.after is None or not self._bucket.steady:
            record.done = True
            self._save(order.mark, record)

    def _recorded(self, order: Order) -> Record | None:
        record = self.load(order.mark)
        if record is None:
            self.clear(order.mark)
            return None
        order.check_same(record.tool, record.digest)
        if record.undone:
            raise StateError(f"{order.tool} on {order.about} was undone: its key is used up", key=order.key)
        happened = self.outcome(order.mark, record)
        if happened is UNKNOWN:
            raise order.in_doubt("")
        return record if happened else None

    # ---- asking

    def probe(self, mark: str) -> Any:
        """Return the result of the act under a mark, None if it did not happen, `UNKNOWN` if that cannot be told."""
        record = self.load(mark)
        if record is None or record.undone:
            return None
        happened = self.outcome(mark, record)
        return happened if happened is UNKNOWN else record.result if happened else None

    def outcome(self, mark: str, record: Record) -> Any:
        """Return whether a recorded act happened, or `UNKNOWN`; one that did not is forgotten."""
        happened = True if record.done else self._seen(mark, record)
        if happened is False:
            self.clear(mark)
        return happened

    def _seen(self, mark: str, record: Record) -> Any:
        bucket = self._bucket
        if record.after is not None and not record.theirs:
            # It is there until it is moved, which is one step on a steady store.
            if not bucket.has(_at(mark, "new")):
                return True
            if bucket.steady:
                return False
        now = bucket.digest(record.key)
        if now == record.before:
            return False
        return True if now == record.after and not record.theirs else UNKNOWN

    # ---- undoing

    def undo(self, mark: str, about: str) -> None:
        """Restore an object as it was before an act; a second time does nothing.

        Raises:
            LookupError: no record of it is kept.
            OSError: the object has changed since the act, and stays as it is.
        """
        record = self.load(mark)
        if record is None:
            raise LookupError(f"nothing is kept of what was done to {about}: it was pruned; put it right by hand")
        if not record.undone:
            self._put_back(mark, record)
            record.undone = True
            self._save(mark, record)
        self._drop(mark, *_PARTS)

    def _put_back(self, mark: str, record: Record) -> None:
        bucket, key = self._bucket, record.key
        now = bucket.digest(key)
        if now == record.before:
            return
        if now != record.after:
            raise OSError(f"{key!r} was changed by another writer since: it stays as it is; put it right by hand")
        if record.before is None:
            bucket.remove(key)
        elif not record.kept or not bucket.has(_at(mark, "old")):
            raise LookupError(f"what {key!r} was before is not kept any more: put it right by hand")
        else:
            bucket.copy(_at(mark, "old"), _at(mark, "back"))
            bucket.move(_at(mark, "back"), key)

    # ---- users' own functions

    @contextmanager
    def keeping(self, order: Order, key: str) -> Generator[None, None, None]:
        """Keep an object's content while a user's own function changes it; when that raises, restore it."""
        if self._recorded(order) is not None:
            raise StateError(f"{order.tool} on {order.about} has happened: it is not done twice", key=order.key)
        bucket, mark = self._bucket, order.mark
        before = bucket.digest(key)
        if before is not None:
            bucket.copy(key, _at(mark, "old"))
        record = Record(order.tool, order.digest, key, before, before, before is not None, result=True, theirs=True)
        self._save(mark, record)
        try:
            yield
        except BaseException as error:
            with order.closing(error):
                record.after = bucket.digest(key)
                self._put_back(mark, record)
                self.clear(mark)
            raise
        with order.closing():
            record.after, record.done = bucket.digest(key), True
            self._save(mark, record)
            if order.alone:
                self.clear(mark)

    # ---- records

    def load(self, mark: str) -> Record | None:
        """Return the record under a mark, or None."""
        text = self._bucket.read(_at(mark, "json"))
        return None if text is None else Record(**json.loads(text))

    def clear(self, mark: str) -> None:
        """Remove everything under a mark: the record first, since an act without one never happened."""
        self._drop(mark, "json", "json.part", *_PARTS)

    def forget(self, older_than: float) -> int:
        """Remove records older than so many seconds, and return of how many acts."""
        seen: dict[str, float] = {}
        for name, at in self._bucket.kept().items():
            mark = name.partition(".")[0]
            seen[mark] = max(at, seen.get(mark, 0.0))
        old = [mark for mark, at in seen.items() if at <= time.time() - older_than]
        for mark in old:
            self.clear(mark)
        return len(old)

    def _save(self, mark: str, record: Record) -> None:
        self._bucket.write(_at(mark, "json"), json.dumps(asdict(record)).encode())

    def _drop(self, mark: str, *parts: str) -> None:
        self._bucket.remove(*(_at(mark, part) for part in parts))


def _at(mark: str, part: str) -> str:
    return f"{OWN}/{mark}.{part}"


__all__ = ["Acts", "Record"]
