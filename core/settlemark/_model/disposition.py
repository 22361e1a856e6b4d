"""What was decided about an effect, beyond its outcome: as data, and in words for people.

A note is a payload: it is redacted, encrypted and pruned. So no decision reads a note. Decisions are stored as data:
the disposition, the key or name that it links to, the number of a framework's question, and whether somebody has
contradicted it. The note only completes the sentence: why, or by whom.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Disposition(StrEnum):
    """The decision about an effect; a new one replaces the old one.

    * At a gate: `asked` waits for a person's answer, which makes it `approved`, `rejected` or `edited` (approved with
      other arguments, as the effect whose key is linked).
    * `split_off` goes on as the linked transaction; `behind` is called again there, after the split-off call.
    * `skipped` has failed, and its transaction goes on without it.
    * `orphaned` is no longer asked for by any plan: it is taken back as far as possible.
    * `to_undo` happened after its transaction was undone; `to_rewind` lies behind the point of a rewind: both are yet
      to be undone.
    * `undo_failed`, `no_undo` or `moved_on` was to be undone and is not: its undo failed for good, there is none that
      can run, or it no longer applies. `mended` was, and what the linked transaction did has taken it away.
    * Somebody said that it `happened` or is `absent`, has mended it `by_hand`, or has `given_up`.
    """

    ASKED = "asked"
    APPROVED = "approved"
    REJECTED = "rejected"
    EDITED = "edited"
    SPLIT_OFF = "split_off"
    BEHIND = "behind"
    SKIPPED = "skipped"
    ORPHANED = "orphaned"
    TO_UNDO = "to_undo"
    TO_REWIND = "to_rewind"
    UNDO_FAILED = "undo_failed"
    NO_UNDO = "no_undo"
    MOVED_ON = "moved_on"
    MENDED = "mended"
    HAPPENED = "happened"
    ABSENT = "absent"
    BY_HAND = "by_hand"
    GIVEN_UP = "given_up"


AT_A_GATE = frozenset({Disposition.ASKED, Disposition.APPROVED, Disposition.REJECTED, Disposition.EDITED})
"""A person was asked about the call, or has answered."""
ANSWERED_NO = frozenset({Disposition.REJECTED, Disposition.EDITED})
"""A person said no, or gave other arguments: the call never runs."""
ELSEWHERE = frozenset({Disposition.SPLIT_OFF, Disposition.BEHIND})
"""The call goes on in another transaction."""

_WORDS = {
    Disposition.ASKED: "waits for a person, question {question}",
    Disposition.APPROVED: "approved by a person",
    Disposition.REJECTED: "rejected by a person",
    Disposition.EDITED: "approved with other arguments as {link}",
    Disposition.SPLIT_OFF: "waits for an answer as {link}",
    Disposition.BEHIND: "called again behind what waits for an answer as {link}",
    Disposition.SKIPPED: "skipped",
    Disposition.ORPHANED: "decided before and not asked for again",
    Disposition.TO_UNDO: "it happened after its transaction was undone, and is to be undone",
    Disposition.TO_REWIND: "it is to be undone on request",
    Disposition.UNDO_FAILED: "its undo failed",
    Disposition.NO_UNDO: "it happened, and has no undo",
    Disposition.MOVED_ON: "its undo no longer applies",
    Disposition.MENDED: "mended by {link}",
    Disposition.HAPPENED: "told that it happened",
    Disposition.ABSENT: "told that it did not happen",
    Disposition.BY_HAND: "seen to by hand",
    Disposition.GIVEN_UP: "given up",
}
_BEFORE_A_NOTE = {
    Disposition.REJECTED: ": ",
    Disposition.TO_UNDO: " ",
    Disposition.TO_REWIND: " ",
    Disposition.HAPPENED: " ",
    Disposition.ABSENT: " ",
    Disposition.BY_HAND: " ",
    Disposition.GIVEN_UP: " ",
}
"""What joins these words to the note; other words are joined by a semicolon."""
TOLD_BY_NOTE = frozenset({Disposition.UNDO_FAILED, Disposition.NO_UNDO, Disposition.MOVED_ON})
"""The note says all of it; these words stand in for one that is gone."""


class Disposed(NamedTuple):
    """How an effect stands: replaced as a whole, so that nothing of the previous state stays.

    `link` is the key of another effect or the name of another transaction. `question` is a framework's number: of the
    question about the call, or of the first question that the tool itself asks.
    """

    disposition: Disposition | None = None
    note: str | None = None
    link: str | None = None
    question: int | None = None
    contradicted: bool = False

    def __str__(self) -> str:
        """Say it in words; empty where there is nothing to say.

        >>> str(Disposed(Disposition.REJECTED, "too expensive"))
        'rejected by a person: too expensive'
        >>> str(Disposed(Disposition.TO_UNDO, "(ada: they called)")), str(Disposed(note="its undo failed"))
        ('it happened after its transaction was undone, and is to be undone (ada: they called)', 'its undo failed')
        """
        if self.disposition is None:
            return self.note or ""
        said = words(self.disposition, link=self.link, question=self.question)
        if not self.note:
            return said
        if self.disposition in TOLD_BY_NOTE:
            return self.note
        return f"{said}{_BEFORE_A_NOTE.get(self.disposition, '; ')}{self.note}"

    @property
    def told(self) -> str | None:
        """The words for people; None where there is nothing to say."""
        return str(self) or None


NOTHING = Disposed()
"""No decision: the outcome tells all."""


def words(disposition: Disposition, *, link: str | None = None, question: int | None = None) -> str:
    """Return what people are told of a disposition, before why it is so.

    >>> words(Disposition.ORPHANED)
    'decided before and not asked for again'
    >>> words(Disposition.APPROVED, link="trip#1/0")
    'approved by a person, in place of trip#1/0'
    """
    said = _WORDS[disposition].format(link=link, question="-" if question is None else question)
    return f"{said}, in place of {link}" if disposition is Disposition.APPROVED and link is not None else said


__all__ = ["ANSWERED_NO", "AT_A_GATE", "ELSEWHERE", "NOTHING", "TOLD_BY_NOTE", "Disposed", "Disposition", "words"]
