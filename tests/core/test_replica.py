"""Two replicas that take the same steps are equal, also when one of them began from an image."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from settlemark._edges.errors import SettlemarkError
from settlemark._model.scope import Scope
from settlemark._protocol.holdings import Mode
from settlemark._protocol.protocol import Protocol
from settlemark._protocol.states import Reason, State
from settlemark.ledger._replica.image import image, load
from settlemark.ledger._replica.journal import replay, written

SCOPES = [
    Scope.parse(text) for text in ("cell:/p", "cell:/p/x", "cell:/p/y", "cell:/z", "cell:/*/x", "cell:/p/**", "room:/q")
]


class Hand:
    """Takes random steps as a driver would, and keeps what they were in a journal."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.protocol = Protocol(plans=3)
        self.protocol.journal = []
        self.begun = 0
        self.calls = []

    def step(self):  # noqa: C901, PLR0912, PLR0915 - a table of what can happen
        protocol, random = self.protocol, self.random
        live = list(protocol.live.values())
        kinds = ["begin", "begin", "ask", "ask", "ask", "ask", "return", "return", "seal", "decide", "decide", "abort",
                 "undo", "undo", "undo", "finish", "finish", "cancel", "refine", "withdraw", "takeover", "leap",
                 "advance", "declare", "park", "park", "split"]  # fmt: skip
        kind = random.choice(kinds)
        if kind == "begin" or not live:
            self.begun += 1
            declared = random.sample(SCOPES, random.choice((0, 0, 1)))
            run = f"r{random.randint(0, 5)}"
            holds = [t.id for t in live if t.role]
            protocol.begin(
                f"{run}/{self.begun}", run, declared=declared, retry=random.random() < 0.5, owner=random.choice("ab"),
                role=random.choice(["", "", "", "hold", "choice"]), group=random.choice([0, *holds]),
                parent=random.choice([0, 0, *protocol.by_id]),
            )  # fmt: skip
            return
        txn = random.choice(live)
        pending = [c for c in txn.calls.values() if c.admitted and not c.returned and c.mode is not Mode.HELD]
        if kind == "ask":
            call = protocol.request(txn, random.choice(SCOPES), random.choice(list(Mode)), random.randint(0, 5))
            protocol.admit(call)
        elif kind == "return" and pending:
            protocol.acted(random.choice(pending), happened=random.random() < 0.8)
        elif kind == "withdraw":
            for call in [c for c in txn.calls.values() if c.wanting]:
                protocol.withdraw(call)
        elif kind == "refine":
            eager = [c for c in txn.calls.values() if c.mode is Mode.EAGER and c.returned and c.hold and c.hold.claims]
            if eager and txn.state is State.OPEN:
                protocol.refine(eager[0], [eager[0].scope])
        elif kind == "seal" and not (txn.running or txn.reading):
            protocol.seal(txn)
        elif kind == "decide":
            for other in live:
                if other.state is State.SEALED:
                    protocol.decide(other, lasting=random.random() < 0.5)
        elif kind == "abort" and random.random() < 0.4:
            protocol.abort(
                txn, random.choice([Reason.FAILED, Reason.STALE, Reason.WOUNDED]), scope=SCOPES[0], holder="x"
            )
        elif kind == "undo":
            for other in live:
                if other.state is State.ABORTING and not other.running:
                    for call in list(other.calls.values()):
                        if call.hold and call.hold.claims and call.hold.txn is other:
                            protocol.undone(call, clean=random.random() < 0.7)
                    if not other.claims:
                        protocol.finish_abort(other)
        elif kind == "finish":
            for other in live:
                if other.state is State.RELEASING:
                    for call in other.calls.values():
                        if call.mode is Mode.HELD and call.hold and call.hold.held:
                            protocol.released(call)
                    protocol.finish(other)
        elif kind == "cancel" and random.random() < 0.1:
            protocol.cancel(txn.run)
        elif kind == "takeover" and random.random() < 0.2:
            for orphan in protocol.bury(random.choice("ab")):
                protocol.own(orphan, random.choice("abc"))
        elif kind == "advance":
            protocol.advance(random.choice(SCOPES), random.randint(1, protocol.next_epoch))
        elif kind == "declare":
            protocol.declare(txn, random.sample(SCOPES, 1))
        elif kind == "park":
            self.park(txn)
        elif kind == "split":
            for other in live:
                if other.state is State.SEALED:
                    self.split(other)
        elif kind == "leap" and random.random() < 0.1:
            protocol.leap(100)

    def park(self, txn):
        """Put an open transaction aside, or come back to one that is."""
        if not txn.parked and txn.state is State.OPEN and not (txn.running or txn.reading):
            self.protocol.park(txn, parked=True, hooked=self.random.random() < 0.5)
        elif txn.parked:
            self.protocol.own(txn, self.random.choice("ab"))
            self.protocol.park(txn, parked=False)

    def split(self, txn):
        """Decide about what stays of a transaction, and begin what waits for an answer."""
        if self.protocol.waits_for(txn) is not None:
            return
        held = [call for call in txn.calls.values() if call.mode is Mode.HELD and call.admitted]
        waits = held[self.random.randint(0, len(held)) :]
        for call in waits:
            self.protocol.unhold(call)
        reads = list(txn.reads)
        self.protocol.decide(txn, lasting=self.random.random() < 0.5)
        for number, _ in enumerate(waits):
            self.protocol.split(f"{txn.name}!{number}", txn.run, reads, hooked=self.random.random() < 0.5)

    def steps(self, count):
        for _ in range(count):
            try:
                self.step()
            except SettlemarkError:
                continue


def test_the_hand_parks_and_splits_and_comes_back_to_both():
    taken = set()
    for seed in range(30):
        hand = Hand(seed)
        hand.steps(300)
        taken |= {(name, *kwargs.values()) for name, _, kwargs in hand.protocol.journal if name in ("park", "split")}
        came_back = {args[0] for name, args, kwargs in hand.protocol.journal if name == "park" and not kwargs["parked"]}
        taken |= {"came back to a part" for txn in came_back if "!" in txn.name}
    parked = {("park", True, True), ("park", True, False), ("park", False)}
    assert taken == parked | {("split", True), ("split", False), "came back to a part"}


def plain(protocol):
    return json.loads(json.dumps(image(protocol)))


def over_the_wire(steps):
    return json.loads(json.dumps(written(steps)))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), blocks=st.lists(st.integers(1, 25), min_size=1, max_size=8))
def test_a_replica_that_takes_the_same_steps_is_in_the_same_state(seed, blocks):
    hand, other = Hand(seed), Protocol(plans=3)
    for count in blocks:
        hand.steps(count)
        replay(other, over_the_wire(hand.protocol.journal))
        hand.protocol.journal.clear()
        assert plain(other) == plain(hand.protocol)
        assert other.freeze() == hand.protocol.freeze()


@settings(max_examples=60)
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
    replay(late, over_the_wire(hand.protocol.journal))
    assert plain(late) == plain(hand.protocol)


@settings(max_examples=40)
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
