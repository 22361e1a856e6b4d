"""What a rejected approval does on replay: the call raises the rejection again, and nothing of it is run.

So in a replay of what committed, in an attempt that is resumed, and in a job that its framework begins again. A name
that is entered again after its attempt was undone is another attempt: its calls are asked about anew, and the log
tells of the earlier rejection (`_lifecycle/asking.py`).
"""

from __future__ import annotations

from settlemark._acts.gate import rejection
from settlemark._model.disposition import Disposed, Disposition
from settlemark.ledger._contract import RecordedEffect
from settlemark.ledger._payloads.unreadable import Unreadable


def refuse_rejected(disposed: Disposed, *, tool: str, key: str, transaction: str) -> None:
    """Return when no person has said no to a call.

    Raises:
        Rejected: a person has.
    """
    if disposed.disposition is Disposition.REJECTED:
        raise rejection(tool, key, transaction, because_in(disposed.note))


def refuse_recorded_rejection(recorded: RecordedEffect) -> None:
    """Return when no person has said no to the call of a recorded effect.

    Raises:
        Rejected: a person has.
    """
    row = recorded.row
    refuse_rejected(recorded.disposed, tool=row.tool, key=row.key, transaction=row.name)


def because_in(note: str | None) -> str | None:
    """Return why a person said no, for people; None where nobody can tell."""
    return None if isinstance(note, Unreadable) else note or None


__all__ = ["because_in", "refuse_recorded_rejection", "refuse_rejected"]
