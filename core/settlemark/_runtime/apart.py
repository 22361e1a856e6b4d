"""Runs a program in a thread of its own, for a caller who cannot wait; the interpreter's end waits for the program.

An undo whose caller was thrown away goes on here. Were its thread stopped between the undo and the record of that, the
next process would undo a second time.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from logging import getLogger
from typing import Any

from settlemark._acts.perform import Program
from settlemark._acts.requests import Act, Recorded, Request
from settlemark._edges.alive import Alive
from settlemark._edges.shield import start_bare_thread
from settlemark._edges.user_code import outcome_of
from settlemark._edges.wording import kind_of
from settlemark._observe.logs import about, quote_of
from settlemark._runtime.call_context import outside
from settlemark._runtime.sync import carry_out, go_on, run_sync
from settlemark.ledger._acts import Acts
from settlemark.ledger._limits import CLOSE_SECONDS

_log = getLogger("settlemark")


class _Mark:
    """A program that runs apart, from before its thread starts until the program has ended."""

    __slots__ = ("over", "thread")

    def __init__(self) -> None:
        self.over = threading.Event()
        self.thread: int | None = None
        """Who runs the program; None while that thread has yet to begin."""
        _marks[self] = None

    def end(self) -> None:
        """Note that the program has ended, or never begins."""
        _marks.pop(self, None)
        self.over.set()


# One step for each change, and no lock: the garbage collector may make a mark while this thread looks.
_marks: dict[_Mark, None] = {}
_open: Alive[Acts] = Alive()


def run_apart(program: Program[Any]) -> None:
    """Run a program to its end in a new thread, for a caller who cannot wait."""
    _start(_Mark(), lambda: run_sync(program))


def run_from_anywhere(program: Callable[..., Program[Any]], *args: object) -> None:
    """Run a program to its end in a new thread, for the garbage collector: its caller may hold any lock."""
    mark = _Mark()

    def apart() -> None:
        _start(mark, lambda: run_sync(program(*args)))

    try:
        start_bare_thread(apart, ())  # not `threading.Thread`: the caller may be in the middle of a thread's start
    except RuntimeError:
        mark.end()


def go_on_apart(program: Program[Any], request: Request, behind: Callable[[], Program[Any]] | None) -> None:
    """Continue in a thread with a program whose task was thrown away; the program receives a cancellation."""

    def to_its_end() -> None:
        try:
            go_on(program, request, _what_came_of)
        except StopIteration:
            if behind is not None:
                run_sync(behind())

    _start(_Mark(), to_its_end)


def _start(mark: _Mark, run: Callable[[], object]) -> None:
    def to_its_end() -> None:
        mark.thread = threading.get_ident()
        try:
            run()
        except BaseException as error:  # nobody is there to receive the exception
            _log.warning(
                "abandoned work has ended with an error: %s", quote_of(error), extra=about(error=kind_of(error))
            )
        finally:
            mark.end()

    # While the interpreter ends, a thread never begins, and its `start` waits for it: the next process takes this up.
    if not sys.is_finalizing():
        with suppress(RuntimeError):  # newer interpreters start none as they end
            threading.Thread(target=outside().run, args=(to_its_end,), name="settlemark-apart", daemon=True).start()
            return
    mark.end()


def _what_came_of(request: Request) -> Any:
    """Answer the request of a task that was thrown away, or raise a cancellation."""
    if type(request) is Recorded:
        return carry_out(request)  # the step is queued, and will be taken
    if type(request) is Act and request.carried is not None:
        return outcome_of(request.carried.result())  # a thread is still at work on it
    raise asyncio.CancelledError


def wait_for_apart(seconds: float = CLOSE_SECONDS) -> None:
    """Wait until every program that runs apart has ended, except one of this thread; at most so many seconds."""
    here, deadline = threading.get_ident(), time.monotonic() + seconds
    for mark in list(_marks):
        if mark.thread != here:
            mark.over.wait(max(0.0, deadline - time.monotonic()))


def wait_at_exit_for(acts: Acts) -> None:
    """Have the interpreter's normal end wait for these acts, and for programs that run apart, before ledgers close."""
    _open.add(acts)
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)  # what was registered last is called first


def _at_exit() -> None:
    deadline = time.monotonic() + CLOSE_SECONDS
    wait_for_apart(CLOSE_SECONDS)
    for acts in _open:
        acts.wait(deadline - time.monotonic())


def _enter_child() -> None:
    _marks.clear()  # the threads are the parent's, and so are the acts
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)

__all__ = ["go_on_apart", "run_apart", "run_from_anywhere", "wait_at_exit_for", "wait_for_apart"]
