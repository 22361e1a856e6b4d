"""The board: the protocol's shared state (transactions, holds, tickets, pending aborts) and the small moves on it.

Every rule of the protocol (`admission`, `decision`, `abort` and the others) works on one board. The board decides
nothing; the rules do. The board keeps derived data consistent: the index of holds follows the holds (`refresh`,
`drop_hold`, `place`), and the watchers of a transaction are woken when it moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from settlemark._edges.errors import SettlemarkError, StateError
from settlemark._protocol.holdings import Call, Halt, Hold, Ticket, Txn
from settlemark._protocol.index import ACTIVE, BUSY, HOLDS, LINE, READING, Match, Node, Position, Positions, ScopeIndex
from settlemark._protocol.refusals import refusal
from settlemark._protocol.states import TRANSITIONS, Event, State
from settlemark._protocol.versions import Versions

if TYPE_CHECKING:
    from settlemark._model.scope import Scope
    from settlemark._protocol.chronicle import Chronicle


class Board:
    """The state that all rules of the protocol share.

    Attributes:
        next_epoch: the next epoch to be given.
        time: the store's time, in seconds since 1970.
        serial: the number of the newest transaction.
        tick: the number of the newest hold or claim.
        index: finds the holds, floors and versions that overlap a scope.
        versions: what was committed since a read.
        live: the unfinished transactions, by position.
        by_id: the same, by number.
        named: the same, by name.
        order: their positions, sorted.
        tied: the numbers of transactions that run inside another's call, or under a hold.
        fenced: the cancelled runs.
        halts: the halts that stand, by number; `halted` is the number of the newest there ever was.
        chronicle: writes a history of the decisions.
        closed: what ended since the last commit of the ledger, where that commit can fail.
        woken: fired tickets, to be taken. `ends` fire when any transaction ends.
        aborted: transactions whose abort a program has to conclude, to be taken.
    """

    def __init__(self, *, first_epoch: int, plans: int, floors: int) -> None:
        self.next_epoch = first_epoch
        self.time = 0
        self.serial = 0
        self.tick = 0
        self.index = ScopeIndex()
        self.versions = Versions(self.index, plans=plans, floors=floors)
        self.live: dict[Position, Txn] = {}
        self.by_id: dict[int, Txn] = {}
        self.named: dict[str, Txn] = {}
        self.order = Positions()
        self.tied: set[int] = set()
        self.fenced: set[str] = set()
        self.halts: dict[int, Halt] = {}
        self.halted = 0
        self.chronicle: Chronicle | None = None
        self.closed: list[Txn | Call] | None = None
        self.woken: list[Ticket] = []
        self.ends: list[Ticket] = []
        self.aborted: list[Txn] = []

    # ---- transactions

    def next_serial(self) -> int:
        """Return a new transaction number."""
        self.serial += 1
        return self.serial

    def fresh(self, ordinal: str = "") -> Position:
        """Return a position after all given ones."""
        epoch = self.next_epoch
        self.next_epoch = epoch + 1
        return (epoch, ordinal)

    def skip_epochs(self, epochs: int) -> int:
        """Skip so many epochs, and return the first of them."""
        first = self.next_epoch
        self.next_epoch += epochs
        return first

    def tell_time(self, seconds: int) -> None:
        """Record the store's time."""
        self.time = seconds

    def enter(self, txn: Txn) -> None:
        """Index a transaction by position, number and name."""
        self.live[txn.position] = txn
        self.by_id[txn.id] = txn
        self.named[txn.name] = txn
        if txn.parent or txn.group:
            self.tied.add(txn.id)

    def drop(self, txn: Txn) -> None:
        """Forget a finished transaction, which holds nothing any more."""
        del self.live[txn.position], self.by_id[txn.id]
        if self.named.get(txn.name) is txn:
            del self.named[txn.name]
        self.order.discard(txn.position)
        self.note_end(txn)

    def note_end(self, txn: Txn) -> None:
        """Remove a finished transaction from its hold's members and from the tied ones."""
        if self.closed is not None:
            self.closed.append(txn)
        if self.ends:
            self.woken += [ticket for ticket in self.ends if not ticket.fired]
            self.ends = []
        self.leave_group(txn)
        self.tied.discard(txn.id)
        for branch in txn.members.values() if txn.role == "choice" else ():
            self.wake(branch)  # nobody waits for it any more for the sake of that choice

    def forget_closed(self) -> None:
        """Note that what has ended is in the store for good."""
        for ended in self.closed or ():
            if isinstance(ended, Txn):
                ended.calls.clear()  # each leads back to it: so it is freed without the garbage collector
        self.closed = []

    def join_group(self, txn: Txn) -> None:
        """Add a transaction to the members of its hold."""
        if txn.group and txn.group in self.by_id:
            self.by_id[txn.group].members[txn.id] = txn

    def leave_group(self, txn: Txn) -> None:
        """Remove a transaction from the members of its hold."""
        if txn.group and txn.group in self.by_id:
            self.by_id[txn.group].members.pop(txn.id, None)

    def move_state(self, txn: Txn, event: Event) -> None:
        """Move a transaction along the table in `states`.

        Raises:
            StateError: the table has no such transition; nothing moved.
        """
        following = TRANSITIONS[txn.state].get(event)
        if following is None:
            raise StateError(
                f"{txn.name} is {txn.state}: it cannot {event}; begin a new transaction",
                transaction=txn.name,
                state=txn.state,
            )
        txn.state, txn.moved = following, self.time

    def place(self, txn: Txn, position: Position) -> None:
        """Move a transaction, with its holds, to another position."""
        index, old = self.index, txn.position
        for hold in txn.holds.values():
            index.drop_position(hold.path, HOLDS, old)
            index.add_position(hold.path, HOLDS, position)
            for layer in (ACTIVE,) * hold.active + (LINE,) * hold.lined:
                index.drop_position(hold.path, layer, old)
                index.add_position(hold.path, layer, position)
        del self.live[old]
        self.live[position] = txn
        self.order.discard(old)
        self.order.add(position)
        txn.position = position
        self.wake(txn)

    def prune(self) -> None:
        """Forget versions and floors that no unfinished transaction can need."""
        self.versions.prune(self.order.least(), len(self.live))

    @staticmethod
    def refusal(txn: Txn) -> SettlemarkError:
        """Return the error that tells why a transaction was aborted, and what to do next."""
        assert txn.reason is not None
        return refusal(txn.name, txn.epoch, txn.reason, txn.detail)

    # ---- holds

    def match(self, hold: Hold) -> Match:
        """Return the index's nodes that a hold overlaps."""
        return self.index.match(hold.scope) if self.index.wildcards else hold.match

    def hold(self, txn: Txn, scope: Scope, *, declared: bool) -> Hold:
        """Return a transaction's hold on a scope: the existing one, or a new one."""
        return self.hold_at(txn, scope, self.index.enter(scope), declared=declared)

    def hold_at(self, txn: Txn, scope: Scope, path: list[Node], *, declared: bool) -> Hold:
        """Return a transaction's hold on a scope whose path was just entered into the index."""
        end = path[-1]
        hold = txn.holds.get(end)
        if hold is not None:
            self.index.leave(end)
            return hold
        self.tick += 1
        hold = txn.holds[end] = Hold(txn, scope, path, Match(path[:-1], path[-1:]), self.tick, declared)
        self.index.add_position(path, HOLDS, txn.position)
        return hold

    def refresh(self, hold: Hold) -> None:
        """Update a hold's index entries (active, busy, reading), and wake watchers if it blocks less than before."""
        txn = hold.txn
        busy = hold.claims > 0 or (hold.held > 0 and txn.state is State.RELEASING)
        reading = hold.readings > 0
        active = busy or reading or hold.held > 0 or hold.wants > 0
        index, path = self.index, hold.path
        calmer = False
        if active is not hold.active:
            hold.active = active
            if active:
                index.add_position(path, ACTIVE, txn.position)
            else:
                index.drop_position(path, ACTIVE, txn.position)
                calmer = True
        if busy is not hold.busy:
            hold.busy = busy
            if busy:
                index.add_hold(path, BUSY, hold)
            else:
                index.drop_hold(path, BUSY, hold)
                calmer = True
        if reading is not hold.reading:
            hold.reading = reading
            if reading:
                index.add_hold(path, READING, hold)
            else:
                index.drop_hold(path, READING, hold)
                calmer = True
        if calmer and txn.watchers:
            self.wake(txn)

    def enter_line(self, hold: Hold) -> None:
        """Put a hold into the line."""
        if not hold.lined:
            hold.lined = True
            self.index.lined += 1
            self.index.add_position(hold.path, LINE, hold.txn.position)

    def drop_hold(self, hold: Hold) -> None:
        """Drop a transaction's hold on a scope."""
        txn, path = hold.txn, hold.path
        index = self.index
        if hold.active:
            index.drop_position(path, ACTIVE, txn.position)
        if hold.busy:
            index.drop_hold(path, BUSY, hold)
        if hold.reading:
            index.drop_hold(path, READING, hold)
        if hold.lined:
            hold.lined = False
            index.lined -= 1
            index.drop_position(path, LINE, txn.position)
        index.drop_position(path, HOLDS, txn.position)
        del txn.holds[path[-1]]
        index.leave(path[-1])

    # ---- waking

    def wake(self, txn: Txn, *, siblings: bool = True) -> None:
        """Fire the tickets of a transaction's watchers; of its own calls only with `siblings`."""
        watchers = txn.watchers
        if watchers:
            kept = () if siblings else [ticket for ticket, sibling in watchers.items() if sibling and not ticket.fired]
            txn.watchers = dict.fromkeys(kept, True)
            for ticket, sibling in watchers.items():
                if not ticket.fired and (siblings or not sibling):
                    ticket.fired = True
                    self.woken.append(ticket)

    def tell_tied(self) -> None:
        """Make tied transactions look again: a new wait may have closed a circle."""
        for number in self.tied:
            txn = self.by_id[number]
            under = self.by_id.get(txn.group)
            if txn.watchers and (txn.parent or (under is not None and under.role == "choice")):
                self.wake(txn)

    @staticmethod
    def watch(watched: Iterable[Txn], *, sibling: bool) -> Ticket:
        """Return a ticket that fires when one of these transactions moves; it has fired for a finished one."""
        ticket = Ticket()
        for txn in watched:
            if txn.finished:
                ticket.fired = True
            txn.watchers[ticket] = sibling
        return ticket

    def take_woken(self) -> Sequence[Ticket]:
        """Return the tickets that fired since the last call."""
        if not self.woken:
            return ()
        woken, self.woken = self.woken, []
        return woken

    def take_aborted(self, most: int | None) -> list[Txn]:
        """Return all (or so many) transactions whose abort the caller now has to conclude."""
        aborted, self.aborted = self.aborted[:most], [] if most is None else self.aborted[most:]
        return aborted


__all__ = ["Board"]
