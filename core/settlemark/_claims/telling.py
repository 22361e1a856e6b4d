"""A primer's text: plain sentences for a model, of bounded length.

Everything that a tool or a person has written stands in it as JSON, or in one line behind the record's own words: it
cannot begin a line, and so cannot pass for a sentence of the record. What does not fit is counted, never left out in
silence; of acts that have happened the latest are told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from settlemark._claims.words import Act, Change, Decided, Halting, Primer
from settlemark._edges.plain import joined, plain
from settlemark._model import json_text
from settlemark._model.budget import amount_text
from settlemark._owing.obligation import Obligation
from settlemark._report.sentences import short
from settlemark._steering.message import Steering
from settlemark.ledger._budgets import Bucket
from settlemark.ledger._owed import OwedState

_ARGUMENTS, _RESULT, _WORDS, _NAME = 160, 120, 160, 80
_TOLD = 3
_QUOTES = re.compile(r'(?<!\\)(?:\\\\)*"')


class _Part:
    """A part of the text: its heading, and a line for each thing; where they do not fit, the first or the latest.

    Each line is made plain once, and the length of those that are kept is known without joining them.
    """

    def __init__(self, heading: str, lines: Iterable[str], *, latest: bool = False) -> None:
        self.lines = [plain(line) for line in lines]
        self._heading = heading
        self._latest = latest
        ordered = reversed(self.lines) if latest else self.lines
        self._lengths = list(accumulate((1 + len(line) for line in ordered), initial=0))

    def heading(self, room: int) -> str:
        """Return the heading over so many lines."""
        count = len(self.lines)
        if count <= room:
            return plain(f"{self._heading}:")
        told = f"the {'latest' if self._latest else 'first'} {room} are told" if room else "none has room here"
        return plain(f"{self._heading} ({count}; {told}):")

    def kept(self, room: int) -> list[str]:
        """Return so many of the lines."""
        return self.lines[max(len(self.lines) - room, 0) :] if self._latest else self.lines[:room]

    def length(self, room: int) -> int:
        """Return how long the part is with so many lines, line breaks before each included."""
        return 1 + len(self.heading(room)) + self._lengths[min(room, len(self.lines))]


def told_of(primer: Primer, most: int) -> str:
    """Return a primer's text, of at most so many characters.

    >>> told_of(Primer("trip-42", False, 0.0, None, (), (), (), (), (), (), (), (), (), (), False), 2_000)
    'The job trip-42 is new: nothing of it is on record.'
    """
    name = _clipped(primer.run, _NAME)
    begins = [
        f"You take up the job {name} again. It was begun before: this is what its record says, as of"
        f" {_when(primer.at)}. Where you remember it otherwise, the record is right."
        if primer.known
        else f"The job {name} is new: nothing of it is on record."
    ]
    if primer.cancelled:
        begins.append("The job was cancelled: no call of it acts any more.")
    begun = joined(begins)
    parts = [part for part in _parts(primer) if part.lines]
    longest = max((len(part.lines) for part in parts), default=0)
    # Not a bisection: a part that is told whole has a shorter heading, so that one line more may make a text shorter.
    fitting = (room for room in range(longest, 0, -1) if len(begun) + sum(each.length(room) for each in parts) <= most)
    room = next(fitting, 0)
    return "\n".join([begun, *(line for each in parts for line in (each.heading(room), *each.kept(room)))])


def _parts(primer: Primer) -> list[_Part]:
    since = "" if primer.paused_at is None else f" since {_when(primer.paused_at)}"
    return [
        _Part(
            "In doubt: it may have happened. Do not repeat it, and do not say how it came out",
            [f"- {_called(act)}" for act in primer.in_doubt],
        ),
        _Part("Done, and not to be done again", _acts(primer.happened), latest=True),
        _Part("Issued, and not done yet: do not issue it again", _acts(primer.waiting)),
        _Part("Tried, and not done, or undone", _acts(primer.not_done), latest=True),
        _Part("Owed by this job", [_owed(each, primer.at) for each in primer.owed]),
        _Part("Said to this job by people, and not acted on yet", list(map(_said, primer.said))),
        _Part("Decided before", list(map(_decided, primer.decided)), latest=True),
        _Part(f"Changed by others{since}: look again before you rely on it", list(map(_change, primer.changed))),
        _Part("Budget left", list(map(_bucket, primer.budgets))),
        _Part("Halted: calls are refused there until a person lifts it", list(map(_halt, primer.halts))),
    ]


def _acts(acts: Sequence[Act]) -> list[str]:
    return [f"- {_act(act)}" for act in acts]


def _act(act: Act) -> str:
    result = "" if act.result is None else f"; result {_json(act.result, _RESULT)}"
    return f"{_called(act)}: {_closed(_clipped(act.told, _WORDS))}{result}"


def _called(act: Act) -> str:
    where = f" on {_clipped(act.scope, _NAME)}" if act.scope and not act.scope.startswith("run:/") else ""
    return f"{_clipped(act.tool, _NAME)}({_json(act.arguments, _ARGUMENTS)}){where}"


def _owed(owed: Obligation, now: float) -> str:
    by = f", by calling {_clipped(owed.fulfilled_by, _NAME)}" if owed.fulfilled_by else ""
    matching = f"({_json(owed.matching, _ARGUMENTS)})" if by and owed.matching else ""
    when = f", due {_when(owed.due)}{' (overdue)' if owed.due <= now else ''}"
    pending = "; owed once its transaction commits" if owed.state is OwedState.PENDING else ""
    return f"- {_json(owed.text, _WORDS)} to {_clipped(owed.to, _NAME)}{by}{matching}{when}{pending}"


def _said(said: Steering) -> str:
    about = f" about {_clipped(' '.join(said.scopes), _NAME)}" if said.scopes else ""
    return f"- {said.what}{about}, by {_clipped(said.by, _NAME)}: {_json(said.text, _WORDS)}"


def _decided(decided: Decided) -> str:
    because = f", because {_json(decided.because, _WORDS)}" if decided.because else ""
    return f"- {_json(decided.title, _WORDS)}{because}"


def _change(change: Change) -> str:
    by = "; ".join(f"{_called(act)} by {short(act.transaction)}" for act in change.by[-_TOLD:])
    more = f" and {len(change.by) - _TOLD} more" if len(change.by) > _TOLD else ""
    stale = ": what you read there is not current" if change.stale else ""
    return f"- {_clipped(change.scope, _NAME)}{stale}{f': {by}{more}' if by else ''}"


def _bucket(bucket: Bucket) -> str:
    left, limit = amount_text(max(bucket.left, bucket.left * 0)), amount_text(bucket.limit)
    return f"- {_clipped(bucket.budget, _NAME)}: {left} of {limit} ({bucket.per})"


def _halt(halt: Halting) -> str:
    return f"- {_clipped(halt.what, _NAME)}, by {_clipped(halt.by, _NAME)}: {_json(halt.because, _WORDS)}"


def _json(value: Any, most: int) -> str:
    return _closed(_clipped(json_text.encode_result(value), most))


def _closed(text: str) -> str:
    """Return a text that was cut off with its last JSON string ended, so that what follows is not taken for its end."""
    return f'{text}"' if text.endswith("…") and len(_QUOTES.findall(text)) % 2 else text


def _clipped(text: str, most: int) -> str:
    text = plain(" ".join(text.split()))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _when(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


__all__ = ["told_of"]
