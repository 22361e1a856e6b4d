"""Transactions on one scope behind one that is still open, driven as the driver drives them, by hand."""

from __future__ import annotations

from tests.rooms.protocol import Blocked, Call, Mode, Txn

from settlemark import Scope, State
from settlemark.hosting import Protocol, Reason, Ticket

HOT = Scope.parse("room:/Ada/2026-12-01")
BESIDE = Scope.parse("room:/Bel/2026-12-01")


class Crowd:
    """`size` transactions, each behind the one before, all behind an open first one.

    In mode `HELD` each is sealed and waits to commit; in mode `EAGER` each waits to act. A waiter
    watches whom it waits for and asks again when the ticket fires: `wakes` counts that.
    """

    def __init__(self, size: int = 0, mode: Mode = Mode.HELD) -> None:
        self.protocol = Protocol()
        self.mode = mode
        self.wakes = 0
        self.committed: list[str] = []
        self.members: list[Txn] = []
        self._calls: dict[Txn, Call] = {}
        self._waiting: dict[Ticket, Txn] = {}
        self.first = self._begin("first")
        self._admit(self.first)
        for number in range(size):
            self.join(f"t{number}")

    def join(self, name: str) -> Txn:
        """Begin one, touch the scope and go as far as that goes."""
        txn = self._begin(name)
        self.members.append(txn)
        self._go_on(txn)
        return txn

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    def let_first_go(self) -> int:
        """Settle the first one and everybody whom that wakes, in turn; return how many committed."""
        before = len(self.committed)
        self._settle(self.first)
        self._wake_up()
        return len(self.committed) - before

    def abort(self, txn: Txn) -> None:
        """Abort one of the waiters, conclude it, and let who waited for it look again."""
        self.protocol.abort(txn, Reason.FAILED)
        assert self.protocol.take_aborted() == [txn]
        self._wake_up()
        assert txn.finished

    def pass_by(self) -> None:
        """Begin, act and commit one on a scope next door."""
        protocol = self.protocol
        txn = protocol.begin("passer-by")
        call = protocol.request(txn, BESIDE, Mode.EAGER)
        assert protocol.admit(call) is None
        protocol.acted(call, happened=True)
        protocol.seal(txn)
        assert protocol.decide(txn) is None

    def _begin(self, name: str) -> Txn:
        txn = self.protocol.begin(name)
        self._calls[txn] = self.protocol.request(txn, HOT, self.mode)
        return txn

    def _admit(self, txn: Txn) -> Blocked | None:
        call = self._calls[txn]
        if call.admitted:
            return None
        blocked = self.protocol.admit(call)
        if blocked is None and self.mode is not Mode.HELD:
            self.protocol.acted(call, happened=True)
        return blocked

    def _go_on(self, txn: Txn) -> None:
        blocked = self._admit(txn) or self._settle(txn)
        if blocked is not None:
            self._waiting[self.protocol.watch(blocked.holder, txn)] = txn

    def _settle(self, txn: Txn) -> Blocked | None:
        protocol = self.protocol
        if txn.state is State.OPEN:
            protocol.seal(txn)
        blocked = protocol.decide(txn)
        if blocked is None:
            if txn.state is State.RELEASING:
                protocol.released(self._calls[txn])
                protocol.finish(txn)
            self.committed.append(txn.name)
        return blocked

    def _wake_up(self) -> None:
        while woken := self.protocol.take_woken():
            for ticket in woken:
                txn = self._waiting.pop(ticket, None)
                if txn is not None and txn.state in (State.OPEN, State.SEALED):
                    self.wakes += 1
                    self._go_on(txn)
