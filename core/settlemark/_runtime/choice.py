"""A choice that begins now and is made later: its candidates are transactions that a framework runs.

`Speculation` runs its branches itself, and chooses when all have ended. Here the candidates stay open until a program
chooses, perhaps in another process: entering the choice's name again resumes them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from settlemark._acts.once import Once
from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Part
from settlemark._edges.errors import Refused, UsageError
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Txn
from settlemark._protocol.protocol import NOBODY, Protocol
from settlemark._protocol.states import Reason, State
from settlemark._runtime.driver import Driver
from settlemark._runtime.speculation import LOST
from settlemark.ledger._contract import Book, RecordedTransaction, StateChange, TransactionRow

MARK = "~"
"""Separates a choice's name from its candidate's."""
_OVER = (State.ABORTING, State.ABORTED)


class Choice:
    """A choice among candidates: each is a transaction of its own, and all begin under one hold.

    Laws: no candidate waits for another. An effect whose undo would leave something is held until a winner is chosen.
    One step decides, and is recorded before any loser is undone: nobody can choose again, and recovery carries the
    decision out.

    Args:
        driver: runs it.
        options: as for `Driver.begin`; `name` is the choice's.

    Attributes:
        is_made: nothing of the choice is open any more.
        name: the choice's name; its candidates are `name~label`.
        candidates: this process's candidates by label, including those undone meanwhile.
    """

    def __init__(self, driver: Driver, options: Mapping[str, Any]) -> None:
        self._driver = driver
        self._options: dict[str, Any] = dict(options)
        self._hold: Attempt | None = None
        self.is_made = False
        self.name: str = options["name"]
        self.candidates: dict[str, Attempt] = {}  # walk a copy: threads enter candidates
        self._entries: dict[str, Once[Attempt]] = {}
        self._turns: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def begin(self) -> Program[Choice]:
        """Place the hold under which the candidates begin, or resume it."""
        self._hold = yield from self._driver.entrance.begin(
            **self._options, role="choice", parent=self._driver.kernel.callers.inside()
        )
        return self

    @property
    def run(self) -> str:
        """The run the choice belongs to."""
        return str(self._options["run"])

    @property
    def stands(self) -> bool:
        """Whether a candidate has not been undone."""
        return any(not is_undone(attempt) for attempt in self.candidates.copy().values())

    @property
    def hold(self) -> Attempt:
        """The hold; `begin` has placed it."""
        assert self._hold is not None
        return self._hold

    def candidate(self, label: str, *, declared: Iterable[Scope] = (), anew: bool = False) -> Program[Attempt]:
        """Return a candidate's attempt, begun or resumed; an undone candidate's attempt is aborted.

        With `anew` an undone candidate is begun again.
        """
        found = self.candidates.get(label)
        if found is not None and not (anew and is_undone(found)):
            return found
        before: str | None = None if anew else (yield from self._undone(label))
        placing: dict[str, Any] = {"group": self.hold.live.id, "parent": self._driver.kernel.callers.inside()}
        attempt: Attempt = yield from self._driver.entrance.begin(
            **self._given(self._named(label), declared), **placing
        )
        attempt.speculative = True
        if before is not None:
            yield from self._driver.undoing.discard(attempt, Reason.ABANDONED, cause=f"it was undone before ({before})")
        self.candidates[label] = attempt
        return attempt

    def enter(self, label: str, turn: str, *place: int, may_touch: Iterable[str | Scope] = ()) -> Program[Part]:
        """Return a turn's part in a candidate, which the first turn that comes begins or resumes.

        A turn that is entered again and is all there was of an undone candidate begins the candidate again.

        Args:
            label: the candidate's.
            turn: the turn's name, the same when it is entered again.
            place: numbers of the turn's own.
            may_touch: scopes that the candidate holds from its beginning.
        """
        declared = [Scope.parse(scope) for scope in may_touch]
        with self._lock:
            turns = self._turns.setdefault(label, set())
            turns.add(turn)
            found, entry = self.candidates.get(label), self._entries.get(label)
            anew = found is not None and is_undone(found) and turns == {turn}
            if entry is None or entry.failed is not None or anew:
                entry = self._entries[label] = Once(self._named(label))
        attempt = yield from entry.get(lambda: self.candidate(label, declared=declared, anew=anew))
        return Part(attempt, attempt.numbering).under(*place)

    def make(self, label: str | None, *, record: str) -> Program[None]:
        """Commit a candidate after undoing all others; with None undo all. `record` names what is kept of the decision.

        Choosing a candidate that never began undoes all others.

        Raises:
            UsageError: the candidate was undone; nothing moved.
            Refused: the candidate was undone before it could commit.
            PartialCommit, InDoubt: see there.
        """
        yield from self._come_back()
        winner = None if label is None else self.candidates.get(label)
        undone: str | None = None
        if winner is not None:
            undone = _why(winner) if is_undone(winner) else None
        elif label is not None:
            undone = yield from self._undone(label)
        if undone is not None:
            left = ", ".join(repr(other) for other, attempt in self.candidates.copy().items() if not is_undone(attempt))
            raise UsageError(
                f"{label!r} cannot be chosen: it was undone ({undone}); nothing moved; choose one of"
                f" {left or 'none'}, or None, which undoes all"
            )
        losers = [attempt for attempt in self.candidates.copy().values() if attempt is not winner]
        run, owner, link = self.run, self._driver.kernel.ledger.worker, self._named(label or "")
        epoch, ordinal = self.hold.live.position

        def noted(book: Book, at: float) -> None:
            row = TransactionRow(record, 1, run, State.COMMITTED, epoch, ordinal, owner, at)
            book.write([row, StateChange(record, 1, State.COMMITTED, epoch, Reason.CHOSEN, at, link=link)])

        try:
            if winner is None or winner.replay is None:
                yield from self._driver.selection.choose(winner, losers, cause=LOST, noted=noted)
            else:
                yield from self._driver.selection.choose(None, losers, cause=LOST, noted=noted)
                yield from self._driver.settling.commit(winner)
        finally:
            if not any(_is_open(attempt) for attempt in self.candidates.copy().values()):
                self.is_made = True
                yield from self._drop()

    def carry_out(self, label: str | None) -> Program[None]:
        """Return when an earlier choice, perhaps made by another process, is carried out; begins nothing.

        Raises:
            Refused: the chosen candidate was undone before it could commit.
            PartialCommit, InDoubt: see there.
        """
        yield from self._driver.recovery.take_up()
        if label is None:
            return
        name = self._named(label)
        found: RecordedTransaction | None = yield from self._driver.entrance.ended(name, wait=self._options["wait"])
        if found is None:
            return  # the candidate has done nothing
        if found.state is State.ABORTED:
            raise Refused(
                f"{label} was chosen, and undone before it could commit: {found.because}; the others are undone too:"
                " begin anew",
                transaction=name,
                epoch=found.epoch,
            )
        replay: Attempt = yield from self._driver.entrance.begin(**self._given(name))
        yield from self._driver.settling.commit(replay)  # raises again how it ended

    def undo(self, cause: str) -> Program[None]:
        """Undo all candidates: nobody will choose."""
        yield from self._come_back()
        yield from self._driver.selection.discard_all(self.candidates.copy().values(), cause=cause)
        yield from self._drop()

    def suspend(self) -> Program[None]:
        """Leave the choice and its candidates open, for a program that resumes it."""
        for attempt in (*self.candidates.copy().values(), self.hold):
            if _is_open(attempt):
                yield from self._driver.undoing.suspend(attempt)

    def _given(self, name: str, declared: Iterable[Scope] = ()) -> dict[str, Any]:
        return {**self._options, "name": name, "declared": declared, "position": None}

    def _named(self, label: str) -> str:
        return f"{self.name}{MARK}{label}"

    def _come_back(self) -> Program[None]:
        """Resume the candidates that are open, and that another invocation or process began."""
        hold = self.hold.live

        def look(_protocol: Protocol, _book: Book) -> list[str]:
            open_ = [txn for txn in hold.members.values() if txn.state is State.OPEN]
            return [txn.name.removeprefix(f"{self.name}{MARK}") for txn in open_]

        for label in (yield from self._driver.kernel.look(look)):
            yield from self.candidate(label)

    def _undone(self, label: str) -> Program[str | None]:
        """Return why a candidate was undone, in this process or another; None if it was not, or is begun again."""

        def look(protocol: Protocol, book: Book) -> str | None:
            live = protocol.named.get(self._named(label))
            if live is not None:
                return str(live.reason) if live.state in _OVER else None
            found = book.load(self._named(label))
            return str(found.because) if found is not None and found.state is State.ABORTED else None

        return self._driver.kernel.look(look)

    def _drop(self) -> Program[None]:
        if self.hold.live.state is State.OPEN:
            # the hold touched nothing: committing it only releases it
            yield from self._driver.settling.commit(self.hold)


def is_undone(attempt: Attempt) -> bool:
    """Whether a candidate was undone, or is about to be."""
    return attempt.txn is not None and attempt.txn.state in _OVER


def _is_open(attempt: Attempt) -> bool:
    return attempt.txn is not None and attempt.txn.state is State.OPEN


def _why(attempt: Attempt) -> str:
    return str(attempt.live.detail.get("cause") or attempt.live.reason)


def is_left(txn: Txn) -> bool:
    """Whether a transaction is an unmade choice that no worker is at."""
    return txn.role == "choice" and txn.state is State.OPEN and txn.owner == NOBODY


def chosen_in(recorded: RecordedTransaction) -> tuple[str | None, str] | None:
    """Return the winner (None for none) and the choice's name from a choice's record; None if it is no choice.

    >>> from settlemark.ledger._contract import TransactionRow
    >>> row = TransactionRow("trip/choose", 1, "trip", State.COMMITTED, 1, "", "", 0.0)
    >>> chosen_in(RecordedTransaction(row, State.COMMITTED, 1, Reason.CHOSEN, link="trip/choice~train"))
    ('train', 'trip/choice')
    """
    if recorded.reason is not Reason.CHOSEN or recorded.link is None:
        return None
    name, _, label = recorded.link.rpartition(MARK)
    return label or None, name


def decisions_on(choice: str, recorded: Iterable[RecordedTransaction]) -> list[RecordedTransaction]:
    """Return those of some transactions that record a decision on the choice of this name."""
    return [one for one in recorded if (found := chosen_in(one)) is not None and found[1] == choice]


__all__ = ["MARK", "Choice", "chosen_in", "decisions_on", "is_left", "is_undone"]
