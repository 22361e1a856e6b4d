"""Delivered at least once, in order per topic; handled once by who handles it within the inbox."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.adapters.queue.depot import Depot
from tests.extent import examples

from settlemark.testing import VirtualClock, die, in_child
from settlemark_adapters.queue import LEASE_SECONDS, Inbox, Outbox


class Boom(Exception):
    """The handler fails."""


def publish(outbox, *bodies, topic="orders"):
    for body in bodies:
        outbox.publish(topic, body)


def book(message, connection):
    connection.exec_driver_sql(f"INSERT INTO booked VALUES ('{message.body}')")


def test_messages_are_delivered_in_the_order_of_their_topic_and_not_again(outbox):
    publish(outbox, "a", "b", "c")
    publish(outbox, "x", topic="invoices")
    seen = []
    assert outbox.consume("orders", seen.append) == 3
    assert [(m.topic, m.number, m.body, m.attempt) for m in seen] == [
        ("orders", 1, "a", 1),
        ("orders", 2, "b", 1),
        ("orders", 3, "c", 1),
    ]
    assert outbox.consume("orders", seen.append) == 0
    publish(outbox, "d")
    assert outbox.consume("orders", seen.append) == 1
    assert outbox.consume("nothing", seen.append) == 0


def test_each_consumer_gets_every_message(outbox):
    publish(outbox, "a", "b")
    seen = {"billing": [], "stock": []}
    for consumer, messages in seen.items():
        outbox.consume("orders", messages.append, consumer=consumer)
    assert [[m.body for m in messages] for messages in seen.values()] == [["a", "b"], ["a", "b"]]
    assert [m.id for m in seen["billing"]] == [m.id for m in seen["stock"]]


def test_a_batch_is_as_large_as_asked_for(outbox):
    publish(outbox, *"abc")
    seen = []
    assert [outbox.consume("orders", seen.append, batch=2) for _ in range(3)] == [2, 1, 0]


def test_a_message_whose_handler_fails_is_delivered_again_and_holds_up_those_behind_it(outbox):
    publish(outbox, "a", "b", "c")
    seen = []

    def handler(message):
        seen.append((message.body, message.attempt))
        if message.body == "b" and message.attempt < 3:
            raise Boom

    for _ in range(2):
        with pytest.raises(Boom):
            outbox.consume("orders", handler)
    assert outbox.consume("orders", handler) == 2
    assert seen == [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("c", 1)]


def test_of_one_consumer_one_worker_at_a_time_delivers_a_topic(depot, outbox, opened, clock):
    publish(outbox, "a", "b")
    other = opened(Outbox(depot.url, clock=clock))
    seen = []

    def handler(message):
        seen.append(message.body)
        assert other.consume("orders", seen.append) == 0

    assert outbox.consume("orders", handler) == 2
    assert seen == ["a", "b"]


def test_leases_are_told_by_the_databases_clock_whatever_a_hosts_own_says(depot, outbox, opened, monkeypatch):
    publish(outbox, "a", "b")
    one, other = (opened(Outbox(depot.url)) for _ in range(2))
    seen = []

    def handler(message):
        seen.append(message.body)
        now = time.time()
        with monkeypatch.context() as ahead:
            ahead.setattr(time, "time", lambda: now + 2 * LEASE_SECONDS)
            assert other.consume("orders", seen.append) == 0

    assert one.consume("orders", handler) == 2
    assert seen == ["a", "b"]


def test_who_took_longer_than_its_lease_stops_when_another_has_taken_over(depot, outbox, opened, clock):
    publish(outbox, "a", "b", "c")
    other = opened(Outbox(depot.url, clock=clock))
    seen = []

    def slow(message):
        clock.advance(LEASE_SECONDS + 1)
        other.consume("orders", lambda m: seen.append(m.body))
        seen.append(f"late {message.body}")

    assert outbox.consume("orders", slow) == 1
    assert seen == ["a", "b", "c", "late a"]


@pytest.mark.parametrize("through_inbox", [False, True])
def test_a_consumer_killed_between_handler_and_mark_is_delivered_again_and_the_inbox_keeps_it_once(
    depot, outbox, inbox, clock, through_inbox
):
    publish(outbox, "a", "b")

    def play(_tell):
        outbox, inbox = Outbox(depot.url, clock=VirtualClock()), Inbox(depot.url)
        handle = inbox.handling(book) if through_inbox else plainly(inbox)

        def handler(message):
            handle(message)
            die()

        outbox.consume("orders", handler)

    def plainly(inbox):
        def handle(message):
            with inbox.database.begin("booking") as connection:
                book(message, connection)

        return handle

    assert in_child(play).killed
    assert depot.booked() == ["a"]
    seen = []
    assert outbox.consume("orders", seen.append) == 0  # its lease is not over
    clock.advance(LEASE_SECONDS + 1)
    handle = inbox.handling(book) if through_inbox else plainly(inbox)
    assert outbox.consume("orders", lambda m: (seen.append((m.body, m.attempt)), handle(m))) == 2
    assert seen == [("a", 2), ("b", 1)]
    assert depot.booked() == (["a", "b"] if through_inbox else ["a", "a", "b"])


def test_a_consumer_killed_inside_its_handlers_transaction_has_handled_nothing(depot, outbox, inbox, clock):
    publish(outbox, "a")

    def play(_tell):
        outbox, inbox = Outbox(depot.url, clock=VirtualClock()), Inbox(depot.url)

        def handler(message, connection):
            book(message, connection)
            die()

        outbox.consume("orders", inbox.handling(handler))

    assert in_child(play).killed
    clock.advance(LEASE_SECONDS + 1)
    assert outbox.consume("orders", inbox.handling(book)) == 1
    assert depot.booked() == ["a"]


def test_the_inbox_knows_a_message_by_consumer_and_forgets_what_failed(depot, inbox):
    def handler(connection):
        connection.exec_driver_sql("INSERT INTO booked VALUES ('a')")
        if failing:
            raise Boom

    failing = True
    with pytest.raises(Boom):
        inbox.once("m1", handler, consumer="billing")
    assert depot.booked() == []
    failing = False
    assert [inbox.once("m1", handler, consumer=name) for name in ("billing", "billing", "stock")] == [True, False, True]
    assert depot.booked() == ["a", "a"]


def test_two_deliveries_at_once_are_handled_once(depot, inbox):
    inbox.once("other", lambda _: None)
    together, told = threading.Barrier(2), []

    def deliver():
        together.wait()
        told.append(inbox.once("m1", lambda c: c.exec_driver_sql("INSERT INTO booked VALUES ('a')")))

    threads = [threading.Thread(target=deliver) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(told), depot.booked()) == ([False, True], ["a"])


def test_what_all_have_handled_may_be_forgotten_and_is_still_not_published_again(depot, outbox, monkeypatch):
    monkeypatch.setattr(type(outbox), "key", "k1")
    outbox.publish("orders", "a")
    assert outbox.prune("orders") == 0
    outbox.consume("orders", lambda _: None)
    assert outbox.prune("orders") == 1
    assert outbox.publish("orders", "a")["number"] == 1
    assert depot.messages() == [("orders", 1, None)]
    assert outbox.consume("orders", print, consumer="late") == 0


STEPS = st.lists(
    st.sampled_from(["publish", "consume", "fail", "abandon"]),
    max_size=6,
)


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_each_is_delivered_in_order_and_booked_once(tmp_path_factory, steps):
    depot = Depot(f"sqlite:///{tmp_path_factory.mktemp('depot') / 'depot.db'}").open_books()
    clock = VirtualClock()
    outbox, inbox, published, seen = Outbox(depot.url, clock=clock), Inbox(depot.url), 0, []
    let_go = outbox._let_go

    def deliver(how):
        clock.advance(LEASE_SECONDS + 1)
        # One that is abandoned notes nothing at its end, as if it were killed.
        outbox._let_go = (lambda _claim: None) if how == "abandon" else let_go

        def handler(message):
            seen.append(message.body)
            inbox.handling(book)(message)
            if how != "consume":
                raise Boom

        with contextlib.suppress(Boom):
            outbox.consume("orders", handler)

    for step in steps:
        if step == "publish":
            outbox.publish("orders", published)
            published += 1
        else:
            deliver(step)
    deliver("consume")
    assert seen == sorted(seen)
    assert sorted(set(seen)) == list(range(published))
    assert sorted(map(int, depot.booked())) == list(range(published))
