"""Holds: an orchestrator keeps a place in the settlement order for work that has not begun.

A hold is a capability (timely dataflow): its owner may begin work at its place in the order, and younger transactions
settle on its scopes only when the hold is dropped. Work under a hold takes places before the hold's own, so it never
waits for the hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from settlemark._acts.perform import Program
from settlemark._api.opening import Opening
from settlemark._attempt.attempt import Attempt
from settlemark._edges.errors import StateError
from settlemark._protocol.states import State
from settlemark._runtime.aio import run_async
from settlemark._runtime.driver import Driver
from settlemark._runtime.sync import run_sync


class Hold:
    """A place in the settlement order that is kept for work to come: enter it with `with` or `async with`.

    Laws: transactions begun under the hold settle as if they had begun when it was placed. A younger transaction that
    overlaps its scopes acts, and then waits with its commit until the hold is dropped; one on other scopes does not
    wait. So a hold orders who settles; it is no lock, and keeps nobody from acting.
    """

    def __init__(self, driver: Driver, opening: Callable[..., Opening], options: dict[str, Any]) -> None:
        self._driver = driver
        self._opening = opening
        self._options = options
        self._attempt: Attempt | None = None

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
        return self._opening(name, **options)._under(group)  # noqa: SLF001 - the other half of the pair

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
        attempt = self._placed()
        if attempt.live.state is State.OPEN:
            yield from self._driver.settling.commit(attempt)

    def _placing(self) -> Program[Hold]:
        self._attempt = yield from self._driver.entrance.begin(**self._options, role="hold")
        return self

    def __enter__(self) -> Self:
        run_sync(self._placing())
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    async def __aenter__(self) -> Self:
        await run_async(self._placing())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.adrop()


__all__ = ["Hold"]
