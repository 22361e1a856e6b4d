"""Approvals at the console, in CrewAI's manner."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, cast

from crewai.events.event_listener import event_listener
from crewai_core.printer import PRINTER

from settlemark import Gate, Settlement
from settlemark.hosting import Approver, approve, edit, host_of, reject

_HOW = 'Approve it with "yes"; give other arguments, as JSON, to have it run with these; or say why not:'


def human_input(gate: Gate) -> Any:
    """Ask at the console whether a call may run, and return the answer: for `Settlement(url, approver=human_input)`.

    It asks as CrewAI's own `human_input=True` does, while live output pauses. "yes" approves, a JSON object are other
    arguments, and whatever else is said, nothing included, is a no, and its reason. Arguments that the tool does not
    take are asked about again, with what is wrong about them.
    """
    event_listener.formatter.pause_live_updates()
    try:
        told = f"{gate.error}\n" if gate.error else ""
        why = f" ({gate.rationale})" if gate.rationale else ""
        PRINTER.print(content=f"\n{told}{gate.would}{why}", color="bold_yellow")
        PRINTER.print(content=_HOW, color="cyan")
        said = input().strip()
    finally:
        event_listener.formatter.resume_live_updates()
    if said.lower() in {"y", "yes", "approve"}:
        return approve()
    with suppress(ValueError):
        given: object = json.loads(said)
        if isinstance(given, dict):
            return edit(cast("dict[str, Any]", given))
    return reject(said or None)


def console_of(settlement: Settlement) -> Approver | None:
    """Return what asks at the console, where a settlement does: a person who has mistyped is asked again."""
    return human_input if host_of(settlement).settings.approver is human_input else None


__all__ = ["console_of", "human_input"]
