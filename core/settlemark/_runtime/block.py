"""A block that begins something which must end: how the block is entered, and how it is left in every case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Generic, TypeVar

from settlemark._acts.perform import Program
from settlemark._edges.errors import StateError
from settlemark._edges.on_drop import OnDrop
from settlemark._edges.shield import abandon_shield, closed, deliver_signals, lower_shield, raise_shield
from settlemark._runtime.aio import run_async
from settlemark._runtime.apart import run_apart
from settlemark._runtime.sync import run_here

S = TypeVar("S")
A = TypeVar("A")


class Block(ABC, Generic[S, A]):
    """What is entered with `with` or `async with`; `S` and `A` are what each gives.

    Law: an interrupt or a cancellation at any moment either is raised before anything has begun, or what has begun is
    given up, or ends as the block ends. An object is in one block at a time: entered again before that, it would forget
    what it has begun, and nobody would end it.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._free = [True]
        """Empty while the object is in a block; a list, since its `pop` is one step for all threads and signals."""

    _shield: OnDrop | None = None
    """Lowers the shield when the block was entered by hand and dropped; none where the shield is not raised."""

    @abstractmethod
    def _beginning(self) -> Program[None]:
        """Begin what the block is about."""

    @abstractmethod
    def _entered(self) -> S:
        """Return what a `with` gives."""

    @abstractmethod
    def _aentered(self) -> A:
        """Return what an `async with` gives."""

    @abstractmethod
    def _arm(self) -> None:
        """Have what has begun ended when its caller drops it; the block's end is certain otherwise."""

    @abstractmethod
    def _disarm(self) -> None:
        """Undo `_arm`, and note that the caller leaves."""

    @abstractmethod
    def _giving_up(self) -> Program[None]:
        """End what has begun, if anything has, and will never be entered."""

    @abstractmethod
    def _leaving(self, error: BaseException | None) -> Program[None]:
        """End what has begun, as the block has ended."""

    def _take(self, *, up: bool) -> None:
        """Have this object in the block that is being entered.

        Raises:
            StateError: it is in another block; nothing has begun.
        """
        try:
            self._free.pop()
        except IndexError:
            if up:
                lower_shield()
            name = self._options["name"]
            raise StateError(
                f"{name} was entered again before its block was left: nothing was run; make a new one for each block",
                transaction=name,
                state=None,
            ) from None

    def _freeing(self, program: Program[None]) -> Program[None]:
        """Run what ends the block, then let the object be entered again."""
        try:
            yield from program
        finally:
            self._free[:] = [True]

    def _given_up(self) -> Program[None]:
        return self._freeing(self._giving_up())

    def _now_certain(self, *, up: bool) -> None:
        self._shield = OnDrop(abandon_shield) if up else None
        deliver_signals()  # from here on the block's end is certain
        self._arm()

    def _shielded(self) -> int:
        """Note that the shield is about to be lowered; return how often the block has raised the shield."""
        guard, self._shield = self._shield, None
        return int(guard is not None and guard.disarm())

    @closed
    def __enter__(self) -> S:
        up = raise_shield()
        self._take(up=up)
        try:
            run_here(self._beginning())
            entered = self._entered()
            self._now_certain(up=up)
        except BaseException:
            self._shielded()
            try:
                run_here(self._given_up())  # interrupted after the begin: nobody else would end it
            finally:
                if up:
                    lower_shield()
            raise
        else:
            return entered

    @closed
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        up = raise_shield()  # a handler that the block has set does not strike behind this line
        try:
            self._disarm()
            run_here(self._freeing(self._leaving(error)))
        finally:
            if times := self._shielded() + up:
                lower_shield(times)

    @closed
    async def __aenter__(self) -> A:
        up = raise_shield()
        self._take(up=up)
        try:
            await run_async(self._beginning(), behind=self._given_up)
            entered = self._aentered()
            self._now_certain(up=up)
        except GeneratorExit:
            self._shielded()
            if up:
                lower_shield()
            raise  # it continues in a thread, and is given up there
        except BaseException:
            self._shielded()
            try:
                await run_async(self._given_up())  # cancelled while the begin was recorded
            finally:
                if up:
                    lower_shield()
            raise
        else:
            return entered

    @closed
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        up = raise_shield()
        try:
            self._disarm()
            if kind is GeneratorExit:
                run_apart(self._freeing(self._leaving(error)))  # the task is thrown away: nothing can be awaited here
            else:
                await run_async(self._freeing(self._leaving(error)))
        finally:
            if times := self._shielded() + up:
                lower_shield(times)


__all__ = ["Block"]
