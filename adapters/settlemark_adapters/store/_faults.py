"""The errors of the memory tools: nothing was changed, or the store did not say."""

from __future__ import annotations

from settlemark_adapters._faults import Fault


class MemoryFault(Fault):
    """A memory cannot be changed as asked: nothing was changed. Attributes: `namespace`, `name`, and its own."""


class VersionMoved(MemoryFault):
    """Another writer has changed the memory since it was read. Attributes: `expected`; present `version`, `value`."""


class ChangedOutside(MemoryFault):
    """The memory was changed outside the settlement, and is not overwritten. Attribute: `version`, the present one."""


class StoreLost(ConnectionError):
    """The store raised during a write: whether it was written is unknown."""


__all__ = ["ChangedOutside", "MemoryFault", "StoreLost", "VersionMoved"]
