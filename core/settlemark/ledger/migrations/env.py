"""Alembic's environment: a migration runs in the caller's connection and transaction, without an ini file."""

from __future__ import annotations

from alembic import context

from settlemark.ledger._record.tables import migrations

context.configure(connection=context.config.attributes["connection"], version_table=migrations.name)
with context.begin_transaction():
    context.run_migrations()
