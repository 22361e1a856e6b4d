"""How a transaction begins and ends: the block that is entered, and left whatever happens in it."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self

from settlemark._acts.bodies import enter_body, leave_body
from settlemark._acts.perform import Program
from settlemark._api.host import Host
from settlemark._api.transaction import NEVER_ENTERED, AsyncTransaction, Transaction, _Face
from settlemark._attempt.attempt import Attempt, Part
from settlemark._edges.shield import closed, forgo_lowering, lower_shield, raise_shield, strike
from settlemark._edges.wording import in_words
from settlemark._lifecycle.parking import Park
from settlemark._protocol.states import Reason, State, Tag
from settlemark._runtime.aio import run_async
from settlemark._runtime.sync import run_apart, run_sync


class Opening:
    """A transaction about to begin: enter it with `with` or `async with`."""

    _shielded = False
    """Whether signals are put off here until its end: of the class, since an interrupt may cut `__init__` short."""

    def __init__(self, host: Host, options: dict[str, Any], park: Park = "keep") -> None:
        self._host = host
        self._options = options
        self._park: Park = park
        self._face: Transaction | AsyncTransaction | None = None

    @closed
    def __del__(self) -> None:
        # It was entered by hand and is dropped: nobody can leave it any more.
        if self._shielded and not sys.is_finalizing():
            forgo_lowering()

    def _under(self, hold: int) -> Self:
        """Begin the transaction at the place of a hold."""
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
            self._shielded = up
            strike()  # from here on its end is sure to come
            self._face._is_to_be_left = True  # noqa: SLF001 - the same module's pair
        except BaseException:
            self._shielded = False
            try:
                run_sync(self._giving_up(begun))  # an interrupt came when it had begun: nobody else would end it
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
        self._face._is_to_be_left = False  # noqa: SLF001 - the same module's pair
        leave_body(self._host.driver.kernel, self._face._attempt.name)  # noqa: SLF001 - the same module's pair
        try:
            run_sync(self._leaving(self._face, error))
        finally:
            if self._shielded:
                self._shielded = False
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
            self._shielded = up
            strike()
            self._face._is_to_be_left = True  # noqa: SLF001 - the same module's pair
        except GeneratorExit:
            self._shielded = False
            if up:
                lower_shield()
            raise  # it goes on elsewhere, and is given up there
        except BaseException:
            self._shielded = False
            try:
                await run_async(self._giving_up(begun))  # it came while the beginning was recorded
            finally:
                if up:
                    lower_shield()
            raise
        else:
            return self._face

    def _giving_up(self, begun: list[Part]) -> Program[None]:
        """End what has begun, and will never be entered."""
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
        self._face._is_to_be_left = False  # noqa: SLF001 - the same module's pair
        leave_body(self._host.driver.kernel, self._face._attempt.name)  # noqa: SLF001 - the same module's pair
        try:
            if kind is GeneratorExit:
                run_apart(self._leaving(self._face, error))  # the task is thrown away: nothing can be awaited here
            else:
                await run_async(self._leaving(self._face, error))
        finally:
            if self._shielded:
                self._shielded = False
                lower_shield()

    def _leaving(self, face: _Face, error: BaseException | None) -> Program[None]:
        driver, attempt = self._host.driver, face._attempt  # noqa: SLF001 - the same module's pair
        if face.joined:
            return  # what its caller makes of an error decides, as of any failed call
        if error is not None:
            yield from driver.undoing.abort(attempt, Reason.FAILED, cause=in_words(error))
            for effect in attempt.in_order():
                if effect.tag not in (None, Tag.CLEAN):
                    left = f"{attempt.name} left {effect.declaration.tool} on {effect.scope_text}: {effect.disposed}"
                    with suppress(Exception):  # its class may have notes of its own kind
                        BaseException.add_note(error, left)
        elif attempt.replay is not None or (
            face.state is not State.COMMITTED and not (face.state is State.ABORTED and _aborted_by_caller(attempt))
        ):
            yield from face._committing()  # noqa: SLF001 - the same module's pair

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a transaction that has not begun has no {name!r}: enter it, `with settlement.transaction(…) as tx:`"
        )


def _aborted_by_caller(attempt: Attempt) -> bool:
    return attempt.live.reason is Reason.FAILED


__all__ = ["Opening"]
