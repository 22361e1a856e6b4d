"""A fence stops a run wherever it stands: before it begins, between two releases, and after its process ended."""

from __future__ import annotations

import threading

import pytest
from tests.rooms.lifecycle import fences as fences_room

from settlemark import Cancelled, PartialCommit, Settlement, State, Tag, UsageError, effect
from settlemark.hosting import host_of
from settlemark.ledger import StateChange

PATIENCE = 60


def decides(change):
    return isinstance(change, StateChange) and change.state is State.RELEASING


def fences(settlement):
    return host_of(settlement).ledger.read(lambda _: set(host_of(settlement).protocol.fenced))


@pytest.fixture
def cancelling():
    """Cancel a run from another thread; the fence stands when this returns, `join` waits for the rest."""
    threads = []

    def cancel(settlement, run, then):
        stands, put_up = threading.Event(), host_of(settlement).protocol.cancel

        def watched(run):
            found = put_up(run)
            stands.set()
            return found

        def target():
            settlement.cancel(run)
            then()

        host_of(settlement).protocol.cancel = watched
        thread = threading.Thread(target=target)
        threads.append(thread)
        thread.start()
        assert stands.wait(PATIENCE)

    yield cancel
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_cancel_stops_between_two_releases_and_returns_when_nothing_acts_any_more(
    settlement, world, cancelling, recorded
):
    seen, returned = [], threading.Event()

    def cancelled():
        seen.append((tx.state, list(world.log)))
        returned.set()

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        cancelling(settlement, "trip", cancelled)
        assert not returned.is_set()
        world.act("send", to)

    with pytest.raises(PartialCommit, match="its run was cancelled after 1 other") as partial:
        with settlement.transaction("trip") as tx:
            tx.call(send, to="a")
            tx.call(send, to="b")
    assert returned.wait(PATIENCE)
    assert (partial.value.released, partial.value.failed) == (["trip#1/0"], ["trip#1/1"])
    assert seen == [(State.COMMITTED, [("send", "a")])]
    assert world.log == [("send", "a")]
    assert recorded(settlement, "trip") == [
        ("committed", [("send", "confirmed", None), ("send", "dropped", "partial_commit")])
    ]
    assert [(r.key, r.note) for r in settlement.residue()] == [("trip#1/1", "not run: the run was cancelled")]
    assert host_of(settlement).protocol.live == {}


def test_a_cancel_before_the_first_release_undoes_what_was_decided(
    settlement, world, tools, cancelling, when_taken, recorded
):
    when_taken(settlement, decides, lambda: cancelling(settlement, "trip", lambda: None))
    with pytest.raises(Cancelled, match="trip was cancelled"), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip") == [("aborted", [("book", "undone", "clean"), ("send", "dropped", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


def test_a_call_may_cancel_its_own_run_and_is_undone_when_it_has_returned(settlement, world, recorded):
    @effect("reversible", scope="room:/{room}", undo=lambda room: world.act("cancel", room))
    def book(room):
        settlement.cancel("trip")
        world.act("book", room)

    with pytest.raises(Cancelled), settlement.transaction("trip/1", wait=0) as tx:
        tx.call(book, room="a")
    assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert recorded(settlement, "trip/1") == [("aborted", [("book", "undone", "clean")])]
    assert (settlement.residue(), host_of(settlement).protocol.live) == ([], {})


@pytest.mark.timeout(60)
def test_a_call_that_cancels_its_own_run_through_another_settlement_does_not_wait_for_itself_either(
    tmp_path, world, monkeypatch, caplog
):
    monkeypatch.setattr(fences_room, "CANCEL_SECONDS", 1e6)
    url = f"sqlite:///{tmp_path}/trip.db"
    with Settlement(url) as settlement, Settlement(url) as other:

        @effect("reversible", scope="room:/{room}", undo=lambda room: world.act("cancel", room))
        def book(room):
            other.cancel("trip")
            world.act("book", room)

        with pytest.raises(Cancelled, match="trip was cancelled"), settlement.transaction("trip") as tx:
            tx.call(book, room="a")
        assert (world.log, tx.state) == ([("book", "a"), ("cancel", "a")], State.ABORTED)
    assert "trip is cancelled, and aborting: it ends when its call returns" in caplog.messages


@pytest.mark.parametrize("names_a_run", [False, True], ids=["a slash in the name", "run="])
def test_a_transactions_name_is_no_run_and_puts_up_no_fence(settlement, world, tools, names_a_run):
    name, run = ("book", "job") if names_a_run else ("trip/book", "trip")
    with settlement.transaction(name, run=run if names_a_run else None) as tx:
        tx.call(tools.book, room="a")
        kept, before = settlement.transactions(), host_of(settlement).protocol.freeze()
        with pytest.raises(UsageError, match=f"{name} is a transaction of the run {run}: .*cancel '{run}'"):
            settlement.cancel(name)
        assert (fences(settlement), host_of(settlement).protocol.freeze(), settlement.transactions()) == (
            set(),
            before,
            kept,
        )
    assert (world.log, tx.state) == ([("book", "a")], State.COMMITTED)


# ---- what an earlier process left


@pytest.fixture
def left_open(tmp_path, open_settlement):
    """Run the first part of a transaction in a settlement that ends before it settles; return the next one."""

    def leave(name, *calls, **options):
        url = f"sqlite:///{tmp_path / 'ledger.db'}"
        first = open_settlement(url)
        tx = first.transaction(name).__enter__()
        for function, arguments in calls:
            tx.call(function, **arguments)
        first.close()
        return open_settlement(url, **options)

    return leave


def test_a_cancel_undoes_what_an_earlier_process_left_of_the_run(left_open, world, tools, recorded):
    after = left_open("trip/1", (tools.book, {"room": "a"}), (tools.send, {"to": "ada"}))
    after.cancel("trip")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(after, "trip/1") == [("aborted", [("book", "undone", "clean"), ("send", "dropped", "clean")])]
    assert (after.residue(), host_of(after).protocol.live) == ([], {})
    with pytest.raises(Cancelled, match="start again under another run id"), after.transaction("trip/1"):
        raise AssertionError("not reached")


def test_a_cancel_names_what_an_earlier_process_left_and_cannot_be_undone(left_open, world, recorded):
    told = []

    @effect("opaque", scope="desk:/{desk}")
    def hire(desk):
        world.act("hire", desk)

    after = left_open("trip", (hire, {"desk": "a"}), on_residue=told.append)
    after.cancel("trip")
    assert (world.log, told) == ([("hire", "a")], ["trip"])
    assert recorded(after, "trip") == [("aborted", [("hire", "confirmed", "unresolved")])]
    assert [(r.key, r.tag) for r in after.residue()] == [("trip#1/0", Tag.UNRESOLVED)]
    assert host_of(after).protocol.live == {}


def test_a_cancel_of_another_run_leaves_what_an_earlier_process_left(left_open, world, tools, recorded):
    after = left_open("trip", (tools.book, {"room": "a"}))
    after.cancel("tour")
    assert (world.log, recorded(after, "trip")) == ([("book", "a")], [("open", [("book", "confirmed", None)])])
    with after.transaction("trip") as tx:
        tx.call(tools.book, room="a")
    assert (world.log, tx.state) == ([("book", "a")], State.COMMITTED)


@pytest.mark.parametrize("interrupted", ["before it is taken up", "when it is taken up"])
def test_a_cancel_that_ctrl_c_interrupts_leaves_what_an_earlier_process_left_to_the_next_cancel(
    left_open, world, tools, recorded, monkeypatch, interrupted
):
    after = left_open("trip", (tools.book, {"room": "a"}))
    with monkeypatch.context() as patch:
        part = "take_up" if interrupted == "before it is taken up" else "_end"
        recovery = host_of(after).driver.recovery
        goes_on = getattr(recovery, part)

        def interrupt(*arguments, **options):
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return goes_on(*arguments, **options)

        patch.setattr(recovery, part, interrupt)
        with pytest.raises(KeyboardInterrupt):
            after.cancel("trip")
    after.cancel("trip")
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert recorded(after, "trip") == [("aborted", [("book", "undone", "clean")])]
    assert (after.residue(), host_of(after).protocol.live, host_of(after).driver.kernel.attempts) == ([], {}, {})
