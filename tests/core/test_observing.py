"""What an observer is told, in which order, and that its own faults reach nobody."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextvars import ContextVar

import pytest

from settlemark import InDoubt, Outcome, Retries, State, WaitTimeout, current_call, effect
from settlemark.agents import open_turn
from settlemark.hosting import host_of, run_sync
from settlemark.observe import Acted, Acting, Began, Ended, LostLease, Recovery, Waited

INSIDE = ContextVar("inside", default=None)


class Witness:
    """Writes down what it is told."""

    def __init__(self):
        self.events = []
        self.settlement = None

    def tell(self, event):
        self.events.append(event)

    @contextlib.contextmanager
    def around(self, acting):
        token = INSIDE.set(acting.key)
        try:
            yield
        finally:
            INSIDE.reset(token)

    def finish(self):
        """Have the settlement's own thread end what it is at: an abort may be concluded there."""
        if self.settlement is not None:
            self.settlement.close()

    def told(self, kind):
        self.finish()
        return [event for event in self.events if isinstance(event, kind)]

    def line(self):
        """The events in short words."""
        self.finish()
        return [_word(event) for event in self.events]


def _word(event):
    match event:
        case Began():
            return f"{event.how} {event.transaction}#{event.attempt}"
        case Waited():
            return f"{event.transaction} waited for {event.holder} on {event.scope}"
        case Acting():
            return f"{event.act} {event.tool}"
        case Acted():
            return f"{event.acting.act} {event.acting.tool}: {event.outcome}"
        case Ended():
            return f"{event.of.transaction}#{event.of.attempt} {event.state}"
        case _:
            return type(event).__name__


@pytest.fixture
def witness():
    return Witness()


@pytest.fixture
def seen(url, witness, open_settlement):
    witness.settlement = open_settlement(url, observe=witness)
    return witness.settlement


def test_a_transaction_is_told_from_its_beginning_over_its_acts_to_its_end(seen, witness, tools):
    with seen.transaction("trip-1") as tx:
        tx.call(tools.look, room="1")
        tx.call(tools.book, room="1")
        tx.call(tools.send, to="Ada")

    assert witness.line() == [
        "begun trip-1#1", "call look", "call look: confirmed", "call book", "call book: confirmed",
        "release send", "release send: confirmed", "trip-1#1 committed",
    ]  # fmt: skip # a list of names and values
    (began,) = witness.told(Began)
    assert (began.run, began.epoch) == ("trip-1", 1)
    assert all(acting.of is began for acting in witness.told(Acting))
    assert [acting.key for acting in witness.told(Acting)] == ["", "trip-1#1/0", "trip-1#1/1"]
    assert [acting.scope for acting in witness.told(Acting)] == ["room:/1", "room:/1", "mail:/Ada"]
    (ended,) = witness.told(Ended)
    assert (ended.of, ended.state, ended.reason, ended.left) == (began, State.COMMITTED, None, 0)


def test_an_abort_is_told_with_its_undos_its_reason_and_what_it_left(seen, witness, tools):
    with contextlib.suppress(ZeroDivisionError), seen.transaction("trip-1") as tx:
        tx.call(tools.book_with_fee, room="1")
        tx.call(tools.send, to="Ada")
        raise ZeroDivisionError

    assert witness.line() == [
        "begun trip-1#1",
        "call book_with_fee",
        "call book_with_fee: confirmed",
        "undo book_with_fee",
        "undo book_with_fee: undone",
        "trip-1#1 aborted",
    ]
    (ended,) = witness.told(Ended)
    assert (ended.reason, ended.left) == ("failed", 1)
    assert witness.told(Acted)[-1].tag == "unresolved"


def test_a_retry_on_fresh_state_is_told_as_one(seen, witness, tools):
    older = seen.transaction("older")
    other = older.__enter__()

    def body(tx):
        tx.read("cell:/1", lambda: 1)
        if tx.attempt == 1:
            other.call(tools.put, cell="1", value=2)
            older.__exit__(None, None, None)
        tx.call(tools.send, to="Ada")

    seen.run("trip-1", body)

    line = [word for word in witness.line() if "trip-1#" in word]
    assert line == ["begun trip-1#1", "trip-1#1 aborted", "retried trip-1#2", "trip-1#2 committed"]
    assert [ended.reason for ended in witness.told(Ended)] == [None, "stale", None]


def test_a_doubt_is_told_as_unknown(seen, witness, world, tools):
    world.fail("charge", *[TimeoutError("no answer")] * 3)

    with pytest.raises(InDoubt), seen.transaction("trip-1") as tx:
        tx.call(tools.charge, account="Ada", amount=5)

    assert witness.told(Acted)[0].outcome is Outcome.UNKNOWN


def test_a_wait_is_told_with_its_holder_and_whether_it_was_in_vain(seen, witness, tools):
    with seen.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")
        with pytest.raises(WaitTimeout), seen.transaction("trip-2", wait=0) as other:
            other.call(tools.book, room="1")

    (waited,) = witness.told(Waited)
    assert (waited.transaction, waited.holder, waited.scope, waited.gave_up) == ("trip-2", "trip-1", "room:/1", True)
    assert waited.seconds >= 0


def test_what_surrounds_an_act_is_there_in_the_very_call_also_in_a_thread_of_asyncios(seen, tools):
    found = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: found.append(("undo", INSIDE.get())))
    def book(room):
        found.append(("sync", INSIDE.get()))

    @effect("reversible", scope="suite:/{room}", undo=lambda room: None)
    async def abook(room):
        await asyncio.sleep(0)
        found.append(("async", INSIDE.get()))

    async def main():
        async with seen.transaction("trip-1") as tx:
            await tx.call(book, room="1")
            await tx.call(abook, room="1")
        with contextlib.suppress(ZeroDivisionError):
            async with seen.transaction("trip-2") as tx:
                await tx.call(book, room="1")
                raise ZeroDivisionError

    asyncio.run(main())

    assert found == [
        ("sync", "trip-1#1/0"),
        ("async", "trip-1#1/1"),
        ("sync", "trip-2#1/0"),
        ("undo", "trip-2#1/0"),
    ]
    assert INSIDE.get() is None


def test_an_async_handler_is_surrounded_under_threads_too_and_knows_its_call(seen):
    found = []

    async def cancel(room):
        await asyncio.sleep(0)
        found.append((INSIDE.get(), current_call().key))

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book(room): ...

    with contextlib.suppress(ZeroDivisionError), seen.transaction("trip-1") as tx:
        tx.call(book, room="1")
        raise ZeroDivisionError

    assert found == [("trip-1#1/0", "trip-1#1/0")]


class Faulty:
    def tell(self, event):
        raise RuntimeError("the observer is broken")

    @contextlib.contextmanager
    def around(self, acting):
        if acting.tool == "send":
            raise RuntimeError("before")
        yield
        raise RuntimeError("after")


def test_an_observers_own_faults_are_logged_and_the_work_goes_on(url, open_settlement, tools, world, caplog):
    settlement = open_settlement(url, observe=Faulty())

    with settlement.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")
        tx.call(tools.send, to="Ada")

    assert world.log == [("book", "1"), ("send", "Ada", "hello")]
    said = [record.getMessage() for record in caplog.records]
    assert "an observer failed at Began: RuntimeError: the observer is broken" in said
    assert "an observer failed around book: RuntimeError: after" in said
    assert "an observer failed around send: RuntimeError: before" in said


def test_an_observers_fault_does_not_hide_a_tools(open_settlement, world, tools, caplog):
    settlement = open_settlement(observe=Faulty())
    world.fail("book", LookupError("no room"))

    with pytest.raises(LookupError, match="no room"), settlement.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")


def test_nobody_is_told_of_a_replay(seen, witness, tools):
    for _ in range(2):
        with seen.transaction("trip-1") as tx:
            tx.call(tools.book, room="1")

    assert [word for word in witness.line() if "#" in word] == ["begun trip-1#1", "trip-1#1 committed"]


def test_a_lost_lease_is_told_and_whose_it_was(tmp_path, open_settlement, witness, tools, caplog):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    caplog.set_level(logging.CRITICAL, "settlemark")
    settlement, other = open_settlement(url, observe=witness), open_settlement(url)
    worker = host_of(settlement).ledger.worker
    tx = settlement.transaction("trip-1").__enter__()
    tx.call(tools.book, room="1")

    def bury(protocol, book):
        protocol.bury(worker)

    host_of(other).ledger.now(bury)
    host_of(settlement).ledger.now(lambda protocol, book: None)

    (lost,) = witness.told(LostLease)
    assert (lost.worker, lost.transactions) == (worker, 1)


def test_a_recovery_is_told_with_its_report(tmp_path, open_settlement, witness, tools):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_settlement(url)
    tx = first.transaction("trip-1").__enter__()
    tx.call(tools.book, room="1")
    first.close()

    second = open_settlement(url, observe=witness, keep_open=0)
    second.recover()
    second.close()

    assert [recovery.report.undone for recovery in witness.told(Recovery)] == [["trip-1"]]
    assert [word for word in witness.line() if "#" in word] == ["taken up trip-1#1", "trip-1#1 aborted"]


def test_a_call_that_is_tried_again_is_one_act(open_settlement, witness, world, tools):
    settlement = open_settlement(observe=witness, on_failure="retry", retries=Retries(first=0, most=0))
    world.fail("book", OSError("busy"), OSError("busy"))

    with settlement.transaction("trip-1") as tx:
        tx.call(tools.book, room="1")

    assert witness.line() == ["begun trip-1#1", "call book", "call book: confirmed", "trip-1#1 committed"]


def test_a_turn_that_was_suspended_and_comes_back_here_has_begun_once(seen, witness, tools):
    class Ask(Exception):
        """A framework's control flow: it suspends a call."""

    def ask():
        raise Ask

    def turn(act):
        batch = run_sync(open_turn(seen, "trip", run="trip", resumable=True, let_through=(Ask,)))
        call = batch.place(host_of(seen).tools.of(tools.book), {"room": "a"}, call_id="1")
        error = None
        try:
            run_sync(batch.perform(call, act, {"room": "a"}))
        except Ask as asked:
            error = asked
        run_sync(batch.leave(call, error=error))

    turn(ask)
    turn(lambda: tools.book("a"))
    assert [word for word in witness.line() if "trip#1" in word] == ["begun trip#1", "trip#1 committed"]
