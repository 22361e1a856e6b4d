"""How much runs: the quick tests, what CI runs, and everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import extent

HERE = Path(__file__).parent


class Item:
    """What pytest has collected, as far as it is looked at."""

    def __init__(self, nodeid, *markers):
        self.nodeid = nodeid
        self.path = HERE / nodeid.partition("::")[0]
        self._markers = {marker.name: marker for marker in markers}

    def get_closest_marker(self, name):
        return self._markers.get(name)


def cases(test, count, *markers):
    return [Item(f"{test}[{n}]", *markers) for n in range(count)]


def run(monkeypatch, asked, items):
    monkeypatch.setattr(extent, "ALL", asked == "all")
    monkeypatch.setattr(extent, "MORE", asked in ("more", "all"))
    runs, left_out = extent.divided(items)
    assert sorted(id(item) for item in [*runs, *left_out]) == sorted(id(item) for item in items)
    return [item.nodeid for item in runs]


def test_the_quick_tests_have_the_first_and_the_last_case_of_each_and_none_of_what_is_deep(monkeypatch):
    items = [
        *cases("core/test_a.py::test", 5),
        Item("core/crashes/test_b.py::test"),
        Item("core/test_a.py::kills", pytest.mark.deep.mark),
        Item("core/test_a.py::other"),
    ]
    assert run(monkeypatch, "", items) == [
        "core/test_a.py::test[0]",
        "core/test_a.py::test[4]",
        "core/test_a.py::other",
    ]


def test_ci_runs_all_but_what_takes_minutes_and_one_case_in_n_of_a_sweep(monkeypatch):
    long, sampled = pytest.mark.long.mark, pytest.mark.sampled(3).mark
    items = [
        *cases("core/crashes/test_b.py::sweep", 7, sampled),
        Item("core/test_a.py::minutes", long),
        *cases("core/test_a.py::test", 3),
        Item("core/test_a.py::kills", pytest.mark.deep.mark),
    ]
    assert run(monkeypatch, "more", items) == [
        *(f"core/crashes/test_b.py::sweep[{n}]" for n in (0, 3, 6)),
        *(f"core/test_a.py::test[{n}]" for n in range(3)),
        "core/test_a.py::kills",
    ]
    assert len(run(monkeypatch, "all", items)) == len(items)


def test_a_folder_is_deep_with_all_that_is_in_it():
    deep = [
        name
        for name in ("core/crashes", "core/crashes/a/b.py", "core", "core/crashes.py")
        if extent.is_deep(HERE / name)
    ]
    assert deep == ["core/crashes", "core/crashes/a/b.py"]


def test_what_the_quick_tests_leave_out_is_there():
    assert [deep for deep in extent.DEEP if not (HERE / deep).exists()] == []
    assert list(extent.DEEP) == sorted(extent.DEEP)
