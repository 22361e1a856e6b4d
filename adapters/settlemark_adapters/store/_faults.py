"""What can go wrong with a memory: nothing is changed then, or the store did not say."""

from __future__ import annotations

from settlemark_adapters._faults import Fault


class MemoryFault(Fault):
    """A memory cannot be changed as asked: nothing was changed. Attributes: `namespace`, `name`, and its own."""


class VersionMoved(MemoryFault):
    """Another has written it since it was read. Attributes: `expected`, `version` and `value` (as they are now)."""


class ChangedOutside(MemoryFault):
    """It was changed past the settlement, so that nothing of it is overwritten. Attribute: `version`, as it is now."""


class StoreLost(ConnectionError):
    """The store raised while it was to write: whether it did is not known."""


__all__ = ["ChangedOutside", "MemoryFault", "StoreLost", "VersionMoved"]
