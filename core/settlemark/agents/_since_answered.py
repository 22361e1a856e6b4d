"""What became of calls since they were answered, by the record, in whichever process they settled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from settlemark._api.settlement import Settlement, host_of
from settlemark._edges.text import KEY, wrong_with
from settlemark._model import json_text
from settlemark._model.effect_class import Outcome
from settlemark._model.made import made_by
from settlemark._protocol.states import FINISHED, State
from settlemark.agents._words import became
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

    Those whose transactions have not ended yet are not in it.

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
            if recorded is not None and recorded.state in FINISHED:
                effect = next(effect for effect in recorded.effects if effect.row.key == key)
                found[key] = since(effect, recorded)
        return found

    return host_of(settlement).ledger.read(look)


def since(effect: RecordedEffect, recorded: RecordedTransaction) -> Since:
    """Return what became of a call since it was answered, by the record of its transaction, which has ended."""
    row = effect.row
    because = recorded.cause or recorded.reason or "its transaction was undone"
    if recorded.state is State.COMMITTED and not row.held and effect.outcome in (Outcome.INTENDED, Outcome.UNKNOWN):
        return Since(row.tool)  # whoever answered did know
    if recorded.state is State.COMMITTED:
        because = effect.disposed.told or effect.error or "it failed"  # of others it left, or was undone by an operator
    if effect.outcome is Outcome.CONFIRMED and effect.tag is None:
        return Since(row.tool, left=True, result=json_text.decode(effect.result)) if row.held else Since(row.tool)
    outcomes = {made.row.decision: made.outcome for made in recorded.effects}
    kinds = {made.row.decision: made.row.kind for made in recorded.effects}
    told = became(
        row.tool,
        effect.outcome,
        because=because,
        held=row.held,
        tag=effect.tag,
        note=effect.disposed.told,
        made=[outcomes[path] for path in made_by(row.decision, kinds)],
    )
    return Since(row.tool, told)


__all__ = ["Since", "since", "since_answered"]
