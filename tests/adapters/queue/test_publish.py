"""Published at commit, under a stable id, once for each decision."""

from __future__ import annotations

import threading
import uuid
from contextlib import nullcontext

import pytest

from settlemark import PayloadError, Settlement
from settlemark.testing import die, in_child
from settlemark_adapters.queue import DatabaseUnavailable, MessageConflict, Outbox, message_id


class Boom(Exception):
    """The step fails."""


def test_a_message_is_published_when_its_step_commits_and_not_before(depot, settlement, outbox):
    with settlement.transaction("t") as tx:
        queued = tx.call(outbox.publish, topic="orders", message={"order": 7})
        assert outbox.consume("orders", print) == 0
    assert queued.result() == {"id": message_id(queued.key), "topic": "orders", "number": 1}
    assert depot.messages() == [("orders", 1, '{"order":7}')]
    assert settlement.transactions()[0].effects[0].row.scope == f"queue:/{outbox.database.name}/orders"


def test_a_step_that_fails_publishes_nothing(depot, settlement, outbox):
    assert outbox.consume("orders", print) == 0
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        tx.call(outbox.publish, topic="orders", message="never")
        raise Boom
    assert (depot.messages(), settlement.residue()) == ([], [])


def test_its_id_comes_from_the_decision_and_is_stable(settlement, outbox):
    with settlement.transaction("t") as tx:
        sent = [tx.call(outbox.publish, topic="orders", message="same") for _ in range(2)]
    first, second = (each.result()["id"] for each in sent)
    assert first != second
    assert first == message_id(sent[0].key) == str(uuid.UUID(first))


def test_sent_again_under_its_key_it_is_published_once(depot, outbox, monkeypatch):
    monkeypatch.setattr(type(outbox), "key", "k1")
    first = outbox.publish("orders", {"order": 7})
    assert outbox.publish("orders", {"order": 7}) == first
    assert len(depot.messages()) == 1


def test_another_message_under_the_key_is_refused_and_nothing_published(depot, outbox, monkeypatch):
    monkeypatch.setattr(type(outbox), "key", "k1")
    outbox.publish("orders", {"order": 7})
    for other in (("orders", {"order": 8}), ("invoices", {"order": 7})):
        with pytest.raises(MessageConflict, match="nothing was published") as refused:
            outbox.publish(*other)
        assert refused.value.message_id == message_id("k1")
    assert depot.messages() == [("orders", 1, '{"order":7}')]


def test_a_message_of_another_ledger_is_not_taken_for_that_of_this_one(depot, outbox, opened):
    for message, refused in (("one", None), ("two", MessageConflict)):
        with Settlement("memory:") as settlement:
            other = opened(Outbox(depot.url, settlement))
            with pytest.raises(refused, match="a namespace= of its own") if refused else nullcontext():
                with settlement.transaction("t") as tx:
                    tx.call(other.publish, topic="orders", message=message)
    assert depot.messages() == [("orders", 1, '"one"')]


def test_when_its_answer_is_lost_it_is_asked_about_and_published_once(depot, settlement, outbox):
    commit, lost = outbox.database._commit, []

    def losing(connection, doing):
        commit(connection, doing)
        if doing == "publish" and not lost:
            lost.append(doing)
            raise ConnectionError("the answer is lost")

    outbox.database._commit = losing
    with settlement.transaction("t") as tx:
        queued = tx.call(outbox.publish, topic="orders", message=1)
    assert (queued.result()["number"], len(depot.messages()), lost) == (1, 1, ["publish"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_at_its_commit_has_it_published_once_by_another(depot, tmp_path, when):
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"

    def play(_tell):
        settlement = Settlement(ledger, keep_open=0.0)
        outbox = Outbox(depot.url, settlement)
        commit = outbox.database._commit

        def deadly(connection, doing):
            if when == "after":
                commit(connection, doing)
            die()

        outbox.database._commit = deadly
        with settlement.transaction("t") as tx:
            tx.call(outbox.publish, topic="orders", message=1)

    assert in_child(play).killed
    with Settlement(ledger, keep_open=0.0) as settlement:
        outbox = Outbox(depot.url, settlement)
        settlement.recover()
        assert depot.messages() == [("orders", 1, "1")]
        assert (settlement.residue(), settlement.in_doubt()) == ([], [])
        outbox.database.close()


def test_many_that_publish_at_once_number_a_topic_without_gaps(depot, outbox):
    def publish(name):
        for number in range(5):
            outbox.publish("orders", [name, number])

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row[1] for row in depot.messages()] == list(range(1, 21))


def test_steps_publish_to_a_topic_in_their_order(depot, settlement, outbox):
    for name in ("a", "b"):
        with settlement.transaction(name) as tx:
            for number in range(2):
                tx.call(outbox.publish, topic="orders", message=f"{name}{number}")
    assert [row[2] for row in depot.messages()] == ['"a0"', '"a1"', '"b0"', '"b1"']


@pytest.mark.parametrize(
    ("topic", "message", "kind"),
    [
        ("", 1, ValueError),
        (7, 1, ValueError),
        ("a\0b", 1, ValueError),
        ("orders", {1, 2}, PayloadError),
        ("orders", float("nan"), PayloadError),
    ],
)
def test_what_cannot_be_published_is_refused_before_anything_is_recorded(
    depot, settlement, outbox, topic, message, kind
):
    outbox.consume("orders", print)
    with pytest.raises(kind), settlement.transaction("t") as tx:
        tx.call(outbox.publish, topic=topic, message=message)
    with pytest.raises(kind):
        outbox.publish(topic, message)
    assert (depot.messages(), settlement.transactions()) == ([], [])


def test_a_database_that_cannot_be_reached_published_nothing_and_says_so(tmp_path):
    outbox = Outbox(f"sqlite:///{tmp_path / 'none' / 'depot.db'}")
    with pytest.raises(DatabaseUnavailable, match="unable to open database file"):
        outbox.publish("orders", 1)
    assert not isinstance(DatabaseUnavailable(""), ConnectionError)
