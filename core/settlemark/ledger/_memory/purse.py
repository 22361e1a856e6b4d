"""The rows of budgets in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from settlemark._model.budget import NONE
from settlemark.ledger._budgets import Bucket, Spend
from settlemark.ledger._memory.rollback import value_restorer


class MemoryPurse:
    """The rows of budgets in memory: at most `retain` buckets of which nothing is reserved.

    Args:
        on_rollback: takes functions that undo a step's changes.
        retain: how many buckets are kept, and how many keys of charges.
    """

    def __init__(self, on_rollback: Callable[[Callable[[], object]], None], *, retain: int) -> None:
        self._on_rollback = on_rollback
        self._retain = max(retain, 1)
        self._spends: dict[str, list[Spend]] = {}
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._spends)

    def spends(self, key: str) -> list[Spend]:
        """Return what was taken under a key."""
        return list(self._spends.get(key, ()))

    def bucket(self, budget: str, bucket: str) -> Bucket | None:
        """Return a bucket, or None."""
        return self._buckets.get((budget, bucket))

    def buckets(self) -> list[Bucket]:
        """Return all buckets, by budget and name."""
        return [self._buckets[name] for name in sorted(self._buckets)]

    def holders(self, budget: str, bucket: str, limit: int) -> list[str]:
        """Return keys of effects for which something of a bucket is reserved."""
        found = (spend for spends in self._spends.values() for spend in spends)
        keys = sorted(s.key for s in found if (s.budget, s.bucket, s.stands) == (budget, bucket, "reserved"))
        return keys[:limit]

    def put(self, spend: Spend, bucket: Bucket) -> None:
        """Write what a key takes from a bucket, and the bucket."""
        before = self._spends.get(spend.key)
        self._on_rollback(value_restorer(self._spends, spend.key, before))
        rest = [each for each in before or () if (each.budget, each.bucket) != (spend.budget, spend.bucket)]
        self._spends[spend.key] = [*rest, spend]
        self.put_bucket(bucket)

    def put_bucket(self, bucket: Bucket) -> None:
        """Write a bucket; the oldest of those of which nothing is reserved goes when there are too many."""
        name = (bucket.budget, bucket.bucket)
        self._on_rollback(partial(self._restore, name, self._buckets.get(name)))
        self._buckets[name] = bucket
        self._buckets.move_to_end(name)
        if len(self._buckets) > self._retain:
            for old, known in self._buckets.items():
                if known.reserved == NONE and old != name and known.per != "namespace":
                    self._on_rollback(partial(self._restore, old, known))
                    del self._buckets[old]
                    break

    def move(self, key: str, to: str) -> None:
        """Let another key have what was taken under a key."""
        before = self._spends.get(key)
        if before is None:
            return
        for name in (key, to):
            self._on_rollback(value_restorer(self._spends, name, self._spends.get(name)))
        self._spends[to] = [spend._replace(key=to) for spend in before]
        del self._spends[key]

    def forget(self, key: str) -> None:
        """Forget what was taken under a key; the buckets keep their totals."""
        self._spends.pop(key, None)

    def _restore(self, name: tuple[str, str], before: Bucket | None) -> None:
        if before is None:
            self._buckets.pop(name, None)
        else:
            self._buckets[name] = before


__all__ = ["MemoryPurse"]
