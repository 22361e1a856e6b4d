"""Two replicas that take the same steps are equal, also when one of them began from an image."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.hand import SCOPES, Hand
from tests.extent import examples
from tests.rooms.protocol import Mode, Park, Split
from tests.rooms.replica import image, load, read, replay, written

from settlemark import Scope
from settlemark.hosting import Protocol


def test_the_hand_parks_and_splits_and_comes_back_to_both():
    taken = set()
    for seed in range(90):
        hand = Hand(seed)
        hand.steps(300)
        for command in hand.protocol.journal:
            if isinstance(command, Split):
                taken.add(("split", command.hooked))
            elif isinstance(command, Park):
                taken.add(("park", command.parked, command.hooked))
                if not command.parked and "!" in hand.known[command.txn].name:
                    taken.add("came back to a part")
    parked = {("park", True, True), ("park", True, False), ("park", False, False)}
    assert taken == parked | {("split", True), ("split", False), "came back to a part"}


def plain(protocol):
    return json.loads(json.dumps(image(protocol)))


def take(protocol, commands):
    """Take another's commands as they come over the wire."""
    replay(protocol, read(f"[{written(commands)}]", 1), 1)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**9), blocks=st.lists(st.integers(1, 25), min_size=1, max_size=8))
def test_a_replica_that_takes_the_same_steps_is_in_the_same_state(seed, blocks):
    hand, other = Hand(seed), Protocol(plans=3)
    for count in blocks:
        hand.steps(count)
        take(other, hand.protocol.journal)
        hand.protocol.journal.clear()
        assert plain(other) == plain(hand.protocol)
        assert other.freeze() == hand.protocol.freeze()


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10**9), before=st.integers(0, 80), after=st.integers(0, 60))
def test_a_replica_that_begins_from_an_image_decides_as_one_that_was_there_from_the_start(seed, before, after):
    hand = Hand(seed)
    hand.steps(before)
    hand.protocol.journal.clear()
    late = Protocol(plans=3)
    load(late, plain(hand.protocol))
    assert plain(late) == plain(hand.protocol)
    assert late.freeze() == hand.protocol.freeze()
    hand.steps(after)
    take(late, hand.protocol.journal)
    assert plain(late) == plain(hand.protocol)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), before=st.integers(0, 60), lost=st.integers(0, 30))
def test_loading_an_image_takes_back_what_was_never_recorded_and_keeps_every_object(seed, before, lost):
    hand = Hand(seed)
    hand.steps(before)
    kept = plain(hand.protocol)
    known = dict(hand.protocol.by_id)
    hand.steps(lost)
    begun_since = [txn for serial, txn in hand.protocol.by_id.items() if serial not in known]
    load(hand.protocol, kept)
    assert plain(hand.protocol) == kept
    for serial, txn in hand.protocol.by_id.items():
        assert serial in known
        if not known[serial].finished and serial in kept:
            assert txn is known[serial]
    for txn in begun_since:
        assert txn.finished
        assert txn.id not in hand.protocol.by_id


def test_a_replica_that_begins_from_an_image_keeps_as_many_floors_as_one_that_was_there_from_the_start():
    there, late = Protocol(floors=2), Protocol(floors=2)
    there.begin("stays")
    load(late, plain(there))
    for protocol in (there, late):
        for number in range(8):
            txn = protocol.begin(f"writes {number}")
            call = protocol.request(txn, Scope.parse(f"cell:/{number}"), Mode.EAGER)
            assert protocol.admit(call) is None
            protocol.acted(call, happened=True)
            protocol.seal(txn)
            assert protocol.decide(txn) is None
    assert plain(late) == plain(there)


@pytest.fixture
def waiting_pair():
    protocol = Protocol()
    first, second = protocol.begin("first"), protocol.begin("second")
    protocol.admit(protocol.request(first, SCOPES[0], Mode.EAGER))
    blocked = protocol.admit(protocol.request(second, SCOPES[1], Mode.EAGER))
    assert blocked is not None
    return protocol, protocol.watch(blocked.holder, second)


def test_loading_an_image_wakes_everybody_who_waits_so_that_they_look_again(waiting_pair):
    protocol, ticket = waiting_pair
    load(protocol, plain(protocol))
    assert ticket in protocol.take_woken()
    assert ticket.fired
