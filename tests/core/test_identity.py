"""A decision has one key: what is seen again answers from the record, and nothing happens twice."""

from __future__ import annotations

import pytest

from settlemark import InDoubt, KeyConflict, Queued, Refused, State, StateError, current_call, effect
from settlemark.hosting import host_of


class Boom(Exception):
    """A failure of the caller's own."""


def trip(settlement, tools, *, name="trip/1", room="a"):
    with settlement.transaction(name) as tx:
        booked = tx.call(tools.book, room=room)
        queued = tx.call(tools.send, to="ada")
    return booked, queued, tx


def test_entering_a_committed_name_again_replays_its_results_and_runs_nothing(settlement, world, tools):
    booked, queued, _ = trip(settlement, tools)
    again, queued_again, tx = trip(settlement, tools)
    assert again == booked
    assert isinstance(queued_again, Queued)
    assert (queued_again.key, queued_again.outcome, queued_again.result()) == (queued.key, "confirmed", "sent to ada")
    assert world.log == [("book", "a"), ("send", "ada", "hello")]
    assert (tx.state, tx.attempt, host_of(settlement).protocol.live) == (State.COMMITTED, 1, {})


def test_a_replay_outlives_the_process(tmp_path, open_settlement, world, tools):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_settlement(url)
    booked, _, _ = trip(first, tools)
    first.close()
    again, queued, tx = trip(open_settlement(url), tools)
    assert (again, queued.result(), tx.state) == (booked, "sent to ada", State.COMMITTED)
    assert len(world.log) == 2


def test_a_replay_with_other_arguments_is_refused_and_shows_both(settlement, world, tools):
    trip(settlement, tools)
    before = settlement.transactions()
    with pytest.raises(
        KeyConflict, match=r'was book\({"room":"a"}\) before and is book\({"room":"b"}\) now'
    ) as conflict:
        trip(settlement, tools, room="b")
    assert conflict.value.key == "trip/1#1/0"
    assert conflict.value.recorded == {"tool": "book", "arguments": {"room": "a"}}
    assert conflict.value.given == {"tool": "book", "arguments": {"room": "b"}}
    assert (len(world.log), settlement.transactions()) == (2, before)


def test_a_replay_with_another_tool_is_refused(settlement, world, tools):
    trip(settlement, tools)
    with pytest.raises(KeyConflict), settlement.transaction("trip/1") as tx:
        tx.call(tools.shout, word="a")
    assert len(world.log) == 2


def test_a_replay_that_asks_for_more_than_was_done_is_refused(settlement, world, tools):
    trip(settlement, tools)
    with pytest.raises(StateError, match="use another name for new work"), settlement.transaction("trip/1") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
        tx.call(tools.book, room="c")
    assert len(world.log) == 2


def test_reads_of_a_replay_run_since_they_decide_nothing(settlement, tools):
    for _ in range(2):
        with settlement.transaction("trip/1") as tx:
            assert tx.read("price:/Ada", lambda: 7) == 7
            tx.call(tools.book, room="a")


def test_a_call_that_failed_fails_again_when_replayed_and_does_not_run(settlement, world, tools):
    world.fail("book", Boom("no rooms"))
    with settlement.transaction("trip") as tx, pytest.raises(Boom):
        tx.call(tools.book, room="a")
    with settlement.transaction("trip") as tx, pytest.raises(Refused, match="book failed before: Boom: no rooms"):
        tx.call(tools.book, room="a")
    assert world.log == []


def test_a_call_in_doubt_stays_in_doubt_when_replayed(settlement, world, tools):
    world.fail("book", TimeoutError("no answer"))
    for _ in range(2):
        with settlement.transaction("trip") as tx, pytest.raises(InDoubt, match="the outcome of book on room:/a"):
            tx.call(tools.book, room="a")
    assert world.log == []


def test_an_aborted_name_takes_the_next_attempt_with_the_next_key(settlement, world, tools, recorded):
    keys = []

    @effect("reversible", scope="room:/{room}", undo=tools.cancel)
    def book(room):
        keys.append((current_call().key, current_call().attempt))
        return tools.book(room)

    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        raise Boom
    with settlement.transaction("trip") as tx:
        tx.call(book, room="b")
    assert keys == [("trip#1/0", 1), ("trip#2/0", 2)]
    assert (world.rooms, tx.attempt) == ({"b"}, 2)
    assert [state for state, _ in recorded(settlement, "trip")] == ["aborted", "committed"]


def test_the_next_attempt_of_an_aborted_name_is_the_next_one_in_a_new_process_too(tmp_path, open_settlement, tools):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    for expected in (1, 2, 3):
        settlement = open_settlement(url)
        with pytest.raises(Boom), settlement.transaction("trip") as tx:
            tx.call(tools.book, room="a")
            assert tx.attempt == expected
            raise Boom
        settlement.close()


def test_a_retry_of_the_transaction_takes_the_next_key(settlement, tools):
    keys = []
    opening = settlement.transaction("older", may_touch=["room:/a"])
    older = opening.__enter__()

    @effect("reversible", scope="room:/{room}", undo=tools.cancel)
    def book(room):
        keys.append(current_call().key)

    def body(tx):
        tx.call(book, room="a")
        if tx.attempt == 1:
            older.call(tools.book, room="a")
            opening.__exit__(None, None, None)

    settlement.run("trip", body)
    assert keys == ["trip#1/0", "trip#2/0"]


def test_a_retry_of_the_call_keeps_the_key(settlement, world):
    keys = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book(room):
        keys.append(current_call().key)
        world.act("book", room)

    world.fail("book", Boom(), Boom())
    settlement.run("trip", lambda tx: tx.call(book, room="a"))
    assert keys == ["trip#1/0"] * 3


def test_two_namespaces_of_one_store_share_nothing(tmp_path, open_settlement, world, tools):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    one, two = open_settlement(url, namespace="one"), open_settlement(url, namespace="two")
    with one.transaction("trip", wait=0) as in_one, two.transaction("trip", wait=0) as in_two:
        for tx, name in ((in_one, "one"), (in_two, "two")):
            tx.call(tools.book, room="a")
            assert tx.call(tools.send, to="ada").key == f"{name}:trip#1/1"
    assert [entry[0] for entry in world.log] == ["book", "book", "send", "send"]
    one.cancel("gone")
    for settlement, fences in ((one, {"gone"}), (two, set())):
        assert host_of(settlement).ledger.now(lambda protocol, _: set(protocol.fenced)) == fences
    with two.transaction("gone"):
        pass
    assert [[r.row.name for r in settlement.transactions()] for settlement in (one, two)] == [["trip"]] * 2


def test_a_transaction_without_a_name_is_never_replayed(settlement, world, tools, caplog):
    for _ in range(2):
        with settlement.transaction() as tx:
            tx.call(tools.book, room="a")
    assert world.log == [("book", "a")] * 2
    assert [r.message for r in caplog.records] == [
        "a transaction without a name cannot be told from its own retry: name it"
    ]


# ---- what the record says is what happens


def test_what_a_caller_changes_after_the_call_changes_neither_the_release_nor_the_undo(settlement, world):
    @effect("irreversible", scope="mail:/{to}")
    def send(to, parts):
        world.act("send", to, list(parts))

    @effect("reversible", scope="room:/{room}", undo=lambda room, guests: world.act("cancel", room, list(guests)))
    def book(room, guests):
        world.act("book", room, list(guests))

    parts, guests = ["dear"], ["ada"]
    with settlement.transaction("mail") as tx:
        tx.call(send, to="ada", parts=parts)
        parts.append("changed")
    with pytest.raises(Boom), settlement.transaction("rooms") as tx:
        tx.call(book, room="a", guests=guests)
        guests.append("bob")
        raise Boom
    assert world.log == [("send", "ada", ["dear"]), ("book", "a", ["ada"]), ("cancel", "a", ["ada"])]


def test_two_tools_of_one_name_keep_their_own_declarations(settlement, world):
    def make(kind, **parts):
        def act(to):
            world.act(kind, to)

        return effect(kind, scope="box:/{to}", **parts)(act)

    eager, gated = make("reversible", undo=lambda to: None), make("irreversible")
    with settlement.transaction("trip") as tx:
        tx.call(eager, to="a")
        assert isinstance(tx.call(gated, to="b"), Queued)
        tx.call(eager, to="c")
        assert world.log == [("reversible", "a"), ("reversible", "c")]


def test_a_declaration_from_outside_goes_before_the_tools_own_and_counts_from_then_on(settlement, world, tools, caplog):
    with settlement.transaction("one") as tx:
        assert tx.call(tools.shout, word="hi") == "HI"
    settlement.declare("shout", "irreversible", scope="street:/{word}")
    settlement.declare("book", "irreversible", scope="room:/{room}")
    with settlement.transaction("two") as tx:
        assert isinstance(tx.call(tools.shout, word="hi"), Queued)
        assert isinstance(tx.call(tools.book, room="a"), Queued)
        assert world.log == [("shout", "hi")]
    assert world.log == [("shout", "hi"), ("shout", "hi"), ("book", "a")]
    (warning,) = [record.message for record in caplog.records]
    assert warning == (
        "shout is undeclared, so it runs in order and cannot be undone; say what it does:"
        ' settlement.declare("shout", "read") or @effect(…)'
    )


def test_a_tool_is_known_by_the_name_its_declaration_gives_it(settlement, world, recorded):
    @effect("reversible", scope="room:/{room}", undo=lambda room: None, name="hotels.book")
    def book(room):
        world.act("book", room)

    with settlement.transaction("one") as tx:
        tx.call(book, room="a")
    settlement.declare("hotels.book", "irreversible", scope="room:/{room}")
    with settlement.transaction("two") as tx:
        assert isinstance(tx.call(book, room="a"), Queued)
    assert recorded(settlement, "one") == [("committed", [("hotels.book", "confirmed", None)])]
