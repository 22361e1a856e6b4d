"""Reading a settlement: reading moves nothing, and waits for no transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from settlemark._acts.judged import STRICTNESS, Verdict
from settlemark._api.checked import checked_page
from settlemark._api.host import Host
from settlemark._edges.errors import UsageError
from settlemark._edges.text import brief
from settlemark._lifecycle.parking import Parked
from settlemark._model import json_text
from settlemark._model.declaration import Declaration
from settlemark._model.scope import Scope
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import State, Tag
from settlemark._report.judged import PolicyVerdict, verdicts_in
from settlemark._report.why import Why
from settlemark._steering.reasons import steered_why
from settlemark.ledger import RecordedTransaction
from settlemark.ledger._audit import Audit, audit_of
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

    def why(self, key: str) -> Why:
        """Return why an effect was called: its decision, what that stood on, and what of it has changed since.

        Raises:
            UsageError: there is no effect under this key.
        """
        return self._host.ledger.read(lambda book: steered_why(book, key)[1])

    def verdicts(self, *, run: str | None = None, verdict: Verdict | None = None) -> list[PolicyVerdict]:
        """Return what policies have said of calls, the last verdict on each, oldest first.

        Args:
            run: only those on calls of one run.
            verdict: only `"allow"`, `"ask"` or `"deny"`.

        Raises:
            UsageError: there is no such verdict.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").verdicts()
        []
        """
        if verdict not in (None, *STRICTNESS):
            raise UsageError(f"verdict={brief(verdict)}: choose one of {', '.join(map(repr, STRICTNESS))}")
        return self._host.ledger.read(lambda book: verdicts_in(book, run=run, verdict=verdict))

    def audit(self, run: str, *, digest: str | None = None) -> Audit:
        """Return whether a run's record of decisions is what was recorded, and which rows are not.

        Each row's digest is over the row and the digest before it, so a row that somebody has changed, removed or added
        by hand shows, and is named. Redaction, encryption and retention leave the chain whole.

        Args:
            run: the run.
            digest: the `digest` of an earlier audit, kept outside of the ledger: it must still be there. Whoever makes
                all rows anew is found by this alone.

        >>> from settlemark import Settlement, effect
        >>> @effect("opaque")
        ... def sweep(fund): return fund
        >>> settlement = Settlement("memory:")
        >>> with settlement.transaction("treasury") as tx, tx.decide("sweep to A"):
        ...     _ = tx.call(sweep, fund="A")
        >>> settlement.audit("treasury").intact
        True
        """
        return self._host.ledger.read(lambda book: audit_of(book, run, digest))

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
