"""What became of calls since they were answered, by the record, in whichever process they settled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from settlemark._api.settlement import Settlement, host_of
from settlemark._edges.text import KEY, wrong_with
from settlemark._model import json_text
from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._model.made import made_by
from settlemark._protocol.states import FINISHED, State
from settlemark.agents._words import became, keeps_its_answer
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction


@dataclass(frozen=True, slots=True)
class Since:
    """What became of one call after it was answered; by default its answer stands.

    Attributes:
        tool: its tool's name.
        told: what is told in place of the answer, or None.
        left: it was held, and has left: `result` is its answer now.
        result: what its tool returned then, as it was recorded.
    """

    tool: str
    told: str | None = None
    left: bool = False
    result: Any = None


def since_answered(settlement: Settlement, keys: Collection[str]) -> dict[str, Since]:
    """Return for calls that were answered before their transactions settled what became of them, by their keys.

    Those whose transactions have not ended yet are not in it, but for those that were taken back meanwhile: a turn of
    an agent inside a call failed, say, and was undone by itself.

    Raises:
        LedgerError: the ledger cannot be read.

    >>> since_answered(Settlement("memory:"), ["trip#1/0"])
    {}
    """

    def look(book: Book) -> dict[str, Since]:
        found: dict[str, Since] = {}
        for key in keys:
            if wrong_with(key, KEY):
                continue  # it came with a message from anywhere, and no record has it
            recorded = book.find(key)
            if recorded is None:
                continue
            effect = next(effect for effect in recorded.effects if effect.row.key == key)
            if recorded.state in FINISHED or _is_taken_back(effect):
                made = _made_by(effect, recorded)
                kept = not effect.row.held and keeps_its_answer(effect.row.kind, effect.outcome, made)
                found[key] = Since(effect.row.tool) if kept else since(effect, recorded)
        return found

    return host_of(settlement).ledger.read(look)


def since(effect: RecordedEffect, recorded: RecordedTransaction) -> Since:
    """Return what became of a call since it was answered, by the record of its transaction.

    That has ended, or has taken the call back already.
    """
    row = effect.row
    because = recorded.cause or recorded.reason or "its transaction was undone"
    if recorded.state is State.COMMITTED and not row.held and effect.outcome in (Outcome.INTENDED, Outcome.UNKNOWN):
        return Since(row.tool)  # the person who answered did know
    if recorded.state not in (State.ABORTING, State.ABORTED):
        noted = effect.note if effect.disposition is Disposition.ORPHANED else None  # why its turn was undone by itself
        because = (
            noted or effect.disposed.told or effect.error or "it failed"
        )  # of others it left, or was undone by an operator
    if effect.outcome is Outcome.CONFIRMED and effect.tag is None:
        return Since(row.tool, left=True, result=json_text.decode(effect.result)) if row.held else Since(row.tool)
    told = became(
        row.tool,
        effect.outcome,
        because=because,
        held=row.held,
        tag=effect.tag,
        note=effect.disposed.told,
        made=_made_by(effect, recorded),
    )
    return Since(row.tool, told)


def _made_by(effect: RecordedEffect, recorded: RecordedTransaction) -> list[Outcome]:
    """Return what came of the calls that a call made."""
    outcomes = {made.row.decision: made.outcome for made in recorded.effects}
    kinds = {made.row.decision: made.row.kind for made in recorded.effects}
    return [outcomes[path] for path in made_by(effect.row.decision, kinds)]


def _is_taken_back(effect: RecordedEffect) -> bool:
    """Whether it was undone or dropped, or could not be, and its answer did not say so; a rejected one's did."""
    return effect.tag is not None and effect.disposition is not Disposition.REJECTED


__all__ = ["Since", "since", "since_answered"]
