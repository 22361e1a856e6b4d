"""A decision: why its effects are called. What is called under it carries its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from typing import Any, Self

from settlemark._model import json_text

_here: ContextVar[Decision | None] = ContextVar("settlemark_decision", default=None)

Reads = Callable[[], list[dict[str, Any]]]
"""Returns the reads that a transaction stands on, each with its scope and version."""


class Decision:
    """A decision, made by `tx.decide`: what is called in its block, `with decision:`, is called for its sake.

    So is a single call that is given it, `tx.call(…, decision=decision)`. It is recorded with the first of its effects,
    in the same commit as that one's intent; one without effects leaves nothing on record.

    Attributes:
        id: names it in the record.
        title: what was decided, for people.
        body: JSON: its title, why, the alternatives, the policy, and the grounds.
    """

    __slots__ = ("_of", "_tokens", "body", "id", "is_recorded", "title")

    def __init__(self, of: object, id: str, title: str, body: str) -> None:  # noqa: A002 - as the record has it
        self._of = of
        self._tokens: list[Token[Decision | None]] = []
        self.id = id
        self.title = title
        self.body = body
        self.is_recorded = False

    def __enter__(self) -> Self:
        self._tokens.append(_here.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _here.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"<Decision {self.title!r} {self.id}>"

    @classmethod
    def on_record(cls, id: str) -> Decision:  # noqa: A002 - as the record has it
        """Return a decision that is on record already: what takes an effect's place is called for its sake, too."""
        found = Decision(None, id, "", "")
        found.is_recorded = True
        return found

    def is_of(self, attempt: object) -> bool:
        """Whether it was made in this attempt."""
        return self._of is attempt

    def told(self, reads: Reads) -> str:  # noqa: ARG002 - it says itself on what it stands
        """Return what is recorded of it, as JSON, when the first of its effects is."""
        return self.body

    @staticmethod
    def here(of: object) -> Decision | None:
        """Return the decision in whose block this is, if it is one of this attempt."""
        found = _here.get()
        return found if found is not None and found.is_of(of) else None


class TurnDecision(Decision):
    """What a model decided in one of its turns: it stands on all that was read before the first of its effects.

    What it said is `prose`, and so surely JSON.
    """

    __slots__ = ("_said",)

    def __init__(self, of: object, id: str, title: str, said: Mapping[str, Any]) -> None:  # noqa: A002 - as the record has it
        super().__init__(of, id, title, "")
        self._said = said

    def told(self, reads: Reads) -> str:
        """Return what is recorded of it, as JSON, with the reads as they are now."""
        return json_text.canonical({"title": self.title, **self._said, "grounds": reads()})


__all__ = ["Decision", "Reads", "TurnDecision"]
