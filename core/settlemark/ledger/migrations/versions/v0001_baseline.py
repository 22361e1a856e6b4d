"""The tables of the first release, from which later versions start.

A store from before this version is refused: nothing had been released, and its log has another form.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

LEFT = sa.text("tag IS NOT NULL AND tag <> 'clean' AND dealt_at_seconds IS NULL")
DEALT = sa.text("dealt_at_seconds IS NOT NULL")
TAGGED = sa.text("tag IS NOT NULL")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "settlemark_blob",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "digest"),
    )
    op.create_table(
        "settlemark_blob_use",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "name", "attempt", "digest"),
    )
    op.create_index("settlemark_blob_use_digest", "settlemark_blob_use", ["namespace", "digest"])
    op.create_table(
        "settlemark_fence",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("run", sa.String(512), nullable=False),
        sa.Column("at_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "run"),
    )
    op.create_table(
        "settlemark_head",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("namespace"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "settlemark_image",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace"),
    )
    op.create_table(
        "settlemark_log",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "n"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "settlemark_meta",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "settlemark_transaction",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(512), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.String(512), nullable=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("opened_at_seconds", sa.Float(), nullable=False),
        sa.Column("settled_at_seconds", sa.Float(), nullable=True),
        sa.Column("forget_at_seconds", sa.Float(), nullable=True),
        sa.Column("sealed_at_seconds", sa.Float(), nullable=True),
        sa.Column("decided_at_seconds", sa.Float(), nullable=True),
        sa.Column("waits", sa.Text(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("link", sa.String(1024), nullable=True),
        sa.Column("waits_for", sa.Text(), nullable=True),
        sa.Column("waits_on", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "name", "attempt"),
    )
    op.create_index(
        "settlemark_transaction_age", "settlemark_transaction", ["namespace", "forget_at_seconds", "settled_at_seconds"]
    )
    op.create_index(
        "settlemark_transaction_run",
        "settlemark_transaction",
        ["namespace", "run", "state", "opened_at_seconds", "epoch", "attempt"],
    )
    op.create_index(
        "settlemark_transaction_state",
        "settlemark_transaction",
        ["namespace", "state", "opened_at_seconds", "epoch", "attempt"],
    )
    op.create_table(
        "settlemark_worker",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("id", sa.String(255), nullable=False),
        sa.Column("lease_until_seconds", sa.Float(), nullable=False),
        sa.Column("applied", sa.BigInteger(), nullable=False),
        sa.Column("since_seconds", sa.Float(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("lease_seconds", sa.Float(), nullable=False),
        sa.Column("buried_at_seconds", sa.Float(), nullable=True),
        sa.Column("quarantine_seconds", sa.Float(), nullable=True),
        sa.Column("watched_seconds", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("namespace", "id"),
    )
    op.create_table(
        "settlemark_effect",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("key", sa.String(1024), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tool", sa.String(512), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("call_id", sa.Text(), nullable=True),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("rationale", sa.Text(), nullable=True),
        sa.Column("handlers", sa.Text(), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("intended_at_seconds", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("tag", sa.String(16), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("settled_at_seconds", sa.Float(), nullable=True),
        sa.Column("window_seconds", sa.Float(), nullable=True),
        sa.Column("leaves", sa.Integer(), server_default="0", nullable=False),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("sender", sa.String(255), nullable=True),
        sa.Column("said", sa.Text(), nullable=True),
        sa.Column("said_by", sa.String(255), nullable=True),
        sa.Column("said_at_seconds", sa.Float(), nullable=True),
        sa.Column("dealt_at_seconds", sa.Float(), nullable=True),
        sa.Column("run", sa.String(512), nullable=True),
        sa.Column("disposition", sa.String(16), nullable=True),
        sa.Column("link", sa.String(1024), nullable=True),
        sa.Column("question", sa.Integer(), nullable=True),
        sa.Column("contradicted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.ForeignKeyConstraint(
            ["namespace", "name", "attempt"],
            ["settlemark_transaction.namespace", "settlemark_transaction.name", "settlemark_transaction.attempt"],
        ),
        sa.PrimaryKeyConstraint("namespace", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "settlemark_effect_dealt",
        "settlemark_effect",
        ["namespace", "dealt_at_seconds", "key"],
        sqlite_where=DEALT,
        postgresql_where=DEALT,
    )
    op.create_index(
        "settlemark_effect_left",
        "settlemark_effect",
        ["namespace", "intended_at_seconds", "key"],
        sqlite_where=LEFT,
        postgresql_where=LEFT,
    )
    op.create_index(
        "settlemark_effect_run_dealt",
        "settlemark_effect",
        ["namespace", "run", "dealt_at_seconds", "key"],
        sqlite_where=DEALT,
        postgresql_where=DEALT,
    )
    op.create_index(
        "settlemark_effect_run_left",
        "settlemark_effect",
        ["namespace", "run", "intended_at_seconds", "key"],
        sqlite_where=LEFT,
        postgresql_where=LEFT,
    )
    op.create_index(
        "settlemark_effect_tag", "settlemark_effect", ["namespace", "tag"], sqlite_where=TAGGED, postgresql_where=TAGGED
    )
    op.create_index("settlemark_effect_transaction", "settlemark_effect", ["namespace", "name", "attempt"])
    op.execute("INSERT INTO settlemark_meta (key, value) VALUES ('schema', '4')")
