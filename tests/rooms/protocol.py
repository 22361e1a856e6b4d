"""The protocol: holdings, commands, index, states, and the rules that mutants change."""

from __future__ import annotations

from settlemark._protocol.board import Board
from settlemark._protocol.chronicle import WRITES, Chronicle
from settlemark._protocol.commands import Park, Split
from settlemark._protocol.holdings import AGE, DETACHED, NOBODY, Blocked, Call, Hold, Mode, Txn
from settlemark._protocol.index import NOWHERE, Match, Node, Position, ScopeIndex
from settlemark._protocol.leaving import Held, Leaves, leaving_order
from settlemark._protocol.rules.abort import Aborts
from settlemark._protocol.rules.admission import Admission
from settlemark._protocol.rules.calls import Calls
from settlemark._protocol.rules.decision import Decision
from settlemark._protocol.rules.precedence import Precedence
from settlemark._protocol.rules.tools import Tools
from settlemark._protocol.states import FINISHED, RETRIED, TRANSITIONS, Event
from settlemark._protocol.versions import FLOORS, LAST, TYPES, Versions, outdated, then

__all__ = [
    "AGE",
    "DETACHED",
    "FINISHED",
    "FLOORS",
    "LAST",
    "NOBODY",
    "NOWHERE",
    "RETRIED",
    "TRANSITIONS",
    "TYPES",
    "WRITES",
    "Aborts",
    "Admission",
    "Blocked",
    "Board",
    "Call",
    "Calls",
    "Chronicle",
    "Decision",
    "Event",
    "Held",
    "Hold",
    "Leaves",
    "Match",
    "Mode",
    "Node",
    "Park",
    "Position",
    "Precedence",
    "ScopeIndex",
    "Split",
    "Tools",
    "Txn",
    "Versions",
    "leaving_order",
    "outdated",
    "then",
]
