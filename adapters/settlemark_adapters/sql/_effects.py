"""The side table: what was done under which key, with the rows before and after.

A record is written in the acting transaction, so it is there exactly when the act happened. Its key is claimed before
anything else: claiming a key that another transaction is acting under waits for the end of that transaction.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from settlemark.hosting import json_text
from settlemark_adapters._database import insert_unless_there
from settlemark_adapters.sql._values import Exact

metadata = sa.MetaData()
effects = sa.Table(
    "settlemark_effects",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("tool", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False, index=True),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text),
    sa.Column("pk", sa.Text),
    sa.Column("before", sa.Text),
    sa.Column("after", sa.Text),
    sa.Column("result", sa.Text),
    sa.Column("undone", sa.Boolean, nullable=False, default=False),
    sa.Column("at", sa.DateTime, nullable=False),
)


class KeyReused(ValueError):
    """The same key was used before with another request, or its effect was undone: nothing was done."""


@dataclass(frozen=True)
class Claim:
    """A request to act under a key: `request` is the arguments' canonical text."""

    key: str
    tool: str
    step: str = ""
    request: str = ""


@dataclass(frozen=True)
class Done:
    """What an act did.

    Attributes:
        result: the tool's result.
        table: the table of the row, or None for a statement.
        pk: the row's key, as JSON.
        before: the row before it, or the parameters of a statement; None: there was none.
        after: the row after it; None: there is none.
    """

    result: Any
    table: str | None = None
    pk: Any = None
    before: Exact | None = None
    after: Exact | None = None


@dataclass(frozen=True)
class Recorded:
    """A row of the side table. `done` is None for a key that was undone before anything happened under it."""

    tool: str
    request: str
    done: Done
    undone: bool


def claim(connection: sa.Connection, wanted: Claim) -> Recorded | None:
    """Claim a key, and return None; or return its record, when it was claimed before."""
    line = {**asdict(wanted), "at": _now()}
    return None if insert_unless_there(connection, effects, line) else look(connection, wanted.key)


def check_same(found: Recorded, wanted: Claim) -> None:
    """Check that this is the same request again.

    Raises:
        KeyReused: it is another, or it was undone.
    """
    if found.undone:
        raise KeyReused(
            f"{wanted.tool} under the key {wanted.key!r} was undone, and nothing was done again: make a new call,"
            " which gets a new key"
        )
    if (found.tool, found.request) != (wanted.tool, wanted.request):
        raise KeyReused(
            f"the key {wanted.key!r} was used before for {found.tool} {found.request}, not for {wanted.tool}"
            f" {wanted.request}: nothing was done; two ledgers that write to one database must not use the same names"
        )


def look(connection: sa.Connection, key: str) -> Recorded:
    """Return an existing key's record, and lock it to the end of the transaction."""
    row = connection.execute(sa.select(effects).where(effects.c.key == key).with_for_update()).one()
    texts = (row.pk, row.before, row.after, row.result)
    pk, before, after, result = (None if text is None else json.loads(text) for text in texts)
    return Recorded(row.tool, row.request, Done(result, row.table_name, pk, before, after), row.undone)


def is_known(connection: sa.Connection, key: str) -> bool:
    """Whether a key is claimed."""
    return connection.execute(sa.select(effects.c.key).where(effects.c.key == key)).first() is not None


def keep(connection: sa.Connection, key: str, done: Done) -> None:
    """Write an act's record under a key that this transaction has claimed."""
    values = {
        "table_name": done.table,
        "pk": json_text.encode(done.pk),
        "before": json_text.encode(done.before),
        "after": json_text.encode(done.after),
        "result": json_text.encode_result(done.result),
    }
    connection.execute(effects.update().where(effects.c.key == key).values(values))


def mark_undone(connection: sa.Connection, key: str) -> None:
    """Record that the act under a key is undone, or that nothing may ever be done under it."""
    connection.execute(effects.update().where(effects.c.key == key).values(undone=True))


def prune(connection: sa.Connection, days: float) -> int:
    """Remove records older than so many days, and return how many."""
    old = effects.delete().where(effects.c.at < _now() - dt.timedelta(days=days))
    return connection.execute(old, execution_options={"preserve_rowcount": True}).rowcount


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)


def of_step(connection: sa.Connection, step: str) -> list[Done]:
    """Return what a transaction has done and not undone, by its name."""
    found = sa.select(effects.c.key).where(effects.c.step == step, ~effects.c.undone).order_by(effects.c.key)
    return [look(connection, key).done for key in connection.execute(found).scalars().all()]


__all__ = [
    "Claim",
    "Done",
    "KeyReused",
    "Recorded",
    "check_same",
    "claim",
    "is_known",
    "keep",
    "look",
    "mark_undone",
    "metadata",
    "of_step",
    "prune",
]
