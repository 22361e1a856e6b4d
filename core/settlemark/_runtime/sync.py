"""Runs a program in a thread; an async handler runs in an event loop of its own there."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
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
    start_bare_thread,
)
from settlemark._edges.user_code import (
    Ended,
    done,
    ended,
    is_awaited,
    is_of_a_thread,
    outcome_of,
)
from settlemark._edges.wording import kind_of
from settlemark._observe.logs import about, quote_of
from settlemark._runtime.call_context import call_with_current, in_event_loop, outside, with_current

T = TypeVar("T")

_log = logging.getLogger("settlemark")


@lifted
def _call_here(act: Act) -> Any:
    """Call an act's function where a signal may be delivered; deferred signals are delivered first."""
    deliver_signals()
    return call_with_current(act, strikes=True)


@shielded
def run_sync(program: Program[T]) -> T:
    """Run a program in this thread and return its result.

    Raises:
        WouldBlock: the program would have to wait, and this thread runs an event loop; nothing was run.
    """
    try:
        request = next(program)
        return _go_on(program, request, _do_sync)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _go_on(program: Program[Any], request: Request, do: Callable[[Request], Any]) -> Never:
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
        do = _do_sync


def run_apart(program: Program[Any]) -> None:
    """Run a program to its end in a new thread, for a caller who cannot wait."""
    _start_apart(lambda: run_sync(program))


def run_from_anywhere(program: Callable[..., Program[Any]], *args: object) -> None:
    """Run a program to its end in a new thread, for the garbage collector: its caller may hold any lock."""

    def apart() -> None:
        run_apart(program(*args))

    with suppress(RuntimeError):
        start_bare_thread(apart, ())  # not `threading.Thread`: the caller may be in the middle of a thread's start


def _start_apart(run: Callable[[], object]) -> None:
    def to_its_end() -> None:
        try:
            run()
        except BaseException as error:  # nobody is there to receive the exception
            _log.warning(
                "abandoned work has ended with an error: %s", quote_of(error), extra=about(error=kind_of(error))
            )

    # While the interpreter ends, a thread never begins, and its `start` waits for it: the next process takes this up.
    if sys.is_finalizing():
        return
    with suppress(RuntimeError):  # newer interpreters start none as they end
        threading.Thread(target=outside().run, args=(to_its_end,), name="settlemark-apart", daemon=True).start()


def go_on_apart(program: Program[Any], request: Request, behind: Callable[[], Program[Any]] | None) -> None:
    """Continue in a thread with a program whose task was thrown away; the program receives a cancellation."""

    def to_its_end() -> None:
        try:
            _go_on(program, request, _what_came_of)
        except StopIteration:
            if behind is not None:
                run_sync(behind())

    _start_apart(to_its_end)


def _what_came_of(request: Request) -> Any:
    """Answer the request of a task that was thrown away, or raise a cancellation."""
    if type(request) is Recorded:
        return _do_sync(request)  # the step is queued, and will be taken
    if type(request) is Act and request.carried is not None:
        return outcome_of(request.carried.result())  # a thread is still at work on it
    raise asyncio.CancelledError


def _do_sync(request: Request) -> Any:
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
