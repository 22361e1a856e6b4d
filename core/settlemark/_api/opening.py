"""A transaction about to begin: what happens when its block is entered, and when the block is left."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn, Self

from settlemark._acts.bodies import enter_body, leave_body
from settlemark._acts.perform import Program
from settlemark._api.host import Host
from settlemark._api.transaction import NEVER_ENTERED, AsyncTransaction, Transaction
from settlemark._attempt.attempt import Attempt
from settlemark._attempt.part import Part
from settlemark._edges.wording import in_words
from settlemark._lifecycle.parking import Park
from settlemark._protocol.states import Reason, State, Tag
from settlemark._runtime.block import Block


class Opening(Block[Transaction, AsyncTransaction]):
    """A transaction about to begin: enter it with `with` or `async with`."""

    def __init__(self, host: Host, options: dict[str, Any], park: Park = "keep") -> None:
        super().__init__(options)
        self._host = host
        self._park: Park = park
        self._part: Part | None = None
        self._face: Transaction | AsyncTransaction | None = None
        self._keeps: object = None
        self._again = False

    def _under(self, hold: int, face: object) -> Self:
        """Begin the transaction at a hold's place; the hold's `face` is kept, since nobody must drop the hold."""
        self._options |= {"group": hold, "independent": True}
        self._keeps = face
        return self

    async def __aenter__(self) -> AsyncTransaction:
        self._host.remember_loop()
        return await super().__aenter__()

    def _beginning(self) -> Program[None]:
        if self._again and not self._options["known"]:
            self._name_anew()
        self._part, self._again = None, True
        part: Part = yield from self._host.driver.entrance.enter(**self._options)
        if not part.joined:
            part.attempt.parks = self._park
        self._part = part

    def _name_anew(self) -> None:
        """Without a name nothing is replayed: what is entered a second time is another decision, with its own keys."""
        before, name = self._options["name"], self._host.new_name()
        run = self._options["run"]
        self._options |= {"name": name, "run": name if run == before else run}

    def _entered(self) -> Transaction:
        self._face = face = Transaction(self._host, self._begun(), self._park)
        return face

    def _aentered(self) -> AsyncTransaction:
        self._face = face = AsyncTransaction(self._host, self._begun(), self._park)
        return face

    def _begun(self) -> Part:
        assert self._part is not None
        return self._part

    def _arm(self) -> None:
        assert self._face is not None
        enter_body(self._host.driver.kernel, self._face.name)
        self._face._enter_block()  # noqa: SLF001 - the other half of the pair

    def _disarm(self) -> None:
        assert self._face is not None
        self._face._leave_block()  # noqa: SLF001 - the other half of the pair
        leave_body(self._host.driver.kernel, self._face.name)

    def _giving_up(self) -> Program[None]:
        part = self._part
        if part is not None and not part.joined:
            yield from self._host.driver.undoing.discard(part.attempt, Reason.ABANDONED, cause=NEVER_ENTERED)

    def _leaving(self, error: BaseException | None) -> Program[None]:
        assert self._face is not None
        face, driver, attempt = self._face, self._host.driver, self._begun().attempt
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
