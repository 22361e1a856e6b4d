"""Two namespaces of one store are two ledgers: nothing of one is seen, waited for, counted or pruned in the other."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import pytest
import sqlalchemy as sa
from tests.rooms.payloads import LIMIT
from tests.rooms.replica import image, replica

from settlemark import Cancelled, Injected, effect
from settlemark.hosting import host_of

DAY = 86_400.0
PATIENCE = 60


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    return (
        request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite:///{tmp_path / 'trip.db'}"
    )


@pytest.fixture
def two(url, open_settlement):
    """Settlements in two namespaces of one store."""
    return open_settlement(url, namespace="acme"), open_settlement(url, namespace="bolt")


@pytest.fixture
def log():
    return []


@pytest.fixture
def book(log):
    def cancel(room):
        log.append(("cancel", room))

    @effect("reversible", scope="room:/{room}", undo=cancel)
    def book(room):
        log.append(("book", room))
        return f"R-{room}"

    return book


def rows(url, table, namespace):
    """Everything that a table has of a namespace."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    tables = sa.MetaData()
    with engine.connect() as connection:
        found = sa.Table(f"settlemark_{table}", tables, autoload_with=connection)
        here = sa.select(found).where(found.c.namespace == namespace)
        return sorted(map(tuple, connection.execute(here)), key=repr)


def theirs(url, namespace, but=("worker",)):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    tables = [name.removeprefix("settlemark_") for name in sa.inspect(engine).get_table_names()]
    spaced = [name for name in tables if name not in ("meta", "migration", *but)]
    return {name: rows(url, name, namespace) for name in spaced}


def test_the_same_scope_is_held_by_both_at_once(two, book, log):
    acme, bolt = two
    with acme.transaction("trip") as tx:
        tx.call(book, room="a")
        with bolt.transaction("other", wait=0) as other:
            other.call(book, room="a")
        assert acme.waiting() == bolt.waiting() == []
    assert log == [("book", "a"), ("book", "a")]


def test_the_same_name_is_two_decisions_with_two_keys(two, book, log):
    for settlement in two:
        with settlement.transaction("trip") as tx:
            tx.call(book, room="a")
    keys = [[e.row.key for r in settlement.transactions() for e in r.effects] for settlement in two]
    assert keys == [["acme:trip#1/0"], ["bolt:trip#1/0"]]
    assert len(log) == 2


def test_the_same_name_is_open_in_both_at_once(two, book, log):
    acme, bolt = two
    with acme.transaction("trip") as tx, bolt.transaction("trip", wait=0) as other:
        tx.call(book, room="a")
        other.call(book, room="b")
    assert [len(settlement.transactions()) for settlement in two] == [1, 1]


def test_epochs_are_counted_apart(two, book):
    acme, bolt = two
    for number in range(5):
        with acme.transaction(f"trip/{number}") as tx:
            tx.call(book, room="a")
    with bolt.transaction("trip") as tx:
        assert tx.epoch == 1
    assert host_of(acme).protocol.next_epoch == 6


def test_what_changed_in_one_makes_no_read_stale_in_the_other(two, book, log):
    acme, bolt = two
    with bolt.transaction("trip") as tx:
        tx.read("room:/a", lambda: "free")
        with acme.transaction("other") as other:
            other.call(book, room="a")
        tx.call(book, room="a")
    assert len(log) == 2


def test_a_run_is_cancelled_in_one_alone(url, two, book, open_settlement):
    acme, bolt = two
    acme.cancel("job")
    for settlement in (bolt, open_settlement(url, namespace="bolt")):
        with settlement.transaction(f"job/{id(settlement)}") as tx:
            tx.call(book, room="a")
    with pytest.raises(Cancelled), open_settlement(url, namespace="acme").transaction("job/2"):
        pass
    assert (len(rows(url, "fence", "acme")), rows(url, "fence", "bolt")) == (1, [])


def test_what_an_ended_process_left_is_taken_up_in_its_own(url, two, book, log, open_settlement):
    acme, bolt = two
    tx = acme.transaction("trip").__enter__()
    tx.call(book, room="a")
    acme.close()
    host_of(bolt)._maintenance.stop()
    assert not bolt.recover(keep_open=0)
    assert log == [("book", "a")]
    again = open_settlement(url, namespace="acme")
    host_of(again)._maintenance.stop()
    assert again.recover(keep_open=0).undone == ["trip"]
    assert log == [("book", "a"), ("cancel", "a")]


def test_workers_are_listed_and_counted_apart(url, two):
    acme, bolt = two
    assert [row[1] for row in rows(url, "worker", "acme")] == [host_of(acme).ledger.worker]
    assert [row[1] for row in rows(url, "worker", "bolt")] == [host_of(bolt).ledger.worker]
    assert (host_of(acme).ledger._member.others.count, host_of(bolt).ledger._member.others.count) == (0, 0)
    acme.close()
    assert (rows(url, "worker", "acme"), len(rows(url, "worker", "bolt"))) == ([], 1)


def test_nothing_that_one_does_moves_anything_of_the_other(url, two, book, monkeypatch, open_settlement):
    monkeypatch.setattr(replica, "IMAGE_EVERY", 2)
    now = [DAY]
    acme, bolt = (
        open_settlement(url, namespace=name, injected=Injected(clock=lambda: now[0])) for name in ("acme", "bolt")
    )

    @effect("reversible", scope="page:/{number}", undo=lambda number: None)
    def print_page(number):
        return "x" * (LIMIT + 1)

    with bolt.transaction("trip") as tx:
        tx.call(print_page, number=1)
    bolt.cancel("job")
    host_of(bolt)._maintenance.stop()
    state, before = image(host_of(bolt).protocol), theirs(url, "bolt")
    for number in range(10):
        with suppress(Boom), acme.transaction(f"trip/{number}") as tx:
            tx.call(print_page, number=1)
            tx.call(book, room="a")
            if number % 2:
                raise Boom
    acme.cancel("other")
    now[0] += 4_000 * DAY
    acme.prune(1, keys=1)
    assert acme.transactions() == []
    assert (image(host_of(bolt).protocol), theirs(url, "bolt")) == (state, before)
    assert len(before["blob"]) == len(before["fence"]) == 1


def test_each_has_its_own_log_and_image(url, two, book, monkeypatch):
    monkeypatch.setattr(replica, "IMAGE_EVERY", 2)
    acme, bolt = two
    for number in range(10):
        with acme.transaction(f"trip/{number}") as tx:
            tx.call(book, room="a")
    ((_, _, state),) = rows(url, "image", "acme")
    assert json.loads(state)["sequence"] > 0
    assert all(json.loads(state)["sequence"] == 0 for _, _, state in rows(url, "image", "bolt"))
    assert host_of(bolt).ledger._member.replica.applied < host_of(acme).ledger._member.replica.applied


def test_writers_of_two_namespaces_do_not_wait_for_each_other_on_postgresql(postgres_url, open_settlement, book):
    acme = open_settlement(postgres_url, namespace="acme")
    bolt = open_settlement(postgres_url, namespace="bolt")
    inside, done = threading.Event(), threading.Event()

    def step(_protocol, _book):
        inside.set()
        assert done.wait(PATIENCE)

    holder = threading.Thread(target=lambda: host_of(acme).ledger.now(step))
    holder.start()
    assert inside.wait(PATIENCE)
    with bolt.transaction("trip") as tx:
        tx.call(book, room="a")
    done.set()
    holder.join()
    assert [r.row.name for r in bolt.transactions()] == ["trip"]
