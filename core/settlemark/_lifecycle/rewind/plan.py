"""What going back before transactions does to the world: told before anything happens, and again when it has.

Pure: recorded transactions go in, what is to be undone, what stays and why comes out. Undone is the newest first:
transactions by their place in the order, the effects of each in reverse order of how they acted. An effect on
which another's work has been built since stays, unless it is named: undoing it would overwrite that work.
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
_BUILDS = (State.COMMITTED, State.RELEASING, State.ABORTED)  # whoever still acts is waited for


@dataclass(frozen=True, slots=True)
class Affected:
    """An effect that a `Rewind` undoes, or leaves.

    Attributes:
        transaction, attempt, tool, scope, key: which one it is; its counterparty knows it by the key.
        outcome: what it is when this is told, as `"confirmed"` or `"undone"`.
        why: why it stays, or what there is to know of its undo; often empty.
        arguments, result: of its call, as they are recorded.
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
        """Say which one it is, and why it stays."""
        return plain(f"{short(self.transaction)}: {self.tool} on {self.scope}{f': {self.why}' if self.why else ''}")

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
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
    """What going back before transactions does, or has done: see `Settlement.rewind`.

    Attributes:
        transactions: those that are gone back over, the newest first.
        unfinished: those among them that had not ended: they are aborted before anything else is undone.
        undo: the effects that are undone, in this order; when it is `done`, those that were.
        residue: the effects that cannot be undone, and stay; when it is `done`, also those whose undo failed or has
            left a cost.
        conflicts: the effects that stay because others have built upon them since.
        done: it has happened; else nothing has, and this tells what would.
        by, note: who went back, and why.
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
        """Tell it in sentences."""
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
        """Return it as a table for a rich console."""
        table = new_table(next(self._lines()), "", "transaction", "tool", "scope", "why")
        for title, effects in self._titled():
            for effect in effects:
                add_row(table, title, short(effect.transaction), effect.tool, effect.scope, effect.why)
        return table

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values.

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
    """A recorded effect, in its transaction, and what there is to know of it."""

    recorded: RecordedTransaction
    effect: RecordedEffect
    why: str = ""

    @property
    def key(self) -> str:
        """Its key."""
        return self.effect.row.key

    @property
    def finished(self) -> bool:
        """Whether its transaction has ended; else that is aborted first."""
        return self.recorded.state in FINISHED

    def told(self) -> Affected:
        """Return it as users see it."""
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
        """Return it as it is by now."""
        left = effect.tag not in (None, Tag.CLEAN)
        return replace(self, effect=effect, why=effect.disposed.told or self.why if left else "")


@dataclass(frozen=True, slots=True)
class Sorted:
    """The effects of transactions that are gone back over: what is undone, in this order, and what stays."""

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
    """Return what going back over these attempts undoes, newest first, and what stays.

    Args:
        attempts: of the transactions that are gone back over.
        others: the attempts of others that are at their epochs or later.
        objection: says why an effect cannot be undone, or returns None.
        remark: says what there is to know of an effect's undo, or returns "".
        overwrite: keys of effects that are undone although others have built upon them.
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
    """Sort effects as they acted: what was held left when all else was done."""
    return effect.row.held, effect.row.decision


def happened(recorded: RecordedTransaction, effect: RecordedEffect) -> bool:
    """Whether an effect is in the world, or may be, and is nobody's to drop."""
    if effect.outcome is Outcome.QUEUED:
        return recorded.state is State.RELEASING
    over = recorded.state is State.ABORTED and effect.tag is Tag.CLEAN
    return effect.outcome in _HAPPENED and not over


def _left_before(recorded: RecordedTransaction, effect: RecordedEffect) -> str | None:
    """Return why an effect stays that an abort, or a release, is past undoing."""
    if recorded.state is State.ABORTED:
        return f"it was left when its transaction was undone: {effect.disposed.told or 'nobody said why'}"
    if effect.outcome is Outcome.QUEUED:
        return "it is leaving"
    return None


class _Above:
    """What others have in the world, by the type of its scopes."""

    def __init__(self, others: Iterable[RecordedTransaction]) -> None:
        self._by_type: dict[str, list[tuple[tuple[int, str], Scope, str]]] = {}
        for recorded in others:
            if recorded.state not in _BUILDS:
                continue
            for effect in recorded.effects:
                if not happened(recorded, effect):
                    continue
                for scope in _scopes(effect):
                    entry = (_place(recorded)[:2], scope, recorded.row.name)
                    self._by_type.setdefault(scope.type, []).append(entry)

    def builder(self, recorded: RecordedTransaction, effect: RecordedEffect) -> str | None:
        """Return who has written on an effect's scopes since, or None."""
        place = _place(recorded)[:2]
        for mine in _scopes(effect):
            for theirs, scope, name in self._by_type.get(mine.type, ()):
                if theirs > place and scope.overlaps(mine):
                    return name
        return None


def _scopes(effect: RecordedEffect) -> list[Scope]:
    return [Scope.parse(text) for text in json_text.decode(effect.row.scopes)]


__all__ = ["Affected", "Rewind", "Sorted", "Touched", "happened", "sort"]
