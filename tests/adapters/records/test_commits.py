"""Several records are one commit, with one entry in the log, whatever they are kept in."""

from __future__ import annotations

import sqlite3
import threading

import pytest
from tests.adapters.records.places import LINES

from settlemark_adapters.records import BadRecord, Committed, KeyTaken


def two_notes(tx):
    return [tx.create("Note", {"text": text}, text)["id"] for text in ("one", "two")]


def test_an_invoice_with_its_lines_is_one_commit_with_message_author_and_all_paths(anywhere):
    books = anywhere.books(tenant="acme", author="Christopher Bender <c@b.example>")
    made = books.create_invoice_with_lines("cus_001", LINES, "Q3 services")
    paths = [f"data/acme/Invoice/{made['invoice']['id']}.json"]
    paths += [f"data/acme/InvoiceLine/{line['id']}.json" for line in made["lines"]]
    ((message, author, contents),) = anywhere.log()
    assert (message, author, sorted(contents)) == (
        "create Invoice with 3 lines",
        "Christopher Bender <c@b.example>",
        sorted(paths),
    )
    assert books.list_commits() == [
        {"commit": made["commit"], "message": message, "author": author, "at": 1_000.0, "paths": paths}
    ]
    assert [anywhere.stands()[path] for path in paths] == [
        {"customer_id": "cus_001", "total": 1750, "notes": "Q3 services"},
        {"invoice_id": made["invoice"]["id"], **LINES[0], "line_total": 1500},
        {"invoice_id": made["invoice"]["id"], **LINES[1], "qty": 1, "line_total": 350},
        {"invoice_id": made["invoice"]["id"], **LINES[2], "qty": 1, "line_total": -100},
    ]


def test_a_transaction_returns_its_result_its_commit_and_its_records(place):
    books = place.books()
    done = books.transaction("note two things", two_notes)
    assert done == Committed(
        ["one", "two"],
        books.list_commits()[0]["commit"],
        {
            "data/Note/one.json": {"id": "one", "text": "one"},
            "data/Note/two.json": {"id": "two", "text": "two"},
        },
    )
    assert done.answer == {"result": ["one", "two"], "commit": done.commit}


def test_another_process_sees_the_same(anywhere):
    anywhere.books().transaction("note two things", two_notes)
    books = anywhere.books()
    assert [note["id"] for note in books.query_records("Note")] == ["one", "two"]
    assert books.get_record("Note", "two") == {"id": "two", "text": "two"}


def test_records_are_changed_and_removed_together_with_what_is_added(anywhere):
    books = anywhere.books()
    books.transaction("note two things", two_notes)

    def tidy(tx):
        tx.update("Note", "one", {"pinned": True})
        tx.delete("Note", "two")
        tx.create("Note", {"text": "three"}, "three")

    books.transaction("tidy", tidy)
    assert anywhere.stands() == {
        "data/Note/one.json": {"text": "one", "pinned": True},
        "data/Note/three.json": {"text": "three"},
    }
    assert books.query_records("Note") == [
        {"id": "one", "text": "one", "pinned": True},
        {"id": "three", "text": "three"},
    ]
    assert [len(entry["paths"]) for entry in books.list_commits()] == [3, 2]


def test_when_its_function_raises_nothing_was_written_and_the_log_says_nothing(anywhere):
    books = anywhere.books()
    books.transaction("note two things", two_notes)
    before, log = anywhere.stands(), books.list_commits()

    def fails(tx):
        tx.create("Note", {"text": "lost"})
        tx.delete("Note", "one")
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        books.transaction("fail", fails)
    assert (anywhere.stands(), books.list_commits(), anywhere.books().query_records("Note")) == (
        before,
        log,
        books.query_records("Note"),
    )


def test_what_ends_as_it_was_is_no_commit(place):
    books = place.books()
    books.transaction("note two things", two_notes)

    def back_and_forth(tx):
        tx.update("Note", "one", {"text": "other"})
        tx.update("Note", "one", {"text": "one"})
        tx.create("Note", {"text": "short-lived"}, "three")
        tx.delete("Note", "three")

    assert books.transaction("nothing", back_and_forth) == Committed(None, None, {})
    assert [entry["message"] for entry in books.list_commits()] == ["note two things"]


def test_what_ends_as_it_was_is_no_part_of_a_commit(place):
    books = place.books()
    books.transaction("note two things", two_notes)

    def mostly_back(tx):
        tx.update("Note", "one", {"text": "other"})
        tx.update("Note", "two", {"text": "changed"})
        tx.update("Note", "one", {"text": "one"})

    books.transaction("change one", mostly_back)
    assert place.log()[-1][2].keys() == {"data/Note/two.json"}
    assert place.stands()["data/Note/one.json"] == {"text": "one"}


def test_a_transaction_sees_what_it_has_written(place):
    books = place.books()
    books.transaction("note two things", two_notes)

    def look(tx):
        tx.update("Note", "one", {"text": "first"})
        tx.delete("Note", "two")
        tx.create("Note", {"text": "first"}, "three")
        found = [note["id"] for note in tx.query("Note", {"text": "first"})]
        return [tx.get("Note", "two"), tx.get("Note", "one"), found, len(tx.query("Note"))]

    done = books.transaction("look", look)
    assert done.result == [None, {"id": "one", "text": "first"}, ["one", "three"], 2]


def test_under_one_key_there_is_one_commit(anywhere):
    books = anywhere.books()
    first = books.transaction("note two things", two_notes, key="decision 1")
    again = anywhere.books().transaction("note two things", two_notes, key="decision 1")
    assert (again.result, again.commit, dict(again.records)) == (first.result, first.commit, dict(first.records))
    assert len(anywhere.log()) == 1


def test_a_key_of_something_else_is_refused_and_nothing_changes(place):
    books = place.books()
    first = books.transaction("note two things", two_notes, key="decision 1")
    with pytest.raises(KeyTaken, match="for another call: where two ledgers write to one store") as refused:
        books.transaction("note other things", two_notes, key="decision 1")
    assert (refused.value.commit, len(place.log())) == (first.commit, 1)


def test_new_records_get_ids_of_their_key_and_their_order(place_of):
    def three(tx):
        return [tx.create("Note", {"text": "x"})["id"] for _ in range(3)]

    ids = [place_of("sqlite").books().transaction("x", three, key=key).result for key in ("a", "a", "b")]
    assert ids[0] == ids[1] == sorted(ids[0])
    assert not set(ids[0]) & set(ids[2])


def test_what_was_looked_at_and_has_changed_is_looked_at_again(place):
    books, other = place.books(), place.books()
    books.transaction("begin", lambda tx: tx.create("Note", {"text": "0"}, "count"))
    tries = []

    def count(tx):
        now = int(tx.get("Note", "count")["text"])
        if not tries:
            other.transaction("meanwhile", lambda tx: tx.update("Note", "count", {"text": "10"}))
        tries.append(now)
        tx.update("Note", "count", {"text": str(now + 1)})

    books.transaction("count", count)
    assert (tries, books.get_record("Note", "count")["text"]) == ([0, 10], "11")


def test_what_was_searched_for_and_has_changed_is_searched_again(place_of):
    place = place_of("files")
    books, other = place.books(), place.books()
    tries = []

    def count(tx):
        tries.append(len(tx.query("Note")))
        if len(tries) == 1:
            other.transaction("meanwhile", two_notes)
        tx.create("Note", {"text": f"there are {tries[-1]}"}, "count")

    books.transaction("count", count)
    assert (tries, books.get_record("Note", "count")["text"]) == ([0, 2], "there are 2")


def test_a_commit_that_touches_nothing_of_it_does_not_disturb(place):
    books, other = place.books(), place.books()
    tries = []

    def slow(tx):
        tries.append(tx.create("Note", {"text": "mine"}, "mine"))
        other.transaction("meanwhile", two_notes)

    books.transaction("slow", slow, key="slow")
    assert (len(tries), [note["id"] for note in books.query_records("Note")]) == (1, ["one", "two", "mine"])


def test_a_database_is_made_when_another_connection_has_ended_its_write(place_of, monkeypatch):
    place = place_of("sqlite")
    other = sqlite3.connect(place.at.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    pauses = []
    monkeypatch.setattr("time.sleep", lambda seconds: (pauses.append(seconds), other.close()))
    place.books().transaction("note two things", two_notes)
    assert (len(pauses), len(place.log())) == (1, 1)


@pytest.mark.parametrize("shared", [True, False], ids=["one backend", "a backend each"])
def test_committers_at_once_lose_none(anywhere, shared):
    if anywhere.kind == "git":
        anywhere.open()  # made once
    one = anywhere.books()
    all_of_them = [one if shared else anywhere.books() for _ in range(3)]
    begin = threading.Barrier(len(all_of_them))

    def work(number, books):
        begin.wait()
        for turn in range(3):
            name = f"{number}.{turn}"
            books.transaction(name, lambda tx, name=name: two_of(tx, name))

    def two_of(tx, name):
        for half in "ab":
            tx.create("Note", {"text": name}, f"{name}{half}")

    threads = [threading.Thread(target=work, args=(n, books)) for n, books in enumerate(all_of_them)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message for message, _, _ in anywhere.log()) == [f"{n}.{t}" for n in range(3) for t in range(3)]
    assert len(anywhere.stands()) == len(anywhere.books().query_records("Note")) == 18


def test_a_snapshot_shows_one_state_while_others_commit(place_of):
    place = place_of("files")
    books, other = place.books(), place.books()
    books.transaction("note two things", two_notes)
    with books.snapshot() as snapshot:
        assert snapshot.get("Note", "one") is not None
        other.transaction("tidy", lambda tx: [tx.delete("Note", name) for name in ("one", "two")])
        assert (len(snapshot.query("Note")), len(snapshot.log())) == (2, 1)
    assert books.query_records("Note") == []


def test_a_tenant_sees_and_writes_nothing_of_another(place):
    acme, other = place.books(tenant="acme"), place.books(tenant="other")
    acme.transaction("note two things", two_notes)
    assert (other.query_records("Note"), other.get_record("Note", "one"), other.list_commits()) == ([], None, [])
    other.transaction("note two things", two_notes)
    assert sorted(place.stands()) == [f"data/{who}/Note/{n}.json" for who in ("acme", "other") for n in ("one", "two")]


def test_queries_find_by_the_values_of_fields(anywhere):
    books = anywhere.books()
    values = [("a", "x", True), ("b", "x", None), ("c", "ü" * 3_000, True)]

    def write(tx):
        for name, text, pinned in values:
            tx.create("Note", {"text": text, "pinned": pinned}, name)

    books.transaction("write", write)
    books.transaction("change", lambda tx: tx.update("Note", "a", {"text": "y"}))

    def found(**where):
        return [note["id"] for note in books.query_records("Note", where)]

    assert (found(text="x"), found(pinned=True), found(pinned=None), found(text="y", pinned=True)) == (
        ["b"],
        ["a", "c"],
        ["b"],
        ["a"],
    )
    assert (found(text="ü" * 3_000), found(text="z"), len(books.query_records("Note", limit=2))) == (["c"], [], 2)


def test_the_log_can_be_asked_about_a_kind_or_a_record(place_of):
    books = place_of("sqlite").books()
    books.transaction("note two things", two_notes)
    books.create_invoice_with_lines("cus_001", LINES)
    books.transaction("change", lambda tx: tx.update("Note", "one", {"text": "other"}))

    def messages(**of):
        return [entry["message"] for entry in books.list_commits(**of)]

    assert messages() == ["change", "create Invoice with 3 lines", "note two things"]
    assert messages(entity="Note", limit=1) == ["change"]
    assert messages(entity="Note") == ["change", "note two things"]
    assert messages(entity="Note", record_id="two") == ["note two things"]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda tx: tx.create("Note", {"text": "x"}, "../../etc"), "'../../etc' is no id of a Note: use letters"),
        (lambda tx: tx.create("Note", {"text": "x"}, "a/b"), "'a/b' is no id of a Note"),
        (lambda tx: tx.create("Note", {}), "Note lacks text"),
        (lambda tx: tx.create("Note", {"text": 7}), "Note has 7 for 'text', which is a text"),
        (lambda tx: tx.create("Note", {"text": "x", "pinned": 1}), "which is true or false"),
        (lambda tx: tx.create("Note", {"text": "x", "colour": "red"}), "no field 'colour': it has text, pinned"),
        (lambda tx: tx.create("Nite", {"text": "x"}), "no entity 'Nite'; there are"),
        (
            lambda tx: tx.create("Note", {"text": "x"}, "one"),
            "there is a Note one already: update it, or choose another",
        ),
        (lambda tx: tx.update("Note", "nine", {"text": "x"}), "there is no Note nine: look for it with query_records"),
        (lambda tx: tx.delete("Note", "nine"), "there is no Note nine"),
    ],
)
def test_what_is_not_fit_is_refused_and_nothing_changes(place_of, write, said):
    place = place_of("files")
    books = place.books()
    books.transaction("note two things", two_notes)
    before = place.log()

    def bad(tx):
        tx.create("Note", {"text": "fine"})
        write(tx)

    with pytest.raises(BadRecord) as refused:
        books.transaction("bad", bad)
    assert said in str(refused.value)
    assert place.log() == before


@pytest.mark.parametrize("message", ["", "  ", "two\nlines", "x" * 501, None])
def test_a_message_is_one_line(place_of, message):
    place = place_of("git")
    with pytest.raises(BadRecord, match="give one line of at most 500 characters; nothing was written"):
        place.books().transaction(message, two_notes)
    assert place.log() == []


def test_a_result_that_json_cannot_hold_is_refused_and_nothing_changes(place_of):
    place = place_of("sqlite")

    def bad(tx):
        two_notes(tx)
        return {"when": {1, 2}}

    with pytest.raises(TypeError, match="is a set, which JSON cannot hold"):
        place.books().transaction("bad", bad)
    assert place.log() == []
