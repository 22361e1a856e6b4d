"""Programs that run at the end of a graph's run, pushed on the exit stack of LangGraph's loop.

A run whose step took longer than its `step_timeout` ends at once, but its threads go on: no turn of it is to commit.
What its tasks come to is kept all the same, so that a resume answers with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from contextlib import AsyncExitStack, ExitStack
from typing import Any, cast
from weakref import WeakSet

from langgraph.errors import GraphRecursionError

from settlemark.agents import OpenTurn
from settlemark.hosting import Program, end_async, quote_of, run_sync
from settlemark_langgraph._private import RUNNER

_log = logging.getLogger("settlemark")

_CALLBACKS_RUN = 0.001


class Ending:
    """Runs programs at the end of a run: before LangGraph's own exits after a success, behind them after an error.

    Args:
        loop: LangGraph's.
        outer: those of the enclosing graphs' runs.

    Attributes:
        programs: are given the error that ended the run, if any.
        futures: refers to LangGraph's futures of the present superstep's tasks.
    """

    def __init__(self, loop: Any, outer: Sequence[Ending]) -> None:
        self.programs: list[Callable[[BaseException | None], Program[None]]] = []
        self.futures: Callable[[], Any] = _no_futures
        self._turns: WeakSet[OpenTurn] = WeakSet()
        self._lock = threading.Lock()  # threads add to the set, and it cannot be walked meanwhile
        self._cut: BaseException | None = None
        self._outer = outer
        self._loop = loop
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

    def undoes(self, turn: OpenTurn) -> None:
        """Take note of a turn of the run: it is undone when the time of the run, or an enclosing one's, is over."""
        for ending in (self, *self._outer):
            with ending._lock:  # noqa: SLF001 - of the same class
                ending._turns.add(turn)  # noqa: SLF001 - as above

    @property
    def cut(self) -> BaseException | None:
        """What ended the run, or an enclosing one's, although its threads may go on."""
        return self._cut or next((ending._cut for ending in self._outer if ending._cut is not None), None)  # noqa: SLF001 - as above

    def _above(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._error = self._too_many_steps() if error is None else error
        if self._error is None:
            self._run()
            return
        if _is_out_of_time(self._error):
            self._cut = self._error
            for turn in self._unsettled():
                run_sync(turn.abandon(self._error))
        self._until_written()

    def _until_written(self) -> None:
        """Wait until the tasks are over, and LangGraph has what they came to, before its executor is shut down.

        The executor waits for the tasks, too, but not for what LangGraph does when one is over: it would take no more
        writes by then, and a resume would do anew, and alone, what was answered and undone with its turn.
        """
        futures = self.futures()
        if futures is not None:
            for future in list(futures):
                future.cancel()  # as the executor does: what has not begun does not begin
            wait([future for future, task in list(futures.items()) if task is not None])
            while futures.counter:  # counted down behind the write; its event may be set by another's failure
                time.sleep(_CALLBACKS_RUN)

    def _below(self, *_: object) -> None:
        if self._error is not None:
            self._run()

    def _unsettled(self) -> list[OpenTurn]:
        with self._lock:
            turns = list(self._turns)
        return [turn for turn in turns if not turn.settled]

    def _too_many_steps(self) -> BaseException | None:
        # LangGraph raises this error only after its stack was left.
        over = getattr(self._loop, "status", None) == "out_of_steps"
        return GraphRecursionError("the graph came to its recursion limit") if over else None

    def _run(self) -> None:
        failed: list[BaseException] = []
        for then in self.programs:  # after a failure the others run all the same
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
        elif _is_out_of_time(self._error):
            self._cut = self._error

    async def _abelow(self, *_: object) -> None:
        if self._error is not None:
            await self._arun()

    async def _arun(self) -> None:
        failed: list[BaseException] = []
        for then in self.programs:
            try:
                await end_async(then(self._error))
            except BaseException as error:
                failed.append(error)
        self._raise(failed)


def _no_futures() -> None:
    return None


def _is_out_of_time(error: BaseException) -> bool:
    """Whether LangGraph's runner raised an error since a step took too long; not a task of it."""
    if not isinstance(error, TimeoutError):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == RUNNER


__all__ = ["Ending"]
