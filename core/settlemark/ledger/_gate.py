"""The last check before a record: no row may make its store refuse the rows it travels with.

Everything was checked where it came in; this check is on the only path to the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from settlemark._edges.errors import LedgerError
from settlemark._edges.text import CALL_ID, CAUSE, DERIVED, KEY, PROSE, TOOL, VERSION, Most, brief, prose, wrong_with
from settlemark._model import json_text
from settlemark._model.effect_class import Outcome
from settlemark.ledger._contract import Change, EffectRow, Fence, OutcomeChange, Said, StateChange, TransactionRow
from settlemark.ledger._payloads.payloads import Packed
from settlemark.ledger._payloads.unreadable import Unreadable

_ORDINAL = Most(512, 2_048)
_OWNER = Most(255, 1_020)
_FINGERPRINT = Most(64, 256)
_INTEGER, _BIG = 1 << 31, 1 << 63
SHORT = 1_000
"""The most characters of a text in a record that was refused before."""


def gated(changes: Iterable[Change], *, plainly: bool = False) -> list[Change]:
    r"""Return changes in a form that every store can hold; with `plainly`, their texts are short and in ASCII.

    Raises:
        LedgerError: a name in one of them cannot be stored unchanged; none of them may be recorded.

    >>> from settlemark._protocol.states import Reason, State
    >>> gated([StateChange("trip", 1, State.ABORTED, 1, Reason.FAILED, 0.0, cause="no \ud83d")])[0].cause
    'no \\ud83d'
    """
    return [_gated(change, plainly) for change in changes]


def _gated(change: Change, plainly: bool) -> Change:
    if isinstance(change, OutcomeChange):
        _named(("key", change.key, KEY))
        if change.link is not None:
            _named(("link", change.link, KEY))
        if change.question is not None:
            _counted((change.question, _INTEGER))
        if plainly:
            return _plain(change)
        _timed(change.at)
        result, error, note = _told(change.result), change.error, change.note
        if error is not None or note is not None:
            error, note = _prose(error), _prose(note)
        if result is not change.result or error is not change.error or note is not change.note:
            change = change._replace(result=result, error=error, note=note)
        return change
    if isinstance(change, StateChange):
        return _state(change, SHORT if plainly else CAUSE)
    if isinstance(change, EffectRow):
        return _intent(change)
    if isinstance(change, TransactionRow):
        _named(
            ("name", change.name, DERIVED),
            ("run", change.run, DERIVED),
            ("ordinal", change.ordinal, _ORDINAL),
            ("owner", change.owner, _OWNER),
        )
        _counted((change.attempt, _INTEGER), (change.epoch, _BIG))
        _timed(change.at)
        return change
    return _word(change)


def _state(change: StateChange, most: int) -> StateChange:
    _named(("name", change.name, DERIVED))
    _counted((change.attempt, _INTEGER), (change.epoch, _BIG))
    _timed(change.at, *[told for told in (change.sealed_at, change.decided_at) if told is not None])
    if change.link is not None:
        _named(("link", change.link, KEY))
    if change.cause is None and change.waits_for is None:
        return change
    cause, waits_for, waits_on = (
        None if text is None else prose(text, most) for text in (change.cause, change.waits_for, change.waits_on)
    )
    return change._replace(cause=cause, waits_for=waits_for, waits_on=waits_on)


def _word(change: Fence | Said) -> Change:
    if isinstance(change, Fence):
        _named(("run", change.run, DERIVED))
        _timed(change.at)
        return change
    _named(("key", change.key, KEY))
    _timed(change.at)
    text = change.text if isinstance(change.text, Packed) else _told(change.text) or "{}"
    return change._replace(text=text, by=prose(change.by, _OWNER.characters))


def _intent(row: EffectRow) -> EffectRow:
    _named(
        ("key", row.key, KEY),
        ("name", row.name, DERIVED),
        ("tool", row.tool, TOOL),
        ("version", row.version, VERSION),
        ("fingerprint", row.fingerprint, _FINGERPRINT),
    )
    if row.call_id is not None:
        _named(("call id", row.call_id, CALL_ID))
    for what, text in (("arguments", row.arguments), ("scopes", row.scopes), ("handlers", row.handlers)):
        if not text.isascii() or "\0" in text:
            _whole(what, text)
    _counted((row.attempt, _INTEGER), (row.position, _INTEGER))
    _timed(row.at)
    if row.window is not None:
        _timed(row.window)
    rationale = None if row.rationale is None else _prose(row.rationale)
    return row if rationale is row.rationale else row._replace(rationale=rationale)


def _plain(change: OutcomeChange) -> OutcomeChange:
    """Return an outcome that no store can refuse: shortened texts in ASCII."""
    result = change.result
    if result is not None and change.outcome is Outcome.CONFIRMED:
        result = '{"$repr":"its store refused its result"}'
    at = change.at if _is_time(change.at) else 0.0
    return change._replace(result=result, error=_short(change.error), note=_short(change.note), at=at)


def _short(text: str | None) -> str | None:
    return None if text is None else prose(ascii(str(text)[:SHORT])[1:-1], SHORT)


def _prose(text: str | None) -> str | None:
    if text is None or isinstance(text, Packed | Unreadable):  # made of a text that was checked
        return text
    return prose(text, PROSE)


def _told(result: str | None) -> str | None:
    """Return a result, or a description of one that no store can hold: its outcome must not be lost for it."""
    if result is None or (result.isascii() and "\0" not in result) or isinstance(result, Packed | Unreadable):
        return result
    try:
        result.encode()
    except UnicodeEncodeError:
        return json_text.encode({"$repr": prose(result, 10 * SHORT)})
    return result if "\0" not in result else json_text.encode({"$repr": prose(result, 10 * SHORT)})


def _named(*names: tuple[str, Any, Most]) -> None:
    for what, text, most in names:
        if type(text) is str and text.isascii() and len(text) <= most.characters and "\0" not in text:
            continue
        wrong = wrong_with(text, most)
        if wrong is not None and wrong != "is empty: give one":
            raise LedgerError(f"the {what} {brief(text)} {wrong}; nothing was recorded", field=what)


def _whole(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LedgerError(f"the {what} cannot be stored: {error}; nothing was recorded", field=what) from None
    if "\0" in text:
        raise LedgerError(f"the {what} cannot be stored: a NUL is in them; nothing was recorded", field=what)


def _counted(*numbers: tuple[Any, int]) -> None:
    for number, most in numbers:
        if not -most <= number < most:
            raise LedgerError(f"the number {brief(number)} does not fit into its column; nothing was recorded")


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and -_BIG < seconds < _BIG  # false for NaN as well


def _timed(*times: Any) -> None:
    for seconds in times:
        if not ((type(seconds) is float and -_BIG < seconds < _BIG) or _is_time(seconds)):
            raise LedgerError(
                f"the clock says {brief(seconds)}, which is not a time: give clock= a function that returns seconds"
                " since 1970; nothing was recorded"
            )


__all__ = ["SHORT", "gated"]
