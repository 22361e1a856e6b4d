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
    text,
)

metadata = MetaData()

LEFT = text("tag IS NOT NULL AND tag <> 'clean' AND dealt_at_seconds IS NULL")
DEALT = text("dealt_at_seconds IS NOT NULL")
RESERVED = text("stands = 'reserved'")
KEPT = text("kept AND kind <> 'effect'")
OWED_UNENDED = text("fulfilled_key IS NULL AND waived_by IS NULL")

# Its rows: "schema", the version of these tables; "salt", for fingerprints of secrets; and "ledger", the id in its
# effects' keys.
meta = Table(
    "settlemark_meta",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

# A step locks this row first, and then reads the log in a statement of its own.
heads = Table(
    "settlemark_head",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("decisions", Integer, nullable=False, server_default="0"),  # 1 once anything was decided
    Column("budgets", Integer, nullable=False, server_default="0"),  # 1 once anything was taken from a budget
    sqlite_with_rowid=False,
)

log = Table(
    "settlemark_log",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("n", BigInteger, primary_key=True, autoincrement=False),
    Column("worker", String(255), nullable=False),
    Column("steps", Text, nullable=False),  # JSON: the protocol's commands that were taken together
    sqlite_with_rowid=False,
)

# The protocol's whole state after the n-th entry: a new process begins there.
images = Table(
    "settlemark_image",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
)

workers = Table(
    "settlemark_worker",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("id", String(255), primary_key=True),
    Column("lease_until_seconds", Float, nullable=False),  # on the database's clock, only for people
    Column("applied", BigInteger, nullable=False),  # the entry of the log up to which it needs none again
    Column("since_seconds", Float, nullable=False),
    Column("beat", BigInteger, nullable=False),  # how often it has renewed its lease: others watch this
    Column("lease_seconds", Float, nullable=False),  # others bury it when its beat stands still for so long
    Column("buried_at_seconds", Float),  # NULL while it has its lease; afterwards it may still be sending: see `_lease`
    Column("quarantine_seconds", Float),  # from then on, for a worker of another host; only for people
    Column("watched_seconds", Float),  # how long, in all, it was seen to do nothing since; NULL: not yet
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
    Column("owner", String(255), nullable=False),
    Column("reason", Text),  # NULL unless aborted, undone on request, or the record of a choice: see `Reason`
    Column("opened_at_seconds", Float, nullable=False),
    Column("settled_at_seconds", Float),  # NULL while unfinished
    Column("forget_at_seconds", Float),  # NULL while its payloads are kept; then when its keys go, too
    # On the store's clock; NULL if that never happened.
    Column("sealed_at_seconds", Float),
    Column("decided_at_seconds", Float),
    Column("waits", Text),  # JSON: for whom it waited, on what, since and until when
    Column("cause", Text),  # the explanation of the reason, for people
    Column("link", String(1024)),  # the name of the transaction that the reason points to
    Column("waits_for", Text),  # the present wait's holder and resource, as shown to people
    Column("waits_on", Text),
    Column("agents", Text),  # JSON: the names of the agents that act in it; NULL: none was named
    # Unfinished ones, those with old payloads, those with old keys: each is one range of this index.
    Index("settlemark_transaction_age", "namespace", "forget_at_seconds", "settled_at_seconds"),
    # Pages for people: those in one state, of one run or of all, are a range each, in the order of the output.
    Index("settlemark_transaction_run", "namespace", "run", "state", "opened_at_seconds", "epoch", "attempt"),
    Index("settlemark_transaction_state", "namespace", "state", "opened_at_seconds", "epoch", "attempt"),
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
    Column("fingerprint", String(64), nullable=False),
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
    Column("window_seconds", Float),  # how long the counterparty remembers the key; NULL: undeclared
    Column("leaves", Integer, nullable=False, server_default="0"),  # its place among the held ones: bits of `Leaves`
    Column("path", Text),  # NULL where the key contains it
    # A worker that was buried while it may have been sending this, or that has sent it again since; else NULL.
    Column("sender", String(255)),
    Column("said", Text),  # JSON, for people: a person's last word on it, and new arguments; see `verdict`
    Column("said_by", String(255)),
    Column("said_at_seconds", Float),
    Column("dealt_at_seconds", Float),  # NULL while an operator has to look at its residue
    Column("run", String(512)),  # NULL without residue: lists a run's residue
    # The decision about it, where its outcome does not tell: see `Disposition`. A note is only for people.
    Column("disposition", String(16)),
    Column("link", String(1024)),  # the key of another effect, or the name of another transaction
    Column("question", Integer),  # a framework's number: of the question about it, or of its tool's first question
    Column("contradicted", Boolean, nullable=False, server_default=text("false")),
    Column("decision", String(400)),  # the entry that says for the sake of what it is called
    Column("verdict", String(16)),  # a person's last word as data: an answer to a question, or an operator's verdict
    ForeignKeyConstraint(
        ["namespace", "name", "attempt"],
        ["settlemark_transaction.namespace", "settlemark_transaction.name", "settlemark_transaction.attempt"],
    ),
    Index("settlemark_effect_transaction", "namespace", "name", "attempt"),
    # Only an effect that an abort looked at has a tag: an intent, on the hot path, writes no page of this index.
    Index(
        "settlemark_effect_tag",
        "namespace",
        "tag",
        sqlite_where=text("tag IS NOT NULL"),
        postgresql_where=text("tag IS NOT NULL"),
    ),
    # Residue, and residue dealt with: a page of either is a range of its own index.
    Index(
        "settlemark_effect_left", "namespace", "intended_at_seconds", "key", sqlite_where=LEFT, postgresql_where=LEFT
    ),
    Index(
        "settlemark_effect_dealt", "namespace", "dealt_at_seconds", "key", sqlite_where=DEALT, postgresql_where=DEALT
    ),
    Index(
        "settlemark_effect_run_left",
        "namespace",
        "run",
        "intended_at_seconds",
        "key",
        sqlite_where=LEFT,
        postgresql_where=LEFT,
    ),
    Index(
        "settlemark_effect_run_dealt",
        "namespace",
        "run",
        "dealt_at_seconds",
        "key",
        sqlite_where=DEALT,
        postgresql_where=DEALT,
    ),
    sqlite_with_rowid=False,
)

fences = Table(
    "settlemark_fence",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("run", String(512), primary_key=True),
    Column("at_seconds", Float, nullable=False),
)

# Decisions, questions, promises: every version of them, in the chain of their run. See `settlemark.ledger._entries`.
entries = Table(
    "settlemark_entry",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("run", String(512), primary_key=True),
    Column("place", BigInteger, primary_key=True, autoincrement=False),  # in the chain, from 1
    Column("kind", String(32), nullable=False),
    Column("id", String(400), nullable=False),
    Column("version", Integer, nullable=False),
    Column("name", String(512)),  # the transaction that it belongs to, if any
    Column("attempt", Integer),
    Column("key", String(1024)),  # the effect that it belongs to, if any
    Column("state", String(32), nullable=False),
    Column("open", Boolean, nullable=False),  # retention leaves it while its last version says so
    Column("latest", Boolean, nullable=False),  # the last version; this alone changes, and no digest is over it
    Column("body", Text, nullable=False),
    Column("at_seconds", Float, nullable=False),
    Column("due_seconds", Float),
    Column("content", String(64), nullable=False),  # the digest of the body as stored, which outlives it
    Column("digest", String(64), nullable=False),  # over this row and the digest before it
    Column("kept", Boolean, nullable=False),  # whether the body is still there
    Index("settlemark_entry_version", "namespace", "kind", "id", "version", unique=True),
    Index(
        "settlemark_entry_state",
        "namespace",
        "kind",
        "state",
        "due_seconds",
        sqlite_where=text("latest"),
        postgresql_where=text("latest"),
    ),
    Index(
        "settlemark_entry_key",
        "namespace",
        "key",
        sqlite_where=text("key IS NOT NULL"),
        postgresql_where=text("key IS NOT NULL"),
    ),
    # Seals of effects stay for as long as their rows.
    Index("settlemark_entry_age", "namespace", "at_seconds", sqlite_where=KEPT, postgresql_where=KEPT),
    sqlite_with_rowid=False,
)

# Where the chain of a run ends: so its last entries cannot go unseen.
chains = Table(
    "settlemark_chain",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("run", String(512), primary_key=True),
    Column("length", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("at_seconds", Float, nullable=False),  # of its last entry
    Index("settlemark_chain_age", "namespace", "at_seconds"),
    sqlite_with_rowid=False,
)

# What transactions owe: see `settlemark.ledger._owed`, which derives what has become of each.
owed = Table(
    "settlemark_owed",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("name", String(512), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("run", String(512), nullable=False),
    Column("position", Integer, nullable=False),
    Column("owed_to", Text, nullable=False),
    Column("tool", String(255), nullable=False),  # fulfils it; "" for none
    Column("scope", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON: its text, and the arguments of a fulfilling call
    Column("opened_at_seconds", Float, nullable=False),
    Column("due_seconds", Float, nullable=False),
    Column("fulfilled_key", String(1024)),
    Column("fulfilled_at_seconds", Float),
    Column("waived_by", String(255)),
    Column("waived_at_seconds", Float),
    Column("note", Text),
    Column("told", String(16)),  # what was done when it was due
    Column("told_at_seconds", Float),
    Index("settlemark_owed_transaction", "namespace", "name", "attempt"),
    Index(
        "settlemark_owed_tool",
        "namespace",
        "tool",
        "due_seconds",
        sqlite_where=OWED_UNENDED,
        postgresql_where=OWED_UNENDED,
    ),
    Index("settlemark_owed_due", "namespace", "due_seconds", sqlite_where=OWED_UNENDED, postgresql_where=OWED_UNENDED),
    Index("settlemark_owed_fulfilled", "namespace", "fulfilled_key"),
)

# Payloads too long for a row: once for each content, by digest.
blobs = Table(
    "settlemark_blob",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("digest", String(80), primary_key=True),
    Column("size", BigInteger, nullable=False),  # bytes of UTF-8
    Column("content", Text, nullable=False),
)

blob_uses = Table(
    "settlemark_blob_use",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("name", String(512), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("digest", String(80), primary_key=True),
    Index("settlemark_blob_use_digest", "namespace", "digest"),
)

# Budgets: what each bucket of one has given, for good and reserved, in exact decimal numbers.
budgets = Table(
    "settlemark_budget",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("budget", String(512), primary_key=True),
    Column("bucket", String(1024), primary_key=True),
    Column("cap", Text, nullable=False),
    Column("charged", Text, nullable=False),
    Column("reserved", Text, nullable=False),
)

# Agents' leases: one row for each resource that somebody holds, or held and has not given back.
leases = Table(
    "settlemark_lease",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("scope", String(512), primary_key=True),
    # The scope up to its first wildcard; compared by its bytes, so that what is below a place is one range.
    Column("place", String(512).with_variant(String(512, collation="C"), "postgresql"), nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("holder", String(255), nullable=False),
    Column("since_seconds", Float, nullable=False),
    Column("until_seconds", Float, nullable=False),
    Column("period_seconds", Float, nullable=False),
    Column("grace_seconds", Float, nullable=False),
    Column("asked_seconds", Float),  # when another first asked for it after it had ended
    Index("settlemark_lease_place", "namespace", "place"),
    Index("settlemark_lease_until", "namespace", "until_seconds"),
)

# By the key of an effect, or of a charge.
spends = Table(
    "settlemark_spend",
    metadata,
    Column("namespace", String(255), primary_key=True),
    Column("key", String(1024), primary_key=True),
    Column("budget", String(512), primary_key=True),
    Column("bucket", String(1024), primary_key=True),
    Column("asked", Text, nullable=False),
    Column("amount", Text, nullable=False),
    Column("stands", String(16), nullable=False),  # reserved, charged, or returned
    Index(
        "settlemark_spend_reserved",
        "namespace",
        "budget",
        "bucket",
        "key",
        sqlite_where=RESERVED,
        postgresql_where=RESERVED,
    ),
)

# Alembic's own: the last migration that was run, so that "schema" and this agree.
migrations = Table("settlemark_migration", metadata, Column("version_num", String(32), primary_key=True))
