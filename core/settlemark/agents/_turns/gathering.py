"""A turn whose calls come one by one: the first that comes opens the turn for all, and none waits for one given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

from settlemark._acts.once import Once
from settlemark._acts.perform import Program
from settlemark.agents._call import PlacedCall
from settlemark.agents._open.open_turn import OpenTurn
from settlemark.agents._turns.roll import Roll


class Placed(NamedTuple):
    """A call with the open turn in which it has its place."""

    turn: OpenTurn
    call: PlacedCall


@dataclass(frozen=True, slots=True)
class Opened:
    """A model's turn that has begun.

    Attributes:
        turns: what settles as a whole: one open turn, or one for each call.
        calls: the calls that have places, by their numbers in the model's answer.
    """

    turns: tuple[OpenTurn, ...]
    calls: Mapping[int, Placed]

    @classmethod
    def of(cls, *turns: OpenTurn) -> Self:
        """Return what these turns make together, their calls numbered through."""
        placed = (Placed(turn, call) for turn in turns for call in turn.calls)
        return cls(turns, dict(enumerate(placed)))


class Gathering:
    """The calls of a model's turn, which a framework runs as it likes, each in its own thread or task.

    Args:
        name: says what is waited for by calls that come while the turn is being opened.
        size: how many calls there are.
        look: gives up calls that will not come, when a call begins to wait; see `OpenTurn.look_with`.
        cut: what cut the turn short before it began.

    Attributes:
        roll: which calls have come, and which are given up.
        cut: what cut the turn short, or None.
        is_opening: the turn is being opened.

    >>> from settlemark import Settlement
    >>> from settlemark.agents import Call, open_turn, run_sync
    >>> settlement = Settlement("memory:")
    >>> look = Call("look", {"at": "sky"}, settlement.declare("look", "read"))
    >>> def begin():
    ...     turn = yield from open_turn(settlement, "trip/step-1", run="trip")
    ...     yield from turn.place_all([look, look])
    ...     return Opened.of(turn)
    >>> gathering = Gathering("trip/step-1", 2, lambda: None)
    >>> turn, place = run_sync(gathering.open(begin)).calls[0]
    >>> gathering.roll.arrive(0), gathering.give_up(1)
    (True, True)
    >>> run_sync(turn.perform(place, lambda: "blue", look.arguments)), run_sync(turn.leave(place)), gathering.is_over
    ('blue', None, True)
    """

    def __init__(
        self, name: str, size: int, look: Callable[[], float | None], *, cut: BaseException | None = None
    ) -> None:
        self.roll = Roll(range(size))
        self.cut = cut
        self.is_opening = False
        self._name = name
        self._look = look
        self._aside: set[int] = set()
        self._once: Once[Opened] = Once(name)
        self._lock = threading.Lock()

    @property
    def opened(self) -> Opened | None:
        """The turn, once it has begun."""
        return self._once.value

    @property
    def failed(self) -> BaseException | None:
        """Why the turn could not be opened, or None."""
        return self._once.failed

    @property
    def is_over(self) -> bool:
        """Whether the turn has settled, or could not be opened."""
        opened = self.opened
        return self.failed is not None if opened is None else all(turn.settled for turn in opened.turns)

    @property
    def abandoned(self) -> bool:
        """Whether the turn was cut short, and undone for that."""
        return self.opened is not None and any(turn.abandoned for turn in self.opened.turns)

    def open(self, begin: Callable[[], Program[Opened]]) -> Program[Opened]:
        """Return the opened turn; the first call that comes begins it.

        Raises:
            BaseException: the turn could not be opened.
        """
        return self._once.get(lambda: self._open(begin))

    def _open(self, begin: Callable[[], Program[Opened]]) -> Program[Opened]:
        self.is_opening = True
        try:
            opened = yield from begin()
        finally:
            self.is_opening = False
        if self.cut is not None:  # the turn was abandoned meanwhile
            for turn in opened.turns:
                yield from turn.abandon(self.cut)
        self._leave_out(opened)
        for turn in opened.turns:
            turn.look_with(self._looking)
            if turn.unattended:  # all calls were given up meanwhile
                for call in turn.calls:
                    yield from turn.finish(call)
        return opened

    def reopen(self, opened: Opened) -> None:
        """Have the next call that comes open the turn anew: it lost a race, and nothing of it happened."""
        with self._lock:
            if self._once.value is opened:
                self._once = Once(self._name)

    def give_up(self, place: int) -> bool:
        """Leave out a call, unless it has come; return whether it was waited for until now."""
        given_up = self.roll.give_up(place)
        if given_up and self.opened is not None:
            self._leave_out(self.opened)
        return given_up

    def put_aside(self, place: int, control: BaseException) -> Program[None]:
        """Say that a call has not come and does not before its framework comes back to it: its turn is put aside."""
        self._aside.add(place)
        if not self.roll.give_up(place):
            self._aside.discard(place)
        elif self.opened is not None and place in self.opened.calls:
            turn, call = self.opened.calls[place]
            call.recall(turn.attempt.effects)
            yield from turn.leave(call, error=control)

    def turn_down(self, place: int, why: str, begin: Callable[[], Program[Opened]]) -> Program[None]:
        """Say that a call has come, and that its framework has told its model why its tool runs nothing of it."""
        opened = yield from self.open(begin)
        if place in opened.calls:
            turn, call = opened.calls[place]
            yield from turn.leave(call, failed=why)

    def _leave_out(self, opened: Opened) -> None:
        for place in self.roll.absent:
            placed = opened.calls.get(place)
            if placed is not None and not placed.call.over and place not in self._aside:
                placed.turn.absent(placed.call)

    def _looking(self) -> float | None:
        if self.opened is not None:
            self._leave_out(self.opened)  # a call may have been given up while the turn was being opened
        return self._look()

    def finish(self) -> Program[None]:
        """Wait until the turn has settled; all its calls are over, or given up."""
        opened = self.opened
        for turn, call in opened.calls.values() if opened is not None else ():
            yield from turn.finish(call)

    def abandon(self, error: BaseException) -> Program[None]:
        """End what is unsettled of the turn: the framework was cut short."""
        self.cut = self.cut or error
        opened = self.opened
        for turn in opened.turns if opened is not None else ():
            yield from turn.abandon(error)


__all__ = ["Gathering", "Opened", "Placed"]
