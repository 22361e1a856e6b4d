"""What was put aside here, and another process goes on with: this one forgets it, and hears how it ends."""

from __future__ import annotations

from settlemark._acts.perform import Program
from settlemark._attempt.attempt import Attempt
from settlemark._engine.kernel import Kernel
from settlemark._engine.undo.abort import Undoing
from settlemark._protocol.holdings import DETACHED, Txn
from settlemark._protocol.protocol import NOBODY
from settlemark._protocol.states import Tag
from settlemark.ledger._contract import Book


class Elsewhere:
    """Looks for transactions that were put aside here and are another process's now."""

    def __init__(self, kernel: Kernel, undoing: Undoing) -> None:
        self._kernel = kernel
        self._undoing = undoing

    def look(self) -> Program[None]:
        """Forget those that another process has resumed, and tell the observer of those that it has ended."""
        telling = self._kernel.telling
        with self._kernel.local:
            gone = [(txn, attempt) for txn, attempt in self._kernel.attempts.items() if self._is_others(txn, attempt)]
            for txn, attempt in gone:
                del self._kernel.attempts[txn]
                telling.leave(attempt)
            ended = [(txn, attempt) for txn, attempt in telling.elsewhere.items() if txn.finished]
        for txn, attempt in gone:
            if txn.id == DETACHED:
                telling.ended(attempt)
        if ended:
            left: list[int] = yield from self._kernel.look(lambda _protocol, book: [_left(book, a) for _, a in ended])
            for (_, attempt), number in zip(ended, left, strict=True):
                telling.ended_elsewhere(attempt, number)

    def _is_others(self, txn: Txn, attempt: Attempt) -> bool:
        if txn.id == DETACHED:
            return True
        if not attempt.suspended:
            return False
        is_over = txn.finished and not self._undoing.is_at(txn)
        return is_over or txn.owner not in (NOBODY, self._kernel.ledger.worker)


def _left(book: Book, attempt: Attempt) -> int:
    """Return how much residue an attempt has left, by the record; none is known of one that was pruned."""
    found = [
        one for one in book.of_run(attempt.run) if (one.row.name, one.row.attempt) == (attempt.name, attempt.number)
    ]
    return sum(effect.tag not in (None, Tag.CLEAN) for one in found for effect in one.effects)


__all__ = ["Elsewhere"]
