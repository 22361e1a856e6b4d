"""Entries: what a ledger holds beside transactions and effects, in memory, in a file and on a server."""

from __future__ import annotations

import json

import pytest
from tests.core.test_ledger_contract import ended, intent, opened, opening, peek, url_of
from tests.rooms.ledger import BEGINNING, Age, Draft, Which
from tests.rooms.payloads import LIMIT, Redaction

from settlemark import Encryption, LedgerError, new_key
from settlemark.ledger import open_ledger

__all__ = ["opening"]

STORES = ["memory", "sqlite", "postgres"]


@pytest.fixture(params=STORES)
def url(request):
    return url_of(request.param, request)


def draft(id_="d1", **parts):
    return Draft("decision", id_, "run", "made", 1.0, '{"why":"cheap"}')._replace(**parts)


def add(ledger, *drafts):
    return [ledger.now(lambda _p, book, each=each: book.entries.add(each)) for each in drafts]


def change(ledger, id_="d1", **parts):
    told = {"state": "over", "at": 2.0, **parts}
    return ledger.now(lambda _p, book: book.entries.change("decision", id_, **told))


def chain(ledger, run="run"):
    return ledger.read(lambda book: book.entries.chain(run))


def links(found):
    before, kept = BEGINNING, []
    for entry in found.entries:
        kept.append(entry.intact and entry.digest == entry.link(before))
        before = entry.digest
    return kept, (found.length, found.digest) == (len(found.entries), before)


def test_an_entry_is_read_as_it_was_added(url, opening):
    ledger = opening(url)
    told = draft(name="trip", attempt=1, key="trip#1/0", due=9.5, open=True)
    ((won, entry),) = add(ledger, told)
    assert (won, entry[: len(told)]) == (True, told)
    assert ledger.read(lambda book: book.entries.get("decision", "d1")) == entry
    assert (entry.version, entry.place, entry.intact, entry.latest) == (1, 1, True, True)
    assert ledger.read(lambda book: book.entries.get("decision", "d2")) is None


def test_of_two_that_answer_one_version_the_second_has_written_nothing_and_is_told_what_stands(url, opening):
    ledger = opening(url)
    add(ledger, draft())
    first = change(ledger, from_version=1, body='{"by":"ada"}')
    before = chain(ledger)
    for asked in ({"from_version": 1}, {"from_state": "made"}, {"from_version": 2, "from_state": "made"}):
        assert change(ledger, body='{"by":"bob"}', **asked) == (False, first.entry)
    assert chain(ledger) == before
    assert [(e.version, e.body) for e in before.entries] == [(1, '{"why":"cheap"}'), (2, '{"by":"ada"}')]
    assert change(ledger, from_state="over").entry.body == '{"by":"ada"}'


def test_a_change_is_of_the_version_and_the_state_that_it_names(url, opening):
    ledger = opening(url)
    add(ledger, draft())
    change(ledger, from_version=1)
    for asked in ({"from_version": 1, "from_state": "over"}, {"from_version": 2, "from_state": "made"}):
        assert not change(ledger, **asked).won
    assert change(ledger, from_version=2, from_state="over").won


def test_the_next_version_has_what_is_said_of_it_and_else_what_the_last_one_had_but_for_when_and_whether_it_is_due(
    url, opening
):
    ledger = opening(url)
    told = draft(name="trip", attempt=3, key="trip#1/0", due=9.5, open=True)
    add(ledger, told)
    second = change(ledger, from_version=1).entry
    assert second[: len(told)] == told._replace(state="over", at=2.0, due=None, open=False)
    third = change(ledger, from_version=2, body='"b"', key="trip#1/1", due=7.0, open=True, at=3.0).entry
    assert third[: len(told)] == told._replace(state="over", at=3.0, body='"b"', key="trip#1/1", due=7.0)
    assert [(e.version, e.latest) for e in chain(ledger).entries] == [(1, False), (2, False), (3, True)]


def test_what_is_found_is_the_last_version(url, opening):
    ledger = opening(url)
    add(ledger, draft(due=3.0), draft("d2", due=5.0, key="trip#1/0"), draft("d3", run="other"))
    change(ledger, from_version=1, due=4.0)

    def found(**asked):
        return [(e.id, e.version) for e in ledger.read(lambda book: book.entries.find(Which("decision", **asked)))]

    assert found(run="run") == [("d2", 1), ("d1", 2)]
    assert found(state="made") == [("d3", 1), ("d2", 1)]
    assert found(due_before=4.5) == [("d1", 2)]
    assert found(due_before=4.0) == []
    assert found(name="trip") == []
    assert [found(newest=most) for most in (0, 1, 2)] == [[], [("d1", 2)], [("d2", 1), ("d1", 2)]]
    assert found(run="run", newest=9) == found(run="run")
    add(ledger, draft("d4", name="trip"), draft("d0", name="trip"))
    assert found(name="trip") == [("d4", 1), ("d0", 1)], "of one time, as they were added"
    assert found(key="trip#1/0") == [("d2", 1)]


def test_an_entry_goes_with_its_step_or_not_at_all(url, opening):
    ledger = opening(url)
    add(ledger, draft())
    before = chain(ledger)

    def twice(_protocol, book):
        book.write([opened(), intent()])
        book.entries.add(draft("d2", key="trip#1/0"))
        book.entries.change("decision", "d1", from_version=1, state="over", at=2.0)
        book.write([intent()])

    with pytest.raises(LedgerError):
        ledger.now(twice)
    assert chain(ledger) == before
    assert ledger.read(lambda book: book.load("trip")) is None

    def once(_protocol, book):
        book.write([opened(), intent()])
        book.entries.add(draft("d2", key="trip#1/0"))

    ledger.now(once)
    assert [e.id for e in chain(ledger).entries] == ["d1", "d2"]
    assert [e.row.key for e in ledger.read(lambda book: book.load("trip")).effects] == ["trip#1/0"]


WRONG = [
    {"kind": "No"}, {"kind": 7}, {"kind": "x" * 33}, {"state": ""}, {"state": "two words"}, {"id": ""},
    {"id": "x" * 401}, {"id": None}, {"run": "\ud83d"}, {"run": ""}, {"run": None}, {"name": ""}, {"name": "\0"},
    {"key": "\ud83d"}, {"key": ""}, {"body": "{"}, {"body": '"\0"'}, {"body": '"\ud83d"'},
    {"at": float("nan")}, {"at": 2.0**63}, {"at": -(2.0**63)}, {"due": float("inf")}, {"due": 2.0**63},
]  # fmt: skip # a list of names and values


def test_what_no_store_can_hold_is_refused_and_nothing_is_recorded(opening):
    ledger = opening("memory:")
    for wrong in WRONG:
        with pytest.raises(LedgerError, match="nothing was recorded") as refused:
            add(ledger, draft()._replace(**wrong))
        assert [refused.value.field] == list(wrong), wrong
        assert chain(ledger) == ([], 0, BEGINNING)


def test_the_longest_that_an_entry_may_say_is_read_as_it_was_added(url, opening):
    ledger = opening(url)
    told = draft("x" * 400, kind="k" * 32, state="s-1_" * 8, at=-9.0e18, due=9.0e18, body='"\\u0000"')
    ((_, entry),) = add(ledger, told)
    assert entry[: len(told)] == told
    assert chain(ledger).entries == [entry]


def test_a_change_of_what_is_not_there_or_from_nothing_is_refused_and_nothing_is_recorded(url, opening):
    ledger = opening(url)
    with pytest.raises(LedgerError, match="no decision 'd1'"):
        change(ledger, from_version=1)
    add(ledger, draft())
    with pytest.raises(LedgerError, match="neither from_version= nor from_state="):
        change(ledger)
    assert len(chain(ledger).entries) == 1


def test_fields_are_redacted_and_the_secrets_of_its_effect_are_scrubbed(url, opening):
    ledger = opening(url, redaction=Redaction(["card"]))
    secret = {"card": "4242-4242", "why": "charge 4242-4242"}

    def step(_protocol, book):
        book.write([opened(), intent(arguments=json.dumps(secret))])
        book.entries.add(draft(key="trip#1/0", body=json.dumps(secret)))

    ledger.now(step)
    (entry,) = chain(ledger).entries
    assert json.loads(entry.body) == {"card": {"$redacted": None}, "why": "charge [redacted]"}
    assert links(chain(ledger)) == ([True], True)


def test_the_secrets_of_its_effect_are_scrubbed_wherever_they_stand_and_of_no_other_effect(url, opening):
    ledger = opening(url, redaction=Redaction(["card"]))
    body = json.dumps({"deep": [["by 4242-4242"], {"again": "4242-4242"}], "n": 4242, "yes": True, "none": None})

    def step(_protocol, book):
        book.write([opened(), intent(arguments='{"card":"4242-4242"}'), intent(position=1, arguments="{}")])
        book.entries.add(draft(key="trip#1/0", body=body))
        book.entries.add(draft("d2", key="trip#1/1", body=body))
        book.entries.add(draft("d3", body=body))

    ledger.now(step)
    scrubbed, *whole = [json.loads(entry.body) for entry in chain(ledger).entries]
    assert scrubbed == {**json.loads(body), "deep": [["by [redacted]"], {"again": "[redacted]"}]}
    assert whole == [json.loads(body)] * 2


def test_who_cannot_read_a_body_changes_the_state_and_leaves_the_body(tmp_path, opening):
    pytest.importorskip("cryptography")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = opening(url, encryption=Encryption(new_key()))
    add(ledger, draft(key="trip#1/0"))
    assert change(opening(url), from_version=1).won
    assert [(e.state, e.body, e.intact) for e in chain(ledger).entries] == [
        ("made", '{"why":"cheap"}', True),
        ("over", '{"why":"cheap"}', True),
    ]


def test_a_body_that_retention_has_removed_stays_removed_when_the_entry_is_changed(url, opening):
    ledger = opening(url, redaction=Redaction(["card"]))
    add(ledger, draft(key="trip#1/0"))
    old = Age(9.0, 5.0, 100.0)
    assert ledger.now(lambda _p, book: book.sweep(old, after=None, limit=9)).entries == 1
    assert change(ledger, from_version=1, body=None).won
    assert ["$pruned" in entry.body for entry in chain(ledger).entries] == [True, True]
    assert links(chain(ledger)) == ([True, True], True)
    assert ledger.read(lambda book: book.old(old)).entries == 0


def test_a_body_is_encrypted_for_its_tenant_and_its_digest_needs_no_key(tmp_path, opening):
    pytest.importorskip("cryptography")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = opening(url, encryption=Encryption(new_key()))
    add(ledger, draft())
    change(ledger, from_version=1)
    assert [e.body for e in chain(ledger).entries] == ['{"why":"cheap"}'] * 2
    stored = [body for (body,) in peek(url, "SELECT body FROM settlemark_entry")]
    assert all(body.startswith('{"$sealed":') and "cheap" not in body for body in stored)
    blind = opening(url)
    assert "$sealed" in chain(blind).entries[0].body
    assert links(chain(blind)) == ([True, True], True)


def test_without_a_key_for_its_tenant_an_entry_is_refused_and_nothing_is_recorded(tmp_path, opening):
    pytest.importorskip("cryptography")
    ledger = opening(f"sqlite:///{tmp_path / 'ledger.db'}", encryption=Encryption(lambda tenant: None))
    with pytest.raises(LedgerError, match="nothing was run"):
        add(ledger, draft())
    assert chain(ledger).entries == []


def test_a_long_body_is_kept_whole_and_retention_leaves_the_chain(url, opening):
    ledger = opening(url)
    long = json.dumps("x" * (LIMIT + 1))
    add(ledger, draft(body=long), draft("d2", open=True))
    assert chain(ledger).entries[0].body == long
    swept = ledger.now(lambda _p, book: book.sweep(Age(9.0, 5.0, 100.0), after=None, limit=9))
    assert swept.entries == 1
    first, second = chain(ledger).entries
    assert ("$pruned" in first.body, second.body) == (True, '{"why":"cheap"}')
    assert links(chain(ledger)) == ([True, True], True)
    if url != "memory:":
        assert peek(url, "SELECT count(*) FROM settlemark_blob") == [(0,)]


def test_a_chain_goes_when_nothing_else_is_recorded_of_its_run(url, opening):
    ledger = opening(url)
    add(ledger, draft())
    ledger.now(lambda _p, book: book.sweep(Age(900.0, 5.0, 100.0), after=None, limit=9))
    assert chain(ledger) == ([], 0, BEGINNING)
    assert add(ledger, draft())[0].won


def test_a_body_stays_while_it_is_young_open_or_its_transaction_has_its_payloads_and_the_oldest_go_first(url, opening):
    ledger = opening(url)
    ledger.now(lambda _p, book: book.write([opened(), opened("tour"), ended("tour")]))
    add(ledger, draft("d1", at=5.0), draft("d2", open=True), draft("d3", name="trip", attempt=1), draft("d4"))
    add(ledger, draft("d5", run="a"), draft("d6", at=0.5), draft("d7", name="trip", attempt=9), draft("d8", open=True))
    change(ledger, "d8", from_version=1, at=6.0)
    went, before = [], set()
    for _ in range(6):
        ledger.now(lambda _p, book: book.sweep(Age(9.0, 5.0, 100.0), after=(9.0, "", 0), limit=1))
        every = [*chain(ledger).entries, *chain(ledger, "a").entries]
        now = {f"{e.id}#{e.version}" for e in every if "$pruned" in e.body}
        went.append(now - before)
        before = now
    assert went == [{"d6#1"}, {"d5#1"}, {"d4#1"}, {"d7#1"}, {"d8#1"}, set()]


def test_a_chain_stays_while_it_is_young_something_of_it_is_kept_or_a_transaction_of_its_run_is(url, opening):
    ledger = opening(url)
    ledger.now(lambda _p, book: book.write([opened()]))
    add(ledger, draft("d1"), draft("d2", run="a", open=True), draft("d3", run="b", at=800.0), draft("d4", run="c"))
    add(ledger, draft("d5", run="d", at=799.0), draft("d6", run="e"), draft("d7", run="e", at=850.0))
    ledger.now(lambda _p, book: book.sweep(Age(900.0, 899.0, 100.0), after=None, limit=9))
    assert [run for run in ("run", *"abcde") if chain(ledger, run).entries] == ["run", *"abe"]
    before = chain(ledger, "a"), chain(ledger, "b")
    ledger.now(lambda _p, book: book.sweep(Age(901.0, 899.0, 100.0), after=None, limit=9))
    assert (chain(ledger, "a"), chain(ledger, "b").entries) == (before[0], [])


def test_memory_keeps_the_runs_that_were_written_last_and_those_with_something_open():
    ledger = open_ledger("memory:", retain=2)
    for number in range(5):
        add(ledger, draft(f"d{number}", run=f"run{number}", open=number == 1))
    assert [number for number in range(5) if chain(ledger, f"run{number}").entries] == [1, 4]
