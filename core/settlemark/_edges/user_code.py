"""The one place where users' functions are called.

A function's exception travels through generators and futures, where three exceptions have a meaning of their own:
`StopIteration` ends a generator, or is lost in a future whose task then waits for ever; `GeneratorExit` says that a
program was thrown away. When a user's function raises one of these, it is turned into an ordinary failure of that call.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import _GeneratorContextManagerBase  # pyright: ignore[reportPrivateUsage] - what @contextmanager makes
from functools import partial, partialmethod
from io import IOBase
from threading import Thread
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, ClassVar, NamedTuple, TypeVar

from settlemark._edges.errors import SettlemarkError
from settlemark._edges.shield import hanging
from settlemark._edges.wording import in_words

_T = TypeVar("_T")
# Annotated with Any: a type checker finds the type of an `Any` partly unknown.
_kind: Callable[[Any], type[Any]] = type
_LAZY = (_GeneratorContextManagerBase,)
_CALLED = (FunctionType, BuiltinFunctionType, MethodType, partial, partialmethod)
_PROCESSES = (
    ("subprocess", "Popen"),
    ("multiprocessing.process", "BaseProcess"),
    ("asyncio.subprocess", "Process"),
)

STOPS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions that must not travel through generators."""


class Ended(NamedTuple):
    """The outcome of a call or a program: the value returned, or the exception raised."""

    value: Any
    error: BaseException | None = None


@hanging
def through(function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
    """Call a user's function.

    Raises:
        RuntimeError: the function raised an exception that would end a generator; that exception is the cause.
        BaseException: the function's own exception.

    >>> through(next, iter([]))
    Traceback (most recent call last):
    RuntimeError: next raised StopIteration
    """
    try:
        return function(*args, **kwargs)
    except STOPS as error:
        raise stopped(error, function) from error


def ended(function: Callable[..., Any], /, *args: Any) -> Ended:
    """Return a call's outcome as a value: a future may lose an exception, and an exception may end the event loop."""
    try:
        return Ended(through(function, *args))
    except BaseException as error:
        return Ended(None, error)


async def awaited_to_its_end(coroutine: Awaitable[Any]) -> Ended:
    """Await something and return its outcome as a value, for a task of its own; see `ended`.

    A thread's `GeneratorExit` reaches a task by being thrown into its coroutine, which closes whatever that awaits: as
    the error of a future it would close the caller of the task as well, and nobody would undo what they had begun.
    """
    try:
        return Ended(await coroutine)
    except BaseException as error:
        return Ended(None, error)


def outcome_of(end: Ended) -> Any:
    """Return the value of an outcome, or raise its exception."""
    if end.error is None:
        return end.value
    try:
        raise end.error
    finally:
        del end  # else the traceback would keep itself alive


def stopped(error: BaseException, function: object) -> RuntimeError:
    """Return the ordinary failure that stands in for an exception that must not travel."""
    return RuntimeError(f"{_name_of(function)} raised {in_words(error)}")


def _name_of(function: object) -> str:
    try:
        name = getattr(function.func if isinstance(function, partial) else function, "__name__", None)
    except Exception:  # a user's class may fail at any attribute
        name = None
    return name if isinstance(name, str) else "a function"


class Unfinished(SettlemarkError):
    """A function returned work that is not done yet: the function may have acted before returning, or not."""

    remedy: ClassVar[str] = (
        "Let the function do its work before it returns: await the coroutine, iterate over the generator, call the"
        " function, join the thread."
    )


_PLAIN = frozenset({type(None), str, int, float, bool, bytes, dict, list, tuple})
"""Types of answers that are no work yet to be done, and need not be awaited."""
_dict: Any = dict
_SCALARS = _PLAIN - {dict, list, tuple}
_HOLDING: tuple[type[Any], ...] = (dict, list, tuple, set, frozenset)
_MAKES_A_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def is_lazy_function(function: object) -> bool:
    """Whether calling a function only makes a generator, sync or async, and does nothing.

    >>> def book(): yield "room"
    >>> is_lazy_function(book), is_lazy_function(partial(book)), is_lazy_function(print)
    (True, True, False)
    """
    if type(function) is FunctionType:
        return bool(function.__code__.co_flags & _MAKES_A_GENERATOR)
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004 - what is called, not whether it can be
    both = (function,) if inspect.isroutine(function) else (function, called)
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in both)


def is_awaited(answer: object) -> bool:
    """Whether an answer must be awaited."""
    return _kind(answer) not in _PLAIN and inspect.isawaitable(answer)


def done(answer: _T, function: object) -> _T:
    """Return a function's answer, unless that answer is work yet to be done, or holds such work.

    Raises:
        Unfinished: the answer is a generator, another iterator, a context manager that nobody has entered, a function,
            or a thread or process that is not over; or one of these, or what must be awaited, is in its lists, tuples,
            sets and mappings.
    """
    kind = _kind(answer)
    if kind in _SCALARS or (kind is dict and _SCALARS.issuperset(map(_kind, _dict.values(answer)))):  # as most are
        return answer
    if _is_work(answer, kind):
        raise unfinished(kind.__name__, function)
    if issubclass(kind, _HOLDING) and (held := _work_within(answer)) is not None:
        raise unfinished(f"{kind.__name__} with a {held.__name__} in it", function)
    return answer


def _is_work(answer: Any, kind: type[Any]) -> bool:
    """Whether an answer is work that waits to be called, iterated over or entered, or that goes on elsewhere."""
    if kind in _PLAIN:
        return False
    if issubclass(kind, (*_LAZY, Iterator, AsyncIterator)):
        return not issubclass(kind, IOBase)
    return issubclass(kind, _CALLED) or (issubclass(kind, _runners()) and not _is_over(answer))


def _runners() -> tuple[type[Any], ...]:
    """Return the classes of threads and processes, without importing what nobody has imported."""
    loaded = ((sys.modules.get(module), name) for module, name in _PROCESSES)
    return (Thread, *(getattr(module, name) for module, name in loaded if module is not None))


def _is_over(runner: Any) -> bool:
    if isinstance(runner, Thread):
        return runner.ident is not None and not runner.is_alive()
    poll = getattr(runner, "poll", None)
    ended = poll() if callable(poll) else getattr(runner, "exitcode", getattr(runner, "returncode", None))
    return ended is not None


def _work_within(answer: Any) -> type[Any] | None:
    """Return the class of work yet to be done that a container holds, however deep; the methods are not the user's."""
    todo: list[Any] = [answer]
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        kind = _kind(each)
        if kind in _SCALARS:
            continue
        if _is_work(each, kind) or (_is_to_be_awaited(kind) and not _is_completed(each)):
            return kind
        holding = next((known for known in _HOLDING if issubclass(kind, known)), None)
        if holding is not None and id(each) not in seen:
            seen.add(id(each))
            todo.extend(_dict.values(each) if holding is dict else holding.__iter__(each))
    return None


def _is_to_be_awaited(kind: type[Any]) -> bool:
    return issubclass(kind, (Awaitable, Future))


def _is_completed(answer: Any) -> bool:
    return isinstance(answer, (asyncio.Future, Future)) and answer.done()


def unfinished(what: str, function: object) -> Unfinished:
    """Return the error for a function that returned work instead of doing it."""
    return Unfinished(
        f"{_name_of(function)} returned a {what}, which is work that has not been done yet: do the work before you"
        " return, and return its result"
    )


def _loop_of(answer: Any) -> asyncio.AbstractEventLoop | None:
    """Return the event loop that a task or a future belongs to."""
    return answer.get_loop() if isinstance(answer, asyncio.Future) else None


def is_of_a_thread(answer: object) -> bool:
    """Whether an answer is a future that a thread, not an event loop, completes."""
    return isinstance(answer, Future)


async def awaited(answer: Any, function: object) -> Any:
    """Await an answer until it is no awaitable any more, and return it.

    Raises:
        Unfinished: the awaitable belongs to another event loop, or the final answer is unfinished work.
    """
    while is_awaited(answer):
        if _loop_of(answer) not in (None, asyncio.get_running_loop()):
            raise unfinished(f"{_kind(answer).__name__} of another event loop", function)
        answer = await (Through(answer) if inspect.iscoroutine(answer) else answer)
    if is_of_a_thread(answer):
        answer = await awaited(asyncio.wrap_future(answer), function)
    return done(answer, function)


class Through:
    """Awaits a user's coroutine, and tells its exceptions from being closed.

    Closing a coroutine calls its `close`; a `GeneratorExit` out of `send` is the user's own. When the coroutine raises
    or awaits while it is closed, the callers around it still see that they were closed.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return self

    def __iter__(self) -> Through:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Resume the coroutine."""
        try:
            return self._coroutine.send(value)
        except GeneratorExit as error:
            raise stopped(error, self._coroutine) from error

    def throw(self, *error: Any) -> Any:
        """Resume the coroutine with an exception."""
        try:
            return self._coroutine.throw(*error)
        except GeneratorExit as raised:
            raise stopped(raised, self._coroutine) from raised

    def close(self) -> None:
        """Close the coroutine.

        Raises:
            GeneratorExit: the coroutine did not end quietly; its exception is the cause.
        """
        try:
            self._coroutine.close()
        except BaseException as error:
            raise GeneratorExit from error


__all__ = ["STOPS", "Ended", "Through", "awaited_to_its_end", "ended", "outcome_of", "stopped", "through"]
