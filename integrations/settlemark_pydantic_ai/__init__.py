"""Pydantic AI agents whose tool calls settle: in issuance order, exactly once, and undone together.

`Settled` is a capability: `Agent(…, capabilities=[Settled(settlement)])` settles all function tools of an agent, those
of `@agent.tool` included. `SettledToolset` wraps one toolset where an agent is not to be changed.
"""

from __future__ import annotations

from settlemark.hosting import missing as _missing

try:
    import pydantic_ai as _pydantic_ai
except ImportError as _error:
    raise _missing("settlemark_pydantic_ai needs Pydantic AI", "pydantic-ai", _error) from _error

from settlemark_pydantic_ai._settled import Settled
from settlemark_pydantic_ai._toolset import SettledToolset

del _pydantic_ai, _missing

__all__ = ["Settled", "SettledToolset"]
