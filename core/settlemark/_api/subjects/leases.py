"""A resource that an agent has for itself for a while: `Settlement.lease`, and what it returns."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Self, cast

from settlemark._acts.current import current_call
from settlemark._acts.perform import Program
from settlemark._api.checked import checked_wait, checked_word
from settlemark._api.host import Host
from settlemark._edges.errors import Fenced, UsageError
from settlemark._edges.text import DERIVED, WHO, identity, prose
from settlemark._leasing.leases import Kept, Leases
from settlemark._model.scope import Scope
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_sync
from settlemark.ledger._leased.rows import LeaseRow

_LONGEST = 366 * 86_400.0
_GRACE = 10.0


class Lease:
    """A resource that nobody else can lease until this ends: what `Settlement.lease` returns.

    In a `with` (or `async with`) block it is renewed in the background, and given back at the end; without one, call
    `renew` before `until`, and `release`. A block whose lease was lost meanwhile raises `Fenced` at its end, unless it
    raises something else. It has one block: what was given back, or lost, is not entered again.

    A lease is a promise among those who ask for it. What keeps a late holder out is the resource: give the lease to its
    adapter (`lease=`), or check `token` there yourself, and refuse what is less than the greatest one seen.

    Attributes:
        scope: of the resource, as text.
        token: the fencing token, a positive integer: greater than that of every lease before, of whatever resource.
        holder: who has it.
        since: since when, in seconds since 1970, on the store's clock.
    """

    def __init__(self, host: Host, row: LeaseRow) -> None:
        self.scope, self.token, self.holder, self.since = row.scope, row.token, row.holder, row.since
        self._host = host  # else nobody renews it once its user has dropped the settlement
        self._leases: Leases = host.driver.leases
        self._kept = Kept(row)
        self._over = self._entered = False

    @property
    def until(self) -> float:
        """When it ends if it is not renewed, in seconds since 1970, on the store's clock."""
        return self._kept.row.until

    @property
    def left(self) -> float:
        """For how many seconds it is not over, by the store's clock as this process knows it; 0: it has ended."""
        return 0.0 if self._over or self.lost is not None else max(0.0, self.until - self._leases.time())

    @property
    def lost(self) -> Fenced | None:
        """Why it is lost, once this process knows so; None while it holds it."""
        return self._kept.lost

    def renew(self) -> float:
        """Renew it for as long as it was asked for, from now on; return `until`.

        One that has ended is renewed, too, as long as nobody has taken it.

        Raises:
            Fenced: it is lost: another has it, or it was given back.
        """
        return run_sync(self._renewing())

    async def arenew(self) -> float:
        """Do as `renew`, for an event loop."""
        return await run_async(self._renewing())

    def release(self) -> None:
        """Give it back: it is free at once. A second time does nothing.

        Raises:
            Fenced: it was lost before.
        """
        run_sync(self._releasing())

    async def arelease(self) -> None:
        """Do as `release`, for an event loop."""
        await run_async(self._releasing())

    def __enter__(self) -> Self:
        if self.lost is not None:
            raise self.lost
        if self._over or self._entered:  # the end of a block gives it back, also under a block around that
            raise UsageError(
                f"the lease on {self.scope} has one block, and {'was given back' if self._over else 'is in it'}: ask"
                " for it anew, with settlement.lease(…)"
            )
        self._kept, self._entered = self._leases.keep(self._kept.row), True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        run_sync(self._leaving(failed=kind is not None))

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await run_async(self._leaving(failed=kind is not None))

    def __repr__(self) -> str:
        return f"<Lease {self.token} on {self.scope}, of {self.holder}>"

    def _renewing(self) -> Program[float]:
        try:
            row = yield from self._leases.renew(self._kept.row)
        except Fenced as error:
            self._kept.lost = error
            raise
        self._kept.renewed(row)
        return row.until

    def _releasing(self) -> Program[None]:
        if self._over:
            return
        self._leases.let_go(self._kept.row)
        try:
            yield from self._leases.release(self._kept.row)
        except Fenced as error:
            self._kept.lost = error
            raise
        finally:
            self._over = True

    def _leaving(self, *, failed: bool) -> Program[None]:
        try:
            yield from self._releasing()
        except Fenced:
            if not failed:
                raise


class Leasing:
    """The part of a settlement that leases resources to agents."""

    _host: Host

    def lease(
        self,
        scope: str | Scope,
        *,
        for_: float | timedelta,
        by: str | None = None,
        grace: float | None = None,
    ) -> Lease:
        """Lease a resource, for longer than a transaction: a checkout, a browser, a desk.

        No other lease that overlaps is granted, in any process, until it is released or has lapsed. It lapses when it
        is not renewed in time, and then not in the `grace` after somebody asked for it: the store, or all processes,
        may have been away, so that nobody could renew it. Times are on the store's clock.

        It holds no scope against transactions: those need none. It waits for nobody.

        Args:
            scope: the resource and all below it.
            for_: seconds, or a `timedelta`, for which it is granted and renewed.
            by: who asks, for those who come later; by default the run of the call that asks, else this process.
            grace: seconds for which a lapsed lease may still be renewed after somebody asked for it; by default as long
                as `for_`, 10 at most.

        Raises:
            LeaseHeld: another has it: it names the holder, since when, and when to ask again. Nothing was granted.
            UsageError: an argument is no such thing. ScopeError: the scope is malformed.

        >>> from settlemark import LeaseHeld, Settlement
        >>> settlement = Settlement("memory:")
        >>> with settlement.lease("checkout:/repo", for_=60, by="agent-1") as lease:
        ...     try:
        ...         settlement.lease("checkout:/repo", for_=60, by="agent-2")
        ...     except LeaseHeld as error:
        ...         print(error.holder, error.token == lease.token)
        agent-1 True
        >>> settlement.leases()
        []
        """
        return run_sync(_granting(self._host, scope, for_, by, grace))

    async def alease(
        self, scope: str | Scope, *, for_: float | timedelta, by: str | None = None, grace: float | None = None
    ) -> Lease:
        """Do as `lease`, for an event loop."""
        return await run_async(_granting(self._host, scope, for_, by, grace))

    def end_lease(self, scope: str | Scope, *, by: str, because: str) -> LeaseRow:
        """End a lease, any agent's, in any process, and return it as it was: its resource is free at once.

        Its holder learns of it as he renews it next, with who has ended it and why (`Fenced`), and may act until then:
        only the resource itself can refuse that, by the token. Who ended it, and why, is on record.

        Args:
            scope: the resource, exactly as it was leased: see `leases`.
            by: who ends it.
            because: why.

        Raises:
            UsageError: nobody has a lease on it, or it is not said by whom, or why.
            ScopeError: the scope is malformed. Nothing was recorded.

        >>> from settlemark import Settlement
        >>> settlement = Settlement("memory:")
        >>> lease = settlement.lease("checkout:/repo", for_=3600, by="agent-1")
        >>> settlement.end_lease("checkout:/repo", by="eve", because="agent-1 is gone").holder, settlement.leases()
        ('agent-1', [])
        """
        return run_sync(self._ending_lease(scope, by, because))

    async def aend_lease(self, scope: str | Scope, *, by: str, because: str) -> LeaseRow:
        """Do as `end_lease`, for an event loop."""
        return await run_async(self._ending_lease(scope, by, because))

    def _ending_lease(self, scope: str | Scope, by: str, because: str) -> Program[LeaseRow]:
        who = checked_word(by, "by= is who ends it, a text", WHO)
        if not isinstance(cast("object", because), str) or not because.strip():
            raise UsageError("because= is why it is ended, a text for who has it; nothing was recorded")
        return self._host.driver.leases.end(Scope.parse(scope), by=who, because=prose(because))

    def leases(self) -> list[LeaseRow]:
        """Return the leases that were neither released nor taken, also those that have lapsed, by scope.

        >>> from settlemark import Settlement
        >>> Settlement("memory:").leases()
        []
        """
        return self._host.ledger.read(lambda book: book.leases.every())


def _granting(
    host: Host, scope: str | Scope, for_: float | timedelta, by: str | None, grace: float | None
) -> Program[Lease]:
    where = Scope.parse(scope)
    identity(where.text, "a lease's scope", DERIVED)
    period = for_.total_seconds() if isinstance(for_, timedelta) else checked_wait(for_, "for_")
    if not 0 < period <= _LONGEST:
        raise UsageError(f"for_={for_!r}: give seconds, more than 0 and a year at most; nothing was granted")
    spare = min(period, _GRACE) if grace is None else checked_wait(grace, "grace")
    if not math.isfinite(spare) or spare > _LONGEST:
        raise UsageError(f"grace={grace!r}: give seconds, a year at most; nothing was granted")
    call = current_call()
    default = host.ledger.worker if call is None else call.transaction
    who = default if by is None else checked_word(by, "by= is who asks for the lease, a text", WHO)
    row = yield from host.driver.leases.grant(where, holder=who, period=float(period), grace=float(spare))
    return Lease(host, row)


__all__ = ["Lease", "Leasing"]
