"""The part of a settlement that tells what a run's record says of it, to its model and to programs."""

from __future__ import annotations

from typing import cast

from settlemark._acts.perform import Program
from settlemark._api.checked import checked_text
from settlemark._api.host import RUN, Host
from settlemark._claims.primer import LEAST, MOST, primer_of
from settlemark._claims.words import Primer
from settlemark._edges.errors import UsageError
from settlemark._protocol.protocol import Protocol
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger import Book


class Priming:
    """The part of a settlement that tells a run, when it is taken up again, what its record says."""

    _host: Host

    def primer(self, run: str, *, most: int = MOST) -> Primer:
        r"""Return what a run's record says of it: for a model that takes up again what was begun before, and as data.

        What has happened, what is in doubt, what has not left yet, what did not come about, what is owed, what others
        have changed since, what is left of budgets, and what halts it. Nothing is decided by the text.

        Args:
            run: the run.
            most: characters of the text; what does not fit is counted in it.

        Raises:
            UsageError: `run` is no run's id, or `most` is under 2,000.

        >>> from settlemark import Settlement, effect
        >>> @effect("reversible", scope="room:/{room}", undo=lambda room: None)
        ... def book(room): return {"id": 7}
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("trip-42/1") as tx:
        ...     _ = tx.call(book, room="Ada")
        >>> primer = settlement.primer("trip-42")
        >>> [(act.tool, act.arguments, str(act.outcome)) for act in primer.happened]
        [('book', {'room': 'Ada'}, 'confirmed')]
        >>> print(*primer.text.splitlines()[1:], sep="\n")
        Done, and not to be done again:
        - book({"room":"Ada"}) on room:/Ada: confirmed; result {"id":7}
        """
        return run_sync(priming(self._host, run, most))

    async def aprimer(self, run: str, *, most: int = MOST) -> Primer:
        """Do as `primer`, for an event loop."""
        return await run_async(priming(self._host, run, most))


def priming(host: Host, run: str, most: int = MOST) -> Program[Primer]:
    """Return the program that looks at a run's record.

    Raises:
        UsageError: see `Priming.primer`.
    """
    run = checked_text(run, RUN)
    if isinstance(most, bool) or not isinstance(cast("object", most), int) or most < LEAST:
        raise UsageError(f"most={most!r}: give the characters of the text, {LEAST:,} or more")
    kernel = host.driver.kernel

    def look(protocol: Protocol, book: Book) -> Primer:
        return primer_of(protocol, book, run, at=kernel.ledger.time(), budgets=kernel.budgets, most=most)

    return kernel.look(look)


__all__ = ["Priming", "priming"]
