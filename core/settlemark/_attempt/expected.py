"""Decisions that were made before: a plan that comes back asks for them again, or they are taken back."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from settlemark._acts.effect import Effect
from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.identity import Path
from settlemark._model.scope import Scope


class Expected(msgspec.Struct, eq=False):
    """The decisions of an attempt that are to be asked for again.

    Attributes:
        effects: the attempt's, by decision.
        paths: the decisions.
        seen: those of them that were read meanwhile as their effects had left the scope.
    """

    effects: dict[Path, Effect]
    paths: set[Path] = set()
    seen: set[Path] = set()

    def expect(self, base: Path = ()) -> None:
        """Expect to be asked again for what was decided before, below a place."""
        self.paths.update(path for path, effect in self.effects.copy().items() if _is_under(path, base, effect))

    def keep(self, path: Path, call_id: str | None = None) -> None:
        """Note that a decision stands, with all that was made of it: within it, in its place, or for the same call."""
        for other in self.paths.copy():
            effect = self.effects.get(other)
            same = call_id is not None and effect is not None and effect.call_id == call_id
            if same or other[: len(path)] == path:
                self.paths.discard(other)

    def sees(self, scopes: Iterable[Scope]) -> None:
        """Note that these were read, as what is still expected has left them."""
        for path in self.paths.copy():
            effect = self.effects[path]
            is_there = effect.declaration.kind is EffectClass.STAGED if effect.held else effect.executed
            if is_there and any(ours.overlaps(theirs) for ours in scopes for theirs in effect.scopes):
                self.seen.add(path)

    def orphans(self, base: Path) -> list[Effect]:
        """Return what was expected below a place and not asked for, in issuance order."""
        paths = sorted(path for path in self.paths.copy() if path[: len(base)] == base)
        return [self.effects[path] for path in paths if _may_stand(self.effects[path])]


_NOTHING = (Outcome.DROPPED, Outcome.UNDONE)


def _may_stand(effect: Effect) -> bool:
    """Whether there is something of an effect to be taken back, or there may turn out to be."""
    return effect.outcome not in _NOTHING and effect.tag is None


def _is_under(path: Path, base: Path, effect: Effect) -> bool:
    return len(path) > len(base) and path[: len(base)] == base and _may_stand(effect)


__all__ = ["Expected"]
