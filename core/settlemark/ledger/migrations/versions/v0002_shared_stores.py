"""Ledgers that several processes share, payloads by reference, and a record that may grow old.

The protocol's state is in a log from here on. One of 0.1 has none, so what it has not finished cannot be
taken up: it is refused, or given up, and then named as residue.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from settlemark._edges.errors import LedgerError

revision = "0002"
down_revision = "0001"

_GIVEN_UP = "its process ended under release 0.1, and its ledger was migrated: ask the counterparty"
_ACTED = "('confirmed', 'intended', 'unknown')"
_PAYLOADS = ("arguments", "rationale", "result", "error", "note")
_MARKS = ('{"$ref":', '{"$sealed":', '{"$plain":', '{"$pruned":')


def upgrade() -> None:
    """Change the tables, and carry over what they say."""
    bind = op.get_bind()
    if context.config.attributes.get("give_up"):
        _give_up(bind)
    _refuse_unfinished(bind)
    _change_tables()
    _begin_logs(bind)
    _wrap_payloads(bind)
    op.drop_table("settlemark_epochs")
    op.execute("UPDATE settlemark_meta SET value = '2' WHERE key = 'schema'")
    _run(bind, "INSERT INTO settlemark_meta (key, value) VALUES ('salt', :salt)", salt=secrets.token_hex(32))


def _run(bind: sa.Connection, statement: str, **values: Any) -> Any:
    return bind.execute(sa.text(statement), values)


# ---- what is unfinished


def _refuse_unfinished(bind: sa.Connection) -> None:
    unfinished = _run(
        bind, "SELECT name FROM settlemark_transaction WHERE state NOT IN ('committed', 'aborted') ORDER BY name"
    )
    names = list(unfinished.scalars())
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""  # noqa: PLR2004 - enough to know them by
        raise LedgerError(
            f"{len(names)} transaction(s) of release 0.1 have not finished: {', '.join(names[:5])}{more}; nothing was"
            " changed. Enter their names once more with settlemark 0.1, which undoes or finishes them; or run"
            " `settlemark migrate --give-up`: they count as aborted then, nothing of them is undone, and"
            " `settlemark residue` names what may have happened",
            unfinished=names,
        )


def _give_up(bind: sa.Connection) -> None:
    now = time.time()
    unfinished = (
        "SELECT 1 FROM settlemark_transaction AS t WHERE t.namespace = settlemark_effect.namespace"
        " AND t.name = settlemark_effect.name AND t.attempt = settlemark_effect.attempt"
        " AND t.state NOT IN ('committed', 'aborted')"
    )
    _run(
        bind,
        "UPDATE settlemark_effect SET tag = 'unresolved', note = :note, settled_at_seconds = :now,"  # noqa: S608
        " outcome = CASE WHEN outcome = 'intended' THEN 'unknown' ELSE outcome END"
        f" WHERE outcome IN {_ACTED} AND tag IS NULL AND EXISTS ({unfinished})",
        note=_GIVEN_UP, now=now,
    )  # fmt: skip
    # What was held had not left, unless its process ended while it let it leave.
    _run(
        bind,
        "UPDATE settlemark_effect SET tag = 'unresolved', outcome = 'unknown', note = :note,"  # noqa: S608
        f" settled_at_seconds = :now WHERE outcome = 'queued' AND EXISTS ({unfinished} AND t.state = 'releasing')",
        note=_GIVEN_UP, now=now,
    )  # fmt: skip
    _run(
        bind,
        "UPDATE settlemark_effect SET tag = 'clean', outcome = 'dropped', settled_at_seconds = :now"  # noqa: S608
        f" WHERE outcome IN ('queued', 'suspended') AND EXISTS ({unfinished})",
        now=now,
    )  # fmt: skip
    _run(
        bind,
        "UPDATE settlemark_transaction SET state = 'aborted', reason = 'abandoned: given up when it was migrated',"
        " settled_at_seconds = :now WHERE state NOT IN ('committed', 'aborted')",
        now=now,
    )  # fmt: skip


# ---- the tables


def _change_tables() -> None:
    op.drop_table("settlemark_worker")
    op.create_table(
        "settlemark_worker",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("lease_until_seconds", sa.Float, nullable=False),
        sa.Column("applied", sa.BigInteger, nullable=False),
        sa.Column("since_seconds", sa.Float, nullable=False),
    )
    op.create_table(
        "settlemark_head",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("n", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "settlemark_log",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("steps", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "settlemark_image",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table(
        "settlemark_blob",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("digest", sa.String(80), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "settlemark_blob_use",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(512), primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(80), primary_key=True),
    )
    op.create_index("settlemark_blob_use_digest", "settlemark_blob_use", ["namespace", "digest"])

    op.drop_index("settlemark_transaction_state", "settlemark_transaction")
    with op.batch_alter_table("settlemark_transaction") as batch:
        batch.drop_column("fence")
        batch.alter_column("owner", type_=sa.String(255), existing_type=sa.String(64), existing_nullable=False)
        batch.add_column(sa.Column("forget_at_seconds", sa.Float))
    op.create_index(
        "settlemark_transaction_age",
        "settlemark_transaction",
        ["namespace", "forget_at_seconds", "settled_at_seconds"],
    )
    with op.batch_alter_table("settlemark_effect", table_kwargs={"sqlite_with_rowid": False}) as batch:
        batch.alter_column("fingerprint", type_=sa.String(64), existing_type=sa.String(32), existing_nullable=False)
        batch.add_column(sa.Column("window_seconds", sa.Float))
    tagged = sa.text("tag IS NOT NULL")
    op.create_index(
        "settlemark_effect_tag",
        "settlemark_effect",
        ["namespace", "tag"],
        sqlite_where=tagged,
        postgresql_where=tagged,
    )


# ---- what they say


def _begin_logs(bind: sa.Connection) -> None:
    """Begin each namespace's log with the epochs that were given, and the runs that were cancelled."""
    epochs: dict[str, int] = dict(_run(bind, "SELECT namespace, next FROM settlemark_epochs").all())
    fences: dict[str, list[str]] = {}
    for namespace, run in _run(bind, "SELECT namespace, run FROM settlemark_fence ORDER BY at_seconds, run"):
        fences.setdefault(namespace, []).append(run)
    for namespace in sorted({*epochs, *fences}):
        steps: list[Any] = [["leap", [epochs.get(namespace, 1) - 1], {}]]
        steps += [["cancel", [run], {}] for run in fences.get(namespace, ())]
        _run(bind, "INSERT INTO settlemark_head (namespace, n) VALUES (:namespace, 1)", namespace=namespace)
        _run(
            bind,
            "INSERT INTO settlemark_log (namespace, n, worker, steps) VALUES (:namespace, 1, :worker, :steps)",
            namespace=namespace, worker="settlemark migrate", steps=json.dumps(steps, separators=(",", ":")),
        )  # fmt: skip


def _wrap_payloads(bind: sa.Connection) -> None:
    """Wrap what looks like one of the marks of this version, and is only a payload."""
    for field in _PAYLOADS:
        found = _run(
            bind,
            f"SELECT namespace, key, {field} FROM settlemark_effect WHERE substr({field}, 1, 3) = :mark",  # noqa: S608
            mark='{"$',
        )
        for namespace, key, text in list(found):
            if text.startswith(_MARKS):
                wrapped = json.dumps({"$plain": text}, ensure_ascii=False, separators=(",", ":"))
                _run(
                    bind,
                    f"UPDATE settlemark_effect SET {field} = :text WHERE namespace = :namespace AND key = :key",  # noqa: S608
                    text=wrapped, namespace=namespace, key=key,
                )  # fmt: skip
