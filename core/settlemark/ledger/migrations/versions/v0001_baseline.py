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
OWED_UNENDED = sa.text("fulfilled_key IS NULL AND waived_by IS NULL")
TAGGED = sa.text("tag IS NOT NULL")
LATEST, KEYED, KEPT = sa.text("latest"), sa.text("key IS NOT NULL"), sa.text("kept AND kind <> 'effect'")
RESERVED = sa.text("stands = 'reserved'")


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
        "settlemark_chain",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("run", sa.String(512), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("at_seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "run"),
        sqlite_with_rowid=False,
    )
    op.create_index("settlemark_chain_age", "settlemark_chain", ["namespace", "at_seconds"])
    op.create_table(
        "settlemark_entry",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("run", sa.String(512), nullable=False),
        sa.Column("place", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("id", sa.String(400), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(512)),
        sa.Column("attempt", sa.Integer()),
        sa.Column("key", sa.String(1024)),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("latest", sa.Boolean(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at_seconds", sa.Float(), nullable=False),
        sa.Column("due_seconds", sa.Float()),
        sa.Column("content", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kept", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "run", "place"),
        sqlite_with_rowid=False,
    )
    op.create_index("settlemark_entry_version", "settlemark_entry", ["namespace", "kind", "id", "version"], unique=True)
    op.create_index(
        "settlemark_entry_state",
        "settlemark_entry",
        ["namespace", "kind", "state", "due_seconds"],
        sqlite_where=LATEST,
        postgresql_where=LATEST,
    )
    op.create_index(
        "settlemark_entry_key", "settlemark_entry", ["namespace", "key"], sqlite_where=KEYED, postgresql_where=KEYED
    )
    op.create_index(
        "settlemark_entry_age",
        "settlemark_entry",
        ["namespace", "at_seconds"],
        sqlite_where=KEPT,
        postgresql_where=KEPT,
    )
    op.create_table(
        "settlemark_budget",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("budget", sa.String(512), nullable=False),
        sa.Column("bucket", sa.String(1024), nullable=False),
        sa.Column("cap", sa.Text(), nullable=False),
        sa.Column("charged", sa.Text(), nullable=False),
        sa.Column("reserved", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "budget", "bucket"),
    )
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
        sa.Column("decisions", sa.Integer(), server_default="0", nullable=False),
        sa.Column("budgets", sa.Integer(), server_default="0", nullable=False),
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
        "settlemark_lease",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("scope", sa.String(512), nullable=False),
        sa.Column("place", sa.String(512).with_variant(sa.String(512, collation="C"), "postgresql"), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("since_seconds", sa.Float(), nullable=False),
        sa.Column("until_seconds", sa.Float(), nullable=False),
        sa.Column("period_seconds", sa.Float(), nullable=False),
        sa.Column("grace_seconds", sa.Float(), nullable=False),
        sa.Column("asked_seconds", sa.Float()),
        sa.PrimaryKeyConstraint("namespace", "scope"),
    )
    op.create_index("settlemark_lease_place", "settlemark_lease", ["namespace", "place"])
    op.create_index("settlemark_lease_until", "settlemark_lease", ["namespace", "until_seconds"])
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
        "settlemark_spend",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("key", sa.String(1024), nullable=False),
        sa.Column("budget", sa.String(512), nullable=False),
        sa.Column("bucket", sa.String(1024), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("amount", sa.Text(), nullable=False),
        sa.Column("stands", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "key", "budget", "bucket"),
    )
    op.create_index(
        "settlemark_spend_reserved",
        "settlemark_spend",
        ["namespace", "budget", "bucket", "key"],
        sqlite_where=RESERVED,
        postgresql_where=RESERVED,
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
        sa.Column("reason", sa.Text()),
        sa.Column("opened_at_seconds", sa.Float(), nullable=False),
        sa.Column("settled_at_seconds", sa.Float()),
        sa.Column("forget_at_seconds", sa.Float()),
        sa.Column("sealed_at_seconds", sa.Float()),
        sa.Column("decided_at_seconds", sa.Float()),
        sa.Column("waits", sa.Text()),
        sa.Column("cause", sa.Text()),
        sa.Column("link", sa.String(1024)),
        sa.Column("waits_for", sa.Text()),
        sa.Column("waits_on", sa.Text()),
        sa.Column("agents", sa.Text()),
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
        sa.Column("buried_at_seconds", sa.Float()),
        sa.Column("quarantine_seconds", sa.Float()),
        sa.Column("watched_seconds", sa.Float()),
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
        sa.Column("call_id", sa.Text()),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("rationale", sa.Text()),
        sa.Column("handlers", sa.Text(), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("intended_at_seconds", sa.Float(), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("tag", sa.String(16)),
        sa.Column("note", sa.Text()),
        sa.Column("settled_at_seconds", sa.Float()),
        sa.Column("window_seconds", sa.Float()),
        sa.Column("leaves", sa.Integer(), server_default="0", nullable=False),
        sa.Column("path", sa.Text()),
        sa.Column("sender", sa.String(255)),
        sa.Column("said", sa.Text()),
        sa.Column("said_by", sa.String(255)),
        sa.Column("said_at_seconds", sa.Float()),
        sa.Column("dealt_at_seconds", sa.Float()),
        sa.Column("run", sa.String(512)),
        sa.Column("disposition", sa.String(16)),
        sa.Column("link", sa.String(1024)),
        sa.Column("question", sa.Integer()),
        sa.Column("contradicted", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("decision", sa.String(400)),
        sa.Column("verdict", sa.String(16)),
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
    op.create_table(
        "settlemark_owed",
        sa.Column("namespace", sa.String(255), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(512), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("run", sa.String(512), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("owed_to", sa.Text(), nullable=False),
        sa.Column("tool", sa.String(255), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("opened_at_seconds", sa.Float(), nullable=False),
        sa.Column("due_seconds", sa.Float(), nullable=False),
        sa.Column("fulfilled_key", sa.String(1024)),
        sa.Column("fulfilled_at_seconds", sa.Float()),
        sa.Column("waived_by", sa.String(255)),
        sa.Column("waived_at_seconds", sa.Float()),
        sa.Column("note", sa.Text()),
        sa.Column("told", sa.String(16)),
        sa.Column("told_at_seconds", sa.Float()),
        sa.PrimaryKeyConstraint("namespace", "id"),
    )
    op.create_index(
        "settlemark_owed_due",
        "settlemark_owed",
        ["namespace", "due_seconds"],
        sqlite_where=OWED_UNENDED,
        postgresql_where=OWED_UNENDED,
    )
    op.create_index("settlemark_owed_fulfilled", "settlemark_owed", ["namespace", "fulfilled_key"])
    op.create_index(
        "settlemark_owed_tool",
        "settlemark_owed",
        ["namespace", "tool", "due_seconds"],
        sqlite_where=OWED_UNENDED,
        postgresql_where=OWED_UNENDED,
    )
    op.create_index("settlemark_owed_transaction", "settlemark_owed", ["namespace", "name", "attempt"])
    op.execute("INSERT INTO settlemark_meta (key, value) VALUES ('schema', '8')")
