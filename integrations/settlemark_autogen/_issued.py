"""The calls of one turn, as a client saw them issued and a workbench receives them.

AutoGen gives a workbench one call at a time. So the client that saw the model's answer leaves its turn in the context
of the agent, where the tasks of its calls find it; and with the workbench, for agents that ask a model elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from settlemark.agents import AgentRun, AgentTurn, Call

NO_SUCH_TOOL = "the agent has no such tool"
UNREADABLE = "its arguments are no JSON"
NEVER_COMES = (NO_SUCH_TOOL, UNREADABLE)
"""Why an agent answers a call itself."""


@dataclass(slots=True, eq=False)
class Issued:
    """One turn, and which of its calls have come.

    Attributes:
        job: its job.
        turn: settles it.
        agent: the task that asked the model; when it is gone, nobody waits for the answers.
    """

    job: AgentRun
    turn: AgentTurn
    agent: asyncio.Task[Any] | None
    taken: set[int] = field(default_factory=set[int])

    def take(self, name: str, arguments: object, call_id: str | None) -> int | None:
        """Return an arriving call's place, or None: it is not of this turn.

        A workbench around ours may have given it other arguments than its model; its id tells then which it is.
        """
        free = [
            (place, call)
            for place, call in enumerate(self.turn.calls)
            if place not in self.taken and (call.tool, call.call_id) == (name, call_id)
        ]
        same = [place for place, call in free if is_as_issued(call, arguments)]
        found = same or [place for place, call in free if call.call_id]
        if not found:
            return None
        self.taken.add(found[0])
        return found[0]

    def __post_init__(self) -> None:
        """Take note of the calls that do not come: the agent has no such tool, or cannot read the arguments."""
        self.taken.update(place for place, call in enumerate(self.turn.calls) if call.refused in NEVER_COMES)

    @property
    def is_over(self) -> bool:
        """Whether no more calls are to come."""
        return len(self.taken) == len(self.turn.calls) or self.turn.settled

    def watch(self, work: asyncio.Task[Any]) -> None:
        """Cancel the work for a call when the agent that issued it is gone."""
        agent = self.agent
        if agent is None:
            return
        if agent.done():
            # The agent may have ended well after its request; otherwise the call comes late, and nobody wants it.
            if agent.cancelled() or agent.exception() is not None:
                work.cancel()
            return

        def gone(_agent: asyncio.Task[Any]) -> None:
            work.cancel()

        agent.add_done_callback(gone)
        work.add_done_callback(lambda _work: agent.remove_done_callback(gone))


def is_as_issued(call: Call, arguments: object) -> bool:
    """Whether a call comes with the arguments that its model has given it."""
    return call.arguments == (arguments if isinstance(arguments, Mapping) else {})


issued_here: ContextVar[Issued | None] = ContextVar("settlemark_autogen_issued", default=None)

__all__ = ["NO_SUCH_TOOL", "UNREADABLE", "Issued", "is_as_issued", "issued_here"]
