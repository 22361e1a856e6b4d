"""What an agent does by another one: it is a part of the delegating call, and settles with that call's turn."""

from __future__ import annotations

from crewai.tools import BaseTool
from crewai.tools.agent_tools.agent_tools import AgentTools
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.utilities.string_utils import sanitize_tool_name

from settlemark import Declaration
from settlemark.hosting import declare, escape


def delegates(tool: BaseTool) -> bool:
    """Whether a tool has another agent of the crew do something, or answer a question."""
    return isinstance(tool, BaseAgentTool)


def delegation(name: str, *work: str) -> Declaration:
    """Return the declaration of a tool that delegates for this work: whatever it does, the other agent's calls do.

    >>> delegation("ask", "trip-42", "book").scopes({})
    (Scope('delegation:/trip-42/book'),)
    """
    at = f"delegation:/{'/'.join(map(escape, work))}"
    # A function, not a text: the same tool in all works, and not one that changes from work to work.
    return declare(name, "reversible", scope=lambda: at, undo=_nothing_of_its_own, keyed=True)


def _nothing_of_its_own() -> None:
    """Undo nothing: what the other agent has done is undone by its own calls' undos."""


def names_of_delegation() -> list[str]:
    """Return the names, for models, of the tools that delegate."""
    return [sanitize_tool_name(tool.name) for tool in AgentTools(agents=[]).tools()]


__all__ = ["delegates", "delegation", "names_of_delegation"]
