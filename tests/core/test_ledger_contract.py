"""What every ledger keeps, whatever stores it."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future

import pytest
from sqlalchemy import event

from settlemark import EffectClass, LedgerError, Outcome, Tag, effect
from settlemark._states import State
from settlemark.ledger import EffectRow, Fence, OutcomeChange, StateChange, TransactionRow, open_ledger

PATIENCE = 20


@pytest.fixture
def ledger(url):
    ledger = open_ledger(url)
    yield ledger
    ledger.close()


def done(answer):
    return answer.result(PATIENCE) if isinstance(answer, Future) else answer


def opened(name="trip", attempt=1, *, at=1.0, epoch=1):
    return TransactionRow(name, attempt, "run", State.OPEN, epoch, "", "worker", 0, at)


def intent(name="trip", attempt=1, position=0, **parts):
    """An effect's row; named fields, whatever further ones the contract has."""
    values = {
        "key": f"{name}#{attempt}/{position}", "name": name, "attempt": attempt, "position": position, "tool": "book",
        "kind": EffectClass.REVERSIBLE, "scope": "room:/a", "scopes": '["room:/a"]', "held": False, "call_id": None,
        "arguments": '{"room":"a"}', "rationale": None, "handlers": "{}", "version": "1", "outcome": Outcome.INTENDED,
        "at": 1.0, **parts,
    }  # fmt: skip
    return EffectRow(**{field: values[field] for field in EffectRow._fields})


def outcome(key="trip#1/0", what=Outcome.CONFIRMED, result='{"id":7}', error=None, tag=None, note=None, at=2.0):
    return OutcomeChange(key, what, result, error, tag, note, at)


def ended(name="trip", attempt=1, state=State.COMMITTED, *, epoch=1, reason=None, at=3.0):
    return StateChange(name, attempt, state, epoch, reason, at)


def test_a_name_never_recorded_is_not_known(ledger):
    assert done(ledger.load("trip")) is None
    assert ledger.transactions() == []


def test_rows_come_back_as_they_were_written(ledger):
    rows = [
        intent(),
        intent(position=1, kind=EffectClass.IRREVERSIBLE, held=True, call_id="c7", rationale="né ☃ 'quoted'",
               arguments='{"to":"ünï","n":[1,null]}', outcome=Outcome.QUEUED, version="2", at=1.25),
    ]  # fmt: skip
    done(ledger.write([opened(epoch=2**40), *rows]))
    recorded = done(ledger.load("trip"))
    assert (recorded.row, recorded.state, recorded.epoch) == (opened(epoch=2**40), State.OPEN, 2**40)
    assert [effect.row for effect in recorded.effects] == rows
    assert [(e.outcome, e.result, e.error, e.tag, e.note, e.settled_at) for e in recorded.effects] == [
        (Outcome.INTENDED, None, None, None, None, None),
        (Outcome.QUEUED, None, None, None, None, None),
    ]
    assert recorded.effects[0].row.fingerprint == intent().fingerprint


def test_outcomes_and_states_are_the_latest(ledger):
    done(ledger.write([opened(), intent(), intent(position=1)]))
    done(ledger.write([outcome(), outcome("trip#1/1", Outcome.FAILED, None, "Boom: no")]))
    done(ledger.write([outcome("trip#1/1", Outcome.UNKNOWN, None, "lost", Tag.UNRESOLVED, "ask", 4.0)]))
    done(ledger.write([ended(state=State.ABORTED, epoch=9, reason="failed: no", at=5.0)]))
    recorded = done(ledger.load("trip"))
    assert (recorded.state, recorded.epoch, recorded.reason, recorded.settled_at) == (
        State.ABORTED, 9, "failed: no", 5.0,
    )  # fmt: skip
    assert [(e.outcome, e.result, e.error, e.tag, e.note, e.settled_at) for e in recorded.effects] == [
        (Outcome.CONFIRMED, '{"id":7}', None, None, None, 2.0),
        (Outcome.UNKNOWN, None, "lost", Tag.UNRESOLVED, "ask", 4.0),
    ]


def test_effects_come_in_issuance_order_whatever_order_they_were_written_in(ledger):
    done(ledger.write([opened(), *(intent(position=n) for n in (11, 2, 0, 10, 1))]))
    assert [e.row.position for e in done(ledger.load("trip")).effects] == [0, 1, 2, 10, 11]
    assert [e.row.position for e in ledger.transactions()[0].effects] == [0, 1, 2, 10, 11]


def test_the_last_attempt_is_loaded_and_every_one_is_listed_oldest_first(ledger):
    for attempt in (1, 2, 3):
        done(ledger.write([opened(attempt=attempt), intent(attempt=attempt), ended(attempt=attempt)]))
    done(ledger.write([opened("other", at=0.5)]))
    assert done(ledger.load("trip")).row.attempt == 3
    listed = [(r.row.name, r.row.attempt) for r in ledger.transactions()]
    assert [entry for entry in listed if entry[0] == "trip"] == [("trip", 1), ("trip", 2), ("trip", 3)]
    assert len(listed) == 4


def test_changes_are_applied_in_the_order_given(ledger):
    written = [ledger.write([opened(), intent()])]
    written += [ledger.write([outcome(result=str(n))]) for n in range(300)]
    assert [done(answer) for answer in written] == [None] * 301
    assert done(ledger.load("trip")).effects[0].result == "299"


def test_epochs_are_given_once(ledger):
    firsts = [ledger.reserve_epochs(count) for count in (1, 10, 5)]
    assert firsts == [1, 2, 12]


def test_fences_stand_and_a_second_one_on_the_same_run_is_the_same(ledger):
    assert ledger.fences() == []
    for run in ("one", "two", "one"):
        done(ledger.write([Fence(run, 1.0)]))
    assert sorted(ledger.fences()) == ["one", "two"]


@pytest.mark.parametrize(
    "bad",
    [[intent("ghost")], [opened(), opened()], [opened("x"), intent("x"), intent("x")]],
    ids=["an effect of no transaction", "an attempt twice", "a key twice"],
)
def test_a_bad_change_is_refused_alone_and_its_neighbours_are_kept(ledger, bad):
    answers = []
    for changes in ([opened("before"), intent("before")], bad, [opened("after"), intent("after")]):
        try:
            answers.append(ledger.write(changes))
        except LedgerError as error:
            answers.append(error)
    refused = answers[1] if isinstance(answers[1], LedgerError) else answers[1].exception(PATIENCE)
    assert isinstance(refused, LedgerError)
    assert refused.url == ledger.url
    for name in ("before", "after"):
        assert [e.row.key for e in done(ledger.load(name)).effects] == [f"{name}#1/0"]
    assert {r.row.name for r in ledger.transactions()} == {"before", "after"}


# ---- what only a store can promise


@pytest.fixture
def file_url(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def test_what_was_acknowledged_is_there_when_the_store_is_opened_again(file_url):
    first = open_ledger(file_url)
    done(first.write([opened(), intent(), outcome(), ended()]))
    done(first.write([Fence("gone", 1.0)]))
    before = first.transactions()
    first.close()
    second = open_ledger(file_url)
    assert (second.transactions(), second.fences()) == (before, ["gone"])
    second.close()


def test_what_was_queued_is_written_by_a_close(file_url):
    first = open_ledger(file_url)
    first.write([opened(), intent()])
    first.close()
    second = open_ledger(file_url)
    assert done(second.load("trip")).row == opened()
    second.close()


def test_epochs_are_never_given_again_in_another_process_or_beside_it(file_url):
    given = []
    for _ in range(3):
        one, two = open_ledger(file_url), open_ledger(file_url)
        given += [one.reserve_epochs(10), two.reserve_epochs(10)]
        one.close()
        two.close()
    assert given == [1, 11, 21, 31, 41, 51]


def test_an_effects_intent_is_on_disk_before_it_acts_and_its_outcome_after(file_url, open_settlement, sqlite_rows):
    seen = []

    @effect("reversible", scope="room:/{room}", undo=lambda room: None)
    def book(room):
        seen.extend(sqlite_rows(file_url, "SELECT key, outcome, arguments FROM settlemark_effect"))

    @effect("irreversible", scope="mail:/{to}")
    def send(to):
        seen.extend(sqlite_rows(file_url, "SELECT state FROM settlemark_transaction"))
        seen.extend(sqlite_rows(file_url, "SELECT key, outcome FROM settlemark_effect WHERE held"))

    settlement = open_settlement(file_url)
    with settlement.transaction("trip") as tx:
        tx.call(book, room="a")
        tx.call(send, to="ada")
    assert seen == [("trip#1/0", "intended", '{"room":"a"}'), ("releasing",), ("trip#1/1", "queued")]
    settlement.close()
    assert sqlite_rows(file_url, "SELECT key, outcome FROM settlemark_effect ORDER BY key") == [
        ("trip#1/0", "confirmed"), ("trip#1/1", "confirmed"),
    ]  # fmt: skip


def test_what_cannot_be_recorded_does_not_act(file_url, open_settlement, world, tools):
    settlement = open_settlement(file_url)

    @event.listens_for(settlement.ledger._writer._engine, "before_cursor_execute")
    def full(connection, cursor, statement, *_):
        if "INSERT INTO settlemark_effect" in statement:
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(LedgerError, match="free some space: nothing was run that could not be recorded"):
        with settlement.transaction("trip") as tx:
            tx.call(tools.book, room="a")
    assert (world.log, settlement.protocol.live) == ([], {})


def test_a_commit_that_cannot_be_recorded_is_undone(file_url, open_settlement, world, tools):
    settlement = open_settlement(file_url)
    states = []

    @event.listens_for(settlement.ledger._writer._engine, "before_cursor_execute")
    def full(connection, cursor, statement, parameters, *_):
        if "UPDATE settlemark_transaction" in statement and State.RELEASING in tuple(parameters):
            states.append(statement)
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(LedgerError), settlement.transaction("trip") as tx:
        tx.call(tools.book, room="a")
        tx.call(tools.send, to="ada")
    assert len(states) >= 1
    assert world.log == [("book", "a"), ("cancel", "a")]
    assert (tx.state, settlement.protocol.live) == (State.ABORTED, {})


# ---- stores that cannot be opened


def test_a_ledger_of_another_schema_version_is_refused_and_stays_as_it_is(file_url, sqlite_rows):
    open_ledger(file_url).close()
    connection = sqlite3.connect(file_url.removeprefix("sqlite:///"))
    with connection:
        connection.execute("UPDATE settlemark_meta SET value = '99' WHERE key = 'schema'")
    connection.close()
    with pytest.raises(
        LedgerError, match="has schema version 99, this settlemark writes .*: install the settlemark that"
    ):
        open_ledger(file_url)
    assert sqlite_rows(file_url, "SELECT value FROM settlemark_meta") == [("99",)]


def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database at all, but long enough to look like one" * 50)
    before = file.read_bytes()
    with pytest.raises(LedgerError, match="this file is something else: name another one"):
        open_ledger(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(LedgerError, match="create its folder, or name another file") as refused:
        open_ledger(f"sqlite:///{tmp_path}/missing/ledger.db")
    assert refused.value.url == f"sqlite:///{tmp_path}/missing/ledger.db"


@pytest.mark.parametrize("url", ["nonsense", "nosuchstore://x", ""])
def test_a_url_that_is_none_is_told_what_to_write(url):
    with pytest.raises(LedgerError, match="is no ledger: use memory: or sqlite:///FILE"):
        open_ledger(url)


def test_a_memory_ledger_keeps_what_is_unfinished_what_left_a_residue_and_the_last_finished_ones():
    ledger = open_ledger("memory:", retain=2)
    ledger.write([opened("open"), intent("open")])
    ledger.write([opened("left"), intent("left"), outcome("left#1/0", tag=Tag.UNRESOLVED), ended("left")])
    for name in "abcd":
        ledger.write([opened(name), intent(name), ended(name)])
    assert [r.row.name for r in ledger.transactions()] == ["open", "left", "c", "d"]
    assert ledger.load("a") is None
    assert len(ledger._effects) == 4
