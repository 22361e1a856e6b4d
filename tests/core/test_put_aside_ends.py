"""The end of a transaction that was put aside is on record, whichever program of its process comes first."""

from __future__ import annotations

import queue
import threading
from contextlib import nullcontext

import pytest

from settlemark import UsageError, effect
from settlemark.hosting import Reason, host_of, run_sync
from settlemark.observe import Began, Ended

pytestmark = [pytest.mark.own_time, pytest.mark.every_store]


@pytest.fixture
def driver(settlement):
    """A settlement with a payment that waits for a person: nothing of it has acted, so its abort undoes nothing."""

    @effect("irreversible", scope="account:/{account}", approve=True)
    def pay(account): ...

    settlement.run("case-7", lambda tx: tx.call(pay, account="ada"))
    return host_of(settlement).driver


@pytest.fixture
def left(shared_url, open_here):
    """A payment that waits for a person, whose process has ended, as another process has it that was there before."""
    pay = effect("irreversible", scope="account:/{account}", approve=True, name="pay")(lambda account: None)
    first, second = open_here(shared_url), open_here(shared_url)
    second.recover()
    first.run("case-7", lambda tx: tx.call(pay, account="ada"))
    first.close()
    second.recover()
    yield second
    assert pay  # a tool that nobody refers to is declared no more


def test_one_that_another_process_has_put_aside_and_left_is_on_record_as_cancelled_at_once(left):
    left.cancel("case-7")
    assert ended(left) == ("aborted", Reason.CANCELLED, ["dropped"])
    assert (left.approvals(), left.residue()) == ([], [])


def cancelled(protocol, _book):
    return protocol.cancel("case-7")


def ended(settlement):
    (found,) = settlement.transactions()
    return str(found.state), found.reason, [str(each.outcome) for each in found.effects]


def look_for_what_was_resumed_elsewhere(driver, done):
    run_sync(driver.elsewhere.look())


def give_to_another_thread(driver, done):
    run_sync(driver.undoing.tidy(lambda program, dropped: done.append(program)))


def take_up(driver, done):
    run_sync(driver.recovery.take_up())


@pytest.mark.parametrize(
    "meanwhile",
    [
        [look_for_what_was_resumed_elsewhere],
        [give_to_another_thread, look_for_what_was_resumed_elsewhere],
        [look_for_what_was_resumed_elsewhere, give_to_another_thread, take_up, look_for_what_was_resumed_elsewhere],
    ],
    ids=lambda each: "-".join(one.__name__ for one in each),
)
def test_an_abort_that_another_program_is_to_conclude_is_not_forgotten(settlement, driver, meanwhile):
    driver.kernel.ledger.now(cancelled)
    given = []
    for each in meanwhile:
        each(driver, given)
    for program in given:
        run_sync(program)
    run_sync(driver.undoing.tidy())
    assert ended(settlement) == ("aborted", Reason.CANCELLED, ["dropped"])
    assert settlement.approvals() == []


def test_what_ends_it_waits_until_the_end_is_on_record(settlement, driver, monkeypatch):
    given, waits = queue.Queue(), threading.Event()
    tidy = driver.undoing.tidy
    monkeypatch.setattr(driver.undoing, "tidy", lambda: tidy(lambda program, dropped: given.put(program)))

    class Waiters(list):
        def append(self, waiter):
            super().append(waiter)
            waits.set()

    (attempt,) = driver.kernel.attempts.values()
    attempt.waiters = Waiters()
    told = []
    thread = threading.Thread(target=lambda: (settlement.cancel("case-7"), told.append(ended(settlement)[0])))
    thread.start()
    concluding = given.get(timeout=30)
    assert waits.wait(30)
    assert told == []
    run_sync(concluding)
    thread.join()
    assert told == ["aborted"]


class Witness:
    """Writes down what it is told of beginnings and ends; `elsewhere` observes the other process."""

    def __init__(self, elsewhere=None):
        self.told = []
        self.elsewhere = elsewhere

    def tell(self, event):
        if isinstance(event, Began):
            self.told.append(("began", event.how))
        if isinstance(event, Ended):
            self.told.append((str(event.state), event.reason, event.left, event.elsewhere))

    def around(self, acting):
        return nullcontext()


@pytest.fixture
def witness():
    return Witness(Witness())


@pytest.fixture
def two(shared_url, open_here, witness):
    """Two processes: the first, which is observed, has put a payment aside, with a note that nobody can take back."""
    meanwhile = []

    @effect("opaque", name="note")
    def note(): ...

    def check(account):
        if account == "eve":
            first.recover()
            raise ValueError("not to eve")

    @effect("irreversible", scope="account:/{account}", approve=True, name="pay", check=check)
    def pay(account):
        for each in meanwhile:
            each()

    first, second = open_here(shared_url, observe=witness), open_here(shared_url, observe=witness.elsewhere)

    def plan(tx):
        tx.call(note)
        tx.call(pay, account="ada")

    first.run("case-7", plan)
    second.recover()
    witness.told.clear()
    yield first, second, meanwhile
    assert all((pay, note))  # tools that nobody refers to are declared no more


def test_its_observer_hears_how_another_process_has_ended_it_once(two, witness):
    first, second, _ = two
    second.answer("case-7", approve=True)
    first.recover()
    assert witness.told == [("committed", None, 0, True)]
    assert witness.elsewhere.told == [("began", "taken up"), ("committed", None, 0, False)]
    first.recover()
    second.recover()
    assert (len(witness.told), len(witness.elsewhere.told)) == (1, 2)


def test_its_observer_hears_of_what_another_process_has_left_of_it(two, witness):
    first, second, _ = two
    second.answer("case-7", approve=False)
    first.recover()
    assert witness.told == [("aborted", Reason.VETOED, 1, True)]


def test_its_observer_hears_nothing_as_long_as_another_process_works_on_it(two, witness):
    first, second, meanwhile = two
    meanwhile += [first.recover, lambda: witness.told.append("it pays")]
    second.answer("case-7", approve=True)
    first.recover()
    assert witness.told == ["it pays", ("committed", None, 0, True)]


def test_what_another_process_has_put_aside_again_and_comes_back_has_one_beginning_and_one_end(two, witness):
    first, second, _ = two
    with pytest.raises(UsageError):
        second.answer("case-7", approve=True, arguments={"account": "eve"})
    first.recover()
    first.answer("case-7", approve=True)
    first.recover()
    assert witness.told == [("committed", None, 0, False)]
