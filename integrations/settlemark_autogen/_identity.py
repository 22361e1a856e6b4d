"""Who acts: the agent's name, as far as AutoGen tells."""

from __future__ import annotations

from autogen_core import MessageHandlerContext

from settlemark import current_call


def acting_agent(name: str | None = None) -> str:
    """Return a name for the agent that is acting here, the same when its job is begun again; "" if unknown.

    In a team it is the agent's own, unless another was given. An agent that acts inside another's tool call is named
    after the call, too, since it is no part of the other's own work.

    >>> acting_agent("clerk"), acting_agent()
    ('clerk', '')
    """
    agent = own_name(name)
    call = current_call()
    if call is None:
        return agent
    place = call.key.rpartition("#")[2].partition("/")[2]
    return f"{agent}@{call.transaction}/{place}"


def own_name(name: str | None = None) -> str:
    """Return the own name of the agent that is acting here, wherever it acts; "" if unknown.

    >>> own_name("clerk@ada.example")
    'clerk@ada.example'
    """
    return _in_team() if name is None else name


def _in_team() -> str:
    try:
        who = MessageHandlerContext.agent_id()
    except RuntimeError:
        return ""
    return who.type.removesuffix(f"_{who.key}")  # a team adds its own id, which differs between processes


__all__ = ["acting_agent", "own_name"]
