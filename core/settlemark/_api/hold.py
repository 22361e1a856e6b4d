"""Holds: an orchestrator keeps a place in the settlement order for work that has not begun.

A hold is a capability (timely dataflow): its owner may begin work at its place in the order, and younger transactions
settle on its scopes only when the hold is dropped. Work under a hold takes places before the hold's own, so it never
waits for the hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from settlemark._acts.perform import Program
from settlemark._api.opening import Opening
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import LedgerError, StateError
from settlemark._edges.on_drop import OnDrop
from settlemark._protocol.states import State
from settlemark._runtime.aio import run_async
from settlemark._runtime.apart import run_from_anywhere
from settlemark._runtime.block import Block
from settlemark._runtime.driver import Driver
from settlemark._runtime.sync import run_sync


class Hold(Block[Any, Any]):
    """A place in the settlement order that is kept for work to come: enter it with `with` or `async with`.

    Laws: transactions begun under the hold settle as if they had begun when it was placed. A younger transaction that
    overlaps its scopes acts, and then waits with its commit until the hold is dropped; one on other scopes does not
    wait. So a hold orders who settles; it is no lock, and keeps nobody from acting.
    """

    def __init__(self, driver: Driver, opening: Callable[..., Opening], options: dict[str, Any]) -> None:
        super().__init__(options)
        self._driver = driver
        self._opening = opening
        self._attempt: Attempt | None = None
        self._to_be_left: OnDrop | None = None
        """Drops the hold when nobody can begin work under it, or leave its block, any more."""

    @property
    def name(self) -> str:
        """The hold's name, as shown to transactions that wait for it."""
        return str(self._options["name"])

    @property
    def epoch(self) -> int:
        """The hold's place in the settlement order.

        Raises:
            StateError: the hold is not placed yet.
        """
        return self._placed().live.epoch

    def transaction(self, name: str | None = None, **options: Any) -> Opening:
        """Return a transaction at the hold's place, to enter; `options` are those of `Settlement.transaction`.

        Raises:
            StateError: the hold is not placed yet. Entering a transaction under a dropped hold raises it too.
        """
        group = self._placed().live.id
        return self._opening(name, **options)._under(group, self)  # noqa: SLF001 - the other half of the pair

    def drop(self) -> None:
        """Declare that no more work will begin under the hold: waiting transactions go on once its work has settled."""
        run_sync(self._dropping())

    async def adrop(self) -> None:
        """Do as `drop`, for an event loop."""
        await run_async(self._dropping())

    def _placed(self) -> Attempt:
        if self._attempt is None:
            raise StateError(
                f"{self.name} is not placed yet: enter it, `with settlement.hold(…) as hold:`",
                transaction=self.name,
                state=None,
            )
        return self._attempt

    def _dropping(self) -> Program[None]:
        yield from _drop(self._driver, self._placed())

    def _beginning(self) -> Program[None]:
        self._attempt = None
        self._attempt = yield from self._driver.entrance.begin(**self._options, role="hold")

    def _entered(self) -> Self:
        return self

    _aentered = _entered

    def _arm(self) -> None:
        self._to_be_left = OnDrop(partial(run_from_anywhere, _drop_unheld, self._driver, self._placed()))

    def _disarm(self) -> None:
        if self._to_be_left is not None:
            self._to_be_left.disarm()
            self._to_be_left = None

    def _giving_up(self) -> Program[None]:
        if self._attempt is not None:
            yield from self._dropping()

    def _leaving(self, error: BaseException | None) -> Program[None]:  # noqa: ARG002 - it ends alike
        yield from self._dropping()


def _drop(driver: Driver, attempt: Attempt) -> Program[None]:
    if attempt.live.state is State.OPEN:
        yield from driver.settling.commit(attempt)


def _drop_unheld(driver: Driver, attempt: Attempt) -> Program[None]:
    """Drop a hold that its caller dropped without leaving its block: nobody can begin work under it any more."""
    if driver.kernel.ledger.is_elsewhere or attempt.live.state is not State.OPEN:
        return
    try:
        yield from _drop(driver, attempt)
    except LedgerError as error:
        if not getattr(error, "closed", False):
            raise


__all__ = ["Hold"]
