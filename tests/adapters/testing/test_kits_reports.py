"""What the kit and the fuzzer report: counted, in a table that fits a terminal, and each failure with its mend."""

from __future__ import annotations

import pytest

from settlemark_adapters.testing import Finding, FuzzReport, Report, Verdict, Word

LOSES, COSTS = ["too narrow", "a read changes it"], ["too broad", "never touched"]
NO = "a read changes nothing"


def verdict(name, tool, word=Word.PASSED, why="it holds", mend=""):
    return Verdict(name, tool, word, why, mend)


def test_a_report_without_verdicts_says_that_nothing_was_asked():
    report = Report("Notes", ())
    assert (str(report).splitlines()[0], report.ok, report.failed) == ("Notes: nothing was asked", True, [])


def test_each_verdict_has_a_cell_and_what_is_not_applicable_is_told_once_for_all_its_tools():
    report = Report(
        "Notes",
        (
            verdict("commit", "add"),
            verdict("commit", "look"),
            verdict("undo", "add", Word.FAILED, "it stays", "undo it"),
            verdict("undo", "look", Word.NOT_APPLICABLE, NO),
            verdict("undo", "list", Word.NOT_APPLICABLE, NO),
            verdict("undo", "tell", Word.NOT_APPLICABLE, "it is opaque"),
            verdict("race", "look", Word.NOT_APPLICABLE, NO),
        ),
    )
    assert str(report).splitlines() == [
        "Notes: 2 passed, 1 failed, 4 not applicable",
        "property  add     look  list  tell",
        "commit    ok      ok",
        "undo      FAILED  -     -     -",
        "race              -",
        "add, undo: failed: it stays",
        "  mend: undo it",
        "- undo: a read changes nothing (look, list)",
        "- undo: it is opaque (tell)",
        "- race: a read changes nothing (look)",
    ]
    assert [each.tool for each in report.of("commit")] == ["add", "look"]
    assert (report.ok, [each.tool for each in report.failed]) == (False, ["add"])
    assert report.as_dict()["ok"] is False


@pytest.mark.parametrize(("length", "tables"), [(6, [[*range(12)], [12]]), (40, [[0, 1], [2, 3], [4]]), (120, None)])
def test_a_table_that_is_wider_than_a_terminal_goes_on_below(length, tables):
    tables = tables or [[number] for number in range(3)]
    count = sum(map(len, tables))
    names = [f"{number:x}".ljust(length, "t") for number in range(count)]
    report = Report("Notes", tuple(verdict("commit", name) for name in names))
    heads = [line.split()[1:] for line in str(report).splitlines() if line.startswith("property")]
    assert heads == [[names[number] for number in table] for table in tables]
    assert max(map(len, str(report).splitlines())) <= max(110, length + 10)


def test_what_failed_is_raised_with_every_failure_and_the_table():
    failed = (verdict("commit", "add", Word.FAILED, "it is lost", "keep it"), verdict("undo", "add"))
    report = Report("Notes", (*failed, verdict("undo", "drop", Word.FAILED, "it stays", "undo it")))
    with pytest.raises(AssertionError) as told:
        report.check()
    assert str(told.value) == (
        "Notes does not conform: 2 failed\n\nadd, commit: failed: it is lost\n  mend: keep it\n\n"
        f"drop, undo: failed: it stays\n  mend: undo it\n\n{report}"
    )
    Report("Notes", failed[1:]).check()


def finding(kind, tool="write"):
    return Finding(tool, kind, ("write('a')", "write('b')"), ("page:/a",), ("page:/b",), "it changed page:/b", "say so")


def test_scopes_that_cost_time_alone_are_hints_and_those_that_lose_something_are_not():
    assert [kind for kind in (*LOSES, *COSTS) if finding(kind).is_hint] == COSTS
    hints = tuple(map(finding, COSTS))
    report = FuzzReport("Notes", hints, {"write": 7, "read": 5}, {"write": 3})
    report.check()
    assert report.ok
    assert str(report).splitlines() == [
        "Notes: 0 findings, 2 hints (12 calls, 3 of which changed something)",
        "write: too broad: it changed page:/b",
        "  example: write('a'); write('b')",
        "  mend: say so",
        "write: never touched: it changed page:/b",
        "  example: write('a'); write('b')",
        "  mend: say so",
        "nothing is shown of read: no call of them changed anything",
    ]


@pytest.mark.parametrize("kind", LOSES)
def test_a_scope_that_does_not_cover_a_change_is_raised_with_its_example(kind):
    report = FuzzReport("Notes", (finding("too broad"), finding(kind)), {"write": 1, "read": 0}, {"write": 1})
    with pytest.raises(AssertionError) as told:
        report.check()
    assert str(told.value) == str(report)
    assert (report.ok, report.unshown) == (False, ["read"])
    assert str(report).startswith("Notes: 1 findings, 1 hints (1 calls, 1 of which changed something)")
    said = report.as_dict()
    assert (said["adapter"], said["ok"], said["calls"], said["changing"]) == (
        "Notes",
        False,
        {"write": 1, "read": 0},
        {"write": 1},
    )
    assert [(each["kind"], each["changed"]) for each in said["findings"]] == [
        ("too broad", ("page:/b",)),
        (kind, ("page:/b",)),
    ]
