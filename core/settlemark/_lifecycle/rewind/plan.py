"""What a rewind does to the world: planned before anything happens, and reported when it has.

Pure: recorded transactions go in; what is undone, what stays and why comes out. The newest is undone first:
transactions by their place in the order, the effects of each in reverse order of acting. An effect on which another's
work has been built since stays, unless it is named: its undo would overwrite that work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from settlemark._edges.plain import joined, plain
from settlemark._model import json_text
from settlemark._model.effect_class import Outcome
from settlemark._model.scope import Scope
from settlemark._protocol.states import FINISHED, State, Tag
from settlemark._report.sentences import add_row, new_table, short
from settlemark.ledger._contract import RecordedEffect, RecordedTransaction

if TYPE_CHECKING:
    from rich.console import RenderableType

_HAPPENED = (Outcome.CONFIRMED, Outcome.UNKNOWN, Outcome.INTENDED)
_BUILDS = (State.COMMITTED, State.RELEASING, State.ABORTED)  # a transaction that still acts is waited for


@dataclass(frozen=True, slots=True)
class Affected:
    """An effect that a `Rewind` undoes, or leaves.

    Attributes:
        transaction, attempt, tool, scope, key: the effect; its counterparty knows it by the key.
        outcome: its outcome at the time of this report, such as `"confirmed"` or `"undone"`.
        why: why it stays, or a remark about its undo; often empty.
        arguments, result: of its call, as recorded.
    """

    transaction: str
    attempt: int
    tool: str
    scope: str
    key: str
    outcome: Outcome
    why: str
    arguments: dict[str, Any] = field(repr=False)
    result: Any = field(repr=False)

    def __str__(self) -> str:
        """Name the effect, and say why it stays."""
        return plain(f"{short(self.transaction)}: {self.tool} on {self.scope}{f': {self.why}' if self.why else ''}")

    def to_json(self) -> dict[str, Any]:
        """Return the effect as JSON values."""
        return {
            "transaction": self.transaction,
            "attempt": self.attempt,
            "tool": self.tool,
            "scope": self.scope,
            "key": self.key,
            "outcome": self.outcome.value,
            "why": self.why,
            "arguments": self.arguments,
            "result": self.result,
        }


@dataclass(frozen=True, slots=True)
class Rewind:
    """What a rewind does, or has done: see `Settlement.rewind`.

    Attributes:
        transactions: the rewound transactions, the newest first.
        unfinished: those among them that had not ended: they are aborted before anything else is undone.
        undo: the effects to undo, in this order; when `done`, the undone ones.
        residue: the effects that cannot be undone, and stay; when `done`, also those whose undo failed or left a cost.
        conflicts: the effects that stay because others have built upon them since.
        done: it has happened; else nothing has, and this is the plan.
        by, note: who rewound, and why.
    """

    transactions: tuple[str, ...]
    unfinished: tuple[str, ...]
    undo: tuple[Affected, ...]
    residue: tuple[Affected, ...]
    conflicts: tuple[Affected, ...]
    done: bool
    by: str
    note: str

    def __str__(self) -> str:
        """Describe the rewind in sentences."""
        return joined(self._lines())

    def _lines(self) -> Iterator[str]:
        count = len(self.transactions)
        what = f"{count} transaction{'s' * (count != 1)}"
        yield f"Gone back over {what}." if self.done else f"Going back over {what}; nothing has happened yet."
        ended = "were" if self.done else "would be"
        if self.unfinished:
            yield f"Unfinished, so they {ended} aborted first: {', '.join(map(short, self.unfinished))}."
        for title, effects in self._titled():
            if effects:
                yield f"{title}:"
                yield from (f"  {number}. {effect}" for number, effect in enumerate(effects, 1))
        if not (self.undo or self.residue or self.conflicts):
            yield "No effect was there to undo." if self.done else "No effect is there to undo."

    def _titled(self) -> tuple[tuple[str, tuple[Affected, ...]], ...]:
        return (
            ("Undone, in this order" if self.done else "To be undone, in this order", self.undo),
            ("Stays, since it cannot be undone", self.residue),
            ("Stays, since others have built upon it", self.conflicts),
        )

    def __rich__(self) -> RenderableType:
        """Return the rewind as a table for a rich console."""
        table = new_table(next(self._lines()), "", "transaction", "tool", "scope", "why")
        for title, effects in self._titled():
            for effect in effects:
                add_row(table, title, short(effect.transaction), effect.tool, effect.scope, effect.why)
        return table

    def to_json(self) -> dict[str, Any]:
        """Return the rewind as JSON values.

        >>> Rewind(("trip/2",), (), (), (), (), done=False, by="ada", note="").to_json()["transactions"]
        ['trip/2']
        """
        return {
            "transactions": list(self.transactions),
            "unfinished": list(self.unfinished),
            "undo": [effect.to_json() for effect in self.undo],
            "residue": [effect.to_json() for effect in self.residue],
            "conflicts": [effect.to_json() for effect in self.conflicts],
            "done": self.done,
            "by": self.by,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Touched:
    """A recorded effect, its transaction, and a remark."""

    recorded: RecordedTransaction
    effect: RecordedEffect
    why: str = ""

    @property
    def key(self) -> str:
        """The effect's key."""
        return self.effect.row.key

    @property
    def finished(self) -> bool:
        """Whether its transaction has ended; otherwise it is aborted first."""
        return self.recorded.state in FINISHED

    def told(self) -> Affected:
        """Return the effect as users see it."""
        row = self.effect.row
        return Affected(
            row.name,
            row.attempt,
            row.tool,
            row.scope,
            row.key,
            self.effect.outcome,
            self.why,
            json_text.decode(row.arguments),
            json_text.decode(self.effect.result),
        )

    def now(self, effect: RecordedEffect) -> Touched:
        """Return the effect with its current outcome."""
        left = effect.tag not in (None, Tag.CLEAN)
        return replace(self, effect=effect, why=effect.disposed.told or self.why if left else "")


@dataclass(frozen=True, slots=True)
class Sorted:
    """The effects of rewound transactions: those to undo, in order, and those that stay."""

    undo: list[Touched]
    residue: list[Touched]
    conflicts: list[Touched]


def sort(
    attempts: Iterable[RecordedTransaction],
    others: Sequence[RecordedTransaction],
    *,
    objection: Callable[[RecordedEffect], str | None],
    remark: Callable[[RecordedEffect], str],
    overwrite: Collection[str],
) -> Sorted:
    """Return what rewinding these attempts undoes, newest first, and what stays.

    Args:
        attempts: of the rewound transactions.
        others: others' attempts at these epochs or later.
        objection: says why an effect cannot be undone, or returns None.
        remark: returns a remark about an effect's undo, or "".
        overwrite: keys of effects to undo although others have built upon them.
    """
    found = Sorted([], [], [])
    above = _Above(others)
    for recorded in sorted(attempts, key=_place, reverse=True):
        for effect in sorted(recorded.effects, key=_acted, reverse=True):
            if not happened(recorded, effect):
                continue
            why = _left_before(recorded, effect) or objection(effect)
            if why is not None:
                found.residue.append(Touched(recorded, effect, why))
                continue
            builder = above.builder(recorded, effect)
            if builder is None:
                found.undo.append(Touched(recorded, effect, remark(effect)))
                continue
            why = f"{short(builder)} has written {effect.row.scope} since"
            if effect.row.key in overwrite:
                found.undo.append(Touched(recorded, effect, f"{why}, which is overwritten"))
            else:
                found.conflicts.append(Touched(recorded, effect, f"{why}, and undoing it would overwrite that"))
    return found


def _place(recorded: RecordedTransaction) -> tuple[int, str, int]:
    return recorded.epoch, recorded.row.ordinal, recorded.row.attempt


def _acted(effect: RecordedEffect) -> tuple[bool, tuple[int, ...]]:
    """Sort effects by when they acted: held ones left after everything else was done."""
    return effect.row.held, effect.row.decision


def happened(recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
    """Whether an effect is, or may be, in the world, and is not about to be dropped."""
    if effect.outcome is Outcome.QUEUED:
        return recorded.state is State.RELEASING
    over = recorded.state is State.ABORTED and effect.tag is Tag.CLEAN
    return effect.outcome in _HAPPENED and not over


def _left_before(recorded: RecordedTransaction, effect: RecordedEffect) -> str | None:
    """Return why an effect stays that an abort, or a release, can no longer undo."""
    if recorded.state is State.ABORTED:
        return f"it was left when its transaction was undone: {effect.disposed.told or 'nobody said why'}"
    if effect.outcome is Outcome.QUEUED:
        return "it is leaving"
    return None


class _Above:
    """Others' effects in the world, by the type of their scopes.

    What commutes with an effect is not built upon it: the two are undone in any order.
    """

    def __init__(self, others: Iterable[RecordedTransaction]) -> None:
        self._by_type: dict[str, list[tuple[tuple[int, str], Scope, str, str | None]]] = {}
        for recorded in others:
            if recorded.state not in _BUILDS:
                continue
            for effect in recorded.effects:
                if not happened(recorded, effect):
                    continue
                for scope in scopes_of(effect):
                    entry = (_place(recorded)[:2], scope, recorded.row.name, effect.row.commutes)
                    self._by_type.setdefault(scope.type, []).append(entry)

    def builder(self, recorded: RecordedTransaction, effect: RecordedEffect) -> str | None:
        """Return who has written on an effect's scopes since, or None."""
        place, group = _place(recorded)[:2], effect.row.commutes
        for mine in scopes_of(effect):
            for theirs, scope, name, their_group in self._by_type.get(mine.type, ()):
                commute = group is not None and group == their_group and scope == mine
                if theirs > place and scope.overlaps(mine) and not commute:
                    return name
        return None


def scopes_of(effect: RecordedEffect) -> list[Scope]:
    """Return the scopes that an effect has touched."""
    return [Scope.parse(text) for text in json_text.decode(effect.row.scopes)]


__all__ = ["Affected", "Rewind", "Sorted", "Touched", "happened", "scopes_of", "sort"]
