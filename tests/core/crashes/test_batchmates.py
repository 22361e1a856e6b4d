"""Steps that share a commit: what one of them cannot have written is its own affair, and nothing queued is lost.

The gate for texts is open here, so that what no gate foresaw meets the store: every kind of value that one refuses.
"""

from __future__ import annotations

import itertools
import logging
import math

import pytest
import tests.core.test_text as texts
from tests.core.crashes import mutants
from tests.rooms.memory import book as _memory_book
from tests.rooms.record import book as _book
from tests.rooms.replica import StoreTransaction, image, replica, store_transaction

from settlemark import EffectClass, LedgerError, Outcome, State
from settlemark.hosting import Reason
from settlemark.ledger import EffectRow, OutcomeChange, StateChange, TransactionRow, open_ledger

MATES = 12  # on either side
GOOD = [(Outcome.CONFIRMED, '{"id":7}', None, None)]
"""What is on record of the effect of each."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(url, monkeypatch):
    """A ledger whose gate lets every text pass that it is not asked to make plain."""
    storable = _book.storable
    monkeypatch.setattr(
        _book, "storable", lambda changes, short_ascii: storable(changes, short_ascii=True) if short_ascii else changes
    )
    ledger = open_ledger(url)
    yield ledger
    ledger.close()


def key_of(name):
    return f"{name}#1/0"


def opened(name, **parts):
    return TransactionRow(name, 1, "run", State.OPEN, 1, "", "worker", 1.0)._replace(**parts)


def intent(name, **parts):
    row = EffectRow(
        key_of(name), name, 1, 0, "book", EffectClass.REVERSIBLE, "[]", False, None, "{}", None, "{}", "1",
        Outcome.INTENDED, 1.0,
    )  # fmt: skip # a table of values
    return row._replace(**parts)


def outcome(name, **parts):
    return OutcomeChange(key_of(name), Outcome.CONFIRMED, '{"id":7}', None, None, None, 2.0)._replace(**parts)


def begin(name, *more):
    """A step that begins a transaction and has rows of it written."""

    def step(protocol, book):
        txn = protocol.begin(name, owner="worker")
        book.write([opened(name), *more])
        return txn

    return step


def told(change, move=True):
    """A step that moves something and tells what came of an effect."""

    def step(protocol, book):
        if move:
            protocol.skip_epochs(1)
        book.write([change])

    return step


def broken(protocol, book):
    """A step that fails half-way."""
    protocol.skip_epochs(1)
    book.write([outcome("ours")])
    raise ZeroDivisionError


def unwritable(protocol, book):
    """A step of which the log cannot hold what it did."""
    book.write([outcome("ours")])
    protocol.abort(next(iter(protocol.live.values())), Reason.FAILED, waited=math.nan)


class Odd:
    """What no driver knows."""


STRANGE = {
    "half a character": {"error": "no \ud83d"},
    "a NUL": {"note": "no \0"},
    "a number of more than 64 bits": {"at": 10**400},
    "an object": {"result": Odd()},
}
POISON = {
    **{what: told(outcome("ours", **parts)) for what, parts in STRANGE.items()},
    "a name of half a character": begin("bad \ud83d"),
    "an epoch of more than 64 bits": told(StateChange("ours", 1, State.OPEN, 1 << 70, None, 1.0)),
    "an effect of no transaction": told(intent("ghost")),
    "a key that is taken": told(intent("ours")),
    "a step of which the log cannot hold what it did": unwritable,
    "a step that asks for a name no store has": lambda protocol, book: (protocol.skip_epochs(1), book.load("\ud83d")),
    "a key that fits no index": told(intent("ours", key="".join(map(chr, range(0x4E00, 0x4E00 + 1_000))))),
    "a tool that fits no column": told(intent("ours", key="other", tool="x" * 600)),
}
ON_POSTGRESQL = ("a NUL", "a key that fits no index", "a tool that fits no column")
"""What SQLite takes as it is."""


def together(ledger, steps):
    """Queue steps, with nobody who takes them, and have all taken in one commit; return the answers."""
    with ledger._member.commits.leading:
        answers = [ledger.later(step) if queued else ledger.submit(step, durable=True) for step, queued in steps]
        last = ledger.submit(lambda _protocol, _book: None, durable=True)
    last.lead()
    last.result()
    return [None if answer is None else answer.exception() for answer in answers]


def mates(mark):
    steps = [(begin(f"{mark}-{n}", intent(f"{mark}-{n}"), outcome(f"{mark}-{n}")), n % 2 == 1) for n in range(MATES)]
    return [(f"{mark}-{n}", *step) for n, step in enumerate(steps)]


def record(ledger):
    found = ledger.read(lambda book: book.transactions())
    return {f.row.name: (f.state, [(e.outcome, e.result, e.error, e.note) for e in f.effects]) for f in found}


def played(ledger, poison, *, queued):
    """Have a poisoned step taken among 24 others; return its answer, what is wrong with the others, and the record."""
    ledger.now(begin("ours", intent("ours")))
    before, after = mates("before"), mates("after")
    steps = [*(step[1:] for step in before), (poison, queued), *(step[1:] for step in after)]
    answers = together(ledger, steps)
    found = record(ledger)
    wrong = [name for name, _, _ in (*before, *after) if found.get(name) != (State.OPEN, GOOD)]
    wrong += [repr(error) for place, error in enumerate(answers) if error is not None and place != MATES]
    live = [txn.name for txn in ledger.protocol.live.values() if txn.name != "ours"]
    if live != [name for name, _, _ in (*before, *after)]:
        wrong.append(f"alive are {live}")
    return answers[MATES], wrong, found


@pytest.mark.parametrize("what", POISON)
def test_who_cannot_be_written_is_told_alone_and_nothing_of_it_stays(ledger, url, what):
    harmless = what in ON_POSTGRESQL and url.startswith("sqlite")
    error, wrong, found = played(ledger, POISON[what], queued=False)
    assert wrong == []
    if harmless:
        assert error is None
        return
    assert isinstance(error, LedgerError)
    assert (len(found), found["ours"]) == (1 + 2 * MATES, (State.OPEN, [(Outcome.INTENDED, None, None, None)]))
    with_it = image(ledger.protocol)
    other = open_ledger(url)
    try:
        theirs = image(other.protocol)
        assert [t["name"] for t in theirs["live"]] == [t["name"] for t in with_it["live"]]
    finally:
        other.close()


@pytest.mark.parametrize("what", STRANGE)
def test_a_queued_outcome_is_recorded_whatever_its_texts_are(ledger, what):
    _, wrong, found = played(ledger, POISON[what], queued=True)
    assert wrong == []
    ((became, _, error, note),) = found["ours"][1]
    assert became is Outcome.CONFIRMED
    assert {**STRANGE[what], "error": error, "note": note}.get("error") in (None, "no \\ud83d", "no \ud83d")
    assert note in (None, "no \\x00", "no \0")


@pytest.mark.parametrize("what", ["an effect of no transaction", "a step of which the log cannot hold what it did"])
def test_a_queued_step_that_nothing_can_write_is_named_and_takes_nobody_along(ledger, caplog, what):
    with caplog.at_level(logging.CRITICAL, "settlemark"):
        _, wrong, found = played(ledger, POISON[what], queued=True)
    assert wrong == []
    assert found["ours"] == (State.OPEN, [(Outcome.INTENDED, None, None, None)])
    assert [r.levelname for r in caplog.records] == ["CRITICAL"]
    assert "look at it by hand" in caplog.text


def test_a_queued_step_that_fails_half_way_is_tried_again_and_then_named_with_its_effect(ledger, caplog):
    with caplog.at_level(logging.CRITICAL, "settlemark"):
        epoch = ledger.protocol.next_epoch
        _, wrong, found = played(ledger, broken, queued=True)
    assert wrong == []
    assert found["ours"] == (State.OPEN, [(Outcome.INTENDED, None, None, None)])
    assert f"what became of {key_of('ours')} could not be recorded" in caplog.text
    assert ledger.protocol.next_epoch == epoch + 1 + 2 * MATES  # what it had moved is taken back


def test_what_is_told_of_one_effect_keeps_its_order_around_a_poisoned_step(ledger):
    ledger.now(begin("ours", intent("ours")))
    steps = [(told(outcome("ours", note=f"{n}" if n != 5 else "5 \ud83d")), True) for n in range(10)]
    together(ledger, steps)
    assert record(ledger)["ours"][1][0][3] == "9"
    together(ledger, steps[:6])
    assert record(ledger)["ours"][1][0][3] == "5 \\ud83d"


def test_when_the_store_fails_among_them_what_is_queued_stays_queued_in_its_order(ledger, monkeypatch):
    ledger.now(begin("ours", intent("ours")))
    fails, taken = [True], []

    def down(transaction, items):
        if fails and len(items) < 4:  # behind the poisoned step, whose commit is tried in halves
            fails.clear()
            raise transaction._connection.engine.dialect.loaded_dbapi.OperationalError("connection refused")
        taken.append(len(items))
        return take(transaction, items)

    take = StoreTransaction._write
    monkeypatch.setattr(StoreTransaction, "_write", down)
    steps = [(told(outcome("ours", note=f"{n}", error="\ud83d" if n == 1 else None)), True) for n in range(8)]
    with ledger._member.commits.leading:
        for step, _ in steps:
            ledger.later(step)
    with pytest.raises(LedgerError, match="connection refused"):
        ledger.now(lambda _protocol, _book: None)
    ledger.now(lambda _protocol, _book: None)
    assert not fails
    assert record(ledger)["ours"][1] == [(Outcome.CONFIRMED, '{"id":7}', None, "7")]
    assert len(taken) > 1


def test_an_image_that_cannot_be_written_refuses_nobody(ledger, monkeypatch, caplog):
    monkeypatch.setattr(replica, "IMAGE_EVERY", -1_000)
    monkeypatch.setattr(replica, "image", lambda _protocol: {"detail": Odd()})
    with caplog.at_level(logging.ERROR, "settlemark"):
        _, wrong, _ = played(ledger, lambda _protocol, _book: None, queued=False)
    assert wrong == []
    assert "its log stays whole" in caplog.text


# ---- rules that are broken are caught


def looked_into(ledger):
    """Have a poisoned step taken before others, and all sent when a name is looked up; return whose record is wrong."""
    ledger.now(begin("ours", intent("ours")))
    before, after = mates("before"), mates("after")
    looks = (lambda _protocol, book: book.load("x"), False)
    poison = (POISON["half a character"], True)
    together(ledger, [poison, *(step[1:] for step in before), looks, *(step[1:] for step in after)])
    found = record(ledger)
    return [name for name, _, _ in (*before, *after) if found.get(name, (None, []))[1] != GOOD]


def test_rows_that_leave_before_the_store_has_them_are_missed(ledger, monkeypatch):
    monkeypatch.setattr(store_transaction, "SqlBook", mutants.RowsLeaveEarly)
    monkeypatch.setattr(StoreTransaction, "_one", mutants.takes_any_failure_for_a_refusal)
    assert looked_into(ledger) != []


def test_none_is_missed_where_rows_leave_when_the_store_has_them(ledger):
    assert looked_into(ledger) == []


def test_a_ledger_without_a_gate_is_caught(monkeypatch, open_settlement):
    for module in (_book, _memory_book):
        monkeypatch.setattr(module, "storable", mutants.lets_all_pass)
    wrong = texts.play(open_settlement("memory:"), dict.fromkeys(texts.PROSE, texts.BAD[0]), itertools.count())
    assert [said for said in wrong if said.startswith("lost at")] != []


def test_a_ledger_that_drops_what_it_cannot_write_as_it_is_is_caught(ledger, monkeypatch):
    monkeypatch.setattr(store_transaction, "_PLAINER", 1)
    _, wrong, found = played(ledger, POISON["half a character"], queued=True)
    assert wrong == []
    assert found["ours"][1][0][0] is not Outcome.CONFIRMED
