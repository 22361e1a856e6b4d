"""What is old leaves the record: payloads first, keys when nobody remembers them, and never what is left to mend."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.extent import examples
from tests.rooms.cli import main as cli
from tests.rooms.model import decode
from typer.testing import CliRunner

from settlemark import (
    Cancelled,
    Forgotten,
    Injected,
    KeyConflict,
    Outcome,
    Payloads,
    Pruned,
    Retries,
    Settlement,
    State,
    UsageError,
    effect,
)
from settlemark._runtime.retention import age_of, duration, prune, total
from settlemark.hosting import host_of

PATIENCE = 60

DAY = 86_400.0
PRUNED = {"$pruned": "older than this ledger's record is kept"}


class Boom(Exception):
    """A failure of the caller's own."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "memory":
        return "memory:"
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'trip.db'}"


@pytest.fixture
def file(tmp_path):
    return f"sqlite:///{tmp_path / 'trip.db'}"


@pytest.fixture
def clock():
    """Days since 1970, to be set by hand."""
    return SimpleNamespace(day=1.0)


@pytest.fixture
def opening(open_settlement, clock):
    return lambda url, **options: open_settlement(url, injected=Injected(clock=lambda: clock.day * DAY), **options)


@pytest.fixture
def tools():
    log = []

    def never(room):
        raise LookupError("no such room")

    @effect("reversible", scope="room:/{room}", undo=lambda room: log.append(("cancel", room)))
    def book(room):
        log.append(("book", room))
        return {"confirmation": f"R-{room}"}

    @effect("idempotent", scope="account:/{account}", window=10 * DAY)
    def charge(account):
        log.append(("charge", account))
        return "charged"

    @effect("irreversible", scope="mail:/{to}", window=2 * DAY)
    def send(to):
        log.append(("send", to))

    @effect("reversible", scope="suite:/{room}", undo=never)
    def book_for_good(room):
        log.append(("book", room))
        return "booked"

    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book_in_doubt(room):
        raise TimeoutError

    return SimpleNamespace(
        log=log, book=book, charge=charge, send=send, book_for_good=book_for_good, book_in_doubt=book_in_doubt
    )


def do(settlement, name, *calls):
    with settlement.transaction(name) as tx:
        return [tx.call(tool, *args) for tool, *args in calls]


def names(settlement):
    return [recorded.row.name for recorded in settlement.transactions()]


# ---- payloads


def test_payloads_go_and_the_keys_stay_with_what_became_of_them(url, opening, clock, tools):
    settlement = opening(url)
    do(settlement, "old", (tools.book, "a"))
    with suppress(Boom), settlement.transaction("undone") as tx:
        tx.turn(because="she asked for it").call(tools.book, "b")
        raise Boom("secret")
    clock.day += 40
    do(settlement, "new", (tools.book, "c"))

    assert settlement.prune(30) == Pruned(payloads=2)
    old, undone, new = settlement.transactions()
    for recorded, fingerprint, outcome, tag in (
        (old, "19fce604", "confirmed", None),
        (undone, "f2972e1b", "undone", "clean"),
    ):
        [found] = recorded.effects
        assert (found.row.key, found.row.tool) == (f"{recorded.row.name}#1/0", "book")
        assert found.row.fingerprint.startswith(fingerprint)
        assert (found.outcome, found.tag) == (outcome, tag)
        assert (decode(found.row.arguments), decode(found.result), found.row.scope) == (PRUNED, PRUNED, "")
    assert undone.effects[0].row.rationale == "pruned: older than this ledger's record is kept"
    assert (old.state, undone.state, undone.reason) == (State.COMMITTED, State.ABORTED, "failed")
    assert decode(new.effects[0].row.arguments) == {"room": "c"}
    assert settlement.prune(30) == Pruned()


def test_nothing_that_is_young_or_unfinished_is_touched(url, opening, clock, tools):
    settlement = opening(url)
    with settlement.transaction("open") as tx:
        tx.call(tools.book, "a")
        clock.day += 20
        do(settlement, "young", (tools.book, "b"))
        before = [(r.row, r.state, r.effects) for r in settlement.transactions()]
        assert settlement.prune(15) == Pruned()
        assert [(r.row, r.state, r.effects) for r in settlement.transactions()] == before
    assert [r.state for r in settlement.transactions()] == [State.COMMITTED] * 2


def test_a_pruned_decision_says_so_and_never_runs_again(url, opening, clock, tools):
    settlement = opening(url)
    do(settlement, "trip", (tools.book, "a"))
    clock.day += 40
    settlement.prune(30)

    with pytest.raises(Forgotten, match=r"book was decided in trip before, and its result was pruned") as told:
        do(settlement, "trip", (tools.book, "a"))
    assert told.value.data | {"url": None} == {
        "key": "trip#1/0",
        "tool": "book",
        "outcome": Outcome.CONFIRMED,
        "url": None,
    }
    with pytest.raises(KeyConflict, match=r"was book\(.*\$pruned.*\) before and is book\({\"room\":\"b\"}\) now"):
        do(settlement, "trip", (tools.book, "b"))
    assert tools.log == [("book", "a")]


def test_a_pruned_decision_without_a_result_replays_since_nothing_of_its_answer_is_gone(url, opening, clock, tools):
    settlement = opening(url)
    do(settlement, "trip", (tools.send, "ada"))
    clock.day += 1.5
    assert settlement.prune(1) == Pruned(payloads=1)
    [queued] = do(settlement, "trip", (tools.send, "ada"))
    assert (queued.outcome, queued.result()) == ("confirmed", None)
    assert tools.log == [("send", "ada")]


# ---- keys


def test_keys_go_when_every_window_of_their_transaction_is_over(url, opening, clock, tools):
    settlement = opening(url)
    do(settlement, "trip", (tools.charge, "ada"), (tools.send, "ada"))
    clock.day += 5
    assert settlement.prune(1) == Pruned(payloads=1)
    clock.day += 4.9
    assert settlement.prune(1) == Pruned()
    with pytest.raises(Forgotten):
        do(settlement, "trip", (tools.charge, "ada"))
    clock.day += 0.2
    assert settlement.prune(1) == Pruned(keys=1)
    assert settlement.transactions() == []
    do(settlement, "trip", (tools.charge, "ada"))
    assert tools.log == [("charge", "ada"), ("send", "ada"), ("charge", "ada")]


def test_a_key_goes_with_its_window_however_short_that_is(url, opening, clock):
    @effect("idempotent", scope="account:/{account}", window=0.5)
    def charge(account):
        return "charged"

    settlement = opening(url)
    do(settlement, "trip", (charge, "ada"))
    clock.day += 0.75 / DAY
    assert settlement.prune(0.6 / DAY) == Pruned(keys=1)
    assert settlement.transactions() == []


def test_a_key_goes_at_the_very_moment_at_which_its_window_is_over(url, opening, clock):
    @effect("idempotent", scope="account:/{account}", window=DAY)
    def charge(account):
        return "charged"

    settlement = opening(url)
    do(settlement, "trip", (charge, "ada"))
    clock.day += 1
    assert settlement.prune(0.5) == Pruned(keys=1)
    assert settlement.transactions() == []


def test_a_key_without_a_window_stays_for_a_year_unless_told_otherwise(url, opening, clock, tools):
    settlement = opening(url)
    do(settlement, "trip", (tools.charge, "ada"), (tools.book, "a"))
    clock.day += 364
    assert settlement.prune(30) == Pruned(payloads=1)
    clock.day += 2
    assert settlement.prune(30) == Pruned(keys=1)

    do(settlement, "trip", (tools.book, "a"))
    clock.day += 50
    assert settlement.prune(30, keys=40) == Pruned(keys=1)
    assert settlement.transactions() == []


def test_keys_stay_as_long_as_the_payloads_at_least(url, opening, clock, tools):
    settlement = opening(url)
    do(settlement, "trip", (tools.book, "a"))
    clock.day += 20
    assert settlement.prune(30, keys=0) == Pruned()
    assert names(settlement) == ["trip"]


# ---- what stays


def test_what_is_left_to_mend_or_in_doubt_stays_whole_however_old_it_is(url, opening, clock, tools):
    settlement = opening(url)
    with suppress(Boom), settlement.transaction("to mend") as tx:
        tx.call(tools.book_for_good, "a")
        raise Boom
    with settlement.transaction("in doubt") as tx, suppress(Exception):
        tx.call(tools.book_in_doubt, "b")
    do(settlement, "plain", (tools.book, "c"))
    before = settlement.residue()
    clock.day += 4_000

    assert settlement.prune(1, keys=1) == Pruned(keys=1, kept=2)
    assert names(settlement) == ["to mend", "in doubt"]
    assert settlement.residue() == before
    assert [left.arguments for left in before] == [{"room": "a"}, {"room": "b"}]

    settlement.resolve(before[0].key, "absent", by="ada")
    assert settlement.prune(1, keys=1) == Pruned(keys=1, kept=1)
    assert names(settlement) == ["in doubt"]


def test_a_cancelled_run_is_forgotten_with_its_keys(url, opening, clock):
    settlement = opening(url)
    settlement.cancel("job")
    clock.day += 364
    assert settlement.prune(30) == Pruned()
    with pytest.raises(Cancelled), settlement.transaction("job/1"):
        pass
    clock.day += 2
    assert settlement.prune(30) == Pruned(fences=1)
    with settlement.transaction("job/1"):
        pass
    assert host_of(settlement).protocol.fenced == set()


def test_other_processes_forget_a_cancelled_run_alike(file, opening, clock):
    one, other = opening(file), opening(file)
    one.cancel("job")
    clock.day += 400
    other.prune(30)
    with one.transaction("job/1"):
        pass
    assert host_of(one).protocol.fenced == host_of(other).protocol.fenced == set()


# ---- a little at a time


@settings(max_examples=examples(40))
@given(
    st.lists(st.tuples(st.sampled_from(["book", "send", "residue"]), st.integers(0, 3)), max_size=12), st.integers(1, 4)
)
def test_batches_of_any_size_let_go_of_the_same(work, size):
    found = []
    for batch in (size, 1_000):
        now = [DAY]
        with Settlement(
            "memory:", injected=Injected(clock=lambda now=now: now[0]), retries=Retries(tries=1)
        ) as settlement:

            @effect("reversible", scope="room:/{n}", undo=lambda n: 1 / 0, window=DAY)
            def book(n):
                return n

            for number, (kind, wait) in enumerate(work):
                with suppress(Boom), settlement.transaction(f"t{number}") as tx:
                    tx.call(book, number)
                    if kind == "residue":
                        raise Boom
                now[0] += wait * DAY
            age = age_of(now[0], older_than=DAY, keys=DAY)
            done = total(prune(host_of(settlement).ledger, age, batch=batch))
            found.append((done, [(r.row.name, decode(e.result)) for r in settlement.transactions() for e in r.effects]))
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_sweep_goes_on_where_the_last_one_ended_and_what_stays_holds_nothing_up(url, opening, clock, tools, size):
    settlement = opening(url)
    for number in range(4):
        do(settlement, f"plain/{number}", (tools.charge, "ada"))
        with suppress(Boom), settlement.transaction(f"left/{number}") as tx:
            tx.call(tools.book_for_good, str(number))
            raise Boom
    clock.day += 5
    steps = list(prune(host_of(settlement).ledger, age_of(clock.day * DAY, older_than=DAY, keys=0), batch=size))
    assert (sum(step.payloads for step in steps), sum(step.kept for step in steps)) == (4, 4)
    assert max(step.payloads + step.kept for step in steps) <= size
    clock.day += 10
    steps = list(prune(host_of(settlement).ledger, age_of(clock.day * DAY, older_than=DAY, keys=0), batch=size))
    assert (sum(step.keys for step in steps), names(settlement)) == (4, [f"left/{number}" for number in range(4)])


def test_writers_work_while_it_is_pruned(file, opening, clock, tools):
    settlement, other = opening(file), opening(file)
    for number in range(20):
        do(settlement, f"old/{number}", (tools.charge, "ada"))
    clock.day += 20
    written = threading.Event()

    def write():
        for number in range(20):
            do(other, f"new/{number}", (tools.book, str(number)))
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + PATIENCE
    while settlement.prune(15) != Pruned() or not written.is_set():
        assert time.monotonic() < deadline, f"written: {written.is_set()}, there: {names(settlement)}"
    writer.join(PATIENCE)
    assert sorted(names(settlement)) == sorted(f"new/{number}" for number in range(20))


def test_a_settlement_with_retention_prunes_by_itself(file, opening, clock, tools, monkeypatch):
    first = opening(file)
    do(first, "trip", (tools.charge, "ada"))
    first.close()
    clock.day += 40
    begun = threading.Event()
    monkeypatch.setattr("settlemark._runtime.retention.EVERY_SECONDS", 0.001)
    settlement = opening(file, payloads=Payloads(retention=30))
    sweep = host_of(settlement).ledger.now
    monkeypatch.setattr(host_of(settlement).ledger, "now", lambda step: (sweep(step), begun.set())[0])
    assert begun.wait(20)
    host_of(settlement)._pruner.stop()
    assert names(settlement) == []


def test_retention_ends_with_its_settlement(opening, clock):
    settlement = opening("memory:", payloads=Payloads(retention=30))
    settlement.close()
    assert not host_of(settlement)._pruner._thread.is_alive()


# ---- durations and options


@pytest.mark.parametrize(
    ("text", "seconds"), [("30d", 30 * DAY), ("12h", 43_200), ("90m", 5_400), ("1.5w", 10.5 * DAY)]
)
def test_a_duration_is_a_number_and_a_unit(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "d", "-1d", "30 days", ""])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="is not a duration: give a number and a unit, as in 30d"):
        duration(text)


# ---- the command


@pytest.fixture
def aged(file, open_settlement, tools):
    """A ledger with transactions of long ago, and one of today."""
    old = open_settlement(file, injected=Injected(clock=lambda: DAY))
    do(old, "old/1", (tools.charge, "ada"))
    do(old, "old/2", (tools.book, "a"))
    with suppress(Boom), old.transaction("left") as tx:
        tx.call(tools.book_for_good, "a")
        raise Boom
    old.close()
    new = open_settlement(file)
    do(new, "new", (tools.book, "b"))
    new.close()
    return file


def rows(url):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return connection.execute(sa.text("SELECT name FROM settlemark_transaction ORDER BY name")).scalars().all()


def run(*arguments):
    return CliRunner().invoke(cli.build(), [str(a) for a in arguments], prog_name="settlemark")


def test_the_command_prunes_and_tells_what_it_did(aged):
    tried = run("prune", aged, "--older-than", "30d", "--dry-run")
    assert tried.stdout == (
        "The payloads of 0 transaction(s) would go, and 2 would go whole; 1 stay, with something left to mend or in"
        " doubt: see settlemark residue.\n"
    )
    assert rows(aged) == ["left", "new", "old/1", "old/2"]

    done = run("prune", aged, "--older-than", "30d", "--keys", "40000d", "--json")
    assert json.loads(done.stdout) == {"payloads": 1, "keys": 1, "kept": 1, "fences": 0, "entries": 0, "dry_run": False}
    assert rows(aged) == ["left", "new", "old/2"]
    assert "pruned" in run("show", aged, "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.db", "--older-than", "30d"], "there is no ledger at none.db"),
        (["memory:", "--older-than", "30d"], "a memory: ledger ends with its process"),
        (["none.db", "--older-than", "30"], "'30' is not a duration"),
    ],
)
def test_a_command_that_cannot_be_done_says_why_and_makes_nothing(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("prune", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert list(tmp_path.iterdir()) == []
