"""What a rewind would undo, according to one look at the record and the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from settlemark._attempt.revival import named
from settlemark._edges.errors import UsageError
from settlemark._engine.kernel import Kernel
from settlemark._engine.splitting import parts_of
from settlemark._lifecycle.resolution import Resolution
from settlemark._lifecycle.rewind.plan import Affected, Rewind, Sorted, Touched, happened, sort
from settlemark._model.effect_class import Outcome
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._report.verdicts import Word
from settlemark.ledger._contract import Book, RecordedEffect, RecordedTransaction
from settlemark.ledger._payloads.recoverable import cannot_run


@dataclass(frozen=True, slots=True)
class Request:
    """A request to rewind transactions.

    Attributes:
        names: the transactions.
        word: who says so, when and why.
        overwrite: keys of effects to undo although others have built upon them.
        barred: names under which nothing may have begun, and nothing may begin once something is undone; each with its
            run.
    """

    names: tuple[str, ...]
    word: Word
    overwrite: frozenset[str] = frozenset()
    barred: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Look:
    """The result of one look.

    Attributes:
        attempts: all recorded attempts by name, split-off ones included.
        live: the unfinished ones.
        sorted: what is undone, and what stays.
        undeclared: tools whose undo is unknown in this process.
    """

    attempts: dict[str, list[RecordedTransaction]]
    live: list[Txn]
    sorted: Sorted
    undeclared: list[str]

    def rewind(self, request: Request, *, done: bool) -> Rewind:
        """Return the report for people."""
        found = self.sorted
        return Rewind(
            self._newest_first(),
            tuple(txn.name for txn in self.live),
            _told(found.undo),
            _told(found.residue),
            _told(found.conflicts),
            done,
            request.word.by,
            request.word.note,
        )

    def _newest_first(self) -> tuple[str, ...]:
        places = {txn.name: txn.position for txn in self.live}
        for name, attempts in self.attempts.items():
            places.setdefault(name, max((a.epoch, a.row.ordinal) for a in attempts))
        return tuple(sorted(places, key=lambda name: places[name], reverse=True))


class Survey:
    """Looks over what a request is about: what can be undone in this process, what stays, and why.

    Args:
        kernel: knows the tools' declarations.
        resolution: names the ledger in errors.
    """

    def __init__(self, kernel: Kernel, resolution: Resolution) -> None:
        self._kernel = kernel
        self._resolution = resolution

    def over(self, request: Request, protocol: Protocol, book: Book) -> Look:
        """Look over everything a request is about, in one step."""
        attempts: dict[str, list[RecordedTransaction]] = {}
        runs: dict[str, list[RecordedTransaction]] = {}
        live: dict[str, Txn] = {}
        todo = list(request.names)
        while todo:
            name = todo.pop()
            if name in attempts or name in live:
                continue
            last, unfinished = book.load(name), protocol.named.get(name)
            if unfinished is not None:
                live[name] = unfinished
            elif last is None and name not in request.barred:
                raise UsageError(
                    f"no transaction {name!r} is on record in {self._resolution.where()}: nothing was undone"
                )
            if last is None:
                continue
            run = last.row.run
            if run not in runs:
                runs[run] = book.of_run(run)
            attempts[name] = [_as_it_is(recorded) for recorded in runs[run] if recorded.row.name == name]
            todo.extend(parts_of(last))
        every = [recorded for found in attempts.values() for recorded in found]
        acted = (r.epoch for r in every if any(happened(r, effect) for effect in r.effects))
        least = min(acted, default=None)
        others = [] if least is None else [r for r in book.since(least) if r.row.name not in attempts]
        undeclared: dict[str, None] = {}

        def objection(effect: RecordedEffect) -> str | None:
            why = self._objection(effect)
            if why is not None and self._is_undeclared(effect):
                undeclared[named(effect.row)] = None
            return why

        found = sort(every, others, objection=objection, remark=self._remark, overwrite=request.overwrite)
        return Look(attempts, sorted(live.values(), key=lambda txn: txn.position), found, list(undeclared))

    def _is_undeclared(self, effect: RecordedEffect) -> bool:
        row = effect.row
        return row.undoable and self._kernel.declaration(row.tool, row.version) is None

    def _objection(self, effect: RecordedEffect) -> str | None:
        """Return why an effect cannot be undone here, or None."""
        row = effect.row
        declared = self._kernel.declaration(row.tool, row.version)
        if self._is_undeclared(effect):
            return f"its undo is not known here: declare {named(row)}"
        if declared is None or declared.undo is None:
            return f"{row.kind} effects of {row.tool} have no undo"
        if effect.outcome is not Outcome.CONFIRMED and declared.probe is None:
            return "nobody knows whether it happened: ask its counterparty"
        return cannot_run("undo", declared, row.arguments, effect.result)

    def _remark(self, effect: RecordedEffect) -> str:
        """Return a remark about an effect's undo, or ""."""
        if effect.outcome is not Outcome.CONFIRMED:
            return "its counterparty is asked first whether it happened"
        declared = self._kernel.declaration(effect.row.tool, effect.row.version)
        cost = None if declared is None else declared.cost
        return "" if cost is None else f"a cost stays: {cost}"


def refuse_foreign(request: Request, look: Look) -> None:
    """Check that `overwrite` names only effects of the rewound transactions."""
    keys = {e.row.key for found in look.attempts.values() for recorded in found for e in recorded.effects}
    foreign = sorted(request.overwrite - keys)
    if foreign:
        raise UsageError(
            f"overwrite= names {foreign[0]!r}, which is no effect of the rewound transactions: nothing was undone;"
            " give keys of the conflicts that a dry run reports",
            key=foreign[0],
        )


def _as_it_is(recorded: RecordedTransaction) -> RecordedTransaction:
    """Return a copy of a record: one in memory changes with its transaction."""
    return replace(recorded, effects=[replace(effect) for effect in recorded.effects])


def _told(found: Iterable[Touched]) -> tuple[Affected, ...]:
    return tuple(touched.told() for touched in found)


__all__ = ["Look", "Request", "Survey", "refuse_foreign"]
