"""What the driver may ask of whoever runs it: the whole vocabulary between decisions and the world.

A driver's program yields one of these and is sent the answer, or thrown the exception that met it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from settlemark._current import CurrentCall
    from settlemark._txn import Ticket


@dataclass(slots=True)
class Act:
    """Call a function of the user's and answer with what it returns.

    A `final` one is not interrupted: a cancellation that arrives meanwhile is raised when the
    program ends, so that an undo or release is never left half done.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    current: CurrentCall | None
    final: bool = False


class Pending(Future[Any]):
    """An answer that a store still owes. It is fetched by whoever waits for it."""

    def lead(self) -> None:
        """Do in this thread what is queued up to it, unless another thread does so already."""
        raise NotImplementedError

    def hurry(self) -> None:
        """Have another thread do it."""
        raise NotImplementedError


@dataclass(slots=True)
class Recorded:
    """Wait until the ledger has taken this step, and answer with its result."""

    pending: Future[Any]


@dataclass(slots=True)
class Wait:
    """Wait until the ticket fires; answer False when `seconds` pass first."""

    ticket: Ticket
    seconds: float
    holder: str
    scope: str


@dataclass(slots=True)
class Sleep:
    """Let `seconds` pass; a `final` pause, between the tries of an undo or release, is not interrupted."""

    seconds: float
    final: bool = False


class Ended(NamedTuple):
    """What became of a program: what it returned, or what it raised."""

    value: Any
    error: BaseException | None = None


@dataclass(slots=True)
class Together:
    """Run programs beside each other, inside of nobody's call; answer with how each `Ended`, when all have."""

    programs: Sequence[Generator[Any, Any, Any]]


Request = Act | Recorded | Wait | Sleep | Together
