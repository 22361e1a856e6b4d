"""What a settlement tells of stuck transactions, how an operator ends them, and what is done about them by itself."""

from __future__ import annotations

from functools import partial

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_word
from settlemark._api.host import Host
from settlemark._api.subjects.plans import GATED, Faces, checked, gating, running
from settlemark._edges.text import DERIVED, WHO, prose
from settlemark._mending.stuck import Stuck, stuck_in
from settlemark._model.effect_class import Outcome
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync

_WHICH = "a stuck transaction is named by its name, a text, as in settlement.stuck()"
_BY = "by= is who says so, a text"


class Mending:
    """The part of a settlement that has to do with stuck transactions."""

    _host: Host

    def _begin_mending(self, faces: Faces) -> None:
        mends, settings = self._host.driver.mends, self._host.settings
        mends.proposing, mends.channels = settings.on_stuck, tuple(channel.name for channel in settings.channels)
        carrying = mends.carrying
        carrying.checking = partial(checked, self._host)
        carrying.running = partial(running, self._host, faces)
        carrying.gating = partial(gating, self._host, faces)
        self._host.tools.adopt(GATED)  # the process that is answered has it

    def stuck(self) -> list[Stuck]:
        """Return the transactions that are stuck, the oldest first: undone, but for what could not be undone.

        An effect stands because its undo failed for good (`cause` "failed"), because it has none ("missing"), or
        because it no longer applies ("moved_on": the undo raised `MovedOn`, or others have built on the effect). In
        doubt is another matter: see `in_doubt`.

        >>> from settlemark import MovedOn, Settlement, effect
        >>> def cancel(room): raise MovedOn("let to somebody else since")
        >>> book = effect("reversible", scope="room:/{room}", undo=cancel)(lambda room: "booked")
        >>> settlement = Settlement("memory:")
        >>> try:
        ...     with settlement.transaction("trip-42") as tx:
        ...         _ = tx.call(book, room="7")
        ...         raise ValueError("no flight")
        ... except ValueError:
        ...     (stuck,) = settlement.stuck()
        >>> stuck.transaction, [(effect.scopes, str(effect.cause)) for effect in stuck.effects]
        ('trip-42', [(('room:/7',), 'moved_on')])
        >>> _ = settlement.settle_by_hand(stuck, by="ada", note="the guest has another room")
        >>> settlement.stuck()
        []
        """
        return self._host.ledger.read(stuck_in)

    def undo_again(self, which: str | Stuck, *, by: str, note: str = "") -> dict[str, Outcome]:
        """Undo what is stuck of a transaction once more, with its undo as declared here and now.

        Args:
            which: the transaction's name, or what `stuck()` returned.
            by: who wants it.
            note: why, for the record.

        Returns:
            The outcome of each effect by now, by its key: `UNDONE`, or `CONFIRMED` where it still stands: stuck again,
            or yet to be undone by a process that has its undo.

        Raises:
            UsageError: nothing of it is stuck, or nothing of that has an undo; or a plan for it acts, or has run and is
                not proven yet. Nothing was recorded.
        """
        return run_sync(self._undoing_again(which, by, note))

    async def aundo_again(self, which: str | Stuck, *, by: str, note: str = "") -> dict[str, Outcome]:
        """Do as `undo_again`, for an event loop."""
        return await run_async(self._undoing_again(which, by, note))

    def _undoing_again(self, which: str | Stuck, by: str, note: str) -> Program[dict[str, Outcome]]:
        name, attempt = _named(which)
        who = checked_word(by, _BY, WHO)
        return self._host.driver.ending.undo_again(name, attempt, by=who, note=prose(note), wait=self._host.patience)

    def settle_by_hand(self, which: str | Stuck, *, by: str, note: str = "") -> list[Stuck]:
        """Record that somebody has settled what is stuck of a transaction, outside of settlemark; return what that was.

        It is stuck no more, and no residue; its effects stay on record as what they are, with who, when and why.

        Args:
            which: the transaction's name, or what `stuck()` returned.
            by: who says so.
            note: how, for the record.

        Raises:
            UsageError: nothing of it is stuck; nothing was recorded.
        """
        return run_sync(self._settling_by_hand(which, by, note))

    async def asettle_by_hand(self, which: str | Stuck, *, by: str, note: str = "") -> list[Stuck]:
        """Do as `settle_by_hand`, for an event loop."""
        return await run_async(self._settling_by_hand(which, by, note))

    def _settling_by_hand(self, which: str | Stuck, by: str, note: str) -> Program[list[Stuck]]:
        name, attempt = _named(which)
        who = checked_word(by, _BY, WHO)
        return self._host.driver.ending.settle_by_hand(name, attempt, by=who, note=prose(note))


def _named(which: str | Stuck) -> tuple[str, int | None]:
    if isinstance(which, Stuck):
        return which.transaction, which.attempt
    return checked_word(which, _WHICH, DERIVED), None


__all__ = ["Mending"]
