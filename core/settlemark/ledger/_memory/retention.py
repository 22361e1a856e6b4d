"""What retention removes of a record in memory: payloads go, keys stay."""

from __future__ import annotations

from settlemark.ledger._contract import RecordedTransaction
from settlemark.ledger._payloads.payloads import PRUNED_WHY, Field
from settlemark.ledger._payloads.unreadable import Outdated

_TOLD: tuple[Field, ...] = ("result", "error", "note", "said")


def strip(recorded: RecordedTransaction) -> None:
    """Remove the payloads from a record."""
    recorded.cause, recorded.waits, recorded.waits_for, recorded.waits_on = None, (), None, None
    for effect in recorded.effects:
        row = effect.row
        because = None if row.rationale is None else Outdated.of("rationale", PRUNED_WHY)
        effect.row = row._replace(arguments=Outdated.of("arguments", PRUNED_WHY), scopes="[]", rationale=because)
        for field in _TOLD:
            if getattr(effect, field) is not None:
                setattr(effect, field, Outdated.of(field, PRUNED_WHY))


__all__ = ["strip"]
