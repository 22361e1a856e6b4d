"""What counterparties are made of: a child process that serves, and its journal."""

from __future__ import annotations

from settlemark.testing import _child
from settlemark.testing._faults import FaultRule
from settlemark.testing._process import ChildServer, Journal, attend, read_journal
from settlemark.testing._provider_server import Server

__all__ = ["ChildServer", "FaultRule", "Journal", "Server", "_child", "attend", "read_journal"]
