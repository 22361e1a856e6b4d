"""A chain that somebody has edited by hand: what was changed, removed or added is found and named."""

from __future__ import annotations

import hashlib
import json

import pytest
import sqlalchemy as sa
from tests.core.ledgers.test_entries import add, chain, change, draft
from tests.core.test_ledger_contract import opening, peek, url_of
from tests.rooms.ledger import Age, Chain, made
from tests.rooms.payloads import Redaction

from settlemark import Encryption, new_key
from settlemark.ledger._audit import Fault, Finding, audited

__all__ = ["opening"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    return url_of(request.param, request)


@pytest.fixture
def ledger(url, opening):
    """A chain of d1, d2, d3, and the second version of d2."""
    ledger = opening(url, redaction=Redaction(["card"]))
    add(ledger, draft(), draft("d2", body='{"card":"4242-4242"}'), draft("d3"))
    change(ledger, "d2", from_version=1)
    return ledger


def by_hand(url, *statements):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def faults(ledger):
    return [(finding.place, finding.fault.value, finding.entry) for finding in audited("run", chain(ledger))]


def test_what_nobody_touched_has_no_fault_and_neither_has_what_was_redacted_or_pruned(ledger):
    assert faults(ledger) == []
    ledger.now(lambda _p, book: book.sweep(Age(9.0, 5.0, 100.0), after=None, limit=9))
    assert {entry.body[:10] for entry in chain(ledger).entries} == {'{"$pruned"'}
    assert faults(ledger) == []


@pytest.mark.parametrize(
    "edit",
    ["state = 'undone'", "body = '{}'", "at_seconds = 7", "due_seconds = 7", "key = 'trip#1/9'", "name = 'tour'",
     "attempt = 9", "version = 9", "id = 'd9'", "kind = 'promise'", "open = true", "content = 'c'",
     "digest = 'd'", "latest = false", "kept = false"],
)  # fmt: skip # a table of values
def test_a_changed_row_is_named(ledger, url, edit):
    by_hand(url, f"UPDATE settlemark_entry SET {edit} WHERE place = 3")
    found = faults(ledger)
    assert found[0][:2] == (3, "changed")
    assert {place for place, _, _ in found} <= {3, 4}, "and, of a digest, what stands on it"


def recorded(*drafts):
    """Return a chain of entries as they are recorded, each the only version of its own."""
    chain = Chain([])
    for each in drafts:
        entry = made(each, 1, chain, each.body, each.body)
        chain = Chain([*chain.entries, entry], entry.place, entry.digest)
    return chain


WHOLE = {"name": "trip", "attempt": 1, "key": "trip#1/0", "due": 9.0, "open": True}
EDITS = {
    "kind": "promise", "id": "d9", "run": "other", "state": "undone", "at": 1.5, "name": None, "attempt": None,
    "key": None, "due": None, "open": False, "version": 2, "content": "c", "digest": "d", "intact": False,
    "latest": False,
}  # fmt: skip # a table


def test_whatever_is_edited_of_an_entry_the_entry_is_named_and_no_other_one_is_accused():
    chain = recorded(*(draft(f"d{number}", **WHOLE) for number in (1, 2, 3)))
    assert audited("run", chain) == []
    for place in (1, 2, 3):
        for field, value in EDITS.items():
            edited = [e if e.place != place else e._replace(**{field: value}) for e in chain.entries]
            found = audited("run", chain._replace(entries=edited))
            on_it = (place, place + 1) if field == "digest" and place < 3 else (place,)
            assert [(each.place, each.fault) for each in found] == [(at, Fault.CHANGED) for at in on_it], field
        left = [e for e in chain.entries if e.place != place]
        assert audited("run", chain._replace(entries=left)) == [Finding("run", place, Fault.MISSING, None)]


def test_a_version_that_is_marked_as_the_last_and_is_not_is_named():
    chain = recorded(draft(), draft("d2"))
    first, other = chain.entries
    second = made(draft(), 2, chain, "{}", "{}")
    chain = Chain([first, other, second], 3, second.digest)
    assert audited("run", chain) == [Finding("run", 1, Fault.CHANGED, "decision/d1#1")]
    assert audited("run", chain._replace(entries=[first._replace(latest=False), other, second])) == []


def test_what_stands_behind_the_end_of_a_chain_is_named_whatever_its_digest():
    chain = recorded(draft(), draft("d2"), draft("d3"))
    assert audited("run", chain._replace(length=2, digest=chain.entries[1].digest)) == [
        Finding("run", 3, Fault.ADDED, "decision/d3#1")
    ]
    assert audited("run", Chain(chain.entries[2:], 1, chain.entries[0].digest)) == [
        Finding("run", 1, Fault.MISSING, None),
        Finding("run", 2, Fault.MISSING, None),
        Finding("run", 3, Fault.ADDED, "decision/d3#1"),
    ]


def test_a_finding_says_where_it_is_and_what_is_wrong_there():
    entries = ("a/1#1", None, "a/2#1", None, "effect/k", "effect/k", "effect/k")
    told = [str(Finding("trip", 3, fault, entry)) for fault, entry in zip(Fault, entries, strict=True)]
    assert told == [
        "entry 3 of the run trip, a/1#1, is not what was recorded: it was changed, or has another's place",
        "entry 3 of the run trip is missing: restore the ledger from a backup",
        "entry 3 of the run trip, a/2#1, stands behind the end of the chain: nobody recorded it",
        "the run trip no longer has the digest that was kept: its rows up to that one were made anew",
        "entry 3 of the run trip says otherwise of effect/k: the effect's row was changed",
        "entry 3 of the run trip tells of effect/k, whose row is missing: restore the ledger from a backup",
        "effect/k of the run trip is in no entry of its chain: nobody recorded it under a decision",
    ]


def test_a_sealed_body_that_nobody_with_its_key_has_written_is_named_though_all_digests_fit(tmp_path, opening):
    pytest.importorskip("cryptography")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = opening(url, encryption=Encryption(new_key()))
    add(ledger, draft())
    (entry,) = chain(ledger).entries
    ((body,),) = peek(url, "SELECT body FROM settlemark_entry")
    forged = body[:-20] + ("A" if body[-20] != "A" else "B") + body[-19:]
    anew = entry._replace(content=hashlib.sha256(forged.encode()).hexdigest())
    digest = anew.link("0" * 64)
    escaped = forged.replace(":", "\\:")
    by_hand(
        url,
        f"UPDATE settlemark_entry SET body = '{escaped}', content = '{anew.content}', digest = '{digest}'",
        f"UPDATE settlemark_chain SET digest = '{digest}'",
    )
    assert faults(ledger) == [(1, "changed", "decision/d1#1")]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_a_missing_row_is_named_the_last_one_too(ledger, url, place):
    by_hand(url, f"DELETE FROM settlemark_entry WHERE place = {place}")
    missing = [found for found in faults(ledger) if found[1] == "missing"]
    assert missing == [(place, "missing", None)]
    assert str(audited("run", chain(ledger))[0 if place != 4 else -1]).startswith("entry ")


def test_two_rows_that_have_changed_places_are_named(ledger, url):
    by_hand(
        url,
        *(f"UPDATE settlemark_entry SET place = {to} WHERE place = {place}" for place, to in ((1, 9), (3, 1), (9, 3))),
    )
    assert [found for found in faults(ledger) if found[0] in (1, 3)] == [
        (1, "changed", "decision/d3#1"),
        (3, "changed", "decision/d1#1"),
    ]


def test_a_row_that_was_put_in_is_named(ledger, url):
    columns = "namespace, run, kind, name, attempt, key, state, open, latest, body, at_seconds, due_seconds, content"
    by_hand(
        url,
        f"INSERT INTO settlemark_entry (place, id, version, digest, kept, {columns})"
        f" SELECT 5, 'd5', 1, digest, kept, {columns} FROM settlemark_entry WHERE place = 3",
    )
    assert faults(ledger) == [(5, "added", "decision/d5#1")]


def test_an_end_that_was_moved_is_named(ledger, url):
    by_hand(url, "UPDATE settlemark_chain SET digest = 'x'")
    assert faults(ledger) == [(4, "changed", "decision/d2#2")]
    by_hand(url, "UPDATE settlemark_chain SET length = 3")
    assert (4, "added", "decision/d2#2") in faults(ledger)


def test_a_row_that_is_made_anew_with_its_own_digest_shows_at_the_next(ledger, url):
    entry = chain(ledger).entries[0]._replace(state="forged")
    by_hand(url, f"UPDATE settlemark_entry SET state = 'forged', digest = '{entry.link('0' * 64)}' WHERE place = 1")
    assert faults(ledger) == [(2, "changed", "decision/d2#1")]
    assert json.loads(chain(ledger).entries[1].body) == {"card": {"$redacted": None}}
