"""What a model has said when it issued the calls of a turn: its decision, under which they are called."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from settlemark._acts.decision import Decision, TurnDecision
from settlemark._attempt.attempt import Attempt
from settlemark._edges.text import prose
from settlemark._model import json_text
from settlemark.agents._call import PlacedCall

_LONGEST, _DIGITS = 360, 16


@dataclass(frozen=True, slots=True)
class Said:
    """What is known of an answer in which a model issued calls; whatever a framework shows of it.

    Attributes:
        text: what the model said beside its calls.
        message: the id of its message.
        model: the name of the model.
        tools: the names of the tools that it was offered.

    >>> Said("I book it", model="gpt-7").text
    'I book it'
    """

    text: str | None = None
    message: str | None = None
    model: str | None = None
    tools: tuple[str, ...] = ()

    @classmethod
    def of(cls, because: Because) -> Said:
        """Return it, where a text may be all that is known."""
        return because if isinstance(because, Said) else cls(because)


Because = str | Said | None
"""Why a model issued calls: what it said, or all that is known of its answer."""


class Deciding:
    """The part of an open turn that decides."""

    attempt: Attempt
    calls: list[PlacedCall]
    undoes: bool
    _decision: Decision | None = None

    def decide(self, said: Said) -> None:
        """Have its calls called for the sake of what the model has said; say it once they are placed.

        It is recorded with the first effect of the turn, in the same commit, with what the model had read by then and
        at which versions; a turn without effects leaves nothing on record.
        """
        if not (self.undoes and self.calls):
            return
        told = {
            "because": None if said.text is None else prose(said.text),
            "message": None if said.message is None else prose(said.message),
            "model": None if said.model is None else prose(said.model),
            "tools": [prose(tool) for tool in said.tools],
        }
        step, path = self.attempt.step, self.calls[0].placed.path
        step = step if len(step) <= _LONGEST else hashlib.sha256(step.encode()).hexdigest()
        digest = hashlib.sha256(json_text.canonical([told, list(path)]).encode()).hexdigest()[:_DIGITS]
        title = f"called {', '.join(call.tool for call in self.calls)}"
        self._decision = TurnDecision(self.attempt, f"{step}~{digest}", prose(title), told)


__all__ = ["Because", "Deciding", "Said"]
