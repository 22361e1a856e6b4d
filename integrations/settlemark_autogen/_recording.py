"""Records a history of a stock agent: the calls its model issued, in which order they were done, and what it knew."""

# AutoGen leaves the type parameters of its tools open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autogen_core.memory import Memory
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, StaticStreamWorkbench, Workbench

from settlemark.history import Recorder
from settlemark.recording import Said, Tools
from settlemark_autogen._recorded import RecordedClient, RecordedMemory, RecordedWorkbench
from settlemark_autogen._witness import Witness


class RecordedAgent:
    """Makes an agent's model client, tools and memory tell a recorder what they do, and changes nothing of it.

    Nothing is settled: it is there to find out what goes wrong before settlemark is adopted. What the agent reads, with
    tools or from its memory, goes into what it writes next; the order in which a model issued the calls of a turn is
    kept beside that in which they ended, and the tools that it was offered beside those the agent's workbenches listed
    last when a call was carried out. With the model client alone the latter are not known: a transcript does not have
    them.

    Args:
        recorder: records; the agents of a team share one.
        name: of the agent.
        effects: what tools do, as in `{"audit": "read", "wire": {"kind": "write", "scope": "account:/{to}"}}`; those
            that are not named do what their names say, unless `@effect` declares them.

    >>> import asyncio
    >>> def get_date() -> str:
    ...     "Look."
    ...     return "14 June"
    >>> recorder = Recorder()
    >>> ada = RecordedAgent(recorder, "ada")
    >>> workbench = ada.workbench([get_date])
    >>> _ = asyncio.run(workbench.call_tool("get_date", {}))
    >>> recorder.records[0].write_values
    {'date': '14 June'}
    """

    def __init__(self, recorder: Recorder, name: str, *, effects: Mapping[str, Said] | None = None) -> None:
        from settlemark.hosting import declared_as

        self.name = name
        self._witness = Witness(recorder, name, Tools(effects, declared_as))

    def client(self, client: ChatCompletionClient) -> ChatCompletionClient:
        """Return a client that answers as this one does: `AssistantAgent(model_client=…)`."""
        return RecordedClient(self._witness, client)

    def workbench(self, tools: Workbench | Sequence[BaseTool[Any, Any] | Callable[..., Any]]) -> StaticStreamWorkbench:
        """Return a workbench with these tools, or that acts as this one: `AssistantAgent(workbench=…)`."""
        return RecordedWorkbench(self._witness, tools)

    def memory(self, memory: Memory, cell: str = "memory") -> Memory:
        """Return a memory that remembers as this one does: `AssistantAgent(memory=[…])`.

        Args:
            memory: what is wrapped.
            cell: its name in the history: the same for all agents that share it.
        """
        return RecordedMemory(self._witness, memory, cell)


__all__ = ["RecordedAgent"]
