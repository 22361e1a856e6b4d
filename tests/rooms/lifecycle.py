"""The services for what outlives one process, and how long they wait."""

from __future__ import annotations

from settlemark._approvals.answers import ApprovalRecord, ApprovalState, Count, Refusal, Vote, count
from settlemark._leasing.leases import Leases
from settlemark._lifecycle import fences, recovery
from settlemark._lifecycle.ages import DROPPED, OLD_SECONDS, Ages
from settlemark._lifecycle.approval import Answers
from settlemark._lifecycle.asked import counting
from settlemark._lifecycle.asked.elsewhere import Elsewhere
from settlemark._lifecycle.asked.telling import Notices
from settlemark._lifecycle.asked.watch import Questions
from settlemark._lifecycle.asking import TRIES, Asking
from settlemark._lifecycle.entrance import Entrance
from settlemark._lifecycle.fences import Fences, Halts
from settlemark._lifecycle.gates import Gates
from settlemark._lifecycle.owing import Obligations
from settlemark._lifecycle.parking import Parking
from settlemark._lifecycle.recovery import Recovery
from settlemark._lifecycle.resolution import Resolution
from settlemark._lifecycle.rewind.rewinds import Rewinds
from settlemark._lifecycle.rewind.survey import Request
from settlemark._lifecycle.runs import Runs
from settlemark._lifecycle.selection import Selection
from settlemark._mending.claims import id_of
from settlemark._mending.ending import Ending
from settlemark._mending.mends import Mends
from settlemark._mending.remedy import transaction_of
from settlemark._owing.obligation import id_of as id_of_owed
from settlemark._steering.listening import Listener, following
from settlemark._steering.pauses import Pauses
from settlemark._steering.steers import Steers

__all__ = [
    "DROPPED",
    "OLD_SECONDS",
    "TRIES",
    "Ages",
    "Answers",
    "ApprovalRecord",
    "ApprovalState",
    "Asking",
    "Count",
    "Elsewhere",
    "Ending",
    "Entrance",
    "Fences",
    "Gates",
    "Halts",
    "Leases",
    "Listener",
    "Mends",
    "Notices",
    "Obligations",
    "Parking",
    "Pauses",
    "Questions",
    "Recovery",
    "Refusal",
    "Request",
    "Resolution",
    "Rewinds",
    "Runs",
    "Selection",
    "Steers",
    "Vote",
    "count",
    "counting",
    "fences",
    "following",
    "id_of",
    "id_of_owed",
    "recovery",
    "transaction_of",
]
