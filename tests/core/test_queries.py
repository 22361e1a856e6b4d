"""A query of the protocol moves nothing, whatever the state: it may be asked by anybody, at any time."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.hand import SCOPES, Hand
from tests.extent import examples
from tests.rooms.protocol import Blocked, Mode
from tests.rooms.replica import image

from settlemark import Scope, SettlemarkError, Stale, State
from settlemark.hosting import Protocol, Reason

MOVES = {
    "abort", "acted", "admit", "advance", "apply", "begin", "bury", "cancel", "decide", "declare", "finish",
    "go_on", "halt", "join", "lift", "put_aside",
    "finish_abort", "skip_epochs", "owe", "own", "park", "phantom", "rebind", "refine", "refuse_changed",
    "refuse_stale", "reinstate", "released", "resumed", "retract", "revert", "revoke", "seal", "split", "tell_time",
    "undone", "unfence", "drop_call", "drop_retry", "withdraw",
}  # fmt: skip # a table
TICKETS = {"wake_watchers", "take_aborted", "take_woken", "unwatch", "watch", "watch_ends"}
"""Who is told of what has moved: no decision depends on it."""

QUERIES = {
    "aborted": lambda p, _: p.aborted(),
    "ahead": lambda p, it: p.ahead(it.txn),
    "changes": lambda p, _: p.changes,
    "chronicle": lambda p, _: p.chronicle,
    "fenced": lambda p, _: p.fenced,
    "first": lambda p, it: p.first(it.txn, Blocked(it.other, it.scope)),
    "floor": lambda p, it: p.floor(it.scope),
    "freeze": lambda p, _: p.freeze(),
    "frontier": lambda p, it: p.frontier(it.scope),
    "halted": lambda p, it: p.halted(it.txn),
    "halted_call": lambda p, it: p.halted_call(it.txn.run, [it.scope]),
    "halts": lambda p, _: p.halts,
    "has_aborted": lambda p, _: p.has_aborted,
    "in_the_way": lambda p, it: [p.in_the_way(call) for call in it.txn.calls.values()],
    "live": lambda p, _: p.live,
    "may_conclude": lambda p, it: p.may_conclude(it.txn),
    "named": lambda p, _: p.named,
    "by_id": lambda p, _: p.by_id,
    "next_epoch": lambda p, _: p.next_epoch,
    "refusal": lambda p, it: p.refusal(it.txn) if it.txn.reason else None,
    "refuse_fenced": lambda p, it: p.refuse_fenced(it.txn.name, it.txn.run),
    "request": lambda p, it: p.request(it.txn, it.scope, Mode.EAGER),
    "time": lambda p, _: p.time,
    "stays": lambda p, it: p.stays(it.txn),
    "version": lambda p, it: p.version(it.scope),
    "waits_for": lambda p, it: p.waits_for(it.txn),
}


class It:
    """Whom a query is about."""

    def __init__(self, txn, other, scope):
        self.txn, self.other, self.scope = txn, other, scope


def whole(protocol):
    """All that a protocol is: what a replica of it is given, and what is to be told of it."""
    board = protocol.board
    watchers = {txn.id: [ticket.fired for ticket in txn.watchers] for txn in board.by_id.values()}
    told = [ticket.fired for ticket in board.woken], [txn.id for txn in board.aborted], watchers
    noted = None if protocol.journal is None else len(protocol.journal)
    return json.loads(json.dumps(image(protocol))), protocol.freeze(), told, noted


def ask_everything(protocol):
    """Ask each query of each transaction, and show that nothing moved."""
    before = whole(protocol)
    live = list(protocol.live.values())
    for name, query in QUERIES.items():
        for txn in live:
            for scope in (SCOPES[0], SCOPES[4]):
                try:
                    query(protocol, It(txn, live[-1], scope))
                except SettlemarkError as error:
                    assert not isinstance(error, Stale) or txn.reason is Reason.STALE, (name, error)  # noqa: PT017
                assert whole(protocol) == before, name


def test_every_public_member_of_the_protocol_is_a_move_a_ticket_or_a_query():
    public = {name for name, _ in inspect.getmembers(Protocol) if not name.startswith("_")}
    assert public == MOVES | TICKETS | set(QUERIES)


def a_stale_read(stage):
    writer, reader = stage.begin("writer"), stage.begin("reader")
    stage.read(reader, "cell:/p/x")
    stage.hold(reader, "room:/q")
    stage.write(writer, "cell:/p/x")
    stage.commit(writer)
    stage.protocol.seal(reader)


def a_stale_plan(stage):
    stage.read(first := stage.begin("trip/1", run="trip"), "cell:/p")
    stage.commit(first)
    stage.write(writer := stage.begin("writer"), "cell:/p")
    stage.commit(writer)
    stage.hold(second := stage.begin("trip/2", run="trip"), "cell:/z")
    stage.protocol.seal(second)


def a_changed_tool(stage):
    txn = stage.begin("trip")
    call = stage.protocol.request(txn, Scope.parse("cell:/p"), Mode.HELD)
    stage.protocol.admit(call, ("post", "post(to)", 0))
    stage.protocol.rebind("post", "post(to, cc)")
    stage.protocol.seal(txn)


def a_wound(stage):
    older, younger = stage.begin("older"), stage.begin("younger", retry=True)
    stage.hold(older, "cell:/p/x")
    stage.write(younger, "cell:/p/y")
    stage.write(older, "cell:/z")
    stage.ask(older, "cell:/p", Mode.EAGER)
    assert younger.state is State.ABORTING


def a_wait(stage):
    older, younger = stage.begin("older"), stage.begin("younger")
    stage.write(older, "cell:/p")
    blocked = stage.ask(younger, "cell:/p/x", Mode.READ)[1]
    stage.protocol.watch(blocked, younger)


def a_circle_through_a_call(stage):
    outer = stage.begin("outer")
    inner = stage.begin("inner", parent=outer.id)
    stage.write(inner, "cell:/p")
    stage.protocol.seal(inner)
    stage.write(outer, "cell:/z")
    stage.hold(outer, "cell:/*/x")


def a_cancelled_run(stage):
    txn = stage.begin("trip/1", run="trip")
    stage.write(txn, "cell:/p")
    stage.protocol.cancel("trip")


STATES = [a_stale_read, a_stale_plan, a_changed_tool, a_wound, a_wait, a_circle_through_a_call, a_cancelled_run]


@pytest.mark.parametrize("reach", STATES)
def test_a_query_moves_nothing(stage, reach):
    stage.protocol.journal = []
    reach(stage)
    ask_everything(stage.protocol)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 10**9), count=st.integers(0, 150))
def test_a_query_moves_nothing_in_whatever_state_steps_have_left(seed, count):
    hand = Hand(seed)
    hand.steps(count)
    ask_everything(hand.protocol)


@pytest.mark.parametrize("reach", [a_stale_read, a_stale_plan, a_changed_tool])
def test_what_is_stale_waits_for_nobody_until_somebody_decides_and_is_aborted_by_the_decision(stage, reach):
    reach(stage)
    (txn,) = stage.protocol.live.values()
    assert (stage.protocol.waits_for(txn), txn.state) == (None, State.SEALED)
    with pytest.raises(Stale):
        stage.protocol.decide(txn)
    assert (txn.state, txn.reason, stage.protocol.live) == (State.ABORTED, Reason.STALE, {})


def test_to_refuse_what_is_stale_aborts_it_and_leaves_what_is_not(stage):
    reader = stage.begin("reader")
    stage.read(reader, "cell:/p")
    stage.protocol.seal(reader)
    before = whole(stage.protocol)
    stage.protocol.refuse_stale(reader)
    assert whole(stage.protocol) == before

    stage.protocol.decide(reader)
    a_changed_tool(stage)
    stale = stage.protocol.named["trip"]
    with pytest.raises(Stale):
        stage.protocol.refuse_stale(stale)
    assert (stale.state, stage.protocol.aborted()) == (State.ABORTED, [stale])
