"""The primer of a job that is taken up again, put behind the system message of an agent's model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from itertools import takewhile

from autogen_core.models import CreateResult, LLMMessage, SystemMessage

from settlemark_autogen._alone import Ask


def primed(ask: Ask, text: str | None) -> Ask:
    """Return what asks the model with a primer; what the agent remembers stays as it is."""
    if text is None:
        return ask

    def told(messages: Sequence[LLMMessage]) -> AsyncGenerator[str | CreateResult, None]:
        first = sum(1 for _ in takewhile(lambda message: isinstance(message, SystemMessage), messages))
        return ask([*messages[:first], SystemMessage(content=text), *messages[first:]])

    return told


__all__ = ["primed"]
