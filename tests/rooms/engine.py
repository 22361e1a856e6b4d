"""The services that carry one transaction from its beginning to its end."""

from __future__ import annotations

from settlemark._engine.act import Acting
from settlemark._engine.admission import Admission, returned
from settlemark._engine.callers import Callers
from settlemark._engine.calls import Calls
from settlemark._engine.commit import Settling
from settlemark._engine.doubt import Probing, Residue
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._engine.orphans import Orphans
from settlemark._engine.release import Releases
from settlemark._engine.splitting import Splitting
from settlemark._engine.undo.abort import Undoing
from settlemark._engine.undo.mend import Mending
from settlemark._engine.undo.retries import undo
from settlemark._engine.undo.take_back import TakingBack
from settlemark._engine.wait import Deadline, Waits

__all__ = [
    "Acting",
    "Admission",
    "Callers",
    "Calls",
    "Deadline",
    "Freshness",
    "Kernel",
    "Mending",
    "Orphans",
    "Probing",
    "Releases",
    "Residue",
    "Settling",
    "Splitting",
    "TakingBack",
    "Undoing",
    "Waits",
    "returned",
    "undo",
]
