"""Tools to prove that an agent settles: counterparties, faults, kill points, a clock, and the proof itself.

A claim about effects is only as good as the other side's log. [Provider][settlemark.testing.Provider] books hotels,
flights, cars and wires over HTTP, [Bank][settlemark.testing.Bank] moves money, [Mailbox][settlemark.testing.Mailbox]
accepts mail over SMTP: each in a child process that owns its log and fails on demand.

[prove_settlement][settlemark.testing.prove_settlement] runs an agent once for each way each of its steps can fail, and
compares the world with all and with nothing. It is built on [FaultInjector][settlemark.testing.FaultInjector], which
strikes the n-th step, [kill_points][settlemark.testing.kill_points], which kills at every statement of the ledger, and
[VirtualClock][settlemark.testing.VirtualClock], which moves when told to. With pytest they are fixtures too: `pytest
--fixtures -p pytest_settlemark`.
"""

from __future__ import annotations

from settlemark.testing._child import Exit, Tell, can_fork, die, in_child
from settlemark.testing._clock import VirtualClock
from settlemark.testing._counterparties.bank import Bank
from settlemark.testing._counterparties.mailbox import Mailbox
from settlemark.testing._counterparties.provider import Provider, ProviderRefused
from settlemark.testing._faults import FaultPlan
from settlemark.testing._injector import FaultInjector
from settlemark.testing._kill_points import KillPoint, KillPoints, kill_points
from settlemark.testing._proof import Case, End, Proof
from settlemark.testing._prove import prove_settlement
from settlemark.testing._steps import Fault, InjectedFault, InjectedTimeout, Mode, Step

__all__ = [
    "Bank",
    "Case",
    "End",
    "Exit",
    "Fault",
    "FaultInjector",
    "FaultPlan",
    "InjectedFault",
    "InjectedTimeout",
    "KillPoint",
    "KillPoints",
    "Mailbox",
    "Mode",
    "Proof",
    "Provider",
    "ProviderRefused",
    "Step",
    "Tell",
    "VirtualClock",
    "can_fork",
    "die",
    "in_child",
    "kill_points",
    "prove_settlement",
]
