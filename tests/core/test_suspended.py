"""A call that its framework suspended and another process resumes: it holds its claim while it runs."""

from __future__ import annotations

import pytest

from settlemark import Entangled, Refused, State, WaitTimeout
from settlemark.agents import open_turn
from settlemark.hosting import host_of, run_sync


class Ask(Exception):
    """A framework's control flow: it suspends a call."""


def booking(settlement, tools):
    """Seat one booking in a batch that can be resumed."""
    batch = run_sync(open_turn(settlement, "trip", run="trip", resumable=True, let_through=(Ask,)))
    return batch, batch.place(host_of(settlement).tools.of(tools.book), {"room": "a"}, call_id="1")


@pytest.fixture
def resuming(tmp_path, open_settlement, tools):
    """Suspend a booking in one settlement, end that, and return the next."""

    def ask():
        raise Ask

    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_settlement(url)
    batch, call = booking(first, tools)
    with pytest.raises(Ask) as asked:
        run_sync(batch.perform(call, ask, {"room": "a"}))
    run_sync(batch.leave(call, error=asked.value))
    assert batch.suspended
    first.close()
    return open_settlement(url, wait=0)


def test_a_resumed_call_holds_its_claim_while_it_runs(resuming, world, tools, recorded):
    batch, call = booking(resuming, tools)
    seen = []

    def book():
        txn = batch.attempt.txn
        seen.append((txn.claims, txn.running, txn.wrote))
        with resuming.transaction("other", independent=True) as other:
            with pytest.raises(Entangled, match="inside a call of trip, which holds room:/a"):
                other.call(tools.book, room="a")
        return tools.book("a")

    assert run_sync(batch.perform(call, book, {"room": "a"})) == {"confirmation": "R-a"}
    run_sync(batch.leave(call))
    assert (seen, world.log) == ([(1, 1, True)], [("book", "a")])
    assert recorded(resuming, "trip") == [("committed", [("book", "confirmed", None)])]
    assert (resuming.residue(), host_of(resuming).protocol.live) == ([], {})


def test_a_suspended_call_holds_its_claim_before_it_is_resumed(resuming, world, tools, recorded):
    batch, _ = booking(resuming, tools)
    with resuming.transaction("other") as other, pytest.raises(WaitTimeout, match="waiting for trip"):
        other.call(tools.book, room="a")
    assert (world.log, batch.attempt.txn.claims, batch.attempt.txn.running) == ([], 1, 0)
    assert recorded(resuming, "trip") == [("open", [("book", "suspended", None)])]


def test_a_cancel_while_a_resumed_call_runs_undoes_it_when_it_has_returned(resuming, world, tools, recorded):
    batch, call = booking(resuming, tools)

    def book():
        resuming.cancel("trip")
        tools.book("a")

    with pytest.raises(Refused, match="trip was cancelled") as refused:
        run_sync(batch.perform(call, book, {"room": "a"}))
    run_sync(batch.leave(call, error=refused.value))
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert batch.attempt.txn.state is State.ABORTED
    assert recorded(resuming, "trip") == [("aborted", [("book", "undone", "clean")])]
    assert (resuming.residue(), host_of(resuming).protocol.live) == ([], {})
