"""A ledger's own id, which its idempotency keys carry: two ledgers never send one key to a counterparty."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_REASONS = (
    "failed", "stale", "wounded", "cascaded", "vetoed", "cancelled", "timeout", "violation", "release refused",
    "abandoned", "ledger failed", "lease lost", "late", "rewound", "overdue",
)  # fmt: skip


def upgrade() -> None:
    """Add what the edges of the ledger need."""
    bind = op.get_bind()
    op.add_column("settlemark_effect", sa.Column("leaves", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE settlemark_effect SET leaves = 1 WHERE kind = 'irreversible'")
    bind.execute(
        sa.text("INSERT INTO settlemark_meta (key, value) VALUES ('ledger', :ledger)"), {"ledger": secrets.token_hex(8)}
    )
    op.add_column("settlemark_effect", sa.Column("path", sa.Text))
    _watch_beats()
    for column in (
        sa.Column("said", sa.Text), sa.Column("said_by", sa.String(255)), sa.Column("said_at_seconds", sa.Float),
        sa.Column("dealt_at_seconds", sa.Float), sa.Column("run", sa.String(512)),
        sa.Column("disposition", sa.String(16)), sa.Column("link", sa.String(1024)), sa.Column("question", sa.Integer),
        sa.Column("contradicted", sa.Boolean, nullable=False, server_default=sa.text("false")),
    ):  # fmt: skip
        op.add_column("settlemark_effect", column)
    for name, kind in (
        ("sealed_at_seconds", sa.Float), ("decided_at_seconds", sa.Float), ("waits", sa.Text), ("cause", sa.Text),
        ("link", sa.String(1024)), ("waits_for", sa.Text), ("waits_on", sa.Text),
    ):  # fmt: skip
        op.add_column("settlemark_transaction", sa.Column(name, kind))
    _part_reasons(bind)
    op.drop_index("settlemark_transaction_run", "settlemark_transaction")
    order = ["opened_at_seconds", "epoch", "attempt"]
    op.create_index("settlemark_transaction_run", "settlemark_transaction", ["namespace", "run", "state", *order])
    op.create_index("settlemark_transaction_state", "settlemark_transaction", ["namespace", "state", *order])
    op.execute(
        "UPDATE settlemark_effect SET run = (SELECT run FROM settlemark_transaction AS t WHERE t.namespace ="
        " settlemark_effect.namespace AND t.name = settlemark_effect.name AND t.attempt = settlemark_effect.attempt)"
        " WHERE tag IS NOT NULL AND tag <> 'clean'"
    )
    left, dealt = "tag IS NOT NULL AND tag <> 'clean' AND dealt_at_seconds IS NULL", "dealt_at_seconds IS NOT NULL"
    for name, columns, where in (
        ("left", ["intended_at_seconds", "key"], left),
        ("dealt", ["dealt_at_seconds", "key"], dealt),
        ("run_left", ["run", "intended_at_seconds", "key"], left),
        ("run_dealt", ["run", "dealt_at_seconds", "key"], dealt),
    ):
        some = sa.text(where)
        op.create_index(
            f"settlemark_effect_{name}", "settlemark_effect", ["namespace", *columns],
            sqlite_where=some, postgresql_where=some,
        )  # fmt: skip
    op.execute("UPDATE settlemark_meta SET value = '3' WHERE key = 'schema'")


def _part_reasons(bind: sa.Connection) -> None:
    """Have the cause beside the reason, which is one of a few words from here on."""
    found = bind.execute(
        sa.text("SELECT namespace, name, attempt, reason FROM settlemark_transaction WHERE reason IS NOT NULL")
    )
    for namespace, name, attempt, text in list(found):
        word, _, cause = text.partition(": ")
        known = word in _REASONS
        bind.execute(
            sa.text(
                "UPDATE settlemark_transaction SET reason = :reason, cause = :cause"
                " WHERE namespace = :namespace AND name = :name AND attempt = :attempt"
            ),
            {
                "reason": word if known else None, "cause": (cause or None) if known else text, "namespace": namespace,
                "name": name, "attempt": attempt,
            },
        )  # fmt: skip


def _watch_beats() -> None:
    """Have workers watched by their beat: the rows of before are made anew, since no column may have a default."""
    workers = "namespace, id, lease_until_seconds, applied, since_seconds"
    op.rename_table("settlemark_worker", "settlemark_worker_before")
    op.create_table(
        "settlemark_worker",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("lease_until_seconds", sa.Float, nullable=False),
        sa.Column("applied", sa.BigInteger, nullable=False),
        sa.Column("since_seconds", sa.Float, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("lease_seconds", sa.Float, nullable=False),
        sa.Column("buried_at_seconds", sa.Float),
        sa.Column("quarantine_seconds", sa.Float),
        sa.Column("watched_seconds", sa.Float),
    )
    op.execute(
        f"INSERT INTO settlemark_worker ({workers}, beat, lease_seconds)"  # noqa: S608 - our names
        f" SELECT {workers}, 0, 30 FROM settlemark_worker_before"
    )
    op.drop_table("settlemark_worker_before")
    op.add_column("settlemark_effect", sa.Column("sender", sa.String(255)))
