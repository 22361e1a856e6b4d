"""What counterparties are made of: a child process that serves, and its journal."""

from __future__ import annotations

from settlemark.testing import _child
from settlemark.testing._counterparties.process import ChildServer, Journal, attend, read_journal
from settlemark.testing._counterparties.provider_server import Server
from settlemark.testing._faults import FaultRule

__all__ = ["ChildServer", "FaultRule", "Journal", "Server", "_child", "attend", "read_journal"]
