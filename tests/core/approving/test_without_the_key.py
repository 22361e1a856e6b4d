"""A process without the ledger's key takes up nothing that it could neither send nor undo: one that has it does."""

from __future__ import annotations

import pytest
from tests.core.crashes.conftest import Still
from tests.rooms.api import host

from settlemark import Approval, LedgerError, Payloads, State, effect, new_key

pytest.importorskip("cryptography")

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]

HOUR = 3_600.0
BOOKED = ["book Ada card-7"]
PAID = [*BOOKED, "pay Ada card-7"]
UNDONE = [*BOOKED, "cancel Ada card-7"]
WAITS = (
    "the arguments of book cannot be read in this process, and trip is left to one that can: give encrypt= the"
    " ledger's key"
)


class Agency:
    """A counterparty with a log of its own."""

    def __init__(self, terms=True):
        self.log = log = []

        def cancel(result, place):
            log.append(f"cancel {place} {result}")

        @effect("reversible", scope="room:/{place}", undo=cancel)
        def book(place, card):
            log.append(f"book {place} {card}")
            return card

        @effect("irreversible", scope="account:/{place}", approve=terms)
        def pay(place, card):
            log.append(f"pay {place} {card}")

        self.book, self.pay = book, pay

    def trip(self, tx, card="card-7"):
        tx.call(self.book, place="Ada", card=card)
        tx.call(self.pay, place="Ada", card=card)


@pytest.fixture(autouse=True)
def nothing_unasked(monkeypatch):
    """What recovers is who is told to: a process that does it in the background is at it, and returns early."""
    monkeypatch.setattr(host, "Maintenance", Still)


@pytest.fixture
def agency():
    return Agency()


@pytest.fixture
def key():
    return new_key()


@pytest.fixture(params=["no key", "another key"])
def without(request):
    """What a process is given that has not the ledger's key."""
    return {} if request.param == "no key" else {"payloads": Payloads(encrypt=new_key())}


@pytest.fixture
def keyed(shared_url, open_here, key):
    """Open a settlement with the ledger's key, which may be one of several."""
    return lambda *newer: open_here(shared_url, payloads=Payloads(encrypt=[*newer, key]), keep_open=HOUR)


def put_aside(settlement, agency):
    settlement.run("trip", agency.trip)
    settlement.close()


def left_open(settlement, agency):
    """Make a call in a transaction that its process does not live to end."""
    tx = settlement.transaction("trip").__enter__()
    tx.call(agency.book, place="Ada", card="card-7")
    settlement.close()


def states(settlement):
    return [recorded.state for recorded in settlement.transactions()]


@pytest.mark.parametrize(
    ("answer", "then", "ends"),
    [
        (lambda desk, asked: desk.approve(asked, by="ada"), PAID, State.COMMITTED),
        (lambda desk, asked: desk.reject(asked, by="ada", because="no"), UNDONE, State.ABORTED),
    ],
    ids=["a yes", "a no"],
)
def test_an_answer_is_recorded_where_the_key_is_missing_and_carried_out_where_it_is_not(
    shared_url, open_here, keyed, without, agency, answer, then, ends
):
    put_aside(keyed(), agency)
    keyless = open_here(shared_url, **without)
    (asked,) = keyless.approvals()
    said = answer(keyless, asked.key)
    assert (said.news, said.settled, said.waits) == (True, False, WAITS)
    keyless.recover()
    assert (agency.log, states(keyless), keyless.residue()) == (BOOKED, [State.OPEN], [])
    keyless.close()
    desk = keyed()
    desk.recover()
    assert (agency.log, states(desk), desk.residue(), desk.approvals()) == (then, [ends], [], [])


def test_a_question_that_lapses_is_undone_by_one_that_can_read_it(shared_url, open_here, keyed, without, clock):
    agency = Agency(Approval(within=HOUR))
    put_aside(keyed(), agency)
    clock.advance(2 * HOUR)
    keyless = open_here(shared_url, **without)
    keyless.recover()
    assert (agency.log, states(keyless), keyless.residue()) == (BOOKED, [State.OPEN], [])
    keyless.close()
    desk = keyed()
    desk.recover()
    assert (agency.log, states(desk), desk.residue()) == (UNDONE, [State.ABORTED], [])


@pytest.mark.parametrize("leave", [put_aside, left_open])
def test_entering_its_name_is_refused_before_anything_of_it_is_touched(
    shared_url, open_here, keyed, without, agency, leave
):
    leave(keyed(), agency)
    keyless = open_here(shared_url, keep_open=HOUR, **without)
    for _ in range(2):
        with pytest.raises(LedgerError) as refused:
            keyless.run("trip", agency.trip)
        assert str(refused.value) == f"{WAITS}; nothing was run"
    assert (agency.log, states(keyless), keyless.residue()) == (BOOKED, [State.OPEN], [])
    (left,) = (doubt for doubt in keyless.in_doubt() if doubt.tool == "book")
    assert left.remedy == "give encrypt= the key of the record; then settlement.recover()"
    keyless.close()
    keyed().run("trip", agency.trip)
    assert agency.log == BOOKED


def test_a_result_under_a_newer_key_is_left_to_one_that_has_it_where_an_undo_takes_it(keyed, agency):
    newer = new_key()
    left_open(keyed(newer), agency)
    old = keyed()
    assert (old.recover(keep_open=0).stuck, agency.log, old.residue()) == ({"trip": ["book"]}, BOOKED, [])
    old.close()
    desk = keyed(newer)
    desk.recover(keep_open=0)
    assert (agency.log, states(desk), desk.residue()) == (UNDONE, [State.ABORTED], [])
