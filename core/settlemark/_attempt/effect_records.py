"""What of an effect is recorded: its payloads as the ledger may hold them, and its outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from settlemark._acts.effect import Effect
from settlemark._edges.errors import UsageError
from settlemark._edges.text import brief, prose
from settlemark._model import json_text
from settlemark._model.declare import declared_as, taken_by
from settlemark._model.effect_class import Outcome
from settlemark._model.identity import Path
from settlemark._observe.clock import FIRST, LAST
from settlemark._observe.logs import about, log_failure
from settlemark.ledger._contract import OutcomeChange
from settlemark.ledger._owed import GONE, PAYLOAD_BYTES, Lapse
from settlemark.ledger._payloads.payloads import Packer
from settlemark.ledger._payloads.unreadable import Unreadable

_log = logging.getLogger("settlemark")

_QUOTES = ("cause", "verdict")
_told: set[str] = set()


def _tell_once(tool: str, kind: str) -> None:
    if tool not in _told:
        _told.add(tool)
        _log.warning(
            "%s returned a %s, which JSON cannot hold: a replay would answer with its text",
            tool,
            kind,
            extra=about(tool=tool),
        )


class EffectRecords:
    """Makes of effects what is recorded of them.

    Args:
        payloads: redacts and encrypts.
        effects: the attempt's, by decision.
    """

    __slots__ = ("_effects", "payloads")

    def __init__(self, payloads: Packer, effects: dict[Path, Effect]) -> None:
        self._effects = effects
        self.payloads = payloads

    def prepare(self, effect: Effect) -> None:
        """Make of an effect's payloads what is recorded of them, before the step that records it.

        Raises:
            LedgerError: they cannot be recorded, so nothing may run.
        """
        payloads, key, tool = self.payloads, effect.key, effect.declaration.tool
        effect.fingerprint = payloads.fingerprint(effect.payload, effect_key=key)
        if not payloads.plain:
            arguments = payloads.packed(effect.payload, effect_key=key, tool=tool, field="arguments") or ""
            because = payloads.packed(self._prose(effect.rationale, key), effect_key=key, tool=tool, field="rationale")
            effect.packed = arguments, because

    def outcome(self, effect: Effect, at: float) -> OutcomeChange:
        """Return the change that records what is known of an effect."""
        try:
            result = effect.plain_result() if effect.kept is None else effect.kept[0]
        except Exception as error:  # a result that cannot be told must not keep its outcome from the record
            result = f"{type(effect.result).__name__} ({type(error).__name__} when it was to be recorded)"
        text = None if result is None else json_text.encode_result(result)
        if effect.unread is not None and effect.result is effect.unread[0]:
            text = effect.unread[1]
        if text is not None and text.startswith('{"$repr"'):
            _tell_once(effect.declaration.tool, type(result).__name__)
        told, disposed = effect.error, effect.disposed
        payloads, key, tool = self.payloads, effect.key, effect.declaration.tool
        if not payloads.plain:
            text = payloads.packed(text, effect_key=key, tool=tool, field="result")
            told = payloads.packed(self._prose(told, key), effect_key=key, tool=tool, field="error")
            note = payloads.packed(self._prose(disposed.note, key), effect_key=key, tool=tool, field="note")
            disposed = disposed._replace(note=note)
        change = OutcomeChange.of(key, effect.outcome, text, told, effect.tag, disposed, at, tool)
        if effect.declaration.expires is not None:
            change = change._replace(lapse=lapse_of(effect, at, payloads))
        return change if not effect.declaration.spent else change._replace(spent=_spent(effect))

    def _prose(self, text: str | None, key: str) -> str | None:
        """Return a text as it passes the gate before it is packed; its secrets go first, so that none is cut in two."""
        return text if text is None or isinstance(text, Unreadable) else prose(self.payloads.scrub(text, [key]))

    def cause(self, detail: dict[str, Any]) -> dict[str, Any]:
        """Return the detail of an abort as all processes may know it: without what was taken out of payloads."""
        if self.payloads.plain:
            return detail
        keys = [effect.key for effect in self._effects.copy().values()]
        return {
            name: self.payloads.cause(value, keys) if isinstance(value, str) and name in _QUOTES else value
            for name, value in detail.items()
        }

    def forget_secrets(self) -> None:
        """Let go of the secrets of the effects: nothing more will be told of them."""
        if not self.payloads.plain:
            for effect in self._effects.copy().values():
                self.payloads.forget(effect.key)


def _spent(effect: Effect) -> dict[str, Decimal]:
    """Return what an effect's result says that it spent; empty where it cannot be told: what was reserved counts."""
    if effect.outcome is not Outcome.CONFIRMED or effect.unread is not None:
        return {}
    try:
        return effect.declaration.true_amounts(effect.arguments, effect.own_result())
    except BaseException as error:  # a function's fault must not keep the outcome from the record
        log_failure(
            _log,
            f"spent= of {effect.declaration.tool} failed: what was reserved for it is charged",
            error,
            key=effect.key,
            tool=effect.declaration.tool,
        )
        return {}


def lapse_of(effect: Effect, at: float, payloads: Packer) -> Lapse | None:
    """Return what an effect with this outcome leaves to be done, or that nothing is left; None says nothing.

    Where its time cannot be told it is due now, and a person has to look: what was got may lapse at any moment.
    """
    declaration = effect.declaration
    if declaration.expires is None or declaration.then is None:
        return None
    if effect.outcome in GONE:
        return Lapse(None)
    if effect.outcome is not Outcome.CONFIRMED or effect.unread is not None:
        return None
    result = effect.own_result()
    calls = True
    try:
        told = declaration.expires.of(effect.arguments, result=result)
        if told is None:
            return None
        due = seconds_of(told)
    except BaseException as error:  # a result that tells no time must not keep its outcome from the record
        what = f"expires= of {declaration.tool} tells no time: {declaration.then} is due now"
        log_failure(_log, what, error, key=effect.key, tool=declaration.tool)
        due, calls = at, False
    after, text = declared_as(declaration.then), f"{declaration.tool} lapses"
    scope = effect.scopes[0].text if effect.scopes else f"tool:/{declaration.tool}"
    matching, where = _arguments(effect, result), scope
    payload = json_text.encode({"text": text, "matching": {}, "calls": False})  # of a call that cannot be told
    try:
        if after is None:
            calls = False
        elif scopes := after.scopes(matching):
            where = scopes[0].text
        told = json_text.encode(matching)
        for tool in (declaration.tool, declaration.then):  # what is redacted of either is redacted here
            told = payloads.redact(told, tool=tool)
        whole = json_text.encode({"text": text, "matching": json_text.decode(told), "calls": calls})
        if len(whole.encode()) <= PAYLOAD_BYTES:
            payload = whole
    except BaseException as error:
        log_failure(_log, f"what {declaration.then} is to be called with cannot be told", error, key=effect.key)
    return Lapse(due, scope, declaration.then, where, payload)


def seconds_of(told: object) -> float:
    """Return a time in seconds since 1970.

    Raises:
        UsageError: it is no time, has no time zone, or lies in no year that a calendar has: milliseconds, say.

    >>> seconds_of("1970-01-01T01:00:00+01:00"), seconds_of(7)
    (0.0, 7.0)
    """
    if isinstance(told, str):
        try:
            told = datetime.fromisoformat(told)
        except ValueError:
            raise _no_time(told) from None
    if isinstance(told, datetime) and told.tzinfo is not None:
        return told.timestamp()
    if isinstance(told, bool) or not isinstance(told, int | float) or not FIRST <= told <= LAST:
        raise _no_time(told)
    return float(told)


def _no_time(told: object) -> UsageError:
    return UsageError(f"{brief(told)} is no time: return seconds since 1970, or a date and time with its zone")


def _arguments(effect: Effect, result: Any) -> dict[str, Any]:
    """Return what the tool is to be called with: arguments of the effect, and fields of its result."""
    found: dict[str, Any] = dict(cast("Mapping[str, Any]", result)) if isinstance(result, Mapping) else {}
    found |= effect.arguments
    after = declared_as(effect.declaration.then or "")
    names = None if after is None else taken_by(after)
    return {name: value for name, value in found.items() if names is None or name in names}


__all__ = ["EffectRecords", "lapse_of", "seconds_of"]
