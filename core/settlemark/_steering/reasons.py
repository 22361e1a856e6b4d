"""Who had steered a run when it called an effect: a part of why it was called."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from settlemark._model import json_text
from settlemark._model.scope import Scope
from settlemark._report.why import Chapter, Why, found_why, scopes_in, story_of
from settlemark._steering.message import Steering
from settlemark._steering.steers import said_to
from settlemark.ledger._contract import Book, RecordedEffect


def steered_why(book: Book, key: str) -> tuple[RecordedEffect, Why]:
    """Return the effect of this key, why it was called, and what people had said to its run by then.

    Raises:
        UsageError: there is no such effect.
    """
    effect, why = found_why(book, key)
    return effect, _steered(effect, why, said_to(book, why.run))


def steered_story(book: Book, run: str) -> list[Chapter]:
    """Return a run's attempts, oldest first, with why each of their effects was called, and who had steered by then."""
    said = said_to(book, run)
    return [
        (recorded, [(effect, _steered(effect, why, said)) for effect, why in told])
        for recorded, told in story_of(book, run)
    ]


def _steered(effect: RecordedEffect, why: Why, said: Iterable[Steering]) -> Why:
    by_then = [each for each in said if each.done_at is not None and each.done_at <= effect.row.at]
    touched = scopes_in(json_text.decode(effect.row.scopes))
    about = [each for each in by_then if not each.scopes or _meet(scopes_in(each.scopes), touched)]
    told = tuple({"number": e.number, "what": e.what, "text": e.text, "by": e.by, "at": e.at} for e in about)
    return replace(why, steered=told) if told else why


def _meet(these: Iterable[Scope], those: Iterable[Scope]) -> bool:
    others = list(those)
    return any(one.overlaps(other) for one in these for other in others)


__all__ = ["steered_story", "steered_why"]
