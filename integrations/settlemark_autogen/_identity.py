"""Who acts: the agent's name, as far as AutoGen tells, and whether both halves of what settles are there."""

from __future__ import annotations

from typing import Literal, get_args

from autogen_core import MessageHandlerContext

from settlemark import Settlement, UsageError, current_call
from settlemark.hosting import host_of

Unsettled = Literal["refuse", "warn", "allow"]
"""What becomes of calls where one half of the shim is missing: they are refused, or run, with a warning or without."""


def acting_agent(name: str | None = None) -> str:
    """Return a name for the agent that is acting here, the same when its job is begun again; "" if unknown.

    In a team it is the agent's own, unless another was given. An agent that acts inside another's tool call is named
    after the call, too, since it is no part of the other's own work.

    >>> acting_agent("clerk"), acting_agent()
    ('clerk', '')
    """
    agent = _in_team() if name is None else name
    call = current_call()
    if call is None:
        return agent
    place = call.key.rpartition("#")[2].partition("/")[2]
    return f"{agent}@{call.transaction}/{place}"


def _in_team() -> str:
    try:
        who = MessageHandlerContext.agent_id()
    except RuntimeError:
        return ""
    return who.type.removesuffix(f"_{who.key}")  # a team adds its own id, which differs between processes


def refuse_unknown(unsettled: str) -> None:
    """Return when there is such an `unsettled=`.

    Raises:
        UsageError: there is not; nothing was begun.
    """
    if unsettled not in get_args(Unsettled):
        raise UsageError(f"unsettled={unsettled!r}: choose one of {', '.join(map(repr, get_args(Unsettled)))}")


def refuse_half(settlement: Settlement, missing: str, told: str, unsettled: Unsettled) -> None:
    """Say that the other half of what settles an agent is missing, in the way that `unsettled=` asks for.

    Raises:
        UsageError: it asks to refuse; nothing was run.
    """
    if unsettled == "warn":
        host_of(settlement).tell_once(missing, told)
    elif unsettled == "refuse":
        raise UsageError(f'{told}; or pass unsettled="warn" to go on without; nothing was run')


__all__ = ["Unsettled", "acting_agent", "refuse_half", "refuse_unknown"]
