"""What can go wrong with records, told apart by whether anything was written.

```
RecordError            nothing was written, and nothing changed
├── BadRecord          the caller's mistake: fields, ids, sums that do not add up
├── Changed            another writer has written there meanwhile
├── KeyTaken           this call's key belongs to another call's commit, or to one that was taken back
└── StoreError         the store cannot be reached, or what it holds is damaged
OutcomeUnknown         the store did not say whether the commit stands: look for its key
```
"""

from __future__ import annotations

from settlemark_adapters._faults import Fault


class RecordError(Fault):
    """Nothing was written. Keyword arguments become attributes."""


class BadRecord(RecordError, ValueError):
    """What is to be written is not fit. Attributes, where they apply: `entity`, `record_id`, `field`."""


class Changed(RecordError):
    """Somebody else has written there meanwhile. Attributes: `path`, `commit` (theirs, or None)."""


class KeyTaken(RecordError):
    """A call's key stands for another commit already. Attributes: `key`, `commit`."""


class StoreError(RecordError):
    """The store cannot be reached, or what it holds is damaged. Attribute `store`: which one."""


class OutcomeUnknown(ConnectionError):
    """The store did not say whether a commit stands: its key tells, once the store answers again."""


__all__ = ["BadRecord", "Changed", "KeyTaken", "OutcomeUnknown", "RecordError", "StoreError"]
