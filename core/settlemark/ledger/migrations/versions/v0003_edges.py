"""A ledger's own id, which its idempotency keys carry: two ledgers never send one key to a counterparty."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add what the edges of the ledger need."""
    bind = op.get_bind()
    op.add_column("settlemark_effect", sa.Column("leaves", sa.Integer, nullable=False, server_default="0"))
    op.execute("UPDATE settlemark_effect SET leaves = 1 WHERE kind = 'irreversible'")
    bind.execute(
        sa.text("INSERT INTO settlemark_meta (key, value) VALUES ('ledger', :ledger)"), {"ledger": secrets.token_hex(8)}
    )
    op.add_column("settlemark_effect", sa.Column("path", sa.Text))
    op.execute("UPDATE settlemark_meta SET value = '3' WHERE key = 'schema'")
