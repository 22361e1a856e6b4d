"""CrewAI agents whose tool calls settle: in issuance order, exactly once, and undone together.

`settled` makes a tool a settled one, above or below `@tool`. `settled_crew` does so with all tools of a crew, under a
run id of yours, so that a killed crew continues where it was. `human_input` asks at the console whether a call may run,
and `approve`, `reject` and `edit` are the answers of another approver.
"""

from __future__ import annotations

from settlemark.hosting import missing as _missing

try:
    import crewai as _crewai
except ImportError as _error:
    raise _missing("settlemark_crewai needs CrewAI", "crewai", _error) from _error

from settlemark.hosting import approve, edit, reject
from settlemark_crewai._crew import settled_crew
from settlemark_crewai._human import human_input
from settlemark_crewai._settled import settled

del _crewai, _missing

__all__ = ["approve", "edit", "human_input", "reject", "settled", "settled_crew"]
