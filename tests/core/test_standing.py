"""What is unfinished, and who ends it, as any process reads it: from the protocol, the record and the workers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.core.ledgers.twins import intent, opened
from tests.rooms.api import told, who_waits
from tests.rooms.replica import Worker

from settlemark import Outcome, Scope, State
from settlemark.hosting import Protocol
from settlemark.ledger import RecordedEffect, RecordedTransaction

WORKER = Worker("web-2/1/2/3.4:812:1:t", 20.0, since=1.0, ended=False, until=None)
STANDING = who_waits.Standing("trip", 1, "run", State.OPEN, False, 1.0, 2.0, WORKER.name, True, 20.0, (), ())


class Look:
    """One look at a store, in which all is as it is told here."""

    def __init__(self, protocol, *workers, recorded=()):
        self._protocol, self._workers = protocol, list(workers)
        self.book = SimpleNamespace(
            unfinished=lambda outcome=None: [] if outcome else list(recorded), load=lambda _name: None
        )

    def replica(self):
        return self._protocol

    def workers(self):
        return self._workers

    def clock(self):
        return 7.0


@pytest.fixture
def protocol():
    return Protocol()


def look(protocol, *workers, recorded=()):
    stand, now = who_waits.found(Look(protocol, *workers, recorded=recorded))
    assert now == 7.0
    return stand


def recorded(sender=None, owner=""):
    effects = [RecordedEffect(intent(), Outcome.INTENDED, sender=sender)]
    return RecordedTransaction(opened()._replace(owner=owner), State.OPEN, 1, effects=effects)


def test_a_transaction_is_told_with_its_worker_and_what_it_holds(protocol):
    txn = protocol.begin("trip", "run", owner=WORKER.name, declared=[Scope.parse("room:/a")])
    (one,) = look(protocol, WORKER, recorded=[recorded()])
    assert one == who_waits.Standing(
        "trip", txn.attempt, "run", State.OPEN, False, opened().at, txn.moved or opened().at, WORKER.name, True, 20.0,
        ("room:/a",), (),
    )  # fmt: skip # a table of values
    assert (one.ended, one.silent, one.kept, one.ends_it) == (False, False, (), "process")


@pytest.mark.parametrize(
    "told", [{"buried": True}, {"ended": True}, {"lease_left": 0.0}], ids=["buried", "ended", "silent"]
)
def test_of_a_worker_that_is_gone_it_is_told_that_nobody_ends_its_transactions(protocol, told):
    protocol.begin("trip", "run", owner=WORKER.name)
    (one,) = look(protocol, replace(WORKER, **told))
    assert (one.alive, one.ends_it) == (False, "nobody")
    (one,) = look(protocol)
    assert (one.alive, one.lease_left, one.ends_it) == (False, None, "nobody")


def test_only_of_one_that_was_buried_and_whose_process_has_not_ended_it_is_told_that_it_may_still_be_sending(protocol):
    protocol.begin("trip", "run")
    for worker, silent in (
        (WORKER, False),  # alive: it sends again what another may have sent
        (replace(WORKER, buried=True, until=99.0), True),
        (replace(WORKER, buried=True, ended=True), False),
        (replace(WORKER, name="other", buried=True), False),
    ):
        (one,) = look(protocol, worker, recorded=[recorded(sender=WORKER.name)])
        kept = (who_waits.Silent("book", intent().scope, intent().key, WORKER.name, 99.0),) if silent else ()
        assert (one.silent, one.kept, one.ends_it) == (silent, kept, "sender" if silent else "nobody")


def test_what_has_ended_and_is_not_recorded_so_is_told_to_have_ended(protocol):
    (one,) = look(protocol, WORKER, recorded=[recorded(owner=WORKER.name)])
    assert one == who_waits.Standing(
        "trip", 1, opened().run, State.OPEN, False, opened().at, None, WORKER.name, True, 20.0, (), (), ended=True
    )
    assert (
        told([one], 7.0)
        .splitlines()[0]
        .startswith("trip is over; its process was gone before it could record that, and the next recovery does")
    )


def test_who_ends_it_is_its_process_a_person_its_framework_or_nobody():
    aside, question = replace(STANDING, parked=True, worker="", alive=False), object()
    found = {
        "it works": STANDING,
        "asked": replace(aside, asked=(question,)),
        "put aside": aside,
        "put aside and gone on with": replace(STANDING, parked=True),
        "gone": replace(STANDING, alive=False),
        "silent": replace(STANDING, alive=False, silent=True),
        "silent, and taken up": replace(STANDING, silent=True),
    }
    assert {how: one.ends_it for how, one in found.items()} == {
        "it works": "process", "asked": "person", "put aside": "framework", "put aside and gone on with": "process",
        "gone": "nobody", "silent": "sender", "silent, and taken up": "process",
    }  # fmt: skip # a table


def test_what_is_left_standing_is_what_no_process_ends_and_what_may_still_happen():
    kept = (who_waits.Silent("book", "room:/a", "k", "w", None),)
    gone = replace(STANDING, transaction="gone", alive=False)
    stand = [
        STANDING,
        gone,
        replace(gone, transaction="silent", silent=True),
        replace(gone, transaction="over", ended=True),
        replace(STANDING, transaction="kept", kept=kept),
        replace(gone, transaction="tour", run="tour", since=9.0),
    ]

    def left(**which):
        return [one.transaction for one in who_waits.left_standing(stand, **which)]

    assert left() == ["gone", "silent", "kept", "tour"]
    assert (left(run="tour"), left(since=9.0), left(since=9.1)) == (["tour"], ["tour"], [])
    assert left(run="run", since=1.0) == ["gone", "silent", "kept"]
    stand[1] = replace(gone, since=None)  # nobody knows since when
    assert left(since=9.1) == ["gone"]
