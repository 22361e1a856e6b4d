"""`settlemark budgets`: what is charged to each budget, what is reserved, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from settlemark._cli.commands.options import AsJson, LedgerName, Namespace, seen
from settlemark._cli.terminal import say_json, say_text
from settlemark._model.budget import amount_text

if TYPE_CHECKING:
    from settlemark.ledger._budgets import Bucket

NOTHING = "Nothing was ever asked of a budget."


def budgets(ledger: LedgerName = None, *, as_json: AsJson = False, namespace: Namespace = "default") -> None:
    """Show each bucket of each budget: its limit, what is charged, what is reserved, and what is left."""
    found = seen(ledger, namespace, lambda opened: opened.read(lambda book: book.purse.buckets()))
    if as_json:
        say_json([bucket.values() for bucket in found])
    else:
        say_text("\n".join(map(_told, found)) if found else NOTHING)


def _told(bucket: Bucket) -> str:
    limit, charged, reserved, left = map(amount_text, (bucket.limit, bucket.charged, bucket.reserved, bucket.left))
    return f"{bucket.budget} of {bucket.bucket}: {charged} charged and {reserved} reserved of {limit}, {left} left"


__all__ = ["budgets"]
