"""A run that listens: at each boundary it hears what was said to it, and begins again where something was undone.

It is told what it was told before, at the same steps: a step that stands was decided with what had been heard by then,
and is answered from the record. A step that is decided now is told everything.

A step that leaves nothing on record looks the same each time. It is decided now only where no step that stands is still
ahead: a program that does the same each time comes to all of them, and each was decided without what is said now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from settlemark._acts.perform import Program
from settlemark._acts.requests import Act
from settlemark._steering.message import DONE, Steering
from settlemark._steering.pauses import Pauses
from settlemark._steering.steers import Place, Steers

T = TypeVar("T")


class BeginAgain(BaseException):
    """What the run has done is undone in part: its program is called again. No user's `except Exception` takes it."""

    def __init__(self, of: Listener) -> None:
        super().__init__("the run was steered: its program is called again")
        self.of = of


class Listener:
    """One call of a run's program, and what it has been told so far.

    Attributes:
        run: the run.
        said: what it has been told, in the order in which it was said.
        executor, environment: what its program keeps of itself, and of its surroundings, for when it is paused.
    """

    def __init__(self, steers: Steers, pauses: Pauses, run: str, *, wait: float) -> None:
        self._steers = steers
        self._pauses = pauses
        self._wait = wait
        self._undone: set[int] | None = None  # what had been undone of the run when this call came to its first step
        self._ahead: dict[str, int] = {}  # what stood then, and this call has not come to, each with its epoch
        self._last: str | None = None  # what this call has come to last, where that did not stand then
        self.run = run
        self.said: tuple[Steering, ...] = ()
        self.executor: Any = None
        self.environment: Any = None

    def begin(self) -> Program[None]:
        """Take what the program kept as the run was paused last."""
        self.executor, self.environment = yield from self._pauses.kept(self.run)

    def arrive(self, step: str, *, wait: float) -> Program[Place]:
        """Come to the boundary before a step: hear what was said, and return where the run stands.

        Raises:
            BeginAgain: what this call has done was undone in part.
            Paused: the run is paused.
            LedgerError: what waits for the run cannot be read in this process.
        """
        yield from self._pauses.stop_here(self.run, step, self.executor, self.environment)
        place: Place = yield from self._placed(step)
        while any(each.is_open and (place.is_new or each.what != "add" or not each.readable) for each in place.said):
            yield from self._steers.hear(self.run, step, adds=place.is_new, wait=wait)
            place = yield from self._placed(step)
        self._begin_again_if_undone(place.said)
        known = {each.number for each in self.said}
        done = [each for each in place.said if each.state == DONE]
        new = {each.number for each in done if each.number not in known and (place.is_new or each.told == step)}
        if any(each.number in new and each.told != step for each in done):
            yield from self._steers.tell(self.run, step, new)
        self.said = tuple(each for each in done if each.number in known or each.number in new)
        return place

    def _placed(self, step: str) -> Program[Place]:
        """Return where the run stands; the step is new if it is decided now, and not only has nothing on record."""
        place: Place = yield from self._steers.place(self.run, f"{self.run}/{step}")
        if self._undone is None or (self._ahead and self._last is not None):
            stands: dict[str, int] = yield from self._steers.standing(self.run)
            self._ahead = stands if self._undone is None else self._ahead
            self._leave_behind(stands.get(self._last or ""))
        epoch = self._ahead.get(place.name)
        self._leave_behind(epoch)
        self._last = place.name if epoch is None else None
        return place._replace(is_new=place.is_new and not self._ahead)

    def _leave_behind(self, epoch: int | None) -> None:
        """Note that this call has come to what has this epoch: no older one is ahead, or is none of its steps."""
        if epoch is not None:
            self._ahead = {name: each for name, each in self._ahead.items() if each > epoch}

    def finish(self) -> Program[None]:
        """Come to the boundary behind the last step: only what undoes something is heard, since nobody goes on.

        Raises:
            BeginAgain: what this call has done was undone in part.
            Paused: the run is paused.
        """
        yield from self._pauses.stop_here(self.run, None, self.executor, self.environment)
        yield from self._steers.hear(self.run, None, adds=False, wait=self._wait)
        said: list[Steering] = yield from self._steers.said(self.run)
        self._begin_again_if_undone(said)

    def _begin_again_if_undone(self, said: list[Steering]) -> None:
        undone = {each.number for each in said if each.rewound and each.state == DONE}
        if self._undone is not None and not undone <= self._undone:
            raise BeginAgain(self)
        self._undone = undone


def following(listener: Callable[[], Listener], body: Callable[[Listener], Callable[[], T]]) -> Program[T]:
    """Call a run's program until nothing of it is undone under it, and return its value."""
    while True:
        listening = listener()
        yield from listening.begin()
        try:
            value: T = yield Act(body(listening), {}, None)
            yield from listening.finish()
        except BeginAgain as again:
            if again.of is not listening:
                raise
        else:
            return value


__all__ = ["BeginAgain", "Listener", "following"]
