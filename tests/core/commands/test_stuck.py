"""`settlemark stuck`, `undo-again` and `settle-by-hand`: what an operator at a shell sees, and ends."""

from __future__ import annotations

import json
import sys

import pytest

from settlemark import effect

TOOLS = """
from settlemark import effect

@effect("reversible", scope="room:/{room}", undo=lambda room: None, name="book_a_room")
def book(room): ...
"""


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'trips.db'}"


@pytest.fixture
def stuck(url, open_settlement):
    settlement = open_settlement(url)
    book = effect("reversible", scope="room:/{room}", undo=lambda room: 1 / 0, name="book_a_room")(lambda room: "ok")
    with pytest.raises(ValueError, match="no flight"), settlement.transaction("trip") as tx:
        tx.call(book, room="7")
        raise ValueError("no flight")
    settlement.close()
    return url


def test_what_is_stuck_is_listed_with_why_and_what_to_do_about_it(run, stuck):
    told, values = run("stuck", stuck), run("stuck", stuck, "--json")
    assert (told.exit_code, values.exit_code) == (1, 1)
    first, second, third, *todo = told.stdout.splitlines()
    assert first == "trip is stuck:"
    assert second.startswith("  book_a_room on room:/7 stands, since ")
    assert second.endswith(" (failed): its undo failed 3 times: ZeroDivisionError: division by zero")
    assert third.startswith("    key: ")
    assert len(todo) == 2
    (found,) = json.loads(values.stdout)
    assert (found["transaction"], found["attempt"], found["run"]) == ("trip", 1, "trip")
    assert [(each["tool"], each["scopes"], each["cause"]) for each in found["effects"]] == [
        ("book_a_room", ["room:/7"], "failed")
    ]


def test_show_tells_that_it_is_stuck_in_words_and_as_a_value(run, stuck):
    assert "and is stuck. 1 effect left to mend." in run("show", stuck).stdout
    assert [each["stuck"] for each in json.loads(run("show", stuck, "--json").stdout)] == [True]
    assert "aborted, stuck" in run("show", stuck, "--table").stdout


def test_what_was_tried_is_told(run, url, open_settlement):
    class Pager:
        name = "pager"

        def tell(self, notice): ...

    settlement = open_settlement(url, channels=[Pager()])
    ring = effect("opaque", scope="bell:/{room}", name="ring_a_bell")(lambda room: None)
    with pytest.raises(ValueError, match="no flight"), settlement.transaction("trip") as tx:
        tx.call(ring, room="7")
        raise ValueError("no flight")
    settlement.recover()
    told = run("stuck", url).stdout
    assert (
        "  no plan was run (ring_a_bell has no probe, so nothing could prove that it is mended); a person was told by"
        " pager\n"
    ) in told
    (found,) = json.loads(run("stuck", url, "--json").stdout)
    assert (found["remedy"]["state"], found["remedy"]["tried"], found["remedy"]["told"]) == (
        "paged",
        "refused",
        ["pager"],
    )


def test_it_is_settled_by_hand_once(run, stuck):
    settled, again = (run("settle-by-hand", "trip", stuck, "--by", "ada", "--note", "called") for _ in range(2))
    assert (settled.exit_code, settled.stdout) == (
        0,
        "trip is settled by hand, by ada: called. It stays in the record.\n",
    )
    assert (again.exit_code, "trip is not stuck" in again.stderr) == (1, True)
    nothing = run("stuck", stuck)
    assert (nothing.exit_code, nothing.stdout) == (0, "Nothing is stuck.\n")


def test_it_is_undone_once_more_where_its_tools_are_declared(run, stuck, tmp_path, monkeypatch):
    (tmp_path / "hotel_tools.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hotel_tools", raising=False)
    told = run("undo-again", "trip", stuck, "--by", "ada", "--module", "hotel_tools", "--json")
    assert (told.exit_code, [each["outcome"] for each in json.loads(told.stdout)]) == (0, ["undone"])
    assert run("stuck", stuck).stdout == "Nothing is stuck.\n"
