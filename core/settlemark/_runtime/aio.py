"""Runs a program in an event loop's task; a synchronous tool runs in a worker thread."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from math import inf
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from settlemark._acts.perform import Program
from settlemark._acts.requests import Act, Pending, Recorded, Request, Sleep, Together, Wait
from settlemark._edges.shield import (
    closed,
    lifted,
    lower_shield,
    raise_shield,
)
from settlemark._edges.user_code import (
    Ended,
    Through,
    awaited_to_its_end,
    done,
    ended,
    is_awaited,
    is_of_a_thread,
    outcome_of,
    through,
)
from settlemark._runtime.apart import go_on_apart
from settlemark._runtime.call_context import call_with_current, outside, with_current
from settlemark._runtime.threads import executor

T = TypeVar("T")

LEAVING_SECONDS = 0.5
"""How long a cancelled task still waits for the store: a step under way ends within this time."""


async def run_async(program: Program[T], *, behind: Callable[[], Program[Any]] | None = None) -> T:
    """Run a program in this task and return its result.

    A cancellation reaches a tool where it awaits. One that arrives while something uninterruptible runs (a ledger
    write, an undo, a release, a tool in a thread) is raised afterwards. When the task is thrown away with its loop, the
    program goes on in a thread, as if cancelled; if it completes there, `behind` runs, since nobody receives the
    result.
    """
    return await _run(program, Patience(), behind)


async def end_async(program: Program[T], *, after: Collection[asyncio.Future[Any]] = ()) -> T:
    """Run a program to its end in this task; a cancellation meanwhile is raised afterwards.

    For the clean-up of a task that leaves with an error. The same task must do it: a cancelled task waits for a hanging
    store no longer than `LEAVING_SECONDS`, and another task would not know of the cancellation. The given futures,
    which may be cancelled as well, are awaited first: their work is over before anything is undone.
    """
    patience = Patience(cut=False)
    if after:
        await uninterrupted(asyncio.gather(*after, return_exceptions=True), patience)
    return await _run(program, patience, None)


@closed
async def _run(program: Program[T], patience: Patience, behind: Callable[[], Program[Any]] | None) -> T:
    up = raise_shield()
    _at_work.add(program)
    try:
        request = next(program)
        while True:
            try:
                if patience.interrupted and patience.is_cut_at(request):
                    raise patience.taken()  # deferred until here, where nothing is cut short
                answer = await _do_async(request, patience)
            except GeneratorExit:
                go_on_apart(program, request, behind)
                raise
            except BaseException as error:
                request = program.throw(error)
            else:
                request = program.send(answer)
    except StopIteration as stop:
        if patience.interrupted:
            raise patience.taken() from None
        result: T = stop.value
        return result
    except Exception as error:
        if patience.interrupted:
            raise patience.taken() from error
        raise
    finally:
        _at_work.discard(program)
        if up:
            lower_shield()


_at_work: set[Program[Any]] = set()
"""The programs that tasks run. A lost task is collected with everything only it refers to; its program, which goes on
in a thread, must not be collected with it."""


class Patience:
    """Whether this task was cancelled while something uninterruptible ran, and by which cancellation.

    A scope may recognise its own cancellation by the message alone, as anyio's do. With `cut=False` no wait is cut
    short either.
    """

    __slots__ = ("_cut", "_message", "interrupted")

    def __init__(self, *, cut: bool = True) -> None:
        self.interrupted = False
        self._cut = cut
        self._message: tuple[Any, ...] = ()

    def is_cut_at(self, request: Request) -> bool:
        """Whether a cancellation is raised while this future is awaited."""
        return self._cut and (type(request) is Wait or (type(request) is Sleep and not request.final))

    @property
    def is_leaving(self) -> bool:
        """Whether this task was cancelled, here or earlier, and the cancellation still stands."""
        task = asyncio.current_task()
        return self.interrupted or (task is not None and task.cancelling() > 0)

    def put_off(self, cancelled: asyncio.CancelledError) -> None:
        """Defer a cancellation; of several the first is raised."""
        if not self.interrupted:
            self.interrupted, self._message = True, cancelled.args

    def taken(self) -> asyncio.CancelledError:
        """Return the deferred cancellation, for the one place that raises it."""
        self.interrupted = False
        return asyncio.CancelledError(*self._message)


async def _do_async(request: Request, patience: Patience) -> Any:
    if type(request) is Act:
        return await _act_async(request, patience)
    if type(request) is Recorded:
        return await _recorded_async(request.pending, patience)
    if type(request) is Together:
        return await _together_async(request)
    assert type(request) is Wait or type(request) is Sleep
    waiting = _wait_async(request) if type(request) is Wait else asyncio.sleep(request.seconds)
    return await (waiting if patience.is_cut_at(request) else uninterrupted(asyncio.ensure_future(waiting), patience))


async def _recorded_async(pending: Pending, patience: Patience) -> Any:
    """Wait for a store's answer, up to its deadline; a cancelled task waits a moment more, then leaves.

    By then a queued step is taken, dropped, or in doubt as its error says: never half done.
    """
    loop = asyncio.get_running_loop()
    inbox = _inboxes.get(loop) or _inboxes.setdefault(loop, _Inbox())
    pending.wake_thread()
    leave_at: float | None = None
    while not pending.done:
        left = pending.remaining
        if patience.is_leaving:
            leave_at = leave_at or loop.time() + LEAVING_SECONDS
            left = min(left, leave_at - loop.time())
        if left <= 0:
            pending.give_up()
            break
        told = loop.create_future()
        pending.watch(partial(inbox.put, loop, told))
        timer = None if left == inf else loop.call_later(left, _wake, told)
        try:
            await told
        except asyncio.CancelledError as error:
            patience.put_off(error)
        finally:
            if timer is not None:
                timer.cancel()
    return pending.result()


def _wake(told: asyncio.Future[None]) -> None:
    if not told.done():
        told.set_result(None)


class _Inbox:
    """Results that threads send to an event loop, delivered in batches: each wake-up of the loop is a system call."""

    __slots__ = ("_called", "_told")

    def __init__(self) -> None:
        self._told: deque[asyncio.Future[None]] = deque()
        self._called = False

    def put(self, loop: asyncio.AbstractEventLoop, told: asyncio.Future[None]) -> None:
        """Resolve a future of this loop soon; may be called from any thread."""
        self._told.append(told)
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is gone, and every waiter with it
                loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        self._called = False  # reset before reading: a later put wakes the loop again
        while self._told:
            told = self._told.popleft()
            if not told.done():
                told.set_result(None)


_inboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Inbox] = WeakKeyDictionary()


async def _together_async(request: Together) -> list[Ended]:
    """Run each program in a task of its own; a cancellation reaches all, and is raised when all have ended."""
    tasks = [
        asyncio.create_task(awaited_to_its_end(run_async(program)), context=outside()) for program in request.programs
    ]
    patience = Patience()
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            patience.put_off(error)
            for task in tasks:
                task.cancel()
    if patience.interrupted:
        raise patience.taken()
    return [_task_ended(task) for task in tasks]


def _task_ended(task: asyncio.Task[Ended]) -> Ended:
    if task.cancelled():
        return Ended(None, asyncio.CancelledError())
    found: Ended = task.result()
    return found


def _carry(carried: Future[Ended], context: Context, act: Act) -> None:
    carried.set_result(ended(context.run, call_with_current, act))


async def _act_async(act: Act, patience: Patience) -> Any:
    if not inspect.iscoroutinefunction(act.function):
        loop = asyncio.get_running_loop()
        context = copy_context()
        act.carried = Future()
        carrying = loop.run_in_executor(executor(), _carry, act.carried, context, act)
        await uninterrupted(carrying, patience)
        answer = outcome_of(act.carried.result())
        if not (is_awaited(answer) or is_of_a_thread(answer)):
            return done(answer, act.function)
        coroutine = answer
    else:
        act.begun = True
        coroutine = through(act.function, **act.arguments)
    if act.final:
        carried = asyncio.ensure_future(awaited_to_its_end(with_current(act, coroutine)))
        return outcome_of(await uninterrupted(carried, patience))
    return await _awaited_here(act, coroutine)


@lifted
async def _awaited_here(act: Act, coroutine: Any) -> Any:
    """Await a tool where signals may be delivered, and tell whether the coroutine was closed meanwhile."""
    return await Through(with_current(act, coroutine))


async def uninterrupted(future: asyncio.Future[Any], patience: Patience) -> Any:
    """Wait for a future to its end, and record a cancellation of this task meanwhile."""
    while True:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError as error:
            if future.cancelled():
                raise
            patience.put_off(error)
            if future.done():
                return future.result()


async def to_its_end(work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for work to its end, as for a thread that nobody can stop; a cancellation is raised later.

    The result is returned, and this task is cancelled at its next await.
    """
    patience = Patience()
    ended = await uninterrupted(asyncio.ensure_future(awaited_to_its_end(work)), patience)
    task = asyncio.current_task()
    if patience.interrupted and task is not None:
        # the same cancellation again: a counter of cancellations, such as `asyncio.timeout`, must find one
        task.uncancel()
        task.cancel(*patience.taken().args)
    return outcome_of(ended)


async def _wait_async(request: Wait) -> bool:
    ticket = request.ticket
    if ticket.fired:
        return True
    if request.seconds <= 0:
        return False
    woken = asyncio.Event()
    # Weak references: a ticket outlives a closed loop, and must not keep the lost task alive. Once the task is
    # collected its program goes on in a thread; until then nobody would end what it began.
    its_loop, its_event = weakref.ref(asyncio.get_running_loop()), weakref.ref(woken)

    def wake() -> None:
        loop, event = its_loop(), its_event()
        if loop is not None and event is not None:
            with suppress(RuntimeError):  # the loop may be gone when the holder ends
                loop.call_soon_threadsafe(event.set)

    ticket.wake = wake
    if ticket.has_fired():
        return True
    try:
        await asyncio.wait_for(woken.wait(), request.seconds)
    except TimeoutError:
        return ticket.has_fired()
    return True
