"""The one door through which functions of the user's are called.

What a function raises travels through generators and futures. Three exceptions mean something of their own there: a
`StopIteration` ends a generator, or is lost in a future, for which its task then waits for ever; a `GeneratorExit`
says that a program was thrown away. Raised by a user's function they mean neither: here they become what they are,
an ordinary failure of that call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import _GeneratorContextManagerBase  # pyright: ignore[reportPrivateUsage] - what @contextmanager makes
from functools import partial
from io import IOBase
from typing import Any, ClassVar, NamedTuple, TypeVar

from settlemark._edges.errors import SettlemarkError
from settlemark._edges.shield import hanging
from settlemark._edges.wording import in_words

_T = TypeVar("_T")
# `type` itself, annotated: a checker takes the type of an `Any` for partly unknown.
_kind: Callable[[Any], type[Any]] = type
_LAZY = (_GeneratorContextManagerBase,)

STOPS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""What must not travel as it is."""


class Ended(NamedTuple):
    """What became of a call, or of a program: what it returned, or what it raised."""

    value: Any
    error: BaseException | None = None


@hanging
def through(function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
    """Call a function of the user's.

    Raises:
        RuntimeError: it raised what ends generators; that is the cause. Else what it raised.

    >>> through(next, iter([]))
    Traceback (most recent call last):
    RuntimeError: next raised StopIteration
    """
    try:
        return function(*args, **kwargs)
    except STOPS as error:
        raise stopped(error, function) from error


def ended(function: Callable[..., Any], /, *args: Any) -> Ended:
    """Return what came of a call as a value: in a future an exception may be lost, or end the loop."""
    try:
        return Ended(through(function, *args))
    except BaseException as error:
        return Ended(None, error)


async def awaited_to_its_end(coroutine: Awaitable[Any]) -> Ended:
    """Do as `ended`, for what is awaited."""
    try:
        return Ended(await coroutine)
    except GeneratorExit:
        raise  # it is this coroutine that is thrown away: see `Through`
    except BaseException as error:
        return Ended(None, error)


def outcome_of(end: Ended) -> Any:
    """Return what a call returned, or raise what it raised."""
    if end.error is None:
        return end.value
    try:
        raise end.error
    finally:
        del end  # or its traceback would keep itself


def stopped(error: BaseException, function: object) -> RuntimeError:
    """Return the ordinary failure that stands for what must not travel as it is."""
    return RuntimeError(f"{_name_of(function)} raised {in_words(error)}")


def _name_of(function: object) -> str:
    try:
        name = getattr(function.func if isinstance(function, partial) else function, "__name__", None)
    except Exception:  # a class of the user's may fail at any attribute
        name = None
    return name if isinstance(name, str) else "a function"


class Unfinished(SettlemarkError):
    """What a function answered is work that nobody has done yet: it may have acted before that, or not."""

    remedy: ClassVar[str] = (
        "Let the function do its work before it returns: await the coroutine, or iterate over the generator."
    )


_PLAIN = frozenset({type(None), str, int, float, bool, bytes, dict, list, tuple})


def is_lazy_function(function: object) -> bool:
    """Whether calling a function does nothing: it makes a generator, sync or async.

    >>> def book(): yield "room"
    >>> is_lazy_function(book), is_lazy_function(partial(book)), is_lazy_function(print)
    (True, True, False)
    """
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004 - what is called, not whether it can be
    both = (function,) if inspect.isroutine(function) else (function, called)
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in both)


def is_awaited(answer: object) -> bool:
    """Whether an answer is there only when somebody has awaited it."""
    return _kind(answer) not in _PLAIN and inspect.isawaitable(answer)


def done(answer: _T, function: object) -> _T:
    """Return a function's answer, if that is one, and no work yet to be done.

    Raises:
        Unfinished: it is a generator, another iterator, or a context manager that nobody has entered.
    """
    kind = _kind(answer)
    if kind in _PLAIN or not isinstance(answer, (*_LAZY, Iterator, AsyncIterator)) or isinstance(answer, IOBase):
        return answer
    raise unfinished(kind.__name__, function)


def unfinished(what: str, function: object) -> Unfinished:
    """Return the error that says that a function has not done its work."""
    return Unfinished(
        f"{_name_of(function)} answered with a {what}, which is work that has not been done yet: do it before you"
        " return, and return what came of it"
    )


def _loop_of(answer: Any) -> asyncio.AbstractEventLoop | None:
    """Return the event loop that a task or a future belongs to."""
    return answer.get_loop() if isinstance(answer, asyncio.Future) else None


def is_of_a_thread(answer: object) -> bool:
    """Whether an answer is a future that a thread, and no event loop, brings to its end."""
    return isinstance(answer, Future)


async def awaited(answer: Any, function: object) -> Any:
    """Return what an answer comes to, awaited as often as it is something to await.

    Raises:
        Unfinished: it belongs to another event loop, or is none after all.
    """
    while is_awaited(answer):
        if _loop_of(answer) not in (None, asyncio.get_running_loop()):
            raise unfinished(f"{_kind(answer).__name__} of another event loop", function)
        answer = await (Through(answer) if inspect.iscoroutine(answer) else answer)
    if is_of_a_thread(answer):
        answer = await awaited(asyncio.wrap_future(answer), function)
    return done(answer, function)


class Through:
    """Awaits a coroutine of the user's.

    Who throws a coroutine away calls its `close`; a `GeneratorExit` that comes out of a step of it is its own. What it
    raises while it is closed, or that it awaits something there, hides from nobody behind it that it was thrown away.
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
        """Go on with it."""
        try:
            return self._coroutine.send(value)
        except GeneratorExit as error:
            raise stopped(error, self._coroutine) from error

    def throw(self, *error: Any) -> Any:
        """Go on with it by an exception."""
        try:
            return self._coroutine.throw(*error)
        except GeneratorExit as raised:
            raise stopped(raised, self._coroutine) from raised

    def close(self) -> None:
        """Throw it away.

        Raises:
            GeneratorExit: it did not end quietly; what it raised is the cause.
        """
        try:
            self._coroutine.close()
        except BaseException as error:
            raise GeneratorExit from error


__all__ = ["STOPS", "Ended", "Through", "awaited_to_its_end", "ended", "outcome_of", "stopped", "through"]
