"""Ending what is stuck, as an operator: its undo is tried again, or somebody has settled it by hand."""

from __future__ import annotations

from settlemark._acts.perform import Program
from settlemark._edges.errors import UsageError
from settlemark._engine.kernel import Kernel
from settlemark._lifecycle.fences import Fences
from settlemark._lifecycle.resolution import Resolution
from settlemark._mending.claims import body_of, draft_of, id_of
from settlemark._mending.remedy import KIND, PLANNED, RemedyState, transaction_of
from settlemark._mending.stuck import Found, Stuck, as_stuck, recorded_stuck
from settlemark._model.effect_class import Outcome
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark._report import verdicts
from settlemark._report.verdicts import Word
from settlemark.ledger._contract import Book, Change, RecordedEffect
from settlemark.ledger._entries import Entry, Which


class Ending:
    """Ends what is stuck."""

    def __init__(self, kernel: Kernel, resolution: Resolution, fences: Fences) -> None:
        self._kernel = kernel
        self._resolution = resolution
        self._fences = fences

    def undo_again(
        self, name: str, attempt: int | None, *, by: str, note: str, wait: float
    ) -> Program[dict[str, Outcome]]:
        """Undo what is stuck of a transaction once more, the last first; return each effect's outcome by then.

        A plan for it runs no more; what of that has acted is undone before.

        Raises:
            UsageError: nothing of it is stuck, or nothing of that has an undo; nothing was recorded. Or its plan acts,
                or has run, and is not proven yet, and nothing was recorded; or it could not be undone yet, and nothing
                was tried.
        """
        ended: list[Txn] = []

        def keys(protocol: Protocol, book: Book) -> list[str]:
            stuck = _found(book, name, attempt)
            effects = [effect for _, found in stuck for effect in found]
            again = [effect.row.key for effect in effects if self._has_undo(effect)]
            if not again:
                tools = ", ".join(sorted({effect.row.tool for effect in effects}))
                raise UsageError(
                    f"{name} is stuck, and nothing of it has an undo ({tools}): declare undo=, or mend it by hand and"
                    f" say so with settlement.settle_by_hand({name!r}, by=…); nothing was recorded",
                    transaction=name,
                )
            ended[:] = self._end_plans(stuck, protocol, book, waits=True)
            self._keep_from_plans(stuck, book)
            return again

        again: list[str] = yield from self._kernel.step(keys, durable=True)
        yield from self._fences.see_out(ended)
        for txn in ended:
            if not txn.finished:
                raise UsageError(
                    f"{txn.name}, a plan that was to mend {name}, is {txn.state} yet: {name} was not undone; try again"
                    " when it is undone, see settlemark waiting",
                    transaction=txn.name,
                )
        became: dict[str, Outcome] = {}
        for key in reversed(again):
            became[key], _ = yield from self._resolution.resolve(key, "confirmed", True, by=by, note=note, wait=wait)
        return became

    def _has_undo(self, effect: RecordedEffect) -> bool:
        row = effect.row
        declared = self._kernel.declaration(row.tool, row.version)
        return not row.held and (row.undoable or (declared is not None and declared.undo is not None))

    def settle_by_hand(self, name: str, attempt: int | None, *, by: str, note: str) -> Program[list[Stuck]]:
        """Record that somebody has settled what is stuck of a transaction; return what that was.

        A plan for it runs no more; what of that has acted is undone.

        Raises:
            UsageError: nothing of it is stuck; nothing was recorded.
        """
        ended: list[Txn] = []

        def settle(protocol: Protocol, book: Book) -> list[Stuck]:
            found = _found(book, name, attempt)
            word = Word(None, by, self._kernel.clock(), note)
            changes: list[Change] = []
            for recorded, effects in found:
                for effect in effects:
                    change = verdicts.resolve(recorded, effect, "dealt_with", word, undoable=False)
                    changes += [*([] if change is None else [change])]
                    changes.append(verdicts.said_of(effect, change, "dealt_with", word))
            told = [as_stuck(book, *each) for each in found]
            book.write(changes)
            ended[:] = self._end_plans(found, protocol, book, waits=False)
            return told

        settled: list[Stuck] = yield from self._kernel.step(settle, durable=True)
        yield from self._fences.see_out(ended)
        return settled

    def _end_plans(self, found: list[Found], protocol: Protocol, book: Book, *, waits: bool) -> list[Txn]:
        """End the plans for what is stuck: none begins, none is decided; return the transactions that are aborted.

        Raises:
            UsageError: with `waits`, one is decided, and acts, or has run, and is not proven yet: what it has mended is
                not undone besides. Nothing was recorded.
        """
        entries = [
            entry
            for recorded, _ in found
            for entry in book.entries.find(Which(KIND, name=recorded.row.name))
            if entry.attempt == recorded.row.attempt and entry.state in PLANNED
        ]
        names = {transaction_of(entry.id) for entry in entries}
        live = [txn for txn in protocol.live.values() if "/".join(txn.name.split("/")[:2]) in names]
        acting = next((txn for txn in live if txn.state is State.RELEASING), None)
        if acting is not None and waits:
            raise UsageError(
                f"{acting.name}, the plan that mends what is stuck, is decided and acts now: see settlement.stuck()"
                " when it has; nothing was recorded",
                transaction=acting.name,
            )
        ran = next((entry for entry in entries if waits and _has_run(book, entry)), None)
        if ran is not None:
            raise UsageError(
                f"{transaction_of(ran.id)}, the plan that mends what is stuck, has run, and is not proven yet:"
                " settlement.recover() proves it in a process with on_stuck=; see settlement.stuck() then, or settle it"
                " by hand; nothing was recorded",
                transaction=transaction_of(ran.id),
            )
        at = self._kernel.ledger.time()
        for entry in entries:
            book.entries.change(KIND, entry.id, state=RemedyState.OVER, at=at, from_version=entry.version)
        for txn in live:
            protocol.abort(txn, Reason.VETOED, hook="a person", verdict="what it was to mend is taken up otherwise")
        return [txn for txn in live if txn.state is not State.RELEASING]

    def _keep_from_plans(self, found: list[Found], book: Book) -> None:
        """Record that a person is at it where no plan was asked for: none is, while the undo is tried, or later."""
        for each in found:
            stuck = as_stuck(book, *each)
            number = id_of(self._kernel.prefix, stuck)
            if book.entries.get(KIND, number) is None:
                at = self._kernel.ledger.time()
                book.entries.add(draft_of(number, stuck, RemedyState.OVER, body_of(stuck), at=at, due=None))


def _has_run(book: Book, entry: Entry) -> bool:
    """Whether the plan of a remedy has committed: its proof is still to come."""
    recorded = book.load(transaction_of(entry.id)) if entry.state == RemedyState.PROPOSED else None
    return recorded is not None and recorded.state is State.COMMITTED


def _found(book: Book, name: str, attempt: int | None) -> list[Found]:
    found = [
        (recorded, effects)
        for recorded, effects in recorded_stuck(book)
        if recorded.row.name == name and attempt in (None, recorded.row.attempt)
    ]
    if not found:
        raise UsageError(
            f"{name} is not stuck: see settlement.stuck(), and settlement.residue() for what else is left; nothing was"
            " recorded",
            transaction=name,
        )
    return found


__all__ = ["Ending"]
