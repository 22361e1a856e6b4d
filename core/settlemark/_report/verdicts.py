"""What a report on an effect changes in its record: a counterparty's answer, a webhook's report, an operator's verdict.

Pure: a recorded effect and a report go in, the change to write comes out: the disposition, and a note for operators
with who said so, when and why.

A report ends a doubt, and corrects a call that was only seen to fail. It never overwrites another report: of two that
contradict each other the first stays, the second is named beside it, and an operator's verdict decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from settlemark._acts.effect import Effect
from settlemark._edges.errors import UsageError
from settlemark._edges.text import prose
from settlemark._model import json_text
from settlemark._model.disposition import NOTHING, Disposed, Disposition
from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import FINISHED, Reason, State, Tag
from settlemark.ledger._contract import OutcomeChange, RecordedEffect, RecordedTransaction, Said
from settlemark.ledger._payloads.redaction import withheld
from settlemark.ledger._payloads.unreadable import Unreadable

Verdict = Literal["confirmed", "absent", "give_up", "dealt_with"]

BACK = "its own worker, which had fallen silent"

_MAY_HAVE = (Outcome.UNKNOWN, Outcome.INTENDED)
_NEVER_SENT = (Outcome.QUEUED, Outcome.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Word:
    """A report on an effect.

    Attributes:
        found: the effect's result, or None: it did not happen.
        by: who says so.
        at: when, in seconds since 1970.
        note: why.
    """

    found: Any
    by: str
    at: float
    note: str = ""

    def __post_init__(self) -> None:
        """Normalise the note: a subclass of str may have its own text."""
        object.__setattr__(self, "note", prose(self.note))

    def __str__(self) -> str:
        """Say who, when and why, for a note."""
        when = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"{self.by}, {when}{f': {self.note}' if self.note else ''}"


def _was_told_absent(effect: RecordedEffect) -> bool:
    """Whether somebody has reported that an effect did not happen; the call's own failure does not count."""
    return effect.outcome is Outcome.FAILED and effect.disposition in (Disposition.ABSENT, Disposition.BY_HAND)


def is_given_up(effect: RecordedEffect) -> bool:
    """Whether an operator has given up on finding out."""
    return effect.disposition is Disposition.GIVEN_UP


def is_to_undo(recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
    """Whether an effect happened after its transaction was undone, and is still to be undone."""
    return (
        effect.outcome is Outcome.CONFIRMED
        and effect.tag is Tag.UNRESOLVED
        and effect.disposition is Disposition.TO_UNDO
        # a committed transaction undoes effects that no plan asked for
        and recorded.state in (*FINISHED, State.ABORTING)
    )


def is_to_rewind(recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
    """Whether an effect was rewound, and is yet to be undone."""
    return (
        effect.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN)
        and effect.disposition is Disposition.TO_REWIND
        and is_rewound(recorded)
    )


def is_rewound(recorded: RecordedTransaction) -> bool:
    """Whether a transaction is over, and was undone on request."""
    return recorded.state in FINISHED and recorded.reason is Reason.REWOUND


def is_in_doubt(effect: RecordedEffect) -> bool:
    """Whether an effect's outcome is unknown, and not given up."""
    return effect.outcome is Outcome.UNKNOWN and not is_given_up(effect)


def judge(recorded: RecordedTransaction, effect: RecordedEffect, word: Word, *, undoable: bool) -> OutcomeChange | None:
    """Return the change for a report on an effect, or None if it is no news.

    `undoable` says that an undo is declared. The first report stays: one that contradicts it is named beside it.

    Raises:
        UsageError: nothing of the effect was sent yet, so nobody can know anything.
    """
    judged = _Judged(recorded, effect, word, undoable)
    outcome = effect.outcome
    leaving = outcome is Outcome.QUEUED and recorded.state is State.RELEASING
    if outcome in _NEVER_SENT and not leaving:
        raise UsageError(
            f"{effect.row.tool} on {effect.row.scope} has not been sent yet: nothing was recorded; to keep it from"
            f" leaving, settlement.cancel({recorded.row.run!r})",
            key=effect.row.key,
        )
    if word.found is None:
        return judged.absent(leaving=leaving)
    return judged.happened(leaving=leaving)


def resolve(
    recorded: RecordedTransaction, effect: RecordedEffect, verdict: Verdict, word: Word, *, undoable: bool
) -> OutcomeChange | None:
    """Return the change for an operator's verdict, or None when the record says the same.

    About an effect in doubt a verdict is a report like any other. About residue, `confirmed` tries a failed undo once
    more, or accepts what stands, and `absent` says that it was mended by hand; so a verdict settles contradicting
    reports. `dealt_with` changes no outcome; it records that nobody need look at the effect any more.

    Raises:
        UsageError: nothing of it was sent yet, or there is nothing to give up, or to deal with.
    """
    if is_resolved(effect):
        return None
    if verdict == "dealt_with":
        return _dealt_with(recorded, effect, word)
    if verdict == "give_up":
        return None if is_given_up(effect) else _give_up(recorded, effect, word)
    if effect.outcome in _MAY_HAVE or effect.tag in (None, Tag.CLEAN):
        return judge(recorded, effect, word, undoable=undoable)
    judged = _Judged(recorded, effect, word, undoable)
    if verdict == "absent":
        outcome = Outcome.UNDONE if effect.outcome is Outcome.CONFIRMED else effect.outcome
        by_hand = Disposed(Disposition.BY_HAND, f"({word})")
        return judged.change(outcome, Tag.CLEAN, by_hand, result=effect.result, error=effect.error)
    return judged.affirmed()


def first_hand(
    recorded: RecordedTransaction, found: RecordedEffect, effect: Effect, at: float, *, worker: str
) -> OutcomeChange | None:
    """Return the change for an outcome reported by a sender that was thought dead meanwhile, or None.

    Nobody knows the outcome better, so it overrides a probe's answer. If another worker has sent the effect again
    since, both have happened.
    """
    declaration = effect.declaration
    result = effect.plain_result() if effect.outcome is Outcome.CONFIRMED else None
    word = Word(True if result is None else result, BACK, at)
    judged = _Judged(recorded, found, word, declaration.undo is not None)
    match effect.outcome:
        case Outcome.CONFIRMED if found.sender not in (None, worker):
            return None if declaration.keyed else judged.twice()
        case Outcome.CONFIRMED if found.outcome is Outcome.FAILED:
            return judged.happened_after_all()
        case Outcome.CONFIRMED if found.outcome in (*_MAY_HAVE, Outcome.QUEUED):
            return judged.happened(leaving=found.outcome is Outcome.QUEUED)
        case Outcome.UNDONE if found.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN):
            disposed = Disposed(note=f"undone ({word})") if effect.disposed == NOTHING else effect.disposed
            return judged.change(Outcome.UNDONE, effect.tag, disposed, result=found.result, error=found.error)
        case Outcome.FAILED | Outcome.DROPPED if found.outcome in _MAY_HAVE:
            return _Judged(recorded, found, replace(word, found=None), judged.undoable).absent(leaving=False)
        case _:
            return None


def is_resolved(effect: RecordedEffect) -> bool:
    """Whether an operator has decided an effect's outcome, or dealt with its residue, and no news came since."""
    if effect.dealt_at is not None:
        return True
    settled = effect.tag in (None, Tag.CLEAN) and effect.outcome not in (*_MAY_HAVE, *_NEVER_SENT)
    return settled and verdict_of(effect) is not None


def verdict_of(effect: RecordedEffect) -> Verdict | None:
    """Return an operator's last verdict on an effect, or None."""
    return cast("Verdict", effect.verdict) if effect.verdict in get_args(Verdict) else None


def said_of(effect: RecordedEffect, change: OutcomeChange | None, verdict: Verdict, word: Word) -> Said:
    """Return a verdict as the record keeps it, beside its change."""
    before = effect.tag not in (None, Tag.CLEAN)
    after = before if change is None else change.tag not in (None, Tag.CLEAN)
    dealt = verdict == "dealt_with" or (before and not after)
    text = json_text.encode({"verdict": verdict, "note": prose(word.note)})
    return Said(effect.row.key, text, word.by, word.at, dealt, effect.row.tool, verdict)


def _dealt_with(recorded: RecordedTransaction, effect: RecordedEffect, word: Word) -> OutcomeChange | None:
    if recorded.state not in FINISHED or effect.tag in (None, Tag.CLEAN):
        ended = "has not ended yet" if recorded.state not in FINISHED else f"is {effect.outcome}"
        raise UsageError(
            f"{effect.row.tool} on {effect.row.scope} of {recorded.row.name} {ended}, and left nothing to deal with:"
            " nothing was recorded; settlement.residue() tells what is left",
            key=effect.row.key,
        )
    if is_to_undo(recorded, effect) or is_to_rewind(recorded, effect):
        raise UsageError(
            f"{effect.row.tool} on {effect.row.scope} is yet to be undone by the engine: nothing was recorded; say"
            ' "absent" if you have undone it by hand',
            key=effect.row.key,
        )
    return _give_up(recorded, effect, word) if is_in_doubt(effect) else None


def _give_up(recorded: RecordedTransaction, effect: RecordedEffect, word: Word) -> OutcomeChange:
    if recorded.state not in FINISHED:
        raise UsageError(
            f"{recorded.row.name} has not ended yet: say that {effect.row.tool} is confirmed or absent, or wait",
            key=effect.row.key,
        )
    if effect.tag in (None, Tag.CLEAN):
        raise UsageError(
            f"{effect.row.tool} on {effect.row.scope} is {effect.outcome}, and nothing of it is left to give up:"
            " nothing was recorded; settlement.in_doubt() and settlement.residue() tell what is",
            key=effect.row.key,
        )
    return _Judged(recorded, effect, word, undoable=False).change(
        effect.outcome,
        effect.tag,
        Disposed(Disposition.GIVEN_UP, f"by {word}"),
        result=effect.result,
        error=effect.error,
    )


def _without(value: Any, paths: set[str], path: str = "") -> Any:
    if path in paths:
        return None
    inside = f"{path}." if path else ""
    if isinstance(value, dict):
        return {k: _without(v, paths, f"{inside}{k}") for k, v in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_without(v, paths, f"{inside}{n}") for n, v in enumerate(cast("Any", value))]
    return value


class _Judged:
    """One effect, and one report on it."""

    __slots__ = ("effect", "recorded", "undoable", "undone", "word")

    def __init__(self, recorded: RecordedTransaction, effect: RecordedEffect, word: Word, undoable: bool) -> None:
        self.recorded = recorded
        self.effect = effect
        self.word = word
        self.undoable = undoable
        # Its part of an abort may be over before the whole is.
        partly = recorded.state is State.ABORTING and effect.tag is not None
        orphan = effect.disposition is Disposition.ORPHANED
        self.undone = recorded.state is State.ABORTED or partly or orphan or is_rewound(recorded)

    def change(
        self,
        outcome: Outcome,
        tag: Tag | None,
        disposed: Disposed,
        *,
        result: str | None = None,
        error: str | None = None,
    ) -> OutcomeChange:
        row = self.effect.row
        return OutcomeChange.of(row.key, outcome, result, error, tag, disposed, self.word.at, row.tool)

    def happened(self, *, leaving: bool) -> OutcomeChange | None:
        effect, text = self.effect, self._text()
        if effect.outcome in _MAY_HAVE or leaving:
            return self._late(text) if self.undone else self._on_time(text)
        if effect.outcome is Outcome.FAILED and not _was_told_absent(effect):
            # The call was thought to have failed; its counterparty knows better.
            return self._late(text) if self.undone else self._after_all(text)
        if effect.outcome in (Outcome.CONFIRMED, Outcome.UNDONE):
            if text is None or effect.result == text or self._agrees(text):
                return None
            if effect.result is None:
                disposed = self._told_so if effect.disposed == NOTHING else effect.disposed
                return self.change(effect.outcome, effect.tag, disposed, result=text, error=effect.error)
        return self._contradicted("that it happened" if text is None else f"that it happened, with {text}")

    def happened_after_all(self) -> OutcomeChange:
        """Return the change when an effect reported absent has happened."""
        return self._late(self._text()) if self.undone else self._after_all(self._text())

    def twice(self) -> OutcomeChange:
        """Return the change when an effect was sent again, and the first sending has happened too."""
        effect = self.effect
        said = f"it happened twice: sent again when nobody could find it, then reported to have happened ({self.word})"
        disposed = effect.disposed
        note = f"{said}; take one of them back by hand" if disposed == NOTHING else _joined(disposed, said)
        return self.change(
            effect.outcome, Tag.UNRESOLVED, disposed._replace(note=note), result=effect.result, error=effect.error
        )

    def absent(self, *, leaving: bool) -> OutcomeChange | None:
        effect = self.effect
        if effect.outcome is Outcome.CONFIRMED:
            return self._contradicted("that it did not happen")
        if effect.outcome not in _MAY_HAVE or leaving:
            return None
        told = Disposed(Disposition.ABSENT, f"({self.word})")
        if self.undone:
            return self.change(Outcome.FAILED, Tag.CLEAN, told, error=effect.error)
        if effect.row.held and self.recorded.state is State.COMMITTED and self._others_happened():
            told = told._replace(note=f"{told.note}: it never left, and the rest of its transaction stands")
            return self.change(Outcome.FAILED, Tag.PARTIAL_COMMIT, told, error=effect.error)
        return self.change(Outcome.FAILED, None, told, error=effect.error)

    def affirmed(self) -> OutcomeChange:
        effect = self.effect
        text = self._text() if effect.result is None else effect.result
        if effect.outcome is Outcome.CONFIRMED:
            return self._late(text) if self.undone else self._on_time(text)
        if effect.outcome is not Outcome.UNDONE and self.undone:
            return self._late(text)
        done = Outcome.UNDONE if effect.outcome is Outcome.UNDONE else Outcome.CONFIRMED
        return self.change(done, Tag.CLEAN, self._told_so, result=text)

    def _agrees(self, text: str) -> bool:
        """Whether the reported result is the recorded one, as far as that can still be read."""
        recorded = self.effect.result
        if isinstance(recorded, Unreadable):
            return True
        lacking = withheld(recorded)
        told = _without(json_text.decode(text), lacking)
        return bool(lacking) and _without(json_text.decode(recorded), lacking) == told

    def _text(self) -> str | None:
        # `True` stands for an effect that happened with an unknown result.
        return None if self.word.found is True else json_text.encode_result(self.word.found)

    def _others_happened(self) -> bool:
        return any(e.outcome is Outcome.CONFIRMED for e in self.recorded.effects if e is not self.effect)

    @property
    def _told_so(self) -> Disposed:
        return Disposed(Disposition.HAPPENED, f"({self.word})")

    def _on_time(self, text: str | None) -> OutcomeChange:
        return self.change(Outcome.CONFIRMED, None, self._told_so, result=text)

    def _after_all(self, text: str | None) -> OutcomeChange:
        note = Disposed(note=f"it happened after all, although its call had failed ({self.word})")
        return self.change(Outcome.CONFIRMED, Tag.UNRESOLVED, note, result=text, error=self.effect.error)

    def _late(self, text: str | None) -> OutcomeChange:
        row = self.effect.row
        if row.held:
            left = Disposed(note=f"it had left before the abort ({self.word})")
            return self.change(Outcome.CONFIRMED, Tag.LEAKED, left, result=text)
        if self.undoable:
            to_undo = Disposed(Disposition.TO_UNDO, f"({self.word})")
            return self.change(Outcome.CONFIRMED, Tag.UNRESOLVED, to_undo, result=text)
        note = f"it happened after its transaction was undone, and {row.kind} effects of {row.tool} have no undo"
        return self.change(Outcome.CONFIRMED, Tag.UNRESOLVED, Disposed(note=f"{note} ({self.word})"), result=text)

    def _contradicted(self, what: str) -> OutcomeChange | None:
        effect = self.effect
        if effect.contradicted:
            return None
        said = f"told otherwise: {what} ({self.word}); what was recorded first stays: ask the counterparty"
        disposed = effect.disposed._replace(note=_joined(effect.disposed, said), contradicted=True)
        tag = Tag.UNRESOLVED if effect.tag in (None, Tag.CLEAN) else effect.tag
        return self.change(effect.outcome, tag, disposed, result=effect.result, error=effect.error)


def _joined(disposed: Disposed, said: str) -> str:
    """Append to a note."""
    return f"{disposed.note}; {said}" if disposed.note else said


__all__ = [
    "Verdict",
    "Word",
    "is_given_up",
    "is_in_doubt",
    "is_resolved",
    "is_rewound",
    "is_to_rewind",
    "is_to_undo",
    "judge",
    "resolve",
    "said_of",
    "verdict_of",
]
