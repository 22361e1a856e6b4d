"""Signals that arrive while the engine is at work are put off until they may strike.

A signal's handler runs between any two instructions of the main thread, and may raise, as Ctrl-C does: in the midst of
a step, with a lock taken, before a clean-up has begun. While the engine is at work in the main thread, handlers are
wrapped. Where a signal arrives is told by the frames: inside of functions marked `closed` it is put off, inside of
those marked `lifted` (a tool, a wait) and outside of both its handler runs at once. It runs as soon as the engine comes
to a place where it may, for then nothing is half done, and no lock is taken. After `PUT_OFF_SECONDS` it runs in a
function marked `hanging` as well, an undo say, so that one that hangs can still be stopped; never in the engine's own
work, which a store that hangs cannot keep from its end, since it has deadlines of its own.

Source: Trio's protection of its internals from `KeyboardInterrupt`, which tells by the frames, too.
"""

from __future__ import annotations

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

PUT_OFF_SECONDS = 10.0
AGAIN_SECONDS = 0.05
"""How soon a signal that was put off is sent again."""
HEADROOM = 220
"""Frames that the engine may need: nothing is begun where there are fewer."""
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_SIGNALS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))

Striking = Callable[[int, FrameType | None], Any]

# What `signal` wraps these in, to tell of them by names, takes longer than all else here.
_plain: Any = sys.modules.get("_signal", signal)
_getsignal: Callable[[int], Any] = _plain.getsignal
_signal: Callable[[int, Striking], Any] = _plain.signal
start_bare_thread: Callable[..., int] = threading._start_new_thread  # type: ignore[attr-defined]  # noqa: SLF001

_closed: set[CodeType] = set()
_lifted: set[CodeType] = set()
_hanging: set[CodeType] = set()
_wrapped: dict[int, Striking] = {}
_put_off: dict[int, float] = {}
_depth = 0
_locks = 0
_forgone: list[None] = []
"""One for each call of `lower_shield` that will never come, until it is taken off the depth."""


def closed(function: _F) -> _F:
    """Mark a function: signals that arrive in it, and in what it calls, are put off."""
    _closed.add(function.__code__)
    return function


def lifted(function: _F) -> _F:
    """Mark a function: signals that arrive in it, and in what it calls, strike at once."""
    _lifted.add(function.__code__)
    return function


def hanging(function: _F) -> _F:
    """Mark a function: what it calls may hang, so signals that were put off in it strike there after a while."""
    _hanging.add(function.__code__)
    return function


def shielded(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a function in which signals are put off, and strike when it has returned."""

    @wraps(function)
    def within(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        refuse_too_deep()
        if not raise_shield():
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            lower_shield()

    return closed(within)


def refuse_too_deep() -> None:
    """Return when the stack has room for the engine's work.

    Raises:
        RecursionError: it has not; nothing was begun.
    """
    try:
        sys._getframe(sys.getrecursionlimit() - HEADROOM)  # noqa: SLF001 - nothing else tells how deep the stack is
    except ValueError:
        return
    raise RecursionError(f"the stack has no room for {HEADROOM} more frames: nothing was run; call from further up")


@closed
def raise_shield() -> bool:
    """Put signals off, in the main thread, until as many calls of `lower_shield`; return whether they are."""
    global _depth  # noqa: PLW0603 - there is one main thread
    if threading.get_ident() != _main():
        return False
    for number in _SIGNALS:
        handler = _getsignal(number)
        if handler is not _meet and callable(handler):
            _wrapped[number] = handler
            with suppress(ValueError):  # a subinterpreter has no signals
                _signal(number, _meet)
    _take_forgone()
    _depth += 1  # when all are met: one that strikes before has begun nothing
    return True


@closed
def lower_shield() -> None:
    """Take back one call of `raise_shield`, and let strike what was put off, unless the caller is shielded, too."""
    global _depth  # noqa: PLW0603
    _depth -= 1
    _take_forgone()
    try:
        if _put_off and not _is_closed(sys._getframe(2)):  # noqa: SLF001 - the frames tell
            strike()
    finally:
        if _depth == 0 and threading.get_ident() == _main():
            _unwrap()


@closed
def forgo_lowering() -> None:
    """Say, as the collector may in any thread and between any two instructions, that a `lower_shield` never comes."""
    _forgone.append(None)
    if threading.get_ident() == _main() and not _is_closed(sys._getframe(1).f_back):  # noqa: SLF001 - as above
        _take_forgone()
        if _depth == 0:
            _unwrap()


@closed
def _take_forgone() -> None:
    global _depth  # noqa: PLW0603
    while _forgone:
        _forgone.pop()
        _depth -= 1


@closed
def _unwrap() -> None:
    for number, handler in list(_wrapped.items()):
        if number in _put_off:
            continue  # whoever sends it again finds it met here
        if _getsignal(number) is _meet:
            _signal(number, handler)
            if number in _put_off:  # it came between the two
                _signal(number, _meet)
                continue
        _wrapped.pop(number, None)


def strike() -> None:
    """Let strike, here and now, what was put off.

    Raises:
        BaseException: what a signal's handler raises.
    """
    if threading.get_ident() != _main():
        return
    while _put_off:
        number, _ = _put_off.popitem()
        _handle(number, sys._getframe(1))  # noqa: SLF001 - that is what a handler is given


def _meet(number: int, frame: FrameType | None) -> None:
    """Run a signal's handler, or put that off."""
    since = _put_off.get(number)
    lasts = since is not None and time.monotonic() - since >= PUT_OFF_SECONDS
    if _is_closed(frame, hangs=lasts):
        if since is None:
            _put_off[number] = time.monotonic()
            # Not `threading.Thread`: this may have come in the midst of one's start.
            with suppress(RuntimeError):
                start_bare_thread(_send_again, (number,))
        return
    _put_off.pop(number, None)
    _handle(number, frame)


def _handle(number: int, frame: FrameType | None) -> None:
    handler = _wrapped.get(number)
    if handler is None:
        found = _getsignal(number)
        handler = found if callable(found) else None
    if handler is not None:
        handler(number, frame)


def _send_again(number: int) -> None:
    """Send a signal again until it has struck: where the engine lifts its shield it may be in no code of ours."""
    main = _main()
    while number in _put_off and main is not None:
        time.sleep(AGAIN_SECONDS)
        if number in _put_off and _getsignal(number) is _meet:
            with suppress(OSError, RuntimeError):
                signal.pthread_kill(main, number)


def locked() -> None:
    """Note that this thread holds a lock of the engine's: until `unlocked` no signal strikes here."""
    global _locks  # noqa: PLW0603 - there is one main thread
    if threading.get_ident() == _main():
        _locks += 1


def unlocked() -> None:
    """Note that it has let go of it."""
    global _locks  # noqa: PLW0603
    if threading.get_ident() == _main():
        _locks -= 1


def _main() -> int | None:
    return threading.main_thread().ident


def _is_closed(frame: FrameType | None, *, hangs: bool = False) -> bool:
    """Whether signals are put off in a frame; with `hangs`, not so where what is called may hang."""
    if _locks:
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
    "HEADROOM", "PUT_OFF_SECONDS", "closed", "forgo_lowering", "hanging", "lifted", "locked", "lower_shield",
    "raise_shield", "refuse_too_deep", "shielded", "strike", "unlocked",
]  # fmt: skip
