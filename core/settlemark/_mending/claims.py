"""The entries that say how far a remedy is, and whose it is.

An entry is added once for what is stuck of an attempt, by the worker that asks for a plan: that row is the claim. Each
next state is a change from the version before it, so of several workers one wins. A claim is good until it is due on
the store's clock: a worker that says nothing until then has lost it, whether it died or hangs.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from settlemark._mending.remedy import ENDED, KIND, Remedy, RemedyState
from settlemark._mending.stuck import Stuck
from settlemark._model import json_text
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._entries import Draft

log = logging.getLogger("settlemark")

GATE = "/gate"
YES = "settlemark.mend"
"""The tool whose call is the question whether a plan may run."""
PATIENCE = 60.0
"""For how many seconds a plan is waited for; then a person is told."""
_DIGITS = 24


def id_of(prefix: str, stuck: Stuck) -> str:
    """Return the id of what is done about this: the same in every process, another one when more is stuck."""
    keys = ",".join(sorted(effect.key for effect in stuck.effects))
    text = f"{prefix}{stuck.transaction}#{stuck.attempt}/mends/{keys}"
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:_DIGITS]


def draft_of(number: str, stuck: Stuck, state: RemedyState, body: str, *, at: float, due: float | None) -> Draft:
    """Return the first version of a remedy's entry."""
    name, attempt, key = stuck.transaction, stuck.attempt, stuck.effects[0].key
    return Draft(KIND, number, stuck.run, str(state), at, body, name, attempt, key, due, open=state not in ENDED)


def body_of(
    stuck: Stuck,
    *,
    plan: Sequence[Mapping[str, Any]] | None = None,
    why: str = "",
    tried: str | None = None,
) -> str:
    """Return the body of a remedy's entry, as JSON."""
    keys = [effect.key for effect in stuck.effects]
    return json_text.encode({"keys": keys, "plan": plan, "why": why, "tried": tried})


class NotOurs(Exception):
    """Another worker is at it, or a person is, or it is over: there is nothing to do here now."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is stuck, and how far its remedy is."""

    stuck: Stuck
    remedy: Remedy
    version: int
    channels: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The remedy's id."""
        return self.remedy.id

    @property
    def name(self) -> str:
        """The name of the transaction in which its plan runs."""
        return self.remedy.transaction

    @property
    def keys(self) -> list[str]:
        """The keys of the stuck effects."""
        return [effect.key for effect in self.stuck.effects]


def recorded_of(book: Book, key: str) -> tuple[RecordedTransaction, RecordedEffect] | None:
    """Return the recorded effect of a key, with its transaction, or None."""
    recorded = book.find(key)
    if recorded is None:
        return None
    return recorded, next(effect for effect in recorded.effects if effect.row.key == key)


__all__ = ["GATE", "PATIENCE", "YES", "Case", "NotOurs", "body_of", "draft_of", "id_of", "recorded_of"]
