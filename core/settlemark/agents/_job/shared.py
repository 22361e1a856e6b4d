"""A transaction that several turns share: the first that comes begins it, and somebody ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from itertools import count

from settlemark._acts.once import Once
from settlemark._acts.perform import Program
from settlemark._api.settlement import Settlement, host_of
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Part
from settlemark._edges.errors import Refused
from settlemark._edges.wording import in_words
from settlemark._model.effect_class import Outcome
from settlemark._protocol.states import Reason, State, Tag

Gone = Callable[[Collection[int]], Program[Collection[int]]]
"""Returns those of some places, by their first numbers, to which no turn comes back."""


class Shared:
    """One transaction that several turns have a part in, in whatever threads and tasks they run.

    Args:
        settlement: settles it.
        what: says what is waited for by those who come while it begins.

    Attributes:
        is_over: who had it to end is through with that.

    >>> from settlemark.agents import run_sync
    >>> settlement = Settlement("memory:")
    >>> shared = Shared(settlement, "trip")
    >>> begin = lambda: host_of(settlement).begin("trip", run="trip")
    >>> parts = [run_sync(shared.enter(begin, turn)) for turn in (0, 1)]
    >>> parts[0].attempt is parts[1].attempt, [part.numbering.base for part in parts]
    (True, [(0,), (1,)])
    >>> run_sync(shared.commit())
    >>> shared.is_open, shared.is_over
    (False, True)
    """

    def __init__(self, settlement: Settlement, what: str) -> None:
        self.is_over = False
        self._driver = host_of(settlement).driver
        self._once: Once[Part] = Once(what)
        self._ending = False
        self._lock = threading.Lock()

    @property
    def part(self) -> Part | None:
        """The whole of it, once it has begun."""
        return self._once.value

    @property
    def has_failed(self) -> bool:
        """Whether it could not be begun."""
        return self._once.failed is not None

    @property
    def is_open(self) -> bool:
        """Whether there is something to be ended: it has begun, and nobody else has it settled or undone."""
        part = self.part
        if part is None or part.joined or part.attempt.txn is None:
            return False
        return part.attempt.txn.state is State.OPEN

    @property
    def is_undone(self) -> bool:
        """Whether it was undone, or is being undone: what is decided now is a new try."""
        if self.part is None:
            return False
        txn = self.part.attempt.txn
        return self.part.undone is not None or (txn is not None and txn.state in (State.ABORTING, State.ABORTED))

    def refusal(self) -> Refused:
        """Return the error for those who take it for settled: it was undone, and why."""
        part = self.part
        assert part is not None, "it was undone"
        attempt, txn = part.attempt, part.attempt.txn
        base = part.numbering.base
        ours = [e for e in attempt.in_order() if e.path[: len(base)] == base]
        was = [e for e in ours if e.outcome in (Outcome.UNDONE, Outcome.DROPPED) or e.executed]
        stays = [e for e in was if e.tag not in (None, Tag.CLEAN)]
        undone = ", ".join(f"{e.declaration.tool} on {e.scope_text}" for e in was if e not in stays)
        left = ", ".join(f"{e.declaration.tool} on {e.scope_text}" for e in stays)
        why = part.undone or (None if txn is None else txn.detail.get("cause"))
        name = f"what joined a call of {attempt.name}" if part.joined else attempt.name
        became = [f"{undone} is undone or never left"] if undone else []
        became += [f"{left} could not be undone: settlement.residue()"] if left else []
        return Refused(
            f"{name} was undone, with all that was to settle together, because {why or 'a call of it failed'}:"
            f" {'; '.join(became) or 'nothing of it had acted'}; run it again to do it all anew",
            transaction=attempt.name,
            epoch=None if txn is None else txn.epoch,
        )

    def enter(self, begin: Callable[[], Program[Part]], *place: int, gone: Gone | None = None) -> Program[Part]:
        """Return the part that one turn has in it; `place` tells that from the others', also when it is gone on with.

        Args:
            begin: begins it, for the turn that comes first.
            place: numbers of the turn's own.
            gone: tells which of the places that had effects before will not be entered again; these are taken back.

        Raises:
            BaseException: it could not be begun. Refused: something was built upon what was to be taken back, and the
                whole was undone.
        """
        part: Part = yield from self._once.get(lambda: self._begun(begin, gone))
        return part.under(*place)

    def _begun(self, begin: Callable[[], Program[Part]], gone: Gone | None) -> Program[Part]:
        part = yield from begin()
        if gone is not None:
            yield from self._take_back(part, gone)
        return part

    @classmethod
    def left(cls, settlement: Settlement, name: str) -> Program[Shared | None]:
        """Return what was left open under a name, by a process that has ended or by turns put aside; None: nothing."""
        host = host_of(settlement)
        with host.driver.kernel.local as protocol:
            txn = protocol.named.get(name)
        if txn is None:
            return None
        run, shared = txn.run, cls(settlement, name)
        yield from shared.enter(lambda: host.begin(name, run=run))
        return shared

    def take_back(self, gone: Gone) -> Program[None]:
        """Take back the effects of the places that are gone, the last place first, and go on with the others'.

        Raises:
            Refused: something was built upon them, and the whole was undone.
        """
        if self.part is not None:
            yield from self._take_back(self.part, gone)

    def _take_back(self, part: Part, gone: Gone) -> Program[None]:
        attempt = part.attempt
        if part.joined or attempt.replay is not None:
            return
        places = yield from gone({effect.path[0] for effect in attempt.in_order()})
        for place in sorted(places, reverse=True):
            attempt.expect((place,))
            yield from self._driver.orphans.take_back_orphans(attempt, (place,))

    def record(self) -> Program[None]:
        """Write to disk what is known of its calls: a framework is about to keep their answers."""
        yield from self._driver.kernel.flush()

    def commit(self) -> Program[None]:
        """Commit it, if it is open; who comes while another ends it, or before it has begun, has nothing to do.

        Raises:
            Refused, InDoubt, PartialCommit: it did not settle as a whole.
        """
        yield from self._end(self._driver.settling.commit)

    def stop(self, cause: str, *, resumable: bool = False) -> Program[None]:
        """Undo it, if it is open, because of what stopped its turns; one that can be gone on with is put aside."""

        def end(attempt: Attempt) -> Program[None]:
            if resumable:
                yield from self._driver.undoing.suspend(attempt)
            else:
                yield from self._driver.undoing.abort(attempt, Reason.FAILED, cause=cause)

        yield from self._end(end)

    def _end(self, end: Callable[[Attempt], Program[object]]) -> Program[None]:
        part = self.part
        with self._lock:
            if part is None or self._ending:
                return
            self._ending = True
        try:
            if self.is_open:
                yield from end(part.attempt)
        finally:
            self.is_over = True


class Succession:
    """What the turns of an agent's work, or of a run, share: one transaction, and when that is over the next.

    Args:
        settlement: settles them.
        run: the job they belong to.
        name: gives each a name when it begins.
        may_touch: scopes that each holds from its beginning.
    """

    def __init__(
        self, settlement: Settlement, run: str, name: Callable[[], Program[str]], may_touch: tuple[str, ...]
    ) -> None:
        self._settlement = settlement
        self._run = run
        self._name = name
        self._may_touch = may_touch
        self._now: Shared | None = None
        self._in_it: set[int] = set()
        self._lost: dict[int, Shared] = {}
        self._turns = count()
        self._lock = threading.Lock()

    @property
    def part(self) -> Part | None:
        """The transaction, while it is open; one that was undone is nobody's any more."""
        now = self._now
        return None if now is None or now.is_undone else now.part

    def enter(self, work: int) -> Program[Part]:
        """Return the part that the next turn has in it; `work` is the number of the work whose turn that is."""
        with self._lock:
            self._note_undone()
            now = self._now
            if now is None or now.has_failed or now.is_undone:
                now = self._now = Shared(self._settlement, self._run)
                self._in_it = set()
            self._in_it.add(work)
            self._lost.pop(work, None)  # it goes on, and knows
        return (yield from now.enter(self._begin, next(self._turns)))

    def _begin(self) -> Program[Part]:
        name: str = yield from self._name()
        begin = host_of(self._settlement).begin(name, run=self._run, may_touch=self._may_touch)
        return (yield from begin)

    def end(self, error: BaseException | None) -> Program[None]:
        """Commit what is open of it, or undo it after an error; the next turn begins another.

        Raises:
            Refused, InDoubt, PartialCommit: it did not settle as a whole. What some work had done was undone before,
                and that work has done nothing since, so that its result is none: then the rest is undone, too.
        """
        with self._lock:
            self._note_undone()
            now, self._now = self._now, None
            lost, self._lost, self._in_it = self._lost, {}, set()
        if error is None and lost:
            undone = next(iter(lost.values()))
            if now is not None:
                yield from now.stop("what was to settle with it had been undone")
            raise undone.refusal()
        if now is not None:
            yield from now.commit() if error is None else now.stop(f"its job was stopped by {in_words(error)}")

    def _note_undone(self) -> None:
        """Note whose work was undone with what is shared now."""
        if self._now is not None and self._now.is_undone:
            self._lost.update(dict.fromkeys(self._in_it, self._now))
            self._in_it = set()


__all__ = ["Shared", "Succession"]
