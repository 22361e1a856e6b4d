"""Choosing among open attempts: one step seals the chosen one and aborts the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext

from settlemark._acts.perform import Program
from settlemark._acts.requests import Together
from settlemark._attempt.attempt import Attempt
from settlemark._edges.user_code import Ended
from settlemark._engine.commit import Settling, settling
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._engine.orphans import Orphans
from settlemark._engine.undo.abort import Undoing
from settlemark._lifecycle.runs import Runs
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason
from settlemark.ledger._contract import Book


class Selection:
    """Commits a choice's winner when the losers are undone."""

    def __init__(
        self, kernel: Kernel, freshness: Freshness, undoing: Undoing, orphans: Orphans, settling: Settling, runs: Runs
    ) -> None:
        self._kernel = kernel
        self._freshness = freshness
        self._undoing = undoing
        self._orphans = orphans
        self._settling = settling
        self._runs = runs

    def discard_all(self, attempts: Iterable[Attempt], *, cause: str) -> Program[None]:
        """Abort transactions that nobody will try again, concurrently, and return when all is undone or named."""
        lost = [attempt for attempt in attempts if attempt.replay is None]
        acted = [attempt for attempt in lost if any(effect.executed for effect in attempt.effects.copy().values())]
        if acted:
            # Concurrently: each undo takes its time.
            ended = yield Together([self._undoing.discard(attempt, Reason.ABANDONED, cause=cause) for attempt in acted])
            raise_interrupt(ended)
        for attempt in lost:
            if attempt not in acted:
                yield from self._undoing.discard(attempt, Reason.ABANDONED, cause=cause)

    def choose(
        self,
        winner: Attempt | None,
        losers: Iterable[Attempt],
        *,
        cause: str,
        noted: Callable[[Book, float], None] | None = None,
    ) -> Program[None]:
        """Commit a choice's winner, if there is one, when the losers are undone; one step decides both.

        The step seals the winner and aborts the others, so nobody can choose again: recovery carries the decision out
        if the process ends after it. `noted` writes to the book in the same step, which is on disk before anything is
        undone.

        Raises:
            Refused: the winner was undone before the step, and nothing moved; else as `commit`.
        """
        with nullcontext() if winner is None else settling(winner):
            yield from self._choose(winner, losers, cause, noted)

    def _choose(
        self,
        winner: Attempt | None,
        losers: Iterable[Attempt],
        cause: str,
        noted: Callable[[Book, float], None] | None,
    ) -> Program[None]:
        lost, at = [attempt for attempt in losers if attempt.replay is None], self._kernel.clock()

        def decide(protocol: Protocol, book: Book) -> bool:
            if winner is not None:
                if winner.in_flight():
                    return False  # another call was issued meanwhile
                protocol.seal(winner.live, hooked=bool(winner.hooks or self._freshness.live_reads(winner)))
                self._settling.note_sealed(winner, book)
            for attempt in lost:
                protocol.abort(attempt.live, Reason.ABANDONED, **attempt.records.cause({"cause": cause}))
            for attempt in (*lost, *([] if winner is None else [winner])):
                if attempt.written:
                    attempt.put(book, [attempt.state_change(at)])
            if noted is not None:
                noted(book, at)
            return True

        decided = False
        while not decided:
            if winner is not None:
                yield from self._orphans.take_back_orphans(winner)
                yield from self._runs.rest(winner)
            decided = yield from self._kernel.step(decide, durable=noted is not None)
        interrupted: BaseException | None = None
        try:
            yield from self.discard_all(lost, cause=cause)
        except GeneratorExit:
            raise
        except BaseException as error:
            interrupted = error  # the choice is carried out first
        if winner is not None:
            yield from self._settling.commit(winner, sealed=True)
        if interrupted is not None:
            raise interrupted


def raise_interrupt(ended: Iterable[Ended]) -> None:
    """Raise an exception that is no program's failure: a keyboard interrupt or a cancellation."""
    for end in ended:
        if end.error is not None and not isinstance(end.error, Exception):
            raise end.error
