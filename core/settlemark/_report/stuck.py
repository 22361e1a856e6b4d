"""What is stuck: an effect that was to be undone, happened, and is not undone, and nothing goes on with it by itself.

*Derived* from what the record says of the effect, which its undo writes as it ends: so a transaction is stuck from that
commit of the store on, and no longer when the effect is undone or dealt with. There is no second write to lose.
"""

from __future__ import annotations

from enum import StrEnum

from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import FINISHED, State, Tag
from settlemark._report.verdicts import is_rewound
from settlemark.ledger._contract import RecordedEffect, RecordedTransaction

MENDS = "mends/"
"""How the names of transactions begin that mend what is stuck."""


class StuckCause(StrEnum):
    """Why an effect was not undone.

    `failed`: its undo failed for good; `missing`: it has none, or none that can run; `moved_on`: its undo no longer
    applies, or would overwrite what others have built on it.
    """

    FAILED = "failed"
    MISSING = "missing"
    MOVED_ON = "moved_on"


_CAUSES = {
    Disposition.UNDO_FAILED: StuckCause.FAILED,
    Disposition.NO_UNDO: StuckCause.MISSING,
    Disposition.MOVED_ON: StuckCause.MOVED_ON,
}
_GOES_ON = (Disposition.TO_UNDO, Disposition.TO_REWIND, Disposition.GIVEN_UP)


def is_stuck(recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
    """Whether an effect was to be undone, and stands; until somebody says that it is dealt with."""
    return (
        effect.outcome is Outcome.CONFIRMED
        and effect.tag in (Tag.UNRESOLVED, Tag.LEAKED)
        and effect.dealt_at is None
        and effect.disposition not in _GOES_ON
        and recorded.state in FINISHED
        and (
            recorded.state is State.ABORTED
            or is_rewound(recorded)
            or effect.disposition is Disposition.ORPHANED
            or effect.disposition in _CAUSES
        )
    )


def cause_of(effect: RecordedEffect) -> StuckCause:
    """Return why a stuck effect was not undone."""
    told = None if effect.disposition is None else _CAUSES.get(effect.disposition)
    if told is not None:
        return told
    return StuckCause.FAILED if effect.row.undoable and not effect.row.held else StuckCause.MISSING


def any_stuck(recorded: RecordedTransaction) -> bool:
    """Whether a transaction is stuck."""
    return any(is_stuck(recorded, effect) for effect in recorded.effects)


__all__ = ["MENDS", "StuckCause", "any_stuck", "cause_of", "is_stuck"]
