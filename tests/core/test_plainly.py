"""In whatever state steps have left: each answer is what looking at everybody gives, and who waits is told in time."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core import plainly
from tests.core.hand import SCOPES, Hand
from tests.core.test_shared_stores import machine_of, run
from tests.extent import examples
from tests.rooms.protocol import Mode

from settlemark import Entangled, SettlemarkError, State
from settlemark.ledger import MemoryLedger

seeds, counts = st.integers(0, 10**9), st.integers(20, 200)


def waiting(protocol):
    return [call for txn in protocol.live.values() for call in txn.calls.values() if call.wanting]


def name_of(blocked):
    return None if blocked is None else blocked.holder.name


def plain_name_of(txn):
    return None if txn is None else txn.name


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_whom_a_request_waits_for_is_whom_looking_at_everybody_finds(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        for call in waiting(hand.protocol):
            found = plainly.in_the_way(hand.protocol, call)
            assert name_of(hand.protocol.in_the_way(call)) == plain_name_of(found)


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_whom_one_that_lost_a_race_waits_for_is_whom_looking_at_everybody_finds(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        for txn in hand.protocol.live.values():
            found = plainly.before_it_begins_again(hand.protocol, txn)
            assert name_of(hand.protocol.ahead(txn)) == plain_name_of(found)


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_whom_a_sealed_one_waits_for_is_whom_looking_at_everybody_finds(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        for txn in [txn for txn in hand.protocol.live.values() if txn.state is State.SEALED]:
            found = plainly.before_it_commits(hand.protocol, txn)
            try:
                blocked = hand.protocol.waits_for(txn)
            except Entangled:  # a caller has come to what it holds, or it would wait for ever
                assert txn.parent
                assert found is not None
            else:
                assert name_of(blocked) == plain_name_of(found)


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_the_frontier_of_a_scope_is_the_oldest_of_all_that_overlap_it(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        for scope in SCOPES:
            assert hand.protocol.frontier(scope) == plainly.frontier(hand.protocol, scope)


class Waiters(Hand):
    """A hand whose requests wait as a driver's do: each watches whom it waits for, and asks again when told."""

    def __init__(self, seed, **options):
        super().__init__(seed, **options)
        self.tickets = {}

    def watch(self):
        """Give a ticket to everybody who waits and has none, and ask again for those that are told."""
        for ticket, call in list(self.tickets.items()):
            if ticket.fired or not call.wanting:
                del self.tickets[ticket]
                if call.wanting and call.txn.state is State.OPEN:
                    with suppress(SettlemarkError):
                        self.protocol.admit(call)
        known = set(map(id, self.tickets.values()))
        for call in waiting(self.protocol):
            if id(call) not in known and (blocked := self.protocol.in_the_way(call)) is not None:
                self.tickets[self.protocol.watch(blocked.holder)] = call


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_a_request_that_nobody_has_told_anything_still_has_to_wait(seed, count):
    hand = Waiters(seed, floors=seed % 3)
    for _ in range(count):
        hand.watch()
        hand.try_step()
        for ticket, call in hand.tickets.items():
            if call.wanting and call.txn.state is State.OPEN and not ticket.fired:
                assert hand.protocol.in_the_way(call) is not None


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_a_sealed_one_that_nobody_has_told_anything_still_has_to_wait(seed, count):
    hand, tickets = Hand(seed, floors=seed % 3), {}
    for _ in range(count):
        hand.try_step()
        for txn in [txn for txn in hand.protocol.live.values() if txn.state is State.SEALED]:
            with suppress(Entangled):
                blocked = hand.protocol.waits_for(txn)
                ticket = tickets.get(txn.id)
                assert ticket is None or ticket.fired or blocked is not None
                if blocked is not None and (ticket is None or ticket.fired):
                    tickets[txn.id] = hand.protocol.watch(blocked.holder)


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_one_that_lost_a_race_and_whom_nobody_has_told_anything_still_has_to_wait(seed, count):
    hand, tickets = Hand(seed, floors=seed % 3), {}
    for _ in range(count):
        hand.try_step()
        for txn in [txn for txn in hand.protocol.live.values() if txn.begins_again]:
            blocked, ticket = hand.protocol.ahead(txn), tickets.get(txn.id)
            assert ticket is None or ticket.fired or blocked is not None
            if blocked is not None and (ticket is None or ticket.fired):
                tickets[txn.id] = hand.protocol.watch(blocked.holder)


def test_what_each_step_makes_of_everybody_is_what_the_naive_model_makes_of_them():
    run(machine_of(lambda: [MemoryLedger()]), examples=25, derandomize=True, database=None)


# ---- what is kept beside: each count, each order, each index


def counted(txn):
    """What is kept of a transaction's calls, and of each of its holds; who waits, while it may ask."""
    holds = {} if txn.state is State.ABORTING else {hold.scope: hold for hold in txn.holds.values()}
    kept = {scope: (hold.claims, hold.held, hold.readings) for scope, hold in holds.items()}
    wants = {scope: hold.wants for scope, hold in holds.items() if txn.state is State.OPEN}
    return txn.claims, txn.running, txn.reading, kept, wants


def counted_by_calls(txn):
    calls = [call for call in txn.calls.values() if call.hold is not None]
    acts = [call for call in calls if call.admitted and call.mode in plainly.AT_ONCE]
    held = [call for call in calls if call.admitted and call.mode is Mode.HELD and not call.returned]
    reads = [call for call in calls if call.admitted and call.mode is Mode.READ]
    holds = [] if txn.state is State.ABORTING else list(txn.holds.values())
    kept = {h.scope: tuple(sum(call.hold is h for call in kind) for kind in (acts, held, reads)) for h in holds}
    wants = {h.scope: sum(call.wanting and call.hold is h for call in calls) for h in holds}
    running = sum(not call.returned for call in acts)
    return len(acts), running, len(reads), kept, wants if txn.state is State.OPEN else {}


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_what_is_counted_of_a_transaction_is_what_its_calls_say(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        live = hand.protocol.live.values()
        assert {txn.name: counted(txn) for txn in live} == {txn.name: counted_by_calls(txn) for txn in live}


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_everybody_is_found_by_name_by_number_and_by_position_and_who_is_over_by_none(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        board = hand.protocol.board
        live = [txn for txn in hand.known.values() if not txn.finished]
        assert board.by_id == {txn.id: txn for txn in live}
        assert board.live == {txn.position: txn for txn in live}
        assert list(board.order.items) == sorted(board.live)
        assert board.tied == {txn.id for txn in live if txn.parent or txn.group}
        assert all(board.named[name].name == name for name in board.named)
        assert set(board.named) == {txn.name for txn in live}
        members = {txn.id: {m.id for m in live if m.group == txn.id} for txn in live if txn.role}
        assert {txn.id: set(txn.members) for txn in live if txn.role} == members
        assert not any(txn.holds for txn in hand.known.values() if txn.finished)


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_a_hold_is_known_for_what_it_is(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        holds = [hold for txn in hand.protocol.live.values() for hold in txn.holds.values()]
        for hold in holds:
            shown = (plainly.is_active(hold), plainly.is_busy(hold), hold.readings > 0)
            assert (hold.active, hold.busy, hold.reading) == shown
        assert hand.protocol.board.index.lined == sum(hold.lined for hold in holds)


# ---- what no step may lead to


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_a_wait_is_for_one_before_or_for_what_waits_for_nobody(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        for call in waiting(hand.protocol):
            blocked = hand.protocol.in_the_way(call)
            if blocked is None or call.txn.state is not State.OPEN or call.txn.role:
                continue  # a hold asks for nothing: who works under it does
            other = blocked.holder
            if other.position > call.txn.position:
                ends = other.state in (State.ABORTING, State.RELEASING)
                reads = any(h.readings and h.scope.overlaps(call.scope) for h in other.holds.values())
                assert ends or reads, (call.txn.name, other.name)


@settings(max_examples=examples(60))
@given(seed=seeds, count=counts)
def test_who_saw_what_was_not_settled_is_there_for_whom_it_saw_until_either_has_ended(seed, count):
    hand = Hand(seed, floors=seed % 3)
    for _ in range(count):
        hand.try_step()
        known = hand.protocol.by_id
        for txn in hand.known.values():
            assert all(txn.id in known[number].dependents for number in txn.preds)
            assert all(txn.id in known[number].preds for number in txn.dependents if number in known)
            assert txn.state not in (State.RELEASING, State.COMMITTED) or txn.guards.reads != "early" or not txn.preds
            undone = [number for number in txn.preds if known[number].state is State.ABORTING]
            assert txn.guards.reads != "early" or not undone or txn.state is State.ABORTING
