"""A ledger that was migrated has, word for word, the tables of one that is made today, in SQLite and PostgreSQL."""

from __future__ import annotations

import io

import pytest
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy.schema import CreateIndex, CreateTable
from tests.rooms.ledger import SCHEMA_VERSION
from tests.rooms.record import migrating, tables


def words(statement):
    return " ".join(str(statement).split())


def migrated(dialect):
    """Every statement of all migrations, in their order."""
    config = Config()
    config.set_main_option("script_location", str(migrating._FOLDER))
    said = io.StringIO()
    context = MigrationContext.configure(dialect_name=dialect, opts={"as_sql": True, "output_buffer": said})
    with Operations.context(context):
        for revision in reversed(list(ScriptDirectory.from_config(config).walk_revisions())):
            revision.module.upgrade()
    return [words(each) for each in said.getvalue().split(";") if words(each)]


def made(dialect):
    """Every statement that makes a fresh ledger, but for the table that names the migration."""
    ours = [table for table in tables.metadata.sorted_tables if table is not tables.migrations]
    indexes = [CreateIndex(index) for table in ours for index in table.indexes]
    how = MigrationContext.configure(dialect_name=dialect).dialect
    return [words(each.compile(dialect=how)) for each in (*map(CreateTable, ours), *indexes)]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_migrated_ledger_has_each_column_key_and_index_of_a_fresh_one_and_no_others(dialect):
    version = f"INSERT INTO settlemark_meta (key, value) VALUES ('schema', '{SCHEMA_VERSION}')"
    assert sorted(migrated(dialect)) == sorted([*made(dialect), version])
