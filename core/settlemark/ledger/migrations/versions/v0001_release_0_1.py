"""The tables of release 0.1: one process, one SQLite file, and no log of the protocol."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "settlemark_meta",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "settlemark_epochs",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("next", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "settlemark_worker",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("lease_until_seconds", sa.Float),
        sa.Column("dead", sa.Boolean, nullable=False),
    )
    op.create_table(
        "settlemark_transaction",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(512), primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("run", sa.String(512), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("ordinal", sa.String(512), nullable=False),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("fence", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("opened_at_seconds", sa.Float, nullable=False),
        sa.Column("settled_at_seconds", sa.Float),
    )
    op.create_index("settlemark_transaction_state", "settlemark_transaction", ["namespace", "state"])
    op.create_index("settlemark_transaction_run", "settlemark_transaction", ["namespace", "run"])
    op.create_table(
        "settlemark_effect",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("key", sa.String(1024), primary_key=True),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("tool", sa.String(512), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("call_id", sa.Text),
        sa.Column("arguments", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String(32), nullable=False),
        sa.Column("rationale", sa.Text),
        sa.Column("handlers", sa.Text, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("intended_at_seconds", sa.Float, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("tag", sa.String(16)),
        sa.Column("note", sa.Text),
        sa.Column("settled_at_seconds", sa.Float),
        sa.ForeignKeyConstraint(
            ["namespace", "name", "attempt"],
            ["settlemark_transaction.namespace", "settlemark_transaction.name", "settlemark_transaction.attempt"],
        ),
    )
    op.create_index("settlemark_effect_transaction", "settlemark_effect", ["namespace", "name", "attempt"])
    op.create_table(
        "settlemark_fence",
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("run", sa.String(512), primary_key=True),
        sa.Column("at_seconds", sa.Float, nullable=False),
    )
    op.execute("INSERT INTO settlemark_meta (key, value) VALUES ('schema', '1')")
