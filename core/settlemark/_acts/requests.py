"""What a program may ask of its runner: every request between decisions and the world.

A program yields one of these requests, and receives the answer or the exception.
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
    from settlemark._edges.user_code import Ended
    from settlemark._protocol.holdings import Ticket


@dataclass(slots=True)
class Act:
    """Call a user's function and answer with its result.

    A `final` act is not interrupted: a cancellation that arrives meanwhile is raised when the program ends, so that an
    undo or release is never left half done.

    Attributes:
        begun: the function was called: before that, nothing of it can have happened.
        carried: the outcome in a worker thread, for any thread or task that waits.
        around: a context manager entered around the call, where there is no `current`.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    current: CurrentCall | None
    final: bool = False
    begun: bool = False
    carried: Future[Ended] | None = None
    around: Callable[[], AbstractContextManager[None]] | None = None


class Pending:
    """An answer that the store still owes; the thread that waits for the answer also fetches it.

    A future without a lock of its own: there is one waiter, which usually produces the answer itself.

    Attributes:
        done: the answer is there.
    """

    __slots__ = ("_error", "_told", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._told: Callable[[], None] | None = None

    def lead(self) -> None:
        """Take the steps queued up to this one in the calling thread, unless another thread is doing so already."""

    def wake_thread(self) -> None:
        """Ask another thread to take this step."""

    @property
    def remaining(self) -> float:
        """Seconds until the answer is there or is given up."""
        return inf

    def give_up(self) -> None:
        """Answer with an error, unless answered: a queued step is dropped, a step under way is left in doubt."""

    def answer(self, value: Any, error: BaseException | None = None) -> None:
        """Set the answer: a value, or the error to raise."""
        self._value, self._error, self.done = value, error, True
        self.wake()

    def wake(self) -> None:
        """Wake each thread that waits for the answer."""
        if self._told is not None:
            self._told()

    def watch(self, told: Callable[[], None]) -> None:
        """Call a function when the answer is there: in any thread, perhaps more than once."""
        self._told = told
        if self.done:  # an answer set before `watch` told nobody
            told()

    def woken(self) -> SimpleQueue[None]:
        """Return a queue that gets an item when the answer is there."""
        woken: SimpleQueue[None] = SimpleQueue()
        self.watch(partial(woken.put, None))
        return woken

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the answer and return its error, or None.

        Raises:
            TimeoutError: there is no answer yet.
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
        """Wait for the answer and return its value, or raise its error.

        Raises:
            TimeoutError: there is no answer yet.
        """
        error = self._error if self.done else self.exception(timeout)
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error, self  # else the traceback would keep itself alive


@dataclass(slots=True)
class Recorded:
    """Wait until the ledger has taken a step, and answer with the step's result."""

    pending: Pending


@dataclass(slots=True)
class Wait:
    """Wait until the ticket fires; answer False when `seconds` pass first.

    A `final` wait, for another program that finishes and records something, is not interrupted before that program
    would be.
    """

    ticket: Ticket
    seconds: float
    holder: str
    scope: str
    final: bool = False


@dataclass(slots=True)
class Sleep:
    """Let `seconds` pass; a `final` pause, between tries of an undo or release, is not interrupted."""

    seconds: float
    final: bool


@dataclass(slots=True)
class Together:
    """Run programs concurrently, outside of any call; answer with the `Ended` of each, when all have ended."""

    programs: Sequence[Generator[Any, Any, Any]]


Request = Act | Recorded | Wait | Sleep | Together
