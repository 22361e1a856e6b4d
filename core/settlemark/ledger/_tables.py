"""The ledger's tables, declared once for every SQL store."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

meta = Table(
    "settlemark_meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

epochs = Table(
    "settlemark_epochs",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("next", BigInteger, nullable=False),  # the first epoch that no process has reserved
)

# Nobody writes here yet: leases and fencing tokens for ledgers that several processes share will.
workers = Table(
    "settlemark_worker",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("fence", Integer, nullable=False),
    Column("lease_until_seconds", Float),  # NULL: this worker keeps no lease
    Column("dead", Boolean, nullable=False, default=False),
)

transactions = Table(
    "settlemark_transaction",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("name", String(512), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("run", String(512), nullable=False),
    Column("state", String(16), nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("ordinal", String(512), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("reason", Text),  # NULL unless aborted
    Column("opened_at_seconds", Float, nullable=False),
    Column("settled_at_seconds", Float),  # NULL while unfinished
    Index("settlemark_transaction_state", "namespace", "state"),
    Index("settlemark_transaction_run", "namespace", "run"),
)

effects = Table(
    "settlemark_effect",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("key", String(1024), primary_key=True),
    Column("name", String(512), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("tool", String(512), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("scopes", Text, nullable=False),  # a JSON list
    Column("held", Boolean, nullable=False),
    Column("call_id", Text),
    Column("arguments", Text, nullable=False),
    Column("fingerprint", String(32), nullable=False),
    Column("rationale", Text),
    Column("handlers", Text, nullable=False),
    Column("version", String(64), nullable=False),
    Column("intended_at_seconds", Float, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("result", Text),
    Column("error", Text),
    Column("tag", String(16)),  # NULL until an abort or a partial commit looked at it
    Column("note", Text),
    Column("settled_at_seconds", Float),
    ForeignKeyConstraint(
        ["namespace", "name", "attempt"],
        ["settlemark_transaction.namespace", "settlemark_transaction.name", "settlemark_transaction.attempt"],
    ),
    Index("settlemark_effect_transaction", "namespace", "name", "attempt"),
)

fences = Table(
    "settlemark_fence",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("run", String(512), primary_key=True),
    Column("at_seconds", Float, nullable=False),
)
