"""Pausing runs: stop, and do not destroy.

A pause is a row of its run, which the run finds at its next boundary. There it records what it needs to go on: its
progress, which the ledger knows, and what its program keeps of itself and of its surroundings, each by itself. Nothing
is undone, and nobody is in a hurry: the person who has looked goes on with it, hands it over, or has it undone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from settlemark._acts.perform import Program
from settlemark._edges.errors import UsageError
from settlemark._engine.kernel import Kernel
from settlemark._lifecycle.fences import Fences
from settlemark._lifecycle.rewind.rewinds import Rewinds
from settlemark._lifecycle.rewind.survey import Request
from settlemark._model.effect_class import Outcome
from settlemark._protocol.protocol import Protocol
from settlemark._steering.conflicts import standing
from settlemark._steering.message import unreadable
from settlemark._steering.pause import ASKED, DISCARDING, KIND, PAUSED, Pause, pause_id, pause_in
from settlemark._steering.steers import became
from settlemark.ledger._contract import Book
from settlemark.ledger._entries import Which

_ACTED = (Outcome.UNDONE, Outcome.CONFIRMED, Outcome.UNKNOWN, Outcome.INTENDED)


class Pauses:
    """Pauses runs, and has them gone on with, handed over or discarded."""

    def __init__(self, kernel: Kernel, rewinds: Rewinds, fences: Fences) -> None:
        self._kernel = kernel
        self._rewinds = rewinds
        self._fences = fences

    def pause(self, run: str, *, by: str, because: str) -> Program[Pause]:
        """Have a run stop at its next boundary; a pause that stands already stays as it is, and is returned.

        Raises:
            UsageError: the run is a transaction's name, or was cancelled; nothing was recorded.
        """

        def pause(protocol: Protocol, book: Book) -> Pause:
            known = protocol.named.get(run)
            if known is not None and known.run != run:
                raise UsageError(
                    f"{run} is a transaction of the run {known.run}: nothing was paused; pause {known.run!r}"
                )
            if run in protocol.fenced:
                raise UsageError(f"the run {run} was cancelled, and does not go on: nothing was paused")
            found = pauses_of(book, run)
            if found and not found[-1].is_over:
                return found[-1]
            new = Pause(run, len(found) + 1, ASKED, by, because, self._kernel.ledger.time())
            book.entries.add(new.draft())
            return new

        return (yield from self._kernel.step(pause, durable=True))

    def stop_here(self, run: str, before: str | None, executor: Any, environment: Any) -> Program[None]:
        """Return where a run is not paused; where it is, record that it stands at this boundary.

        Raises:
            Paused: it is. LedgerError: it is, and by whom cannot be read in this process.
        """
        found: Pause | None = yield from self._kernel.look(lambda _protocol, book: _last(book, run))
        if found is None or found.is_over:
            return
        if not found.readable:
            raise unreadable(f"the pause of the run {run}", run)

        def stand(_protocol: Protocol, book: Book) -> Pause | None:
            pause = _last(book, run)
            if pause is not None and pause.state == ASKED:
                at, names = self._kernel.ledger.time(), standing(book.of_run(run))[0]
                pause = replace(
                    pause,
                    state=PAUSED,
                    paused_at=at,
                    before=before,
                    stands=tuple(reversed(names)),
                    executor=executor,
                    environment=environment,
                )
                self._write(book, pause, ASKED)
            return pause

        stands: Pause | None = found
        if found.state == ASKED:
            stands = yield from self._kernel.step(stand, durable=True)
        if stands is not None and not stands.is_over:
            raise stands.error()

    def kept(self, run: str) -> Program[tuple[Any, Any]]:
        """Return what a run kept of itself, and of its surroundings, as it was paused last."""

        def look(_protocol: Protocol, book: Book) -> tuple[Any, Any]:
            found = [pause for pause in pauses_of(book, run) if pause.paused_at is not None]
            return (found[-1].executor, found[-1].environment) if found else (None, None)

        return (yield from self._kernel.look(look))

    def go_on(self, run: str, *, by: str) -> Program[Pause]:
        """Lift a pause.

        Raises:
            UsageError: the run is not paused, is being discarded, or is another's; nothing was recorded.
        """

        def go_on(_protocol: Protocol, book: Book) -> Pause:
            pause = _ours(book, run, by, "gone on with")
            if pause.state == DISCARDING:
                raise UsageError(f"the run {run} is being discarded, and does not go on: nothing was recorded")
            over = replace(pause, state="gone_on", ended_by=by, ended_at=self._kernel.ledger.time())
            self._write(book, over, pause.state)
            return over

        return (yield from self._kernel.step(go_on, durable=True))

    def hand_over(self, run: str, *, to: str, by: str) -> Program[Pause]:
        """Have a paused run be another's: nobody else goes on with it, or discards it.

        Raises:
            UsageError: as for `go_on`.
        """

        def hand_over(_protocol: Protocol, book: Book) -> Pause:
            pause = _ours(book, run, by, "handed over")
            if pause.state == DISCARDING:
                raise UsageError(f"the run {run} is being discarded: nothing was recorded")
            handed = replace(pause, owner=to)
            self._write(book, handed, pause.state)
            return handed

        return (yield from self._kernel.step(hand_over, durable=True))

    def discard(self, run: str, *, by: str, wait: float) -> Program[Pause]:
        """Undo what a paused run has done, the newest first, and fence it for good.

        Raises:
            UsageError: the run is not paused, or is another's; nothing was recorded.
            DeclarationError: an undo is unknown in this process. WaitTimeout: another holds what is to be undone. The
                run stays paused, and discarding it again goes on.
        """

        def begin(_protocol: Protocol, book: Book) -> Pause:
            pause = _ours(book, run, by, "discarded")
            if pause.state == DISCARDING:
                return pause
            gone = replace(pause, state=DISCARDING, stands=tuple(reversed(standing(book.of_run(run))[0])))
            self._write(book, gone, pause.state)
            return gone

        pause: Pause = yield from self._kernel.step(begin, durable=True)
        yield from self._fences.cancel(run)

        names, _ = yield from self._kernel.look(lambda _protocol, book: standing(book.of_run(run)))
        if names:
            word = self._rewinds.word(by, f"pause {pause.number} of {run} was discarded")
            yield from self._rewinds.rewind(Request(names, word), dry_run=False, wait=wait)

        def end(_protocol: Protocol, book: Book) -> Pause:
            mine = [one for one in reversed(book.of_run(run)) if one.row.name in pause.stands]
            touched = [each.row.key for one in mine for each in reversed(one.effects) if each.outcome in _ACTED]
            undone, bound = became(book, touched)
            at = self._kernel.ledger.time()
            over = replace(pause, state="discarded", ended_by=by, ended_at=at, undone=undone, bound=bound)
            self._write(book, over, DISCARDING)
            return over

        return (yield from self._kernel.step(end, durable=True))

    def _write(self, book: Book, pause: Pause, from_state: str) -> None:
        at, id_ = self._kernel.ledger.time(), pause_id(pause.run, pause.number)
        book.entries.change(
            KIND, id_, state=pause.state, at=at, from_state=from_state, body=pause.body(), open=not pause.is_over
        )


def pauses_of(book: Book, run: str) -> list[Pause]:
    """Return the pauses of a run, the oldest first."""
    return sorted(map(pause_in, book.entries.find(Which(KIND, run=run))), key=lambda pause: pause.number)


def pauses_in(book: Book) -> list[Pause]:
    """Return the pauses of all runs, the oldest first."""
    found = map(pause_in, book.entries.find(Which(KIND)))
    return sorted(found, key=lambda pause: (pause.at, pause.run, pause.number))


def _last(book: Book, run: str) -> Pause | None:
    return next(reversed(pauses_of(book, run)), None)


def _ours(book: Book, run: str, by: str, what: str) -> Pause:
    """Return the pause of a run that stands, if this person has a say in it."""
    pause = _last(book, run)
    if pause is None or pause.is_over:
        raise UsageError(f"the run {run} is not paused, so it was not {what}: see settlement.paused()")
    if not pause.readable:
        raise unreadable(f"the pause of the run {run}", run)
    if pause.owner not in (None, by):
        raise UsageError(
            f"the run {run} was handed over to {pause.owner}, so it was not {what} by {by}: ask {pause.owner}, who can"
            " hand it over again"
        )
    return pause


__all__ = ["Pauses", "pauses_in", "pauses_of"]
