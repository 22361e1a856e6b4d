"""One slow call, and thousands behind it: when it returns at last, catching up takes ~N log N."""

from __future__ import annotations

import pytest
from tests.benchmarks.crowd import Crowd
from tests.rooms.protocol import Mode

from settlemark import Scope
from settlemark.hosting import Ticket, Turn, declare

BOOK = declare("book", "opaque", scope="room:/{hotel}")
LOOK = declare("look", "read", scope="room:/{hotel}")
ADA = Scope.parse("room:/Ada")


@pytest.fixture
def sizes(gauge):
    return (100, 300, 1_000, 3_000) if gauge.full else (5, 30)


class SlowTurn:
    """A turn whose later calls have all come, each looking again whenever its ticket fires."""

    def __init__(self, size, declaration, *, early=False):
        self.turn = Turn()
        self.looks = 0
        self.over: list[int] = []
        self.waiting: dict[Ticket, object] = {}
        self.first = self.turn.take(BOOK, ADA)
        self.later = [self.turn.take(declaration, ADA) for _ in range(size)]
        if early:
            self.turn.leave(self.first)

    def run(self):
        """Let all come, then let the first one return; return how many are over."""
        for seat in self.later:
            self._look(seat)
        woken = self.turn.leave(self.first)
        while woken:
            following = []
            for ticket in woken:
                following += self._look(self.waiting.pop(ticket))
            woken = following
        return len(self.over)

    def _look(self, seat):
        self.looks += 1
        ahead = self.turn.before(seat)
        if ahead is None:
            self.over.append(seat.number)
            return self.turn.leave(seat)
        ticket = Ticket()
        ahead.tickets.append(ticket)
        self.waiting[ticket] = seat
        return []


@pytest.mark.parametrize("later", [BOOK, LOOK], ids=["effects", "reads"])
def test_the_later_calls_of_a_turn_catch_up_with_its_slow_first_one(gauge, sizes, later, request):
    def nobody_waits(slow):
        return SlowTurn(len(slow.later), later, early=True).run()

    built = gauge.across(
        f"N {request.node.callspec.id} behind a turn's slow first call",
        sizes,
        lambda n: SlowTurn(n, later),
        SlowTurn.run,
        rounds=3,
        fresh=True,
        control=("the same, with a quick first call", nobody_waits),
    )

    for size, slow in built:
        assert slow.over == list(range(1, size + 1))
        assert slow.waiting == {}
        assert slow.looks == 2 * size


@pytest.mark.parametrize("mode", [Mode.HELD, Mode.EAGER], ids=["held", "at once"])
def test_later_transactions_catch_up_with_an_old_open_one(gauge, sizes, mode, request):
    def come_and_catch_up(work):
        crowd, size = work
        for number in range(size):
            crowd.join(f"t{number}")
        return crowd.let_first_go() - 1

    built = gauge.across(
        f"N transactions behind an old open one, {request.node.callspec.id}",
        sizes,
        lambda n: (Crowd(0, mode), n),
        come_and_catch_up,
        rounds=3,
        fresh=True,
    )

    for size, (crowd, _) in built:
        assert len(crowd.committed) == size + 1
        assert crowd.wakes <= 3 * size
