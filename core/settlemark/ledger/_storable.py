"""The last check before a record: no row may make its store refuse the other rows of its transaction.

Everything was checked where it came in; this check is on the only path to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from settlemark._edges.errors import LedgerError
from settlemark._edges.text import (
    CALL_ID,
    CAUSE,
    DERIVED,
    KEY,
    NAME,
    PROSE,
    TOOL,
    VERSION,
    Most,
    brief,
    prose,
    wrong_with,
)
from settlemark._model import json_text
from settlemark._model.effect_class import Outcome
from settlemark.ledger._contract import Change, EffectRow, Fence, OutcomeChange, Said, StateChange, TransactionRow
from settlemark.ledger._owed import OwedChange, OwedRow
from settlemark.ledger._payloads.payloads import Packed
from settlemark.ledger._payloads.unreadable import Unreadable

_ORDINAL = Most(512)
_OWNER = Most(255)
_FINGERPRINT = Most(64)
_INTEGER, _BIG = 1 << 31, 1 << 63
SHORT = 1_000
"""The most characters of a text in a record that was refused before."""


def storable(changes: Iterable[Change], *, short_ascii: bool) -> list[Change]:
    r"""Return changes in a form that every store can hold; with `short_ascii`, their texts are short and in ASCII.

    Raises:
        LedgerError: a name in one of them cannot be stored unchanged; none of them may be recorded.

    >>> from settlemark._protocol.states import Reason, State
    >>> change = StateChange("trip", 1, State.ABORTED, 1, Reason.FAILED, 0.0, cause="no \ud83d")
    >>> storable([change], short_ascii=False)[0].cause
    'no \\ud83d'
    """
    return [_CHECKS[type(change)](change, short_ascii) for change in changes]


def _outcome(change: OutcomeChange, short_ascii: bool) -> OutcomeChange:
    names = [("key", change.key, KEY)]
    if change.link is not None:
        names.append(("link", change.link, KEY))
    numbers = () if change.question is None else ((change.question, _INTEGER),)
    _fit(names, numbers, () if short_ascii else (change.at,))
    if short_ascii:
        return _plain(change)
    result, error, note = _told(change.result), change.error, change.note
    if error is not None or note is not None:
        error, note = _prose(error), _prose(note)
    if result is not change.result or error is not change.error or note is not change.note:
        change = change._replace(result=result, error=error, note=note)
    return change


def _transaction(row: TransactionRow, _plainly: bool) -> TransactionRow:
    names = (
        ("name", row.name, DERIVED),
        ("run", row.run, DERIVED),
        ("ordinal", row.ordinal, _ORDINAL),
        ("owner", row.owner, _OWNER),
    )
    _fit(
        (*names, *_acting(row.agents)) if row.agents else names, ((row.attempt, _INTEGER), (row.epoch, _BIG)), (row.at,)
    )
    return row


def _state(change: StateChange, short_ascii: bool) -> StateChange:
    names = [("name", change.name, DERIVED)]
    if change.link is not None:
        names.append(("link", change.link, KEY))
    if change.agents:
        names.extend(_acting(change.agents))
    times = [change.at, *[told for told in (change.sealed_at, change.decided_at) if told is not None]]
    _fit(names, ((change.attempt, _INTEGER), (change.epoch, _BIG)), times)
    if change.cause is None and change.waits_for is None:
        return change
    most = SHORT if short_ascii else CAUSE
    cause, waits_for, waits_on = (
        None if text is None else prose(text, most) for text in (change.cause, change.waits_for, change.waits_on)
    )
    return change._replace(cause=cause, waits_for=waits_for, waits_on=waits_on)


def _acting(agents: tuple[str, ...]) -> list[tuple[str, str, Most]]:
    return [("agent", agent, NAME) for agent in agents]


def _fence(change: Fence, _plainly: bool) -> Fence:
    _fit([("run", change.run, DERIVED)], (), (change.at,))
    return change


def _said(change: Said, _plainly: bool) -> Said:
    _fit([("key", change.key, KEY)], (), (change.at,))
    text = change.text if isinstance(change.text, Packed) else _told(change.text) or "{}"
    return change._replace(text=text, by=prose(change.by, _OWNER.characters))


def _intent(row: EffectRow, _plainly: bool) -> EffectRow:
    names = [
        ("key", row.key, KEY),
        ("name", row.name, DERIVED),
        ("tool", row.tool, TOOL),
        ("version", row.version, VERSION),
        ("fingerprint", row.fingerprint, _FINGERPRINT),
    ]
    if row.call_id is not None:
        names.append(("call id", row.call_id, CALL_ID))
    times = (row.at,) if row.window is None else (row.at, row.window)
    _fit(names, ((row.attempt, _INTEGER), (row.position, _INTEGER)), times)
    for what, text in (("arguments", row.arguments), ("scopes", row.scopes), ("handlers", row.handlers)):
        if not text.isascii() or "\0" in text:
            _whole(what, text)
    rationale = None if row.rationale is None else _prose(row.rationale)
    return row if rationale is row.rationale else row._replace(rationale=rationale)


def _owed(row: OwedRow, _plainly: bool) -> OwedRow:
    names = [("name", row.name, DERIVED), ("run", row.run, DERIVED)]
    _fit([*names, ("tool", row.tool, TOOL)] if row.tool else names, ((row.attempt, _INTEGER),), (row.at, row.due))
    for what, text in (("obligation", row.payload), ("scopes", f"{row.to} {row.scope}")):
        _whole(what, text)
    return row


def _news(change: OwedChange, _plainly: bool) -> OwedChange:
    names = [] if change.fulfilled is None else [("key", change.fulfilled, KEY)]
    _fit(names if change.waived_by is None else [*names, ("by", change.waived_by, _OWNER)], (), (change.at,))
    return change._replace(note=_prose(change.note))


_CHECKS: Mapping[type[Change], Callable[[Any, bool], Change]] = {
    OutcomeChange: _outcome,
    TransactionRow: _transaction,
    StateChange: _state,
    EffectRow: _intent,
    Fence: _fence,
    Said: _said,
    OwedRow: _owed,
    OwedChange: _news,
}


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


def _fit(names: Iterable[tuple[str, Any, Most]], numbers: Iterable[tuple[Any, int]], times: Iterable[Any]) -> None:
    """Check that each name, number and time fits into its column.

    Raises:
        LedgerError: one does not; nothing was recorded.
    """
    for what, text, most in names:
        if type(text) is str and text.isascii() and len(text) <= most.characters and "\0" not in text:
            continue  # nearly all of them: a step has a dozen, and a call for each would show
        wrong = wrong_with(text, most)
        if wrong is not None and wrong != "is empty: give one":
            raise LedgerError(f"the {what} {brief(text)} {wrong}; nothing was recorded", field=what)
    for number, bound in numbers:
        if not -bound <= number < bound:
            raise LedgerError(f"the number {brief(number)} does not fit into its column; nothing was recorded")
    for seconds in times:
        if not ((type(seconds) is float and -_BIG < seconds < _BIG) or _is_time(seconds)):
            raise LedgerError(
                f"the clock says {brief(seconds)}, which is not a time: give clock= a function that returns seconds"
                " since 1970; nothing was recorded"
            )


def _whole(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LedgerError(f"the {what} cannot be stored: {error}; nothing was recorded", field=what) from None
    if "\0" in text:
        raise LedgerError(f"the {what} cannot be stored: a NUL is in them; nothing was recorded", field=what)


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and -_BIG < seconds < _BIG  # false for NaN as well


__all__ = ["SHORT", "storable"]
