"""Several records as one commit: written together or not at all, with one entry in the log, and undone together.

`Records` has the tools, `record_tool` makes one in a few lines, and `Invoices` and `Journal` are two ready-made ones.
The commits are in a directory (`FileBackend`), a database (`SqlBackend`), a store of objects (`ObjectBackend`) or a git
repository (`GitBackend`).
"""

from __future__ import annotations

from settlemark_adapters.records._backend import Backend, Moved, Staging
from settlemark_adapters.records._commit import Commit, Committed, Head
from settlemark_adapters.records._entity import Entity
from settlemark_adapters.records._errors import (
    BadRecord,
    Changed,
    KeyTaken,
    OutcomeUnknown,
    RecordError,
    StoreError,
)
from settlemark_adapters.records._files import FileBackend
from settlemark_adapters.records._git import GitBackend
from settlemark_adapters.records._invoices import Invoices
from settlemark_adapters.records._journal import Journal
from settlemark_adapters.records._objects import ObjectBackend
from settlemark_adapters.records._records import Records
from settlemark_adapters.records._snapshot import Snapshot
from settlemark_adapters.records._sql import SqlBackend
from settlemark_adapters.records._tool import RecordOperation, record_tool
from settlemark_adapters.records._tx import Tx

__all__ = [
    "Backend",
    "BadRecord",
    "Changed",
    "Commit",
    "Committed",
    "Entity",
    "FileBackend",
    "GitBackend",
    "Head",
    "Invoices",
    "Journal",
    "KeyTaken",
    "Moved",
    "ObjectBackend",
    "OutcomeUnknown",
    "RecordError",
    "RecordOperation",
    "Records",
    "Snapshot",
    "SqlBackend",
    "Staging",
    "StoreError",
    "Tx",
    "record_tool",
]
