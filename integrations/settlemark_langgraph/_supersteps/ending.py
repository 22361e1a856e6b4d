"""Programs that run at the end of a graph's run, pushed on the exit stack of LangGraph's loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any, cast

from langgraph.errors import GraphRecursionError

from settlemark.hosting import Program, end_async, quote_of, run_sync

_log = logging.getLogger("settlemark")


class Ending:
    """Runs programs at the end of a run: before LangGraph's own exits after a success, behind them after an error."""

    def __init__(self, loop: Any, programs: list[Callable[[BaseException | None], Program[None]]]) -> None:
        self._loop = loop
        self._programs = programs
        self._error: BaseException | None = None

    def enter(self, stack: ExitStack | AsyncExitStack) -> None:
        """Push this ending on a loop's stack twice: above its present exits, and below them."""
        inner = stack.pop_all()
        if isinstance(stack, AsyncExitStack):
            stack.push_async_exit(self._abelow)
            stack.push_async_exit(cast("AsyncExitStack", inner))
            stack.push_async_exit(self._aabove)
        else:
            stack.push(self._below)
            stack.push(cast("ExitStack", inner))
            stack.push(self._above)

    def _above(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._error = self._too_many_steps() if error is None else error
        if self._error is None:
            self._run()

    def _below(self, *_: object) -> None:
        if self._error is not None:
            self._run()

    def _too_many_steps(self) -> BaseException | None:
        # LangGraph raises this error only after its stack was left.
        over = getattr(self._loop, "status", None) == "out_of_steps"
        return GraphRecursionError("the graph came to its recursion limit") if over else None

    def _run(self) -> None:
        failed: list[BaseException] = []
        for then in self._programs:  # after a failure the others run all the same
            try:
                run_sync(then(self._error))
            except BaseException as error:
                failed.append(error)
        self._raise(failed)

    def _raise(self, failed: list[BaseException]) -> None:
        if self._error is None and failed:
            raise failed[0]
        for error in failed:  # LangGraph raises the error that ended the run
            _log.warning("at the end of a run a transaction could not be settled or undone: %s", quote_of(error))

    async def _aabove(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._error = self._too_many_steps() if error is None else error
        if self._error is None:
            await self._arun()

    async def _abelow(self, *_: object) -> None:
        if self._error is not None:
            await self._arun()

    async def _arun(self) -> None:
        failed: list[BaseException] = []
        for then in self._programs:
            try:
                await end_async(then(self._error))
            except BaseException as error:
                failed.append(error)
        self._raise(failed)


__all__ = ["Ending"]
