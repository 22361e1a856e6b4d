"""Signals that arrive while the engine is at work are deferred until they can do no harm.

A signal's handler runs between any two instructions of the main thread and may raise, as Ctrl-C does: in the middle of
a step, with a lock taken, before a clean-up has begun. So handlers are wrapped while the engine works in the main
thread. The stack's frames tell where a signal arrived: inside of functions marked `closed` the signal is deferred;
inside of those marked `lifted` (a tool, a wait), and outside of both, its handler runs at once. A deferred signal is
delivered as soon as the engine reaches a place where nothing is half done and no lock is taken. After `DEFER_SECONDS`
it is delivered inside of functions marked `hanging` as well (an undo, for example), so that a hanging handler can still
be stopped; never in the engine's own work, which ends by its own deadlines even when a store hangs.

Source: Trio's protection of its internals from `KeyboardInterrupt`, which reads the frames too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

DEFER_SECONDS = 10.0
AGAIN_SECONDS = 0.05
"""How soon a deferred signal is sent again."""
HEADROOM = 220
"""Stack frames that the engine may need: with fewer left, nothing is begun."""
_FAULTS = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL", "SIGSEGV", "SIGSTOP", "SIGSYS", "SIGTRAP"}
"""Signals that no function may handle, or whose cause would only come again."""
_SIGNALS = tuple(sorted({int(each) for each in signal.Signals if each.name not in _FAULTS | {"SIGRTMIN", "SIGRTMAX"}}))
_OF_LOOPS = ("asyncio.unix_events", "uvloop.loop")
"""Modules whose handlers do nothing: an event loop is told by a pipe, anew each time that the signal is sent."""

SignalHandler = Callable[[int, FrameType | None], Any]

# The originals: the wrappers in `signal`, which turn numbers into names, cost more than everything else here.
_plain: Any = sys.modules.get("_signal", signal)
_getsignal: Callable[[int], Any] = _plain.getsignal
_signal: Callable[[int, SignalHandler], Any] = _plain.signal
start_bare_thread: Callable[..., int] = threading._start_new_thread  # type: ignore[attr-defined]  # noqa: SLF001

_closed: set[CodeType] = set()
_lifted: set[CodeType] = set()
_hanging: set[CodeType] = set()
_deferred: dict[int, float] = {}
"""Signals that wait, and since when; who takes one out delivers the signal, so that each strikes once."""
_sent: dict[int, float] = {}
"""Deferred signals that were sent again and have not arrived yet, and since when they wait."""
_main = threading.main_thread().ident
_depth = 0
lock_holders: list[int] = []
"""The threads that hold an engine lock, each as often as it holds one: in these no signal is delivered."""
_abandoned: list[None] = []
"""One entry for each `lower_shield` that will never be called, until subtracted from the depth."""


def closed(function: _F) -> _F:
    """Mark a function: signals that arrive in it or its callees are deferred."""
    _closed.add(function.__code__)
    return function


def lifted(function: _F) -> _F:
    """Mark a function: signals that arrive in it or its callees are delivered at once."""
    _lifted.add(function.__code__)
    return function


def hanging(function: _F) -> _F:
    """Mark a function whose callees may hang: signals deferred there are delivered after a while."""
    _hanging.add(function.__code__)
    return function


def shielded(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function that runs with signals deferred, and delivers them when it has returned."""

    @wraps(function)
    def within(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not raise_shield():
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            lower_shield()

    return closed(within)


@closed
def raise_shield() -> bool:
    """Defer signals, in the main thread, until a matching `lower_shield`; return whether they are deferred.

    Raises:
        RecursionError: the stack has no room for the engine's work; nothing was begun.
    """
    global _depth  # noqa: PLW0603 - there is one main thread
    try:
        sys._getframe(sys.getrecursionlimit() - HEADROOM)  # noqa: SLF001 - nothing else tells how deep the stack is
    except ValueError:
        pass
    else:
        raise RecursionError(f"the stack has no room for {HEADROOM} more frames: nothing was run; call from further up")
    if threading.get_ident() != _main:
        return False
    if not _AS_THEY_ARE.issuperset(map(_kind, map(_getsignal, _SIGNALS))):  # one look, since most calls are within
        _wrap()
    if _abandoned:
        _take_abandoned()
    _depth += 1  # after the handlers are wrapped: a signal before this line has interrupted nothing
    return True


@closed
def _wrap() -> None:
    for number in _SIGNALS:
        handler = _getsignal(number)
        if type(handler) is not _Deferring and callable(handler) and not _is_of_loop(handler):
            with suppress(ValueError):  # a subinterpreter has no signals
                _signal(number, _Deferring(handler))


def _is_of_loop(handler: object) -> bool:
    try:
        return getattr(handler, "__module__", None) in _OF_LOOPS
    except Exception:  # a user's class may fail at any attribute
        return False


@closed
def lower_shield(times: int = 1) -> None:
    """Undo one `raise_shield`, or several, and deliver deferred signals unless the caller is shielded too."""
    global _depth  # noqa: PLW0603
    if threading.get_ident() != _main:  # of a block that was entered in the main thread: only that counts
        _abandoned.extend([None] * times)
        return
    _depth -= times
    if _abandoned:
        _take_abandoned()
    try:
        if _deferred and not _is_closed(sys._getframe(2)):  # noqa: SLF001 - the frames tell
            deliver_signals()
    finally:
        if _depth == 0:
            _unwrap()


def abandon_shield() -> None:
    """Note that a `lower_shield` will never be called; handlers stay wrapped until the shield is next lowered.

    The garbage collector may call this in any thread and between any two instructions, and Python drops what a handler
    raises meanwhile: so handlers are not given back here.
    """
    _abandoned.append(None)


@closed
def _take_abandoned() -> None:
    global _depth  # noqa: PLW0603
    while _abandoned:
        _abandoned.pop()
        _depth -= 1


@closed
def _unwrap() -> None:
    for number in _SIGNALS:
        found = _getsignal(number)
        # A handler whose signal is deferred is unwrapped after the delivery.
        if type(found) is _Deferring and not (number in _deferred or number in _sent):
            _signal(number, found.handler)
            if number in _deferred:  # arrived between the two lines
                _signal(number, found)


def deliver_signals() -> None:
    """Deliver the deferred signals here and now.

    Raises:
        BaseException: a signal handler's exception.
    """
    if threading.get_ident() != _main:
        return
    for number in list(_deferred):
        _handle(number, sys._getframe(1))  # noqa: SLF001 - a handler is given the frame


class _Deferring:
    """A signal handler that runs the real one, or defers the signal.

    The real handler is kept here and nowhere else: a user who borrows a signal within a block is given this object as
    the handler from before, and may put it back at any time.
    """

    __slots__ = ("handler",)

    def __init__(self, handler: SignalHandler) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        since = _sent.get(number, _deferred.get(number))
        lasts = since is not None and time.monotonic() - since >= DEFER_SECONDS
        if _is_closed(frame, hangs=lasts):
            _deferred[number] = time.monotonic() if since is None else since
            _sent.pop(number, None)
            if since is None:
                # Not `threading.Thread`: the signal may have arrived in the middle of a thread's start.
                with suppress(RuntimeError):
                    start_bare_thread(_send_again, (number,))
            return
        _deferred.pop(number, None)
        _sent.pop(number, None)
        self.handler(number, frame)


_kind: Callable[[Any], type[Any]] = type
_AS_THEY_ARE = frozenset({int, type(None), _Deferring})
"""Types of the handlers that need no wrapping: ignored or by default, not Python's, wrapped."""


def _handle(number: int, frame: FrameType | None) -> None:
    """Run the real handler of a deferred signal, unless the signal was sent again meanwhile."""
    found = _getsignal(number)
    handler = found.handler if type(found) is _Deferring else found
    try:
        del _deferred[number]  # directly before the call: between the two, no other signal's handler can raise
    except KeyError:
        return
    if callable(handler):
        handler(number, frame)


def _send_again(number: int) -> None:
    """Send a signal again until it is delivered: when the shield is lowered, no code of settlemark may be running."""
    main = _main
    while main is not None and (number in _deferred or number in _sent):
        time.sleep(AGAIN_SECONDS)
        if type(_getsignal(number)) is not _Deferring:
            _sent.pop(number, None)  # the handler that a user has set since was given what was sent
            continue
        since = _deferred.get(number)
        if since is None:
            continue
        _sent[number] = since  # before the signal is taken: handlers stay wrapped as long as it is in either
        if _deferred.pop(number, None) is None:
            _sent.pop(number, None)  # delivered meanwhile
            continue
        with suppress(OSError, RuntimeError):
            signal.pthread_kill(main, number)


def _enter_child() -> None:
    global _main, _depth
    if _main != threading.get_ident():
        _main, _depth = threading.get_ident(), 0  # what the parent's main thread is in is not in the child
        _abandoned.clear()
    _deferred.clear()  # a child inherits no pending signals, nor the thread that would send these again
    _sent.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)


def _is_closed(frame: FrameType | None, *, hangs: bool = False) -> bool:
    """Whether signals are deferred in a frame; with `hangs`, not inside of a callee that may hang."""
    if lock_holders and _main in lock_holders:
        return True
    while frame is not None:
        code = frame.f_code
        if code in _lifted or (hangs and code in _hanging):
            return False
        if code in _closed:
            return True
        frame = frame.f_back
    return False


__all__ = [
    "DEFER_SECONDS",
    "HEADROOM",
    "abandon_shield",
    "closed",
    "deliver_signals",
    "hanging",
    "lifted",
    "lock_holders",
    "lower_shield",
    "raise_shield",
    "shielded",
]
