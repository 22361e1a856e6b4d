"""The lines of an adapter's acts are told in order, and struck where it is asked for."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from tests.adapters.testing.book import Book, subject_of
from tests.adapters.testing.broken import Torn

import settlemark_adapters
from settlemark import Settlement
from settlemark_adapters import Adapter, operation
from settlemark_adapters.testing._lines import FailedLine, Lines, files_of, may_fail, once_each


class Steps(Adapter):
    """Does three things and cleans up."""

    def __init__(self, settlement=None, **options):
        self.done = []
        super().__init__(settlement, **options)

    def _undo(self):
        self.done.append("undone")

    @operation("step", "reversible", scope="step:/", undo=_undo)
    def step(self) -> None:
        """Do something."""
        for number in range(2):
            self.done.append(number)
        try:
            self.done.append("last")
        finally:
            self.done.append("clean")


def _line(text):
    lines, first = inspect.getsourcelines(Steps)
    return first + next(number for number, line in enumerate(lines) if text in line)


def _run(lines, *, abort=False):
    with Settlement("memory:", observe=lines) as settlement:
        steps = Steps(settlement)
        lines.files = files_of(Steps)
        try:
            with settlement.transaction("t") as tx:
                tx.call(steps.step)
                if abort:
                    raise KeyError
        except (KeyError, FailedLine):
            pass
        return steps.done


def test_each_line_is_told_and_the_end_of_each_function():
    told = []
    done = _run(Lines(("call",), tell=told.append))
    assert done == [0, 1, "last", "clean"]
    assert [moment.number for moment in told] == list(range(1, len(told) + 1))
    appends = [moment for moment in told if moment.line == _line("append(number)")]
    assert (len(appends), len(once_each(appends)), told[-1].event) == (2, 1, "return")
    assert {(moment.act, Path(moment.file).name) for moment in told} == {("call", "test_lines.py")}


def test_only_the_acts_that_are_asked_for_are_followed():
    told = []
    _run(Lines(("undo",), tell=told.append), abort=True)
    assert [(moment.act, moment.line) for moment in once_each(told)] == [("undo", _line('append("undone")'))] * 2


def test_a_line_that_is_struck_fails_before_it_does_anything():
    told = []
    _run(Lines(("call",), tell=told.append))
    last = next(moment for moment in told if moment.line == _line('append("last")'))

    def fail():
        raise FailedLine

    done = _run(Lines(("call",), at=last.number, strike=fail))
    assert done == [0, 1, "clean"]


def test_what_cleans_up_is_not_made_to_fail():
    told = []
    _run(Lines(("call",), tell=told.append))
    kept = {moment.line for moment in may_fail(told)}
    assert _line('append("last")') in kept
    assert _line('append("clean")') not in kept
    assert all(moment.event == "line" for moment in may_fail(told))


@pytest.mark.parametrize(("adapter", "files"), [(Book, {"book.py"}), (Torn, {"book.py", "broken.py"})])
def test_an_adapters_own_lines_are_those_of_its_classes(adapter, files):
    assert {Path(file).name for file in files_of(adapter)} == files
    assert subject_of(adapter).examples


def test_a_shipped_adapters_lines_are_those_of_the_package_but_not_of_its_base_nor_of_this_kit():
    shipped = type("Shipped", (Adapter,), {})
    shipped.__module__ = "settlemark_adapters"
    package = Path(settlemark_adapters.__file__).parent
    found = {Path(file).relative_to(package) for file in files_of(shipped)}
    assert Path("__init__.py") in found
    assert not {Path("_adapter.py"), Path("testing/_lines.py")} & found
