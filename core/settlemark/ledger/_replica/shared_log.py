"""The shared log as rows of a store: its head, its entries, and the image behind which entries may be dropped."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from settlemark.ledger._record import tables as t
from settlemark.ledger._sql.wire import Statement, Wire


class SharedLog:
    """The log of one namespace; each method is a statement of the transaction that is open on a connection."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.decisions = False  # whether anything was ever decided, as of the same
        self.budgets = False  # whether anything was ever taken from a budget, at the last lock of the head

    def head(self, wire: Wire) -> int:
        """Return the number of the last entry."""
        ((number,),) = wire.query(_HEAD, {"b_namespace": self.namespace})
        return int(number)

    def lock_head(self, wire: Wire) -> tuple[int, float]:
        """Take the head, and return the number of the entry that is ours to write, and the store's time.

        One statement that locks and bumps; what the head guards is read by later statements, never by this one.
        """
        ((number, at, budgets, decisions),) = wire.query(_BUMP, {"namespace": self.namespace})
        self.budgets, self.decisions = bool(budgets), bool(decisions)
        return int(number), float(at)

    def await_head(self, wire: Wire) -> None:
        """Wait until no other transaction has the head: then each is known to have committed, or not."""
        wire.query(_LOCKED, {"namespace": self.namespace})

    def append(self, wire: Wire, number: int, worker: str, steps: str) -> None:
        """Write an entry."""
        wire.execute(_APPEND, {"namespace": self.namespace, "n": number, "worker": worker, "steps": steps})

    def behind(self, wire: Wire, number: int) -> list[Any]:
        """Return the entries behind this one, each with its number and steps; those dropped are not among them."""
        return wire.query(_BEHIND, {"b_namespace": self.namespace, "b_n": number})

    def writer(self, wire: Wire, number: int) -> str | None:
        """Return the worker that wrote an entry; None where there is no such entry."""
        for (worker,) in wire.query(_WRITER, {"namespace": self.namespace, "n": number}):
            return str(worker)
        return None

    def image(self, wire: Wire) -> tuple[int, str]:
        """Return the last image, and the number of the entry behind which it was made; 0 and "" without one."""
        for number, state in wire.query(_IMAGE, {"b_namespace": self.namespace}):
            return number, state
        return 0, ""

    def write_image(self, wire: Wire, number: int, state: str) -> None:
        """Write the state behind an entry in the last image's place."""
        wire.execute(_WRITE_IMAGE, {"namespace": self.namespace, "n": number, "state": state})

    def drop(self, wire: Wire, upto: int) -> None:
        """Drop the entries up to this one."""
        wire.execute(_DROP, {"namespace": self.namespace, "n": upto})


_LOCKED = Statement("SELECT n FROM settlemark_head WHERE namespace = :namespace FOR UPDATE")
_BUMP = Statement(
    "UPDATE settlemark_head SET n = n + 1 WHERE namespace = :namespace RETURNING n, {clock}, budgets, decisions"
)
_HEAD = Statement(sa.select(t.heads.c.n).where(t.heads.c.namespace == sa.bindparam("b_namespace")))
_APPEND = Statement(sa.insert(t.log))
_BEHIND = Statement(
    sa.select(t.log.c.n, t.log.c.steps)
    .where(t.log.c.namespace == sa.bindparam("b_namespace"), t.log.c.n > sa.bindparam("b_n"))
    .order_by(t.log.c.n)
)
_IMAGE = Statement(sa.select(t.images.c.n, t.images.c.state).where(t.images.c.namespace == sa.bindparam("b_namespace")))
_WRITE_IMAGE = Statement(
    "INSERT INTO settlemark_image (namespace, n, state) VALUES (:namespace, :n, :state)"
    " ON CONFLICT (namespace) DO UPDATE SET n = excluded.n, state = excluded.state"
)
_WRITER = Statement("SELECT worker FROM settlemark_log WHERE namespace = :namespace AND n = :n")
_DROP = Statement("DELETE FROM settlemark_log WHERE namespace = :namespace AND n <= :n")

__all__ = ["SharedLog"]
