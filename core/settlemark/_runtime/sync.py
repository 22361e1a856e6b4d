"""Runs a program in a thread; an async handler runs in an event loop of its own there."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Never, TypeVar

from settlemark._acts.perform import Program
from settlemark._acts.requests import Act, Recorded, Request, Sleep, Together, Wait
from settlemark._edges.errors import WouldBlock
from settlemark._edges.shield import (
    deliver_signals,
    hanging,
    lifted,
    shielded,
)
from settlemark._edges.user_code import (
    Ended,
    done,
    ended,
    is_awaited,
    is_of_a_thread,
    outcome_of,
)
from settlemark._runtime.call_context import call_with_current, in_event_loop, outside, with_current

T = TypeVar("T")

_log = logging.getLogger("settlemark")


@lifted
def _call_here(act: Act) -> Any:
    """Call an act's function where a signal may be delivered; deferred signals are delivered first."""
    deliver_signals()
    return call_with_current(act, strikes=True)


def run_here(program: Program[T]) -> T:
    """Run a program in this thread, for a caller that has signals deferred, and return its result.

    Raises:
        WouldBlock: the program would have to wait, and this thread runs an event loop; nothing was run.
    """
    try:
        request = next(program)
        return go_on(program, request, carry_out)
    except StopIteration as stop:
        result: T = stop.value
        return result


run_sync = shielded(run_here)
"""Run a program in this thread, as `run_here` does, with signals deferred."""


def go_on(program: Program[Any], request: Request, do: Callable[[Request], Any]) -> Never:
    """Carry out a program's requests, from this one on; `do` carries out the first.

    Raises:
        StopIteration: the program has ended.
        BaseException: the program's own exception.
    """
    while True:
        try:
            answer = do(request)
        except BaseException as error:
            request = program.throw(error)
        else:
            request = program.send(answer)
        do = carry_out


def carry_out(request: Request) -> Any:
    """Carry out one request of a program in this thread, and return the answer."""
    if type(request) is Act:
        answer = call_with_current(request) if request.final else _call_here(request)
        while is_of_a_thread(answer):
            answer = _result_of(answer)
        return _run_coroutine(with_current(request, answer)) if is_awaited(answer) else done(answer, request.function)
    if type(request) is Recorded:
        request.pending.lead()
        return request.pending.result()
    if type(request) is Wait:
        return (_wait_finally if request.final else _wait_sync)(request)
    if type(request) is Together:
        return _together_sync(request)
    assert type(request) is Sleep
    (time.sleep if request.final else _sleep)(request.seconds)
    return None


@hanging
def _result_of(answer: Future[Any]) -> Any:
    return answer.result()


@lifted
def _sleep(seconds: float) -> None:
    deliver_signals()
    time.sleep(seconds)


def _together_sync(request: Together) -> list[Ended]:
    """Run each program in a thread of its own, a single one here; an interrupt is raised when all have ended."""
    if len(request.programs) == 1:
        return [outside().run(_ended, request.programs[0])]
    found = [Ended(None)] * len(request.programs)

    def run(number: int, program: Program[Any]) -> None:
        found[number] = _ended(program)

    threads = [
        threading.Thread(target=outside().run, args=(run, number, program), name=f"settlemark-branch-{number}")
        for number, program in enumerate(request.programs)
    ]
    for thread in threads:
        thread.start()
    interrupt: BaseException | None = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
    return found


def _ended(program: Program[Any]) -> Ended:
    try:
        return Ended(run_sync(program))
    except BaseException as error:
        return Ended(None, error)


@lifted
def _wait_sync(request: Wait) -> bool:
    deliver_signals()
    return _wait_finally(request)


@hanging
def _wait_finally(request: Wait) -> bool:
    ticket = request.ticket
    if ticket.fired:
        return True
    if request.seconds <= 0:
        return False
    if in_event_loop():
        raise WouldBlock(
            f"this call has to wait for {request.holder}, which holds {request.scope}, and would block the event"
            " loop: nothing was run; use `async with settlement.transaction(…)` and `await tx.call(…)`",
            holder=request.holder,
            scope=request.scope,
        )
    woken = threading.Event()
    ticket.wake = woken.set
    # A ticket that fired before it was armed has not called `wake`.
    return ticket.has_fired() or woken.wait(request.seconds) or ticket.has_fired()


@hanging
def _run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
    if not in_event_loop():
        return asyncio.run(coroutine)
    box: list[Ended] = []
    context = copy_context()
    thread = threading.Thread(
        target=lambda: box.append(ended(context.run, asyncio.run, coroutine)), name="settlemark-handler"
    )
    thread.start()
    thread.join()
    return outcome_of(box[0])
