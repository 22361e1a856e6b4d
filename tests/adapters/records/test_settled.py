"""A call that writes records settles as every effect does: it stands as a whole, or it is taken back by name."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from tests.adapters.records.places import LINES, NOTE, POSTING

from settlemark import KeyConflict, Outcome, ScopeError, Settlement, Stale, Tag, WaitTimeout, effect
from settlemark.hosting import declaration_of
from settlemark_adapters.records import BadRecord, KeyTaken, RecordError, Records, Tx, record_tool

NOTES = [{"do": "create", "entity": "Note", "id": name, "fields": {"text": name}} for name in ("one", "two")]


class Boom(Exception):
    """Why a transaction fails."""


def failing(settlement, name, *calls):
    """Make calls in a transaction that fails after them."""
    results = []
    with pytest.raises(Boom), settlement.transaction(name) as tx:
        results += [tx.call(function, **arguments) for function, arguments in calls]
        raise Boom
    return results


def messages(place):
    return [message for message, _, _ in place.log()]


# ---- commit and abort


def test_what_commits_stands_and_its_result_names_the_commit(anywhere, settlement):
    books = anywhere.books(settlement)
    with settlement.transaction("t") as tx:
        made = tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES, notes="Q3 services")
    assert made["commit"] == books.list_commits()[0]["commit"]
    assert made["invoice"] == books.get_record("Invoice", made["invoice"]["id"])
    assert made["lines"] == books.query_records("InvoiceLine", {"invoice_id": made["invoice"]["id"]})
    assert (settlement.residue(), len(anywhere.log())) == ([], 1)


def test_what_aborts_is_taken_back_by_one_commit(anywhere, settlement):
    books = anywhere.books(settlement)
    books.transaction("begin", lambda tx: [tx.create("Note", {"text": name}, name) for name in ("old", "gone")])
    before, found = anywhere.stands(), books.query_records("Note")
    changes = [
        *NOTES,
        {"do": "update", "entity": "Note", "id": "old", "fields": {"text": "new"}},
        {"do": "delete", "entity": "Note", "id": "gone"},
    ]
    failing(settlement, "t", (books.commit_records, {"message": "tidy", "changes": changes}))
    assert messages(anywhere) == ["begin", "tidy", 'Revert "tidy"']
    assert (anywhere.stands(), books.query_records("Note"), anywhere.books().query_records("Note")) == (
        before,
        found,
        found,
    )
    assert (settlement.residue(), [entry.get("reverts") for entry in books.list_commits()]) == (
        [],
        [books.list_commits()[1]["commit"], None, None],
    )


def test_of_two_calls_on_one_record_both_are_taken_back(place, settlement):
    books = place.books(settlement)
    books.transaction("begin", lambda tx: tx.create("Note", {"text": "0"}, "n"))
    change = [{"do": "update", "entity": "Note", "id": "n", "fields": {"text": text}} for text in "12"]
    failing(
        settlement,
        "t",
        *((books.commit_records, {"message": f"change {n}", "changes": [one]}) for n, one in enumerate(change)),
    )
    assert messages(place) == ["begin", "change 0", "change 1", 'Revert "change 1"', 'Revert "change 0"']
    assert (place.stands(), settlement.residue()) == ({"data/Note/n.json": {"text": "0"}}, [])
    failing(settlement, "u", (books.commit_records, {"message": "again", "changes": change[:1]}))
    assert (place.stands(), settlement.residue()) == ({"data/Note/n.json": {"text": "0"}}, [])


def test_a_record_that_somebody_else_has_changed_is_left_and_named(anywhere, settlement):
    books, other = anywhere.books(settlement), anywhere.books(author="Bob")
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        tx.call(books.commit_records, message="note two things", changes=NOTES)
        theirs = other.transaction("mine now", lambda tx: tx.update("Note", "two", {"text": "Bob's"}))
        raise Boom
    (left,) = settlement.residue()
    assert left.tag is Tag.UNRESOLVED
    assert f"Changed: data/Note/two.json was changed by Bob in {theirs.commit} ('mine now') after" in left.note
    assert messages(anywhere) == ["note two things", "mine now"]
    assert other.query_records("Note") == [{"id": "one", "text": "one"}, {"id": "two", "text": "Bob's"}]


def test_taking_back_is_done_once_however_often_it_is_asked(place):
    books = place.books()
    books.transaction("note", lambda tx: tx.create("Note", {"text": "x"}, "n"), key="k")
    for each in (books, books, place.books()):
        each.take_back("k")
    assert (messages(place), place.stands()) == (["note", 'Revert "note"'], {})
    books.take_back("of nothing")
    assert len(place.log()) == 2


def test_what_was_taken_back_does_not_come_again_under_its_key(place_of):
    place = place_of("files")
    books = place.books()

    def write(tx):
        tx.create("Note", {"text": "x"}, "n")

    books.transaction("note", write, key="k")
    books.take_back("k")
    with pytest.raises(KeyTaken, match="took back: a new call has a new key; nothing was written"):
        books.transaction("note", write, key="k")
    assert (place.stands(), books.find("k")) == ({}, None)


def test_taking_back_what_others_build_on_is_refused_when_the_whole_would_not_add_up(place_of, settlement):
    place = place_of("sqlite")
    books, other = place.books(settlement), place.books()

    def begin(customer_id: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        """Begin an invoice."""
        fields = {"customer_id": customer_id, "total": 0, "notes": ""}
        return books.transaction("begin", lambda tx: tx.create("Invoice", fields)).answer

    mine = books.declare("create_invoice_with_lines", begin)
    line = {"description": "free", "qty": 1, "unit_price": 0, "line_total": 0}
    with pytest.raises(Boom), settlement.transaction("t") as tx:
        made = tx.call(mine, customer_id="cus_001", lines=LINES)
        other.transaction("add", lambda tx: tx.create("InvoiceLine", {"invoice_id": made["id"], **line}))
        raise Boom
    (left,) = settlement.residue()
    assert f"belongs to no invoice: there is no {made['id']}; nothing was written" in left.note
    assert messages(place) == ["begin", "add"]


# ---- identity, doubt


class Forgetful:
    """A backend whose answer to a publish is lost, after it or before."""

    def __init__(self, backend, when):
        self.backend, self.when = backend, when

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def stage(self, tenant, key):
        staging, when = self.backend.stage(tenant, key), self.when
        publish = staging.publish

        def lossy(commit, head):
            self.when = None
            if when == "after":
                publish(commit, head)
            if when is not None:
                raise TimeoutError("no answer")
            return publish(commit, head)

        staging.publish = lossy
        return staging


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_answer_is_asked_about_and_nothing_is_doubled(place, settlement, when):
    books = place.books(settlement)
    lossy = Forgetful(books.backend, when)
    object.__setattr__(books._store, "backend", lossy)
    with settlement.transaction("t") as tx:
        made = tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
    (effect_,) = settlement.transactions()[0].effects
    assert (effect_.outcome, len(place.log())) == (Outcome.CONFIRMED, 1)
    assert made == place.books().find("t#1/0")


def test_the_probe_tells_what_is_true(anywhere, settlement):
    books = anywhere.books(settlement)
    assert books.find("t#1/0") is None
    with settlement.transaction("t") as tx:
        made = tx.call(books.commit_records, message="note two things", changes=NOTES)
    assert books.find("t#1/0") == anywhere.books().find("t#1/0") == made
    failing(settlement, "u", (books.post_journal_entry, {"lines": POSTING}))
    assert books.find("u#1/0") is None


def test_a_call_that_comes_again_under_its_key_is_not_done_again(anywhere, tmp_path):
    url = f"sqlite:///{tmp_path}/ledger.db"
    results = []
    for _ in range(2):
        with Settlement(url) as settlement, settlement.transaction("t") as tx:
            books = anywhere.books(settlement)
            results.append(tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES))
    assert results[0] == results[1]
    assert len(anywhere.log()) == 1


def test_another_ledger_with_the_same_names_gets_no_commit_of_this_one(place_of):
    place = place_of("files")
    for customer in ("cus_001", "cus_002"):
        with Settlement("memory:") as settlement:
            books = place.books(settlement)
            if customer == "cus_001":
                with settlement.transaction("t") as tx:
                    tx.call(books.create_invoice_with_lines, customer_id=customer, lines=LINES)
                continue
            with pytest.raises(KeyTaken, match="give one of their settlements a namespace"):
                with settlement.transaction("t") as tx:
                    tx.call(books.create_invoice_with_lines, customer_id=customer, lines=LINES)
            assert settlement.transactions() == []
    assert messages(place) == ["create Invoice with 3 lines"]


def test_the_same_decision_with_other_arguments_is_refused(place_of, tmp_path):
    place = place_of("files")
    with Settlement(f"sqlite:///{tmp_path}/ledger.db") as settlement:
        books = place.books(settlement)
        with settlement.transaction("t") as tx:
            tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
        with pytest.raises(KeyConflict), settlement.transaction("t") as tx:
            tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES[:1])
    assert len(place.log()) == 1


def test_a_retry_of_an_aborted_transaction_makes_new_records(place_of, settlement):
    place = place_of("files")
    books = place.books(settlement)
    call = (books.create_invoice_with_lines, {"customer_id": "cus_001", "lines": LINES})
    (first,) = failing(settlement, "t", call)
    with settlement.transaction("t") as tx:
        second = tx.call(call[0], **call[1])
    assert first["invoice"]["id"] != second["invoice"]["id"]
    assert [invoice["id"] for invoice in books.query_records("Invoice")] == [second["invoice"]["id"]]


# ---- staged


def test_staged_records_are_seen_by_nobody_before_the_step_settles(anywhere, settlement):
    books = anywhere.books(settlement, staged=True)
    with settlement.transaction("t") as tx:
        queued = tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
        tx.call(books.commit_records, message="note two things", changes=NOTES)
        outside = (anywhere.log(), books.query_records("Invoice"), books.get_record("Note", "one"))
    assert outside == ([], [], None)
    assert messages(anywhere) == ["create Invoice with 3 lines", "note two things"]
    assert queued.result()["invoice"] == books.query_records("Invoice")[0]


def test_staged_records_that_are_dropped_were_never_there(place, settlement):
    books = place.books(settlement, staged=True)
    failing(settlement, "t", (books.create_invoice_with_lines, {"customer_id": "cus_001", "lines": LINES}))
    assert (place.log(), settlement.residue()) == ([], [])


def test_a_transaction_reads_what_it_has_staged(place, settlement):
    books = place.books(settlement, staged=True)
    books.transaction("begin", lambda tx: tx.create("Note", {"text": "old"}, "n"))
    with settlement.transaction("t") as tx:
        queued = tx.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
        change = [{"do": "update", "entity": "Note", "id": "n", "fields": {"text": "new"}}]
        tx.call(books.commit_records, message="change it", changes=change)
        (invoice,) = tx.call(books.query_records, entity="Invoice")
        seen = [
            tx.call(books.get_record, entity="Invoice", record_id=invoice["id"]),
            tx.call(books.get_record, entity="Note", record_id="n"),
            len(tx.call(books.query_records, entity="InvoiceLine", where={"invoice_id": invoice["id"]})),
            tx.call(books.query_records, entity="Note", where={"text": "old"}),
        ]
    assert seen == [invoice, {"id": "n", "text": "new"}, 3, []]
    assert queued.result()["invoice"] == invoice == books.get_record("Invoice", invoice["id"])


def test_a_staged_call_may_change_what_an_earlier_one_creates(place_of, settlement):
    place = place_of("files")
    books = place.books(settlement, staged=True)
    with settlement.transaction("t") as tx:
        tx.call(books.commit_records, message="note two things", changes=NOTES)
        change = [{"do": "update", "entity": "Note", "id": "one", "fields": {"text": "changed"}}]
        tx.call(books.commit_records, message="change it", changes=change)
    assert place.stands()["data/Note/one.json"] == {"text": "changed"}


def test_a_staged_call_that_cannot_succeed_is_refused_when_it_is_made(place, settlement):
    books = place.books(settlement, staged=True)
    gone = [{"do": "delete", "entity": "Note", "id": "nine"}]
    with pytest.raises(BadRecord, match="there is no Note nine"), settlement.transaction("t") as tx:
        tx.call(books.commit_records, message="remove it", changes=gone)
    assert (place.log(), settlement.transactions()) == ([], [])


def test_one_tool_may_be_staged_or_gated_and_the_others_not(place_of, settlement):
    place = place_of("files")
    books = place.books(settlement, effects={"post_journal_entry": "irreversible"})
    kinds = {each.tool: each.kind.value for each in books.declarations()}
    assert (kinds["post_journal_entry"], kinds["create_invoice_with_lines"]) == ("irreversible", "reversible")
    failing(settlement, "t", (books.post_journal_entry, {"lines": POSTING}))
    with settlement.transaction("u") as tx:
        tx.call(books.post_journal_entry, lines=POSTING)
    assert messages(place) == ["post JournalEntry with 3 lines"]


# ---- scopes


def scopes(function, **arguments):
    declaration = declaration_of(function)
    return [str(scope) for scope in declaration.scopes(declaration.arguments((), arguments))]


def test_scopes_name_store_tenant_entity_and_record(place_of):
    books = place_of("sqlite").books(store="books", tenant="acme")
    invoice, lines = scopes(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
    bucket = invoice.removeprefix("record:/books/acme/Invoice/")
    assert lines == f"record:/books/acme/InvoiceLine/{bucket}"
    made = books.create_invoice_with_lines("cus_001", LINES)["invoice"]["id"]
    assert made.split("-")[0] == bucket
    assert scopes(books.get_record, entity="Invoice", record_id=made) == [f"{invoice}/{made.split('-')[1]}"]
    assert scopes(books.get_record, entity="Note", record_id="n-1") == ["record:/books/acme/Note/n-1"]
    assert scopes(books.query_records, entity="Note") == ["record:/books/acme/Note"]
    assert scopes(books.list_commits) == ["record:/books/acme"]
    assert scopes(
        books.commit_records, message="x", changes=[*NOTES, {"do": "delete", "entity": "Note", "id": "3"}]
    ) == [f"record:/books/acme/Note/{name}" for name in ("one", "two", "3")]


def test_two_invoices_do_not_wait_for_each_other(place, settlement):
    books = place.books(settlement)
    with settlement.transaction("a") as first:
        first.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
        with settlement.transaction("b", independent=True) as second:
            second.call(books.create_invoice_with_lines, customer_id="cus_002", lines=LINES)
    assert [invoice["customer_id"] for invoice in books.query_records("Invoice")] == ["cus_001", "cus_002"]


def test_whoever_looks_waits_for_an_invoice_that_is_not_settled(place_of):
    with Settlement("memory:", wait=0.01) as settlement:
        books = place_of("files").books(settlement)
        told = []

        def look(function, arguments):
            try:
                settlement.run(f"look {len(told)}", lambda tx: tx.call(function, **arguments))
            except WaitTimeout as error:
                told.append(error.holder)

        with settlement.transaction("a") as first:
            made = first.call(books.create_invoice_with_lines, customer_id="cus_001", lines=LINES)
            for looking in (
                (books.query_records, {"entity": "Invoice"}),
                (books.get_record, {"entity": "Invoice", "record_id": made["invoice"]["id"]}),
                (books.list_commits, {}),
            ):
                other = threading.Thread(target=look, args=looking)
                other.start()
                other.join()
    assert told == ["a", "a", "a"]


def test_a_plan_grounded_on_a_search_is_stale_when_another_invoice_came(place_of, settlement):
    place = place_of("sqlite")
    books = place.books(settlement)
    with settlement.transaction("plan/1") as tx:
        assert tx.call(books.query_records, entity="Invoice") == []
    with settlement.transaction("other") as tx:
        tx.call(books.create_invoice_with_lines, customer_id="cus_002", lines=LINES)
    with pytest.raises(Stale), settlement.transaction("plan/2") as tx:
        tx.call(books.commit_records, message="there are none", changes=NOTES)
    assert place.books().query_records("Note") == []


@pytest.mark.parametrize("how", ["get_record", "query_records"])
def test_a_plan_grounded_on_what_changed_behind_its_back_is_stale(place, settlement, how):
    books, other = place.books(settlement), place.books()
    other.transaction("begin", lambda tx: tx.create("Note", {"text": "old"}, "n"))
    arguments = {"get_record": {"entity": "Note", "record_id": "n"}, "query_records": {"entity": "Note"}}[how]
    with pytest.raises(Stale, match="changed, from outside"), settlement.transaction("plan") as plan:
        plan.call(books.tool(how), **arguments)
        other.transaction("meanwhile", lambda tx: tx.update("Note", "n", {"text": "new"}))
        plan.call(books.post_journal_entry, lines=POSTING)
    assert messages(place) == [
        "begin",
        "meanwhile",
        "post JournalEntry with 3 lines",
        'Revert "post JournalEntry with 3 lines"',
    ]


def test_a_plan_that_changes_what_it_has_read_is_not_stale_by_itself(place_of, settlement):
    place = place_of("files")
    books = place.books(settlement)
    books.transaction("begin", lambda tx: tx.create("Note", {"text": "old"}, "n"))
    with settlement.transaction("t") as tx:
        tx.call(books.get_record, entity="Note", record_id="n")
        change = [{"do": "update", "entity": "Note", "id": "n", "fields": {"text": "new"}}]
        tx.call(books.commit_records, message="change it", changes=change)
        assert tx.call(books.get_record, entity="Note", record_id="n")["text"] == "new"
    assert place.stands() == {"data/Note/n.json": {"text": "new"}}


# ---- tools, declarations, bare


def test_the_tools_are_what_a_model_sees(place_of, settlement):
    books = place_of("sqlite").books(settlement)
    tools = {tool.__name__: tool for tool in books.tools()}
    assert list(tools) == [
        "commit_records",
        "get_record",
        "query_records",
        "list_commits",
        "post_journal_entry",
        "create_invoice_with_lines",
    ]
    create = tools["create_invoice_with_lines"]
    assert str(inspect.signature(create)) == (
        "(customer_id: str, lines: list[dict[str, typing.Any]], notes: str = '') -> dict[str, typing.Any]"
    )
    assert create.__annotations__.keys() == {"customer_id", "lines", "notes", "return"}
    for tool in tools.values():
        assert "Args:" in inspect.getdoc(tool)
        assert "tx" not in inspect.signature(tool).parameters


def test_a_function_of_the_users_own_commits_under_a_declaration(place, settlement):
    books = place.books(settlement)

    def bill(customer: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
        """Bill somebody."""
        fields = {"customer_id": customer, "total": 0, "notes": ""}
        return books.transaction("bill", lambda tx: tx.create("Invoice", fields)).answer

    mine = books.declare("create_invoice_with_lines", bill, customer_id="customer")
    (made,) = failing(settlement, "t", (mine, {"customer": "cus_001", "lines": LINES}))
    assert made.keys() == {"id", "customer_id", "total", "notes", "commit"}
    assert (messages(place), place.stands(), settlement.residue()) == (["bill", 'Revert "bill"'], {}, [])
    with settlement.transaction("u") as tx:
        made = tx.call(mine, customer="cus_002", lines=LINES)
    assert made == books.find("u#1/0")
    with pytest.raises(BadRecord, match="lines: give a list"), settlement.transaction("v") as tx:
        tx.call(mine, customer="cus_003", lines=[])


def test_a_function_of_the_users_own_may_call_the_tool_that_it_is_declared_as(place_of, settlement):
    place = place_of("files")
    books = place.books(settlement)

    def bill(customer: str) -> dict[str, Any]:
        """Bill somebody for the usual."""
        return books.create_invoice_with_lines(customer, LINES, "the usual")

    mine = books.declare("create_invoice_with_lines", bill, customer_id="customer")
    failing(settlement, "t", (mine, {"customer": "cus_001"}))
    with settlement.transaction("u") as tx:
        made = tx.call(mine, customer="cus_002")
    assert scopes(mine, customer="cus_002")[0] == f"record:/records/Invoice/{made['invoice']['id'].split('-')[0]}"
    assert (made, len(books.query_records("Invoice")), settlement.residue()) == (books.find("u#1/0"), 1, [])


def test_a_transaction_that_wrote_nothing_leaves_the_call_its_commit(place_of):
    place = place_of("files")
    books = place.books()

    def patient(message: str, changes: list[dict[str, Any]]) -> dict[str, Any]:
        with pytest.raises(BadRecord):
            books.transaction("first", lambda tx: tx.delete("Note", "nine"))
        books.transaction("second", lambda tx: tx.get("Note", "one"))
        return books.transaction("third", lambda tx: tx.create("Note", {"text": "x"}, "one")).answer

    books.declare("commit_records", patient)(message="x", changes=[NOTES[0], {**NOTES[0], "id": "nine"}])
    assert messages(place) == ["third"]


def test_a_call_makes_one_commit(place_of):
    place = place_of("files")
    books = place.books()

    def twice(message: str, changes: list[dict[str, Any]]) -> None:
        for name in ("one", "two"):
            books.transaction(name, lambda tx, name=name: tx.create("Note", {"text": name}, name))

    mine = books.declare("commit_records", twice)
    with pytest.raises(RecordError, match="a call makes one commit, and this one has made its"):
        mine(message="x", changes=NOTES)
    assert messages(place) == ["one"]


def test_a_function_with_a_declaration_of_its_own_commits_under_its_key(place_of, settlement):
    place = place_of("files")
    books = place.books()

    @effect(
        "reversible", scope="note:/{name}", undo=lambda key: books.take_back(key), probe=lambda key: books.find(key)
    )
    def note(name):
        return books.transaction("note", lambda tx: tx.create("Note", {"text": name})).answer

    failing(settlement, "t", (note, {"name": "x"}))
    with settlement.transaction("u") as tx:
        tx.call(note, name="y")
    assert (messages(place), len(place.stands())) == (["note", 'Revert "note"', "note"], 1)


def test_called_bare_a_tool_acts_at_once(place):
    books = place.books()
    made = [books.post_journal_entry(POSTING, "a sale") for _ in range(2)]
    assert [books.get_record("JournalEntry", each["entry"]["id"]) for each in made] == [each["entry"] for each in made]
    assert len(place.log()) == 2


class Tasks(Records):
    ENTITIES = (NOTE,)

    @record_tool("move_text", "move a text", touches={"Note": ("source", "targets")})
    def move(self, tx: Tx, source: str, targets: list[str], beside: str = "") -> dict[str, Any]:
        """Move a text.

        Args:
            source: from here.
            targets: there.
            beside: and, undeclared, there.
        """
        text = tx.get("Note", source)["text"]
        tx.delete("Note", source)
        return {"moved": [tx.update("Note", name, {"text": text})["id"] for name in [*targets, beside] if name]}

    @record_tool("pin_all", touches={"Note": "*"})
    def pin(self, tx: Tx) -> dict[str, Any]:
        """Pin all notes."""
        return {"pinned": [tx.update("Note", note["id"], {"pinned": True})["id"] for note in tx.query("Note")]}


@pytest.fixture
def tasks(place_of, settlement):
    made = Tasks(place_of("sqlite").open(), settlement)
    made.transaction("begin", lambda tx: [tx.create("Note", {"text": name}, name) for name in "abcd"])
    return made


def test_a_tool_of_the_users_own_takes_a_few_lines(tasks, settlement):
    assert scopes(tasks.move, source="a", targets=["b", "c"]) == [f"record:/records/Note/{name}" for name in "abc"]
    with settlement.transaction("t") as tx:
        moved = tx.call(tasks.move, source="a", targets=["b", "c"])
        tx.call(tasks.pin)
    assert (moved["moved"], [entry["message"] for entry in tasks.list_commits()]) == (
        ["b", "c"],
        ["pin all", "move a text", "begin"],
    )
    assert tasks.query_records("Note") == [
        {"id": "b", "text": "a", "pinned": True},
        {"id": "c", "text": "a", "pinned": True},
        {"id": "d", "text": "d", "pinned": True},
    ]


def test_a_tool_that_touches_more_than_it_says_is_refused_and_nothing_changes(tasks, settlement):
    before = tasks.query_records("Note")
    with pytest.raises(Exception, match="say in creates= or touches= of its tool which records it is about"):
        with settlement.transaction("t") as tx:
            tx.call(tasks.move, source="a", targets=["b"], beside="d")
    assert (tasks.query_records("Note"), settlement.residue()) == (before, [])


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("get_record", {"entity": "Nite", "record_id": "n"}, "there is no entity 'Nite'; there are"),
        ("get_record", {"entity": "Note", "record_id": "../x"}, "is no id of a Note"),
        ("query_records", {"entity": "Nite"}, "there is no entity 'Nite'"),
        ("query_records", {"entity": "Note", "where": {"colour": "red"}}, "Note has no field 'colour' to look for"),
        ("query_records", {"entity": "Note", "limit": 0}, "limit=0: ask for 1 to 1000"),
        ("commit_records", {"message": "x", "changes": []}, "at least one; nothing was written"),
        ("commit_records", {"message": "x", "changes": ["a"]}, "changes[0] is 'a': give an object such as"),
        ("commit_records", {"message": "x", "changes": [{"do": "burn", "entity": "Note"}]}, "does 'burn': choose"),
        ("commit_records", {"message": "x", "changes": [{"do": "delete", "entity": "Note"}]}, "None is no id of"),
        ("commit_records", {"message": "x", "changes": [{**NOTES[0], "colour": "red"}]}, "has 'colour': it may have"),
        ("commit_records", {"message": "x", "changes": [{**NOTES[0], "fields": {"text": 7}}]}, "which is a text"),
        ("commit_records", {"message": "x", "changes": [{**NOTES[0], "fields": {"text": {"id_of": 0}}}]}, "change 0"),
        ("commit_records", {"message": "a\nb", "changes": NOTES}, "give one line of at most 500"),
        ("commit_records", {"message": "x", "changes": [{"do": "create", "entity": "Invoice",
         "fields": {"customer_id": "c", "total": 7, "notes": ""}}]}, "Invoice works out 'total' itself: leave it out"),
        ("commit_records", {"message": "x", "changes": [{**NOTES[0], "fields": {"text": object()}}]}, "JSON"),
    ],
)  # fmt: skip # a table of values
def test_bad_arguments_are_refused_before_anything_is_recorded(place_of, settlement, tool, arguments, said):
    place = place_of("files")
    books = place.books(settlement)
    with pytest.raises((ScopeError, BadRecord, TypeError)) as refused, settlement.transaction("t") as tx:
        tx.call(books.tool(tool), **arguments)
    assert said in str(refused.value)
    assert (place.log(), settlement.transactions()) == ([], [])


def test_a_change_may_stand_for_the_id_of_one_before_it(place, settlement):
    books = place.books(settlement)
    changes = [
        {"do": "create", "entity": "Note", "fields": {"text": "first"}},
        {"do": "create", "entity": "Note", "fields": {"text": {"id_of": 0}}},
    ]
    with settlement.transaction("t") as tx:
        made = tx.call(books.commit_records, message="two", changes=changes)
    assert made["records"][1]["text"] == made["records"][0]["id"]
    assert books.query_records("Note") == made["records"]
