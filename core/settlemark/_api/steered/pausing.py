"""The part of a settlement that pauses runs, and goes on with them."""

from __future__ import annotations

from typing import cast

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_word
from settlemark._api.host import Host
from settlemark._edges.errors import UsageError
from settlemark._edges.text import DERIVED, WHO, prose
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark._steering.pause import Pause
from settlemark._steering.pauses import pauses_in

_RUN = "run is the id of the run, a text"


class Pausing:
    """The part of a settlement that pauses runs."""

    _host: Host

    def pause(self, run: str, *, by: str, because: str) -> Pause:
        """Have a run stop at its next boundary, and return the pause; one that stands already stays as it is.

        Nothing is undone: its program gets `Paused`, and what it needs to go on is on record, each part by itself: its
        progress (the steps that stand, the step that is next), and what its program keeps of itself and of its
        surroundings (`SteeredRun.keep`). Anybody may look: `settlement.paused`. Then it is gone on with (`go_on`),
        handed over (`hand_over`) or undone for good (`discard`).

        Args:
            run: the run's id.
            by: who pauses it.
            because: why.

        Raises:
            UsageError: an argument is no such thing, the run is a transaction's name, or was cancelled; nothing was
                recorded.

        >>> from settlemark import Paused, Settlement, effect
        >>> @effect("reversible", scope="room:/{hotel}", undo=lambda hotel: None)
        ... def reserve(hotel): return hotel
        >>> settlement = Settlement("memory:")
        >>> def plan(run):
        ...     with run.step("1") as tx: tx.call(reserve, hotel="Ada")
        ...     with run.step("2") as tx: return tx.call(reserve, hotel="Bee")
        >>> _ = settlement.pause("trip-42", by="eve", because="the budget is not settled")
        >>> try: settlement.steered("trip-42", plan)
        ... except Paused as error: print(error.by)
        eve
        >>> (found,) = settlement.paused()
        >>> found.before, found.stands
        ('1', ())
        >>> _ = settlement.go_on("trip-42", by="eve")
        >>> settlement.steered("trip-42", plan)
        'Bee'
        """
        return run_sync(self._having_paused(run, by, because))

    async def apause(self, run: str, *, by: str, because: str) -> Pause:
        """Do as `pause`, for an event loop."""
        return await run_async(self._having_paused(run, by, because))

    def _having_paused(self, run: str, by: str, because: str) -> Program[Pause]:
        known, who = checked_word(run, _RUN, DERIVED), checked_word(by, "by= is who pauses it, a text", WHO)
        if not isinstance(cast("object", because), str) or not because.strip():
            raise UsageError("because= is why it is paused, a text for those who look at it; nothing was recorded")
        return self._host.driver.pauses.pause(known, by=who, because=prose(because))

    def go_on(self, run: str, *, by: str) -> Pause:
        """Lift a run's pause, and return it: its program goes on when it is called again, from what stands.

        Args:
            run: the run's id.
            by: who goes on with it.

        Raises:
            UsageError: the run is not paused, is being discarded, or was handed over to another; nothing was recorded.
        """
        return run_sync(self._going_on(run, by))

    async def ago_on(self, run: str, *, by: str) -> Pause:
        """Do as `go_on`, for an event loop."""
        return await run_async(self._going_on(run, by))

    def _going_on(self, run: str, by: str) -> Program[Pause]:
        who = checked_word(by, "by= is who goes on with it, a text", WHO)
        return self._host.driver.pauses.go_on(checked_word(run, _RUN, DERIVED), by=who)

    def hand_over(self, run: str, *, to: str, by: str) -> Pause:
        """Hand a paused run over, and return its pause: nobody else goes on with it, discards it or hands it on.

        Args:
            run: the run's id.
            to: whose it is from now on.
            by: who hands it over.

        Raises:
            UsageError: as for `go_on`.
        """
        return run_sync(self._handing_over(run, to, by))

    async def ahand_over(self, run: str, *, to: str, by: str) -> Pause:
        """Do as `hand_over`, for an event loop."""
        return await run_async(self._handing_over(run, to, by))

    def _handing_over(self, run: str, to: str, by: str) -> Program[Pause]:
        whom = checked_word(to, "to= is who gets it, a text", WHO)
        who = checked_word(by, "by= is who hands it over, a text", WHO)
        return self._host.driver.pauses.hand_over(checked_word(run, _RUN, DERIVED), to=whom, by=who)

    def discard(self, run: str, *, by: str) -> Pause:
        """Undo what a paused run has done, the newest first, fence the run for good, and return its pause.

        What cannot be undone is in `bound`, and in `settlement.residue()`. A crash midway leaves it to be discarded
        again, which goes on where that ended.

        Args:
            run: the run's id.
            by: who discards it.

        Raises:
            UsageError: the run is not paused, or was handed over to another; nothing was recorded.
            DeclarationError: an undo is unknown in this process. WaitTimeout: another holds what is to be undone. The
                run does not go on, and can be discarded again.
        """
        return run_sync(self._discarding(run, by))

    async def adiscard(self, run: str, *, by: str) -> Pause:
        """Do as `discard`, for an event loop."""
        return await run_async(self._discarding(run, by))

    def _discarding(self, run: str, by: str) -> Program[Pause]:
        who = checked_word(by, "by= is who discards it, a text", WHO)
        known = checked_word(run, _RUN, DERIVED)
        return self._host.driver.pauses.discard(known, by=who, wait=self._host.patience)

    def paused(self, *, every: bool = False) -> list[Pause]:
        """Return the pauses that stand, the oldest first; with `every`, those that are over, too.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").paused()
        []
        """
        return [pause for pause in self._host.ledger.read(pauses_in) if every or not pause.is_over]


__all__ = ["Pausing"]
