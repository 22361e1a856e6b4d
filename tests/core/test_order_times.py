"""When a transaction was sealed, for whom it waited, and when its commit was decided: on record for good.

This file is its own child program: `python test_order_times.py URL` seals a transaction that waits, and is killed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading

import pytest
from tests.rooms.attempt import WAITS
from tests.rooms.cli import main as cli
from tests.rooms.sql import PostgresWire, SqliteWire
from typer.testing import CliRunner

from settlemark import Refused, Settlement, State, Vetoed, effect
from settlemark.hosting import host_of
from settlemark.ledger import Waited

PATIENCE = 60


def free(hotel): ...


@effect("reversible", scope="room:/{hotel}", undo=free)
def reserve(hotel):
    return hotel


@effect("irreversible", scope="mail:/{to}")
def send(to): ...


def told(settlement, name):
    """The times on record of the last attempt of a name: (sealed, decided, settled, waits)."""
    found = [recorded for recorded in settlement.transactions() if recorded.row.name == name]
    return found[-1].sealed_at, found[-1].decided_at, found[-1].settled_at, found[-1].waits


def behind(settlement, clock, someone_waits, *, wait=10.0, call=None, ends=True):
    """Have a transaction `late` wait for `holder`, who began before it, for so many seconds."""
    noticed = someone_waits(settlement)
    opening = settlement.transaction("holder")
    holder = opening.__enter__()
    holder.call(send, to="bee")

    def late():
        with settlement.transaction("late", wait=PATIENCE) as tx:
            tx.call(reserve, hotel="Ada")
            tx.call(call or send, **({"to": "bee"} if call is None else {"hotel": "Bee"}))

    thread = threading.Thread(target=late)
    thread.start()
    assert noticed.wait(PATIENCE)
    clock.advance(wait)
    if ends:
        opening.__exit__(None, None, None)
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.every_store
@pytest.mark.own_time
def test_a_finished_transaction_tells_when_it_was_sealed_and_decided_and_for_whom_it_waited(
    settlement, clock, someone_waits
):
    began = clock()
    clock.advance(5)
    behind(settlement, clock, someone_waits, wait=10.0)

    assert told(settlement, "late") == (
        began + 5,
        began + 15,
        began + 15,
        (Waited("holder", "mail:/bee", began + 5, began + 15),),
    )
    assert told(settlement, "holder") == (began + 15, began + 15, began + 15, ())


@pytest.mark.every_store
@pytest.mark.own_time
def test_one_that_never_came_to_its_commit_has_no_time_of_it(settlement, clock):
    with pytest.raises(ZeroDivisionError), settlement.transaction("failed") as tx:
        tx.call(reserve, hotel="Ada")
        raise ZeroDivisionError
    clock.advance(3)
    with pytest.raises(Vetoed), settlement.transaction("vetoed", before_commit=[lambda footprint: "no"]) as tx:
        tx.call(reserve, hotel="Ada")

    assert told(settlement, "failed") == (None, None, clock() - 3, ())
    assert told(settlement, "vetoed") == (clock(), None, clock(), ())


@pytest.mark.every_store
@pytest.mark.own_time
def test_a_decision_that_was_taken_back_stays_on_record_beside_the_abort(settlement, clock):
    @effect("irreversible", scope="mail:/{to}")
    def bounce(to):
        clock.advance(1)
        raise LookupError("no such mailbox")

    with pytest.raises(Refused, match="no such mailbox"), settlement.transaction("bounced") as tx:
        tx.call(bounce, to="bee")

    (recorded,) = settlement.transactions()
    assert recorded.state is State.ABORTED
    assert recorded.sealed_at == recorded.decided_at
    assert recorded.settled_at > recorded.decided_at


@pytest.mark.every_store
@pytest.mark.own_time
def test_a_transaction_without_effects_is_not_on_record_for_its_times(settlement):
    with settlement.transaction("looks") as tx:
        tx.read("room:/Ada")

    assert settlement.transactions() == []


@pytest.mark.own_time
def test_of_many_waits_the_last_ones_are_on_record(quick):
    attempt = None
    with quick.transaction("trip") as tx:
        tx.call(reserve, hotel="Ada")
        attempt = tx._attempt
        for number in range(WAITS + 3):
            attempt.waited.begins(f"other-{number}", "room:/Ada", float(number))
            attempt.waited.ends(f"other-{number}", "room:/Ada", number + 0.5)
        attempt.waited.begins("other-5", "room:/Ada", 100.0)  # again: since the first time, and it is the latest
        attempt.waited.ends("other-5", "room:/Ada", 101.0)

    waits = told(quick, "trip")[-1]
    assert [waited.holder for waited in waits] == [*(f"other-{n}" for n in (3, 4, 6, 7, 8, 9, 10)), "other-5"]
    assert waits[-1] == Waited("other-5", "room:/Ada", 5.0, 101.0)


@pytest.mark.every_store
@pytest.mark.own_time
def test_what_is_pruned_keeps_its_times_and_lets_go_of_whom_and_what_it_waited_for(settlement, clock, someone_waits):
    behind(settlement, clock, someone_waits)
    before = told(settlement, "late")
    clock.advance(40 * 86_400)
    assert settlement.prune(30).payloads == 2

    assert before[-1] != ()
    assert told(settlement, "late") == (*before[:3], ())


@pytest.mark.own_time
def test_people_and_programs_are_told_by_the_commands(shared_url, open_here, clock, someone_waits):
    settlement = open_here(shared_url)
    behind(settlement, clock, someone_waits, wait=10.0)

    def run(*arguments):
        done = CliRunner().invoke(cli.build(), list(arguments), prog_name="settlemark")
        assert done.exit_code == 0, done.output
        return done.stdout

    shown = {one["name"]: one for one in json.loads(run("show", shared_url, "--json"))}["late"]
    lines = [json.loads(line) for line in run("export", shared_url).splitlines()]
    exported = next(line for line in lines if line["line"] == "decision" and line["transaction"] == "late")
    waits = [{"holder": "holder", "scope": "mail:/bee", "since": clock() - 10, "until": clock()}]
    for told_there in (shown, exported):
        assert (told_there["sealed_at"], told_there["decided_at"]) == (clock() - 10, clock())
        assert told_there["waits"] == waits
    assert "it waited 10.0 s for holder, which held mail:/bee" in run("show", shared_url)
    assert "10.0 s" in run("show", shared_url, "--table").partition("Effects")[0]


def test_who_takes_up_a_sealed_one_keeps_when_it_was_sealed_and_for_whom_it_waited(shared_url):
    with Settlement(shared_url) as settlement:
        opening = settlement.transaction("holder")
        opening.__enter__().call(send, to="bee")
        with subprocess.Popen(
            [sys.executable, __file__, shared_url], stdout=subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"waits\n"
            child.kill()
            child.wait()
        ((_, _, _, before),) = [told(settlement, "late")]
        opening.__exit__(None, None, None)
        settlement.recover()
        sealed, decided, settled, waits = told(settlement, "late")

    assert [(waited.holder, waited.scope, waited.until) for waited in before] == [("holder", "mail:/bee", None)]
    assert waits == before
    assert waits[0].since - 1 <= sealed <= decided  # a replica knows the second in which it was
    assert settled is not None


# ---- what it costs


def _noting(sent, plain):
    def noting(self, statement, values):
        sent.append(statement.said(self.dialect)[0])
        return plain(self, statement, values)

    return noting


@pytest.fixture
def statements(monkeypatch):
    """Note what is sent to a store: [statement, ...], each as often as it is sent, however many rows it has."""
    sent = []
    for wire in (SqliteWire, PostgresWire):
        for verb in ("query", "execute", "execute_all"):
            if verb not in vars(wire):
                continue

            monkeypatch.setattr(wire, verb, _noting(sent, vars(wire)[verb]))
    return sent


@pytest.mark.parametrize(
    ("effects", "expected"),
    [(0, ["SELECT"]), (1, ["SELECT", "INSERT", "UPDATE"]), (3, ["SELECT", "INSERT", "UPDATE"])],
)
@pytest.mark.own_time
def test_the_times_cost_no_statement(shared_url, open_here, statements, effects, expected):
    settlement = open_here(shared_url)
    settlement.run("warm", lambda tx: tx.call(reserve, hotel="Ada"))
    host_of(settlement).ledger.read(lambda book: None)
    del statements[:]
    with settlement.transaction("trip") as tx:
        for number in range(effects):
            tx.call(reserve, hotel=str(number))
    host_of(settlement).ledger.read(lambda book: None)

    own = re.compile(r"(SELECT|INSERT|UPDATE) (?!settlemark_effect)(.* FROM |INTO )?settlemark_transaction\b")
    found = [match[1] for text in statements if (match := own.match(text))]
    assert found == expected


if __name__ == "__main__":
    with Settlement(sys.argv[1]) as here:
        tell = host_of(here).driver.kernel.waits.tell_waiting

        def tell_and_say(attempt, told_so):
            tell(attempt, told_so)
            host_of(here).ledger.now(lambda _protocol, _book: None)  # it is on record
            sys.stdout.write("waits\n")
            sys.stdout.flush()

        host_of(here).driver.kernel.waits.tell_waiting = tell_and_say
        with here.transaction("late", wait=PATIENCE) as own:
            own.call(reserve, hotel="Ada")
            own.call(send, to="bee")
