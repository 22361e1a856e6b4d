"""Reading a settlement: reading moves nothing, and waits for no transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from settlemark._api.checked import checked_page
from settlemark._api.host import Host
from settlemark._lifecycle.parking import Parked
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.scope import Scope
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State, Tag
from settlemark.ledger import RecordedTransaction
from settlemark.ledger._contract import Page


@dataclass(frozen=True, slots=True)
class Residue:
    """What an abort or a partial commit left of one effect, for an operator to mend."""

    transaction: str
    attempt: int
    tool: str
    scope: str
    key: str
    tag: Tag
    note: str
    arguments: dict[str, Any]
    result: Any
    dealt_by: str | None = None
    dealt_at: float | None = None


class Records:
    """The part of a settlement that shows the record, and who waits for whom."""

    _host: Host

    @property
    def protocol(self) -> Protocol:
        """The protocol as this process knows it: holders and unfinished transactions. For reading."""
        return self._host.protocol

    def parked(self) -> list[Parked]:
        """Return what `tx.park()` has put aside and nobody has answered yet, oldest first."""
        return self._host.driver.parking.parked()

    def frontier(self, scope: str | Scope) -> int:
        """Return the epoch before which nothing more touches a scope, as far as this process knows.

        The frontier grows as transactions settle; with nobody at work on the scope it is the next epoch.

        Raises:
            ScopeError: the scope is malformed.

        >>> from settlemark import Settlement
        >>> settlement = Settlement("memory:")
        >>> before = settlement.frontier("room:/Ada")
        >>> with settlement.transaction("trip", may_touch="room:/Ada") as tx:
        ...     settlement.frontier("room:/Ada") == tx.epoch
        True
        >>> settlement.frontier("room:/Ada") > before
        True
        """
        wanted = Scope.parse(scope)
        with self._host.driver.kernel.local as protocol:
            return protocol.frontier(wanted)

    def declared(self, tool: str, function: Callable[..., Any] | None = None) -> Declaration | None:
        """Return a tool's declaration, made here or on its function, or None."""
        return self._host.tools.known(tool, function)

    def residue(
        self, *, last: int | None = None, since: float | None = None, run: str | None = None, dealt: bool = False
    ) -> list[Residue]:
        """Return what aborts and partial commits left, oldest first: what an operator must look at.

        Work left by an ended process is not among it until taken up, which each settlement does in the background, and
        `recover()` does now; `settlemark residue` counts it.

        Args:
            last: only the last so many.
            since: only what was begun since then, in seconds since 1970.
            run: only that of one run.
            dealt: residue that an operator has dealt with (`resolve`), in place of the rest.
        """
        from settlemark._report.sentences import left_over

        page = checked_page(last, since, run, None)
        return [
            Residue(
                recorded.row.name,
                recorded.row.attempt,
                effect.row.tool,
                effect.row.scope,
                effect.row.key,
                effect.tag or Tag.UNRESOLVED,
                str(effect.disposed),
                json_text.decode(effect.row.arguments),
                json_text.decode(effect.result),
                effect.said_by if effect.dealt_at is not None else None,
                effect.dealt_at,
            )
            for recorded, effect in left_over(
                self._host.ledger.read(lambda book: book.left(page, dealt=dealt)), dealt=dealt
            )
        ]

    def transactions(
        self,
        *,
        last: int | None = None,
        since: float | None = None,
        run: str | None = None,
        state: State | str | None = None,
    ) -> list[RecordedTransaction]:
        """Return recorded attempts of transactions, oldest first: all, or one page.

        Args:
            last: only the last so many.
            since: only those begun since then, in seconds since 1970.
            run: only those of one run.
            state: only those in this state, such as `"aborted"`.
        """
        page = checked_page(last, since, run, state)
        if page == Page():
            return self._host.ledger.read(lambda book: book.transactions())
        return self._host.ledger.read(lambda book: book.recent(page))

    def waiting(self) -> list[tuple[str, str, str]]:
        """Return who waits now: (transaction, its holder, the scope)."""
        return [
            (name, holder, scope.text) for name, holder, scope in list(self._host.driver.kernel.waits.waiting.values())
        ]

    def show(
        self,
        *,
        last: int | None = None,
        since: float | None = None,
        run: str | None = None,
        state: State | str | None = None,
    ) -> str:
        """Return the ledger's account in sentences: of all transactions, or of a page: see `transactions`."""
        from settlemark._report.sentences import account

        return account(self.transactions(last=last, since=since, run=run, state=state))


__all__ = ["Records", "Residue"]
