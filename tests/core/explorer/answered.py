"""What a program that is moved step by step is answered, when it asks for an act, a step or a wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.rooms.acts import Recorded
from tests.rooms.edges import Ended, ended
from tests.rooms.runtime import call_with_current

from settlemark.hosting import Act, Wait


@dataclass(frozen=True, slots=True)
class Returning:
    """An act that has happened, and whose answer is still on its way."""

    answer: Ended


def answered(request: Any) -> Ended:
    """Return what a request is answered with; an act acts, and a wait is over."""
    if type(request) is Act:
        return ended(call_with_current, request)
    if type(request) is Returning:
        return request.answer
    if type(request) is Recorded:
        return ended(request.pending.result)
    return Ended(True if type(request) is Wait else None)


__all__ = ["Returning", "answered"]
