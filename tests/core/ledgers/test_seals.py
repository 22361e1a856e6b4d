"""The effects under a decision are in the chain of their run: an audit names each row that somebody has edited."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from tests.core.test_ledger_contract import url_of
from tests.rooms.ledger import Age

from settlemark import Payloads, Settlement, effect
from settlemark.hosting import host_of

SECRET = "4242-4242"


@effect("opaque")
def sweep(fund, card):
    return {"fund": fund, "card": card}


@effect("irreversible", scope="mail:/{to}")
def mail(to):
    return to


@effect("reversible", scope="rate:/{fund}", undo=lambda fund: None)
def set_rate(fund):
    return fund


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_url(request):
    return url_of(request.param, request)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return url_of(request.param, request)


@pytest.fixture
def opened():
    """Open settlements that are closed afterwards."""
    every = []

    def open_(url, **options):
        every.append(Settlement(url, **options))
        return every[-1]

    yield open_
    for each in every:
        each.close()


def decide(settlement, name="treasury/1"):
    """Call two tools under a decision, and one without; return the keys."""
    with settlement.transaction(name) as tx:
        with tx.decide("sweep to A", because="it yields more"):
            tx.call(sweep, fund="A", card=SECRET)
            tx.call(mail, to="ada")
        tx.call(sweep, fund="B", card=SECRET)
    return [each.row.key for recorded in settlement.transactions() for each in recorded.effects]


def by_hand(url, statement, **values):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text(statement), values)


def chain(settlement, run="treasury"):
    entries = host_of(settlement).ledger.read(lambda book: book.entries.chain(run)).entries
    return [(entry.kind, entry.key, entry.version, entry.state, entry.latest) for entry in entries]


def faults(settlement, run="treasury"):
    return [(fault.fault.value, fault.entry) for fault in settlement.audit(run).faults]


def test_a_decision_stands_before_its_effects_and_each_intent_and_outcome_of_these_behind_it(any_url, opened):
    settlement = opened(any_url)
    swept, mailed, _ = decide(settlement)
    assert chain(settlement) == [
        ("decision", swept, 1, "made", True),
        ("effect", swept, 1, "intended", False),
        ("effect", swept, 2, "confirmed", True),
        ("effect", mailed, 1, "queued", False),
        ("effect", mailed, 2, "confirmed", True),
    ]
    assert faults(settlement) == []


def test_what_is_undone_and_what_a_person_says_of_it_is_sealed_too(any_url, opened):
    settlement = opened(any_url)
    with pytest.raises(RuntimeError), settlement.transaction("treasury/1") as tx, tx.decide("set it"):
        tx.call(set_rate, fund="A")
        tx.call(sweep, fund="A", card=SECRET)
        raise RuntimeError
    (left,) = settlement.residue()
    settlement.resolve(left.key, "dealt_with", by="ada", note="swept back")
    states = [state for kind, key, _, state, latest in chain(settlement) if latest and kind == "effect"]
    assert (sorted(states), faults(settlement)) == (["confirmed", "undone"], [])
    assert settlement.why(left.key).answered_by == "ada"


def test_redaction_leaves_the_chain_whole_and_no_secret_is_in_it(any_url, opened):
    settlement = opened(any_url, payloads=Payloads(redact=["card", "row", "texts"]))
    decide(settlement)
    entries = host_of(settlement).ledger.read(lambda book: book.entries.chain("treasury")).entries
    assert (faults(settlement), SECRET in repr(entries)) == ([], False)


def test_retention_leaves_the_chain_whole_when_it_removes_texts_and_when_it_removes_rows(any_url, opened):
    settlement = opened(any_url)
    decide(settlement)
    ledger, now = host_of(settlement).ledger, max(each.settled_at for each in settlement.transactions()) + 9
    ledger.now(lambda _p, book: book.sweep(Age(now, now - 1, 100.0), after=None, limit=9))
    stripped = settlement.audit("treasury")
    assert (stripped.faults, stripped.removed, stripped.rows) == ((), 1, 5)
    ledger.now(lambda _p, book: book.sweep(Age(now + 1e9, now - 1, 100.0), after=None, limit=9))
    assert (settlement.transactions(), faults(settlement)) == ([], [])


@pytest.mark.parametrize(
    "edit",
    ["result = NULL", "arguments = '{}'", "rationale = 'because'", "outcome = 'failed'", "tool = 'other'",
     "scopes = '[]'", "settled_at_seconds = 7", "said_by = 'eve'", "fingerprint = 'f'", "held = true", "note = 'n'",
     "decision = NULL", "verdict = 'absent'"],
)  # fmt: skip # a table of values
def test_an_effect_whose_row_was_edited_is_named(url, opened, edit):
    settlement = opened(url)
    swept, _, _ = decide(settlement)
    by_hand(url, f"UPDATE settlemark_effect SET {edit} WHERE key = '{swept}'")
    assert faults(settlement) == [("edited", f"effect/{swept}")]


def test_an_effect_whose_row_was_removed_is_named(url, opened):
    settlement = opened(url)
    swept, _, _ = decide(settlement)
    by_hand(url, f"DELETE FROM settlemark_effect WHERE key = '{swept}'")
    assert faults(settlement) == [("lost", f"effect/{swept}")]
    assert "restore the ledger from a backup" in str(settlement.audit("treasury").faults[0])


def test_an_effect_that_was_put_under_a_decision_by_hand_is_named(url, opened):
    settlement = opened(url)
    _, _, alone = decide(settlement)
    by_hand(url, f"UPDATE settlemark_effect SET decision = 'none' WHERE key = '{alone}'")
    assert faults(settlement) == [("unsealed", f"effect/{alone}")]


def test_a_seal_that_was_emptied_as_retention_does_it_shows_while_its_row_is_there(url, opened):
    settlement = opened(url)
    swept, _, _ = decide(settlement)
    by_hand(url, f"UPDATE settlemark_effect SET result = NULL WHERE key = '{swept}'")
    emptied = "UPDATE settlemark_entry SET body = :body, kept = false WHERE kind = 'effect'"
    by_hand(url, emptied, body='{"$pruned":true}')
    assert ("edited", f"effect/{swept}") in faults(settlement)


def test_an_outcome_that_another_process_finds_is_sealed_by_that_one(url, opened):
    """The other one has decided nothing itself: the head of the log tells it that there are seals."""
    first, second = opened(url), opened(url)
    with pytest.raises(RuntimeError), first.transaction("treasury/1") as tx, tx.decide("sweep"):
        tx.call(sweep, fund="A", card=SECRET)
        raise RuntimeError
    (left,) = second.residue()
    second.resolve(left.key, "dealt_with", by="ada")
    assert (faults(first), second.why(left.key).answered_by) == ([], "ada")
