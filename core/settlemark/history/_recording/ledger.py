"""A ledger as a history: what committed, and in which order its effects were issued and left.

A ledger keeps no reads, so only the order of effects can be checked in it: `Settlement(history=…)` records the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from settlemark._model.disposition import Disposition
from settlemark._model.effect_class import Outcome
from settlemark._model.json_text import decode
from settlemark._model.scope import Scope
from settlemark._protocol.leaving import Held, leaving_order
from settlemark._protocol.states import State
from settlemark.history._recording.record import OpRecord

if TYPE_CHECKING:
    from settlemark.ledger import RecordedEffect, RecordedTransaction


def of_ledger(transactions: Iterable[RecordedTransaction]) -> list[OpRecord]:
    """Return one record for each committed transaction, in order of commit.

    Its effects are cells by scope, with the tool's name as the value. A held effect is issued at the commit,
    irreversible ones last; a call that no model issued (it has no call id) when it acts. An effect whose outcome was
    learned later has no known time: it says nothing of the order. Where all that it did to a cell was of one group,
    `commutes` tells that group, although nobody knows what else it has read there.

    >>> from settlemark import Settlement, effect
    >>> @effect("staged", scope="cell:/{cell}")
    ... def put(cell): ...
    >>> settlement = Settlement("memory:")
    >>> with settlement.transaction("trip") as tx:
    ...     _ = tx.call(put, cell="x")
    >>> [(record.name, record.io, record.co) for record in of_ledger(settlement.transactions())]
    [('trip', [('cell:/x', 'put')], [('cell:/x', 'put')])]
    """
    done = [t for t in transactions if t.state is State.COMMITTED]
    done.sort(key=lambda t: (t.settled_at or 0.0, t.epoch))
    return [_record(time, transaction) for time, transaction in enumerate(done, 1)]


def _record(time: int, transaction: RecordedTransaction) -> OpRecord:
    acted = [effect for effect in transaction.effects if effect.outcome is Outcome.CONFIRMED]
    timed = [effect for effect in acted if _is_timed(effect)]
    # Outcomes may be recorded at the same moment: then held effects come after eager ones.
    left = sorted(timed, key=lambda effect: (effect.settled_at or 0.0, effect.row.held, effect.row.position))
    held = sorted((e for e in transaction.effects if _was_to_leave(e)), key=lambda effect: effect.row.position)
    leaving = {id(effect): number for number, effect in enumerate(leaving_order(held, _held))}

    def issued_as(effect: RecordedEffect) -> tuple[bool, int]:
        return effect.row.held, leaving.get(id(effect), effect.row.position)

    turned = iter(sorted((effect for effect in timed if _is_turned(effect)), key=issued_as))
    issued = [next(turned) if _is_turned(effect) else effect for effect in left]
    return OpRecord(
        agent=transaction.row.run,
        name=transaction.row.name,
        id=str(time),
        read_time=time - 1,
        write_time=time,
        write_values={_cell(effect): effect.row.key for effect in acted},
        commutes=_groups(acted),
        io=[_pair(effect) for effect in issued],
        co=[_pair(effect) for effect in left],
        externalized=bool(acted),
    )


def _groups(acted: Iterable[RecordedEffect]) -> dict[str, str]:
    """Return, for each cell on which all effects are of one group, that group."""
    found: dict[str, set[str | None]] = {}
    for effect in acted:
        found.setdefault(_cell(effect), set()).add(effect.row.commutes)
    return {cell: group for cell, groups in found.items() for group in groups if group is not None and len(groups) == 1}


def _is_turned(effect: RecordedEffect) -> bool:
    return effect.row.call_id is not None


def _is_timed(effect: RecordedEffect) -> bool:
    """Whether an effect acted when its outcome was recorded, and nobody reported it later."""
    return effect.disposition in (None, Disposition.APPROVED) and effect.tag is None


def _was_to_leave(effect: RecordedEffect) -> bool:
    return effect.row.held and (effect.outcome is not Outcome.DROPPED or effect.disposition is Disposition.SKIPPED)


def _held(effect: RecordedEffect) -> Held:
    return Held(effect.row.leaves, [Scope.parse(text) for text in decode(effect.row.scopes)])


def _cell(effect: RecordedEffect) -> str:
    return " ".join(decode(effect.row.scopes))


def _pair(effect: RecordedEffect) -> tuple[str, str]:
    return _cell(effect), effect.row.tool


__all__ = ["of_ledger"]
