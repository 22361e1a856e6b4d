"""What is held leaves once, in order; refused the first time all is undone, behind another it is named."""

from __future__ import annotations

import pytest

from settlemark import UNKNOWN, InDoubt, PartialCommit, Refused, Retries, State, Tag, current_call, effect
from settlemark.hosting import host_of


class Refusal(Exception):
    """The provider says no."""


def test_releases_leave_in_issuance_order_and_what_cannot_be_undone_last(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.send, to="b")
        tx.call(tools.put, cell="d", value=1)
        tx.call(tools.send, to="a")
        tx.call(tools.put, cell="c", value=1)
    assert [entry[:2] for entry in world.log] == [("put", "d"), ("put", "c"), ("send", "b"), ("send", "a")]


def test_releases_of_turns_that_ask_for_it_leave_in_issuance_order_whatever_they_are(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        for to, cell in [("b", "d"), ("a", "c")]:
            with tx.turn(order="issued") as turn:
                turn.call(tools.send, to=to)
                turn.call(tools.put, cell=cell, value=1)
        tx.call(tools.put, cell="e", value=1)
    in_order = [("send", "b"), ("put", "d"), ("send", "a"), ("put", "c")]
    assert [entry[:2] for entry in world.log] == [("put", "e"), *in_order]


def test_a_release_is_tried_three_times_under_one_key(open_settlement, url, world):
    settlement = open_settlement(url)
    keys = []

    @effect("irreversible", scope="mail:/{to}", keyed=True)
    def send(to):
        keys.append(current_call().key)
        world.act("send", to)

    world.fail("send", Refusal(), Refusal())
    with settlement.transaction("trip") as tx:
        tx.call(send, to="ada")
    assert (keys, world.log) == (["trip#1/0"] * 3, [("send", "ada")])


def test_a_release_without_a_key_or_a_probe_is_tried_once_for_it_may_have_acted_before_it_raised(
    open_settlement, url, world
):
    settlement = open_settlement(url)

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        world.act("send", to)
        raise Refusal("what the server answered is no JSON")

    with pytest.raises(Refused, match="send: what the server answered is no JSON"):
        with settlement.transaction("trip") as tx:
            tx.call(send, to="ada")
    assert world.log == [("send", "ada")]


def test_it_is_tried_again_where_that_was_asked_for_or_a_probe_finds_that_it_did_not_happen(
    open_settlement, url, world
):
    settlement = open_settlement(url)

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        world.act("send", to)

    @effect("irreversible", scope="wire:/{to}", probe=lambda to: None)
    def wire(to):
        world.act("wire", to)

    world.fail("send", Refusal(), Refusal())
    world.fail("wire", Refusal(), Refusal())
    with settlement.transaction("trip", on_failure="retry") as tx:
        tx.call(send, to="ada")
    with settlement.transaction("pay") as tx:
        tx.call(wire, to="ada")
    assert world.log == [("send", "ada"), ("wire", "ada")]


def test_the_first_release_refused_for_good_undoes_everything(settlement, world, tools, recorded):
    world.fail("send", Refusal("no"), Refusal("no"), Refusal("no"))
    with pytest.raises(Refused, match=r"trip was undone \(release refused\): send: no") as refused:
        with settlement.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            tx.call(tools.send, to="ada")
            tx.call(tools.send, to="bob")
    assert isinstance(refused.value.__cause__, Refusal)
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == [
        ("aborted", [("book", "undone", "clean"), ("send", "failed", "clean"), ("send", "dropped", "clean")])
    ]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_later_release_refused_for_good_is_a_partial_commit_that_names_keys(url, open_settlement, world, tools):
    settlement = open_settlement(url)

    @effect("irreversible", scope="wire:/{to}")
    def pay(to):
        world.act("pay", to)

    world.fail("pay", Refusal("no"), Refusal("no"), Refusal("no"))
    with pytest.raises(PartialCommit, match="trip is committed in part: pay on wire:/ada failed for good") as partial:
        with settlement.transaction("trip") as tx:
            tx.call(tools.send, to="ada")
            tx.call(pay, to="ada")
            tx.call(tools.send, to="bob")
    assert (partial.value.released, partial.value.failed) == (["trip#1/0"], ["trip#1/1", "trip#1/2"])
    assert partial.value.transaction == "trip"
    assert (world.log, tx.state) == ([("send", "ada", "hello")], State.COMMITTED)
    if url != "memory:":
        settlement.close()
        settlement = open_settlement(url)
    assert [(r.key, r.tool, r.tag, r.note, r.arguments) for r in settlement.residue()] == [
        ("trip#1/1", "pay", Tag.PARTIAL_COMMIT, "failed for good after another had left: Refusal: no", {"to": "ada"}),
        ("trip#1/2", "send", Tag.PARTIAL_COMMIT, "not run: pay, before it, failed", {"to": "bob", "text": "hello"}),
    ]


def test_a_partial_commit_is_told_to_on_residue_once(open_settlement, world, tools):
    told = []
    settlement = open_settlement(on_residue=told.append)
    world.fail("send", None, *[Refusal("no")] * 3)
    with pytest.raises(PartialCommit), settlement.transaction("trip") as tx:
        tx.call(tools.send, to="ada")
        tx.call(tools.send, to="bob")
    assert told == ["trip"]


def test_a_release_handler_runs_in_the_tools_place(settlement, world):
    def deliver(to, key):
        world.act("deliver", to, key)
        return "delivered"

    @effect("irreversible", scope="mail:/{to}", release=deliver)
    def draft(to):
        world.act("draft", to)

    with settlement.transaction("trip") as tx:
        queued = tx.call(draft, to="ada")
    assert (world.log, queued.result()) == ([("deliver", "ada", "trip#1/0")], "delivered")


def test_a_release_with_an_unknown_outcome_is_in_doubt_and_never_undone(settlement, world, tools):
    world.fail("send", TimeoutError("no answer"))
    with pytest.raises(InDoubt, match="do not repeat it") as doubt, settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
    assert (doubt.value.key, tx.state, world.rooms) == ("trip#1/1", State.COMMITTED, {"a"})
    assert [(r.key, r.tag) for r in settlement.residue()] == [("trip#1/1", Tag.UNRESOLVED)]


@pytest.mark.parametrize(("found", "sent", "residue"), [("sent", 0, 0), (None, 1, 0), (UNKNOWN, 0, 1)])
def test_a_probe_settles_what_a_lost_answer_left_open(settlement, world, found, sent, residue):
    @effect("irreversible", scope="mail:/{to}", probe=lambda key: found)
    def send(to):
        world.act("send", to)
        return "sent"

    world.fail("send", ConnectionError("reset"))
    try:
        with settlement.transaction("trip") as tx:
            queued = tx.call(send, to="ada")
    except InDoubt:
        assert found is UNKNOWN
    else:
        assert queued.result() == "sent"
    assert (len(world.log), len(settlement.residue())) == (sent, residue)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_first_release_that_did_not_happen_undoes_everything(settlement, world, tools, interruption):
    @effect("irreversible", scope="mail:/{to}", probe=lambda: None)
    def send(to):
        raise interruption

    with pytest.raises(interruption), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(send, to="ada")
    assert (world.rooms, tx.state, settlement.residue()) == (set(), State.ABORTED, [])


def test_pauses_between_tries_grow_up_to_their_most():
    retries = Retries(tries=9, first=0.5, factor=2, most=3)
    assert [retries.pause(n) for n in range(1, 6)] == [0.5, 1.0, 2.0, 3, 3]
