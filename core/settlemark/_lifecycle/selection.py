"""Choosing among attempts that stay open: one step seals the chosen one and aborts the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext

from settlemark._acts.perform import Program
from settlemark._acts.requests import Together
from settlemark._attempt.attempt import Attempt
from settlemark._edges.door import Ended
from settlemark._engine.abort import Undoing
from settlemark._engine.commit import Settling, settling
from settlemark._engine.freshness import Freshness
from settlemark._engine.kernel import Kernel
from settlemark._engine.orphans import Orphans
from settlemark._lifecycle.runs import Runs
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason
from settlemark.ledger._contract import Book


class Selection:
    """Commits the winner of a choice when the losers are undone."""

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
        """Abort transactions that nobody will try again, beside each other, and return when all is undone or named."""
        lost = [attempt for attempt in attempts if attempt.replay is None]
        acted = [attempt for attempt in lost if any(effect.executed for effect in attempt.effects.values())]
        if acted:
            # What each has to undo takes its time.
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
        """Commit the winner of a choice, if there is one, when the losers are undone; one step decides both.

        It seals the one and aborts the others, so nobody can choose anew: what a process that ends behind it has left
        is carried out by whoever recovers. `noted` writes to the book in the same step, which then is on disk before
        anything is undone.

        Raises:
            Refused: before the step the winner was undone, and nothing moved; else as `commit`.
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
                    return False  # a call slipped in
                protocol.seal(winner.live, hooked=bool(winner.hooks or self._freshness.live_reads(winner)))
                self._settling.note_sealed(winner, book)
            for attempt in lost:
                protocol.abort(attempt.live, Reason.ABANDONED, **attempt.cause({"cause": cause}))
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
            interrupted = error  # what was chosen is carried out first
        if winner is not None:
            yield from self._settling.commit(winner, sealed=True)
        if interrupted is not None:
            raise interrupted


def raise_interrupt(ended: Iterable[Ended]) -> None:
    """Raise what is no failure of a program: an interrupt from the keyboard, or a cancellation."""
    for end in ended:
        if end.error is not None and not isinstance(end.error, Exception):
            raise end.error
