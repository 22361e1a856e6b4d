"""The conformance kit passes what is sound, and catches each adapter that is broken by the property it lacks."""

from __future__ import annotations

import json

import pytest
from tests.adapters.testing.book import SUBJECT, Book, book_in, look, subject_of, world
from tests.adapters.testing.broken import BROKEN
from tests.rooms.conformance import _crashing, _undoing
from tests.rooms.testing import _child

from settlemark import UsageError
from settlemark_adapters import Adapter, operation
from settlemark_adapters.testing import (
    Example,
    Subject,
    Word,
    assert_conforms,
    conformance,
    properties,
)

_POINTS = 2
_NAMES = tuple(properties())
_COSTLY = frozenset({"crash-between-steps", "crash-inside-a-step"})


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in _COSTLY else []) for name in _NAMES]
)
def test_a_sound_adapter_has_each_property(name):
    report = conformance(SUBJECT, only=name, points=_POINTS)
    report.check()
    tools = ["write", "append", "draft", "post", "title", "shout", "read"]
    assert [(verdict.property, verdict.tool) for verdict in report.verdicts] == [(name, tool) for tool in tools]
    assert Word.PASSED in {verdict.word for verdict in report.verdicts}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.adapter.__name__)
def test_a_broken_adapter_is_caught_by_the_property_it_lacks(broken):
    report = conformance(broken.subject, only=broken.lacks, points=_POINTS)
    assert [verdict.property for verdict in report.failed] == list(broken.lacks)
    assert all(verdict.why and verdict.mend for verdict in report.failed)


@pytest.mark.long
@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.adapter.__name__)
def test_a_broken_adapter_has_all_other_properties(broken):
    report = conformance(broken.subject, only=[name for name in _NAMES if name not in broken.lacks], points=None)
    report.check()


def test_each_property_catches_an_adapter_that_is_made_for_it():
    assert {broken.lacks[0] for broken in BROKEN} == set(_NAMES)


def test_what_an_eager_call_leaves_only_after_it_has_returned_is_caught():
    """The counterparty shows what was written only to who has looked before."""

    def look_late(folder):
        with book_in(folder) as book:
            seen = dict(book.execute("SELECT name, text FROM pages WHERE by = 'seen'").fetchall())
            book.execute("UPDATE pages SET by = 'seen'")
        return seen

    example = next(each for each in SUBJECT.examples if each.tool == "title")
    report = conformance(Subject(Book, world, look_late, [example]), only="commit")
    assert [(verdict.word, verdict.why) for verdict in report.failed] == [
        (Word.FAILED, "it is idempotent, and what it leaves is not there when its call returns")
    ]


# ---- what it says


def test_a_property_that_says_nothing_of_a_tool_says_why():
    report = conformance(SUBJECT, only="undo-fails-once", points=0)
    unsaid = {verdict.tool: verdict.why for verdict in report.verdicts if verdict.word is Word.NOT_APPLICABLE}
    assert unsaid == {
        "draft": "what is staged acts at the commit, so there is nothing to undo",
        "post": "what is irreversible acts at the commit, so there is nothing to undo",
        "title": "it is idempotent without an undo: an abort names what stays",
        "shout": "it is opaque without an undo: an abort names what stays",
        "read": "a read changes nothing",
    }


def test_the_report_is_a_table_and_what_failed_is_told_with_its_mend():
    report = conformance(next(b for b in BROKEN if b.adapter.__name__ == "Nostalgic").subject, only="probe-truth")
    told = str(report)
    assert told.splitlines()[:3] == ["Nostalgic: 1 failed", "property     write", "probe-truth  FAILED"]
    with pytest.raises(AssertionError) as failed:
        report.check()
    assert str(failed.value).startswith("Nostalgic does not conform: 1 failed")
    assert "write, probe-truth: failed: its probe finds {'name': 'a', 'length': 3} after its undo" in str(failed.value)
    assert "mend: ask by the key" in str(failed.value)


def test_the_report_is_plain_values():
    report = conformance(subject_of(Book, "read"), only="commit")
    assert json.loads(json.dumps(report.as_dict())) == {
        "adapter": "Book",
        "ok": True,
        "verdicts": [
            {
                "property": "commit",
                "tool": "read",
                "word": "passed",
                "why": "it answers, and changes nothing",
                "mend": "",
            }
        ],
    }


def test_one_call_is_a_test():
    assert_conforms(subject_of(Book, "read"))
    with pytest.raises(AssertionError, match="it is a read, and the world is another one after it"):
        assert_conforms(next(b for b in BROKEN if b.adapter.__name__ == "Counting").subject)


def test_whoever_waits_is_told_what_is_looked_at():
    told = []
    conformance(subject_of(Book, "title", "read"), only="commit", progress=lambda *at: told.append(at))
    assert told == [("commit", "title"), ("commit", "read")]


def test_a_property_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="there is no property 'settle': choose of declaration, commit"):
        conformance(SUBJECT, only="settle")


# ---- what a subject may lack


def test_a_tool_without_an_example_is_a_failure():
    made = Subject(Book, world, look, [])
    report = conformance(made, only=["declaration", "commit"])
    assert {(v.property, v.tool, v.word.value) for v in report.verdicts if v.tool == "write"} == {
        ("declaration", "write", "failed"),
        ("commit", "write", "not applicable"),
    }


def test_an_example_of_no_tool_is_a_failure():
    with pytest.raises(Exception, match="an example calls 'scribble', and there is no such tool"):
        conformance(Subject(Book, world, look, [Example("scribble", {})]))


def test_an_example_that_fails_is_told_as_such():
    report = conformance(Subject(Book, world, look, [Example("write", {"name": "", "text": ""})]), only="commit")
    (verdict,) = report.failed
    assert verdict.why.startswith("its example write(name='', text='') failed on a fresh world: ScopeError")


def test_a_look_that_shows_nothing_is_a_failure():
    report = conformance(Subject(Book, world, lambda _: {}, [Example("title", {"text": "Emma"})]), only="commit")
    assert [v.why for v in report.failed] == ["nothing of it is to be seen after its commit"]


def test_without_a_meddler_nobody_changes_what_is_not_his():
    (verdict,) = conformance(subject_of(Book, "write", meddle=None), only="foreign-change").verdicts
    assert (verdict.word, verdict.why) == (
        Word.NOT_APPLICABLE,
        "the subject has no meddle=, so nobody else changes what it has made",
    )


def test_where_no_process_can_be_copied_none_is_killed(monkeypatch):
    for module in (_child, _crashing, _undoing):
        monkeypatch.setattr(module, "can_fork", lambda: False)
    report = conformance(subject_of(Book, "write"), only=["crash-between-steps", "undo-fails-once"])
    assert [(verdict.word.value, verdict.why) for verdict in report.verdicts] == [
        ("not applicable", "this system cannot copy a process, so none is killed"),
        ("passed", "it is tried again, and leaves nothing (2 ways to fail)"),
    ]


# ---- ids and times that differ each time


class Stamped(Book):
    """Gives each page a number that nobody knows before."""

    numbers = iter(range(10_000))

    def _written(self, book, name, text, key):
        result, before = super()._written(book, name, f"{text} (no. {next(self.numbers)})", key)
        return {**result, "length": 0}, before


@pytest.mark.parametrize("name", ["commit", "crash-between-steps", "lost-ack", "two-transactions"])
def test_what_differs_between_two_clean_runs_is_not_asked_of_a_third(name):
    assert_conforms(subject_of(Stamped, "write"), only=name, points=_POINTS)


class Lingering(Adapter):
    """Async tools are looked at in the same way."""

    def __init__(self, settlement=None, folder="", **options):
        self.book = Book(folder=folder)
        super().__init__(settlement, **options)

    def _back(self, name, key):
        self.book._take_back(name, key)

    def _find(self, key):
        return self.book._find(key)

    @operation("write", "reversible", scope="page:/{name}", undo=_back, probe=_find, keyed=True)
    async def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self.book._acting(key, lambda book: self.book._written(book, name, text, key))


def test_async_tools_are_looked_at_too():
    subject = Subject(Lingering, world, look, [Example("write", {"name": "a", "text": "one"})])
    report = conformance(subject, points=1)
    report.check()
    assert {verdict.property for verdict in report.verdicts if verdict.word is Word.NOT_APPLICABLE} == {
        "staged-invisibility",
        "foreign-change",
    }
