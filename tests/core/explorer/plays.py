"""Programs of a settlement's own services, moved step by step in every interleaving; their process may be killed.

The ledger is in memory, and outlives the process: each step of a program is waited for, and others move before it is
answered, and between an act and its return. Who is killed moves no more; whoever comes next works on the same ledger
with an engine of its own, which knows nothing of what the first one was at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any
from unittest.mock import patch

from tests.core.explorer.answered import Returning, answered
from tests.core.explorer.plan import ViolatedError
from tests.rooms.acts import Recorded, Sleep, Together
from tests.rooms.api import host as hosts
from tests.rooms.edges import Ended
from tests.rooms.ledger import Which, bury
from tests.rooms.lifecycle import Listener
from tests.rooms.model import ID_DIGITS
from tests.rooms.replica import image, load
from tests.unattended import unattended

from settlemark import Settlement
from settlemark.hosting import Act, Protocol, Wait, declaration_of, host_of
from settlemark.ledger import MemoryLedger
from settlemark.testing import VirtualClock

Doing = Generator[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Until:
    """What a program asks for that goes on as soon as something holds."""

    holds: Callable[[], bool] = lambda: True


class _Ledger(MemoryLedger):
    """A ledger of no random id, whose every step is waited for while `immediate` is False."""

    def __init__(self, clock: VirtualClock, before: _Ledger | None = None) -> None:
        protocol = Protocol()
        if before is not None:
            load(protocol, image(before.protocol))  # with nothing that only the process before knew
        super().__init__(clock=clock, protocol=protocol)
        self.id = "0" * ID_DIGITS
        if before is not None:
            self.book, self.payloads = before.book, before.payloads


@dataclass(slots=True)
class Moved:
    """A program that is moved.

    Attributes:
        stack: what it has called and waits for.
        of: the process that it runs in; -1 where it is in none, and outlives them.
        at_once: whether nobody moves before a step of it is answered.
        last: whether it moves only when no other can.
    """

    stack: list[Doing]
    of: int
    at_once: bool
    request: Any = Until()
    end: Ended | None = None
    last: bool = False


class Play(ABC):
    """Programs over one ledger; a kind of play adds its own, and judges the end."""

    kinds: tuple[str, ...] = ()
    """The entries of the record that tell two states of it apart."""
    tools: tuple[Any, ...] = ()
    """What every process of it has declared."""

    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.options = {**self.clock.options(), **options}
        self.ledger = _Ledger(self.clock)
        self.process = 0
        self.moved: list[Moved] = []
        self.settlements: list[Settlement] = []
        self.open()

    # ---- processes

    def open(self) -> None:
        """Begin a process on the ledger."""
        with patch.object(hosts, "open_ledger", lambda *_, **__: self.ledger):
            self.settlement = unattended(Settlement("memory:", **self.options))
        self.settlements.append(self.settlement)
        self.host = host_of(self.settlement)
        self.driver = self.host.driver
        self.driver.kernel.warns = False
        for tool in self.tools:
            declaration = declaration_of(tool)
            assert declaration is not None
            self.host.tools.adopt(declaration)

    def kill(self) -> None:
        """End the process: its programs move no more, and another process begins."""
        self.process += 1
        self.ledger = _Ledger(self.clock, self.ledger)
        self.ledger.now(lambda protocol, book: bury(protocol, book, self.ledger.worker))
        self.open()  # at once, as its steps still are: else it had a thread that does what is looked at here
        self.ledger.immediate = False

    def add(self, program: Doing, *, apart: bool = False, at_once: bool = False, last: bool = False) -> None:
        """Have a program moved: in this process, or apart from all; see `Moved`."""
        self.moved.append(Moved([program], -1 if apart else self.process, at_once, last=last))

    # ---- moving

    def ready(self) -> list[int]:
        """Return the programs that can move."""
        found = [number for number, each in enumerate(self.moved) if self._is_ready(each)]
        return [number for number in found if not self.moved[number].last] or found

    def _is_ready(self, moved: Moved) -> bool:
        request = moved.request
        if moved.end is not None or moved.of not in (-1, self.process):
            return False
        if type(request) is Until:
            return request.holds()
        return type(request) is not Wait or request.ticket.fired

    def move(self, number: int) -> None:
        """Let a program do its next act or step."""
        moved = self.moved[number]
        while True:
            request = moved.request
            answer, failure = answered(request)
            if type(answer) is GeneratorType:
                moved.stack.append(answer)
                answer = None
            elif type(request) is Act:
                moved.request = Returning(Ended(answer, failure))
                break
            elif type(request) is Together:
                moved.stack.append(_one_by_one(request))
            self._resume(moved, answer, failure)
            goes_on = (Sleep, Together, Recorded) if moved.at_once else (Sleep, Together)
            if moved.end is not None or not isinstance(moved.request, goes_on):
                break
        self.observe()

    @staticmethod
    def _resume(moved: Moved, answer: Any, failure: BaseException | None) -> None:
        while moved.stack:
            doing = moved.stack[-1]
            try:
                moved.request = doing.send(answer) if failure is None else doing.throw(failure)
            except StopIteration as stop:
                answer, failure = stop.value, None
            except ViolatedError:
                raise
            except BaseException as error:
                answer, failure = None, error
            else:
                return
            moved.stack.pop()
        moved.end = Ended(answer, failure)

    # ---- what a kind of play adds

    @abstractmethod
    def observe(self) -> None:
        """Raise `ViolatedError` if something is wrong by now."""

    @abstractmethod
    def judged(self) -> list[str]:
        """Return what is wrong at the end."""

    @abstractmethod
    def picture(self) -> tuple[Any, ...]:
        """Return what else makes two states of it alike."""

    def signature(self) -> tuple[Any, ...]:
        """Return what makes two states of it alike: the record, the world, and where each program is, with what."""
        book = self.ledger.book
        entries = tuple((e.id, e.version, e.body) for kind in self.kinds for e in book.entries.find(Which(kind)))
        recorded = tuple(
            (r.row.name, r.row.attempt, r.state, tuple((e.row.key, e.outcome, e.tag, e.disposition) for e in r.effects))
            for r in book.transactions()
        )
        programs = tuple(
            (each.end is not None, _asked(each.request), self._is_ready(each), tuple(map(_frames, each.stack)))
            if each.of in (-1, self.process)
            else None
            for each in self.moved
        )
        return (self.ledger.protocol.freeze(), entries, recorded, programs, self.process, self.picture())


def _one_by_one(request: Together) -> Doing:
    found: list[Ended] = []
    for program in request.programs:
        try:
            found.append(Ended((yield from program)))
        except Exception as error:
            found.append(Ended(None, error))
    return found


def _frames(generator: Any) -> tuple[Any, ...]:
    """Where a chain of generators stands, and with what of its own that can be told."""
    found: list[Any] = []
    while isinstance(generator, GeneratorType) and generator.gi_frame is not None:
        frame = generator.gi_frame
        own = tuple(_told(value) for value in frame.f_locals.values())
        found.append((frame.f_code.co_name, frame.f_lasti, own))
        generator = generator.gi_yieldfrom
    return tuple(found)


def _asked(request: Any) -> tuple[Any, ...]:
    """What a program waits for; with the answer, which may be one of long before it is given."""
    if type(request) is Recorded:
        return "recorded", _told(request.pending._value), repr(request.pending._error)
    if type(request) is Returning:
        return "returning", _told(request.answer.value), repr(request.answer.error)
    return (type(request).__name__,)


def _told(value: object) -> str:
    if value is None or type(value) in (str, int, bool, float):
        return repr(value)
    if isinstance(value, Listener):
        return repr((value.said, value._undone, value._ahead, value._last))
    text = repr(value)
    if " at 0x" in text and isinstance(value, (list, tuple)):
        return repr([_told(each) for each in value])
    return type(value).__name__ if " at 0x" in text else text


@dataclass(slots=True)
class Played:
    """What playing every interleaving found.

    Attributes:
        states, ends: how many there are.
        wrong: for each thing that is wrong, the schedule that shows it.
        what: how every end looks, by `picture`.
    """

    states: int
    ends: int
    wrong: dict[str, list[int]]
    what: set[Any]


def every_play(play: Callable[[], Play], *, prunes: bool = True, first: bool = False) -> Played:
    """Play every interleaving of its programs; with `first`, up to the first that is wrong."""
    seen: set[Any] = set()
    played = Played(0, 0, {}, set())
    todo: list[list[int]] = [[]]
    while todo and not (first and played.wrong):
        told = todo.pop()
        run = play()
        try:
            for number in told:
                run.move(number)
            while True:
                if prunes:
                    signature = hash(run.signature())
                    if signature in seen:
                        break
                    seen.add(signature)
                played.states += 1
                ready = run.ready()
                if not ready:
                    played.ends += 1
                    wrong = run.judged()
                    played.what.add(run.picture())
                    for each in wrong:
                        played.wrong.setdefault(each, told)
                    break
                todo += [[*told, other] for other in ready[1:]]
                told = [*told, ready[0]]
                run.move(ready[0])
        except ViolatedError as violated:
            played.wrong.setdefault(str(violated), told)
    return played


__all__ = ["Play", "Played", "Until", "every_play"]
