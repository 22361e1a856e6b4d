"""The settled history of a resource: read as a log, in the order of settlement, and followed by one who wakes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from settlemark import Entity, ScopeError, UsageError, effect
from settlemark.hosting import host_of

SCOPE = "invoice:/7"


class Books:
    """What was booked, on which invoice."""

    def __init__(self):
        @effect("reversible", scope="invoice:/{number}", undo=lambda number, amount: None)
        def book(number, amount):
            return {"booked": amount}

        @effect("irreversible", scope="invoice:/{number}/mail")
        def send(number, amount):
            pass

        @effect("reversible", scope="invoice:/{number}", undo=lambda number, amount: None, commutes="add")
        def add(number, amount):
            pass

        @effect("read", scope="invoice:/{number}")
        def look(number):
            return 1

        self.book, self.send, self.add, self.look = book, send, add, look


@pytest.fixture
def books():
    return Books()


def booked(settlement, tool, amount, number="7", name=None):
    with settlement.transaction(name or f"day-{amount}") as tx:
        tx.call(tool, number=number, amount=amount)


def told(entity):
    return [each.arguments["amount"] for each in entity]


@pytest.mark.every_store
def test_it_is_what_committed_transactions_have_done_there_in_their_order(settlement, books):
    with settlement.transaction("june/1", run="june") as tx:
        tx.call(books.look, number="7")
        with tx.decide("book it"):
            tx.call(books.book, number="7", amount=3)
        tx.call(books.book, number="8", amount=4)
        tx.call(books.send, number="7", amount=5)
    booked(settlement, books.book, 6, name="july")
    one, two, three = settlement.entity(SCOPE)
    assert (one.transaction, one.attempt, one.run, one.tool, one.kind) == ("june/1", 1, "june", "book", "reversible")
    assert (one.scopes, one.arguments, one.result) == ((SCOPE,), {"number": "7", "amount": 3}, {"booked": 3})
    assert (one.outcome, one.decision is not None, one.at >= 0) == ("confirmed", True, True)
    assert [(each.tool, each.arguments["amount"], each.transaction) for each in (two, three)] == [
        ("send", 5, "june/1"),
        ("book", 6, "july"),
    ]
    assert one.epoch == two.epoch < three.epoch


def test_what_is_above_and_below_it_and_wildcards_are_its_own_too(settlement, books):
    booked(settlement, books.send, 1)
    booked(settlement, books.book, 2, number="8")
    assert told(settlement.entity("invoice:/")) == [1, 2]
    assert told(settlement.entity("invoice:/*/mail")) == [1, 2]
    assert told(settlement.entity("invoice:/8/mail")) == [2]
    assert told(settlement.entity("invoice:/9")) == []


def test_what_is_open_or_was_undone_is_no_history(settlement, books):
    with pytest.raises(ValueError, match="no"), settlement.transaction("june") as tx:
        tx.call(books.book, number="7", amount=1)
        raise ValueError("no")
    with settlement.transaction("july") as tx:
        tx.call(books.book, number="7", amount=2)
        assert told(settlement.entity(SCOPE)) == []
    assert told(settlement.entity(SCOPE)) == [2]


def test_what_was_taken_back_after_its_commit_stands_there_as_undone(settlement, books):
    booked(settlement, books.book, 1, name="june/1")
    settlement.rewind("june/1", by="ada", dry_run=False)
    assert [(str(each.outcome), each.arguments["amount"]) for each in settlement.entity(SCOPE)] == [("undone", 1)]


@pytest.mark.every_store
def test_who_follows_gets_what_there_is_and_wakes_for_what_comes(settlement, books):
    booked(settlement, books.book, 1)
    got, heard = [], threading.Semaphore(0)

    def follow():
        for each in settlement.entity(SCOPE).follow(wait=20):
            got.append(each.arguments["amount"])
            heard.release()
            if len(got) == 3:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    for amount in (2, 3):
        assert heard.acquire(timeout=20)
        booked(settlement, books.book, 9, number="8", name=f"other-{amount}")
        booked(settlement, books.book, amount)
    thread.join(20)
    assert got == [1, 2, 3]


def test_what_another_process_settles_wakes_too(shared_url, open_settlement, books):
    ours, theirs = open_settlement(shared_url), open_settlement(shared_url)
    log = ours.entity(SCOPE).follow(wait=20)
    booked(theirs, books.book, 1)
    assert next(log).arguments["amount"] == 1
    threading.Timer(0, booked, (theirs, books.book, 2)).start()
    assert next(log).arguments["amount"] == 2
    log.close()


def test_an_older_one_whose_effects_commute_is_told_when_it_settles_and_no_one_twice(settlement, books):
    log = settlement.entity(SCOPE).follow(wait=0)
    with settlement.transaction("older") as older:
        older.call(books.add, number="7", amount=1)
        booked(settlement, books.add, 2)
        assert next(log).arguments["amount"] == 2
    assert told(log) == [1]
    assert told(settlement.entity(SCOPE)) == [1, 2]


def test_one_who_waits_no_longer_ends(settlement, books):
    booked(settlement, books.book, 1)
    assert told(settlement.entity(SCOPE).follow(wait=0)) == [1]


def test_an_event_loop_follows_too(settlement, books):
    booked(settlement, books.book, 1)

    async def follow():
        got = []
        async for each in settlement.entity(SCOPE).afollow(wait=20):
            got.append(each.arguments["amount"])
            if len(got) == 2:
                return got
            async with settlement.transaction("day-2") as tx:
                await tx.call(books.book, number="7", amount=2)
        return None

    assert asyncio.run(follow()) == [1, 2]


def test_another_namespace_has_a_history_of_its_own(shared_url, open_settlement, books):
    ours, other = open_settlement(shared_url), open_settlement(shared_url, namespace="other")
    booked(ours, books.book, 1)
    assert (told(ours.entity(SCOPE)), told(other.entity(SCOPE))) == ([1], [])


def test_bad_input_is_refused(settlement):
    entity = settlement.entity(" Invoice:/7/ ")
    assert (isinstance(entity, Entity), entity.scope, repr(entity)) == (True, SCOPE, "<Entity invoice:/7>")
    with pytest.raises(ScopeError):
        settlement.entity("7")
    with pytest.raises(UsageError, match="wait=-1"):
        next(entity.follow(wait=-1))


def test_who_leaves_is_watched_for_no_more(settlement, books):
    log = settlement.entity(SCOPE).follow(wait=0)
    assert list(log) == []
    assert host_of(settlement).protocol.board.ends == []
