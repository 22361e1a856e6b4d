"""A transaction as users meet it: the six classes, what commits, what an abort leaves, who is told."""

from __future__ import annotations

import threading

import pytest

from settlemark import (
    PayloadError,
    Queued,
    Refused,
    Stale,
    State,
    StateError,
    Tag,
    Vetoed,
    Wounded,
    current_call,
    effect,
)
from settlemark.hosting import host_of

PATIENCE = 60


class Boom(Exception):
    """A failure of the caller's own."""


def fail(tx):
    raise Boom


# ---- the six classes


@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "at_once"),
    [
        ("book", {"room": "a"}, {"confirmation": "R-a"}, ("book", "a")),
        ("book_with_fee", {"room": "a"}, "booked", ("book", "a")),
        ("charge", {"account": "x", "amount": 3}, 3, ("charge", "x", 3)),
        ("shout", {"word": "hi"}, "HI", ("shout", "hi")),
    ],
)
def test_what_runs_at_once_answers_with_the_tools_value_and_stays(
    settlement, world, tools, recorded, tool, arguments, answer, at_once
):
    with settlement.transaction("trip") as tx:
        assert tx.call(getattr(tools, tool), **arguments) == answer
        assert world.log == [at_once]
    assert world.log == [at_once]
    assert recorded(settlement, "trip") == [("committed", [(tool, "confirmed", None)])]
    assert settlement.residue() == []


@pytest.mark.parametrize(
    ("tool", "arguments", "value", "entry"),
    [
        ("send", {"to": "ada"}, "sent to ada", ("send", "ada", "hello")),
        ("put", {"cell": "c", "value": 7}, 7, ("put", "c", 7)),
    ],
)
def test_what_is_held_answers_queued_and_leaves_at_the_commit(
    settlement, world, tools, recorded, tool, arguments, value, entry
):
    with settlement.transaction("trip") as tx:
        queued = tx.call(getattr(tools, tool), **arguments)
        assert isinstance(queued, Queued)
        assert (queued.key, queued.tool, queued.outcome, str(queued)) == (
            "trip#1/0",
            tool,
            "queued",
            "queued: will run when this step settles",
        )
        with pytest.raises(StateError, match=f"{tool} is queued: it has a result once"):
            queued.result()
        assert world.log == []
    assert (queued.outcome, queued.result(), world.log) == ("confirmed", value, [entry])
    assert recorded(settlement, "trip") == [("committed", [(tool, "confirmed", None)])]


def test_reads_answer_at_once_and_leave_no_record(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        assert tx.read("price:/Ada") is None
        assert tx.read("price:/Ada", lambda: 7) == 7
        assert tx.call(tools.look, room="a") is False
    assert (settlement.transactions(), tx.state) == ([], State.COMMITTED)


def test_an_abort_undoes_drops_and_names_each_class_as_it_can(settlement, world, tools, recorded):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.book_with_fee, room="b")
        tx.call(tools.charge, account="x", amount=3)
        tx.call(tools.shout, word="hi")
        queued = [tx.call(tools.send, to="ada"), tx.call(tools.put, cell="c", value=7)]
        fail(tx)
    assert [entry[0] for entry in world.log] == ["book", "book", "charge", "shout", "cancel", "cancel"]
    assert (world.rooms, tx.state, [q.outcome for q in queued]) == (set(), State.ABORTED, ["dropped", "dropped"])
    assert recorded(settlement, "trip") == [
        (
            "aborted",
            [
                ("book", "undone", "clean"),
                ("book_with_fee", "undone", "unresolved"),
                ("charge", "confirmed", "unresolved"),
                ("shout", "confirmed", "unresolved"),
                ("send", "dropped", "clean"),
                ("put", "dropped", "clean"),
            ],
        )
    ]
    assert [(r.tool, r.tag, r.note) for r in settlement.residue()] == [
        ("book_with_fee", Tag.UNRESOLVED, "undone, but a cost stays: a fee of 20"),
        ("charge", Tag.UNRESOLVED, "it happened, and idempotent effects of charge have no undo"),
        ("shout", Tag.UNRESOLVED, "it happened, and opaque effects of shout have no undo"),
    ]


def test_undos_run_in_reverse_order(settlement, world, tools):
    with pytest.raises(Boom), settlement.transaction("trip") as tx:
        for room in "abc":
            tx.call(tools.book, room=room)
        fail(tx)
    assert world.log[3:] == [("cancel", "c"), ("cancel", "b"), ("cancel", "a")]


def test_an_effect_on_a_scope_with_something_held_is_held_behind_it(settlement, world):
    @effect("irreversible", scope="cell:/{cell}")
    def announce(cell):
        world.act("announce", cell)

    @effect("reversible", scope="cell:/{cell}", undo=lambda cell: None)
    def lock(cell):
        world.act("lock", cell)

    with settlement.transaction("trip") as tx:
        tx.call(announce, cell="c")
        assert isinstance(tx.call(lock, cell="c"), Queued)
        tx.call(lock, cell="d")
        assert world.log == [("lock", "d")]
    assert world.log == [("lock", "d"), ("announce", "c"), ("lock", "c")]


# ---- what the staging area shows


def test_staged_requests_are_seen_by_their_own_transaction_only(settlement, tools):
    @effect("read", scope="cell:/{cell}")
    def get(cell):
        return current_call().staged(f"cell:/{cell}")

    with settlement.transaction("one") as one, settlement.transaction("two") as two:
        one.call(tools.put, cell="c", value=1)
        one.call(tools.put, cell="c", value=2)
        one.call(tools.send, to="c")
        expected = [{"cell": "c", "value": 1}, {"cell": "c", "value": 2}]
        assert one.call(get, cell="c") == one.staged("cell:/c") == one.staged("cell:/*") == expected
        assert two.call(get, cell="c") == two.staged("cell:/c") == one.staged("cell:/d") == []
        assert [staged.tool for staged in one.staged("cell:/c")] == ["put", "put"]


def test_inside_a_tool_the_current_call_is_known(settlement):
    seen = []

    @effect("opaque")
    def look():
        seen.append(current_call())

    with settlement.transaction("trip/book") as tx:
        tx.call(look)
    (call,) = seen
    assert (call.key, call.transaction, call.attempt) == ("trip/book#1/0", "trip/book", 1)
    assert call.epoch == 1
    assert current_call() is None


# ---- refusals


def test_arguments_that_cannot_be_stored_are_refused_and_nothing_ran(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        for bad in (object(), {1, 2}, b"raw", float("nan"), "\ud800"):
            with pytest.raises(PayloadError, match=r"\$\.(word|to|room)"):
                tx.call(tools.shout, word=bad)
    assert (world.log, settlement.transactions(), tx.state) == ([], [], State.COMMITTED)


def test_a_call_with_wrong_arguments_fails_as_the_tool_would_and_nothing_ran(settlement, world, tools):
    with settlement.transaction("trip") as tx, pytest.raises(TypeError, match="missing a required argument: 'room'"):
        tx.call(tools.book)
    assert (world.log, settlement.transactions()) == ([], [])


def test_a_failing_tool_raises_its_own_exception(settlement, world, tools, recorded):
    world.fail("book", Boom("no rooms"))
    with pytest.raises(Boom, match="no rooms"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert recorded(settlement, "trip") == [("aborted", [("book", "failed", "clean")])]
    assert settlement.residue() == []


def test_a_failed_call_that_the_caller_forgives_does_not_stop_the_rest(settlement, world, tools, recorded):
    world.fail("book", Boom())
    with settlement.transaction("trip") as tx:
        with pytest.raises(Boom):
            tx.call(tools.book, room="a")
        tx.call(tools.book, room="b")
    assert world.rooms == {"b"}
    assert recorded(settlement, "trip") == [("committed", [("book", "failed", None), ("book", "confirmed", None)])]


def test_a_call_after_the_end_is_refused_and_nothing_ran(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    with pytest.raises(Exception, match="had settled: it was refused; use a new transaction"):
        tx.call(tools.book, room="b")
    assert (world.rooms, tx.state) == ({"a"}, State.COMMITTED)


def test_a_second_commit_is_refused_and_nothing_moved(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.send, to="ada")
        tx.commit()
        with pytest.raises(StateError):
            tx.commit()
        with pytest.raises(StateError, match="trip is committed: it can no longer be undone"):
            tx.abort()
    assert world.log == [("send", "ada", "hello")]


def test_an_abort_by_the_caller_leaves_the_block_quietly(settlement, world, tools):
    with settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.abort("changed my mind")
    assert (world.rooms, tx.state) == (set(), State.ABORTED)


# ---- hooks


@pytest.mark.parametrize("verdict", [None, True, 1, [], {}])
def test_a_hook_that_does_not_object_lets_it_commit(settlement, world, tools, verdict):
    with settlement.transaction("trip", before_commit=[lambda footprint: verdict]) as tx:
        tx.call(tools.send, to="ada")
    assert world.log == [("send", "ada", "hello")]


@pytest.mark.parametrize(("verdict", "told"), [(False, "it returned False"), ("too dear", "too dear"), ("", "")])
def test_a_hook_that_says_no_vetoes_and_all_is_undone(settlement, world, tools, verdict, told):
    def budget(footprint):
        return verdict

    with pytest.raises(Vetoed) as vetoed, settlement.transaction("trip", before_commit=[budget]) as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
    assert (vetoed.value.hook, vetoed.value.verdict, vetoed.value.transaction) == ("budget", told, "trip")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)


def test_a_hook_that_raises_undoes_all_and_its_exception_is_told(settlement, world, tools):
    with pytest.raises(Boom), settlement.transaction("trip", before_commit=[fail]) as tx:
        tx.call(tools.book, room="a")
    assert (world.rooms, tx.state) == (set(), State.ABORTED)


def test_an_async_hook_is_asked_too(settlement, world, tools):
    async def never(footprint):
        return "never"

    with pytest.raises(Vetoed, match="never"), settlement.transaction("trip", before_commit=[never]) as tx:
        tx.call(tools.send, to="ada")
    assert world.log == []


def test_a_hook_that_was_asked_before_a_wait_is_asked_again_behind_it(settlement, world, tools, someone_waits):
    opening = settlement.transaction("older")
    older = opening.__enter__()
    seen, told = [], []

    def is_empty(footprint):
        if not seen:
            older.call(tools.put, cell="c", value=2)  # which goes first
        seen.append(world.cells.get("c"))
        return seen[-1] is None

    def commit():
        try:
            with settlement.transaction("younger", before_commit=is_empty) as tx:
                tx.call(tools.put, cell="c", value=1)
        except Vetoed as error:
            told.append(error.hook)

    waits = someone_waits(settlement)
    younger = threading.Thread(target=commit)
    younger.start()
    assert waits.wait(PATIENCE)
    opening.__exit__(None, None, None)
    younger.join(PATIENCE)
    assert (seen, told) == ([None, 2], ["is_empty"])
    assert (world.log, host_of(settlement).protocol.live, settlement.residue()) == ([("put", "c", 2)], {}, [])


def test_a_hook_sees_the_whole_footprint(settlement, tools):
    seen = []
    with settlement.transaction("trip", before_commit=[seen.append]) as tx:
        tx.read("price:/Ada")
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada", text="hi")
    (footprint,) = seen
    assert (footprint.transaction, footprint.reads) == ("trip", ["price:/Ada"])
    assert footprint.effects == [
        {"tool": "book", "class": "reversible", "scope": "room:/a", "arguments": {"room": "a"},
         "result": {"confirmation": "R-a"}, "held": False},
        {"tool": "send", "class": "irreversible", "scope": "mail:/ada", "arguments": {"to": "ada", "text": "hi"},
         "result": None, "held": True},
    ]  # fmt: skip # a list of names and values


# ---- run


def test_run_returns_what_the_function_returns(settlement, world, tools):
    assert settlement.run("trip", lambda tx: tx.call(tools.book, room="a")) == {"confirmation": "R-a"}
    assert world.rooms == {"a"}


def test_run_retries_a_stale_transaction(settlement, world, tools):
    @effect("reversible", scope="price:/Ada", undo=lambda: None)
    def reprice():
        world.act("reprice")

    rival = settlement.transaction("rival", may_touch=["price:/Ada"])
    older = rival.__enter__()

    def book(tx):
        tx.read("price:/Ada")
        tx.call(tools.book, room="a")
        if tx.attempt == 1:
            older.call(reprice)
            rival.__exit__(None, None, None)
        return tx.attempt, tx.epoch

    assert settlement.run("trip", book) == (2, 2)
    assert [e[0] for e in world.log] == ["book", "reprice", "cancel", "book"]


def test_run_retries_a_wounded_transaction(settlement, world, tools):
    opening = settlement.transaction("older", may_touch=["room:/a"])
    older = opening.__enter__()

    def book(tx):
        tx.call(tools.book, room="a")
        if tx.attempt == 1:
            older.call(tools.book, room="a")
            opening.__exit__(None, None, None)
        tx.call(tools.send, to="ada")
        return tx.attempt

    assert settlement.run("trip", book) == 2
    assert [e[0] for e in world.log] == ["book", "cancel", "book", "book", "send"]


def test_run_gives_up_after_its_tries_and_its_place_is_free(settlement, world, tools):
    opening = settlement.transaction("older", may_touch=["room:/a"])
    older = opening.__enter__()

    def book(tx):
        tx.call(tools.book, room="a")
        older.read("room:/a")
        tx.call(tools.send, to="ada")

    with pytest.raises(Wounded, match="older came first and needed room:/a"):
        settlement.run("trip", book, tries=3, wait_for="nobody")
    opening.__exit__(None, None, None)
    assert [e[0] for e in world.log] == ["book", "cancel"] * 3
    assert host_of(settlement).protocol.live == {}


def test_run_passes_on_what_the_function_raises_and_undoes(settlement, world, tools):
    def book(tx):
        tx.call(tools.book, room="a")
        raise Boom

    with pytest.raises(Boom):
        settlement.run("trip", book)
    assert (world.rooms, host_of(settlement).protocol.live) == (set(), {})


def test_a_refusal_of_another_transaction_is_not_taken_for_ones_own(settlement, world, tools):
    def book(tx):
        tx.call(tools.book, room="a")
        raise Stale("not mine", transaction="other", epoch=9)

    with pytest.raises(Refused, match="not mine"):
        settlement.run("trip", book)
    assert (world.rooms, host_of(settlement).protocol.live) == (set(), {})
