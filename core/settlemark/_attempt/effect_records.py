"""What of an effect is recorded: its payloads as the ledger may hold them, and its outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from settlemark._acts.effect import Effect
from settlemark._edges.text import prose
from settlemark._model import json_text
from settlemark._model.identity import Path
from settlemark._observe.logs import about
from settlemark.ledger._contract import OutcomeChange
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

    def __init__(self, payloads: Packer, effects: Mapping[Path, Effect]) -> None:
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
        return OutcomeChange.of(key, effect.outcome, text, told, effect.tag, disposed, at, tool)

    def _prose(self, text: str | None, key: str) -> str | None:
        """Return a text as it passes the gate before it is packed; its secrets go first, so that none is cut in two."""
        return text if text is None or isinstance(text, Unreadable) else prose(self.payloads.scrub(text, [key]))

    def cause(self, detail: dict[str, Any]) -> dict[str, Any]:
        """Return the detail of an abort as all processes may know it: without what was taken out of payloads."""
        if self.payloads.plain:
            return detail
        keys = [effect.key for effect in self._effects.values()]
        return {
            name: self.payloads.cause(value, keys) if isinstance(value, str) and name in _QUOTES else value
            for name, value in detail.items()
        }

    def forget_secrets(self) -> None:
        """Let go of the secrets of the effects: nothing more will be told of them."""
        if not self.payloads.plain:
            for effect in self._effects.values():
                self.payloads.forget(effect.key)


__all__ = ["EffectRecords"]
