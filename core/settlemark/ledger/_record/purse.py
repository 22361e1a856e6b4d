"""The rows of budgets in a SQL store, as seen by one open transaction."""

from __future__ import annotations

from decimal import Decimal

from settlemark._model.budget import amount_text
from settlemark.ledger._budgets import Bucket, Spend
from settlemark.ledger._sql.wire import Statement, Wire


class SqlPurse:
    """The rows of budgets of one namespace, in the open transaction of a wire.

    Args:
        wire: the transaction's.
        namespace: whose rows they are.
        used: whether anything was ever taken from a budget here: the head of the log says so.
    """

    __slots__ = ("_namespace", "_wire", "used")

    def __init__(self, wire: Wire, namespace: str, *, used: bool) -> None:
        self._wire = wire
        self._namespace = namespace
        self.used = used

    def __bool__(self) -> bool:
        return self.used

    def spends(self, key: str) -> list[Spend]:
        """Return what was taken under a key."""
        rows = self._wire.query(_SPENDS, {"namespace": self._namespace, "key": key})
        return [
            Spend(key, budget, bucket, Decimal(asked), Decimal(amount), stands)
            for budget, bucket, asked, amount, stands in rows
        ]

    def bucket(self, budget: str, bucket: str) -> Bucket | None:
        """Return a bucket, or None."""
        rows = self._wire.query(_BUCKET, {"namespace": self._namespace, "budget": budget, "bucket": bucket})
        return next((Bucket(budget, bucket, *map(Decimal, amounts)) for amounts in rows), None)

    def buckets(self) -> list[Bucket]:
        """Return all buckets, by budget and name."""
        rows = self._wire.query(_BUCKETS, {"namespace": self._namespace})
        return [Bucket(budget, bucket, *map(Decimal, amounts)) for budget, bucket, *amounts in sorted(rows)]

    def holders(self, budget: str, bucket: str, limit: int) -> list[str]:
        """Return keys of effects for which something of a bucket is reserved."""
        here = {"namespace": self._namespace, "budget": budget, "bucket": bucket, "limit": limit}
        return [key for (key,) in self._wire.query(_HOLDERS, here)]

    def put(self, spend: Spend, bucket: Bucket) -> None:
        """Write what a key takes from a bucket, and the bucket."""
        row = spend._asdict() | {"asked": amount_text(spend.asked), "amount": amount_text(spend.amount)}
        self._wire.execute(_PUT_SPEND, {"namespace": self._namespace, **row})
        self.put_bucket(bucket)

    def put_bucket(self, bucket: Bucket) -> None:
        """Write a bucket."""
        row = {
            "namespace": self._namespace,
            "budget": bucket.budget,
            "bucket": bucket.bucket,
            "cap": amount_text(bucket.limit),
            "charged": amount_text(bucket.charged),
            "reserved": amount_text(bucket.reserved),
        }
        self._wire.execute(_PUT_BUCKET, row)
        if not self.used:
            self._wire.execute(_USED, {"namespace": self._namespace})
            self.used = True

    def move(self, key: str, to: str) -> None:
        """Let another key have what was taken under a key."""
        self._wire.execute(_MOVE, {"namespace": self._namespace, "key": key, "to": to})


_SPENDS = Statement(
    "SELECT budget, bucket, asked, amount, stands FROM settlemark_spend"
    " WHERE namespace = :namespace AND key = :key ORDER BY budget, bucket"
)
_BUCKET = Statement(
    "SELECT cap, charged, reserved FROM settlemark_budget"
    " WHERE namespace = :namespace AND budget = :budget AND bucket = :bucket"
)
_BUCKETS = Statement(
    "SELECT budget, bucket, cap, charged, reserved FROM settlemark_budget WHERE namespace = :namespace"
)
_HOLDERS = Statement(
    "SELECT key FROM settlemark_spend WHERE namespace = :namespace AND budget = :budget AND bucket = :bucket"
    " AND stands = 'reserved' ORDER BY key LIMIT :limit"
)
_PUT_SPEND = Statement(
    "INSERT INTO settlemark_spend (namespace, key, budget, bucket, asked, amount, stands)"
    " VALUES (:namespace, :key, :budget, :bucket, :asked, :amount, :stands)"
    " ON CONFLICT (namespace, key, budget, bucket)"
    " DO UPDATE SET asked = excluded.asked, amount = excluded.amount, stands = excluded.stands"
)
_PUT_BUCKET = Statement(
    "INSERT INTO settlemark_budget (namespace, budget, bucket, cap, charged, reserved)"
    " VALUES (:namespace, :budget, :bucket, :cap, :charged, :reserved)"
    " ON CONFLICT (namespace, budget, bucket)"
    " DO UPDATE SET cap = excluded.cap, charged = excluded.charged, reserved = excluded.reserved"
)
_MOVE = Statement("UPDATE settlemark_spend SET key = :to WHERE namespace = :namespace AND key = :key")
_USED = Statement("UPDATE settlemark_head SET budgets = 1 WHERE namespace = :namespace")

__all__ = ["SqlPurse"]
