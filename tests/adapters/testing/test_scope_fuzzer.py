"""The scope fuzzer finds scopes that do not cover what a call changes, and those that cover more than any does."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from tests.adapters.testing.book import SUBJECT, Book, book_in, look, subject_of, world
from tests.adapters.testing.broken import BROKEN
from tests.rooms.cli import command_of
from tests.rooms.conformance import fuzz as command
from tests.rooms.conformance import subjects
from typer.testing import CliRunner

from settlemark import UsageError
from settlemark_adapters import operation
from settlemark_adapters.testing import Example, Subject, fuzz, scope_of

_CALLS = 25


class Shouting(Book):
    """Writes names in capitals, and declares them as they are given."""

    @operation("write", "reversible", scope="page:/{name}", undo=Book._take_back, probe=Book._find)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name.upper(), text, key))


class Listing(Book):
    """Keeps a list of contents that no scope of its names."""

    @operation("write", "reversible", scope="page:/{name}", undo=Book._take_back, probe=Book._find)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key

        def act(book):
            self._written(book, "contents", name, key)
            return self._written(book, name, text, key)

        return self._acting(key, act)


class Careful(Book):
    """Locks the whole book, and an index that nothing is written to."""

    @operation("write", "reversible", scope="page:/", may_touch=("index:/",), undo=Book._take_back, probe=Book._find)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Refining(Book):
    """May touch any page, and says afterwards which one it was."""

    def _which(self, result):
        return scope_of("page", "contents")

    @operation("write", "reversible", may_touch=("page:/",), refine=_which, undo=Book._take_back, probe=Book._find)
    def write(self, name: str, text: str) -> dict:
        """Write a page."""
        key = self.key
        return self._acting(key, lambda book: self._written(book, name, text, key))


class Numbering(Book):
    """Writes on the next page, whatever its number is: nobody could name it before."""

    @operation("append", "reversible", scope="page:/", undo=Book._take_back, probe=Book._find)
    def append(self, name: str, line: str) -> dict:
        """Add a page."""
        key = self.key

        def act(book):
            (count,) = book.execute("SELECT count(*) FROM pages").fetchone()
            return self._written(book, f"no. {count}", line, key)

        return self._acting(key, act)


def _fuzzed(adapter, *tools, **options):
    return fuzz(subject_of(adapter, *tools), examples=_CALLS, **options)


def test_of_a_sound_adapter_nothing_is_found_and_its_calls_are_counted():
    report = fuzz(SUBJECT, examples=_CALLS)
    report.check()
    assert (report.findings, report.unshown) == ((), ["read"])
    assert set(report.calls.values()) == {_CALLS}
    assert all(report.changing[tool] > _CALLS // 2 for tool in report.calls if tool != "read")


def test_a_change_under_another_name_is_found_with_the_shortest_call():
    (finding,) = _fuzzed(Shouting, "write").findings
    assert (finding.tool, finding.kind.value, finding.calls) == (
        "write",
        "too narrow",
        ("write(name='a', text='one')",),
    )
    assert (finding.declared, finding.changed) == (("page:/a",), ("page:/A",))


def test_a_change_beside_the_declared_one_is_found():
    (finding,) = _fuzzed(Listing, "write").findings
    assert (finding.kind.value, finding.why) == (
        "too narrow",
        "it changed page:/contents and declares page:/a",
    )


def test_what_a_call_refines_its_scope_to_must_cover_the_change():
    (finding,) = _fuzzed(Refining, "write").findings
    assert (finding.kind.value, finding.declared, finding.changed) == (
        "too narrow",
        ("page:/contents",),
        ("page:/a",),
    )


def test_a_read_that_changes_something_is_found():
    counting = next(broken.adapter for broken in BROKEN if broken.adapter.__name__ == "Counting")
    (finding,) = _fuzzed(counting, "read").findings
    assert (finding.kind.value, finding.calls, finding.changed) == (
        "a read changes it",
        ("read(name='a')",),
        ("page:/a",),
    )


def test_calls_that_need_not_wait_for_each_other_are_a_hint_and_no_failure():
    report = _fuzzed(Careful, "write")
    assert [(hint.kind.value, hint.is_hint) for hint in report.findings] == [
        ("too broad", True),
        ("never touched", True),
    ]
    broad, idle = report.findings
    assert (len(broad.calls), len(set(broad.changed)), broad.declared) == (2, 2, ("page:/", "index:/"))
    assert idle.why.startswith("index:/ held no change in ")
    assert report.ok


def test_a_resource_that_no_argument_names_could_not_have_been_declared():
    report = _fuzzed(Numbering, "append")
    assert (report.findings, report.changing["append"] > 0) == ((), True)


def test_the_same_seed_makes_up_the_same_calls():
    one, same, other = (_fuzzed(Careful, "write", seed=seed).as_dict() for seed in (1, 1, 2))
    assert one == same != other


def test_what_is_not_told_by_scope_is_refused():
    pages = Subject(Book, world, lambda _: [], [Example("title", {"text": "Emma"})])
    with pytest.raises(UsageError, match=r"what look\(\) returns is no mapping: give the subject resources="):
        fuzz(pages)
    names = Subject(Book, world, look, [Example("title", {"text": "Emma"})])
    with pytest.raises(UsageError, match="the scope 'pages' has no type.*give the subject resources="):
        fuzz(names)


def test_a_tool_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="there is no tool 'scribble': there are write"):
        fuzz(SUBJECT, only="scribble")


# ---- the command


def _run(*arguments):
    entry = SimpleNamespace(name="fuzz", load=lambda: command)
    return CliRunner().invoke(command_of(entry), list(arguments))


def test_the_command_exits_with_0_when_nothing_was_found():
    done = _run("tests.adapters.testing.book:SUBJECT", "--examples", "5", "--tool", "title")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        0,
        "Book: 0 findings, 0 hints (5 calls, 5 of which changed something)",
    )


def test_the_command_exits_with_1_on_a_finding():
    done = _run("tests.adapters.testing.test_scope_fuzzer:SHOUTING", "--examples", "5", "--seed", "3")
    assert done.exit_code == 1
    assert "example: write(name='a', text='one')" in done.stdout


def test_the_command_takes_a_mapping_and_prints_json():
    done = _run("tests.adapters.testing.test_scope_fuzzer:SUBJECTS", "--examples", "3", "--json")
    (report,) = json.loads(done.stdout)
    assert (done.exit_code, report["ok"], report["calls"]) == (0, True, {"title": 3})


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("book", "'book' names no subject: say yourtests.subject:SUBJECT"),
        ("no_such_module:SUBJECT", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("tests.adapters.testing.book:SUBJEKT", "tests.adapters.testing.book has no 'SUBJEKT'"),
        ("tests.adapters.testing.book:EXAMPLES", "is no Subject, and no mapping of such by name"),
    ],
)
def test_what_names_no_subject_is_told_and_exits_with_2(target, said):
    done = _run(target)
    assert (done.exit_code, said in done.stderr) == (2, True)


def test_a_function_that_returns_subjects_will_do():
    assert list(subjects("tests.adapters.testing.test_scope_fuzzer:made")) == ["title"]


SHOUTING = subject_of(Shouting, "write")
SUBJECTS = {"title": subject_of(Book, "title")}


def made():
    return SUBJECTS


__all__ = ["SHOUTING", "SUBJECTS", "book_in", "made"]
