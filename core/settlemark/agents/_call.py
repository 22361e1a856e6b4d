"""One call that a model issued."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from settlemark._model.declaration import Declaration
from settlemark._model.effect_class import EffectClass


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call that a model issued.

    Attributes:
        tool: the tool's name.
        arguments: as the model gave them: the decision is known again by these.
        declaration: what the tool does; see `Declarations`.
        call_id: the model's id for it, where there is one.
        given: the arguments as the tool will get them, where the framework makes them of the model's.

    >>> from settlemark._model.declare import declare
    >>> Call("look", {"at": "sky"}, declare("look", "read")).acts
    False
    """

    tool: str
    arguments: Mapping[str, Any]
    declaration: Declaration
    call_id: str | None = None
    given: Mapping[str, Any] | None = None

    @property
    def acts(self) -> bool:
        """Whether it has an effect."""
        return self.declaration.kind is not EffectClass.READ


__all__ = ["Call"]
