"""Who carries out what a driver's program asks for: a thread, or an event loop.

Both do the same with the same requests. A tool that is the other kind still works: a synchronous
tool under asyncio runs in a worker thread, an async handler under threads in a loop of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from contextvars import Context, copy_context
from functools import partial
from math import inf
from typing import Any, Never
from weakref import WeakKeyDictionary

from settlemark._acts.current import _current
from settlemark._acts.perform import Program
from settlemark._acts.requests import Act, Pending, Recorded, Request, Sleep, Together, Wait
from settlemark._edges.door import (
    Ended,
    Through,
    awaited,
    awaited_to_its_end,
    done,
    ended,
    is_awaited,
    is_of_a_thread,
    outcome_of,
    through,
)
from settlemark._edges.errors import WouldBlock
from settlemark._edges.shield import (
    closed,
    hanging,
    lifted,
    lower_shield,
    raise_shield,
    refuse_too_deep,
    shielded,
    start_bare_thread,
    strike,
)
from settlemark._edges.wording import kind_of
from settlemark._observe.logs import about, quote_of
from settlemark._runtime.threads import executor

_log = logging.getLogger("settlemark")

LEAVING_SECONDS = 0.5
"""For how long one who was cancelled still waits for the store: a step that is being taken is over by then."""


@closed
def call_with_current(act: Act, *, strikes: bool = False) -> Any:
    """Call an act's function with `current_call()` set; with `strikes` a signal may strike in it.

    Around it none may: struck between two instructions here, the thread would stay inside of a call that is over.
    """
    act.begun = True
    before = _current.get()
    try:
        if act.current is not None:
            _current.set(act.current._begun())  # noqa: SLF001 - a runner is what begins a call
        return _struck(act) if strikes else _called(act)
    finally:
        _current.set(before)


@lifted
def _struck(act: Act) -> Any:
    return _called(act)


def _called(act: Act) -> Any:
    around = act.around if act.current is None else act.current._around  # noqa: SLF001
    if around is None:
        return through(act.function, **act.arguments)
    with around():
        return through(act.function, **act.arguments)


@lifted
def _call_here(act: Act) -> Any:
    """Call an act's function where a signal may strike; what was put off until now strikes before it."""
    strike()
    return call_with_current(act, strikes=True)


@shielded
def run_sync(program: Program) -> Any:
    """Run a program in this thread and return its result.

    Raises:
        WouldBlock: it would have to wait, and this thread runs an event loop; nothing was run.
    """
    try:
        request = next(program)
        return _go_on(program, request, _do_sync)
    except StopIteration as stop:
        return stop.value


def _go_on(program: Program, request: Request, do: Callable[[Request], Any]) -> Never:
    """Carry out what a program asks for, from this request on; the first of it is for `do`.

    Raises:
        StopIteration: the program has ended. Else what it raised.
    """
    while True:
        try:
            answer = do(request)
        except BaseException as error:
            request = program.throw(error)
        else:
            request = program.send(answer)
        do = _do_sync


def run_apart(program: Program) -> None:
    """Run a program to its end in a thread, for a caller who can wait for nothing."""
    _start_apart(lambda: run_sync(program))


def run_from_anywhere(program: Callable[..., Program], *args: object) -> None:
    """Run a program to its end in a thread, for the collector: its caller may be anywhere, with any lock taken."""

    def apart() -> None:
        run_apart(program(*args))

    with suppress(RuntimeError):
        start_bare_thread(apart, ())  # not `threading.Thread`: this may have come in the midst of one's start


def _start_apart(run: Callable[[], object]) -> None:
    def to_its_end() -> None:
        try:
            run()
        except BaseException as error:  # nobody is there to hear of it
            _log.warning("what was left alone has ended: %s", quote_of(error), extra=about(error=kind_of(error)))

    with suppress(RuntimeError):  # the interpreter ends, and with it this process: the next one takes it up
        threading.Thread(target=_outside().run, args=(to_its_end,), name="settlemark-apart", daemon=True).start()


def _go_on_apart(program: Program, request: Request, behind: Callable[[], Program] | None) -> None:
    """Go on in a thread with a program whose task was thrown away; it learns that as a cancellation."""

    def to_its_end() -> None:
        try:
            _go_on(program, request, _what_came_of)
        except StopIteration:
            if behind is not None:
                run_sync(behind())

    _start_apart(to_its_end)


def _what_came_of(request: Request) -> Any:
    """Answer what a task asked for before it was thrown away, or raise a cancellation."""
    if type(request) is Recorded:
        return _do_sync(request)  # the step is queued, and taken
    if type(request) is Act and request.carried is not None:
        return outcome_of(request.carried.result())  # a thread still is at it
    raise asyncio.CancelledError


def _do_sync(request: Request) -> Any:
    if type(request) is Act:
        answer = call_with_current(request) if request.final else _call_here(request)
        if is_of_a_thread(answer):
            answer = _result_of(answer)
        return _run_coroutine(_with_current(request, answer)) if is_awaited(answer) else done(answer, request.function)
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
    strike()
    time.sleep(seconds)


def _together_sync(request: Together) -> list[Ended]:
    """Run each program in a thread of its own, and a lone one here; an interrupt waits until all have ended."""
    if len(request.programs) == 1:
        return [_outside().run(_ended, request.programs[0])]
    found = [Ended(None)] * len(request.programs)

    def run(number: int, program: Program) -> None:
        found[number] = _ended(program)

    threads = [
        threading.Thread(target=_outside().run, args=(run, number, program), name=f"settlemark-branch-{number}")
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


def _ended(program: Program) -> Ended:
    try:
        return Ended(run_sync(program))
    except BaseException as error:
        return Ended(None, error)


def _outside() -> Context:
    """Return a copy of this context that is inside of no call."""
    context = copy_context()
    context.run(_current.set, None)
    return context


@lifted
def _wait_sync(request: Wait) -> bool:
    strike()
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
            holder=request.holder, scope=request.scope,
        )  # fmt: skip
    woken = threading.Event()
    ticket.wake = woken.set
    # Whoever fired it before it was armed has not called `wake`.
    return ticket.has_fired() or woken.wait(request.seconds) or ticket.has_fired()


def in_event_loop() -> bool:
    """Whether this thread is running an event loop, which a wait would block."""
    return running_loop() is not None


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that this thread is running, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


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


async def run_async(program: Program, *, behind: Callable[[], Program] | None = None) -> Any:
    """Run a program in this task and return its result.

    A cancellation reaches a tool where it awaits. One that arrives while something runs that must
    not be cut short (a ledger write, an undo, a release, a tool in a thread) is raised afterwards.
    Thrown away (a task that is lost with its loop) it goes on in a thread, as if it had been cancelled;
    `behind` is run there when it has come to its end all the same, since nobody hears of its result.
    """
    return await _run(program, Patience(), behind)


async def end_async(program: Program, *, after: Collection[asyncio.Future[Any]] = ()) -> Any:
    """Run a program to its end in this task, also when that is cancelled meanwhile: the cancellation comes behind it.

    For what whoever leaves with an error owes. It has to be this task: who has been cancelled waits for a store that
    hangs no longer than `LEAVING_SECONDS`, and another task would not know. First these futures, which may be cancelled
    as well, are waited for: what they do is over before anything is undone.
    """
    patience = Patience(cut=False)
    if after:
        await uninterrupted(asyncio.gather(*after, return_exceptions=True), patience)
    return await _run(program, patience, None)


@closed
async def _run(program: Program, patience: Patience, behind: Callable[[], Program] | None) -> Any:
    refuse_too_deep()
    up = raise_shield()
    _at_work.add(program)
    try:
        request = next(program)
        while True:
            try:
                if patience.interrupted and patience.is_cut_at(request):
                    raise patience.taken()  # put off until now; here nothing is cut short
                answer = await _do_async(request, patience)
            except GeneratorExit:
                _go_on_apart(program, request, behind)
                raise
            except BaseException as error:
                request = program.throw(error)
            else:
                request = program.send(answer)
    except StopIteration as stop:
        if patience.interrupted:
            raise patience.taken() from None
        return stop.value
    except Exception as error:
        if patience.interrupted:
            raise patience.taken() from error
        raise
    finally:
        _at_work.discard(program)
        if up:
            lower_shield()


_at_work: set[Program] = set()
"""The programs of tasks. A task that is lost is thrown away with all that only it has: not so its program, which goes
on apart, and which the collector would else close in the midst of that."""


class Patience:
    """Whether this task was cancelled while something ran that must not be cut short, and by whom.

    Who cancelled may know its own cancellation by the message alone, as anyio's scopes do. With `cut=False` no wait is
    cut short either.
    """

    __slots__ = ("_cut", "_message", "interrupted")

    def __init__(self, *, cut: bool = True) -> None:
        self.interrupted = False
        self._cut = cut
        self._message: tuple[Any, ...] = ()

    def is_cut_at(self, request: Request) -> bool:
        """Whether a cancellation is raised where this is waited for."""
        return self._cut and (type(request) is Wait or (type(request) is Sleep and not request.final))

    @property
    def is_leaving(self) -> bool:
        """Whether this task was cancelled, here or before it came here, and nobody has taken that back."""
        task = asyncio.current_task()
        return self.interrupted or (task is not None and task.cancelling() > 0)

    def put_off(self, cancelled: asyncio.CancelledError) -> None:
        """Take note of a cancellation; of several the first is raised."""
        if not self.interrupted:
            self.interrupted, self._message = True, cancelled.args

    def taken(self) -> asyncio.CancelledError:
        """Return the cancellation that was put off, for the one place that raises it."""
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
    """Wait for a store's answer, not for longer than its time; who is cancelled gives it a moment more, and leaves.

    What was queued is taken by then, or never is, or is in doubt, as its error says: never half.
    """
    loop = asyncio.get_running_loop()
    mail = _mail.get(loop) or _mail.setdefault(loop, _Mail())
    pending.hurry()
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
        pending.watch(partial(mail.put, loop, told))
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


class _Mail:
    """What an event loop is to be told by another thread: all of it at once, because each telling is a system call."""

    __slots__ = ("_called", "_told")

    def __init__(self) -> None:
        self._told: deque[asyncio.Future[None]] = deque()
        self._called = False

    def put(self, loop: asyncio.AbstractEventLoop, told: asyncio.Future[None]) -> None:
        """Have a future of this loop done soon, from whatever thread."""
        self._told.append(told)
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is gone, and with it whoever waits
                loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        self._called = False  # before the look: what comes behind that calls again
        while self._told:
            told = self._told.popleft()
            if not told.done():
                told.set_result(None)


_mail: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mail] = WeakKeyDictionary()


async def _together_async(request: Together) -> list[Ended]:
    """Run each program in a task of its own; a cancellation reaches all of them, and waits until they have ended."""
    tasks = [
        asyncio.create_task(awaited_to_its_end(run_async(program)), context=_outside()) for program in request.programs
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
        carried = asyncio.ensure_future(awaited_to_its_end(_with_current(act, coroutine)))
        return outcome_of(await uninterrupted(carried, patience))
    return await _awaited_here(act, coroutine)


@lifted
async def _awaited_here(act: Act, coroutine: Any) -> Any:
    """Await a tool where a signal may strike, as one who knows whether it was thrown away in it."""
    return await Through(_with_current(act, coroutine))


async def _with_current(act: Act, work: Any) -> Any:
    if act.current is None:
        return await _surrounded(act.around, act, work)
    token = _current.set(act.current._begun())  # noqa: SLF001
    try:
        return await _surrounded(act.current._around, act, work)  # noqa: SLF001
    finally:
        with suppress(ValueError):  # it is thrown away by a collector that runs in another context
            _current.reset(token)


async def _surrounded(around: Callable[[], AbstractContextManager[None]] | None, act: Act, work: Any) -> Any:
    if around is None:
        return await awaited(work, act.function)
    with around():
        return await awaited(work, act.function)


async def uninterrupted(future: asyncio.Future[Any], patience: Patience) -> Any:
    """Wait for a future to the end, and note when this task is cancelled meanwhile."""
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
    """Wait for work to its end, as for a thread that nobody can stop; a cancellation comes behind it.

    The result is returned, and where this task awaits next it is cancelled.
    """
    patience = Patience()
    found = await uninterrupted(asyncio.ensure_future(work), patience)
    task = asyncio.current_task()
    if patience.interrupted and task is not None:
        task.uncancel()  # it is the same cancellation: whoever counts them, as `asyncio.timeout` does, finds one
        task.cancel(*patience.taken().args)
    return found


async def _wait_async(request: Wait) -> bool:
    ticket = request.ticket
    if ticket.fired:
        return True
    if request.seconds <= 0:
        return False
    woken = asyncio.Event()
    # Both weakly: a ticket outlives a loop that is closed, and must not keep the task that was lost with it. Thrown
    # away, that goes on in a thread; till then nobody would end what it had begun.
    its_loop, its_event = weakref.ref(asyncio.get_running_loop()), weakref.ref(woken)

    def wake() -> None:
        loop, event = its_loop(), its_event()
        if loop is not None and event is not None:
            with suppress(RuntimeError):  # the loop may be gone when the one who is waited for ends
                loop.call_soon_threadsafe(event.set)

    ticket.wake = wake
    if ticket.has_fired():
        return True
    try:
        await asyncio.wait_for(woken.wait(), request.seconds)
    except TimeoutError:
        return ticket.has_fired()
    return True
