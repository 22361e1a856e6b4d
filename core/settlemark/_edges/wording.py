"""An exception's class and message as bounded text, whatever the exception's own code does."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeGuard, TypeVar, cast

_E = TypeVar("_E", bound=BaseException)

MOST = 4_000
"""The most characters kept of a message."""
_name_of = type.__dict__["__name__"].__get__
_parts_of = BaseExceptionGroup.__dict__["exceptions"].__get__
_context_of = BaseException.__dict__["__context__"].__get__
_cause_of = BaseException.__dict__["__cause__"].__get__
_frames_of = BaseException.__dict__["__traceback__"].__get__
_data_of = BaseException.__dict__["__dict__"].__get__
_is_said = BaseException.__dict__["__suppress_context__"].__get__
_length, _part = str.__len__, str.__getitem__


def in_words(error: BaseException) -> str:
    """Return an exception as its class and its message, both bounded; never raises.

    >>> in_words(KeyError("Ada"))
    "KeyError: 'Ada'"
    >>> class ApiError(Exception):
    ...     def __str__(self): return self.message
    >>> in_words(ApiError(500))
    'ApiError: (its own message is not available: AttributeError)'
    """
    kind, message = kind_of(error), message_of(error)
    return f"{kind}: {message}" if message else kind


def kind_of(error: object) -> str:
    """Return the name of an exception's class, or of another object's."""
    name: str = _name_of(type(error))
    return _bounded(name, 200)


def message_of(error: BaseException) -> str:
    """Return an exception's message without its class, bounded; never raises.

    >>> message_of(ValueError("x" * 5000))[-30:]
    'xxxxxxxxxxx… (5000 characters)'
    """
    try:
        return _bounded(str(error), MOST)
    except BaseException as failed:  # the exception class's own code failed
        return f"(its own message is not available: {kind_of(failed)})"


def is_a(error: BaseException | None, kinds: type[_E] | tuple[type[_E], ...]) -> TypeGuard[_E]:
    """Whether an exception's type is one of these; a faked `__class__` does not count.

    >>> is_a(TimeoutError(), OSError)
    True
    """
    return issubclass(type(error), kinds)


def parts_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside a group, nested groups included; of any other exception, the exception itself.

    >>> list(parts_of(ExceptionGroup("two", [OSError(1), ExceptionGroup("one", [OSError(2)])])))
    [OSError(1), OSError(2)]
    """
    left = [error]
    while left:
        one = left.pop()
        if is_a(one, BaseExceptionGroup):
            left += reversed(_parts_of(one))
        else:
            yield one


def within(group: BaseExceptionGroup[BaseException]) -> tuple[BaseException, ...]:
    """Return the exceptions that a group was made of, whatever its class says of them."""
    parts: tuple[BaseException, ...] = _parts_of(group)
    return parts


def behind(error: BaseException) -> tuple[BaseException | None, str]:
    """Return the exception behind another one, and how the first led to the other.

    >>> error = ValueError("no")
    >>> error.__cause__ = OSError("full")
    >>> behind(error)
    (OSError('full'), 'was the direct cause of')
    """
    cause: BaseException | None = _cause_of(error)
    if cause is not None:
        return cause, "was the direct cause of"
    return None if _is_said(error) else _context_of(error), "was handled when there came"


def kept_by(error: BaseException) -> tuple[TracebackType | None, list[object]]:
    """Return an exception's traceback and its notes, whatever its class says of them."""
    notes: object = _data_of(error).get("__notes__")
    return _frames_of(error), list(cast("list[object]", notes)) if type(notes) is list else []


def is_cut_off(error: BaseException) -> bool:
    """Whether an exception says that work was cut off from outside: by an interrupt, a cancellation, an exit.

    An exception raised by a clean-up on the way out, which hides the cut-off, counts too. `raise … from …` does not:
    its author caught the cut-off, and says what became of the work.

    >>> is_cut_off(KeyboardInterrupt()), is_cut_off(OSError())
    (True, False)
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if not is_a(one, (Exception, GeneratorExit)):  # a GeneratorExit comes from the generator's owner
            return True
        one = None if _is_said(one) else _context_of(one)
    return False


class _Reader:
    """The audience of this process's messages."""

    at_terminal = False


@contextmanager
def at_terminal() -> Generator[None]:
    """Word messages for a person at a command line, not for a programmer."""
    before, _Reader.at_terminal = _Reader.at_terminal, True
    try:
        yield
    finally:
        _Reader.at_terminal = before


def by_reader(program: str, person: str) -> str:
    """Return the advice that fits the reader: a keyword such as `wait=` does not help at a command line.

    >>> by_reader("raise wait=", "give the command again")
    'raise wait='
    >>> with at_terminal():
    ...     by_reader("raise wait=", "give the command again")
    'give the command again'
    """
    return person if _Reader.at_terminal else program


def _bounded(text: str, most: int) -> str:
    length = _length(text)  # a subclass of str may have its own length
    return _part(text, slice(None)) if length <= most else f"{_part(text, slice(most))}… ({length} characters)"


__all__ = [
    "MOST",
    "at_terminal",
    "behind",
    "by_reader",
    "in_words",
    "is_a",
    "is_cut_off",
    "kept_by",
    "kind_of",
    "message_of",
    "parts_of",
    "within",
]
