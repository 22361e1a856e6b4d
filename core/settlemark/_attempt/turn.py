"""The calls of one model turn, in the order the model issued them, however long each takes.

Effects that run at once act in that order (`order="turn"`), or only those that overlap do (`order="scopes"`). Reads
run beside each other, but after the earlier effects they overlap, and see of what is staged what was issued before
them and nothing else; an effect runs after the earlier reads it overlaps. What is held leaves at the commit, when all
that runs at once has succeeded (`leaving`): so an effect that is issued behind a held one runs in its place all the
same, unless they overlap. Then it is held too, and what overlaps it in its turn. With `order="issued"` whatever is
issued behind a held effect is held: it acts behind it, and where it fails that one has left. With `order="none"` each
acts as it comes. A person who approves a call is asked when all before it are over, about one at a time, or wait for
a person in places of their own. Agents that are called as tools run beside each other, each in its own order. The first
failure stops what has not begun. Source: anomaly A6 and its sequencer (Atomicity anomalies §5).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable
from enum import Enum, auto

from settlemark._acts.effect import Effect
from settlemark._model.declaration import Declaration
from settlemark._model.effect_class import EffectClass
from settlemark._model.guards import Order, checked_order
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Ticket
from settlemark._protocol.index import ACTIVE, HOLDS, Node, Positions, ScopeIndex

_IN_ORDER = ("turn", "issued")

_READS, _EFFECTS = HOLDS, ACTIVE


class SeatState(Enum):
    """How far a call of the turn has come."""

    EXPECTED = auto()
    DONE = auto()
    FAILED = auto()


class Seat:
    """One call's place in its turn.

    Attributes:
        gated: whether a person may have to approve the call.
        reads: whether the call changes nothing.
        asks_in: where a framework puts its question: two in one place are put one after the other.
        is_agent: it acts by calls of its own, in their order: it waits for no other that does, nor that for it.
    """

    __slots__ = (
        "asks_in", "declaration", "effect", "gated", "held", "interruption", "is_agent", "number", "paths", "reads",
        "scopes", "state", "tickets", "turn",
    )  # fmt: skip # a list of names

    def __init__(self, turn: Turn, number: int, declaration: Declaration, scopes: tuple[Scope, ...]) -> None:
        self.turn = turn
        self.number = number
        self.held = False
        self.asks_in: Hashable = None
        self.is_agent = False
        self.set(declaration, scopes)
        self.effect: Effect | None = None
        self.state = SeatState.EXPECTED
        self.interruption: BaseException | None = None
        self.paths: list[list[Node]] = []
        self.tickets: list[Ticket] = []

    def set(self, declaration: Declaration, scopes: tuple[Scope, ...]) -> None:
        """Say which tool's call it is, and on which scopes."""
        self.declaration = declaration
        self.scopes = scopes
        self.gated = declaration.approve is not None or (
            self.turn.may_ask is not None and self.turn.may_ask(declaration)
        )
        self.reads = declaration.kind is EffectClass.READ

    @property
    def scope(self) -> Scope | None:
        """The first of its scopes, to tell people what it is about."""
        return self.scopes[0] if self.scopes else None

    @property
    def shown(self) -> bool:
        """Whether reads of its transaction see it while it is held."""
        return self.held and self.declaration.kind is EffectClass.STAGED


class Turn:
    """The sequencer of one turn: who must wait for whom, and who was stopped.

    >>> from settlemark._model.declare import declare
    >>> book = declare("book", "opaque", scope="room:/{hotel}")
    >>> turn = Turn()
    >>> first, second = turn.take(book, Scope.parse("room:/Ada")), turn.take(book, Scope.parse("room:/Bee"))
    >>> turn.before(second) is first
    True
    >>> turn.leave(first), turn.before(second)
    ([], None)
    """

    __slots__ = (
        "_effects", "_gates", "_held", "_holding", "_holds", "_index", "_reads", "_seats", "_unknown", "failed",
        "may_ask", "order", "stop_on_failure",
    )  # fmt: skip # a list of names

    def __init__(
        self,
        *,
        order: Order = "turn",
        stop_on_failure: bool = True,
        holds: bool = True,
        may_ask: Callable[[Declaration], bool] | None = None,
    ) -> None:
        self.order: Order = checked_order(order)
        self.may_ask = may_ask  # whether a policy may have a person asked about a tool's calls
        self.stop_on_failure = stop_on_failure
        self._holds = holds  # else each call settles by itself: a held one leaves in its own turn
        self.failed: Seat | None = None
        self._seats: list[Seat] = []
        self._held: list[Seat] = []
        self._effects = Positions()
        self._reads = Positions()
        self._gates = Positions()  # of which it is not known yet whether they may act
        self._index = ScopeIndex()
        self._holding = ScopeIndex()  # what the held ones act on; and which of them act on nobody knows what
        self._unknown = Positions()

    def take(self, declaration: Declaration, *scopes: Scope, held: bool = False) -> Seat:
        """Return the next seat; calls take theirs in issuance order. `held` ones are so whatever they are declared."""
        seat = Seat(self, len(self._seats), declaration, scopes)
        self._seats.append(seat)
        self._enter(seat, held=held)
        return seat

    def change(self, seat: Seat, declaration: Declaration, *scopes: Scope, held: bool = False) -> list[Ticket]:
        """Give a call's place to another tool's, which will run in it; return the tickets of who waited for the first.

        >>> from settlemark._model.declare import declare
        >>> turn, look = Turn(), declare("look", "read")
        >>> first, second = turn.take(look), turn.take(look)
        >>> turn.change(first, declare("book", "opaque")), first.reads
        ([], False)
        """
        number = (seat.number, "")
        self._leave_index(seat)
        if seat.gated and number in self._gates.items:
            self._gates.discard(number)
        if seat.held:
            self._held.remove(seat)
        else:
            (self._reads if seat.reads else self._effects).discard(number)
        seat.set(declaration, scopes)
        self._enter(seat, held=held)
        tickets, seat.tickets = seat.tickets, []
        return tickets

    def _enter(self, seat: Seat, *, held: bool) -> None:
        number, scopes = seat.number, seat.scopes
        held = held or seat.declaration.held or (not seat.reads and self._behind_held(number, scopes))
        seat.held = self._holds and held
        if seat.held:
            insort(self._held, seat, key=lambda other: other.number)
            self._keep(seat, scopes)
        for scope in scopes if seat.shown or not seat.held else ():
            path = self._index.enter(scope)
            self._index.add_position(path, _READS if seat.reads else _EFFECTS, (number, ""))
            seat.paths.append(path)
        if not seat.held:
            (self._reads if seat.reads else self._effects).add((number, ""))
        if seat.gated:
            self._gates.add((number, ""))

    def _behind_held(self, number: int, scopes: tuple[Scope, ...]) -> bool:
        if self.order == "none" or not self._held or self._held[0].number > number:
            return False
        if self.order == "issued" or not scopes:
            return True  # of what acts on nobody knows which scopes, none is known to be free
        here = (number, "")
        return self._unknown.below(here) is not None or any(
            self._holding.below(self._holding.match(scope), HOLDS, here) is not None for scope in scopes
        )

    def _keep(self, seat: Seat, scopes: tuple[Scope, ...]) -> None:
        """Note what a held call acts on: what is issued behind it, and overlaps it, is held too."""
        for scope in scopes:
            self._holding.add_position(self._holding.enter(scope), HOLDS, (seat.number, ""))
        if not scopes and not seat.scopes:
            self._unknown.add((seat.number, ""))

    def comes(self, seat: Seat, scopes: tuple[Scope, ...], *, held: bool = False) -> list[Ticket]:
        """Note on which scopes a call acts, now that it has come: they may be others than it was seated with.

        It may have to be held by that, or is to be so (`held`); return the tickets of who waited for it to run.
        """
        if not self._holds or seat.reads:
            return []
        if seat.held:
            if scopes != seat.scopes:
                self._keep(seat, scopes)
            return []
        if not (held or self._behind_held(seat.number, scopes)):
            return []
        seat.held = True
        insort(self._held, seat, key=lambda other: other.number)
        self._keep(seat, scopes)
        self._leave_index(seat)
        self._effects.discard((seat.number, ""))
        tickets, seat.tickets = seat.tickets, []
        return tickets

    def before(self, seat: Seat) -> Seat | None:  # noqa: PLR0911 - a rule each
        """Return an earlier call that this one must wait for, or None when its turn has come."""
        if seat.number == 0 or (seat.held and not seat.gated and not seat.shown):
            return None
        if seat.is_agent and not seat.gated:
            return self._first(seat, lambda earlier: earlier.is_agent)
        here = (seat.number, "")
        if self.order == "none":
            earlier = self._gates.below(here) if seat.gated else None  # people are asked about one at a time
            return None if earlier is None else self._seats[earlier[0]]
        if seat.held and not seat.gated:
            return self._overlapping(seat, (_READS,))  # what was issued before it must not see it
        if seat.gated:
            for those in (self._gates, self._effects, self._reads) if self.order in _IN_ORDER else (self._gates,):
                earlier = those.below(here)
                if earlier is not None:
                    return self._seats[earlier[0]]
        if not seat.reads and (self.order in _IN_ORDER or not seat.scopes):
            earlier = self._effects.below(here)
            if earlier is not None:
                return self._seats[earlier[0]]
        return self._overlapping(seat, (_EFFECTS,) if seat.reads else (_EFFECTS, _READS))

    def before_asking(self, seat: Seat) -> Seat | None:
        """Return an earlier call that this one must wait for before a person is asked about it.

        A call that waits for a person itself keeps back no question that its framework puts elsewhere.
        """
        if not seat.gated:
            return self.before(seat)
        return self._first(seat, lambda e: e.interruption is not None and e.asks_in != seat.asks_in)

    def _first(self, seat: Seat, passed_over: Callable[[Seat], bool]) -> Seat | None:
        """Return the first earlier call that this one must wait for, but for those that are passed over."""
        in_order, asks = self.order in _IN_ORDER, seat.gated
        for earlier in self._seats[: seat.number]:
            number = (earlier.number, "")
            if passed_over(earlier):
                continue
            if asks and number in self._gates.items:
                return earlier
            acts = number in self._effects.items or (asks and number in self._reads.items)
            if (acts and in_order) or (self.order != "none" and earlier.paths and _overlap(earlier, seat)):
                return earlier
        return None

    def _overlapping(self, seat: Seat, layers: tuple[int, ...]) -> Seat | None:
        for scope in seat.scopes:
            match = self._index.match(scope)
            for layer in layers:
                overlapping = self._index.below(match, layer, (seat.number, ""))
                if overlapping is not None:
                    return self._seats[overlapping[0]]
        return None

    def queued(self, seat: Seat) -> list[Ticket]:
        """Note that a held call is in its queue, or never will be; return the tickets of who waited to see it."""
        if not seat.held or not seat.paths:
            return []
        self._leave_index(seat)
        tickets, seat.tickets = seat.tickets, []
        return tickets

    def _leave_index(self, seat: Seat) -> None:
        for path in seat.paths:
            self._index.drop_position(path, _READS if seat.reads else _EFFECTS, (seat.number, ""))
            self._index.leave(path[-1])
        seat.paths = []

    def behind(self, seat: Seat) -> list[Effect]:
        """Return the held effects that a failure of this call stops, though they are queued already."""
        if not self.stop_on_failure:
            return []
        return [later.effect for later in self._held if later.number > seat.number and later.effect is not None]

    def stopped(self, seat: Seat) -> bool:
        """Whether an earlier failure of the turn means that this call is not to begin."""
        return self.stop_on_failure and self.failed is not None and self.failed.number < seat.number

    def interrupt(self, seat: Seat, control: BaseException) -> list[Ticket]:
        """Note that a call was suspended by its framework; return the tickets of those that waited for it.

        What may not act before it is then suspended the same way.
        """
        seat.interruption = control
        tickets, seat.tickets = seat.tickets, []
        return tickets

    def passed(self, seat: Seat) -> list[Ticket]:
        """Note that nobody is asked about a call any more; return the tickets of those that waited for it."""
        if not seat.gated or (seat.number, "") not in self._gates.items:
            return []
        self._gates.discard((seat.number, ""))
        tickets, seat.tickets = seat.tickets, []
        return tickets

    def leave(self, seat: Seat, *, failed: bool = False) -> list[Ticket]:
        """Note that a call is over; return the tickets of those that waited for it."""
        if seat.state is not SeatState.EXPECTED:
            return []
        seat.state = SeatState.FAILED if failed else SeatState.DONE
        if failed and (self.failed is None or seat.number < self.failed.number):
            self.failed = seat
        self._leave_index(seat)
        if not seat.held:
            (self._reads if seat.reads else self._effects).discard((seat.number, ""))
        if seat.gated and (seat.number, "") in self._gates.items:
            self._gates.discard((seat.number, ""))
        tickets, seat.tickets = seat.tickets, []
        return tickets


def _overlap(one: Seat, other: Seat) -> bool:
    return not other.scopes or any(a.overlaps(b) for a in one.scopes for b in other.scopes)
