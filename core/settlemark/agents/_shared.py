"""A transaction that several turns share: of one agent's work, or of a whole run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from settlemark._acts.once import Once
from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.attempt import Part
from settlemark._edges.wording import in_words
from settlemark._protocol.states import Reason, State


class Shared:
    """A transaction that turns have in common until somebody ends it; the next turn begins another.

    Args:
        settlement: settles it.
        run: the job it belongs to.
        name: gives it a name when it begins.
        may_touch: scopes that it holds from its beginning.
    """

    def __init__(
        self, settlement: Settlement, run: str, name: Callable[[], Program[str]], may_touch: tuple[str, ...]
    ) -> None:
        self._settlement = settlement
        self._run = run
        self._name = name
        self._may_touch = may_touch
        self._once: Once[Part] | None = None
        self._turns = count()
        self._lock = threading.Lock()

    @property
    def part(self) -> Part | None:
        """The transaction, while it is open; one that was undone is nobody's any more."""
        once = self._once
        part: Part | None = None if once is None else once.value
        if part is None or part.attempt.txn is None or part.attempt.txn.state in (State.ABORTING, State.ABORTED):
            return None
        return part

    def enter(self) -> Program[Part]:
        """Return the part that the next turn has in it."""
        with self._lock:
            once = self._once
            if once is None or once.failed is not None or (once.value is not None and self.part is None):
                once = self._once = Once(self._run)
        part: Part = yield from once.get(self._begin)
        return Part(part.attempt, part.numbering.under(next(self._turns)))

    def _begin(self) -> Program[Part]:
        name: str = yield from self._name()
        begin = host_of(self._settlement).begin(name, run=self._run, may_touch=self._may_touch)
        return (yield from begin)

    def end(self, error: BaseException | None) -> Program[None]:
        """Commit what is open of it, or undo it after an error.

        Raises:
            Refused, InDoubt, PartialCommit: it did not settle as a whole.
        """
        with self._lock:
            part, self._once = self.part, None
        if part is None or part.joined:
            return
        if error is None:
            yield from host_of(self._settlement).driver.settling.commit(part.attempt)
        else:
            cause = f"its job was stopped by {in_words(error)}"
            yield from host_of(self._settlement).driver.undoing.abort(part.attempt, Reason.FAILED, cause=cause)


__all__ = ["Shared"]
