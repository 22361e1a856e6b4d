"""What a call did by calls of its own: those of an agent that its tool ran, say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from settlemark._model.effect_class import EffectClass, Outcome
from settlemark._model.identity import Path


def made_by(call: Path, kinds: Mapping[Path, EffectClass]) -> list[Path]:
    """Return the decisions that a call made by calls of its own, in issuance order.

    A call among them of which nothing is known but the calls that it made itself stands for those, and is left out.

    Args:
        call: the decision whose call it is.
        kinds: the classes of all decisions of its transaction.

    >>> opaque, other = EffectClass.OPAQUE, EffectClass.REVERSIBLE
    >>> made_by((0,), {(0,): opaque, (0, 0, 0): opaque, (0, 0, 0, 0, 0): other, (1,): other})
    [(0, 0, 0, 0, 0)]
    """
    found = sorted(path for path in kinds if _is_within(path, call))
    return [
        path
        for path in found
        if kinds[path] is not EffectClass.OPAQUE or not any(_is_within(other, path) for other in found)
    ]


def is_gone(made: Iterable[Outcome]) -> bool:
    """Whether a call made calls of its own, and nothing of these stays, as their outcomes say.

    >>> is_gone([Outcome.UNDONE, Outcome.DROPPED]), is_gone([Outcome.UNDONE, Outcome.CONFIRMED]), is_gone([])
    (True, False, False)
    """
    found = set(made)
    return bool(found) and found <= {Outcome.UNDONE, Outcome.DROPPED, Outcome.FAILED}


def is_gone_in_part(made: Iterable[Outcome]) -> bool:
    """Whether some of a call's own calls were taken back, or never left; one that failed had done nothing.

    >>> is_gone_in_part([Outcome.UNDONE, Outcome.CONFIRMED]), is_gone_in_part([Outcome.FAILED, Outcome.CONFIRMED])
    (True, False)
    """
    return not {Outcome.UNDONE, Outcome.DROPPED}.isdisjoint(made)


def _is_within(path: Path, call: Path) -> bool:
    return 0 < len(call) < len(path) and path[: len(call)] == call


__all__ = ["is_gone", "is_gone_in_part", "made_by"]
