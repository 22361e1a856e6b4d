"""The block around a transaction: how it is entered, and how it is left in every case."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from settlemark._acts.bodies import enter_body, leave_body
from settlemark._acts.perform import Program
from settlemark._api.host import Host
from settlemark._api.transaction import NEVER_ENTERED, AsyncTransaction, Transaction, _Face
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Part
from settlemark._edges.on_drop import OnDrop
from settlemark._edges.shield import abandon_shield, closed, deliver_signals, lower_shield, raise_shield
from settlemark._edges.wording import in_words
from settlemark._lifecycle.parking import Park
from settlemark._protocol.states import Reason, State, Tag
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_apart, run_sync


class Opening:
    """A transaction about to begin: enter it with `with` or `async with`."""

    def __init__(self, host: Host, options: dict[str, Any], park: Park = "keep") -> None:
        self._host = host
        self._options = options
        self._park: Park = park
        self._face: Transaction | AsyncTransaction | None = None
        self._shield: OnDrop | None = None
        """Lowers the shield when the block was entered by hand and dropped; none where the shield is not raised."""

    def _disarm(self) -> bool:
        """Note that the shield is about to be lowered here; return whether it is raised."""
        guard, self._shield = self._shield, None
        if guard is None:
            return False
        guard.disarm()
        return True

    def _under(self, hold: int) -> Self:
        """Begin the transaction at a hold's place."""
        self._options |= {"group": hold, "independent": True}
        return self

    @closed
    def __enter__(self) -> Transaction:
        begun: list[Part] = []
        up = raise_shield()
        try:
            run_sync(self._enter(begun))
            self._face = Transaction(self._host, begun[0], self._park)
            enter_body(self._host.driver.kernel, begun[0].attempt.name)
            self._shield = OnDrop(abandon_shield) if up else None
            deliver_signals()  # from here on the block's end is certain
            self._face._enter_block()  # noqa: SLF001 - the other half of the pair
        except BaseException:
            self._disarm()
            try:
                run_sync(self._giving_up(begun))  # interrupted after the begin: nobody else would end it
            finally:
                if up:
                    lower_shield()
            raise
        else:
            return self._face

    @closed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._face, Transaction)
        self._face._leave_block()  # noqa: SLF001 - the other half of the pair
        leave_body(self._host.driver.kernel, self._face._attempt.name)  # noqa: SLF001 - the other half of the pair
        try:
            run_sync(self._leaving(self._face, error))
        finally:
            if self._disarm():
                lower_shield()

    @closed
    async def __aenter__(self) -> AsyncTransaction:
        self._host.remember_loop()
        begun: list[Part] = []
        up = raise_shield()
        try:
            await run_async(self._enter(begun), behind=partial(self._giving_up, begun))
            self._face = AsyncTransaction(self._host, begun[0], self._park)
            enter_body(self._host.driver.kernel, begun[0].attempt.name)
            self._shield = OnDrop(abandon_shield) if up else None
            deliver_signals()
            self._face._enter_block()  # noqa: SLF001 - the other half of the pair
        except GeneratorExit:
            self._disarm()
            if up:
                lower_shield()
            raise  # it continues in a thread, and is given up there
        except BaseException:
            self._disarm()
            try:
                await run_async(self._giving_up(begun))  # cancelled while the begin was recorded
            finally:
                if up:
                    lower_shield()
            raise
        else:
            return self._face

    def _giving_up(self, begun: list[Part]) -> Program[None]:
        """End a transaction that has begun and will never be entered."""
        for part in begun:
            if not part.joined:
                yield from self._host.driver.undoing.discard(part.attempt, Reason.ABANDONED, cause=NEVER_ENTERED)

    def _enter(self, begun: list[Part]) -> Program[None]:
        part: Part = yield from self._host.driver.entrance.enter(**self._options)
        if not part.joined:
            part.attempt.parks = self._park
        begun.append(part)

    @closed
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert isinstance(self._face, AsyncTransaction)
        self._face._leave_block()  # noqa: SLF001 - the other half of the pair
        leave_body(self._host.driver.kernel, self._face._attempt.name)  # noqa: SLF001 - the other half of the pair
        try:
            if kind is GeneratorExit:
                run_apart(self._leaving(self._face, error))  # the task is thrown away: nothing can be awaited here
            else:
                await run_async(self._leaving(self._face, error))
        finally:
            if self._disarm():
                lower_shield()

    def _leaving(self, face: _Face, error: BaseException | None) -> Program[None]:
        driver, attempt = self._host.driver, face._attempt  # noqa: SLF001 - the other half of the pair
        if face.joined:
            return  # the caller handles the error, as of any failed call
        if error is not None:
            yield from driver.undoing.abort(attempt, Reason.FAILED, cause=in_words(error))
            for effect in attempt.in_order():
                if effect.tag not in (None, Tag.CLEAN):
                    left = f"{attempt.name} left {effect.declaration.tool} on {effect.scope_text}: {effect.disposed}"
                    with suppress(Exception):  # a user's exception class may refuse notes
                        BaseException.add_note(error, left)
        elif attempt.replay is not None or (
            face.state is not State.COMMITTED and not (face.state is State.ABORTED and _aborted_by_caller(attempt))
        ):
            yield from face._committing()  # noqa: SLF001 - the other half of the pair

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a transaction that has not begun has no {name!r}: enter it, `with settlement.transaction(…) as tx:`"
        )


def _aborted_by_caller(attempt: Attempt) -> bool:
    return attempt.live.reason is Reason.FAILED


__all__ = ["Opening"]
