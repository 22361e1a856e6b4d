"""What the conformance kit is told of records, over all that they can be kept in without a server."""

from __future__ import annotations

from functools import partial

from tests.adapters.records.places import LINES, POSTING, fresh

from settlemark_adapters.testing import Example, Subject, scope_of


def _two_notes(place):
    place.books().transaction("begin", lambda tx: [tx.create("Note", {"text": name}, name) for name in ("one", "two")])
    place.close()


def _change(do, record_id, **fields):
    return {"do": do, "entity": "Note", "id": record_id, **({"fields": fields} if fields else {})}


EXAMPLES = (
    Example("create_invoice_with_lines", {"customer_id": "cus_001", "lines": LINES, "notes": "Q3 services"}),
    Example("post_journal_entry", {"lines": POSTING, "memo": "a sale"}),
    Example("commit_records", {"message": "note it", "changes": [_change("create", "one", text="one")]}),
    Example(
        "commit_records",
        {
            "message": "tidy",
            "changes": [
                _change("update", "one", text="first"),
                _change("delete", "two"),
                {"do": "create", "entity": "Note", "fields": {"text": "three"}},
            ],
        },
        _two_notes,
    ),
    Example("get_record", {"entity": "Note", "record_id": "one"}, _two_notes),
    Example("query_records", {"entity": "Note", "where": {"text": "two"}}, _two_notes),
    Example("list_commits", {}, _two_notes),
)


def _meddle(place, example):
    """Somebody else changes a record that the example's call has just written."""
    bob = place.books(author="Bob")
    written = [path.removesuffix(".json").split("/") for path in bob.list_commits()[0]["paths"]]
    names = {"Note": "text", "Invoice": "notes", "JournalEntry": "memo"}
    _, entity, name = next(each for each in written if each[1] in names and bob.get_record(*each[1:]))
    bob.transaction("mine now", lambda tx: tx.update(entity, name, {names[entity]: "Bob's"}))
    place.close()


def _resources(place):
    """Each record by its scope: an id that was derived is found under what its call held, and then itself."""
    found = {}
    for path, record in place.stands().items():
        entity, name = path.removesuffix(".json").split("/")[1:]
        derived = len(name) == 25 and name[8] == "-"
        found[scope_of("record", "records", entity, *(name.split("-") if derived else [name]))] = record
    return found


# What is staged is in no log yet, and nobody knows what its commit will be called.
LOG_OF_ANOTHER = Example("list_commits", {"entity": "Note", "record_id": "another"}, _two_notes)


def _subject(kind, examples=EXAMPLES, **options):
    return Subject(
        make=lambda settlement, place: place.books(settlement, **options),
        world=partial(fresh, kind),
        look=lambda place: place.stands(),
        examples=examples,
        meddle=_meddle,
        resources=_resources,
    )


SUBJECTS = {
    "records": _subject("files"),
    "records-sqlite": _subject("sqlite"),
    "records-objects": _subject("objects"),
    "records-git": _subject("git"),
    "records-staged": _subject("files", (*EXAMPLES[:-1], LOG_OF_ANOTHER), staged=True),
}
