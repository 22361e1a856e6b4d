from __future__ import annotations

import json
import re
import threading
import time

import pytest
from tests.rooms.api import in_the_way, told
from tests.rooms.protocol import Mode

from settlemark import Scope, Settlement, State, WaitTimeout, effect
from settlemark.hosting import Protocol, Reason, host_of


@effect("reversible", scope="room:/{hotel}", undo=lambda: None)
def reserve(hotel): ...


@effect("irreversible", scope="mail:/{to}")
def send(to): ...


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


@pytest.fixture
def waiting_pair(store):
    """trip-1 holds room:/Ada; trip-2 waits for it, with its first call."""
    with Settlement(store) as settlement:

        def second():
            with settlement.transaction("trip-2/book") as tx:
                tx.call(reserve, hotel="Ada")

        with settlement.transaction("trip-1/book") as tx:
            tx.call(reserve, hotel="Ada")
            thread = threading.Thread(target=second)
            thread.start()
            until(settlement.waiting)
            yield store
        thread.join()


def test_nothing_unfinished_is_said_in_sentences_tables_and_json(store, run, run_json):
    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")

    assert run("waiting", store).stdout == run("waiting", store, "--table").stdout == "Nothing is unfinished.\n"
    assert run("waiting", store).exit_code == 0
    assert run_json("waiting", store) == []


def test_who_holds_whom_is_seen_from_outside_with_since_when_and_by_which_process(waiting_pair, run_json):
    holder, waiter = run_json("waiting", waiting_pair)

    assert (holder["transaction"], holder["state"], holder["waits"]) == ("trip-1/book", "open", [])
    assert (waiter["transaction"], waiter["run"], waiter["state"]) == ("trip-2/book", "trip-2", "open")
    ((waits),) = waiter["waits"]
    assert (waits["holder"], waits["scope"]) == ("trip-1/book", "room:/Ada")
    with Settlement(waiting_pair) as settlement:
        (recorded,) = settlement.transactions()
    assert holder["since"] == recorded.row.at
    assert int(recorded.row.at) <= waiter["since"] <= waits["since"]  # what is not recorded yet, in whole seconds
    assert holder["worker"] == waiter["worker"] != ""
    assert holder["alive"] is waiter["alive"] is True
    assert 0 < holder["lease_left"] <= 30
    assert holder["scopes"] == waiter["scopes"] == ["room:/Ada"]


def test_looking_at_who_waits_changes_nothing_in_the_store(waiting_pair, run):
    def everything():
        from tests.rooms.replica import looking

        from settlemark.ledger import open_ledger

        ledger = open_ledger(waiting_pair, readonly=True)
        try:
            return looking(ledger, lambda look: (look.ask("SELECT n FROM settlemark_head"), len(look.workers())))
        finally:
            ledger.close()

    before = everything()
    assert run("waiting", waiting_pair).exit_code == 0

    assert everything() == before


def test_the_sentences_and_the_table_name_holder_scope_and_process(waiting_pair, run):
    told, table = run("waiting", waiting_pair), run("waiting", waiting_pair, "--table")

    assert told.exit_code == table.exit_code == 0
    assert "trip-2/book is open, for" in told.stdout
    assert "  waits for trip-1/book, on room:/Ada, for" in told.stdout
    assert "it belongs to process" in told.stdout
    assert "Unfinished" in table.stdout


def test_what_a_process_that_ended_has_left_is_told_as_such(store, ends_amid, run, run_json):
    ends_amid(store, "trip-1", "tx.call(reserve, hotel='Ada')")

    (left,) = run_json("waiting", store)

    assert (left["transaction"], left["state"], left["alive"]) == ("trip-1", "open", False)
    assert "is gone; settlemark recover ends it" in run("waiting", store).stdout


def test_the_table_tells_how_long_a_lease_holds_and_that_a_process_is_gone(tmp_path, ends_amid, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    store = f"sqlite:///{tmp_path / 'trip.db'}"

    def leases():
        lines = [re.split("[│┃|]", line) for line in run("waiting", store, "--table").stdout.splitlines()]
        rows = [[cell.strip() for cell in line] for line in lines if len(line) > 5]
        at = rows[0].index("lease")
        return {row[1]: row[at] for row in rows[1:]}

    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")
        assert re.fullmatch(r"\d+ s", leases()["trip-1"])
    ends_amid(store, "trip-2", "tx.call(reserve, hotel='Ada')")
    assert leases() == {"trip-2": "gone"}


def test_a_transaction_put_aside_is_told_as_parked(store, run, run_json):
    with Settlement(store) as settlement:
        part = settlement.transaction("trip-1")
        tx = part.__enter__()
        tx.call(reserve, hotel="Ada")
        from settlemark.hosting import run_sync

        run_sync(host_of(settlement).driver.undoing.suspend(tx._attempt))
        (one,) = run_json("waiting", store)
        said = run("waiting", store).stdout
        part.__exit__(None, None, None)

    assert one["parked"] is True
    assert "put aside, until its framework comes back to it" in said


def test_the_image_that_a_log_is_cut_at_keeps_since_when(store, run_json, monkeypatch):
    from tests.rooms.replica import replica

    monkeypatch.setattr(replica, "IMAGE_EVERY", 1)
    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")
        for number in range(10):
            with settlement.transaction(f"other-{number}") as other:
                other.call(reserve, hotel=f"room {number}")
        (one,) = [one for one in run_json("waiting", store) if one["transaction"] == "trip-1"]
        begun = next(r.row.at for r in settlement.transactions() if r.row.name == "trip-1")

    assert one["since"] == begun


# -- what the protocol would answer ---------------------------------------------------------------------------


def begun(protocol, name, scope, mode):
    txn = protocol.begin(name)
    call = protocol.request(txn, Scope.parse(scope), mode)
    protocol.admit(call)
    return txn, call


def test_a_request_and_a_commit_wait_since_the_time_the_protocol_was_told():
    protocol = Protocol()
    protocol.tell_time(100)
    first, _ = begun(protocol, "first", "room:/a", Mode.EAGER)
    protocol.tell_time(200)
    second, _ = begun(protocol, "second", "room:/a", Mode.EAGER)
    third, _ = begun(protocol, "third", "room:/a", Mode.HELD)
    protocol.tell_time(300)
    protocol.seal(third)

    assert [(txn.since, txn.moved) for txn in (first, second, third)] == [(100, 0), (200, 0), (200, 300)]
    assert [(b.holder, b.scope.text, since) for b, since in in_the_way(protocol, second)] == [(first, "room:/a", 200)]
    assert [(b.holder, b.scope.text, since) for b, since in in_the_way(protocol, third)] == [(second, "room:/a", 300)]
    assert in_the_way(protocol, first) == []


def test_asking_who_is_in_the_way_aborts_nobody_though_its_reads_are_stale():
    protocol = Protocol()
    reader, call = begun(protocol, "reader", "price:/a", Mode.READ)
    protocol.acted(call, happened=True)
    begun(protocol, "writer", "price:/a", Mode.HELD)
    protocol.begin("older")
    protocol.seal(reader)
    before = protocol.freeze()

    assert in_the_way(protocol, reader) == []
    assert protocol.freeze() == before
    assert reader.state is State.SEALED


def test_a_finished_wait_is_not_told():
    protocol = Protocol()
    first, call = begun(protocol, "first", "room:/a", Mode.EAGER)
    second, _ = begun(protocol, "second", "room:/a", Mode.EAGER)
    protocol.acted(call, happened=False)
    protocol.abort(first, Reason.FAILED)

    assert in_the_way(protocol, second) == []


def test_no_sentence_has_an_end_of_its_own():
    assert told([], 0.0) == "Nothing is unfinished."


def test_a_wait_that_was_given_up_is_no_longer_told(store, run_json):
    with Settlement(store) as settlement, settlement.transaction("trip-1") as tx:
        tx.call(reserve, hotel="Ada")
        with pytest.raises(WaitTimeout), settlement.transaction("trip-2", wait=0, independent=True) as other:
            other.call(reserve, hotel="Ada")
        (one,) = run_json("waiting", store)

    assert one["transaction"] == "trip-1"


def test_json_is_one_document(waiting_pair, run):
    assert isinstance(json.loads(run("waiting", waiting_pair, "--json").stdout), list)
