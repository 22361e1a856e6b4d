"""What can go wrong with records, told apart by whether anything was written.

```
RecordError            nothing was written, and nothing changed
├── BadRecord          the caller's mistake: fields, ids, sums that do not add up
├── Changed            somebody else has written there meanwhile
├── KeyTaken           this call's key belongs to another call's commit, or to one that was taken back
└── StoreError         the store cannot be reached, or what it holds is damaged
OutcomeUnknown         the store did not say whether the commit stands: look for its key
```
"""

from __future__ import annotations

from typing import Any


class RecordError(Exception):
    """Nothing was written. Keyword arguments become attributes.

    >>> RecordError("no", path="data/Invoice/7.json").path
    'data/Invoice/7.json'
    """

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.data = data

    def __getattr__(self, name: str) -> Any:
        if name != "data" and name in self.data:
            return self.data[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), str(self), self.data)


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


def _rebuild(cls: type[RecordError], message: str, data: dict[str, Any]) -> RecordError:
    return cls(message, **data)


__all__ = ["BadRecord", "Changed", "KeyTaken", "OutcomeUnknown", "RecordError", "StoreError"]
