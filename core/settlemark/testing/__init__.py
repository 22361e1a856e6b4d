"""Real counterparties in child processes: each owns its own log, and fails when it is told to.

A claim about effects is worth what the other side's log says. [Provider][settlemark.testing.Provider] books
hotels, flights, cars and wires over HTTP; [Mailbox][settlemark.testing.Mailbox] accepts mail over SMTP.
"""

from __future__ import annotations

from settlemark.testing._faults import FaultPlan
from settlemark.testing._mailbox import Mailbox
from settlemark.testing._provider import Provider, ProviderRefused

__all__ = ["FaultPlan", "Mailbox", "Provider", "ProviderRefused"]
