"""What a program may ask of its runner: the whole vocabulary between decisions and the world.

A driver's program yields one of these and is sent the answer, or thrown the exception that met it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Future

    from settlemark._acts.current import CurrentCall
    from settlemark._edges.door import Ended
    from settlemark._protocol.holdings import Ticket


@dataclass(slots=True)
class Act:
    """Call a function of the user's and answer with what it returns.

    A `final` one is not interrupted: a cancellation that arrives meanwhile is raised when the
    program ends, so that an undo or release is never left half done.

    `begun` says that the function was called: until then nothing of it can have happened. `carried` is what becomes
    of it in a thread, whoever waits for that. `around` is entered around it, where it is no call with a `current`.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    current: CurrentCall | None
    final: bool = False
    begun: bool = False
    carried: Future[Ended] | None = None
    around: Callable[[], AbstractContextManager[None]] | None = None


class Pending:
    """An answer that a store still owes: the thread that waits for the answer fetches it.

    A future without a lock of its own: one waits for it, and most often it is that one who answers it.

    Attributes:
        done: it is there.
    """

    __slots__ = ("_error", "_told", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._told: Callable[[], None] | None = None

    def lead(self) -> None:
        """Do in this thread what is queued up to it, unless another thread does so already."""

    def hurry(self) -> None:
        """Ask another thread to take the step."""

    def within(self, seconds: float) -> None:
        """Give the step up when its answer is not there in so many seconds."""

    @property
    def remaining(self) -> float:
        """The seconds in which it is there, or is given up."""
        return inf

    def give_up(self) -> None:
        """Answer it, unless it is there: what is not begun never is, and of what is nobody knows yet what becomes."""

    def answer(self, value: Any, error: BaseException | None = None) -> None:
        """Let it be there: a value, or the error to raise."""
        self._value, self._error, self.done = value, error, True
        self.wake()

    def wake(self) -> None:
        """Wake each thread that waits for the answer."""
        if self._told is not None:
            self._told()

    def watch(self, told: Callable[[], None]) -> None:
        """Call a function, in whatever thread, when the answer is there; perhaps more than once."""
        self._told = told
        if self.done:  # whoever answered before it was armed has not called it
            told()

    def woken(self) -> SimpleQueue[None]:
        """Return the queue in which a waiting thread is woken."""
        woken: SimpleQueue[None] = SimpleQueue()
        self.watch(partial(woken.put, None))
        return woken

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error it is, if any, when it is there.

        Raises:
            TimeoutError: it is not.
        """
        woken = self.woken()
        while not self.done:
            left = self.remaining
            if timeout is None and left <= 0:
                self.give_up()
                break
            try:
                woken.get(timeout=timeout if timeout is not None else None if left == inf else left)
            except Empty:
                if timeout is not None:
                    raise TimeoutError from None
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        """Return it, or raise the error it is, when it is there.

        Raises:
            TimeoutError: it is not.
        """
        error = self._error if self.done else self.exception(timeout)
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error, self  # or its traceback would keep itself


@dataclass(slots=True)
class Recorded:
    """Wait until the ledger has taken this step, and answer with its result."""

    pending: Pending


@dataclass(slots=True)
class Wait:
    """Wait until the ticket fires; answer False when `seconds` pass first.

    A `final` wait, for what another program brings to its end and record, is interrupted no sooner than that work would
    be.
    """

    ticket: Ticket
    seconds: float
    holder: str
    scope: str
    final: bool = False


@dataclass(slots=True)
class Sleep:
    """Let `seconds` pass; a `final` pause, between the tries of an undo or release, is not interrupted."""

    seconds: float
    final: bool = False


@dataclass(slots=True)
class Together:
    """Run programs beside each other, inside of nobody's call; answer with how each `Ended`, when all have."""

    programs: Sequence[Generator[Any, Any, Any]]


Request = Act | Recorded | Wait | Sleep | Together
