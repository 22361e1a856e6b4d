"""AutoGen agents whose tool calls settle: in issuance order, exactly once, and undone together.

`SettledWorkbench` replaces an agent's tools, or its workbench, and is the gate. `SettledChatCompletionClient` replaces
its model client, and tells the gate which calls the model issued together. Both together give an agent everything that
settlemark promises; each documents what it promises alone. `RecordedAgent` records a history of an agent, and settles
nothing.
"""

from __future__ import annotations

from settlemark.hosting import missing as _missing

try:
    import autogen_agentchat as _autogen_agentchat
except ImportError as _error:
    raise _missing("settlemark_autogen needs AutoGen", "autogen", _error) from _error

from settlemark.hosting import approve, edit, reject
from settlemark_autogen._client import SettledChatCompletionClient
from settlemark_autogen._recording import RecordedAgent
from settlemark_autogen._workbench import SettledWorkbench

del _autogen_agentchat, _missing

__all__ = ["RecordedAgent", "SettledChatCompletionClient", "SettledWorkbench", "approve", "edit", "reject"]
